//! The meaning of an answer for the operation that it answers.

use crate::operation::{Operation, Place, Repeat};
use crate::outcome::Reply;
use ramhold_base::{Status, Version};
use ramhold_wire::commit::CommitRefused;
use ramhold_wire::data::decode_version;
use ramhold_wire::shortage::Shortage;
use ramhold_wire::{Header, decode};

pub enum Verdict {
    Done(Reply),
    /// Refused for good: asking again would give the same answer.
    Refused {
        status: Status,
        version: Option<Version>,
        /// The item of a commit that the refusal is about.
        item: Option<u16>,
        /// The shortage that `TooFewBackups` tells.
        shortage: Option<Shortage>,
    },
    /// Without effect: ask the same process again after a pause.
    Again,
    /// Nothing was done under this number, and nothing will be: go on under another one.
    Anew,
    /// This attempt had no effect: the process that answered is not, or no longer, the one to ask.
    Elsewhere,
    /// The lease of this operation is over, and the results remembered under it are gone.
    LeaseOver,
    /// The status says done, but the body makes no sense.
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
                | Status::NotLeased
                | Status::NotCoordinator
                | Status::StaleTerm
        ),
        Place::Coordinator => {
            matches!(status, Status::NotCoordinator | Status::NotReady | Status::StaleTerm)
        }
        Place::Address(_) => false,
    };
    if status == Status::LeaseOver && operation.repeat() == Repeat::Numbered {
        Verdict::LeaseOver
    } else if status == Status::Retry && is_update(operation) {
        Verdict::Anew
    } else if is_elsewhere {
        Verdict::Elsewhere
    } else if status == Status::TooFewBackups && is_update(operation) {
        // Only the operator can start servers.
        Verdict::Refused { status, version: None, item: None, shortage: shortage(status, body) }
    } else if status.is_retryable() || (fate_unknown && !is_result(operation, status)) {
        Verdict::Again
    } else {
        let version = decode_version(body).ok().filter(|version| !version.is_none());
        let item = match operation {
            Operation::Commit { .. } => {
                CommitRefused::decode(body).and_then(|it| u16::try_from(it.item).ok())
            }
            _ => None,
        };
        Verdict::Refused { status, version, item, shortage: None }
    }
}

/// The shortage that a refusal tells.
pub fn shortage(status: Status, body: &[u8]) -> Option<Shortage> {
    if status == Status::TooFewBackups { decode(body).ok() } else { None }
}

/// Whether a refusal is the result of an operation under a number, and so holds for all its attempts. The
/// question does not arise for an operation without a number, or for a first attempt.
fn is_result(operation: &Operation, status: Status) -> bool {
    let of_mutations = [
        Status::NotFound,
        Status::Exists,
        Status::WrongVersion,
        Status::NotANumber,
        Status::OutOfRange,
        Status::NotTogether,
    ];
    let of_updates = [
        Status::NotFound,
        Status::BadRequest,
        Status::NameTooLong,
        Status::NotAllowed,
        Status::TableExists,
        Status::TooManyTables,
        Status::TooManyTablets,
        Status::UnknownTable,
        Status::Unsupported,
    ];
    let results = if is_update(operation) { &of_updates[..] } else { &of_mutations[..] };
    operation.repeat() != Repeat::Numbered || results.contains(&status)
}

/// Whether the coordinator carries the operation out, and remembers its result.
fn is_update(operation: &Operation) -> bool {
    operation.repeat() == Repeat::Numbered && matches!(operation.place(), Place::Coordinator)
}

/// Whether a refusal may belong to another frame than the attempt's first. Only the life that has burnt the
/// number speaks for the attempt. A process that refuses before it looks at numbers speaks for no attempt.
pub fn is_before_numbers(status: Status) -> bool {
    matches!(
        status,
        Status::WrongServer
            | Status::NotReady
            | Status::NotInCluster
            | Status::Fenced
            | Status::NotCoordinator
            | Status::StaleTerm
    )
}
