//! Reading a dead server's segments: openings, dividing, the cache.

use crate::rig::*;
use ramhold_base::bytes::Put;
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_base::*;
use ramhold_log::{Entry, EntryReader, Object, OlderList};
use ramhold_wire::data::AppendRequest;
use ramhold_wire::membership::{Durability, ServerState};
use ramhold_wire::recovery::{PartitionRange, RecoveryRead, ranges_digest};
use ramhold_wire::{Kind, Opcode};

pub const HEADER_BYTES: usize = 46;
const SEED: PlacementSeed = PlacementSeed(7);

/// A segment with its header and some objects of table 1.
pub fn small_log(objects: u64) -> Log {
    let mut log = Log::head(1, &[]);
    log.bytes.truncate(HEADER_BYTES);
    for number in 0..objects {
        let key = number.to_le_bytes();
        let (table, version) = (TableId(1), Version(number + 1));
        let object = Object { table, version, time: 3, expires: None, key: &key, value: b"value" };
        Entry::Object(object, OlderList::NONE).encode(&mut log.bytes);
    }
    log
}

pub fn records_of(log: &Log) -> Vec<u8> {
    log.bytes[HEADER_BYTES..].to_vec()
}

pub fn range(partition: u32, first: u64, last: u64) -> PartitionRange {
    PartitionRange {
        partition,
        table: TableId(1),
        seed: SEED,
        first: KeyHash(first),
        last: KeyHash(last),
        shard: ShardId(0),
        stream: StreamId(1),
        first_segment: SegmentId(1),
        durability: Durability::Buffered,
        replicas: 3,
        slots: false,
    }
}

pub fn read_of(log: &Log, ranges: &[PartitionRange], partition: u32) -> RecoveryRead {
    RecoveryRead {
        recovery: RecoveryId(1),
        log: LogId { server: log.server, shard: ShardId(0) },
        stream: StreamId(1),
        segment: log.segment,
        epoch: log.epoch,
        end: u32::MAX,
        partition,
        ranges: ranges.to_vec(),
        digest: ranges_digest(ranges),
        crashed: ServerId::NONE,
    }
}

/// The same question of somebody who takes the ranges for known.
fn untold(read: &RecoveryRead) -> RecoveryRead {
    RecoveryRead { ranges: Vec::new(), ..read.clone() }
}

fn with(log: &Log) -> Rig {
    let mut rig = Rig::new(config());
    assert_eq!(rig.append(log, log.from(0)).0, Status::Ok);
    rig
}

// F4
#[test]
fn a_live_server_is_not_read() {
    let log = small_log(3);
    let mut rig = with(&log);
    let read = read_of(&log, &[range(0, 0, u64::MAX)], 0);
    assert_eq!(rig.recovery_read(&read).0, Status::NotAllowed);
    rig.list(vec![entry(MASTER, ServerState::Crashed)], Vec::new());
    assert_eq!(rig.recovery_read(&read), (Status::Ok, records_of(&log)));
}

// F4
#[test]
fn only_entries_before_the_end_count_and_it_must_be_certified() {
    let log = small_log(4);
    let mut rig = with(&log);
    rig.fence(MASTER);
    let object_bytes = (log.bytes.len() - HEADER_BYTES) / 4;
    let end = HEADER_BYTES + 2 * object_bytes;
    let read = RecoveryRead { end: end as u32, ..read_of(&log, &[range(0, 0, u64::MAX)], 0) };
    assert_eq!(rig.recovery_read(&read), (Status::Ok, log.bytes[HEADER_BYTES..end].to_vec()));
    let beyond = RecoveryRead { end: log.bytes.len() as u32 + 1, ..read.clone() };
    assert_eq!(rig.recovery_read(&beyond).0, Status::UnknownReplica);
    let other_epoch = RecoveryRead { epoch: Epoch(1), ..read.clone() };
    assert_eq!(rig.recovery_read(&other_epoch).0, Status::UnknownReplica);
    let other_segment = RecoveryRead { segment: SegmentId(9), ..read };
    assert_eq!(rig.recovery_read(&other_segment).0, Status::UnknownReplica);
}

