//! Recoveries, drops, and what hostile messages do.
//!
//! Catalogue: F4, F5, F6.

use crate::rig::{Rig, entry};
use ramhold_base::hash::PlacementSeed;
use ramhold_base::*;
use ramhold_log::{Entry, INTAKE_SLICE_BYTES, Object, OlderList};
use ramhold_wire::control::{decode, encode_into};
use ramhold_wire::data::{AppendReply, AppendRequest, KeyRequest, RejectRules, WriteRequest};
use ramhold_wire::membership::*;
use ramhold_wire::recovery::*;
use ramhold_wire::table::TabletDrop;
use ramhold_wire::{Gone, Header, Opcode};
use std::time::Duration;

fn range(first: u64, last: u64) -> PartitionRange {
    PartitionRange {
        partition: 0,
        table: TableId(5),
        seed: PlacementSeed(1),
        first: KeyHash(first),
        last: KeyHash(last),
        shard: ShardId(0),
        stream: StreamId(1),
        first_segment: SegmentId(1),
        durability: Durability::Buffered,
        replicas: 2,
        slots: false,
    }
}
fn recover(attempt: u32, segments: Vec<RecoverySegment>) -> Recover {
    Recover {
        recovery: RecoveryId(1),
        crashed: ServerId(3),
        partition: 0,
        attempt,
        ranges: vec![range(0, u64::MAX)],
        streams: vec![RecoveryStream { shard: ShardId(0), stream: StreamId(1), segments }],
        safe_version: Version(5),
        version_floor: Version(0),
        earlier: Vec::new(),
        early: false,
        tail_short: false,
    }
}
fn unusable() -> Vec<RecoverySegment> {
    vec![RecoverySegment { segment: SegmentId(1), end: Some(10), sources: vec![] }]
}

/// One segment, on the backups 1 and 2.
fn readable() -> Vec<RecoverySegment> {
    let source = |id: u64| SegmentSource { backup: ServerId(id), epoch: Epoch(0) };
    vec![RecoverySegment { segment: SegmentId(1), end: None, sources: vec![source(1), source(2)] }]
}
/// Two objects of table 5.
fn records() -> Vec<u8> {
    let mut bytes = Vec::new();
    for key in [b"a", b"b"] {
        let (table, version) = (TableId(5), Version(3));
        let object = Object { table, version, time: 1, expires: None, key, value: &[7; 50] };
        Entry::Object(object, OlderList::NONE).encode(&mut bytes);
    }
    bytes
}
/// Answers the one question for records; whom it went to. Backups answer nothing else before `settle`.
fn answer_records(rig: &mut Rig, body: &[u8]) -> ServerId {
    let times = [0; ReadTimes::BYTES];
    answer_question(rig, Status::Ok, &[&times, body].concat()).0
}
/// The same with any answer; also what was asked.
fn answer_question(rig: &mut Rig, status: Status, body: &[u8]) -> (ServerId, RecoveryRead) {
    let at = rig.asked.iter().position(|(h, _)| h.opcode() == Some(Opcode::RecoveryRead)).expect("asked");
    let (asked, question) = rig.asked.remove(at);
    let mut effects = Effects::new();
    rig.master.on_reply(rig.now, &asked.answer(status), body, &rig.view, &mut effects);
    rig.take(effects);
    (asked.target, decode(&question).unwrap())
}

// F4: the ranges of all partitions go to a backup that does not know them, and with no other question.
#[test]
fn ranges_are_told_to_who_does_not_know_them() {
    let mut rig = Rig::new();
    let segment = |id: u64| RecoverySegment { segment: SegmentId(id), ..readable()[0].clone() };
    let recover = recover(1, vec![segment(1), segment(2)]);
    assert_eq!(rig.request(&recover), Status::Ok);
    let (asked, first) = answer_question(&mut rig, Status::UnknownRanges, &[]);
    rig.tick();
    assert_eq!((asked, first.segment), (ServerId(1), SegmentId(2)));
    assert_eq!((first.ranges, first.digest), (vec![], ranges_digest(&recover.ranges)));
    let (_, second) = answer_question(&mut rig, Status::Retry, &[]);
    assert_eq!((second.segment, second.ranges.len()), (SegmentId(1), 0));
    let (asked, again) = answer_question(&mut rig, Status::UnknownRanges, &[]);
    rig.tick();
    assert_eq!((asked, again.segment), (ServerId(1), SegmentId(2)));
    assert_eq!((again.ranges, again.digest), (recover.ranges, first.digest));
    // Who says so of what it was told is not asked for ever; the next one is taken for informed.
    let (asked, next) = answer_question(&mut rig, Status::Retry, &[]);
    assert_eq!((asked, next.segment, next.ranges.len()), (ServerId(2), SegmentId(2), 0));
}

// D6 of the faults: never passed over, never served.
#[test]
fn damaged_records_are_fetched_from_the_next_backup() {
    let mut rig = Rig::new();
    assert_eq!(rig.request(&recover(1, readable())), Status::Ok);
    let mut damaged = records();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(answer_records(&mut rig, &damaged), ServerId(1));
    rig.settle();
    rig.tick();
    assert_eq!(answer_records(&mut rig, &records()), ServerId(2));
    for _ in 0..5 {
        rig.settle();
        rig.tick();
    }
    let (_, report) = rig.recovered().expect("done");
    assert!(matches!(report.outcome, RecoveryOutcome::Done { .. }), "{report:?}");
    assert_eq!(rig.master.log().stats().map(|stat| stat.records).sum::<u64>(), 2);
}

