//! The start of a backup: reads the identity, the buffers and the replicas of a data directory, and begins to serve.
//!
//! The superblock is read first, because a server needs its identity to enlist. Then the buffer id tells whether the
//! buffers are those of the last life. Then all heads are read, and the data of every replica whose head alone does not
//! prove it.
//!
//! A replica is *whole* if it is closed and its bytes match. An open replica is whole if the certificate found is
//! certainly the newest that was ever written to it:
//! - it is in an intact buffer, or
//! - it is in a frame, was written while the present buffers existed, and was not followed by one in a buffer, or
//! - the replica is *synced*, and it is the newest in the frame, because nothing beyond it was ever acknowledged.
//!
//! All other replicas are *cut*. A replica that was cut in an earlier life stays cut.
//!
//! Invariants:
//! - the backup does not serve before the identity of this life is durable and all that was found is on the device;
//! - if the buffers are gone, their id is used again only if the last life ended with everything on the device;
//! - one copy of the superblock is on the device before the other is written, also when a process died between them.
//!
//! Protocol: docs/protocols/replication.md, "Flushing and buffers that are gone". Catalogue: D1, D6, F9.

use crate::Backup;
use crate::certificate::{Head, Ring, Slot};
use crate::disk::{SyncWaiter, Task};
use crate::keys::{ReplicaKey, ReplicaNumber};
use crate::place::{HEAD_BYTES, Place};
use crate::replica::{Held, Replica};
use crate::superblock::{COPY_BYTES, Found, Superblock, decode_buffer_id, encode_buffer_id};
use ramhold_base::checksum::crc;
use ramhold_base::{ClusterId, DirectoryId, DiskFile, Effects, Instant, Level, Mark, ServerId};
use std::collections::{BTreeMap, BTreeSet};

/// Heads read at a time.
const HEAD_READ_COUNT_MAX: u32 = 16;
/// Segments that are read at a time to verify them.
const VERIFY_READ_COUNT_MAX: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Phase {
    #[default]
    Identity,
    Heads,
    Verifying,
    Over,
}

/// The scan of one file, which reads its heads one after the other to the end.
#[derive(Debug, Default)]
struct Scan {
    next: u32,
    /// The first place that is not completely within the file.
    end: Option<u32>,
}

/// One opening of one segment, as found in a buffer, in a frame, or in both.
#[derive(Debug, Default)]
struct Copies {
    buffer: Option<(Place, Head)>,
    frame: Option<(Place, Head)>,
    buffer_candidate: Option<Candidate>,
    frame_candidate: Option<Candidate>,
}

/// The newest valid certificate of a place. Its data was verified if that was necessary.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    place: Place,
    slot_index: u8,
    slot: Slot,
    is_whole: bool,
}

type CopiesKey = (ReplicaKey, u64);

/// The progress of the start.
#[derive(Debug, Default)]
pub(crate) struct Start {
    phase: Phase,
    frames: Scan,
    buffers: Scan,
    reads: u32,
    /// The buffers are those of the last life.
    has_buffers: bool,
    is_buffer_file_ready: bool,
    is_synced: bool,
    /// Replicas found in buffers whose frames held nothing yet. They get frames before all others.
    homeless: Vec<ReplicaNumber>,
    copies: BTreeMap<CopiesKey, Copies>,
    to_verify: Vec<(Place, CopiesKey)>,
    verifying: BTreeMap<Place, CopiesKey>,
    /// Places to be wiped, and frames that must not be touched.
    junk: BTreeSet<Place>,
    bad: BTreeSet<u32>,
}

impl Backup {
    /// Begins the start: reads the identity of this directory, then its replicas.
    pub fn start(&mut self, now: Instant, effects: &mut Effects) {
        self.began = now;
        self.disk.read(Task::SuperblockRead, DiskFile::Superblock, 0, 2 * COPY_BYTES as u32, effects);
    }

