//! Which backup gets a replica of a segment.
//!
//! Randomisation with refinement (SOSP11 3.2): some candidates at random; for the primary, which a recovery reads, the one
//! that would be done soonest with its share of this log. Failure domains come from labels: `rack`, else `host`, else the
//! server itself. A pure function of a view and chance; it answers "none fits" rather than wait.
//!
//! Invariant: no two replicas of a segment share a failure domain, and none shares the master's unless that is allowed.
//!
//! Not here: what happens to a replica afterwards (replication). Catalogue: D3, C6.

use ramhold_base::{Rng, ServerId};
use ramhold_wire::View;
use ramhold_wire::membership::ServerEntry;
use std::collections::BTreeMap;

/// Candidates drawn for a primary (SOSP11 3.2).
const CANDIDATE_COUNT: usize = 5;

/// What a choice is made for.
#[derive(Debug)]
pub struct Wish<'a> {
    /// Backups that hold, or are to hold, other replicas of the segment.
    pub taken: &'a [ServerId],
    /// Backups that refused lately or are distrusted for this segment.
    pub avoided: &'a [ServerId],
    pub primary: bool,
    /// How many primaries of this log each backup has.
    pub primaries: &'a BTreeMap<ServerId, u32>,
    /// Whether the master's own failure domain may be used (a cluster of one machine).
    pub local_allowed: bool,
}

/// The failure domain of a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Domain<'a> {
    Rack(&'a str),
    Host(&'a str),
    Server(ServerId),
}

pub fn domain(entry: &ServerEntry) -> Domain<'_> {
    let label = |name: &str| entry.labels.iter().find(|l| l.name == name).map(|l| l.value.as_str());
    match (label("rack"), label("host")) {
        (Some(rack), _) => Domain::Rack(rack),
        (None, Some(host)) => Domain::Host(host),
        (None, None) => Domain::Server(entry.id),
    }
}

/// Chooses a backup, or none when none fits.
pub fn choose_backup(view: &View, wish: &Wish<'_>, rng: &mut Rng) -> Option<ServerId> {
    let mut closed: Vec<Domain<'_>> =
        wish.taken.iter().filter_map(|id| view.list.entry(*id)).map(domain).collect();
    if !wish.local_allowed {
        closed.extend(view.list.entry(view.me).map(domain));
    }
    let mut fitting: Vec<&ServerEntry> = view
        .list
        .up()
        .filter(|e| e.backup)
        .filter(|e| !wish.taken.contains(&e.id) && !wish.avoided.contains(&e.id))
        .filter(|e| !closed.contains(&domain(e)))
        .collect();
    if !wish.primary {
        return rng.pick(&fitting).map(|e| e.id);
    }
    // Drawing without replacement: a shuffled prefix.
    let drawn = fitting.len().min(CANDIDATE_COUNT);
    for i in 0..drawn {
        let other = i + rng.below((fitting.len() - i) as u64) as usize;
        fitting.swap(i, other);
    }
    fitting[..drawn].iter().min_by_key(|e| read_time(e, wish.primaries)).map(|e| e.id)
}

/// Expected time to read all primaries of this log there, one more included; any unit.
fn read_time(entry: &ServerEntry, primaries: &BTreeMap<ServerId, u32>) -> u64 {
    let count = u64::from(primaries.get(&entry.id).copied().unwrap_or(0)) + 1;
    count * 1_000_000 / u64::from(entry.read_speed.max(1))
}

/// How many separate failure domains could hold a replica for this server.
pub fn domain_count(view: &View, local_allowed: bool) -> usize {
    let own = view.list.entry(view.me).map(domain);
    let mut domains: Vec<Domain<'_>> = view.list.up().filter(|e| e.backup).map(domain).collect();
    domains.sort_unstable();
    domains.dedup();
    domains.iter().filter(|d| local_allowed || Some(**d) != own).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::DirectoryId;
    use ramhold_wire::control::Address;
    use ramhold_wire::membership::{Label, ServerListUpdate, ServerState};

    fn view(racks: &[&str]) -> View {
        let mut view = View::new("10.0.0.1:1".parse().unwrap());
        view.me = ServerId(1);
        let changed = racks
            .iter()
            .enumerate()
            .map(|(i, rack)| ServerEntry {
                id: ServerId(i as u64 + 1),
                address: Address("10.0.0.1:1".parse().unwrap()),
                labels: if rack.is_empty() {
                    vec![]
                } else {
                    vec![Label { name: "rack".into(), value: (*rack).into() }]
                },
                state: ServerState::Up,
                master: true,
                backup: true,
                read_speed: 100,
                directory: DirectoryId(1),
            })
            .collect();
        view.list.apply(&ServerListUpdate {
            from: 0,
            to: 1,
            changed,
            removed: vec![],
            issued: ServerId(racks.len() as u64),
            time: Default::default(),
            coordinator: None,
        });
        view
    }

    /// C9 of the fault list: never two replicas, nor the master, in one failure domain.
    #[test]
    fn replicas_never_share_a_failure_domain() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let names = ["a", "b", "c", "d"];
            let count = 2 + rng.below(8) as usize;
            let racks: Vec<&str> = (0..count).map(|_| names[rng.below(4) as usize]).collect();
            let view = view(&racks);
            let mut taken = vec![];
            let primaries = BTreeMap::new();
            for i in 0..3 {
                let wish = Wish {
                    taken: &taken,
                    avoided: &[],
                    primary: i == 0,
                    primaries: &primaries,
                    local_allowed: false,
                };
                match choose_backup(&view, &wish, &mut rng) {
                    Some(id) => taken.push(id),
                    None => assert!(taken.len() >= domain_count(&view, false), "seed {seed}"),
                }
            }
            let mut used: Vec<_> =
                taken.iter().chain([&ServerId(1)]).map(|id| domain(view.list.entry(*id).unwrap())).collect();
            used.sort_unstable();
            let before = used.len();
            used.dedup();
            assert_eq!(before, used.len(), "seed {seed}");
        }
    }

    #[test]
    fn primaries_spread_evenly() {
        // D3: refinement keeps the largest share near the mean.
        let view = view(&[""; 21]);
        let mut rng = Rng::new(3);
        let mut primaries = BTreeMap::new();
        for _ in 0..2000 {
            let wish =
                Wish { taken: &[], avoided: &[], primary: true, primaries: &primaries, local_allowed: false };
            let id = choose_backup(&view, &wish, &mut rng).unwrap();
            *primaries.entry(id).or_insert(0) += 1;
        }
        let most = primaries.values().max().unwrap();
        assert!(*most <= 105, "{primaries:?}");
        assert_eq!(primaries.len(), 20);
    }
}
