//! A cluster with a server at each place of a grid: its neighbourhoods, the sets of servers that hold all copies of
//! something, and how far the bytes of writes and of a recovery go.
//!
//! Nothing here is a formula. Servers are put at all places, and the placement's own functions are asked for every
//! master, as the servers of a real cluster ask them. A part of a master's data is with each of its neighbourhoods, all
//! parts alike, with its primaries on all feeders alike.
//!
//! Not here: bytes on each port (ports), the probability of a loss (loss). Protocol: docs/protocols/neighbourhoods.md.
//! Catalogue: D4, H2, H3.

use super::places::{PLACES_MAX, servers};
use super::ports::{Hops, Load, Ports};
use ramhold_base::ServerId;
use ramhold_base::limits::{REPLICA_COUNT_MAX, SEGMENT_BYTES};
use ramhold_placement::{Grid, HeadRoom, Neighbourhood, Neighbourhoods, Network, check_neighbourhoods};
use ramhold_wire::membership::ServerEntry;
use ramhold_wire::topology::Topology;
use ramhold_wire::{Neighbouring, ReplicaPlacement};
use std::collections::{BTreeMap, BTreeSet};

/// The most copies of a segment.
const COPIES_MAX: usize = REPLICA_COUNT_MAX as usize + 1;

/// The consequences of a grid and a placement.
pub struct Survey {
    pub levels: usize,
    /// None: the placement has no neighbourhoods.
    pub neighbourhoods: Option<Employed>,
    /// Servers that recover one dead server, and that have primaries of it.
    pub recoverers: u64,
    pub feeders: u64,
    /// Servers that take replicas of what is recovered.
    pub takers: u64,
    /// Copies of one written byte on other servers.
    pub written: Hops,
    /// Bytes of one recovery, fetched and replicated.
    pub fetched: Hops,
    pub replicated: Hops,
    /// The port with the most bytes of a recovery, and with the most that are fetched.
    pub fullest: Load,
    pub fetching: Load,
}

/// The neighbourhoods of a master, and the sets that follow from them.
pub struct Employed {
    pub count: usize,
    /// As many as the grid has, and as many as there is room for.
    pub by_topology: usize,
    pub by_room: usize,
    pub sets: Sets,
}

/// In networks of at most as many servers, all choices of servers are looked at: a million.
pub const COUNTED_MAX: usize = 20;

/// By the number of servers: the share of all choices of so many servers that have a whole set among them.
pub type Shares = [f64; COUNTED_MAX + 1];

/// The sets of servers that hold all copies of some segment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sets {
    /// Sets of R servers, without the master.
    pub of_backups: u64,
    /// Sets of R + 1 servers.
    pub with_master: u64,
    /// Sets of R servers for each master, summed over all masters.
    pub of_masters: u64,
    /// The servers that share a set of R with a server; of the server with fewest.
    pub scatter_width: u64,
    /// For the sets without the master, and for those with it. None: there are too many servers.
    pub shares: Option<[Shares; 2]>,
}

/// The facts about the cluster beside its network.
#[derive(Clone, Copy, Debug)]
pub struct Servers {
    pub placement: ReplicaPlacement,
    pub replicas: u8,
    /// The size of each log; `live` is the share of it that is live.
    pub log_bytes: u64,
    pub live: f64,
    /// Buffers of a server; none: as much as comes.
    pub buffer_bytes: Option<u64>,
    /// The size of a recovery master's part.
    pub partition_bytes: f64,
}

/// The consequences for these servers, one at each place of a grid.
pub fn survey(topology: &Topology, of: &Servers) -> Result<Survey, String> {
    let grid = Grid::of(topology).ok_or_else(|| {
        format!(
            "--topology {topology} tells nothing of ports; give bcube:N,K or grid:R0,R1,..., or --zones COUNT"
        )
    })?;
    if grid.server_count() > PLACES_MAX {
        return Err(format!(
            "--topology {topology} has {} places; a plan is made for at most {PLACES_MAX}",
            grid.server_count()
        ));
    }
    check_neighbourhoods(topology, of.placement)?;
    let all = servers(topology, &grid);
    let surveyor = Surveyor { of, topology, network: Network::new(topology, all.iter()), all: &all };
    match of.placement {
        ReplicaPlacement::Neighbourhoods { by, most } => surveyor.neighbourhoods(by, usize::from(most)),
        ReplicaPlacement::Scatter | ReplicaPlacement::Copysets { .. } => Ok(surveyor.scattered(&grid)),
        ReplicaPlacement::ZoneLocal => {
            Err("--placement zone-local needs zones; give --zones instead of --topology".to_owned())
        }
    }
}

