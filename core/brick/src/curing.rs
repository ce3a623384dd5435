//! Compares bricks by their reports, and orders the restart of a sibling that is unlike all others.
//!
//! A brick reports to its siblings with its announcements, and to a few bricks behind its own id that share no tablet with
//! it: three bricks of one tablet could not tell who of them is the odd one. Each brick judges all that report to it. The
//! next sibling by id of the brick that is sentenced orders its restart, as with silence. If the brick is not back a minute
//! later, the one after it orders it as well.
//!
//! Invariants:
//! - a restart is ordered by siblings alone, and for the life that was judged;
//! - nobody is judged by a brick that was late itself.
//!
//! Not here: the verdict (core/detector), silence (`restarting`), the consent of the siblings (`consents`).
//! Protocol: docs/protocols/quorum.md, rules 49, 64 to 68. Source: DSTORE04 7. Catalogue: I6.

use crate::Brick;
use crate::events::EventKind;
use crate::judging::Noted;
use crate::phase::Phase;
use crate::restarting::{Answer, Reason, orderers};
use ramhold_base::event::{Event, Indicator, Monitor, Treatment};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Level, Peer, RpcId, ServerId, Status};
use ramhold_detector::anomaly::{Circumstances, Guard, JUDGE_INTERVAL, Verdict};
use ramhold_wire::bricks::{ANNOUNCE_INTERVAL, StatisticsReport};
use ramhold_wire::restart::RestartSaid;
use ramhold_wire::statistics::{Flags, STATISTIC_COUNT};
use ramhold_wire::{Step, request};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// Bricks beyond its siblings to which a brick reports.
const REPORTED_COUNT_MAX: usize = 4;

fn words(flagged: Flags) -> String {
    format!(
        "{} of {STATISTIC_COUNT} statistics are unlike those of the other bricks ({flagged})",
        flagged.count()
    )
}

impl Brick {
    /// The process tells what it has used since its start, and the memory that it holds, and may hold.
    pub fn on_usage(&mut self, now: Instant, processor: Duration, memory_bytes: (u64, u64)) {
        self.judging.measuring.on_usage(now, processor, memory_bytes);
    }

    /// The device has room for so many segments of the log more.
    pub fn tell_frames_left(&mut self, left: u64) {
        if let Some(store) = &mut self.store {
            store.shard.tell_frames_left(left);
        }
    }

    /// Questions that are handed on from now on had not come by this time.
    pub fn came_after(&mut self, time: Instant) {
        self.judging.measuring.came_after = time;
    }

    /// The bricks whose reports are known here, this one among them.
    pub fn reporting_count(&self) -> usize {
        self.judging.reporting_count()
    }

    /// The statistics of this brick that are unlike those of the others. `None`: it cannot be compared.
    pub fn flagged(&self) -> Option<Flags> {
        self.judging.flagged_of(self.state()?.brick)
    }

    /// The own report, if it is due. It goes to some bricks that share no tablet with this one, too.
    pub(crate) fn report(&mut self, step: &mut Step<'_>) -> Option<StatisticsReport> {
        let life = self.state()?.life;
        // A brick that shares nothing has nothing to do, and would look like the odd one.
        if !self.judging.measuring.is_due(step.now) || self.siblings().is_empty() {
            return None;
        }
        let statistics = self.judging.measuring.report(step.now, self.queues.statistics());
        let report = StatisticsReport { life, votes: self.votes(), statistics };
        self.judging.report(step.now, step.view.me, &report);
        for (brick, address) in self.reported(step.view.me) {
            // Nobody waits for an answer: the next report tells more.
            request(step.effects, Peer::Addr(address), &step.view.to_server(brick), RpcId::NONE, &report);
        }
        Some(report)
    }

    /// The bricks next to this one by id, as far as it knows others than its siblings.
    fn reported(&self, me: ServerId) -> Vec<(ServerId, SocketAddr)> {
        let siblings = self.siblings();
        let Some(state) = self.state() else { return Vec::new() };
        let others: BTreeMap<ServerId, SocketAddr> =
            state.others.iter().map(|other| (other.brick, other.address.0)).collect();
        let ring = others.range(me..).chain(others.range(..me));
        let strangers = ring.filter(|(brick, _)| **brick != me && !siblings.contains(brick));
        strangers.take(REPORTED_COUNT_MAX).map(|(brick, address)| (*brick, *address)).collect()
    }

    /// The report of a sibling, with its announcement.
    pub(crate) fn hear_sibling_report(&mut self, now: Instant, sibling: ServerId, report: &StatisticsReport) {
        self.judging.votes.insert(sibling, report.votes);
        self.judging.report(now, sibling, report);
        if report.votes && self.consents.on_vote(sibling, report.life) {
            let indicator = format!("{} votes in life {}", self.name_of(sibling), report.life);
            let treatment = "none: it is back from the restart for an anomaly to which this brick consented";
            self.note(now, EventKind::AnomalyRestarted, sibling, (indicator, treatment));
        }
    }

    /// The report of another brick.
    pub(crate) fn on_report(
        &mut self,
        step: &Step<'_>,
        from: ServerId,
        report: &StatisticsReport,
    ) -> Result<(), Status> {
        if self.phase != Phase::Serving {
            return Err(Status::NotReady);
        }
        // Those of siblings come with their announcements, and are believed with these alone.
        let is_own = from == ServerId::NONE || from == step.view.me;
        if is_own || self.siblings().contains(&from) {
            return Err(Status::NotAllowed);
        }
        self.judging.report(step.now, from, report);
        Ok(())
    }

