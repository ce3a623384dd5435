//! The paths between servers that are on several networks.
//!
//! A server may have further addresses, one for each *link*: the network of that name. Roles address a server by its
//! first address. Here a message between servers gets the address of a link instead: that of the network which both
//! share, and in a grid that of the level on which they share a switch. A path on which nothing comes back for
//! `SILENT_AFTER`, or whose connection is lost, is *silent*. Who waits for answers on it asks again: over the next path.
//! A silent path is tried again and again, and is taken as soon as it answers. Paths over which nothing goes are pinged
//! in turn, beside the pings of the detector.
//!
//! The coordinator and clients are reached, and reach servers, at first addresses, which the servers among themselves
//! do not use while both have links.
//!
//! Invariants:
//! - a server without links pays one comparison for each step;
//! - silence on one path ends only what went over that path, and is no suspicion: the server behind it may be well;
//! - what is `active` is looked at: every path on which something is waited for, and every silent one.
//!
//! Not here: verdicts on links and switches. Protocol: docs/protocols/topology.md, "Paths". Catalogue: H1, H4.
//! Source: RAMCUBE 2.2, 3.3.

use ramhold_base::map::FastMap;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::time::earliest;
use ramhold_base::{Effect, Effects, Instant, Mark, Peer, RpcId, ServerId};
use ramhold_placement::path_order;
use ramhold_wire::frame::peek;
use ramhold_wire::status::SilentLink;
use ramhold_wire::topology::Topology;
use ramhold_wire::{Opcode, View};
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// An unanswered message makes this server ping over the same path after this time. The answer to a message may take
/// longer; the one to a ping does not.
const PROBE_AFTER: Duration = Duration::from_millis(100);
/// A path on which nothing has come for this long, though something is waited for, is silent.
const SILENT_AFTER: Duration = Duration::from_millis(300);
/// The same while records of a dead log, or a replica, are waited for: an answer may be 8 MiB, and nothing is heard before
/// all of it has come.
const BULK_SILENT_AFTER: Duration = Duration::from_secs(2);
/// How often a silent path is tried.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Requests that are not answered within this time are forgotten here. They have deadlines of their own.
const FORGET_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Path {
    /// Never given to another path.
    number: u64,
    link: String,
    address: SocketAddr,
    /// Since when something is waited for, and nothing has come.
    waiting_since: Option<Instant>,
    /// Until then a large answer may be under way.
    bulk_until: Instant,
    /// A ping for that is under way.
    probed: bool,
    silent_since: Option<Instant>,
    retry_at: Instant,
}

impl Path {
    fn is_active(&self) -> bool {
        self.waiting_since.is_some() || self.silent_since.is_some()
    }

    fn silent_at(&self, since: Instant) -> Instant {
        (since + SILENT_AFTER).max(self.bulk_until)
    }

    fn silence(&mut self, now: Instant) {
        self.silent_since.get_or_insert(now);
        self.waiting_since = None;
        self.probed = false;
        self.retry_at = now + RETRY_INTERVAL;
    }
}

#[derive(Debug)]
struct Target {
    first: SocketAddr,
    /// The best one first.
    paths: Vec<Path>,
}

impl Target {
    fn works(&self) -> bool {
        self.paths.iter().any(|path| path.silent_since.is_none())
    }
}

/// A server, and the number of a path to it.
type PathKey = (ServerId, u64);

#[derive(Debug, Default)]
pub(crate) struct Paths {
    /// Whether this server has links.
    is_on: bool,
    /// The list and the topology that the paths are of.
    of: Option<(u64, Topology)>,
    targets: FastMap<ServerId, Target>,
    by_first: FastMap<SocketAddr, ServerId>,
    by_address: FastMap<SocketAddr, PathKey>,
    next_number: u64,
    /// Requests that are under way, and their paths.
    asked: FastMap<RpcId, PathKey>,
    asked_at: VecDeque<(Instant, RpcId)>,
    active: BTreeSet<PathKey>,
    /// Counts the looks at idle paths.
    turn: usize,
}

/// A path that is silent now.
#[derive(Debug)]
pub(crate) struct Silence {
    /// The first address of the server.
    pub first: SocketAddr,
    /// Requests that went over it and are not answered.
    pub calls: Vec<RpcId>,
    /// Another path to the server works.
    pub has_others: bool,
}

