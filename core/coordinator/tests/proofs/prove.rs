//! Schedules that a weaker proof would accept. Names: n = 5 is the head, 6 the next one; backups are 1 to 6.

use ramhold_base::{ClusterTime, Epoch, Rng, SegmentId, ServerId, ShardId, StreamId, Version};
use ramhold_coordinator::{EndRecord, Evidence, HeldReplica, Missing, Proof, StreamRecord, prove};
use ramhold_wire::membership::Durability;
use ramhold_wire::recovery::{Opening, ReplicaReport};

type Held = Vec<(u64, ReplicaReport)>;

fn stream(segment: u64, epoch: u32) -> StreamRecord {
    StreamRecord {
        shard: ShardId(0),
        stream: StreamId(1),
        durability: Durability::Buffered,
        replicas: 3,
        segment: SegmentId(segment),
        epoch: Epoch(epoch),
        neighbourhood: None,
    }
}

fn open(segment: u64, epoch: u32, certified: u32, digest: &[u64]) -> ReplicaReport {
    ReplicaReport {
        shard: ShardId(0),
        stream: StreamId(1),
        segment: SegmentId(segment),
        epoch: Epoch(epoch),
        closed: false,
        certified,
        primary: false,
        cut: false,
        side: false,
        time: ClusterTime(u64::from(certified)),
        opening: Some(Opening {
            digest: digest.iter().map(|s| SegmentId(*s)).collect(),
            safe_version: Version(segment),
            stats: Vec::new(),
        }),
    }
}

fn closed(segment: u64) -> ReplicaReport {
    ReplicaReport { closed: true, opening: None, ..open(segment, 0, 4000, &[]) }
}

fn cut(report: ReplicaReport) -> ReplicaReport {
    ReplicaReport { cut: true, ..report }
}

fn proven(record: StreamRecord, held: &Held) -> Result<Proof, Vec<Missing>> {
    with(record, held, &[], Evidence::Partial)
}

fn with(
    record: StreamRecord,
    held: &Held,
    fixed: &[EndRecord],
    evidence: Evidence,
) -> Result<Proof, Vec<Missing>> {
    let replicas: Vec<HeldReplica<'_>> =
        held.iter().map(|(backup, report)| HeldReplica { backup: ServerId(*backup), report }).collect();
    prove(&[record], &replicas, fixed, evidence)
}

fn head(proof: &Proof) -> (u64, u32) {
    let end = proof.streams[0].ends.iter().find(|e| e.head).expect("a head");
    (end.segment.raw(), end.end)
}

fn sources(proof: &Proof, segment: u64) -> Vec<u64> {
    let all = &proof.streams[0].segments;
    let found = all.iter().find(|s| s.segment.raw() == segment).expect("the segment");
    found.sources.iter().map(|s| s.backup.raw()).collect()
}

// A3, D8: such results are not told again before R backups have them.
#[test]
fn a_tail_is_short_when_fewer_backups_hold_it_than_the_stream_has_replicas() {
    let is_short = |held: &Held| proven(stream(5, 0), held).unwrap().streams[0].tail_short;
    let heads = |lengths: &[u32]| -> Held {
        (1..).zip(lengths).map(|(backup, length)| (backup, open(5, 0, *length, &[4, 5]))).collect()
    };
    let old = |count: u64| (1..=count).map(|backup| (backup, closed(4)));
    let with_old = |mut held: Held, count: u64| {
        held.extend(old(count));
        is_short(&held)
    };
    assert!(!with_old(heads(&[700, 900, 800]), 3), "all have it up to the end");
    assert!(with_old(heads(&[700, 900]), 3), "the end is that of a replica which may be the longest");
    assert!(with_old(heads(&[700, 900, 800]), 2), "the head before may not be closed on all");
    let side = ReplicaReport { side: true, ..closed(3) };
    let mut held: Held = (1..=3).map(|backup| (backup, open(5, 0, 700, &[3, 4, 5]))).collect();
    held.extend(old(3));
    held.push((1, side));
    assert!(!is_short(&held), "a side segment was whole before it counted");
    let one = StreamRecord { replicas: 1, ..stream(5, 0) };
    let held = vec![(1, open(5, 0, 700, &[4, 5])), (2, closed(4))];
    assert!(!proven(one, &held).unwrap().streams[0].tail_short);
}

