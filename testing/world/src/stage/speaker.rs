//! A Redis client of a stage, which is connected to one server and sends the script's commands.

use crate::resp::{Answer, Heard, Link, Words};
use ramhold_base::{Effects, Input, Instant, Machine};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// A Redis client.
pub struct Speaker {
    link: Link,
    pub(super) wanted: Option<SocketAddr>,
    pub(super) given: VecDeque<Words>,
    /// With the time at which each came.
    pub(super) replies: Vec<(u64, Answer)>,
    pub(super) is_lost: bool,
}

impl Speaker {
    pub(super) fn new(name: u64) -> Speaker {
        Speaker {
            link: Link::new(name),
            wanted: None,
            given: VecDeque::new(),
            replies: Vec::new(),
            is_lost: false,
        }
    }

    /// Whether the connection that was wanted is there, or has ended.
    pub(super) fn is_settled(&self) -> bool {
        self.wanted.is_none() && (self.link.is_open() || self.is_lost)
    }
}

impl Machine for Speaker {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match input {
            Input::Bytes { from, bytes } => {
                for heard in self.link.on_bytes(from, bytes, effects) {
                    match heard {
                        Heard::Reply(answer) => self.replies.push((now.0, answer)),
                        Heard::Open => {}
                        Heard::Refused => self.is_lost = true,
                    }
                }
            }
            Input::Lost { addr, how } => self.is_lost |= self.link.on_lost(addr, how, effects),
            _ => {}
        }
        if let Some(addr) = self.wanted.take() {
            self.is_lost = false;
            self.replies.clear();
            self.link.open(addr, effects);
        }
        if self.link.is_open() && !self.given.is_empty() {
            let given: Vec<Words> = self.given.drain(..).collect();
            self.link.send(&given, effects);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}
