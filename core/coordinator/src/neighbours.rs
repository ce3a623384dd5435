//! What servers tell of their neighbours: accusations, servers that are isolated, and what has failed in the network.
//!
//! Reports are kept as they are told, and for a short time only: whoever still sees a silence tells it again. A new
//! silence, or a new accusation, goes to the verification, which pings the server itself. Everything else is found out
//! from the reports at hand every now and then.
//!
//! Invariants:
//! - a report counts only for neighbours that its sender pings;
//! - an outage of a link, a path or a switch leads to no recovery;
//! - at most one server that is isolated is being recovered.
//!
//! Not here: verdicts on servers that are silent (`verify`), what explains silences (detector).
//! Protocol: docs/protocols/neighbours.md. Catalogue: H3, H4, F1. Source: RAMCUBE 3.3.

use crate::death::Affected;
use crate::desk::Desk;
use crate::verify::Verification;
use ramhold_base::limits::{LABEL_BYTES_MAX, LINK_COUNT_MAX};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Level, Peer, RecoveryId, ServerId, Status};
use ramhold_detector::causes;
use ramhold_placement::Network;
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
    watched: BTreeMap<ServerId, BTreeSet<ServerId>>,
    of: Option<(u64, Topology)>,
    outages: BTreeMap<Outage, Standing>,
    /// The recovery of the last server that was isolated.
    isolated: Option<RecoveryId>,
    look_at: Instant,
}

/// The last report of a server; nothing is silent when it is too old.
#[derive(Debug)]
struct Told {
    number: u64,
    heard: Instant,
    is_cut_off: bool,
    silent: BTreeMap<ServerId, Silence>,
}

#[derive(Debug)]
struct Silence {
    told: SilentNeighbour,
    lost_since: Option<Instant>,
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
            watched: BTreeMap::new(),
            of: None,
            outages: BTreeMap::new(),
            isolated: None,
            look_at: Instant::FAR,
        }
    }
}

impl Neighbourhoods {
    pub(crate) fn on_report(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        verification: &mut Verification,
        to: Peer,
        header: &Header,
        message: NeighbourReport,
    ) -> Result<(), Status> {
        let by = header.sender;
        if by.is_none() {
            return Err(Status::NotAllowed);
        }
        let is_sound = |silent: &SilentNeighbour| {
            silent.links.len() <= LINK_COUNT_MAX
                && silent.links.iter().all(|name| name.len() <= LABEL_BYTES_MAX)
        };
        if message.silent.len() > WATCHED_MAX || !message.silent.iter().all(is_sound) {
            return Err(Status::BadRequest);
        }
        self.follow(desk);
        desk.outbox.reply_with(to, header, &Empty {});
        if self.reports.get(&by).is_some_and(|before| before.number >= message.number) {
            return Ok(());
        }
        let mut silences = self.reports.remove(&by).map(|before| before.silent).unwrap_or_default();
        let is_neighbour = |id: ServerId| self.watched.get(&by).is_some_and(|watched| watched.contains(&id));
        let mut silent = BTreeMap::new();
        for told in message.silent {
            let server = told.server;
            if !is_neighbour(server) {
                continue;
            }
            let known = silences.remove(&server);
            let is_lost = told.reach == NeighbourReach::Lost || planted(Defect::LinkDownConvicts);
            let was_lost = known.as_ref().and_then(|known| known.lost_since);
            match (is_lost, was_lost) {
                (true, None) => verification.on_accused(now, desk, server, by),
                (false, Some(_)) => verification.on_heard_again(server, by),
                (false, None) if known.is_none() => verification.on_first_word(now, desk, server, by),
                _ => {}
            }
            let lost_since = is_lost.then(|| was_lost.unwrap_or(now));
            silent.insert(server, Silence { told, lost_since });
        }
        for server in silences.into_keys() {
            verification.on_heard_again(server, by);
        }
        let told = Told { number: message.number, heard: now, is_cut_off: message.is_cut_off, silent };
        self.reports.insert(by, told);
        self.look_at = self.look_at.min(now + LOOK_INTERVAL);
        Ok(())
    }

