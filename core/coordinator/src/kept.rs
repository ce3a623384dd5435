//! Dead logs that are kept after their recovery, until devices have everything that was recovered from them.
//!
//! A recovered piece of a tablet is live before it is replicated. Until its new owner tells that the devices of its
//! backups have it, the dead log is a second position of the piece: the piece names that log, and the dead server stays
//! in the list. If the owner dies before that, the piece is recovered from both logs and names both, and so on, up to
//! `PIECE_LOGS_MAX` logs.
//!
//! Invariants:
//! - a server that a piece names, as owner or as earlier position, is in the list;
//! - a dead log is proven again by the ends with which it was replayed, unless no server can have them any more.
//!
//! Protocol: docs/protocols/recovery.md, "Until devices have it". Catalogue: D2, F6.

use crate::departed;
use crate::earlier::whole_log;
use crate::losses;
use crate::machine::Coordinator;
use crate::prove::{Proof, SegmentProof, StreamProof};
use crate::records::{EarlierRecord, Key, TabletRecord};
use crate::recovery::Recovery;
use crate::replaying::Plan;
use crate::streams::sender_of;
use crate::timeline;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterTime, Instant, Level, Mark, Peer, RecoveryId, ServerId, Status, TableId};
use ramhold_wire::Header;
use ramhold_wire::control::Empty;
use ramhold_wire::recovery::{PartitionRange, Settled, TabletStat};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long backups may lack frames beside a kept log, before logs are let go. Devices need less for a recovery, unless
/// they stand still for want of the very frames that the log takes.
const KEPT_PATIENCE: Duration = Duration::from_secs(20);

/// How often a recovery checks whether the other logs that it needs are proven.
const EARLIER_INTERVAL: Duration = Duration::from_millis(50);

/// Another log from which parts of a division are to be recovered as well.
#[derive(Debug)]
pub(crate) struct EarlierPlan {
    /// An id of its own, by which backups tell divisions of one log apart.
    pub id: RecoveryId,
    pub crashed: ServerId,
    /// The parts of the division, at their positions in this log.
    pub ranges: Vec<PartitionRange>,
    pub proof: Proof,
}

impl Coordinator {
    /// All of this log is live, and not all of it is on devices.
    pub(crate) fn keep_log(&mut self, now: Instant, crashed: ServerId) {
        let Some(server) = self.desk.state.servers.get_mut(&crashed) else { return };
        server.entry.kept = true;
        self.give_turns(now);
        self.desk.list_changed(crashed);
        self.desk.outbox.mark(Mark::LogKept);
    }

    /// The master of a position tells that devices have all of it (`flushed`), or only buffers so far.
    pub(crate) fn on_settled(
        &mut self,
        now: Instant,
        to: Peer,
        header: &Header,
        message: &Settled,
    ) -> Result<(), Status> {
        let server = sender_of(header)?;
        self.desk.state.up(server).ok_or(Status::Fenced)?;
        let Settled { shard, stream, first_segment, flushed } = *message;
        let is_there = |piece: &TabletRecord| {
            (piece.owner, piece.shard, piece.stream, piece.first_segment)
                == (server, shard, stream, first_segment)
        };
        if flushed {
            self.change_earlier(is_there, |_| None);
            self.desk.outbox.mark(Mark::Settled);
        } else {
            self.change_earlier(is_there, |earlier| Some(EarlierRecord { replicated: true, ..earlier }));
            self.give_turns(now);
        }
        self.desk.outbox.reply_with(to, header, &Empty {});
        Ok(())
    }

