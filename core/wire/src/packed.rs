//! The lists that make up most of a recovery's messages, in few bytes: ranges, segments with their sources,
//! digests.
//!
//! Each list is one byte string. Values that follow from the item before are left out, and small numbers take
//! few bytes. The reason: one coordinator tells a thousand masters, one after the other, of thousands of
//! segments and of a thousand ranges each, and it reads a digest of all segments from nearly every backup.
//!
//! Invariants:
//! - any list comes back as it was, whatever its order;
//! - a byte stands for at most 64 bytes of memory, so the size of a frame bounds the memory that it takes.
//!
//! Format: docs/formats/messages.md, "Packed lists". Catalogue: F4.

use crate::membership::Durability;
use minicbor::decode::Error;
use minicbor::encode::Write;
use minicbor::{Decoder, Encoder};
use ramhold_base::hash::{Placement, PlacementSeed};
use ramhold_base::{Epoch, KeyHash, SegmentId, ServerId, ShardId, StreamId, TableId};

/// The part of a dead server's tablets that one recovery master takes over: some hash range of one tablet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionRange {
    /// Ranges with the same number form one partition.
    pub partition: u32,
    pub table: TableId,
    pub seed: PlacementSeed,
    pub first: KeyHash,
    pub last: KeyHash,
    /// Where the dead server kept the range: only entries of this stream, from `first_segment` on, count.
    pub shard: ShardId,
    pub stream: StreamId,
    pub first_segment: SegmentId,
    pub durability: Durability,
    pub replicas: u8,
    pub slots: bool,
}

impl PartitionRange {
    pub fn placement(&self) -> Placement {
        Placement { seed: self.seed, slots: self.slots }
    }

    /// Whether the ranges differ in nothing but their partitions and their hashes.
    fn is_of_tablet(&self, other: &PartitionRange) -> bool {
        let PartitionRange { partition, first, last, .. } = *other;
        PartitionRange { partition, first, last, ..*self } == *other
    }
}

/// One segment, and the backups that hold a usable replica, the best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoverySegment {
    pub segment: SegmentId,
    /// Replay the segment exactly up to here: for the head, the end that the coordinator fixed. None: replay
    /// all of it.
    pub end: Option<u32>,
    pub sources: Vec<SegmentSource>,
}

/// A backup that holds a replica. The server list tells its address and its read speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSource {
    pub backup: ServerId,
    pub epoch: Epoch,
}

/// Flags of a range: it equals the one before but for partition and hashes; its hashes begin behind that
/// one's; it is in the next partition; it is in the same partition.
const SAME_TABLET: u8 = 1;
const NEXT_HASH: u8 = 2;
const NEXT_PARTITION: u8 = 4;
const SAME_PARTITION: u8 = 8;
const RANGE_FLAGS: u8 = SAME_TABLET | NEXT_HASH | NEXT_PARTITION | SAME_PARTITION;
/// Flags of a segment: it has an end; its sources have epochs other than 0. The bits above count the sources.
const HAS_END: u64 = 1;
const HAS_EPOCHS: u64 = 2;
const SOURCES_SHIFT: u32 = 2;
/// The longest run of consecutive segments that two bytes of a digest may stand for.
const RUN_MAX: usize = 16;

