//! The log of a brick against a map: records in any order of their stamps, cleaning in small slices, and restarts at
//! any point, after which everything durable is found and every stamp above the bound is remembered.

use crate::harness::{config, hash_of, segment_bytes};
use ramhold_base::{ClusterTime, KeyHash, Position, Rng, SegmentId, Stamp, StreamId, TableId};
use ramhold_log::{
    Adopting, AppendRefusal, Awaited, Choice, Combined, Entry, EntryReader, Grant, HashRange, Log, LogConfig,
    NotAdopted, Purpose, QuorumRecord, Step, Summary, Wish, opening,
};
use std::collections::{BTreeMap, BTreeSet};

const STREAM: StreamId = StreamId(1);
const TABLE: TableId = TableId(1);
const SECOND: u64 = 1_000_000;

type Key = Vec<u8>;

/// A record that was stored.
#[derive(Clone)]
struct Stored {
    position: Position,
    key: Key,
    stamp: Stamp,
    expires: Option<ClusterTime>,
    value: Option<Vec<u8>>,
}

/// The log of a brick, and what its device holds.
struct Rig {
    log: Log,
    rng: Rng,
    /// Microseconds.
    now: u64,
    history: Vec<Stored>,
    /// The stamps that were superseded, as the brick remembers them.
    applied: BTreeSet<(Stamp, KeyHash)>,
    durable: Position,
    replicas: BTreeMap<SegmentId, Vec<u8>>,
    pass: Option<Combined>,
    entering: Vec<Combined>,
    retiring: Vec<(SegmentId, Vec<SegmentId>)>,
    /// Segments that are awaited, the next one last.
    awaited: Vec<SegmentId>,
    /// The next one is being adopted.
    adopting: Option<Adopting>,
    pass_count: u32,
    restart_count: u32,
    /// Restarts while segments were awaited, and records that were stored meanwhile.
    loading_restarts: u32,
    loading_stores: u32,
    /// The bound that was told last behind the records of a head, and where that ends.
    told: (Position, u64),
    told_count: u32,
}

fn brick_config() -> LogConfig {
    LogConfig { reserve_bytes: 16 * 1024, cleaning_reserve_bytes: 8 * 1024, ..config(96 * 1024) }
}

fn empty_log(config: LogConfig) -> Log {
    let mut log = Log::new(config, vec![0; config.log_bytes as usize]);
    log.open_stream(STREAM);
    log.tell_summaries();
    log.track(HashRange::whole(TABLE));
    log
}

impl Rig {
    fn new(seed: u64) -> Rig {
        let mut rig = Rig {
            log: empty_log(brick_config()),
            rng: Rng::new(seed),
            now: 1000 * SECOND,
            history: Vec::new(),
            applied: BTreeSet::new(),
            durable: Position::default(),
            replicas: BTreeMap::new(),
            pass: None,
            entering: Vec::new(),
            retiring: Vec::new(),
            awaited: Vec::new(),
            adopting: None,
            pass_count: 0,
            restart_count: 0,
            loading_restarts: 0,
            loading_stores: 0,
            told: Default::default(),
            told_count: 0,
        };
        rig.log.roll(STREAM, rig.time(), &[]).unwrap();
        rig.sync();
        rig
    }

    fn time(&self) -> ClusterTime {
        ClusterTime(self.now / 1000)
    }

    /// Everything in the stream reaches the device.
    fn sync(&mut self) {
        self.durable = self.log.head_end(STREAM);
        let closed: Vec<SegmentId> =
            self.log.stream_segments(STREAM).filter(|id| self.log.segment(*id).unwrap().closed).collect();
        for id in closed {
            self.replicas.entry(id).or_insert_with(|| segment_bytes(&self.log, id));
        }
    }

