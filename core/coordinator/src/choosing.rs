//! Which master gets the next partition of a recovery.
//!
//! The least busy master that has not failed the partition gets it, or where some have more room than others, the one
//! that has most of it left. Two preferences come before that, each as long as some master meets it:
//! - in a cluster with zones or neighbourhoods, masters that have *room*: they have not refused this partition for lack of it, and as far
//!   as they have told, an eighth of their log (or eight segments) stays free beside all that they are given;
//! - masters of the zone, or of the neighbourhood, in which the partition is at *home*. A home may have many partitions and few masters. Beyond
//!   `HOME_SHARES_MAX` times what each master of the cluster would have, partitions go elsewhere.
//!
//! A master that meets both and is busy is waited for.
//!
//! Nothing of this is stored. Not here: which partitions wait (`replaying`), what is begun at all (`room`).
//! Protocol: docs/protocols/recovery.md, 5. Catalogue: F4, F7, H3.

use crate::desk::Desk;
use crate::home::{Home, masters_of};
use crate::plan::{Partition, Plan, Replay};
use crate::recoveries::Recoveries;
use ramhold_base::{RecoveryId, ServerId};
use ramhold_placement::zone;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The masters of a home get at most so many times the partitions that they would get if all masters shared the work:
/// a recovery in its zone takes no longer than so many times as long.
const HOME_SHARES_MAX: u64 = 8;
/// A master of a home may have this many partitions, however few there are.
const HOME_PARTITIONS_MIN: u64 = 8;
/// The part of a master's log that is to stay free, so that cleaning is cheap and writes find room; and the segments, if
/// that is more. In a log of few segments cleaning needs a larger part of it.
const FREE_SHARE: u64 = 8;
const FREE_SEGMENTS: u64 = 8;

/// The work that a master has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Memory that the master has left, where that is what counts.
    left: u64,
    /// Memory that the master has told of, less what it has been given since and what is to stay free.
    room: Option<u64>,
    /// Partitions that the master replays now, of all recoveries.
    partitions: u32,
    /// Partitions that the master replays now, of the recovery in question.
    of_this: u32,
    /// Tablets that the master has.
    tablets: u32,
}

impl Work {
    /// Adds one partition of this recovery, of this many bytes.
    fn take(&mut self, bytes: u64) {
        self.take_beside(bytes);
        self.of_this += 1;
    }

    /// Adds one partition of another recovery. The memory for what is written of it already may be missing twice.
    fn take_beside(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
        self.room = self.room.map(|room| room.saturating_sub(bytes));
        self.partitions += 1;
    }

    fn fits(&self, bytes: u64) -> bool {
        self.room.is_none_or(|room| bytes <= room)
    }
}

/// The masters of a home.
#[derive(Clone, Debug, Default)]
struct Near {
    masters: BTreeSet<ServerId>,
    /// Some of them have more room than others: those with most room go first.
    is_uneven: bool,
    /// How many more of the waiting partitions are not to go elsewhere.
    may_stay: u64,
}

impl Near {
    /// Whether the next waiting partition stays.
    fn take_one(&mut self) -> bool {
        let stays = self.may_stay > 0;
        self.may_stay = self.may_stay.saturating_sub(1);
        stays
    }
}

/// The masters among which one is chosen for each partition of a recovery.
#[derive(Debug)]
pub(crate) struct Choice {
    masters: BTreeMap<ServerId, Work>,
    /// The work below which a master may be given one more partition.
    most: Work,
    /// Masters without room are left out while there are others. A zone dies with all its servers, and then an even share
    /// does not fit everywhere. Where the master with most room goes first anyway, the others get their shares.
    looks_for_room: bool,
    /// For each home that a partition names: the masters there, or in the zone that comes next to it.
    homes: BTreeMap<Home, Near>,
}

impl Choice {
    pub fn for_partition(&mut self, partition: &mut Partition) -> Option<ServerId> {
        let chosen = self.choose(partition)?;
        let bytes = partition.bytes;
        self.masters.entry(chosen).and_modify(|work| work.take(bytes));
        Some(chosen)
    }

    fn choose(&mut self, partition: &mut Partition) -> Option<ServerId> {
        if self.masters.keys().all(|m| partition.avoid.contains(m)) {
            partition.avoid.clear();
        }
        let stays = self.homes.get_mut(&partition.home).is_some_and(Near::take_one);
        let Partition { avoid, lacked_room, bytes, home, .. } = partition;
        let may = |m: &ServerId| !avoid.contains(m);
        let has_room = |m: &ServerId, work: &Work| may(m) && !lacked_room.contains(m) && work.fits(*bytes);
        if let Some(near) = self.homes.get(home).filter(|_| stays) {
            let is_good = |m: &ServerId, work: &Work| near.masters.contains(m) && has_room(m, work);
            let good = || self.masters.iter().filter(|(m, work)| is_good(m, work));
            if good().next().is_some() {
                let free = good().filter(|(_, work)| work.partitions < self.most.partitions);
                let room = |work: &Work| if near.is_uneven { work.room.unwrap_or(0) } else { 0 };
                let best = free.min_by_key(|(m, w)| (Reverse(room(w)), w.partitions, w.tablets, **m));
                return best.map(|(m, _)| *m);
            }
        }
        let is_roomy = self.looks_for_room && self.masters.iter().any(|(m, work)| has_room(m, work));
        let is_free = |m: &ServerId, work: &Work| {
            may(m)
                && (!is_roomy || has_room(m, work))
                && work.partitions < self.most.partitions
                && work.of_this < self.most.of_this
        };
        let free = self.masters.iter().filter(|(m, work)| is_free(m, work));
        free.min_by_key(|(m, w)| (Reverse(w.left), w.partitions, w.tablets, **m)).map(|(m, _)| *m)
    }
}