    /// Changes the newest earlier position of some pieces. A piece that has none any more has no older ones either.
    fn change_earlier(
        &mut self,
        which: impl Fn(&TabletRecord) -> bool,
        change: impl Fn(EarlierRecord) -> Option<EarlierRecord>,
    ) -> bool {
        let mut changed: Vec<TableId> = Vec::new();
        for (id, table) in &mut self.desk.state.tables {
            let mut is_changed = false;
            for piece in table.tablets.iter_mut().filter(|piece| which(piece)) {
                let after = piece.earlier.and_then(&change);
                is_changed |= after != piece.earlier;
                piece.earlier = after;
                if after.is_none() {
                    // A piece that is on devices here needs none of its logs.
                    piece.older.clear();
                }
            }
            if is_changed {
                changed.push(*id);
            }
        }
        if changed.is_empty() {
            return false;
        }
        changed.into_iter().for_each(|table| self.desk.outbox.touch(Key::Table(table)));
        self.look_at_kept();
        true
    }

    /// A log may be kept for no piece any more, and waiting recoveries may need less room.
    pub(crate) fn look_at_kept(&mut self) {
        self.kept_changed = true;
        self.wake_waiting();
        self.recovery_wake = Instant::ZERO;
    }

    /// Removes kept logs that no piece names any more from the list.
    pub(crate) fn let_go(&mut self, now: Instant) {
        if !std::mem::take(&mut self.kept_changed) {
            return;
        }
        let kept: Vec<ServerId> =
            self.desk.state.servers.values().filter(|s| s.entry.kept).map(|s| s.entry.id).collect();
        if kept.is_empty() {
            return;
        }
        let needed: BTreeSet<ServerId> = self
            .desk
            .state
            .live_pieces()
            .flat_map(TabletRecord::earlier_positions)
            .map(|e| e.server)
            .collect();
        for server in kept {
            if needed.contains(&server) || self.progress.dropping.wait_for(server) {
                continue;
            }
            if let Some(id) = self.desk.state.recovery_of(server).map(|record| record.id) {
                timeline::note_step(now, &mut self.desk, id, |steps| &mut steps.settled);
                self.recoveries.remove(&id);
                self.let_go_of(now, id, server);
            }
        }
    }

    /// No piece needs anything of this log: its replicas are freed.
    pub(crate) fn let_go_of(&mut self, now: Instant, id: RecoveryId, crashed: ServerId) {
        if let Some(record) = self.desk.state.recoveries.get_mut(&id) {
            record.ends.clear();
            self.desk.outbox.touch(Key::Recovery(id));
        }
        self.room_may_be_free();
        self.watch_freeing(now, id);
        departed::remove_server(now, &mut self.desk, &self.links, crashed);
    }

    /// Advances a kept log while it is asked for: the recovery of an owner of parts of it needs it, or older logs are
    /// let go if it is at hand. `true`: neither is the case.
    pub(crate) fn advance_kept(
        &mut self,
        now: Instant,
        id: RecoveryId,
        crashed: ServerId,
        recovery: &mut Recovery,
    ) -> bool {
        if !self.desk.state.is_needed_by_dead(crashed) && !self.is_asked_for_frames(now, crashed) {
            return true;
        }
        let was_proven = recovery.proof.is_some();
        self.ask_backups(now, id, crashed, recovery);
        self.look(now, id, recovery);
        if recovery.proof.is_some() && !recovery.all_answered() {
            recovery.wake = recovery.wake.min(now + self.desk.config.ask_wait);
        }
        if recovery.proof.is_some() || was_proven {
            for (other, waiting) in &mut self.recoveries {
                if self.desk.state.recoveries.get(other).is_some_and(|record| !record.done) {
                    waiting.wake = Instant::ZERO;
                }
            }
        }
        false
    }
}

impl Coordinator {
    /// Whether older logs are let go, for want of frames, as soon as this one is at hand.
    fn is_asked_for_frames(&self, now: Instant, crashed: ServerId) -> bool {
        self.rooms.frames_short_since.is_some_and(|since| now >= since + KEPT_PATIENCE)
            && self
                .desk
                .state
                .live_pieces()
                .any(|piece| whole_log(piece).is_some_and(|(_, whole)| whole == crashed))
    }
}

