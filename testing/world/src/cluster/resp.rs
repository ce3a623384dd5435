//! A session that speaks the Redis protocol with any server, as a client library does. It uses pipelines and
//! transactions, and changes to another server when the connection breaks or an answer takes too long.
//!
//! Each lane has an operation under way (work). Its commands go out with those of the other lanes (pipe). Every reply
//! is compared with the command that it must answer.

mod pipe;
mod work;

use super::settings::{LANES_MAX, PACKED_LANES_MAX};
use crate::history::{Condition, Outcome};
use crate::resp::{Answer, Heard, Link};
use crate::system::{Ask, End, Met, Request, Session};
use pipe::{Of, Pipe, Sent};
use ramhold_base::{Effects, Input, Instant, Machine, Rng, Status};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use work::{Goal, Way, Work};

pub struct RespSession {
    servers: Vec<SocketAddr>,
    link: Link,
    /// The time of the next attempt to connect.
    retry_at: Option<Instant>,
    /// The deadline of the answer that has been awaited longest.
    patience: Duration,
    heard_at: Instant,
    lanes: usize,
    packs: bool,
    watches: bool,
    /// By lane.
    works: BTreeMap<usize, Work>,
    /// Lanes whose operation has not been sent.
    unsent: Vec<usize>,
    pipe: Pipe,
    ends: VecDeque<(usize, End)>,
    met: BTreeMap<usize, Vec<Met>>,
}

impl RespSession {
    pub fn new(seed: u64, servers: Vec<SocketAddr>) -> RespSession {
        let mut rng = Rng::new(seed);
        let watches = rng.chance(1, 3);
        let packs = !watches && rng.chance(2, 3);
        let lanes = if packs { PACKED_LANES_MAX } else { LANES_MAX };
        RespSession {
            servers,
            link: Link::new(rng.u64()),
            retry_at: Some(Instant::ZERO),
            patience: Duration::from_millis(rng.between(300, 12_000)),
            heard_at: Instant::ZERO,
            lanes: if watches { 1 } else { rng.between(1, lanes) as usize },
            packs,
            watches,
            works: BTreeMap::new(),
            unsent: Vec::new(),
            ends: VecDeque::new(),
            met: BTreeMap::new(),
            pipe: Pipe::new(rng),
        }
    }

    fn connect(&mut self, now: Instant, effects: &mut Effects) {
        self.retry_at = None;
        self.heard_at = now;
        let addr = *self.pipe.rng.pick(&self.servers).expect("there are servers");
        self.link.open(addr, effects);
    }

    /// The connection is lost. The fate of the commands that were sent is open.
    fn disconnect(&mut self, now: Instant, effects: &mut Effects) {
        self.link.abandon(effects);
        self.retry_at = Some(now + Duration::from_millis(self.pipe.rng.below(60)));
        self.pipe.clear();
        let RespSession { works, unsent, ends, .. } = self;
        works.retain(|lane, work| {
            let is_unsent = unsent.contains(lane);
            if !is_unsent {
                ends.push_back((*lane, End { outcome: work.outcome_if_lost(), answered_by: None }));
            }
            is_unsent
        });
    }

    fn on_reply(&mut self, now: Instant, answer: Answer) {
        let Some(Sent { lane, of }) = self.pipe.take_sent() else {
            panic!("{answer:?} to nothing that was asked");
        };
        if let Of::Echo(word) = of {
            assert_eq!(answer, Answer::Bulk(Some(word)), "the reply to an ECHO");
            return;
        }
        let work = self.works.get_mut(&lane).expect("who waits for a reply is there");
        work.on_reply(now, of, answer, &mut self.pipe);
        let Some(outcome) = work.outcome() else { return };
        let work = self.works.remove(&lane).expect("looked at just now");
        if outcome == Outcome::Scanned {
            self.met.insert(lane, work.met);
        }
        self.ends.push_back((lane, End { outcome, answered_by: None }));
    }

    fn flush(&mut self, now: Instant, effects: &mut Effects) {
        if !self.link.is_open() {
            return;
        }
        for lane in self.unsent.drain(..) {
            if let Some(work) = self.works.get_mut(&lane) {
                work.start(now, &mut self.pipe);
            }
        }
        if self.pipe.has_out() {
            if self.pipe.is_fresh() {
                self.heard_at = now;
            }
            self.link.send(&self.pipe.take_out(), effects);
        }
    }

