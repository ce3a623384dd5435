//! The sets of backups that hold the replicas of one segment together, when placement is by copysets.
//!
//! Free scatter makes nearly every set of R servers the only holder of some segment. So whichever R servers stay away
//! after a power cut, something is lost. Copysets are few: data is lost only when one of them stays away as a whole.
//!
//! The failure domains stand in a ring, ordered by a hash; R neighbours are a window. With zones or racks above the
//! domains, a window leaves out neighbours whose zone or rack it has already, as long as there are others. Within a
//! domain the servers stand in order, too, by hashes of host and directory. The servers of a window that stand at
//! the same place are a copyset, and a domain with fewer servers begins again from its first. So hosts with as many
//! servers each are matched host to host, and one host less costs few copysets, not most. Further rings, each with
//! other hashes, spread the data that must be copied anew over more servers, at the price of as many more copysets.
//!
//! Everything follows from the server list alone. So all masters come to the same sets, and a server that returns with
//! its directory returns to its sets.
//!
//! Invariants:
//! - the servers of a copyset are in separate failure domains, and none in the master's own unless that is allowed;
//! - a copyset spreads over zones and racks as far as its failure domains go;
//! - with domains of equal size there are at most as many copysets per ring as backups;
//! - while a domain is one server, its leaving changes no copyset that it was not in, and the rest of each copyset that
//!   it was in is within a copyset of the new list.
//!
//! Not here: which copyset a segment goes to (the crate's root). Source: Cidon et al., Copysets (2013); TUT15
//! "Sometimes Randomization is Bad". Decision: docs/decisions/0014-copysets-from-rings-of-domains.md. Catalogue: D4.

use crate::domain::{Domain, Rack, crowding, domain, label};
use ramhold_base::ServerId;
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_wire::membership::ServerEntry;
use ramhold_wire::{ReplicaPlacement, View};
use std::collections::{BTreeMap, BTreeSet};

/// The copysets of one size that a master may use.
#[derive(Debug, Default)]
pub struct Copysets {
    /// The sets in the order of rings, windows and places; none twice.
    sets: Vec<Vec<ServerId>>,
    /// The indexes of the sets that each server is in.
    of: BTreeMap<ServerId, Vec<usize>>,
}

impl Copysets {
    /// The copysets of `replicas` servers each; none if the list has too few failure domains.
    pub fn new(view: &View, rings: u8, replicas: usize, local_allowed: bool) -> Copysets {
        let mut copysets = Copysets::default();
        let own = view.list.entry(view.me).map(domain).filter(|_| !local_allowed);
        let mut known = BTreeSet::new();
        for mut ring in (0..rings).map(|ring| Ring::new(view, ring)) {
            let is_usable = |window: &Vec<&Place<'_>>| window.iter().all(|p| Some(p.domain) != own);
            if ring.has_levels && 2 * ring.windows(replicas).filter(is_usable).count() < ring.places.len() {
                // Most windows need this domain, because its zone or rack has few. They do without it.
                ring.places.retain(|place| Some(place.domain) != own);
            }
            for window in ring.windows(replicas).filter(is_usable) {
                let most = window.iter().map(|place| place.servers.len()).max().unwrap_or_default();
                for turn in 0..most {
                    let set = window.iter().map(|place| place.servers[turn % place.servers.len()]);
                    let mut set: Vec<ServerId> = set.collect();
                    set.sort_unstable();
                    if known.insert(set.clone()) {
                        copysets.enter(set);
                    }
                }
            }
        }
        copysets
    }

    fn enter(&mut self, set: Vec<ServerId>) {
        for server in &set {
            self.of.entry(*server).or_default().push(self.sets.len());
        }
        self.sets.push(set);
    }

    pub fn sets(&self) -> &[Vec<ServerId>] {
        &self.sets
    }

    /// Whether these servers are a whole copyset, or a part of one.
    pub fn hold(&self, servers: &[ServerId]) -> bool {
        servers.split_first().is_none_or(|(first, rest)| self.with(*first, rest, &[]).next().is_some())
    }

    /// The copysets of `server` that have all of `others`, and no other server that is avoided.
    pub(crate) fn with<'a>(
        &'a self,
        server: ServerId,
        others: &'a [ServerId],
        avoided: &'a [ServerId],
    ) -> impl Iterator<Item = &'a Vec<ServerId>> {
        let sets = self.of.get(&server).into_iter().flatten().map(|index| &self.sets[*index]);
        sets.filter(move |set| {
            let is_taken = |s: &ServerId| *s == server || others.contains(s);
            others.iter().all(|s| set.contains(s)) && !avoided.iter().any(|s| set.contains(s) && !is_taken(s))
        })
    }
}

