//! All parts of the coordinator, and the order in which they advance.
//!
//! Each part owns its state and is lent the desk. A fact that one part tells another is passed on here, or is an
//! argument of the call.
//!
//! Not here: which part answers a request (`requests`) or takes an answer (`replies`), the reign (`reign`).

use crate::accept::Acceptance;
use crate::accounts::AccountChanges;
use crate::bricks::Bricks;
use crate::confirmed::Confirmed;
use crate::copies::Copies;
use crate::death::Affected;
use crate::desk::Desk;
use crate::full::{FullDisks, FullStore};
use crate::gone;
use crate::leases::Leases;
use crate::links::Links;
use crate::list::ListHistory;
use crate::neighbours::Neighbourhoods;
use crate::progress::Progress;
use crate::read_leases::ReadLeases;
use crate::recoveries::Recoveries;
use crate::recovery::Surroundings;
use crate::scaling;
use crate::status::Sight;
use crate::verify::Verification;
use crate::weighing::Weighings;
use ramhold_base::{Instant, ServerId, TableId};

#[derive(Default)]
pub(crate) struct Parts {
    /// One per Up server.
    pub links: Links,
    pub copies: Copies,
    pub verification: Verification,
    pub neighbours: Neighbourhoods,
    pub full_disks: FullDisks,
    pub full_store: FullStore,
    pub progress: Progress,
    pub bricks: Bricks,
    pub accounts: AccountChanges,
    pub leases: Leases,
    pub read_leases: ReadLeases,
    pub confirmed: Confirmed,
    pub recoveries: Recoveries,
    /// Tables whose owners are being asked where the bytes lie, before a cut.
    pub weighings: Weighings,
    /// The statement of an operator who does not want to wait for some servers any more.
    pub acceptance: Acceptance,
}

impl Parts {
    /// The state is loaded from these records: each part finds out what is to be done.
    pub fn resume(&mut self, now: Instant, desk: &mut Desk, records: &[(String, Vec<u8>)]) {
        self.copies.resume(desk, records);
        self.leases.resume(now, desk);
        self.read_leases.resume(now);
        self.recoveries.resume(now, desk, &mut self.read_leases);
        self.recoveries.watches.resume(now, desk);
        self.progress.resume(desk);
        self.progress.resume_divisions(desk);
        self.progress.resume_reclassing(desk);
        self.bricks.resume(desk, &mut self.progress);
        gone::resume(desk);
        let up: Vec<ServerId> = desk.state.all_up().map(|s| s.entry.id).collect();
        desk.list = ListHistory::new(desk.state.meta.list_version);
        self.links.resume(now, desk, &up);
        self.verification.resume(now, desk, &up);
    }

    /// Moves all work on: each part compares what is wanted with what is reached, and takes the next step.
    pub fn advance(&mut self, now: Instant, desk: &mut Desk) {
        self.leases.advance(now, desk);
        let (verification, mut affected) = self.verifying();
        verification.advance(now, desk, &mut affected);
        self.advance_neighbours(now, desk);
        self.acceptance.advance(now, desk, &mut self.recoveries);
        self.advance_recoveries(now, desk);
        self.recoveries.watches.advance(now, desk, &self.recoveries.open);
        self.weighings.advance(now, desk, &mut self.leases, &mut self.progress);
        self.bricks.advance(now, desk, &mut self.progress);
        scaling::advance(now, desk, &mut self.bricks);
        self.progress.advance(now, desk, &self.recoveries);
        self.links.advance(now, desk);
        self.copies.advance(now, desk, &mut self.links);
    }

    fn advance_neighbours(&mut self, now: Instant, desk: &mut Desk) {
        let Parts { neighbours, verification, links, read_leases, recoveries, progress, .. } = &mut *self;
        let mut affected = Affected { links, read_leases, recoveries, progress };
        neighbours.advance(now, desk, verification, &mut affected);
    }

    fn advance_recoveries(&mut self, now: Instant, desk: &mut Desk) {
        let around = surroundings(&self.links, &self.progress, &self.verification);
        for table in self.recoveries.advance(now, desk, around) {
            self.progress.want_tablets(desk, table);
        }
    }

    /// The verification, and the other parts that a server's death concerns.
    pub fn verifying(&mut self) -> (&mut Verification, Affected<'_>) {
        let affected = Affected {
            links: &mut self.links,
            read_leases: &mut self.read_leases,
            recoveries: &mut self.recoveries,
            progress: &mut self.progress,
        };
        (&mut self.verification, affected)
    }

    /// When some part has something to do; none: all of them wait for inputs.
    pub fn wake(&self, desk: &Desk) -> Option<Instant> {
        let wakes = [
            self.copies.wake(&self.links),
            self.links.wake(desk),
            self.verification.wake(desk, &self.links),
            self.neighbours.wake(desk),
            self.progress.wake(desk),
            self.recoveries.wake(desk),
            self.recoveries.watches.wake(),
            self.weighings.wake(),
            self.acceptance.wake(),
            self.leases.wake(),
            self.bricks.wake_at,
            self.bricks.scale_at,
        ];
        wakes.into_iter().filter(|at| *at != Instant::FAR).min()
    }

    pub fn sight<'a>(&'a self, desk: &'a Desk) -> Sight<'a> {
        Sight {
            desk,
            links: &self.links,
            copies: &self.copies,
            verification: &self.verification,
            neighbours: &self.neighbours,
            full_disks: &self.full_disks,
            full_store: &self.full_store,
            progress: &self.progress,
            bricks: &self.bricks,
            recoveries: &self.recoveries,
        }
    }

    pub fn check_invariants(&self, desk: &Desk) {
        assert!(self.links.count() == desk.state.all_up().count(), "every Up server has a link, nobody else");
        assert!(
            self.verification.suspects.keys().all(|s| self.links.get(*s).is_some()),
            "only Up servers are suspects"
        );
        let open = desk.state.recoveries.values().filter(|r| !r.done);
        let is_at_work = |id| self.recoveries.open.contains_key(id);
        assert!(open.map(|r| &r.id).all(is_at_work), "every open recovery is at work");
        let is_kept = |id: ServerId| desk.state.servers.get(&id).is_some_and(|s| s.entry.kept);
        let is_quorum = |id: &TableId, dropping| {
            desk.state.quorum_tables.get(id).is_some_and(|table| table.dropping == dropping)
        };
        let Progress { untaken, undropped, .. } = &self.progress;
        assert!(untaken.iter().all(|id| is_quorum(id, false)), "only tables that are there are to be taken");
        assert!(undropped.iter().all(|id| is_quorum(id, true)), "only dropping tables are to be dropped");
        let mut working = self.recoveries.open.keys().filter_map(|id| desk.state.recoveries.get(id));
        assert!(working.all(|r| !r.done || is_kept(r.crashed)), "what is over is at work for others alone");
    }
}

/// The other parts as recoveries look at them.
pub(crate) fn surroundings<'a>(
    links: &'a Links,
    progress: &'a Progress,
    verification: &Verification,
) -> Surroundings<'a> {
    Surroundings { links, progress, is_starting: verification.is_starting() }
}
