//! The search for the tablets of a quorum table among bricks, while no coordinator describes it.
//!
//! A brick describes a table as a whole only if it has all of its tablets. Otherwise it tells its own tablets, and names
//! other bricks; a server only names bricks. The search asks one named process after the other, and puts the tablets
//! together, until they cover all hashes. Bricks whose tablets are known already are asked last.
//!
//! A table is not assembled from parts that contradict each other: of two tablets that overlap, the one with the higher
//! epoch counts, and of two tables with one name the one with the higher id.
//!
//! Invariants:
//! - the tablets that are known do not overlap;
//! - no process is asked twice in one round;
//! - a process that is silent may know the table: only when all have answered twice it is nowhere.
//!
//! Not here: when a process is asked, and how long its answer is waited for (`session::searching`). Protocol:
//! docs/protocols/quorum.md, rule 36. Catalogue: I1, I4.

use crate::operation::WhichTable;
use ramhold_base::KeyHash;
use ramhold_base::hash::covers;
use ramhold_base::limits::{BRICKS_TOLD_MAX, SEARCH_COUNT_MAX, TABLET_COUNT_MAX};
use ramhold_wire::quorum::BrickTablet;
use ramhold_wire::table::{TableDescription, TableHint};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

/// How long a process that was named is waited for in the first round. A process that serves answers at once.
const PATIENCE: Duration = Duration::from_millis(100);
/// The most processes that an error names.
const NAMED_MAX: usize = 16;

#[derive(Default)]
pub struct Search {
    /// The table as it was told first, without its tablets.
    table: Option<TableDescription>,
    tablets: BTreeMap<KeyHash, BrickTablet>,
    /// Whom to ask next: bricks that were named first, then those whose tablets are known.
    first: VecDeque<SocketAddr>,
    last: VecDeque<SocketAddr>,
    /// Everybody who was named in this round.
    named: BTreeSet<SocketAddr>,
    /// Everybody who has answered in this round.
    answered: BTreeSet<SocketAddr>,
    /// Everybody who was asked, in the order of their first questions.
    asked: Vec<SocketAddr>,
    /// Rounds that have ended without success.
    rounds: u32,
    /// All that were named have been asked.
    is_round_over: bool,
}

impl Search {
    /// Takes what a process has told. `from` need not be asked any more.
    pub fn take(&mut self, which: &WhichTable, from: SocketAddr, hint: TableHint) {
        self.name_all(std::iter::empty());
        self.named.insert(from);
        self.answered.insert(from);
        self.note_asked(from);
        if let Some(part) = hint.part {
            self.take_part(which, part);
        }
        self.name_all(hint.bricks.iter().take(BRICKS_TOLD_MAX).map(|address| address.0));
        let places = self.tablets.values().flat_map(|tablet| &tablet.bricks);
        let places: Vec<SocketAddr> = places.map(|place| place.address.0).collect();
        for address in places {
            self.name(address, true);
        }
    }

    /// These processes may know more. Begins a new round if the one before is over.
    pub fn name_all(&mut self, addresses: impl Iterator<Item = SocketAddr>) {
        if std::mem::take(&mut self.is_round_over) {
            self.rounds = self.rounds.saturating_add(1);
            self.named.clear();
            self.answered.clear();
        }
        addresses.for_each(|address| self.name(address, false));
    }

    fn name(&mut self, address: SocketAddr, is_known: bool) {
        if self.named.len() >= SEARCH_COUNT_MAX || !self.named.insert(address) {
            return;
        }
        if is_known { self.last.push_back(address) } else { self.first.push_back(address) }
    }

    fn take_part(&mut self, which: &WhichTable, mut part: TableDescription) {
        let is_meant = match which {
            WhichTable::Name(name) => part.name == *name,
            WhichTable::Id(table) => part.table == *table,
        };
        let Some(options) = part.options.quorum.filter(|_| is_meant) else { return };
        let tablets = part.quorum.take().unwrap_or_default();
        match &self.table {
            Some(known) if known.table > part.table => return,
            Some(known) if known.table == part.table => {
                let told = (part.seed, part.options.slots, part.options.quorum);
                if (known.seed, known.options.slots, known.options.quorum) != told {
                    return;
                }
            }
            _ => {
                self.tablets.clear();
                self.table = Some(part);
            }
        }
        let table = self.table.as_ref().map(|table| table.table).unwrap_or_default();
        for tablet in tablets.into_iter().take(TABLET_COUNT_MAX as usize) {
            if tablet.table == table && tablet.bricks.len() == usize::from(options.bricks) {
                self.take_tablet(tablet);
            }
        }
    }

