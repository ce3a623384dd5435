//! The reports of servers about their neighbours: accusations, isolated servers, and outages of the network.
//!
//! Reports are kept as they are told, and count for a short time only: whoever still sees a silence tells it again. A new
//! silence, or a new accusation, goes to the verification, which pings the server itself. Everything else is found out
//! from the reports at hand every now and then.
//!
//! Invariants:
//! - a report counts only for neighbours that its sender pings;
//! - a neighbour accuses a server once, until it has heard it again;
//! - an outage of a link, a path or a switch leads to no recovery;
//! - at most one server that is isolated is being recovered.
//!
//! Not here: verdicts on servers that are silent (`verify`), what explains silences (detector).
//! Protocol: docs/protocols/neighbours.md. Catalogue: H3, H4, F1. Source: RAMCUBE 3.3.

use crate::death::Affected;
use crate::desk::Desk;
use crate::links::Links;
use crate::verify::Verification;
use ramhold_base::limits::{LABEL_BYTES_MAX, LINK_COUNT_MAX};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Level, Peer, ServerId, Status};
use ramhold_detector::causes;
use ramhold_placement::{Network, Wiring};
use ramhold_wire::Header;
use ramhold_wire::control::Empty;
use ramhold_wire::neighbours::{NeighbourReach, NeighbourReport, SilentNeighbour, WATCHED_MAX};
use ramhold_wire::outage::{Outage, OutageKind, StandingOutage};
use ramhold_wire::topology::Topology;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a report counts that is not repeated.
const REPORT_LIFE: Duration = Duration::from_secs(2);
/// A server that its neighbours have not heard for this long, though it answers the coordinator, is isolated.
const ISOLATED_AFTER: Duration = Duration::from_secs(3);
/// The fewest neighbours whose word makes a server isolated.
const WITNESSES_MIN: usize = 2;
/// The first word of the cause with which a server is declared dead that is isolated.
const ISOLATED: &str = "isolated";
/// An outage that has stood for this long is an event.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// How often the reports are looked at while there are any.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// The most outages in a status.
const OUTAGE_COUNT_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Neighbourhoods {
    reports: BTreeMap<ServerId, Told>,
    /// Who pings whom, and the list and topology of which that is.
    wiring: Wiring,
    of: Option<(u64, Topology)>,
    outages: BTreeMap<Outage, Standing>,
    look_at: Instant,
}

/// The last report of a server.
#[derive(Debug)]
struct Told {
    number: u64,
    heard: Instant,
    is_cut_off: bool,
    /// It was not repeated in time, and does not count until it is.
    is_over: bool,
    silent: BTreeMap<ServerId, Silence>,
}

#[derive(Debug)]
struct Silence {
    told: SilentNeighbour,
    lost_since: Option<Instant>,
    /// The reporter has accused the server since it last heard it.
    has_accused: bool,
}

#[derive(Debug)]
struct Standing {
    since: Instant,
    is_told: bool,
}

impl Default for Neighbourhoods {
    fn default() -> Neighbourhoods {
        Neighbourhoods {
            reports: BTreeMap::new(),
            wiring: Wiring::default(),
            of: None,
            outages: BTreeMap::new(),
            look_at: Instant::FAR,
        }
    }
}