/// An item of a list that is one byte string in a message.
pub(crate) trait Packed: Sized {
    fn pack(list: &[Self], out: &mut Vec<u8>);
    /// Takes the next item, or the several items of a run, given the items before.
    fn unpack(list: &mut Vec<Self>, rest: &mut Rest<'_>) -> Option<()>;
}

pub(crate) fn encode<T: Packed, C, W: Write>(
    list: &[T],
    e: &mut Encoder<W>,
    _: &mut C,
) -> Result<(), minicbor::encode::Error<W::Error>> {
    e.bytes(&packed(list))?.ok()
}

pub(crate) fn decode<T: Packed, C>(d: &mut Decoder<'_>, _: &mut C) -> Result<Vec<T>, Error> {
    unpacked(d.bytes()?).ok_or_else(|| Error::message("not a packed list"))
}

pub(crate) fn packed<T: Packed>(list: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    T::pack(list, &mut bytes);
    bytes
}

fn unpacked<T: Packed>(bytes: &[u8]) -> Option<Vec<T>> {
    let mut rest = Rest(bytes);
    let mut list = Vec::new();
    while !rest.0.is_empty() {
        T::unpack(&mut list, &mut rest)?;
    }
    Some(list)
}

impl Packed for PartitionRange {
    fn pack(list: &[PartitionRange], out: &mut Vec<u8>) {
        let mut before: Option<&PartitionRange> = None;
        for range in list {
            let is =
                |fact: fn(&PartitionRange, &PartitionRange) -> bool| before.is_some_and(|b| fact(b, range));
            let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
            let flags = flag(SAME_TABLET, is(|b, range| b.is_of_tablet(range)))
                | flag(NEXT_HASH, is(|b, range| b.last.0.checked_add(1) == Some(range.first.0)))
                | flag(NEXT_PARTITION, is(|b, range| b.partition.checked_add(1) == Some(range.partition)))
                | flag(SAME_PARTITION, is(|b, range| b.partition == range.partition));
            out.push(flags);
            if flags & (NEXT_PARTITION | SAME_PARTITION) == 0 {
                put(out, u64::from(range.partition));
            }
            if flags & SAME_TABLET == 0 {
                put(out, u64::from(range.table.0));
                out.extend_from_slice(&range.seed.0.to_le_bytes());
                put(out, u64::from(range.shard.0));
                put(out, u64::from(range.stream.0));
                put(out, range.first_segment.0);
                out.extend_from_slice(&[range.durability as u8, range.replicas, u8::from(range.slots)]);
            }
            if flags & NEXT_HASH == 0 {
                out.extend_from_slice(&range.first.0.to_le_bytes());
            }
            out.extend_from_slice(&range.last.0.to_le_bytes());
            before = Some(range);
        }
    }

    fn unpack(list: &mut Vec<PartitionRange>, rest: &mut Rest<'_>) -> Option<()> {
        let before = list.last().copied();
        let flags = rest.byte()?;
        if flags & !RANGE_FLAGS != 0 {
            return None;
        }
        let partition = match flags & (NEXT_PARTITION | SAME_PARTITION) {
            0 => rest.fitting()?,
            NEXT_PARTITION => before?.partition.checked_add(1)?,
            SAME_PARTITION => before?.partition,
            _ => return None,
        };
        let of_tablet = if flags & SAME_TABLET != 0 {
            before?
        } else {
            PartitionRange {
                partition,
                table: TableId(rest.fitting()?),
                seed: PlacementSeed(rest.eight()?),
                first: KeyHash(0),
                last: KeyHash(0),
                shard: ShardId(rest.fitting()?),
                stream: StreamId(rest.fitting()?),
                first_segment: SegmentId(rest.number()?),
                durability: durability(rest.byte()?)?,
                replicas: rest.byte()?,
                slots: match rest.byte()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                },
            }
        };
        let first = if flags & NEXT_HASH != 0 { before?.last.0.checked_add(1)? } else { rest.eight()? };
        let last = rest.eight()?;
        list.push(PartitionRange { partition, first: KeyHash(first), last: KeyHash(last), ..of_tablet });
        Some(())
    }
}

impl Packed for RecoverySegment {
    fn pack(list: &[RecoverySegment], out: &mut Vec<u8>) {
        let mut next = 0;
        for RecoverySegment { segment, end, sources } in list {
            put(out, segment.0.wrapping_sub(next));
            next = segment.0.wrapping_add(1);
            let has_epochs = sources.iter().any(|source| source.epoch != Epoch(0));
            let flags = u64::from(end.is_some()) * HAS_END + u64::from(has_epochs) * HAS_EPOCHS;
            put(out, (sources.len() as u64) << SOURCES_SHIFT | flags);
            if let Some(end) = end {
                put(out, u64::from(*end));
            }
            for source in sources {
                put(out, source.backup.0);
                if has_epochs {
                    put(out, u64::from(source.epoch.0));
                }
            }
        }
    }

