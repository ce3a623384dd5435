//! The reports for operators: servers, recoveries, losses, and what to worry about.
//!
//! Catalogue: B1, J5 (as far as built).

use crate::accept;
use crate::assignment::tablets_by_brick;
use crate::bricks::Bricks;
use crate::clock::millis;
use crate::copies::Copies;
use crate::desk::Desk;
use crate::full::{FullDisks, FullStore};
use crate::gone;
use crate::links::Links;
use crate::neighbours::Neighbourhoods;
use crate::progress::Progress;
use crate::records::{BrickRecord, RecoveryRecord};
use crate::recoveries::Recoveries;
use crate::recovery::Recovery;
use crate::shortage;
use crate::verify::Verification;
use crate::watching;
use ramhold_base::{ClusterTime, Instant, Peer, ServerId, Status};
use ramhold_wire::Header;
use ramhold_wire::status::{
    BrickReport, ClusterStatus, Pong, ProcessStatus, Recoveries as RecoveryReports, RecoveryPhase,
    RecoveryReport,
};

/// The most missing parts that one report tells.
const MISSING_COUNT_MAX: usize = 16;
/// The most recoveries that are told of.
const RECOVERY_COUNT_MAX: usize = 100;
/// The most turns of partitions that are told of each recovery: all of them together fit a frame.
const PART_COUNT_MAX: usize = 512;
/// The most backups that are told of each recovery.
const BACKUP_COUNT_MAX: usize = 128;

/// The most servers that are away, for each recovery that is told of.
const AWAY_COUNT_MAX: usize = 256;

/// The parts as operators see them.
#[derive(Clone, Copy)]
pub(crate) struct Sight<'a> {
    pub desk: &'a Desk,
    pub links: &'a Links,
    pub copies: &'a Copies,
    pub verification: &'a Verification,
    pub neighbours: &'a Neighbourhoods,
    pub full_disks: &'a FullDisks,
    pub full_store: &'a FullStore,
    pub progress: &'a Progress,
    pub bricks: &'a Bricks,
    pub recoveries: &'a Recoveries,
}

pub(crate) fn answer_ping(now: Instant, desk: &mut Desk, to: Peer, header: &Header) -> Result<(), Status> {
    let micros = desk.time_micros(now);
    let pong = Pong { server: ServerId::NONE, list_version: 0, time_micros: None };
    // The sooner an answer comes, the more it says about the time.
    let is_told = !desk.clock.is_standing(now) && desk.tells_time_at_once(micros);
    desk.outbox.reply_at_once(to, header, &Pong { time_micros: is_told.then_some(micros), ..pong });
    Ok(())
}

pub(crate) fn answer_process_status(
    now: Instant,
    desk: &mut Desk,
    to: Peer,
    header: &Header,
) -> Result<(), Status> {
    let status = ProcessStatus {
        version: env!("CARGO_PKG_VERSION").into(),
        uptime_millis: millis(desk.uptime(now)),
        tablets: desk.state.tablets().count() as u64,
        ..ProcessStatus::default()
    };
    desk.outbox.show(to, header, &status);
    Ok(())
}