    /// Judges all bricks whose reports are known, once a second. `late`: this brick's own announcements are, by so much.
    pub(crate) fn judge(&mut self, step: &mut Step<'_>, late: Duration) {
        if self.judging.judge_at > step.now || late > ANNOUNCE_INTERVAL {
            return;
        }
        self.judging.judge_at = step.now + JUDGE_INTERVAL.saturating_sub(ANNOUNCE_INTERVAL / 2);
        let (me, siblings) = (step.view.me, self.siblings());
        let bricks = self.tables.all().map(|tablet| tablet.siblings.iter().copied().chain([me]).collect());
        let tablets: Vec<BTreeSet<ServerId>> = bricks.collect();
        let mut online: BTreeSet<ServerId> = BTreeSet::new();
        let votes = |brick: &ServerId| {
            self.judging.votes.get(brick) == Some(&true) && !self.siblings.silence.is_silent(*brick)
        };
        online.extend(siblings.iter().filter(|brick| votes(brick)));
        online.extend(Some(me).filter(|_| self.votes()));
        self.judging.votes.retain(|brick, _| siblings.contains(brick));
        let Some(anomalies) = &mut self.judging.anomalies else { return };
        let verdict = anomalies.judge(step.now, Circumstances { online: &online, tablets: &tablets });
        self.carry_out(step, verdict);
    }

    fn carry_out(&mut self, step: &mut Step<'_>, verdict: Verdict) {
        let (now, me) = (step.now, step.view.me);
        let noted = match verdict {
            Verdict::Healthy | Verdict::TooFew | Verdict::Suspected { .. } => None,
            Verdict::Shift { ref anomalous } => {
                if self.judging.noted != Some(Noted::Shift) {
                    let count = anomalous.len();
                    let indicator =
                        format!("{count} bricks at once are unlike the others: the load has shifted");
                    self.note(now, EventKind::AnomalySeen, me, (indicator, "none: no brick is to blame"));
                }
                Some(Noted::Shift)
            }
            // A restart that is under way was noted when it was ordered.
            Verdict::Guarded { guard: Guard::RestartUnderWay(_), .. } => self.judging.noted,
            Verdict::Guarded { brick, life, guard: Guard::SiblingAway(away), flagged } => {
                let noted = Some(Noted::Guarded(brick, life, Guard::SiblingAway(away)));
                if self.judging.noted != noted && self.place_among_orderers(me, brick) == Some(0) {
                    let indicator = format!("{}, life {life}: {}", self.name_of(brick), words(flagged));
                    let treatment = format!("none: {} of its tablet does not vote", self.name_of(away));
                    self.note(now, EventKind::AnomalySeen, brick, (indicator, treatment));
                }
                noted
            }
            Verdict::Restart { brick, life, flagged, repeated } => {
                let place = self.place_among_orderers(me, brick);
                if place.is_some_and(|place| place <= repeated as usize) {
                    self.order_cure(step, (brick, life), flagged);
                }
                None
            }
        };
        self.judging.noted = noted;
    }

    /// The place of this brick among those that may order the restart of a sibling. `None`: it is no sibling.
    fn place_among_orderers(&self, me: ServerId, brick: ServerId) -> Option<usize> {
        if !self.siblings().contains(&brick) {
            return None;
        }
        let is_heard = |other| other == me || !self.siblings.silence.is_silent(other);
        orderers(brick, &self.sharers(me, brick), is_heard).iter().position(|other| *other == me)
    }

    fn order_cure(&mut self, step: &mut Step<'_>, (brick, life): (ServerId, u64), flagged: Flags) {
        let indicator = format!("{}, life {life}: {}", self.name_of(brick), words(flagged));
        let is_ordered = self.send_order(step, brick, Reason::Anomalous { life, flagged });
        let treatment =
            if is_ordered { "its supervisor is told to restart it" } else { "none: nobody restarts it" };
        self.note(step.now, EventKind::AnomalySeen, brick, (indicator, treatment));
    }

    /// The answer of the supervisor of a sentenced brick.
    pub(crate) fn on_cure_answered(
        &mut self,
        step: &mut Step<'_>,
        (brick, life, flagged): (ServerId, u64, Flags),
        answer: Answer,
    ) {
        if answer == Answer::Said(RestartSaid::Held)
            && let Some(anomalies) = &mut self.judging.anomalies
        {
            // It is tried again as soon as it is anomalous in the next judgement.
            anomalies.acquit(brick);
        }
        if self.judging.answered == Some((brick, life, answer)) {
            return;
        }
        self.judging.answered = Some((brick, life, answer));
        let event = Event {
            indicator: Indicator::Anomalous {
                brick,
                life,
                count: flagged.count(),
                flagged: flagged.to_string(),
            },
            monitor: Monitor::Brick(step.view.me),
            treatment: Treatment::Ordered { after: answer.text() },
        };
        step.effects.report(Level::Warn, event.to_string());
        let text = (words(flagged), event.treatment.to_string());
        self.note(step.now, EventKind::AnomalyOrdered, brick, text);
    }

    /// The own supervisor is told to restart this brick for an anomaly: its siblings are asked.
    pub(crate) fn want_restart(&mut self, now: Instant) {
        let votes = self.votes() || planted(Defect::QuorumNoConsent);
        if votes && self.consents.want(now) {
            let soon = self.siblings.announced_at + crate::announcing::ANNOUNCE_AGAIN;
            self.siblings.announce_at = self.siblings.announce_at.min(soon.max(now));
        }
    }

    /// A sibling wants to be restarted in this life. A brick that does not vote does not consent.
    pub(crate) fn on_restart_wanted(&mut self, step: &Step<'_>, sibling: (ServerId, u64)) {
        if self.votes() {
            self.consents.give(step.now, sibling, step.view.me);
        }
    }
}
