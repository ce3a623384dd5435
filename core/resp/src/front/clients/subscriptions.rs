//! The names that each connection listens to: channels, patterns of channels, and shard channels.
//!
//! Invariant: a name is among a connection's own subscriptions exactly if the connection is among the name's subscribers.
//!
//! Not here: commands and messages (`pubsub`).

use crate::Fault;
use ramhold_base::ConnId;
use ramhold_base::glob::{Case, matches};
use std::collections::{BTreeMap, BTreeSet};

/// Subscriptions of one connection.
const SUBSCRIPTION_COUNT_MAX: usize = 65_536;
const TOO_MANY: Fault = Fault::fixed("ERR a connection listens to at most 65536 channels and patterns");
/// Bytes of the names that a connection listens to.
const SUBSCRIPTION_BYTES_MAX: usize = 4 * 1024 * 1024;
const TOO_LONG: Fault =
    Fault::fixed("ERR the channels and patterns that a connection listens to have at most 4194304 bytes");

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Channels,
    Patterns,
    /// Channels of `SPUBLISH`, which have names of their own.
    ShardChannels,
}

const KINDS: [Kind; 3] = [Kind::Channels, Kind::Patterns, Kind::ShardChannels];

/// One value for each kind.
#[derive(Debug, Default)]
struct PerKind<T>([T; 3]);

impl<T> PerKind<T> {
    fn of(&self, kind: Kind) -> &T {
        let [channels, patterns, shard_channels] = &self.0;
        match kind {
            Kind::Channels => channels,
            Kind::Patterns => patterns,
            Kind::ShardChannels => shard_channels,
        }
    }

    fn of_mut(&mut self, kind: Kind) -> &mut T {
        let [channels, patterns, shard_channels] = &mut self.0;
        match kind {
            Kind::Channels => channels,
            Kind::Patterns => patterns,
            Kind::ShardChannels => shard_channels,
        }
    }
}

/// The subscriptions of one connection.
#[derive(Debug, Default)]
pub struct Subscriptions {
    names: PerKind<BTreeSet<Vec<u8>>>,
    /// Bytes of all names together.
    bytes: usize,
}

impl Subscriptions {
    pub fn is_empty(&self) -> bool {
        KINDS.iter().all(|kind| self.names.of(*kind).is_empty())
    }

    pub fn names(&self, kind: Kind) -> &BTreeSet<Vec<u8>> {
        self.names.of(kind)
    }

    /// The number that a confirmation tells. Channels and patterns are counted together, shard channels by
    /// themselves.
    pub fn told(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channels | Kind::Patterns => {
                self.names(Kind::Channels).len() + self.names(Kind::Patterns).len()
            }
            Kind::ShardChannels => self.names(kind).len(),
        }
    }

    fn add(&mut self, kind: Kind, name: &[u8]) -> Result<(), Fault> {
        if self.names.of(kind).contains(name) {
            return Ok(());
        }
        let count: usize = KINDS.iter().map(|kind| self.names.of(*kind).len()).sum();
        if count >= SUBSCRIPTION_COUNT_MAX {
            return Err(TOO_MANY);
        }
        if self.bytes + name.len() > SUBSCRIPTION_BYTES_MAX {
            return Err(TOO_LONG);
        }
        self.bytes += name.len();
        self.names.of_mut(kind).insert(name.to_vec());
        Ok(())
    }

    fn remove(&mut self, kind: Kind, name: &[u8]) {
        if self.names.of_mut(kind).remove(name) {
            self.bytes -= name.len();
        }
    }
}

/// The subscribers of each name, among the connections of this server.
#[derive(Debug, Default)]
pub struct Subscribers {
    listeners: PerKind<BTreeMap<Vec<u8>, BTreeSet<ConnId>>>,
}

impl Subscribers {
    /// Adds a subscription. The fault says why the connection may listen to no more.
    pub fn enter(
        &mut self,
        conn: ConnId,
        own: &mut Subscriptions,
        kind: Kind,
        name: &[u8],
    ) -> Result<(), Fault> {
        own.add(kind, name)?;
        self.listeners.of_mut(kind).entry(name.to_vec()).or_default().insert(conn);
        Ok(())
    }

    pub fn leave(&mut self, conn: ConnId, own: &mut Subscriptions, kind: Kind, name: &[u8]) {
        own.remove(kind, name);
        let listeners = self.listeners.of_mut(kind);
        if let Some(those) = listeners.get_mut(name) {
            those.remove(&conn);
            if those.is_empty() {
                listeners.remove(name);
            }
        }
    }

    /// Ends all subscriptions of a connection.
    pub fn leave_all(&mut self, conn: ConnId, own: &mut Subscriptions) {
        for kind in KINDS {
            for name in own.names(kind).clone() {
                self.leave(conn, own, kind, &name);
            }
        }
    }

    /// Names that somebody listens to.
    pub fn names(&self, kind: Kind) -> impl Iterator<Item = &Vec<u8>> {
        self.listeners.of(kind).keys()
    }

    pub fn count(&self, kind: Kind, name: &[u8]) -> usize {
        self.listeners.of(kind).get(name).map_or(0, BTreeSet::len)
    }

    /// The connections that are told a message to a channel, each with the pattern that fits the channel.
    /// `None`: the connection listens to the channel's own name.
    pub fn of<'a>(
        &'a self,
        kind: Kind,
        channel: &'a [u8],
    ) -> impl Iterator<Item = (ConnId, Option<&'a [u8]>)> {
        let named = self.listeners.of(kind).get(channel).into_iter().flatten().map(|conn| (*conn, None));
        let patterns = self.listeners.of(Kind::Patterns).iter();
        let fits = move |(pattern, _): &(&'a Vec<u8>, _)| {
            kind == Kind::Channels && matches(pattern, channel, Case::Matters)
        };
        let fitting = patterns.filter(fits);
        named.chain(
            fitting
                .flat_map(|(pattern, those)| those.iter().map(move |conn| (*conn, Some(pattern.as_slice())))),
        )
    }
}
