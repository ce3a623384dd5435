//! The division of `--memory`, and the check that this machine has it.
//!
//! One figure covers everything that grows with the data or with the load: the log, its index, the tablet
//! profiles, the network's buffers, and for a backup its buffer slots (memory too, in tmpfs) and the divided
//! segments of a recovery. The program itself and the thread stacks, a few megabytes, are not included.
//!
//! Not here: taking the memory (log, backup), the behaviour when a part is full. Catalogue: C2, C7, D1.

use crate::size::bytes_text;
use ramhold_base::limits::{SEGLET_BYTES, SEGMENT_BYTES};
use ramhold_master::PROFILE_PER_MILLE;

/// With less, the log would not have room for a handful of segments.
pub const MEMORY_BYTES_MIN: u64 = 64 << 20;
/// One place of the buffer file: a page of certificates and a segment. The file has one page more, with its id.
pub const PLACE_BYTES: u64 = 4096 + SEGMENT_BYTES as u64;
/// A small cluster after a crash of everything: on each server the open replicas of some earlier lives, of the present
/// heads, and of what is being recovered. With fewer slots opens would be refused, and recoveries wait for each other.
const BUFFER_COUNT_MIN: u64 = 12;
/// More slots only help when the device is far behind, and then memory for the log is worth more.
const BUFFER_COUNT_MAX: u64 = 32;

/// A brick has two streams, each with a head and the next one, and the segments of a cleaning pass. More slots help when
/// the device is behind.
const BRICK_BUFFERS_MIN: u64 = 6;
const BRICK_BUFFERS_MAX: u64 = 16;
/// With less, a brick's log would not have room for its heads.
pub const BRICK_MEMORY_MIN: u64 = 128 << 20;

/// Which roles share the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Roles {
    pub master: bool,
    pub backup: bool,
}

/// The parts of `--memory`, in bytes; together exactly `total_bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryPlan {
    pub total_bytes: u64,
    pub log_bytes: u64,
    pub index_bytes: u64,
    /// Where in large tablets their bytes lie, for those who recover them.
    pub profile_bytes: u64,
    /// Slots of the buffer file; 0: writes go to the frames' page cache.
    pub buffer_count: u32,
    pub buffer_bytes: u64,
    /// Divided segments of dead servers, for their recovery.
    pub recovery_cache_bytes: u64,
    /// Frames on their way in and out. An estimate of what the load takes: connections are bounded one by one.
    pub network_bytes: u64,
}

impl MemoryPlan {
    /// `buffers_wanted`: bytes of the buffer file, if the operator says so.
    pub fn new(total_bytes: u64, roles: Roles, buffers_wanted: Option<u64>) -> Result<MemoryPlan, String> {
        if total_bytes < MEMORY_BYTES_MIN {
            return Err(format!(
                "--memory {} is too little: a server needs at least {}",
                bytes_text(total_bytes),
                bytes_text(MEMORY_BYTES_MIN)
            ));
        }
        let network_bytes = (total_bytes / 32).clamp(4 << 20, 64 << 20);
        let mut left = total_bytes - network_bytes;
        let (mut buffer_count, mut recovery_cache_bytes) = (0, 0);
        if roles.backup {
            recovery_cache_bytes = (total_bytes / 16).clamp(u64::from(SEGMENT_BYTES), 256 << 20);
            left -= recovery_cache_bytes;
            let affordable = (total_bytes / 5 / PLACE_BYTES).min(BUFFER_COUNT_MAX);
            buffer_count = match buffers_wanted {
                Some(bytes) => bytes.saturating_sub(4096) / PLACE_BYTES,
                None if affordable < BUFFER_COUNT_MIN => 0,
                None => affordable,
            };
            if buffer_count * PLACE_BYTES > total_bytes / 2 {
                return Err(format!(
                    "--buffers {} is too much: buffers may take at most half of --memory {}",
                    bytes_text(buffer_count * PLACE_BYTES),
                    bytes_text(total_bytes)
                ));
            }
        }
        let buffer_bytes = if buffer_count == 0 { 0 } else { 4096 + buffer_count * PLACE_BYTES };
        left -= buffer_bytes;
        let (log_bytes, index_bytes, profile_bytes) = if roles.master {
            // The index gets 12 %: an object with a value of 100 bytes takes about 130 bytes of log and 12 of
            // index.
            let index_bytes = total_bytes / 100 * 12;
            let seglet = u64::from(SEGLET_BYTES);
            let log_bytes = (left - index_bytes) / (1000 + PROFILE_PER_MILLE) * 1000 / seglet * seglet;
            let profile_bytes = log_bytes / 1000 * PROFILE_PER_MILLE;
            (log_bytes, left - log_bytes - profile_bytes, profile_bytes)
        } else {
            // Memory that no role uses is not taken.
            (0, 0, 0)
        };
        let total_bytes =
            network_bytes + recovery_cache_bytes + buffer_bytes + log_bytes + index_bytes + profile_bytes;
        Ok(MemoryPlan {
            total_bytes,
            log_bytes,
            index_bytes,
            profile_bytes,
            buffer_count: u32::try_from(buffer_count).expect("bounded by the maximum above"),
            buffer_bytes,
            recovery_cache_bytes,
            network_bytes,
        })
    }

