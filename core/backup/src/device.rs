//! The configuration, the identity of the directory and the disk operations, lent to the parts for one step.
//!
//! A part owns its own state. For a step it is lent a `DeviceStep`, instead of five parameters each, and by name the
//! other parts on which it acts.
//!
//! Not here: the parts. Nothing here knows them.

use crate::config::BackupConfig;
use crate::directory::Directory;
use crate::disk::Disk;
use ramhold_base::{Effects, Instant};

/// The values that all parts need, from step to step.
#[derive(Debug)]
pub(crate) struct Device {
    pub config: BackupConfig,
    pub directory: Directory,
    pub disk: Disk,
}

impl Device {
    pub fn new(config: BackupConfig) -> Device {
        Device { config, directory: Directory::default(), disk: Disk::default() }
    }

    pub fn step<'a>(&'a mut self, now: Instant, effects: &'a mut Effects) -> DeviceStep<'a> {
        let Device { config, directory, disk } = self;
        DeviceStep { now, config, directory, disk, effects }
    }
}

/// The values with which one step works.
pub(crate) struct DeviceStep<'a> {
    /// When the step began. All of the step sees this one moment.
    pub now: Instant,
    pub config: &'a BackupConfig,
    pub directory: &'a mut Directory,
    pub disk: &'a mut Disk,
    pub effects: &'a mut Effects,
}
