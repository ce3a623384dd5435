//! A workload as inserts and deletes, one after the other.
//!
//! The steps fill up to the target, delete the share that the table names, and then write new objects until
//! twice the target is written. Whenever the next object would not fit, objects chosen at random from all
//! live ones are deleted first. Every insert has a new key. Six bytes are kept per live object, in two flat
//! vectors that never move.
//!
//! The target is a number of live bytes in objects of the smaller sizes. A store may need overhead bytes
//! beyond each key and value. All sizes then fill such a store as much as the smaller sizes at the target do,
//! so larger objects have more live bytes.
//!
//! Invariants:
//! - the bytes that live objects take never exceed the bytes that the target takes
//! - after an insert that followed a delete of the last phase, the bytes taken are within one object of that
//!   bound
//! - a deleted object was inserted before, and only once

use crate::table::{KEY_BYTES, Workload};
use ramhold_base::rng::Rng;

/// Names a key; each insert has the next one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct KeyId(pub u32);

impl KeyId {
    /// The key's bytes: `key-` and the id in decimal, led by zeros.
    pub fn bytes(self) -> [u8; KEY_BYTES as usize] {
        let mut key = *b"key-00000000000000000000000000";
        let mut rest = self.0;
        for digit in key.iter_mut().rev() {
            if rest == 0 {
                break;
            }
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        key
    }
}

/// The next request to the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Write a new object.
    Insert { key: KeyId, value_bytes: u32 },
    /// Remove an object that was inserted; with the size of its value.
    Delete { key: KeyId, value_bytes: u32 },
}

/// The phase of the latest step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// Up to the target, with the first sizes.
    Filling,
    /// The share that the table names.
    Deleting,
    /// With the second sizes: up to the target again, then old objects make room.
    Replacing,
    /// There are no more steps.
    Done,
}

/// Iterator over the steps of one workload.
#[derive(Clone, Debug)]
pub struct Steps {
    workload: Workload,
    target_bytes: u64,
    /// Bytes counted for each object beyond its key and value.
    beyond_bytes: u64,
    /// Bytes that the target takes with that.
    full_bytes: u64,
    rng: Rng,
    phase: Phase,
    /// Live objects in no order: the key, and beside it the size of the value.
    keys: Vec<u32>,
    sizes: Vec<u16>,
    live_bytes: u64,
    next_key: u32,
    /// The size of the value to insert next, once drawn.
    drawn: Option<u32>,
    /// Objects that are still to go in `Deleting`.
    to_delete: usize,
    /// Bytes of keys and values inserted in `Replacing`.
    replaced_bytes: u64,
    live_count_max: usize,
}

impl Steps {
    /// For a store that takes `beyond_bytes` beyond the key and value of each object. Panics when the target
    /// is smaller than the largest object, or so large that keys would not fit 32 bits.
    pub fn new(workload: Workload, target_bytes: u64, beyond_bytes: u32, seed: u64) -> Steps {
        assert!(target_bytes >= workload.object_bytes_max(), "not even one object fits");
        let count_max = target_bytes / workload.object_bytes_min();
        let inserts_max = count_max * u64::from(1 + Workload::WRITTEN_TIMES) + 1;
        assert!(inserts_max < u64::from(u32::MAX), "more objects than 32-bit keys");
        let beyond_bytes = u64::from(beyond_bytes);
        let small = workload.small_object_bytes();
        let full_bytes =
            target_bytes + (u128::from(target_bytes) * u128::from(beyond_bytes) / u128::from(small)) as u64;
        let capacity = usize::try_from(count_max).expect("fits as it is below 2^32");
        Steps {
            workload,
            target_bytes,
            beyond_bytes,
            full_bytes,
            rng: Rng::new(seed),
            phase: Phase::Filling,
            keys: Vec::with_capacity(capacity),
            sizes: Vec::with_capacity(capacity),
            live_bytes: 0,
            next_key: 0,
            drawn: None,
            to_delete: 0,
            replaced_bytes: 0,
            live_count_max: 0,
        }
    }

