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
use crate::desk::Desk;
use crate::earlier::whole_log;
use crate::losses;
use crate::plan::EarlierPlan;
use crate::prove::{SegmentProof, StreamProof};
use crate::records::{EarlierRecord, Key, TabletRecord};
use crate::recoveries::{Outcome, Recoveries};
use crate::recovery::{Recovery, Surroundings};
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

impl Recoveries {
    /// All of this log is live, and not all of it is on devices.
    pub(crate) fn keep_log(&mut self, now: Instant, desk: &mut Desk, crashed: ServerId) {
        let Some(server) = desk.state.servers.get_mut(&crashed) else { return };
        server.entry.kept = true;
        self.give_turns(now, desk);
        desk.list_changed(crashed);
        desk.outbox.mark(Mark::LogKept);
    }

    /// The master of a position tells that devices have all of it (`flushed`), or only buffers so far.
    pub(crate) fn on_settled(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        to: Peer,
        header: &Header,
        message: &Settled,
    ) -> Result<(), Status> {
        let server = sender_of(header)?;
        desk.state.up(server).ok_or(Status::Fenced)?;
        let Settled { shard, stream, first_segment, flushed } = *message;
        let is_there = |piece: &TabletRecord| {
            (piece.owner, piece.shard, piece.stream, piece.first_segment)
                == (server, shard, stream, first_segment)
        };
        if flushed {
            self.change_earlier(desk, is_there, |_| None);
            desk.outbox.mark(Mark::Settled);
        } else {
            self.change_earlier(desk, is_there, |earlier| {
                Some(EarlierRecord { replicated: true, ..earlier })
            });
            self.give_turns(now, desk);
        }
        desk.outbox.reply_with(to, header, &Empty {});
        Ok(())
    }