impl Recoveries {
    /// The masters for the partitions of a recovery, with the work that they have.
    pub(crate) fn choice(&self, desk: &Desk, id: RecoveryId, plan: &Plan) -> Choice {
        let tablets = desk.state.tablets_by_master();
        let (count, master_count) = (plan.partitions.len() as u64, tablets.len().max(1) as u64);
        let share = (plan.partition_bytes() * count).div_ceil(master_count);
        let left = self.uneven_masters(desk, id, share, &Home::Anywhere);
        let has_zones = desk.state.all_up().any(|server| zone(&server.entry).is_some());
        let has_homes = has_zones || desk.config.placement.neighbouring().is_some();
        let looks_for_room = has_homes && left.is_none();
        let most = Work {
            partitions: desk.config.partitions_per_master,
            // No master takes over more than twice as much as if all took the same.
            of_this: left.as_ref().map_or(u32::MAX, |_| (2 * count / master_count).max(1) as u32),
            ..Work::default()
        };
        let left = |master: &ServerId| left.as_ref().and_then(|left| left.get(master)).copied().unwrap_or(0);
        let room = |master: &ServerId| {
            let segments = FREE_SEGMENTS * u64::from(desk.config.segment_bytes);
            let kept = (desk.state.up(*master)?.log_bytes / FREE_SHARE).max(segments);
            Some(self.rooms.reports.get(master)?.log_bytes.saturating_sub(kept))
        };
        let work = |(master, tablets)| {
            (master, Work { left: left(&master), room: room(&master), tablets, ..Work::default() })
        };
        let mut masters: BTreeMap<ServerId, Work> = tablets.into_iter().map(work).collect();
        let others = self.open.iter().filter(|(other, _)| **other != id);
        for other in others.filter_map(|(_, recovery)| recovery.plan.as_ref()) {
            for partition in &other.partitions {
                if let Replay::Running { master, .. } = partition.state {
                    masters.entry(master).and_modify(|work| work.take_beside(partition.bytes));
                }
            }
        }
        for partition in &plan.partitions {
            if let Replay::Running { master, .. } = partition.state {
                masters.entry(master).and_modify(|work| work.take(partition.bytes));
            }
        }
        let homes = self.homes(desk, id, plan, master_count);
        Choice { masters, most, looks_for_room, homes }
    }

    fn homes(&self, desk: &Desk, id: RecoveryId, plan: &Plan, master_count: u64) -> BTreeMap<Home, Near> {
        let mut homes: BTreeMap<Home, Near> = BTreeMap::new();
        let named: BTreeSet<&Home> = plan.partitions.iter().map(|p| &p.home).collect();
        for home in named {
            let tried = masters_of(desk, home, &plan.own_home);
            if *tried == Home::Anywhere {
                continue;
            }
            let there = desk.state.masters().filter(|server| tried.has(desk, server));
            let masters: BTreeSet<ServerId> = there.map(|server| server.entry.id).collect();
            // A recovery counts what its masters are to do and have not done.
            let pending = |plan: &Plan| {
                let own = plan.partitions.iter().filter(|p| p.home == *home);
                let counts = own.filter(|p| match p.state {
                    Replay::Waiting => true,
                    Replay::Running { master, .. } => masters.contains(&master),
                    Replay::Live => false,
                });
                counts.count() as u64
            };
            let plans = || self.open.values().filter_map(|recovery| recovery.plan.as_ref());
            let not_live = |plan: &Plan| {
                plan.partitions.iter().filter(|p| !matches!(p.state, Replay::Live)).count() as u64
            };
            let all: u64 = plans().map(not_live).sum();
            let share = (HOME_SHARES_MAX * all).div_ceil(master_count).max(HOME_PARTITIONS_MIN);
            let most = share * masters.len() as u64;
            let (here, of_home) = (pending(plan), plans().map(pending).sum::<u64>().max(1));
            // Recoveries with the same home give up partitions in proportion.
            let outside = of_home.saturating_sub(most).saturating_mul(here).div_ceil(of_home);
            let waiting = plan.partitions.iter().filter(|p| p.home == *home);
            let waiting = waiting.filter(|p| matches!(p.state, Replay::Waiting)).count() as u64;
            let bytes: u64 = plan.partitions.iter().filter(|p| p.home == *home).map(|p| p.bytes).sum();
            let share = bytes.div_ceil(masters.len().max(1) as u64);
            let is_uneven = self.uneven_masters(desk, id, share, tried).is_some();
            homes
                .insert(home.clone(), Near { masters, is_uneven, may_stay: waiting.saturating_sub(outside) });
        }
        homes
    }
}
