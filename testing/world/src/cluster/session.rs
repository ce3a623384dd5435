//! A session of either protocol: native or Redis.

use super::native::NativeSession;
use super::resp::RespSession;
use crate::system::{End, Met, Request, Session};
use ramhold_base::{Effects, Input, Instant, Machine};

/// A session of either kind.
pub enum ClusterSession {
    Native(Box<NativeSession>),
    Resp(Box<RespSession>),
}

impl ClusterSession {
    fn get(&self) -> &dyn Session {
        match self {
            ClusterSession::Native(session) => &**session,
            ClusterSession::Resp(session) => &**session,
        }
    }

    fn get_mut(&mut self) -> &mut dyn Session {
        match self {
            ClusterSession::Native(session) => &mut **session,
            ClusterSession::Resp(session) => &mut **session,
        }
    }
}

impl Session for ClusterSession {
    fn replace_brick(&mut self) {
        self.get_mut().replace_brick();
    }

    fn is_replacing(&self) -> bool {
        self.get().is_replacing()
    }

    fn lanes(&self) -> usize {
        self.get().lanes()
    }

    fn goes_on_after_unknown(&self) -> bool {
        self.get().goes_on_after_unknown()
    }

    fn packs(&self) -> bool {
        self.get().packs()
    }

    fn appends(&self) -> bool {
        self.get().appends()
    }

    fn commits(&self) -> bool {
        self.get().commits()
    }

    fn take_refusing(&mut self, lane: usize) -> Option<usize> {
        self.get_mut().take_refusing(lane)
    }

    fn begin(&mut self, now: Instant, lane: usize, request: &Request<'_>, effects: &mut Effects) {
        self.get_mut().begin(now, lane, request, effects);
    }

    fn all_begun(&mut self, now: Instant, effects: &mut Effects) {
        self.get_mut().all_begun(now, effects);
    }

    fn leave(&mut self, effects: &mut Effects) {
        self.get_mut().leave(effects);
    }

    fn take_end(&mut self) -> Option<(usize, End)> {
        self.get_mut().take_end()
    }

    fn take_met(&mut self, lane: usize) -> Vec<Met> {
        self.get_mut().take_met(lane)
    }
}

impl Machine for ClusterSession {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        self.get_mut().step(now, input, effects);
    }

    fn deadline(&self) -> Option<Instant> {
        self.get().deadline()
    }
}
