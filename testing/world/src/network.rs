//! The fate of a frame between two hosts: late, twice, in another order, changed, or lost.
//!
//! Links are directed, so that a partition may cut one way only. Hosts may be on several planes, each a network of its
//! own; a cut between hosts is on all planes, or on one. Chances are per million frames and drawn per seed.
//!
//! Not here: connections, and who is told of their end (world).

use crate::cables::Cables;
use ramhold_base::Rng;
use std::collections::BTreeSet;

pub const MICRO: u64 = 1_000;
pub const MILLI: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

/// Durations in nanoseconds, chances per million frames.
#[derive(Clone, Debug)]
pub struct NetworkOptions {
    pub latency_min: u64,
    pub latency_max: u64,
    /// The longest time for which a frame that is held back by chance is held. Later frames overtake it.
    pub hold_max: u64,
    pub hold_ppm: u32,
    pub loss_ppm: u32,
    pub duplicate_ppm: u32,
    /// The longest time after a frame at which its second copy arrives, if that is longer.
    pub again_max: u64,
    /// One bit flipped.
    pub corrupt_ppm: u32,
    /// The connection breaks under the frame, which may arrive or not.
    pub break_ppm: u32,
    /// About the silence after which a sender believes its connection broken.
    pub silence: u64,
}

impl NetworkOptions {
    /// Nothing goes wrong; a frame takes 20 to 120 microseconds.
    pub fn calm() -> NetworkOptions {
        NetworkOptions {
            latency_min: 20 * MICRO,
            latency_max: 120 * MICRO,
            hold_max: 0,
            hold_ppm: 0,
            loss_ppm: 0,
            duplicate_ppm: 0,
            again_max: 0,
            corrupt_ppm: 0,
            break_ppm: 0,
            silence: SECOND,
        }
    }
}

#[derive(Clone, Copy, Default, Debug)]
struct Link {
    cut: bool,
    clogged_until: u64,
}

/// The fate of one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// The time that it is under way; `None`: it never arrives.
    pub delay: Option<u64>,
    /// A second arrival.
    pub again: Option<u64>,
    pub corrupt: bool,
    pub breaks: bool,
    /// Later frames of the connection may overtake this one.
    pub held: bool,
}

#[derive(Debug)]
pub struct Network {
    pub options: NetworkOptions,
    links: Vec<Vec<Link>>,
    /// Ways that are cut on one plane: plane, from, to.
    cut_ways: BTreeSet<(usize, usize, usize)>,
    /// The switches and cables of the planes; none: each plane is one network to which all are connected.
    pub cables: Option<Cables>,
}

/// A way between two hosts, on the connection that one of them has made.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub plane: usize,
    pub from: usize,
    pub to: usize,
    /// From the one that was called to the one that has made the connection.
    pub is_answer: bool,
}

impl Network {
    pub fn new(options: NetworkOptions) -> Network {
        Network { options, links: Vec::new(), cut_ways: BTreeSet::new(), cables: None }
    }

    pub fn grow(&mut self, hosts: usize) {
        self.links.resize_with(hosts, Vec::new);
        for row in &mut self.links {
            row.resize(hosts, Link::default());
        }
    }

    pub fn is_cut(&self, way: Way) -> bool {
        let Way { plane, from, to, is_answer } = way;
        let (caller, callee) = if is_answer { (to, from) } else { (from, to) };
        self.links[from][to].cut
            || self.cut_ways.contains(&(plane, from, to))
            || self
                .cables
                .as_ref()
                .is_some_and(|cables| plane > 0 && !cables.leads(caller, callee, plane - 1, is_answer))
    }

    /// Cuts on one plane the way from every host of `from` to every host of `to`.
    pub fn cut_plane(&mut self, plane: usize, from: &[usize], to: &[usize]) {
        let ways = from.iter().flat_map(|a| to.iter().map(move |b| (plane, *a, *b)));
        self.cut_ways.extend(ways.filter(|(_, a, b)| a != b));
    }

    /// Cuts the way from every host of `from` to every host of `to`; a host always reaches itself.
    pub fn cut(&mut self, from: &[usize], to: &[usize]) {
        for a in from {
            for b in to.iter().filter(|b| *b != a) {
                self.links[*a][*b].cut = true;
            }
        }
    }

    /// Frames from `from` to `to` sent before `until` arrive after it.
    pub fn clog(&mut self, from: usize, to: usize, until: u64) {
        self.links[from][to].clogged_until = until;
    }

    /// Ends all cuts and clogs.
    pub fn heal(&mut self) {
        for link in self.links.iter_mut().flatten() {
            *link = Link::default();
        }
        self.cut_ways.clear();
        self.cables.iter_mut().for_each(Cables::heal);
    }

    pub fn latency(&self, rng: &mut Rng) -> u64 {
        rng.between(self.options.latency_min, self.options.latency_max)
    }

    pub fn pass(&self, now: u64, way: Way, rng: &mut Rng) -> Passage {
        let options = &self.options;
        let mut chance = |ppm: u32| ppm > 0 && rng.chance(u64::from(ppm), 1_000_000);
        let lost = chance(options.loss_ppm);
        let (held, twice) = (chance(options.hold_ppm), chance(options.duplicate_ppm));
        let (corrupt, breaks) = (chance(options.corrupt_ppm), chance(options.break_ppm));
        let link = self.links[way.from][way.to];
        let clog = link.clogged_until.saturating_sub(now);
        let mut delay = self.latency(rng) + clog;
        if held {
            delay += rng.below(options.hold_max.max(1));
        }
        let again_max = options.hold_max.max(options.again_max);
        let again = twice.then(|| delay + self.latency(rng) + rng.below(again_max.max(1)));
        let is_cut = self.is_cut(way);
        let delay = (!lost && !is_cut).then_some(delay);
        Passage { delay, again: again.filter(|_| !is_cut), corrupt, breaks, held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(plane: usize, from: usize, to: usize) -> Way {
        Way { plane, from, to, is_answer: false }
    }

    #[test]
    fn a_cut_may_go_one_way_and_never_to_oneself() {
        let mut network = Network::new(NetworkOptions::calm());
        network.grow(3);
        network.cut(&[0, 1], &[1, 2]);
        let mut rng = Rng::new(1);
        assert_eq!(network.pass(0, way(0, 0, 1), &mut rng).delay, None);
        assert!(network.pass(0, way(0, 1, 0), &mut rng).delay.is_some());
        assert!(network.pass(0, way(0, 1, 1), &mut rng).delay.is_some());
        network.heal();
        assert!(network.pass(0, way(0, 0, 1), &mut rng).delay.is_some());
    }

    #[test]
    fn a_cut_on_one_plane_leaves_the_others() {
        let mut network = Network::new(NetworkOptions::calm());
        network.grow(2);
        network.cut_plane(1, &[0], &[0, 1]);
        let passes =
            |plane, (from, to)| network.pass(0, way(plane, from, to), &mut Rng::new(1)).delay.is_some();
        assert!(!passes(1, (0, 1)) && passes(1, (1, 0)) && passes(0, (0, 1)) && passes(1, (0, 0)));
        network.heal();
        assert!(network.pass(0, way(1, 0, 1), &mut Rng::new(1)).delay.is_some());
    }

    #[test]
    fn a_clog_holds_frames_until_it_ends() {
        let mut network = Network::new(NetworkOptions::calm());
        network.grow(2);
        network.clog(0, 1, SECOND);
        let delay = network.pass(MILLI, way(0, 0, 1), &mut Rng::new(1)).delay.unwrap();
        assert!(delay >= SECOND - MILLI);
    }
}
