//! The state of a brick as an operator sees it, and the events that the brick notes for operators.
//!
//! Not here: the status of the whole process (core/node). Catalogue: I6, J5.

use crate::events::{EventKind, counted};
use crate::phase::Phase;
use crate::rebuild::{Rebuilding, STUCK_AFTER};
use crate::state::{BrickState, TabletState};
use crate::store::Store;
use crate::{Brick, ClassStatistics};
use ramhold_base::{Instant, ServerId};
use ramhold_quorum::Class;
use ramhold_wire::brick_status::{
    BrickEventsTold, BrickStatus, QueueStatus, RebuildStatus, SiblingStatus, SweepStatus, TabletStatus,
};
use ramhold_wire::membership::Label;
use ramhold_wire::status::ProcessStatus;

fn millis(now: Instant, since: Instant) -> u64 {
    u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX)
}

impl Brick {
    /// Fills in this role's part.
    pub fn status_into(&self, now: Instant, labels: &[Label], status: &mut ProcessStatus) {
        status.tablets = self.state().map_or(0, |state| state.tablets.len() as u64);
        status.reads = self.counts.of(Class::Get).answered + self.counts.of(Class::Stamp).answered;
        status.writes = self.counts.of(Class::Put).answered;
        if let Some(store) = &self.store {
            let usage = store.shard.log.usage();
            status.log_used_bytes = usage.log_bytes - usage.free_bytes;
            status.log_live_bytes = store.shard.log.stats().map(|stat| stat.bytes).sum();
            status.index_bytes = usage.index_bytes;
            status.objects = store.shard.log.stats().map(|stat| stat.records).sum();
            status.cleaning = Some(store.shard.cleaning_status());
            status.scrub = Some(store.shard.scrub.status());
        }
        status.brick = Some(self.status(now, labels));
    }

    fn status(&self, now: Instant, labels: &[Label]) -> BrickStatus {
        let sweeping = &self.siblings.sweeping;
        BrickStatus {
            life: self.state().map_or(0, |state| state.life),
            address: self.config.address,
            labels: labels.to_vec(),
            is_serving: self.is_serving(),
            without_vote: u32::try_from(self.without_vote_count()).unwrap_or(u32::MAX),
            rebuilding: self.siblings.rebuilding.as_ref().map(|rebuilding| RebuildStatus {
                table: rebuilding.range.table,
                first: rebuilding.range.first,
                last: rebuilding.range.last,
                permille: rebuilding.permille(),
            }),
            siblings: self.sibling_statuses(now),
            gets: self.counts.of(Class::Get),
            puts: self.counts.of(Class::Put),
            stamps: self.counts.of(Class::Stamp),
            repairs: self.counts.repairs,
            sweep: SweepStatus {
                stored: sweeping.stored_count,
                whole: sweeping.whole_count,
                whole_millis: sweeping.whole_at.map(|at| millis(now, at)),
                behind: sweeping.behind.count() as u64,
                behind_millis: sweeping.behind.since().map(|since| millis(now, since)),
                ended: sweeping.ended_count,
            },
            graves: self.store.as_ref().map_or(0, |store| store.graves.count() as u64),
            graves_gone: self.store.as_ref().map_or(0, |store| store.graves.gone_count),
            tablets: self.tablet_statuses(now),
            loaded_permille: self.loaded_permille(),
            queues: self.queue_statuses(),
            flagged: self.flagged(),
            reporting: u32::try_from(self.reporting_count()).unwrap_or(u32::MAX),
            rebuild_read: self.counts.rebuild_read,
            rebuild_stored: self.store.as_ref().map_or(0, |store| store.rebuild_stored),
            full: self.store.as_ref().and_then(Store::full),
            waits_for_room: u32::try_from(self.unopened.count()).unwrap_or(u32::MAX),
            stalled: self.stalled(now),
        }
    }

    fn tablet_statuses(&self, now: Instant) -> Vec<TabletStatus> {
        let Some(state) = self.state() else { return Vec::new() };
        let status = |tablet: &TabletState| {
            let table = state.tables.iter().find(|table| table.table == tablet.table)?;
            let others = tablet.siblings.iter().map(|sibling| sibling.brick);
            let mut bricks: Vec<ServerId> = others.chain([state.brick]).collect();
            bricks.sort_unstable();
            let votes = self.votes_in(tablet);
            let waits_for = if votes { Vec::new() } else { self.waits_for(now, tablet) };
            let giving = tablet.giving.filter(|giving| !votes && giving.new == state.brick);
            Some(TabletStatus {
                table: tablet.table,
                name: table.name.clone(),
                first: tablet.first,
                last: tablet.last,
                epoch: tablet.epoch,
                bricks,
                needed: table.write_quorum.max(table.read_quorum),
                votes,
                waits_for,
                giver: giving.map(|giving| giving.old.brick),
            })
        };
        state.tablets.iter().filter_map(status).collect()
    }

