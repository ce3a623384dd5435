//! Reads a dead server's segments for those who take over, each divided once for all of them.
//!
//! The first question for a segment reads it; questions that come meanwhile wait for the same read. What was divided
//! stays in a bounded memory, the least recently used goes first.
//!
//! Invariants:
//! - nothing leaves that its certificate and its own checksums do not confirm;
//! - divided segments and those being read take at most the configured memory.
//!
//! Protocol: docs/protocols/recovery.md, step 5. Catalogue: F4, F9.

use crate::Backup;
use crate::content::Division;
use crate::disk::Task;
use crate::marks::{self, mark};
use crate::replica::{Replica, ReplicaKey, ReplicaNumber};
use ramhold_base::{ConnId, Effects, Peer, RecoveryId, Status};
use ramhold_wire::recovery::{PartitionRange, RecoveryRead};
use ramhold_wire::{Header, Standing, View, decode, frame, reply};
use std::collections::BTreeMap;

/// Questions that wait for one read; more are told to come again.
const WAITER_COUNT_MAX: usize = 1024;

/// One segment divided for one recovery up to one end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct DivisionKey {
    recovery: RecoveryId,
    replica: ReplicaNumber,
    end: u32,
}

#[derive(Debug)]
struct Waiter {
    header: Header,
    from: ConnId,
    partition: u32,
}

#[derive(Debug)]
enum State {
    Reading(Vec<Waiter>),
    Divided(BTreeMap<u32, Vec<u8>>),
}

#[derive(Debug)]
struct Divided {
    ranges: Vec<PartitionRange>,
    /// What is accounted for it: the certified length while it is read.
    bytes: u64,
    used: u64,
    state: State,
}

/// All segments divided or being read.
#[derive(Debug)]
pub(crate) struct Divisions {
    bytes_max: u64,
    bytes: u64,
    /// Counts uses, to find the least recently used.
    clock: u64,
    divided: BTreeMap<DivisionKey, Divided>,
}

impl Divisions {
    pub fn new(bytes_max: u64) -> Divisions {
        Divisions { bytes_max, bytes: 0, clock: 0, divided: BTreeMap::new() }
    }

    fn remove(&mut self, key: &DivisionKey) {
        let gone = self.divided.remove(key).expect("what is removed was there");
        self.bytes -= gone.bytes;
    }

    /// Makes room by forgetting what was used longest ago; not what is being read.
    fn make_room(&mut self, bytes: u64) -> bool {
        while self.bytes + bytes > self.bytes_max {
            let idle = self.divided.iter().filter(|(_, divided)| matches!(divided.state, State::Divided(_)));
            let Some(oldest) = idle.min_by_key(|(_, divided)| divided.used).map(|(key, _)| *key) else {
                return false;
            };
            self.remove(&oldest);
        }
        true
    }

    fn insert(&mut self, key: DivisionKey, ranges: Vec<PartitionRange>, bytes: u64, waiter: Waiter) {
        self.clock += 1;
        self.bytes += bytes;
        let state = State::Reading(vec![waiter]);
        let before = self.divided.insert(key, Divided { ranges, bytes, used: self.clock, state });
        assert!(before.is_none(), "a segment is read once");
    }
}

impl Backup {
    pub(crate) fn on_recovery_read(
        &mut self,
        header: &Header,
        body: &[u8],
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) {
        if let Err(status) = self.try_recovery_read(header, body, from, view, effects) {
            reply(effects, Peer::Conn(from), header, status);
        }
    }

    fn try_recovery_read(
        &mut self,
        header: &Header,
        body: &[u8],
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        self.check_sender(header, view)?;
        self.check_device()?;
        let question: RecoveryRead = decode(body)?;
        let dead = question.log.server;
        if view.list.standing(dead) != Standing::Crashed && !self.fenced.contains(&dead) {
            return Err(Status::NotAllowed);
        }
        let key = ReplicaKey { log: question.log, segment: question.segment, stream: question.stream };
        let division = Division::new(&key, &question.ranges)?;
        if !question.ranges.iter().any(|range| range.partition == question.partition) {
            return Err(Status::BadRequest);
        }
        let number = self.readable(&key, &question)?;
        drop(division); // Made again when the bytes are there; here it only had to be sound.
        let waiter = Waiter { header: *header, from, partition: question.partition };
        let key = DivisionKey { recovery: question.recovery, replica: number, end: question.end };
        self.ask_division(key, question.ranges, waiter, effects)
    }

