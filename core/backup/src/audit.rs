//! One replica as audits see it.

use crate::replica::Replica;
use ramhold_base::{Epoch, LogId, SegmentId, StreamId};
use ramhold_wire::data::Certificate;

/// One replica, for audits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaState {
    pub log: LogId,
    pub stream: StreamId,
    pub segment: SegmentId,
    pub epoch: Epoch,
    pub closed: bool,
    /// Bytes held without a gap, certified or not.
    pub length: u32,
    /// The newest certificate that was written.
    pub certificate: Option<Certificate>,
    /// As `AppendReply::flushed`.
    pub flushed: u32,
    pub primary: bool,
    pub side: bool,
    /// The replica is from an earlier life, or was replaced by a newer opening.
    pub found: bool,
    pub cut: bool,
    pub corrupt: bool,
}

impl ReplicaState {
    pub(crate) fn of(replica: &Replica) -> ReplicaState {
        ReplicaState {
            log: replica.key.log,
            stream: replica.key.stream,
            segment: replica.key.segment,
            epoch: replica.stored.epoch,
            closed: replica.stored.closed,
            length: replica.accepted.length,
            certificate: replica.stored.certificate,
            flushed: replica.flushed_bytes(),
            primary: replica.stored.primary,
            side: replica.opened.side,
            found: replica.found,
            cut: replica.cut,
            corrupt: replica.corrupt,
        }
    }
}