    fn take_tablet(&mut self, tablet: BrickTablet) {
        let overlaps = |other: &BrickTablet| other.first <= tablet.last && tablet.first <= other.last;
        let replaced: Vec<KeyHash> =
            self.tablets.values().filter(|it| overlaps(it)).map(|it| it.first).collect();
        let is_older = replaced.iter().any(|first| self.tablets[first].epoch >= tablet.epoch);
        if tablet.last < tablet.first || is_older {
            return;
        }
        replaced.iter().for_each(|first| _ = self.tablets.remove(first));
        if self.tablets.len() < TABLET_COUNT_MAX as usize {
            self.tablets.insert(tablet.first, tablet);
        }
    }

    /// Whether somebody is left to be asked in this round.
    pub fn has_next(&self) -> bool {
        !self.first.is_empty() || !self.last.is_empty()
    }

    /// Whether it is of no use to go on: everybody who was named has answered, twice, and nobody knows the table. `all`: they
    /// must be among those.
    pub fn is_in_vain(&self, all: &[SocketAddr]) -> bool {
        let is_asked_again = self.rounds > 0 && !self.has_next();
        let is_answered = |address: &SocketAddr| self.answered.contains(address);
        is_asked_again && !self.has_part() && self.named.iter().chain(all).all(is_answered)
    }

    /// Whom to ask now. `None`: all that were named have been asked.
    pub fn take_next(&mut self) -> Option<SocketAddr> {
        let places = self.tablets.values().flat_map(|tablet| &tablet.bricks);
        let known: BTreeSet<SocketAddr> = places.map(|place| place.address.0).collect();
        while let Some(address) = self.first.pop_front() {
            if !known.contains(&address) {
                self.note_asked(address);
                return Some(address);
            }
            self.last.push_back(address);
        }
        let next = self.last.pop_front();
        next.into_iter().for_each(|address| self.note_asked(address));
        self.is_round_over = next.is_none();
        next
    }

    fn note_asked(&mut self, address: SocketAddr) {
        if self.asked.len() < SEARCH_COUNT_MAX && !self.asked.contains(&address) {
            self.asked.push(address);
        }
    }

    /// How long the answer of a process that was named is waited for.
    pub fn patience(&self) -> Duration {
        PATIENCE * (1 << self.rounds.min(10))
    }

    /// The table, if its tablets are known.
    pub fn whole(&self) -> Option<TableDescription> {
        let ranges = self.tablets.values().map(|tablet| (tablet.first, tablet.last));
        let table = self.table.clone().filter(|_| covers(ranges, (KeyHash(0), KeyHash(u64::MAX))))?;
        let quorum: Vec<BrickTablet> = self.tablets.values().cloned().collect();
        let mut options = table.options;
        options.tablets = u32::try_from(quorum.len()).unwrap_or(u32::MAX);
        Some(TableDescription { options, quorum: Some(quorum), ..table })
    }

    /// Whether some tablets of the table were told.
    pub fn has_part(&self) -> bool {
        !self.tablets.is_empty()
    }

    /// The knowledge, and who was asked, for a human.
    pub fn text(&self) -> String {
        let mut text = match self.tablets.len() {
            0 => "no brick that answered has a tablet of the table".to_owned(),
            count => {
                let covered =
                    self.tablets.values().map(|it| u128::from(it.last.0 - it.first.0) + 1).sum::<u128>();
                let percent = covered * 100 / (u128::from(u64::MAX) + 1);
                let s = if count == 1 { "" } else { "s" };
                format!(
                    "{count} tablet{s} with {percent} % of the hashes found, and no brick that answered has the others"
                )
            }
        };
        let named: Vec<String> = self.asked.iter().take(NAMED_MAX).map(SocketAddr::to_string).collect();
        _ = write!(text, "; asked {}", named.join(", "));
        if self.asked.len() > NAMED_MAX {
            _ = write!(text, " and {} more", self.asked.len() - NAMED_MAX);
        }
        text
    }
}