// F2
#[test]
fn a_head_and_its_closed_segments_are_a_whole_log() {
    let primary = ReplicaReport { primary: true, ..closed(4) };
    let held =
        vec![(1, open(5, 0, 700, &[4, 5])), (2, open(5, 0, 900, &[4, 5])), (3, closed(4)), (4, primary)];
    let proof = proven(stream(1, 0), &held).unwrap();
    assert_eq!(head(&proof), (5, 700), "what was acknowledged is in both");
    assert_eq!(sources(&proof, 5), [1, 2], "so either will do");
    assert_eq!(sources(&proof, 4), [4, 3], "primaries first");
    assert_eq!(proof.safe_version, Version(5));
    assert!(!proof.has_loss());
}

// F2, faults B1
#[test]
fn of_two_open_heads_the_older_counts() {
    let held = vec![(1, open(5, 0, 900, &[4, 5])), (4, open(6, 0, 90, &[4, 5, 6])), (2, closed(4))];
    let proof = proven(stream(1, 0), &held).unwrap();
    assert_eq!(head(&proof), (5, 900));
    assert_eq!(proof.safe_version, Version(6), "of all heads");
}

// F2, faults B2, B3
#[test]
fn no_head_or_a_segment_without_a_replica_is_missing() {
    let nothing = proven(stream(1, 0), &vec![(1, closed(4))]).unwrap_err();
    assert!(matches!(nothing[..], [Missing::Head { .. }]));
    let hole = proven(stream(1, 0), &vec![(1, open(5, 0, 9, &[3, 4, 5])), (2, closed(4))]).unwrap_err();
    assert_eq!(
        hole,
        [Missing::Segment { shard: ShardId(0), stream: StreamId(1), segment: SegmentId(3), open: 0, cut: 0 }]
    );
    assert!(hole[0].to_string().contains("seg3"));
}

// D8, faults B4
#[test]
fn a_replica_below_the_recorded_epoch_is_no_head() {
    let held = vec![(2, open(5, 0, 900, &[5]))];
    assert!(proven(stream(5, 1), &held).is_err());
    assert!(proven(stream(6, 0), &held).is_err());
    assert!(proven(stream(5, 0), &held).is_ok());
    assert!(proven(stream(4, 9), &held).is_ok(), "a higher segment counts with any epoch");
}

// D8, F2: an epoch that was never recorded acknowledged nothing, and what was before it is in every replica.
#[test]
fn among_replicas_of_the_head_the_shortest_of_a_recorded_epoch_counts() {
    let held = vec![(1, open(5, 0, 950, &[5])), (2, open(5, 2, 800, &[5])), (3, open(5, 1, 700, &[5]))];
    for (recorded, end, usable) in [(0, 700, &[1, 2, 3][..]), (1, 700, &[2, 3]), (2, 800, &[2])] {
        let proof = proven(stream(5, recorded), &held).unwrap();
        assert_eq!(head(&proof), (5, end));
        assert_eq!(sources(&proof, 5), usable, "stale is what is below the recorded epoch");
        let again = with(stream(5, recorded), &held, &proof.ends(), Evidence::Partial).unwrap();
        assert!(again.replays_like(&proof));
    }
}

// Schedule 1A: a backup that lost power holds a short head with a valid certificate.
#[test]
fn a_cut_head_proves_nothing() {
    let held = vec![(2, cut(open(5, 0, 400, &[4, 5]))), (3, closed(4))];
    assert!(matches!(proven(stream(1, 0), &held).unwrap_err()[..], [Missing::Head { .. }]));
    let mut back = held.clone();
    back.push((1, open(5, 0, 600, &[4, 5])));
    let proof = proven(stream(1, 0), &back).unwrap();
    assert_eq!(head(&proof), (5, 600));
    assert_eq!(sources(&proof, 5), [1], "a cut replica is no source while a whole one is there");
}

