//! How an operation ended.

use crate::operation::Operation;
use crate::scan::Page;
use crate::token::Token;
use ramhold_base::{ClusterTime, KeyHash, Number, ServerId, Status, TableId, Version};
use ramhold_wire::accounts::{Accounts, AccountsChanged};
use ramhold_wire::brick_status::BrickEventsTold;
use ramhold_wire::control::{Empty, decode};
use ramhold_wire::copies::StatePart;
use ramhold_wire::count::CountReply;
use ramhold_wire::data::{IncrementReply, ReadReply, decode_version};
use ramhold_wire::lease::{LeaseOpened, LeaseRenewed};
use ramhold_wire::quorum::{BrickReplaced, BrickScaled};
use ramhold_wire::shortage::Shortage;
use ramhold_wire::status::{ClusterStatus, LossAccepted, Pong, ProcessStatus, Recoveries, RecoveryReport};
use ramhold_wire::table::{
    TableCreated, TableDescription, TableDivided, TableSummary, TableTruncated, Tables,
};
use std::ops::Range;

/// An operation ends in exactly one of three ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done(Reply),
    /// Surely without effect.
    Refused {
        status: Status,
        cause: Cause,
        /// The version of the object, when a rule refused the operation and the object exists.
        version: Option<Version>,
        /// The item of a commit whose object a rule refused, from 0.
        item: Option<u16>,
        /// The shortage, when the status is `TooFewBackups` and the answer told it.
        shortage: Option<Shortage>,
        /// The server that refused. None for the coordinator, and when nobody answered.
        answered_by: ServerId,
        /// The attempts, for a human: addresses, times, the last answer. One line.
        detail: String,
    },
    /// The operation may have taken effect once, or not at all. It will not be tried again, because its time
    /// or the session's lease was over.
    Unknown {
        detail: String,
        /// Settles the outcome later, if the operation put a value into a quorum table or removed one, and the outcome
        /// can be settled (`Operation::Resume`).
        token: Option<Box<Token>>,
    },
}

impl Outcome {
    /// A refusal that tells nothing but its reason.
    pub(crate) fn refused(status: Status, cause: Cause, detail: String) -> Outcome {
        let (version, answered_by): (Option<Version>, ServerId) = (None, ServerId::NONE);
        Outcome::Refused { status, cause, version, item: None, shortage: None, answered_by, detail }
    }
}

/// Why an operation counts as refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing was sent: a limit, or no coordinator is known.
    Unsent,
    /// A process that may say so refused the operation.
    Answered,
    /// The last answer was a refusal for the time being, and the operation's time was over.
    Deadline,
    /// The operation's time was over before any process answered.
    Unreachable,
}

/// The answer to an operation that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Read {
        version: Version,
        /// When the object was written, in seconds of cluster time.
        time: u32,
        /// From this time on the object is not returned any more. None: it does not end by itself.
        expires: Option<ClusterTime>,
        value: Vec<u8>,
        answered_by: ServerId,
    },
    /// The objects of a multi-read.
    Objects(Box<Objects>),
    Written {
        version: Version,
    },
    /// The version of the removal; 0 when no object was there.
    Removed {
        version: Version,
    },
    /// The object's new version, and the sum that it holds now.
    Incremented {
        version: Version,
        sum: Number,
    },
    /// The version of everything that was written or removed; 0 when nothing was.
    Committed {
        version: Version,
    },
    Page(Page),
    /// The number of objects of a tablet, and the tablet's last hash.
    Counted {
        last: KeyHash,
        objects: u64,
    },
    TableCreated {
        table: TableId,
    },
    TableDropped,
    /// The table that took the place of the old one.
    TableTruncated {
        table: TableId,
    },
    /// The number of tablets that the table has now.
    TableDivided {
        tablets: u32,
    },
    TableAltered,
    Tables(Vec<TableSummary>),
    Table(TableDescription),
    ClusterStatus(Box<ClusterStatus>),
    Recoveries(Vec<RecoveryReport>),
    ServerStatus(Box<ProcessStatus>),
    BrickEvents(BrickEventsTold),
    LossAcknowledged,
    ServerForgotten,
    BrickReplaced(BrickReplaced),
    BrickScaled(BrickScaled),
    Accounts(Accounts),
    AccountsChanged(AccountsChanged),
    LossAccepted(LossAccepted),
    State(StatePart),
    Pong(Pong),
    /// Used by the session itself.
    #[doc(hidden)]
    LeaseOpened(LeaseOpened),
    /// Used by the session itself.
    #[doc(hidden)]
    LeaseRenewed(LeaseRenewed),
}

