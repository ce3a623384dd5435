//! What an answer means for the operation that it answers.

use crate::operation::{Operation, Place};
use crate::outcome::Reply;
use ramhold_base::{Status, Version};
use ramhold_wire::Header;
use ramhold_wire::data::decode_version;

pub enum Verdict {
    Done(Reply),
    /// For good: asking again would give the same answer.
    Refused {
        status: Status,
        version: Option<Version>,
    },
    /// Without effect: ask the same process again after a pause.
    Again,
    /// This attempt was without effect: whoever answered is not, or not any more, the one to ask.
    Elsewhere,
    /// This attempt was without effect, and the lease that it was made under is over.
    LeaseOver,
    /// Done, it says, but what it says further makes no sense.
    Unreadable,
}

/// `fate_unknown`: an earlier attempt of the operation may have had its effect.
pub fn judge(operation: &Operation, fate_unknown: bool, header: &Header, body: &[u8]) -> Verdict {
    let status = header.status();
    if status == Status::Ok {
        return match Reply::decode(operation, body, header.sender) {
            Ok(reply) => Verdict::Done(reply),
            Err(_) => Verdict::Unreadable,
        };
    }
    if fate_unknown && let Some(reply) = already_done(operation, status) {
        return Verdict::Done(reply);
    }
    let is_elsewhere = match operation.place() {
        Place::OwnerOf { .. } => matches!(
            status,
            Status::WrongOwner
                | Status::WrongServer
                | Status::UnknownTable
                | Status::Recovering
                | Status::Fenced
                | Status::NotInCluster
                | Status::NotReady
                | Status::NotCoordinator
                | Status::StaleTerm
        ),
        Place::Coordinator => {
            matches!(status, Status::NotCoordinator | Status::NotReady | Status::StaleTerm)
        }
        Place::Address(_) => false,
    };
    if status == Status::LeaseOver && matches!(operation.place(), Place::OwnerOf { .. }) {
        Verdict::LeaseOver
    } else if is_elsewhere {
        Verdict::Elsewhere
    } else if status.is_retryable() {
        Verdict::Again
    } else {
        let version = decode_version(body).ok().filter(|version| !version.is_none());
        Verdict::Refused { status, version }
    }
}

/// A repetition that finds nothing left to do: the attempt whose answer got lost has done it.
fn already_done(operation: &Operation, status: Status) -> Option<Reply> {
    match operation {
        Operation::DropTable { .. } if status == Status::UnknownTable => Some(Reply::TableDropped),
        Operation::AcknowledgeLoss { .. } if status == Status::NotFound => Some(Reply::LossAcknowledged),
        Operation::DropTable { .. }
        | Operation::AcknowledgeLoss { .. }
        | Operation::CreateTable { .. }
        | Operation::Read { .. }
        | Operation::Write { .. }
        | Operation::Remove { .. }
        | Operation::ListTables
        | Operation::DescribeTable { .. }
        | Operation::ClusterStatus
        | Operation::Recoveries
        | Operation::ServerStatus { .. }
        | Operation::OpenLease { .. }
        | Operation::RenewLease { .. }
        | Operation::Ping { .. } => None,
    }
}