    fn unpack(list: &mut Vec<RecoverySegment>, rest: &mut Rest<'_>) -> Option<()> {
        let next = list.last().map_or(0, |before| before.segment.0.wrapping_add(1));
        let segment = SegmentId(next.wrapping_add(rest.number()?));
        let shape = rest.number()?;
        let end = if shape & HAS_END != 0 { Some(rest.fitting()?) } else { None };
        let count = usize::try_from(shape >> SOURCES_SHIFT).ok()?;
        // Each source takes at least a byte.
        let mut sources = Vec::with_capacity(count.min(rest.0.len()));
        for _ in 0..count {
            let backup = ServerId(rest.number()?);
            let epoch = if shape & HAS_EPOCHS != 0 { Epoch(rest.fitting()?) } else { Epoch(0) };
            sources.push(SegmentSource { backup, epoch });
        }
        list.push(RecoverySegment { segment, end, sources });
        Some(())
    }
}

impl Packed for SegmentId {
    fn pack(list: &[SegmentId], out: &mut Vec<u8>) {
        let mut next = 0;
        let follows = |before: &SegmentId, segment: &SegmentId| before.0.checked_add(1) == Some(segment.0);
        let runs = list.chunk_by(follows).flat_map(|run| run.chunks(RUN_MAX));
        for run in runs {
            put(out, run[0].0.wrapping_sub(next));
            put(out, run.len() as u64);
            next = run[run.len() - 1].0.wrapping_add(1);
        }
    }

    fn unpack(list: &mut Vec<SegmentId>, rest: &mut Rest<'_>) -> Option<()> {
        let next = list.last().map_or(0, |before| before.0.wrapping_add(1));
        let first = next.wrapping_add(rest.number()?);
        let count = rest.number().filter(|count| (1..=RUN_MAX as u64).contains(count))?;
        let last = first.checked_add(count - 1)?;
        list.extend((first..=last).map(SegmentId));
        Some(())
    }
}

fn durability(number: u8) -> Option<Durability> {
    let known = [Durability::None, Durability::Buffered, Durability::Synced];
    known.into_iter().find(|durability| *durability as u8 == number)
}

