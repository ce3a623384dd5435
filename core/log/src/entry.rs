//! What stands in a segment: the entries, their fields, and their bytes.
//!
//! An entry is a header of eight bytes (checksum; kind, width of the version and length in one word) and a body.
//! `Entry` borrows what it speaks of, for writing as well as for reading, so that neither copies a value.
//!
//! Invariants:
//! - the checksum covers everything of the entry but itself;
//! - every entry has exactly one encoding: a version is wide only when it must be;
//! - what decodes is within the limits, whoever wrote it.
//!
//! Not here: walking over a segment (`reader`), entries that lie across seglets (`memory`).
//! Bytes: docs/formats/log.md. Catalogue: C1, C3.

use crate::Kind;
use ramhold_base::bytes::{Put, Reader};
use ramhold_base::checksum::crc_append;
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::{
    ClusterId, ClusterTime, KeyHash, LogId, SegmentId, ServerId, ShardId, StreamId, TableId, Version,
};

/// The bytes of an entry before its body.
pub const HEADER_BYTES: usize = 8;
/// What an object costs beyond its key and value while its version is below 2^32.
pub const OBJECT_OVERHEAD_BYTES: usize = HEADER_BYTES + 14;
/// The version rule of the format: raised when a reader of before could misread; see docs/formats/log.md.
pub const FORMAT: u16 = 1;
/// A version must leave room above it for the safe version; no counter gets this far.
pub const VERSION_MAX: Version = Version(1 << 62);

/// The length of a body has 25 bits in the header's word.
pub(crate) const BODY_BYTES_MAX: usize = (1 << 25) - 1;
const WIDE: u32 = 1 << 25;
const KIND_SHIFT: u32 = 26;
const STAT_BYTES: usize = 36;
/// The longest run of an entry before its key or list: the segment header's.
const PREFIX_BYTES_MAX: usize = HEADER_BYTES + 38;
/// The longest run of a record before its key: a tombstone with a wide version.
pub(crate) const RECORD_PREFIX_BYTES_MAX: usize = HEADER_BYTES + 24;

const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(RECORD_PREFIX_BYTES_MAX <= PREFIX_BYTES_MAX);
const _: () = assert!(KEY_BYTES_MAX + VALUE_BYTES_MAX + PREFIX_BYTES_MAX <= BODY_BYTES_MAX);

/// One version of one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object<'a> {
    pub table: TableId,
    /// From 1 to `VERSION_MAX`.
    pub version: Version,
    /// When it was written: seconds of cluster time.
    pub time: u32,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// The end of all versions of one key up to and with `version`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tombstone<'a> {
    pub table: TableId,
    /// From 1 to `VERSION_MAX`.
    pub version: Version,
    /// When it was written: seconds of cluster time.
    pub time: u32,
    /// The segment of the same log that holds the dead object; none when the log holds no such object.
    pub segment: SegmentId,
    pub key: &'a [u8],
}

/// The first entry of every segment: what it is and where it belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    pub cluster: ClusterId,
    pub log: LogId,
    pub stream: StreamId,
    pub segment: SegmentId,
    pub created: ClusterTime,
}

/// The segments that make up a stream, as of the head that starts with this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest<'a> {
    pub stream: StreamId,
    list: &'a [u8],
}

/// What live objects of a range of hashes weigh.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TabletStat {
    pub table: TableId,
    pub first: KeyHash,
    /// Inclusive.
    pub last: KeyHash,
    /// Of whole entries: headers, keys and values.
    pub bytes: u64,
    pub records: u64,
}

