//! The answer to an operation, whether the host or the session carried it out.

use crate::{Fault, Object};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{KeyHash, Number, Status, TableId, Version};
use ramhold_client_core::{Outcome, Page, Reply};
use ramhold_wire::accounts::AccountsChanged;
use ramhold_wire::data::{IncrementReply, ReadReply, decode_version};
use ramhold_wire::local::LocalRequest;
use ramhold_wire::table::{TableDescription, TableSummary};
use std::borrow::Cow;
use std::time::Duration;

/// The kind of a request to the host. It says how to read the body of the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Read,
    Write,
    Remove,
    Increment,
    Commit,
}

impl Kind {
    pub fn of(request: &LocalRequest<'_>) -> Kind {
        match request {
            LocalRequest::Read(_) => Kind::Read,
            LocalRequest::Write(_) => Kind::Write,
            LocalRequest::Remove(_) => Kind::Remove,
            LocalRequest::Increment(_) => Kind::Increment,
            LocalRequest::Commit(_) => Kind::Commit,
        }
    }
}

#[derive(Debug)]
pub enum Answer<'a> {
    Found {
        version: Version,
        expires: Option<u64>,
        value: Cow<'a, [u8]>,
    },
    /// A read found nothing.
    Absent,
    Written,
    /// Whether the key was there.
    Removed(bool),
    Sum(i64),
    /// The object is not as the operation demands.
    Conflict,
    /// The host cannot carry this out now: the request goes through the session.
    Elsewhere,
    /// The table is not there, or no longer there.
    NoTable,
    Table(TableId),
    Described(Box<TableDescription>),
    TableExists,
    TableTruncated,
    Tables(Vec<TableSummary>),
    Page(Box<Page>),
    Counted {
        last: KeyHash,
        objects: u64,
    },
    Accounts(AccountsChanged),
    Fault(Fault),
}

impl<'a> Answer<'a> {
    /// Reads an answer of the host.
    pub fn of_local(kind: Kind, status: Status, body: &'a [u8]) -> Answer<'a> {
        match (kind, status) {
            (Kind::Read, Status::Ok) => match ReadReply::decode(body) {
                Ok(reply) => Answer::Found {
                    version: reply.version,
                    expires: reply.expires.map(|end| end.0),
                    value: Cow::Borrowed(reply.value),
                },
                Err(status) => Answer::Fault(fault_of(status, "")),
            },
            (Kind::Read, Status::NotFound) => Answer::Absent,
            (Kind::Write | Kind::Commit, Status::Ok) => Answer::Written,
            (Kind::Remove, Status::Ok) => {
                Answer::Removed(decode_version(body).is_ok_and(|version| !version.is_none()))
            }
            (Kind::Increment, Status::Ok) => match IncrementReply::decode(body) {
                Ok(reply) => Answer::Sum(reply.bits as i64),
                Err(status) => Answer::Fault(fault_of(status, "")),
            },
            (_, Status::NotFound | Status::Exists | Status::WrongVersion) => Answer::Conflict,
            (
                _,
                Status::KeyTooLarge
                | Status::ValueTooLarge
                | Status::OutOfMemory
                | Status::NotANumber
                | Status::OutOfRange
                | Status::NotTogether
                | Status::CommitTooLarge
                | Status::Corrupt,
            ) => Answer::Fault(fault_of(status, "")),
            _ => Answer::Elsewhere,
        }
    }

    /// The answer in place of one that the host has not given for so long.
    pub fn of_silence(kind: Kind, waited: Duration) -> Answer<'static> {
        let detail =
            format!("this server has waited {waited:.1?} for copies on other servers; see 'ramhold status'");
        match kind {
            Kind::Read => Answer::Fault(fault_of(Status::Retry, &detail)),
            Kind::Write | Kind::Remove | Kind::Increment | Kind::Commit => {
                Answer::Fault(unknown_for_good(&detail))
            }
        }
    }

