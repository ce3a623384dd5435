//! Reasons why an operation did not end as done, and what each means for its effect.

use crate::TableDifference;
use ramhold_base::{Status, TableId, Version};
use ramhold_client_core::{Cause, Outcome, Reply, Shortage, Token};
use ramhold_runtime::StartError;
use std::fmt;

#[derive(Debug)]
pub enum Error {
    /// Surely without effect. The status says why; the version is that of the object, when a rule refused.
    Refused {
        status: Status,
        version: Option<Version>,
        /// The servers that are missing, when the status is `TooFewBackups`.
        shortage: Option<Shortage>,
        detail: String,
    },
    /// A table of this name exists with other options than were asked for. Nothing has changed.
    TableDiffers { table: TableId, differences: Vec<TableDifference> },
    /// It may have taken effect once, or may not. A token settles it later: see `Client::resume`.
    Unknown { detail: String, token: Option<Box<Token>> },
    /// No process of the cluster answered in time. Surely without effect.
    Unreachable { detail: String },
    /// A text that is no list of addresses.
    Address { text: String, why: String },
    /// This process could not set up what it needs to connect.
    Start(StartError),
    /// The answer does not belong to the question; a mistake of this library.
    UnexpectedReply,
}

impl Error {
    /// The status of a refusal.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::Refused { status, .. } => Some(*status),
            Error::Unknown { .. }
            | Error::Unreachable { .. }
            | Error::TableDiffers { .. }
            | Error::Address { .. }
            | Error::Start(_)
            | Error::UnexpectedReply => None,
        }
    }

    /// Takes the reply out of an outcome that is done.
    pub fn check(outcome: Outcome) -> Result<Reply, Error> {
        match outcome {
            Outcome::Done(reply) => Ok(reply),
            Outcome::Refused { cause: Cause::Unreachable, detail, .. } => Err(Error::Unreachable { detail }),
            Outcome::Refused { status, version, shortage, detail, .. } => {
                Err(Error::Refused { status, version, shortage, detail })
            }
            Outcome::Unknown { detail, token } => Err(Error::Unknown { detail, token }),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused { status, detail, .. } if detail.contains(status.text()) => write!(f, "{detail}"),
            Error::Refused { status, detail, .. } => write!(f, "{status} ({detail})"),
            Error::Unknown { detail, .. } => write!(f, "whether it took effect is unknown ({detail})"),
            Error::Unreachable { detail } => write!(f, "cannot reach the cluster ({detail})"),
            Error::TableDiffers { differences, .. } => {
                write!(f, "a table of this name exists with other options: ")?;
                for (at, difference) in differences.iter().enumerate() {
                    write!(f, "{}{difference}", if at > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
            Error::Address { text, why } => write!(f, "'{text}' is not an address like host:port: {why}"),
            Error::Start(error) => error.fmt(f),
            Error::UnexpectedReply => write!(f, "the answer does not belong to the question"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Start(error) => Some(error),
            Error::Refused { .. }
            | Error::Unknown { .. }
            | Error::Unreachable { .. }
            | Error::TableDiffers { .. }
            | Error::Address { .. }
            | Error::UnexpectedReply => None,
        }
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Error {
        Error::Start(error)
    }
}
