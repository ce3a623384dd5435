//! Which object an operation is about.
//!
//! Objects have numbers. Those that were written before the run are the first ones. Each client has the next
//! numbers for its inserts in turn with the other clients, so clients need not agree, and a client chooses
//! among its own new objects only.
//!
//! Invariant: an object that is to be read was written, by the fill or by an insert of this client that has
//! ended.

use super::mix::Distribution;
use super::plan::Load;
use crate::commands::bench::zipf::Zipf;
use ramhold_base::Rng;
use std::collections::BTreeSet;

#[derive(Debug)]
pub struct Choice {
    distribution: Distribution,
    /// Written before the run.
    objects: u64,
    client: u64,
    clients: u64,
    zipf: Zipf,
    /// Has no factor in common with `objects`.
    stride: u64,
    /// Inserts of this client.
    inserts_begun: u64,
    /// The first so many of them have ended.
    inserts_ended: u64,
    /// Further ones that have ended.
    ended_early: BTreeSet<u64>,
}

impl Choice {
    pub fn new(load: &Load, client: u64) -> Choice {
        Choice {
            distribution: load.distribution,
            objects: load.objects,
            client,
            clients: u64::from(load.clients),
            zipf: Zipf::new(load.objects),
            stride: stride(load.objects),
            inserts_begun: 0,
            inserts_ended: 0,
            ended_early: BTreeSet::new(),
        }
    }

    /// An object that is there.
    pub fn existing(&mut self, rng: &mut Rng) -> u64 {
        match self.distribution {
            Distribution::Uniform => {
                let place = rng.below(self.objects + self.inserts_ended);
                self.object(place)
            }
            Distribution::Zipfian => {
                let spread = u128::from(self.zipf.rank(rng)) * u128::from(self.stride);
                (spread % u128::from(self.objects)) as u64
            }
            Distribution::Latest => {
                let newest = self.objects + self.inserts_ended - 1;
                self.object(newest - self.zipf.rank(rng))
            }
        }
    }

    /// So many objects with consecutive numbers that are there, or all if there are fewer: the first one, and how many.
    pub fn existing_run(&mut self, count: u64, rng: &mut Rng) -> (u64, u64) {
        let count = count.min(self.objects);
        let first = self.existing(rng).min(self.objects - count);
        (first, count)
    }

    /// The object of the next insert.
    pub fn new_object(&mut self) -> u64 {
        let insert = self.inserts_begun;
        self.inserts_begun += 1;
        self.object(self.objects + insert)
    }

    /// An insert has ended. One that has failed counts too: the run tells of failures anyway.
    pub fn insert_ended(&mut self, object: u64) {
        self.ended_early.insert((object - self.objects) / self.clients);
        while self.ended_early.remove(&self.inserts_ended) {
            self.inserts_ended += 1;
        }
    }

    /// The object at a place in the order in which this client sees them written.
    fn object(&self, place: u64) -> u64 {
        match place.checked_sub(self.objects) {
            None => place,
            Some(insert) => self.objects + insert * self.clients + self.client,
        }
    }
}

/// Steps of this length visit each of `count` objects once. It is about 0.618 of `count`, so neighbours get far apart.
fn stride(count: u64) -> u64 {
    let golden = ((u128::from(count) * 0x9E37_79B9_7F4A_7C15) >> 64) as u64;
    (golden.max(1)..).find(|stride| common_factor(*stride, count) == 1).expect("a prime is among them")
}

fn common_factor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_factor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::super::mix::Mix;
    use super::*;
    use ramhold_client::TableId;
    use std::collections::BTreeMap;

    fn choice(distribution: Distribution, objects: u64, clients: u16, client: u64) -> Choice {
        let load = Load {
            table: TableId(1),
            clients,
            objects,
            key_bytes: 30,
            value_bytes: 100,
            mix: Mix::reads(50),
            distribution,
            pipeline: 1,
            multi: 1,
            seed: 0,
            rate: None,
        };
        Choice::new(&load, client)
    }

    fn drawn(choice: &mut Choice, count: u32) -> BTreeMap<u64, u32> {
        let mut rng = Rng::new(5);
        let mut counts = BTreeMap::new();
        (0..count).for_each(|_| *counts.entry(choice.existing(&mut rng)).or_default() += 1);
        counts
    }

    #[test]
    fn strides_visit_every_object() {
        for count in [1, 2, 3, 10, 1000, 4096, 99_991] {
            let mut seen: Vec<u64> = (0..count).map(|at| at * stride(count) % count).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..count).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn uniform_is_even_and_zipfian_has_favourites_far_apart() {
        let even = drawn(&mut choice(Distribution::Uniform, 100, 1, 0), 100_000);
        assert_eq!(even.len(), 100);
        assert!(even.values().all(|count| (800..1200).contains(count)), "{even:?}");
        let zipfian = drawn(&mut choice(Distribution::Zipfian, 1000, 1, 0), 100_000);
        let mut favourites: Vec<(u32, u64)> =
            zipfian.iter().map(|(object, count)| (*count, *object)).collect();
        favourites.sort_unstable();
        let [(second, there), (first, here)] = favourites[favourites.len() - 2..] else { unreachable!() };
        assert!(first > 11_000 && second > 5_000, "{first} {second}");
        assert!(here.abs_diff(there) > 100, "{here} {there}");
    }

    #[test]
    fn new_objects_are_chosen_when_they_are_there_and_no_two_clients_have_the_same() {
        let (mut one, mut other) =
            (choice(Distribution::Latest, 10, 2, 0), choice(Distribution::Latest, 10, 2, 1));
        assert_eq!([one.new_object(), one.new_object(), one.new_object()], [10, 12, 14]);
        assert_eq!([other.new_object(), other.new_object()], [11, 13]);
        assert!(drawn(&mut one, 1000).keys().all(|object| *object < 10), "none has ended");
        // Out of order: the first one is not there yet.
        one.insert_ended(12);
        assert!(drawn(&mut one, 1000).keys().all(|object| *object < 10));
        one.insert_ended(10);
        let seen = drawn(&mut one, 1000);
        let newest = seen.iter().max_by_key(|(_, count)| **count).expect("some were chosen");
        assert_eq!(*newest.0, 12, "{seen:?}");
        assert!(seen.contains_key(&10) && !seen.contains_key(&14) && !seen.contains_key(&11), "{seen:?}");
        one.insert_ended(14);
        assert!(drawn(&mut one, 1000).contains_key(&14));
    }

    #[test]
    fn a_run_of_objects_is_within_those_that_are_there() {
        let mut rng = Rng::new(1);
        let mut choice = choice(Distribution::Zipfian, 50, 1, 0);
        for count in (1..=100).cycle().take(10_000) {
            let (first, got) = choice.existing_run(count, &mut rng);
            assert_eq!(got, count.min(50));
            assert!(first + got <= 50);
        }
    }
}
