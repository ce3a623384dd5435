//! A server's sight of its neighbours: who answers, and whether another way leads to who does not.
//!
//! Each neighbour is pinged on the shared link at every beat. One that stays silent is looked for: at its other addresses,
//! and by way of servers that are asked. The machine says whom to ping and to ask, is told what was answered, and makes
//! reports for the coordinator.
//!
//! Invariants:
//! - only an answer of a helper that does not reach a neighbour makes it lost; helpers that are silent say nothing;
//! - a server that hears less than half of its neighbours calls nobody lost;
//! - time in which this process stood still counts against nobody.
//!
//! Not here: messages (node), verdicts (coordinator). Protocol: docs/protocols/neighbours.md. Catalogue: H3, F1.
//! Source: RAMCUBE 3.3.

use ramhold_base::map::FastMap;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, ServerId};
use ramhold_placement::Network;
use ramhold_wire::View;
use ramhold_wire::neighbours::{NeighbourReach, NeighbourReport, SilentNeighbour};
use ramhold_wire::topology::Topology;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// How often each neighbour is pinged.
pub const BEAT_INTERVAL: Duration = Duration::from_millis(50);
/// How long one look for a silent neighbour takes.
pub const LOOK_TIME: Duration = Duration::from_millis(100);
/// How often a neighbour that stays silent is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);
/// Who has not answered for this long may be the one of many: this server itself may be cut off.
const DOUBT_AFTER: Duration = Duration::from_millis(150);
/// A silence that lasts is told again after this time.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// A beat that is late by this much was late because this process stood still.
const STALL: Duration = Duration::from_millis(100);
/// How long a neighbour may be silent while large answers come from it.
const BULK_PATIENCE: Duration = Duration::from_secs(2);
/// The servers that are asked in one look.
const HELPER_COUNT: usize = 2;
/// The servers of each kind that are asked in turn.
const HELPER_CHOICE: usize = 8;

/// The pings and questions of one moment.
#[derive(Debug, Default)]
pub struct Orders {
    pub pings: Vec<(ServerId, SocketAddr)>,
    pub questions: Vec<Question>,
}

/// Helper, do you reach this server?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    pub helper: ServerId,
    pub about: ServerId,
    /// The number of the look.
    pub look: u64,
}

#[derive(Debug)]
struct Beat {
    /// None: the neighbour's first address.
    link: Option<String>,
    address: SocketAddr,
    /// When the first ping was sent that is not answered.
    unanswered: Option<Instant>,
    bulk_until: Instant,
}

impl Beat {
    /// While large answers come from there, it is not known.
    fn is_silent(&self, now: Instant, patience: Duration) -> bool {
        self.unanswered.is_some_and(|since| since + patience <= now) && self.bulk_until <= now
    }
}

/// The search for a neighbour that is silent.
#[derive(Debug)]
struct Look {
    number: u64,
    /// Counts the looks for this neighbour, so that each asks other helpers.
    turn: usize,
    begun: Instant,
    is_open: bool,
    /// A helper has answered that it does not reach the neighbour.
    is_denied: bool,
    /// The result of the last look that is over.
    reach: NeighbourReach,
}

#[derive(Debug)]
struct Neighbour {
    server: ServerId,
    beats: Vec<Beat>,
    /// Its other addresses.
    others: Vec<SocketAddr>,
    /// Servers to be asked about it, the best first.
    helpers: Vec<ServerId>,
    look: Option<Look>,
}

impl Neighbour {
    /// Whether it has not answered lately, whichever way.
    fn is_doubtful(&self, now: Instant) -> bool {
        let found = self.look.as_ref().is_some_and(|look| look.reach == NeighbourReach::Elsewhere);
        !found && self.beats.iter().all(|beat| beat.is_silent(now, DOUBT_AFTER))
    }

    fn is_heard(&self, now: Instant) -> bool {
        self.beats.iter().any(|beat| !beat.is_silent(now, DOUBT_AFTER))
    }
}

#[derive(Debug)]
pub struct Neighbours {
    timeout: Duration,
    /// The list and the topology that the neighbours are of.
    of: Option<(u64, Topology)>,
    watched: Vec<Neighbour>,
    /// Servers ask helpers in different orders.
    offset: usize,
    next_beat: Instant,
    look_count: u64,
    /// The last report, and when it was made.
    told: NeighbourReport,
    told_at: Instant,
}

impl Neighbours {
    /// `timeout`: how long a neighbour may be silent on a link.
    pub fn new(timeout: Duration) -> Neighbours {
        Neighbours {
            timeout,
            of: None,
            watched: Vec::new(),
            offset: 0,
            next_beat: Instant::ZERO,
            look_count: 0,
            told: NeighbourReport::default(),
            told_at: Instant::ZERO,
        }
    }

