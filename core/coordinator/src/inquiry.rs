//! The reports of the backups about a dead server's log, and the conclusions from them.
//!
//! Every backup that is Up is asked, and by its answer refuses the dead server. The question is repeated until it is
//! answered. While something of the log is missing, all backups are asked again now and then, because they may have
//! come to hold more. Everything here can be found out again: after a restart the backups are asked again.
//!
//! Not here: what the answers prove (`prove`), when they are looked at (`recovery`).
//! Protocol: docs/protocols/recovery.md, 2. Catalogue: D2, F2.

use crate::asked::Asked;
use crate::config::CoordinatorConfig;
use crate::desk::Desk;
use crate::prove::{HeldReplica, Missing, Proof};
use crate::records::RecoveryRecord;
use crate::retry::Retry;
use crate::state::State;
use crate::timeline;
use ramhold_base::{DirectoryId, Instant, RecoveryId, ServerId};
use ramhold_wire::recovery::{Fence, ReplicaReport};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Answers that come within this time are looked at together.
pub(crate) const PROOF_INTERVAL: Duration = Duration::from_millis(20);
/// How often the backups of an incomplete log are asked again, because they may have come to hold more.
const ASK_AGAIN_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Inquiry {
    asks: BTreeMap<ServerId, Ask>,
    /// The version of the server list that `asks` follow.
    list_version: u64,
    begun: Instant,
    ask_again_at: Instant,
    /// Something was reported since the last look at the log.
    changed: bool,
    look_at: Instant,
    pub proof: Option<Proof>,
    complete_since: Option<Instant>,
    pub missing: Vec<Missing>,
    /// The missing parts that were last reported.
    missing_told: Vec<Missing>,
}

/// The question to one backup, and its answer.
#[derive(Debug)]
struct Ask {
    retry: Retry,
    pending: bool,
    /// The backup has answered once, so it refuses the dead server.
    fenced: bool,
    answer: Option<Vec<ReplicaReport>>,
}

/// Whether the log is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nothing has changed since the last look.
    Unchanged,
    /// More answers may come until then.
    At(Instant),
    Now,
}

impl Inquiry {
    pub fn new(now: Instant) -> Inquiry {
        Inquiry {
            asks: BTreeMap::new(),
            list_version: 0,
            begun: now,
            ask_again_at: now + ASK_AGAIN_INTERVAL,
            changed: true,
            look_at: now,
            proof: None,
            complete_since: None,
            missing: Vec::new(),
            missing_told: Vec::new(),
        }
    }

    /// Whether every backup that is Up refuses the dead server.
    pub fn is_fenced(&self) -> bool {
        self.list_version > 0 && self.asks.values().all(|a| a.fenced)
    }

    /// Whether the log can be replayed, and no backup is waited for that might tell of more.
    pub fn is_proven(&self, now: Instant, config: &CoordinatorConfig) -> bool {
        let patient = self.complete_until(config);
        patient.is_some_and(|until| until <= now || self.all_answered())
    }

    /// Until when a complete log waits for silent backups.
    pub fn complete_until(&self, config: &CoordinatorConfig) -> Option<Instant> {
        self.complete_since.map(|since| since + config.ask_wait)
    }

    /// Until when silent backups are waited for in any case.
    pub fn patient_until(&self, config: &CoordinatorConfig) -> Instant {
        self.begun + config.ask_wait
    }

    /// Whether some part of the log is at no backup that is there.
    pub fn is_lacking(&self) -> bool {
        !self.changed && self.lacks_something()
    }

    /// Whether some part is missing when all backups have answered.
    pub fn lacks_something(&self) -> bool {
        !self.missing.is_empty() && self.all_answered()
    }

    /// Whether the backups in the list of this version are asked.
    pub fn follows(&self, list_version: u64) -> bool {
        self.list_version == list_version
    }

    /// Whether the log is known as every backup in the list of this version has told it.
    pub fn is_of(&self, list_version: u64) -> bool {
        self.follows(list_version) && !self.changed && self.all_answered()
    }

    pub fn all_answered(&self) -> bool {
        self.asks.values().all(|a| a.answer.is_some())
    }

    /// The reports cannot be relied on any more, so all backups are asked anew.
    pub fn ask_anew(&mut self, config: &CoordinatorConfig) {
        for ask in self.asks.values_mut() {
            ask.pending = true;
            ask.answer = None;
            ask.retry = Retry::new(config);
        }
        self.proof = None;
        self.complete_since = None;
        self.changed = true;
    }

    /// The evidence has changed.
    pub fn look_anew(&mut self) {
        self.changed = true;
        self.look_at = Instant::ZERO;
    }

