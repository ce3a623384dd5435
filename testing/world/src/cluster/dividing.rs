//! Cuts, joins and moves the tablets of the table that all sessions share, and counts its objects in between.
//! The sessions do this while everything else goes on.
//!
//! The results of these requests are no matter of histories. Histories must be as right as if no session had
//! divided anything. The state at rest is audited: tablets, and counts of objects. A count under way is
//! either refused, or tells of a tablet that begins at the place that was asked for.
//!
//! Rules: docs/protocols/tablets.md. Catalogue: A6, A8, J3.

use ramhold_base::hash::{SLOT_COUNT, first_hash_of};
use ramhold_base::{Effects, Instant, Level, Rng, TableId};
use ramhold_client_core::{Operation, OperationId, Outcome, Reply, Session, TableChange, TableCount};
use ramhold_wire::membership::Durability;
use ramhold_wire::table::Division;

/// The number of places at which all sessions cut and join. They are few, so that the sessions meet.
const PLACES: u16 = 24;

pub struct Dividing {
    /// Asks for a division once in this many occasions; none: never.
    one_in: Option<u64>,
    /// The table's first durability. The table is never altered to a worse one, since the checks accept a
    /// loss only where the first durability allows it.
    durability: Durability,
    replicas: u8,
    /// Whether the table is altered at all, and whether it may get more replicas.
    may_alter: bool,
    may_grow: bool,
    /// The number of zones; 0: there are none.
    zones: u8,
    asked: Option<OperationId>,
    count: Option<(TableCount, OperationId)>,
}

impl Dividing {
    pub fn new(
        rng: &mut Rng,
        durability: Durability,
        replicas: u8,
        may: (bool, bool),
        zones: u8,
    ) -> Dividing {
        let one_in = rng.chance(1, 3).then(|| rng.between(10, 100));
        let (may_alter, may_grow) = may;
        Dividing { one_in, durability, replicas, may_alter, may_grow, zones, asked: None, count: None }
    }

    /// An occasion to ask for the next division.
    pub fn occasion(
        &mut self,
        now: Instant,
        table: TableId,
        session: &mut Session,
        rng: &mut Rng,
        effects: &mut Effects,
    ) {
        if self.asked.is_some() || !self.one_in.is_some_and(|one_in| rng.chance(1, one_in)) {
            return;
        }
        // The beginning of a slot, which suits tables of both kinds.
        let place = |rng: &mut Rng| {
            let slot =
                SLOT_COUNT / PLACES * u16::try_from(rng.between(1, u64::from(PLACES) - 1)).expect("few");
            first_hash_of(slot)
        };
        let division = match rng.below(10) {
            0 => Division::Parts { count: 2 },
            1..=3 => Division::Join { at: None },
            4..=6 => Division::Join { at: Some(place(rng)) },
            _ => Division::Split { at: place(rng) },
        };
        let operation = if rng.chance(1, 4) && self.may_alter {
            let is_synced = self.durability == Durability::Synced || rng.chance(1, 2);
            let durability = Some(if is_synced { Durability::Synced } else { Durability::Buffered });
            let replicas =
                Some((self.replicas + u8::from(rng.chance(1, 2) && self.may_grow)).min(self.replicas.max(3)));
            // In a zone of the run, or in any again.
            let zone = (self.zones > 0).then(|| match rng.below(u64::from(self.zones) + 1) {
                0 => String::new(),
                zone => format!("z{}", zone - 1),
            });
            Operation::AlterTable { table, change: TableChange { durability, replicas, zone } }
        } else {
            Operation::DivideTable { table, division }
        };
        self.asked = Some(session.start(now, operation, effects));
        if self.count.is_none() {
            let count = TableCount::new(table);
            let operation = count.ask().expect("it has just begun");
            self.count = Some((count, session.start(now, operation, effects)));
        }
    }

    /// Whether this was the end of an operation that this module began.
    pub fn take(
        &mut self,
        now: Instant,
        id: OperationId,
        outcome: &Outcome,
        session: &mut Session,
        effects: &mut Effects,
    ) -> bool {
        if self.asked == Some(id) {
            self.asked = None;
            if let Outcome::Done(Reply::TableDivided { .. }) = outcome {
                effects.report(Level::Debug, "mark:division_done");
            }
            if let Outcome::Done(Reply::TableAltered) = outcome {
                effects.report(Level::Debug, "mark:alteration_done");
            }
            return true;
        }
        let Some((mut count, _)) = self.count.filter(|(_, asked)| *asked == id) else { return false };
        self.count = None;
        match outcome {
            Outcome::Done(Reply::Counted { last, objects }) => count.take(*last, *objects),
            Outcome::Refused { status, .. } if count.refused(*status) => {
                effects.report(Level::Debug, "mark:count_began_again");
            }
            Outcome::Done(_) | Outcome::Refused { .. } | Outcome::Unknown { .. } => return true,
        }
        if let Some(operation) = count.ask() {
            self.count = Some((count, session.start(now, operation, effects)));
        }
        true
    }
}