/// Appends a number in groups of seven bits, the lowest first, one byte for each group. All bytes but the
/// last have their highest bit set.
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// The bytes that are not read yet.
pub(crate) struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn eight(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                return None;
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// The next number, if it fits the smaller type.
    fn fitting<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::tests::range;
    use ramhold_base::Rng;

    fn comes_back<T: Packed + PartialEq + std::fmt::Debug>(list: &[T]) {
        assert_eq!(unpacked(&packed(list)).as_deref(), Some(list));
    }

    /// A number that is small, near `before`, or at an end of its type.
    fn number(rng: &mut Rng, before: u64) -> u64 {
        match rng.between(0, 5) {
            0 => rng.between(0, 300),
            1 => u64::MAX - rng.between(0, 3),
            2 => rng.u64(),
            _ => before.wrapping_add(rng.between(0, 2)),
        }
    }

    // F4
    #[test]
    fn lists_come_back_whatever_is_in_them() {
        let mut rng = Rng::new(1_200_000);
        for _ in 0..3000 {
            let count = rng.between(0, 40);
            let mut at = 0;
            let mut next = |rng: &mut Rng| {
                at = number(rng, at);
                at
            };
            let ids: Vec<SegmentId> = (0..count).map(|_| SegmentId(next(&mut rng))).collect();
            comes_back(&ids);
            let segments = ids.iter().map(|segment| RecoverySegment {
                segment: *segment,
                end: rng.chance(1, 4).then(|| rng.between(0, u64::from(u32::MAX)) as u32),
                sources: (0..rng.between(0, 4))
                    .map(|_| SegmentSource { backup: ServerId(number(&mut rng, 900)), epoch: Epoch(0) })
                    .collect(),
            });
            let mut segments: Vec<RecoverySegment> = segments.collect();
            comes_back(&segments);
            for source in segments.iter_mut().flat_map(|segment| &mut segment.sources) {
                source.epoch = Epoch(rng.between(0, u64::from(u32::MAX)) as u32);
            }
            comes_back(&segments);
            let mut ranges: Vec<PartitionRange> = Vec::new();
            for _ in 0..count {
                let before = ranges.last().copied().unwrap_or(range(0, 0, 0));
                let partition = number(&mut rng, u64::from(before.partition)) as u32;
                let first = number(&mut rng, before.last.0);
                let other = range(partition, first, number(&mut rng, first));
                let table = TableId(number(&mut rng, 7) as u32);
                ranges.push(if rng.chance(1, 3) { PartitionRange { table, ..other } } else { other });
            }
            comes_back(&ranges);
        }
    }

    // F4: the example of docs/formats/messages.md.
    #[test]
    fn a_digest_is_written_as_runs() {
        let digest: Vec<SegmentId> = (1..=20).chain([22]).map(SegmentId).collect();
        assert_eq!(packed(&digest), [1, 16, 0, 4, 1, 1]);
    }

    // F4: an item that differs from the one before in a single field is not taken for it.
    #[test]
    fn any_field_of_a_range_may_differ_from_the_one_before() {
        let one = range(3, 0, 9);
        let others = [
            PartitionRange { partition: 4, ..one },
            PartitionRange { table: TableId(6), ..one },
            PartitionRange { seed: PlacementSeed(2), ..one },
            PartitionRange { first: KeyHash(10), last: KeyHash(11), ..one },
            PartitionRange { shard: ShardId(1), ..one },
            PartitionRange { stream: StreamId(2), ..one },
            PartitionRange { first_segment: SegmentId(2), ..one },
            PartitionRange { durability: Durability::Synced, ..one },
            PartitionRange { replicas: 3, ..one },
            PartitionRange { slots: true, ..one },
        ];
        others.iter().for_each(|other| comes_back(&[one, *other, one]));
    }

    // A1, F4: bytes from outside.
    #[test]
    fn what_is_cut_off_or_makes_no_sense_is_refused() {
        let segment = RecoverySegment {
            segment: SegmentId(300),
            end: Some(700),
            sources: vec![SegmentSource { backup: ServerId(900), epoch: Epoch(200) }],
        };
        let whole = packed(&[segment]);
        (1..whole.len())
            .for_each(|end| assert_eq!(unpacked::<RecoverySegment>(&whole[..end]), None, "{end}"));
        let whole = packed(&[range(200, 0, 9)]);
        (1..whole.len()).for_each(|end| assert_eq!(unpacked::<PartitionRange>(&whole[..end]), None, "{end}"));
        assert_eq!(unpacked::<SegmentId>(&[5, 17]), None, "a run longer than any");
        assert_eq!(unpacked::<SegmentId>(&[5, 0]), None, "a run of none");
        assert_eq!(unpacked::<SegmentId>(&[0xff; 11]), None, "a number longer than any");
        let beyond = [&[0xff; 9][..], &[2, 1]].concat();
        assert_eq!(unpacked::<SegmentId>(&beyond), None, "a number larger than any");
        assert_eq!(unpacked::<SegmentId>(&[&[0xff; 9][..], &[1, 2]].concat()), None, "a run past the last");
        assert_eq!(
            unpacked::<RecoverySegment>(&[1, 0xfc, 0xff, 0xff, 0xff, 0x0f, 1]),
            None,
            "sources that are not there"
        );
        for flags in [SAME_TABLET, NEXT_HASH, NEXT_PARTITION, SAME_PARTITION, 16, 128] {
            let bytes = [&[flags][..], &[1; 40]].concat();
            assert_eq!(unpacked::<PartitionRange>(&bytes), None, "the first has none before it: {flags}");
        }
    }

    // F4: a thousand recovery masters are told of thousands of segments and of a thousand ranges each.
    #[test]
    fn what_masters_are_told_is_short() {
        let sources =
            || (0..3).map(|n| SegmentSource { backup: ServerId(900 + n), epoch: Epoch(0) }).collect();
        let segment = |id| RecoverySegment { segment: SegmentId(id), end: None, sources: sources() };
        let segments: Vec<RecoverySegment> = (7000..8000).map(segment).collect();
        assert!(packed(&segments).len() <= 8 * 1000 + 1, "{}", packed(&segments).len());
        let ranges: Vec<PartitionRange> =
            (0..1000).map(|n| range(n as u32, n << 40, ((n + 1) << 40) - 1)).collect();
        assert!(packed(&ranges).len() <= 9 * 1000 + 30, "{}", packed(&ranges).len());
        let digest: Vec<SegmentId> = (1..=8000).map(SegmentId).collect();
        assert!(packed(&digest).len() <= 1000, "{}", packed(&digest).len());
    }
}
