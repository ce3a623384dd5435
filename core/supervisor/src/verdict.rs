//! The newest life of a brick that is known, and an order about it that is looked into.
//!
//! An order is for one life. It says that the brick is silent, or that it answers and is unlike the others. The first is
//! carried out when the brick is silent to its supervisor, too; the second when the brick's siblings consent.
//!
//! Not here: what is done (`charge`). Protocol: docs/protocols/quorum.md, rules 44, 66, 67. Catalogue: I6.

use ramhold_base::event::Indicator;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterId, Effects, Instant, Peer, ServerId, Status};
use ramhold_wire::bricks::ANNOUNCE_INTERVAL;
use ramhold_wire::restart::{RestartAnswer, RestartOrder, RestartSaid};
use ramhold_wire::statistics::Flags;
use ramhold_wire::{Header, reply_with};
use std::time::Duration;

/// Questions to the brick without an answer, and the time since the order, after which the order is carried out.
pub(crate) const UNANSWERED_MAX: u32 = 2;
const SILENT_AFTER: Duration = Duration::from_millis(2 * ANNOUNCE_INTERVAL.as_millis() as u64);
/// The siblings of a brick that is anomalous consent within this time, or it is left alone.
const CONSENT_WITHIN: Duration = Duration::from_secs(3);
/// Orders that wait for one verdict; a tablet has at most seven bricks.
const WAITING_COUNT_MAX: usize = 64;

/// The end of a question without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unanswered {
    /// There was none within this time.
    Late(Duration),
    /// The connection is lost, or nobody listens. The next question comes after this time.
    Lost(Duration),
}

/// The newest life that was told.
#[derive(Debug)]
pub(crate) struct Known {
    pub cluster: ClusterId,
    pub brick: ServerId,
    pub life: u64,
    pub mark: u64,
    pub siblings: Vec<ServerId>,
    /// Its process is gone.
    pub is_over: bool,
}

impl Known {
    /// Whether a message is for this brick of this cluster.
    pub fn check(&self, header: &Header, brick: ServerId) -> Result<(), Status> {
        if header.cluster != self.cluster {
            return Err(Status::WrongCluster);
        }
        if brick != self.brick {
            return Err(Status::WrongServer);
        }
        Ok(())
    }

    /// Whether a sibling orders something, and for a life that is known here. Returns whether that life is over.
    pub fn check_order(&self, header: &Header, order: RestartOrder) -> Result<bool, Status> {
        if !self.siblings.contains(&header.sender) {
            return Err(Status::NotAllowed);
        }
        if order.life > self.life {
            return Err(Status::NotReady);
        }
        Ok(self.is_over || (order.life, order.mark) != (self.life, self.mark))
    }
}

pub(crate) fn answer(effects: &mut Effects, (to, header): &(Peer, Header), said: RestartSaid) {
    reply_with(effects, *to, header, Status::Ok, &RestartAnswer { said });
}

/// An order that is looked into.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub by: ServerId,
    life: u64,
    mark: u64,
    /// When it was ordered.
    at: Instant,
    silent: Duration,
    /// It answers, and these statistics are unlike those of the other bricks.
    pub flagged: Option<Flags>,
    /// Questions since the order that the brick has not answered.
    unanswered: u32,
    /// All who ordered it.
    pub waiting: Vec<(Peer, Header)>,
}

impl Verdict {
    pub fn new(now: Instant, by: ServerId, order: RestartOrder) -> Verdict {
        let RestartOrder { life, mark, silent_millis, flagged, .. } = order;
        let silent = Duration::from_millis(silent_millis);
        Verdict { by, life, mark, at: now, silent, flagged, unanswered: 0, waiting: Vec::new() }
    }

    /// The brick was unlike the others, and now it is silent.
    pub fn weighs_less_than(&self, new: &Verdict) -> bool {
        self.flagged.is_some() && new.flagged.is_none()
    }

    /// Another order waits for the same verdict.
    pub fn join(&mut self, asker: (Peer, Header)) -> Result<(), Status> {
        if self.waiting.len() >= WAITING_COUNT_MAX {
            return Err(Status::TooMany);
        }
        self.waiting.push(asker);
        Ok(())
    }

    pub fn is_about(&self, (life, mark): (u64, u64)) -> bool {
        (life, mark) == (self.life, self.mark)
    }

    /// A question was not answered. Returns whether the brick is silent: connections may be lost one after the other in no
    /// time, and that alone is no silence.
    pub fn on_unanswered(&mut self, now: Instant) -> bool {
        self.unanswered += 1;
        let has_lasted = self.at + SILENT_AFTER <= now || planted(Defect::QuorumLostIsSilent);
        self.unanswered >= UNANSWERED_MAX && has_lasted
    }

    /// The siblings had their time to consent.
    pub fn is_overdue(&self, now: Instant) -> bool {
        self.at + CONSENT_WITHIN <= now
    }

    pub fn answer(&self, said: RestartSaid, effects: &mut Effects) {
        self.waiting.iter().for_each(|to| answer(effects, to, said));
    }

    pub fn indicator(&self, known: Option<&Known>) -> Indicator {
        let brick = known.map_or(ServerId::NONE, |known| known.brick);
        let (life, silent) = (self.life, self.silent);
        match self.flagged {
            None => Indicator::Silent { brick, life, silent },
            Some(flags) => {
                Indicator::Anomalous { brick, life, count: flags.count(), flagged: flags.to_string() }
            }
        }
    }
}