    /// The siblings without which a tablet does not vote. None while it may still be decided by the others.
    fn waits_for(&self, now: Instant, tablet: &TabletState) -> Vec<ServerId> {
        let Some(since) = self.siblings.unvoting_since else { return Vec::new() };
        let is_recent = since.max(self.siblings.decided_at) + STUCK_AFTER > now;
        // Everything is decided, and only the device is awaited, or what has come has no room here.
        let is_closing = self.siblings.rebuilding.as_ref().is_some_and(Rebuilding::is_closing);
        if is_recent || is_closing || self.siblings.stalling.is_own() {
            return Vec::new();
        }
        let awaited = tablet.siblings.iter().filter(|sibling| !sibling.is_missing);
        awaited.map(|sibling| sibling.brick).filter(|brick| !self.answers(now, *brick)).collect()
    }

    /// Whether a sibling answers announcements.
    pub(crate) fn answers(&self, now: Instant, sibling: ServerId) -> bool {
        self.clock.has_told(sibling) && self.siblings.answers(now, sibling)
    }

    fn queue_statuses(&self) -> Vec<QueueStatus> {
        let statistics = self.statistics();
        let of = |class| {
            let ClassStatistics { queue_length, dropped, queue_delay, latency, .. } = *statistics.of(class);
            let (delay_nanos, latency_nanos) = (queue_delay.nanos(), latency.nanos());
            QueueStatus { length: queue_length, dropped, delay_nanos, latency_nanos }
        };
        Class::ALL.into_iter().map(of).collect()
    }

    fn sibling_statuses(&self, now: Instant) -> Vec<SiblingStatus> {
        let Some(state) = self.state().filter(|_| self.phase == Phase::Serving) else { return Vec::new() };
        let mut siblings: Vec<SiblingStatus> = state
            .tablets
            .iter()
            .flat_map(|tablet| &tablet.siblings)
            .map(|sibling| SiblingStatus {
                brick: sibling.brick,
                address: sibling.address,
                life: state.lives.iter().find(|it| it.brick == sibling.brick).map_or(0, |it| it.life),
                heard_millis: self.siblings.heard.get(&sibling.brick).map(|at| millis(now, *at)),
                is_silent: self.siblings.silence.is_silent(sibling.brick),
                is_offline: self.siblings.restarting.is_offline(sibling.brick),
            })
            .collect();
        siblings.sort_unstable_by_key(|sibling| sibling.brick);
        siblings.dedup_by_key(|sibling| sibling.brick);
        siblings
    }

    /// Notes an event about a brick, perhaps this one.
    pub(crate) fn note(
        &mut self,
        now: Instant,
        kind: EventKind,
        about: ServerId,
        (indicator, treatment): (impl Into<String>, impl Into<String>),
    ) {
        self.events.note(self.clock.own_millis(now), kind, about, (indicator, treatment));
    }

    /// Notes, at the start, that so many tablets wait to be rebuilt.
    pub(crate) fn note_lost(&mut self, kind: EventKind, state: &BrickState, indicator: &str, count: usize) {
        let treatment = format!("{} to be rebuilt before it votes", counted(count, "tablet"));
        self.events.note(self.clock.started_millis(), kind, state.brick, (indicator, treatment));
    }

    /// Notes that this life serves.
    pub(crate) fn note_life(&mut self, now: Instant) {
        let Some(state) = self.state() else { return };
        let (me, life, count) = (state.brick, state.life, state.tablets.len());
        let waiting = state.tablets.iter().filter(|tablet| !tablet.votes).count();
        let treatment = match (self.loading_bytes(), waiting) {
            (Some(bytes), _) => {
                format!("serves {}, and loads {bytes} bytes of its log", counted(count, "tablet"))
            }
            (None, 0) => format!("took over its log, serves {}", counted(count, "tablet")),
            (None, _) => {
                format!("took over its log; {waiting} of {} to be rebuilt first", counted(count, "tablet"))
            }
        };
        self.note(now, EventKind::LifeBegun, me, (format!("life {life} began"), treatment));
    }

    /// The events after a number, for an operator.
    pub fn events_after(&self, number: u64) -> BrickEventsTold {
        let state = self.state();
        BrickEventsTold {
            brick: state.map_or(ServerId::NONE, |state| state.brick),
            life: state.map_or(0, |state| state.life),
            events: self.events.after(number),
            newest: self.events.newest,
        }
    }
}
