//! The setting that `CLIENT REPLY` makes: which replies a client wants.
//!
//! Not here: how replies are left out (`muted`).

use crate::{Fault, Reply};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replies {
    Sent,
    /// The reply to the next request is left out.
    NextSkipped,
    /// The request whose reply is left out is being treated.
    Skipped,
    /// No replies are sent; messages of subscriptions are.
    Off,
}

impl Replies {
    /// Carries out `CLIENT REPLY` itself.
    pub fn choose(&mut self, word: &[u8], reply: &mut Reply<'_>) {
        match word.to_ascii_lowercase().as_slice() {
            b"on" => {
                *self = Replies::Sent;
                reply.ok();
            }
            b"off" => *self = Replies::Off,
            b"skip" if *self == Replies::Off => {}
            b"skip" => *self = Replies::NextSkipped,
            _ => reply.fault(&Fault::SYNTAX),
        }
    }
}
