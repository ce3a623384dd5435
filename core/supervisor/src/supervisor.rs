//! The supervisor as one machine: messages of siblings and operators, and questions to its own bricks.
//!
//! The owner of the processes takes the wishes of the machine (`take_acts`) after each of its steps, and tells it what has
//! started and ended.
//!
//! Not here: what is done about a brick (`charge`). Catalogue: I6.

use crate::charge::Charge;
use crate::process::{Act, ChargeConfig, Ended};
use crate::verdict::Unanswered;
use ramhold_base::time::earliest;
use ramhold_base::{ConnId, Effect, Effects, Input, Instant, Machine, Peer, ServerId, Status};
use ramhold_wire::bricks::ANNOUNCE_INTERVAL;
use ramhold_wire::restart::{BrickProbe, BrickProbed, BrickRestart, RestartAnswer, RestartOrder};
use ramhold_wire::status::Pong;
use ramhold_wire::{
    Addressee, CallRole, Calls, ForProcess, ForSupervisor, Header, Kind, decode, frame, reply, reply_with,
    request,
};
use std::net::SocketAddr;
use std::time::Duration;

/// How long the brick's loop may take for an answer.
const ANSWER_WITHIN: Duration = ANNOUNCE_INTERVAL;
/// From an answer to the next question.
const ASK_INTERVAL: Duration = ANNOUNCE_INTERVAL;
/// While a process has not told its life yet.
const ASK_EARLY_INTERVAL: Duration = Duration::from_millis(100);

/// The questions to one brick.
#[derive(Clone, Copy, Debug, Default)]
struct Asking {
    /// A question is open.
    is_open: bool,
    /// When it is asked next, if none is.
    next: Instant,
}

/// The supervisor of some bricks of one host.
#[derive(Debug)]
pub struct Supervisor {
    charges: Vec<Charge>,
    asking: Vec<Asking>,
    /// Open questions, by the index of the brick.
    calls: Calls<usize>,
    is_stopping: bool,
    has_ended: bool,
}

impl Supervisor {
    /// `random` must differ from life to life.
    pub fn new(charges: Vec<ChargeConfig>, random: u64) -> Supervisor {
        Supervisor {
            asking: vec![Asking::default(); charges.len()],
            charges: charges.into_iter().map(Charge::new).collect(),
            calls: Calls::new(CallRole::Supervisor, random),
            is_stopping: false,
            has_ended: false,
        }
    }

    /// Wishes about processes, in order: the index of the brick, and the wish.
    pub fn take_acts(&mut self) -> Vec<(usize, Act)> {
        let all = self.charges.iter_mut().enumerate();
        all.flat_map(|(index, charge)| charge.take_acts().into_iter().map(move |act| (index, act))).collect()
    }

    /// A brick, and the newest life that it has told since this supervisor's start.
    pub fn newest_life(&self, index: usize) -> Option<(ServerId, u64)> {
        self.charges[index].newest_life()
    }

    /// The owner has started the process.
    pub fn started(&mut self, now: Instant, index: usize, effects: &mut Effects) {
        self.charges[index].started(now);
        self.asking[index] = Asking { is_open: false, next: now + ASK_EARLY_INTERVAL };
        self.advance(now, effects);
    }

    /// The owner has reaped the process, or could not start it; or the command that was to end it has ended. If that one has
    /// failed, the process runs on.
    pub fn ended(&mut self, now: Instant, index: usize, end: Ended<'_>, effects: &mut Effects) {
        self.calls.lost(self.charges[index].address());
        self.asking[index].is_open = false;
        self.charges[index].ended(now, end, effects);
        self.advance(now, effects);
    }

    fn advance(&mut self, now: Instant, effects: &mut Effects) {
        for (index, charge) in self.charges.iter_mut().enumerate() {
            charge.advance(now, effects);
            let asking = &mut self.asking[index];
            if charge.is_asked() && !asking.is_open && asking.next <= now {
                asking.is_open = true;
                let address = charge.address();
                let rpc = self.calls.open(address, now, now + ANSWER_WITHIN, index);
                let wants_restart = charge.wants_restart();
                let question = BrickProbe { wants_restart };
                request(effects, Peer::Addr(address), &Header::default(), rpc, &question);
            }
        }
        if self.is_stopping && !self.has_ended && self.charges.iter().all(Charge::is_over) {
            self.has_ended = true;
            let unclean = self.charges.iter().find_map(Charge::unclean);
            let (code, reason) = unclean.cloned().unwrap_or((0, "stopped".into()));
            effects.push(Effect::Exit { code, reason });
        }
    }

