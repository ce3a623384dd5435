//! Which servers are dead: pings in turn, suspicion by anybody, proof by the coordinator's own pings.
//!
//! A suspect is pinged until it answers under its own id, its address refuses connections twice, another life answers
//! there, or nothing comes for `verify_timeout`. Silence convicts only while another server answers. If no server does,
//! it is the coordinator that is cut off, and to declare everybody dead would help nobody. When a server answers again,
//! silence counts from then on.
//!
//! Two neighbours that have lost every path to a suspect shorten this: then silence of `ACCUSED_TIMEOUT` convicts. An
//! answer ends all accusations.
//!
//! At a start all servers of the old list are suspects at once. If none of them answers, it is a cold start.
//!
//! Invariants: one observer's word never kills; time during which this process itself stood still convicts nobody.
//!
//! Protocol: docs/protocols/membership.md. Catalogue: F1, F7.

use crate::asked::Asked;
use crate::death::{self, Affected};
use crate::desk::Desk;
use crate::links::Links;
use crate::records::Key;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Level, Lost, Peer, RecoveryId, ServerId, Status};
use ramhold_wire::control::Empty;
use ramhold_wire::membership::SuspectServer;
use ramhold_wire::status::{ClearedReport, Pong};
use ramhold_wire::{Header, decode};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// The fewest neighbours whose word convicts a server.
const ACCUSERS_MIN: usize = 2;
/// How long a server that they accuse may leave the coordinator's ping unanswered.
const ACCUSED_TIMEOUT: Duration = Duration::from_millis(100);
/// A step that is late by this much may come before an answer that is there already.
pub(crate) const LATE_MAX: Duration = Duration::from_millis(50);

/// Which servers are pinged, suspected, and were suspected wrongly.
#[derive(Debug)]
pub(crate) struct Verification {
    ping_at: Instant,
    ping_last: ServerId,
    /// When any server last answered a ping under its own id.
    heard: Instant,
    pub suspects: BTreeMap<ServerId, Suspect>,
    /// Wrong suspicions against servers that are up.
    pub cleared: BTreeMap<ServerId, ClearedReport>,
    start_check: Option<StartCheck>,
}

#[derive(Debug)]
pub(crate) struct Suspect {
    cause: String,
    /// The time of the first suspicion.
    pub since: Instant,
    begun: Instant,
    next_ping: Instant,
    /// Since when a ping under way is not answered.
    asked: Instant,
    /// Neighbours that have lost every path to it since it last answered.
    accusers: BTreeSet<ServerId>,
    /// When the suspect's address first refused a connection.
    refused: Option<Instant>,
    /// A connection to it broke since the suspicion.
    broken: bool,
    /// The suspect was silent long enough, but no other server answers either.
    pub unproven: bool,
}

impl Suspect {
    /// When the word of its neighbours convicts it; none: they are too few, or nobody has answered a ping since it was
    /// asked. `heard`: when any server last did.
    fn accused_at(&self, heard: Instant) -> Option<Instant> {
        let least = if planted(Defect::OneAccuserConvicts) { 1 } else { ACCUSERS_MIN };
        let is_accused = self.accusers.len() >= least && heard > self.asked;
        is_accused.then_some(self.asked + ACCUSED_TIMEOUT)
    }

    /// When there is something to do about it.
    fn due(&self, verify_timeout: Duration, heard: Instant) -> Instant {
        let due = self.next_ping.min(self.begun + verify_timeout);
        self.accused_at(heard).map_or(due, |at| at.min(due))
    }
}

/// The first look at the servers of the old list.
#[derive(Debug, Default)]
struct StartCheck {
    /// Servers without a verdict yet.
    waiting: BTreeSet<ServerId>,
    /// Servers that are proven dead, and why. They are declared dead when it is known whether all are.
    dead: Vec<(ServerId, String)>,
    /// Recoveries of servers whose directories came back during the check.
    replaced: Vec<RecoveryId>,
}

/// An answer to a ping, read for the server that was meant.
enum Answer {
    Alive,
    AnotherLife(String),
}

impl Default for Verification {
    fn default() -> Verification {
        Verification {
            ping_at: Instant::FAR,
            ping_last: ServerId::NONE,
            heard: Instant::ZERO,
            suspects: BTreeMap::new(),
            cleared: BTreeMap::new(),
            start_check: None,
        }
    }
}

impl Verification {
    /// A coordinator has started; these servers were up.
    pub(crate) fn resume(&mut self, now: Instant, desk: &Desk, up: &[ServerId]) {
        self.ping_at = now;
        if up.is_empty() {
            return;
        }
        self.start_check =
            Some(StartCheck { waiting: up.iter().copied().collect(), ..StartCheck::default() });
        for id in up {
            self.suspect(now, desk, *id, "the coordinator has started".into());
        }
    }

