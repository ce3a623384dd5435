//! The cables of a network of small switches: what leads from one host to another, and what of it has failed.
//!
//! Plane `l + 1` is that of level `l`: what goes to a host's address there enters the host through its switch of that
//! level. On the way it is passed on by other hosts, whose kernels do that as long as they have power. An answer takes
//! the way of its question back.
//!
//! Not here: delays and losses by chance (network). Source: RAMCUBE 2.2.

use ramhold_placement::{Grid, GridLabel, Switch};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug)]
pub struct Cables {
    grid: Grid,
    labels: BTreeMap<usize, GridLabel>,
    /// The hosts on the way from one to another that enters by this level, both ends included.
    routes: BTreeMap<(usize, usize, usize), Vec<usize>>,
    dead_switches: BTreeSet<Switch>,
    /// Host, level, and whether it is the way into the host.
    dead_ports: BTreeSet<(usize, usize, bool)>,
    /// Hosts without power.
    pub dark: BTreeSet<usize>,
}

impl Cables {
    /// Routes are made for these hosts, and do not follow what fails later.
    pub fn new(grid: Grid, places: &[(usize, GridLabel)]) -> Cables {
        let mut routes = BTreeMap::new();
        for (from, _) in places {
            for (to, _) in places.iter().filter(|(to, _)| to != from) {
                for level in 0..grid.level_count() {
                    if let Some(route) = shortest(&grid, places, (*from, *to), level) {
                        routes.insert((*from, *to, level), route);
                    }
                }
            }
        }
        Cables {
            grid,
            labels: places.iter().cloned().collect(),
            routes,
            dead_switches: BTreeSet::new(),
            dead_ports: BTreeSet::new(),
            dark: BTreeSet::new(),
        }
    }

    pub fn level_count(&self) -> usize {
        self.grid.level_count()
    }

    /// The hosts that are connected to a host's switch of a level, itself included.
    pub fn on_switch(&self, host: usize, level: usize) -> Vec<usize> {
        let switch = self.switch(host, level);
        let on_it = |host: &usize| self.switch(*host, level) == switch;
        self.labels.keys().copied().filter(on_it).collect()
    }

    fn switch(&self, host: usize, level: usize) -> Option<Switch> {
        self.labels.get(&host).map(|label| self.grid.switch(label, level))
    }

    /// Ends a switch: nothing passes it any more.
    pub fn cut_switch(&mut self, host: usize, level: usize) {
        self.dead_switches.extend(self.switch(host, level));
    }

    /// Ends the ways into and out of a host on a level, or one of them.
    pub fn cut_port(&mut self, host: usize, level: usize, into: bool, out: bool) {
        self.dead_ports.extend(into.then_some((host, level, true)));
        self.dead_ports.extend(out.then_some((host, level, false)));
    }

    /// Mends all switches and ports.
    pub fn heal(&mut self) {
        self.dead_switches.clear();
        self.dead_ports.clear();
    }

    /// Whether what a caller sends to the address of another host on a level arrives, or the answer to it
    /// (`is_answer`). Hosts without a place have no cables, and are reached.
    pub fn leads(&self, caller: usize, callee: usize, level: usize, is_answer: bool) -> bool {
        if !self.labels.contains_key(&caller) || !self.labels.contains_key(&callee) || caller == callee {
            return true;
        }
        let Some(route) = self.routes.get(&(caller, callee, level)) else { return false };
        let relays = &route[1..route.len() - 1];
        relays.iter().all(|relay| !self.dark.contains(relay))
            && route.windows(2).all(|hop| self.passes(hop[0], hop[1], is_answer))
    }

    fn passes(&self, one: usize, other: usize, is_answer: bool) -> bool {
        let (here, there) = (&self.labels[&one], &self.labels[&other]);
        let Some(level) = here.shared_level(there) else { return false };
        let (sender, receiver) = if is_answer { (other, one) } else { (one, other) };
        !self.dead_switches.contains(&self.grid.switch(here, level))
            && !self.dead_ports.contains(&(sender, level, false))
            && !self.dead_ports.contains(&(receiver, level, true))
    }
}

/// The shortest way from one host to another that enters it by a level, over the hosts that there are.
fn shortest(
    grid: &Grid,
    places: &[(usize, GridLabel)],
    (from, to): (usize, usize),
    level: usize,
) -> Option<Vec<usize>> {
    let labels: BTreeMap<usize, &GridLabel> = places.iter().map(|(host, label)| (*host, label)).collect();
    let at: BTreeMap<&GridLabel, usize> = places.iter().map(|(host, label)| (label, *host)).collect();
    let mut before = BTreeMap::from([(from, from)]);
    let mut next = VecDeque::from([from]);
    while let Some(host) = next.pop_front() {
        if labels[&host].shared_level(labels[&to]) == Some(level) {
            let mut route = vec![to, host];
            while let Some(earlier) =
                before.get(route.last()?).filter(|earlier| Some(*earlier) != route.last())
            {
                route.push(*earlier);
            }
            route.reverse();
            return Some(route);
        }
        let near: Vec<GridLabel> = grid.near(labels[&host]).collect();
        for neighbour in near.iter().filter_map(|label| at.get(label)).filter(|host| **host != to) {
            if !before.contains_key(neighbour) {
                before.insert(*neighbour, host);
                next.push_back(*neighbour);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BCube(4, 1); host `4a + b` is server `ab`.
    fn cables() -> Cables {
        let grid = Grid::new(vec![4, 4]).expect("a grid");
        let label = |host: usize| grid.label(&format!("{}{}", host / 4, host % 4)).expect("a label");
        let places: Vec<(usize, GridLabel)> = (0..16).map(|host| (host, label(host))).collect();
        Cables::new(grid.clone(), &places)
    }

    // H4
    #[test]
    fn a_switch_a_port_and_a_relay_end_what_goes_over_them_alone() {
        let whole = cables();
        let pairs = || (0..16).flat_map(|a| (0..16).filter(move |b| *b != a).map(move |b| (a, b)));
        assert!(pairs().all(|(a, b)| whole.leads(a, b, 0, false) && whole.leads(a, b, 1, true)));
        let mut cables = cables();
        cables.cut_switch(0, 0);
        assert!(!cables.leads(1, 0, 0, false) && cables.leads(1, 0, 1, false));
        assert!(!cables.leads(4, 0, 0, false), "over 4, 5, 1 it enters by the same switch");
        assert!(cables.leads(4, 5, 0, false));
        cables.heal();
        cables.cut_port(0, 0, true, false);
        assert!(!cables.leads(1, 0, 0, false) && cables.leads(0, 1, 0, false));
        assert!(!cables.leads(0, 1, 0, true), "the answer comes into host 0");
        cables.heal();
        // From 1 to 0 by level 1: over 5 and 4.
        cables.dark.insert(5);
        assert!(!cables.leads(1, 0, 1, false) && cables.leads(1, 0, 0, false));
        assert_eq!(cables.on_switch(6, 1), [2, 6, 10, 14]);
    }
}
