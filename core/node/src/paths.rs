//! The paths between servers that are on several networks.
//!
//! A server may have further addresses, one for each *link*: the network of that name. Roles address a server by its
//! first address. Here a message between servers gets the address of a link instead: that of the network which both
//! share, and in a grid that of the level on which they share a switch. A path on which nothing comes back for
//! `SILENT_AFTER` is *silent*. Who waits for answers on it is told that the connection is lost, and asks again: over the
//! next path. A silent path is tried again and again, and is taken as soon as it answers.
//!
//! The coordinator and clients are reached, and reach servers, at first addresses, which the servers among themselves
//! do not use while both have links.
//!
//! Invariants:
//! - a server without links pays one comparison for each step;
//! - silence on one path is not told as a suspicion: the server behind it may be well.
//!
//! Not here: verdicts on links and switches. Protocol: docs/protocols/topology.md, "Paths". Catalogue: H1, H4.
//! Source: RAMCUBE 2.2, 3.3.

use ramhold_base::map::FastMap;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::time::earliest;
use ramhold_base::{Effect, Effects, Instant, Lost, Mark, Peer, RpcId, ServerId};
use ramhold_placement::path_order;
use ramhold_wire::frame::peek;
use ramhold_wire::status::SilentLink;
use ramhold_wire::{Kind, View};
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// An unanswered message makes this server ping over the same path after this time. The answer to a message may take
/// longer; the one to a ping does not.
const PROBE_AFTER: Duration = Duration::from_millis(100);
/// A path on which nothing has come for this long, though something is waited for, is silent.
const SILENT_AFTER: Duration = Duration::from_millis(300);
/// How often a silent path is tried.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Requests that are not answered within this time are forgotten here. They have deadlines of their own.
const FORGET_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Path {
    link: String,
    address: SocketAddr,
    /// Since when something is waited for, and nothing has come.
    waiting_since: Option<Instant>,
    /// A ping for that is under way.
    probed: bool,
    silent_since: Option<Instant>,
    retry_at: Instant,
}

#[derive(Debug)]
struct Target {
    server: ServerId,
    /// The best one first.
    paths: Vec<Path>,
}

/// The place of a path: the first address of its target, and its number there.
type PathKey = (SocketAddr, usize);

#[derive(Debug, Default)]
pub(crate) struct Paths {
    /// Whether this server has links.
    is_on: bool,
    version: Option<u64>,
    targets: FastMap<SocketAddr, Target>,
    by_address: FastMap<SocketAddr, PathKey>,
    /// Requests that are under way, and their paths.
    asked: FastMap<RpcId, PathKey>,
    asked_at: VecDeque<(Instant, RpcId)>,
    /// Paths on which something is waited for, and silent ones.
    active: BTreeSet<PathKey>,
}

/// What has become known in a step.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// First addresses of servers whose requests are to be sent again.
    pub lost: Vec<SocketAddr>,
    /// Servers to be pinged at an address.
    pub probes: Vec<(ServerId, SocketAddr)>,
}

impl Paths {
    pub fn new(has_links: bool) -> Paths {
        Paths { is_on: has_links, ..Paths::default() }
    }