// F4
#[test]
fn overlapping_ranges_and_unknown_partitions_are_bad_requests() {
    let log = small_log(1);
    let mut rig = with(&log);
    rig.fence(MASTER);
    for ranges in [
        vec![range(0, 0, 10), range(1, 10, 20)],
        vec![range(0, 10, 0)],
        vec![range(0, 0, 10), range(1, 5, 6)],
        vec![range(0, 0, 10), PartitionRange { seed: PlacementSeed(8), ..range(1, 11, 20) }],
        vec![range(3, 0, 10)],
    ] {
        assert_eq!(rig.recovery_read(&read_of(&log, &ranges, 0)).0, Status::BadRequest);
    }
    let header = rig.header(Opcode::RecoveryRead, OTHER);
    rig.request(&header, b"no CBOR");
    assert_eq!(rig.answer(&header).map(|(status, _)| status), Some(Status::BadRequest));
}

// F4: the ranges of a thousand partitions are told once, not with every question.
#[test]
fn ranges_are_told_once() {
    let log = small_log(8);
    let mut rig = with(&log);
    rig.fence(MASTER);
    let ranges = [range(0, 0, u64::MAX / 2), range(1, u64::MAX / 2 + 1, u64::MAX)];
    let [one, other] = [0, 1].map(|partition| read_of(&log, &ranges, partition));
    assert_eq!(rig.recovery_read(&untold(&one)).0, Status::UnknownRanges);
    let told = rig.recovery_read(&one);
    assert_eq!(told.0, Status::Ok);
    let untold_after = rig.recovery_read(&untold(&other));
    assert_eq!(untold_after.0, Status::Ok);
    assert_eq!(told.1.len() + untold_after.1.len(), records_of(&log).len());
    assert_eq!(rig.recovery_read(&untold(&one)), told, "they are known when the segment is read again");
    let beyond = RecoveryRead { partition: 2, ..untold(&one) };
    assert_eq!(rig.recovery_read(&beyond).0, Status::BadRequest);
    let mut anew = Rig::on(config(), rig.disk, rig.life + 1);
    anew.fence(MASTER);
    assert_eq!(anew.recovery_read(&untold(&one)).0, Status::UnknownRanges, "a backup that began anew");
    assert_eq!(anew.recovery_read(&one), told);
}

// F4, F6: what is divided by some ranges is never the answer to a question that means others.
#[test]
fn an_answer_is_by_the_ranges_that_are_meant() {
    let log = small_log(8);
    let mut rig = with(&log);
    rig.fence(MASTER);
    let all = records_of(&log);
    let half = [range(0, 0, u64::MAX / 2), range(1, u64::MAX / 2 + 1, u64::MAX)];
    let whole = [range(0, 0, u64::MAX)];
    let first = rig.recovery_read(&read_of(&log, &half, 0));
    assert!(first.1.len() < all.len());
    // The same number, as a coordinator would give it that has lost what it stored.
    let same = read_of(&log, &whole, 0);
    assert_eq!(rig.recovery_read(&untold(&same)).0, Status::UnknownRanges);
    assert_eq!(rig.recovery_read(&same), (Status::Ok, all.clone()));
    assert_eq!(rig.recovery_read(&read_of(&log, &half, 0)), first);
    // A digest of other ranges than are sent.
    let lie = RecoveryRead { recovery: RecoveryId(9), ranges: half.to_vec(), ..same.clone() };
    assert_eq!(rig.recovery_read(&lie).0, Status::BadRequest);
    assert_eq!(rig.recovery_read(&untold(&lie)).0, Status::UnknownRanges, "nothing was taken up");
    // The next division: the older one is over.
    let next = RecoveryRead { recovery: RecoveryId(2), ..same };
    assert_eq!(rig.recovery_read(&untold(&next)).0, Status::UnknownRanges);
    assert_eq!(rig.recovery_read(&next), (Status::Ok, all));
    let older = read_of(&log, &half, 0);
    assert_eq!(rig.recovery_read(&older).0, Status::NotAllowed);
    assert_eq!(rig.recovery_read(&untold(&older)).0, Status::NotAllowed);
}

