//! The entries of a segment, their fields, and their bytes.
//!
//! An entry is a header of eight bytes (checksum; kind, three flags and length in one word) and a body. The flags tell
//! which optional fields are present, so that a plain object pays for none of them.
//! `Entry` borrows its key and value, for writing as well as for reading, so that neither copies them.
//!
//! An object entry names the segments of its log that hold older versions of its key. The caller that writes an object
//! does not know them, so the list is beside the `Object` and not in it.
//!
//! Invariants:
//! - the checksum covers everything of the entry but itself;
//! - every entry has exactly one encoding: a version is wide only when it must be, a list is present only when it names
//!   a segment;
//! - an entry that decodes is within the limits, even if the bytes are hostile.
//!
//! Not here: walking over a segment (`reader`), entries that lie across seglets (`memory`).
//! Bytes: docs/formats/log.md. Catalogue: C1, C3.

use crate::older::{OBJECT_OLDER_COUNT_MAX, OLDER_BYTES_MAX, TOMBSTONE_OLDER_COUNT_MAX, older_bytes};
use crate::{KIND_NUMBER_MAX, Kind, OlderList};
use ramhold_base::bytes::{Put, Reader};
use ramhold_base::checksum::{crc, crc_append};
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::{
    ClusterId, ClusterTime, KeyHash, LeaseId, LogId, SegmentId, Sequence, ServerId, ShardId, Stamp, Status,
    StreamId, TableId, Version,
};

/// The bytes of an entry before its body.
pub const HEADER_BYTES: usize = 8;
/// The bytes of a plain object beyond its key and value. Plain means: its version is below 2^32, it does not expire,
/// and its log holds no older version of its key.
pub const OBJECT_OVERHEAD_BYTES: usize = HEADER_BYTES + 14;
/// The version of the format. It is raised when an earlier reader could misread the bytes; see docs/formats/log.md.
pub const FORMAT: u16 = 2;
/// The highest version. It leaves room above it for the safe version; no counter gets this far.
pub const VERSION_MAX: Version = Version(1 << 62);

/// The length of a body has 24 bits in the header's word.
pub(crate) const BODY_BYTES_MAX: usize = (1 << 24) - 1;
/// The version has eight bytes.
const WIDE: u32 = 1 << 24;
/// In an object: the expiry time is present. In a result: the number that the mutation left is present.
const EXPIRES: u32 = 1 << 25;
const NUMBER: u32 = EXPIRES;
/// The list of segments with older versions is present.
const OLDER: u32 = 1 << 31;
const FLAGS: u32 = WIDE | EXPIRES | OLDER;
/// The kind has bits 30..26, as in format 1. So the header of a segment of format 1 is readable, and its format is
/// refused as unknown.
const KIND_SHIFT: u32 = 26;
pub(crate) const STAT_BYTES: usize = 36;
/// A summary of a segment: a time and a number.
pub(crate) const SUMMARY_BYTES: usize = 12;
/// The bytes of a tombstone beyond its key while its version is below 2^32 and it names no segment.
const TOMBSTONE_OVERHEAD_BYTES: usize = HEADER_BYTES + 12;
/// The most bytes of an entry before its key or list: those of a record.
const PREFIX_BYTES_MAX: usize = RECORD_PREFIX_BYTES_MAX;
/// The most bytes of a record before its key: those of an object with all optional fields.
pub(crate) const RECORD_PREFIX_BYTES_MAX: usize =
    OBJECT_OVERHEAD_BYTES + 4 + 8 + older_bytes(OBJECT_OLDER_COUNT_MAX);
const SEGMENT_HEADER_BYTES: usize = HEADER_BYTES + 38;
/// A result without a number whose version is below 2^32.
const RESULT_BYTES_MIN: usize = HEADER_BYTES + 38;
pub(crate) const RESULT_BYTES_MAX: usize = RESULT_BYTES_MIN + 4 + 8;

const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(TOMBSTONE_OVERHEAD_BYTES + 4 + OLDER_BYTES_MAX <= RECORD_PREFIX_BYTES_MAX);
const _: () = assert!(QUORUM_OVERHEAD_BYTES + 8 <= RECORD_PREFIX_BYTES_MAX);
const _: () = assert!(SEGMENT_HEADER_BYTES <= PREFIX_BYTES_MAX);
const _: () = assert!(RESULT_BYTES_MAX <= PREFIX_BYTES_MAX);
const _: () = assert!(KEY_BYTES_MAX + VALUE_BYTES_MAX + PREFIX_BYTES_MAX <= BODY_BYTES_MAX);

