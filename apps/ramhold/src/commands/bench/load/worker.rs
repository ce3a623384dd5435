//! One client of the load: keeps its places taken, and counts times.
//!
//! A closed loop sends an operation as soon as it has a place, and the time counts from there. An open loop
//! (`Load::rate`) sends at even distances, and the time counts from the due moment, so a late answer also
//! counts for the operations behind it.
//!
//! Invariant: at most `Load::pipeline` operations are under way.
//!
//! The clock and the link are given, so that tests move the clock.

use super::choice::Choice;
use super::link::{Ending, Kind, Link, Request, Tag};
use super::measured::Measured;
use super::mix::SCAN_COUNT_MAX;
use super::plan::Load;
use ramhold_base::Rng;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Operations of an open loop that are sent together when the client is behind.
const BEHIND_COUNT_MAX: usize = 32;

pub struct Worker<'a> {
    load: &'a Load,
    link: Box<dyn Link + 'a>,
    now: &'a dyn Fn() -> Instant,
    rng: Rng,
    choice: Choice,
    measured: Measured,
    /// Operations to be started together with those that follow.
    collected: Vec<(Request, Tag)>,
    under_way: usize,
    began: Instant,
}

impl<'a> Worker<'a> {
    /// `number`: of this client, from 0.
    pub fn new(
        load: &'a Load,
        number: u64,
        link: Box<dyn Link + 'a>,
        now: &'a dyn Fn() -> Instant,
    ) -> Worker<'a> {
        Worker {
            load,
            link,
            now,
            rng: Rng::new(load.seed.wrapping_add(number)),
            choice: Choice::new(load, number),
            measured: Measured::new(),
            collected: Vec::with_capacity(load.multi),
            under_way: 0,
            began: now(),
        }
    }

    /// Writes these objects, until one of them fails, here or at another client.
    pub fn fill(mut self, objects: impl Iterator<Item = u64>, has_failed: &AtomicBool) -> Measured {
        for object in objects {
            if self.measured.failed.is_some() {
                // The flag guards no other data.
                has_failed.store(true, Ordering::Relaxed);
            }
            if has_failed.load(Ordering::Relaxed) || self.link.is_lost() {
                break;
            }
            self.collect(Kind::Write, object, Request::Write { object }, None);
            self.start_if_full();
        }
        self.finish()
    }

    /// Keeps all places taken for `time`.
    pub fn run_closed(mut self, time: Duration) -> Measured {
        while (self.now)() - self.began < time && !self.link.is_lost() {
            // Operations that start together need one look at the clock.
            (0..self.load.multi).for_each(|_| self.collect_any(None));
            self.start();
        }
        self.finish()
    }

    /// Starts the operation of each turn so long after the beginning as `due` says, for `time`.
    pub fn run_open(mut self, time: Duration, due: impl Fn(u64) -> Duration) -> Measured {
        let together_max = BEHIND_COUNT_MAX.min(self.load.pipeline / 4).max(1);
        for turn in 0.. {
            let after = due(turn);
            if after >= time || self.link.is_lost() {
                break;
            }
            let due = self.began + after;
            if (self.now)() < due {
                self.start();
                // Once at least: the start may have taken all the time that there was.
                self.poll();
                while (self.now)() < due && !self.link.is_lost() {
                    self.poll();
                }
            }
            self.collect_any(Some(due));
            // A client that is behind sends what is due by now together, as any program would.
            if self.collected.len() >= together_max {
                self.start();
                self.poll();
            }
        }
        self.finish()
    }

    /// An operation of any kind in the mix, on any object.
    fn collect_any(&mut self, due: Option<Instant>) {
        let kind = self.load.mix.pick(&mut self.rng);
        let (object, request) = match kind {
            Kind::Read | Kind::Modify => {
                let object = self.choice.existing(&mut self.rng);
                (object, Request::Read { object })
            }
            Kind::Write => {
                let object = self.choice.existing(&mut self.rng);
                (object, Request::Write { object })
            }
            Kind::Insert => {
                let object = self.choice.new_object();
                (object, Request::Write { object })
            }
            Kind::Scan => {
                let count = self.rng.between(1, SCAN_COUNT_MAX);
                let (first, count) = self.choice.existing_run(count, &mut self.rng);
                (first, Request::ReadSeveral { first, count })
            }
        };
        self.collect(kind, object, request, due);
    }

    fn collect(&mut self, kind: Kind, object: u64, request: Request, due: Option<Instant>) {
        // The operation is not sent yet: `start` says when.
        let tag = Tag { kind, object, writes_next: kind == Kind::Modify, due, sent: self.began };
        self.collected.push((request, tag));
    }

    fn start_if_full(&mut self) {
        if self.collected.len() >= self.load.multi {
            self.start();
        }
    }

    /// Sends what is collected when there are places for all of it.
    fn start(&mut self) {
        if self.collected.is_empty() {
            return;
        }
        while self.under_way + self.collected.len() > self.load.pipeline && self.take_one() {}
        // The clock is read only now: a wait for a place is no time of the servers.
        let sent = (self.now)();
        self.collected.iter_mut().for_each(|(_, tag)| tag.sent = sent);
        self.under_way += self.collected.len();
        self.link.start(&mut self.collected);
    }

    /// Takes in what has ended.
    fn poll(&mut self) {
        while let Some((tag, ending)) = self.link.poll() {
            self.take(tag, ending);
        }
    }

    /// Waits for one that ends; false when none is under way.
    fn take_one(&mut self) -> bool {
        let Some((tag, ending)) = self.link.wait() else {
            return false;
        };
        self.take(tag, ending);
        true
    }

    fn take(&mut self, tag: Tag, ending: Ending) {
        if tag.writes_next && matches!(ending, Ending::Done) {
            // It keeps its place, and its time goes on.
            let write = Request::Write { object: tag.object };
            self.link.start(&mut vec![(write, Tag { writes_next: false, ..tag })]);
            return;
        }
        if tag.kind == Kind::Insert {
            self.choice.insert_ended(tag.object);
        }
        self.under_way -= 1;
        self.measured.take(tag, (self.now)(), ending);
    }

    fn finish(mut self) -> Measured {
        self.start();
        while self.take_one() {}
        self.measured.elapsed = (self.now)() - self.began;
        self.measured
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
