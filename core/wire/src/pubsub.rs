//! Messages of Redis clients to subscribers that are connected to other servers. Catalogue: J1.

use crate::Opcode;
use crate::control::Message;
use minicbor::{Decode, Encode};

/// Server to server: tell your subscribers of this channel. Told at most once: nobody repeats it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Publish {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    pub channel: Vec<u8>,
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub message: Vec<u8>,
    /// To a shard channel, which is another than the channel of the same name.
    #[n(2)]
    pub shard: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Published {
    /// Subscribers that it was sent to; one with several patterns counts for each that fits.
    #[n(0)]
    pub heard: u64,
}

impl Message for Publish {
    const OPCODE: Opcode = Opcode::Publish;
    type Reply = Published;
}

/// Kinds of names that are listened to, each with names of its own.
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

/// Server to server: what do clients that are connected to you listen to? Changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Listeners {
    #[n(0)]
    pub kind: Listened,
    /// Names to be counted, in the order of the answer; none: all that there are.
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
    /// Connections that listen to it; 0 in a question.
    #[n(1)]
    #[cbor(default)]
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ListenersTold {
    /// As many as were asked for, or as have room in an answer: `NAMES_BYTES_MAX`.
    #[n(0)]
    pub names: Vec<Name>,
}

/// Bytes of the names in a question or an answer.
pub const NAMES_BYTES_MAX: usize = 1024 * 1024;

impl Message for Listeners {
    const OPCODE: Opcode = Opcode::Listeners;
    type Reply = ListenersTold;
}
