//! Replica collection: frees the replicas that no master needs any more.
//!
//! - A removed master needs no replica.
//! - A crashed master is being recovered, so its replicas stay.
//! - A master that is up is asked about every replica, again and again. This includes replicas found at start or
//!   replaced, and those opened in this life, because the master may have given up a backup that was silent for too
//!   long. An answer frees a replica of this life only if nothing was appended to it since the question.
//! - A master that was never in the cluster is a sign of a wrong coordinator: none of its replicas is freed.
//!
//! Protocol: docs/protocols/replication.md, "Replica collection". Catalogue: D7.

use crate::device::DeviceStep;
use crate::keys::{ReplicaKey, ReplicaNumber};
use crate::replica::Reason;
use crate::replicas::Replicas;
use crate::work::Works;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Level, LogId, Peer, ServerId, Status};
use ramhold_wire::membership::{ReplicaName, ReplicasNeeded, ReplicasNotNeeded};
use ramhold_wire::{CallRole, Calls, Gone, Header, Standing, View, decode, request};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// The most found replicas, and the most replicas of this life, that one question names. The next question goes on
/// behind them.
const NAME_COUNT_MAX: usize = 1000;

/// A question to a master.
#[derive(Clone, Debug)]
struct Question {
    master: ServerId,
    /// The replicas of this life that were named, with the number of appends to each at that time.
    present: Vec<(ReplicaKey, ReplicaNumber, u64)>,
}

/// The state of the questions to masters.
#[derive(Debug)]
pub(crate) struct Collection {
    calls: Calls<Question>,
    ask_at: Option<Instant>,
    /// The replica behind which the next question to a master begins.
    found_cursors: BTreeMap<ServerId, ReplicaKey>,
    present_cursors: BTreeMap<ServerId, ReplicaKey>,
    /// The server list has changed: replicas of removed masters are to be freed.
    is_due: bool,
    /// Masters of replicas whose ids this cluster's coordinator has never given out.
    never_issued: BTreeSet<ServerId>,
}

impl Collection {
    pub fn new(random: u64) -> Collection {
        Collection {
            calls: Calls::new(CallRole::Backup, random),
            ask_at: None,
            found_cursors: BTreeMap::new(),
            present_cursors: BTreeMap::new(),
            is_due: false,
            never_issued: BTreeSet::new(),
        }
    }

    /// The replicas are to be compared with the server list.
    pub fn want(&mut self) {
        self.is_due = true;
    }

    /// Ends the questions that were not answered in time.
    pub fn drop_overdue(&mut self, now: Instant) {
        while self.calls.overdue(now).is_some() {}
    }

    /// Masters that were asked over a lost connection are asked again in the next round.
    pub fn on_lost(&mut self, gone: Gone<'_>) {
        drop(self.calls.end(gone));
    }

    /// The instant of the next round of questions.
    pub fn ask_deadline(&self) -> Option<Instant> {
        self.ask_at
    }

    pub fn call_deadline(&self) -> Option<Instant> {
        self.calls.deadline()
    }

    /// The answer to a question of this role.
    pub fn on_reply(&mut self, header: &Header, body: &[u8], view: &View, replicas: &mut Replicas) {
        if let Some(call) = self.calls.answered(header.rpc)
            && header.status() == Status::Ok
            && header.cluster == view.cluster
            && header.sender == call.context.master
            && let Ok(answer) = decode::<ReplicasNotNeeded>(body)
        {
            free_unneeded(&call.context, &answer, replicas);
        }
    }

    /// Frees the replicas of removed masters, and asks the others.
    pub fn advance(
        &mut self,
        view: &View,
        replicas: &mut Replicas,
        works: &mut Works,
        step: &mut DeviceStep<'_>,
    ) {
        if std::mem::take(&mut self.is_due) {
            self.free_removed(view, replicas, works, step);
        }
        let (now, interval) = (step.now, step.config.needed_interval);
        if replicas.found().is_empty() && replicas.present().is_empty() {
            self.ask_at = None;
        } else if self.ask_at.is_none() && replicas.found().is_empty() {
            // All replicas were opened in this life: there is no hurry to ask about them.
            self.ask_at = Some(now + interval);
        } else if self.ask_at.is_none_or(|at| at <= now) {
            self.ask_at = Some(now + interval);
            self.ask(view, replicas, step);
        }
    }

