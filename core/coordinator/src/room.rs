//! Which recoveries may be replayed side by side: as many as frames and memory suffice for, and always one.
//!
//! A recovery writes a second copy of what it recovers, and frees the first only when it is over. So before a recovery
//! is divided it must be admitted: at once when no other is at work, else when what all of them need fits into the
//! room that the servers have told of. What was told is too little rather than too much: what recoveries at work have
//! written already is counted as room that they still need.
//!
//! Invariants:
//! - of the recoveries that lack nothing else at least one is admitted, the oldest of those that wait first;
//! - when a recovery master had no room after all, all but the oldest lose their admission, and of that one partition is
//!   begun at a time: what is published stays, and cleaning makes room.
//!
//! Not here: what does not fit is taken back (recovery masters). Nothing of this is stored.
//! Protocol: docs/protocols/recovery.md, "When room is short". Catalogue: F7.

use crate::machine::{Asked, Coordinator};
use crate::prove::Proof;
use crate::recovery::Recovery;
use crate::replaying::Plan;
use crate::state::{ServerRecord, StreamRecord};
use crate::status::failure_domain;
use ramhold_base::{Instant, Level, RecoveryId, ServerId, Status};
use ramhold_wire::decode;
use ramhold_wire::membership::Durability;
use ramhold_wire::recovery::{Room, RoomReport};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How often servers are asked again while a recovery waits for room.
const ASK_INTERVAL: Duration = Duration::from_millis(500);
/// Of more masters each takes over so little that it does not matter how much it has.
const LEVELLED_MASTERS_MAX: usize = 64;
/// A master that takes over two even shares in four partitions fills so many segments in part, and begins as many heads.
const LEVELLED_SEGMENTS: u64 = 8;
/// How long a partition is left alone that found no room: what it had taken has to be free again.
const NO_ROOM_PAUSE: Duration = Duration::from_secs(1);

/// How long a recovery that found no room, though nothing else was at work, leaves it to others: until everybody has told of
/// what it gave back, and those who wait have looked at it; twice as long each time, up to three times.
const OTHERS_TURN: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct Rooms {
    reports: BTreeMap<ServerId, RoomReport>,
    ask_at: Instant,
    /// Who was asked last and has not told.
    asked: BTreeSet<ServerId>,
    /// What fits was judged wrongly: until a recovery is over one at a time is admitted, and one partition of it begun.
    is_scarce: bool,
}

impl Rooms {
    pub fn is_scarce(&self) -> bool {
        self.is_scarce
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It was not judged yet.
    #[default]
    None,
    Waiting(Need),
    Admitted,
}

/// What a recovery has still to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    /// Memory of recovery masters.
    bytes: u64,
    /// And in segments, each of which takes frames on as many backups as it has replicas.
    segments: u64,
    frames: u64,
}

impl Need {
    fn plus(self, other: Need) -> Need {
        Need {
            bytes: self.bytes.saturating_add(other.bytes),
            segments: self.segments.saturating_add(other.segments),
            frames: self.frames.saturating_add(other.frames),
        }
    }

    /// Whether there is room: memory of all masters, and frames in each failure domain.
    fn fits(self, bytes: u64, frames: impl IntoIterator<Item = u64>) -> bool {
        // Of one segment no domain takes two replicas.
        let usable = frames.into_iter().map(|frames| frames.min(self.segments));
        self.bytes <= bytes && self.frames <= usable.fold(0, u64::saturating_add)
    }
}

impl Admission {
    pub fn waits_for(&self) -> Option<String> {
        match self {
            Admission::Waiting(Need { bytes, frames, .. }) => Some(format!(
                "room for {frames} replicas and {bytes} bytes of log besides what older recoveries need; \
                 each frees some when it is over"
            )),
            Admission::None | Admission::Admitted => None,
        }
    }
}

impl Recovery {
    fn is_waiting(&self) -> bool {
        matches!(self.admission, Admission::Waiting(_)) && !self.lacks_something()
    }

    /// Whether it waits, and nothing of it is at work any more either.
    pub fn is_held_up(&self) -> bool {
        self.is_waiting() && !self.plan.as_ref().is_some_and(Plan::is_running)
    }

    /// Whether it is replayed, or would be if nothing else came between.
    fn is_at_work(&self) -> bool {
        self.admission == Admission::Admitted && !self.lacks_something()
    }

    /// Whether something is missing when all have answered. While they are asked, after a partition has failed say, it keeps
    /// its place: two that fail in turns for want of room would else let each other in for ever.
    fn lacks_something(&self) -> bool {
        !self.missing.is_empty() && self.all_answered()
    }
}

