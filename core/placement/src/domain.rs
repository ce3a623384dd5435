//! The failure domain of a server, from its labels: the servers that may fail together with it.

use ramhold_base::ServerId;
use ramhold_wire::View;
use ramhold_wire::membership::ServerEntry;
use ramhold_wire::shortage::{DomainLevel, Shortage};

/// The failure domain of a server: its `rack`, else its `host`, else the server itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Domain<'a> {
    Rack(&'a str),
    Host(&'a str),
    Server(ServerId),
}

pub fn domain(entry: &ServerEntry) -> Domain<'_> {
    match (label(entry, "rack"), label(entry, "host")) {
        (Some(rack), _) => Domain::Rack(rack),
        (None, Some(host)) => Domain::Host(host),
        (None, None) => Domain::Server(entry.id),
    }
}

pub(crate) fn label<'a>(entry: &'a ServerEntry, name: &str) -> Option<&'a str> {
    entry.labels.iter().find(|l| l.name == name).map(|l| l.value.as_str())
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
    })
}