    /// Whether the servers of the old list are still being looked at.
    pub fn is_starting(&self) -> bool {
        self.start_check.is_some()
    }

    /// Begins to look whether a server lives, unless that is being done.
    pub(crate) fn suspect(&mut self, now: Instant, desk: &Desk, id: ServerId, cause: String) {
        if !desk.state.is_up(id) || self.suspects.contains_key(&id) {
            return;
        }
        if self.start_check.as_ref().is_some_and(|c| c.dead.iter().any(|(dead, _)| *dead == id)) {
            return;
        }
        let suspect = Suspect {
            cause,
            since: now,
            begun: now,
            next_ping: now,
            asked: now,
            accusers: BTreeSet::new(),
            refused: None,
            broken: false,
            unproven: false,
        };
        self.suspects.insert(id, suspect);
    }

    pub(crate) fn on_suspect_server(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        to: Peer,
        header: &Header,
        message: &SuspectServer,
    ) -> Result<(), Status> {
        let by = if header.sender.is_none() { "a client".into() } else { header.sender.to_string() };
        self.suspect(now, desk, message.server, format!("reported by {by}"));
        desk.outbox.reply_with(to, header, &Empty {});
        Ok(())
    }

    /// This process was a little late, so answers may wait to be read. The short time in which silence convicts begins anew.
    pub(crate) fn on_late(&mut self, now: Instant) {
        for suspect in self.suspects.values_mut().filter(|suspect| !suspect.accusers.is_empty()) {
            suspect.asked = now;
            suspect.next_ping = now;
        }
    }

    /// This process stood still (stopped, starved, suspended), so silence in that time proves nothing.
    pub(crate) fn on_stall(&mut self, now: Instant) {
        for suspect in self.suspects.values_mut() {
            suspect.begun = now;
            suspect.next_ping = now;
            suspect.asked = now;
            suspect.refused = None;
        }
    }

    /// A neighbour has not heard a server for a while.
    pub(crate) fn on_first_word(&mut self, now: Instant, desk: &Desk, server: ServerId, by: ServerId) {
        self.suspect(now, desk, server, format!("not heard by {by}, its neighbour"));
    }

    /// A neighbour has lost every path to a server. If the server answers, that is no accusation any more.
    pub(crate) fn on_accused(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        links: &Links,
        server: ServerId,
        by: ServerId,
    ) {
        self.on_first_word(now, desk, server, by);
        if let Some(suspect) = self.suspects.get_mut(&server) {
            suspect.accusers.insert(by);
            // The accuser's answer will show that pings of this coordinator are answered at all.
            self.ping_other(now, desk, links, by);
        }
    }

    /// A neighbour does not accuse a server any more.
    pub(crate) fn withdraw(&mut self, server: ServerId, by: ServerId) {
        if let Some(suspect) = self.suspects.get_mut(&server) {
            suspect.accusers.remove(&by);
        }
    }

    /// Suspects that have not answered for so long that accusations count.
    pub(crate) fn unanswered(&self, now: Instant) -> impl Iterator<Item = ServerId> {
        let is_late = move |s: &Suspect| !s.unproven && s.asked + ACCUSED_TIMEOUT <= now;
        let late = self.suspects.iter().filter(move |(_, s)| self.start_check.is_none() && is_late(s));
        late.map(|(id, _)| *id)
    }

    pub(crate) fn advance(&mut self, now: Instant, desk: &mut Desk, affected: &mut Affected<'_>) {
        self.ping_next(now, desk, affected.links);
        let due: Vec<ServerId> = self
            .suspects
            .iter()
            .filter(|(_, s)| s.due(desk.config.verify_timeout, self.heard) <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            self.advance_suspect(now, desk, affected, id);
        }
        self.end_start_check(now, desk, affected);
    }

    fn advance_suspect(&mut self, now: Instant, desk: &mut Desk, affected: &mut Affected<'_>, id: ServerId) {
        let timeout = desk.config.verify_timeout;
        let Some(address) = desk.state.up(id).map(|s| s.entry.address.0) else { return };
        let Some(suspect) = self.suspects.get_mut(&id) else { return };
        if suspect.accused_at(self.heard).is_some_and(|at| at <= now) {
            let names: Vec<String> = suspect.accusers.iter().map(ToString::to_string).collect();
            let why = format!(
                "its neighbours {} have lost every path to it, and no ping is answered within {} ms",
                names.join(", "),
                ACCUSED_TIMEOUT.as_millis()
            );
            return self.convict(now, desk, affected, id, &why);
        }
        if suspect.begun + timeout <= now {
            let proven = self.start_check.is_some() || self.heard > suspect.begun;
            if proven {
                let why = format!("no answer to any ping within {} ms", timeout.as_millis());
                return self.convict(now, desk, affected, id, &why);
            }
            suspect.begun = now;
            if !suspect.unproven {
                suspect.unproven = true;
                let text = format!("{id} does not answer, but neither does anybody else: no verdict");
                desk.outbox.report(Level::Warn, text);
            }
        }
        let Some(suspect) = self.suspects.get_mut(&id) else { return };
        if suspect.next_ping <= now {
            suspect.next_ping = now + desk.config.ping_timeout;
            desk.ping(
                now,
                address,
                timeout,
                Asked::Verify { server: id, named: is_named(desk, affected.links, id) },
            );
        }
    }

