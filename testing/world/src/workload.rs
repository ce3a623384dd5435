//! The requests of clients: keys, values, conditions.
//!
//! There are few hot keys and many cold ones, and each seed has its own mix. Values are unique per key, so
//! that a value identifies its write. The empty value cannot carry a number, so it is written to a key at
//! most once.

use crate::checker::registers::REGISTERS;
use crate::checker::{COUNTERS, PLACE_COUNT, amount};
use crate::history::{Action, Condition, Operation, ValueId};
use ramhold_base::{Instant, Number, Rng, Version};
use std::collections::BTreeMap;
use std::time::Duration;

/// The mix of one run. Weights are relative.
#[derive(Clone, Debug)]
pub struct Workload {
    pub hot_keys: u32,
    pub cold_keys: u32,
    /// The first of the cold keys; see `MANY_TAGS_FROM`.
    pub cold_from: u32,
    /// Operations of 100 that go to hot keys.
    pub hot_percent: u64,
    pub reads: u64,
    pub writes: u64,
    pub removes: u64,
    /// Operations of 100 that are for counters.
    pub counting_percent: u64,
    /// The number of commits of several keys, per 100 other operations.
    pub commit_percent: u64,
    /// The number of scans, per 1000 other operations.
    pub scan_permille: u64,
    /// Keys of quorum tables; 0: there is no quorum table.
    pub register_keys: u32,
    /// Operations of 100 that go to these keys.
    pub register_percent: u64,
    /// After so many nanoseconds other keys of quorum tables take the place of these, and after as many again these come
    /// back; 0: the keys stay. Tombstones of keys that nobody writes go late.
    pub register_span: u64,
    /// Mutations of 100 that have a condition.
    pub conditional_percent: u64,
    /// Writes of 100 that give the object a time to live.
    pub ttl_percent: u64,
    pub value_bytes_max: u64,
    /// The longest pause between two operations of one client, in nanoseconds.
    pub think_max: u64,
    pub clients: u32,
}

impl Workload {
    pub fn draw(rng: &mut Rng) -> Workload {
        let hot_keys = rng.between(1, 6) as u32;
        Workload {
            hot_keys,
            cold_from: hot_keys,
            cold_keys: rng.between(20, 400) as u32,
            hot_percent: rng.between(10, 80),
            reads: rng.between(1, 6),
            writes: rng.between(1, 6),
            removes: rng.below(3),
            counting_percent: 0,
            commit_percent: 0,
            scan_permille: 0,
            register_keys: 0,
            register_percent: 0,
            register_span: 0,
            conditional_percent: rng.below(60),
            ttl_percent: rng.below(31),
            value_bytes_max: *rng.pick(&[16, 200, 1500, 6000]).expect("four sizes"),
            think_max: 1_000_000 * rng.between(10, 60),
            clients: rng.between(3, 7) as u32,
        }
    }

    /// The same keys, with reads only.
    #[must_use]
    pub fn of_reader(self) -> Workload {
        Workload { reads: 1, writes: 0, removes: 0, counting_percent: 0, commit_percent: 0, ..self }
    }

    /// Whether the next operation goes to a quorum table. Nothing is drawn where there is none.
    pub fn is_for_registers(&self, rng: &mut Rng) -> bool {
        self.register_keys > 0 && rng.chance(self.register_percent, 100)
    }

    /// The key of a quorum table for the next operation.
    pub fn register(&self, rng: &mut Rng, now: Instant) -> u32 {
        let turn = now.0.checked_div(self.register_span).unwrap_or_default() % 2;
        REGISTERS + turn as u32 * self.register_keys + rng.below(u64::from(self.register_keys)) as u32
    }

    /// The next action on a register. Quorum tables take no conditions.
    pub fn register_action(
        &self,
        rng: &mut Rng,
        tag: u64,
        empty_written: impl Fn() -> bool,
    ) -> (Action, Vec<u8>) {
        Workload { conditional_percent: 0, ..self.clone() }.action(rng, tag, None, empty_written)
    }

    pub fn is_for_counters(&self, rng: &mut Rng) -> bool {
        rng.chance(self.counting_percent, 100)
    }

    /// The condition of a mutation on a key whose version was last seen as `last_seen`.
    pub fn condition(&self, rng: &mut Rng, last_seen: Option<Version>) -> Condition {
        match last_seen {
            _ if !rng.chance(self.conditional_percent, 100) => Condition::Free,
            Some(version) if rng.chance(3, 4) => Condition::VersionIs(version),
            _ => Condition::Absent,
        }
    }

    pub fn key(&self, rng: &mut Rng) -> u32 {
        if rng.chance(self.hot_percent, 100) {
            rng.below(u64::from(self.hot_keys)) as u32
        } else {
            self.cold_from + rng.below(u64::from(self.cold_keys)) as u32
        }
    }

