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
//! A process of somebody else is not ended at the limit: its owner would only start it again. It is `Offline` then until it
//! answers. If the command fails that was to end it, it runs on.
//!
//! Invariants:
//! - what is known belongs to the newest life that was told; `is_over` says whether that life's process is reaped;
//! - an end that is not in order is told, and the supervisor that ends with it has its exit status.
//!
//! Not here: an order and its verdict (`verdict`), messages and calls (`supervisor`), how often (`limit`). Protocol:
//! docs/protocols/quorum.md, rules 44, 45.
//! Catalogue: I6.

mod answers;
mod operator;
mod orders;

use crate::limit::Restarts;
use crate::process::{
    Act, COMMAND_WITHIN, ChargeConfig, Ended, PAUSE_FIRST, PAUSE_MAX, Process, RESTART_PAUSE, SHORT_LIFE,
    SILENT_FOR_MAX, STOP_WITHIN, Then,
};
use crate::verdict::{Known, Verdict};
use ramhold_base::event::{Event, Indicator, Monitor, Treatment};
use ramhold_base::{Effects, Instant, Level, ServerId};
use ramhold_wire::restart::RestartSaid;
use std::net::SocketAddr;
use std::time::Duration;

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
    /// Something that is no brick answers at its address: it was said.
    is_strange: bool,
    /// The end of the process with which the supervisor ends, if it was not in order: the exit status, and words.
    unclean: Option<(u8, String)>,
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
            is_strange: false,
            unclean: None,
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

    /// The exit status of the supervisor that ends with this process, and why; none: it has ended in order.
    pub fn unclean(&self) -> Option<&(u8, String)> {
        self.unclean.as_ref()
    }

    fn is_running(&self) -> bool {
        matches!(self.process, Process::Running { .. })
    }

    /// Whether its process may run, so that it is asked. One of somebody else may come back at any moment.
    pub fn is_asked(&self) -> bool {
        self.is_running() || (self.config.is_foreign && self.process == Process::Offline)
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

    /// The owner has reaped the process, or could not start it; or the command that was to end it has ended.
    pub fn ended(&mut self, now: Instant, end: Ended<'_>, effects: &mut Effects) {
        if self.config.is_foreign && end.code != 0 {
            return self.not_ended(now, end, effects);
        }
        if let Some(known) = &mut self.known {
            known.is_over = true;
        }
        if let Some(verdict) = self.verdict.take() {
            verdict.answer(RestartSaid::Restarting, effects);
        }
        let lived = match self.process {
            Process::Running { since, .. } => now.since(since),
            Process::Starting => Duration::ZERO,
            Process::Ending { then, kill_at } => {
                self.process = match then {
                    Then::Start => self.waiting(now),
                    Then::StayOffline => Process::Offline,
                    Then::End => Process::Over,
                };
                self.note_end(then, end, kill_at == Instant::FAR, effects);
                return;
            }
            Process::Waiting { .. } | Process::Offline | Process::Over => return,
        };
        self.short_count = if lived < SHORT_LIFE { self.short_count + 1 } else { 0 };
        let ended = Indicator::Ended { name: self.name(), how: end.how.to_owned() };
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

    /// A process has ended that was to end. `was_killed`: it was told already why.
    fn note_end(&mut self, then: Then, end: Ended<'_>, was_killed: bool, effects: &mut Effects) {
        if end.code == 0 {
            return;
        }
        if then == Then::End {
            self.unclean = Some((end.code, format!("{} did not stop in order ({})", self.name(), end.how)));
        }
        if !was_killed {
            let ended = Indicator::Ended { name: self.name(), how: end.how.to_owned() };
            let treatment = match then {
                Then::Start => Treatment::Started { pause: Duration::ZERO },
                Then::StayOffline | Then::End => Treatment::StaysEnded,
            };
            self.tell(ended, Monitor::Supervisor, treatment, effects);
        }
    }

    /// The command has failed that was to end a process of somebody else: it runs on, and this was no restart.
    fn not_ended(&mut self, now: Instant, end: Ended<'_>, effects: &mut Effects) {
        let Process::Ending { then, .. } = self.process else { return };
        self.process = match then {
            Then::End => Process::Over,
            Then::Start | Then::StayOffline => Process::Running { since: now, has_answered: false },
        };
        self.restarts.take_back();
        self.note_answer();
        let failed = Indicator::CommandFailed { name: self.name(), how: end.how.to_owned() };
        self.tell(failed, Monitor::Supervisor, Treatment::NotEnded, effects);
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
                // The end of a command is told when it is reaped.
                if !self.config.is_foreign {
                    let late = Indicator::Unstopped { name: self.name(), waited: STOP_WITHIN };
                    let treatment = Treatment::Forced { starts: then == Then::Start };
                    self.tell(late, Monitor::Supervisor, treatment, effects);
                }
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
        let (treatment, said) = match self.restarts.admit(now) {
            Ok(()) => {
                self.end(now, Act::Kill, Then::Start);
                (self.treated(Treatment::Killed), RestartSaid::Restarting)
            }
            Err(limit) => {
                match self.config.is_foreign {
                    true => self.process = Process::Offline,
                    false => self.end(now, Act::Kill, Then::StayOffline),
                }
                (self.offline(limit), RestartSaid::Offline)
            }
        };
        self.tell(indicator, monitor, treatment, effects);
        said
    }

    /// Has the process ended.
    fn end(&mut self, now: Instant, act: Act, then: Then) {
        let kill_at = match act {
            Act::Stop => now + STOP_WITHIN,
            Act::Start | Act::Kill if self.config.is_foreign => now + COMMAND_WITHIN,
            Act::Start | Act::Kill => Instant::FAR,
        };
        self.acts.push(act);
        self.process = Process::Ending { then, kill_at };
    }

    /// A command does what it does: nobody knows how it ends a process.
    fn treated(&self, own: Treatment) -> Treatment {
        if self.config.is_foreign { Treatment::Commanded } else { own }
    }
}
