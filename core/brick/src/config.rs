//! The configuration of a brick.

use crate::load::RestartLoad;
use ramhold_log::Geometry;
use ramhold_wire::control::Address;
use std::time::Duration;

/// More bytes that wait would only wait longer.
const QUEUE_BYTES_MAX: u64 = 256 * 1024 * 1024;

#[derive(Clone, Debug)]
pub struct BrickConfig {
    /// Where siblings and sessions reach this brick.
    pub address: Address,
    /// The port of the process that restarts this brick, at the host of `address`; siblings are told.
    pub supervisor: Option<u16>,
    /// Statistics of 17 that make a sibling anomalous, so that this brick orders its restart. `None`: it orders none for that.
    pub restart_threshold: Option<usize>,
    /// A number of the place of the data directory on its device; 0: not known. A directory that has another number than at
    /// its last start was copied, or restored from a copy.
    pub place: u64,
    pub geometry: Geometry,
    pub log_bytes: u64,
    pub index_bytes_max: u64,
    /// See `ramhold_log::LogConfig`.
    pub reserve_bytes: u64,
    pub cleaning_reserve_bytes: u64,
    pub profile_bytes_max: u64,
    /// Cleaning runs while less memory than this is free above the reserve.
    pub cleaning_runway_bytes: u64,
    /// Bytes of frames that the log may take.
    pub disk_bytes_max: u64,
    /// How fast the log is verified in the background; 0: not at all.
    pub scrub_bytes_per_second: u64,
    pub scrub_round_min: Duration,
    pub touched_ahead_bytes: u64,
    /// The most superseded stamps that are remembered. Each takes some 50 bytes.
    pub applied_count_max: usize,
    /// The most bytes of questions that wait, of keys and values: gets, puts and stamps have shares of it.
    pub queue_bytes_max: u64,
    pub restart_load: RestartLoad,
}

impl BrickConfig {
    /// `log_bytes` is rounded down to whole seglets.
    pub fn new(address: Address, geometry: Geometry, log_bytes: u64, index_bytes_max: u64) -> BrickConfig {
        let (seglet, segment) = (u64::from(geometry.seglet_bytes), u64::from(geometry.segment_bytes));
        let log_bytes = log_bytes / seglet * seglet;
        let cleaning_reserve_bytes =
            (log_bytes / 64).clamp(segment + segment / 4, 3 * segment).min(log_bytes / 4);
        BrickConfig {
            address,
            supervisor: None,
            restart_threshold: Some(ramhold_detector::anomaly::THRESHOLD),
            place: 0,
            geometry,
            log_bytes,
            index_bytes_max,
            reserve_bytes: (cleaning_reserve_bytes + segment).max(2 * seglet).min(log_bytes / 2),
            cleaning_reserve_bytes,
            profile_bytes_max: log_bytes / 1000 * 6,
            cleaning_runway_bytes: (log_bytes / 128).max(2 * segment),
            disk_bytes_max: log_bytes + 8 * segment,
            scrub_bytes_per_second: 8 * 1024 * 1024,
            scrub_round_min: Duration::from_secs(600),
            touched_ahead_bytes: log_bytes / 4,
            applied_count_max: 1_000_000,
            queue_bytes_max: (log_bytes / 16).min(QUEUE_BYTES_MAX),
            restart_load: RestartLoad::default(),
        }
    }
}
