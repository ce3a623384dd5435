//! Whether the replicas that the backups hold are a dead server's whole log.
//!
//! Pure: the input is the registered streams and the reported replicas. The output is which segments to replay, up to
//! where and from which backups; or what is missing. A stream that is not registered never acknowledged anything.
//!
//! Invariants:
//! - a cut, stale or side replica never proves a head; a segment that is not the head counts only closed and whole;
//! - the end of a head is the end of the shortest replica that may be the head: each such replica holds all that was
//!   acknowledged, and can be replayed up to that end, whichever of them is lost later;
//! - once ends are fixed, another end is given only with a loss, when the fixed end cannot be had;
//! - a loss is accepted only when every directory that could hold a replica has answered, or was given up by an
//!   operator.
//!
//! Protocol: docs/protocols/recovery.md, 3. Catalogue: D8, D9, F2. Source: SOSP11 3.4.

use crate::records::{EndRecord, StreamRecord};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, Epoch, SegmentId, ServerId, ShardId, StreamId, Version};
use ramhold_wire::membership::Durability;
use ramhold_wire::recovery::{Opening, ReplicaReport, TabletStat};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A replica, and the backup that reported it.
#[derive(Clone, Copy, Debug)]
pub struct HeldReplica<'a> {
    pub backup: ServerId,
    pub report: &'a ReplicaReport,
}

/// How complete the answers of the backups are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// More replicas may still be reported.
    Partial,
    /// Every directory that could hold a replica has answered: a replica that is not there will not come.
    Final,
    /// Every directory has answered or was given up by an operator, who also gives up the ends with which recovery has
    /// begun.
    GivenUp,
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Proof {
    pub streams: Vec<StreamProof>,
    /// The highest safe version in any opening that was found.
    pub safe_version: Version,
}

impl Proof {
    pub fn ends(&self) -> Vec<EndRecord> {
        self.streams.iter().flat_map(|s| &s.ends).copied().collect()
    }

    pub fn has_loss(&self) -> bool {
        self.streams.iter().any(|s| s.ends.iter().any(|e| e.lost))
    }

    pub fn segments(&self) -> u64 {
        self.streams.iter().map(|s| s.segments.len() as u64).sum()
    }

    /// Whether both proofs replay the same bytes, perhaps from other sources.
    pub fn replays_like(&self, other: &Proof) -> bool {
        let what = |proof: &Proof| -> Vec<(ShardId, StreamId, SegmentId, u32)> {
            let of = |s: &StreamProof| {
                let (shard, stream) = (s.shard, s.stream);
                s.segments.iter().map(move |g| (shard, stream, g.segment, g.end)).collect::<Vec<_>>()
            };
            proof.streams.iter().flat_map(of).collect()
        };
        self.ends() == other.ends() && what(self) == what(other)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamProof {
    pub shard: ShardId,
    pub stream: StreamId,
    pub durability: Durability,
    /// The end of the head, and after a loss those of all segments that are not whole. A recovery has to keep to them.
    pub ends: Vec<EndRecord>,
    pub segments: Vec<SegmentProof>,
    /// The statistics in the head.
    pub stats: Vec<TabletStat>,
    pub loss: Option<StreamLoss>,
    /// Fewer backups than the stream has replicas hold the last head up to its end, or the head before it. The bytes
    /// that are there may never have been acknowledged.
    pub tail_short: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentProof {
    pub segment: SegmentId,
    /// The segment is replayed exactly up to here; `u32::MAX`: all of it.
    pub end: u32,
    /// Cut replicas last, and primaries before others.
    pub sources: Vec<Source>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    pub backup: ServerId,
    pub epoch: Epoch,
}

/// The facts about a stream whose end is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamLoss {
    /// The time of the newest certificate that was found; zero: none.
    pub certified: ClusterTime,
    pub reason: String,
}

/// A part that a proof lacks. Its text is a sentence for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// No replica may count as the head: each is older than recorded, cut, closed, or not there.
    Head { shard: ShardId, stream: StreamId, segment: SegmentId, epoch: Epoch },
    /// The end is fixed, and no backup that answers holds the segment up to it.
    FixedEnd { shard: ShardId, stream: StreamId, segment: SegmentId, end: u32 },
    /// No replica of a segment in the digest is closed and whole; `open` and `cut` are the numbers of others that were
    /// found.
    Segment { shard: ShardId, stream: StreamId, segment: SegmentId, open: u32, cut: u32 },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Head { shard, stream, segment, epoch } => write!(
                f,
                "no backup that answers holds a head of {shard}/{stream} at {segment} epoch {epoch} or newer"
            ),
            Missing::FixedEnd { shard, stream, segment, end } => write!(
                f,
                "no backup that answers holds {segment} of {shard}/{stream} up to byte {end}, where recovery has begun"
            ),
            Missing::Segment { shard, stream, segment, open: 0, cut: 0 } => {
                write!(f, "no backup that answers holds {segment} of {shard}/{stream}")
            }
            Missing::Segment { shard, stream, segment, open, cut } => write!(
                f,
                "no backup that answers holds a whole {segment} of {shard}/{stream}; \
                 {open} stale open and {cut} cut replicas were found"
            ),
        }
    }
}