impl Coordinator {
    /// Backups have lacked frames since `since`. After a while (`KEPT_PATIENCE`) kept logs may be what takes the
    /// frames, and may wait for frames themselves: devices cannot have a segment that lacks a replica. Then the logs
    /// are let go that are kept for pieces which R buffers have. For a piece of a dead owner, the piece has to be in
    /// that owner's log, and that log at hand.
    pub(crate) fn let_go_for_frames(&mut self, now: Instant, since: Instant) {
        if now < since + KEPT_PATIENCE {
            return;
        }
        if self.let_go_older(now) {
            self.report_let_go();
        }
        let is_replicated = |piece: &TabletRecord| piece.earlier.is_some_and(|e| e.replicated);
        let naming: BTreeSet<ServerId> = self
            .desk
            .state
            .live_pieces()
            .filter(|piece| is_replicated(piece))
            .map(|piece| piece.owner)
            .collect();
        let mut let_go: BTreeSet<ServerId> = BTreeSet::new();
        let mut anew: Vec<RecoveryId> = Vec::new();
        for owner in naming {
            if self.desk.state.is_up(owner) {
                // R buffers had the pieces. Some of those backups may have died since, and their replicas found no
                // frames elsewhere.
                if self.lone_segments_of(owner) == Some(0) {
                    let_go.insert(owner);
                }
                continue;
            }
            let Some(id) = self.desk.state.recovery_of(owner).map(|record| record.id) else { continue };
            if self.recoveries.get(&id).is_some_and(|open| self.is_at_hand_alone(owner, open)) {
                let_go.insert(owner);
                anew.push(id);
            }
        }
        if !self.change_earlier(|piece| is_replicated(piece) && let_go.contains(&piece.owner), |_| None) {
            return;
        }
        self.plan_anew(anew);
        self.report_let_go();
    }

    /// If a newer log alone has all of a piece, older positions are needed only if power takes what that log has. So if
    /// that log is at hand, the older positions are let go, too. A division names the logs that its masters read, so
    /// those logs stay while a master is at work on it.
    fn let_go_older(&mut self, now: Instant) -> bool {
        let mut owners: BTreeMap<ServerId, Option<RecoveryId>> = BTreeMap::new();
        let mut whole_logs: BTreeMap<ServerId, Option<RecoveryId>> = BTreeMap::new();
        for piece in self.desk.state.live_pieces() {
            let Some((_, whole)) = whole_log(piece) else { continue };
            let recovery = |server| self.desk.state.recovery_of(server).map(|record| record.id);
            owners.entry(piece.owner).or_insert_with(|| recovery(piece.owner));
            whole_logs.entry(whole).or_insert_with(|| recovery(whole));
        }
        // Backups are asked first about such a log if its recovery is over.
        for id in whole_logs.values().flatten() {
            self.recoveries.entry(*id).or_insert_with(|| Recovery::new(now, Instant::ZERO));
        }
        let open = |id: &Option<RecoveryId>| id.as_ref().and_then(|id| self.recoveries.get(id));
        whole_logs.retain(|log, id| open(id).is_some_and(|open| self.is_at_hand_alone(*log, open)));
        owners.retain(|_, id| !open(id).and_then(|open| open.plan.as_ref()).is_some_and(Plan::is_running));
        let mut changed: BTreeSet<TableId> = BTreeSet::new();
        let mut anew: BTreeSet<RecoveryId> = BTreeSet::new();
        for (id, table) in &mut self.desk.state.tables {
            for piece in &mut table.tablets {
                let Some((at, whole)) = whole_log(piece) else { continue };
                let Some(recovery) = owners.get(&piece.owner).filter(|_| whole_logs.contains_key(&whole))
                else {
                    continue;
                };
                piece.older.truncate(at);
                changed.insert(*id);
                anew.extend(recovery);
            }
        }
        if changed.is_empty() {
            return false;
        }
        changed.into_iter().for_each(|table| self.desk.outbox.touch(Key::Table(table)));
        self.plan_anew(anew);
        self.look_at_kept();
        true
    }