    pub(crate) fn on_superblock_read(&mut self, bytes: &[u8], effects: &mut Effects) {
        match Superblock::find(bytes) {
            Found::Unusable(reason) => self.refuse_to_start(reason),
            Found::Newest(found) if found.segment_bytes != self.config.segment_bytes => {
                let (theirs, ours) = (found.segment_bytes, self.config.segment_bytes);
                self.refuse_to_start(format!(
                    "the data directory was made for segments of {theirs} bytes, not {ours}"
                ));
            }
            Found::Newest(found) => {
                self.superblock = Some(found);
                self.disk.sync(Task::SuperblockFoundSync, DiskFile::Superblock, effects);
            }
            Found::New => {
                let directory = DirectoryId(self.rng.id());
                self.write_superblock(
                    Superblock {
                        sequence: 1,
                        directory,
                        cluster: ClusterId::NONE,
                        server: ServerId::NONE,
                        buffer_id: 0,
                        segment_bytes: self.config.segment_bytes,
                        clean: false,
                    },
                    effects,
                );
                self.read_buffer_id(effects);
            }
        }
    }

    fn write_superblock(&mut self, superblock: Superblock, effects: &mut Effects) {
        assert!(self.superblock_writing.is_none());
        self.superblock_writing = Some(superblock);
        let bytes = superblock.encode();
        self.disk.write(Task::SuperblockWrite, DiskFile::Superblock, superblock.offset(), &bytes, effects);
    }

    pub(crate) fn on_superblock_written(&mut self, effects: &mut Effects) {
        effects.mark(Mark::BackupSuperblockWritten);
        self.disk.sync(Task::SuperblockSync, DiskFile::Superblock, effects);
    }

    pub(crate) fn on_superblock_durable(&mut self) {
        let written = self.superblock_writing.take().expect("this sync was for a superblock");
        self.superblock = Some(written);
        // Sequences rise from life to life, even above those of wiped slots that may come back.
        self.sequence = self.sequence.max(written.server.raw().min(u64::from(u32::MAX)) << 32);
    }

    /// Writes the wanted superblock as soon as the buffer file that it names is ready.
    pub(crate) fn advance_superblock(&mut self, effects: &mut Effects) {
        if self.superblock_writing.is_none()
            && self.start.is_buffer_file_ready
            && let Some(before) = self.superblock
            && let Some(wanted) = self.superblock_wanted.take()
        {
            let (sequence, buffer_id) = (before.sequence + 1, self.buffer_id);
            self.write_superblock(Superblock { sequence, buffer_id, ..wanted }, effects);
        }
        let is_of_this_life =
            self.is_enlisted && self.superblock_wanted.is_none() && self.superblock_writing.is_none();
        let is_ready = self.is_scanned && self.start.is_synced && !self.growth.is_under_way();
        if !self.is_serving && is_of_this_life && is_ready {
            self.is_serving = true;
            self.is_collection_due = true;
        }
    }

    pub(crate) fn read_buffer_id(&mut self, effects: &mut Effects) {
        self.disk.read(Task::BufferIdRead, DiskFile::Buffers, 0, HEAD_BYTES, effects);
    }

    pub(crate) fn on_buffer_id_read(&mut self, bytes: &[u8], effects: &mut Effects) {
        let known = self.superblock.map_or(0, |superblock| superblock.buffer_id);
        let is_clean = self.superblock.is_some_and(|superblock| superblock.clean);
        self.start.has_buffers = known != 0 && decode_buffer_id(bytes) == Some(known);
        self.buffer_id =
            if self.start.has_buffers || (is_clean && known != 0) { known } else { self.rng.id() };
        if known != 0 && self.buffer_id != known {
            effects.report(
                Level::Warn,
                "the buffers of the last life are gone: replicas not on the device are cut",
            );
        }
        if !self.start.has_buffers {
            // The contents of the file are not from this directory's last life.
            self.start.buffers.end = Some(0);
            self.start.junk.extend((0..self.config.buffer_count()).map(Place::Buffer));
        }
        self.start.phase = Phase::Heads;
    }

    /// Takes the next steps of a start.
    pub(crate) fn advance_start(&mut self, now: Instant, effects: &mut Effects) {
        if self.start.phase == Phase::Heads {
            self.read_heads(effects);
            let is_over =
                self.start.frames.end.is_some() && self.start.buffers.end.is_some() && self.start.reads == 0;
            if is_over {
                self.plan_verification();
                self.start.phase = Phase::Verifying;
            }
        }
        if self.start.phase == Phase::Verifying {
            self.read_to_verify(effects);
            if self.start.to_verify.is_empty() && self.start.verifying.is_empty() {
                self.start.phase = Phase::Over;
                self.adopt(now, effects);
                self.prepare_space(now, effects);
            }
        }
    }