    /// Changes the newest earlier position of some pieces. A piece that has none any more has no older ones either.
    fn change_earlier(
        &mut self,
        desk: &mut Desk,
        which: impl Fn(&TabletRecord) -> bool,
        change: impl Fn(EarlierRecord) -> Option<EarlierRecord>,
    ) -> bool {
        let mut changed: Vec<TableId> = Vec::new();
        for (id, table) in &mut desk.state.tables {
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
        changed.into_iter().for_each(|table| desk.outbox.touch(Key::Table(table)));
        self.look_at_kept();
        true
    }

    /// A log may be kept for no piece any more, and waiting recoveries may need less room.
    pub(crate) fn look_at_kept(&mut self) {
        self.kept_changed = true;
        self.wake_waiting();
        self.wake_at = Instant::ZERO;
    }

    /// Removes kept logs that no piece names any more from the list.
    pub(crate) fn let_go(&mut self, now: Instant, desk: &mut Desk, around: Surroundings<'_>) {
        if !std::mem::take(&mut self.kept_changed) {
            return;
        }
        let kept: Vec<ServerId> =
            desk.state.servers.values().filter(|s| s.entry.kept).map(|s| s.entry.id).collect();
        if kept.is_empty() {
            return;
        }
        let needed: BTreeSet<ServerId> =
            desk.state.live_pieces().flat_map(TabletRecord::earlier_positions).map(|e| e.server).collect();
        for server in kept {
            if needed.contains(&server) || around.progress.is_dropping_at(server) {
                continue;
            }
            if let Some(id) = desk.state.recovery_of(server).map(|record| record.id) {
                timeline::note_step(now, desk, id, |steps| &mut steps.settled);
                self.open.remove(&id);
                self.let_go_of(now, desk, around, id, server);
            }
        }
    }

    /// No piece needs anything of this log: its replicas are freed.
    pub(crate) fn let_go_of(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        around: Surroundings<'_>,
        id: RecoveryId,
        crashed: ServerId,
    ) {
        if let Some(record) = desk.state.recoveries.get_mut(&id) {
            record.ends.clear();
            desk.outbox.touch(Key::Recovery(id));
        }
        self.room_may_be_free();
        self.watches.note_freeing(now, id);
        departed::remove_server(now, desk, around.links, crashed);
    }

    /// Advances a kept log while it is asked for: the recovery of an owner of parts of it needs it, or older logs are
    /// let go if it is at hand.
    pub(crate) fn advance_kept(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        around: Surroundings<'_>,
        id: RecoveryId,
        crashed: ServerId,
    ) -> Outcome {
        if !desk.state.is_needed_by_dead(crashed) && !self.is_asked_for_frames(now, desk, crashed) {
            return Outcome::Over;
        }
        let Some(recovery) = self.open.get_mut(&id) else { return Outcome::Over };
        let was_proven = recovery.inquiry.proof.is_some();
        recovery.ask_backups(now, desk, id, crashed);
        recovery.look(now, desk, around, id);
        let is_proven = recovery.inquiry.proof.is_some();
        if is_proven && !recovery.inquiry.all_answered() {
            recovery.wake_at(now + desk.config.ask_wait);
        }
        if is_proven || was_proven {
            for (other, waiting) in &mut self.open {
                if desk.state.recoveries.get(other).is_some_and(|record| !record.done) {
                    waiting.wake = Instant::ZERO;
                }
            }
        }
        Outcome::Open
    }

    /// Whether older logs are let go, for want of frames, as soon as this one is at hand.
    fn is_asked_for_frames(&self, now: Instant, desk: &Desk, crashed: ServerId) -> bool {
        self.rooms.frames_short_since.is_some_and(|since| now >= since + KEPT_PATIENCE)
            && desk
                .state
                .live_pieces()
                .any(|piece| whole_log(piece).is_some_and(|(_, whole)| whole == crashed))
    }

    /// Backups have lacked frames since `since`. After a while (`KEPT_PATIENCE`) kept logs may be what takes the
    /// frames, and may wait for frames themselves: devices cannot have a segment that lacks a replica. Then the logs
    /// are let go that are kept for pieces which R buffers have. For a piece of a dead owner, the piece has to be in
    /// that owner's log, and that log at hand.
    pub(crate) fn let_go_for_frames(&mut self, now: Instant, desk: &mut Desk, since: Instant) {
        if now < since + KEPT_PATIENCE {
            return;
        }
        if self.let_go_older(now, desk) {
            report_let_go(desk);
        }
        let is_replicated = |piece: &TabletRecord| piece.earlier.is_some_and(|e| e.replicated);
        let naming: BTreeSet<ServerId> =
            desk.state.live_pieces().filter(|piece| is_replicated(piece)).map(|piece| piece.owner).collect();
        let mut let_go: BTreeSet<ServerId> = BTreeSet::new();
        let mut anew: Vec<RecoveryId> = Vec::new();
        for owner in naming {
            if desk.state.is_up(owner) {
                // R buffers had the pieces. Some of those backups may have died since, and their replicas found no
                // frames elsewhere.
                if self.rooms.lone_segments_of(owner) == Some(0) {
                    let_go.insert(owner);
                }
                continue;
            }
            let Some(id) = desk.state.recovery_of(owner).map(|record| record.id) else { continue };
            if self.open.get(&id).is_some_and(|open| is_at_hand_alone(desk, owner, open)) {
                let_go.insert(owner);
                anew.push(id);
            }
        }
        if !self.change_earlier(desk, |piece| is_replicated(piece) && let_go.contains(&piece.owner), |_| None)
        {
            return;
        }
        self.plan_anew(anew);
        report_let_go(desk);
    }

    /// If a newer log alone has all of a piece, older positions are needed only if power takes what that log has. So if
    /// that log is at hand, the older positions are let go, too. A division names the logs that its masters read, so
    /// those logs stay while a master is at work on it.
    fn let_go_older(&mut self, now: Instant, desk: &mut Desk) -> bool {
        let mut owners: BTreeMap<ServerId, Option<RecoveryId>> = BTreeMap::new();
        let mut whole_logs: BTreeMap<ServerId, Option<RecoveryId>> = BTreeMap::new();
        for piece in desk.state.live_pieces() {
            let Some((_, whole)) = whole_log(piece) else { continue };
            let recovery = |server| desk.state.recovery_of(server).map(|record| record.id);
            owners.entry(piece.owner).or_insert_with(|| recovery(piece.owner));
            whole_logs.entry(whole).or_insert_with(|| recovery(whole));
        }
        // Backups are asked first about such a log if its recovery is over.
        for id in whole_logs.values().flatten() {
            self.open.entry(*id).or_insert_with(|| Recovery::new(now, Instant::ZERO));
        }
        let open = |id: &Option<RecoveryId>| id.as_ref().and_then(|id| self.open.get(id));
        whole_logs.retain(|log, id| open(id).is_some_and(|open| is_at_hand_alone(desk, *log, open)));
        owners.retain(|_, id| !open(id).is_some_and(Recovery::is_running));
        let mut changed: BTreeSet<TableId> = BTreeSet::new();
        let mut anew: BTreeSet<RecoveryId> = BTreeSet::new();
        for (id, table) in &mut desk.state.tables {
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
        changed.into_iter().for_each(|table| desk.outbox.touch(Key::Table(table)));
        self.plan_anew(anew);
        self.look_at_kept();
        true
    }

    /// Divisions that name what is let go are made anew.
    fn plan_anew(&mut self, recoveries: impl IntoIterator<Item = RecoveryId>) {
        for id in recoveries {
            if let Some(recovery) = self.open.get_mut(&id) {
                recovery.plan_anew();
            }
        }
    }

    /// Whether the other logs that parts of this one are to be recovered from are proven. Backups are asked about those
    /// that are not. A log of which some part is at no backup that is there holds up only the tablets that need it.
    pub(crate) fn has_earlier(
        &mut self,
        now: Instant,
        desk: &Desk,
        id: RecoveryId,
        crashed: ServerId,
    ) -> bool {
        if self.open.get(&id).is_some_and(|recovery| recovery.plan.is_some()) {
            return true;
        }
        let mut all = true;
        let mut lacking = BTreeSet::new();
        for server in desk.state.earlier_logs_of(crashed) {
            let Some(id) = desk.state.recovery_of(server).map(|record| record.id) else { continue };
            let kept = self.open.entry(id).or_insert_with(|| Recovery::new(now, Instant::ZERO));
            if kept.inquiry.is_lacking() {
                lacking.insert(server);
            } else {
                all &= kept.inquiry.is_proven(now, &desk.config);
            }
        }
        let Some(recovery) = self.open.get_mut(&id) else { return false };
        recovery.lacking = lacking;
        if !all || !recovery.lacking.is_empty() {
            recovery.wake_at(now + EARLIER_INTERVAL);
        }
        all
    }

    /// Takes over what is known by now of the other logs that a division is recovered from. If they would be replayed
    /// differently by now, the division is made anew.
    pub(crate) fn refresh_earlier(&mut self, now: Instant, desk: &mut Desk, id: RecoveryId) {
        let Some(plan) = self.open.get(&id).and_then(|recovery| recovery.plan.as_ref()) else { return };
        let logs: Vec<ServerId> = plan.earlier.iter().map(|earlier| earlier.crashed).collect();
        let (mut is_other, mut has_moved) = (false, false);
        for (index, log) in logs.into_iter().enumerate() {
            if !desk.state.servers.contains_key(&log) {
                continue;
            }
            let Some(kept) = desk.state.recovery_of(log).map(|record| record.id) else { continue };
            // That recovery may have been at work for itself until now.
            self.open.entry(kept).or_insert_with(|| Recovery::new(now, Instant::ZERO));
            let proof = self.open.get(&kept).and_then(|kept| kept.inquiry.proof.as_ref());
            let plan = self.open.get(&id).and_then(|recovery| recovery.plan.as_ref());
            let before = plan.and_then(|plan| plan.earlier.get(index)).map(|earlier| &earlier.proof);
            let (Some(proof), Some(before)) = (proof, before) else { continue };
            if proof == before {
                continue;
            }
            is_other |= !proof.replays_like(before);
            has_moved = true;
            let proof = proof.clone();
            if let Some(plan) = self.open.get_mut(&id).and_then(|recovery| recovery.plan.as_mut()) {
                plan.earlier[index].proof = proof;
            }
        }
        if is_other && let Some(recovery) = self.open.get_mut(&id) {
            recovery.plan = None;
        } else if has_moved {
            desk.outbox.mark(Mark::EarlierLogMoved);
        }
    }

    /// All backups are asked anew about a log, and about the logs that it is recovered with.
    pub(crate) fn ask_anew(&mut self, desk: &Desk, id: RecoveryId) {
        let plan = self.open.get(&id).and_then(|recovery| recovery.plan.as_ref());
        let others: Vec<ServerId> = plan.iter().flat_map(|p| &p.earlier).map(|e| e.crashed).collect();
        let others = others.into_iter().filter_map(|server| Some(desk.state.recovery_of(server)?.id));
        for id in others.chain([id]).collect::<Vec<_>>() {
            if let Some(recovery) = self.open.get_mut(&id) {
                recovery.ask_anew(&desk.config);
            }
        }
    }

    /// The parts of a division that are to be recovered from other logs as well, with their positions in those logs.
    pub(crate) fn divide_earlier(
        &self,
        desk: &mut Desk,
        crashed: ServerId,
        time: ClusterTime,
        ranges: &[PartitionRange],
    ) -> Vec<EarlierPlan> {
        let mut by_log: BTreeMap<ServerId, Vec<PartitionRange>> = BTreeMap::new();
        for range in ranges.iter().filter(|_| !planted(Defect::EarlierLogIgnored)) {
            let Some(piece) = desk.state.piece_of(crashed, range) else { continue };
            for EarlierRecord { server, shard, stream, first_segment, .. } in
                piece.earlier_positions().copied()
            {
                let there = PartitionRange { shard, stream, first_segment, ..*range };
                by_log.entry(server).or_default().push(there);
            }
        }
        let mut plans = Vec::new();
        for (server, ranges) in by_log {
            let Some(id) = desk.state.recovery_of(server).map(|record| record.id) else { continue };
            let Some(proof) = self.open.get(&id).and_then(|kept| kept.inquiry.proof.clone()) else {
                continue;
            };
            let ends = proof.ends();
            if desk.state.recoveries.get(&id).is_some_and(|record| record.ends != ends) {
                let losses = losses::file_losses(desk, id, server, time, &proof);
                let record = desk.state.recoveries.get_mut(&id).expect("looked at before");
                record.ends = ends;
                record.losses = losses.unwrap_or(std::mem::take(&mut record.losses));
                desk.outbox.touch(Key::Recovery(id));
            }
            let number = desk.state.meta.recoveries.next();
            desk.state.meta.recoveries = number;
            desk.outbox.mark(Mark::RecoveredFromTwoLogs);
            plans.push(EarlierPlan { id: number, crashed: server, ranges, proof });
        }
        plans
    }

    /// The weight of a piece by the heads of the logs that it was recovered from; the newest head that tells of the
    /// piece counts.
    pub(crate) fn earlier_stats(&self, desk: &Desk, table: TableId, piece: &TabletRecord) -> Vec<TabletStat> {
        let told = piece.earlier_positions().map(|earlier| self.stats_in(desk, table, earlier));
        let is_of_it = |s: &TabletStat| s.first <= piece.last && piece.first <= s.last;
        told.into_iter().find(|stats| stats.iter().any(is_of_it)).unwrap_or_default()
    }

    /// The statistics of a table in the head of a dead log.
    fn stats_in(&self, desk: &Desk, table: TableId, position: &EarlierRecord) -> Vec<TabletStat> {
        let id = desk.state.recovery_of(position.server).map(|record| record.id);
        let proof = id.and_then(|id| self.open.get(&id)).and_then(|kept| kept.inquiry.proof.as_ref());
        let streams = proof.into_iter().flat_map(|proof| &proof.streams);
        let own = streams.filter(|s| (s.shard, s.stream) == (position.shard, position.stream));
        own.flat_map(|s| &s.stats).filter(|s| s.table == table).copied().collect()
    }
}

fn report_let_go(desk: &mut Desk) {
    let text = "dead logs are let go for want of room, though devices may not have all that was recovered";
    desk.outbox.report(Level::Warn, text);
    desk.outbox.mark(Mark::KeptLogLetGo);
}

/// Whether a dead log would do by itself. It is proven without loss by what is known just now. Two servers that are
/// up have each segment, if it has replicas on as many. And nobody is replaying it together with another log.
fn is_at_hand_alone(desk: &Desk, crashed: ServerId, recovery: &Recovery) -> bool {
    let Some(proof) = recovery.inquiry.proof.as_ref().filter(|proof| !proof.has_loss()) else {
        return false;
    };
    let Some(server) = desk.state.servers.get(&crashed) else { return false };
    let is_held = |stream: &StreamProof| {
        let own = server.streams.iter().find(|s| (s.shard, s.stream) == (stream.shard, stream.stream));
        let wanted = own.map_or(2, |own| usize::from(own.replicas).min(2));
        let has =
            |s: &SegmentProof| s.sources.iter().filter(|source| desk.state.is_up(source.backup)).count();
        stream.segments.iter().all(|segment| has(segment) >= wanted)
    };
    !recovery.is_running()
        && recovery.inquiry.is_of(desk.state.meta.list_version)
        && proof.streams.iter().all(is_held)
}