impl Coordinator {
    /// Asks every server for its room while recoveries are open.
    pub(crate) fn ask_for_room(&mut self, now: Instant) {
        if !self.is_asking_for_room() {
            self.rooms = Rooms { is_scarce: self.rooms.is_scarce, ..Rooms::default() };
            return;
        }
        if self.rooms.ask_at > now {
            return;
        }
        self.rooms.ask_at = now + ASK_INTERVAL;
        let servers: Vec<ServerId> = self.state.all_up().map(|s| s.entry.id).collect();
        self.rooms.reports.retain(|server, _| servers.contains(server));
        if !std::mem::replace(&mut self.rooms.asked, servers.iter().copied().collect()).is_empty() {
            // Not all have told; those who wait look at what there is.
            self.wake_waiting();
        }
        for server in servers {
            // A message without content always fits.
            let _ = self.ask(now, server, Asked::Room(server), &Room {});
        }
    }

    fn is_asking_for_room(&self) -> bool {
        !self.recoveries.is_empty()
    }

    fn masters(&self) -> impl Iterator<Item = &ServerRecord> {
        self.state.all_up().filter(|server| server.entry.master)
    }

    /// What each master has free, if all have told and one has more than another by half of its share of what is to be
    /// recovered. Those who have most then take over most: shared out evenly after each death, the data of a few servers
    /// would come to lie with those that have lived longest, and what one of them holds decides how long its recovery
    /// takes. Of many masters each takes so little that it does not matter. When several are recovered at once, more than
    /// enough room for all of them is asked for, and more masters than dead: else their need of room is what counts.
    pub(crate) fn uneven_masters(&self, share: u64) -> Option<BTreeMap<ServerId, u64>> {
        let told = |server: &ServerRecord| {
            let id = server.entry.id;
            self.rooms.reports.get(&id).map(|report| (id, report.log_bytes))
        };
        let free: BTreeMap<ServerId, u64> = self.masters().map(told).collect::<Option<_>>()?;
        let (least, most) = (free.values().min()?, free.values().max()?);
        let is_uneven = free.len() <= LEVELLED_MASTERS_MAX && most - least > share / 2;
        (is_uneven && self.has_plenty(share, free.len() as u64)).then_some(free)
    }

    /// Whether it is one recovery alone, or there is twice the room that so many like this one take in small partitions.
    fn has_plenty(&self, share: u64, masters: u64) -> bool {
        let open = self.state.recoveries.values().filter(|record| !record.done).count() as u64;
        if open <= 1 {
            return true;
        }
        let segments = (share / u64::from(self.config.segment_bytes)).saturating_add(LEVELLED_SEGMENTS);
        let replicas = self.state.tables.values().map(|table| table.options.replicas).max().unwrap_or(0);
        let all = 2 * open * masters;
        let (bytes, frames) =
            self.rooms.reports.values().fold((0, 0), |(bytes, frames): (u64, u64), room| {
                (bytes.saturating_add(room.log_bytes), frames.saturating_add(room.frames))
            });
        !self.rooms.is_scarce
            && 2 * open <= masters
            && !self.recoveries.values().any(Recovery::is_waiting)
            && share.saturating_mul(all) <= bytes
            && segments.saturating_mul(u64::from(replicas)).saturating_mul(all) <= frames
    }

    /// When that is due again.
    pub(crate) fn room_wake(&self) -> Instant {
        let waits = self.is_asking_for_room() && self.recoveries.values().any(Recovery::is_waiting);
        if waits { self.rooms.ask_at } else { Instant::FAR }
    }

    pub(crate) fn on_room(&mut self, server: ServerId, status: Status, body: &[u8]) {
        let Some(report) = decode::<RoomReport>(body).ok().filter(|_| status == Status::Ok) else { return };
        if self.state.is_up(server) {
            self.rooms.reports.insert(server, report);
            if self.rooms.asked.remove(&server) && self.rooms.asked.is_empty() {
                self.wake_waiting();
            }
        }
    }

    /// A recovery is over: its replicas will be freed.
    pub(crate) fn room_may_be_free(&mut self) {
        self.rooms.is_scarce = false;
        self.wake_waiting();
    }

    pub(crate) fn wake_waiting(&mut self) {
        for recovery in self.recoveries.values_mut().filter(|recovery| recovery.is_waiting()) {
            recovery.wake = Instant::ZERO;
            self.recovery_wake = Instant::ZERO;
        }
    }