    /// The division for a brick, which always has buffers: whether they are gone tells it that the power was.
    pub fn for_brick(total_bytes: u64) -> Result<MemoryPlan, String> {
        if total_bytes < BRICK_MEMORY_MIN {
            return Err(format!(
                "--memory {} is too little: a brick needs at least {}",
                bytes_text(total_bytes),
                bytes_text(BRICK_MEMORY_MIN)
            ));
        }
        let network_bytes = (total_bytes / 32).clamp(4 << 20, 64 << 20);
        let buffer_count = (total_bytes / 5 / PLACE_BYTES).clamp(BRICK_BUFFERS_MIN, BRICK_BUFFERS_MAX);
        let buffer_bytes = 4096 + buffer_count * PLACE_BYTES;
        let recovery_cache_bytes = u64::from(SEGMENT_BYTES);
        let left = total_bytes - network_bytes - buffer_bytes - recovery_cache_bytes;
        let seglet = u64::from(SEGLET_BYTES);
        let log_bytes = (left - total_bytes / 100 * 12) / seglet * seglet;
        Ok(MemoryPlan {
            total_bytes,
            log_bytes,
            index_bytes: left - log_bytes,
            profile_bytes: 0,
            buffer_count: u32::try_from(buffer_count).expect("bounded by the maximum above"),
            buffer_bytes,
            recovery_cache_bytes,
            network_bytes,
        })
    }

    /// The parts, for the banner.
    pub fn text(&self) -> String {
        format!(
            "{} = log {} + index {} + profiles {} + buffers {} ({} slots) + recovery {} + network {}",
            bytes_text(self.total_bytes),
            bytes_text(self.log_bytes),
            bytes_text(self.index_bytes),
            bytes_text(self.profile_bytes),
            bytes_text(self.buffer_bytes),
            self.buffer_count,
            bytes_text(self.recovery_cache_bytes),
            bytes_text(self.network_bytes)
        )
    }
}

/// Refuses what the machine does not have. `held_bytes`: what an earlier life already holds of it, in its buffer file.
pub fn check_available(wanted_bytes: u64, held_bytes: u64, available: Option<u64>) -> Result<(), String> {
    let needed = wanted_bytes.saturating_sub(held_bytes);
    match available {
        // The kernel does not say how much is available, so nothing can be checked. The log takes its memory
        // piece by piece.
        None => Ok(()),
        Some(available) if needed <= available => Ok(()),
        Some(available) => Err(format!(
            "{} of memory are needed, but this machine (or its control group) has {} available; \
             give less --memory, or free memory",
            bytes_text(needed),
            bytes_text(available)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Roles = Roles { master: true, backup: true };

    #[test]
    fn the_parts_make_the_whole() {
        for mebibytes in [64, 65, 100, 256, 512, 1000, 4096, 1 << 20] {
            let total = mebibytes << 20;
            let plan = MemoryPlan::new(total, BOTH, None).unwrap();
            assert_eq!(plan.total_bytes, total);
            assert!(plan.log_bytes * 2 > total, "more than half is for data: {plan:?}");
            assert!(plan.log_bytes.is_multiple_of(u64::from(SEGLET_BYTES)));
            assert!(plan.index_bytes >= total / 100 * 12);
            assert!(plan.profile_bytes > 0 && plan.profile_bytes <= plan.log_bytes / 1000 * 6);
            assert!(plan.recovery_cache_bytes >= u64::from(SEGMENT_BYTES));
        }
    }

    #[test]
    fn half_a_gibibyte_gives_a_dozen_buffers() {
        assert_eq!(MemoryPlan::new(512 << 20, BOTH, None).unwrap().buffer_count, 12);
        assert_eq!(MemoryPlan::new(256 << 20, BOTH, None).unwrap().buffer_count, 0);
        assert_eq!(MemoryPlan::new(64 << 30, BOTH, None).unwrap().buffer_count, 32);
    }

    // I6
    #[test]
    fn a_brick_always_has_buffers() {
        for mebibytes in [128, 129, 512, 1 << 20] {
            let plan = MemoryPlan::for_brick(mebibytes << 20).unwrap();
            let parts = plan.log_bytes + plan.index_bytes + plan.buffer_bytes + plan.recovery_cache_bytes;
            assert_eq!(parts + plan.network_bytes, mebibytes << 20);
            assert!(plan.buffer_count >= 6 && plan.log_bytes >= 6 * u64::from(SEGMENT_BYTES), "{plan:?}");
        }
        assert!(MemoryPlan::for_brick(127 << 20).unwrap_err().contains("at least 128.0 MiB"));
    }

    #[test]
    fn as_many_buffers_as_the_operator_says() {
        let plan = MemoryPlan::new(1 << 30, BOTH, Some(400 << 20)).unwrap();
        assert_eq!((plan.buffer_count, plan.total_bytes), (49, 1 << 30));
        assert_eq!(MemoryPlan::new(1 << 30, BOTH, Some(0)).unwrap().buffer_count, 0);
        assert!(MemoryPlan::new(1 << 30, BOTH, Some(600 << 20)).unwrap_err().contains("half of --memory"));
    }

    #[test]
    fn a_role_that_is_not_played_takes_nothing() {
        let backup = MemoryPlan::new(512 << 20, Roles { master: false, backup: true }, None).unwrap();
        assert_eq!((backup.log_bytes, backup.index_bytes), (0, 0));
        assert!(backup.total_bytes < 512 << 20);
        let master = MemoryPlan::new(512 << 20, Roles { master: true, backup: false }, None).unwrap();
        assert_eq!((master.buffer_count, master.recovery_cache_bytes), (0, 0));
    }

    #[test]
    fn too_little_is_refused_with_the_figure() {
        let refused = MemoryPlan::new((64 << 20) - 1, BOTH, None).unwrap_err();
        assert!(refused.contains("at least 64.0 MiB"), "{refused}");
        let refused = check_available(4 << 30, 0, Some(1 << 30)).unwrap_err();
        assert!(refused.contains("4.0 GiB") && refused.contains("1.0 GiB"), "{refused}");
        assert_eq!(check_available(4 << 30, 3 << 30, Some(1 << 30)), Ok(()));
        assert_eq!(check_available(4 << 30, 0, None), Ok(()));
    }
}
