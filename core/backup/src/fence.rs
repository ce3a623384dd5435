//! Fences a dead server, and reports its replicas to the coordinator.
//!
//! From the fence on, nothing is accepted from the dead server. The report waits until every append that was accepted
//! before is stored, so that it covers all that was ever acknowledged. It also waits until the openings that it
//! contains are read. Replicas of synced streams are flushed first: a recovery may show the end of their log to readers
//! at once, so a loss of power must not take it any more.
//!
//! Protocol: docs/protocols/recovery.md, step 2. Catalogue: D8, D9, F2.

use crate::Backup;
use crate::content::{SegmentStart, segment_start};
use crate::disk::Task;
use crate::keys::{ReplicaKey, ReplicaNumber};
use crate::replica::{OpeningState, Replica};
use ramhold_base::checksum::crc;
use ramhold_base::limits::{FRAME_BODY_BYTES_MAX, READ_LEASE};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, Effects, Instant, Level, Mark, Peer, ServerId, ShardId, Status, StreamId};
use ramhold_wire::recovery::{Fence, Fenced, Opening, ReplicaReport};
use ramhold_wire::{Header, View, decode, reply, reply_with};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The most fences that wait for their answers. The coordinator repeats those that are refused.
const FENCE_COUNT_MAX: usize = 256;
/// The most openings that are read at a time. Each read may bring a whole segment.
const OPENING_READ_COUNT_MAX: u32 = 4;

/// A fence that is in force and not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingFence {
    header: Header,
    from: ConnId,
    crashed: ServerId,
}

impl Backup {
    pub(crate) fn on_fence(
        &mut self,
        header: &Header,
        body: &[u8],
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) {
        if let Err(status) = self.try_fence(header, body, from, view) {
            reply(effects, Peer::Conn(from), header, status);
        }
    }

    fn try_fence(&mut self, header: &Header, body: &[u8], from: ConnId, view: &View) -> Result<(), Status> {
        self.check_sender(header, view)?;
        if !header.sender.is_none() {
            return Err(Status::NotAllowed);
        }
        if header.term < view.term {
            return Err(Status::StaleTerm);
        }
        let fence: Fence = decode(body)?;
        let crashed = fence.crashed;
        if crashed.is_none() {
            return Err(Status::BadRequest);
        }
        if crashed == view.me {
            return Err(Status::NotAllowed);
        }
        self.fenced.insert(crashed);
        self.check_device()?;
        // A repetition over the same connection replaces the request that it repeats.
        self.fences.retain(|pending| (pending.from, pending.header.rpc) != (from, header.rpc));
        if self.fences.len() >= FENCE_COUNT_MAX {
            return Err(Status::TooMany);
        }
        self.fences.push(PendingFence { header: *header, from, crashed });
        Ok(())
    }

    pub(crate) fn fail_fences(&mut self, effects: &mut Effects) {
        for pending in std::mem::take(&mut self.fences) {
            reply(effects, Peer::Conn(pending.from), &pending.header, Status::DeviceFailed);
        }
    }

    /// Answers the fences that no longer wait, and reads the openings for which others wait.
    pub(crate) fn advance_fences(&mut self, now: Instant, effects: &mut Effects) {
        let mut waiting: BTreeMap<ServerId, bool> = BTreeMap::new();
        for pending in std::mem::take(&mut self.fences) {
            let crashed = pending.crashed;
            let waits = *waiting.entry(crashed).or_insert_with(|| self.await_report(crashed, effects));
            if waits {
                self.fences.push(pending);
            } else {
                let report = self.report(now, crashed);
                effects.mark(Mark::BackupFenceAnswered);
                reply_with(effects, Peer::Conn(pending.from), &pending.header, Status::Ok, &report);
            }
        }
    }

    /// Whether a report on this server must wait. Begins the reads for which it waits.
    fn await_report(&mut self, crashed: ServerId, effects: &mut Effects) -> bool {
        let of_crashed = self.replicas.values().filter(|replica| replica.key.log.server == crashed);
        if of_crashed.into_iter().any(|replica| !replica.operations.is_empty() || replica.awaits_device()) {
            return true;
        }
        let mut waits = false;
        for number in self.openings_wanted(crashed) {
            match self.replicas[&number].opening {
                OpeningState::Known(_) => {}
                OpeningState::Reading => waits = true,
                OpeningState::Unknown => {
                    waits = true;
                    self.read_opening(number, effects);
                }
            }
        }
        waits
    }

    pub(crate) fn held_of(&self, server: ServerId) -> impl Iterator<Item = (ReplicaNumber, &Replica)> {
        let keys = ReplicaKey::all_of(server);
        let numbers = self.present.range(keys.clone()).chain(self.found.range(keys));
        numbers
            .map(|(_, number)| (*number, &self.replicas[number]))
            .filter(|(_, replica)| replica.is_reportable())
    }

    /// The replicas whose openings are reported: every open one of the head order, and the newest closed one of each
    /// stream.
    fn openings_wanted(&self, server: ServerId) -> BTreeSet<ReplicaNumber> {
        let mut wanted = BTreeSet::new();
        let mut newest: BTreeMap<(ShardId, StreamId), (ReplicaKey, ReplicaNumber)> = BTreeMap::new();
        for (number, replica) in self.held_of(server).filter(|(_, replica)| !replica.side) {
            if !replica.stored.closed {
                wanted.insert(number);
                continue;
            }
            let stream =
                newest.entry((replica.key.log.shard, replica.key.stream)).or_insert((replica.key, number));
            *stream = (*stream).max((replica.key, number));
        }
        wanted.extend(newest.values().map(|(_, number)| *number));
        wanted
    }