// Schedule 1B: a backup that acknowledged the close of n comes back with n open.
#[test]
fn a_cut_old_head_does_not_hide_the_newer_one() {
    let old = cut(open(5, 0, 900, &[5]));
    assert!(proven(stream(1, 0), &vec![(1, old.clone())]).is_err());
    let held = vec![(1, old), (4, open(6, 0, 300, &[5, 6])), (2, closed(5))];
    assert_eq!(head(&proven(stream(1, 0), &held).unwrap()), (6, 300));
}

// Schedule 2: nothing that is held mentions a registered stream.
#[test]
fn every_registered_stream_is_needed() {
    let held = [(1u64, open(5, 0, 900, &[5]))];
    let replicas: Vec<HeldReplica<'_>> =
        held.iter().map(|(b, report)| HeldReplica { backup: ServerId(*b), report }).collect();
    let second = StreamRecord { stream: StreamId(2), ..stream(1, 0) };
    let missing = prove(&[stream(1, 0), second.clone()], &replicas, &[], Evidence::Partial).unwrap_err();
    assert!(matches!(missing[..], [Missing::Head { stream: StreamId(2), .. }]));
    assert_eq!(prove(&[], &replicas, &[], Evidence::Partial).unwrap().streams, []);
    let unreplicated = StreamRecord { replicas: 0, durability: Durability::None, ..second };
    assert!(prove(&[stream(1, 0), unreplicated], &replicas, &[], Evidence::Partial).is_ok());
}

// Schedule 5a: an empty n+1 from before its epoch was raised.
#[test]
fn an_empty_next_head_from_before_its_epoch_is_refused() {
    let held = vec![(5, open(6, 0, 90, &[5, 6])), (1, closed(5))];
    assert!(proven(stream(6, 1), &held).is_err());
}

// Schedule 5b: one backup never heard of the close of n.
#[test]
fn an_open_replica_of_a_closed_segment_is_stale_unless_it_may_be_the_head() {
    let held = vec![(2, open(5, 0, 900, &[5])), (4, open(6, 0, 300, &[5, 6])), (1, closed(5))];
    assert_eq!(head(&proven(stream(1, 0), &held).unwrap()), (5, 900), "then 6 was never written to");
    let recorded = proven(stream(5, 1), &held).unwrap();
    assert_eq!(head(&recorded), (6, 300));
    assert_eq!(sources(&recorded, 5), [1]);
    let lone = vec![(2, open(5, 0, 900, &[5])), (4, open(6, 0, 300, &[5, 6]))];
    let missing = proven(stream(5, 1), &lone).unwrap_err();
    assert!(matches!(missing[..], [Missing::Segment { open: 1, .. }]));
}

// Schedule 5c: the backups' epoch is ahead of the record.
#[test]
fn an_epoch_above_the_recorded_one_is_fine() {
    assert_eq!(head(&proven(stream(5, 1), &vec![(1, open(5, 2, 10, &[5]))]).unwrap()), (5, 10));
}

// D9
#[test]
fn side_segments_and_replicas_without_a_digest_are_no_heads() {
    let side = ReplicaReport { side: true, ..open(5, 0, 900, &[5]) };
    let mute = ReplicaReport { opening: None, ..open(5, 0, 900, &[]) };
    let liar = open(5, 0, 900, &[4, 6]);
    for report in [side, mute, liar] {
        assert!(proven(stream(1, 0), &vec![(1, report), (2, closed(4)), (2, closed(6))]).is_err());
    }
    let survivor = ReplicaReport { side: true, ..closed(9) };
    let held = vec![(1, open(5, 0, 900, &[5, 9])), (2, survivor)];
    assert_eq!(sources(&proven(stream(1, 0), &held).unwrap(), 9), [2], "a named side segment counts");
}

