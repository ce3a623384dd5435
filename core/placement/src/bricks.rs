//! Which bricks hold a tablet of a quorum table.
//!
//! The bricks of a tablet are in different failure domains. They spread over zones, and then over racks, as far as that
//! goes. Among bricks that spread the tablet equally well, the one that would have the fewest tablets for its weight is
//! chosen, then the one with the most free memory. The choice is a pure function, without chance. It answers "none fits" rather than wait.
//!
//! Invariant: no two bricks of a tablet share a failure domain.
//!
//! Not here: into which tablets a table is cut, and which bricks are there (coordinator). Catalogue: I1, H1.

use crate::domain::{Domain, Rack, domain_of, rack_of, zone_of};
use ramhold_base::ServerId;
use ramhold_wire::membership::Label;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A brick that may hold a tablet.
#[derive(Clone, Copy, Debug)]
pub struct BrickCandidate<'a> {
    pub brick: ServerId,
    pub labels: &'a [Label],
    /// Tablets that it has.
    pub tablets: u32,
    /// Its share of tablets beside the others, from 1.
    pub weight: u16,
    /// Memory of its log that is free.
    pub free_bytes: u64,
}

/// The bricks among which those of each tablet are chosen. Their domains, zones and racks are numbered once, because a
/// table of many tablets compares them often.
#[derive(Debug)]
pub struct BrickChoice {
    bricks: Vec<Place>,
    domains: usize,
}

#[derive(Debug)]
struct Place {
    brick: ServerId,
    domain: usize,
    zone: usize,
    rack: usize,
    tablets: u32,
    weight: u16,
    free_bytes: u64,
}

impl Place {
    /// The tablets for its weight, if it takes one more. Differences of less than a millionth do not count.
    fn load(&self) -> u64 {
        (u64::from(self.tablets) + 1) * LOAD_OF_ONE / u64::from(self.weight.max(1))
    }
}

/// The load of one tablet at a weight of 1.
const LOAD_OF_ONE: u64 = 1 << 24;

/// Numbers of things, in the order in which they were met.
struct Numbers<T>(BTreeMap<T, usize>);

impl<T: Ord> Numbers<T> {
    fn of(&mut self, thing: T) -> usize {
        let next = self.0.len();
        *self.0.entry(thing).or_insert(next)
    }
}

