//! Questions to bricks on their way out.
//!
//! Not here: their bytes (`order`), when they go out (`flow`).

use super::order::{Value, encode};
use crate::operation::OperationId;
use ramhold_base::{ServerId, TableId};
use ramhold_quorum::{Ask, Class, Sending};
use ramhold_wire::Opcode;
use ramhold_wire::brick_page::BrickPageRequest;
use std::net::SocketAddr;
use std::sync::Arc;

/// A question that goes out at the end of the step.
pub struct Post {
    pub operation: OperationId,
    pub round: u32,
    pub class: Class,
    /// Its place in the window; none while it waits for one.
    pub sending: Option<Sending>,
    pub brick: ServerId,
    pub addr: SocketAddr,
    pub question: Question,
}

pub enum Question {
    Key { attempt: u32, table: TableId, key: Arc<Vec<u8>>, ask: Ask<Value> },
    Page(BrickPageRequest),
}

impl Question {
    pub fn opcode(&self) -> Opcode {
        match self {
            Question::Key { .. } => Opcode::Ask,
            Question::Page(_) => Opcode::BrickPage,
        }
    }

    pub fn class(&self) -> Class {
        match self {
            Question::Key { ask: Ask::Value, .. } | Question::Page(_) => Class::Get,
            Question::Key { ask: Ask::Stamp, .. } => Class::Stamp,
            Question::Key { ask: Ask::Write(_), .. } => Class::Put,
        }
    }

    /// The bytes of the value that is to be written.
    pub fn value_bytes(&self) -> usize {
        match self {
            Question::Key { ask: Ask::Write(write), .. } => {
                write.value.as_ref().map_or(0, |value| value.bytes.len())
            }
            Question::Key { .. } | Question::Page(_) => 0,
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Question::Key { table, key, ask, .. } => encode(*table, key, ask, out),
            Question::Page(request) => request.encode(out),
        }
    }
}