// F4
#[test]
fn a_read_for_an_older_division_is_answered_when_a_newer_one_has_begun() {
    let log = small_log(8);
    let mut rig = with(&log);
    rig.fence(MASTER);
    let half = [range(0, 0, u64::MAX / 2), range(1, u64::MAX / 2 + 1, u64::MAX)];
    let older = read_of(&log, &half, 0);
    let newer = RecoveryRead { recovery: RecoveryId(2), ..read_of(&log, &half, 1) };
    rig.hold = true;
    let headers = [&older, &newer].map(|read| {
        let header = rig.header(Opcode::RecoveryRead, OTHER);
        rig.request(&header, &cbor(read));
        header
    });
    rig.run();
    let statuses = headers.map(|header| rig.records(&header).unwrap().0);
    assert_eq!(statuses, [Status::Ok, Status::Ok]);
    // One of two partitions had it of either: of the newer it is kept.
    let header = rig.header(Opcode::RecoveryRead, OTHER);
    rig.request(&header, &cbor(&untold(&RecoveryRead { partition: 0, ..newer })));
    assert!(rig.answer(&header).is_some(), "nothing is read for it");
}

// F4: what is remembered is bounded; of more, questions bring the ranges again.
#[test]
fn many_divisions_are_remembered_and_not_all() {
    let log = small_log(2);
    let mut rig = with(&log);
    rig.fence(MASTER);
    let read = |server: u64, recovery: u64| {
        let dead = LogId { server: ServerId(server), shard: ShardId(0) };
        RecoveryRead {
            recovery: RecoveryId(recovery),
            log: dead,
            ..read_of(&log, &[range(0, 0, u64::MAX)], 0)
        }
    };
    let first = 1000;
    for server in first..first + 65 {
        rig.fence(ServerId(server));
        assert_eq!(rig.recovery_read(&read(server, server)).0, Status::UnknownReplica);
    }
    let known = |rig: &mut Rig, server: u64| rig.recovery_read(&untold(&read(server, server))).0;
    assert_eq!(known(&mut rig, first), Status::UnknownRanges);
    assert_eq!(known(&mut rig, first + 1), Status::UnknownReplica);
    assert_eq!(known(&mut rig, first + 64), Status::UnknownReplica);
}

// F4, F9
#[test]
fn a_record_that_does_not_hold_makes_the_replica_corrupt_although_the_whole_checks() {
    let mut log = small_log(2);
    let last = log.bytes.len() - 1;
    log.bytes[last] ^= 1;
    let mut rig = with(&log);
    rig.fence(MASTER);
    assert_eq!(rig.recovery_read(&read_of(&log, &[range(0, 0, u64::MAX)], 0)).0, Status::CorruptReplica);
    assert!(rig.fence(MASTER).replicas.is_empty());
}

// F4
#[test]
fn questions_for_one_segment_share_one_read() {
    let log = small_log(8);
    let mut rig = with(&log);
    rig.fence(MASTER);
    let ranges = [range(0, 0, u64::MAX / 2), range(1, u64::MAX / 2 + 1, u64::MAX)];
    rig.hold = true;
    let headers: Vec<_> = (0..3)
        .map(|_| {
            let header = rig.header(Opcode::RecoveryRead, OTHER);
            rig.request(&header, &cbor(&read_of(&log, &ranges, 0)));
            header
        })
        .collect();
    assert!(rig.run_one());
    assert!(!rig.run_one(), "one read serves all");
    let answers: Vec<_> = headers.iter().map(|header| rig.records(header).unwrap()).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    let mut ask = |partition| {
        let header = rig.header(Opcode::RecoveryRead, OTHER);
        rig.request(&header, &cbor(&read_of(&log, &ranges, partition)));
        let is_read = rig.run_one();
        (is_read, rig.records(&header).unwrap())
    };
    let (is_read, other) = ask(1);
    assert!(!is_read, "what is divided is there for all");
    assert_eq!(answers[0].1.len() + other.1.len(), records_of(&log).len());
    assert_eq!(ask(0), (true, answers[0].clone()), "every partition had it: it was forgotten");
}

// F4: whose answer was lost gets it again, and nobody else's is lost.
#[test]
fn who_asks_again_has_it_read_again() {
    let log = small_log(12);
    let mut rig = with(&log);
    rig.fence(MASTER);
    let third = u64::MAX / 3;
    let ranges = [range(0, 0, third), range(1, third + 1, 2 * third), range(2, 2 * third + 1, u64::MAX)];
    rig.hold = true;
    let mut ask = |partition| {
        let header = rig.header(Opcode::RecoveryRead, OTHER);
        rig.request(&header, &cbor(&read_of(&log, &ranges, partition)));
        let is_read = rig.run_one();
        (is_read, rig.records(&header).unwrap())
    };
    let (_, first) = ask(0);
    assert!(!first.1.is_empty());
    assert_eq!(ask(0), (true, first.clone()), "it is not kept for those who had it");
    let (is_read, second) = ask(1);
    assert!(!is_read);
    let (is_read, third) = ask(2);
    assert!(!is_read);
    assert_eq!(first.1.len() + second.1.len() + third.1.len(), records_of(&log).len());
}