// F4: each backup's newest segment first, then each one's second newest; so many at a time.
#[test]
fn segments_are_asked_for_in_the_published_order() {
    let mut rig = Rig::new();
    let segment = |id: u64| RecoverySegment {
        segment: SegmentId(id),
        // The first backup has the seven newest of nine.
        sources: readable()[0].sources[usize::from(id <= 2)..].to_vec(),
        ..readable()[0].clone()
    };
    assert_eq!(rig.request(&recover(1, (1..=9).map(segment).collect())), Status::Ok);
    let asked = |rig: &Rig| -> Vec<u64> {
        let reads = rig.asked.iter().filter(|(h, _)| h.opcode() == Some(Opcode::RecoveryRead));
        reads.map(|(_, body)| decode::<RecoveryRead>(body).unwrap().segment.0).collect()
    };
    assert_eq!(asked(&rig), [9, 2, 8, 1, 7, 6]);
    answer_records(&mut rig, &records());
    rig.tick();
    assert_eq!(asked(&rig), [2, 8, 1, 7, 6, 5], "one was taken in, so there is room for one");
}

// E4: of what has come no more than a bounded part is taken in at once, and the rest between other work.
#[test]
fn records_are_taken_in_by_slices() {
    const AT_ONCE_BYTES: usize = 2 << 20;
    let mut rig = Rig::with(16 << 20);
    assert_eq!(rig.request(&recover(1, readable())), Status::Ok);
    let mut body = Vec::new();
    let (mut count, value) = (0u32, [7; 1000]);
    while body.len() < AT_ONCE_BYTES + 10 * INTAKE_SLICE_BYTES {
        let key = count.to_le_bytes();
        let (table, version) = (TableId(5), Version(3));
        let object = Object { table, version, time: 1, expires: None, key: &key, value: &value };
        Entry::Object(object, OlderList::NONE).encode(&mut body);
        count += 1;
    }
    answer_records(&mut rig, &body);
    let taken = |rig: &Rig| rig.master.log().stats().map(|stat| stat.records).sum::<u64>();
    let mut seen = vec![taken(&rig)];
    let of = |bytes: usize| (bytes as u64 * u64::from(count)).div_ceil(body.len() as u64);
    // A look at all replays, which follows, takes a slice or two more.
    assert!((of(AT_ONCE_BYTES)..=of(AT_ONCE_BYTES + 4 * INTAKE_SLICE_BYTES)).contains(&seen[0]), "{seen:?}");
    while *seen.last().unwrap() < u64::from(count) {
        assert!(rig.master.deadline().is_some_and(|at| at <= rig.now), "there is more to do");
        let mut effects = Effects::new();
        rig.master.tick(rig.now, &rig.view, &mut effects);
        rig.take(effects);
        seen.push(taken(&rig));
        assert!(seen.len() < 10, "{seen:?}");
    }
    assert!(seen.windows(2).all(|pair| pair[1] - pair[0] <= of(3 * INTAKE_SLICE_BYTES)), "{seen:?}");
}

/// The list has a dead server, whose recovery is over or not.
fn list_dead(rig: &mut Rig, kept: bool) {
    list_turn(rig, kept, true, None);
}

/// The dead server is listed, and whether what was recovered from it may be replicated, and by whom alone.
fn list_turn(rig: &mut Rig, kept: bool, replicates: bool, replicates_only: Option<ServerId>) {
    let state = ServerState::Crashed;
    rig.list_changes(vec![ServerEntry { state, kept, replicates, replicates_only, ..entry(3) }], vec![]);
}

// F11: others may be at their partitions still.
#[test]
fn memory_is_not_looked_for_while_somebody_is_recovered_but_not_for_ever() {
    for is_over in [false, true] {
        let mut rig = Rig::with(8 << 20);
        let left_after = |rig: &mut Rig, pause: u64| {
            rig.now = rig.now + Duration::from_secs(pause);
            rig.tick();
            rig.master.untouched_bytes()
        };
        list_dead(&mut rig, false);
        let left = left_after(&mut rig, 1);
        assert_eq!(left_after(&mut rig, 3), left);
        if is_over {
            list_dead(&mut rig, true);
            assert!(left_after(&mut rig, 0) <= left && left_after(&mut rig, 1) < left);
        } else {
            assert!(left_after(&mut rig, 3) < left, "a log may be incomplete for long");
        }
    }
}

// F11: writes wait for each head that is rolled.
#[test]
fn partitions_of_one_recovery_that_go_live_early_share_a_head() {
    let mut rig = Rig::new();
    let part = |partition: u32| {
        let half = u64::MAX / 2;
        let ranges = vec![range(0, half), PartitionRange { partition: 1, ..range(half + 1, u64::MAX) }];
        Recover { early: true, ranges, partition, ..recover(1, readable()) }
    };
    let head = |rig: &Rig| rig.master.log().head_segment(StreamId(1)).expect("it has a head");
    assert_eq!(rig.request(&part(0)), Status::Ok);
    let first = head(&rig);
    assert_eq!(rig.request(&part(1)), Status::Ok);
    assert_eq!(head(&rig), first);
    for _ in 0..2 {
        answer_records(&mut rig, &[]);
    }
    let mut firsts = Vec::new();
    for _ in 0..20 {
        rig.settle();
        rig.tick();
        while let Some((asked, report)) = rig.recovered() {
            let RecoveryOutcome::Done { assignments, .. } = report.outcome else { panic!("{report:?}") };
            firsts.push(assignments[0].first_segment);
            rig.answer(&asked, Status::Ok);
        }
    }
    firsts.sort_unstable();
    assert!(firsts.len() == 2 && firsts[0] < firsts[1] && firsts[1] < first, "{firsts:?}, {first}");
}