    /// Asks the backups that have not answered. Returns when to ask again.
    pub fn ask_backups(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        id: RecoveryId,
        crashed: ServerId,
    ) -> Instant {
        let mut wake = Instant::FAR;
        if self.list_version != desk.state.meta.list_version {
            self.follow_list(desk);
        }
        if self.ask_again_at <= now {
            self.ask_again_at = now + ASK_AGAIN_INTERVAL;
            if !self.missing.is_empty() {
                for ask in self.asks.values_mut().filter(|a| !a.pending) {
                    ask.pending = true;
                    ask.retry = Retry::new(&desk.config);
                }
            }
        }
        if !self.missing.is_empty() {
            wake = wake.min(self.ask_again_at);
        }
        let mut due = Vec::new();
        for (backup, ask) in self.asks.iter_mut().filter(|(_, a)| a.pending) {
            if ask.retry.take(now, &desk.config) {
                due.push(*backup);
            }
            wake = wake.min(ask.retry.next());
        }
        if !due.is_empty() {
            timeline::note_step(now, desk, id, |steps| &mut steps.asked);
        }
        for server in due {
            // A message of a few bytes always fits.
            let _ = desk.ask(now, server, Asked::Fence { recovery: id, server }, &Fence { crashed });
        }
        wake
    }

    /// The backups that are Up have changed.
    fn follow_list(&mut self, desk: &mut Desk) {
        self.list_version = desk.state.meta.list_version;
        let up: BTreeSet<ServerId> =
            desk.state.all_up().filter(|s| s.entry.backup).map(|s| s.entry.id).collect();
        let before = self.asks.len();
        self.asks.retain(|backup, _| up.contains(backup));
        self.changed |= self.asks.len() != before;
        for backup in up {
            self.asks.entry(backup).or_insert_with(|| {
                self.changed = true;
                Ask { retry: Retry::new(&desk.config), pending: true, fenced: false, answer: None }
            });
        }
        if self.is_fenced() {
            desk.look_at_tablets();
        }
    }

    /// A backup has answered. `false`: it was not asked.
    pub fn on_answer(&mut self, server: ServerId, replicas: Vec<ReplicaReport>) -> bool {
        let Some(ask) = self.asks.get_mut(&server) else { return false };
        self.changed |= ask.answer.as_ref() != Some(&replicas);
        ask.pending = false;
        ask.fenced = true;
        ask.answer = Some(replicas);
        true
    }

    /// Whether to look at the log now. If so, the next look comes after `PROOF_INTERVAL`.
    pub fn begin_look(&mut self, now: Instant) -> Look {
        if !self.changed {
            return Look::Unchanged;
        }
        if !self.all_answered() && self.look_at > now {
            return Look::At(self.look_at);
        }
        self.changed = false;
        self.look_at = now + PROOF_INTERVAL;
        Look::Now
    }

    /// All replicas that were told.
    pub fn held(&self) -> Vec<HeldReplica<'_>> {
        self.asks
            .iter()
            .flat_map(|(backup, ask)| ask.answer.iter().flatten().map(|report| (*backup, report)))
            .map(|(backup, report)| HeldReplica { backup, report })
            .collect()
    }

    /// The log is complete.
    pub fn note_proof(&mut self, now: Instant, proof: Proof) {
        self.complete_since.get_or_insert(now);
        self.missing.clear();
        self.proof = Some(proof);
    }

    /// The log lacks something. Returns whether that has to be reported.
    pub fn note_missing(&mut self, now: Instant, missing: Vec<Missing>) -> bool {
        self.proof = None;
        self.complete_since = None;
        let is_news = self.all_answered() && self.missing_told != missing;
        if is_news {
            self.missing_told.clone_from(&missing);
        }
        self.missing = missing;
        self.ask_again_at = self.ask_again_at.max(now + PROOF_INTERVAL);
        is_news
    }

    pub fn ask_again_at(&self) -> Instant {
        self.ask_again_at
    }

    /// Directories that may hold a replica, have not answered in their present life, and were not given up.
    pub fn silent_directories(&self, state: &State, record: &RecoveryRecord) -> BTreeSet<DirectoryId> {
        let answered = |id: &ServerId| self.asks.get(id).is_some_and(|a| a.answer.is_some());
        let present = state.all_up().filter(|s| answered(&s.entry.id)).map(|s| s.entry.directory);
        let given_up = record.given_up.iter().map(|away| away.directory);
        let settled: BTreeSet<DirectoryId> = present.chain(given_up).collect();
        record.directories.iter().copied().filter(|d| !settled.contains(d)).collect()
    }
}
