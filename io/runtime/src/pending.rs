//! Inputs that wait for their turn, with bytes of their own.

use ramhold_base::{ConnId, DiskError, DiskToken, Input, Lost, StoreResult, StoreToken};
use std::borrow::Cow;
use std::net::SocketAddr;

/// What became of an effect or of a connection. Comes from the loop itself or from its helper threads.
#[derive(Debug, PartialEq)]
pub(crate) enum Pending {
    Lost { addr: SocketAddr, how: Lost },
    Closed { conn: ConnId },
    Disk { token: DiskToken, result: Result<Vec<u8>, DiskError> },
    Store { token: StoreToken, result: StoreResult },
    Stop,
}

impl Pending {
    /// Shows this as an input to `look`.
    pub(crate) fn with_input<R>(self, look: impl FnOnce(Input<'_>) -> R) -> R {
        match self {
            Pending::Lost { addr, how } => look(Input::Lost { addr, how }),
            Pending::Closed { conn } => look(Input::Closed { conn }),
            Pending::Disk { token, result } => look(Input::Disk { token, result: result.map(Cow::Owned) }),
            Pending::Store { token, result } => look(Input::Store { token, result }),
            Pending::Stop => look(Input::Stop),
        }
    }
}