/// Proves every stream with R > 0 complete, or tells everything that is missing. `fixed` are the ends to keep to, such
/// as those of partitions that are live already; empty: the ends are chosen.
pub fn prove(
    streams: &[StreamRecord],
    replicas: &[HeldReplica<'_>],
    fixed: &[EndRecord],
    evidence: Evidence,
) -> Result<Proof, Vec<Missing>> {
    let mut held: BTreeMap<(ShardId, StreamId), Held<'_>> = BTreeMap::new();
    for replica in replicas {
        let report = replica.report;
        let of_stream = held.entry((report.shard, report.stream)).or_default();
        of_stream.entry(report.segment).or_default().push(*replica);
    }
    let mut proof = Proof::default();
    let mut missing = Vec::new();
    let none = Held::new();
    for stream in streams.iter().filter(|s| s.replicas > 0) {
        let held = held.get(&(stream.shard, stream.stream)).unwrap_or(&none);
        let ends: Vec<EndRecord> =
            fixed.iter().filter(|e| e.shard == stream.shard && e.stream == stream.stream).copied().collect();
        let result = match ends.iter().find(|e| e.head) {
            Some(head) => stream_as_fixed(stream, held, head, &ends),
            None => stream_complete(stream, held),
        };
        let result = result.or_else(|missing| match evidence {
            Evidence::Partial => Err(missing),
            Evidence::Final | Evidence::GivenUp => Ok(stream_after_loss(stream, held, &missing, evidence)),
        });
        match result {
            Ok(stream) => proof.streams.push(stream),
            Err(lacks) => missing.extend(lacks),
        }
    }
    if !missing.is_empty() {
        return Err(missing);
    }
    proof.safe_version = replicas
        .iter()
        .filter_map(|r| r.report.opening.as_ref())
        .map(|o| o.safe_version)
        .max()
        .unwrap_or_default();
    Ok(proof)
}

type Held<'a> = BTreeMap<SegmentId, Vec<HeldReplica<'a>>>;

/// The usual proof: the oldest segment with an open replica that may count is the head, and all others must be closed
/// and whole.
fn stream_complete(record: &StreamRecord, held: &Held<'_>) -> Result<StreamProof, Vec<Missing>> {
    let Some(head) = held.values().find_map(|replicas| shortest_head(record, replicas)) else {
        let StreamRecord { shard, stream, segment, epoch, .. } = *record;
        return Err(vec![Missing::Head { shard, stream, segment, epoch }]);
    };
    let end = EndRecord {
        shard: record.shard,
        stream: record.stream,
        segment: head.report.segment,
        epoch: head.report.epoch,
        end: head.report.certified,
        head: true,
        lost: false,
    };
    let opening = head.report.opening.as_ref().expect("a candidate has an opening");
    segments_of(record, held, opening, &[end])
}

/// The shortest of a segment's replicas that may be the head.
fn shortest_head<'a>(record: &StreamRecord, replicas: &[HeldReplica<'a>]) -> Option<HeldReplica<'a>> {
    let candidates = replicas.iter().filter(|r| may_be_head(record, r.report));
    candidates.min_by_key(|r| (r.report.certified, Reverse(r.report.epoch))).copied()
}