struct Surveyor<'a> {
    of: &'a Servers,
    topology: &'a Topology,
    network: Network<'a>,
    all: &'a [ServerEntry],
}

/// The server of which a recovery is told: the first one.
const DEAD: ServerId = ServerId(1);

impl Surveyor<'_> {
    fn replicas(&self) -> usize {
        usize::from(self.of.replicas)
    }

    /// The bytes of the dead server's log.
    fn log_bytes(&self) -> f64 {
        self.of.log_bytes as f64
    }

    /// As many of the servers as there are partitions for.
    fn partitions(&self, bytes: f64, servers: usize) -> usize {
        servers.min((bytes / self.of.partition_bytes).ceil().max(1.0) as usize)
    }

    fn others(&self, than: ServerId) -> impl Iterator<Item = ServerId> {
        self.all.iter().map(|server| server.id).filter(move |id| *id != than && *id != DEAD)
    }

    /// Copies, primaries and recovery masters are anywhere.
    fn scattered(&self, grid: &Grid) -> Survey {
        let mut written = Hops::default();
        let copies = self.replicas() as f64 / (self.all.len() - 1) as f64;
        self.others(DEAD).for_each(|other| written.add(&self.network, DEAD, other, copies));
        let others: Vec<ServerId> = self.others(DEAD).collect();
        let masters = self.partitions(self.log_bytes(), others.len());
        let mut ports = Ports::new(&self.network, self.all.len(), DEAD);
        let fetched = self.log_bytes() / masters as f64 / others.len() as f64;
        let anew = self.log_bytes() / masters as f64 * self.of.live * self.replicas() as f64;
        let sent = anew / (others.len() - 1).max(1) as f64;
        let (mut fetches, mut replicas) = (Hops::default(), Hops::default());
        for master in others.iter().take(masters) {
            for other in &others {
                fetches.add(&self.network, *other, *master, fetched);
                ports.carry(*other, *master, fetched);
                if other != master {
                    replicas.add(&self.network, *master, *other, sent);
                }
            }
        }
        let fetching = ports.fullest();
        for master in others.iter().take(masters) {
            others.iter().for_each(|other| ports.carry(*master, *other, sent));
        }
        Survey {
            levels: grid.level_count(),
            neighbourhoods: None,
            recoverers: masters as u64,
            feeders: others.len() as u64,
            takers: others.len() as u64,
            written,
            fetched: fetches,
            replicated: replicas,
            fullest: ports.fullest(),
            fetching,
        }
    }

    fn neighbourhoods(&self, by: Neighbouring, most: usize) -> Result<Survey, String> {
        let buffers = self.of.buffer_bytes.map(|bytes| bytes / u64::from(SEGMENT_BYTES));
        let whole = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let room = HeadRoom::new(buffers.map(whole), whole(self.of.log_bytes / u64::from(SEGMENT_BYTES)));
        let by_room = room.neighbourhoods_max(self.of.replicas);
        let by_topology = Neighbourhoods::new(&self.network, by, DEAD, usize::MAX).iter().count();
        let most = most.min(by_room);
        let dead = Neighbourhoods::new(&self.network, by, DEAD, most);
        self.check_backups(&dead)?;
        let (sets, written) = self.sets(by, most);
        let left = Network::new(self.topology, self.all.iter().filter(|server| server.id != DEAD));
        let mut ports = Ports::new(&self.network, self.all.len(), DEAD);
        let (mut fetched, mut replicated) = (Hops::default(), Hops::default());
        let count = dead.iter().count();
        let mut recovered: BTreeMap<ServerId, f64> = BTreeMap::new();
        for neighbourhood in dead.iter() {
            let bytes = self.log_bytes() / count as f64;
            let masters = self.partitions(bytes, neighbourhood.recoverers.len());
            for master in neighbourhood.recoverers.iter().take(masters) {
                let bytes = bytes / masters as f64;
                *recovered.entry(*master).or_default() += bytes;
                for feeder in &neighbourhood.feeders {
                    let share = bytes / neighbourhood.feeders.len() as f64;
                    fetched.add(&self.network, *feeder, *master, share);
                    ports.carry(*feeder, *master, share);
                }
            }
        }
        let fetching = ports.fullest();
        let feeders: BTreeSet<ServerId> = dead.iter().flat_map(|n| n.feeders.iter().copied()).collect();
        let mut takers = BTreeSet::new();
        for (master, bytes) in &recovered {
            let own = Neighbourhoods::new(&left, by, *master, most);
            self.copies(*master, &own, bytes * self.of.live, &mut |backup, bytes| {
                takers.insert(backup);
                replicated.add(&self.network, *master, backup, bytes);
                ports.carry(*master, backup, bytes);
            });
        }
        Ok(Survey {
            levels: self.network.grid().map_or(1, Grid::level_count),
            neighbourhoods: Some(Employed { count, by_topology, by_room, sets }),
            recoverers: recovered.len() as u64,
            feeders: feeders.len() as u64,
            takers: takers.len() as u64,
            written,
            fetched,
            replicated,
            fullest: ports.fullest(),
            fetching,
        })
    }

    /// Whether R replicas fit on the backups of the neighbourhoods.
    fn check_backups(&self, of: &Neighbourhoods) -> Result<(), String> {
        let (topology, placement, replicas) = (self.topology, self.of.placement, self.replicas());
        let smallest = of.iter().min_by_key(|neighbourhood| neighbourhood.feeders.len());
        let smallest = smallest.and_then(|own| Some((own, *own.feeders.first()?)));
        let Some((own, first)) = smallest else {
            return Err(format!(
                "--placement {placement}: {topology} has no neighbourhoods, because it has one rack only; give a \
                 --topology with two levels or more, or --placement scatter"
            ));
        };
        let backups = 1 + of.further(own, first, usize::MAX).len();
        if backups >= replicas {
            return Ok(());
        }
        let noun = if backups == 1 { "server is" } else { "servers are" };
        Err(format!(
            "--placement {placement}: in {topology} {backups} {noun} on the backup rings of a master, and {replicas} \
             replicas need {replicas}; give --replicas {backups}, a larger --topology, or --placement scatter"
        ))
    }

    /// Tells how many bytes a master sends to each backup for so many that it writes.
    fn copies(
        &self,
        master: ServerId,
        all: &Neighbourhoods,
        bytes: f64,
        tell: &mut impl FnMut(ServerId, f64),
    ) {
        let count = all.iter().count();
        let mut unplaced = if count == 0 { bytes * self.replicas() as f64 } else { 0.0 };
        for (own, primary, share) in primaries(all) {
            let further = all.further(own, primary, self.replicas() - 1);
            tell(primary, share * bytes);
            further.iter().for_each(|backup| tell(*backup, share * bytes));
            unplaced += (self.replicas() - 1 - further.len()) as f64 * share * bytes;
        }
        // While the dead server is away some lack a backup: any other does.
        if unplaced > 0.0 {
            let others = self.others(master).count();
            self.others(master).for_each(|other| tell(other, unplaced / others as f64));
        }
    }

    /// The sets of all masters, and how far a written byte goes on the average.
    fn sets(&self, by: Neighbouring, most: usize) -> (Sets, Hops) {
        let mut of_backups: Vec<[u16; COPIES_MAX]> = Vec::new();
        let mut with_master = Vec::new();
        let mut of_masters = 0;
        let mut written = Hops::default();
        let share = 1.0 / self.all.len() as f64;
        for master in self.all.iter().map(|server| server.id) {
            let all = Neighbourhoods::new(&self.network, by, master, most);
            let begin = of_backups.len();
            for (own, primary, of_primary) in primaries(&all) {
                let mut set = all.further(own, primary, self.replicas() - 1);
                set.push(primary);
                for backup in &set {
                    written.add(&self.network, master, *backup, share * of_primary);
                }
                of_backups.push(packed(&set));
                set.push(master);
                with_master.push(packed(&set));
            }
            of_masters += distinct(&mut of_backups[begin..].to_vec());
        }
        let sets = Sets {
            of_backups: distinct(&mut of_backups),
            with_master: distinct(&mut with_master),
            of_masters,
            scatter_width: scatter_width(&of_backups, self.all.len()),
            shares: (self.all.len() <= COUNTED_MAX)
                .then(|| [&of_backups, &with_master].map(|sets| shares(sets, self.all.len()))),
        };
        (sets, written)
    }
}