    fn read_heads(&mut self, effects: &mut Effects) {
        let segment_bytes = self.config.segment_bytes;
        for kind in [Place::Buffer, Place::Frame] {
            while self.start.reads < HEAD_READ_COUNT_MAX {
                let scan = match kind(0) {
                    Place::Frame(_) => &mut self.start.frames,
                    Place::Buffer(_) => &mut self.start.buffers,
                };
                if scan.end.is_some() {
                    break;
                }
                let place = kind(scan.next);
                scan.next += 1;
                self.start.reads += 1;
                let offset = place.head_offset(segment_bytes);
                self.disk.read(Task::HeadRead(place), place.file(), offset, HEAD_BYTES, effects);
            }
        }
    }

    /// `None`: the read failed.
    pub(crate) fn on_head_read(&mut self, place: Place, bytes: Option<&[u8]>, effects: &mut Effects) {
        self.start.reads -= 1;
        let (scan, index) = match place {
            Place::Frame(index) => (&mut self.start.frames, index),
            Place::Buffer(index) => (&mut self.start.buffers, index),
        };
        if bytes.is_some_and(|bytes| bytes.len() < HEAD_BYTES as usize) {
            scan.end = Some(scan.end.map_or(index, |end| end.min(index)));
            return;
        }
        let Some(bytes) = bytes else {
            effects.report(Level::Warn, format!("{place:?} cannot be read and is left alone"));
            self.set_aside(place);
            return;
        };
        let mut head = Head::parse(bytes, place, self.config.segment_bytes);
        if matches!(place, Place::Buffer(_)) {
            let id = self.buffer_id;
            head.slots.retain(|(_, slot)| slot.buffer_id == id);
        }
        self.sequence = head.slots.iter().map(|(_, slot)| slot.sequence).fold(self.sequence, u64::max);
        let Some((_, newest)) = head.slots.first().copied() else {
            if head.damaged {
                effects
                    .report(Level::Warn, format!("the head of {place:?} is damaged: what it held is lost"));
                self.start.junk.insert(place);
            }
            return;
        };
        if self.superblock.is_some_and(|superblock| superblock.cluster != newest.cluster) {
            effects.report(
                Level::Error,
                format!("{place:?} holds a replica of another cluster, {}", newest.cluster),
            );
            self.set_aside(place);
            return;
        }
        let copies = self.start.copies.entry((newest.key, newest.incarnation)).or_default();
        let side = match place {
            Place::Frame(_) => &mut copies.frame,
            Place::Buffer(_) => &mut copies.buffer,
        };
        if side.is_some() {
            self.set_aside(place);
        } else {
            *side = Some((place, head));
        }
    }

    /// Excludes a place from use without wiping it.
    fn set_aside(&mut self, place: Place) {
        if let Place::Frame(frame) = place {
            self.start.bad.insert(frame);
        }
    }

    fn plan_verification(&mut self) {
        let id = self.buffer_id;
        for (key, copies) in &mut self.start.copies {
            match (&copies.buffer, &copies.frame) {
                (Some((place, _)), _) => self.start.to_verify.push((*place, *key)),
                (None, Some((place, head))) => {
                    let (slot_index, slot) = head.slots[0];
                    // The replica was closed while the present buffers existed: the certificate was written after its
                    // data, and there was no loss of power since.
                    if slot.closed && slot.buffer_id == id && !slot.cut {
                        copies.frame_candidate =
                            Some(Candidate { place: *place, slot_index, slot, is_whole: true });
                    } else {
                        self.start.to_verify.push((*place, *key));
                    }
                }
                (None, None) => unreachable!("copies were found somewhere"),
            }
        }
        self.start.to_verify.reverse();
    }

    fn read_to_verify(&mut self, effects: &mut Effects) {
        while (self.start.verifying.len() as u32) < VERIFY_READ_COUNT_MAX {
            let Some((place, key)) = self.start.to_verify.pop() else { return };
            let copies = &self.start.copies[&key];
            let head = match place {
                Place::Frame(_) => &copies.frame,
                Place::Buffer(_) => &copies.buffer,
            };
            let (_, head) = head.as_ref().expect("only what was found is verified");
            let bytes = head.slots.iter().map(|(_, slot)| slot.certificate.length).max().unwrap_or(0);
            self.start.verifying.insert(place, key);
            let offset = place.data_offset(self.config.segment_bytes);
            self.disk.read(Task::VerifyRead(place), place.file(), offset, bytes, effects);
        }
    }