/// Whether a replica may be the head: open, whole, in the head order, with a digest that names it, and not below the
/// recorded head.
fn may_be_head(record: &StreamRecord, report: &ReplicaReport) -> bool {
    is_current(record, report) && !report.closed && !report.cut && opening_of(report).is_some()
}

/// Whether a replica has all that was ever acknowledged of its segment, if that segment is the head. Nothing was
/// acknowledged above the recorded epoch, and every replica at that epoch took part in all acknowledgements.
fn is_current(record: &StreamRecord, report: &ReplicaReport) -> bool {
    (report.segment, report.epoch) >= (record.segment, record.epoch) || planted(Defect::OldHeadProves)
}

/// The opening of a replica, if that is in the head order.
fn opening_of(report: &ReplicaReport) -> Option<&Opening> {
    let opening = report.opening.as_ref()?;
    (!report.side && opening.digest.contains(&report.segment)).then_some(opening)
}

/// The proof with the same ends as before, whichever backups hold them now.
fn stream_as_fixed(
    record: &StreamRecord,
    held: &Held<'_>,
    head: &EndRecord,
    ends: &[EndRecord],
) -> Result<StreamProof, Vec<Missing>> {
    let StreamRecord { shard, stream, .. } = *record;
    if head.segment.is_none() {
        return Ok(nothing_found(record, ends.to_vec()));
    }
    let replicas = held.get(&head.segment).map_or(&[][..], Vec::as_slice);
    let Some(opening) = replicas.iter().find_map(|r| opening_of(r.report)) else {
        return Err(vec![Missing::FixedEnd { shard, stream, segment: head.segment, end: head.end }]);
    };
    segments_of(record, held, opening, ends)
}

/// All segments of a digest: those with a given end up to that end, all others closed and whole.
fn segments_of(
    record: &StreamRecord,
    held: &Held<'_>,
    opening: &Opening,
    ends: &[EndRecord],
) -> Result<StreamProof, Vec<Missing>> {
    let StreamRecord { shard, stream, durability, .. } = *record;
    // The head before this one may have been closed on some of its backups alone.
    let mut before_head = SegmentId::NONE;
    let mut segments = Vec::new();
    let mut missing = Vec::new();
    let digest: BTreeSet<SegmentId> = opening.digest.iter().copied().collect();
    for segment in digest {
        let replicas = held.get(&segment).map_or(&[][..], Vec::as_slice);
        let (end, sources) = match ends.iter().find(|e| e.segment == segment) {
            Some(end) if end.end == 0 => continue,
            Some(end) => (end.end, sources(replicas, |r| reaches(record, r, end))),
            None => (u32::MAX, sources(replicas, is_whole)),
        };
        if sources.is_empty() && planted(Defect::MissingLeftOut) {
            continue;
        }
        if end == u32::MAX && replicas.iter().any(|r| !r.report.side) {
            before_head = segment;
        }
        if !sources.is_empty() {
            segments.push(SegmentProof { segment, end, sources });
        } else if end == u32::MAX {
            let open = replicas.iter().filter(|r| !r.report.cut).count() as u32;
            let cut = replicas.len() as u32 - open;
            missing.push(Missing::Segment { shard, stream, segment, open, cut });
        } else {
            missing.push(Missing::FixedEnd { shard, stream, segment, end });
        }
    }
    if !missing.is_empty() {
        return Err(missing);
    }
    let (ends, stats) = (ends.to_vec(), opening.stats.clone());
    let is_short = |segment: &SegmentProof| {
        let backups: BTreeSet<ServerId> = segment.sources.iter().map(|source| source.backup).collect();
        backups.len() < usize::from(record.replicas)
    };
    let is_tail = |segment: &&SegmentProof| segment.end != u32::MAX || segment.segment == before_head;
    let tail_short = segments.iter().filter(is_tail).any(is_short);
    Ok(StreamProof { shard, stream, durability, ends, segments, stats, loss: None, tail_short })
}