// F6: after a tablet has left, the log may have something of it behind first segments that were taken before.
#[test]
fn no_first_segment_is_from_before_a_tablet_left() {
    let mut rig = Rig::new();
    let head = |rig: &Rig| rig.master.log().head_segment(StreamId(1)).expect("it has a head");
    assert_eq!(rig.request(&Recover { early: true, ..recover(1, readable()) }), Status::Ok);
    answer_records(&mut rig, &records());
    for _ in 0..5 {
        rig.tick();
    }
    let (asked, _) = rig.recovered().expect("all is taken in");
    let before = head(&rig);
    rig.answer(&asked, Status::NotAllowed);
    pass(&mut rig, 1);
    rig.recovered().expect("it is taken back");
    let mut answers = (0..5).map(|_| rig.request(&Recover { early: true, ..recover(2, readable()) }));
    assert!(answers.any(|status| status == Status::Ok));
    assert!(head(&rig) > before);
    answer_records(&mut rig, &records());
    for _ in 0..5 {
        rig.tick();
    }
    let (_, report) = rig.recovered().expect("all is taken in");
    let RecoveryOutcome::Done { assignments, .. } = report.outcome else { panic!("{report:?}") };
    assert!(assignments[0].first_segment > before, "{assignments:?}, {before}");
}

/// Tables 5 and 6, a partition each, the second with so many replicas.
fn of_two(partition: u32, replicas: u8) -> Recover {
    let second = PartitionRange { partition: 1, table: TableId(6), replicas, ..range(0, u64::MAX) };
    Recover { early: true, ranges: vec![range(0, u64::MAX), second], partition, ..recover(1, readable()) }
}

/// Objects that take four segments.
fn many_records(table: TableId) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..100u32 {
        let (key, version, value) = (&number.to_le_bytes(), Version(3), &[7; 1000]);
        let object = Object { table, version, time: 1, expires: None, key, value };
        Entry::Object(object, OlderList::NONE).encode(&mut bytes);
    }
    bytes
}

/// Answers questions for records and reports until nothing is reported any more; what was reported.
fn publish(rig: &mut Rig) -> usize {
    let mut count = 0;
    for _ in 0..20 {
        let is_question = |(h, _): &&(Header, Vec<u8>)| h.opcode() == Some(Opcode::RecoveryRead);
        while let Some((_, body)) = rig.asked.iter().find(is_question) {
            let partition = decode::<RecoveryRead>(body).unwrap().partition;
            answer_records(rig, &many_records(TableId(5 + partition)));
        }
        rig.settle();
        rig.tick();
        while let Some((asked, report)) = rig.recovered() {
            assert!(matches!(report.outcome, RecoveryOutcome::Done { .. }), "{report:?}");
            rig.answer(&asked, Status::Ok);
            count += 1;
        }
    }
    count
}

// F6, F7
#[test]
fn a_live_partition_that_finds_no_backups_does_not_stop_another() {
    let mut rig = Rig::with(4 << 20);
    // The first table wants another replica than the primary.
    rig.refused = |request| request.side && !request.primary;
    assert_eq!(rig.request(&of_two(0, 1)), Status::Ok);
    assert_eq!(publish(&mut rig), 1);
    assert!(!is_entered(&rig));
    assert_eq!(rig.request(&of_two(1, 1)), Status::Ok);
    assert_eq!(publish(&mut rig), 1);
    pass(&mut rig, 2);
    assert!(is_entered(&rig), "the second table has its one replica");
}

// F6, F7: the head that is held for what is live is older than what others replay.
#[test]
fn what_is_not_live_yet_does_not_wait_for_the_head_of_what_is() {
    let mut rig = Rig::with(4 << 20);
    list_dead(&mut rig, false);
    assert_eq!(rig.request(&of_two(0, 2)), Status::Ok);
    assert_eq!(publish(&mut rig), 1);
    assert!(!is_entered(&rig), "it makes way for recoveries");
    assert_eq!(rig.request(&Recover { early: false, ..of_two(1, 2) }), Status::Ok);
    assert_eq!(publish(&mut rig), 1);
    assert!(rig.reports.iter().filter(|report| *report == "mark:recovery_entered").count() == 1);
}