impl Reply {
    /// Reads the body of an answer with status `Ok`.
    pub(crate) fn decode(operation: &Operation, body: &[u8], answered_by: ServerId) -> Result<Reply, Status> {
        Ok(match operation {
            Operation::Read { .. } => {
                let reply = ReadReply::decode(body)?;
                Reply::Read {
                    version: reply.version,
                    time: reply.time,
                    expires: reply.expires,
                    value: reply.value.to_vec(),
                    answered_by,
                }
            }
            Operation::Write { .. } => Reply::Written { version: decode_version(body)? },
            Operation::Remove { .. } => Reply::Removed { version: decode_version(body)? },
            Operation::Increment { by, .. } => {
                let reply = IncrementReply::decode(body)?;
                let sum = by.alike_from_bits(reply.bits).ok_or(Status::BadRequest)?;
                Reply::Incremented { version: reply.version, sum }
            }
            // Answers of bricks are read elsewhere.
            Operation::ReadStale { .. } | Operation::Resume { .. } => return Err(Status::BadRequest),
            Operation::Commit { .. } => Reply::Committed { version: decode_version(body)? },
            Operation::Scan { cursor, .. } => Reply::Page(Page::decode(cursor, body, answered_by)?),
            Operation::Count { first, .. } => {
                let CountReply { last, objects } = CountReply::decode(body)?;
                if last < *first {
                    return Err(Status::BadRequest);
                }
                Reply::Counted { last, objects }
            }
            Operation::CreateTable { .. } => {
                Reply::TableCreated { table: decode::<TableCreated>(body)?.table }
            }
            Operation::DropTable { .. } => empty(body, Reply::TableDropped)?,
            Operation::TruncateTable { .. } => {
                Reply::TableTruncated { table: decode::<TableTruncated>(body)?.table }
            }
            Operation::DivideTable { .. } => {
                Reply::TableDivided { tablets: decode::<TableDivided>(body)?.tablets }
            }
            Operation::AlterTable { .. } => empty(body, Reply::TableAltered)?,
            Operation::ListTables => Reply::Tables(decode::<Tables>(body)?.tables),
            Operation::DescribeTable { .. } => Reply::Table(decode(body)?),
            Operation::ClusterStatus => Reply::ClusterStatus(Box::new(decode(body)?)),
            Operation::Recoveries => Reply::Recoveries(decode::<Recoveries>(body)?.recoveries),
            Operation::ServerStatus { .. } => Reply::ServerStatus(Box::new(decode(body)?)),
            Operation::BrickEvents { .. } => Reply::BrickEvents(decode(body)?),
            Operation::AcknowledgeLoss { .. } => empty(body, Reply::LossAcknowledged)?,
            Operation::ForgetServer { .. } => empty(body, Reply::ServerForgotten)?,
            Operation::ReplaceBrick(_) | Operation::ForgetBrick { .. } => Reply::BrickReplaced(decode(body)?),
            Operation::ScaleBrick(_) => Reply::BrickScaled(decode(body)?),
            Operation::ListAccounts => Reply::Accounts(decode(body)?),
            Operation::SetAccount(_) | Operation::RemoveAccounts { .. } => {
                Reply::AccountsChanged(decode(body)?)
            }
            Operation::AcceptLoss { .. } => Reply::LossAccepted(decode(body)?),
            Operation::ReadState { .. } => Reply::State(decode(body)?),
            Operation::Ping { .. } => Reply::Pong(decode(body)?),
            Operation::OpenLease { .. } => Reply::LeaseOpened(decode(body)?),
            Operation::RenewLease { .. } => Reply::LeaseRenewed(decode(body)?),
        })
    }
}

/// An answer that consists of its status alone: no body, or an empty structure.
fn empty(body: &[u8], reply: Reply) -> Result<Reply, Status> {
    if !body.is_empty() {
        decode::<Empty>(body)?;
    }
    Ok(reply)
}

