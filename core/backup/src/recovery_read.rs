//! Reads a dead server's segments for the recovery masters, and divides each segment once for all of them.
//!
//! The first question for a segment reads it; questions that come meanwhile wait for the same read. The first question
//! that brings the ranges for a log also makes this backup read ahead: its closed primaries of that log, newest first,
//! so that they are already divided when they are asked for.
//!
//! Invariants:
//! - no record is sent that its certificate and its own checksum do not confirm;
//! - reading ahead takes at most half of the memory for divided segments, and nothing is forgotten to make room for it.
//!
//! Not here: the memory of divided segments (divisions), the ranges (known_ranges).
//!
//! Protocol: docs/protocols/recovery.md, step 5. Catalogue: F4, F9.

pub(crate) mod divisions;
mod known_ranges;
mod prepared;

use crate::content::Division;
use crate::device::DeviceStep;
use crate::disk::Task;
use crate::keys::{DivisionKey, ReplicaKey, ReplicaNumber};
use crate::recovery_read::divisions::{Divisions, State, Waiter};
use crate::recovery_read::known_ranges::Meant;
use crate::replica::Replica;
use crate::replicas::Replicas;
use crate::request::Asker;
use crate::work::{SegmentRead, Works};
use ramhold_base::{Effects, Mark, SegmentId, Status};
use ramhold_wire::recovery::{PartitionRange, RecoveryRead};
use std::sync::Arc;

/// The most questions that wait for one read. More are answered with `Retry`.
const WAITER_COUNT_MAX: usize = 1024;
/// With this many reads under way, nothing is read ahead.
const AHEAD_READS: usize = 2;

/// The parts that are lent to a read for a recovery.
pub(crate) struct Lent<'a, 'b> {
    pub replicas: &'a mut Replicas,
    pub works: &'a mut Works,
    pub step: &'a mut DeviceStep<'b>,
}

impl Divisions {
    /// A question for the records of a partition in a segment. It is answered now, or when the segment is divided.
    pub fn ask(
        &mut self,
        question: &RecoveryRead,
        asker: Asker,
        lent: &mut Lent<'_, '_>,
    ) -> Result<(), Status> {
        let ranges = match self.known.meant(question)? {
            Meant::Known(ranges) => ranges,
            Meant::Told => self.learn(question, lent.replicas, lent.step.effects),
        };
        if !ranges.iter().any(|range| range.partition == question.partition) {
            return Err(Status::BadRequest);
        }
        let replica = readable(question, lent.replicas)?;
        let waiter = Waiter { asker, partition: question.partition, since: lent.step.now };
        let RecoveryRead { recovery, digest, end, .. } = *question;
        self.ask_segment(DivisionKey { recovery, digest, replica, end }, ranges, waiter, lent)?;
        self.read_ahead(lent);
        Ok(())
    }

    /// Takes up ranges that were not known here, and notes the segments to read ahead.
    fn learn(
        &mut self,
        question: &RecoveryRead,
        replicas: &Replicas,
        effects: &mut Effects,
    ) -> Arc<[PartitionRange]> {
        for before in self.known.replaced_by(question) {
            self.forget(before);
        }
        let reportable = replicas.reportable_of(question.log.server);
        let primaries = reportable.filter(|replica| replica.stored.primary && replica.stored.closed);
        let mut ahead: Vec<(SegmentId, ReplicaNumber)> =
            primaries.map(|replica| (replica.key.segment, replica.number)).collect();
        ahead.sort_unstable();
        let ranges = self.known.insert(question, ahead.into_iter().map(|(_, number)| number).collect());
        while let Some(oldest) = self.known.surplus() {
            self.forget(oldest);
        }
        effects.mark(Mark::BackupRangesTold);
        ranges
    }

    /// Begins reads for which no question has come yet.
    fn read_ahead(&mut self, lent: &mut Lent<'_, '_>) {
        let mut under_way = self.reads_under_way();
        while under_way < AHEAD_READS {
            let Some(key) = self.known.next_ahead() else { return };
            let replica = lent.replicas.known(key.replica);
            let readable = replica.filter(|replica| !replica.is_leaving() && !replica.corrupt);
            let unread = readable.filter(|_| !self.divided.contains_key(&key));
            let bytes = unread.map(|replica| u64::from(replica.stored.certified()));
            if bytes.is_some_and(|bytes| !self.has_room_ahead(bytes)) {
                return;
            }
            let ranges = self.known.take_ahead(&key).expect("it is the next one");
            let Some(bytes) = bytes else { continue };
            self.begin(key, ranges, bytes, Vec::new(), lent);
            under_way += 1;
        }
    }

