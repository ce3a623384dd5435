//! Certificate slots: the replica that a place holds, the number of its bytes that count, and their checksum.
//!
//! A slot has a sector of its own. A head has four slots, so that a new certificate overwrites none of these three: the
//! newest one, the newest one that is on the device, and the one that a sync under way brings to the device.
//!
//! Invariants:
//! - the checksum of a slot covers every bit of it; a slot of zeroes was never written, or is wiped;
//! - the valid slots of a head belong to one incarnation of one replica.
//!
//! Bytes: docs/formats/replica.md. Catalogue: D1, D8, F9.

use crate::keys::ReplicaKey;
use crate::place::{Place, SLOT_BYTES, SLOT_COUNT};
use ramhold_base::bytes::Reader;
use ramhold_base::checksum::crc;
use ramhold_base::{ClusterId, ClusterTime, Epoch, LogId, SegmentId, ServerId, ShardId, StreamId};
use ramhold_wire::data::Certificate;

const MAGIC: u32 = 0x4352_4852; // "RHRC"
const FORMAT: u16 = 1;
const CRC_AT: usize = SLOT_BYTES - 4;

const CLOSED: u16 = 1;
const PRIMARY: u16 = 2;
const SIDE: u16 = 4;
const INTERIM: u16 = 8;
const CUT: u16 = 16;
const SYNCED: u16 = 32;
const KNOWN: u16 = CLOSED | PRIMARY | SIDE | INTERIM | CUT | SYNCED;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// Rises with every slot that is written in this directory.
    pub sequence: u64,
    /// The sequence number at which the replica was opened. It tells two openings of one segment apart.
    pub incarnation: u64,
    pub cluster: ClusterId,
    pub key: ReplicaKey,
    pub epoch: Epoch,
    pub certificate: Certificate,
    pub closed: bool,
    pub primary: bool,
    pub side: bool,
    /// In a frame: the replica goes on in a buffer, and without the buffer this copy is incomplete.
    pub interim: bool,
    /// The replica holds less than was acknowledged, or may hold less.
    pub cut: bool,
    /// Nothing was acknowledged beyond the bytes that the device has.
    pub synced: bool,
    /// The id of the buffers when the slot was written.
    pub buffer_id: u64,
    /// The place to which the slot was written. A slot found at another place was misdirected.
    pub place: Place,
}

impl Slot {
    pub fn encode(&self) -> [u8; SLOT_BYTES] {
        let bit = |on: bool, bit: u16| if on { bit } else { 0 };
        let flags = bit(self.closed, CLOSED)
            | bit(self.primary, PRIMARY)
            | bit(self.side, SIDE)
            | bit(self.interim, INTERIM)
            | bit(self.cut, CUT)
            | bit(self.synced, SYNCED);
        let (kind, index): (u32, u32) = match self.place {
            Place::Frame(index) => (0, index),
            Place::Buffer(index) => (1, index),
        };
        let mut out = [0; SLOT_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            out[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&MAGIC.to_le_bytes());
        put(&FORMAT.to_le_bytes());
        put(&flags.to_le_bytes());
        put(&self.sequence.to_le_bytes());
        put(&self.incarnation.to_le_bytes());
        put(&self.cluster.raw().to_le_bytes());
        put(&self.key.log.server.raw().to_le_bytes());
        put(&self.key.segment.raw().to_le_bytes());
        put(&self.key.log.shard.raw().to_le_bytes());
        put(&self.key.stream.raw().to_le_bytes());
        put(&self.epoch.raw().to_le_bytes());
        put(&self.certificate.length.to_le_bytes());
        put(&self.certificate.crc.to_le_bytes());
        put(&self.certificate.time.0.to_le_bytes());
        put(&self.buffer_id.to_le_bytes());
        put(&kind.to_le_bytes());
        put(&index.to_le_bytes());
        let sum = crc(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8], place: Place) -> Option<Slot> {
        let (body, sum) = bytes.split_at_checked(CRC_AT)?;
        if sum != crc(body).to_le_bytes() {
            return None;
        }
        let mut reader = Reader::new(body);
        let magic = reader.u32()?;
        let format = reader.u16()?;
        let flags = reader.u16()?;
        if magic != MAGIC || format != FORMAT || flags & !KNOWN != 0 {
            return None;
        }
        let (sequence, incarnation) = (reader.u64()?, reader.u64()?);
        let cluster = ClusterId(reader.u64()?);
        let (server, segment) = (ServerId(reader.u64()?), SegmentId(reader.u64()?));
        let (shard, stream) = (ShardId(reader.u16()?), StreamId(reader.u16()?));
        let epoch = Epoch(reader.u32()?);
        let certificate =
            Certificate { length: reader.u32()?, crc: reader.u32()?, time: ClusterTime(reader.u64()?) };
        let buffer_id = reader.u64()?;
        let written = match (reader.u32()?, reader.u32()?) {
            (0, index) => Place::Frame(index),
            (1, index) => Place::Buffer(index),
            _ => return None,
        };
        (written == place).then_some(Slot {
            sequence,
            incarnation,
            cluster,
            key: ReplicaKey { log: LogId { server, shard }, stream, segment },
            epoch,
            certificate,
            closed: flags & CLOSED != 0,
            primary: flags & PRIMARY != 0,
            side: flags & SIDE != 0,
            interim: flags & INTERIM != 0,
            cut: flags & CUT != 0,
            synced: flags & SYNCED != 0,
            buffer_id,
            place,
        })
    }
}

/// The head of a place, as found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Head {
    /// Valid slots of the newest incarnation with their numbers, the newest first.
    pub slots: Vec<(u8, Slot)>,
    /// A slot is neither valid nor zero, or is of another incarnation than the newest.
    pub damaged: bool,
}