    /// Takes over a new server list.
    fn follow(&mut self, desk: &Desk) {
        let (version, topology) = (desk.state.meta.list_version, &desk.state.meta.topology);
        if self.of.as_ref().is_some_and(|of| (of.0, &of.1) == (version, topology)) {
            return;
        }
        self.of = Some((version, topology.clone()));
        let network = Network::new(topology, desk.state.all_up().map(|record| &record.entry));
        let up = desk.state.all_up().map(|record| record.entry.id);
        self.watched = up.map(|id| (id, network.watched(id).into_iter().collect())).collect();
        if !planted(Defect::EvidenceOutlivesServer) {
            self.reports.retain(|by, _| desk.state.is_up(*by));
        }
        for told in self.reports.values_mut() {
            told.silent.retain(|server, _| desk.state.is_up(*server));
        }
    }

    pub(crate) fn wake(&self) -> Instant {
        self.look_at
    }

    pub(crate) fn advance(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        verification: &mut Verification,
        affected: &mut Affected<'_>,
    ) {
        if now < self.look_at {
            return;
        }
        self.follow(desk);
        for told in self.reports.values_mut().filter(|told| now.since(told.heard) >= REPORT_LIFE) {
            told.silent.clear();
            told.is_cut_off = false;
        }
        if !verification.is_starting() {
            self.end_isolated(now, desk, verification, affected);
        }
        self.judge_outages(now, desk, verification);
        let is_quiet = self.outages.is_empty() && self.reports.values().all(|told| told.silent.is_empty());
        self.look_at = if is_quiet { Instant::FAR } else { now + LOOK_INTERVAL };
    }

    /// Declares a server dead that answers this coordinator and none of its neighbours: one at a time.
    fn end_isolated(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        verification: &mut Verification,
        affected: &mut Affected<'_>,
    ) {
        let is_open = |id: &RecoveryId| desk.state.recoveries.get(id).is_some_and(|record| !record.done);
        if self.isolated.as_ref().is_some_and(is_open) {
            return;
        }
        self.isolated = None;
        let lost: BTreeSet<ServerId> =
            self.reports.values().flat_map(|told| told.silent.keys().copied()).collect();
        let is_well = |id: &ServerId| desk.state.is_up(*id) && !verification.suspects.contains_key(id);
        let mut well = lost.into_iter().filter(is_well);
        let Some((server, witnesses)) = well.find_map(|id| Some((id, self.isolated_for(id, now)?))) else {
            return;
        };
        let names: Vec<String> = witnesses.iter().map(ToString::to_string).collect();
        let cause = format!(
            "isolated: it answers the coordinator, but for {} s none of its neighbours {}",
            ISOLATED_AFTER.as_secs(),
            names.join(", ")
        );
        self.isolated = Some(verification.declare_crashed(now, desk, affected, server, &cause));
    }

    /// The neighbours that have not heard a server for so long that it is isolated.
    fn isolated_for(&self, server: ServerId, now: Instant) -> Option<Vec<ServerId>> {
        let by = self.watched.iter().filter(|(_, watched)| watched.contains(&server)).map(|(by, _)| *by);
        let hears_others = |by: &ServerId| self.reports.get(by).is_none_or(|told| !told.is_cut_off);
        let witnesses: Vec<ServerId> = by.filter(hears_others).collect();
        let has_lost = |by: &ServerId| {
            let since = self.reports.get(by)?.silent.get(&server)?.lost_since?;
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
        let reports = self.reports.iter().map(|(by, told)| (*by, report(told))).collect();
        let entries = || desk.state.servers.values().map(|record| &record.entry);
        let mut down: BTreeSet<ServerId> =
            entries().map(|entry| entry.id).filter(|id| !desk.state.is_up(*id)).collect();
        down.extend(verification.unanswered(now));
        let network = Network::new(&desk.state.meta.topology, entries());
        let found = causes(&network, &reports, &down);
        let over: Vec<Outage> =
            self.outages.keys().filter(|outage| !found.contains(*outage)).cloned().collect();
        for outage in over {
            if self.outages.remove(&outage).is_some_and(|standing| standing.is_told) {
                desk.outbox.report(Level::Info, format!("over: {outage}"));
            }
        }
        for outage in found {
            self.outages.entry(outage).or_insert(Standing { since: now, is_told: false });
        }
        // The death of a server has its own line.
        let settled = |(outage, standing): (&Outage, &mut Standing)| {
            let is_due = outage.what == OutageKind::Rack || standing.since + SETTLE_TIME <= now;
            let is_news = is_due && outage.what != OutageKind::Server && !standing.is_told;
            standing.is_told |= is_news;
            is_news.then(|| outage.to_string())
        };
        for text in self.outages.iter_mut().filter_map(settled) {
            desk.outbox.report(Level::Warn, text);
        }
    }

    /// What has failed, as far as it was told.
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
