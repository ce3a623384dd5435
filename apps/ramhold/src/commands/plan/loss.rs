//! The probability that all copies of some segment are lost together.
//!
//! A segment's copies are its replicas on R backups and the master's own copy in DRAM. Three events destroy
//! them:
//! - a power cut, which takes all DRAM, and after which some servers do not return;
//! - the death of some servers at the same moment, while all others keep their DRAM;
//! - in a year, the deaths of servers one after the other, before the data of the first is replicated again.
//!
//! With scatter, each segment has its own set of R other servers, drawn uniformly; then the formulas are
//! exact. With copysets, the sets are few, and the formula is that of the same number of sets drawn
//! independently. But neighbours in a ring share servers, so the result is slightly too high, by less than
//! the share of servers that fail.
//!
//! With neighbourhoods, the sets are counted, one by one (`network`), with and without the master. In a small network all
//! choices of servers are looked at, so the result is exact; else it is a bound.
//!
//! Numbers are products and logarithms of probabilities, never differences of large numbers. So they keep
//! several exact digits, however small they are and however many servers there are.
//!
//! Not here: failure domains larger than a server (fewer sets, and fewer of them dangerous); decay of data on
//! devices.
//! Sources: SOSP11 4.5; Copysets (ATC 2013) section 3. Catalogue: D4, O4.

use super::network::Sets;

/// Where the replicas of a cluster are.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// More than `replicas`.
    pub servers: u64,
    /// On backups; the copy in DRAM comes on top.
    pub replicas: u64,
    /// Segments of each master.
    pub segments: f64,
    pub spread: Spread,
}

#[allow(clippy::large_enum_variant, reason = "a plan has one, and it is copied a few times")]
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Spread {
    /// Every segment on any R others.
    Scatter,
    /// Within the windows of so many rings of servers.
    Copysets { rings: u8 },
    /// On these sets, which were counted.
    Sets(Sets),
}

impl Layout {
    /// The sets of R servers that hold all replicas of some segment, expected.
    pub fn sets(&self) -> f64 {
        occupied(self.possible_sets(), self.servers as f64 * self.segments)
    }

    /// How many servers hold replicas beside those of a given one; of scatter all, sooner or later.
    pub fn scatter_width(&self) -> u64 {
        let others = self.servers - 1;
        match self.spread {
            Spread::Scatter => others,
            Spread::Copysets { rings } => {
                others.min(u64::from(rings) * scatter_width_of_a_ring(self.replicas))
            }
            Spread::Sets(sets) => sets.scatter_width,
        }
    }

    /// The sets of R servers that may hold all replicas of a segment.
    fn possible_sets(&self) -> f64 {
        let any = choices(self.servers, self.replicas);
        match self.spread {
            Spread::Scatter => any,
            Spread::Copysets { rings } => any.min(f64::from(rings) * self.servers as f64),
            Spread::Sets(sets) => sets.of_backups as f64,
        }
    }

    /// Sets of a given master: those without itself.
    fn possible_sets_of_a_master(&self) -> f64 {
        match self.spread {
            Spread::Scatter | Spread::Copysets { .. } => {
                self.possible_sets() * (self.servers - self.replicas) as f64 / self.servers as f64
            }
            Spread::Sets(sets) => sets.of_masters as f64 / self.servers as f64,
        }
    }

    /// The sets of R + 1 servers that hold all copies of some segment, the one in DRAM among them, expected. None: they
    /// were not counted.
    pub fn sets_with_master(&self) -> Option<f64> {
        match self.spread {
            Spread::Scatter | Spread::Copysets { .. } => None,
            Spread::Sets(sets) => {
                Some(occupied(sets.with_master as f64, self.servers as f64 * self.segments))
            }
        }
    }

    /// The sets that hold all replicas of some segment of a given master, expected.
    fn sets_of_a_master(&self) -> f64 {
        occupied(self.possible_sets_of_a_master(), self.segments)
    }

    /// After a power cut so many servers do not return.
    pub fn after_power_cut(&self, failed: u64) -> f64 {
        match self.spread {
            Spread::Copysets { .. } => {
                at_least_one(self.sets(), all_failed(self.servers, failed, self.replicas))
            }
            Spread::Sets(sets) => {
                let told = self.share(sets, 0, failed);
                told.unwrap_or_else(|| one_of(self.sets(), self.servers, failed, self.replicas))
            }
            Spread::Scatter => {
                // If the master itself does not return, one server fewer of the others does not return.
                let others = self.servers - 1;
                let by_dead = all_failed(others, failed.saturating_sub(1), self.replicas);
                let by_living = all_failed(others, failed, self.replicas);
                let none_of_dead = ln_none(failed as f64 * self.segments, by_dead);
                let none_of_living = ln_none((self.servers - failed) as f64 * self.segments, by_living);
                happens(none_of_dead + none_of_living)
            }
        }
    }

    /// The share of all choices of so many servers that lose something, if it was counted, and there are segments in all
    /// sets.
    fn share(&self, sets: Sets, kind: usize, failed: u64) -> Option<f64> {
        let are_all_used = self.sets() + 0.5 > self.possible_sets();
        sets.shares.filter(|_| are_all_used).map(|shares| shares[kind][failed as usize])
    }