/// The news of a step.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub silences: Vec<Silence>,
    /// Servers to be pinged at an address.
    pub probes: Vec<(ServerId, SocketAddr)>,
}

impl Paths {
    pub fn new(has_links: bool) -> Paths {
        Paths { is_on: has_links, ..Paths::default() }
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Takes over the links of a new server list. Paths that are still there keep their state.
    fn look(&mut self, view: &View) {
        let is_known =
            self.of.as_ref().is_some_and(|of| (of.0, &of.1) == (view.list.version(), &view.topology));
        if is_known {
            return;
        }
        self.of = Some((view.list.version(), view.topology.clone()));
        let mut before = std::mem::take(&mut self.targets);
        self.by_first.clear();
        self.by_address.clear();
        for entry in view.list.up().filter(|entry| entry.id != view.me) {
            let mut known = before.remove(&entry.id).map(|target| target.paths).unwrap_or_default();
            let mut paths = Vec::new();
            for link in path_order(view, entry.id) {
                let is_same = |p: &Path| (&p.link, p.address) == (&link.name, link.address.0);
                let path = match known.iter().position(is_same) {
                    Some(at) => known.swap_remove(at),
                    None => self.new_path(&link.name, link.address.0),
                };
                self.by_address.insert(path.address, (entry.id, path.number));
                paths.push(path);
            }
            if !paths.is_empty() {
                // Two lives may have one address: the later one is there.
                self.by_first.insert(entry.address.0, entry.id);
                self.targets.insert(entry.id, Target { first: entry.address.0, paths });
            }
        }
        let has = |key: &PathKey| {
            self.targets.get(&key.0).is_some_and(|target| target.paths.iter().any(|p| p.number == key.1))
        };
        self.asked.retain(|_, key| has(key));
        self.active.retain(has);
    }

    fn new_path(&mut self, link: &str, address: SocketAddr) -> Path {
        self.next_number += 1;
        Path {
            number: self.next_number,
            link: link.to_owned(),
            address,
            waiting_since: None,
            bulk_until: Instant::ZERO,
            probed: false,
            silent_since: None,
            retry_at: Instant::ZERO,
        }
    }

    fn path(&mut self, key: PathKey) -> Option<&mut Path> {
        self.targets.get_mut(&key.0)?.paths.iter_mut().find(|path| path.number == key.1)
    }

    /// Gives the messages of a step their paths.
    pub fn route(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        if !self.is_on {
            return;
        }
        self.look(view);
        let Effects { bytes, list, .. } = effects;
        for effect in list {
            let Effect::Send { to: Peer::Addr(address), frame } = effect else { continue };
            let Some(key) = self.key_for(*address) else { continue };
            let Some(path) = self.path(key) else { continue };
            *address = path.address;
            if let Some((rpc, opcode)) = peek(&bytes[frame.own.clone()]) {
                path.waiting_since.get_or_insert(now);
                if matches!(opcode, Some(Opcode::RecoveryRead | Opcode::ReplicaRead)) {
                    path.bulk_until = now + BULK_SILENT_AFTER;
                }
                self.active.insert(key);
                self.asked.insert(rpc, key);
                self.asked_at.push_back((now, rpc));
            }
        }
        while let Some((at, rpc)) = self.asked_at.front().copied() {
            let is_old = at + FORGET_AFTER <= now;
            if self.asked.contains_key(&rpc) && !is_old {
                break;
            }
            self.asked.remove(&rpc);
            self.asked_at.pop_front();
        }
    }

    /// The path for a message to this address: a server's first address, or that of a path.
    fn key_for(&self, address: SocketAddr) -> Option<PathKey> {
        let Some(server) = self.by_first.get(&address).filter(|_| !planted(Defect::PathsUnused)) else {
            return self.by_address.get(&address).copied();
        };
        let paths = &self.targets.get(server)?.paths;
        let working = paths.iter().find(|path| path.silent_since.is_none()).or_else(|| paths.first())?;
        Some((*server, working.number))
    }

    /// An answer has come from the server that was asked: the path is good. `is_probe`: it is that to a ping, so what was
    /// sent before has arrived and is being worked at.
    /// Returns the silent paths to the same server on which something is still waited for, when this one is back.
    pub fn answered(
        &mut self,
        now: Instant,
        rpc: RpcId,
        is_probe: bool,
        effects: &mut Effects,
    ) -> Vec<Silence> {
        let Some(key) = self.asked.remove(&rpc) else { return Vec::new() };
        let Some(path) = self.path(key) else { return Vec::new() };
        let is_back = path.silent_since.take().is_some();
        path.probed = false;
        path.waiting_since = Some(now).filter(|_| !is_probe);
        if is_probe {
            self.active.remove(&key);
        } else {
            self.active.insert(key);
        }
        if !is_back {
            return Vec::new();
        }
        effects.mark(Mark::PathBack);
        let paths = self.targets.get(&key.0).into_iter().flat_map(|target| &target.paths);
        let silent: Vec<PathKey> =
            paths.filter(|p| p.silent_since.is_some()).map(|p| (key.0, p.number)).collect();
        silent.into_iter().filter_map(|key| self.silent(key)).collect()
    }

    /// An answer has come that is not that of the server that was asked.
    pub fn misled(&mut self, rpc: RpcId) {
        self.asked.remove(&rpc);
    }

    /// A connection to an address is lost. None: it is no path.
    pub fn lost(&mut self, now: Instant, address: SocketAddr) -> Option<Silence> {
        let key = self.by_address.get(&address).copied()?;
        self.path(key)?.silence(now);
        self.active.insert(key);
        self.silent(key)
    }

    /// While no other path works, nothing is ended: the calls stay known until one does.
    fn silent(&mut self, key: PathKey) -> Option<Silence> {
        let target = self.targets.get(&key.0)?;
        let (first, has_others) = (target.first, target.works());
        let mut calls: Vec<RpcId> =
            self.asked.iter().filter(|(_, of)| **of == key).map(|(rpc, _)| *rpc).collect();
        calls.sort_unstable();
        if has_others {
            self.asked.retain(|_, of| *of != key);
        }
        Some(Silence { first, calls, has_others })
    }

    /// Looks for paths that have become silent, and lets silent ones be tried.
    pub fn tick(&mut self, now: Instant, effects: &mut Effects) -> Heard {
        let mut heard = Heard::default();
        for key in self.active.iter().copied().collect::<Vec<_>>() {
            let Some(path) = self.path(key) else { continue };
            match (path.silent_since, path.waiting_since) {
                (Some(_), _) if path.retry_at <= now => {
                    path.retry_at = now + RETRY_INTERVAL;
                    if !planted(Defect::PathNeverTriedAgain) {
                        heard.probes.push((key.0, path.address));
                    }
                }
                (None, Some(since)) if path.silent_at(since) <= now => {
                    path.silence(now);
                    effects.mark(Mark::PathSilent);
                    heard.silences.extend(self.silent(key));
                }
                (None, Some(since)) if since + PROBE_AFTER <= now && !path.probed => {
                    path.probed = true;
                    heard.probes.push((key.0, path.address));
                }
                _ => {
                    if !path.is_active() {
                        self.active.remove(&key);
                    }
                }
            }
        }
        heard
    }

    /// The address of a path to a server that nothing goes over at present. All of them have their turns, so that a path
    /// is known to be silent before it is needed.
    pub fn idle(&mut self, first: SocketAddr) -> Option<SocketAddr> {
        let target = self.targets.get(self.by_first.get(&first)?)?;
        self.turn = self.turn.wrapping_add(1);
        let used = target.paths.iter().position(|path| path.silent_since.is_none())?;
        let index = self.turn % target.paths.len();
        let path = &target.paths[index];
        (index != used && path.silent_since.is_none()).then_some(path.address)
    }

    /// Whether answers of a server may wait behind large ones.
    pub fn expects_bulk(&self, now: Instant, server: ServerId) -> bool {
        let mut paths = self.targets.get(&server).into_iter().flat_map(|target| &target.paths);
        paths.any(|path| path.bulk_until > now)
    }

    pub fn deadline(&self) -> Option<Instant> {
        let due = |key: &PathKey| {
            let path = self.targets.get(&key.0)?.paths.iter().find(|path| path.number == key.1)?;
            match (path.silent_since, path.waiting_since) {
                (Some(_), _) => Some(path.retry_at),
                (None, Some(since)) if path.probed => Some(path.silent_at(since)),
                (None, Some(since)) => Some(since + PROBE_AFTER),
                (None, None) => None,
            }
        };
        self.active.iter().filter_map(due).fold(None, |least, at| earliest(least, Some(at)))
    }

    /// The paths that are silent. None: this server has no links.
    pub fn silent_links(&self, now: Instant) -> Option<Vec<SilentLink>> {
        let of = |(server, target): (&ServerId, &Target)| {
            let silent = target.paths.iter().filter_map(|path| Some((path.link.clone(), path.silent_since?)));
            let told = silent.map(|(link, since)| {
                let millis = u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX);
                SilentLink { server: *server, link, millis }
            });
            told.collect::<Vec<_>>()
        };
        let mut silent: Vec<SilentLink> = self.targets.iter().flat_map(of).collect();
        silent.sort_by(|a, b| (a.server, &a.link).cmp(&(b.server, &b.link)));
        self.is_on.then_some(silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_wire::control::Address;
    use ramhold_wire::membership::{Link, ServerEntry, ServerListUpdate, ServerState};
    use ramhold_wire::status::Ping;
    use ramhold_wire::{Header, request};

    const OTHER: ServerId = ServerId(2);

    fn addr(host: u8, net: u8) -> SocketAddr {
        SocketAddr::from(([10, net, 0, host], 1))
    }

    /// Server 1, which has links on two networks, as server 2 has.
    fn view() -> View {
        let mut view = View::new(addr(9, 0));
        view.me = ServerId(1);
        let link = |host, net| Link { name: format!("net-{net}"), address: Address(addr(host, net)) };
        let entry = |host: u8| ServerEntry {
            id: ServerId(host.into()),
            address: Address(addr(host, 0)),
            labels: vec![],
            state: ServerState::Up,
            master: true,
            backup: true,
            read_speed: 1,
            directory: Default::default(),
            kept: false,
            replicates: false,
            replicates_only: None,
            redis_cluster_port: None,
            links: Some(vec![link(host, 1), link(host, 2)]),
        };
        assert!(view.list.apply(&ServerListUpdate {
            from: 0,
            to: 1,
            changed: vec![entry(1), entry(2)],
            removed: vec![],
            issued: ServerId(9),
            time: Default::default(),
            coordinator: None,
            copyset_rings: None,
            topology: Default::default(),
            placement: None,
            bricks: None,
            accounts: None,
        }));
        view
    }

    struct Rig {
        paths: Paths,
        view: View,
        effects: Effects,
    }

    impl Rig {
        fn new() -> Rig {
            Rig { paths: Paths::new(true), view: view(), effects: Effects::new() }
        }

        /// Sends a request to an address, and returns the one that it goes to.
        fn send(&mut self, millis: u64, rpc: u64, to: SocketAddr) -> SocketAddr {
            self.effects.clear();
            request(&mut self.effects, Peer::Addr(to), &Header::default(), RpcId(rpc), &Ping {});
            self.paths.route(at(millis), &self.view, &mut self.effects);
            match self.effects.list[0] {
                Effect::Send { to: Peer::Addr(address), .. } => address,
                ref other => panic!("{other:?}"),
            }
        }

        fn answer(&mut self, millis: u64, rpc: u64, is_probe: bool) {
            let _ = self.paths.answered(at(millis), RpcId(rpc), is_probe, &mut self.effects);
        }

        /// Ticks whenever the deadline says so, until this time.
        fn run(&mut self, millis: u64) -> Heard {
            let mut all = Heard::default();
            for _ in 0..1000 {
                let Some(due) = self.paths.deadline().filter(|due| *due <= at(millis)) else { return all };
                let heard = self.paths.tick(due, &mut self.effects);
                all.silences.extend(heard.silences);
                all.probes.extend(heard.probes);
            }
            panic!("the deadline does not move: {:?}", self.paths.deadline());
        }
    }

    fn at(millis: u64) -> Instant {
        Instant(1_000_000_000 + millis * 1_000_000)
    }

    // H1: silence on one path ends what went over it, and nothing else.
    #[test]
    fn a_silent_path_ends_its_own_calls_alone() {
        let mut rig = Rig::new();
        assert_eq!(rig.send(0, 1, addr(2, 0)), addr(2, 1));
        assert_eq!(rig.send(0, 2, addr(2, 2)), addr(2, 2), "a ping over a certain path");
        rig.answer(10, 2, true);
        let heard = rig.run(299);
        assert_eq!((heard.silences.len(), heard.probes), (0, vec![(OTHER, addr(2, 1))]), "probed at 100 ms");
        assert_eq!(rig.send(299, 3, addr(2, 0)), addr(2, 1));
        let silence = rig.run(300).silences.pop().expect("it is silent");
        assert_eq!((silence.first, silence.calls.as_slice()), (addr(2, 0), &[RpcId(1), RpcId(3)][..]));
        assert!(silence.has_others);
        assert_eq!(rig.send(301, 4, addr(2, 0)), addr(2, 2));
        // It is tried, and taken again when it answers.
        assert_eq!(rig.run(600).probes, [(OTHER, addr(2, 2)), (OTHER, addr(2, 1))]);
        rig.answer(600, 4, false);
        rig.send(601, 5, addr(2, 1));
        rig.answer(602, 5, true);
        assert_eq!(rig.send(603, 6, addr(2, 0)), addr(2, 1));
    }

    // H1: an answer that takes long leaves nothing behind by which the path is silent later.
    #[test]
    fn a_slow_answer_does_not_make_the_path_silent_later() {
        let mut rig = Rig::new();
        rig.send(0, 1, addr(2, 0));
        rig.run(100);
        rig.send(100, 2, addr(2, 1));
        rig.answer(101, 2, true);
        rig.answer(400, 1, false);
        assert_eq!(rig.run(500).probes, [(OTHER, addr(2, 1))], "whether anything else is under way");
        rig.send(500, 3, addr(2, 1));
        rig.answer(501, 3, true);
        assert!(rig.run(9000).silences.is_empty());
        let mut rig = Rig::new();
        rig.send(0, 1, addr(2, 0));
        rig.answer(90, 1, false);
        rig.send(95, 2, addr(2, 1));
        rig.answer(96, 2, true);
        rig.send(5000, 3, addr(2, 0));
        assert!(rig.run(5299).silences.is_empty());
    }

    // H1, H4
    #[test]
    fn a_lost_connection_silences_its_path_and_the_last_one_is_told_as_such() {
        let mut rig = Rig::new();
        rig.send(0, 1, addr(2, 0));
        let first = rig.paths.lost(at(1), addr(2, 1)).expect("a path");
        assert!(first.has_others && first.calls == [RpcId(1)]);
        rig.send(2, 2, addr(2, 0));
        let last = rig.paths.lost(at(3), addr(2, 2)).expect("a path");
        assert!(!last.has_others && last.calls == [RpcId(2)]);
        assert!(rig.paths.lost(at(4), addr(2, 0)).is_none(), "a first address is no path");
        assert_eq!(rig.send(5, 3, addr(2, 0)), addr(2, 1), "with all silent the first one is used");
        assert_eq!(rig.paths.silent_links(at(1001)).expect("links").len(), 2);
    }

    // H1: requests that went over the last path to fall silent are asked again when another one is back.
    #[test]
    fn calls_of_the_last_silent_path_are_ended_when_another_is_back() {
        let mut rig = Rig::new();
        rig.send(0, 1, addr(2, 0));
        assert!(rig.run(300).silences[0].has_others);
        rig.send(301, 2, addr(2, 0));
        let last = rig.run(601).silences.pop().expect("the other one, too");
        assert!(!last.has_others);
        rig.send(610, 3, addr(2, 1));
        let ended = rig.paths.answered(at(611), RpcId(3), true, &mut rig.effects);
        assert_eq!(ended.len(), 1);
        assert!(ended[0].has_others && ended[0].calls == [RpcId(2)]);
    }

    // H1: somebody else's answer is no sign of life.
    #[test]
    fn an_answer_of_another_server_leaves_the_path_silent() {
        let mut rig = Rig::new();
        rig.send(0, 1, addr(2, 0));
        rig.paths.misled(RpcId(1));
        assert_eq!(rig.run(300).silences.len(), 1);
    }
}