/// One version of one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object<'a> {
    pub table: TableId,
    /// From 1 to `VERSION_MAX`.
    pub version: Version,
    /// When the object was written: seconds of cluster time.
    pub time: u32,
    /// The time from which the object does not exist, if it has one: milliseconds of cluster time.
    pub expires: Option<ClusterTime>,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// The end of all versions of one key up to and with `version`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tombstone<'a> {
    pub table: TableId,
    /// From 1 to `VERSION_MAX`.
    pub version: Version,
    /// When the tombstone was written: seconds of cluster time.
    pub time: u32,
    /// The segments of the same log that hold the versions that the tombstone ends, at most
    /// `TOMBSTONE_OLDER_COUNT_MAX` (9). If it names none, the log holds no such version, and the tombstone is dead from
    /// the start.
    pub segments: OlderList,
    pub key: &'a [u8],
}

/// The result of one mutation, in the same group as its effect (docs/protocols/exactly-once.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RpcResult {
    pub table: TableId,
    /// The placement hash of the key, by which the log is divided.
    pub hash: KeyHash,
    pub lease: LeaseId,
    pub sequence: Sequence,
    /// The client had acknowledged all sequences below this one when it sent the mutation. At most 2^32 - 1 below the
    /// sequence.
    pub floor: Sequence,
    pub status: Status,
    /// At most `VERSION_MAX`; 0 where the answer has none.
    pub version: Version,
    /// The bits of the number that an increment left.
    pub number: Option<u64>,
}

/// The first entry of every segment: its identity, and the log and stream that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    pub cluster: ClusterId,
    pub log: LogId,
    pub stream: StreamId,
    pub segment: SegmentId,
    pub created: ClusterTime,
}

/// The segments of a stream, at the time when the head that starts with this digest was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest<'a> {
    pub stream: StreamId,
    list: &'a [u8],
}

/// The summary that a head gives of a closed segment in the log of a brick.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// The highest time of the stamps of its records; 0 if it has none.
    pub stamp_newest: u64,
    /// Entries of every kind.
    pub entry_count: u32,
}

/// Summaries of the segments that the digest before them names, in its order, but for the head itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summaries<'a> {
    list: &'a [u8],
}

/// The bytes and records of the live objects of a range of hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TabletStat {
    pub table: TableId,
    pub first: KeyHash,
    /// Inclusive.
    pub last: KeyHash,
    /// Bytes of whole entries: headers, keys and values.
    pub bytes: u64,
    pub records: u64,
}

