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
//! Not here: messages and calls (`supervisor`), how often (`limit`). Protocol: docs/protocols/quorum.md, rules 44, 45.
//! Catalogue: I6.

use crate::limit::{RestartLimit, Restarts};
use ramhold_base::event::{Event, Indicator, Monitor, Treatment};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterId, Effects, Instant, Level, Peer, ServerId, Status};
use ramhold_wire::bricks::ANNOUNCE_INTERVAL;
use ramhold_wire::restart::{BrickProbed, BrickRestart, RestartAnswer, RestartOrder, RestartSaid};
use ramhold_wire::{Header, reply_with};
use std::net::SocketAddr;
use std::time::Duration;

/// Questions to the brick without an answer, after which an order is carried out.
const UNANSWERED_MAX: u32 = 2;
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
/// The end of a question without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unanswered {
    /// There was none within this time.
    Late(Duration),
    /// The connection is lost, or nobody listens.
    Lost,
}

/// Orders that wait for one verdict; a tablet has at most seven bricks.
const WAITING_COUNT_MAX: usize = 64;

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

/// The newest life that was told.
#[derive(Debug)]
struct Known {
    cluster: ClusterId,
    brick: ServerId,
    life: u64,
    mark: u64,
    siblings: Vec<ServerId>,
    /// Its process is gone.
    is_over: bool,
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

/// An order that is looked into.
#[derive(Debug)]
struct Verdict {
    by: ServerId,
    life: u64,
    silent: Duration,
    /// Questions since the order that the brick has not answered.
    unanswered: u32,
    /// All who ordered it.
    waiting: Vec<(Peer, Header)>,
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
    acts: Vec<Act>,
}

fn answer(effects: &mut Effects, (to, header): &(Peer, Header), said: RestartSaid) {
    reply_with(effects, *to, header, Status::Ok, &RestartAnswer { said });
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
            verdict.waiting.iter().for_each(|to| answer(effects, to, RestartSaid::Restarting));
        }
        let lived = match self.process {
            Process::Running { since, .. } => now.since(since),
            Process::Starting => Duration::ZERO,
            Process::Ending { then, .. } => {
                self.process = match then {
                    Then::Start => Process::Waiting { at: now },
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
                self.process = Process::Waiting { at: now + pause };
                Treatment::Started { pause }
            }
            Err(limit) => {
                self.process = Process::Offline;
                self.offline(limit)
            }
        };
        self.tell(ended, Monitor::Supervisor, treatment, effects);
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
    pub fn on_probed(&mut self, told: BrickProbed, effects: &mut Effects) {
        let Process::Running { since, .. } = self.process else { return };
        self.process = Process::Running { since, has_answered: true };
        self.note_answer();
        if told.life > 0 {
            let BrickProbed { cluster, brick, life, mark, siblings, .. } = told;
            self.known = Some(Known { cluster, brick, life, mark, siblings, is_over: false });
        }
        let Some(verdict) = self.verdict.take() else { return };
        verdict.waiting.iter().for_each(|to| answer(effects, to, RestartSaid::Answers));
        let (monitor, silent) = (Monitor::Brick(verdict.by), self.silent(&verdict));
        self.tell(silent, monitor, Treatment::Left, effects);
    }

    fn silent(&self, verdict: &Verdict) -> Indicator {
        let brick = self.known.as_ref().map_or(ServerId::NONE, |known| known.brick);
        Indicator::Silent { brick, life: verdict.life, silent: verdict.silent }
    }

    /// A question to the brick was not answered.
    pub fn on_unanswered(&mut self, now: Instant, how: Unanswered, effects: &mut Effects) {
        self.unanswered_count = self.unanswered_count.saturating_add(1);
        if let Unanswered::Late(time) = how {
            self.silent_for += time;
        }
        if let Some(verdict) = &mut self.verdict {
            verdict.unanswered += 1;
            if verdict.unanswered >= UNANSWERED_MAX {
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
        let said = self.kill(now, self.silent(&verdict), Monitor::Brick(verdict.by), effects);
        verdict.waiting.iter().for_each(|to| answer(effects, to, said));
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
        check_brick(known, header, order.brick)?;
        if !known.siblings.contains(&header.sender) {
            return Err(Status::NotAllowed);
        }
        if order.life > known.life {
            return Err(Status::NotReady);
        }
        let is_over = known.is_over || (order.life, order.mark) != (known.life, known.mark);
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
        let verdict = self.verdict.get_or_insert_with(|| Verdict {
            by: asker.1.sender,
            life: order.life,
            silent: Duration::from_millis(order.silent_millis),
            unanswered: 0,
            waiting: Vec::new(),
        });
        if verdict.waiting.len() >= WAITING_COUNT_MAX {
            return Err(Status::TooMany);
        }
        verdict.waiting.push(asker);
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
        check_brick(known, header, asked.brick)?;
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
            Process::Waiting { .. } | Process::Offline => self.process = Process::Waiting { at: now },
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
            verdict.waiting.iter().for_each(|to| answer(effects, to, RestartSaid::Restarting));
        }
        let indicator = Indicator::Asked { name: self.name() };
        self.tell(indicator, Monitor::Operator, treatment, effects);
        self.advance(now, effects);
        Ok(RestartSaid::Restarting)
    }

    /// The supervisor is to end: its process stops in order first.
    pub fn stop(&mut self) {
        self.process = match self.process {
            Process::Waiting { .. } | Process::Offline | Process::Over => Process::Over,
            Process::Starting | Process::Running { .. } => {
                self.acts.push(Act::Stop);
                Process::Ending { then: Then::End, kill_at: Instant::FAR }
            }
            Process::Ending { kill_at, .. } => Process::Ending { then: Then::End, kill_at },
        };
    }
}

/// Whether a message is for this brick of this cluster.
fn check_brick(known: &Known, header: &Header, brick: ServerId) -> Result<(), Status> {
    if header.cluster != known.cluster {
        return Err(Status::WrongCluster);
    }
    if brick != known.brick {
        return Err(Status::WrongServer);
    }
    Ok(())
}
