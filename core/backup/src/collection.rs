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

use crate::Backup;
use crate::keys::{ReplicaKey, ReplicaNumber};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, Level, LogId, Peer, ServerId, Status};
use ramhold_wire::membership::{ReplicaName, ReplicasNeeded, ReplicasNotNeeded};
use ramhold_wire::{Header, Standing, View, decode, request};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Bound;

/// The most found replicas, and the most replicas of this life, that one question names. The next question goes on
/// behind them.
const NAME_COUNT_MAX: usize = 1000;

/// A question to a master.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    master: ServerId,
    /// The replicas of this life that were named, with the number of appends to each at that time.
    present: Vec<(ReplicaKey, ReplicaNumber, u64)>,
}

impl Backup {
    /// The answer to a question of this role.
    pub fn on_reply(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        view: &View,
        effects: &mut Effects,
    ) {
        if let Some(call) = self.calls.answered(header.rpc)
            && header.status() == Status::Ok
            && header.cluster == view.cluster
            && header.sender == call.context.master
            && let Ok(answer) = decode::<ReplicasNotNeeded>(body)
        {
            self.free_unneeded(&call.context, &answer);
        }
        self.advance(now, view, effects);
    }

    /// A connection is gone. Masters that were asked over it are asked again in the next round.
    pub fn on_lost(&mut self, now: Instant, addr: SocketAddr, view: &View, effects: &mut Effects) {
        drop(self.calls.lost(addr));
        self.advance(now, view, effects);
    }

    fn free_unneeded(&mut self, question: &Question, answer: &ReplicasNotNeeded) {
        for name in &answer.replicas {
            let log = LogId { server: question.master, shard: name.shard };
            let key = ReplicaKey { log, segment: name.segment, stream: name.stream };
            if let Some(number) = self.found.get(&key).copied()
                && self.replicas[&number].stored.epoch == name.epoch
            {
                self.free(number);
            }
            let asked = question.present.iter().find(|(asked, _, _)| *asked == key);
            if let Some((_, number, appends)) = asked
                && self.present.get(&key) == Some(number)
                && self.replicas[number].append_count() == *appends
            {
                self.free(*number);
            }
        }
    }

    /// Frees the replicas of removed masters, and asks the others.
    pub(crate) fn collect(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        if std::mem::take(&mut self.is_collection_due) {
            self.free_removed(now, view, effects);
        }
        if self.found.is_empty() && self.present.is_empty() {
            self.ask_at = None;
        } else if self.ask_at.is_none() && self.found.is_empty() {
            // All replicas were opened in this life: there is no hurry to ask about them.
            self.ask_at = Some(now + self.config.needed_interval);
        } else if self.ask_at.is_none_or(|at| at <= now) {
            self.ask_at = Some(now + self.config.needed_interval);
            self.ask(now, view, effects);
        }
    }

    fn free_removed(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        let numbers: Vec<ReplicaNumber> = self.present.values().chain(self.found.values()).copied().collect();
        for number in numbers {
            let replica = &self.replicas[&number];
            let server = replica.key.log.server;
            match view.list.standing(server) {
                Standing::Removed => {
                    self.works.of(server).free.begin(now);
                    self.free(number);
                    self.replicas.get_mut(&number).expect("it goes when it is wiped").master_removed = true;
                }
                Standing::Crashed if planted(Defect::FreedEarly) => self.free(number),
                // A replica without a certificate does not exist, and no recovery will ask for it.
                Standing::Crashed
                    if replica.accepted.certificate.is_none() && replica.operations.is_empty() =>
                {
                    self.free(number);
                }
                Standing::Unknown if self.never_issued.insert(server) => {
                    effects.report(
                        Level::Error,
                        format!("replicas of {server} are kept: this coordinator never knew such a server"),
                    );
                }
                Standing::Crashed | Standing::Up | Standing::Unknown => {}
            }
        }
        self.fenced.retain(|server| view.list.standing(*server) != Standing::Removed);
    }

    fn ask(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        let mut masters: Vec<ServerId> =
            self.found.keys().chain(self.present.keys()).map(|key| key.log.server).collect();
        masters.sort_unstable();
        masters.dedup();
        for master in masters {
            let Some(addr) = view.list.address(master) else { continue };
            let found = next_keys(&self.found, &mut self.ask_from, master);
            let present = next_keys(&self.present, &mut self.ask_from_present, master);
            let name = |(key, number): &(ReplicaKey, ReplicaNumber)| ReplicaName {
                shard: key.log.shard,
                stream: key.stream,
                segment: key.segment,
                epoch: self.replicas[number].stored.epoch,
                side: self.replicas[number].side,
            };
            let replicas = found.iter().chain(&present).map(name).collect();
            let counted = |(key, number): &(ReplicaKey, ReplicaNumber)| {
                (*key, *number, self.replicas[number].append_count())
            };
            let question = Question { master, present: present.iter().map(counted).collect() };
            let rpc = self.calls.open(addr, now, now + self.config.needed_interval, question);
            request(effects, Peer::Addr(addr), &view.to_server(master), rpc, &ReplicasNeeded { replicas });
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