// F4: what a partition was given takes no memory any more, so what is left of more segments stays for who is behind.
#[test]
fn what_was_given_makes_room() {
    let mut rig = Rig::new(config());
    let mut logs = Vec::new();
    for segment in 1..=3 {
        let mut log = Log::head(segment, &[]);
        log.bytes.truncate(HEADER_BYTES);
        log.bytes.extend(records_of(&small_log(40)));
        assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
        logs.push(log);
    }
    let bytes: usize = logs.iter().map(|log| log.bytes.len()).sum();
    assert!(bytes as u64 > config().recovery_cache_bytes, "{bytes} bytes are not larger than the memory");
    rig.fence(MASTER);
    let ranges = [range(0, 0, u64::MAX / 2), range(1, u64::MAX / 2 + 1, u64::MAX)];
    rig.hold = true;
    let mut is_read = |log: &Log, partition| {
        let header = rig.header(Opcode::RecoveryRead, OTHER);
        rig.request(&header, &cbor(&read_of(log, &ranges, partition)));
        let is_read = rig.run_one();
        assert_eq!(rig.records(&header).unwrap().0, Status::Ok);
        is_read
    };
    assert!(logs.iter().all(|log| is_read(log, 0)));
    assert!(logs.iter().all(|log| !is_read(log, 1)));
}

// F4: closed primaries of a log are read before anybody asks for them, the newest first, as far as memory goes.
#[test]
fn primaries_are_read_ahead() {
    let mut rig = Rig::new(config());
    let mut logs = Vec::new();
    for segment in 1..=6 {
        let mut log = Log::head(segment, &[]);
        log.bytes.truncate(HEADER_BYTES);
        log.bytes.extend(records_of(&small_log(2)));
        let append = AppendRequest { primary: segment != 5, ..log.from(0) };
        assert_eq!(rig.append(&log, append).0, Status::Ok);
        if segment != 4 {
            assert_eq!(rig.append(&log, log.close()).0, Status::Ok);
        }
        logs.push(log);
    }
    rig.fence(MASTER);
    let ranges = [range(0, 0, u64::MAX / 2), range(1, u64::MAX / 2 + 1, u64::MAX)];
    assert_eq!(rig.recovery_read(&read_of(&logs[1], &ranges, 0)).0, Status::Ok);
    rig.hold = true;
    let mut is_there = |log: &Log| {
        let header = rig.header(Opcode::RecoveryRead, OTHER);
        rig.request(&header, &cbor(&read_of(log, &ranges, 1)));
        let is_there = rig.answer(&header).is_some();
        rig.run();
        is_there
    };
    let there: Vec<bool> = logs.iter().map(&mut is_there).collect();
    assert_eq!(there, [true, true, true, false, false, true], "4 is open and 5 is no primary");
}

// F4
#[test]
fn reads_beyond_the_memory_come_again() {
    let mut rig = Rig::new(config());
    let mut logs: Vec<Log> = Vec::new();
    for segment in 1..=3 {
        let mut log = small_log(0);
        log.segment = SegmentId(segment);
        log.bytes.clear();
        let value = vec![1; 1500];
        let (table, version) = (TableId(1), Version(1));
        let object = Object { table, version, time: 0, expires: None, key: b"k", value: &value };
        Entry::Object(object, OlderList::NONE).encode(&mut log.bytes);
        assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
        logs.push(log);
    }
    rig.fence(MASTER);
    rig.hold = true;
    let mut answers = Vec::new();
    for log in &logs {
        let header = rig.header(Opcode::RecoveryRead, OTHER);
        rig.request(&header, &cbor(&read_of(log, &[range(0, 0, u64::MAX)], 0)));
        answers.push(header);
    }
    rig.run();
    let statuses: Vec<_> = answers.iter().map(|header| rig.answer(header).unwrap().0).collect();
    assert_eq!(statuses, [Status::Ok, Status::Ok, Status::Retry]);
    rig.hold = false;
    for log in logs.iter().rev() {
        let answer = rig.recovery_read(&read_of(log, &[range(0, 0, u64::MAX)], 0));
        assert_eq!(answer, (Status::Ok, log.bytes.clone()), "the least recently used made room");
    }
}