    fn readable(&self, key: &ReplicaKey, question: &RecoveryRead) -> Result<ReplicaNumber, Status> {
        let fits = |replica: &Replica| {
            let certified = replica.stored.certified();
            replica.stored.certificate.is_some()
                && replica.stored.epoch == question.epoch
                && (question.end == u32::MAX || certified >= question.end)
        };
        let held = self.present.get(key).into_iter().chain(self.found.get(key));
        let number =
            held.copied().find(|number| fits(&self.replicas[number])).ok_or(Status::UnknownReplica)?;
        if self.replicas[&number].corrupt { Err(Status::CorruptReplica) } else { Ok(number) }
    }

    fn ask_division(
        &mut self,
        key: DivisionKey,
        ranges: Vec<PartitionRange>,
        waiter: Waiter,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        self.divisions.clock += 1;
        let clock = self.divisions.clock;
        if let Some(divided) = self.divisions.divided.get_mut(&key) {
            if divided.ranges == ranges {
                divided.used = clock;
                match &mut divided.state {
                    State::Divided(partitions) => answer(&waiter, partitions, effects),
                    State::Reading(waiters) if waiters.len() < WAITER_COUNT_MAX => waiters.push(waiter),
                    State::Reading(_) => return Err(Status::Retry),
                }
                return Ok(());
            }
            // Divided differently since: the newer question counts, once the read for the older one is over.
            if matches!(divided.state, State::Reading(_)) {
                return Err(Status::Retry);
            }
            self.divisions.remove(&key);
        }
        let bytes = u64::from(self.replicas[&key.replica].stored.certified());
        if !self.divisions.make_room(bytes) {
            return Err(Status::Retry);
        }
        self.divisions.insert(key, ranges, bytes, waiter);
        self.read_replica(Task::DivisionRead { replica: key.replica, key }, key.replica, effects);
        Ok(())
    }

    pub(crate) fn on_division_read(
        &mut self,
        number: ReplicaNumber,
        key: DivisionKey,
        bytes: Option<&[u8]>,
        effects: &mut Effects,
    ) {
        let bytes = self.end_read(number, bytes, effects);
        let replica_key = self.replicas[&number].key;
        let Some(divided) = self.divisions.divided.get_mut(&key) else { return };
        let State::Reading(waiters) = &mut divided.state else { return };
        let waiters = std::mem::take(waiters);
        let end = key.end as usize;
        let result = bytes.ok_or(Status::CorruptReplica).and_then(|bytes| {
            Division::new(&replica_key, &divided.ranges)?.sort(bytes.get(..end).unwrap_or(bytes))
        });
        match result {
            Ok(partitions) => {
                mark(effects, marks::SEGMENT_DIVIDED);
                waiters.iter().for_each(|waiter| answer(waiter, &partitions, effects));
                let bytes: u64 = partitions.values().map(|records| records.len() as u64).sum();
                assert!(bytes <= divided.bytes);
                self.divisions.bytes -= divided.bytes - bytes;
                divided.bytes = bytes;
                divided.state = State::Divided(partitions);
            }
            Err(status) => {
                self.divisions.remove(&key);
                if status == Status::CorruptReplica {
                    self.mark_corrupt(number, effects);
                }
                for waiter in &waiters {
                    reply(effects, Peer::Conn(waiter.from), &waiter.header, status);
                }
            }
        }
    }

    pub(crate) fn fail_divisions(&mut self, effects: &mut Effects) {
        for (_, divided) in std::mem::take(&mut self.divisions.divided) {
            if let State::Reading(waiters) = divided.state {
                for waiter in waiters {
                    reply(effects, Peer::Conn(waiter.from), &waiter.header, Status::DeviceFailed);
                }
            }
        }
        self.divisions.bytes = 0;
    }
}

fn answer(waiter: &Waiter, partitions: &BTreeMap<u32, Vec<u8>>, effects: &mut Effects) {
    let records = partitions.get(&waiter.partition).map_or(&[][..], Vec::as_slice);
    effects.send_with(Peer::Conn(waiter.from), |out| {
        frame::write(out, &waiter.header.answer(Status::Ok), |out| out.extend_from_slice(records));
    });
}