impl Neighbourhoods {
    pub(crate) fn on_report(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        (verification, links): (&mut Verification, &Links),
        to: Peer,
        header: &Header,
        message: NeighbourReport,
    ) -> Result<(), Status> {
        let by = header.sender;
        if by.is_none() {
            return Err(Status::NotAllowed);
        }
        if !is_sound(&message) {
            return Err(Status::BadRequest);
        }
        self.follow(desk);
        desk.outbox.reply_with(to, header, &Empty {});
        if self.reports.get(&by).is_some_and(|before| before.number >= message.number) {
            return Ok(());
        }
        let before = self.reports.remove(&by);
        // A report that was not repeated in time begins anew.
        let was_over = before.as_ref().is_some_and(|before| before.is_over);
        let mut silences = before.map(|before| before.silent).unwrap_or_default();
        let mut silent = BTreeMap::new();
        for told in message.silent.into_iter().filter(|told| self.wiring.watches(by, told.server)) {
            let server = told.server;
            let known = silences.remove(&server);
            if known.is_none() {
                verification.on_first_word(now, desk, server, by);
            }
            let has_accused = known.as_ref().is_some_and(|known| known.has_accused);
            let since = known.and_then(|known| known.lost_since).filter(|_| !was_over);
            let is_lost = told.reach == NeighbourReach::Lost || planted(Defect::LinkDownConvicts);
            if is_lost && !has_accused {
                verification.on_accused(now, desk, links, server, by);
            } else if !is_lost {
                verification.withdraw(server, by);
            }
            let has_accused = is_lost || (has_accused && told.reach == NeighbourReach::Unknown);
            let lost_since = is_lost.then(|| since.unwrap_or(now));
            silent.insert(server, Silence { told, lost_since, has_accused });
        }
        silences.keys().for_each(|server| verification.withdraw(*server, by));
        let (number, is_cut_off) = (message.number, message.is_cut_off);
        self.reports.insert(by, Told { number, heard: now, is_cut_off, is_over: false, silent });
        self.look_at = self.look_at.min(now + LOOK_INTERVAL);
        Ok(())
    }

    /// Takes over a new server list.
    fn follow(&mut self, desk: &Desk) {
        if self.follows(desk) {
            return;
        }
        let topology = &desk.state.meta.topology;
        self.of = Some((desk.state.meta.list_version, topology.clone()));
        let network = Network::new(topology, desk.state.all_up().map(|record| &record.entry));
        let racks = Network::new(topology, desk.state.servers.values().map(|record| &record.entry)).racks();
        self.wiring = Wiring::of(&network, desk.state.all_up().map(|record| record.entry.id), racks);
        if !planted(Defect::EvidenceOutlivesServer) {
            self.reports.retain(|by, _| desk.state.is_up(*by));
        }
        for told in self.reports.values_mut() {
            told.silent.retain(|server, _| desk.state.is_up(*server));
        }
    }

    fn follows(&self, desk: &Desk) -> bool {
        let meta = &desk.state.meta;
        self.of.as_ref().is_some_and(|of| (of.0, &of.1) == (meta.list_version, &meta.topology))
    }

    /// A rack may be down though nobody is left who could tell.
    pub(crate) fn wake(&self, desk: &Desk) -> Instant {
        let has_neighbours = desk.state.meta.topology != Topology::Flat;
        if has_neighbours && !self.follows(desk) { Instant::ZERO } else { self.look_at }
    }

    pub(crate) fn advance(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        verification: &mut Verification,
        affected: &mut Affected<'_>,
    ) {
        if now < self.wake(desk) {
            return;
        }
        self.follow(desk);
        for (by, told) in self.reports.iter_mut().filter(|(_, told)| !told.is_over) {
            told.is_over = now.since(told.heard) >= REPORT_LIFE;
            if told.is_over {
                told.silent.keys().for_each(|server| verification.withdraw(*server, *by));
            }
        }
        if !verification.is_starting() {
            self.end_isolated(now, desk, verification, affected);
        }
        self.judge_outages(now, desk, verification);
        let is_quiet =
            self.outages.is_empty() && self.standing_reports().all(|(_, told)| told.silent.is_empty());
        self.look_at = if is_quiet { Instant::FAR } else { now + LOOK_INTERVAL };
    }

    fn standing_reports(&self) -> impl Iterator<Item = (ServerId, &Told)> {
        self.reports.iter().filter(|(_, told)| !told.is_over).map(|(by, told)| (*by, told))
    }

    fn standing_report(&self, by: ServerId) -> Option<&Told> {
        self.reports.get(&by).filter(|told| !told.is_over)
    }