    /// Pings the next server in turn.
    fn ping_next(&mut self, now: Instant, desk: &mut Desk, links: &Links) {
        if self.ping_at > now {
            return;
        }
        self.ping_at = now + desk.config.ping_interval;
        let Some(id) = links.after(self.ping_last) else { return };
        self.ping_last = id;
        self.ping_other(now, desk, links, id);
    }

    /// Pings a server that need not be a suspect.
    fn ping_other(&self, now: Instant, desk: &mut Desk, links: &Links, id: ServerId) {
        if let Some(address) = desk.state.up(id).map(|s| s.entry.address.0) {
            desk.ping(
                now,
                address,
                desk.config.ping_timeout,
                Asked::Ping { server: id, named: is_named(desk, links, id) },
            );
        }
    }

    pub(crate) fn wake(&self, desk: &Desk, links: &Links) -> Instant {
        let verdict = |s: &Suspect| s.due(desk.config.verify_timeout, self.heard);
        let ping_at = if links.is_empty() { Instant::FAR } else { self.ping_at };
        self.suspects.values().map(verdict).min().unwrap_or(Instant::FAR).min(ping_at)
    }

    // Answers.

    pub(crate) fn on_ping_overdue(&mut self, now: Instant, desk: &Desk, id: ServerId) {
        self.suspect(now, desk, id, "the coordinator's ping was not answered".into());
    }

    pub(crate) fn on_pong(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        affected: &mut Affected<'_>,
        asked: (ServerId, bool),
        status: Status,
        body: &[u8],
    ) {
        let id = asked.0;
        match read_pong(desk, affected.links, asked, status, body) {
            Some(Answer::Alive) => self.on_alive(now, desk, affected, id),
            Some(Answer::AnotherLife(what)) => self.suspect(now, desk, id, what),
            None => {}
        }
    }

    pub(crate) fn on_verified(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        affected: &mut Affected<'_>,
        asked: (ServerId, bool),
        status: Status,
        body: &[u8],
    ) {
        let id = asked.0;
        if !self.suspects.contains_key(&id) {
            return;
        }
        match read_pong(desk, affected.links, asked, status, body) {
            Some(Answer::Alive) => self.on_alive(now, desk, affected, id),
            Some(Answer::AnotherLife(what)) => self.convict(now, desk, affected, id, &what),
            None => {}
        }
    }

    fn on_alive(&mut self, now: Instant, desk: &mut Desk, affected: &mut Affected<'_>, id: ServerId) {
        if now.since(self.heard) >= desk.config.verify_timeout {
            // No server was heard for so long that this side was cut off. Connections come back one after the other, so
            // the other suspects have their whole time from now on. At its end this answer speaks against them.
            for suspect in self.suspects.values_mut() {
                suspect.begun = Instant(now.0 - 1);
                suspect.next_ping = now;
                suspect.asked = now;
            }
        }
        self.heard = now;
        if let Some(suspect) = self.suspects.remove(&id) {
            if self.start_check.is_none() {
                desk.outbox.report(Level::Debug, format!("{id} is alive ({})", suspect.cause));
            }
            let before = self.cleared.get(&id).map_or(0, |report| report.count);
            let report = ClearedReport { server: id, count: before + 1, cause: suspect.cause };
            self.cleared.insert(id, report);
        }
        let in_check = self.start_check.as_ref().is_some_and(|check| check.waiting.contains(&id));
        if in_check && let Some(check) = self.start_check.take() {
            // A server of the old list lives, so the dead ones are ordinary dead servers.
            desk.look_at_recoveries();
            for (dead, cause) in check.dead {
                self.declare_crashed(now, desk, affected, dead, &cause);
            }
        }
    }

    /// An attempt to ping a suspect failed with its connection.
    pub(crate) fn on_verify_lost(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        affected: &mut Affected<'_>,
        id: ServerId,
        how: Lost,
    ) {
        let interval = desk.config.verify_refused_interval;
        let Some(suspect) = self.suspects.get_mut(&id) else { return };
        let first = match how {
            // A broken connection proves nothing; the next ping tells. The first connection to break is mostly the one
            // from before the suspicion. A new one shows at once whether anybody is there.
            Lost::Broken => {
                let pause = if suspect.broken { interval } else { Duration::ZERO };
                suspect.broken = true;
                suspect.next_ping = suspect.next_ping.min(now + pause);
                suspect.asked = suspect.asked.max(suspect.next_ping);
                return;
            }
            Lost::Refused => *suspect.refused.get_or_insert(now),
        };
        if now.since(first) >= interval {
            return self.convict(now, desk, affected, id, "its address refuses connections");
        }
        suspect.next_ping = first + interval;
    }