    /// Divisions that name what is let go are made anew.
    fn plan_anew(&mut self, recoveries: impl IntoIterator<Item = RecoveryId>) {
        for id in recoveries {
            if let Some(recovery) = self.recoveries.get_mut(&id) {
                recovery.plan_anew();
            }
        }
    }

    fn report_let_go(&mut self) {
        let text =
            "dead logs are let go for want of room, though devices may not have all that was recovered";
        self.desk.outbox.report(Level::Warn, text);
        self.desk.outbox.mark(Mark::KeptLogLetGo);
    }

    /// Whether a dead log would do by itself. It is proven without loss by what is known just now. Two servers that are
    /// up have each segment, if it has replicas on as many. And nobody is replaying it together with another log.
    fn is_at_hand_alone(&self, crashed: ServerId, recovery: &Recovery) -> bool {
        let Some(proof) = recovery.proof.as_ref().filter(|proof| !proof.has_loss()) else { return false };
        let Some(server) = self.desk.state.servers.get(&crashed) else { return false };
        let is_held = |stream: &StreamProof| {
            let own = server.streams.iter().find(|s| (s.shard, s.stream) == (stream.shard, stream.stream));
            let wanted = own.map_or(2, |own| usize::from(own.replicas).min(2));
            let has = |s: &SegmentProof| {
                s.sources.iter().filter(|source| self.desk.state.is_up(source.backup)).count()
            };
            stream.segments.iter().all(|segment| has(segment) >= wanted)
        };
        let is_running = recovery.plan.as_ref().is_some_and(Plan::is_running);
        !is_running && recovery.is_of(self.desk.state.meta.list_version) && proof.streams.iter().all(is_held)
    }

    /// Whether the other logs that parts of this one are to be recovered from are proven. Backups are asked about those
    /// that are not. A log of which some part is at no backup that is there holds up only the tablets that need it.
    pub(crate) fn has_earlier(&mut self, now: Instant, crashed: ServerId, recovery: &mut Recovery) -> bool {
        if recovery.plan.is_some() {
            return true;
        }
        let mut all = true;
        recovery.lacking.clear();
        for server in self.desk.state.earlier_logs_of(crashed) {
            let Some(id) = self.desk.state.recovery_of(server).map(|record| record.id) else { continue };
            let kept = self.recoveries.entry(id).or_insert_with(|| Recovery::new(now, Instant::ZERO));
            if kept.is_lacking() {
                recovery.lacking.insert(server);
            } else {
                all &= kept.is_proven(now, &self.desk.config);
            }
        }
        if !all || !recovery.lacking.is_empty() {
            recovery.wake = recovery.wake.min(now + EARLIER_INTERVAL);
        }
        all
    }
}

impl Coordinator {
    /// Takes over what is known by now of the other logs that a division is recovered from. If they would be replayed
    /// differently by now, the division is made anew.
    pub(crate) fn refresh_earlier(&mut self, now: Instant, recovery: &mut Recovery) {
        let Some(plan) = &mut recovery.plan else { return };
        let (mut is_other, mut has_moved) = (false, false);
        let is_there = |earlier: &&mut EarlierPlan| self.desk.state.servers.contains_key(&earlier.crashed);
        for earlier in plan.earlier.iter_mut().filter(is_there) {
            let Some(id) = self.desk.state.recovery_of(earlier.crashed).map(|record| record.id) else {
                continue;
            };
            // That recovery may have been at work for itself until now.
            let kept = self.recoveries.entry(id).or_insert_with(|| Recovery::new(now, Instant::ZERO));
            let Some(proof) = kept.proof.as_ref().filter(|proof| **proof != earlier.proof) else { continue };
            is_other |= !proof.replays_like(&earlier.proof);
            has_moved = true;
            earlier.proof = proof.clone();
        }
        if is_other {
            recovery.plan = None;
        } else if has_moved {
            self.desk.outbox.mark(Mark::EarlierLogMoved);
        }
    }

