//! Reads all heads of the frame file and of the buffer file at a start, and verifies the data of every replica whose
//! head alone does not prove it.
//!
//! A file is read head by head to its end. The data of a frame is verified only if its buffer does not hold the whole
//! replica.
//!
//! Not here: the replica that is made of the copies (copies), the places that stay free (start). Catalogue: D1, F9.

use crate::certificate::Head;
use crate::device::DeviceStep;
use crate::disk::Task;
use crate::place::{HEAD_BYTES, Place};
use crate::start::copies::{Candidate, Copies, CopiesKey, candidate};
use ramhold_base::Level;
use std::collections::{BTreeMap, BTreeSet};

/// Heads read at a time.
const HEAD_READ_COUNT_MAX: u32 = 16;
/// Segments that are read at a time to verify them.
const VERIFY_READ_COUNT_MAX: u32 = 2;

/// The scan of one file, which reads its heads one after the other to the end.
#[derive(Debug, Default)]
struct FileScan {
    next: u32,
    /// The first place that is not completely within the file.
    end: Option<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Scan {
    frames: FileScan,
    buffers: FileScan,
    reads: u32,
    pub copies: BTreeMap<CopiesKey, Copies>,
    to_verify: Vec<(Place, CopiesKey)>,
    verifying: BTreeMap<Place, CopiesKey>,
    /// Places to be wiped.
    pub junk: BTreeSet<Place>,
    /// A head could not be read, or no certificate matched its bytes.
    pub has_damage: bool,
    /// Frames that must not be touched.
    pub bad: BTreeSet<u32>,
}

impl Scan {
    /// Leaves out the buffers, because their contents are not from this directory's last life.
    pub fn skip_buffers(&mut self, buffer_count: u32) {
        self.buffers.end = Some(0);
        self.junk.extend((0..buffer_count).map(Place::Buffer));
    }

    /// The number of frames that the file has. It is known when all heads are read.
    pub fn frame_count(&self) -> Option<u32> {
        self.frames.end
    }

    /// Reads the next heads. Returns whether all heads are read.
    pub fn read_heads(&mut self, step: &mut DeviceStep<'_>) -> bool {
        let segment_bytes = step.config.segment_bytes;
        for kind in [Place::Buffer, Place::Frame] {
            while self.reads < HEAD_READ_COUNT_MAX {
                let (scan, _) = self.file_of(kind(0));
                if scan.end.is_some() {
                    break;
                }
                let place = kind(scan.next);
                scan.next += 1;
                self.reads += 1;
                let offset = place.head_offset(segment_bytes);
                step.disk.read(Task::HeadRead(place), place.file(), offset, HEAD_BYTES, step.effects);
            }
        }
        self.frames.end.is_some() && self.buffers.end.is_some() && self.reads == 0
    }

    /// The scan of the file of a place, and the index of the place there.
    fn file_of(&mut self, place: Place) -> (&mut FileScan, u32) {
        match place {
            Place::Frame(index) => (&mut self.frames, index),
            Place::Buffer(index) => (&mut self.buffers, index),
        }
    }

    /// `None`: the read failed.
    pub fn on_head_read(&mut self, place: Place, bytes: Option<&[u8]>, step: &mut DeviceStep<'_>) {
        self.reads -= 1;
        let Some(bytes) = bytes else {
            step.effects.report(Level::Warn, format!("{place:?} cannot be read and is left alone"));
            return self.set_aside(place);
        };
        if bytes.len() < HEAD_BYTES as usize {
            let (scan, index) = self.file_of(place);
            scan.end = Some(scan.end.map_or(index, |end| end.min(index)));
            return;
        }
        let mut head = Head::parse(bytes, place, step.config.segment_bytes);
        if matches!(place, Place::Buffer(_)) {
            let id = step.directory.buffer_id;
            head.slots.retain(|(_, slot)| slot.buffer_id == id);
        }
        head.slots.iter().for_each(|(_, slot)| step.directory.used_sequence(slot.sequence));
        let Some((_, newest)) = head.slots.first().copied() else {
            if head.damaged {
                let text = format!("the head of {place:?} is damaged: what it held is lost");
                step.effects.report(Level::Warn, text);
                self.has_damage = true;
                self.junk.insert(place);
            }
            return;
        };
        if step.directory.superblock.is_some_and(|superblock| superblock.cluster != newest.cluster) {
            let text = format!("{place:?} holds a replica of another cluster, {}", newest.cluster);
            step.effects.report(Level::Error, text);
            return self.set_aside(place);
        }
        let copies = self.copies.entry((newest.key, newest.incarnation)).or_default();
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
        self.has_damage = true;
        match place {
            Place::Frame(frame) => _ = self.bad.insert(frame),
            Place::Buffer(_) => {}
        }
    }

    /// Chooses the data to be verified, when all heads are read.
    pub fn plan_verification(&mut self, buffer_id: u64) {
        for (key, copies) in &mut self.copies {
            match (&copies.buffer, &copies.frame) {
                (Some((place, _)), _) => self.to_verify.push((*place, *key)),
                (None, Some((place, head))) => {
                    let (slot_index, slot) = head.slots[0];
                    // The replica was closed while the present buffers existed: the certificate was written after its
                    // data, and there was no loss of power since.
                    if slot.closed && slot.buffer_id == buffer_id && !slot.cut {
                        copies.frame_candidate =
                            Some(Candidate { place: *place, slot_index, slot, is_whole: true });
                    } else {
                        self.to_verify.push((*place, *key));
                    }
                }
                (None, None) => unreachable!("copies were found somewhere"),
            }
        }
        self.to_verify.reverse();
    }

    /// Reads the next data to be verified. Returns whether all is verified.
    pub fn verify(&mut self, step: &mut DeviceStep<'_>) -> bool {
        while (self.verifying.len() as u32) < VERIFY_READ_COUNT_MAX {
            let Some((place, key)) = self.to_verify.pop() else { break };
            let copies = &self.copies[&key];
            let head = match place {
                Place::Frame(_) => &copies.frame,
                Place::Buffer(_) => &copies.buffer,
            };
            let (_, head) = head.as_ref().expect("only what was found is verified");
            let bytes = head.slots.iter().map(|(_, slot)| slot.certificate.length).max().unwrap_or(0);
            self.verifying.insert(place, key);
            let offset = place.data_offset(step.config.segment_bytes);
            step.disk.read(Task::VerifyRead(place), place.file(), offset, bytes, step.effects);
        }
        self.to_verify.is_empty() && self.verifying.is_empty()
    }

    /// `None`: the read failed.
    pub fn on_verify_read(&mut self, place: Place, bytes: Option<&[u8]>, buffer_id: u64) {
        let key = self.verifying.remove(&place).expect("this place was being verified");
        let copies = self.copies.get_mut(&key).expect("only what was found is verified");
        match place {
            Place::Frame(_) => {
                let (_, head) = copies.frame.as_ref().expect("only what was found is verified");
                copies.frame_candidate = candidate(place, head, bytes, buffer_id);
            }
            Place::Buffer(_) => {
                let (_, head) = copies.buffer.as_ref().expect("only what was found is verified");
                copies.buffer_candidate = candidate(place, head, bytes, buffer_id);
                let is_whole = copies.buffer_candidate.is_some_and(|candidate| candidate.is_whole);
                if let Some((frame, _)) = copies.frame.as_ref().filter(|_| !is_whole) {
                    self.to_verify.push((*frame, key));
                }
            }
        }
    }
}
