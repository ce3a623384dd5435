//! The words of a question on the wire, for the queues and for the register of a simulated brick.
//!
//! Not here: answers (`brick`).

use super::shelf::{Key, Size};
use ramhold_brick::Load;
use ramhold_quorum::{Ask, Class, Write};
use ramhold_wire::ask::{AskRequest, AskWhat};

/// The weight of a question in its queue.
pub fn load_of(request: &AskRequest<'_>) -> Load {
    let (class, value_bytes) = match request.what {
        AskWhat::Value => (Class::Get, 0),
        AskWhat::Stamp => (Class::Stamp, 0),
        AskWhat::Write(write) => (Class::Put, write.value.map_or(0, |value| value.bytes.len())),
    };
    Load { class, bytes: (request.key.len() + value_bytes) as u32 }
}

/// In the register's words. A value is its size.
pub fn ask_of(what: &AskWhat<'_>) -> Ask<Size> {
    match what {
        AskWhat::Value => Ask::Value,
        AskWhat::Stamp => Ask::Stamp,
        AskWhat::Write(write) => Ask::Write(Write {
            stamp: write.stamp,
            value: write.value.map(|value| value.bytes.len() as Size),
            begun: write.begun,
            is_repair: write.is_repair,
        }),
    }
}

/// The number of the key of a question.
pub fn key_of(body: &[u8]) -> Key {
    let request = AskRequest::decode(body).expect("it was decoded when it came");
    Key::from_le_bytes(request.key.try_into().expect("keys are numbers"))
}
