//! Asks the backups what they did for a recovery: for those who watch it (F11), and for nothing else.
//!
//! While recovery masters are at work, every backup is asked now and then. When all is live, backups are asked until
//! none holds a replica of the dead server any more, and at first more often. A recovery is over without that, and
//! nothing waits for it. The answers go into the recovery's record. For their sake the record is stored once, when all
//! replicas are freed.
//!
//! Invariants: backups are asked about a recovery as long as it is open or its replicas are not freed, but not for
//! ever.
//!
//! Protocol: docs/protocols/recovery.md, "To be watched". Catalogue: F11.

use crate::asked::Asked;
use crate::desk::Desk;
use crate::records::{Key, RecoveryRecord};
use crate::recovery::Recovery;
use crate::timeline;
use ramhold_base::{Instant, RecoveryId, ServerId, Status};
use ramhold_wire::decode;
use ramhold_wire::recovery::{RecoveryWork, RecoveryWorked, WorkDone};
use ramhold_wire::status::{BackupReport, WorkReport};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The interval while a recovery is replayed.
const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// The first and the longest interval when a recovery is over. Most replicas are freed within milliseconds after the
/// list has come.
const FREE_INTERVAL: Duration = Duration::from_millis(100);
const FREE_INTERVAL_MAX: Duration = Duration::from_secs(5);
/// After this time, in cluster time, a backup that still holds something is no longer waited for.
const FREE_WAIT_MILLIS: u64 = 10 * 60 * 1000;
/// The most backups that a record tells of.
const BACKUP_COUNT_MAX: usize = 4096;

/// The recoveries that are watched.
#[derive(Debug, Default)]
pub(crate) struct Watches(BTreeMap<RecoveryId, Watch>);

#[derive(Debug)]
struct Watch {
    ask_at: Instant,
    interval: Duration,
    /// Set when all is live: backups that have not told since then that they hold nothing.
    holding: Option<BTreeSet<ServerId>>,
}

impl Watches {
    pub(crate) fn resume(&mut self, now: Instant, desk: &mut Desk) {
        let time = desk.time(now).0;
        let is_recent = |record: &&RecoveryRecord| {
            !record.done || (record.steps.freed.is_none() && time < free_deadline(record))
        };
        for id in desk.state.recoveries.values().filter(is_recent).map(|record| record.id).collect::<Vec<_>>()
        {
            self.watch(now, id);
        }
    }

    pub(crate) fn watch(&mut self, now: Instant, id: RecoveryId) {
        let watch = Watch { ask_at: now + ASK_INTERVAL, interval: FREE_INTERVAL, holding: None };
        self.0.insert(id, watch);
    }

    /// All of it is live; its replicas are being freed.
    pub(crate) fn note_freeing(&mut self, now: Instant, id: RecoveryId) {
        if let Some(watch) = self.0.get_mut(&id) {
            watch.ask_at = now + watch.interval;
        }
    }

    pub(crate) fn wake(&self) -> Instant {
        self.0.values().map(|watch| watch.ask_at).min().unwrap_or(Instant::FAR)
    }

    pub(crate) fn advance(&mut self, now: Instant, desk: &mut Desk, open: &BTreeMap<RecoveryId, Recovery>) {
        let due: Vec<RecoveryId> =
            self.0.iter().filter(|(_, watch)| watch.ask_at <= now).map(|(id, _)| *id).collect();
        for id in due {
            let Some(watch) = self.0.get_mut(&id) else { continue };
            if !advance_watch(now, desk, open, id, watch) {
                self.0.remove(&id);
            }
        }
    }

    pub(crate) fn on_worked(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        id: RecoveryId,
        server: ServerId,
        status: Status,
        body: &[u8],
    ) {
        // A backup of an older version does not know this question.
        let worked = match status {
            Status::Ok => decode::<RecoveryWorked>(body).ok(),
            _ => None,
        };
        let is_mute = status == Status::UnknownOpcode;
        let since = timeline::since_verdict(now, desk, id);
        if let Some(worked) = worked
            && let Some(record) = desk.state.recoveries.get_mut(&id)
        {
            note_worked(record, server, &worked, since);
        }
        let Some(watch) = self.0.get_mut(&id) else { return };
        if let Some(holding) = &mut watch.holding
            && (is_mute || worked.is_some_and(|worked| worked.held == 0))
        {
            holding.remove(&server);
            if holding.is_empty() {
                watch.ask_at = Instant::ZERO;
            }
        }
    }
}

