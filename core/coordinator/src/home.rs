//! Where tablets are at home: in a zone, or with a neighbourhood.
//!
//! A table that was given a zone has its tablets there. With `zone-local`, a dead server's other tablets are recovered in
//! its own zone, where their primaries are. With neighbourhoods they are recovered by the neighbourhood of their stream,
//! which the primaries feed. This is a preference: masters elsewhere take a tablet while no master of its home is up, or
//! none of them has room for it (choosing).
//!
//! Not here: where replicas go (placement). Protocol: docs/protocols/recovery.md, 5. Catalogue: F4, H3.

use crate::desk::Desk;
use crate::records::{ServerRecord, TableRecord};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ServerId, ShardId, Status, StreamId, TableId};
use ramhold_placement::{recovers_in, zone};
use ramhold_wire::ReplicaPlacement;
use ramhold_wire::status::GoneReport;
use std::collections::BTreeMap;

/// Where some tablets are to be recovered.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Home {
    #[default]
    Anywhere,
    Zone(String),
    /// The servers that have this place, or stand in this rack (`recovers_in`).
    Neighbourhood(String),
}

impl Home {
    /// Whether a server is one of this home.
    pub fn has(&self, desk: &Desk, server: &ServerRecord) -> bool {
        match self {
            Home::Anywhere => true,
            Home::Zone(zone) => is_at(Some(zone), server),
            Home::Neighbourhood(name) => {
                // Only places with points in them are written in more than one way, and names of racks are made of two.
                let mut labels = server.entry.labels.iter();
                let may_be = name.contains(['/', '<'])
                    || labels.any(|label| label.value == *name || label.value.contains('.'));
                let recovers =
                    || recovers_in(&desk.state.meta.topology, desk.config.placement, &server.entry);
                may_be && recovers().as_deref() == Some(name)
            }
        }
    }
}

/// Whether a server is in this zone.
pub(crate) fn is_at(home: Option<&str>, server: &ServerRecord) -> bool {
    home.is_none_or(|home| zone(&server.entry) == Some(home))
}

/// A table can be in a zone that some server has: one of the list, up or not, or one that is gone and expected back.
pub(crate) fn check_zone(desk: &Desk, wanted: Option<&str>) -> Result<(), Status> {
    let is_known = |wanted| {
        let gone = |gone: &GoneReport| gone.labels.iter().any(|l| l.name == "zone" && l.value == wanted);
        desk.state.servers.values().any(|server| is_at(Some(wanted), server))
            || desk.state.gone.values().any(gone)
    };
    if wanted.is_none_or(is_known) { Ok(()) } else { Err(Status::UnknownZone) }
}

/// The home of what a dead server had of a table in one of its streams, whether the home has masters or not.
pub(crate) fn home_of_dead(
    desk: &Desk,
    crashed: ServerId,
    table: TableId,
    stream: (ShardId, StreamId),
) -> Home {
    if planted(Defect::RecoveredAnywhere) {
        return Home::Anywhere;
    }
    let given = desk.state.tables.get(&table).and_then(|table| table.options.zone.clone());
    if let Some(zone) = given {
        return Home::Zone(zone);
    }
    match neighbourhood_of(desk, crashed, stream) {
        Some(name) => Home::Neighbourhood(name),
        None => own_home(desk, crashed),
    }
}

/// The neighbourhood of a stream, where the placement has neighbourhoods.
fn neighbourhood_of(desk: &Desk, server: ServerId, stream: (ShardId, StreamId)) -> Option<String> {
    desk.config.placement.neighbouring().filter(|_| !planted(Defect::NeighbourhoodsMixed))?;
    let streams = &desk.state.servers.get(&server)?.streams;
    streams.iter().find(|record| (record.shard, record.stream) == stream)?.neighbourhood.clone()
}

/// The home of what a dead server had, where neither its table nor its stream names one: its zone, with `zone-local`.
pub(crate) fn own_home(desk: &Desk, crashed: ServerId) -> Home {
    let is_local = desk.config.placement == ReplicaPlacement::ZoneLocal;
    let own = desk.state.servers.get(&crashed).filter(|_| is_local);
    own.and_then(|server| zone(&server.entry)).map_or(Home::Anywhere, |zone| Home::Zone(zone.to_owned()))
}

/// The home that is tried: the home itself, or the dead server's own one when no master of that is up. `Anywhere`: neither
/// has one.
pub(crate) fn masters_of<'a>(desk: &Desk, home: &'a Home, own: &'a Home) -> &'a Home {
    let has_masters =
        |home: &Home| *home != Home::Anywhere && desk.state.masters().any(|server| home.has(desk, server));
    if has_masters(home) {
        home
    } else if *home != Home::Anywhere && has_masters(own) {
        own
    } else {
        &Home::Anywhere
    }
}

/// The master with the fewest tablets, of those in the zone if one of them is; it then counts one more. There must be a
/// master.
pub(crate) fn least_loaded(
    masters: &mut BTreeMap<ServerId, u32>,
    servers: &BTreeMap<ServerId, ServerRecord>,
    home: Option<&str>,
) -> ServerId {
    let is_outside =
        |id: &ServerId| home.is_some() && !servers.get(id).is_some_and(|server| is_at(home, server));
    let least = masters.iter_mut().min_by_key(|(id, count)| (is_outside(id), **count, **id));
    let (id, count) = least.expect("there is a master");
    *count += 1;
    *id
}

/// The number of tablets of a table that are outside its zone; none: it has no zone.
pub(crate) fn outside_count(desk: &Desk, table: &TableRecord) -> Option<u32> {
    let home = table.options.zone.as_deref()?;
    let is_outside = |owner| desk.state.servers.get(&owner).is_some_and(|server| !is_at(Some(home), server));
    let outside = table.tablets.iter().filter(|t| !t.joined && is_outside(t.owner)).count();
    Some(u32::try_from(outside).unwrap_or(u32::MAX))
}