    /// Reads an outcome of the session.
    pub fn of_outcome(outcome: Outcome) -> Answer<'static> {
        match outcome {
            Outcome::Done(reply) => Answer::of_reply(reply),
            Outcome::Refused { shortage: Some(shortage), .. } => {
                Answer::Fault(Fault::said(format!("NOREPLICAS {shortage}; {}", shortage.remedy())))
            }
            Outcome::Refused { status, detail, .. } => match status {
                Status::NotFound => Answer::Absent,
                Status::Exists | Status::WrongVersion => Answer::Conflict,
                Status::UnknownTable => Answer::NoTable,
                Status::TableExists => Answer::TableExists,
                status => Answer::Fault(fault_of(status, &detail)),
            },
            Outcome::Unknown { detail, .. } if planted(Defect::RespUnknownIsRefused) => {
                Answer::Fault(fault_of(Status::Retry, &detail))
            }
            Outcome::Unknown { detail, token: Some(token) } => Answer::Fault(Fault::said(format!(
                "UNKNOWN {token} it may have been done, or not; 'ramhold resume' settles it with this token: {detail}"
            ))),
            Outcome::Unknown { detail, token: None } => Answer::Fault(unknown_for_good(&detail)),
        }
    }

    fn of_reply(reply: Reply) -> Answer<'static> {
        match reply {
            Reply::Read { version, expires, value, .. } => {
                Answer::Found { version, expires: expires.map(|end| end.0), value: Cow::Owned(value) }
            }
            Reply::Written { .. } | Reply::Committed { .. } => Answer::Written,
            Reply::Removed { version } => Answer::Removed(!version.is_none()),
            Reply::Incremented { sum: Number::Integer(sum), .. } => Answer::Sum(sum),
            Reply::Counted { last, objects } => Answer::Counted { last, objects },
            Reply::Page(page) => Answer::Page(Box::new(page)),
            Reply::TableCreated { table } => Answer::Table(table),
            Reply::Table(description) => Answer::Described(Box::new(description)),
            Reply::TableTruncated { .. } => Answer::TableTruncated,
            Reply::Tables(tables) => Answer::Tables(tables),
            Reply::AccountsChanged(changed) => Answer::Accounts(changed),
            _ => Answer::Fault(Fault::fixed("ERR the answer is of another kind than was asked for")),
        }
    }

    /// The object that was read, or the answer that says why it was not read.
    pub fn into_object(self) -> Result<Option<(Version, Object)>, Answer<'a>> {
        match self {
            Answer::Found { version, expires, value } => {
                Ok(Some((version, Object { value: value.into_owned(), expires })))
            }
            Answer::Absent => Ok(None),
            other => Err(other),
        }
    }
}

/// The error for an outcome that nothing settles later. The second word of `UNKNOWN` is the token, or says that there is
/// none: a client must not take a word of the text for one.
fn unknown_for_good(detail: &str) -> Fault {
    Fault::said(format!("UNKNOWN - it may have been done, or not: {detail}"))
}

/// The error that tells a Redis client of a refusal.
pub fn fault_of(status: Status, detail: &str) -> Fault {
    match status {
        Status::KeyTooLarge => Fault::KEY_TOO_LARGE,
        Status::ValueTooLarge => Fault::VALUE_TOO_LARGE,
        Status::OutOfMemory => Fault::OUT_OF_MEMORY,
        Status::NotTogether => Fault::CROSS_SERVER,
        Status::CommitTooLarge => Fault::fixed(
            "ERR transaction is too large: what has effect together has at most 256 keys and 4194304 bytes",
        ),
        Status::NotANumber => Fault::NOT_AN_INTEGER,
        Status::OutOfRange => Fault::OVERFLOW,
        Status::Corrupt | Status::NotAllowed => Fault::said(format!("ERR {}", status.text())),
        Status::NoQuorum => Fault::said(format!("NOQUORUM {}: {detail}", status.text())),
        Status::TooFewBackups => Fault::said(format!("NOREPLICAS {}", status.text())),
        _ if detail.is_empty() => Fault::said(format!("TRYAGAIN {}", status.text())),
        _ => Fault::said(format!("TRYAGAIN {}: {detail}", status.text())),
    }
}