    /// Stores a value as a brick does: only if its stamp is the newest.
    fn store(&mut self) {
        self.now += self.rng.below(SECOND / 20);
        let key = format!("key{}", self.rng.below(60)).into_bytes();
        let hash = hash_of(TABLE, &key);
        // Sessions' clocks differ by some seconds.
        let stamp = Stamp {
            time: self.now + self.rng.below(4 * SECOND) - 2 * SECOND,
            session: 2 + 2 * self.rng.below(9),
        };
        let newest = self.log.newest(TABLE, hash, &key).unwrap().map(|newest| (newest.at, newest.stamp));
        if newest.is_some_and(|(_, newest)| newest >= stamp) {
            return;
        }
        if let Some(floor) = self.log.floor_of_awaited() {
            // The newest of the key is not known, and this one may be older.
            if stamp.time <= floor && newest.is_none_or(|(_, newest)| newest.time <= floor) {
                return;
            }
            self.loading_stores += 1;
        }
        let bytes = vec![self.rng.u64() as u8; self.rng.below(700) as usize];
        let value = (!self.rng.chance(1, 5)).then_some(bytes);
        let expires = (value.is_some() && self.rng.chance(1, 4)).then(|| self.time());
        let record = QuorumRecord { table: TABLE, stamp, expires, key: &key, value: value.as_deref() };
        let replaces = newest.map(|(at, _)| at);
        let stored = match self.log.store(STREAM, Purpose::Ordinary, hash, &record, replaces) {
            Err(AppendRefusal::HeadFull) => {
                self.log.roll(STREAM, self.time(), &[]).unwrap();
                self.log.store(STREAM, Purpose::Ordinary, hash, &record, replaces)
            }
            other => other,
        };
        match stored {
            Ok(written) => {
                if let Some((_, before)) = newest {
                    self.applied.insert((before, hash));
                }
                self.history.push(Stored { position: written.position, key, stamp, expires, value });
            }
            // As a brick does that has too little memory: it forgets, so that cleaning may go on.
            Err(AppendRefusal::OutOfMemory) => self.forget(self.now - 2 * SECOND),
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    fn forget(&mut self, bound: u64) {
        self.log.raise_bound(bound);
        let bound = self.log.bound();
        self.applied.retain(|(stamp, _)| stamp.time > bound);
    }

    fn clean(&mut self) {
        if !self.awaited.is_empty() {
            return;
        }
        if self.pass.is_none() {
            let whole: BTreeSet<SegmentId> = self.replicas.keys().copied().collect();
            let choice = self.log.choose(&Wish {
                now: self.time().seconds(),
                is_replicated: &|_| true,
                is_whole: &|id| whole.contains(&id),
                is_settled: &|_| true,
                disk_bytes_max: u64::MAX,
                must_leave: &BTreeSet::new(),
                frames_left: None,
                is_two_level: false,
                may_leave: &|_| true,
                is_pressed: false,
            });
            let Some(Choice::Combined { sources, .. }) = choice else { return };
            self.pass = Some(self.log.begin_combined(STREAM, &sources, self.time()));
            self.pass_count += 1;
        }
        let pass = self.pass.as_mut().unwrap();
        let grant = Grant { work: 600, now: ClusterTime(self.now / 1000), expired_stay: false };
        if self.log.combined_step(pass, grant, &hash_of) == Step::Done {
            self.entering.extend(self.pass.take());
        }
    }

    fn settle(&mut self) {
        for pass in std::mem::take(&mut self.entering) {
            let side: Vec<SegmentId> = self.log.side_segments(pass.side()).collect();
            if !self.log.may_roll(side.len()) {
                self.entering.push(pass);
                continue;
            }
            for id in side {
                self.replicas.insert(id, segment_bytes(&self.log, id));
            }
            self.log.enter_combined(&pass);
            let head = self.log.roll_entering(STREAM, self.time(), &[]).unwrap();
            self.retiring.push((head, pass.sources().to_vec()));
        }
        for (head, sources) in std::mem::take(&mut self.retiring) {
            if self.durable.segment < head {
                self.retiring.push((head, sources));
                continue;
            }
            for id in sources {
                self.log.retire(id);
                self.replicas.remove(&id);
            }
        }
    }

    /// The brick dies, and takes over what its device holds.
    fn restart(&mut self) {
        self.restart_count += 1;
        let durable = self.durable;
        self.history.retain(|stored| stored.position <= durable);
        let mut head = match self.replicas.get(&durable.segment) {
            Some(bytes) => bytes.clone(),
            None => segment_bytes(&self.log, durable.segment),
        };
        head.truncate(durable.offset as usize);
        let mut named = opening::parse(&head).unwrap().named().unwrap();
        for (id, summary) in &named {
            let Some(told) = summary else {
                assert_eq!(*id, durable.segment, "all but the head have a summary");
                continue;
            };
            // Segments of cleaning passes have the newest stamps of their sources.
            let Summary { stamp_newest, entry_count } = summary_of(&self.replicas[id]);
            assert!(told.stamp_newest >= stamp_newest && told.entry_count == entry_count, "{id}: {told:?}");
        }
        self.loading_restarts += u32::from(!self.awaited.is_empty());
        self.awaited.clear();
        self.adopting = None;
        self.rng.shuffle(&mut named);
        let mut log = empty_log(brick_config());
        if self.rng.chance(1, 2) {
            let newest = |summary: Option<Summary>| summary.map_or(u64::MAX, |it| it.stamp_newest);
            named.sort_by_key(|(_, summary)| newest(*summary));
            // Those of which nothing is known are not awaited, and none is without room for writes beside them.
            let count = self.rng.below(named.len() as u64) as usize;
            let bytes =
                |(id, _): &(SegmentId, Option<Summary>)| self.replicas.get(id).map_or(0, Vec::len) as u32;
            let has_room = log.may_await(named.iter().map(bytes));
            for (id, summary) in named.drain(..if has_room { count } else { 0 }) {
                let (stream, bytes) = (STREAM, self.replicas[&id].len() as u32);
                let awaited = Awaited { stream, bytes, summary: summary.expect("it is no head") };
                log.await_segment(id, awaited).unwrap();
                self.awaited.push(id);
            }
        }
        let named: Vec<SegmentId> = named.into_iter().map(|(id, _)| id).collect();
        let mut applied = BTreeSet::new();
        log.skip_segments(self.replicas.keys().next_back().copied().unwrap_or_default());
        for id in &named {
            let bytes = if *id == durable.segment { &head } else { &self.replicas[id] };
            log.adopt(STREAM, *id, bytes, &held, &mut |_, hash, stamp| _ = applied.insert((stamp, hash)))
                .unwrap();
        }
        self.replicas.retain(|id, _| named.contains(id) || self.awaited.contains(id));
        self.replicas.insert(durable.segment, head);
        self.applied = applied;
        (self.pass, self.entering, self.retiring) = Default::default();
        self.log = log;
        if self.told.0 <= durable {
            assert!(self.log.bound() >= self.told.1, "the bound {:?} was told", self.told);
            self.told_count += u32::from(self.told.1 > 0);
        }
        self.told = Default::default();
        self.forget(0);
        self.check();
        self.log.roll(STREAM, self.time(), &[]).unwrap();
        self.sync();
        // Positions of before count as durable.
        self.history.iter_mut().for_each(|stored| stored.position = Position::default());
    }

    /// Takes some of the next segment over that is awaited.
    fn load(&mut self) {
        let Some(id) = self.awaited.last() else { return };
        let bytes = &self.replicas[id];
        match &mut self.adopting {
            None => self.adopting = Some(self.log.begin_adopt(STREAM, *id, bytes).unwrap()),
            Some(adopting) => {
                let mut note = |_, hash, stamp| _ = self.applied.insert((stamp, hash));
                let count = 1 + self.rng.below(12) as usize;
                if self.log.adopt_slice(adopting, bytes, count, &held, &mut note).unwrap() {
                    (self.adopting, _) = (None, self.awaited.pop());
                }
            }
        }
        self.forget(0);
        self.check();
    }

    /// Checks the log. While segments are awaited, nothing is said of keys and stamps below their newest.
    fn check(&self) {
        self.log.check_invariants();
        let floor = self.log.floor_of_awaited();
        assert_eq!((floor.is_some(), self.log.awaited().0), (!self.awaited.is_empty(), self.awaited.len()));
        let floor = floor.unwrap_or_default();
        let mut newest = BTreeMap::<&Key, &Stored>::new();
        for stored in &self.history {
            let known = newest.entry(&stored.key).or_insert(stored);
            if stored.stamp > known.stamp {
                *known = stored;
            }
        }
        for (key, stored) in newest.iter().filter(|(_, stored)| stored.stamp.time > floor) {
            let found = self.log.newest(TABLE, hash_of(TABLE, key), key).unwrap().expect("it was stored");
            assert_eq!((found.stamp, found.expires), (stored.stamp, stored.expires));
            assert_eq!(found.value.map(|value| value.to_vec()), stored.value);
            assert_eq!(self.log.stamp_at(found.at), Some(stored.stamp));
        }
        assert!(floor > 0 || self.log.key_count() == newest.len() as u64);
        let bound = self.log.bound().max(floor);
        for stored in self.history.iter().filter(|stored| stored.stamp.time > bound) {
            let is_newest = newest[&stored.key].stamp == stored.stamp;
            let is_known = self.applied.contains(&(stored.stamp, hash_of(TABLE, &stored.key)));
            assert!(is_newest || is_known, "{:?} is above the bound and forgotten", stored.stamp);
        }
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            match self.rng.below(20) {
                0..=11 => self.store(),
                12..=14 => self.clean(),
                15 => self.settle(),
                16..=17 if !self.awaited.is_empty() && self.rng.chance(1, 2) => self.load(),
                16..=17 => self.sync(),
                18 => {
                    self.forget(self.now - 5 * SECOND);
                    if let Ok(end) = self.log.tell_bound(STREAM) {
                        self.told = (end, self.log.bound());
                    }
                }
                _ if self.rng.chance(1, 4) => self.restart(),
                _ => {}
            }
        }
        self.sync();
        self.check();
        self.restart();
        while !self.awaited.is_empty() {
            self.load();
        }
        self.check();
    }
}

// I2, I6
#[test]
fn random_histories_with_restarts_find_every_record_and_every_stamp() {
    let (mut passes, mut restarts, mut loading, mut stores) = (0, 0, 0, 0);
    let mut told = 0;
    for seed in 0..30 {
        println!("seed {seed}");
        let mut rig = Rig::new(seed);
        rig.run(3000);
        told += rig.told_count;
        passes += rig.pass_count;
        restarts += rig.restart_count;
        loading += rig.loading_restarts;
        stores += rig.loading_stores;
    }
    println!("{passes} passes, {restarts} restarts, {loading} while loading, {stores} stored meanwhile");
    assert!(passes > 300 && restarts > 500, "{passes} passes, {restarts} restarts");
    assert!(told > 200, "after {told} restarts the bound was told behind records");
    assert!(loading > 50 && stores > 500, "{loading} restarts while loading, {stores} stored meanwhile");
}

/// The summary that a head should give of a segment.
fn summary_of(bytes: &[u8]) -> Summary {
    let mut summary = Summary::default();
    for entry in EntryReader::new(bytes) {
        summary.entry_count += 1;
        if let Entry::QuorumRecord(record) = entry.unwrap().1 {
            summary.stamp_newest = summary.stamp_newest.max(record.stamp.time);
        }
    }
    summary
}

// C6: a device that has frames for one pass over one segment can let any of them leave.
#[test]
fn what_survives_of_a_segment_that_must_leave_fits_one() {
    let mut log = empty_log(brick_config());
    let first = log.roll(STREAM, ClusterTime(1), &[]).unwrap();
    let mut next = 0..;
    while log.head_segment(STREAM) == Some(first) {
        let (number, value) = (next.next().unwrap(), vec![7; 200]);
        let (key, stamp) = (format!("key{number}"), Stamp { time: 1 + number, session: 2 });
        let hash = hash_of(TABLE, key.as_bytes());
        let record =
            QuorumRecord { table: TABLE, stamp, expires: None, key: key.as_bytes(), value: Some(&value) };
        if log.store(STREAM, Purpose::Ordinary, hash, &record, None) == Err(AppendRefusal::HeadFull) {
            log.roll(STREAM, ClusterTime(1), &[]).unwrap();
        }
    }
    log.raise_bound(1 << 40);
    let must_leave = BTreeSet::from([first]);
    let choose = |frames_left| {
        log.choose(&Wish {
            now: 2,
            is_replicated: &|_| true,
            is_whole: &|_| true,
            is_settled: &|_| true,
            disk_bytes_max: u64::MAX,
            must_leave: &must_leave,
            frames_left: Some(frames_left),
            is_two_level: false,
            may_leave: &|_| true,
            is_pressed: false,
        })
    };
    assert_eq!(choose(1), None, "the survivors take one, and the head that enters them another");
    let Some(Choice::Combined { sources, plan, .. }) = choose(2) else { panic!("it is to leave") };
    assert_eq!((&sources[..], plan.frames), (&[first][..], 1));
    let mut pass = log.begin_combined(STREAM, &sources, ClusterTime(2));
    let grant = Grant { work: 1 << 30, now: ClusterTime(2), expired_stay: false };
    while log.combined_step(&mut pass, grant, &hash_of) != Step::Done {}
    assert_eq!(log.side_segments(pass.side()).count(), 1);
}

/// A log in which these segments, of one full log each, are awaited, and its stream has a head.
fn awaiting(config: LogConfig, segments: &BTreeMap<SegmentId, Vec<u8>>) -> Log {
    let mut log = empty_log(config);
    for (id, bytes) in segments {
        let (stream, summary) = (STREAM, summary_of(bytes));
        log.await_segment(*id, Awaited { stream, bytes: bytes.len() as u32, summary }).unwrap();
    }
    log.skip_segments(segments.keys().next_back().copied().unwrap());
    log.roll(STREAM, ClusterTime(1), &[]).unwrap();
    log
}

/// The closed segments of a log with many records.
fn closed_segments(seed: u64) -> BTreeMap<SegmentId, Vec<u8>> {
    let mut rig = Rig::new(seed);
    while rig.log.stream_segments(STREAM).count() < 6 {
        rig.store();
    }
    rig.sync();
    rig.replicas
}

// I6: what is written while segments are awaited takes neither their memory nor their places in the index.
#[test]
fn room_is_held_back_for_segments_that_are_awaited() {
    let segments = closed_segments(4);
    let small_index = LogConfig { index_bytes_max: 4096, ..brick_config() };
    for (config, value) in [(brick_config(), &[7; 600][..]), (small_index, b"")] {
        let mut log = awaiting(config, &segments);
        let mut count = 0_u64;
        let refusal = loop {
            count += 1;
            let (key, stamp) = (format!("new{count}"), Stamp { time: u64::MAX >> 3, session: 2 });
            let record =
                QuorumRecord { table: TABLE, stamp, expires: None, key: key.as_bytes(), value: Some(value) };
            let hash = hash_of(TABLE, key.as_bytes());
            match log.store(STREAM, Purpose::Ordinary, hash, &record, None) {
                Ok(_) => {}
                Err(AppendRefusal::HeadFull) => _ = log.roll(STREAM, ClusterTime(2), &[]).unwrap(),
                Err(refusal) => break refusal,
            }
        };
        assert_eq!(refusal, AppendRefusal::OutOfMemory, "after {count} records");
        log.check_invariants();
        for (id, bytes) in &segments {
            log.adopt(STREAM, *id, bytes, &held, &mut |_, _, _| {}).unwrap();
        }
        assert_eq!((log.floor_of_awaited(), log.awaited()), (None, (0, 0)));
        log.check_invariants();
    }
}

// I6: nothing above the floor comes with a segment that is awaited.
#[test]
fn a_segment_that_is_not_what_its_head_told_is_not_adopted() {
    let segments = closed_segments(5);
    let (id, bytes) = segments.iter().max_by_key(|(_, bytes)| summary_of(bytes).stamp_newest).unwrap();
    let summary = summary_of(bytes);
    let with = |summary: Summary, length: usize| {
        let mut log = empty_log(brick_config());
        log.await_segment(*id, Awaited { stream: STREAM, bytes: length as u32, summary }).unwrap();
        assert_eq!(log.floor_of_awaited(), Some(summary.stamp_newest));
        log.roll(STREAM, ClusterTime(1), &[]).unwrap();
        log.adopt(STREAM, *id, bytes, &held, &mut |_, _, _| {})
    };
    assert!(with(summary, bytes.len()).unwrap() > 1);
    let lower = Summary { stamp_newest: summary.stamp_newest - 1, ..summary };
    let fewer = Summary { entry_count: summary.entry_count - 1, ..summary };
    for (summary, length) in [(lower, bytes.len()), (fewer, bytes.len()), (summary, bytes.len() - 1)] {
        assert_eq!(with(summary, length), Err(NotAdopted::Corrupt { offset: 0 }));
    }
    let mut log = empty_log(brick_config());
    let all = Awaited { stream: STREAM, bytes: 96 * 1024, summary };
    log.await_segment(*id, all).unwrap();
    assert!(log.await_segment(id.next(), Awaited { bytes: 1, ..all }).is_err(), "there is no room");
}

/// All tables are held.
fn held(table: TableId, key: &[u8]) -> Option<KeyHash> {
    Some(hash_of(table, key))
}

fn adopted(bytes: &[u8], id: SegmentId, config: LogConfig) -> Result<u64, NotAdopted> {
    let mut log = empty_log(config);
    let adopted = log.adopt(STREAM, id, bytes, &held, &mut |_, _, _| {});
    if adopted.is_err() {
        assert_eq!((log.segments().count(), log.key_count()), (0, 0), "nothing has changed");
    }
    adopted
}

// I6
#[test]
fn what_is_not_this_log_is_not_adopted() {
    let mut rig = Rig::new(1);
    (0..20).for_each(|_| rig.store());
    let id = rig.log.head_segment(STREAM).unwrap();
    let bytes = segment_bytes(&rig.log, id);
    let ours = brick_config();
    assert!(adopted(&bytes, id, ours).unwrap() > 1);
    assert_eq!(adopted(&bytes, id.next(), ours), Err(NotAdopted::Foreign));
    let other = LogConfig { cluster: ramhold_base::ClusterId(7), ..ours };
    assert_eq!(adopted(&bytes, id, other), Err(NotAdopted::Foreign));
    assert_eq!(adopted(&bytes[..20], id, ours), Err(NotAdopted::Foreign));
    assert_eq!(adopted(&[], id, ours), Err(NotAdopted::Foreign));
    let cut = adopted(&bytes[..bytes.len() - 1], id, ours);
    assert!(matches!(cut, Err(NotAdopted::Corrupt { offset }) if offset > 0), "{cut:?}");
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    assert!(matches!(adopted(&flipped, id, ours), Err(NotAdopted::Corrupt { .. })));
    // The segment of a master.
    let mut master = crate::harness::Harness::new(ours);
    master.write(TABLE, b"k", b"v").unwrap();
    let id = master.log.head_segment(crate::harness::STREAM).unwrap();
    let bytes = segment_bytes(&master.log, id);
    assert!(matches!(adopted(&bytes, id, ours), Err(NotAdopted::Corrupt { .. })));
}

// A1: the keys of a dropped table do not come back with a start.
#[test]
fn records_of_a_table_that_is_not_held_are_dead() {
    let mut rig = Rig::new(2);
    (0..20).for_each(|_| rig.store());
    let id = rig.log.head_segment(STREAM).unwrap();
    let bytes = segment_bytes(&rig.log, id);
    let mut log = empty_log(brick_config());
    log.adopt(STREAM, id, &bytes, &|_, _| None, &mut |_, _, _| panic!("nothing is superseded")).unwrap();
    let segment = log.segment(id).unwrap();
    assert_eq!((log.key_count(), segment.live_bytes, segment.live_count), (0, 0, 0));
    log.check_invariants();
}