    /// Whether a recovery that lacks nothing else may be divided and replayed; it is not among `recoveries` just now.
    pub(crate) fn admit(&mut self, now: Instant, id: RecoveryId, recovery: &mut Recovery) -> bool {
        if recovery.admission == Admission::Admitted {
            return true;
        }
        let Some(proof) = &recovery.proof else { return true };
        let Some(need) = self.need_of(id, proof) else { return true };
        let is_first = self.recoveries.range(..id).all(|(_, older)| !older.is_waiting());
        let may_try_alone = || {
            // Kept logs are let go when devices have what came of them; but that may wait for frames itself.
            now >= recovery.leaves_to_others_until
                && !self.recoveries.values().any(Recovery::is_at_work)
                && (self.is_patience_over(now, recovery) || !self.has_kept_in_the_way())
        };
        let is_admitted = if self.rooms.is_scarce {
            // While the oldest leaves it to others, who fits as a whole goes first: it will be over.
            may_try_alone() && (is_first || self.has_room(id, proof))
        } else {
            is_first && (self.has_room(id, proof) || may_try_alone())
        };
        if is_admitted {
            recovery.admission = Admission::Admitted;
            return true;
        }
        self.may_wait_for_kept(now, id, recovery);
        if recovery.leaves_to_others_until > now {
            recovery.wake = recovery.wake.min(recovery.leaves_to_others_until);
        }
        if !recovery.is_waiting() {
            let text = format!("{id} waits for room for {} replicas and {} bytes", need.frames, need.bytes);
            self.outbox.report(Level::Info, text);
            self.outbox.report(Level::Debug, "mark:recovery_waits_for_room");
            self.rooms.ask_at = self.rooms.ask_at.min(now + ASK_INTERVAL);
        }
        recovery.admission = Admission::Waiting(need);
        false
    }

    /// Whether what a recovery brings may go live before it is replicated: when everybody has told of room, and there is twice
    /// as much as all that is at work needs. What is live cannot be taken back to make room for others.
    pub(crate) fn may_go_early(&self, id: RecoveryId, proof: &Proof) -> bool {
        let all_told = self.state.all_up().all(|server| self.rooms.reports.contains_key(&server.entry.id));
        all_told && !self.rooms.is_scarce && self.has_times_room(id, proof, 2)
    }

    /// Whether what a recovery needs fits besides all that is at work.
    fn has_room(&self, id: RecoveryId, proof: &Proof) -> bool {
        self.has_times_room(id, proof, 1)
    }

    fn has_times_room(&self, id: RecoveryId, proof: &Proof, times: u32) -> bool {
        let at_work = self.recoveries.iter().filter(|(_, other)| other.is_at_work());
        let others = at_work.filter_map(|(id, other)| Some((*id, other.proof.as_ref()?)));
        let mut need = Need::default();
        let mut kinds = BTreeSet::new();
        for (id, proof) in others.chain([(id, proof)]) {
            need = need.plus(self.need_of(id, proof).unwrap_or_default());
            kinds.extend(self.kinds_of(id, proof));
        }
        need = need.plus(self.first_heads(&kinds)).plus(self.owed());
        let need = (1..times).fold(need, |sum, _| sum.plus(need));
        let mut bytes: u64 = 0;
        let mut frames: BTreeMap<String, u64> = BTreeMap::new();
        for server in self.state.all_up() {
            let Some(report) = self.rooms.reports.get(&server.entry.id) else { continue };
            bytes = bytes.saturating_add(report.log_bytes);
            let domain = frames.entry(failure_domain(&server.entry)).or_default();
            *domain = domain.saturating_add(report.frames);
        }
        need.fits(bytes, frames.into_values())
    }

    /// What is live and not replicated yet takes frames, of which nobody has told. Its memory it has.
    fn owed(&self) -> Need {
        let owing = self.unreplicated_logs();
        let records = self.state.recoveries.values().filter(|record| owing.contains(&record.crashed));
        let replicas = self.state.tables.values().map(|table| table.options.replicas).max().unwrap_or(0);
        let needs = records.map(|record| {
            let full = record.bytes.div_ceil(u64::from(self.config.segment_bytes));
            let segments = full + 2 * u64::from(record.partitions);
            Need { bytes: 0, segments, frames: segments.saturating_mul(u64::from(replicas)) }
        });
        needs.fold(Need::default(), Need::plus)
    }

