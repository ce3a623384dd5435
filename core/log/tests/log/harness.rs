//! A small log with a map beside it that says what the log must hold.

use ramhold_base::hash::{Placement, PlacementHasher, PlacementSeed};
use ramhold_base::{
    ClusterId, ClusterTime, KeyHash, LeaseId, LogId, Rng, SegmentId, Sequence, ServerId, ShardId, Status,
    StreamId, TableId, Version,
};
use ramhold_log::{
    AppendRefusal, Change, Cursor, Entry, EntryReader, Geometry, HashRange, Log, LogConfig, Object,
    OutOfMemory, Purpose, Recalled, Remembered, Removal, RpcResult, SideId, SoughtKey, TOGETHER_COUNT_MAX,
    TabletStat, Tombstone, Written,
};
use std::collections::BTreeMap;

pub const STREAM: StreamId = StreamId(1);
pub const OTHER: StreamId = StreamId(2);
pub const TABLES: [TableId; 3] = [TableId(1), TableId(2), TableId(3)];
/// Large enough for no chain of overflow buckets to be refused.
pub const INDEX_BYTES: u64 = 1 << 22;
/// Large for logs of this size: some dozen arrays.
pub const PROFILE_BYTES: u64 = 1 << 18;

pub type Key = (TableId, Vec<u8>);
pub type Model = BTreeMap<Key, (Version, Vec<u8>)>;

/// Segments of 4 KiB in seglets of 1 KiB, so that everything that is rare in production is common here.
pub fn config(log_bytes: u64) -> LogConfig {
    LogConfig {
        cluster: ClusterId(0xC1),
        log: LogId { server: ServerId(7), shard: ShardId(1) },
        geometry: Geometry { segment_bytes: 4096, seglet_bytes: 1024 },
        log_bytes,
        index_bytes_max: INDEX_BYTES,
        reserve_bytes: 8 * 1024,
        cleaning_reserve_bytes: 0,
        profile_bytes_max: PROFILE_BYTES,
        index_secret: 99,
    }
}

/// The second table is by slots, and its keys have one tag: they are close together.
pub fn placement_of(table: TableId) -> Placement {
    Placement { seed: PlacementSeed(u64::from(table.0)), slots: table == TABLES[1] }
}

pub fn hash_of(table: TableId, key: &[u8]) -> KeyHash {
    PlacementHasher::new(placement_of(table)).hash(key)
}

/// The stream that a table is in at first.
pub fn stream_of(table: TableId) -> StreamId {
    if table == TABLES[2] { OTHER } else { STREAM }
}

pub struct Harness {
    pub log: Log,
    pub model: Model,
    /// The last version that each key ever had, removes included.
    pub versions: BTreeMap<Key, Version>,
    pub now: ClusterTime,
    /// The results that clients may still ask for.
    pub results: BTreeMap<(LeaseId, Sequence), Remembered>,
    sequence_last: Sequence,
    /// Whether mutations have results.
    pub has_results: bool,
    /// That of the last mutation.
    pub last_result: Option<RpcResult>,
    /// The hashes that were moved from `STREAM` to `OTHER`.
    pub moved: Option<HashRange>,
}

impl Harness {
    pub fn new(config: LogConfig) -> Harness {
        let mut log = Log::new(config, vec![0; config.log_bytes as usize]);
        for stream in [STREAM, OTHER] {
            log.open_stream(stream);
        }
        TABLES.into_iter().for_each(|table| log.track(HashRange::whole(table)));
        Harness {
            log,
            model: Model::new(),
            versions: BTreeMap::new(),
            now: ClusterTime(1_000_000),
            results: BTreeMap::new(),
            sequence_last: Sequence(0),
            has_results: false,
            last_result: None,
            moved: None,
        }
    }

    /// The stream that a key is in.
    pub fn stream_of_key(&self, table: TableId, hash: KeyHash) -> StreamId {
        if self.moved.is_some_and(|moved| moved.contains(table, hash)) { OTHER } else { stream_of(table) }
    }

    pub fn roll(&mut self, stream: StreamId) -> Result<SegmentId, OutOfMemory> {
        self.now.0 += 10;
        let will = self.log.will();
        self.check_will(&will);
        self.log.roll(stream, self.now, &will)
    }