    /// All backups are asked anew about a log, and about the logs that it is recovered with.
    pub(crate) fn ask_anew(&mut self, id: RecoveryId) {
        let plan = self.recoveries.get(&id).and_then(|recovery| recovery.plan.as_ref());
        let others: Vec<ServerId> = plan.iter().flat_map(|p| &p.earlier).map(|e| e.crashed).collect();
        let others = others.into_iter().filter_map(|server| Some(self.desk.state.recovery_of(server)?.id));
        for id in others.chain([id]).collect::<Vec<_>>() {
            if let Some(recovery) = self.recoveries.get_mut(&id) {
                recovery.ask_anew(&self.desk.config);
            }
        }
    }

    /// The parts of a division that are to be recovered from other logs as well, with their positions in those logs.
    pub(crate) fn divide_earlier(
        &mut self,
        crashed: ServerId,
        time: ClusterTime,
        ranges: &[PartitionRange],
    ) -> Vec<EarlierPlan> {
        let mut by_log: BTreeMap<ServerId, Vec<PartitionRange>> = BTreeMap::new();
        for range in ranges.iter().filter(|_| !planted(Defect::EarlierLogIgnored)) {
            let Some(piece) = self.desk.state.piece_of(crashed, range) else { continue };
            for EarlierRecord { server, shard, stream, first_segment, .. } in
                piece.earlier_positions().copied()
            {
                let there = PartitionRange { shard, stream, first_segment, ..*range };
                by_log.entry(server).or_default().push(there);
            }
        }
        let mut plans = Vec::new();
        for (server, ranges) in by_log {
            let Some(id) = self.desk.state.recovery_of(server).map(|record| record.id) else { continue };
            let Some(proof) = self.recoveries.get(&id).and_then(|kept| kept.proof.clone()) else { continue };
            let ends = proof.ends();
            if self.desk.state.recoveries.get(&id).is_some_and(|record| record.ends != ends) {
                let losses = losses::file_losses(&mut self.desk, id, server, time, &proof);
                let record = self.desk.state.recoveries.get_mut(&id).expect("looked at before");
                record.ends = ends;
                record.losses = losses.unwrap_or(std::mem::take(&mut record.losses));
                self.desk.outbox.touch(Key::Recovery(id));
            }
            let number = self.desk.state.meta.recoveries.next();
            self.desk.state.meta.recoveries = number;
            self.desk.outbox.mark(Mark::RecoveredFromTwoLogs);
            plans.push(EarlierPlan { id: number, crashed: server, ranges, proof });
        }
        plans
    }
}

impl Coordinator {
    /// The weight of a piece by the heads of the logs that it was recovered from; the newest head that tells of the
    /// piece counts.
    pub(crate) fn earlier_stats(&self, table: TableId, piece: &TabletRecord) -> Vec<TabletStat> {
        let told = piece.earlier_positions().map(|earlier| self.stats_in(table, earlier));
        let is_of_it = |s: &TabletStat| s.first <= piece.last && piece.first <= s.last;
        told.into_iter().find(|stats| stats.iter().any(is_of_it)).unwrap_or_default()
    }

    /// The statistics of a table in the head of a dead log.
    fn stats_in(&self, table: TableId, position: &EarlierRecord) -> Vec<TabletStat> {
        let id = self.desk.state.recovery_of(position.server).map(|record| record.id);
        let proof = id.and_then(|id| self.recoveries.get(&id)).and_then(|kept| kept.proof.as_ref());
        let streams = proof.into_iter().flat_map(|proof| &proof.streams);
        let own = streams.filter(|s| (s.shard, s.stream) == (position.shard, position.stream));
        own.flat_map(|s| &s.stats).filter(|s| s.table == table).copied().collect()
    }
}