/// The objects under keys that were read together, by the places of the keys from 0. All values lie in one piece of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    found: Vec<Found>,
    values: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// `answered_by` is none until the key is settled.
    Absent {
        answered_by: ServerId,
    },
    Object {
        version: Version,
        time: u32,
        expires: Option<ClusterTime>,
        value: Range<usize>,
        answered_by: ServerId,
    },
    Failed(Box<Outcome>),
}

/// An object that was read together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadObject<'a> {
    pub value: &'a [u8],
    pub version: Version,
    /// When it was written, in seconds of cluster time.
    pub time: u32,
    /// From this time on the object is not returned any more. None: it does not end by itself.
    pub expires: Option<ClusterTime>,
    pub answered_by: ServerId,
}

impl Objects {
    pub(crate) fn of(count: usize) -> Objects {
        Objects { found: vec![Found::Absent { answered_by: ServerId::NONE }; count], values: Vec::new() }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The object of the key at `place`, if there is one; the outcome of its read, if it failed. Panics beyond `len`.
    pub fn get(&self, place: usize) -> Result<Option<ReadObject<'_>>, &Outcome> {
        match &self.found[place] {
            Found::Absent { .. } => Ok(None),
            Found::Failed(outcome) => Err(outcome),
            Found::Object { version, time, expires, value, answered_by } => Ok(Some(ReadObject {
                value: &self.values[value.clone()],
                version: *version,
                time: *time,
                expires: *expires,
                answered_by: *answered_by,
            })),
        }
    }

    /// The server that told what is under the key at `place`; none if its read failed. Panics beyond `len`.
    pub fn answered_by(&self, place: usize) -> Option<ServerId> {
        match &self.found[place] {
            Found::Absent { answered_by } | Found::Object { answered_by, .. } => Some(*answered_by),
            Found::Failed(_) => None,
        }
    }

    /// In the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = Result<Option<ReadObject<'_>>, &Outcome>> {
        (0..self.len()).map(|place| self.get(place))
    }

    /// So many bytes of values and heads are about to come.
    pub(crate) fn expect(&mut self, bytes: usize) {
        self.values.reserve(bytes);
    }

    pub(crate) fn put(&mut self, place: u32, reply: &ReadReply<'_>, answered_by: ServerId) {
        let start = self.values.len();
        self.values.extend_from_slice(reply.value);
        let (value, ReadReply { version, time, expires, .. }) = (start..self.values.len(), *reply);
        self.found[place as usize] = Found::Object { version, time, expires, value, answered_by };
    }

    pub(crate) fn put_absent(&mut self, place: u32, answered_by: ServerId) {
        self.found[place as usize] = Found::Absent { answered_by };
    }

    /// Takes the end of a read that was made alone.
    pub(crate) fn put_outcome(&mut self, place: u32, outcome: Outcome) {
        match outcome {
            Outcome::Done(Reply::Read { version, time, expires, value, answered_by }) => {
                self.put(place, &ReadReply { version, time, expires, value: &value }, answered_by);
            }
            Outcome::Refused { status: Status::NotFound, answered_by, .. } => {
                self.put_absent(place, answered_by);
            }
            failed => self.found[place as usize] = Found::Failed(Box::new(failed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A5
    #[test]
    fn each_key_has_what_was_found_under_it() {
        let mut objects = Objects::of(4);
        let reply = |value: &'static [u8]| ReadReply { version: Version(7), time: 1, expires: None, value };
        objects.put(2, &reply(b"two"), ServerId(1));
        objects.put(0, &reply(b""), ServerId(1));
        let lost = Outcome::Refused {
            status: Status::Corrupt,
            cause: Cause::Answered,
            version: None,
            item: None,
            shortage: None,
            answered_by: ServerId(1),
            detail: String::new(),
        };
        objects.put_outcome(3, lost.clone());
        let values: Vec<_> = objects.iter().map(|found| found.map(|found| found.map(|o| o.value))).collect();
        assert_eq!(values, [Ok(Some(&b""[..])), Ok(None), Ok(Some(b"two")), Err(&lost)]);
    }
}
