//! Inputs that wait for their turn, and own their bytes.

use crate::disk::ReadBytes;
use ramhold_base::{
    ConnId, DiskError, DiskToken, Input, Lost, SecretResult, SecretToken, StoreResult, StoreToken,
};
use std::net::SocketAddr;

/// The outcome of an effect or the end of a connection. The loop itself or one of its helper threads reports it.
#[derive(Debug, PartialEq)]
pub(crate) enum Pending {
    Lost { addr: SocketAddr, how: Lost },
    Closed { conn: ConnId },
    Disk { token: DiskToken, result: Result<ReadBytes, DiskError> },
    Store { token: StoreToken, result: StoreResult },
    Secret { token: SecretToken, result: SecretResult },
    Stop,
}

impl Pending {
    /// Shows this as an input to `look`, and answers with the memory of a read, to be used again.
    pub(crate) fn with_input(self, look: impl FnOnce(Input<'_>)) -> Option<Vec<u8>> {
        match self {
            Pending::Lost { addr, how } => look(Input::Lost { addr, how }),
            Pending::Closed { conn } => look(Input::Closed { conn }),
            Pending::Disk { token, result: Ok(read) } => {
                look(Input::Disk { token, result: Ok(&read) });
                return Some(read.into_memory()).filter(|memory| !memory.is_empty());
            }
            Pending::Disk { token, result: Err(error) } => look(Input::Disk { token, result: Err(error) }),
            Pending::Store { token, result } => look(Input::Store { token, result }),
            Pending::Secret { token, result } => look(Input::Secret { token, result }),
            Pending::Stop => look(Input::Stop),
        }
        None
    }
}
