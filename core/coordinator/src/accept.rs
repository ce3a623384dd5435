//! Giving up servers that hold parts of a dead server's log and will not come back.
//!
//! A recovery that lacks a part of a log waits, for ever if need be. If the servers that it waits for are switched off
//! for good, an operator says so, by name. The coordinator does not believe that at once. A dead server may live on
//! behind a partition together with the backups of its head, and go on acknowledging writes and answering reads
//! (docs/protocols/read-leases.md); a recovery without them would make two owners. So every server that is up is asked
//! whether any of the named servers answers it. The named servers are given up only if every server that is up could be
//! asked and has told, and nobody hears from any of them. That they are given up is stored, and told in every later
//! report. The dead server's read lease is waited out from then on.
//!
//! Invariants:
//! - all servers that are away are named, and no others; the dead server is among them unless its directory is back;
//! - a server that answers anybody under its id is not given up.
//!
//! Protocol: docs/protocols/recovery.md, "Accepting a loss". Catalogue: F2, D2. See faults B3.

use crate::asked::Asked;
use crate::desk::Desk;
use crate::records::{Key, RecoveryRecord};
use crate::recoveries::Recoveries;
use crate::recovery::Surroundings;
use ramhold_base::limits::READ_LEASE;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, DirectoryId, Instant, Level, Peer, RecoveryId, ServerId, Status};
use ramhold_wire::status::{AwayReport, LossAccept, LossAccepted, Pong, Reach, ReachTarget, Reached};
use ramhold_wire::{Header, decode};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the servers that are up have to tell whether any named server answers them: longer than any ping may take,
/// and less than a client waits before it asks again.
const CHECK_TIMEOUT: Duration = Duration::from_millis(700);

/// The statement of an operator who does not want to wait for some servers any more, while it is checked.
#[derive(Debug, Default)]
pub(crate) struct Acceptance(Option<Statement>);

#[derive(Debug)]
struct Statement {
    recovery: RecoveryId,
    from: ConnId,
    header: Header,
    away: Vec<AwayReport>,
    /// Servers that are up and have not told yet.
    unsure: BTreeSet<ServerId>,
    answering: BTreeSet<ServerId>,
    until: Instant,
}

/// The servers that are away: each may hold a part of a dead server's log, or be that server, and has neither
/// answered in its present life nor been given up. Empty when the recovery is over or lacks nothing.
pub(crate) fn away(desk: &Desk, recoveries: &Recoveries, record: &RecoveryRecord) -> Vec<AwayReport> {
    let Some(recovery) = recoveries.open.get(&record.id).filter(|r| !r.inquiry.missing.is_empty()) else {
        return Vec::new();
    };
    let mut directories = recovery.inquiry.silent_directories(&desk.state, record);
    // The dead server's own directory is included: the dead server may have been no backup.
    let own = desk.state.servers.get(&record.crashed).map(|s| s.entry.directory);
    let is_back = |d: &DirectoryId| desk.state.all_up().any(|s| s.entry.directory == *d);
    let is_given_up = |d: &DirectoryId| record.given_up.iter().any(|away| away.directory == *d);
    directories.extend(own.filter(|d| !is_back(d) && !is_given_up(d)));
    directories.into_iter().map(|directory| last_on(desk, directory)).collect()
}

impl Acceptance {
    pub(crate) fn on_loss_accept(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        around: Surroundings<'_>,
        recoveries: &Recoveries,
        from: ConnId,
        header: &Header,
        message: LossAccept,
    ) -> Result<(), Status> {
        let record = desk.state.recoveries.get(&message.recovery).ok_or(Status::NotFound)?;
        let named: BTreeSet<DirectoryId> = message.directories.iter().copied().collect();
        let is_given_up = |d: &DirectoryId| record.given_up.iter().any(|away| away.directory == *d);
        if !named.is_empty() && named.iter().all(is_given_up) {
            desk.outbox.reply_with(Peer::Conn(from), header, &LossAccepted::default());
            return Ok(());
        }
        let same = |a: &Statement| {
            a.recovery == message.recovery
                && a.away.iter().map(|away| away.directory).collect::<BTreeSet<_>>() == named
        };
        if let Some(acceptance) = self.0.as_mut().filter(|acceptance| same(acceptance)) {
            // Nobody may be left to hear the answer to the earlier request, so the answer goes to this one.
            (acceptance.from, acceptance.header) = (from, *header);
            return Ok(());
        }
        let recovery = recoveries.open.get(&message.recovery).ok_or(Status::NotFound)?;
        if self.0.is_some() || around.is_starting || !recovery.inquiry.all_answered() {
            return Err(Status::Retry);
        }
        let away = self::away(desk, recoveries, record);
        if away.is_empty() || named != away.iter().map(|away| away.directory).collect() {
            return Err(Status::NotAllowed);
        }
        let servers: Vec<ReachTarget> = away
            .iter()
            .filter_map(|away| Some(ReachTarget { server: away.server, address: away.address? }))
            .collect();
        let up: BTreeSet<ServerId> = desk.state.all_up().map(|s| s.entry.id).collect();
        for target in &servers {
            desk.ping(now, target.address.0, CHECK_TIMEOUT, Asked::Away(target.server));
        }
        for server in &up {
            if !desk.ask(now, *server, Asked::Reach(*server), &Reach { servers: servers.clone() }) {
                return Err(Status::FrameTooLarge);
            }
        }
        self.0 = Some(Statement {
            recovery: message.recovery,
            from,
            header: *header,
            away,
            unsure: up,
            answering: BTreeSet::new(),
            until: now + CHECK_TIMEOUT,
        });
        Ok(())
    }