/// The servers that have primaries, each with its share of them, and a neighbourhood that it feeds. Where the other replicas
/// depend on the neighbourhood, a server is named once for each.
fn primaries(all: &Neighbourhoods) -> Vec<(&Neighbourhood, ServerId, f64)> {
    let count = all.iter().count() as f64;
    let mut shares: BTreeMap<(usize, ServerId), (&Neighbourhood, f64)> = BTreeMap::new();
    for (number, own) in all.iter().enumerate() {
        let of = if all.is_strict() { number } else { 0 };
        for feeder in &own.feeders {
            let share = &mut shares.entry((of, *feeder)).or_insert((own, 0.0)).1;
            *share += 1.0 / count / own.feeders.len() as f64;
        }
    }
    shares.into_iter().map(|((_, primary), (own, share))| (own, primary, share)).collect()
}

/// A set as a value: ids in order, zeros behind.
fn packed(set: &[ServerId]) -> [u16; COPIES_MAX] {
    let mut packed = [0; COPIES_MAX];
    for (at, server) in packed.iter_mut().zip(set) {
        *at = u16::try_from(server.raw()).expect("ids are at most PLACES_MAX");
    }
    packed[..set.len()].sort_unstable();
    packed
}

/// Leaves each set once, and tells how many there are.
fn distinct(sets: &mut Vec<[u16; COPIES_MAX]>) -> u64 {
    sets.sort_unstable();
    sets.dedup();
    sets.len() as u64
}