impl Head {
    pub fn parse(bytes: &[u8], place: Place, segment_bytes: u32) -> Head {
        let mut head = Head::default();
        for (index, bytes) in (0..SLOT_COUNT).zip(bytes.chunks_exact(SLOT_BYTES)) {
            if bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            match Slot::decode(bytes, place).filter(|slot| slot.certificate.length <= segment_bytes) {
                Some(slot) => head.slots.push((index, slot)),
                None => head.damaged = true,
            }
        }
        head.slots.sort_by_key(|(_, slot)| std::cmp::Reverse(slot.sequence));
        if let Some((_, newest)) = head.slots.first().copied() {
            let before = head.slots.len();
            head.slots.retain(|(_, slot)| slot.incarnation == newest.incarnation && slot.key == newest.key);
            head.damaged |= head.slots.len() != before;
        }
        head
    }
}

/// The slots of a head that must not be overwritten.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ring {
    pub newest: Option<u8>,
    /// The newest slot that is certainly on the device. A slot in a buffer never is.
    pub durable: Option<u8>,
    /// The slot that a sync under way makes durable.
    pub syncing: Option<u8>,
}

impl Ring {
    pub fn next(&self) -> u8 {
        let spared = [self.newest, self.durable, self.syncing];
        (0..SLOT_COUNT)
            .find(|slot| !spared.contains(&Some(*slot)))
            .expect("there is one slot more than are spared")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(place: Place) -> Slot {
        Slot {
            sequence: 7,
            incarnation: 5,
            cluster: ClusterId(1),
            key: ReplicaKey {
                log: LogId { server: ServerId(2), shard: ShardId(3) },
                stream: StreamId(4),
                segment: SegmentId(5),
            },
            epoch: Epoch(6),
            certificate: Certificate { length: 100, crc: 0x1234_5678, time: ClusterTime(9) },
            closed: true,
            primary: true,
            side: false,
            interim: true,
            cut: false,
            synced: false,
            buffer_id: 11,
            place,
        }
    }

    // F9
    #[test]
    fn every_flipped_bit_of_a_slot_is_detected() {
        let place = Place::Frame(3);
        let mut bytes = example(place).encode();
        assert_eq!(Slot::decode(&bytes, place), Some(example(place)));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Slot::decode(&bytes, place), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    // F9
    #[test]
    fn a_misdirected_slot_does_not_count() {
        let bytes = example(Place::Frame(3)).encode();
        assert_eq!(Slot::decode(&bytes, Place::Frame(4)), None);
        assert_eq!(Slot::decode(&bytes, Place::Buffer(3)), None);
        assert!(Head::parse(&bytes, Place::Frame(4), 4096).damaged);
    }

    /// The format's description shows the bytes that are written.
    #[test]
    fn the_description_shows_these_bytes() {
        let bytes = example(Place::Frame(3)).encode();
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ");
        let document = include_str!("../../../docs/formats/replica.md");
        for line in bytes[..96].chunks(16) {
            assert!(document.contains(&hex(line)), "missing: {}", hex(line));
        }
        assert!(document.contains(&hex(&bytes[CRC_AT..])), "missing: {}", hex(&bytes[CRC_AT..]));
    }

    // D1
    #[test]
    fn the_next_slot_spares_what_may_be_needed() {
        let mut ring = Ring { durable: Some(0), syncing: Some(1), newest: Some(1) };
        for _ in 0..10 {
            let next = ring.next();
            assert!(![ring.newest, ring.durable, ring.syncing].contains(&Some(next)));
            ring.newest = Some(next);
        }
    }
}
