//! A limit on the processor time of some processes: a control group of this machine.
//!
//! Needs root and the controller `cpu` of version 1 of control groups, which counts in periods: a process that has used its
//! share of a period stands still until the next one.

use crate::waiting::Failure;
use rustix::process::Pid;
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup/cpu";
/// Short, so that a process stutters and does not stop.
const PERIOD_MICROS: u64 = 20_000;
/// The least part of a period that the kernel takes, and its longest period.
const QUOTA_MICROS_MIN: u64 = 1000;
const PERIOD_MICROS_MAX: u64 = 1_000_000;

/// Removed when it is dropped; processes in it go on without a limit.
pub struct ProcessorLimit {
    dir: PathBuf,
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure(format!("{}: {error}", path.display())))
}

impl ProcessorLimit {
    pub fn new(name: &str) -> Result<ProcessorLimit, Failure> {
        let dir = Path::new(ROOT).join(format!("ramhold-{name}-{}", std::process::id()));
        fs::create_dir(&dir).map_err(|error| {
            Failure(format!("{}: {error}; this needs root and control groups", dir.display()))
        })?;
        Ok(ProcessorLimit { dir })
    }

    /// The processes may use this part of one processor, of 1,000. A small part has longer periods.
    pub fn set(&self, permille: u64) -> Result<(), Failure> {
        let (period, quota) = period_and_quota(permille);
        write(&self.dir.join("cpu.cfs_period_us"), &period.to_string())?;
        write(&self.dir.join("cpu.cfs_quota_us"), &quota.to_string())
    }

    /// A process and all that it starts from now on.
    pub fn add(&self, process: Pid) -> Result<(), Failure> {
        write(&self.dir.join("cgroup.procs"), &process.as_raw_nonzero().to_string())
    }
}

impl Drop for ProcessorLimit {
    fn drop(&mut self) {
        let processes = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
        for process in processes.lines() {
            let _ = fs::write(Path::new(ROOT).join("cgroup.procs"), process);
        }
        // Nobody is in it any more.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// In microseconds.
fn period_and_quota(permille: u64) -> (u64, u64) {
    let needed = (QUOTA_MICROS_MIN * 1000).div_ceil(permille.max(1));
    let period = needed.clamp(PERIOD_MICROS, PERIOD_MICROS_MAX);
    (period, (period * permille / 1000).max(QUOTA_MICROS_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    // I6: a part that is less than the kernel takes of a short period is not rounded up.
    #[test]
    fn a_small_part_has_longer_periods() {
        assert_eq!(period_and_quota(500), (20_000, 10_000));
        assert_eq!(period_and_quota(50), (20_000, 1000));
        assert_eq!(period_and_quota(25), (40_000, 1000));
        assert_eq!(period_and_quota(0), (1_000_000, 1000));
    }
}
