//! Every single bit of a whole replica file of 64 KiB, flipped one after the other: 524,288 flips.
//!
//! The file is one frame: a head of 4096 bytes, of which 2048 hold the certificate slots and the rest is never looked at,
//! then a segment that fills its 61,440 bytes to the last.
//!
//! - A flip in the head: a new life of the backup starts on the file, is fenced for the dead master, and is read as a
//!   recovery reads where it still reports a whole replica.
//! - A flip in the segment: a recovery read, from the request over the completion of the disk to the answer, with the
//!   backup's own checksum over all 61,440 bytes. Many questions are under way in one life, each of a recovery of its
//!   own and with a read of its own, so that what one read finds decides nothing for the others; among the damaged reads
//!   are sound ones, which must be answered.
//! - Some thousands of the flips in the segment, chosen at random, in a new life as those in the head.
//!
//! Not here: that the next replica is read then (core/master, testing/world). Open replicas and buffers: `damage`.

use crate::reading::{range, read_of, records_of, small_log};
use crate::rig::*;
use ramhold_backup::{BackupConfig, Buffers};
use ramhold_base::{RecoveryId, Rng, Status, TableId, Version};
use ramhold_log::{Entry, Object, OlderList};
use ramhold_wire::Opcode;
use ramhold_wire::recovery::{ReadTimes, RecoveryRead};

const FILE_BYTES: usize = 64 * 1024;
const HEAD_BYTES: usize = 4096;
const SLOT_BYTES: usize = 512;
const LOG_BYTES: usize = FILE_BYTES - HEAD_BYTES;
const VALUE_BYTES: usize = 1000;
/// Recovery reads under way at once in one life.
const UNDER_WAY_COUNT: usize = 1024;
/// Flips in the segment that are found by a new life.
const LIFE_COUNT: u32 = 4096;

/// How a life that finds one flipped bit judges the replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// Not reported to the fence.
    Gone,
    /// Reported as holding less than was acknowledged.
    Cut,
    /// Reported, and read as it was written, byte for byte.
    Whole,
}

fn one_frame() -> BackupConfig {
    BackupConfig {
        segment_bytes: LOG_BYTES as u32,
        frames_max: 1,
        frames_grow_by: 1,
        buffers: Buffers::InFrames,
        buffers_survive_power: false,
        // Segments that are being read count with their whole length.
        recovery_cache_bytes: (UNDER_WAY_COUNT as u64 + 1) * LOG_BYTES as u64,
        found_cache_bytes: 0,
        ..config()
    }
}

/// A segment of exactly this many bytes.
fn full_log() -> Log {
    let mut log = small_log(0);
    let encode = |log: &mut Log, number: u64, value_bytes: usize| {
        let key = number.to_le_bytes();
        let value: Vec<u8> = (0..value_bytes).map(|at| (at * 31 + number as usize * 17) as u8).collect();
        let (table, version) = (TableId(1), Version(number + 1));
        let object = Object { table, version, time: 3, expires: None, key: &key, value: &value };
        Entry::Object(object, OlderList::NONE).encode(&mut log.bytes);
    };
    let mut number = 0;
    let before = log.bytes.len();
    encode(&mut log, number, VALUE_BYTES);
    let overhead = log.bytes.len() - before - VALUE_BYTES;
    while LOG_BYTES - log.bytes.len() > 2 * (VALUE_BYTES + overhead) {
        number += 1;
        encode(&mut log, number, VALUE_BYTES);
    }
    let rest = LOG_BYTES - log.bytes.len() - overhead;
    encode(&mut log, number + 1, rest);
    assert_eq!(log.bytes.len(), LOG_BYTES);
    log
}

/// A file with one closed replica, and the life that wrote it is over.
fn written(log: &Log) -> Rig {
    let mut rig = Rig::new(one_frame());
    assert_eq!(rig.append(log, log.from(0)).0, Status::Ok);
    assert_eq!(rig.append(log, log.close()).0, Status::Ok);
    assert_eq!(rig.disk.frames.now.len(), FILE_BYTES);
    assert_eq!(rig.disk.frames.now[HEAD_BYTES..], log.bytes[..]);
    rig
}

/// The file as it is, for lives that each find one bit of it flipped.
struct Original {
    log: Log,
    records: Vec<u8>,
    config: BackupConfig,
    disk: Disk,
    life: u64,
}

impl Original {
    fn new() -> Original {
        let log = full_log();
        let rig = written(&log);
        Original { records: records_of(&log), log, config: rig.config, disk: rig.disk, life: rig.life + 1 }
    }

    /// The slot whose certificate counts.
    fn newest_slot(&self) -> usize {
        let sequence = |slot: &usize| {
            let at = slot * SLOT_BYTES + 8;
            u64::from_le_bytes(self.disk.frames.now[at..at + 8].try_into().unwrap())
        };
        (0..4).max_by_key(sequence).unwrap()
    }