/// Statistics of tablets, as of the head that starts with this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TabletStats<'a> {
    list: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry<'a> {
    Object(Object<'a>),
    Tombstone(Tombstone<'a>),
    SegmentHeader(SegmentHeader),
    Digest(Digest<'a>),
    SafeVersion(Version),
    TabletStats(TabletStats<'a>),
}

/// Why bytes are not an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The bytes end before the entry does.
    Truncated,
    /// The checksum does not match.
    Checksum,
    /// Intact, of a kind that this version does not know.
    UnknownKind(u8),
    /// A segment header of a format that this version does not read.
    UnknownFormat(u16),
    /// Intact, but its fields contradict the format.
    Malformed(Kind),
}

impl<'a> Digest<'a> {
    /// `list` holds the segments' ids, as `encode_segments` writes them.
    pub(crate) fn new(stream: StreamId, list: &'a [u8]) -> Digest<'a> {
        assert!(list.len().is_multiple_of(8));
        Digest { stream, list }
    }

    pub fn segments(&self) -> impl Iterator<Item = SegmentId> + 'a {
        self.list.as_chunks::<8>().0.iter().map(|id| SegmentId(u64::from_le_bytes(*id)))
    }
}

pub(crate) fn encode_segments(segments: impl Iterator<Item = SegmentId>) -> Vec<u8> {
    let mut list = Vec::new();
    segments.for_each(|id| list.put_u64(id.0));
    list
}

impl<'a> TabletStats<'a> {
    /// `list` holds the statistics, as `encode_stats` writes them.
    pub(crate) fn new(list: &'a [u8]) -> TabletStats<'a> {
        assert!(list.len().is_multiple_of(STAT_BYTES));
        TabletStats { list }
    }

    pub fn tablets(&self) -> impl Iterator<Item = TabletStat> + 'a {
        self.list.as_chunks::<STAT_BYTES>().0.iter().map(|bytes| {
            let mut reader = Reader::new(bytes);
            let mut word = || reader.u64().expect("a chunk holds a table and four words");
            let (first, last, bytes_, records) = (word(), word(), word(), word());
            let table = reader.u32().expect("a chunk holds a table and four words");
            TabletStat {
                table: TableId(table),
                first: KeyHash(first),
                last: KeyHash(last),
                bytes: bytes_,
                records,
            }
        })
    }
}

pub(crate) fn encode_stats(stats: &[TabletStat]) -> Vec<u8> {
    let mut list = Vec::with_capacity(stats.len() * STAT_BYTES);
    for stat in stats {
        list.put_u64(stat.first.0);
        list.put_u64(stat.last.0);
        list.put_u64(stat.bytes);
        list.put_u64(stat.records);
        list.put_u32(stat.table.0);
    }
    list
}

/// An entry ready to be copied: up to three runs of bytes, in order.
pub(crate) struct Parts<'a> {
    prefix: [u8; PREFIX_BYTES_MAX],
    prefix_bytes: usize,
    tails: [&'a [u8]; 2],
}

impl<'a> Parts<'a> {
    pub(crate) fn runs(&self) -> [&[u8]; 3] {
        [&self.prefix[..self.prefix_bytes], self.tails[0], self.tails[1]]
    }

    fn new(tails: [&'a [u8]; 2]) -> Parts<'a> {
        Parts { prefix: [0; PREFIX_BYTES_MAX], prefix_bytes: HEADER_BYTES, tails }
    }

    fn put(mut self, field: &[u8]) -> Parts<'a> {
        self.prefix[self.prefix_bytes..self.prefix_bytes + field.len()].copy_from_slice(field);
        self.prefix_bytes += field.len();
        self
    }

    fn put_version(self, version: Version) -> Parts<'a> {
        assert!(version >= Version(1));
        assert!(version <= VERSION_MAX);
        match u32::try_from(version.0) {
            Ok(narrow) => self.put(&narrow.to_le_bytes()),
            Err(_) => self.put(&version.0.to_le_bytes()),
        }
    }

    fn seal(mut self, kind: Kind, wide: bool) -> Parts<'a> {
        let body_bytes = self.prefix_bytes - HEADER_BYTES + self.tails[0].len() + self.tails[1].len();
        assert!(body_bytes <= BODY_BYTES_MAX);
        let word = u32::from(kind.number()) << KIND_SHIFT | if wide { WIDE } else { 0 } | body_bytes as u32;
        self.prefix[4..8].copy_from_slice(&word.to_le_bytes());
        let crc = crc_append(0, &self.prefix[4..self.prefix_bytes]);
        let crc =
            self.tails.iter().filter(|tail| !tail.is_empty()).fold(crc, |crc, tail| crc_append(crc, tail));
        self.prefix[..4].copy_from_slice(&crc.to_le_bytes());
        self
    }
}

fn is_wide(version: Version) -> bool {
    version.0 > u64::from(u32::MAX)
}

impl<'a> Object<'a> {
    /// What it takes in a segment, its header included.
    pub fn entry_bytes(&self) -> usize {
        OBJECT_OVERHEAD_BYTES + if is_wide(self.version) { 4 } else { 0 } + self.key.len() + self.value.len()
    }
}

impl<'a> Tombstone<'a> {
    /// What it takes in a segment, its header included.
    pub fn entry_bytes(&self) -> usize {
        HEADER_BYTES + 20 + if is_wide(self.version) { 4 } else { 0 } + self.key.len()
    }
}

impl<'a> Entry<'a> {
    pub fn kind(&self) -> Kind {
        match self {
            Entry::Object(_) => Kind::Object,
            Entry::Tombstone(_) => Kind::Tombstone,
            Entry::SegmentHeader(_) => Kind::SegmentHeader,
            Entry::Digest(_) => Kind::Digest,
            Entry::SafeVersion(_) => Kind::SafeVersion,
            Entry::TabletStats(_) => Kind::TabletStats,
        }
    }

    /// What it takes in a segment, its header included.
    pub fn entry_bytes(&self) -> usize {
        match self {
            Entry::Object(object) => object.entry_bytes(),
            Entry::Tombstone(tombstone) => tombstone.entry_bytes(),
            Entry::SegmentHeader(_) => HEADER_BYTES + 38,
            Entry::Digest(digest) => HEADER_BYTES + 2 + digest.list.len(),
            Entry::SafeVersion(_) => HEADER_BYTES + 8,
            Entry::TabletStats(stats) => HEADER_BYTES + stats.list.len(),
        }
    }

    /// Appends its bytes. Panics when it is beyond the limits, which is for the caller to keep.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.parts().runs().iter().for_each(|run| out.put_bytes(run));
    }

    #[inline]
    pub(crate) fn parts(&self) -> Parts<'a> {
        match self {
            Entry::Object(object) => {
                assert!(object.key.len() <= KEY_BYTES_MAX);
                assert!(object.value.len() <= VALUE_BYTES_MAX);
                Parts::new([object.key, object.value])
                    .put(&object.table.0.to_le_bytes())
                    .put_version(object.version)
                    .put(&object.time.to_le_bytes())
                    .put(&(object.key.len() as u16).to_le_bytes())
                    .seal(Kind::Object, is_wide(object.version))
            }
            Entry::Tombstone(tombstone) => {
                assert!(tombstone.key.len() <= KEY_BYTES_MAX);
                Parts::new([tombstone.key, &[]])
                    .put(&tombstone.table.0.to_le_bytes())
                    .put_version(tombstone.version)
                    .put(&tombstone.time.to_le_bytes())
                    .put(&tombstone.segment.0.to_le_bytes())
                    .seal(Kind::Tombstone, is_wide(tombstone.version))
            }
            Entry::SegmentHeader(header) => Parts::new([&[], &[]])
                .put(&FORMAT.to_le_bytes())
                .put(&header.log.shard.0.to_le_bytes())
                .put(&header.stream.0.to_le_bytes())
                .put(&header.cluster.0.to_le_bytes())
                .put(&header.log.server.0.to_le_bytes())
                .put(&header.segment.0.to_le_bytes())
                .put(&header.created.0.to_le_bytes())
                .seal(Kind::SegmentHeader, false),
            Entry::Digest(digest) => {
                Parts::new([digest.list, &[]]).put(&digest.stream.0.to_le_bytes()).seal(Kind::Digest, false)
            }
            Entry::SafeVersion(version) => {
                Parts::new([&[], &[]]).put(&version.0.to_le_bytes()).seal(Kind::SafeVersion, false)
            }
            Entry::TabletStats(stats) => Parts::new([stats.list, &[]]).seal(Kind::TabletStats, false),
        }
    }

    /// The entry that `bytes` start with, its checksum verified, and how many bytes it takes.
    pub fn decode(bytes: &'a [u8]) -> Result<(Entry<'a>, usize), Damage> {
        let mut reader = Reader::new(bytes);
        let crc = reader.u32().ok_or(Damage::Truncated)?;
        let word = Word(reader.u32().ok_or(Damage::Truncated)?);
        let bytes = bytes.get(..word.entry_bytes()).ok_or(Damage::Truncated)?;
        if crc_append(0, &bytes[4..]) != crc {
            return Err(Damage::Checksum);
        }
        let kind = word.kind().ok_or(Damage::UnknownKind(word.kind_number()))?;
        let entry = Entry::decode_body(kind, word, bytes)?;
        Ok((entry, bytes.len()))
    }

    /// `bytes` are the whole entry.
    fn decode_body(kind: Kind, word: Word, bytes: &'a [u8]) -> Result<Entry<'a>, Damage> {
        let malformed = Damage::Malformed(kind);
        let body = &bytes[HEADER_BYTES..];
        match kind {
            Kind::Object | Kind::Tombstone => {
                let prefix = RecordPrefix::read(word, bytes).ok_or(malformed)?;
                let (key, value) = bytes[prefix.key_start..].split_at(prefix.key_bytes);
                let RecordPrefix { table, version, time, segment, .. } = prefix;
                Ok(match kind {
                    Kind::Object => Entry::Object(Object { table, version, time, key, value }),
                    _ => Entry::Tombstone(Tombstone { table, version, time, segment, key }),
                })
            }
            Kind::SegmentHeader => decode_segment_header(word, body),
            Kind::Digest => {
                let (stream, list) = body.split_first_chunk::<2>().ok_or(malformed)?;
                if !list.len().is_multiple_of(8) || word.is_wide() {
                    return Err(malformed);
                }
                Ok(Entry::Digest(Digest { stream: StreamId(u16::from_le_bytes(*stream)), list }))
            }
            Kind::SafeVersion => {
                let version = Version(u64::from_le_bytes(body.try_into().map_err(|_| malformed)?));
                if version > VERSION_MAX.next() || word.is_wide() {
                    return Err(malformed);
                }
                Ok(Entry::SafeVersion(version))
            }
            Kind::TabletStats => {
                if !body.len().is_multiple_of(STAT_BYTES) || word.is_wide() {
                    return Err(malformed);
                }
                Ok(Entry::TabletStats(TabletStats { list: body }))
            }
        }
    }
}

