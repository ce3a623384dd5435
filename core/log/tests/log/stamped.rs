//! The log of a brick against a map: records in any order of their stamps, cleaning in small slices, and restarts at
//! any point, after which everything durable is found and every stamp above the bound is remembered.

use crate::harness::{config, hash_of, segment_bytes};
use ramhold_base::{ClusterTime, KeyHash, Position, Rng, SegmentId, Stamp, StreamId, TableId};
use ramhold_log::{
    AppendRefusal, Choice, Combined, Grant, HashRange, Log, LogConfig, NotAdopted, Purpose, QuorumRecord,
    Step, Wish, opening,
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
    pass_count: u32,
    restart_count: u32,
}

fn brick_config() -> LogConfig {
    LogConfig { reserve_bytes: 16 * 1024, cleaning_reserve_bytes: 8 * 1024, ..config(96 * 1024) }
}

fn empty_log(config: LogConfig) -> Log {
    let mut log = Log::new(config, vec![0; config.log_bytes as usize]);
    log.open_stream(STREAM);
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
            pass_count: 0,
            restart_count: 0,
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
        if self.pass.is_none() {
            let whole: BTreeSet<SegmentId> = self.replicas.keys().copied().collect();
            let choice = self.log.choose(&Wish {
                now: self.time().seconds(),
                is_replicated: &|_| true,
                is_whole: &|id| whole.contains(&id),
                is_settled: &|_| true,
                disk_bytes_max: u64::MAX,
                must_leave: &BTreeSet::new(),
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
        let mut named = opening::parse(&head).unwrap().digest.unwrap();
        self.rng.shuffle(&mut named);
        let mut log = empty_log(brick_config());
        let mut applied = BTreeSet::new();
        log.skip_segments(self.replicas.keys().next_back().copied().unwrap_or_default());
        for id in &named {
            let bytes = if *id == durable.segment { &head } else { &self.replicas[id] };
            log.adopt(STREAM, *id, bytes, &held, &mut |_, hash, stamp| _ = applied.insert((stamp, hash)))
                .unwrap();
        }
        self.replicas.retain(|id, _| named.contains(id));
        self.replicas.insert(durable.segment, head);
        self.applied = applied;
        (self.pass, self.entering, self.retiring) = Default::default();
        self.log = log;
        self.forget(0);
        self.check();
        self.log.roll(STREAM, self.time(), &[]).unwrap();
        self.sync();
        // Positions of before count as durable.
        self.history.iter_mut().for_each(|stored| stored.position = Position::default());
    }

    fn check(&self) {
        self.log.check_invariants();
        let mut newest = BTreeMap::<&Key, &Stored>::new();
        for stored in &self.history {
            let known = newest.entry(&stored.key).or_insert(stored);
            if stored.stamp > known.stamp {
                *known = stored;
            }
        }
        for (key, stored) in &newest {
            let found = self.log.newest(TABLE, hash_of(TABLE, key), key).unwrap().expect("it was stored");
            assert_eq!((found.stamp, found.expires), (stored.stamp, stored.expires));
            assert_eq!(found.value.map(|value| value.to_vec()), stored.value);
            assert_eq!(self.log.stamp_at(found.at), Some(stored.stamp));
        }
        assert_eq!(self.log.key_count(), newest.len() as u64);
        for stored in self.history.iter().filter(|stored| stored.stamp.time > self.log.bound()) {
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
                16..=17 => self.sync(),
                18 => self.forget(self.now - 5 * SECOND),
                _ if self.rng.chance(1, 4) => self.restart(),
                _ => {}
            }
        }
        self.sync();
        self.check();
        self.restart();
    }
}

// I2, I6
#[test]
fn random_histories_with_restarts_find_every_record_and_every_stamp() {
    let (mut passes, mut restarts) = (0, 0);
    for seed in 0..30 {
        println!("seed {seed}");
        let mut rig = Rig::new(seed);
        rig.run(3000);
        passes += rig.pass_count;
        restarts += rig.restart_count;
    }
    assert!(passes > 300 && restarts > 500, "{passes} passes, {restarts} restarts");
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