    /// The verdict of a new life on the file with one flipped bit, and whether it has reported an error.
    fn judged(&mut self, at: usize, bit: u8) -> (Verdict, bool) {
        // The large file is lent: to copy it for each life would take longer than the life.
        let frames = std::mem::take(&mut self.disk.frames);
        let mut disk = Disk { frames, ..self.disk.clone() };
        let head = disk.frames.now[..HEAD_BYTES].to_vec();
        disk.frames.now[at] ^= 1 << bit;
        let mut rig = Rig::on(self.config.clone(), disk, self.life);
        let reports = rig.fence(self.log.server).replicas;
        let verdict = match reports.first() {
            None => Verdict::Gone,
            Some(report) if report.cut => Verdict::Cut,
            Some(report) => {
                assert_eq!((report.certified as usize, report.epoch), (LOG_BYTES, self.log.epoch));
                assert!(report.closed);
                let (status, read) = rig.recovery_read(&self.read(1));
                assert_eq!(status, Status::Ok);
                assert!(read == self.records, "byte {at} bit {bit}: read as something else");
                Verdict::Whole
            }
        };
        let has_error = rig.has_error();
        self.disk.frames = rig.disk.frames;
        if at >= HEAD_BYTES {
            self.disk.frames.now[at] ^= 1 << bit;
        }
        // The life has written here: it wipes a head without a replica.
        self.disk.frames.now[..HEAD_BYTES].copy_from_slice(&head);
        (verdict, has_error)
    }

    fn read(&self, recovery: u64) -> RecoveryRead {
        let read = read_of(&self.log, &[range(0, 0, u64::MAX)], 0);
        RecoveryRead { recovery: RecoveryId(recovery), ..read }
    }

    /// Reads the replica for a recovery once for each bit of these bytes of the segment, that one flipped.
    fn flip_each(&self, bytes: std::ops::Range<usize>) {
        let bits: Vec<(usize, u8)> = bytes.flat_map(|at| (0..8).map(move |bit| (at, bit))).collect();
        for under_way in bits.chunks(UNDER_WAY_COUNT) {
            let mut rig = Rig::on(self.config.clone(), self.disk.clone(), self.life);
            rig.fence(self.log.server);
            rig.sent.clear();
            // One question more than there are flips: the last is for the sound file.
            rig.hold = true;
            for recovery in 1..=under_way.len() as u64 + 1 {
                let header = rig.header(Opcode::RecoveryRead, OTHER);
                rig.request(&header, &cbor(&self.read(recovery)));
            }
            assert!(rig.sent.is_empty(), "all wait for their reads");
            for (at, bit) in under_way {
                let byte = HEAD_BYTES + at;
                rig.disk.frames.now[byte] ^= 1 << bit;
                assert!(rig.run_one());
                let (_, header, body) = rig.sent.pop().expect("a read that is over is answered");
                assert_eq!(header.status(), Status::CorruptReplica, "byte {byte} bit {bit}");
                assert!(body.is_empty());
                rig.disk.frames.now[byte] ^= 1 << bit;
            }
            assert!(rig.has_error());
            assert!(rig.run_one());
            let (_, header, body) = rig.sent.pop().expect("a read that is over is answered");
            assert_eq!(header.status(), Status::Ok, "the bytes decide, not what was found before");
            assert!(body[ReadTimes::BYTES..] == self.records);
            assert!(!rig.run_one(), "one read for each question");
        }
    }
}

// F9
#[test]
fn every_flipped_bit_of_a_head_is_found_or_changes_nothing() {
    let mut original = Original::new();
    let newest = original.newest_slot();
    for at in 0..HEAD_BYTES {
        for bit in 0..8 {
            let (verdict, _) = original.judged(at, bit);
            if at / SLOT_BYTES == newest {
                assert_ne!(verdict, Verdict::Whole, "byte {at} bit {bit}");
            } else {
                // Older slots and what is never looked at: the newest certificate of a closed replica says all.
                assert_eq!(verdict, Verdict::Whole, "byte {at} bit {bit}");
            }
        }
    }
}

// F9
#[test]
fn every_flipped_bit_of_the_first_half_of_a_segment_is_found() {
    Original::new().flip_each(0..LOG_BYTES / 2);
}

// F9
#[test]
fn every_flipped_bit_of_the_second_half_of_a_segment_is_found() {
    Original::new().flip_each(LOG_BYTES / 2..LOG_BYTES);
}

// F9
#[test]
fn a_new_life_does_not_report_a_segment_with_a_flipped_bit() {
    let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut original = Original::new();
    for _ in 0..LIFE_COUNT {
        let at = HEAD_BYTES + rng.below(LOG_BYTES as u64) as usize;
        let bit = rng.below(8) as u8;
        assert_eq!(original.judged(at, bit), (Verdict::Gone, true), "byte {at} bit {bit}");
    }
}
