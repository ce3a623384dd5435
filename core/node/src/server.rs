//! A storage server: its phases, its roles, and the routing between them.

use crate::copies::Copies;
use crate::doors::Doors;
use crate::paths::{Paths, Silence};
use crate::reach::ReachCheck;
use crate::resp::For;
use crate::telling::Telling;
use crate::{EXIT_DECLARED_DEAD, EXIT_MEMORY_DAMAGED, ServerConfig};
use ramhold_backup::Backup;
use ramhold_base::time::earliest;
use ramhold_base::{
    Coming, ConnId, Effect, Effects, Input, Instant, Level, Lost, Machine, Mark, Peer, Rng, RpcId, SegmentId,
    ServerId, Status,
};
use ramhold_detector::Detector;
use ramhold_detector::neighbours::{Neighbours, Question};
use ramhold_master::Master;
use ramhold_resp::{Resp, RespStats};
use ramhold_wire::control::Address;
use ramhold_wire::membership::{MembershipVerify, SuspectServer};
use ramhold_wire::status::{Ping, Pong};
use ramhold_wire::{CallRole, Calls, Gone, Header, Kind, Standing, View, decode, frame, request};
use std::net::SocketAddr;
use std::time::Duration;

const VERIFY_TIMEOUT: Duration = Duration::from_millis(300);
/// A server that has not heard from its coordinator for this long asks whether it is still in the cluster. Behind a
/// partition it may have been declared dead, and may know no server that is alive and could tell it.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// How often a server asks for the cluster time. Meanwhile two clocks drift apart by a fifth of a millisecond at most.
const TIME_INTERVAL: Duration = Duration::from_secs(1);
/// As long as answers were too slow to know the time to `TIME_SPAN_MAX`, as they are when everything starts, the next
/// question follows after this pause. Each further question follows after twice the pause before it.
const TIME_PAUSE_MIN: Duration = Duration::from_millis(10);
const TIME_SPAN_MAX: Duration = Duration::from_millis(1);

/// The phases of a server's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The data directory is being read.
    Starting,
    /// The coordinator is being asked for an id.
    Enlisting,
    /// The new identity is being written.
    Installing,
    Serving,
    /// Everything is being flushed. No request is taken any more.
    Stopping,
    Ended,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Context {
    Ping(ServerId),
    Enlist,
    Verify,
    Suspect,
    /// The question for the cluster time.
    Time,
    /// A ping for a question of the coordinator, which asks for reachable servers.
    Reach {
        question: u64,
        server: ServerId,
    },
    /// A ping of this server over one path, which says whether it is silent.
    Probe(ServerId),
    /// A ping of a neighbour.
    Beat(ServerId),
    /// The question to another server whether it reaches a neighbour.
    Helper(Question),
}

pub struct ServerNode {
    pub(crate) config: ServerConfig,
    pub(crate) phase: Phase,
    pub(crate) view: View,
    pub(crate) backup: Backup,
    pub(crate) master: Option<Master>,
    pub(crate) detector: Detector,
    pub(crate) neighbours: Neighbours,
    /// Accounts and logins.
    pub(crate) doors: Doors,
    pub(crate) resp: Option<Resp>,
    pub(crate) calls: Calls<Context>,
    pub(crate) rng: Rng,
    /// The master's memory until there is a master.
    pub(crate) region: Option<Vec<u8>>,
    pub(crate) token: u64,
    pub(crate) ceiling: ramhold_base::Version,
    pub(crate) enlist_at: Option<Instant>,
    pub(crate) enlist_since: Option<Instant>,
    pub(crate) enlist_reported: Instant,
    /// The status with which the coordinator put this server off, if it answered at all.
    pub(crate) enlist_refusal: Option<Status>,
    /// How often the coordinator has said that another server has this server's place in the topology.
    pub(crate) place_taken_count: u32,
    pub(crate) verifying: bool,
    pub(crate) telling: Telling,
    /// The coordinator's question which servers are out of reach.
    pub(crate) reach: ReachCheck,
    /// The paths to other servers.
    pub(crate) paths: Paths,
    /// This server's copy of the coordinator's state.
    pub(crate) copies: Copies,
    /// When the coordinator last spoke to this server, or was last asked.
    pub(crate) heard: Instant,
    /// When the coordinator is asked for the cluster time next.
    pub(crate) time_at: Instant,
    pub(crate) time_pause: Duration,
    pub(crate) bad_frames: u64,
    pub(crate) started: Instant,
    pub(crate) now: Instant,
}