    fn late_at(&self) -> Option<Instant> {
        let waits = self.pipe.is_awaited() || (self.link.addr.is_some() && !self.link.is_open());
        waits.then(|| self.heard_at + self.patience)
    }
}

impl Session for RespSession {
    fn lanes(&self) -> usize {
        self.lanes
    }

    fn goes_on_after_unknown(&self) -> bool {
        true
    }

    fn packs(&self) -> bool {
        self.packs
    }

    fn appends(&self) -> bool {
        true
    }

    fn commits(&self) -> bool {
        false
    }

    fn begin(&mut self, now: Instant, lane: usize, request: &Request<'_>, effects: &mut Effects) {
        let goal = match request.ask {
            Ask::Read => Goal::Read,
            Ask::Count => Goal::Count,
            Ask::Write { value, condition, ttl } => Goal::Write { value: value.to_vec(), condition, ttl },
            Ask::Remove { condition } => Goal::Remove { condition },
            Ask::Increment { by, condition } => Goal::Increment { by, condition },
            Ask::Append { letter } => Goal::Append { letter },
            Ask::Scan => Goal::Scan,
            Ask::Commit(_) => unreachable!("it does not say that it commits"),
        };
        let ways: &[Way] = match &goal {
            Goal::Read | Goal::Count | Goal::Scan => &[Way::Plain, Way::Swap],
            Goal::Write { .. } | Goal::Remove { condition: Condition::Free } => {
                &[Way::Plain, Way::Plain, Way::Get, Way::Multi]
            }
            Goal::Append { .. } => &[Way::Plain, Way::Multi],
            Goal::Increment { condition: Condition::Free, .. } if self.watches => &[Way::Watch, Way::Plain],
            Goal::Increment { condition: Condition::Free, .. } => &[Way::Plain, Way::Multi, Way::Swap],
            Goal::Increment { .. } if self.watches => &[Way::Watch, Way::Swap],
            Goal::Increment { .. } => &[Way::Swap],
            Goal::Remove { .. } => &[Way::Watch],
        };
        let way = *self.pipe.rng.pick(ways).expect("there is a way");
        if way == Way::Watch && !self.watches {
            // Only a lane that has the connection alone can watch a key on it.
            let outcome = Outcome::Refused { status: Status::Retry };
            return self.ends.push_back((lane, End { outcome, answered_by: None }));
        }
        let work = Work::new(now, lane, request.key, goal, way);
        self.works.insert(lane, work);
        self.unsent.push(lane);
        if !self.packs {
            self.flush(now, effects);
        }
    }

    fn all_begun(&mut self, now: Instant, effects: &mut Effects) {
        self.flush(now, effects);
    }

    fn leave(&mut self, effects: &mut Effects) {
        self.link.abandon(effects);
    }

    fn take_met(&mut self, lane: usize) -> Vec<Met> {
        self.met.remove(&lane).unwrap_or_default()
    }

    fn take_end(&mut self) -> Option<(usize, End)> {
        self.ends.pop_front()
    }
}

impl Machine for RespSession {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match input {
            Input::Start { .. } => self.connect(now, effects),
            Input::Bytes { from, bytes } => {
                for heard in self.link.on_bytes(from, bytes, effects) {
                    self.heard_at = now;
                    match heard {
                        Heard::Open => {}
                        Heard::Reply(answer) => self.on_reply(now, answer),
                        Heard::Refused => {
                            self.disconnect(now, effects);
                            break;
                        }
                    }
                }
            }
            Input::Lost { addr, how } if self.link.on_lost(addr, how, effects) => {
                self.disconnect(now, effects);
            }
            _ => {}
        }
        if self.late_at().is_some_and(|at| at <= now) {
            self.disconnect(now, effects);
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.connect(now, effects);
        }
        self.flush(now, effects);
    }

    fn deadline(&self) -> Option<Instant> {
        ramhold_base::time::earliest(self.late_at(), self.retry_at)
    }
}