fn is_whole(report: &ReplicaReport) -> bool {
    (report.closed && !report.cut) || planted(Defect::OpenCountsAsWhole)
}

/// Whether a replica can be replayed up to an end. A segment only grows, so a longer certificate covers the bytes of a
/// shorter one, whatever the epochs. That also holds for a replica that may have lost what came after its newest
/// certificate. After a loss everything that is certified counts.
fn reaches(record: &StreamRecord, report: &ReplicaReport, end: &EndRecord) -> bool {
    report.certified >= end.end && (end.lost || is_current(record, report))
}

fn sources(replicas: &[HeldReplica<'_>], usable: impl Fn(&ReplicaReport) -> bool) -> Vec<Source> {
    let mut usable: Vec<&HeldReplica<'_>> = replicas.iter().filter(|r| usable(r.report)).collect();
    usable.sort_by_key(|r| (r.report.cut, !r.report.primary, r.backup));
    usable.dedup_by_key(|r| r.backup);
    usable.iter().map(|r| Source { backup: r.backup, epoch: r.report.epoch }).collect()
}

/// The proof after a loss: the newest digest that is left, with each segment as far as it is certified.
fn stream_after_loss(
    record: &StreamRecord,
    held: &Held<'_>,
    missing: &[Missing],
    evidence: Evidence,
) -> StreamProof {
    let StreamRecord { shard, stream, .. } = *record;
    let all = held.values().flatten();
    let newest = all.clone().filter(|r| opening_of(r.report).is_some());
    let newest = newest.max_by_key(|r| (r.report.segment, r.report.epoch, r.report.certified, r.backup));
    let mut reasons: Vec<String> = missing.iter().take(8).map(Missing::to_string).collect();
    reasons.push(match evidence {
        Evidence::GivenUp => "an operator has given up the servers that have not answered".into(),
        Evidence::Partial | Evidence::Final => "every directory of the cluster has answered".to_owned(),
    });
    let loss = StreamLoss {
        certified: all.map(|r| r.report.time).max().unwrap_or_default(),
        reason: reasons.join("; "),
    };
    let end_of = |segment: SegmentId, epoch: Epoch, end: u32, head: bool| EndRecord {
        shard,
        stream,
        segment,
        epoch,
        end,
        head,
        lost: true,
    };
    let Some(newest) = newest else {
        let ends = vec![end_of(SegmentId::NONE, Epoch::NONE, 0, true)];
        return StreamProof { loss: Some(loss), ..nothing_found(record, ends) };
    };
    let opening = opening_of(newest.report).expect("it was chosen for that");
    let mut ends = Vec::new();
    for segment in opening.digest.iter().copied().collect::<BTreeSet<_>>() {
        let head = segment == newest.report.segment;
        let replicas = held.get(&segment).map_or(&[][..], Vec::as_slice);
        let whole = replicas.iter().any(|r| is_whole(r.report));
        let longest = replicas.iter().map(|r| (r.report.certified, r.report.epoch)).max();
        match longest {
            Some(_) if whole && !head => {}
            Some((end, epoch)) => ends.push(end_of(segment, epoch, end, head)),
            None => ends.push(end_of(segment, Epoch::NONE, 0, head)),
        }
    }
    let proof = segments_of(record, held, opening, &ends).expect("ends were taken from what is there");
    StreamProof { loss: Some(loss), ..proof }
}

fn nothing_found(record: &StreamRecord, ends: Vec<EndRecord>) -> StreamProof {
    let StreamRecord { shard, stream, durability, .. } = *record;
    let (segments, stats) = (Vec::new(), Vec::new());
    StreamProof { shard, stream, durability, ends, segments, stats, loss: None, tail_short: false }
}
