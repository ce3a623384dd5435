//! The results of recovery masters: a partition goes live when its new owner is stored.
//!
//! A recovered range becomes a tablet of its own. All ranges of a partition change owner in one commit. The answer to
//! the master waits for that commit, and the master serves only after the answer. A repeated result is answered like
//! the first time, as long as one of its ranges is still the sender's.
//!
//! Protocol: docs/protocols/recovery.md, 7. Catalogue: F5, F6, B3.

use crate::desk::Desk;
use crate::pieces::part_ways;
use crate::plan::Replay;
use crate::records::{EarlierRecord, Key, PublishedRecord, TableRecord, TabletRecord};
use crate::recoveries::Recoveries;
use crate::recovery::Recovery;
use crate::streams::sender_of;
use crate::timeline;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, KeyHash, Level, Mark, Peer, RecoveryId, ServerId, Status, Version};
use ramhold_wire::Header;
use ramhold_wire::control::Empty;
use ramhold_wire::recovery::{Assignment, PartitionRange, Recovered, RecoveryOutcome};

impl Recoveries {
    pub(crate) fn on_recovered(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        to: Peer,
        header: &Header,
        message: Recovered,
    ) -> Result<(), Status> {
        let server = sender_of(header)?;
        let Recovered { recovery: plan, partition, attempt, outcome } = message;
        let published = PublishedRecord { plan, partition, attempt, server };
        if desk.state.recoveries.values().any(|r| r.published.contains(&published)) {
            if !owns_any(desk, server, &outcome) {
                return Err(Status::NotAllowed);
            }
            desk.outbox.reply_with(to, header, &Empty {});
            return Ok(());
        }
        let of_plan = |r: &Recovery| r.plan.as_ref().is_some_and(|p| p.id == plan);
        let id = self.open.iter().find(|(_, r)| of_plan(r)).map(|(id, _)| *id);
        let id = id.ok_or(Status::NotAllowed)?;
        if self.running(id, plan, partition, attempt, server).is_none() {
            return Err(Status::NotAllowed);
        }
        if let RecoveryOutcome::Done { bytes, records, times, .. } = &outcome {
            timeline::note_part(now, desk, id, (plan, partition), |part, since| {
                part.reported.get_or_insert(since);
                (part.bytes, part.records, part.times) = (*bytes, *records, *times);
            });
        }
        match outcome {
            RecoveryOutcome::Failed { reason, no_room } => {
                let why: String = reason.chars().take(200).collect();
                self.fail_partition(
                    now,
                    desk,
                    id,
                    partition,
                    &format!("{server} failed: {}", why.escape_debug()),
                );
                if no_room {
                    self.on_no_room(now, desk, id, partition, server);
                }
                self.ask_anew(desk, id);
            }
            RecoveryOutcome::Done { .. } if !self.may_publish(now, id) => {
                let message = Recovered { recovery: plan, partition, attempt, outcome };
                self.keep_early(id, (to, *header, message));
                return Ok(());
            }
            RecoveryOutcome::Done { assignments, bytes, records, own_bytes, .. } => {
                self.publish(now, desk, id, published, &assignments, own_bytes)?;
                self.note_published(now, desk, id, published, bytes, records);
            }
        }
        self.wake_all();
        desk.outbox.reply_with(to, header, &Empty {});
        Ok(())
    }

    fn may_publish(&self, now: Instant, id: RecoveryId) -> bool {
        self.open.get(&id).is_none_or(|recovery| recovery.is_lease_over(now))
    }

    /// The dead server may still answer reads, so the result waits until it cannot. A repetition takes the place of the
    /// result that it repeats.
    fn keep_early(&mut self, id: RecoveryId, early: (Peer, Header, Recovered)) {
        let Some(recovery) = self.open.get_mut(&id) else { return };
        let number = early.2.partition;
        recovery.early.retain(|(_, _, message)| message.partition != number);
        recovery.early.push(early);
        let until = recovery.lease_until;
        self.wake_one(id, until);
    }

