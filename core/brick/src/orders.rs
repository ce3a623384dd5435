//! Orders to the supervisors of silent siblings, and their answers.
//!
//! Not here: who is silent, who orders, and how often (`restarting`). Protocol: docs/protocols/quorum.md, rules 42, 43.
//! Catalogue: I6.

use crate::Brick;
use crate::events::EventKind;
use crate::phase::Context;
use crate::restarting::{Answer, Reason, Silence, has_turn, orderers};
use crate::state::LifeState;
use ramhold_base::event::{Event, Indicator, Monitor, Treatment};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Level, Peer, ServerId, Status};
use ramhold_wire::restart::{BrickProbed, RestartAnswer, RestartOrder};
use ramhold_wire::statistics::Flags;
use ramhold_wire::{Step, decode, request};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// A supervisor answers within two questions to its brick.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);

impl Brick {
    /// The answer to the own supervisor, and to an operator.
    pub fn probed(&self, now: Instant) -> BrickProbed {
        let state = self.state().filter(|_| self.has_begun());
        BrickProbed {
            cluster: state.map(|state| state.cluster).unwrap_or_default(),
            brick: state.map_or(ServerId::NONE, |state| state.brick),
            life: state.map_or(0, |state| state.life),
            mark: state.map_or(0, |state| state.mark),
            serves: self.is_serving(),
            without_vote: u32::try_from(self.without_vote_count()).unwrap_or(u32::MAX),
            siblings: self.siblings().into_iter().collect(),
            may_restart: self.consents.may_restart(now, &self.siblings()),
        }
    }

    /// The bricks that share a tablet with this one and a sibling; this one is among them.
    pub(crate) fn sharers(&self, me: ServerId, sibling: ServerId) -> BTreeSet<ServerId> {
        let shared = self.tables.all().filter(|tablet| tablet.siblings.contains(&sibling));
        shared.flat_map(|tablet| &tablet.siblings).copied().chain([me]).collect()
    }

    /// Looks for siblings that are silent, once in each period. `late`: this brick's own announcements are, by so much.
    pub(crate) fn order_restarts(&mut self, step: &mut Step<'_>, late: Duration) {
        self.siblings.restarting.begin_period(step.now, late);
        let silence = |sibling: &ServerId| {
            let answered = self.siblings.answered.get(sibling).copied();
            let heard = self.siblings.silence.heard_since(*sibling).max(answered);
            self.siblings.restarting.silence(step.now, heard)
        };
        let all = self.siblings().into_iter();
        let silent: BTreeMap<ServerId, Duration> = all.filter_map(|it| Some((it, silence(&it)?))).collect();
        self.siblings.restarting.keep(&silent);
        let me = step.view.me;
        for (sibling, time) in &silent {
            let is_heard = |brick: ServerId| brick == me || !silent.contains_key(&brick);
            let orderers = orderers(*sibling, &self.sharers(me, *sibling), is_heard);
            let place = orderers.iter().position(|brick| *brick == me);
            if place.is_some_and(|place| has_turn(place, *time)) || planted(Defect::QuorumAllOrder) {
                self.order_restart(step, *sibling, *time);
            }
        }
    }

    fn order_restart(&mut self, step: &mut Step<'_>, sibling: ServerId, silent: Duration) {
        let Some((known, _)) = self.supervised(sibling) else { return };
        let silence = Silence { life: known.life, silent };
        if self.siblings.restarting.is_due(step.now, sibling, silence) {
            self.send_order(step, sibling, Reason::Silent(silence));
        }
    }

    /// The newest life of a sibling, and its supervisor. Without both there is nothing to order.
    fn supervised(&self, sibling: ServerId) -> Option<(LifeState, SocketAddr)> {
        let known = *self.state_file.durable()?.lives.iter().find(|known| known.brick == sibling)?;
        Some((known, SocketAddr::new(self.address(sibling)?.ip(), known.supervisor?)))
    }

    /// Orders the restart of a sibling. `false`: the life is over, or nobody restarts it.
    pub(crate) fn send_order(&mut self, step: &mut Step<'_>, brick: ServerId, reason: Reason) -> bool {
        let Some((known, supervisor)) = self.supervised(brick) else { return false };
        let (context, life, silent, flagged) = match reason {
            Reason::Silent(Silence { life, silent }) => (Context::Restart(brick), life, silent, None),
            Reason::Anomalous { life, flagged } => {
                (Context::Cure { brick, life, flagged }, life, Duration::ZERO, Some(flagged))
            }
        };
        if life != known.life {
            return false;
        }
        let silent_millis = u64::try_from(silent.as_millis()).unwrap_or(u64::MAX);
        let order = RestartOrder { brick, life, mark: known.mark, silent_millis, flagged };
        let rpc = self.calls.open(supervisor, step.now, step.now + ANSWER_WITHIN, context);
        request(step.effects, Peer::Addr(supervisor), &step.view.to_server(brick), rpc, &order);
        true
    }

    /// The words of an answer to an order; `None`: that life is over, or has just begun, and it will be heard.
    fn words_of(answer: Option<(Status, &[u8])>) -> Option<Answer> {
        Some(match answer {
            None => Answer::None,
            Some((Status::Ok, body)) => match decode::<RestartAnswer>(body) {
                Ok(answer) => Answer::Said(answer.said),
                Err(status) => Answer::Refused(status),
            },
            Some((Status::Fenced | Status::NotReady | Status::Retry, _)) => return None,
            Some((status, _)) => Answer::Refused(status),
        })
    }

    /// The answer to an order for a brick that is unlike the others.
    pub(crate) fn on_cure_order_answered(
        &mut self,
        step: &mut Step<'_>,
        ordered: (ServerId, u64, Flags),
        answer: Option<(Status, &[u8])>,
    ) {
        if let Some(answer) = Brick::words_of(answer) {
            self.on_cure_answered(step, ordered, answer);
        }
    }

    /// The answer to an order; `None`: there is none.
    pub(crate) fn on_restart_answered(
        &mut self,
        step: &mut Step<'_>,
        sibling: ServerId,
        answer: Option<(Status, &[u8])>,
    ) {
        let Some(answer) = Brick::words_of(answer) else { return };
        let Some(silence) = self.siblings.restarting.on_answer(sibling, answer) else { return };
        let event = Event {
            indicator: Indicator::Silent { brick: sibling, life: silence.life, silent: silence.silent },
            monitor: Monitor::Brick(step.view.me),
            treatment: Treatment::Ordered { after: answer.text() },
        };
        step.effects.report(Level::Warn, event.to_string());
        let text = (event.indicator.to_string(), event.treatment.to_string());
        self.note(step.now, EventKind::RestartOrdered, sibling, text);
    }
}
