//! Servers that are dead, recovered, and expected to come back.
//!
//! A server that enlisted is expected until an operator forgets it. If no other life has its data directory when its
//! recovery ends, the server is gone. It is noted as gone in the same commit as the end of the recovery, with the time
//! of the verdict. The note is removed when its directory enlists again, under whatever id, in the same commit as the
//! new server; or when an operator forgets the server. A cluster that is stopped cleanly declares no server dead, so no
//! server is gone because of it.
//!
//! Invariants:
//! - a directory that is up has no note, and no directory has two;
//! - the notes are bounded: beyond `GONE_COUNT_MAX` the oldest is dropped, with a warning.
//!
//! Protocol: docs/protocols/membership.md, "Gone". Catalogue: B1, J5.

use crate::desk::Desk;
use crate::records::{Key, UpdateResult};
use crate::state::State;
use ramhold_base::{DirectoryId, Level, RecoveryId, ServerId, Status};
use ramhold_wire::membership::ServerState;
use ramhold_wire::status::{GoneReport, ServerForget};
use std::collections::BTreeSet;

/// The most notes that are kept; each is at most some 1.5 KB.
const GONE_COUNT_MAX: usize = 1024;
/// The most notes that one status tells, the latest ones, so that it fits a frame with everything else.
const GONE_TOLD_MAX: usize = 256;

impl State {
    /// The number of servers that should be there, counted by their data directories: up, being recovered, or gone.
    pub fn expected_count(&self) -> u64 {
        // The server of a kept log is not expected: if its directory is not back, there is a note of it.
        let listed = self.servers.values().filter(|server| !server.entry.kept);
        let listed = listed.map(|server| server.entry.directory);
        let gone = self.gone.values().map(|gone| gone.directory);
        listed.chain(gone).collect::<BTreeSet<DirectoryId>>().len() as u64
    }
}

/// Removes notes of directories that are up: a coordinator that knew nothing of such notes may have reigned in between.
pub(crate) fn resume(desk: &mut Desk) {
    let up: Vec<(DirectoryId, ServerId)> =
        desk.state.all_up().map(|server| (server.entry.directory, server.entry.id)).collect();
    for (directory, id) in up {
        is_back(desk, directory, id);
    }
}

/// The recovery of a server is over: unless another life has its directory, the server is gone.
pub(crate) fn note_gone(desk: &mut Desk, id: RecoveryId, crashed: ServerId) {
    let Some(record) = desk.state.recoveries.get(&id) else { return };
    let Some(server) = desk.state.servers.get(&crashed) else { return };
    let directory = server.entry.directory;
    // A late copy of an older life's `Enlist` makes a life that is later by its number alone. So a life that is up
    // counts, whatever its number.
    if desk.state.all_up().any(|other| other.entry.directory == directory) {
        return;
    }
    let listed = desk.state.servers.values().map(|other| (other.entry.directory, other.entry.id));
    let noted = desk.state.gone.values().map(|gone| (gone.directory, gone.server));
    // A later life may be over already, and its recovery may have ended before this one.
    if listed.chain(noted).any(|(of, id)| of == directory && id > crashed) {
        return;
    }
    let report = GoneReport {
        server: crashed,
        directory,
        address: server.entry.address,
        labels: server.entry.labels.clone(),
        since: record.detected,
        cause: record.cause.clone(),
    };
    drop_notes(desk, |gone| gone.directory == directory);
    if desk.state.gone.len() >= GONE_COUNT_MAX
        && let Some(oldest) = desk.state.gone.values().min_by_key(|gone| gone.since).map(|gone| gone.server)
    {
        drop_notes(desk, |gone| gone.server == oldest);
        let text =
            format!("{oldest} is expected no more: {GONE_COUNT_MAX} servers are gone, it is the oldest");
        desk.outbox.report(Level::Warn, text);
    }
    let text =
        format!("{crashed} at {} is gone until its directory {directory} is started again", report.address.0);
    desk.outbox.report(Level::Warn, text);
    desk.state.gone.insert(crashed, report);
    desk.outbox.touch(Key::Gone(crashed));
}

/// A server enlisted with this directory.
pub(crate) fn is_back(desk: &mut Desk, directory: DirectoryId, as_id: ServerId) {
    for before in drop_notes(desk, |gone| gone.directory == directory) {
        desk.outbox.report(Level::Info, format!("{before} was gone and is back as {as_id}"));
    }
}

/// An operator does not expect this server back any more.
pub(crate) fn forget_server(desk: &mut Desk, message: &ServerForget) -> Result<UpdateResult, Status> {
    if !drop_notes(desk, |gone| gone.server == message.server).is_empty() {
        desk.outbox
            .report(Level::Info, format!("{} is expected no more: an operator said so", message.server));
        return Ok(UpdateResult::ServerForgotten);
    }
    let entry = desk.state.servers.get(&message.server).map(|server| &server.entry);
    match entry.filter(|entry| !entry.kept).map(|entry| entry.state) {
        Some(ServerState::Up) => Err(Status::NotAllowed),
        // Its recovery is not over.
        Some(ServerState::Crashed) => Err(Status::Retry),
        None => Err(Status::NotFound),
    }
}

/// The latest of the servers that are gone, newest last.
pub(crate) fn reports(desk: &Desk) -> Vec<GoneReport> {
    let mut gone: Vec<&GoneReport> = desk.state.gone.values().collect();
    gone.sort_by_key(|gone| (gone.since, gone.server));
    let excess = gone.len().saturating_sub(GONE_TOLD_MAX);
    gone.into_iter().skip(excess).cloned().collect()
}

fn drop_notes(desk: &mut Desk, which: impl Fn(&GoneReport) -> bool) -> Vec<ServerId> {
    let dropped: Vec<ServerId> =
        desk.state.gone.values().filter(|gone| which(gone)).map(|gone| gone.server).collect();
    for server in &dropped {
        desk.state.gone.remove(server);
        desk.outbox.touch(Key::Gone(*server));
    }
    dropped
}