    /// Up to three different keys for a commit. Most have one tag, so that they are together in a table by
    /// slots.
    pub fn keys(&self, rng: &mut Rng) -> Vec<u32> {
        let mut keys = vec![self.key(rng)];
        let count = rng.between(1, 3) as usize;
        let is_tagged = rng.chance(3, 4);
        for _ in 0..40 {
            let key = self.key(rng);
            let is_alike = !is_tagged || tag_of(key) == tag_of(keys[0]);
            if keys.len() < count && is_alike && !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// The next action on a key, and the bytes of its value. `empty_written` says whether some client wrote
    /// the empty value to this key before.
    pub fn action(
        &self,
        rng: &mut Rng,
        tag: u64,
        last_seen: Option<Version>,
        empty_written: impl Fn() -> bool,
    ) -> (Action, Vec<u8>) {
        let choice = rng.below(self.reads + self.writes + self.removes);
        if choice < self.reads {
            return (Action::Read, Vec::new());
        }
        let condition = self.condition(rng, last_seen);
        if choice < self.reads + self.writes {
            let empty = rng.chance(1, 40) && !empty_written();
            let bytes = if empty { Vec::new() } else { self.value(rng, tag) };
            let ttl = rng.chance(self.ttl_percent, 100).then(|| ttl(rng));
            return (Action::Write { value: ValueId::of(&bytes), condition, ttl }, bytes);
        }
        // There is no operation to remove an absent object.
        let condition = if condition == Condition::Absent { Condition::Free } else { condition };
        (Action::Remove { condition }, Vec::new())
    }

    pub fn value(&self, rng: &mut Rng, tag: u64) -> Vec<u8> {
        let mut bytes = tag.to_le_bytes().to_vec();
        let padding = if rng.chance(1, 3) { rng.below(self.value_bytes_max) } else { rng.below(32) };
        bytes.resize(8 + padding as usize, tag as u8);
        bytes
    }
}

/// From 100 ms to 20 s. Half are short, so that many objects expire while clients work.
fn ttl(rng: &mut Rng) -> Duration {
    let most = if rng.chance(1, 2) { 2_000 } else { 20_000 };
    Duration::from_millis(rng.between(100, most))
}

/// Counters from here on keep their increments as letters: each increment appends the letter of its place.
pub const APPENDED: u32 = COUNTERS + (1 << 23);

/// The letter that an increment at a place appends.
pub fn letter(place: u8) -> u8 {
    b'a' + place
}

/// Counters that are incremented at the same time.
const COUNTERS_AT_ONCE: u64 = 4;

/// The counter of the increment with this number, among those from `first` on, and the increment's place in
/// its sums.
pub fn counter(ticket: u64, first: u32) -> (u32, u8) {
    let (row, column) = (ticket / COUNTERS_AT_ONCE, ticket % COUNTERS_AT_ONCE);
    let round = row / u64::from(PLACE_COUNT);
    let key = first + (round * COUNTERS_AT_ONCE + column) as u32;
    (key, (row % u64::from(PLACE_COUNT)) as u8)
}

/// The number of an increment, as `counter` takes it; none for other operations.
pub fn ticket(operation: &Operation, first: u32) -> Option<u64> {
    let Action::Increment { place, .. } = operation.action else { return None };
    if (operation.key >= APPENDED) != (first >= APPENDED) {
        return None;
    }
    let key = u64::from(operation.key - first);
    let row = key / COUNTERS_AT_ONCE * u64::from(PLACE_COUNT) + u64::from(place);
    Some(row * COUNTERS_AT_ONCE + key % COUNTERS_AT_ONCE)
}

/// The amount of an increment. Every second counter is a float.
pub fn amount_of(key: u32, place: u8) -> Number {
    let amount = amount(place);
    if key.is_multiple_of(2) { Number::Integer(amount) } else { Number::Float(amount as f64) }
}

/// Keys from here up to the counters have more tags. The smallest part of a recovery is a slot. Where keys
/// fill the memory of all servers, they must not lie in four slots: each slot would be as large as a server,
/// and would fit into no other.
pub const MANY_TAGS_FROM: u32 = 1 << 20;

fn tag_of(key: u32) -> u32 {
    if (MANY_TAGS_FROM..COUNTERS).contains(&key) { key % 256 } else { key % 4 }
}

/// The table of a key, among `count` tables: all keys of a tag are in one.
pub fn share_of(key: &[u8], count: usize) -> usize {
    let tag = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix('{')?.split_once('}'));
    let tag = tag.and_then(|(tag, _)| tag.parse::<usize>().ok());
    tag.unwrap_or(0) % count
}

/// The bytes of a key. Their length varies.
pub fn key_bytes(key: u32) -> Vec<u8> {
    let mut bytes = format!("{{{}}}key-{key}", tag_of(key)).into_bytes();
    bytes.resize(bytes.len() + (key % 5) as usize * 17, b'.');
    bytes
}

/// The key with these bytes; none if no key has them.
pub fn key_of(bytes: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(bytes).ok()?;
    let key = text.trim_end_matches('.').split_once("key-")?.1.parse().ok()?;
    (key_bytes(key) == bytes).then_some(key)
}

/// The sum of a counter. A value that is no number becomes a sum that the checker rejects.
pub fn sum_of(value: &[u8]) -> i64 {
    if !value.is_empty() && value.iter().all(u8::is_ascii_lowercase) {
        let places = value.iter().map(|letter| amount(letter - b'a'));
        return places.fold(0i64, |sum, amount| sum.saturating_add(amount));
    }
    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(-1)
}

/// A client's memory of versions, used to set conditions that often hold.
#[derive(Default, Debug)]
pub struct Memory(BTreeMap<u32, Version>);

impl Memory {
    pub fn learn(&mut self, key: u32, version: Version) {
        if !version.is_none() {
            self.0.insert(key, version);
        }
    }

    pub fn version(&self, key: u32) -> Option<Version> {
        self.0.get(&key).copied()
    }
}