    /// Segments whose replicas are all gone after that, expected.
    pub fn segments_lost(&self, failed: u64) -> f64 {
        let all = self.servers as f64 * self.segments;
        all * all_failed(self.servers, failed, self.replicas)
    }

    /// The probability when `failed` servers die at the same moment and the others keep their DRAM.
    pub fn at_once(&self, failed: u64) -> f64 {
        let Some(masters) = failed.checked_sub(self.replicas).filter(|masters| *masters > 0) else {
            return 0.0;
        };
        match self.spread {
            Spread::Copysets { .. } => {
                // Data is lost if a whole copyset fails and holds a segment of a master that failed too.
                let used = self.sets_of_a_master() / self.possible_sets_of_a_master();
                let by_masters = at_least_one(masters as f64, used);
                let fails = all_failed(self.servers, failed, self.replicas);
                at_least_one(self.possible_sets(), fails * by_masters)
            }
            Spread::Sets(sets) => self.share(sets, 1, failed).unwrap_or_else(|| {
                let sets = self.sets_with_master().expect("they were counted");
                one_of(sets, self.servers, failed, self.replicas + 1)
            }),
            Spread::Scatter => {
                let by_dead = all_failed(self.servers - 1, failed - 1, self.replicas);
                at_least_one(failed as f64 * self.segments, by_dead)
            }
        }
    }

    /// Each server stays away by itself with this probability: the sum over how many do.
    pub fn expected(&self, probability: f64, loss: impl Fn(&Layout, u64) -> f64) -> f64 {
        weights(self.servers, probability).map(|(failed, weight)| weight * loss(self, failed)).sum()
    }

    /// In a year: every server is lost so often, at moments that have nothing to do with each other, and what it had is
    /// whole again after `recovery_years`. Good while a server is rarely away at all.
    ///
    /// All R + 1 copies of a segment are away together when the last of them goes while the others are away.
    pub fn in_a_year(&self, crashes: f64, recovery_years: f64) -> f64 {
        let copies = self.replicas as f64 + 1.0;
        let away = crashes * recovery_years;
        let losses = copies * crashes * away.powf(self.replicas as f64);
        happens(-(self.servers as f64 * self.sets_of_a_master() * losses))
    }
}

/// Other servers in the copysets of one server, per ring.
pub fn scatter_width_of_a_ring(replicas: u64) -> u64 {
    2 * (replicas - 1)
}

/// Ways to choose `size` of `count`.
pub fn choices(count: u64, size: u64) -> f64 {
    (0..size).map(|i| (count - i) as f64 / (i + 1) as f64).product()
}

/// A given set of so many servers is among those of all that failed.
pub fn all_failed(servers: u64, failed: u64, size: u64) -> f64 {
    if failed < size {
        return 0.0;
    }
    (0..size).map(|i| (failed - i) as f64 / (servers - i) as f64).product()
}

/// Among the servers that failed is one of so many different sets of servers. Each of the sets that are among them is
/// taken for one drawn from all sets: exact if the servers that failed are a single set. If there are more, the result is
/// too high, because the sets share servers: by up to a half in a network of sixteen, less in larger ones.
fn one_of(sets: f64, servers: u64, failed: u64, size: u64) -> f64 {
    if failed < size {
        return 0.0;
    }
    at_least_one(choices(failed, size), (sets / choices(servers, size)).min(1.0))
}

/// The logarithm of the probability that none of `count` happens.
fn ln_none(count: f64, probability: f64) -> f64 {
    if count == 0.0 || probability == 0.0 { 0.0 } else { count * (-probability).ln_1p() }
}

pub fn at_least_one(count: f64, probability: f64) -> f64 {
    happens(ln_none(count, probability))
}

/// From the logarithm of the probability that it does not.
fn happens(ln_none: f64) -> f64 {
    // Negating a zero would give "-0".
    0.0 - ln_none.exp_m1()
}

/// The expected number of places that are hit when one of `places` is drawn `count` times.
fn occupied(places: f64, count: f64) -> f64 {
    places * at_least_one(count, 1.0 / places)
}

/// How many of so many fail, each by itself: all numbers with their probabilities.
pub fn weights(servers: u64, probability: f64) -> impl Iterator<Item = (u64, f64)> {
    // The weights are computed from the likeliest number outwards, so that no weight that matters underflows.
    let likeliest = (((servers as f64 + 1.0) * probability) as u64).min(servers);
    let odds = probability / (1.0 - probability);
    let up = std::iter::successors(Some((likeliest, 1.0)), move |(failed, weight)| {
        let next = weight * odds * (servers - failed) as f64 / (failed + 1) as f64;
        (*failed < servers).then_some((failed + 1, next))
    });
    let down = std::iter::successors(Some((likeliest, 1.0)), move |(failed, weight)| {
        let below = failed.checked_sub(1)?;
        Some((below, weight * *failed as f64 / (servers - below) as f64 / odds))
    });
    // If the probability is 0 or 1, the odds are unusable: zero or not finite.
    let is_certain = probability <= 0.0 || probability >= 1.0;
    let all: Vec<(u64, f64)> =
        if is_certain { vec![(likeliest, 1.0)] } else { up.chain(down.skip(1)).collect() };
    let sum: f64 = all.iter().map(|(_, weight)| weight).sum();
    all.into_iter().map(move |(failed, weight)| (failed, weight / sum))
}

#[cfg(test)]
mod tests;
