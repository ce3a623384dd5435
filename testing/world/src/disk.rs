//! The files of one simulated host, as a process sees them and as a loss of power leaves them.
//!
//! A file has a current content (the page cache) and a durable one (the device). Writes between the two wait
//! in order. A completed sync moves the writes that came before it to the durable content. A killed process
//! loses nothing that was written. At a power cut each waiting write of a device file survives, is lost, or
//! is torn at 512-byte sectors, by chance. The buffers are memory: they are empty afterwards, unless the host
//! is configured to keep them.
//!
//! Invariant: `current` = `durable` with all waiting writes applied in order, except for writes that a failed
//! sync gave up.
//!
//! Not here: how long anything takes (world). Catalogue: J3, D2.
//! Source: fsync facts of ext4 (a failed sync marks pages clean, so the writes that waited then are never
//! written).

use ramhold_base::{DiskError, DiskFile, Rng};

/// The unit that a device writes whole or not at all.
pub const SECTOR_BYTES: u64 = 512;

/// The limit of unsynced writes that wait. It bounds the memory of a world.
const WAITING_MAX: usize = 1024;

/// Chances per million operations, and room.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    pub read_error_ppm: u32,
    pub sync_error_ppm: u32,
    /// The greatest length of the frames file; beyond it is `Full`.
    pub frames_bytes_max: u64,
    /// Another program has taken all free space. The frames file may not grow, and nothing is lost.
    pub is_full: bool,
    /// Buffers in memory that outlives the power (NVDIMM).
    pub buffers_survive_power: bool,
}

impl Default for DiskOptions {
    fn default() -> DiskOptions {
        DiskOptions {
            read_error_ppm: 0,
            sync_error_ppm: 0,
            frames_bytes_max: 1 << 30,
            is_full: false,
            buffers_survive_power: false,
        }
    }
}

#[derive(Clone, Debug)]
struct Waiting {
    number: u64,
    offset: u64,
    data: Vec<u8>,
}

#[derive(Clone, Default, Debug)]
pub struct File {
    current: Vec<u8>,
    durable: Vec<u8>,
    waiting: Vec<Waiting>,
    number: u64,
}

impl File {
    pub fn bytes(&self) -> &[u8] {
        &self.current
    }

    /// The content after a power cut that loses all waiting writes.
    pub fn durable_bytes(&self) -> &[u8] {
        &self.durable
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        apply(&mut self.current, offset, data);
        self.number += 1;
        self.waiting.push(Waiting { number: self.number, offset, data: data.to_vec() });
        if self.waiting.len() > WAITING_MAX {
            // The kernel writes old pages back by itself.
            let half = self.waiting[WAITING_MAX / 2].number;
            self.sync_through(half);
        }
    }

    /// The bytes there; fewer than asked at the end of the file.
    pub fn read(&self, offset: u64, bytes: u32) -> &[u8] {
        let start = offset.min(self.current.len() as u64) as usize;
        let end = (offset.saturating_add(u64::from(bytes))).min(self.current.len() as u64) as usize;
        &self.current[start..end]
    }

    pub fn reserve(&mut self, bytes: u64) {
        if (self.current.len() as u64) < bytes {
            self.current.resize(bytes as usize, 0);
        }
    }

    /// The number of the last write so far, for `sync_through`.
    pub fn last_write(&self) -> u64 {
        self.number
    }

    /// Moves everything up to the write of this number to the device.
    pub fn sync_through(&mut self, number: u64) {
        if self.durable.len() < self.current.len() {
            self.durable.resize(self.current.len(), 0);
        }
        for write in self.waiting.iter().filter(|w| w.number <= number) {
            apply(&mut self.durable, write.offset, &write.data);
        }
        self.waiting.retain(|w| w.number > number);
    }

    /// Plays a failed sync: the waiting writes are marked clean and never reach the device.
    pub fn forget_through(&mut self, number: u64) {
        self.waiting.retain(|w| w.number > number);
    }

    /// Plays a power cut: each waiting write meets its own fate. Returns the number of torn writes.
    pub fn cut_power(&mut self, rng: &mut Rng) -> u64 {
        let mut torn = 0;
        // One cut favours one fate, so that "all lost" and "all kept" are as common as mixtures.
        let (kept_weight, lost_weight) = (rng.below(5), 1 + rng.below(5));
        for write in std::mem::take(&mut self.waiting) {
            let fate = rng.below(kept_weight + lost_weight + 1);
            if fate < kept_weight {
                apply(&mut self.durable, write.offset, &write.data);
            } else if fate == kept_weight + lost_weight {
                torn += 1;
                tear(&mut self.durable, &write, rng);
            }
        }
        self.current.clone_from(&self.durable);
        torn
    }

    /// Flips one bit on the device and in the cache. `None` when the file is empty.
    pub fn rot(&mut self, rng: &mut Rng) -> Option<u64> {
        if self.current.is_empty() {
            return None;
        }
        let at = rng.below(self.current.len() as u64) as usize;
        let bit = 1 << rng.below(8);
        self.current[at] ^= bit;
        if let Some(byte) = self.durable.get_mut(at) {
            *byte ^= bit;
        }
        Some(at as u64)
    }
}

fn apply(content: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let end = offset as usize + data.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset as usize..end].copy_from_slice(data);
}

