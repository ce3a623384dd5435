//! Messages of Redis clients to subscribers that are connected to other servers. Catalogue: J1.

use crate::Opcode;
use crate::control::Message;
use minicbor::{Decode, Encode};

/// Server to server: tell the subscribers of this channel that are connected to you. At most once: nobody
/// repeats the message.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Publish {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub channel: Vec<u8>,
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub message: Vec<u8>,
    /// The channel is a shard channel, which differs from the ordinary channel of the same name.
    #[n(2)]
    pub shard: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Published {
    /// Subscribers to which it was sent. A subscriber with several patterns counts once for each pattern that
    /// fits.
    #[n(0)]
    pub heard: u64,
}

impl Message for Publish {
    const OPCODE: Opcode = Opcode::Publish;
    type Reply = Published;
}

/// Kinds of names that clients listen to. Each kind has names of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Listened {
    #[n(0)]
    Channels,
    #[n(1)]
    Patterns,
    #[n(2)]
    ShardChannels,
}

/// Server to server: what do the clients that are connected to you listen to? Changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Listeners {
    #[n(0)]
    pub kind: Listened,
    /// Names to be counted, in the order of the answer. None: all names that there are.
    #[n(1)]
    pub names: Option<Vec<Name>>,
    /// Only names that fit this pattern.
    #[n(2)]
    #[cbor(with = "minicbor::bytes")]
    pub pattern: Option<Vec<u8>>,
}

/// A channel or a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Name {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub name: Vec<u8>,
    /// Connections that listen to the name; 0 in a question.
    #[n(1)]
    #[cbor(default)]
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ListenersTold {
    /// The names that were asked for, or as many as have room in an answer: `NAMES_BYTES_MAX`.
    #[n(0)]
    pub names: Vec<Name>,
}

/// The most bytes of names in a question or an answer.
pub const NAMES_BYTES_MAX: usize = 1024 * 1024;

impl Message for Listeners {
    const OPCODE: Opcode = Opcode::Listeners;
    type Reply = ListenersTold;
}