// F7: frames that a live partition cannot use yet are there for others.
#[test]
fn what_is_live_is_replicated_in_its_turn_and_gives_its_frames_back_after_it() {
    let mut rig = Rig::new();
    list_turn(&mut rig, true, false, None);
    assert_eq!(rig.request(&Recover { early: true, ..recover(1, readable()) }), Status::Ok);
    answer_records(&mut rig, &records());
    for _ in 0..5 {
        rig.tick();
    }
    let (asked, _) = rig.recovered().expect("all is taken in");
    rig.answer(&asked, Status::Ok);
    pass(&mut rig, 3);
    let count = |rig: &Rig| rig.master.replicator().replicas().filter(|replica| replica.closed).count();
    let before = count(&rig);
    rig.refused = |request| !request.side && request.data.is_empty();
    list_turn(&mut rig, true, true, None);
    pass(&mut rig, 3);
    assert_eq!(count(&rig), before + 2, "a side segment, which waits for a head");
    let other = ServerId(rig.view.me.raw() + 1);
    list_turn(&mut rig, true, true, Some(other));
    pass(&mut rig, 3);
    assert!(rig.reports.iter().any(|report| report == "mark:live_gave_way"));
    assert_eq!(
        (count(&rig), rig.master.replicator().freeing_count()),
        (before, 2),
        "their frames are given back"
    );
    assert!(rig.master.tablets_seen().all(|t| t.serving), "it is live all the same");
    rig.refused = |_| false;
    let me = rig.view.me;
    list_turn(&mut rig, true, true, Some(me));
    pass(&mut rig, 4);
    assert!(is_entered(&rig));
}

/// A partition that is recovered from the logs of the servers 3 and 4, of which the first has nothing of it.
fn of_two_logs() -> Recover {
    let own = recover(1, Vec::new());
    let streams = recover(1, readable()).streams;
    let (crashed, ranges) = (ServerId(4), own.ranges.clone());
    let earlier = vec![EarlierLog { crashed, recovery: RecoveryId(2), ranges, streams }];
    Recover { early: true, earlier, ..own }
}

/// The dead servers that are listed, and whether what was recovered from them may be replicated.
fn list_turns(rig: &mut Rig, dead: &[(u64, bool)]) {
    let kept = |(id, replicates): &(u64, bool)| ServerEntry {
        state: ServerState::Crashed,
        kept: true,
        replicates: *replicates,
        ..entry(*id)
    };
    let is_gone = |id: &ServerId| dead.iter().all(|(listed, _)| ServerId(*listed) != *id);
    let removed = [ServerId(3), ServerId(4)].into_iter().filter(is_gone).collect();
    rig.list_changes(dead.iter().map(kept).collect(), removed);
}

// F7: the piece does not note the first log, so its turn is that of the second.
#[test]
fn what_is_live_is_replicated_in_the_turn_of_any_of_its_logs() {
    let mut rig = Rig::with(4 << 20);
    list_turns(&mut rig, &[(3, false), (4, false)]);
    assert_eq!(rig.request(&of_two_logs()), Status::Ok);
    assert_eq!(publish(&mut rig), 1);
    pass(&mut rig, 3);
    assert!(!is_entered(&rig), "neither has its turn");
    list_turns(&mut rig, &[(3, false), (4, true)]);
    pass(&mut rig, 4);
    assert!(is_entered(&rig));
}

// F7: an older log of the same piece was let go.
#[test]
fn a_log_that_is_gone_gives_no_turn_while_another_is_kept() {
    for none_is_left in [false, true] {
        let mut rig = Rig::with(4 << 20);
        list_turns(&mut rig, &[(3, false), (4, false)]);
        assert_eq!(rig.request(&of_two_logs()), Status::Ok);
        assert_eq!(publish(&mut rig), 1);
        list_turns(&mut rig, &[(4, false)]);
        pass(&mut rig, 4);
        assert!(!is_entered(&rig), "it has to wait for the turn of what is left");
        list_turns(&mut rig, if none_is_left { &[] } else { &[(4, true)] });
        pass(&mut rig, 4);
        assert!(is_entered(&rig), "{none_is_left}");
    }
}

// F11: clients wait for the others.
#[test]
fn what_is_live_is_replicated_when_others_are_done_or_take_long() {
    for is_over in [false, true] {
        let mut rig = Rig::new();
        list_dead(&mut rig, false);
        assert_eq!(rig.request(&Recover { early: true, ..recover(1, readable()) }), Status::Ok);
        answer_records(&mut rig, &records());
        for _ in 0..5 {
            rig.tick();
        }
        let (asked, _) = rig.recovered().expect("all is taken in");
        rig.answer(&asked, Status::Ok);
        pass(&mut rig, 3);
        assert!(!is_entered(&rig));
        if is_over {
            list_dead(&mut rig, true);
            rig.tick();
        } else {
            assert!(
                rig.master.deadline().is_some_and(|at| at > rig.now),
                "it is looked at again, and not yet"
            );
            pass(&mut rig, 2);
        }
        for _ in 0..5 {
            rig.settle();
            rig.tick();
        }
        assert!(is_entered(&rig), "{is_over}");
    }
}

#[test]
fn nothing_is_entered_before_it_is_replicated() {
    let mut rig = Rig::new();
    assert_eq!(rig.request(&recover(1, readable())), Status::Ok);
    answer_records(&mut rig, &records());
    for _ in 0..20 {
        let mut effects = Effects::new();
        rig.master.tick(rig.now, &rig.view, &mut effects);
        rig.take(effects);
    }
    assert!(!is_entered(&rig) && rig.recovered().is_none(), "no backup has answered");
    for _ in 0..5 {
        rig.settle();
        rig.tick();
    }
    assert!(is_entered(&rig) && rig.recovered().is_some());
}