impl ServerNode {
    /// Changes rates of the master, whether it is there already or comes later (`Master::set_rates`).
    pub fn set_rates(&mut self, copies: u64, scrub: u64) {
        let config = &mut self.config.master_config;
        (config.replication.copy_bytes_per_second, config.scrub_bytes_per_second) = (copies, scrub);
        if let Some(master) = &mut self.master {
            master.set_rates(copies, scrub);
        }
    }

    /// `region` is the master's log memory, zeroed, `config.master_config.log_bytes` long (empty without that role).
    pub fn new(config: ServerConfig, region: Vec<u8>, seed: u64) -> ServerNode {
        let mut rng = Rng::new(seed);
        let doors = Doors::new();
        ServerNode {
            phase: Phase::Starting,
            view: View::new(config.coordinator),
            backup: Backup::new(config.backup_config.clone(), rng.u64()),
            master: None,
            detector: Detector::new(config.detector, rng.u64()),
            neighbours: Neighbours::new(config.detector.neighbour_timeout),
            resp: config.resp.clone().map(|config| Resp::new(config, doors.roster.catalog(), rng.u64())),
            doors,
            calls: Calls::new(CallRole::Process, rng.u64()),
            region: Some(region),
            token: rng.id(),
            ceiling: ramhold_base::Version::NONE,
            enlist_at: None,
            enlist_since: None,
            enlist_reported: Instant::ZERO,
            enlist_refusal: None,
            place_taken_count: 0,
            verifying: false,
            telling: Telling::default(),
            reach: ReachCheck::default(),
            paths: Paths::new(!config.links.is_empty()),
            copies: Copies::default(),
            heard: Instant::ZERO,
            time_at: Instant::ZERO,
            time_pause: TIME_PAUSE_MIN,
            bad_frames: 0,
            started: Instant::ZERO,
            now: Instant::ZERO,
            rng,
            config,
        }
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn id(&self) -> ServerId {
        self.view.me
    }

    pub fn view(&self) -> &View {
        &self.view
    }

    /// For tests of the consequences of damage.
    #[doc(hidden)]
    pub fn master_mut(&mut self) -> Option<&mut Master> {
        self.master.as_mut()
    }

    pub fn master(&self) -> Option<&Master> {
        self.master.as_ref()
    }

    /// Counts of the Redis front. `None` where the server does not speak Redis.
    pub fn resp_stats(&self) -> Option<RespStats> {
        self.resp.as_ref().map(Resp::stats)
    }

    pub fn backup(&self) -> &Backup {
        &self.backup
    }

    /// Panics when an invariant does not hold. Walks over everything.
    pub fn check_invariants(&self) {
        self.backup.check_invariants();
        if let Some(master) = &self.master {
            master.check_invariants();
        }
    }

    fn on_frame(&mut self, now: Instant, from: ConnId, bytes: &[u8], effects: &mut Effects) {
        let (header, body) = match frame::parse(bytes) {
            Ok(parsed) => parsed,
            Err(bad) => {
                self.bad_frames += 1;
                ramhold_wire::refuse_malformed(effects, from, bad);
                return;
            }
        };
        match header.kind {
            Kind::Request => self.on_request(now, &header, body, from, effects),
            Kind::Reply => self.on_reply(now, &header, (body, bytes), from, effects),
        }
    }

    /// An answer to a call of a part of this process. `bytes` is the whole frame.
    fn on_reply(
        &mut self,
        now: Instant,
        header: &Header,
        (body, bytes): (&[u8], &[u8]),
        from: ConnId,
        effects: &mut Effects,
    ) {
        if self.paths.is_on() {
            self.note_path(now, header, body, effects);
        }
        match CallRole::of(header.rpc) {
            Some(CallRole::Process) => self.on_own_reply(now, header, body, effects),
            Some(CallRole::Backup) => self.backup.on_reply(now, header, body, &self.view, effects),
            Some(CallRole::Replicator) => {
                if let Some(master) = &mut self.master {
                    master.on_replication_reply(now, header, body, &self.view);
                }
            }
            Some(CallRole::Master) => {
                if let Some(master) = &mut self.master {
                    master.on_reply(now, header, body, &self.view, effects);
                }
            }
            Some(CallRole::Front | CallRole::Peers) => {
                self.resp(now, For::Session(Input::Frame { from, bytes }), effects);
            }
            Some(CallRole::Client | CallRole::Brick | CallRole::Supervisor) | None => {}
        }
    }

    /// An answer says that the path of its request is good, if it is that of the server that was asked.
    fn note_path(&mut self, now: Instant, header: &Header, body: &[u8], effects: &mut Effects) {
        let probed = self.calls.get(header.rpc).and_then(|call| match call.context {
            Context::Probe(server) | Context::Beat(server) => Some(server),
            _ => None,
        });
        let is_other = match probed {
            Some(server) => decode::<Pong>(body).is_ok_and(|pong| pong.server != server),
            None => matches!(header.status(), Status::WrongServer | Status::WrongCluster),
        };
        if is_other {
            self.paths.misled(header.rpc);
        } else {
            for silence in self.paths.answered(now, header.rpc, probed.is_some(), effects) {
                self.ask_again(now, &silence, effects);
            }
        }
    }

    fn on_own_reply(&mut self, now: Instant, header: &Header, body: &[u8], effects: &mut Effects) {
        let Some(call) = self.calls.answered(header.rpc) else { return };
        match call.context {
            Context::Enlist => self.on_enlisted(now, header, body, effects),
            Context::Ping(server) => {
                // Another life may be at that address, or the answer may say that this server is dead.
                let pong = decode::<Pong>(body).ok().map(|p| p.server);
                match header.status() {
                    Status::Ok if pong == Some(server) => {}
                    Status::Fenced | Status::NotInCluster => self.verify(now, effects),
                    _ => self.suspect(now, server, effects),
                }
            }
            Context::Verify => {
                self.verifying = false;
                if header.status() == Status::Ok {
                    self.telling.answered();
                }
                if header.status() == Status::Fenced && header.cluster == self.view.cluster {
                    self.declared_dead(effects);
                }
            }
            Context::Suspect => {
                if header.status() == Status::Fenced && header.cluster == self.view.cluster {
                    self.verify(now, effects);
                }
            }
            Context::Time => {
                let micros = decode::<Pong>(body).ok().and_then(|pong| pong.time_micros);
                let is_ours = header.status() == Status::Ok && header.cluster == self.view.cluster;
                if let Some(micros) = micros.filter(|_| is_ours) {
                    self.view.answer_time(call.sent, now, micros);
                }
                self.plan_next_time(now);
            }
            Context::Probe(_) => {}
            Context::Beat(server) => {
                if decode::<Pong>(body).is_ok_and(|pong| pong.server == server) {
                    self.neighbours.on_pong(server, call.addr);
                }
            }
            Context::Helper(question) => self.on_helper_replied(question, header, body),
            Context::Reach { question, server } => {
                let is_it = decode::<Pong>(body).is_ok_and(|pong| pong.server == server);
                self.reach.heard(now, (question, server), is_it, effects);
            }
        }
    }

    /// Asks the coordinator whether this server is still in the cluster.
    pub(crate) fn verify(&mut self, now: Instant, effects: &mut Effects) {
        if self.verifying || self.view.me.is_none() {
            return;
        }
        self.verifying = true;
        let to = self.config.coordinator;
        let rpc = self.calls.open(to, now, now + VERIFY_TIMEOUT, Context::Verify);
        let full = self.backup.full(now);
        self.telling.sent(now, full.is_some());
        let message = MembershipVerify { address: Some(Address(self.config.advertise)), full };
        request(effects, Peer::Addr(to), &self.view.to_coordinator(), rpc, &message);
    }

    /// Tells the coordinator that a server does not answer.
    pub(crate) fn suspect(&mut self, now: Instant, server: ServerId, effects: &mut Effects) {
        let standing = self.view.list.standing(server);
        if standing != Standing::Up || server == self.view.me || !self.detector.suspects(now, server) {
            return;
        }
        let to = self.config.coordinator;
        let rpc = self.calls.open(to, now, now + VERIFY_TIMEOUT, Context::Suspect);
        request(effects, Peer::Addr(to), &self.view.to_coordinator(), rpc, &SuspectServer { server });
    }

    /// Ends the process at once: a fenced server answers nobody any more.
    pub(crate) fn declared_dead(&mut self, effects: &mut Effects) {
        self.phase = Phase::Ended;
        effects.clear();
        let reason = format!("{} has been declared dead by the coordinator", self.view.me);
        effects.report(Level::Warn, reason.clone());
        effects.push(Effect::Exit { code: EXIT_DECLARED_DEAD, reason });
    }

    /// Ends the process at once. Everything that was acknowledged is on the backups, and nobody could tell what the
    /// damaged bytes here were.
    fn damaged_beyond(&mut self, segment: SegmentId, effects: &mut Effects) {
        self.phase = Phase::Ended;
        effects.clear();
        let reason = format!(
            "{segment} of {} is damaged in memory where no backup has it: ends, to be recovered",
            self.view.me
        );
        effects.report(Level::Error, reason.clone());
        effects.mark(Mark::DamagedBeyond);
        effects.push(Effect::Exit { code: EXIT_MEMORY_DAMAGED, reason });
    }

    fn on_lost(&mut self, now: Instant, addr: SocketAddr, how: Lost, effects: &mut Effects) {
        match self.paths.lost(now, addr) {
            Some(silence) if silence.has_others => self.ask_again(now, &silence, effects),
            // Requests over other paths may have arrived, even if this one refuses connections.
            Some(silence) => self.lose(now, silence.first, Lost::Broken, effects),
            None => self.lose(now, addr, how, effects),
        }
    }

    /// Nothing reaches the server at this address any more.
    fn lose(&mut self, now: Instant, addr: SocketAddr, how: Lost, effects: &mut Effects) {
        for call in self.calls.lost(addr) {
            self.on_unanswered(now, call.context, effects);
        }
        if let Some(master) = &mut self.master {
            master.on_lost(now, Gone::Address(addr), &self.view, effects);
        }
        self.backup.on_lost(now, Gone::Address(addr), &self.view, effects);
        self.resp(now, For::Session(Input::Lost { addr, how }), effects);
        let gone: Vec<ServerId> = self.view.list.up().filter(|e| e.address.0 == addr).map(|e| e.id).collect();
        for server in gone {
            self.suspect(now, server, effects);
        }
    }

    /// Asks again, over another path, what went over one that is silent.
    fn ask_again(&mut self, now: Instant, silence: &Silence, effects: &mut Effects) {
        let gone = Gone::OverPath(&silence.calls);
        for call in self.calls.end(gone) {
            if let Context::Reach { question, server } = call.context {
                self.reach.heard(now, (question, server), false, effects);
            }
        }
        if let Some(master) = &mut self.master {
            master.on_lost(now, gone, &self.view, effects);
        }
        self.backup.on_lost(now, gone, &self.view, effects);
        let is_front = |rpc: &RpcId| matches!(CallRole::of(*rpc), Some(CallRole::Front | CallRole::Peers));
        if silence.calls.iter().any(is_front) {
            // Requests over other paths are repeated, too; each has its effect once.
            let lost = Input::Lost { addr: silence.first, how: Lost::Broken };
            self.resp(now, For::Session(lost), effects);
        }
    }

    fn on_unanswered(&mut self, now: Instant, context: Context, effects: &mut Effects) {
        match context {
            Context::Ping(server) => self.suspect(now, server, effects),
            Context::Enlist => self.enlist_at = Some(now + self.config.enlist_interval),
            Context::Verify => self.verifying = false,
            Context::Suspect | Context::Time | Context::Probe(_) | Context::Beat(_) | Context::Helper(_) => {}
            Context::Reach { question, server } => self.reach.heard(now, (question, server), false, effects),
        }
    }

    /// Asks again over other paths what was asked over silent ones, and tries paths.
    fn advance_paths(&mut self, now: Instant, effects: &mut Effects) {
        let heard = self.paths.tick(now, effects);
        for silence in heard.silences.iter().filter(|silence| silence.has_others) {
            self.ask_again(now, silence, effects);
        }
        for (server, address) in heard.probes {
            self.probe(now, server, address, effects);
        }
    }

    /// Pings a server at one of its addresses.
    fn probe(&mut self, now: Instant, server: ServerId, address: SocketAddr, effects: &mut Effects) {
        let deadline = now + self.detector.ping_timeout();
        let rpc = self.calls.open(address, now, deadline, Context::Probe(server));
        request(effects, Peer::Addr(address), &self.view.to_server(server), rpc, &Ping {});
    }

    fn on_tick(&mut self, now: Instant, effects: &mut Effects) {
        self.advance_paths(now, effects);
        while let Some(call) = self.calls.overdue(now) {
            self.on_unanswered(now, call.context, effects);
        }
        self.backup.tick(now, &self.view, effects);
        if let Some(master) = &mut self.master {
            master.tick(now, &self.view, effects);
        }
        if self.resp.as_ref().and_then(Resp::deadline).is_some_and(|at| at <= now) {
            self.resp(now, For::Session(Input::Tick), effects);
        }
        if self.phase == Phase::Serving && now.since(self.heard) >= SILENCE_MAX {
            self.heard = now;
            self.verify(now, effects);
        }
        if self.phase == Phase::Serving && self.time_at <= now {
            self.ask_time(now, effects);
        }
        if self.phase == Phase::Serving {
            self.advance_neighbours(now, effects);
        }
        if self.phase == Phase::Serving
            && let Some(target) = self.detector.choose_target(now, &self.view)
            && let Some(address) = self.view.list.address(target)
        {
            let deadline = now + self.detector.ping_timeout();
            let rpc = self.calls.open(address, now, deadline, Context::Ping(target));
            request(effects, Peer::Addr(address), &self.view.to_server(target), rpc, &Ping {});
            if let Some(idle) = self.paths.idle(address) {
                self.probe(now, target, idle, effects);
            }
        }
    }

    fn ask_time(&mut self, now: Instant, effects: &mut Effects) {
        self.time_at = now + TIME_INTERVAL;
        let to = self.config.coordinator;
        let rpc = self.calls.open(to, now, now + TIME_INTERVAL, Context::Time);
        request(effects, Peer::Addr(to), &self.view.to_coordinator(), rpc, &Ping {});
    }

    fn plan_next_time(&mut self, now: Instant) {
        if self.view.time_span(now) <= TIME_SPAN_MAX {
            self.time_pause = TIME_PAUSE_MIN;
            self.time_at = now + TIME_INTERVAL;
        } else {
            self.time_at = now + self.time_pause;
            self.time_pause = (2 * self.time_pause).min(TIME_INTERVAL);
        }
    }

    /// Acts on events that the master noticed and that are not its own business.
    fn act_on_events(&mut self, now: Instant, effects: &mut Effects) {
        let Some(master) = &mut self.master else { return };
        for event in master.take_events() {
            match event {
                ramhold_master::Event::SaidDead => self.verify(now, effects),
                ramhold_master::Event::Suspect(server) => self.suspect(now, server, effects),
                ramhold_master::Event::Beyond(segment) => return self.damaged_beyond(segment, effects),
            }
        }
    }

    /// Everything that follows an input, whichever role it was for.
    fn finish_step(&mut self, now: Instant, effects: &mut Effects) {
        self.advance_life(now, effects);
        self.tell(now, effects);
        self.act_on_events(now, effects);
        if self.phase != Phase::Ended && self.master.as_ref().is_some_and(Master::has_local_answers) {
            self.resp(now, For::Answers, effects);
        }
        self.paths.route(now, &self.view, effects);
        self.note_bulk(now, effects);
    }

    fn stop(&mut self, now: Instant, effects: &mut Effects) {
        match self.phase {
            Phase::Serving => {
                self.phase = Phase::Stopping;
                effects.report(Level::Info, "stopping: flushing all replicas to the device");
                self.backup.stop(now, effects);
            }
            Phase::Starting | Phase::Enlisting | Phase::Installing => {
                self.phase = Phase::Ended;
                effects.push(Effect::Exit { code: 0, reason: "stopped before it served".into() });
            }
            Phase::Stopping | Phase::Ended => {}
        }
    }
}

impl Machine for ServerNode {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        if self.phase == Phase::Ended {
            return;
        }
        self.now = now;
        self.backup.resume(now);
        match input {
            Input::Start { .. } => {
                self.started = now;
                self.backup.start(now, effects);
            }
            Input::Tick => self.on_tick(now, effects),
            Input::Frame { from, bytes } => self.on_frame(now, from, bytes, effects),
            Input::Lost { addr, how } => self.on_lost(now, addr, how, effects),
            Input::Closed { conn } => self.resp(now, For::Closed(conn), effects),
            Input::Met { conn, peer, own } => self.resp(now, For::Met { conn, peer, own }, effects),
            Input::Bytes { from, bytes } => self.resp(now, For::Bytes { from, bytes }, effects),
            Input::Disk { token, result } => self.backup.on_disk(now, token, result, &self.view, effects),
            Input::Store { .. } => {}
            Input::Secret { token, result } => self.resp(now, For::Secret(token, result), effects),
            Input::Stop => self.stop(now, effects),
        }
        if self.phase != Phase::Ended {
            self.finish_step(now, effects);
        }
    }

