//! Names for the things that messages, logs and disks refer to.
//!
//! Every id is a type of its own, so that a segment is never taken for a server. Ids are given out once and
//! never used again. Zero means "none" where an id may be absent.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $raw:ty, $prefix:literal) => {
        id!($(#[$doc])* $name, $raw, $prefix, "{}");
    };
    ($(#[$doc:meta])* $name:ident, $raw:ty, $prefix:literal, $number:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, minicbor::Encode, minicbor::Decode)]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] pub $raw);

        impl $name {
            pub const NONE: $name = $name(0);

            /// The number itself, for encoding.
            pub const fn raw(self) -> $raw {
                self.0
            }

            pub const fn is_none(self) -> bool {
                self.0 == 0
            }

            /// The next id of this kind. Panics when the numbers are used up, which no cluster can reach.
            #[must_use]
            pub const fn next(self) -> $name {
                match self.0.checked_add(1) {
                    Some(raw) => $name(raw),
                    None => panic!("ids of one kind are used up"),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, $number), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

id!(
    /// A cluster: random, made once at its birth, checked in every message and on every disk. Written as
    /// `c` and 16 hexadecimal digits everywhere.
    ClusterId, u64, "c", "{:016x}"
);
id!(
    /// One life of one server process. A restarted server gets a new id (its generation). The coordinator
    /// gives ids out in rising order and never again, so "at most the last one issued" tells whether an id
    /// ever existed.
    ServerId, u64, "s"
);
id!(
    /// A data directory: random, made with the directory. It links the lives of one server.
    DirectoryId, u64, "d"
);
id!(
    /// One shard (event loop, log, index) of a server.
    ShardId, u16, "sh"
);
id!(
    /// One stream of a shard's log. Numbered from 1 in the order of opening.
    StreamId, u16, "st"
);
id!(
    /// One segment of a shard's log; unique in the shard, rising, from 1.
    SegmentId, u64, "seg"
);
id!(
    /// The epoch of an open segment: raised when one of its replicas is lost. The first is 0.
    Epoch, u32, "e"
);
id!(
    /// A table. Never used again after a drop.
    TableId, u32, "t"
);
id!(
    /// The division of a table into tablets: raised by each cut or join of an operator. 0: as it was made.
    DivisionId, u64, "div"
);
id!(
    /// One reign of a coordinator; rises with each start.
    Term, u64, "term"
);
id!(
    /// A key's version: only grows for a key, also across remove and re-create. 0 means "does not exist".
    Version, u64, "v"
);
id!(
    /// One call between two processes, unique in the caller.
    RpcId, u64, "rpc"
);
id!(
    /// A client's lease. The coordinator gives leases out in rising order and never again: a lease that was
    /// given out and is not in the coordinator's records is over.
    LeaseId, u64, "lease"
);
id!(
    /// The number of one attempt at one effect within its client's lease, from 1.
    Sequence, u64, "#"
);
id!(
    /// One recovery of one crashed server.
    RecoveryId, u64, "r"
);

/// The 64-bit placement hash of a key within its table; see `hash::placement_hash`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, minicbor::Encode, minicbor::Decode)]
#[cbor(transparent)]
pub struct KeyHash(#[n(0)] pub u64);

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Names a shard's log: the server and the shard whose memory it is.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, minicbor::Encode, minicbor::Decode,
)]
pub struct LogId {
    #[n(0)]
    pub server: ServerId,
    #[n(1)]
    pub shard: ShardId,
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.shard)
    }
}

/// A position in a stream: everything of the stream before `offset` of `segment`. Ordered by segment, then
/// offset; only positions of one stream may be compared.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, minicbor::Encode, minicbor::Decode,
)]
pub struct Position {
    #[n(0)]
    pub segment: SegmentId,
    #[n(1)]
    pub offset: u32,
}