    /// Takes up results that came before the dead server's lease was over.
    pub(crate) fn publish_early(&mut self, now: Instant, desk: &mut Desk, id: RecoveryId) {
        let recovery = self.open.get_mut(&id).filter(|recovery| recovery.is_lease_over(now));
        let early = recovery.map(|recovery| std::mem::take(&mut recovery.early)).unwrap_or_default();
        for (to, header, message) in early {
            if let Err(status) = self.on_recovered(now, desk, to, &header, message) {
                desk.outbox.reply(to, &header, status);
            }
        }
    }

    /// Makes every range of the partition a tablet of its recovery master, or none of them.
    fn publish(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        id: RecoveryId,
        published: PublishedRecord,
        assignments: &[Assignment],
        own_bytes: Option<u64>,
    ) -> Result<(), Status> {
        let PublishedRecord { partition, server, .. } = published;
        let crashed = desk.state.recoveries.get(&id).map(|r| r.crashed).ok_or(Status::NotAllowed)?;
        let plan = self.open.get(&id).and_then(|r| r.plan.as_ref()).ok_or(Status::NotAllowed)?;
        let ranges: Vec<PartitionRange> = plan.ranges_of(partition).copied().collect();
        let origin = match own_bytes {
            _ if !plan.is_early(partition) => Origin::Settled,
            Some(0) => Origin::OlderLogs,
            _ => Origin::Logs { has_loss: plan.proof().has_loss() },
        };
        let floor = plan.loss_floor(&desk.state, crashed);
        let floor = match origin {
            // The next recovery will know nothing of this log, and the new owner may die before its head tells the
            // versions in it.
            Origin::OlderLogs => floor.max(plan.safe_version()),
            Origin::Logs { .. } | Origin::Settled => floor,
        };
        if ranges.len() != assignments.len() {
            self.fail_partition(
                now,
                desk,
                id,
                partition,
                &format!("{server} told other ranges than it was given"),
            );
            return Err(Status::BadRequest);
        }
        let owner = desk.state.up(server).ok_or(Status::Fenced)?;
        // Nothing is acknowledged in a stream before it is registered, so a partition that is live early needs the dead
        // log alone.
        let known = |(r, a): (&PartitionRange, &Assignment)| {
            origin != Origin::Settled || owner.has_stream(a.shard, a.stream, r.durability)
        };
        if !ranges.iter().zip(assignments).all(known) {
            self.fail_partition(
                now,
                desk,
                id,
                partition,
                &format!("{server} put it into a stream that is not registered"),
            );
            return Err(Status::NotAllowed);
        }
        let owned = |r: &PartitionRange| {
            let table = desk.state.tables.get(&r.table).filter(|t| !t.dropping);
            table.is_some_and(|t| t.covering(crashed, r.first, r.last).is_some())
        };
        if !ranges.iter().all(owned) {
            if let Some(recovery) = self.open.get_mut(&id) {
                recovery.plan_anew();
            }
            self.wake_all();
            return Err(Status::NotAllowed);
        }
        for (range, assignment) in ranges.iter().zip(assignments) {
            let Some(table) = desk.state.tables.get_mut(&range.table) else { continue };
            if table.tablets.iter().any(|t| t.joined && t.owner == crashed) {
                desk.outbox.mark(Mark::RecoveredFromPieces);
            }
            table.adopt(crashed, range, server, *assignment, (floor, origin));
            desk.outbox.touch(Key::Table(range.table));
        }
        Ok(())
    }

    fn note_published(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        id: RecoveryId,
        published: PublishedRecord,
        bytes: u64,
        records: u64,
    ) {
        let time = desk.time(now);
        let number = published.partition;
        let mut ranges = String::new();
        if let Some(recovery) = self.open.get_mut(&id) {
            recovery.found_room();
        }
        if let Some(plan) = self.open.get_mut(&id).and_then(|r| r.plan.as_mut()) {
            if let Some(partition) = plan.partitions.get_mut(number as usize) {
                partition.state = Replay::Live;
            }
            let first = plan.ranges_of(number).next();
            ranges = first.map(|r| format!("{} {}", r.table, hashes(r.first, r.last))).unwrap_or_default();
        }
        timeline::note_part(now, desk, id, (published.plan, number), |part, since| part.live = Some(since));
        let Some(record) = desk.state.recoveries.get_mut(&id) else { return };
        let since = time.0.saturating_sub(record.detected.0);
        record.first_live_millis.get_or_insert(since);
        record.steps.last_live = Some(since);
        record.bytes = record.bytes.saturating_add(bytes);
        record.records = record.records.saturating_add(records);
        record.published.push(published);
        let text = format!(
            "{id}: partition {number} is live at {} ({records} records, from {ranges}), {since} ms after the verdict",
            published.server
        );
        desk.outbox.report(Level::Info, text);
        desk.outbox.touch(Key::Recovery(id));
    }
}

