//! Taking servers into the cluster.
//!
//! A server that enlists is given an id and the whole list. A server that was here before, by its data directory, is
//! declared crashed, since its new process proves the death of the process before it.
//!
//! Invariant: a token that was once given an id never gets another.
//!
//! Not here: which servers are dead (`verify`), what a death brings about (`death`), what servers record about
//! themselves (`streams`). Protocol: docs/protocols/membership.md. Catalogue: B1, F8.

use crate::claims::{are_labels, is_address};
use crate::death::Affected;
use crate::desk::Desk;
use crate::gone;
use crate::links::Links;
use crate::records::ServerRecord;
use crate::streams::CEILING_STEP;
use crate::verify::Verification;
use ramhold_base::limits::{LABEL_BYTES_MAX, LINK_COUNT_MAX, SERVER_COUNT_MAX};
use ramhold_base::{Instant, Level, Peer, ServerId, Status, Version};
use ramhold_placement::{check_domain, check_labels, check_links, share_place};
use ramhold_wire::Header;
use ramhold_wire::membership::{Enlist, Enlisted, LabelRefusal, PlaceFault, ServerEntry, ServerState};

pub(crate) fn on_enlist(
    now: Instant,
    desk: &mut Desk,
    verification: &mut Verification,
    affected: &mut Affected<'_>,
    to: Peer,
    header: &Header,
    message: Enlist,
) -> Result<(), Status> {
    check_enlist(&message)?;
    if header.cluster == desk.state.meta.cluster
        && let Some(newer) = message.replaces.filter(|id| *id > desk.state.meta.servers)
    {
        let text = format!(
            "a server is not taken in: its last life was {newer}, which this coordinator's state has not given out; \
             the state may be an old copy"
        );
        desk.outbox.report(Level::Warn, text);
        return Err(Status::NotReady);
    }
    if let Some(known) = desk.state.servers.values().find(|s| s.token == message.token) {
        let id = known.entry.id;
        if known.entry.state == ServerState::Crashed {
            return Err(Status::Fenced);
        }
        answer_enlisted(now, desk, to, header, id);
        return Ok(());
    }
    if desk.state.recoveries.values().any(|r| r.token == message.token) {
        return Err(Status::Fenced);
    }
    if desk.state.servers.len() >= SERVER_COUNT_MAX {
        return Err(Status::TooMany);
    }
    if let Some(refusal) = refused_place(now, desk, verification, &message) {
        desk.outbox.refuse_with(to, header, Status::LabelRefused, &refusal);
        return Ok(());
    }
    if let Some(before) = message.replaces.and_then(|id| desk.state.up(id)) {
        let id = before.entry.id;
        if before.entry.directory != message.directory {
            return Err(Status::NotAllowed);
        }
        let recovery = verification.declare_crashed(
            now,
            desk,
            affected,
            id,
            "its directory was started again by a new process",
        );
        verification.note_replaced(id, recovery);
    }
    suspect_namesakes(now, desk, verification, &message);
    let id = enter_server(desk, affected.links, &message);
    answer_enlisted(now, desk, to, header, id);
    Ok(())
}

/// Other servers with this directory or address are probably dead, but only their own silence proves it.
fn suspect_namesakes(now: Instant, desk: &Desk, verification: &mut Verification, message: &Enlist) {
    let links = message.links.as_deref().unwrap_or_default();
    let same = |s: &&ServerRecord| {
        s.entry.directory == message.directory
            || s.entry.address == message.address
            || s.entry.links().iter().any(|link| links.iter().any(|own| own.address == link.address))
    };
    let namesakes: Vec<ServerId> = desk.state.all_up().filter(same).map(|s| s.entry.id).collect();
    for id in namesakes {
        verification.suspect(now, desk, id, "another server enlisted with its directory or address".into());
    }
}

/// The reason why the labels of a server give it no place in the topology. A server that is up at the same place, on
/// another directory, is suspected: if it is dead, the place is free soon.
fn refused_place(
    now: Instant,
    desk: &Desk,
    verification: &mut Verification,
    message: &Enlist,
) -> Option<LabelRefusal> {
    let topology = &desk.state.meta.topology;
    let links = message.links.as_deref().unwrap_or_default();
    let checked = check_labels(topology, &message.labels)
        .and_then(|()| check_links(topology, links))
        .and_then(|()| check_domain(topology, desk.config.placement, &message.labels));
    if let Err(refusal) = checked {
        return Some(refusal);
    }
    let is_there = |s: &&ServerRecord| {
        s.entry.directory != message.directory && share_place(topology, &s.entry.labels, &message.labels)
    };
    let other = desk.state.all_up().find(is_there)?;
    let (id, address) = (other.entry.id, other.entry.address);
    verification.suspect(now, desk, id, "another server enlisted with its place in the topology".into());
    Some(LabelRefusal {
        topology: topology.clone(),
        label: topology.label_name().unwrap_or_default().into(),
        fault: PlaceFault::Taken,
        detail: format!("{id} at {}", address.0),
    })
}

fn enter_server(desk: &mut Desk, links: &mut Links, message: &Enlist) -> ServerId {
    let id = desk.state.meta.servers.next();
    desk.state.meta.servers = id;
    desk.make_index_secret();
    desk.state.meta.departed.retain(|d| d.directory != message.directory);
    gone::is_back(desk, message.directory, id);
    let entry = ServerEntry {
        id,
        address: message.address,
        labels: message.labels.clone(),
        state: ServerState::Up,
        master: message.master,
        backup: message.backup,
        read_speed: message.read_speed.max(1),
        directory: message.directory,
        kept: false,
        replicates: false,
        replicates_only: None,
        redis_cluster_port: message.redis_cluster_port,
        links: message.links.clone().filter(|links| !links.is_empty()),
    };
    let record = ServerRecord {
        entry,
        token: message.token,
        ceiling: Version(CEILING_STEP),
        streams: Vec::new(),
        log_bytes: message.log_bytes,
        disk_bytes: message.disk_bytes,
    };
    desk.state.servers.insert(id, record);
    links.enter(desk, id);
    desk.list_changed(id);
    desk.look_at_recoveries();
    desk.look_at_tablets();
    let text = format!(
        "{id} enlisted: {} directory {}{}",
        message.address.0,
        message.directory,
        message.replaces.map(|old| format!(", after {old}")).unwrap_or_default()
    );
    desk.outbox.report(Level::Info, text);
    id
}

fn answer_enlisted(now: Instant, desk: &mut Desk, to: Peer, header: &Header, id: ServerId) {
    let list = desk.list_update(now, 0);
    let enlisted = Enlisted {
        server: id,
        cluster: desk.state.meta.cluster,
        term: desk.term,
        list,
        ceiling: desk.state.servers.get(&id).map(|s| s.ceiling).unwrap_or_default(),
        index_secret: (desk.state.meta.index_secret != 0).then_some(desk.state.meta.index_secret),
    };
    desk.outbox.reply_with(to, header, &enlisted);
}

fn check_enlist(message: &Enlist) -> Result<(), Status> {
    let labels = are_labels(&message.labels);
    let links = message.links.as_deref().unwrap_or_default();
    let mut names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let links = names.len() == links.len()
        && links.len() <= LINK_COUNT_MAX
        && links
            .iter()
            .all(|l| !l.name.is_empty() && l.name.len() <= LABEL_BYTES_MAX && is_address(&l.address));
    let address = is_address(&message.address);
    let named = message.token != 0 && !message.directory.is_none();
    if labels && links && address && named { Ok(()) } else { Err(Status::BadRequest) }
}