// F6, schedule 6: all partitions replay the same head.
#[test]
fn a_fixed_end_is_kept_or_waited_for() {
    let first = vec![(1, open(5, 0, 500, &[4, 5])), (2, closed(4))];
    let ends = proven(stream(1, 0), &first).unwrap().ends();
    let longer = vec![(3, open(5, 0, 800, &[4, 5])), (2, closed(4))];
    let proof = with(stream(1, 0), &longer, &ends, Evidence::Partial).unwrap();
    assert_eq!(head(&proof), (5, 500));
    assert_eq!(sources(&proof, 5), [3]);
    let shorter = vec![(3, open(5, 0, 400, &[4, 5])), (2, closed(4))];
    let missing = with(stream(1, 0), &shorter, &ends, Evidence::Partial).unwrap_err();
    assert!(matches!(missing[..], [Missing::FixedEnd { end: 500, .. }]));
    let lost = with(stream(1, 0), &shorter, &ends, Evidence::Final).unwrap();
    assert_eq!(head(&lost), (5, 400), "when nothing more can come");
    assert!(lost.has_loss(), "and that is said");
    let older = vec![(7, open(4, 0, 50, &[4])), (1, open(5, 0, 500, &[4, 5])), (2, closed(4))];
    assert_eq!(head(&with(stream(1, 0), &older, &ends, Evidence::Partial).unwrap()), (5, 500));
}

// F2, D9: what stands on one backup alone was never acknowledged, and must not be waited for when that one is lost.
#[test]
fn a_partition_is_not_held_up_by_the_end_of_a_lost_replica() {
    let (long, short) = (open(5, 0, 900, &[4, 5]), open(5, 0, 700, &[4, 5]));
    let all = vec![(1, long), (2, short.clone()), (6, short), (3, closed(4))];
    let ends = proven(stream(1, 0), &all).unwrap().ends();
    for lost in [vec![1], vec![2], vec![6], vec![1, 2], vec![1, 6], vec![2, 6]] {
        let left: Held = all.iter().filter(|(b, _)| !lost.contains(b)).cloned().collect();
        let proof = with(stream(1, 0), &left, &ends, Evidence::Final).unwrap();
        assert_eq!(proof.ends(), ends, "without {lost:?}");
    }
}

// Schedule 1C, D2
#[test]
fn when_nothing_more_can_come_the_certified_rest_counts_and_is_reported() {
    let held = vec![
        (1, cut(open(5, 0, 400, &[3, 4, 5]))),
        (2, cut(open(5, 0, 600, &[3, 4, 5]))),
        (3, closed(3)),
        (1, cut(ReplicaReport { opening: None, ..open(4, 0, 1000, &[]) })),
    ];
    assert!(proven(stream(1, 0), &held).is_err());
    let proof = with(stream(1, 0), &held, &[], Evidence::Final).unwrap();
    assert!(proof.has_loss());
    assert_eq!(head(&proof), (5, 600));
    assert_eq!(sources(&proof, 5), [2]);
    let ends: Vec<(u64, u32)> = proof.streams[0].segments.iter().map(|s| (s.segment.raw(), s.end)).collect();
    assert_eq!(ends, [(3, u32::MAX), (4, 1000), (5, 600)]);
    let loss = proof.streams[0].loss.as_ref().unwrap();
    assert_eq!(loss.certified, ClusterTime(4000));
    assert!(loss.reason.contains("every directory"));
    let again = with(stream(1, 0), &held, &proof.ends(), Evidence::Partial).unwrap();
    assert!(again.replays_like(&proof), "and stays so once fixed");
    assert!(again.has_loss());
}

// Schedule 1C: n is closed, n+1 was only ever in a buffer that is gone.
#[test]
fn a_closed_last_segment_is_the_newest_digest_after_a_loss() {
    let last = ReplicaReport { opening: open(5, 0, 0, &[4, 5]).opening, ..closed(5) };
    let held = vec![(1, last), (2, closed(4))];
    assert!(proven(stream(1, 0), &held).is_err());
    let proof = with(stream(1, 0), &held, &[], Evidence::Final).unwrap();
    assert_eq!(head(&proof), (5, 4000));
    assert!(proof.has_loss());
}

// D2
#[test]
fn a_stream_of_which_nothing_is_left_is_a_loss_too() {
    let proof = with(stream(1, 0), &Vec::new(), &[], Evidence::Final).unwrap();
    assert!(proof.has_loss());
    assert!(proof.streams[0].segments.is_empty());
    let again = with(stream(1, 0), &Vec::new(), &proof.ends(), Evidence::Partial).unwrap();
    assert!(again.has_loss());
    let complete = vec![(1, open(5, 0, 10, &[5]))];
    assert!(!with(stream(1, 0), &complete, &[], Evidence::Final).unwrap().has_loss(), "a whole log is none");
}