    fn free_removed(
        &mut self,
        view: &View,
        replicas: &mut Replicas,
        works: &mut Works,
        step: &mut DeviceStep<'_>,
    ) {
        let named = replicas.present().values().chain(replicas.found().values());
        for number in named.copied().collect::<Vec<ReplicaNumber>>() {
            let replica = &replicas[number];
            let server = replica.key.log.server;
            match view.list.standing(server) {
                Standing::Removed => {
                    works.of(server).free.begin(step.now);
                    replicas.free(number, Reason::MasterRemoved);
                }
                Standing::Crashed if planted(Defect::FreedEarly) => replicas.free(number, Reason::NotNeeded),
                // A replica without a certificate does not exist, and no recovery will ask for it.
                Standing::Crashed
                    if replica.accepted.certificate.is_none() && replica.operations.are_stored() =>
                {
                    replicas.free(number, Reason::NotNeeded);
                }
                Standing::Unknown if self.never_issued.insert(server) => {
                    step.effects.report(
                        Level::Error,
                        format!("replicas of {server} are kept: this coordinator never knew such a server"),
                    );
                }
                Standing::Crashed | Standing::Up | Standing::Unknown => {}
            }
        }
    }

    fn ask(&mut self, view: &View, replicas: &Replicas, step: &mut DeviceStep<'_>) {
        let keys = replicas.found().keys().chain(replicas.present().keys());
        let masters: BTreeSet<ServerId> = keys.map(|key| key.log.server).collect();
        for master in masters {
            let Some(addr) = view.list.address(master) else { continue };
            let found = next_keys(replicas.found(), &mut self.found_cursors, master);
            let present = next_keys(replicas.present(), &mut self.present_cursors, master);
            let name = |(key, number): &(ReplicaKey, ReplicaNumber)| ReplicaName {
                shard: key.log.shard,
                stream: key.stream,
                segment: key.segment,
                epoch: replicas[*number].stored.epoch,
                side: replicas[*number].opened.side,
            };
            let names = found.iter().chain(&present).map(name).collect();
            let counted = |(key, number): &(ReplicaKey, ReplicaNumber)| {
                (*key, *number, replicas[*number].operations.count())
            };
            let question = Question { master, present: present.iter().map(counted).collect() };
            let deadline = step.now + step.config.needed_interval;
            let rpc = self.calls.open(addr, step.now, deadline, question);
            let body = ReplicasNeeded { replicas: names };
            request(step.effects, Peer::Addr(addr), &view.to_server(master), rpc, &body);
        }
    }
}

fn free_unneeded(question: &Question, answer: &ReplicasNotNeeded, replicas: &mut Replicas) {
    for name in &answer.replicas {
        let log = LogId { server: question.master, shard: name.shard };
        let key = ReplicaKey { log, segment: name.segment, stream: name.stream };
        if let Some(number) = replicas.found().get(&key).copied()
            && replicas[number].stored.epoch == name.epoch
        {
            replicas.free(number, Reason::NotNeeded);
        }
        let asked = question.present.iter().find(|(asked, _, _)| *asked == key);
        if let Some((_, number, appends)) = asked
            && replicas.present().get(&key) == Some(number)
            && replicas[*number].operations.count() == *appends
        {
            replicas.free(*number, Reason::NotNeeded);
        }
    }
}

/// The next replicas of a master to ask about. After the last replica the first one follows again.
fn next_keys(
    replicas: &BTreeMap<ReplicaKey, ReplicaNumber>,
    cursors: &mut BTreeMap<ServerId, ReplicaKey>,
    master: ServerId,
) -> Vec<(ReplicaKey, ReplicaNumber)> {
    let keys = ReplicaKey::all_of(master);
    let from = cursors.get(&master).copied().unwrap_or(*keys.start());
    let ahead = replicas.range((Bound::Excluded(from), Bound::Included(*keys.end())));
    let behind = replicas.range(*keys.start()..=from);
    let chosen: Vec<_> =
        ahead.chain(behind).take(NAME_COUNT_MAX).map(|(key, number)| (*key, *number)).collect();
    match chosen.last() {
        Some((next, _)) => cursors.insert(master, *next),
        None => cursors.remove(&master),
    };
    chosen
}