/// Every backup refuses side segments for want of frames, for so many half seconds; all else is answered.
fn refuse_sides(rig: &mut Rig, half_seconds: u32) {
    for _ in 0..half_seconds {
        let is_side = |(h, body): &(Header, Vec<u8>)| {
            h.opcode() == Some(Opcode::Append) && AppendRequest::decode(body).unwrap().side
        };
        while let Some(at) = rig.asked.iter().position(is_side) {
            let (header, _) = rig.asked.remove(at);
            let mut body = Vec::new();
            AppendReply::default().encode(&mut body);
            let answer = header.answer(Status::OpenRefused);
            rig.master.on_replication_reply(rig.now, &answer, &body, &rig.view);
            rig.end_turn(Effects::new());
        }
        let mut effects = Effects::new();
        rig.now = rig.now + Duration::from_millis(500);
        rig.master.tick(rig.now, &rig.view, &mut effects);
        rig.take(effects);
    }
}

// F6, F7
#[test]
fn a_partition_for_which_no_backup_has_room_is_taken_back_and_says_so() {
    let mut rig = Rig::new();
    assert_eq!(rig.request(&recover(1, readable())), Status::Ok);
    answer_records(&mut rig, &records());
    refuse_sides(&mut rig, 9);
    assert!(rig.recovered().is_none(), "it waits for a while");
    assert_eq!(rig.master.log().stats().map(|stat| stat.records).sum::<u64>(), 2);
    refuse_sides(&mut rig, 3);
    let (_, report) = rig.recovered().expect("it has given up");
    assert!(matches!(report.outcome, RecoveryOutcome::Failed { no_room: true, .. }), "{report:?}");
    assert_eq!(rig.master.log().stats().count(), 0, "nothing is kept");
    assert!(rig.master.tablets_seen().next().is_none());
}

// F6, F7
#[test]
fn a_partition_that_waits_for_room_goes_on_when_there_is_some() {
    let mut rig = Rig::new();
    assert_eq!(rig.request(&recover(1, readable())), Status::Ok);
    answer_records(&mut rig, &records());
    refuse_sides(&mut rig, 8);
    for _ in 0..100 {
        rig.settle();
        rig.now = rig.now + Duration::from_millis(50);
        rig.tick();
    }
    let (_, report) = rig.recovered().expect("done");
    assert!(matches!(report.outcome, RecoveryOutcome::Done { .. }), "{report:?}");
}

/// The append holds a frame for a head that is to come.
fn is_held(request: &AppendRequest<'_>) -> bool {
    request.open && !request.side && request.certificate.is_none() && request.data.is_empty()
}

fn pass(rig: &mut Rig, half_seconds: u32) {
    for _ in 0..half_seconds {
        rig.now = rig.now + Duration::from_millis(500);
        rig.tick();
    }
}

fn is_entered(rig: &Rig) -> bool {
    rig.reports.iter().any(|report| report == "mark:recovery_entered")
}

// F7: what is entered cannot be taken back, so it must not wait for anybody's frames.
#[test]
fn nothing_is_entered_before_backups_hold_frames_for_the_head() {
    let mut rig = Rig::new();
    rig.refused = is_held;
    assert_eq!(rig.request(&recover(1, readable())), Status::Ok);
    answer_records(&mut rig, &records());
    rig.settle();
    pass(&mut rig, 8);
    assert!(!is_entered(&rig) && rig.recovered().is_none(), "it waits for a while");
    rig.refused = |_| false;
    pass(&mut rig, 2);
    assert!(is_entered(&rig));
    let (_, report) = rig.recovered().expect("done");
    assert!(matches!(report.outcome, RecoveryOutcome::Done { .. }), "{report:?}");
}

// F6, F7
#[test]
fn a_partition_for_whose_head_no_backup_has_room_is_taken_back_and_says_so() {
    let mut rig = Rig::new();
    rig.refused = is_held;
    assert_eq!(rig.request(&recover(1, readable())), Status::Ok);
    answer_records(&mut rig, &records());
    rig.settle();
    pass(&mut rig, 12);
    let (_, report) = rig.recovered().expect("it has given up");
    assert!(matches!(report.outcome, RecoveryOutcome::Failed { no_room: true, .. }), "{report:?}");
    assert!(!is_entered(&rig) && rig.master.log().stats().count() == 0, "nothing is kept");
    assert!(rig.master.replicator().replicas().all(|replica| replica.certified > 0), "nothing is held");
}

// F4, F7: or what is written to its ranges, into a head before their first segment, would not count for the next recovery.
#[test]
fn a_partition_without_records_is_not_entered_with_a_head_held_before_it_came() {
    let mut rig = Rig::new();
    // The other one's side segments find no room, so it waits with a head that is held.
    rig.refused = |request| request.side;
    let with_records = Recover { recovery: RecoveryId(2), ..recover(1, readable()) };
    assert_eq!(rig.request(&with_records), Status::Ok);
    answer_records(&mut rig, &records());
    rig.settle();
    pass(&mut rig, 2);
    let empty = Recover {
        crashed: ServerId(4),
        ranges: vec![PartitionRange { table: TableId(6), ..range(0, u64::MAX) }],
        ..recover(1, vec![])
    };
    assert_eq!(rig.request(&empty), Status::Ok);
    let mut report = || {
        pass(&mut rig, 1);
        // The other one gives up before it, or is still there.
        std::iter::from_fn(|| rig.recovered()).find(|(_, report)| report.recovery == empty.recovery)
    };
    let (_, report) = (0..20).find_map(|_| report()).expect("it has ended");
    let RecoveryOutcome::Done { assignments, .. } = report.outcome else { panic!("{report:?}") };
    let head = rig.master.log().head_segment(assignments[0].stream).expect("it has a head");
    assert!(head >= assignments[0].first_segment, "{head}, {assignments:?}");
}