    pub fn is_on(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Takes over a new server list. Neighbours that are still there keep their state.
    pub fn follow(&mut self, view: &View) {
        let is_known =
            self.of.as_ref().is_some_and(|of| (of.0, &of.1) == (view.list.version(), &view.topology));
        if is_known {
            return;
        }
        self.of = Some((view.list.version(), view.topology.clone()));
        let network = Network::new(&view.topology, view.list.up());
        let mut before: FastMap<ServerId, Neighbour> =
            std::mem::take(&mut self.watched).into_iter().map(|known| (known.server, known)).collect();
        self.offset = usize::try_from(view.me.raw()).unwrap_or_default();
        let own_near: BTreeSet<ServerId> = network.near(view.me).into_iter().collect();
        for server in network.watched(view.me) {
            let Some(entry) = view.list.entry(server) else { continue };
            let shared = network.shared_links(view.me, server);
            let mut beats: Vec<(Option<String>, SocketAddr)> =
                shared.iter().map(|link| (Some(link.name.clone()), link.address.0)).collect();
            if beats.is_empty() {
                beats.push((None, entry.address.0));
            }
            let paths = ramhold_placement::path_order(view, server);
            let mut others: Vec<SocketAddr> = paths.iter().map(|link| link.address.0).collect();
            others.retain(|address| beats.iter().all(|(_, beat)| beat != address));
            // Those near it on another switch come by another way; then its other neighbours, then anybody.
            let near = network.near(server);
            let (common, apart): (Vec<ServerId>, Vec<ServerId>) =
                near.iter().filter(|id| **id != view.me).partition(|id| own_near.contains(id));
            let mut helpers = [self.some_of(apart), self.some_of(common)].concat();
            if helpers.len() < 2 * HELPER_COUNT {
                let up = view.list.up().map(|entry| entry.id);
                let further = up.filter(|id| *id != view.me && *id != server && !near.contains(id));
                helpers.extend(further.take(2 * HELPER_COUNT));
            }
            let mut known = before.remove(&server);
            let mut beat = |(link, address): (Option<String>, SocketAddr)| {
                let known = known.as_mut().map(|known| &mut known.beats);
                let same =
                    |beats: &mut Vec<Beat>| beats.iter().position(|b| b.link == link && b.address == address);
                match known.and_then(|beats| same(beats).map(|at| beats.swap_remove(at))) {
                    Some(beat) => beat,
                    None => Beat { link, address, unanswered: None, bulk_until: Instant::ZERO },
                }
            };
            let beats = beats.into_iter().map(&mut beat).collect();
            let look = known.and_then(|known| known.look);
            self.watched.push(Neighbour { server, beats, others, helpers, look });
        }
    }

    /// At most `HELPER_CHOICE` of these servers, others than other servers would take.
    fn some_of(&self, mut servers: Vec<ServerId>) -> Vec<ServerId> {
        let by = self.offset % servers.len().max(1);
        servers.rotate_left(by);
        servers.truncate(HELPER_CHOICE);
        servers
    }

    /// Sends beats, and begins and ends looks.
    pub fn tick(&mut self, now: Instant) -> Orders {
        let mut orders = Orders::default();
        if !self.is_on() {
            return orders;
        }
        if now.since(self.next_beat) > STALL {
            self.forgive(now);
        }
        if self.next_beat <= now {
            self.next_beat = now + BEAT_INTERVAL;
            for neighbour in &mut self.watched {
                for beat in &mut neighbour.beats {
                    beat.unanswered.get_or_insert(now);
                    orders.pings.push((neighbour.server, beat.address));
                }
            }
        }
        for at in 0..self.watched.len() {
            self.advance(now, at, &mut orders);
        }
        orders
    }

    /// This process stood still, so what was not answered meanwhile counts from now on.
    fn forgive(&mut self, now: Instant) {
        for neighbour in &mut self.watched {
            for beat in &mut neighbour.beats {
                beat.unanswered = beat.unanswered.map(|_| now);
            }
            neighbour.look = None;
        }
    }

    fn advance(&mut self, now: Instant, at: usize, orders: &mut Orders) {
        let timeout = self.timeout;
        let neighbour = &mut self.watched[at];
        if !neighbour.beats.iter().any(|beat| beat.is_silent(now, timeout)) {
            neighbour.look = None;
            return;
        }
        if neighbour.is_heard(now) {
            // Another link that both share works.
            let reach = NeighbourReach::Elsewhere;
            neighbour.look =
                Some(Look { number: 0, turn: 0, begun: now, is_open: false, is_denied: false, reach });
            return;
        }
        let (reach, turn) = match &mut neighbour.look {
            Some(look) if look.is_open => {
                if now < look.begun + LOOK_TIME {
                    return;
                }
                look.is_open = false;
                if look.is_denied {
                    look.reach = NeighbourReach::Lost;
                    return;
                }
                // A lost neighbour stays lost until it is found.
                if look.reach == NeighbourReach::Lost {
                    return;
                }
                look.reach = NeighbourReach::Unknown;
                (look.reach, look.turn + 1)
            }
            Some(look) if now < look.begun + LOOK_INTERVAL => return,
            Some(look) => (look.reach, look.turn + 1),
            None => (NeighbourReach::Unknown, 0),
        };
        self.look_count += 1;
        let look = self.look_count;
        neighbour.look =
            Some(Look { number: look, turn, begun: now, is_open: true, is_denied: false, reach });
        let server = neighbour.server;
        orders.pings.extend(neighbour.others.iter().map(|address| (server, *address)));
        let helpers = neighbour.helpers.clone();
        let asked = self.in_turn(now, &helpers, turn);
        orders.questions.extend(asked.into_iter().map(|helper| Question { helper, about: server, look }));
    }

    /// Helpers in turn, without those that are silent themselves.
    fn in_turn(&self, now: Instant, helpers: &[ServerId], turn: usize) -> Vec<ServerId> {
        let is_silent = |id: &ServerId| self.watched.iter().any(|n| n.server == *id && !n.is_heard(now));
        let fit: Vec<ServerId> = helpers.iter().filter(|id| !is_silent(id)).copied().collect();
        let from = turn * HELPER_COUNT % fit.len().max(1);
        fit.iter().cycle().skip(from).take(HELPER_COUNT.min(fit.len())).copied().collect()
    }

    /// A neighbour has answered a ping at this address.
    pub fn on_pong(&mut self, server: ServerId, address: SocketAddr) {
        let Some(neighbour) = self.watched.iter_mut().find(|n| n.server == server) else { return };
        match neighbour.beats.iter_mut().find(|beat| beat.address == address) {
            Some(beat) => beat.unanswered = None,
            None => neighbour.found(),
        }
    }

    /// A helper has answered.
    pub fn on_helper(&mut self, question: Question, reached: bool) {
        let Some(neighbour) = self.watched.iter_mut().find(|n| n.server == question.about) else { return };
        let Some(look) = neighbour.look.as_mut().filter(|look| look.number == question.look) else { return };
        if reached {
            neighbour.found();
        } else {
            look.is_denied = true;
        }
    }

    /// Large answers may be under way from an address, behind which a pong waits.
    pub fn expect_bulk(&mut self, now: Instant, address: SocketAddr) {
        let beats = self.watched.iter_mut().flat_map(|neighbour| &mut neighbour.beats);
        for beat in beats.filter(|beat| beat.address == address) {
            beat.bulk_until = now + BULK_PATIENCE;
        }
    }

    /// Whether pongs of a neighbour may wait behind large answers.
    pub fn expects_bulk(&self, now: Instant, server: ServerId) -> bool {
        let neighbour = self.watched.iter().find(|neighbour| neighbour.server == server);
        neighbour.is_some_and(|neighbour| neighbour.beats.iter().any(|beat| beat.bulk_until > now))
    }

    pub fn deadline(&self) -> Option<Instant> {
        let look = |neighbour: &Neighbour| {
            let look = neighbour.look.as_ref()?;
            look.is_open.then_some(look.begun + LOOK_TIME)
        };
        let looks = self.watched.iter().filter_map(look);
        self.is_on().then(|| looks.fold(self.next_beat, Instant::min))
    }

    /// The report that is to be sent now, if there is one.
    pub fn report(&mut self, now: Instant) -> Option<NeighbourReport> {
        let doubtful = self.watched.iter().filter(|neighbour| neighbour.is_doubtful(now)).count();
        let mut is_cut_off = 2 * doubtful > self.watched.len() && !planted(Defect::CutOffAccuses);
        let told = |neighbour: &Neighbour| {
            let look = neighbour.look.as_ref()?;
            let silent = neighbour.beats.iter().filter(|beat| beat.is_silent(now, self.timeout));
            let reach = match look.reach {
                NeighbourReach::Lost if is_cut_off => NeighbourReach::Unknown,
                reach => reach,
            };
            let links = silent.filter_map(|beat| beat.link.clone()).collect();
            Some(SilentNeighbour { server: neighbour.server, links, reach })
        };
        let silent: Vec<SilentNeighbour> = self.watched.iter().filter_map(told).collect();
        is_cut_off &= !silent.is_empty();
        let is_new = (&silent, is_cut_off) != (&self.told.silent, self.told.is_cut_off);
        if !is_new && (silent.is_empty() || now < self.told_at + REPORT_INTERVAL) {
            return None;
        }
        self.told = NeighbourReport { number: self.told.number + 1, silent, is_cut_off };
        self.told_at = now;
        Some(self.told.clone())
    }
}

impl Neighbour {
    /// Another way leads to it.
    fn found(&mut self) {
        if let Some(look) = &mut self.look {
            look.reach = NeighbourReach::Elsewhere;
            look.is_open = false;
        }
    }
}

#[cfg(test)]
mod tests;
