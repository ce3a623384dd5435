//! Damages data on purpose, to show that the demo's comparison detects it.
//!
//! This module reads a backup's files as docs/formats/replica.md describes them, with code of its own. So it
//! also stands for somebody who damages the files from outside.

use super::journal::Journal;
use super::scene::Scene;
use crate::failure::Failure;
use crate::memory::PLACE_BYTES;
use ramhold_base::bytes::Reader;
use ramhold_base::checksum::crc;
use ramhold_base::limits::SEGMENT_BYTES;
use ramhold_client::{Client, ServerId, TableId};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PAGE_BYTES: u64 = 4096;
const SLOT_BYTES: usize = 512;
const SLOT_MAGIC: u32 = 0x4352_4852;
const SLOT_FORMAT: u16 = 1;
const FLAG_CLOSED: u16 = 1;

/// One segment of one log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct SegmentName {
    server: u64,
    shard: u16,
    segment: u64,
}

/// One copy of a segment in a file.
#[derive(Clone, Debug)]
struct Copy {
    path: PathBuf,
    /// Where its bytes begin.
    data_offset: u64,
    length: u32,
    closed: bool,
}

/// Flips one bit in the middle of every copy of one segment of a server that is to be recovered. Nothing may run.
pub fn flip(scene: &Scene, targets: &[ServerId]) -> Result<(), Failure> {
    let mut copies: BTreeMap<SegmentName, Vec<Copy>> = BTreeMap::new();
    let plan = &scene.cluster.plan;
    for member in 1..=plan.server_count() {
        collect(&plan.data_dir(member).join("frames"), 0, &mut copies)?;
        if let Some(buffers) = plan.buffers_of(member) {
            collect(&buffers.join("buffers"), PAGE_BYTES, &mut copies)?;
        }
    }
    let is_target = |name: &SegmentName| targets.contains(&ServerId(name.server));
    let (name, copies) = copies
        .iter()
        .filter(|(name, copies)| is_target(name) && copies.iter().any(|copy| copy.closed))
        .max_by_key(|(_, copies)| copies.iter().map(|copy| copy.length).max())
        .ok_or_else(|| Failure::usage("there is no closed segment to damage; store more files with --dir"))?;
    let shortest = copies.iter().map(|copy| copy.length).min().expect("a segment was found in a copy");
    for copy in copies {
        flip_bit(&copy.path, copy.data_offset + u64::from(shortest / 2))
            .map_err(|error| Failure::local(&copy.path, &error))?;
    }
    scene.tell(&format!(
        "SABOTAGE: flipped one bit, at byte {}, in all {} copies of segment {} of server s{}",
        shortest / 2,
        copies.len(),
        name.segment,
        name.server
    ));
    Ok(())
}

/// Adds the copies in one file; its places begin at `start`.
fn collect(path: &Path, start: u64, copies: &mut BTreeMap<SegmentName, Vec<Copy>>) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::local(path, &error);
    let file = match File::open(path) {
        Ok(file) => file,
        // The server has no buffers of its own.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let count = file.metadata().map_err(failed)?.len().saturating_sub(start) / PLACE_BYTES;
    for index in 0..count {
        let mut head = [0; PAGE_BYTES as usize];
        let offset = start + index * PLACE_BYTES;
        file.read_exact_at(&mut head, offset).map_err(failed)?;
        let newest = head.chunks_exact(SLOT_BYTES).filter_map(parse).max_by_key(|slot| slot.sequence);
        if let Some(slot) = newest.filter(|slot| slot.length > 0) {
            copies.entry(slot.name).or_default().push(Copy {
                path: path.to_owned(),
                data_offset: offset + PAGE_BYTES,
                length: slot.length,
                closed: slot.closed,
            });
        }
    }
    Ok(())
}

struct Slot {
    sequence: u64,
    name: SegmentName,
    length: u32,
    closed: bool,
}

/// A certificate slot, when it is one.
fn parse(bytes: &[u8]) -> Option<Slot> {
    let (body, sum) = bytes.split_at_checked(SLOT_BYTES - 4)?;
    if sum != crc(body).to_le_bytes() {
        return None;
    }
    let mut reader = Reader::new(body);
    if reader.u32()? != SLOT_MAGIC || reader.u16()? != SLOT_FORMAT {
        return None;
    }
    let closed = reader.u16()? & FLAG_CLOSED != 0;
    let sequence = reader.u64()?;
    let (_incarnation, _cluster) = (reader.u64()?, reader.u64()?);
    let (server, segment) = (reader.u64()?, reader.u64()?);
    let (shard, _stream) = (reader.u16()?, reader.u16()?);
    let _epoch = reader.u32()?;
    let length = reader.u32()?;
    let is_fitting = length <= SEGMENT_BYTES;
    is_fitting.then_some(Slot { sequence, name: SegmentName { server, shard, segment }, length, closed })
}

fn flip_bit(path: &Path, offset: u64) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset)?;
    byte[0] ^= 1;
    file.write_all_at(&byte, offset)?;
    file.sync_data()
}

/// Removes one object that the journal knows as acknowledged.
pub fn drop_one(
    scene: &Scene,
    client: &mut Client,
    table: TableId,
    journal: &Journal,
) -> Result<(), Failure> {
    let key =
        journal.settled_key().ok_or_else(|| Failure::usage("no write was acknowledged; nothing to drop"))?;
    client.delete(table, key.as_bytes())?;
    scene.tell(&format!("SABOTAGE: removed writes/{key} behind the journal's back"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the format's description: frame 3, server 2, shard 3, segment 5, 100 bytes, closed.
    fn example() -> Vec<u8> {
        let document = include_str!("../../../../../docs/formats/replica.md");
        let mut slot = vec![0; SLOT_BYTES];
        for line in document.lines() {
            let Some((offset, bytes)) = line.trim_start().split_once("  ") else { continue };
            let Ok(offset) = offset.parse::<usize>() else { continue };
            let bytes: Option<Vec<u8>> = bytes.split(' ').map(|b| u8::from_str_radix(b, 16).ok()).collect();
            if let Some(bytes) = bytes {
                slot[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
        }
        slot
    }

    #[test]
    fn the_documented_slot_is_understood() {
        let bytes = example();
        let slot = parse(&bytes).unwrap();
        assert_eq!(slot.name, SegmentName { server: 2, shard: 3, segment: 5 });
        assert_eq!((slot.sequence, slot.length, slot.closed), (7, 100, true));
        assert!(parse(&[0; SLOT_BYTES]).is_none());
        let mut damaged = bytes;
        damaged[60] ^= 1;
        assert!(parse(&damaged).is_none());
    }

    #[test]
    fn one_bit_is_flipped_in_every_place_that_holds_the_segment() {
        let dir = std::env::temp_dir().join(format!("ramhold-flip-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("frames");
        let file = File::create(&path).unwrap();
        file.set_len(3 * PLACE_BYTES).unwrap();
        file.write_all_at(&example(), PLACE_BYTES).unwrap();
        let mut copies = BTreeMap::new();
        collect(&path, 0, &mut copies).unwrap();
        let copy = &copies[&SegmentName { server: 2, shard: 3, segment: 5 }][0];
        assert_eq!(copy.data_offset, PLACE_BYTES + PAGE_BYTES);
        flip_bit(&path, copy.data_offset + 50).unwrap();
        let mut byte = [0];
        File::open(&path).unwrap().read_exact_at(&mut byte, PLACE_BYTES + PAGE_BYTES + 50).unwrap();
        assert_eq!(byte, [1]);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
