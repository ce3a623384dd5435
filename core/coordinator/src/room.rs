//! Which recoveries may be replayed side by side: as many as memory suffices for, and always one.
//!
//! A recovered partition is live when it is in the memory of its new owner, whatever room backups have for its
//! replicas. So a recovery needs memory alone. It must be admitted before it is divided: at once if no other recovery
//! is at work, otherwise when the needs of all of them fit into the memory that the servers have told of. This estimate
//! errs towards waiting: memory that recoveries at work have already filled still counts as needed.
//!
//! Invariants:
//! - of the recoveries that lack nothing else, at least one is admitted, and those that wait are admitted oldest first;
//! - if a recovery master had no room after all, all recoveries but the oldest lose their admission, and one partition
//!   of the oldest is begun at a time; published partitions stay, and cleaning makes room.
//!
//! Not here: frames for the replicas of live partitions, and taking back partitions that do not fit (both: recovery
//! masters).
//! Nothing of this is stored.
//! Protocol: docs/protocols/recovery.md, "When memory is short". Catalogue: F7.

use crate::asked::Asked;
use crate::desk::Desk;
use crate::prove::Proof;
use crate::recoveries::Recoveries;
use crate::recovery::{Admission, Need, Recovery};
use crate::rooms::Rooms;
use ramhold_base::{Instant, Level, Mark, RecoveryId, ServerId, Status};
use ramhold_wire::decode;
use ramhold_wire::recovery::{Room, RoomReport};
use std::collections::BTreeSet;
use std::time::Duration;

/// How often servers are asked again while a recovery waits for room, or a dead log is kept.
const ASK_INTERVAL: Duration = Duration::from_millis(500);
/// How long a partition that found no room is left alone: the memory that it had taken has to be free again.
const NO_ROOM_PAUSE: Duration = Duration::from_secs(1);

/// How long a recovery that found no room, though nothing else was at work, leaves its turn to others. In that time all
/// servers have told what it gave back, and the waiting recoveries have looked at that. The time doubles with each
/// turn, up to three times.
const OTHERS_TURN: Duration = Duration::from_secs(2);

/// Partitions for which no master has room are made smaller, down to this part of a segment.
const SEGMENT_PARTS_MAX: u64 = 64;

impl Recoveries {
    /// Asks every server for its room while recoveries are open or logs are kept.
    pub(crate) fn ask_for_room(&mut self, now: Instant, desk: &mut Desk) {
        if !self.is_asking_for_room(desk) {
            self.rooms = Rooms { is_scarce: self.rooms.is_scarce, ..Rooms::default() };
            return;
        }
        if self.rooms.ask_at > now {
            return;
        }
        if let Some(since) = self.rooms.frames_short_since {
            self.let_go_for_frames(now, desk, since);
        }
        self.rooms.ask_at = now + ASK_INTERVAL;
        let servers: Vec<ServerId> = desk.state.all_up().map(|s| s.entry.id).collect();
        self.rooms.reports.retain(|server, _| servers.contains(server));
        if !std::mem::replace(&mut self.rooms.asked, servers.iter().copied().collect()).is_empty() {
            // Not all servers have told; the waiting recoveries look at what is known.
            self.wake_waiting();
        }
        for server in servers {
            // A message without content always fits.
            let _ = desk.ask(now, server, Asked::Room(server), &Room {});
        }
    }

    fn is_asking_for_room(&self, desk: &Desk) -> bool {
        !self.open.is_empty() || desk.state.has_kept()
    }

    /// When servers are to be asked for room again.
    pub(crate) fn room_wake(&self, desk: &Desk) -> Instant {
        let is_waited_for = desk.state.has_kept() || self.open.values().any(Recovery::is_waiting);
        if is_waited_for { self.rooms.ask_at } else { Instant::FAR }
    }

    pub(crate) fn on_room(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        server: ServerId,
        status: Status,
        body: &[u8],
    ) {
        let Some(report) = decode::<RoomReport>(body).ok().filter(|_| status == Status::Ok) else { return };
        if desk.state.is_up(server) {
            self.rooms.reports.insert(server, report);
            if self.rooms.asked.remove(&server) && self.rooms.asked.is_empty() {
                self.look_at_frames(now, desk);
                self.give_turns(now, desk);
                self.wake_waiting();
            }
        }
    }

    /// Notes since when frames are short.
    fn look_at_frames(&mut self, now: Instant, desk: &Desk) {
        let replicas = desk.state.tables.values().map(|table| table.options.replicas).max().unwrap_or(0);
        let have = self.rooms.reports.values().filter(|report| report.frames > 0).count();
        let is_full = have <= usize::from(replicas) && have < self.rooms.reports.len();
        let is_short = is_full || !self.has_frames_for_oldest(desk);
        let since = self.rooms.frames_short_since.unwrap_or(now);
        self.rooms.frames_short_since = is_short.then_some(since);
    }