/// The reports of what is settled, as far as they have not been taken; those that were given up among them.
fn settled(rig: &mut Rig) -> Vec<(Header, Settled)> {
    let is_report = |(asked, _): &(Header, Vec<u8>)| asked.opcode() == Some(Opcode::Settled);
    let reports: Vec<(Header, Vec<u8>)> = rig.asked.extract_if(.., |asked| is_report(asked)).collect();
    reports.into_iter().map(|(asked, body)| (asked, decode(&body).unwrap())).collect()
}

// D2, F6: the dead log is there as long as that takes.
#[test]
fn what_is_live_before_it_is_replicated_does_not_give_up() {
    let mut rig = Rig::new();
    rig.flushes = false;
    rig.refused = |request| request.side;
    assert_eq!(rig.request(&Recover { early: true, ..recover(1, readable()) }), Status::Ok);
    answer_records(&mut rig, &records());
    for _ in 0..5 {
        rig.tick();
    }
    let (asked, report) = rig.recovered().expect("all is taken in");
    let RecoveryOutcome::Done { assignments, .. } = report.outcome else { panic!("{report:?}") };
    let head = rig.master.log().head_segment(assignments[0].stream).unwrap();
    assert!(head > assignments[0].first_segment, "what is written from now on must count");
    assert!(!is_entered(&rig));
    rig.answer(&asked, Status::Ok);
    assert!(rig.master.tablets_seen().all(|t| t.serving));
    pass(&mut rig, 60);
    assert!(rig.recovered().is_none() && !is_entered(&rig) && settled(&mut rig).is_empty());
    assert!(rig.master.tablets_seen().all(|t| t.serving), "nobody can take it back");
    // A newer attempt is of somebody who does not know.
    assert_eq!(rig.request(&Recover { early: true, ..recover(2, readable()) }), Status::NotAllowed);
    rig.refused = |_| false;
    pass(&mut rig, 1);
    assert!(is_entered(&rig));
    let told = settled(&mut rig);
    let (asked, report) = told.last().expect("buffers have it");
    assert_eq!((report.first_segment, report.flushed), (assignments[0].first_segment, false));
    rig.answer(asked, Status::Ok);
    pass(&mut rig, 4);
    assert!(settled(&mut rig).is_empty(), "no device has it");
    rig.flushes = true;
    let again = (0..4).find_map(|_| {
        pass(&mut rig, 1);
        settled(&mut rig).pop()
    });
    let (asked, report) = again.expect("devices have it");
    assert!(report.flushed);
    rig.answer(&asked, Status::Ok);
    assert!(rig.reports.iter().any(|report| report == "mark:recovery_settled"));
    rig.master.check_invariants();
}

// F6
#[test]
fn what_is_not_wanted_though_it_is_taken_in_leaves_nothing() {
    for is_newer in [false, true] {
        let mut rig = Rig::new();
        assert_eq!(rig.request(&Recover { early: true, ..recover(1, readable()) }), Status::Ok);
        answer_records(&mut rig, &records());
        for _ in 0..5 {
            rig.tick();
        }
        let (asked, _) = rig.recovered().expect("all is taken in");
        if is_newer {
            assert_eq!(rig.request(&Recover { early: true, ..recover(2, readable()) }), Status::Retry);
        } else {
            rig.answer(&asked, Status::NotAllowed);
        }
        pass(&mut rig, 1);
        let (asked, report) = rig.recovered().expect("it is taken back");
        assert!(matches!(report.outcome, RecoveryOutcome::Failed { no_room: false, .. }), "{report:?}");
        rig.answer(&asked, Status::NotAllowed);
        assert_eq!(rig.master.tablets_seen().count(), 0);
        assert_eq!(rig.master.log().key_count(), 0);
        rig.master.check_invariants();
    }
}

/// Writes one key again and again, a second apart, until this is reported.
fn write_until(rig: &mut Rig, mark: &str) {
    for _ in 0..500 {
        let mut body = Vec::new();
        let rules = RejectRules::default();
        WriteRequest { table: TableId(5), rules, expiry: None, key: b"a", value: &[1; 3000] }
            .encode(&mut body);
        rig.send(Opcode::Write, &body);
        rig.settle();
        pass(rig, 2);
        if rig.reports.iter().any(|report| report == mark) {
            return;
        }
    }
    panic!("{mark} never came");
}