    pub(crate) fn on_reached(&mut self, by: ServerId, status: Status, body: &[u8]) {
        let Some(acceptance) = &mut self.0 else { return };
        if status == Status::Ok
            && let Ok(Reached { answering }) = decode(body)
        {
            acceptance.unsure.remove(&by);
            acceptance.answering.extend(answering);
        }
    }

    /// Something answered at the address of a server that is to be given up.
    pub(crate) fn on_away_pong(&mut self, server: ServerId, body: &[u8]) {
        let Some(acceptance) = &mut self.0 else { return };
        if decode::<Pong>(body).is_ok_and(|pong| pong.server == server) {
            acceptance.answering.insert(server);
        }
    }

    pub(crate) fn wake(&self) -> Instant {
        self.0.as_ref().map_or(Instant::FAR, |acceptance| acceptance.until)
    }

    pub(crate) fn advance(&mut self, now: Instant, desk: &mut Desk, recoveries: &mut Recoveries) {
        // The coordinator's own pings have no end but the timeout, so it is always waited for.
        let Some(acceptance) = self.0.take_if(|acceptance| acceptance.until <= now) else { return };
        let Statement { recovery: id, from, header, away, unsure, answering, .. } = acceptance;
        let to = Peer::Conn(from);
        let is_off = (unsure.is_empty() && answering.is_empty()) || planted(Defect::AwayBelieved);
        if is_off && !give_up(now, desk, recoveries, id, away) {
            return desk.outbox.reply(to, &header, Status::Retry);
        }
        let accepted =
            LossAccepted { answering: answering.into_iter().collect(), unsure: unsure.into_iter().collect() };
        desk.outbox.reply_with(to, &header, &accepted);
    }
}

/// `false`: other servers are away by now.
fn give_up(
    now: Instant,
    desk: &mut Desk,
    recoveries: &mut Recoveries,
    id: RecoveryId,
    away: Vec<AwayReport>,
) -> bool {
    let is_same =
        desk.state.recoveries.get(&id).is_some_and(|record| self::away(desk, recoveries, record) == away);
    let Some(recovery) = recoveries.open.get_mut(&id).filter(|_| is_same) else { return false };
    recovery.look_anew(now + READ_LEASE);
    recoveries.wake_one(id, Instant::ZERO);
    let record = desk.state.recoveries.get_mut(&id).expect("it was there above");
    let names: Vec<String> =
        away.iter().map(|away| format!("{} ({})", away.server, away.directory)).collect();
    record.given_up.extend(away);
    let text = format!(
        "{id} of {}: an operator has given up {}, and accepts the loss of what only they had",
        record.crashed,
        names.join(", ")
    );
    desk.outbox.report(Level::Warn, text);
    desk.outbox.touch(Key::Recovery(id));
    true
}

/// The last server that ran on a directory.
fn last_on(desk: &Desk, directory: DirectoryId) -> AwayReport {
    let listed = desk.state.servers.values().rev().find(|s| s.entry.directory == directory);
    let departed = desk.state.meta.departed.iter().find(|d| d.directory == directory);
    let (server, address) = match (listed, departed) {
        (Some(server), _) => (server.entry.id, Some(server.entry.address)),
        (None, Some(departed)) => (departed.server, departed.address),
        (None, None) => (ServerId::NONE, None),
    };
    AwayReport { directory, server, address }
}
