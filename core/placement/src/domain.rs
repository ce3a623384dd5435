//! Where a server stands, from its labels: its failure domain, and the rack and zone that further domains share.
//!
//! The failure domain is the finest thing that a label names: the servers in it may fail together, so it holds one copy
//! of a segment at most. Racks and zones are coarser. Copies spread over them as far as that goes, and no write waits
//! for it: one zone that is gone must not stop the others.
//!
//! Not here: the choice among backups (the crate's root). Catalogue: D3, H1.

use ramhold_base::ServerId;
use ramhold_wire::View;
use ramhold_wire::membership::{Label, ServerEntry};
use ramhold_wire::shortage::{DomainLevel, Shortage};
use std::fmt;

/// The failure domain of a server: its `host`, else its `rack`, else the server itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Domain<'a> {
    Rack(Rack<'a>),
    Host(&'a str),
    Server(ServerId),
}

/// A rack of a zone: racks of two zones may have the same name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rack<'a> {
    pub zone: Option<&'a str>,
    pub name: &'a str,
}

/// Something coarser than a failure domain over which the copies of a segment spread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SpreadLevel {
    Zone,
    Rack,
}

impl SpreadLevel {
    /// All levels, the coarsest first.
    pub const ALL: [SpreadLevel; 2] = [SpreadLevel::Zone, SpreadLevel::Rack];

    /// Whether two servers are in one area of this level. Servers without the label are in one area together; racks are
    /// within zones.
    fn are_together(self, one: &ServerEntry, other: &ServerEntry) -> bool {
        match self {
            SpreadLevel::Zone => zone(one) == zone(other),
            SpreadLevel::Rack => zone(one) == zone(other) && rack(one) == rack(other),
        }
    }
}

impl fmt::Display for SpreadLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SpreadLevel::Zone => "zone",
            SpreadLevel::Rack => "rack",
        })
    }
}

pub fn domain(entry: &ServerEntry) -> Domain<'_> {
    domain_of(entry.id, &entry.labels)
}

/// The failure domain of a server or brick with these labels.
pub fn domain_of(id: ServerId, labels: &[Label]) -> Domain<'_> {
    match (value_of(labels, "host"), rack_of(labels)) {
        (Some(host), _) => Domain::Host(host),
        (None, Some(rack)) => Domain::Rack(rack),
        (None, None) => Domain::Server(id),
    }
}

pub fn zone(entry: &ServerEntry) -> Option<&str> {
    zone_of(&entry.labels)
}

/// The zone that these labels name.
pub fn zone_of(labels: &[Label]) -> Option<&str> {
    value_of(labels, "zone")
}

pub fn rack(entry: &ServerEntry) -> Option<Rack<'_>> {
    rack_of(&entry.labels)
}

pub(crate) fn rack_of(labels: &[Label]) -> Option<Rack<'_>> {
    value_of(labels, "rack").map(|name| Rack { zone: zone_of(labels), name })
}

pub(crate) fn label<'a>(entry: &'a ServerEntry, name: &str) -> Option<&'a str> {
    value_of(&entry.labels, name)
}

fn value_of<'a>(labels: &'a [Label], name: &str) -> Option<&'a str> {
    labels.iter().find(|label| label.name == name).map(|label| label.value.as_str())
}

/// How many of these copies are in the zone of a server, and how many in its rack: the fewer, the better it serves for
/// another copy.
pub(crate) fn crowding(entry: &ServerEntry, copies: &[&ServerEntry]) -> [usize; 2] {
    SpreadLevel::ALL.map(|level| copies.iter().filter(|copy| level.are_together(copy, entry)).count())
}

/// The levels on which a backup that may be chosen is up elsewhere than the master. On the others, copies cannot be
/// spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpreadLevels([bool; SpreadLevel::ALL.len()]);

impl SpreadLevels {
    pub fn of(view: &View) -> SpreadLevels {
        let Some(own) = view.list.entry(view.me) else { return SpreadLevels::default() };
        // The servers of one host may have labels of two zones.
        let backups = || view.list.up().filter(|e| e.backup && domain(e) != domain(own));
        SpreadLevels(SpreadLevel::ALL.map(|level| backups().any(|e| !level.are_together(own, e))))
    }

    pub fn is_empty(self) -> bool {
        self == SpreadLevels::default()
    }

    /// The coarsest level on which a segment is *unspread*: the loss of one zone or rack would take all of its copies,
    /// the master's in DRAM and these replicas, although a backup of another one is up.
    pub fn unspread(self, view: &View, replicas: &[ServerId]) -> Option<SpreadLevel> {
        let own = view.list.entry(view.me)?;
        let mut levels = SpreadLevel::ALL.into_iter().zip(self.0).filter(|(_, has_other)| *has_other);
        let are_together = |level: SpreadLevel| {
            replicas.iter().filter_map(|id| view.list.entry(*id)).all(|e| level.are_together(own, e))
        };
        levels.find(|(level, _)| are_together(*level)).map(|(level, _)| level)
    }
}

/// The number of separate failure domains that could hold a replica for this server.
pub fn domain_count(view: &View, local_allowed: bool) -> usize {
    let own = view.list.entry(view.me).map(domain);
    let mut domains: Vec<Domain<'_>> = view.list.up().filter(|e| e.backup).map(domain).collect();
    domains.sort_unstable();
    domains.dedup();
    domains.iter().filter(|d| local_allowed || Some(**d) != own).count()
}

/// The shortage of failure domains for this many replicas of this server's log.
pub fn shortage(view: &View, replicas: u8, local_allowed: bool) -> Option<Shortage> {
    let up = u32::try_from(domain_count(view, local_allowed)).unwrap_or(u32::MAX);
    (u32::from(replicas) > up).then(|| Shortage {
        replicas,
        up,
        level: DomainLevel::of(view.list.up().filter(|e| e.backup)),
        own_counts: local_allowed,
        bricks: false,
    })
}