/// Statistics of tablets, at the time when the head that starts with them was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TabletStats<'a> {
    list: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry<'a> {
    /// An object, and the segments of the same log that hold older versions of its key, at most
    /// `OBJECT_OLDER_COUNT_MAX` (8).
    Object(Object<'a>, OlderList),
    Tombstone(Tombstone<'a>),
    SegmentHeader(SegmentHeader),
    Digest(Digest<'a>),
    SafeVersion(Version),
    TabletStats(TabletStats<'a>),
    RpcResult(RpcResult),
    QuorumRecord(QuorumRecord<'a>),
    Summaries(Summaries<'a>),
}

/// Why bytes are not an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The bytes end before the entry does.
    Truncated,
    /// The checksum does not match.
    Checksum,
    /// The entry is intact, of a kind that this version does not know.
    UnknownKind(u8),
    /// A segment header of a format that this version does not read.
    UnknownFormat(u16),
    /// The entry is intact, but its fields contradict the format.
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

impl<'a> Summaries<'a> {
    /// `list` holds the summaries, as `encode_summaries` writes them.
    pub(crate) fn new(list: &'a [u8]) -> Summaries<'a> {
        assert!(list.len().is_multiple_of(SUMMARY_BYTES));
        Summaries { list }
    }

    pub fn segments(&self) -> impl Iterator<Item = Summary> + 'a {
        self.list.as_chunks::<SUMMARY_BYTES>().0.iter().map(|bytes| {
            let mut reader = Reader::new(bytes);
            let stamp_newest = reader.u64().expect("a chunk holds a time and a number");
            let entry_count = reader.u32().expect("a chunk holds a time and a number");
            Summary { stamp_newest, entry_count }
        })
    }
}

pub(crate) fn encode_summaries(summaries: impl Iterator<Item = Summary>) -> Vec<u8> {
    let mut list = Vec::new();
    for summary in summaries {
        list.put_u64(summary.stamp_newest);
        list.put_u32(summary.entry_count);
    }
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

/// An encoded entry, ready to be copied: up to three runs of bytes, in order.
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
        self.add(field);
        self
    }

    /// As `put`, in place, for fields that may be missing.
    fn add(&mut self, field: &[u8]) {
        self.prefix[self.prefix_bytes..self.prefix_bytes + field.len()].copy_from_slice(field);
        self.prefix_bytes += field.len();
    }

    fn put_version(self, version: Version) -> Parts<'a> {
        assert!(version >= Version(1));
        assert!(version <= VERSION_MAX);
        self.put_number(version)
    }

    fn put_number(self, version: Version) -> Parts<'a> {
        match u32::try_from(version.0) {
            Ok(narrow) => self.put(&narrow.to_le_bytes()),
            Err(_) => self.put(&version.0.to_le_bytes()),
        }
    }

    fn seal(mut self, kind: Kind, flags: u32) -> Parts<'a> {
        let body_bytes = self.prefix_bytes - HEADER_BYTES + self.tails[0].len() + self.tails[1].len();
        assert!(body_bytes <= BODY_BYTES_MAX);
        let word = u32::from(kind.number()) << KIND_SHIFT | flags | body_bytes as u32;
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

fn record_flags(version: Version, older: &OlderList) -> u32 {
    let wide = if is_wide(version) { WIDE } else { 0 };
    let older = if older.is_empty() { 0 } else { OLDER };
    wide | older
}

impl<'a> Object<'a> {
    /// The bytes of the entry in a segment, with its header and without a list of segments.
    pub fn entry_bytes(&self) -> usize {
        let wide_bytes = if is_wide(self.version) { 4 } else { 0 };
        let expires_bytes = if self.expires.is_some() { 8 } else { 0 };
        OBJECT_OVERHEAD_BYTES + wide_bytes + expires_bytes + self.key.len() + self.value.len()
    }
}

impl<'a> Tombstone<'a> {
    /// The bytes of the entry in a segment, with its header.
    pub fn entry_bytes(&self) -> usize {
        let wide_bytes = if is_wide(self.version) { 4 } else { 0 };
        TOMBSTONE_OVERHEAD_BYTES + wide_bytes + self.segments.encoded().len() + self.key.len()
    }
}

impl RpcResult {
    /// The bytes of the entry in a segment, with its header.
    pub fn entry_bytes(&self) -> usize {
        let wide_bytes = if is_wide(self.version) { 4 } else { 0 };
        RESULT_BYTES_MIN + wide_bytes + if self.number.is_some() { 8 } else { 0 }
    }

    /// The distance of the sequence above the floor, 0 if the floor is higher, and `u32::MAX` if it is too far below.
    fn above_floor(&self) -> u32 {
        u32::try_from(self.sequence.0.saturating_sub(self.floor.0)).unwrap_or(u32::MAX)
    }

    fn decode(word: Word, body: &[u8]) -> Option<RpcResult> {
        let mut reader = Reader::new(body);
        let (table, hash) = (TableId(reader.u32()?), KeyHash(reader.u64()?));
        let (lease, sequence) = (LeaseId(reader.u64()?), Sequence(reader.u64()?));
        let floor = Sequence(sequence.0.checked_sub(u64::from(reader.u32()?))?);
        let status = Status::from_code(reader.u16()?)?;
        let version = Version(if word.has(WIDE) { reader.u64()? } else { u64::from(reader.u32()?) });
        let number = if word.has(NUMBER) { Some(reader.u64()?) } else { None };
        let is_sound = version <= VERSION_MAX
            && is_wide(version) == word.has(WIDE)
            && !word.has(OLDER)
            && !lease.is_none()
            && !sequence.is_none()
            && reader.is_empty();
        is_sound.then_some(RpcResult { table, hash, lease, sequence, floor, status, version, number })
    }
}

impl<'a> Entry<'a> {
    pub fn kind(&self) -> Kind {
        match self {
            Entry::Object(..) => Kind::Object,
            Entry::Tombstone(_) => Kind::Tombstone,
            Entry::SegmentHeader(_) => Kind::SegmentHeader,
            Entry::Digest(_) => Kind::Digest,
            Entry::SafeVersion(_) => Kind::SafeVersion,
            Entry::TabletStats(_) => Kind::TabletStats,
            Entry::RpcResult(_) => Kind::RpcResult,
            Entry::QuorumRecord(_) => Kind::QuorumRecord,
            Entry::Summaries(_) => Kind::Summaries,
        }
    }

    /// The bytes of the entry in a segment, with its header.
    pub fn entry_bytes(&self) -> usize {
        match self {
            Entry::Object(object, older) => object.entry_bytes() + older.encoded().len(),
            Entry::Tombstone(tombstone) => tombstone.entry_bytes(),
            Entry::SegmentHeader(_) => SEGMENT_HEADER_BYTES,
            Entry::Digest(digest) => HEADER_BYTES + 2 + digest.list.len(),
            Entry::SafeVersion(_) => HEADER_BYTES + 8,
            Entry::TabletStats(stats) => HEADER_BYTES + stats.list.len(),
            Entry::RpcResult(result) => result.entry_bytes(),
            Entry::QuorumRecord(record) => record.entry_bytes(),
            Entry::Summaries(summaries) => HEADER_BYTES + summaries.list.len(),
        }
    }

    /// Appends the bytes of the entry. Panics when the entry is beyond the limits, which the caller must keep.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.parts().runs().iter().for_each(|run| out.put_bytes(run));
    }

    #[inline]
    pub(crate) fn parts(&self) -> Parts<'a> {
        match self {
            Entry::Object(object, older) => {
                assert!(object.key.len() <= KEY_BYTES_MAX);
                assert!(object.value.len() <= VALUE_BYTES_MAX);
                assert!(older.count() <= OBJECT_OLDER_COUNT_MAX);
                let mut parts = Parts::new([object.key, object.value])
                    .put(&object.table.0.to_le_bytes())
                    .put_version(object.version)
                    .put(&object.time.to_le_bytes())
                    .put(&(object.key.len() as u16).to_le_bytes());
                let mut flags = record_flags(object.version, older);
                if let Some(expires) = object.expires {
                    flags |= EXPIRES;
                    parts.add(&expires.0.to_le_bytes());
                }
                if !older.is_empty() {
                    parts.add(older.encoded());
                }
                parts.seal(Kind::Object, flags)
            }
            Entry::Tombstone(tombstone) => {
                assert!(tombstone.key.len() <= KEY_BYTES_MAX);
                Parts::new([tombstone.key, &[]])
                    .put(&tombstone.table.0.to_le_bytes())
                    .put_version(tombstone.version)
                    .put(&tombstone.time.to_le_bytes())
                    .put(tombstone.segments.encoded())
                    .seal(Kind::Tombstone, record_flags(tombstone.version, &tombstone.segments))
            }
            Entry::SegmentHeader(header) => Parts::new([&[], &[]])
                .put(&FORMAT.to_le_bytes())
                .put(&header.log.shard.0.to_le_bytes())
                .put(&header.stream.0.to_le_bytes())
                .put(&header.cluster.0.to_le_bytes())
                .put(&header.log.server.0.to_le_bytes())
                .put(&header.segment.0.to_le_bytes())
                .put(&header.created.0.to_le_bytes())
                .seal(Kind::SegmentHeader, 0),
            Entry::Digest(digest) => {
                Parts::new([digest.list, &[]]).put(&digest.stream.0.to_le_bytes()).seal(Kind::Digest, 0)
            }
            Entry::SafeVersion(version) => {
                Parts::new([&[], &[]]).put(&version.0.to_le_bytes()).seal(Kind::SafeVersion, 0)
            }
            Entry::TabletStats(stats) => Parts::new([stats.list, &[]]).seal(Kind::TabletStats, 0),
            Entry::RpcResult(result) => {
                assert!(!result.lease.is_none() && !result.sequence.is_none());
                assert!(result.version <= VERSION_MAX);
                let wide = if is_wide(result.version) { WIDE } else { 0 };
                let number = if result.number.is_some() { NUMBER } else { 0 };
                let mut parts = Parts::new([&[], &[]])
                    .put(&result.table.0.to_le_bytes())
                    .put(&result.hash.0.to_le_bytes())
                    .put(&result.lease.0.to_le_bytes())
                    .put(&result.sequence.0.to_le_bytes())
                    .put(&result.above_floor().to_le_bytes())
                    .put(&result.status.code().to_le_bytes())
                    .put_number(result.version);
                if let Some(bits) = result.number {
                    parts.add(&bits.to_le_bytes());
                }
                parts.seal(Kind::RpcResult, wide | number)
            }
            Entry::QuorumRecord(record) => record.parts(),
            Entry::Summaries(summaries) => Parts::new([summaries.list, &[]]).seal(Kind::Summaries, 0),
        }
    }

    /// The entry that `bytes` start with, its checksum verified, and its length in bytes.
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
    pub(crate) fn decode_body(kind: Kind, word: Word, bytes: &'a [u8]) -> Result<Entry<'a>, Damage> {
        let malformed = Damage::Malformed(kind);
        let body = &bytes[HEADER_BYTES..];
        match kind {
            Kind::Object | Kind::Tombstone => {
                let prefix = RecordPrefix::read(word, bytes).ok_or(malformed)?;
                let (key, value) = bytes[prefix.key_start..].split_at(prefix.key_bytes);
                let older = prefix.older(bytes);
                let RecordPrefix { table, version, time, expires, .. } = prefix;
                Ok(match kind {
                    Kind::Object => {
                        Entry::Object(Object { table, version, time, expires, key, value }, older)
                    }
                    _ => Entry::Tombstone(Tombstone { table, version, time, segments: older, key }),
                })
            }
            Kind::SegmentHeader => decode_segment_header(word, body),
            Kind::Digest => {
                let (stream, list) = body.split_first_chunk::<2>().ok_or(malformed)?;
                if !list.len().is_multiple_of(8) || word.has(FLAGS) {
                    return Err(malformed);
                }
                Ok(Entry::Digest(Digest { stream: StreamId(u16::from_le_bytes(*stream)), list }))
            }
            Kind::SafeVersion => {
                let version = Version(u64::from_le_bytes(body.try_into().map_err(|_| malformed)?));
                if version > VERSION_MAX.next() || word.has(FLAGS) {
                    return Err(malformed);
                }
                Ok(Entry::SafeVersion(version))
            }
            Kind::TabletStats => {
                if !body.len().is_multiple_of(STAT_BYTES) || word.has(FLAGS) {
                    return Err(malformed);
                }
                Ok(Entry::TabletStats(TabletStats { list: body }))
            }
            Kind::RpcResult => RpcResult::decode(word, body).map(Entry::RpcResult).ok_or(malformed),
            Kind::QuorumRecord => QuorumRecord::decode(word, bytes).map(Entry::QuorumRecord).ok_or(malformed),
            Kind::Summaries => {
                if !body.len().is_multiple_of(SUMMARY_BYTES) || word.has(FLAGS) {
                    return Err(malformed);
                }
                Ok(Entry::Summaries(Summaries { list: body }))
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
    if !reader.is_empty() || word.has(FLAGS) {
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

/// The second word of an entry: kind, flags, length of the body.
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
        (self.0 >> KIND_SHIFT) as u8 & KIND_NUMBER_MAX
    }

    /// Whether any of these flags is set.
    fn has(self, flags: u32) -> bool {
        self.0 & flags != 0
    }
}

/// The fields of an object, a tombstone or a quorum record before its key.
pub(crate) struct RecordPrefix {
    pub(crate) table: TableId,
    /// For a quorum record: the time of its stamp.
    pub(crate) version: Version,
    pub(crate) time: u32,
    pub(crate) expires: Option<ClusterTime>,
    /// Bytes of the list of segments, which ends where the key starts.
    pub(crate) older_bytes: usize,
    /// The offset of the key in the entry.
    pub(crate) key_start: usize,
    pub(crate) key_bytes: usize,
}

impl RecordPrefix {
    /// Reads the prefix of the entry whose word is `word`, from the start of the entry: at least
    /// `RECORD_PREFIX_BYTES_MAX` bytes of it, or all of it. `None` if the entry is of another kind or contradicts the
    /// format.
    #[inline]
    pub(crate) fn read(word: Word, entry: &[u8]) -> Option<RecordPrefix> {
        let entry_bytes = word.entry_bytes();
        let mut reader = Reader::new(entry);
        reader.take(HEADER_BYTES)?;
        let table = TableId(reader.u32()?);
        if word.kind()? == Kind::QuorumRecord {
            return RecordPrefix::read_quorum(word, table, reader);
        }
        let version = Version(if word.has(WIDE) { reader.u64()? } else { u64::from(reader.u32()?) });
        let time = reader.u32()?;
        if version.is_none() || version > VERSION_MAX || is_wide(version) != word.has(WIDE) {
            return None;
        }
        let wide_bytes = if word.has(WIDE) { 4 } else { 0 };
        match word.kind()? {
            Kind::Object => {
                let key_bytes = usize::from(reader.u16()?);
                let expires = if word.has(EXPIRES) { Some(ClusterTime(reader.u64()?)) } else { None };
                let older_start = OBJECT_OVERHEAD_BYTES + wide_bytes + if word.has(EXPIRES) { 8 } else { 0 };
                let older_bytes = read_older(word, entry, older_start, OBJECT_OLDER_COUNT_MAX)?;
                let key_start = older_start + older_bytes;
                let value_bytes = entry_bytes.checked_sub(key_start + key_bytes)?;
                let prefix =
                    RecordPrefix { table, version, time, expires, older_bytes, key_start, key_bytes };
                (value_bytes <= VALUE_BYTES_MAX).then_some(prefix)
            }
            Kind::Tombstone => {
                let older_start = TOMBSTONE_OVERHEAD_BYTES + wide_bytes;
                let older_bytes = read_older(word, entry, older_start, TOMBSTONE_OLDER_COUNT_MAX)?;
                let key_start = older_start + older_bytes;
                let key_bytes = entry_bytes.checked_sub(key_start)?;
                let prefix =
                    RecordPrefix { table, version, time, expires: None, older_bytes, key_start, key_bytes };
                (key_bytes <= KEY_BYTES_MAX && !word.has(EXPIRES)).then_some(prefix)
            }
            Kind::SegmentHeader
            | Kind::Digest
            | Kind::SafeVersion
            | Kind::TabletStats
            | Kind::RpcResult
            | Kind::QuorumRecord
            | Kind::Summaries => None,
        }
    }

    /// The list of segments of the entry from which the prefix was read.
    pub(crate) fn older(&self, entry: &[u8]) -> OlderList {
        OlderList::decode(&entry[self.key_start - self.older_bytes..self.key_start])
    }
}

/// The length of an entry's list of segments in bytes. The list starts at `start` if there is one.
#[inline]
fn read_older(word: Word, entry: &[u8], start: usize, count_max: usize) -> Option<usize> {
    if word.has(OLDER) { OlderList::check(entry.get(start..)?, count_max) } else { Some(0) }
}

/// The entry that `bytes` start with, and its word, if its checksum holds.
#[inline]
pub(crate) fn verified(bytes: &[u8]) -> Option<(Word, &[u8])> {
    let (word, entry) = split(bytes)?;
    let (stored, covered) = entry.split_first_chunk::<4>()?;
    (crc(covered) == u32::from_le_bytes(*stored)).then_some((word, entry))
}

/// The entry that `bytes` start with, and its word. Nothing else of the entry is checked.
#[inline]
pub(crate) fn split(bytes: &[u8]) -> Option<(Word, &[u8])> {
    let [.., a, b, c, d] = *bytes.first_chunk::<HEADER_BYTES>()?;
    let word = Word(u32::from_le_bytes([a, b, c, d]));
    Some((word, bytes.get(..word.entry_bytes())?))
}

/// In a quorum record: it is a tombstone.
const DELETED: u32 = WIDE;
/// The bytes of a quorum record beyond its key and value, if it does not expire.
pub const QUORUM_OVERHEAD_BYTES: usize = HEADER_BYTES + 22;

/// One value of one key of a quorum table, or the tombstone that ends all older ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuorumRecord<'a> {
    pub table: TableId,
    /// Its time is from 1 to 2^62, and its session is not 0.
    pub stamp: Stamp,
    /// The time from which the value does not exist, if it has one: milliseconds of the table's time. A tombstone has
    /// none.
    pub expires: Option<ClusterTime>,
    pub key: &'a [u8],
    /// `None`: a tombstone.
    pub value: Option<&'a [u8]>,
}

impl<'a> QuorumRecord<'a> {
    /// The bytes of the entry in a segment, with its header.
    pub fn entry_bytes(&self) -> usize {
        let expires_bytes = if self.expires.is_some() { 8 } else { 0 };
        QUORUM_OVERHEAD_BYTES + expires_bytes + self.key.len() + self.value.map_or(0, <[u8]>::len)
    }

    /// Whether a log can hold a record with this stamp.
    pub fn is_possible(stamp: Stamp) -> bool {
        (1..=VERSION_MAX.0).contains(&stamp.time) && stamp.session != 0
    }

    fn parts(&self) -> Parts<'a> {
        assert!(self.key.len() <= KEY_BYTES_MAX);
        assert!(self.value.is_none_or(|value| value.len() <= VALUE_BYTES_MAX));
        assert!(QuorumRecord::is_possible(self.stamp));
        assert!(self.value.is_some() || self.expires.is_none(), "a tombstone does not expire");
        let mut parts = Parts::new([self.key, self.value.unwrap_or_default()])
            .put(&self.table.0.to_le_bytes())
            .put(&self.stamp.time.to_le_bytes())
            .put(&self.stamp.session.to_le_bytes())
            .put(&(self.key.len() as u16).to_le_bytes());
        let mut flags = if self.value.is_none() { DELETED } else { 0 };
        if let Some(expires) = self.expires {
            flags |= EXPIRES;
            parts.add(&expires.0.to_le_bytes());
        }
        parts.seal(Kind::QuorumRecord, flags)
    }

    /// `bytes` are the whole entry.
    fn decode(word: Word, bytes: &'a [u8]) -> Option<QuorumRecord<'a>> {
        let prefix = RecordPrefix::read(word, bytes)?;
        let stamp = prefix.stamp(bytes);
        let (key, value) = bytes[prefix.key_start..].split_at(prefix.key_bytes);
        let value = (!word.has(DELETED)).then_some(value);
        Some(QuorumRecord { table: prefix.table, stamp, expires: prefix.expires, key, value })
    }
}

impl Word {
    /// Whether a quorum record is a tombstone.
    pub(crate) fn is_deleted(self) -> bool {
        self.has(DELETED)
    }
}

impl RecordPrefix {
    fn read_quorum(word: Word, table: TableId, mut reader: Reader<'_>) -> Option<RecordPrefix> {
        let stamp = Stamp { time: reader.u64()?, session: reader.u64()? };
        let key_bytes = usize::from(reader.u16()?);
        let expires = if word.has(EXPIRES) { Some(ClusterTime(reader.u64()?)) } else { None };
        let key_start = QUORUM_OVERHEAD_BYTES + if expires.is_some() { 8 } else { 0 };
        let value_bytes = word.entry_bytes().checked_sub(key_start + key_bytes)?;
        let is_sound = QuorumRecord::is_possible(stamp)
            && value_bytes <= VALUE_BYTES_MAX
            && !word.has(OLDER)
            && !(word.is_deleted() && (value_bytes > 0 || expires.is_some()));
        let time = u32::try_from(stamp.time / 1_000_000).unwrap_or(u32::MAX);
        let version = Version(stamp.time);
        is_sound.then_some(RecordPrefix {
            table,
            version,
            time,
            expires,
            older_bytes: 0,
            key_start,
            key_bytes,
        })
    }

    /// The stamp of the quorum record from which the prefix was read.
    pub(crate) fn stamp(&self, entry: &[u8]) -> Stamp {
        const AT: usize = HEADER_BYTES + 4 + 8;
        let session = entry[AT..].first_chunk().expect("the prefix was read");
        Stamp { time: self.version.0, session: u64::from_le_bytes(*session) }
    }
}

#[cfg(test)]
mod tests;