// D2, F6: tombstones that name them keep what was removed since removed, should the dead log be read again.
#[test]
fn side_segments_stay_until_devices_have_what_was_recovered() {
    let mut rig = Rig::new();
    rig.flushes = false;
    assert_eq!(rig.request(&Recover { early: true, ..recover(1, readable()) }), Status::Ok);
    answer_records(&mut rig, &records());
    for _ in 0..5 {
        rig.tick();
    }
    let (asked, _) = rig.recovered().expect("all is taken in");
    rig.answer(&asked, Status::Ok);
    pass(&mut rig, 3);
    let live = |segment: &&ramhold_log::SegmentInfo| segment.closed && segment.live_bytes > 0;
    let sides: Vec<SegmentId> = rig.master.log().segments().filter(live).map(|segment| segment.id).collect();
    assert_eq!(sides.len(), 1);
    rig.confirm_lease(4);
    write_until(&mut rig, "mark:combined_begun");
    for (asked, report) in settled(&mut rig) {
        assert!(!report.flushed, "buffers have it, devices do not");
        rig.answer(&asked, Status::Ok);
    }
    let side = |rig: &Rig| rig.master.log().segment(sides[0]).map(|segment| segment.in_pass);
    let is_told = |(asked, body): &(Header, Vec<u8>)| {
        asked.opcode() == Some(Opcode::Settled) && decode::<Settled>(body).is_ok_and(|told| told.flushed)
    };
    let told = |rig: &Rig| rig.asked.iter().rposition(is_told);
    assert_eq!((side(&rig), told(&rig)), (Some(false), None));
    rig.flushes = true;
    rig.reports.clear();
    write_until(&mut rig, "mark:sources_retired");
    assert_eq!(side(&rig), Some(false), "the coordinator has not answered");
    // The earlier report is given up by now, and sent again.
    while let Some(old) = told(&rig) {
        rig.asked.remove(old);
    }
    let again = (0..8).find_map(|_| {
        pass(&mut rig, 1);
        if told(&rig).is_none() {
            for (asked, _) in settled(&mut rig) {
                rig.answer(&asked, Status::Ok);
            }
        }
        told(&rig)
    });
    let (asked, body) = rig.asked.remove(again.expect("devices have it"));
    assert!(decode::<Settled>(&body).unwrap().first_segment < sides[0]);
    rig.answer(&asked, Status::Ok);
    assert!(rig.reports.iter().any(|report| report == "mark:recovery_settled"));
    pass(&mut rig, 10);
    assert_eq!(told(&rig), None, "it is told until it is answered");
}

// F6, F7: its side segments are whole meanwhile, and others need their frames.
#[test]
fn a_partition_of_a_master_whose_first_head_finds_no_room_is_taken_back() {
    let mut rig = Rig::new();
    rig.refused = |request| request.open && !request.side && !request.data.is_empty();
    assert_eq!(rig.request(&recover(1, readable())), Status::Ok);
    answer_records(&mut rig, &records());
    rig.settle();
    let mut report = || {
        pass(&mut rig, 1);
        rig.recovered()
    };
    let (asked, report) = (0..12).find_map(|_| report()).expect("it has given up");
    assert!(matches!(report.outcome, RecoveryOutcome::Failed { no_room: true, .. }), "{report:?}");
    rig.refused = |_| false;
    rig.answer(&asked, Status::Ok);
    pass(&mut rig, 2);
    assert_eq!(rig.request(&recover(2, readable())), Status::Ok);
    answer_records(&mut rig, &records());
    pass(&mut rig, 2);
    let (_, report) = rig.recovered().expect("done");
    assert!(matches!(report.outcome, RecoveryOutcome::Done { .. }), "{report:?}");
}

// F6
#[test]
fn a_newer_division_of_the_same_log_takes_the_place_of_an_older_one() {
    let mut rig = Rig::new();
    assert_eq!(rig.request(&recover(1, readable())), Status::Ok);
    let newer = Recover { recovery: RecoveryId(2), ..recover(1, vec![]) };
    let first = rig.request(&newer);
    assert_eq!(first, Status::NotAllowed, "its ranges are being taken back");
    let (old, report) = (0..5)
        .find_map(|_| {
            rig.tick();
            rig.recovered()
        })
        .expect("the old one has failed");
    assert!(matches!(report.outcome, RecoveryOutcome::Failed { no_room: false, .. }), "{report:?}");
    assert_eq!(report.recovery, RecoveryId(1));
    rig.answer(&old, Status::NotAllowed);
    assert_eq!(rig.request(&Recover { attempt: 2, ..newer }), Status::Ok);
}

#[test]
fn late_answer_to_an_older_attempt_publishes_nothing() {
    let mut rig = Rig::new();
    assert_eq!(rig.request(&recover(1, unusable())), Status::Ok);
    for _ in 0..5 {
        rig.tick();
    }
    let (old, report) = rig.recovered().expect("failed");
    assert!(matches!(report.outcome, RecoveryOutcome::Failed { .. }));
    assert_eq!(rig.request(&recover(2, vec![])), Status::Retry);
    assert_eq!(rig.request(&recover(3, vec![])), Status::Ok);
    for _ in 0..5 {
        rig.tick();
    }
    let (_, report) = rig.recovered().expect("done");
    assert!(matches!(report.outcome, RecoveryOutcome::Done { .. }), "{report:?}");
    assert_eq!(report.attempt, 3);
    rig.answer(&old, Status::Ok); // the late answer to the report of attempt 1's failure
    assert!(rig.master.tablets_seen().all(|t| !t.serving), "attempt 3 was never answered");
}

#[test]
fn entered_is_reported_without_another_input() {
    let mut rig = Rig::new();
    assert_eq!(rig.request(&recover(1, vec![])), Status::Ok);
    let mut ticks = 0;
    loop {
        if rig.recovered().is_some() {
            break;
        }
        let d = rig.master.deadline();
        if d != Some(Instant::ZERO) {
            panic!("nothing is due, nothing is reported after {ticks} ticks");
        }
        ticks += 1;
        rig.tick();
    }
}