    /// `None`: the read failed.
    pub(crate) fn on_verify_read(&mut self, place: Place, bytes: Option<&[u8]>) {
        let key = self.start.verifying.remove(&place).expect("this place was being verified");
        let id = self.buffer_id;
        let copies = self.start.copies.get_mut(&key).expect("only what was found is verified");
        match place {
            Place::Frame(_) => {
                let (_, head) = copies.frame.as_ref().expect("only what was found is verified");
                copies.frame_candidate = candidate(place, head, bytes, id);
            }
            Place::Buffer(_) => {
                let (_, head) = copies.buffer.as_ref().expect("only what was found is verified");
                copies.buffer_candidate = candidate(place, head, bytes, id);
                let is_whole = copies.buffer_candidate.is_some_and(|candidate| candidate.is_whole);
                if let Some((frame, _)) = copies.frame.as_ref().filter(|_| !is_whole) {
                    self.start.to_verify.push((*frame, key));
                }
            }
        }
    }

    /// Takes over the replicas that were found. If one segment was opened several times, the best opening is taken.
    fn adopt(&mut self, now: Instant, effects: &mut Effects) {
        self.space.frames = self.start.frames.end.expect("the scan is over");
        for ((key, incarnation), copies) in std::mem::take(&mut self.start.copies) {
            let Some(mut replica) = self.replica_of(key, incarnation, copies, effects) else { continue };
            replica.found = true;
            let number = self.next_number();
            let rank = |r: &Replica| (!r.cut && !r.corrupt, r.stored.epoch, r.incarnation);
            let best = self.found.get(&key).is_none_or(|other| rank(&self.replicas[other]) < rank(&replica));
            self.replicas.insert(number, replica);
            if !best {
                self.found_second(number);
            } else if let Some(other) = self.found.insert(key, number) {
                self.found_second(other);
            }
        }
        let numbers: Vec<_> = self.found.values().copied().collect();
        self.is_scanned = true;
        numbers.into_iter().for_each(|number| self.want_flush(now, number));
    }

    fn found_second(&mut self, number: ReplicaNumber) {
        let replica = self.replicas.get_mut(&number).expect("it was just found");
        replica.freeing = true;
        self.settling.insert(number);
    }

    fn replica_of(
        &mut self,
        key: ReplicaKey,
        incarnation: u64,
        copies: Copies,
        effects: &mut Effects,
    ) -> Option<Replica> {
        let both = [copies.buffer_candidate, copies.frame_candidate];
        let mut candidates = both.into_iter().flatten();
        let whole = candidates.clone().find(|candidate| candidate.is_whole);
        let best = whole.or_else(|| {
            let first = candidates.next()?;
            Some(candidates.fold(first, |best, other| {
                let is_longer = other.slot.certificate.length > best.slot.certificate.length;
                if is_longer { other } else { best }
            }))
        });
        let Some(best) = best else {
            let places = [&copies.buffer, &copies.frame].into_iter().flatten().map(|(place, _)| *place);
            self.start.junk.extend(places);
            let heads = [copies.buffer, copies.frame].into_iter().flatten();
            let is_recent =
                heads.map(|(_, head)| head.slots[0].1).any(|slot| slot.buffer_id == self.buffer_id);
            let level = if is_recent { Level::Error } else { Level::Warn };
            effects.report(
                level,
                format!(
                    "no certificate of the replica of {} {} {} matches its bytes",
                    key.log, key.stream, key.segment
                ),
            );
            return None;
        };
        let frame_of = |place: Place| if let Place::Frame(frame) = place { Some(frame) } else { None };
        let frame = copies.frame.as_ref().and_then(|(place, _)| frame_of(*place));
        let mut replica = Replica::new(key, incarnation, None, frame);
        let slot = best.slot;
        let held = Held {
            length: slot.certificate.length,
            certificate: Some(slot.certificate),
            epoch: slot.epoch,
            closed: slot.closed,
            primary: slot.primary,
        };
        replica.side = slot.side;
        replica.synced = slot.synced;
        replica.accepted = held;
        replica.stored = held;
        replica.crc = slot.certificate.crc;
        replica.cut = !best.is_whole;
        let ring = Ring { newest: Some(best.slot_index), durable: Some(best.slot_index), syncing: None };
        replica.ring = ring;
        match best.place {
            Place::Buffer(buffer) => {
                replica.buffer = Some(buffer);
                let newest = copies.frame.as_ref().map(|(_, head)| head.slots[0].0);
                replica.frame_ring = Ring { newest, durable: newest, syncing: None };
            }
            Place::Frame(_) => {
                replica.flushed = held;
                replica.flushed_for_good = true;
                self.start.junk.extend(copies.buffer.map(|(place, _)| place));
            }
        }
        Some(replica)
    }