    pub fn workload(&self) -> Workload {
        self.workload
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn target_bytes(&self) -> u64 {
        self.target_bytes
    }

    /// Bytes of keys and values in a store that has done all steps so far.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub fn live_count(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Objects inserted so far.
    pub fn insert_count(&self) -> u64 {
        u64::from(self.next_key)
    }

    /// Bytes that live objects take in the store.
    fn taken_bytes(&self) -> u64 {
        self.live_bytes + self.keys.len() as u64 * self.beyond_bytes
    }

    fn fits(&self, value_bytes: u32) -> bool {
        self.taken_bytes() + u64::from(KEY_BYTES + value_bytes) + self.beyond_bytes <= self.full_bytes
    }

    /// Whether live bytes are within one object (the workload's largest) of the target: the moments to measure at.
    /// True after an insert that followed a delete; false while filling, deleting, and often after a delete.
    pub fn is_at_target(&self) -> bool {
        self.full_bytes - self.taken_bytes() <= self.workload.object_bytes_max() + self.beyond_bytes
    }

    /// Bytes of memory that this generator has ever touched for its lists. Subtract them when the generator
    /// runs inside the process whose memory is measured: reserved pages that were never touched are not
    /// resident.
    pub fn touched_bytes(&self) -> u64 {
        (self.live_count_max * (size_of::<u32>() + size_of::<u16>())) as u64
    }

    /// The written share of the bytes to be written, in percent.
    pub fn percent_done(&self) -> u64 {
        let replaced_target = self.replaced_bytes_target();
        let filled = if self.phase == Phase::Filling { self.live_bytes } else { self.target_bytes };
        (filled + self.replaced_bytes).min(self.target_bytes + replaced_target) * 100
            / (self.target_bytes + replaced_target)
    }

    fn replaced_bytes_target(&self) -> u64 {
        match self.workload.after() {
            Some(_) => self.target_bytes * u64::from(Workload::WRITTEN_TIMES),
            None => 0,
        }
    }

    fn insert(&mut self, value_bytes: u32) -> Step {
        let key = KeyId(self.next_key);
        self.next_key += 1;
        self.keys.push(key.0);
        self.sizes.push(u16::try_from(value_bytes).expect("sizes of the table are below 64 KiB"));
        self.live_bytes += u64::from(KEY_BYTES + value_bytes);
        self.live_count_max = self.live_count_max.max(self.keys.len());
        assert!(self.taken_bytes() <= self.full_bytes);
        Step::Insert { key, value_bytes }
    }

    fn delete_any(&mut self) -> Step {
        let index = self.rng.below(self.keys.len() as u64) as usize;
        let key = KeyId(self.keys.swap_remove(index));
        let value_bytes = u32::from(self.sizes.swap_remove(index));
        self.live_bytes -= u64::from(KEY_BYTES + value_bytes);
        Step::Delete { key, value_bytes }
    }

    /// The next step of filling; none when the next object would not fit.
    fn fill(&mut self) -> Option<Step> {
        let sizes = self.workload.before();
        let value_bytes = self.rng.between(u64::from(sizes.min), u64::from(sizes.max)) as u32;
        self.fits(value_bytes).then(|| self.insert(value_bytes))
    }

    /// The next step of replacing; none when twice the target is written.
    fn replace(&mut self) -> Option<Step> {
        let sizes = self.workload.after()?;
        if self.replaced_bytes >= self.replaced_bytes_target() {
            return None;
        }
        let value_bytes = match self.drawn {
            Some(value_bytes) => value_bytes,
            None => self.rng.between(u64::from(sizes.min), u64::from(sizes.max)) as u32,
        };
        if !self.fits(value_bytes) {
            self.drawn = Some(value_bytes);
            return Some(self.delete_any());
        }
        self.drawn = None;
        self.replaced_bytes += u64::from(KEY_BYTES + value_bytes);
        Some(self.insert(value_bytes))
    }
}

impl Iterator for Steps {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.phase == Phase::Filling {
            if let Some(step) = self.fill() {
                return Some(step);
            }
            self.phase = Phase::Deleting;
            self.to_delete = self.keys.len() * self.workload.deleted_percent() as usize / 100;
        }
        if self.phase == Phase::Deleting {
            if self.to_delete > 0 {
                self.to_delete -= 1;
                return Some(self.delete_any());
            }
            self.phase = Phase::Replacing;
        }
        if self.phase == Phase::Replacing {
            if let Some(step) = self.replace() {
                return Some(step);
            }
            self.phase = Phase::Done;
        }
        None
    }
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