#[test]
fn drop_during_recovery_leaves_nothing_and_a_doubled_recover_does_no_harm() {
    let mut rig = Rig::new();
    assert_eq!(rig.request(&recover(1, vec![])), Status::Ok);
    for _ in 0..5 {
        rig.tick();
    }
    let (h, _) = rig.recovered().expect("done");
    assert_eq!(rig.request(&TabletDrop { table: TableId(5) }), Status::Ok);
    rig.answer(&h, Status::NotAllowed);
    for _ in 0..5 {
        rig.tick();
    }
    assert_eq!(rig.master.log().stats().count(), 0, "a dropped range is still counted");
}
#[test]
fn drop_during_recovery_then_doubled_recover() {
    let mut rig = Rig::new();
    assert_eq!(rig.request(&recover(1, vec![])), Status::Ok);
    for _ in 0..5 {
        rig.tick();
    }
    let (h, _) = rig.recovered().expect("done");
    assert_eq!(rig.request(&TabletDrop { table: TableId(5) }), Status::Ok);
    rig.answer(&h, Status::NotAllowed);
    for _ in 0..5 {
        rig.tick();
    }
    rig.request(&recover(1, vec![]));
}
#[test]
fn overlapping_ranges_are_refused() {
    let mut rig = Rig::new();
    let ranges = vec![range(0, 10), range(5, 20)];
    assert_eq!(rig.request(&Recover { ranges, ..recover(1, vec![]) }), Status::BadRequest);
}
#[test]
fn a_lost_coordinator_is_not_asked_in_a_loop() {
    let mut rig = Rig::new();
    let sent = |rig: &mut Rig| {
        let n = rig.asked.iter().filter(|(h, _)| h.opcode() == Some(Opcode::StreamRegister)).count();
        rig.asked.retain(|(h, _)| h.opcode() != Some(Opcode::StreamRegister));
        n
    };
    let mut body = Vec::new();
    encode_into(&mut body, &recover(1, vec![]));
    let header = Header {
        cluster: rig.view.cluster,
        target: rig.view.me,
        ..Header::request(Opcode::Recover, RpcId(77))
    };
    let mut e = Effects::new();
    rig.master.on_request(
        rig.now,
        Opcode::Recover.try_into().expect("an operation of masters"),
        &header,
        &body,
        ConnId(1),
        &rig.view,
        &mut e,
    );
    rig.take(e);
    // backups answer
    let appends: Vec<_> =
        rig.asked.iter().filter(|(h, _)| h.opcode() == Some(Opcode::Append)).cloned().collect();
    for (h, b) in appends {
        let r = AppendRequest::decode(&b).unwrap();
        let end = r.data.len() as u32;
        let mut body = vec![];
        AppendReply { length: end, certified: end, epoch: h.epoch, closed: false, flushed: 0 }
            .encode(&mut body);
        rig.master.on_replication_reply(rig.now, &h.answer(Status::Ok), &body, &rig.view);
        rig.end_turn(Effects::new());
    }
    let mut total = sent(&mut rig);
    for _ in 0..100 {
        let mut e = Effects::new();
        rig.master.on_lost(rig.now, Gone::Address(rig.view.coordinator), &rig.view, &mut e);
        rig.take(e);
        total += sent(&mut rig);
    }
    assert!(total < 10, "{total} requests at one instant");
}

#[test]
fn a_long_opening_does_not_end_the_process() {
    let mut rig = Rig::with(4 * 4096);
    let ranges = (0..400).map(|i| range(i * 10, i * 10 + 9)).collect();
    assert_eq!(rig.request(&Recover { ranges, ..recover(1, vec![]) }), Status::Ok);
    for _ in 0..5 {
        rig.tick();
    }
}
#[test]
fn waiting_reads_are_bounded() {
    let mut rig = Rig::new();
    rig.take_table();
    let mut body = vec![];
    let rules = RejectRules::default();
    WriteRequest { table: TableId(5), rules, expiry: None, key: b"k", value: &[1; 10_000] }.encode(&mut body);
    rig.send(Opcode::Write, &body); // the backups do not answer
    let mut body = vec![];
    KeyRequest { table: TableId(5), rules, key: b"k" }.encode(&mut body);
    let before = rig.answers.len();
    for _ in 0..70_000 {
        rig.send(Opcode::Read, &body);
    }
    assert!(rig.answers.len() > before, "70000 reads of 10 kB are all kept in memory");
}

// D7, D9: the asker is the next life of a backup that this master still takes for alive, so it holds what is counted on.
#[test]
fn nothing_is_given_up_to_an_asker_that_the_list_does_not_have_yet() {
    let mut rig = Rig::new();
    rig.take_table();
    let asked = ReplicasNeeded { replicas: vec![] };
    let mut body = Vec::new();
    encode_into(&mut body, &asked);
    for (sender, status) in [(77, Status::NotInCluster), (1, Status::Ok)] {
        rig.rpc += 1;
        let header = Header {
            cluster: rig.view.cluster,
            sender: ServerId(sender),
            target: rig.view.me,
            ..Header::request(Opcode::ReplicasNeeded, RpcId(rig.rpc))
        };
        let mut effects = Effects::new();
        let (now, opcode) = (rig.now, Opcode::ReplicasNeeded);
        rig.master.on_request(
            now,
            opcode.try_into().expect("an operation of masters"),
            &header,
            &body,
            ConnId(1),
            &rig.view,
            &mut effects,
        );
        rig.take(effects);
        assert_eq!(rig.answer_to(header.rpc).unwrap().0, status);
    }
}