impl BrickChoice {
    pub fn among<'a>(candidates: impl Iterator<Item = BrickCandidate<'a>>) -> BrickChoice {
        let mut domains: Numbers<Domain<'a>> = Numbers(BTreeMap::new());
        let mut zones: Numbers<Option<&str>> = Numbers(BTreeMap::new());
        let mut racks: Numbers<(Option<&str>, Option<Rack<'a>>)> = Numbers(BTreeMap::new());
        let mut place = |candidate: BrickCandidate<'a>| {
            let (zone, rack) = (zone_of(candidate.labels), rack_of(candidate.labels));
            Place {
                brick: candidate.brick,
                domain: domains.of(domain_of(candidate.brick, candidate.labels)),
                zone: zones.of(zone),
                rack: racks.of((zone, rack)),
                tablets: candidate.tablets,
                weight: candidate.weight,
                free_bytes: candidate.free_bytes,
            }
        };
        let bricks = candidates.map(&mut place).collect();
        BrickChoice { bricks, domains: domains.0.len() }
    }

    pub fn brick_count(&self) -> usize {
        self.bricks.len()
    }

    /// The number of different failure domains: the most bricks that a tablet can have.
    pub fn domain_count(&self) -> usize {
        self.domains
    }

    /// The most tablets that one of the bricks has, those included that were chosen for it here.
    pub fn tablets_max(&self) -> u32 {
        self.bricks.iter().map(|place| place.tablets).max().unwrap_or(0)
    }

    /// Chooses the bricks of one tablet, in order of ids, and counts the tablet as theirs. None: they are in fewer failure
    /// domains.
    pub fn choose(&mut self, count: usize) -> Option<Vec<ServerId>> {
        if self.domains < count {
            return None;
        }
        let mut chosen: Vec<usize> = Vec::with_capacity(count);
        while chosen.len() < count {
            let beside = |is_same: &dyn Fn(&Place) -> bool| {
                chosen.iter().filter(|index| is_same(&self.bricks[**index])).count()
            };
            let is_free = |place: &Place| beside(&|other| other.domain == place.domain) == 0;
            let fitting = self.bricks.iter().enumerate().filter(|(_, place)| is_free(place));
            let best = fitting.min_by_key(|(_, place)| {
                let zone = beside(&|other| other.zone == place.zone);
                let rack = beside(&|other| other.rack == place.rack);
                (zone, rack, place.load(), Reverse(place.free_bytes), place.brick)
            });
            let (index, _) = best?;
            chosen.push(index);
        }
        for index in &chosen {
            self.bricks[*index].tablets += 1;
        }
        let mut bricks: Vec<ServerId> = chosen.iter().map(|index| self.bricks[*index].brick).collect();
        bricks.sort_unstable();
        Some(bricks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Vec<Label> {
        pairs.iter().map(|(name, value)| Label { name: (*name).into(), value: (*value).into() }).collect()
    }

    /// Bricks 1, 2, ... with these labels, no tablets and the same memory.
    fn choice(bricks: &[Vec<Label>]) -> BrickChoice {
        let candidate = |(labels, id): (&'_ Vec<Label>, u64)| (ServerId(id), labels.clone());
        let owned: Vec<(ServerId, Vec<Label>)> = bricks.iter().zip(1..).map(candidate).collect();
        let candidates = owned.iter().map(|(brick, labels)| BrickCandidate {
            brick: *brick,
            labels,
            tablets: 0,
            weight: 100,
            free_bytes: 100,
        });
        BrickChoice::among(candidates)
    }

    fn ids(chosen: Option<Vec<ServerId>>) -> Option<Vec<u64>> {
        chosen.map(|bricks| bricks.iter().map(|brick| brick.raw()).collect())
    }

    // I1
    #[test]
    fn bricks_without_labels_are_taken_in_turn() {
        let mut choice = choice(&vec![Vec::new(); 6]);
        assert_eq!(ids(choice.choose(3)), Some(vec![1, 2, 3]));
        assert_eq!(ids(choice.choose(3)), Some(vec![4, 5, 6]));
        assert_eq!(ids(choice.choose(3)), Some(vec![1, 2, 3]));
        assert_eq!(ids(choice.choose(7)), None);
        assert_eq!(choice.tablets_max(), 2, "a choice that found too few counts for nobody");
    }

    // I1, H1
    #[test]
    fn zones_go_before_racks_and_racks_before_load() {
        let of =
            |zone: &str, rack: &str, host: &str| labels(&[("zone", zone), ("rack", rack), ("host", host)]);
        let mut three = choice(&[
            of("a", "1", "a1"),
            of("a", "1", "a2"),
            of("b", "1", "b1"),
            of("b", "2", "b2"),
            of("c", "1", "c1"),
        ]);
        for _ in 0..4 {
            let chosen = ids(three.choose(3)).unwrap();
            assert!(chosen.contains(&5), "one brick of each zone: {chosen:?}");
            assert_eq!(chosen.iter().filter(|id| **id <= 2).count(), 1, "{chosen:?}");
        }
        // In zone a there is one rack, in zone b there are two: four bricks are two of each zone, then of other racks.
        assert_eq!(ids(three.choose(4)).unwrap().len(), 4);
        let mut racks = choice(&[of("a", "1", "x"), of("a", "1", "y"), of("a", "2", "z")]);
        for _ in 0..3 {
            assert!(ids(racks.choose(2)).unwrap().contains(&3), "the other rack, however loaded");
        }
    }

    // I1, D3
    #[test]
    fn no_two_bricks_share_a_host() {
        let host = |name: &str| labels(&[("host", name)]);
        let mut two = choice(&[host("x"), host("x"), host("x"), host("y")]);
        assert_eq!((two.brick_count(), two.domain_count()), (4, 2));
        assert_eq!(ids(two.choose(3)), None);
        assert_eq!(ids(two.choose(2)), Some(vec![1, 4]));
        assert_eq!(ids(two.choose(2)), Some(vec![2, 4]));
    }

    // I1
    #[test]
    fn bricks_hold_tablets_by_their_weights() {
        let weights = [100, 50, 200, 150, 100];
        let candidates = (1..).zip(weights).map(|(id, weight)| BrickCandidate {
            brick: ServerId(id),
            labels: &[],
            tablets: 0,
            weight,
            free_bytes: 100,
        });
        let mut choice = BrickChoice::among(candidates);
        let mut counts = [0_u32; 5];
        for _ in 0..120 {
            for brick in choice.choose(2).unwrap() {
                counts[brick.raw() as usize - 1] += 1;
            }
        }
        // 240 tablets for a weight of 600.
        assert_eq!(counts, [40, 20, 80, 60, 40]);
        // No brick is chosen twice for a tablet, whatever its weight.
        let heavy = [(1, 10_000), (2, 1), (3, 1)];
        let candidates = heavy.into_iter().map(|(id, weight)| BrickCandidate {
            brick: ServerId(id),
            labels: &[],
            tablets: 0,
            weight,
            free_bytes: 100,
        });
        let mut choice = BrickChoice::among(candidates);
        assert_eq!(ids(choice.choose(2)), Some(vec![1, 2]));
        assert_eq!(ids(choice.choose(2)), Some(vec![1, 3]));
    }

    // I1
    #[test]
    fn among_equals_the_most_free_memory_counts() {
        let candidates = [(1, 1, 100), (2, 0, 10), (3, 0, 20), (4, 2, 900)];
        let candidate = |(id, tablets, free_bytes)| BrickCandidate {
            brick: ServerId(id),
            labels: &[],
            tablets,
            weight: 100,
            free_bytes,
        };
        let mut choice = BrickChoice::among(candidates.into_iter().map(candidate));
        assert_eq!(ids(choice.choose(1)), Some(vec![3]));
        assert_eq!(ids(choice.choose(1)), Some(vec![2]));
        assert_eq!(ids(choice.choose(1)), Some(vec![1]));
    }
}