/// A failure domain of a ring, with its servers in order.
struct Place<'a> {
    domain: Domain<'a>,
    /// One of the servers, for its zone and rack.
    one: &'a ServerEntry,
    servers: Vec<ServerId>,
}

/// One order of the failure domains.
struct Ring<'a> {
    places: Vec<Place<'a>>,
    /// The domains are in two zones or racks at least.
    has_levels: bool,
}

impl<'a> Ring<'a> {
    fn new(view: &'a View, ring: u8) -> Ring<'a> {
        // The hash of keys serves here, because it is the same for ever, and on every machine.
        let hasher = PlacementHasher::new(PlacementSeed(u64::from(ring)));
        let hash = |kind: &[u8], name: &[u8]| hasher.hash(&[kind, name].concat()).0;
        let directory = |entry: &ServerEntry| hash(b"directory ", &entry.directory.raw().to_le_bytes());
        let host = |entry: &ServerEntry| label(entry, "host").map(|host| hash(b"host ", host.as_bytes()));
        let place = |entry: &ServerEntry| match domain(entry) {
            Domain::Rack(Rack { zone, name }) => {
                hash(b"rack ", &[zone.unwrap_or_default(), name].concat().into_bytes())
            }
            Domain::Host(host) => hash(b"host ", host.as_bytes()),
            Domain::Server(_) => directory(entry),
        };
        let mut entries: Vec<_> = view
            .list
            .up()
            .filter(|e| e.backup)
            .map(|e| ((place(e), domain(e)), (host(e), directory(e), e.id), e))
            .collect();
        entries.sort_unstable_by_key(|(place, server, _)| (*place, *server));
        let mut places: Vec<Place<'a>> = Vec::new();
        for ((_, domain), (_, _, server), one) in entries {
            match places.last_mut() {
                Some(last) if last.domain == domain => last.servers.push(server),
                _ => places.push(Place { domain, one, servers: vec![server] }),
            }
        }
        let has_levels = places.windows(2).any(|two| crowding(two[0].one, &[two[1].one]) != [1, 1]);
        Ring { places, has_levels }
    }

    /// The windows of `count` neighbours, one from each domain on.
    fn windows(&self, count: usize) -> impl Iterator<Item = Vec<&Place<'a>>> {
        let starts = if self.places.len() < count || count == 0 { 0 } else { self.places.len() };
        (0..starts).map(move |start| self.window(start, count))
    }

    /// The domain at `start`, and then the next one, and the next, whose zone and then whose rack the window has least.
    fn window(&self, start: usize, count: usize) -> Vec<&Place<'a>> {
        let mut window: Vec<&Place<'a>> = Vec::with_capacity(count);
        let mut taken: Vec<&ServerEntry> = Vec::with_capacity(count);
        while window.len() < count {
            let mut best: Option<([usize; 2], &Place<'a>)> = None;
            for place in self.places[start..].iter().chain(&self.places[..start]) {
                if window.iter().any(|w| w.domain == place.domain) {
                    continue;
                }
                let crowding = crowding(place.one, &taken);
                if best.is_none_or(|(least, _)| crowding < least) {
                    best = Some((crowding, place));
                }
                if crowding == [0, 0] || !self.has_levels {
                    break;
                }
            }
            let Some((_, place)) = best else { break };
            window.push(place);
            taken.push(place.one);
        }
        window
    }
}

/// The copysets of a master by their size. They are worked out anew only when the server list, the rings or the master
/// is another.
#[derive(Debug, Default)]
pub struct CopysetCache {
    /// The version of the server list, the rings and the master that these copysets are of.
    of: Option<(u64, u8, ServerId)>,
    by_size: BTreeMap<usize, Copysets>,
}

impl CopysetCache {
    /// None if the cluster does not place by copysets.
    pub fn of(&mut self, view: &View, replicas: usize, local_allowed: bool) -> Option<&Copysets> {
        let ReplicaPlacement::Copysets { rings } = view.placement else {
            self.by_size.clear();
            self.of = None;
            return None;
        };
        let of = Some((view.list.version(), rings, view.me));
        if self.of != of {
            self.by_size.clear();
            self.of = of;
        }
        Some(
            self.by_size
                .entry(replicas)
                .or_insert_with(|| Copysets::new(view, rings, replicas, local_allowed)),
        )
    }
}