/// Looks at all choices of servers. `servers`: at most `COUNTED_MAX`.
fn shares(sets: &[[u16; COPIES_MAX]], servers: usize) -> Shares {
    let mut has_set = vec![false; 1 << servers];
    for set in sets {
        let mask = set.iter().filter(|id| **id > 0).fold(0, |mask, id| mask | 1 << (id - 1));
        has_set[mask] = true;
    }
    for server in 0..servers {
        for choice in (0..has_set.len()).filter(|choice| choice & (1 << server) != 0) {
            has_set[choice] |= has_set[choice ^ (1 << server)];
        }
    }
    let (mut lost, mut all) = ([0u32; COUNTED_MAX + 1], [0u32; COUNTED_MAX + 1]);
    for (choice, has_set) in has_set.iter().enumerate() {
        let count = choice.count_ones() as usize;
        lost[count] += u32::from(*has_set);
        all[count] += 1;
    }
    std::array::from_fn(|count| f64::from(lost[count]) / f64::from(all[count].max(1)))
}

/// The servers that share a set with a server, of the server with fewest.
fn scatter_width(sets: &[[u16; COPIES_MAX]], servers: usize) -> u64 {
    let mut beside: Vec<BTreeSet<u16>> = vec![BTreeSet::new(); servers + 1];
    for set in sets {
        let members = || set.iter().copied().filter(|id| *id > 0);
        for id in members() {
            beside[usize::from(id)].extend(members().filter(|other| *other != id));
        }
    }
    beside[1..].iter().map(|others| others.len() as u64).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(topology: &str, placement: &str, replicas: u8) -> Survey {
        let of = Servers {
            placement: placement.parse().unwrap(),
            replicas,
            log_bytes: 6 << 30,
            live: 0.5,
            buffer_bytes: None,
            partition_bytes: 64e6,
        };
        survey(&topology.parse().unwrap(), &of).unwrap_or_else(|why| panic!("{topology}, {placement}: {why}"))
    }

    const GIB: f64 = (1u64 << 30) as f64;

    fn assert_near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= wanted.abs() * 1e-9, "{found} is not {wanted}");
    }

    // H2, D4: of 560 sets of three, and 1,820 of four.
    #[test]
    fn sets_of_the_worked_example_are_counted() {
        let sets = |replicas| told("bcube:4,1", "multiring", replicas).neighbourhoods.unwrap().sets;
        assert_eq!([2, 3].map(|replicas| sets(replicas).with_master), [104, 76]);
        // Nine primaries each, of which some have the same others behind them.
        assert_eq!(sets(2).of_masters, 16 * 9);
        assert!((16 * 6..16 * 9).contains(&sets(3).of_masters));
        // A single replica is on each of the nine backups, and all servers are backups of somebody.
        assert_eq!((sets(1).of_backups, sets(1).scatter_width), (16, 0));
    }

    /// Each recoverer of 00 gets a sixth of its log from three feeders over the switch that they share.
    // H2
    #[test]
    fn rings_fetch_over_one_hop_only() {
        let rings = told("bcube:4,1", "multiring", 3);
        assert_eq!((rings.recoverers, rings.feeders, rings.levels), (6, 9, 2));
        assert_near(rings.fetched.near, 6.0 * GIB);
        assert_eq!(rings.fetched.far, 0.0);
        assert_near(rings.replicated.near + rings.replicated.far, 3.0 * 3.0 * GIB);
        // All backups are two hops away and in other racks.
        assert_near(rings.written.far, 3.0);
        assert_eq!(rings.written.near, 0.0);
        assert_near(rings.written.on_links, 6.0);
        assert_near(rings.written.other_rack, 3.0);
    }

    /// 00 has six neighbours and nine others, of which two in five share no rack with another one.
    // H3
    #[test]
    fn scattered_bytes_take_all_distances() {
        let scatter = told("bcube:4,1", "scatter", 3);
        assert_near(scatter.written.near, 3.0 * 6.0 / 15.0);
        assert_near(scatter.written.far, 3.0 * 9.0 / 15.0);
        assert_near(scatter.written.other_rack, 3.0 * 12.0 / 15.0);
        assert_eq!((scatter.recoverers, scatter.feeders), (15, 15));
        // One in fifteen reads what it has itself.
        assert_near(scatter.fetched.near + scatter.fetched.far, 6.0 * GIB * 14.0 / 15.0);
        assert!(scatter.fetched.far > scatter.fetched.near);
    }

    /// Three other racks of four recover and feed themselves; nothing that is fetched leaves its rack.
    // H3
    #[test]
    fn racks_fetch_within_themselves() {
        let racks = told("grid:4,4", "rack-local", 3);
        assert_eq!((racks.recoverers, racks.feeders), (12, 12));
        assert_eq!((racks.fetched.other_rack, racks.fetched.far), (0.0, 0.0));
        assert_near(racks.fetched.near, 6.0 * GIB * 3.0 / 4.0);
        assert_eq!(racks.neighbourhoods.unwrap().by_topology, 3);
    }

    /// The design's bound of a recovery that only fetches: six ports receive it.
    // H2
    #[test]
    fn the_fullest_port_has_what_its_recoverer_fetches_and_sends() {
        let rings = told("bcube:4,1", "multiring", 3);
        // A sixth is received on one port; half of it is sent three times on two.
        assert!(rings.fullest.bytes >= GIB, "{:?}", rings.fullest);
        assert!(rings.fullest.bytes < 2.5 * GIB, "{:?}", rings.fullest);
        let nothing_live = Servers {
            placement: "multiring".parse().unwrap(),
            replicas: 3,
            log_bytes: 6 << 30,
            live: 0.0,
            buffer_bytes: None,
            partition_bytes: 64e6,
        };
        let fetching = survey(&"bcube:4,1".parse().unwrap(), &nothing_live).unwrap().fullest;
        assert_near(fetching.bytes, GIB);
        assert!(!fetching.is_sent);
        assert_eq!(fetching, rings.fetching);
    }
}