    /// Declares a server dead that answers this coordinator and none of its neighbours: one at a time.
    fn end_isolated(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        verification: &mut Verification,
        affected: &mut Affected<'_>,
    ) {
        if desk.state.recoveries.values().any(|record| !record.done && record.cause.starts_with(ISOLATED)) {
            return;
        }
        let lost: BTreeSet<ServerId> =
            self.standing_reports().flat_map(|(_, told)| told.silent.keys().copied()).collect();
        let is_well = |id: &ServerId| desk.state.is_up(*id) && !verification.suspects.contains_key(id);
        let mut well = lost.into_iter().filter(is_well);
        let Some((server, witnesses)) = well.find_map(|id| Some((id, self.isolated_for(id, now)?))) else {
            return;
        };
        let names: Vec<String> = witnesses.iter().map(ToString::to_string).collect();
        let cause = format!(
            "{ISOLATED}: it answers the coordinator, but for {} s none of its neighbours {}",
            ISOLATED_AFTER.as_secs(),
            names.join(", ")
        );
        verification.declare_crashed(now, desk, affected, server, &cause);
    }

    /// The neighbours that have not heard a server for so long that it is isolated.
    fn isolated_for(&self, server: ServerId, now: Instant) -> Option<Vec<ServerId>> {
        let hears_others = |by: &ServerId| self.standing_report(*by).is_none_or(|told| !told.is_cut_off);
        let witnesses: Vec<ServerId> = self.wiring.watchers(server).filter(hears_others).collect();
        let has_lost = |by: &ServerId| {
            let since = self.standing_report(*by)?.silent.get(&server)?.lost_since?;
            (since + ISOLATED_AFTER <= now).then_some(())
        };
        let least = if planted(Defect::OneWitnessIsolates) { 1 } else { WITNESSES_MIN };
        let is_isolated = witnesses.len() >= least && witnesses.iter().all(|by| has_lost(by).is_some());
        is_isolated.then_some(witnesses)
    }

    /// Finds out what has failed, and tells it when it has stood for a while.
    fn judge_outages(&mut self, now: Instant, desk: &mut Desk, verification: &Verification) {
        let report = |told: &Told| NeighbourReport {
            number: told.number,
            silent: told.silent.values().map(|silence| silence.told.clone()).collect(),
            is_cut_off: told.is_cut_off,
        };
        let reports = self.standing_reports().map(|(by, told)| (by, report(told))).collect();
        let dead = desk.state.servers.values().map(|record| record.entry.id);
        let dead = dead.filter(|id| !desk.state.is_up(*id)).collect();
        let unanswered = verification.unanswered(now).collect();
        let mut found = causes(&self.wiring, &reports, &dead, &unanswered);
        // The death of a server has its own line.
        found.retain(|outage| outage.what != OutageKind::Server);
        for (outage, standing) in self.outages.extract_if(.., |outage, _| !found.contains(outage)) {
            if standing.is_told {
                desk.outbox.report(Level::Info, format!("over: {outage}"));
            }
        }
        for outage in found {
            self.outages.entry(outage).or_insert(Standing { since: now, is_told: false });
        }
        for (outage, standing) in self.outages.iter_mut().filter(|(_, standing)| !standing.is_told) {
            // All servers of a rack were declared dead: there is nothing to wait for.
            standing.is_told = outage.what == OutageKind::Rack || standing.since + SETTLE_TIME <= now;
            if standing.is_told {
                desk.outbox.report(Level::Warn, outage.to_string());
            }
        }
    }

    /// The outages that were told.
    pub(crate) fn standing(&self, now: Instant) -> Option<Vec<StandingOutage>> {
        let told = self.outages.iter().filter(|(_, standing)| standing.is_told).take(OUTAGE_COUNT_MAX);
        let told: Vec<StandingOutage> = told
            .map(|(outage, standing)| StandingOutage {
                outage: outage.clone(),
                millis: crate::clock::millis(now.since(standing.since)),
            })
            .collect();
        Some(told).filter(|told| !told.is_empty())
    }
}

fn is_sound(report: &NeighbourReport) -> bool {
    let is_small = |silent: &SilentNeighbour| {
        silent.links.len() <= LINK_COUNT_MAX && silent.links.iter().all(|name| name.len() <= LABEL_BYTES_MAX)
    };
    let named: BTreeSet<ServerId> = report.silent.iter().map(|silent| silent.server).collect();
    report.silent.len() <= WATCHED_MAX
        && named.len() == report.silent.len()
        && report.silent.iter().all(is_small)
}
