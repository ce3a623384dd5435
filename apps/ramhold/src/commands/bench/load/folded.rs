//! Ramhold's own protocol, from a thread that is all the backups, too.
//!
//! The thread looks at its backups whenever it looks at its own operations, and never sleeps.
//!
//! Not here: the backups' start and end (folded).

use super::link::{Ending, Link, Request, Tag};
use super::native::Native;
use crate::commands::bench::folded::{Backups, FoldedBackups};
use crate::interrupt;

pub struct Folded<'a> {
    native: Native<'a>,
    /// None: another client has them, or none are left.
    backups: Option<Backups>,
    home: &'a FoldedBackups,
    is_lost: bool,
}

impl<'a> Folded<'a> {
    pub fn new(native: Native<'a>, home: &'a FoldedBackups) -> Folded<'a> {
        let backups = home.take();
        Folded { native, is_lost: backups.is_none(), backups, home }
    }

    fn turn(&mut self) {
        if let Some(backups) = &mut self.backups {
            self.is_lost |= !backups.turn();
        }
    }
}

impl Link for Folded<'_> {
    fn start(&mut self, requests: &mut Vec<(Request, Tag)>) {
        self.native.start(requests);
    }

    fn wait(&mut self) -> Option<(Tag, Ending)> {
        while !self.native.is_idle() {
            if let Some(ended) = self.poll() {
                return Some(ended);
            }
        }
        None
    }

    fn poll(&mut self) -> Option<(Tag, Ending)> {
        // The client library sends what was started with the next look, so this comes first.
        let ended = self.native.poll();
        if ended.is_none() {
            self.turn();
        }
        ended
    }

    /// Also when somebody wants the end: the backups must leave in order.
    fn is_lost(&self) -> bool {
        self.is_lost || interrupt::check().is_err()
    }
}

impl Drop for Folded<'_> {
    fn drop(&mut self) {
        if let Some(backups) = self.backups.take() {
            self.home.give_back(backups);
        }
    }
}
