//! One brick and its process: what is known of it, and what is done about it.
//!
//! ```text
//!            ┌──────────── pause is over ───────────┐
//!            ▼                                      │
//!   Waiting ─▶ Starting ─▶ Running ─ ended ─▶ Waiting, Offline
//!                            │ order and silence, operator, stop
//!                            ▼
//!                          Ending ─ ended ─▶ Waiting, Offline, Over
//! ```
//!
//! Invariant: what is known belongs to the newest life that was told; `is_over` says whether that life's process is reaped.
//!
//! Not here: an order and its verdict (`verdict`), messages and calls (`supervisor`), how often (`limit`). Protocol: docs/protocols/quorum.md, rules 44, 45.
//! Catalogue: I6.

use crate::limit::{RestartLimit, Restarts};
use crate::verdict::{Known, UNANSWERED_MAX, Unanswered, Verdict, answer};
use ramhold_base::event::{Event, Indicator, Monitor, Treatment};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, Level, Peer, ServerId, Status};
use ramhold_wire::Header;
use ramhold_wire::bricks::ANNOUNCE_INTERVAL;
use ramhold_wire::restart::{BrickProbed, BrickRestart, RestartOrder, RestartSaid};
use std::net::SocketAddr;
use std::time::Duration;

/// No two restarts within two periods.
const RESTART_PAUSE: Duration = Duration::from_millis(2 * ANNOUNCE_INTERVAL.as_millis() as u64);
/// A process that ends sooner is started again after a pause, which doubles with each such life.
const SHORT_LIFE: Duration = Duration::from_secs(2);
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A process that has answered nothing for so long hangs, also if no sibling knows its life and can order anything.
const SILENT_FOR_MAX: Duration = Duration::from_secs(60);
/// Flushing everything to a slow disk. Afterwards a process that was to stop is killed.
const STOP_WITHIN: Duration = Duration::from_secs(60);
/// A wish to the owner of the processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    Start,
    /// SIGTERM: it flushes, and ends.
    Stop,
    /// SIGKILL.
    Kill,
}

