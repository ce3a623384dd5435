//! One link per Up server, and the server list that is pushed over it.
//!
//! A link remembers the version of the list that its server has reached. The server is sent the difference until it has
//! the newest version.
//!
//! Not here: the changes of the list (`list`), which servers are dead (`verify`), who holds copies (`copies`).
//! Protocol: docs/protocols/membership.md. Catalogue: B1.

use crate::asked::Asked;
use crate::config::CoordinatorConfig;
use crate::desk::Desk;
use crate::retry::Retry;
use ramhold_base::{Instant, Level, ServerId, Status};
use ramhold_wire::decode;
use ramhold_wire::membership::ServerListReached;
use std::collections::BTreeMap;

/// The state of the connection to an Up server.
#[derive(Debug)]
pub(crate) struct Link {
    /// The version of the list that the server has acknowledged; 0: unknown.
    pub reached: u64,
    push: Retry,
    /// The server has answered under its own id since this coordinator started.
    pub confirmed: bool,
    /// The server knows its id: it has said so, or nothing speaks against it. A server that does not know its id can
    /// hold no copy of the state, and has nothing for which a copy would be needed.
    pub told: bool,
    /// The server can hold a copy of the state.
    pub holds: bool,
}

impl Link {
    fn new(config: &CoordinatorConfig) -> Link {
        Link { reached: 0, push: Retry::new(config), confirmed: false, told: false, holds: true }
    }
}

#[derive(Debug)]
pub(crate) struct Links {
    links: BTreeMap<ServerId, Link>,
    /// The state in which a server last came to the list.
    entered: u64,
    /// A server has told something under its id, so it may hold copies.
    pub is_told_anew: bool,
    /// The version of the list that is being pushed.
    push_version: u64,
    push_at: Instant,
}

impl Default for Links {
    fn default() -> Links {
        let links = BTreeMap::new();
        Links { links, entered: 0, is_told_anew: false, push_version: 0, push_at: Instant::FAR }
    }
}

impl Links {
    /// A coordinator has started; these servers are up.
    pub fn resume(&mut self, now: Instant, desk: &Desk, up: &[ServerId]) {
        for id in up {
            let link = Link { told: true, ..Link::new(&desk.config) };
            self.links.insert(*id, link);
        }
        self.push_at = now;
    }

    /// A server comes to the list.
    pub fn enter(&mut self, desk: &Desk, id: ServerId) {
        self.links.insert(id, Link::new(&desk.config));
        self.entered = desk.outbox.next_state();
    }

    pub fn remove(&mut self, id: ServerId) {
        self.links.remove(&id);
    }

    pub fn get(&self, id: ServerId) -> Option<&Link> {
        self.links.get(&id)
    }

    pub fn get_mut(&mut self, id: ServerId) -> Option<&mut Link> {
        self.links.get_mut(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ServerId, &Link)> {
        self.links.iter().map(|(id, link)| (*id, link))
    }

    pub fn count(&self) -> usize {
        self.links.len()
    }

    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// The next server after `last`; the first one follows the last.
    pub fn after(&self, last: ServerId) -> Option<ServerId> {
        let after = (std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded);
        let next = self.links.range(after).next().or_else(|| self.links.first_key_value());
        next.map(|(id, _)| *id)
    }

    /// The state in which a server last came to the list. Every holder of copies must have it before anybody is told
    /// anything newer.
    pub fn entered(&self) -> u64 {
        self.entered
    }

    /// The version of the list that all servers have reached.
    pub fn all_reached(&self) -> u64 {
        self.links.values().map(|link| link.reached).min().unwrap_or(u64::MAX)
    }

    /// This server has sent a request under its id.
    pub fn note_told(&mut self, id: ServerId) {
        if let Some(link) = self.links.get_mut(&id)
            && !std::mem::replace(&mut link.told, true)
        {
            self.is_told_anew = true;
        }
    }

    /// When servers are to be sent the list, or its differences.
    pub fn wake(&self, desk: &Desk) -> Instant {
        if self.push_version == desk.state.meta.list_version { self.push_at } else { Instant::ZERO }
    }

    /// Pushes the list to all servers that lack its newest version.
    pub fn advance(&mut self, now: Instant, desk: &mut Desk) {
        if self.wake(desk) > now {
            return;
        }
        let version = desk.state.meta.list_version;
        if std::mem::replace(&mut self.push_version, version) != version {
            for link in self.links.values_mut() {
                link.push = Retry::new(&desk.config);
            }
        }
        let mut due: BTreeMap<u64, Vec<ServerId>> = BTreeMap::new();
        self.push_at = Instant::FAR;
        for (id, link) in self.links.iter_mut().filter(|(_, link)| link.reached != version) {
            if link.push.take(now, &desk.config) {
                due.entry(link.reached).or_default().push(*id);
            }
            self.push_at = self.push_at.min(link.push.next());
        }
        for (reached, servers) in due {
            let update = desk.list_update(now, reached);
            for id in servers {
                if !desk.ask(now, id, Asked::Push(id), &update) {
                    desk.outbox.report(Level::Error, "the server list does not fit a message");
                }
            }
        }
    }

    pub fn on_pushed(&mut self, now: Instant, desk: &mut Desk, id: ServerId, status: Status, body: &[u8]) {
        if status != Status::Ok {
            return;
        }
        let Ok(answer) = decode::<ServerListReached>(body) else { return };
        let version = desk.state.meta.list_version;
        let Some(link) = self.links.get_mut(&id) else { return };
        self.is_told_anew |= !std::mem::replace(&mut link.told, true);
        let before = link.reached;
        // An answer to an earlier push may come late. A server with a version that was never this coordinator's is sent
        // the whole list.
        link.reached = if answer.version <= version { answer.version.max(link.reached) } else { 0 };
        if link.reached != version {
            self.push_at = self.push_at.min(link.push.next());
        }
        let heard_now = before + 1..=link.reached;
        let time = desk.time(now);
        for departed in desk.state.meta.departed.iter_mut().filter(|d| heard_now.contains(&d.version)) {
            departed.at = departed.at.max(time);
        }
    }
}