    /// Writes as a master would: the version grows by one, or starts at the safe version.
    pub fn write(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<Written, AppendRefusal> {
        let hash = hash_of(table, key);
        let stream = self.stream_of_key(table, hash);
        let before = self.log.lookup(table, hash, key).unwrap().map(|found| (found.at, found.version));
        let version = before.map_or(self.log.safe_version(), |(_, version)| version.next());
        let (time, expires) = (self.now.seconds(), expires_of(version));
        let object = Object { table, version, time, expires, key, value };
        let result = self.next_result(table, hash, version);
        let write = |log: &mut Log| {
            log.write(stream, Purpose::Ordinary, hash, &object, before.map(|(at, _)| at), result.as_ref())
        };
        let written = match write(&mut self.log) {
            Err(AppendRefusal::HeadFull) => {
                self.roll(stream).expect("a head is only called full when a new one fits");
                write(&mut self.log)?
            }
            other => other?,
        };
        self.note_result(result);
        self.note_version(table, key, version);
        self.model.insert((table, key.to_vec()), (version, value.to_vec()));
        Ok(written)
    }

    /// Removes a key that exists.
    pub fn remove(&mut self, table: TableId, key: &[u8]) -> Result<Written, AppendRefusal> {
        let hash = hash_of(table, key);
        let stream = self.stream_of_key(table, hash);
        let found = self.log.lookup(table, hash, key).unwrap().expect("the model says it exists");
        let (at, version) = (found.at, found.version.next());
        let removal = Removal { table, key, version, time: self.now.seconds() };
        let result = self.next_result(table, hash, version);
        let written = match self.log.remove(stream, hash, &removal, at, result.as_ref()) {
            Err(AppendRefusal::HeadFull) => {
                self.roll(stream).expect("a head is only called full when a new one fits");
                self.log.remove(stream, hash, &removal, at, result.as_ref())?
            }
            other => other?,
        };
        self.note_result(result);
        self.note_version(table, key, version);
        self.model.remove(&(table, key.to_vec()));
        Ok(written)
    }

    /// Writes and removes some keys as one, as a master would: all get one version, above those of all.
    pub fn commit(
        &mut self,
        stream: StreamId,
        changes: &[(Key, Option<Vec<u8>>)],
    ) -> Result<Written, AppendRefusal> {
        let found: Vec<_> = changes
            .iter()
            .map(|((table, key), _)| self.log.lookup(*table, hash_of(*table, key), key).unwrap())
            .map(|found| found.map(|found| (found.at, found.version)))
            .collect();
        let next =
            found.iter().map(|found| found.map_or(self.log.safe_version(), |(_, version)| version.next()));
        let version = next.max().expect("a commit has keys");
        let (time, expires) = (self.now.seconds(), expires_of(version));
        let mut on_log = Vec::new();
        for (((table, key), value), found) in changes.iter().zip(&found) {
            let (table, hash, at) = (*table, hash_of(*table, key), found.map(|(at, _)| at));
            on_log.push(match (value, at) {
                (Some(value), replaces) => {
                    let object = Object { table, version, time, expires, key, value };
                    Change::Write { hash, object, replaces }
                }
                (None, at) => {
                    let removal = Removal { table, key, version, time };
                    Change::Remove { hash, removal, at: at.expect("what is removed is there") }
                }
            });
        }
        let (table, key) = &changes[0].0;
        let result = self.next_result(*table, hash_of(*table, key), version);
        let commit = |log: &mut Log| log.commit(stream, Purpose::Ordinary, &on_log, result.as_ref());
        let written = match commit(&mut self.log) {
            Err(AppendRefusal::HeadFull) => {
                self.roll(stream).expect("a head is only called full when a new one fits");
                commit(&mut self.log)?
            }
            other => other?,
        };
        self.note_result(result);
        for ((table, key), value) in changes {
            self.note_version(*table, key, version);
            match value {
                Some(value) => self.model.insert((*table, key.clone()), (version, value.clone())),
                None => self.model.remove(&(*table, key.clone())),
            };
        }
        Ok(written)
    }

    /// Changes of one to six different keys. Some of those that are there are removed.
    pub fn random_changes(&self, stream: StreamId, rng: &mut Rng) -> Vec<(Key, Option<Vec<u8>>)> {
        let tables: Vec<TableId> = TABLES.into_iter().filter(|table| stream_of(*table) == stream).collect();
        let mut changes = BTreeMap::new();
        for _ in 0..rng.between(1, 6) {
            let key = (*rng.pick(&tables).unwrap(), random_key(rng));
            let is_removed = self.model.contains_key(&key) && rng.chance(1, 3);
            let value = (!is_removed).then(|| vec![rng.u64() as u8; rng.below(60) as usize]);
            changes.insert(key, value);
        }
        changes.into_iter().collect()
    }

    /// The result of the next mutation, for every second one. Now and then a lease acknowledges all but its last few.
    fn next_result(&mut self, table: TableId, hash: KeyHash, version: Version) -> Option<RpcResult> {
        if !self.has_results {
            return None;
        }
        self.sequence_last = self.sequence_last.next();
        let (lease, sequence) = (LeaseId(1 + self.sequence_last.0 % 3), self.sequence_last);
        let floor = if sequence.0 % 40 < 3 { Sequence(sequence.0.saturating_sub(9)) } else { Sequence(0) };
        self.results.retain(|(theirs, sequence), _| *theirs != lease || *sequence >= floor);
        assert_eq!(self.log.recall(lease, sequence, floor), Recalled::First);
        let status = Status::Ok;
        let number = (sequence.0 % 4 == 0).then_some(version.0);
        (sequence.0 % 2 == 0).then_some(RpcResult {
            table,
            hash,
            lease,
            sequence,
            floor,
            status,
            version,
            number,
        })
    }

    fn note_result(&mut self, result: Option<RpcResult>) {
        self.last_result = result;
        if let Some(RpcResult { lease, sequence, status, version, number, .. }) = result {
            self.results.insert((lease, sequence), Remembered { status, version, number });
        }
    }

    fn note_version(&mut self, table: TableId, key: &[u8], version: Version) {
        let before = self.versions.insert((table, key.to_vec()), version);
        assert!(before.is_none_or(|before| before < version), "a version went back");
    }

    /// One random operation of a client or of the log itself; returns whether memory sufficed.
    pub fn step(&mut self, rng: &mut Rng) -> bool {
        self.now.0 += rng.below(2000);
        let table = *rng.pick(&TABLES).unwrap();
        let key = random_key(rng);
        let outcome = match rng.below(23) {
            0..=13 => {
                let bytes = if rng.chance(1, 10) { rng.below(1200) } else { rng.below(60) };
                let value: Vec<u8> = (0..bytes).map(|_| rng.u64() as u8).collect();
                self.write(table, &key, &value).map(|_| ())
            }
            14..=18 if self.model.contains_key(&(table, key.clone())) => self.remove(table, &key).map(|_| ()),
            14..=18 => Ok(()),
            20..=22 => {
                let changes = self.random_changes(stream_of(table), rng);
                self.commit(stream_of(table), &changes).map(|_| ())
            }
            _ => self.roll(stream_of(table)).map(|_| ()).map_err(|_| AppendRefusal::OutOfMemory),
        };
        match outcome {
            Ok(()) => true,
            Err(AppendRefusal::OutOfMemory) => false,
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    /// The log holds what the model says, no more, and its counters agree.
    pub fn check(&self) {
        self.log.check_invariants();
        for ((table, key), (version, value)) in &self.model {
            let found = self
                .log
                .lookup(*table, hash_of(*table, key), key)
                .unwrap()
                .expect("the model says it exists");
            assert_eq!((found.version, found.expires), (*version, expires_of(*version)));
            assert!(found.value.is_equal(value));
            assert_eq!(found.value.to_vec(), *value);
            let mut copy = Vec::new();
            self.log.read_value(found.at, &mut copy);
            assert_eq!(copy, *value);
            assert!(found.position().offset <= found.segment().len_bytes);
        }
        assert_eq!(self.log.usage().index_entry_count, self.model.len() as u64);
        for (key, version) in self.versions.iter().filter(|(key, _)| !self.model.contains_key(key)) {
            assert!(self.log.lookup(key.0, hash_of(key.0, &key.1), &key.1).unwrap().is_none());
            assert!(self.log.safe_version() > *version);
        }
        self.check_together();
        for ((lease, sequence), result) in &self.results {
            assert_eq!(self.log.result(*lease, *sequence), Some(*result), "{lease} {sequence}");
        }
        self.check_stats();
    }

    /// Keys that are looked up together are found as each alone, except those that are not plain to find.
    /// Returns how many were found.
    pub fn check_together(&self) -> usize {
        let keys: Vec<&Key> = self.versions.keys().collect();
        let mut told_count = 0;
        for keys in keys.chunks(TOGETHER_COUNT_MAX) {
            let sought: Vec<SoughtKey<'_>> = keys
                .iter()
                .map(|(table, key)| SoughtKey { table: *table, hash: hash_of(*table, key), key })
                .collect();
            self.log.lookup_together(&sought, |number, told| {
                let SoughtKey { table, hash, key } = sought[number];
                let found = self.log.lookup(table, hash, key).unwrap().expect("what is told is there");
                assert_eq!((told.at, told.kind, told.version), (found.at, found.kind, found.version));
                assert_eq!((told.time, told.expires), (found.time, found.expires));
                assert_eq!(told.value.contiguous().map(<[u8]>::to_vec), Some(found.value.to_vec()));
                told_count += 1;
            });
        }
        told_count
    }

    /// Rows tell all that there is, each of something within a range, and there are no more than allowed. At the edges of
    /// ranges they may tell more.
    fn check_will(&self, will: &[TabletStat]) {
        assert!(will.len() <= self.log.will_rows());
        assert!(self.log.profile_bytes() <= PROFILE_BYTES);
        for stat in self.log.stats() {
            let of_range = will.iter().filter(|row| row.table == stat.table);
            let within = of_range.filter(|row| stat.first <= row.first && row.last <= stat.last);
            let sum = within.fold((0, 0), |sum, row| (sum.0 + row.bytes, sum.1 + row.records));
            assert!(sum.0 >= stat.bytes && sum.1 >= stat.records);
            if (stat.first, stat.last) == (KeyHash(0), KeyHash(u64::MAX)) {
                assert_eq!(sum, (stat.bytes, stat.records));
            }
        }
    }

    fn check_stats(&self) {
        self.log.check_profiles(&hash_of);
        for stat in self.log.stats() {
            let of_table = self.model.iter().filter(|((table, _), _)| *table == stat.table);
            let (mut bytes, mut records) = (0, 0);
            for ((table, key), (version, value)) in of_table {
                let (table, version, expires) = (*table, *version, expires_of(*version));
                let object = Object { table, version, time: 0, expires, key, value };
                let found =
                    self.log.lookup(table, hash_of(table, key), key).unwrap().expect("it is in the model");
                let list_bytes = u64::from(found.entry_bytes()) - object.entry_bytes() as u64;
                assert!(list_bytes == 0 || (6..=41).contains(&list_bytes) && list_bytes % 5 == 1);
                bytes += u64::from(found.entry_bytes());
                records += 1;
            }
            assert_eq!((stat.bytes, stat.records), (bytes, records), "{stat:?}");
        }
    }

    pub fn finish_replay(&mut self, side: SideId) {
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            cursor = self.log.finish_replay_step(side, from, 3);
        }
    }
}

/// Every fourth version expires some time.
pub fn expires_of(version: Version) -> Option<ClusterTime> {
    version.0.is_multiple_of(4).then_some(ClusterTime(1_700_000_060_000 + version.0))
}

pub fn random_key(rng: &mut Rng) -> Vec<u8> {
    match rng.below(50) {
        0 => Vec::new(),
        // Long enough to lie across seglets now and then.
        1 => vec![b'x'; 300 + rng.below(4) as usize],
        _ => format!("{{t}}key{}", rng.below(60)).into_bytes(),
    }
}

/// The bytes of every segment that is in the log's streams.
pub fn segments(log: &Log) -> Vec<Vec<u8>> {
    let ids: Vec<SegmentId> =
        [STREAM, OTHER].into_iter().flat_map(|stream| log.stream_segments(stream)).collect();
    ids.into_iter().map(|id| segment_bytes(log, id)).collect()
}

pub fn segment_bytes(log: &Log, id: SegmentId) -> Vec<u8> {
    let mut bytes = Vec::new();
    log.copy_segment(id, 0, log.segment(id).unwrap().len_bytes, &mut bytes);
    bytes
}

pub fn entries(segments: &[Vec<u8>]) -> Vec<Entry<'_>> {
    segments.iter().flat_map(|bytes| EntryReader::new(bytes)).map(|entry| entry.unwrap().1).collect()
}

/// The placement hash of an entry's key; any value for entries without one.
pub fn entry_hash(entry: &Entry<'_>) -> KeyHash {
    match entry {
        Entry::Object(Object { table, key, .. }, _) | Entry::Tombstone(Tombstone { table, key, .. }) => {
            hash_of(*table, key)
        }
        Entry::RpcResult(result) => result.hash,
        Entry::QuorumRecord(record) => hash_of(record.table, record.key),
        Entry::SegmentHeader(_)
        | Entry::Digest(_)
        | Entry::SafeVersion(_)
        | Entry::TabletStats(_)
        | Entry::Summaries(_) => KeyHash(0),
    }
}