impl Sight<'_> {
    /// The status of the cluster; `time` is the cluster time.
    pub fn cluster_status(&self, now: Instant, time: ClusterTime) -> ClusterStatus {
        let live_tablets = || self.desk.state.live_tablets();
        let (tables, tablets) = self.desk.state.live_counts();
        // A kept log is asked for again when an owner of parts of it has died, so its recovery is told of, too.
        let open = self
            .desk
            .state
            .recoveries
            .values()
            .filter(|r| !r.done || self.recoveries.open.contains_key(&r.id));
        ClusterStatus {
            cluster: self.desk.state.meta.cluster,
            term: self.desk.term,
            time,
            servers: self.desk.state.servers.values().map(|s| s.entry.clone()).collect(),
            tables,
            tablets,
            tablets_recovering: live_tablets().filter(|t| t.taken && !self.desk.state.is_up(t.owner)).count()
                as u64,
            recoveries: open.take(RECOVERY_COUNT_MAX).map(|r| self.recovery_report(r)).collect(),
            losses: self.desk.state.losses.values().cloned().collect(),
            warnings: self.warnings(now),
            version: env!("CARGO_PKG_VERSION").into(),
            cleared: self.verification.cleared.values().cloned().collect(),
            copyset_rings: self.desk.config.placement.copyset_rings(),
            placement: self.desk.config.placement.named(),
            topology: self.desk.state.meta.topology.clone(),
            expected: Some(self.desk.state.expected_count()),
            gone: Some(gone::reports(self.desk)),
            outages: self.neighbours.standing(now),
            bricks: self.brick_reports(now),
        }
    }

    fn brick_reports(&self, now: Instant) -> Vec<BrickReport> {
        let tablets = tablets_by_brick(&self.desk.state);
        let report = |record: &BrickRecord| {
            let heard = self.bricks.heard(record.id);
            BrickReport {
                brick: record.id,
                address: record.address,
                labels: record.labels.clone(),
                life: heard.map_or(0, |heard| heard.life),
                heard_millis: heard.map(|heard| heard.silence_millis(now)),
                tablets: tablets.get(&record.id).copied().unwrap_or(0),
                rebuilding: heard.map_or(0, |heard| heard.rebuilding),
                log_bytes: record.log_bytes,
                used_bytes: heard.map_or(0, |heard| heard.used_bytes),
                is_replaced: record.is_replaced,
                assigned: record.assigned,
                taken: heard.map_or(0, |heard| heard.taken),
                supervisor: record.supervisor,
                scaling: record.scaling,
                waits: self.bricks.waits.get(&record.id).copied(),
                is_removed: record.is_removed,
                ended: record.ended,
            }
        };
        self.desk.state.bricks.values().map(report).collect()
    }

    /// All recoveries that are remembered, newest first.
    pub fn all_recoveries(&self) -> RecoveryReports {
        let newest = self.desk.state.recoveries.values().rev().take(RECOVERY_COUNT_MAX);
        RecoveryReports { recoveries: newest.map(|r| self.recovery_report(r)).collect() }
    }

    fn recovery_report(&self, record: &RecoveryRecord) -> RecoveryReport {
        let live = self.recoveries.open.get(&record.id);
        let missing = live.map_or(&[][..], |r| &r.inquiry.missing).iter().map(|m| m.to_string());
        // Older logs, from which parts of this one are recovered, may lack something, too.
        let earlier = live.iter().flat_map(|r| &r.lacking).filter_map(|server| {
            let first = self
                .recoveries
                .open
                .get(&self.desk.state.recovery_of(*server)?.id)?
                .inquiry
                .missing
                .first()?;
            Some(format!("of the log of {server}, which parts of it are in as well: {first}"))
        });
        RecoveryReport {
            recovery: record.id,
            crashed: record.crashed,
            address: record.address,
            detected: record.detected,
            phase: live.map_or(RecoveryPhase::Done, phase),
            complete_millis: record.complete_millis,
            first_live_millis: record.first_live_millis,
            done_millis: record.done_millis,
            partitions: record.partitions,
            partitions_live: record.published.len() as u32,
            segments: record.segments,
            bytes: record.bytes,
            records: record.records,
            missing: missing.chain(earlier).take(MISSING_COUNT_MAX).collect(),
            failed_attempts: record.failed_attempts,
            tablets: record.tablets,
            cause: record.cause.clone(),
            steps: record.steps,
            parts: record.parts.iter().take(PART_COUNT_MAX).copied().collect(),
            away: accept::away(self.desk, self.recoveries, record).into_iter().take(AWAY_COUNT_MAX).collect(),
            given_up: record.given_up.iter().take(AWAY_COUNT_MAX).copied().collect(),
            waits_for: live.and_then(|live| live.admission.waits_for()),
            backups: record.backups.iter().take(BACKUP_COUNT_MAX).copied().collect(),
            backups_total: watching::total(&record.backups),
        }
    }

    /// Warnings. Each says what is wrong and, after the first semicolon, what to do. None repeats what the status tells
    /// in a field of its own.
    pub fn warnings(&self, now: Instant) -> Vec<String> {
        let mut warnings = Vec::new();
        let state = &self.desk.state;
        // A cluster may have quorum tables alone.
        let has_bricks_alone = !state.bricks.is_empty() && state.servers.is_empty() && state.gone.is_empty();
        if !has_bricks_alone && !state.all_up().any(|s| s.entry.master) {
            warnings.push(
                "no server is up that takes tablets; start servers, see 'ramhold server --help'".into(),
            );
        }
        if self.verification.is_starting() {
            warnings.push(
                "the coordinator has just started and looks for the servers it knows; wait a moment".into(),
            );
        }
        if !self.copies.has_copies(self.links) {
            warnings.push(
                "No server holds a copy of the coordinator's state: its directory is the only one. Back it up \
                 ('ramhold coordinator backup')."
                    .into(),
            );
        }
        let unproven: Vec<String> = self
            .verification
            .suspects
            .iter()
            .filter(|(_, s)| s.unproven)
            .map(|(id, _)| id.to_string())
            .collect();
        if !unproven.is_empty() {
            warnings.push(format!(
                "no server answers the coordinator, which may be cut off and gives no verdict on {}; check the network \
                 between the coordinator and the servers",
                unproven.join(", ")
            ));
        }
        shortage::warn(self.desk, &mut warnings);
        self.full_disks.warn(now, self.desk, &mut warnings);
        warnings.extend(self.full_store.trouble(now).map(|trouble| format!("on the coordinator {trouble}")));
        let waiting = self.recoveries.open.values().filter(|r| r.admission.waits_for().is_some()).count();
        if waiting > 0 {
            warnings.push(format!(
                "{waiting} recoveries wait for room, since memory or frames do not suffice for all at once; wait, they \
                 are replayed one after the other, or start more servers"
            ));
        }
        if self.progress.creating_count() > 0 {
            warnings.push(format!(
                "{} tablets wait to be taken by a server; wait a moment",
                self.progress.creating_count()
            ));
        }
        warnings
    }
}

pub(crate) fn phase(recovery: &Recovery) -> RecoveryPhase {
    if recovery.is_held_up() {
        RecoveryPhase::WaitingForRoom
    } else if recovery.plan.is_some() {
        RecoveryPhase::Replaying
    } else if !recovery.inquiry.missing.is_empty() || !recovery.lacking.is_empty() {
        RecoveryPhase::Incomplete
    } else {
        RecoveryPhase::Asking
    }
}