    /// Whether a recovery that lacks nothing else may be divided and replayed.
    pub(crate) fn admit(&mut self, now: Instant, desk: &mut Desk, id: RecoveryId) -> bool {
        let Some(recovery) = self.open.get(&id) else { return false };
        if recovery.admission == Admission::Admitted {
            return true;
        }
        let Some(proof) = &recovery.inquiry.proof else { return true };
        let Some(need) = self.need_of(desk, id, proof) else { return true };
        let is_first = self.open.range(..id).all(|(_, older)| !older.is_waiting());
        let may_try_alone =
            || now >= recovery.leaves_to_others_until && !self.open.values().any(Recovery::is_at_work);
        let is_admitted = if self.rooms.is_scarce {
            // While the oldest leaves its turn to others, a recovery that fits as a whole goes first: it will be over.
            may_try_alone() && (is_first || self.has_room(desk, id, proof))
        } else {
            is_first && (self.has_room(desk, id, proof) || may_try_alone())
        };
        let Some(recovery) = self.open.get_mut(&id) else { return false };
        if is_admitted {
            recovery.admission = Admission::Admitted;
            return true;
        }
        if recovery.leaves_to_others_until > now {
            recovery.wake_at(recovery.leaves_to_others_until);
        }
        if !recovery.is_waiting() {
            let text = format!("{id} waits for {} bytes of memory", need.bytes);
            desk.outbox.report(Level::Info, text);
            desk.outbox.mark(Mark::RecoveryWaitsForRoom);
            self.rooms.ask_at = self.rooms.ask_at.min(now + ASK_INTERVAL);
        }
        recovery.admission = Admission::Waiting(need);
        false
    }

    /// Whether the need of a recovery fits beside the needs of all that are at work.
    fn has_room(&self, desk: &Desk, id: RecoveryId, proof: &Proof) -> bool {
        let at_work = self.open.iter().filter(|(_, other)| other.is_at_work());
        let others = at_work.filter_map(|(id, other)| Some((*id, other.inquiry.proof.as_ref()?)));
        let needs = others.chain([(id, proof)]).filter_map(|(id, proof)| self.need_of(desk, id, proof));
        let needed = needs.map(|need| need.bytes).fold(0, u64::saturating_add);
        let told = desk.state.all_up().filter_map(|server| self.rooms.reports.get(&server.entry.id));
        needed <= told.map(|report| report.log_bytes).fold(0, u64::saturating_add)
    }

    /// The memory that a recovery has still to take in; none: nothing is left.
    fn need_of(&self, desk: &Desk, id: RecoveryId, proof: &Proof) -> Option<Need> {
        let crashed = desk.state.recoveries.get(&id)?.crashed;
        let tablets = self.dead_tablets(desk, crashed, proof);
        let bytes = tablets.iter().map(|tablet| tablet.bytes());
        bytes.reduce(u64::saturating_add).map(|bytes| Need { bytes })
    }

    /// No master that is up had memory for a partition. The rest of its log is divided into parts half as large, as far
    /// as that is possible.
    fn divide_finer(&mut self, desk: &mut Desk, id: RecoveryId) {
        let least = u64::from(desk.config.segment_bytes) / SEGMENT_PARTS_MAX;
        let Some(recovery) = self.open.get_mut(&id) else { return };
        let Some(plan) = recovery.plan.as_ref().filter(|plan| !plan.is_running()) else { return };
        let half = plan.partition_bytes() / 2;
        if half < least {
            return;
        }
        recovery.partition_bytes_max = Some(half);
        recovery.plan_anew();
        desk.outbox.mark(Mark::RecoveryDividedFiner);
    }

    /// A recovery master had no room for a partition after all. If its recovery was the only one at work, that recovery
    /// lets others try: one of them may need less, or free memory that others need.
    pub(crate) fn on_no_room(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        id: RecoveryId,
        partition: u32,
        server: ServerId,
    ) {
        let masters: BTreeSet<ServerId> = desk.state.masters().map(|master| master.entry.id).collect();
        let plan = self.open.get_mut(&id).and_then(|recovery| recovery.plan.as_mut());
        let mut fits_nobody = false;
        if let Some(partition) = plan.and_then(|plan| plan.partitions.get_mut(partition as usize)) {
            partition.not_before = partition.not_before.max(now + NO_ROOM_PAUSE);
            partition.lacked_room.insert(server);
            fits_nobody = masters.is_subset(&partition.lacked_room);
        }
        self.rooms.is_scarce = true;
        // If frames are short, smaller parts do not help.
        if fits_nobody && self.rooms.frames_short_since.is_none() {
            self.divide_finer(desk, id);
        }
        let at_work = self.open.iter().filter(|(_, recovery)| recovery.is_at_work());
        let Some(first) = at_work.map(|(id, _)| *id).next() else { return };
        let mut was_alone = first == id;
        for (_, other) in self.open.iter_mut().filter(|(id, _)| **id != first) {
            was_alone &= !other.is_at_work() && !other.is_running();
            if other.is_at_work() {
                other.admission = Admission::None;
            }
        }
        let somebody_waits = self.open.values().any(Recovery::is_waiting);
        let Some(recovery) = self.open.get(&id) else { return };
        if !was_alone || recovery.is_running() || !somebody_waits {
            return;
        }
        let need = recovery.inquiry.proof.as_ref().and_then(|proof| self.need_of(desk, id, proof));
        if let (Some(need), Some(recovery)) = (need, self.open.get_mut(&id)) {
            recovery.admission = Admission::Waiting(need);
            recovery.leaves_to_others_until = now + OTHERS_TURN * (1 << recovery.fruitless.min(3));
            recovery.fruitless += 1;
            desk.outbox.mark(Mark::RecoveryLetsOthersTry);
        }
    }
}