/// A master that follows the head order on R = 2 of 5 backups, dies at a random moment; some backups are away, some
/// have lost their buffers. Whatever is proven without a loss holds every acknowledged byte.
// D8, D9, F2
#[test]
fn no_proof_ever_misses_an_acknowledged_byte() {
    let mut proofs = 0;
    for seed in 0..4000 {
        let mut rng = Rng::new(seed);
        let story = Story::tell(&mut rng);
        let away: Vec<u64> = (1..=5).filter(|_| rng.chance(1, 4)).collect();
        let held: Held = story.held.into_iter().filter(|(b, _)| !away.contains(b)).collect();
        let Ok(proof) = proven(story.record, &held) else { continue };
        proofs += 1;
        let (segment, end) = head(&proof);
        let covers = segment > story.acknowledged.0
            || (segment == story.acknowledged.0 && end >= story.acknowledged.1);
        assert!(covers, "seed {seed}: {segment} {end} instead of {:?}", story.acknowledged);
        for needed in 1..story.acknowledged.0 {
            let all = &proof.streams[0].segments;
            assert!(all.iter().any(|s| s.segment.raw() == needed), "seed {seed}: segment {needed}");
        }
    }
    assert!(proofs > 500, "{proofs}");
}

struct Story {
    held: Held,
    record: StreamRecord,
    /// Segment and length up to which everything was acknowledged.
    acknowledged: (u64, u32),
}

impl Story {
    fn tell(rng: &mut Rng) -> Story {
        let mut story = Story { held: Vec::new(), record: stream(1, 0), acknowledged: (1, 10) };
        let mut places = story.open(rng, 1);
        for segment in 1u64.. {
            let mut epoch = 0;
            for _ in 0..rng.below(4) {
                if rng.chance(1, 3) {
                    // One replica is lost: its backup keeps the stale one; the record follows.
                    epoch += 1;
                    let lost = places[rng.below(2) as usize];
                    let kept: Vec<u64> = places.iter().copied().filter(|b| *b != lost).collect();
                    let spare: Vec<u64> = (1..=5).filter(|b| !places.contains(b)).collect();
                    let new = *rng.pick(&spare).expect("three are spare");
                    let copy = story.replica(kept[0], segment).clone();
                    story.held.retain(|(b, r)| *b != new || r.segment.raw() != segment);
                    story.held.push((new, copy));
                    places = vec![kept[0], new];
                    for backup in &places {
                        story.replica(*backup, segment).epoch = Epoch(epoch);
                    }
                    if rng.chance(1, 8) {
                        return story;
                    }
                    (story.record.segment, story.record.epoch) = (SegmentId(segment), Epoch(epoch));
                }
                // An append; a crash in its middle leaves it on some.
                for backup in &places {
                    if rng.chance(1, 12) {
                        return story;
                    }
                    story.replica(*backup, segment).certified += 100;
                }
                story.acknowledged.1 += 100;
            }
            let next = story.open(rng, segment + 1);
            for backup in &places {
                if rng.chance(1, 8) || segment == 6 {
                    return story;
                }
                story.replica(*backup, segment).closed = true;
            }
            story.acknowledged = (segment + 1, 10);
            places = next;
        }
        unreachable!("a story ends after six segments");
    }

    fn open(&mut self, rng: &mut Rng, segment: u64) -> Vec<u64> {
        let mut backups: Vec<u64> = (1..=5).collect();
        rng.shuffle(&mut backups);
        backups.truncate(2);
        let digest: Vec<u64> = (1..=segment).collect();
        for backup in &backups {
            self.held.push((*backup, open(segment, 0, 10, &digest)));
        }
        backups
    }

    fn replica(&mut self, backup: u64, segment: u64) -> &mut ReplicaReport {
        let mut all = self.held.iter_mut();
        &mut all.find(|(b, r)| *b == backup && r.segment.raw() == segment).expect("it was opened there").1
    }
}