    /// What a recovery has still to write; none: nothing.
    fn need_of(&self, id: RecoveryId, proof: &Proof) -> Option<Need> {
        let crashed = self.state.recoveries.get(&id)?.crashed;
        let tablets = self.dead_tablets(crashed, proof);
        let weight = tablets.iter().map(|tablet| tablet.bytes()).fold(0, u64::saturating_add);
        let partitions = weight.div_ceil(self.bounds(weight).bytes_told()).max(1);
        let mut streams: BTreeMap<_, u64> = BTreeMap::new();
        for tablet in &tablets {
            let bytes = streams.entry((tablet.range.durability as u8, tablet.range.replicas)).or_default();
            *bytes = bytes.saturating_add(tablet.bytes());
        }
        let needs = streams.into_iter().map(|((_, replicas), bytes)| {
            // Each partition fills its last segment in part, and begins another head.
            let segments = bytes.div_ceil(u64::from(self.config.segment_bytes)) + 2 * partitions;
            Need { bytes, segments, frames: segments.saturating_mul(u64::from(replicas)) }
        });
        needs.reduce(Need::plus)
    }

    /// The kinds of streams that take a recovery in.
    fn kinds_of(&self, id: RecoveryId, proof: &Proof) -> Vec<(Durability, u8)> {
        let Some(record) = self.state.recoveries.get(&id) else { return Vec::new() };
        let tablets = self.dead_tablets(record.crashed, proof);
        tablets.iter().map(|tablet| (tablet.range.durability, tablet.range.replicas)).collect()
    }

    /// What masters need that have no head yet in a stream of these kinds: each of them may be chosen.
    fn first_heads(&self, kinds: &BTreeSet<(Durability, u8)>) -> Need {
        let masters = || self.state.all_up().filter(|server| server.entry.master);
        let needs = kinds.iter().map(|kind| {
            let has_head =
                |streams: &[StreamRecord]| streams.iter().any(|s| (s.durability, s.replicas) == *kind);
            let segments = masters().filter(|server| !has_head(&server.streams)).count() as u64;
            Need { bytes: 0, segments, frames: segments.saturating_mul(u64::from(kind.1)) }
        });
        needs.fold(Need::default(), Need::plus)
    }

    /// A recovery master had no room for a partition after all. If it was the only one at work it lets others try: one that
    /// needs less, or frees what others need.
    pub(crate) fn on_no_room(&mut self, now: Instant, id: RecoveryId, partition: u32) {
        let plan = self.recoveries.get_mut(&id).and_then(|recovery| recovery.plan.as_mut());
        if let Some(partition) = plan.and_then(|plan| plan.partitions.get_mut(partition as usize)) {
            partition.not_before = partition.not_before.max(now + NO_ROOM_PAUSE);
        }
        self.rooms.is_scarce = true;
        let at_work = self.recoveries.iter().filter(|(_, recovery)| recovery.is_at_work());
        let Some(first) = at_work.map(|(id, _)| *id).next() else { return };
        let is_running = |recovery: &Recovery| recovery.plan.as_ref().is_some_and(Plan::is_running);
        let mut was_alone = first == id;
        for (_, other) in self.recoveries.iter_mut().filter(|(id, _)| **id != first) {
            was_alone &= !other.is_at_work() && !is_running(other);
            if other.is_at_work() {
                other.admission = Admission::None;
            }
        }
        let somebody_waits = self.recoveries.values().any(Recovery::is_waiting);
        let Some(mut recovery) = self.recoveries.remove(&id) else { return };
        if was_alone && !is_running(&recovery) {
            // It may need a log that is kept, and be the only one that waits.
            self.may_wait_for_kept(now, id, &mut recovery);
            let need = recovery.proof.as_ref().and_then(|proof| self.need_of(id, proof));
            if let Some(need) = need.filter(|_| somebody_waits) {
                recovery.admission = Admission::Waiting(need);
                recovery.leaves_to_others_until = now + OTHERS_TURN * (1 << recovery.fruitless.min(3));
                recovery.fruitless += 1;
                self.outbox.report(Level::Debug, "mark:recovery_lets_others_try");
            }
        }
        self.recoveries.insert(id, recovery);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_takes_one_replica_of_each_segment() {
        let need = Need { bytes: 100, segments: 10, frames: 30 };
        assert!(need.fits(100, [10, 10, 10]));
        assert!(!need.fits(99, [10, 10, 10]), "memory");
        assert!(!need.fits(100, [10, 10, 9]), "frames");
        assert!(!need.fits(100, [1000, 10]), "three replicas need three domains");
        assert!(need.fits(100, [1000, 5, 5, 5, 5]));
    }
}