    /// Finds the free places, and reserves more.
    fn prepare_space(&mut self, now: Instant, effects: &mut Effects) {
        let owned: BTreeSet<u32> = self.replicas.values().filter_map(|replica| replica.frame).collect();
        let buffered: BTreeSet<u32> = self.replicas.values().filter_map(|replica| replica.buffer).collect();
        let homeless =
            self.replicas.iter().filter(|(_, replica)| replica.frame.is_none() && !replica.freeing);
        self.start.homeless = homeless.map(|(number, _)| *number).collect();
        self.space.buffers = self.config.buffer_count();
        self.space.frames_bad =
            self.start.bad.iter().filter(|frame| **frame < self.space.frames).count() as u32;
        let junk = std::mem::take(&mut self.start.junk);
        for frame in 0..self.space.frames {
            let is_taken = owned.contains(&frame) || self.start.bad.contains(&frame);
            if !is_taken && !junk.contains(&Place::Frame(frame)) {
                self.space.free_frame(frame);
            }
        }
        for buffer in 0..self.space.buffers {
            if !buffered.contains(&buffer) && !junk.contains(&Place::Buffer(buffer)) {
                self.space.free_buffer(buffer);
            }
        }
        // Replicas that were found in buffers need frames, even beyond the present configuration.
        self.house();
        let missing = self.start.homeless.len() as u32;
        self.space.frames_max =
            self.config.frames_max.max(if missing > 0 { self.space.frames + missing } else { 0 });
        junk.into_iter().for_each(|place| self.wipe(None, place, effects));
        self.grow(now, effects);
        self.disk.wait_for_sync(SyncWaiter::Start);
        let bytes = Place::Buffer(self.space.buffers).head_offset(self.config.segment_bytes);
        self.disk.reserve(Task::BuffersReserve, DiskFile::Buffers, bytes, effects);
    }

    /// Gives frames to replicas that were found without one.
    pub(crate) fn house(&mut self) {
        while let Some(number) = self.start.homeless.last().copied() {
            if let Some(replica) = self.replicas.get_mut(&number).filter(|replica| !replica.freeing) {
                let Some(frame) = self.space.take_frame() else { return };
                replica.frame = Some(frame);
            }
            self.start.homeless.pop();
        }
    }

    pub(crate) fn on_buffers_reserved(&mut self, effects: &mut Effects) {
        let bytes = encode_buffer_id(self.buffer_id);
        self.disk.write(Task::BufferIdWrite, DiskFile::Buffers, 0, &bytes, effects);
    }

    pub(crate) fn on_buffer_id_written(&mut self) {
        self.start.is_buffer_file_ready = true;
    }

    pub(crate) fn on_start_synced(&mut self) {
        self.start.is_synced = true;
    }
}

/// The newest slot of a head whose certificate matches the bytes.
fn candidate(place: Place, head: &Head, bytes: Option<&[u8]>, buffer_id: u64) -> Option<Candidate> {
    let bytes = bytes?;
    let matches = |slot: &Slot| {
        let covered = bytes.get(..slot.certificate.length as usize);
        covered.is_some_and(|covered| crc(covered) == slot.certificate.crc)
    };
    let at = head.slots.iter().position(|(_, slot)| matches(slot))?;
    let (slot_index, slot) = head.slots[at];
    let is_newest = at == 0 && !head.damaged;
    let is_last_word = match place {
        Place::Buffer(_) => true,
        Place::Frame(_) => slot.synced || (!slot.interim && slot.buffer_id == buffer_id),
    };
    let is_whole = !slot.cut && (slot.closed || (is_newest && is_last_word));
    Some(Candidate { place, slot_index, slot, is_whole })
}