#[derive(Clone, Debug)]
pub struct ChargeConfig {
    /// The name of the process for people.
    pub name: String,
    /// Where its brick answers.
    pub address: SocketAddr,
    pub limit: RestartLimit,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Process {
    /// It is started then.
    Waiting {
        at: Instant,
    },
    /// The owner was told to start it.
    Starting,
    Running {
        since: Instant,
        has_answered: bool,
    },
    /// The owner was told to end it.
    Ending {
        then: Then,
        kill_at: Instant,
    },
    /// Only an operator starts it again.
    Offline,
    /// The supervisor ends.
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    Start,
    StayOffline,
    End,
}

#[derive(Debug)]
pub(crate) struct Charge {
    config: ChargeConfig,
    restarts: Restarts,
    known: Option<Known>,
    process: Process,
    verdict: Option<Verdict>,
    /// Questions in a row that the process has not answered, and the time that they had.
    unanswered_count: u32,
    silent_for: Duration,
    /// Short lives in a row.
    short_count: u32,
    /// When the owner was last told to start a process.
    started: Option<Instant>,
    acts: Vec<Act>,
}

impl Charge {
    pub fn new(config: ChargeConfig) -> Charge {
        Charge {
            restarts: Restarts::new(config.limit),
            config,
            known: None,
            process: Process::Waiting { at: Instant::ZERO },
            verdict: None,
            unanswered_count: 0,
            silent_for: Duration::ZERO,
            short_count: 0,
            started: None,
            acts: Vec::new(),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.config.address
    }

    pub fn take_acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    pub fn is_over(&self) -> bool {
        self.process == Process::Over
    }

    /// Whether its process runs, so that it can be asked.
    pub fn is_running(&self) -> bool {
        matches!(self.process, Process::Running { .. })
    }

    /// Whether the brick has told of a life so far.
    pub fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// The brick, and the newest life that it has told.
    pub fn newest_life(&self) -> Option<(ServerId, u64)> {
        self.known.as_ref().map(|known| (known.brick, known.life))
    }

    /// Whether the life of the present process is known.
    pub fn is_alive(&self) -> bool {
        self.known.as_ref().is_some_and(|known| !known.is_over)
    }

    /// Whether the brick is to ask its siblings for their consent to a restart.
    pub fn wants_restart(&self) -> bool {
        self.verdict.as_ref().is_some_and(|verdict| verdict.flagged.is_some())
    }

    pub fn is_brick(&self, brick: ServerId) -> bool {
        self.known.as_ref().is_some_and(|known| known.brick == brick)
    }

    fn name(&self) -> String {
        match &self.known {
            Some(known) => format!("{} ({})", self.config.name, known.brick),
            None => self.config.name.clone(),
        }
    }

    fn tell(&self, indicator: Indicator, monitor: Monitor, treatment: Treatment, effects: &mut Effects) {
        let event = Event { indicator, monitor, treatment };
        let level = if event.is_trouble() { Level::Warn } else { Level::Info };
        effects.report(level, event.to_string());
    }

    fn offline(&self, (restarts, within): (u32, Duration)) -> Treatment {
        let id = self.known.as_ref().map(|known| known.brick);
        let way_out = match id {
            Some(brick) => format!("find out why in its log, then run 'ramhold brick restart {brick}'"),
            None => "find out why in its log, then start its supervisor again".to_owned(),
        };
        Treatment::Offline { restarts, within, way_out }
    }

    /// The owner has started the process.
    pub fn started(&mut self, now: Instant) {
        // Else it is to end already.
        if self.process == Process::Starting {
            self.process = Process::Running { since: now, has_answered: false };
            self.note_answer();
        }
    }

    fn note_answer(&mut self) {
        (self.unanswered_count, self.silent_for) = (0, Duration::ZERO);
    }

    /// The owner has reaped the process, or could not start it. `how`: in words.
    pub fn ended(&mut self, now: Instant, how: &str, effects: &mut Effects) {
        if let Some(known) = &mut self.known {
            known.is_over = true;
        }
        if let Some(verdict) = self.verdict.take() {
            verdict.answer(RestartSaid::Restarting, effects);
        }
        let lived = match self.process {
            Process::Running { since, .. } => now.since(since),
            Process::Starting => Duration::ZERO,
            Process::Ending { then, .. } => {
                self.process = match then {
                    Then::Start => self.waiting(now),
                    Then::StayOffline => Process::Offline,
                    Then::End => Process::Over,
                };
                return;
            }
            Process::Waiting { .. } | Process::Offline | Process::Over => return,
        };
        self.short_count = if lived < SHORT_LIFE { self.short_count + 1 } else { 0 };
        let ended = Indicator::Ended { name: self.name(), how: how.to_owned() };
        let treatment = match self.restarts.admit(now) {
            Ok(()) => {
                let doublings = self.short_count.saturating_sub(1).min(10);
                let pause = (PAUSE_FIRST * (1 << doublings)).min(PAUSE_MAX);
                let pause = if self.short_count == 0 { Duration::ZERO } else { pause };
                self.process = self.waiting(now + pause);
                Treatment::Started { pause }
            }
            Err(limit) => {
                self.process = Process::Offline;
                self.offline(limit)
            }
        };
        self.tell(ended, Monitor::Supervisor, treatment, effects);
    }

    /// The process is started then, and not within two periods of its last start.
    fn waiting(&self, at: Instant) -> Process {
        Process::Waiting { at: self.started.map_or(at, |started| at.max(started + RESTART_PAUSE)) }
    }

    pub fn deadline(&self) -> Option<Instant> {
        match self.process {
            Process::Waiting { at } => Some(at),
            Process::Running { since, has_answered: false } => Some(since + SILENT_FOR_MAX),
            Process::Ending { kill_at, .. } => Some(kill_at).filter(|at| *at < Instant::FAR),
            Process::Running { .. } | Process::Starting | Process::Offline | Process::Over => None,
        }
    }

    pub fn advance(&mut self, now: Instant, effects: &mut Effects) {
        match self.process {
            Process::Waiting { at } if at <= now => {
                self.acts.push(Act::Start);
                self.started = Some(now);
                self.process = Process::Starting;
            }
            // It may not even listen.
            Process::Running { since, has_answered: false } if since + SILENT_FOR_MAX <= now => {
                self.silent_for = now.since(since);
                self.kill_silent(now, effects);
            }
            Process::Ending { then, kill_at } if kill_at <= now => {
                self.acts.push(Act::Kill);
                self.process = Process::Ending { then, kill_at: Instant::FAR };
            }
            Process::Waiting { .. }
            | Process::Running { .. }
            | Process::Ending { .. }
            | Process::Starting
            | Process::Offline
            | Process::Over => {}
        }
    }

    /// Kills a process that hangs. It is started again, if it was not restarted too often.
    fn kill(
        &mut self,
        now: Instant,
        indicator: Indicator,
        monitor: Monitor,
        effects: &mut Effects,
    ) -> RestartSaid {
        let (then, treatment, said) = match self.restarts.admit(now) {
            Ok(()) => (Then::Start, Treatment::Killed, RestartSaid::Restarting),
            Err(limit) => (Then::StayOffline, self.offline(limit), RestartSaid::Offline),
        };
        self.acts.push(Act::Kill);
        self.process = Process::Ending { then, kill_at: Instant::FAR };
        self.tell(indicator, monitor, treatment, effects);
        said
    }

    /// The brick has answered.
    pub fn on_probed(&mut self, now: Instant, told: BrickProbed, effects: &mut Effects) {
        let Process::Running { since, .. } = self.process else { return };
        self.process = Process::Running { since, has_answered: true };
        self.note_answer();
        let (lives, may_restart) = ((told.life, told.mark), told.may_restart);
        if told.life > 0 {
            let BrickProbed { cluster, brick, life, mark, siblings, .. } = told;
            self.known = Some(Known { cluster, brick, life, mark, siblings, is_over: false });
        }
        let Some(verdict) = &self.verdict else { return };
        let said = match verdict.flagged {
            None => RestartSaid::Answers,
            Some(_) if may_restart && verdict.is_about(lives) => return self.cure(now, effects),
            Some(_) if !verdict.is_overdue(now) => return,
            Some(_) => RestartSaid::Held,
        };
        let treatment = if said == RestartSaid::Held { Treatment::Held } else { Treatment::Left };
        self.settle(said, treatment, effects);
    }

    /// Answers all orders that wait, and tells what was done.
    fn settle(&mut self, said: RestartSaid, treatment: Treatment, effects: &mut Effects) {
        let Some(verdict) = self.verdict.take() else { return };
        verdict.answer(said, effects);
        let indicator = verdict.indicator(self.known.as_ref());
        self.tell(indicator, Monitor::Brick(verdict.by), treatment, effects);
    }

    /// All siblings consent to the restart of a brick that answers. It is of use, so it never goes offline for that.
    fn cure(&mut self, now: Instant, effects: &mut Effects) {
        match self.restarts.admit(now) {
            Err((restarts, within)) if !planted(Defect::QuorumCureUnlimited) => {
                self.settle(RestartSaid::Spared, Treatment::Spared { restarts, within }, effects);
            }
            _ => {
                self.acts.push(Act::Kill);
                self.process = Process::Ending { then: Then::Start, kill_at: Instant::FAR };
                self.settle(RestartSaid::Restarting, Treatment::Cured, effects);
            }
        }
    }

    /// A question to the brick was not answered.
    pub fn on_unanswered(&mut self, now: Instant, how: Unanswered, effects: &mut Effects) {
        self.unanswered_count = self.unanswered_count.saturating_add(1);
        let (Unanswered::Late(time) | Unanswered::Lost(time)) = how;
        self.silent_for += time;
        if let Some(verdict) = self.verdict.as_ref().filter(|verdict| verdict.flagged.is_some()) {
            // A brick that hangs is silent to its siblings, too: they will say so.
            if verdict.is_overdue(now) {
                self.settle(RestartSaid::Held, Treatment::Held, effects);
            }
        } else if let Some(verdict) = &mut self.verdict {
            if verdict.on_unanswered(now) {
                self.carry_out(now, effects);
            }
        } else if self.is_running() && self.silent_for >= SILENT_FOR_MAX {
            self.kill_silent(now, effects);
        }
    }

    fn kill_silent(&mut self, now: Instant, effects: &mut Effects) {
        let silent = Indicator::Unanswering { name: self.name(), waited: self.silent_for };
        self.kill(now, silent, Monitor::Supervisor, effects);
    }

    fn carry_out(&mut self, now: Instant, effects: &mut Effects) {
        let Some(verdict) = self.verdict.take() else { return };
        let indicator = verdict.indicator(self.known.as_ref());
        let said = self.kill(now, indicator, Monitor::Brick(verdict.by), effects);
        verdict.answer(said, effects);
    }

    /// An order of a sibling. `Err`: it is refused, and nothing is done.
    pub fn on_order(
        &mut self,
        now: Instant,
        (to, header): (Peer, &Header),
        order: RestartOrder,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        let known = self.known.as_ref().ok_or(Status::NotReady)?;
        known.check(header, order.brick)?;
        let is_over = known.check_order(header, order)?;
        let asker = (to, *header);
        match self.process {
            Process::Offline => answer(effects, &asker, RestartSaid::Offline),
            _ if is_over && !planted(Defect::QuorumLateOrder) => return Err(Status::Fenced),
            Process::Ending { then: Then::StayOffline, .. } => answer(effects, &asker, RestartSaid::Offline),
            Process::Ending { .. } => answer(effects, &asker, RestartSaid::Restarting),
            Process::Running { since, .. } if now < since + RESTART_PAUSE => return Err(Status::Retry),
            Process::Running { .. } => self.judge(now, asker, order, effects)?,
            Process::Waiting { .. } | Process::Starting | Process::Over => return Err(Status::Fenced),
        }
        Ok(())
    }

    fn judge(
        &mut self,
        now: Instant,
        asker: (Peer, Header),
        order: RestartOrder,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        let mut new = Verdict::new(now, asker.1.sender, order);
        if let Some(before) = self.verdict.take_if(|before| before.weighs_less_than(&new)) {
            new.waiting = before.waiting;
        }
        self.verdict.get_or_insert(new).join(asker)?;
        if planted(Defect::QuorumOrderBelieved) {
            self.carry_out(now, effects);
        }
        Ok(())
    }

    /// An operator wants a restart. `Err`: it is refused, and nothing is done.
    pub fn on_restart(
        &mut self,
        now: Instant,
        header: &Header,
        asked: BrickRestart,
        effects: &mut Effects,
    ) -> Result<RestartSaid, Status> {
        let known = self.known.as_ref().ok_or(Status::NotReady)?;
        known.check(header, asked.brick)?;
        if asked.life != 0 && asked.life != known.life {
            return Err(Status::Fenced);
        }
        let mut treatment = Treatment::Stopped;
        match self.process {
            Process::Over | Process::Ending { then: Then::End, .. } => return Err(Status::NotReady),
            // The life that is meant is over, and the next one has not told itself.
            Process::Starting | Process::Running { .. } if known.is_over && asked.life != 0 => {
                return Err(Status::Fenced);
            }
            Process::Running { .. } if known.is_over => return Err(Status::NotReady),
            Process::Starting => return Err(Status::NotReady),
            Process::Ending { kill_at, .. } => self.process = Process::Ending { then: Then::Start, kill_at },
            Process::Waiting { .. } | Process::Offline => self.process = self.waiting(now),
            // A process that hangs does not hear that it is to stop.
            Process::Running { .. } if self.unanswered_count >= UNANSWERED_MAX => {
                self.acts.push(Act::Kill);
                self.process = Process::Ending { then: Then::Start, kill_at: Instant::FAR };
                treatment = Treatment::Killed;
            }
            Process::Running { .. } => {
                self.acts.push(Act::Stop);
                self.process = Process::Ending { then: Then::Start, kill_at: now + STOP_WITHIN };
            }
        }
        self.restarts.begin_anew();
        self.short_count = 0;
        if let Some(verdict) = self.verdict.take() {
            verdict.answer(RestartSaid::Restarting, effects);
        }
        let indicator = Indicator::Asked { name: self.name() };
        self.tell(indicator, Monitor::Operator, treatment, effects);
        self.advance(now, effects);
        Ok(RestartSaid::Restarting)
    }

    /// The supervisor is to end: its process stops in order first. One that hangs does not hear that.
    pub fn stop(&mut self, now: Instant) {
        self.process = match self.process {
            Process::Waiting { .. } | Process::Offline | Process::Over => Process::Over,
            Process::Running { .. } if self.unanswered_count >= UNANSWERED_MAX => {
                self.acts.push(Act::Kill);
                Process::Ending { then: Then::End, kill_at: Instant::FAR }
            }
            Process::Starting | Process::Running { .. } => {
                self.acts.push(Act::Stop);
                Process::Ending { then: Then::End, kill_at: now + STOP_WITHIN }
            }
            Process::Ending { kill_at, .. } => Process::Ending { then: Then::End, kill_at },
        };
    }
}