/// Whether any range of a published result is still this server's. An Up server loses a range only when its table
/// is dropped. `TabletDrop` tells the server of the ranges of a dropped table. While other ranges of the partition
/// are left, the server must not give up all of them.
fn owns_any(desk: &Desk, server: ServerId, outcome: &RecoveryOutcome) -> bool {
    let RecoveryOutcome::Done { assignments, .. } = outcome else { return false };
    let live = desk.state.tables.values().filter(|t| !t.dropping);
    let mut places = live
        .flat_map(|t| &t.tablets)
        .filter(|t| t.owner == server && t.taken)
        .map(|t| Assignment { shard: t.shard, stream: t.stream, first_segment: t.first_segment });
    places.any(|place| assignments.contains(&place))
}

/// The hashes of a range, for reports.
fn hashes(first: KeyHash, last: KeyHash) -> String {
    format!("{first:?}-{last:?}")
}

/// Where the data of a published partition is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// In the memory of its new owner, and in the dead logs that it was recovered from. `has_loss`: the log of its dead
    /// owner is recovered with a loss.
    Logs { has_loss: bool },
    /// Like `Logs`, but the log of its dead owner had nothing of the partition.
    OlderLogs,
    /// On the devices of R backups.
    Settled,
}

/// The position of a range in the log that it was recovered from. `whole`: that log alone has all of the range.
fn position_in(dead: ServerId, range: &PartitionRange, whole: bool) -> EarlierRecord {
    let PartitionRange { shard, stream, first_segment, .. } = *range;
    EarlierRecord { server: dead, shard, stream, first_segment, replicated: false, whole }
}

impl TableRecord {
    /// Takes the range out of its dead owner's tablet (or piece of one), and makes it a tablet of its own. The rest
    /// stays as it was. The range keeps its version floor, or rises to `floor`: keys that nobody writes before the next
    /// crash need it then. Unless it is settled, the range notes where it came from.
    pub(crate) fn adopt(
        &mut self,
        dead: ServerId,
        range: &PartitionRange,
        owner: ServerId,
        assignment: Assignment,
        (floor, origin): (Version, Origin),
    ) {
        let at = self.covering(dead, range.first, range.last).expect("the caller has looked");
        let old = self.tablets[at].clone();
        let was_whole = old.earlier.is_none_or(|earlier| earlier.replicated);
        let own = match origin {
            // If something of the dead owner's log was lost, older logs may have it.
            Origin::Logs { has_loss } => Some(position_in(dead, range, was_whole && !has_loss)),
            Origin::OlderLogs | Origin::Settled => None,
        };
        let before = old.earlier_positions().copied().collect::<Vec<_>>().into_iter();
        let before = before.map(|position| EarlierRecord { replicated: false, ..position });
        let before = before.filter(|_| own.is_none() || !planted(Defect::OlderLogsForgotten));
        let mut positions = own.into_iter().chain(before);
        let keeps = origin != Origin::Settled && !planted(Defect::LogNotKept);
        let (earlier, older) =
            if keeps { (positions.next(), positions.collect::<Vec<_>>()) } else { (None, Vec::new()) };
        let new = TabletRecord {
            first: range.first,
            last: range.last,
            owner,
            taken: true,
            shard: assignment.shard,
            stream: assignment.stream,
            first_segment: assignment.first_segment,
            version_floor: old.version_floor.max(floor),
            joined: false,
            earlier,
            older,
        };
        let mut parts = Vec::with_capacity(3);
        if old.first < range.first {
            parts.push(TabletRecord { last: KeyHash(range.first.0 - 1), ..old.clone() });
        }
        parts.push(new);
        if range.last < old.last {
            parts.push(TabletRecord { first: KeyHash(range.last.0 + 1), ..old });
        }
        self.tablets.splice(at..=at, parts);
        part_ways(&mut self.tablets);
    }
}
