//! The consequences of a server's death in all parts that it concerns.
//!
//! A server becomes Crashed once, and its recovery begins in the same commit.
//!
//! Not here: which servers are dead (`verify`). Protocol: docs/protocols/membership.md. Catalogue: B1, D8, F8.

use crate::departed;
use crate::desk::Desk;
use crate::links::Links;
use crate::progress::Progress;
use crate::read_leases::ReadLeases;
use crate::records::{Key, RecoveryRecord};
use crate::recoveries::Recoveries;
use ramhold_base::{Instant, Level, RecoveryId, ServerId};
use ramhold_wire::membership::ServerState;
use ramhold_wire::status::RecoverySteps;

/// The parts that the death of a server concerns.
pub(crate) struct Affected<'a> {
    pub links: &'a mut Links,
    pub read_leases: &'a mut ReadLeases,
    pub recoveries: &'a mut Recoveries,
    pub progress: &'a mut Progress,
}

/// The verdict. From its commit on the server is fenced, and its recovery exists. `suspected_before`: how many
/// milliseconds ago the suspicion began.
pub(crate) fn declare_crashed(
    now: Instant,
    desk: &mut Desk,
    affected: &mut Affected<'_>,
    id: ServerId,
    cause: &str,
    suspected_before: Option<u64>,
) -> RecoveryId {
    let detected = desk.time(now);
    let directories = departed::replica_directories(desk, affected.links, detected, id);
    let tablets = desk.state.tablets().filter(|t| t.owner == id && t.taken).count() as u32;
    let recovery = desk.state.meta.recoveries.next();
    desk.state.meta.recoveries = recovery;
    let server = desk.state.servers.get_mut(&id).expect("only servers in the list are declared crashed");
    assert!(server.entry.state == ServerState::Up, "a server is declared crashed once");
    server.entry.state = ServerState::Crashed;
    let record = RecoveryRecord {
        id: recovery,
        crashed: id,
        address: server.entry.address,
        token: server.token,
        detected,
        cause: cause.into(),
        cold: false,
        directories,
        plan: RecoveryId::NONE,
        ends: Vec::new(),
        published: Vec::new(),
        losses: Vec::new(),
        done: false,
        complete_millis: None,
        first_live_millis: None,
        done_millis: None,
        partitions: 0,
        segments: 0,
        bytes: 0,
        records: 0,
        failed_attempts: 0,
        tablets,
        steps: RecoverySteps { suspected_before, ..RecoverySteps::default() },
        parts: Vec::new(),
        given_up: Vec::new(),
        backups: Vec::new(),
    };
    let text = format!("{id} at {} is dead: {cause}; {recovery} begins, {tablets} tablets", record.address.0);
    desk.outbox.report(Level::Warn, text);
    desk.outbox.report(Level::Debug, format!("fact:dead {}", id.raw()));
    desk.state.recoveries.insert(recovery, record);
    desk.outbox.touch(Key::Recovery(recovery));
    affected.links.remove(id);
    desk.list_changed(id);
    let lease_until = affected.read_leases.granted_until(id);
    affected.recoveries.begin(now, recovery, lease_until);
    affected.recoveries.take_partitions_from(desk, id);
    desk.look_at_recoveries();
    affected.progress.move_untaken_tablets(desk, id);
    desk.look_at_tablets();
    recovery
}