/// Writes some sectors of a write and not others.
fn tear(content: &mut Vec<u8>, write: &Waiting, rng: &mut Rng) {
    let end = write.offset + write.data.len() as u64;
    let mut at = write.offset;
    while at < end {
        let sector_end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
        if rng.chance(1, 2) {
            let range = (at - write.offset) as usize..(sector_end - write.offset) as usize;
            apply(content, at, &write.data[range]);
        }
        at = sector_end;
    }
}

/// All files of one host. They outlive the processes that run there.
#[derive(Clone, Default, Debug)]
pub struct Disks {
    pub options: DiskOptions,
    superblock: File,
    frames: File,
    buffers: File,
}

impl Disks {
    pub fn file(&self, file: DiskFile) -> &File {
        match file {
            DiskFile::Superblock => &self.superblock,
            DiskFile::Frames => &self.frames,
            DiskFile::Buffers => &self.buffers,
        }
    }

    pub fn file_mut(&mut self, file: DiskFile) -> &mut File {
        match file {
            DiskFile::Superblock => &mut self.superblock,
            DiskFile::Frames => &mut self.frames,
            DiskFile::Buffers => &mut self.buffers,
        }
    }

    /// Whether the file may grow to this length.
    pub fn room(&self, file: DiskFile, bytes: u64) -> Result<(), DiskError> {
        let held = self.file(file).bytes().len() as u64;
        let max = match file {
            DiskFile::Frames if self.options.is_full => held,
            DiskFile::Frames => self.options.frames_bytes_max,
            DiskFile::Superblock | DiskFile::Buffers => 1 << 30,
        };
        if bytes > max { Err(DiskError::Full { free_bytes: max.saturating_sub(held) }) } else { Ok(()) }
    }

    pub fn write(&mut self, file: DiskFile, offset: u64, data: &[u8]) {
        match file {
            DiskFile::Buffers => apply(&mut self.buffers.current, offset, data),
            DiskFile::Superblock => self.superblock.write(offset, data),
            DiskFile::Frames => self.frames.write(offset, data),
        }
    }

    /// Returns the number of torn writes.
    pub fn cut_power(&mut self, rng: &mut Rng) -> u64 {
        if !self.options.buffers_survive_power {
            self.buffers = File::default();
        }
        self.superblock.cut_power(rng) + self.frames.cut_power(rng)
    }

    /// The device that holds replicas is replaced by an empty one.
    pub fn wipe_frames(&mut self) {
        (self.frames, self.buffers) = Default::default();
    }

    /// Replaces the host by an empty one.
    pub fn wipe(&mut self) {
        *self = Disks { options: self.options.clone(), ..Disks::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a model: after any writes, syncs and cuts, each byte is a value that some cut may leave there. // D2 J3
    #[test]
    fn a_power_cut_leaves_only_what_may_be_left() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut file = File::default();
            let mut synced: Vec<u8> = Vec::new();
            let mut possible: Vec<Vec<u8>> = Vec::new();
            let grow = |possible: &mut Vec<Vec<u8>>, synced: &[u8], bytes: usize| {
                while possible.len() < bytes {
                    possible.push(vec![synced.get(possible.len()).copied().unwrap_or(0)]);
                }
            };
            for step in 0..40u8 {
                if rng.chance(1, 4) {
                    file.sync_through(file.last_write());
                    synced = file.bytes().to_vec();
                    possible = synced.iter().map(|b| vec![*b]).collect();
                    assert_eq!(file.durable_bytes(), &synced[..]);
                } else {
                    let offset = rng.below(3000);
                    let data = vec![step + 1; rng.between(1, 2000) as usize];
                    file.write(offset, &data);
                    grow(&mut possible, &synced, offset as usize + data.len());
                    for place in &mut possible[offset as usize..offset as usize + data.len()] {
                        place.push(step + 1);
                    }
                }
            }
            file.cut_power(&mut rng);
            assert!(file.bytes().len() >= synced.len(), "seed {seed}: a synced length was lost");
            for (at, byte) in file.bytes().iter().enumerate() {
                assert!(possible[at].contains(byte), "seed {seed}: byte {at} is {byte}");
            }
        }
    }

    #[test]
    fn all_three_fates_occur() {
        let (mut kept, mut lost, mut torn) = (0, 0, 0);
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let mut file = File::default();
            file.write(0, &[1; 4096]);
            file.cut_power(&mut rng);
            let ones = file.bytes().iter().filter(|b| **b == 1).count();
            match ones {
                0 => lost += 1,
                4096 => kept += 1,
                _ => {
                    torn += 1;
                    assert!(file.bytes().chunks(512).all(|s| s.iter().all(|b| *b == s[0])));
                }
            }
        }
        assert!(kept > 20 && lost > 20 && torn > 10, "{kept} {lost} {torn}");
    }

    #[test]
    fn what_waited_at_a_failed_sync_is_never_durable() {
        let mut file = File::default();
        file.write(0, b"old");
        file.forget_through(file.last_write());
        file.write(3, b"new");
        file.sync_through(file.last_write());
        assert_eq!(file.bytes(), b"oldnew");
        assert_eq!(file.durable_bytes(), b"\0\0\0new");
    }

    #[test]
    fn buffers_live_through_a_kill_and_not_through_a_power_cut() {
        let mut disks = Disks::default();
        disks.write(DiskFile::Buffers, 0, b"held");
        assert_eq!(disks.file(DiskFile::Buffers).bytes(), b"held");
        disks.cut_power(&mut Rng::new(1));
        assert!(disks.file(DiskFile::Buffers).bytes().is_empty());
    }
}