// F4
#[test]
fn dividing_is_filtering() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut log = small_log(0);
        log.segment = SegmentId(1);
        while log.bytes.len() < 1900 {
            let key: Vec<u8> = (0..rng.below(12)).map(|_| rng.u64() as u8).collect();
            let table = TableId(rng.between(1, 3) as u32);
            let version = Version(rng.between(1, 100));
            let older = (1..=rng.below(4)).map(SegmentId).collect();
            if rng.chance(1, 3) {
                let segments = older;
                let tombstone = ramhold_log::Tombstone { table, version, time: 0, segments, key: &key };
                Entry::Tombstone(tombstone).encode(&mut log.bytes);
            } else {
                let expires = rng.chance(1, 3).then_some(ClusterTime(77));
                let object = Object { table, version, time: 0, expires, key: &key, value: b"v" };
                Entry::Object(object, older).encode(&mut log.bytes);
            }
        }
        let mut ranges = Vec::new();
        for table in 1..=3 {
            let mut cuts: Vec<u64> = (0..rng.below(4)).map(|_| rng.u64()).collect();
            cuts.sort_unstable();
            cuts.push(u64::MAX);
            let mut first = 0;
            for last in cuts {
                let mut range = range(rng.below(3) as u32, first, last);
                range.table = TableId(table);
                range.stream = StreamId(rng.between(1, 2) as u16);
                range.first_segment = SegmentId(rng.between(1, 2));
                if rng.chance(3, 4) {
                    ranges.push(range);
                }
                first = last.saturating_add(1);
            }
        }
        let mut rig = with(&log);
        rig.fence(MASTER);
        let hasher = PlacementHasher::new(SEED);
        for partition in 0..3 {
            if !ranges.iter().any(|range| range.partition == partition) {
                continue;
            }
            let mut model = Vec::new();
            for entry in EntryReader::new(&log.bytes) {
                let (_, entry) = entry.unwrap();
                let (table, key) = match entry {
                    Entry::Object(object, _) => (object.table, object.key),
                    Entry::Tombstone(tombstone) => (tombstone.table, tombstone.key),
                    _ => continue,
                };
                let hash = hasher.hash(key);
                let is_in = ranges.iter().any(|r| {
                    (r.partition, r.table, r.stream, r.first_segment)
                        == (partition, table, StreamId(1), SegmentId(1))
                        && r.first <= hash
                        && hash <= r.last
                });
                if is_in {
                    entry.encode(&mut model);
                }
            }
            let answer = rig.recovery_read(&read_of(&log, &ranges, partition));
            assert_eq!(answer, (Status::Ok, model), "seed {seed}");
        }
    }
}

// D9, F2
#[test]
fn a_fence_tells_the_openings_of_open_and_newest_closed_segments() {
    let mut rig = Rig::new(config());
    for segment in [1, 2, 3] {
        let log = Log::head(segment, &[segment]);
        assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
        if segment < 3 {
            assert_eq!(rig.append(&log, log.close()).0, Status::Ok);
        }
    }
    let mut side = small_log(1);
    side.segment = SegmentId(4);
    let open = ramhold_wire::data::AppendRequest { side: true, ..side.from(0) };
    assert_eq!(rig.append(&side, open).0, Status::Ok);
    let reports = rig.fence(MASTER).replicas;
    let openings: Vec<_> = reports.iter().map(|report| report.opening.is_some()).collect();
    assert_eq!(openings, [false, true, true, false]);
    assert_eq!(reports[1].opening.as_ref().unwrap().digest, [SegmentId(2)]);
    assert_eq!(reports[2].opening.as_ref().unwrap().safe_version, Version(9));
    assert!(reports[3].side);
    assert_eq!(rig.fence(MASTER).replicas, reports, "each answer is as of then");
}

/// A backup of a cluster with neighbourhoods, where a server has many streams.
fn with_neighbourhoods() -> Rig {
    let mut rig = Rig::new(config());
    rig.view.placement = "multiring".parse().unwrap();
    rig
}