    fn puts_off(&self) -> bool {
        self.phase != Phase::Ended && self.master.as_ref().is_some_and(Master::puts_off)
    }

    fn turn_over(&mut self, now: Instant, effects: &mut Effects) {
        if !self.puts_off() {
            return;
        }
        self.now = now;
        if let Some(master) = &mut self.master {
            master.turn_over(now, &self.view, effects);
        }
        // Answers of the master may let further Redis commands begin. Their own work is put off to the next call.
        self.finish_step(now, effects);
    }

    fn prefetch(&self, coming: &mut dyn Iterator<Item = Coming<'_>>) {
        self.look_ahead(coming);
    }

    fn deadline(&self) -> Option<Instant> {
        if self.phase == Phase::Ended {
            return None;
        }
        let mut at = earliest(self.calls.deadline(), self.backup.deadline());
        at = earliest(at, self.enlist_at);
        at = earliest(at, self.paths.deadline());
        if let Some(master) = &self.master {
            at = earliest(at, master.deadline());
        }
        at = earliest(at, self.resp.as_ref().and_then(Resp::deadline));
        if self.phase == Phase::Serving {
            at = earliest(at, Some(self.detector.deadline()));
            at = earliest(at, self.neighbours.deadline());
            at = earliest(at, Some((self.heard + SILENCE_MAX).min(self.time_at)));
            at = earliest(at, self.telling_deadline());
        }
        at
    }
}