    /// Takes over the links of a new server list. What was known of paths that are still there stays known.
    fn look(&mut self, view: &View) {
        if self.version == Some(view.list.version()) {
            return;
        }
        self.version = Some(view.list.version());
        let mut before = std::mem::take(&mut self.targets);
        self.by_address.clear();
        for entry in view.list.up().filter(|entry| entry.id != view.me) {
            let known = before.remove(&entry.address.0).filter(|target| target.server == entry.id);
            let mut known = known.map(|target| target.paths).unwrap_or_default();
            let links = path_order(view, entry.id);
            let paths: Vec<Path> = links
                .into_iter()
                .map(|link| {
                    let same =
                        known.iter().position(|p| (&p.link, p.address) == (&link.name, link.address.0));
                    same.map(|at| known.swap_remove(at)).unwrap_or_else(|| Path {
                        link: link.name.clone(),
                        address: link.address.0,
                        waiting_since: None,
                        probed: false,
                        silent_since: None,
                        retry_at: Instant::ZERO,
                    })
                })
                .collect();
            for (index, path) in paths.iter().enumerate() {
                self.by_address.insert(path.address, (entry.address.0, index));
            }
            if !paths.is_empty() {
                self.targets.insert(entry.address.0, Target { server: entry.id, paths });
            }
        }
        self.asked.retain(|_, key| self.targets.get(&key.0).is_some_and(|t| key.1 < t.paths.len()));
        let is_active = |path: &Path| path.waiting_since.is_some() || path.silent_since.is_some();
        self.active = self
            .targets
            .iter()
            .flat_map(|(first, target)| target.paths.iter().enumerate().map(move |(i, p)| ((*first, i), p)))
            .filter(|(_, path)| is_active(path))
            .map(|(key, _)| key)
            .collect();
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
            let key = match self.targets.get(address) {
                Some(_) if planted(Defect::PathsUnused) => continue,
                Some(target) => {
                    let working = target.paths.iter().position(|path| path.silent_since.is_none());
                    (*address, working.unwrap_or(0))
                }
                // A ping over a certain path.
                None => match self.by_address.get(address) {
                    Some(key) => *key,
                    None => continue,
                },
            };
            let Some(path) = self.targets.get_mut(&key.0).and_then(|t| t.paths.get_mut(key.1)) else {
                continue;
            };
            *address = path.address;
            if let Some((Kind::Request, rpc)) = peek(&bytes[frame.own.clone()]) {
                path.waiting_since.get_or_insert(now);
                self.active.insert(key);
                self.asked.insert(rpc, key);
                self.asked_at.push_back((now, rpc));
            }
        }
    }

    /// An answer has come: its path is good.
    pub fn answered(&mut self, now: Instant, rpc: RpcId, is_probe: bool, effects: &mut Effects) {
        if !self.is_on {
            return;
        }
        let Some(key) = self.asked.remove(&rpc) else { return };
        let Some(path) = self.targets.get_mut(&key.0).and_then(|t| t.paths.get_mut(key.1)) else { return };
        if path.silent_since.take().is_some() {
            effects.mark(Mark::PathBack);
        }
        path.probed = false;
        // What was sent before a ping that is answered has arrived, and is being worked at.
        path.waiting_since = Some(now).filter(|_| !is_probe);
        if path.waiting_since.is_none() {
            self.active.remove(&key);
        }
    }

    /// A connection to an address is lost. Returns the first address of the server there, and whether this is one path of
    /// several.
    pub fn lost(&mut self, now: Instant, address: SocketAddr, how: Lost) -> (SocketAddr, bool) {
        let Some(key) = self.by_address.get(&address).copied() else { return (address, false) };
        let Some(target) = self.targets.get_mut(&key.0) else { return (address, false) };
        if how == Lost::Refused {
            silence(now, &mut target.paths[key.1]);
            self.active.insert(key);
        }
        let others = target.paths.iter().any(|path| path.silent_since.is_none());
        (key.0, others)
    }

    /// Looks for paths that have become silent, and lets silent ones be tried.
    pub fn tick(&mut self, now: Instant, effects: &mut Effects) -> Heard {
        let mut heard = Heard::default();
        while let Some((at, rpc)) = self.asked_at.front().copied().filter(|(at, _)| *at + FORGET_AFTER <= now)
        {
            let _ = at;
            self.asked_at.pop_front();
            self.asked.remove(&rpc);
        }
        let mut quiet = Vec::new();
        for key in &self.active {
            let Some(target) = self.targets.get_mut(&key.0) else { continue };
            let server = target.server;
            let Some(path) = target.paths.get_mut(key.1) else { continue };
            match (path.silent_since, path.waiting_since) {
                (Some(_), _) if path.retry_at <= now && !planted(Defect::PathNeverTriedAgain) => {
                    path.retry_at = now + RETRY_INTERVAL;
                    heard.probes.push((server, path.address));
                }
                (None, Some(since)) if since + SILENT_AFTER <= now => {
                    silence(now, path);
                    effects.mark(Mark::PathSilent);
                    heard.lost.push(key.0);
                }
                (None, Some(since)) if since + PROBE_AFTER <= now && !path.probed => {
                    path.probed = true;
                    heard.probes.push((server, path.address));
                }
                (None, None) => quiet.push(*key),
                _ => {}
            }
        }
        for key in quiet {
            self.active.remove(&key);
        }
        heard
    }

    pub fn deadline(&self) -> Option<Instant> {
        if !self.is_on {
            return None;
        }
        let due = |key: &PathKey| {
            let path = self.targets.get(&key.0)?.paths.get(key.1)?;
            match (path.silent_since, path.waiting_since) {
                (Some(_), _) => Some(path.retry_at),
                (None, Some(since)) if path.probed => Some(since + SILENT_AFTER),
                (None, Some(since)) => Some(since + PROBE_AFTER),
                (None, None) => None,
            }
        };
        self.active.iter().filter_map(due).fold(None, |least, at| earliest(least, Some(at)))
    }

    /// The paths that are silent. None: this server has no links.
    pub fn silent(&self, now: Instant) -> Option<Vec<SilentLink>> {
        let of = |target: &Target| {
            let server = target.server;
            let silent = target.paths.iter().filter_map(|path| Some((path.link.clone(), path.silent_since?)));
            let told = silent.map(|(link, since)| {
                let millis = u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX);
                SilentLink { server, link, millis }
            });
            told.collect::<Vec<_>>()
        };
        let mut silent: Vec<SilentLink> = self.targets.values().flat_map(of).collect();
        silent.sort_by(|a, b| (a.server, &a.link).cmp(&(b.server, &b.link)));
        self.is_on.then_some(silent)
    }
}

fn silence(now: Instant, path: &mut Path) {
    path.silent_since.get_or_insert(now);
    path.waiting_since = None;
    path.probed = false;
    path.retry_at = now + RETRY_INTERVAL;
}