fn decode_segment_header(word: Word, body: &[u8]) -> Result<Entry<'_>, Damage> {
    let malformed = Damage::Malformed(Kind::SegmentHeader);
    let mut reader = Reader::new(body);
    let format = reader.u16().ok_or(malformed)?;
    if format != FORMAT {
        return Err(Damage::UnknownFormat(format));
    }
    let shard = ShardId(reader.u16().ok_or(malformed)?);
    let stream = StreamId(reader.u16().ok_or(malformed)?);
    let cluster = ClusterId(reader.u64().ok_or(malformed)?);
    let server = ServerId(reader.u64().ok_or(malformed)?);
    let segment = SegmentId(reader.u64().ok_or(malformed)?);
    let created = ClusterTime(reader.u64().ok_or(malformed)?);
    if !reader.is_empty() || word.is_wide() {
        return Err(malformed);
    }
    Ok(Entry::SegmentHeader(SegmentHeader {
        cluster,
        log: LogId { server, shard },
        stream,
        segment,
        created,
    }))
}

/// The second word of an entry: kind, width of the version, length of the body.
#[derive(Clone, Copy)]
pub(crate) struct Word(pub(crate) u32);

impl Word {
    pub(crate) fn entry_bytes(self) -> usize {
        HEADER_BYTES + (self.0 as usize & BODY_BYTES_MAX)
    }