    pub(crate) fn on_connection_lost(&mut self, now: Instant, desk: &Desk, addr: SocketAddr, how: Lost) {
        let there: Vec<ServerId> =
            desk.state.all_up().filter(|s| s.entry.address.0 == addr).map(|s| s.entry.id).collect();
        let how = match how {
            Lost::Refused => "was refused",
            Lost::Broken => "broke",
        };
        for id in there {
            self.suspect(now, desk, id, format!("the coordinator's connection {how}"));
        }
    }

    // Verdicts.

    fn convict(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        affected: &mut Affected<'_>,
        id: ServerId,
        why: &str,
    ) {
        let Some(suspect) = self.suspects.get(&id) else { return };
        let cause = format!("{}; {why}", suspect.cause);
        if let Some(check) = &mut self.start_check
            && check.waiting.remove(&id)
        {
            self.suspects.remove(&id);
            check.dead.push((id, cause));
        } else {
            self.declare_crashed(now, desk, affected, id, &cause);
        }
    }

    /// The server is dead.
    pub(crate) fn declare_crashed(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        affected: &mut Affected<'_>,
        id: ServerId,
        cause: &str,
    ) -> RecoveryId {
        self.cleared.remove(&id);
        if !planted(Defect::EvidenceOutlivesServer) {
            for suspect in self.suspects.values_mut() {
                suspect.accusers.remove(&id);
            }
        }
        let suspect = self.suspects.remove(&id);
        let suspected_before = suspect.map(|suspect| now.since(suspect.since).as_millis() as u64);
        death::declare_crashed(now, desk, affected, id, cause, suspected_before)
    }

    /// A server's directory came back under a new id.
    pub(crate) fn note_replaced(&mut self, id: ServerId, recovery: RecoveryId) {
        if let Some(check) = &mut self.start_check {
            let in_check = check.waiting.remove(&id) | check.dead.iter().any(|(dead, _)| *dead == id);
            check.dead.retain(|(dead, _)| *dead != id);
            if in_check {
                check.replaced.push(recovery);
            }
        }
    }

    /// When every server of the old list is proven dead, all are recovered together.
    fn end_start_check(&mut self, now: Instant, desk: &mut Desk, affected: &mut Affected<'_>) {
        if !self.start_check.as_ref().is_some_and(|check| check.waiting.is_empty()) {
            return;
        }
        let check = self.start_check.take().unwrap_or_default();
        let count = check.dead.len() + check.replaced.len();
        desk.outbox
            .report(Level::Warn, format!("cold start: none of the {count} servers of the old list lives"));
        let mut cold = check.replaced;
        for (id, cause) in check.dead {
            let recovery = self.declare_crashed(now, desk, affected, id, &cause);
            cold.push(recovery);
        }
        for id in cold {
            if let Some(record) = desk.state.recoveries.get_mut(&id) {
                record.cold = true;
                desk.outbox.touch(Key::Recovery(id));
            }
        }
        affected.recoveries.cold_until = now + desk.config.cold_start_wait;
        desk.look_at_recoveries();
    }
}

/// Whether the server has told something under its id, which it has for good from then on.
fn is_named(desk: &Desk, links: &Links, id: ServerId) -> bool {
    links.get(id).is_some_and(|link| link.confirmed || link.reached > 0)
        || desk.state.up(id).is_some_and(|record| !record.streams.is_empty())
}

fn read_pong(
    desk: &Desk,
    links: &mut Links,
    (id, named): (ServerId, bool),
    status: Status,
    body: &[u8],
) -> Option<Answer> {
    if !matches!(status, Status::Ok | Status::Fenced) {
        return None;
    }
    let pong = decode::<Pong>(body).ok()?;
    desk.state.up(id)?;
    let link = links.get_mut(id)?;
    if pong.server == id {
        link.confirmed = true;
        link.told = true;
        links.is_told_anew = true;
        return Some(Answer::Alive);
    }
    if pong.server.is_none() {
        // A process without an id answers: this server just after it was entered, or its next life before that is
        // entered. An answer may come late, after the server has told something under its id. So the knowledge at
        // the time of the ping counts.
        link.told &= named || link.confirmed;
        return Some(if named {
            Answer::AnotherLife("a new process without an id answers at its address".into())
        } else {
            Answer::Alive
        });
    }
    Some(Answer::AnotherLife(format!("{} answers at its address", pong.server)))
}
