//! The words of a brick to the coordinator, and what it does with the answer.
//!
//! Not here: what is remembered of it (`hello`), what an assignment changes (core/brick). Protocol: docs/protocols/quorum.md,
//! rule 17. Catalogue: I4.

use super::hello::HELLO_INTERVAL;
use crate::BrickNode;
use ramhold_base::{Effects, Instant, Level, Peer, Status};
use ramhold_brick::NotTaken;
use ramhold_wire::bricks::{BRICK_WEIGHT, BrickHello, BrickWelcome};
use ramhold_wire::control::Address;
use ramhold_wire::{Header, decode, request};
use std::time::Duration;

const HELLO_TIMEOUT: Duration = Duration::from_secs(1);
/// How soon a coordinator that does not answer is told of, and how often.
const COMPLAIN_AFTER: Duration = Duration::from_secs(5);
const COMPLAIN_INTERVAL: Duration = Duration::from_secs(60);
/// A coordinator believes a brick that has moved when the process at the address before is not heard any more. One that is
/// heard for so long runs on the original of this directory.
const COPY_AFTER: Duration = Duration::from_secs(5);

impl BrickNode {
    /// Whether there is anything to say to the coordinator.
    fn greets(&self) -> bool {
        let is_known = self.brick.is_unnamed() || self.brick.is_serving();
        is_known && self.backup.identity().is_some() && !self.is_stopping && !self.has_ended
    }

    fn to_tell(&self) -> (u64, u32) {
        (self.brick.taken(), u32::try_from(self.brick.without_vote_count()).unwrap_or(u32::MAX))
    }

    pub(super) fn hello_deadline(&self) -> Option<Instant> {
        self.greets().then(|| self.hello.calls.deadline().unwrap_or(self.hello.next))
    }

    pub(super) fn tick_hello(&mut self, now: Instant) {
        while self.hello.calls.overdue(now).is_some() {
            self.hello.next = now;
        }
    }

    /// Tells the coordinator what it is to know, when it is time.
    pub(super) fn greet(&mut self, now: Instant, effects: &mut Effects) {
        let is_due = self.hello.next <= now || self.to_tell() != self.hello.told;
        if !self.greets() || !self.hello.calls.is_empty() || !is_due {
            return;
        }
        self.complain(now, effects);
        let (taken, without_vote) = self.to_tell();
        self.hello.told = (taken, without_vote);
        self.hello.next = now + HELLO_INTERVAL;
        let loads = self.brick.loads(now);
        let state = self.brick.state();
        let message = BrickHello {
            token: self.hello.token,
            directory: self.backup.identity().expect("looked at before").directory,
            brick: state.map(|state| state.brick),
            life: state.map_or(0, |state| state.life),
            address: self.config.brick.address,
            labels: self.config.labels.clone(),
            log_bytes: self.config.brick.log_bytes,
            taken,
            without_vote,
            weight: (self.config.weight != BRICK_WEIGHT).then_some(self.config.weight),
            used_bytes: self.brick.log().map_or(0, |log| log.usage().log_bytes - log.usage().free_bytes),
            supervisor: self.config.brick.supervisor,
            loads,
            rebuilt: self.brick.rebuilt_permille(),
        };
        let cluster = state.map(|state| state.cluster).unwrap_or_default();
        let to = self.config.coordinator;
        let rpc = self.hello.calls.open(to, now, now + HELLO_TIMEOUT, ());
        let header = Header { cluster, sender: self.view.me, ..Header::default() };
        request(effects, Peer::Addr(to), &header, rpc, &message);
    }

    fn complain(&mut self, now: Instant, effects: &mut Effects) {
        let heard = self.hello.heard.max(self.started);
        let silent = now.since(heard);
        let is_due = self.hello.complained.is_none_or(|at| now.since(at) >= COMPLAIN_INTERVAL);
        if silent < COMPLAIN_AFTER || !is_due {
            return;
        }
        self.hello.complained = Some(now);
        let (to, since) = (self.config.coordinator, silent.as_secs());
        let why = match &self.hello.refusal {
            Some(why) => format!("the coordinator at {to} has refused this brick for {since} s: {why}"),
            None => format!("no answer from the coordinator at {to} for {since} s"),
        };
        let then = if self.brick.is_serving() {
            "this brick serves what it has; no tables are made or changed meanwhile"
        } else {
            "this brick has no id yet, and waits for one"
        };
        effects.report(Level::Warn, format!("{why}; {then}"));
    }

    /// The reason of a refusal, and the way out where there is one.
    fn refusal(&self, status: Status, header: &Header, body: &[u8]) -> String {
        let Some(state) = self.brick.state() else { return status.to_string() };
        match (status, decode::<Address>(body)) {
            (Status::Retry, Ok(Address(other))) => format!(
                "another process of {} runs at {other}; one of the two directories is a copy of the other one: stop one of \
                 the processes",
                state.brick
            ),
            (Status::WrongCluster, _) => format!(
                "it belongs to cluster {}, and this directory to cluster {}; give the --coordinator of that one, or another \
                 --dir",
                header.cluster, state.cluster
            ),
            _ => status.to_string(),
        }
    }

    /// The coordinator may hear another process of this brick. Both run on copies of one directory if it goes on.
    fn note_copy(&mut self, now: Instant, status: Status, body: &[u8]) {
        let (Status::Retry, Ok(Address(other))) = (status, decode::<Address>(body)) else {
            self.hello.copy_since = None;
            return;
        };
        let since = *self.hello.copy_since.get_or_insert(now);
        if since + COPY_AFTER <= now {
            self.foreign = Some(format!(
                "another process of this brick runs at {other}: this directory is a copy of the other one; keep the \
                 original, and start a new brick on an empty directory"
            ));
        }
    }

    pub(super) fn on_welcome(&mut self, now: Instant, header: &Header, body: &[u8], effects: &mut Effects) {
        if self.hello.calls.answered(header.rpc).is_none() {
            return;
        }
        let welcome = match (header.status(), decode::<BrickWelcome>(body)) {
            (Status::Ok, Ok(welcome)) => welcome,
            (status, _) => {
                self.hello.refusal = Some(self.refusal(status, header, body));
                return self.note_copy(now, status, body);
            }
        };
        if self.hello.complained.take().is_some() {
            effects.report(Level::Info, format!("the coordinator at {} answers", self.config.coordinator));
        }
        (self.hello.heard, self.hello.refusal, self.hello.copy_since) = (now, None, None);
        if self.brick.is_unnamed() {
            self.brick.name(welcome.cluster, welcome.brick, welcome.index_secret, effects);
            return;
        }
        self.brick.hear_places(now, &welcome.siblings, &welcome.others, effects);
        let Some(assignment) = welcome.assignment else { return };
        match self.brick.assign(&assignment, effects) {
            Ok(()) => self.hello.untaken = None,
            Err(NotTaken::NotReady) => {}
            Err(why) if self.hello.untaken != Some(assignment.version) => {
                self.hello.untaken = Some(assignment.version);
                let why = match why {
                    NotTaken::Wrong(why) => why,
                    NotTaken::TooMany | NotTaken::NotReady => "they are more than a brick takes",
                };
                effects.report(Level::Error, format!("the coordinator's tablets are not taken: {why}"));
            }
            Err(_) => {}
        }
    }
}