    fn read_opening(&mut self, number: ReplicaNumber, effects: &mut Effects) {
        if self.opening_reads >= OPENING_READ_COUNT_MAX {
            return;
        }
        self.opening_reads += 1;
        self.replicas.get_mut(&number).expect("what is wanted exists").opening = OpeningState::Reading;
        self.read_replica(Task::OpeningRead(number), number, effects);
    }

    /// Reads the certified bytes of a replica. They stay in place until the read is over.
    pub(crate) fn read_replica(&mut self, task: Task, number: ReplicaNumber, effects: &mut Effects) {
        let replica = self.replicas.get_mut(&number).expect("what is read exists");
        replica.reads += 1;
        let place = replica.place();
        let offset = place.data_offset(self.config.segment_bytes);
        self.disk.read(task, place.file(), offset, replica.stored.certified(), effects);
    }

    /// Ends the read of a replica. Returns its bytes if they match the certificate.
    pub(crate) fn end_read<'a>(
        &mut self,
        number: ReplicaNumber,
        bytes: Option<&'a [u8]>,
        effects: &mut Effects,
    ) -> Option<&'a [u8]> {
        let replica = self.replicas.get_mut(&number).expect("a replica stays while it is read");
        replica.reads -= 1;
        self.settling.insert(number);
        let certificate = replica.stored.certificate.expect("only what is certified is read");
        let sound = bytes
            .and_then(|bytes| bytes.get(..certificate.length as usize))
            .filter(|bytes| crc(bytes) == certificate.crc);
        if sound.is_none() {
            self.mark_corrupt(number, effects);
        }
        sound
    }

    pub(crate) fn mark_corrupt(&mut self, number: ReplicaNumber, effects: &mut Effects) {
        let replica = self.replicas.get_mut(&number).expect("what is read exists");
        if !replica.corrupt {
            replica.corrupt = true;
            let key = replica.key;
            effects.report(
                Level::Error,
                format!("the replica of {} {} {} is corrupt", key.log, key.stream, key.segment),
            );
        }
    }

    pub(crate) fn on_opening_read(
        &mut self,
        number: ReplicaNumber,
        bytes: Option<&[u8]>,
        effects: &mut Effects,
    ) {
        self.opening_reads -= 1;
        let bytes = self.end_read(number, bytes, effects);
        let start = bytes.map(|bytes| segment_start(bytes, &self.replicas[&number].key));
        if start == Some(SegmentStart::Foreign) {
            self.mark_corrupt(number, effects);
        }
        let replica = self.replicas.get_mut(&number).expect("a replica stays while it is read");
        replica.opening = OpeningState::Known(match start {
            Some(SegmentStart::Sound(opening)) => opening,
            Some(SegmentStart::Foreign) | None => None,
        });
    }

    /// The time left of the read lease that this backup may have granted, in this life or the one before.
    fn lease_left(&self, now: Instant, server: ServerId) -> Duration {
        let accepted = self.accepted.get(&server).copied().unwrap_or_default();
        let began = if planted(Defect::RestartGrantsNothing) { Instant::ZERO } else { self.began };
        (accepted.max(began) + READ_LEASE).since(now)
    }

    fn report(&self, now: Instant, crashed: ServerId) -> Fenced {
        let wanted = self.openings_wanted(crashed);
        let opening = |number: ReplicaNumber, replica: &Replica| match &replica.opening {
            OpeningState::Known(opening) if wanted.contains(&number) => opening.clone(),
            OpeningState::Known(_) | OpeningState::Reading | OpeningState::Unknown => None,
        };
        let replicas = self.held_of(crashed).map(|(number, replica)| ReplicaReport {
            shard: replica.key.log.shard,
            stream: replica.key.stream,
            segment: replica.key.segment,
            epoch: replica.stored.epoch,
            closed: replica.stored.closed,
            certified: replica.stored.certified(),
            primary: replica.stored.primary,
            cut: replica.cut && !planted(Defect::CutNotTold),
            side: replica.side,
            time: replica.stored.time(),
            opening: opening(number, replica),
        });
        let left = self.lease_left(now, crashed);
        // The time is rounded up: a lease must never seem shorter than it is.
        let lease_millis = u64::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        let mut fenced = Fenced { replicas: replicas.collect(), lease_millis };
        bound(&mut fenced);
        fenced
    }
}

/// Leaves out the statistics if the answer would not fit a frame: they only help recovery to divide the log.
fn bound(fenced: &mut Fenced) {
    // In CBOR a report without its opening takes less than this. A number takes at most nine bytes, and a segment's id
    // in a packed list at most eleven.
    const REPORT_BYTES_MAX: usize = 96;
    let opening_bytes = |opening: &Opening| 64 + opening.digest.len() * 11 + opening.stats.len() * 48;
    let bytes: usize = fenced
        .replicas
        .iter()
        .map(|report| REPORT_BYTES_MAX + report.opening.as_ref().map_or(0, opening_bytes))
        .sum();
    if bytes > FRAME_BODY_BYTES_MAX as usize {
        for opening in fenced.replicas.iter_mut().filter_map(|report| report.opening.as_mut()) {
            opening.stats.clear();
        }
    }
}
