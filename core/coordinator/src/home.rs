//! The zone in which tablets are at home.
//!
//! A table that was given a zone has its tablets there. With `zone-local`, a dead server's other tablets are recovered in
//! its own zone, where their primaries are. This is a preference: masters elsewhere take a tablet while no master of its
//! zone is up, or none of them has room for it (choosing).
//!
//! Not here: where replicas go (placement). Protocol: docs/protocols/recovery.md, 5. Catalogue: F4, H3.

use crate::desk::Desk;
use crate::records::{ServerRecord, TableRecord};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ServerId, Status, TableId};
use ramhold_placement::zone;
use ramhold_wire::ReplicaPlacement;
use ramhold_wire::status::GoneReport;
use std::collections::BTreeMap;

/// The zone in which some tablets are to be; none: any server will do.
pub(crate) type Home = Option<String>;

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

/// The home of the tablets of a table that were a dead server's, whether the zone has masters or not.
pub(crate) fn home_of_dead(desk: &Desk, crashed: ServerId, table: TableId) -> Home {
    if planted(Defect::RecoveredAnywhere) {
        return None;
    }
    let given = desk.state.tables.get(&table).and_then(|table| table.options.zone.clone());
    given.or_else(|| own_home(desk, crashed))
}

/// The home of what a dead server had, where the tables name none: its zone, with `zone-local`.
pub(crate) fn own_home(desk: &Desk, crashed: ServerId) -> Home {
    let is_local = desk.config.placement == ReplicaPlacement::ZoneLocal;
    is_local.then(|| zone(&desk.state.servers.get(&crashed)?.entry).map(str::to_owned)).flatten()
}

/// The zone that is tried for a home: the home itself, or the dead server's own one when no master of that is up. None:
/// neither has one.
pub(crate) fn masters_of<'a>(desk: &Desk, home: &'a Home, own: &'a Home) -> Option<&'a str> {
    let has_masters = |zone: &&str| desk.state.masters().any(|server| is_at(Some(*zone), server));
    home.as_deref().filter(has_masters).or_else(|| {
        let own = own.as_deref().filter(|_| home.is_some());
        own.filter(has_masters)
    })
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
