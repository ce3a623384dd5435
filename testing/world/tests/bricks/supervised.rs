//! Supervisors beside the bricks of a rig: each a machine of its own, which ends and starts the brick's process.

use crate::network::{Party, SUPERVISOR_PORT, address};
use crate::rig::{Event, MILLI, Rig};
use ramhold_base::{Effect, Effects, Input, Instant, Level, Lost, Machine, Peer};
use ramhold_supervisor::{Act, ChargeConfig, Ended, RestartLimit, Supervisor};
use ramhold_wire::{Kind, Opcode, frame};

/// The supervisors of a rig, and what they have done.
#[derive(Default)]
pub struct Supervision {
    supervisors: Vec<Supervisor>,
    /// The processes that were ended, in order: which host's, and how.
    pub ends: Vec<(usize, Act)>,
    /// Orders that have come: who sent it, and to which host's supervisor.
    pub orders: Vec<(Party, usize)>,
    pub reports: Vec<String>,
}

impl Rig {
    /// Gives each brick a supervisor, which starts it anew.
    pub fn supervise(&mut self, limit: RestartLimit) {
        for host in 0..self.hosts.len() {
            self.kill(host);
            self.hosts[host].supervisor = Some(SUPERVISOR_PORT + host as u16);
            let charge = ChargeConfig {
                name: format!("brick-{}", host + 1),
                address: address(host),
                limit,
                is_foreign: false,
            };
            let random = self.rng.u64();
            self.supervision.supervisors.push(Supervisor::new(vec![charge], random));
            self.step_supervisor(host, Input::Start { wall_millis: 0 });
        }
        self.run_until(Rig::all_vote);
        // Everybody has announced itself, and is known to its supervisor.
        self.run_for(1500 * MILLI);
    }

    fn step_supervisor(&mut self, host: usize, input: Input<'_>) {
        let mut effects = Effects::new();
        let now = self.instant();
        self.supervision.supervisors[host].step(now, input, &mut effects);
        self.carry_out_supervised(host, effects);
    }

    fn carry_out_supervised(&mut self, host: usize, effects: Effects) {
        for effect in &effects.list {
            match effect {
                Effect::Send { to, frame: sent } => {
                    let bytes = sent.of(&effects.bytes).into_owned();
                    self.send_supervisor(host, *to, bytes);
                }
                Effect::Report { level, text } => {
                    assert!(*level < Level::Error, "{text}");
                    self.supervision.reports.push(text.clone());
                }
                Effect::Close { .. } | Effect::Exit { .. } => {}
                other => panic!("a supervisor does not {other:?}"),
            }
        }
        for (_, act) in self.supervision.supervisors[host].take_acts() {
            match act {
                Act::Start => self.start_supervised(host),
                Act::Kill | Act::Stop => {
                    self.supervision.ends.push((host, act));
                    self.kill(host);
                    self.process_ended(host);
                }
            }
        }
        if let Some(deadline) = self.supervision.supervisors[host].deadline() {
            self.at(deadline.0, Event::Supervise { host });
        }
    }

    /// A frame to a process that is not there comes back as a lost connection.
    fn send_supervisor(&mut self, host: usize, to: Peer, bytes: Vec<u8>) {
        let party = Party::of(to);
        let is_gone = matches!(party, Party::Host(at) if self.hosts[at].node.is_none());
        match (to, is_gone) {
            (Peer::Addr(addr), true) => self.step_supervisor(host, Input::Lost { addr, how: Lost::Refused }),
            _ => self.send(Party::Supervisor(host), party, bytes),
        }
    }

    fn start_supervised(&mut self, host: usize) {
        self.start(host);
        let mut effects = Effects::new();
        let now = self.instant();
        self.supervision.supervisors[host].started(now, 0, &mut effects);
        self.carry_out_supervised(host, effects);
    }

    /// The supervisor has reaped the process.
    pub fn process_ended(&mut self, host: usize) {
        let mut effects = Effects::new();
        let now = self.instant();
        let end = Ended { how: "signal: 9", code: 137 };
        self.supervision.supervisors[host].ended(now, 0, end, &mut effects);
        self.carry_out_supervised(host, effects);
    }

    pub(crate) fn on_supervisor_frame(&mut self, host: usize, from: Party, bytes: &[u8]) {
        let (header, _) = frame::parse(bytes).unwrap();
        if header.kind == Kind::Request && header.opcode() == Some(Opcode::RestartOrder) {
            self.supervision.orders.push((from, host));
        }
        self.step_supervisor(host, Input::Frame { from: from.conn(), bytes });
    }

    pub(crate) fn tick_supervisor(&mut self, host: usize) {
        let now = self.instant();
        let is_due = |at: Instant| at <= now;
        if self.supervision.supervisors[host].deadline().is_some_and(is_due) {
            self.step_supervisor(host, Input::Tick);
        }
    }
}