/// `false`: there is nothing more to watch.
fn advance_watch(
    now: Instant,
    desk: &mut Desk,
    open: &BTreeMap<RecoveryId, Recovery>,
    id: RecoveryId,
    watch: &mut Watch,
) -> bool {
    let time = desk.time(now).0;
    let Some(record) = desk.state.recoveries.get(&id) else { return false };
    let crashed = record.crashed;
    let backups = desk.state.all_up().filter(|server| server.entry.backup).map(|server| server.entry.id);
    let backups: BTreeSet<ServerId> = backups.collect();
    let is_kept = desk.state.servers.get(&crashed).is_some_and(|server| server.entry.kept);
    let asked = if is_kept {
        // Nothing is freed before the kept log is let go.
        watch.ask_at = now + ASK_INTERVAL;
        BTreeSet::new()
    } else if record.done {
        if time >= free_deadline(record) {
            return false;
        }
        watch.ask_at = now + watch.interval;
        watch.interval = (watch.interval * 2).min(FREE_INTERVAL_MAX);
        let holding = watch.holding.get_or_insert_with(|| backups.clone());
        // A dead backup frees nothing any more.
        holding.retain(|server| backups.contains(server));
        if holding.is_empty() {
            note_freed(now, desk, id);
            return false;
        }
        holding.clone()
    } else {
        watch.ask_at = now + ASK_INTERVAL;
        let is_replayed = open.get(&id).is_some_and(|recovery| recovery.plan.is_some());
        if is_replayed { backups } else { BTreeSet::new() }
    };
    for server in asked {
        // A message of a few bytes always fits.
        let _ = desk.ask(now, server, Asked::Work { recovery: id, server }, &RecoveryWork { crashed });
    }
    true
}

/// No backup that is up holds anything of the dead server.
fn note_freed(now: Instant, desk: &mut Desk, id: RecoveryId) {
    let since = timeline::since_verdict(now, desk, id);
    let Some(record) = desk.state.recoveries.get_mut(&id) else { return };
    let last = record.backups.iter().filter_map(|backup| backup.free.to).max();
    // If there was no replica, there was nothing to wait for.
    record.steps.freed = Some(last.or(record.done_millis).unwrap_or(since));
    desk.outbox.touch(Key::Recovery(id));
}

/// The cluster time until which it is worth asking.
fn free_deadline(record: &RecoveryRecord) -> u64 {
    let since = record.steps.settled.or(record.done_millis).unwrap_or(0);
    record.detected.0.saturating_add(since).saturating_add(FREE_WAIT_MILLIS)
}

/// `since`: milliseconds from the verdict to now.
fn note_worked(record: &mut RecoveryRecord, server: ServerId, worked: &RecoveryWorked, since: u64) {
    let report = BackupReport {
        server,
        read: work_report(&worked.read, since),
        divide: work_report(&worked.divide, since),
        free: work_report(&worked.free, since),
        held: worked.held,
    };
    match record.backups.binary_search_by_key(&server, |backup| backup.server) {
        Ok(known) => record.backups[known] = report,
        Err(at) if record.backups.len() < BACKUP_COUNT_MAX => record.backups.insert(at, report),
        Err(_) => {}
    }
}

fn work_report(done: &WorkDone, since: u64) -> WorkReport {
    let at = |ago: Option<u64>| ago.map(|micros| since.saturating_sub(micros / 1000));
    WorkReport {
        count: done.count,
        bytes: done.bytes,
        busy: done.busy,
        from: at(done.began),
        to: at(done.ended),
    }
}

/// The sum over all backups.
pub(crate) fn total(backups: &[BackupReport]) -> BackupReport {
    let sum = |kind: fn(&BackupReport) -> WorkReport| WorkReport {
        count: backups.iter().map(|backup| kind(backup).count).sum(),
        bytes: backups.iter().map(|backup| kind(backup).bytes).sum(),
        busy: backups.iter().map(|backup| kind(backup).busy).sum(),
        from: backups.iter().filter_map(|backup| kind(backup).from).min(),
        to: backups.iter().filter_map(|backup| kind(backup).to).max(),
    };
    BackupReport {
        server: ServerId::NONE,
        read: sum(|backup| backup.read),
        divide: sum(|backup| backup.divide),
        free: sum(|backup| backup.free),
        held: backups.iter().map(|backup| backup.held).sum(),
    }
}
