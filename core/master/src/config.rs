//! The configuration of one shard's master, with the defaults that follow from the size of its memory.

use ramhold_base::ShardId;
use ramhold_base::limits::READ_LEASE;
use ramhold_log::Geometry;
use ramhold_replication::ReplicationConfig;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct MasterConfig {
    pub shard: ShardId,
    pub geometry: Geometry,
    /// Memory for segments; the region handed in has this size.
    pub log_bytes: u64,
    pub index_bytes_max: u64,
    /// Memory that ordinary writes leave free.
    pub reserve_bytes: u64,
    /// The part of the reserve that removes leave free too: the memory that one cleaning pass may need.
    pub cleaning_reserve_bytes: u64,
    /// Cleaning runs while less memory than this is free above the reserve.
    pub cleaning_runway_bytes: u64,
    /// Bytes of frames that this log may take, counting one replica of each segment. Beyond them cleaning runs, and
    /// combined passes come first.
    pub disk_bytes_max: u64,
    /// Frames that this server gives to others. Beyond three quarters of as many frames for its own log, all replicas
    /// counted, cleaning runs, and combined passes come first. 0: the server gives none, and no bound follows from it.
    pub frames_max: u64,
    /// Whether segments may be compacted in memory before their replicas are cleaned too.
    pub two_level_cleaning: bool,
    pub replication: ReplicationConfig,
    /// The most answers of one stream that may wait for replication at a time.
    pub parked_count_max: usize,
    /// The most bytes of values in these answers.
    pub parked_bytes_max: usize,
    /// How fast the log is verified in the background, in bytes per second; 0: not at all.
    pub scrub_bytes_per_second: u64,
    /// The shortest time from the start of one round over the log to the start of the next.
    pub scrub_round_min: Duration,
    /// How long a grant lets this shard answer reads. `None`: for ever, for a log that stands alone and has no server.
    pub read_lease: Option<Duration>,
    /// Keys that are gathered at a time to change their stream. Each takes eight bytes of memory.
    pub gather_count_max: usize,
    /// Bytes of objects that change their stream together. They are not written to meanwhile.
    pub reclassing_stretch_bytes: u64,
    /// Index buckets that one turn of the recount looks at. The recount counts the objects of each part of a tablet
    /// that is to be cut.
    pub recount_buckets: u64,
    /// How often the master looks for leases about which nothing certain is known.
    pub lease_sweep_interval: Duration,
    /// Segments that a recovery requests at the same time, per partition.
    pub fetches_max: usize,
    /// Memory of the log that is touched ahead of need, after all memory that was ever used.
    pub touched_ahead_bytes: u64,
    /// The most memory of the tablet profiles, which tell where in large tablets the bytes are.
    pub profile_bytes_max: u64,
    /// Secret of the index, which decides the order of scans. All servers of a cluster have the same secret, and only
    /// they know it. `None`: this life of the server makes a secret of its own, and the positions of scans hold for
    /// this life only.
    pub index_secret: Option<u64>,
}

impl MasterConfig {
    /// `log_bytes` is rounded down to whole seglets.
    pub fn new(geometry: Geometry, log_bytes: u64, index_bytes_max: u64) -> MasterConfig {
        let seglet = u64::from(geometry.seglet_bytes);
        let log_bytes = log_bytes / seglet * seglet;
        let segment = u64::from(geometry.segment_bytes);
        // One pass must be able to take in at least one full segment. With three segments it pays well for its head
        // roll.
        let cleaning_reserve = (log_bytes / 64).clamp(segment + segment / 4, 3 * segment).min(log_bytes / 4);
        // Removes can go on for a segment's worth of tombstones before a pass has to pay for them.
        let reserve = (cleaning_reserve + segment).max(2 * seglet).min(log_bytes / 2);
        MasterConfig {
            shard: ShardId(0),
            geometry,
            log_bytes,
            index_bytes_max,
            reserve_bytes: reserve,
            cleaning_reserve_bytes: cleaning_reserve,
            // Twice the memory that a pass frees: writes go on while one pass works.
            cleaning_runway_bytes: (log_bytes / 128).max(2 * segment),
            disk_bytes_max: u64::from(DISK_EXPANSION) * log_bytes,
            frames_max: 0,
            two_level_cleaning: true,
            replication: ReplicationConfig::new(ShardId(0)),
            parked_count_max: 65_536,
            parked_bytes_max: 32 * 1024 * 1024,
            scrub_bytes_per_second: SCRUB_BYTES_PER_SECOND,
            scrub_round_min: Duration::from_secs(600),
            read_lease: Some(READ_LEASE),
            gather_count_max: ramhold_log::GATHER_COUNT_MAX,
            reclassing_stretch_bytes: RECLASSING_STRETCH_BYTES,
            recount_buckets: RECOUNT_BUCKETS,
            lease_sweep_interval: Duration::from_secs(30),
            fetches_max: 6,
            touched_ahead_bytes: log_bytes / 4,
            profile_bytes_max: log_bytes / 1000 * PROFILE_PER_MILLE,
            index_secret: None,
        }
    }
}

/// Index buckets that one turn of the recount looks at: some 2000 objects, each of which is read and verified.
const RECOUNT_BUCKETS: u64 = 256;
/// Bytes of one stretch: copying and replicating it takes some tens of milliseconds.
pub const RECLASSING_STRETCH_BYTES: u64 = 4 * 1024 * 1024;
/// The memory of tablet profiles, in thousandths of the log's memory.
pub const PROFILE_PER_MILLE: u64 = 6;
/// Takes half a percent of a core. A round over 64 GiB takes two and a half hours.
pub const SCRUB_BYTES_PER_SECOND: u64 = 8 * 1024 * 1024;
/// The bytes of frames that a log may take by default, as a multiple of its memory.
pub const DISK_EXPANSION: u32 = 2;