// F2, H5
#[test]
fn with_neighbourhoods_a_fence_reads_no_opening_that_an_append_told() {
    let mut rig = with_neighbourhoods();
    for segment in 31..=39 {
        let log = Log::head(segment, &[segment]);
        assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok);
        assert_eq!(rig.append(&log, log.from(0)).0, Status::Ok, "a message that came again");
        if segment < 39 {
            assert_eq!(rig.append(&log, log.close()).0, Status::Ok);
        }
    }
    // Copies of older segments, which another backup has lost.
    for segment in [20, 21, 22, 23] {
        let old = Log::head(segment, &[segment]);
        assert_eq!(rig.append(&old, old.from(0)).0, Status::Ok);
        assert_eq!(rig.append(&old, old.close()).0, Status::Ok);
        assert_eq!(rig.free(&old), Status::Ok);
    }
    rig.disk.reads_fail = true;
    let reports = rig.fence(MASTER).replicas;
    let openings: Vec<_> = reports.iter().filter_map(|it| it.opening.as_ref()).collect();
    assert_eq!(openings.iter().map(|it| it.digest[0].raw()).collect::<Vec<_>>(), [38, 39]);
    assert!(openings.iter().all(|it| it.safe_version == Version(9)));
    assert!(!rig.has_error(), "nothing was read");
    rig.disk.reads_fail = false;
    let mut rig = rig.crash();
    assert_eq!(rig.fence(MASTER).replicas, reports, "read from the device in the next life");
}

// D9, H5
#[test]
fn an_opening_counts_when_a_certificate_covers_it() {
    let mut rig = with_neighbourhoods();
    let log = Log::head(1, &[1]);
    let certificate = Some(log.certificate(HEADER_BYTES));
    let header = AppendRequest { certificate, data: &log.bytes[..HEADER_BYTES], ..log.from(0) };
    assert_eq!(rig.append(&log, header).0, Status::Ok);
    assert_eq!(rig.append(&log, log.from(HEADER_BYTES)).0, Status::Ok);
    let told = rig.fence(MASTER).replicas[0].opening.clone();
    assert_eq!(told.expect("it was read").digest, [SegmentId(1)]);

    let mut rig = with_neighbourhoods();
    let uncertified = AppendRequest { certificate: None, ..log.from(0) };
    assert_eq!(rig.append(&log, uncertified).0, Status::Ok);
    assert_eq!(rig.append(&log, header).0, Status::Ok);
    let reports = rig.fence(MASTER).replicas;
    assert_eq!((reports[0].certified, &reports[0].opening), (HEADER_BYTES as u32, &None));
}

// F9
#[test]
fn a_segment_that_says_it_is_another_is_corrupt() {
    let mut log = Log::head(1, &[1]);
    log.segment = SegmentId(2);
    let mut rig = with(&log);
    assert!(rig.fence(MASTER).replicas.is_empty());
    assert!(rig.has_error());
}

#[test]
fn hostile_bodies_are_answered() {
    let mut rig = Rig::new(config());
    let mut rng = Rng::new(5);
    for _ in 0..2000 {
        let opcodes =
            [Opcode::Append, Opcode::Fence, Opcode::RecoveryRead, Opcode::ReplicaFree, Opcode::ReplicaRead];
        let opcode = *rng.pick(&opcodes).unwrap();
        let sender = if opcode == Opcode::Fence { ServerId::NONE } else { OTHER };
        let mut header = rig.header(opcode, sender);
        header.stream = StreamId(1);
        header.segment = SegmentId(1);
        let mut body: Vec<u8> = (0..rng.below(60)).map(|_| rng.u64() as u8).collect();
        if rng.chance(1, 2) && body.len() > 8 {
            body[1..4].fill(0);
            body[4..8].fill(0);
        }
        if rng.chance(1, 4) {
            body.clear();
            body.put_u32(rng.below(64) as u32);
            body.put_u32(rng.u64() as u32);
            body.put_u64(rng.u64());
            body.put_u64(rng.u64());
        }
        rig.request(&header, &body);
        let reply = rig.sent.iter().find(|(_, sent, _)| sent.rpc == header.rpc && sent.kind == Kind::Reply);
        assert!(reply.is_some());
        rig.sent.clear();
    }
}
