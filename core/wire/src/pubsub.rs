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