    fn on_frame(&mut self, now: Instant, from: ConnId, bytes: &[u8], effects: &mut Effects) {
        let (header, body) = match frame::parse(bytes) {
            Ok(parsed) => parsed,
            Err(bad) => return ramhold_wire::refuse_malformed(effects, from, bad),
        };
        match header.kind {
            Kind::Request => {
                if let Err(status) = self.on_request(now, &header, body, Peer::Conn(from), effects) {
                    reply(effects, Peer::Conn(from), &header, status);
                }
            }
            Kind::Reply => {
                let Some(call) = self.calls.answered(header.rpc) else { return };
                let index = call.context;
                match (header.status(), decode::<BrickProbed>(body)) {
                    (Status::Ok, Ok(told)) => self.charges[index].on_probed(now, told, effects),
                    (Status::Ok, Err(status)) | (status, _) => {
                        self.charges[index].on_refused(now, status, effects);
                    }
                }
                let pause = self.pause(index);
                self.asking[index] = Asking { is_open: false, next: now + pause };
            }
        }
    }

    /// From the end of a question to the next one.
    fn pause(&self, index: usize) -> Duration {
        let charge = &self.charges[index];
        // While siblings are asked for their consent, it may come at any moment.
        if charge.is_alive() && !charge.wants_restart() { ASK_INTERVAL } else { ASK_EARLY_INTERVAL }
    }

    fn index_of(&self, brick: ServerId) -> Result<usize, Status> {
        if !self.charges.iter().any(Charge::is_known) {
            return Err(Status::NotReady);
        }
        self.charges.iter().position(|charge| charge.is_brick(brick)).ok_or(Status::WrongServer)
    }

    /// `Err`: the request is refused with this status.
    fn on_request(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        to: Peer,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        let opcode = header.opcode().ok_or(Status::UnknownOpcode)?;
        match opcode.addressee() {
            Addressee::ForProcess(ForProcess::Ping) => {
                let pong = Pong { server: ServerId::NONE, list_version: 0, time_micros: None };
                reply_with(effects, to, header, Status::Ok, &pong);
                Ok(())
            }
            Addressee::ForSupervisor(ForSupervisor::RestartOrder) => {
                let order: RestartOrder = decode(body)?;
                let index = self.index_of(order.brick)?;
                self.charges[index].on_order(now, (to, header), order, effects)?;
                // The brick is asked at once.
                self.asking[index].next = now;
                Ok(())
            }
            Addressee::ForSupervisor(ForSupervisor::BrickRestart) => {
                let asked: BrickRestart = decode(body)?;
                let index = self.index_of(asked.brick)?;
                let said = self.charges[index].on_restart(now, header, asked, effects)?;
                reply_with(effects, to, header, Status::Ok, &RestartAnswer { said });
                Ok(())
            }
            Addressee::ForProcess(_)
            | Addressee::ForSender(_)
            | Addressee::ForObject(_)
            | Addressee::ForMaster(_)
            | Addressee::ForBackup(_)
            | Addressee::ForBrick(_)
            | Addressee::ForServer(_)
            | Addressee::ForCoordinator(_) => Err(Status::NotAllowed),
        }
    }

    /// The connection to a brick is lost: nothing answers the open question.
    fn on_lost(&mut self, now: Instant, addr: SocketAddr, effects: &mut Effects) {
        for call in self.calls.lost(addr) {
            let index = call.context;
            let pause = self.pause(index);
            self.charges[index].on_unanswered(now, Unanswered::Lost(pause), effects);
            self.asking[index] = Asking { is_open: false, next: now + pause };
        }
    }

    fn tick(&mut self, now: Instant, effects: &mut Effects) {
        while let Some(call) = self.calls.overdue(now) {
            self.asking[call.context] = Asking { is_open: false, next: now };
            self.charges[call.context].on_unanswered(now, Unanswered::Late(ANSWER_WITHIN), effects);
        }
    }
}

impl Machine for Supervisor {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        if self.has_ended {
            return;
        }
        match input {
            Input::Start { .. } => {}
            Input::Tick => self.tick(now, effects),
            Input::Frame { from, bytes } => self.on_frame(now, from, bytes, effects),
            Input::Lost { addr, .. } => self.on_lost(now, addr, effects),
            Input::Stop => {
                self.is_stopping = true;
                self.charges.iter_mut().for_each(|charge| charge.stop(now, effects));
            }
            // It opens no files, and hears no Redis clients.
            Input::Met { .. }
            | Input::Bytes { .. }
            | Input::Closed { .. }
            | Input::Disk { .. }
            | Input::Store { .. }
            | Input::Secret { .. } => {}
        }
        self.advance(now, effects);
    }

    fn deadline(&self) -> Option<Instant> {
        if self.has_ended {
            return None;
        }
        self.charges.iter().zip(&self.asking).fold(self.calls.deadline(), |before, (charge, asking)| {
            let ask = (charge.is_asked() && !asking.is_open).then_some(asking.next);
            earliest(before, earliest(ask, charge.deadline()))
        })
    }
}