    pub(crate) fn kind(self) -> Option<Kind> {
        Kind::from_number(self.kind_number())
    }

    fn kind_number(self) -> u8 {
        (self.0 >> KIND_SHIFT) as u8
    }

    fn is_wide(self) -> bool {
        self.0 & WIDE != 0
    }
}

/// The fields of an object or a tombstone before its key.
pub(crate) struct RecordPrefix {
    pub(crate) table: TableId,
    pub(crate) version: Version,
    pub(crate) time: u32,
    /// Of a tombstone; none for an object.
    pub(crate) segment: SegmentId,
    /// Where the key starts in the entry.
    pub(crate) key_start: usize,
    pub(crate) key_bytes: usize,
}

impl RecordPrefix {
    /// Reads from the start of an entry (at least `RECORD_PREFIX_BYTES_MAX` bytes of it or all of it) whose word is
    /// `word`; `None` when it is another kind or contradicts the format.
    #[inline]
    pub(crate) fn read(word: Word, entry: &[u8]) -> Option<RecordPrefix> {
        let entry_bytes = word.entry_bytes();
        let mut reader = Reader::new(entry);
        reader.take(HEADER_BYTES)?;
        let table = TableId(reader.u32()?);
        let version = Version(if word.is_wide() { reader.u64()? } else { u64::from(reader.u32()?) });
        let time = reader.u32()?;
        if version.is_none() || version > VERSION_MAX || is_wide(version) != word.is_wide() {
            return None;
        }
        let wide_bytes = if word.is_wide() { 4 } else { 0 };
        match word.kind()? {
            Kind::Object => {
                let key_bytes = usize::from(reader.u16()?);
                let key_start = OBJECT_OVERHEAD_BYTES + wide_bytes;
                let value_bytes = entry_bytes.checked_sub(key_start + key_bytes)?;
                let prefix =
                    RecordPrefix { table, version, time, segment: SegmentId::NONE, key_start, key_bytes };
                (value_bytes <= VALUE_BYTES_MAX).then_some(prefix)
            }
            Kind::Tombstone => {
                let segment = SegmentId(reader.u64()?);
                let key_start = HEADER_BYTES + 20 + wide_bytes;
                let key_bytes = entry_bytes.checked_sub(key_start)?;
                let prefix = RecordPrefix { table, version, time, segment, key_start, key_bytes };
                (key_bytes <= KEY_BYTES_MAX).then_some(prefix)
            }
            Kind::SegmentHeader | Kind::Digest | Kind::SafeVersion | Kind::TabletStats => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(entry: Entry<'_>) {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        assert_eq!(bytes.len(), entry.entry_bytes());
        assert_eq!(Entry::decode(&bytes), Ok((entry, bytes.len())));
        for cut in 0..bytes.len() {
            assert_eq!(Entry::decode(&bytes[..cut]), Err(Damage::Truncated));
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Entry::decode(&flipped).is_err(), "bit {bit} of {entry:?}");
        }
    }

    // C1, C3
    #[test]
    fn every_kind_comes_back_and_no_flipped_bit_does() {
        for version in [Version(1), Version(u64::from(u32::MAX)), Version(1 << 32), VERSION_MAX] {
            for (key, value) in [(&b""[..], &b""[..]), (b"key", b"value"), (b"", b"v"), (b"k", b"")] {
                round_trip(Entry::Object(Object { table: TableId(7), version, time: 9, key, value }));
                let segment = SegmentId(3);
                round_trip(Entry::Tombstone(Tombstone { table: TableId(7), version, time: 9, segment, key }));
            }
        }
        round_trip(Entry::SegmentHeader(SegmentHeader {
            cluster: ClusterId(1),
            log: LogId { server: ServerId(2), shard: ShardId(3) },
            stream: StreamId(4),
            segment: SegmentId(5),
            created: ClusterTime(6),
        }));
        round_trip(Entry::Digest(Digest::new(
            StreamId(1),
            &encode_segments([1, 2, 9].map(SegmentId).into_iter()),
        )));
        round_trip(Entry::SafeVersion(Version(0)));
        round_trip(Entry::SafeVersion(Version(77)));
        let stat =
            TabletStat { table: TableId(1), first: KeyHash(2), last: KeyHash(3), bytes: 4, records: 5 };
        let list = encode_stats(&[stat, stat]);
        assert!(TabletStats::new(&list).tablets().eq([stat, stat]));
        round_trip(Entry::TabletStats(TabletStats::new(&list)));
    }

    // C3
    #[test]
    fn an_object_costs_twenty_two_bytes_beyond_key_and_value() {
        let object = Object { table: TableId(1), version: Version(1), time: 0, key: b"key", value: b"value" };
        assert_eq!(object.entry_bytes(), 22 + 3 + 5);
    }

    /// Bytes with a matching checksum whose fields lie are refused, not believed.
    #[test]
    fn intact_bytes_that_contradict_the_format_are_malformed() {
        let sealed = |number: u8, wide: bool, body: &[u8]| {
            let word = u32::from(number) << KIND_SHIFT | if wide { WIDE } else { 0 } | body.len() as u32;
            let mut bytes = vec![0; 4];
            bytes.put_u32(word);
            bytes.put_bytes(body);
            let crc = crc_append(0, &bytes[4..]);
            bytes[..4].copy_from_slice(&crc.to_le_bytes());
            bytes
        };
        let object = |version: u32, key_bytes: u16| {
            let mut body = Vec::new();
            body.put_u32(1);
            body.put_u32(version);
            body.put_u32(0);
            body.put_u16(key_bytes);
            body.put_bytes(b"key");
            body
        };
        assert!(Entry::decode(&sealed(1, false, &object(1, 3))).is_ok());
        let malformed = Err(Damage::Malformed(Kind::Object));
        assert_eq!(Entry::decode(&sealed(1, false, &object(1, 4))), malformed);
        assert_eq!(Entry::decode(&sealed(1, false, &object(0, 3))), malformed);
        assert_eq!(Entry::decode(&sealed(1, true, &object(1, 3))), malformed);
        assert_eq!(Entry::decode(&sealed(0, false, b"")), Err(Damage::UnknownKind(0)));
        assert_eq!(Entry::decode(&sealed(7, false, b"x")), Err(Damage::UnknownKind(7)));
        assert_eq!(Entry::decode(&sealed(4, false, &[0; 9])), Err(Damage::Malformed(Kind::Digest)));
        assert_eq!(Entry::decode(&sealed(6, false, &[0; 37])), Err(Damage::Malformed(Kind::TabletStats)));
        assert_eq!(Entry::decode(&sealed(5, false, &[255; 8])), Err(Damage::Malformed(Kind::SafeVersion)));
        assert_eq!(Entry::decode(&sealed(3, false, &[2; 38])), Err(Damage::UnknownFormat(0x0202)));
    }
}