    fn ask_segment(
        &mut self,
        key: DivisionKey,
        ranges: Arc<[PartitionRange]>,
        waiter: Waiter,
        lent: &mut Lent<'_, '_>,
    ) -> Result<(), Status> {
        // The segment is read for this question, or was read before: reading ahead leaves it out.
        self.known.take_ahead(&key);
        let used = self.use_count();
        if let Some(divided) = self.divided.get_mut(&key) {
            divided.used = used;
            match &mut divided.state {
                State::Divided { given, .. } if given.contains(&waiter.partition) => {
                    // The answer was lost: the segment is read again.
                    self.remove(&key);
                }
                State::Divided { .. } => {
                    self.answer_all(lent.step.now, key, vec![waiter], lent.step.effects);
                    return Ok(());
                }
                State::Reading { waiters, .. } if waiters.len() < WAITER_COUNT_MAX => {
                    waiters.push(waiter);
                    return Ok(());
                }
                State::Reading { .. } => return Err(Status::Retry),
            }
        }
        let bytes = u64::from(lent.replicas[key.replica].stored.certified());
        self.make_room(bytes)?;
        self.begin(key, ranges, bytes, vec![waiter], lent);
        Ok(())
    }

    /// Begins the read of a segment.
    fn begin(
        &mut self,
        key: DivisionKey,
        ranges: Arc<[PartitionRange]>,
        bytes: u64,
        waiters: Vec<Waiter>,
        lent: &mut Lent<'_, '_>,
    ) {
        let Lent { replicas, works, step } = lent;
        self.insert(step.now, key, ranges, bytes, waiters);
        let replica = &mut replicas[key.replica];
        works.of(replica.key.log.server).read.begin(step.now);
        replica.begin_read(Task::DivisionRead(key), step);
    }

    /// `None`: the read failed.
    pub fn on_read(&mut self, key: DivisionKey, bytes: Option<&[u8]>, lent: &mut Lent<'_, '_>) {
        let Lent { replicas, works, step } = lent;
        let is_sound = replicas.end_read(key.replica, bytes, step.effects).is_some();
        let read = match bytes.map(|bytes| bytes.len() as u64) {
            None => SegmentRead::Failed,
            Some(bytes) if is_sound => SegmentRead::Sound { bytes },
            Some(bytes) => SegmentRead::Corrupt { bytes },
        };
        let replica = &mut replicas[key.replica];
        works.on_read(step.now, replica.key.log.server, read);
        match self.divided.get(&key).map(|divided| &divided.state) {
            Some(State::Reading { .. }) => {}
            Some(State::Divided { .. }) | None => return,
        }
        self.divide(key, bytes.filter(|_| is_sound), replica, step);
        self.read_ahead(lent);
    }

    /// Divides a segment that was read, and answers the questions that wait for it.
    fn divide(
        &mut self,
        key: DivisionKey,
        bytes: Option<&[u8]>,
        replica: &mut Replica,
        step: &mut DeviceStep<'_>,
    ) {
        let Divisions { divided, given, prepared, bytes: accounted, .. } = self;
        let Some(divided) = divided.get_mut(&key) else { return };
        let State::Reading { since, waiters } = &mut divided.state else { return };
        let divide = |bytes: &[u8]| {
            let end = bytes.len().min(key.end as usize);
            Division::new(&replica.key, &divided.ranges)?
                .sort(&bytes[..end], |expected| prepared.memory.take_fitting(step.now, expected))
        };
        match bytes.ok_or(Status::CorruptReplica).and_then(divide) {
            Ok(mut records) => {
                step.effects.mark(Mark::BackupSegmentDivided);
                let mut given = given.remove(&key).unwrap_or_default();
                waiters.iter().for_each(|waiter| _ = given.remove(&waiter.partition));
                for partition in &given {
                    records.remove(partition).into_iter().for_each(|records| prepared.memory.keep(records));
                }
                let found = records.values().map(|records| records.capacity() as u64).sum();
                *accounted = *accounted - divided.bytes + found;
                divided.bytes = found;
                let (reading, waiters) = (step.now.since(*since), std::mem::take(waiters));
                divided.state = State::Divided { reading, records, given };
                self.answer_all(step.now, key, waiters, step.effects);
            }
            Err(status) => {
                if status == Status::CorruptReplica {
                    replica.mark_corrupt(step.effects);
                }
                waiters.iter().for_each(|waiter| waiter.asker.answer(status, step.effects));
                self.remove(&key);
            }
        }
    }
}

/// The replica that holds the segment of a question.
fn readable(question: &RecoveryRead, replicas: &Replicas) -> Result<ReplicaNumber, Status> {
    let key = ReplicaKey { log: question.log, segment: question.segment, stream: question.stream };
    let fits = |replica: &&Replica| {
        let certified = replica.stored.certified();
        replica.stored.certificate.is_some()
            && replica.stored.epoch == question.epoch
            && (question.end == u32::MAX || certified >= question.end)
    };
    let replica = replicas.of_segment(&key).find(fits).ok_or(Status::UnknownReplica)?;
    if replica.corrupt { Err(Status::CorruptReplica) } else { Ok(replica.number) }
}
