//! The start of a backup: reads the identity, the buffers and the replicas of a data directory, and begins to serve.
//!
//! First the superblock and the buffer id are read (superblock_file), then all heads, and the data that has to be
//! verified (scan). The replicas are made of what was found (copies), and all other places are free.
//!
//! Invariant: the backup does not serve before the identity of this life is durable and all that was found is on the
//! device.
//!
//! Protocol: docs/protocols/replication.md, "Flushing and buffers that are gone". Catalogue: D1, D6, F9.

mod copies;
mod scan;

use crate::config::BackupConfig;
use crate::device::DeviceStep;
use crate::disk::{SyncWaiter, Task};
use crate::growth::Growth;
use crate::keys::ReplicaNumber;
use crate::place::Place;
use crate::replicas::Replicas;
use crate::space::Space;
use crate::start::scan::Scan;
use crate::superblock_file::BuffersFound;
use ramhold_base::DiskFile;
use ramhold_base::planted::{Defect, planted};
use std::collections::BTreeSet;

/// Frames that a process has beyond those in use when it starts with its own log, so that the heads of the new life, and a
/// cleaning pass that frees others, find some, however often it died before.
const FRAMES_OF_START: u32 = 8;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Phase {
    #[default]
    Identity,
    Heads,
    Verifying,
    Over,
}

/// The progress of the start.
#[derive(Debug, Default)]
pub(crate) struct Start {
    phase: Phase,
    pub scan: Scan,
    is_synced: bool,
    has_lost_buffers: Option<bool>,
    /// Replicas found in buffers whose frames held nothing yet. They get frames before all others.
    homeless: Vec<ReplicaNumber>,
}

impl Start {
    /// Whether all that was found is taken over.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether the last life's buffers are gone, and it had not put everything on the device.
    pub fn has_lost_buffers(&self) -> Option<bool> {
        self.has_lost_buffers
    }

    /// Whether all that was found is also on the device.
    pub fn is_durable(&self) -> bool {
        self.is_over() && self.is_synced
    }

    pub fn on_buffers_found(&mut self, found: BuffersFound, config: &BackupConfig) {
        match found {
            BuffersFound::OfLastLife => self.has_lost_buffers = Some(false),
            BuffersFound::Foreign { are_lost } => {
                self.has_lost_buffers = Some(are_lost);
                self.scan.skip_buffers(config.buffer_count());
            }
        }
        self.phase = Phase::Heads;
    }

    /// Takes the next steps of a start.
    pub fn advance(
        &mut self,
        replicas: &mut Replicas,
        (space, growth): (&mut Space, &mut Growth),
        step: &mut DeviceStep<'_>,
    ) {
        if self.phase == Phase::Heads && self.scan.read_heads(step) {
            self.scan.plan_verification(step.directory.buffer_id);
            self.phase = Phase::Verifying;
        }
        if self.phase == Phase::Verifying && self.scan.verify(step) {
            self.phase = Phase::Over;
            space.frames = self.scan.frame_count().expect("the scan is over");
            self.adopt(replicas, step);
            self.prepare_space(replicas, (space, growth), step);
        }
    }

    /// Takes over the replicas that were found.
    fn adopt(&mut self, replicas: &mut Replicas, step: &mut DeviceStep<'_>) {
        while let Some((key, copies)) = self.scan.copies.pop_first() {
            match copies.replica(key, &mut self.scan.junk, step) {
                Some(replica) => replicas.insert_found(replica),
                None => self.scan.has_damage = true,
            }
        }
        for number in replicas.found().values().copied().collect::<Vec<_>>() {
            replicas.want_flush(step.now, number);
        }
    }

    /// Finds the free places, and reserves more.
    fn prepare_space(
        &mut self,
        replicas: &mut Replicas,
        (space, growth): (&mut Space, &mut Growth),
        step: &mut DeviceStep<'_>,
    ) {
        let (junk, bad) = (&self.scan.junk, &self.scan.bad);
        let owned: BTreeSet<u32> = replicas.iter().filter_map(|replica| replica.places.frame).collect();
        let buffered: BTreeSet<u32> = replicas.iter().filter_map(|replica| replica.places.buffer).collect();
        space.buffers = step.config.buffer_count();
        space.frames_bad = bad.iter().filter(|frame| **frame < space.frames).count() as u32;
        for frame in 0..space.frames {
            let is_taken = owned.contains(&frame) || bad.contains(&frame);
            if !is_taken && !junk.contains(&Place::Frame(frame)) {
                space.free_frame(frame);
            }
        }
        for buffer in 0..space.buffers {
            if !buffered.contains(&buffer) && !junk.contains(&Place::Buffer(buffer)) {
                space.free_buffer(buffer);
            }
        }
        // Replicas that were found in buffers need frames, even beyond the present configuration.
        let homeless = replicas.iter().filter(|it| it.places.frame.is_none() && !it.is_leaving());
        self.homeless = homeless.map(|replica| replica.number).collect();
        self.house(replicas, space);
        let missing = self.homeless.len() as u32;
        space.frames_max = step.config.frames_max.max(if missing > 0 { space.frames + missing } else { 0 });
        if step.config.is_own && !planted(Defect::QuorumStartWithoutFrames) {
            space.spare_frames(FRAMES_OF_START);
        }
        while let Some(place) = self.scan.junk.pop_first() {
            space.wipe(None, place, step);
        }
        growth.advance(space, step);
        step.disk.wait_for_sync(SyncWaiter::Start);
        let bytes = Place::Buffer(space.buffers).head_offset(step.config.segment_bytes);
        step.disk.reserve(Task::BuffersReserve, DiskFile::Buffers, bytes, step.effects);
    }

    /// Gives frames to replicas that were found without one.
    pub fn house(&mut self, replicas: &mut Replicas, space: &mut Space) {
        while let Some(number) = self.homeless.last().copied() {
            if let Some(replica) = replicas.known_mut(number).filter(|replica| !replica.is_leaving()) {
                let Some(frame) = space.take_frame() else { return };
                replica.places.frame = Some(frame);
            }
            self.homeless.pop();
        }
    }

    pub fn on_synced(&mut self) {
        self.is_synced = true;
    }
}
