//! The state of a backup, as status, audits and tests see it.

use crate::Backup;
use crate::audit::ReplicaState;
use crate::config::Buffers;
use crate::place::place_bytes;
use crate::replica::Replica;
use ramhold_base::Instant;
use ramhold_wire::status::{BackupStatus, DiskFull};

impl Backup {
    /// The number of new replicas that this backup can take, now or when more frames are reserved.
    pub fn frames_left(&self) -> u64 {
        match () {
            () if self.has_failed() => 0,
            () if self.growth.is_short() => u64::from(self.space.frames_free()),
            () => self.space.frames_left(),
        }
    }

    /// The state of a shortage of frames, if there is one: since when it lasts, and what is left.
    pub fn full(&self, now: Instant) -> Option<DiskFull> {
        self.growth.full(now, &self.space, &self.device.config)
    }

    pub fn status(&self, now: Instant) -> BackupStatus {
        let config = &self.device.config;
        let count = |is_counted: &dyn Fn(&Replica) -> bool| {
            self.replicas.iter().filter(|it| is_counted(it)).count() as u64
        };
        BackupStatus {
            frames: u64::from(self.space.frames),
            frames_used: self.space.frames_used(),
            frames_max: u64::from(config.frames_max),
            buffers: u64::from(self.space.buffers),
            buffers_used: count(&|replica| replica.places.buffer.is_some()),
            mode: config.mode.clone(),
            unflushed_bytes: self.replicas.iter().map(|replica| u64::from(replica.unflushed_bytes())).sum(),
            cut_replicas: count(&|replica| replica.cut && !replica.is_leaving()),
            failed: self.device.disk.failure().map(str::to_owned),
            disk_bytes: u64::from(self.space.frames) * place_bytes(config.segment_bytes),
            full: self.full(now),
        }
    }

    /// Every replica held here, with or without a certificate.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaState> + '_ {
        self.replicas.iter().filter(|replica| !replica.is_leaving()).map(ReplicaState::of)
    }

    pub fn check_invariants(&self) {
        let frames_owned = self.replicas.check_invariants(&self.device);
        if self.start.is_over() {
            let away = u64::from(self.space.frames_bad) + u64::from(self.space.frames_wiping);
            let used = self.space.frames_used();
            assert_eq!(used, frames_owned + away, "every frame is free, owned, being wiped or bad");
        }
        if self.device.config.buffers == Buffers::InFrames {
            assert_eq!(self.space.buffers, 0);
        }
    }
}
