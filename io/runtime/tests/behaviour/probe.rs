//! A machine that records its inputs and answers as the test says, and functions that turn loops.

use ramhold_base::{
    ConnId, DiskError, DiskToken, Effect, Effects, Input, Instant, Level, Lost, Machine, Peer, RpcId,
    SecretResult, SecretToken, StoreResult, StoreToken,
};
use ramhold_runtime::{NetworkLimits, Runtime, RuntimeConfig, Transport, Turn};
use ramhold_wire::{Header, Opcode, frame};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, PartialEq, Debug)]
pub enum Seen {
    Start,
    Tick,
    Frame { from: ConnId, bytes: Vec<u8> },
    Met { conn: ConnId, peer: Option<SocketAddr>, own: Option<SocketAddr> },
    Bytes { from: ConnId, bytes: Vec<u8> },
    Lost { addr: SocketAddr, how: Lost },
    Closed { conn: ConnId },
    Disk { token: DiskToken, result: Result<Vec<u8>, DiskError> },
    Store { token: StoreToken, result: StoreResult },
    Secret { token: SecretToken, result: SecretResult },
    Stop,
}

type React = Box<dyn FnMut(Instant, &Seen, &mut Effects) + Send>;

pub struct Probe {
    pub seen: Vec<Seen>,
    pub deadline: Option<Instant>,
    /// Frames that are handed on had not come by then.
    pub came_after: Instant,
    /// It sends frames back when their turn is over; how many each turn brought.
    pub gathers: bool,
    pub turns: Vec<usize>,
    pub put_off: Vec<(ConnId, Vec<u8>)>,
    react: React,
}

impl Probe {
    pub fn new(react: impl FnMut(Instant, &Seen, &mut Effects) + Send + 'static) -> Probe {
        Probe {
            seen: Vec::new(),
            deadline: None,
            came_after: Instant::ZERO,
            gathers: false,
            turns: Vec::new(),
            put_off: Vec::new(),
            react: Box::new(react),
        }
    }

    /// Sends frames back, those of a turn together.
    pub fn gathering() -> Probe {
        Probe { gathers: true, ..Probe::silent() }
    }

    pub fn silent() -> Probe {
        Probe::new(|_, _, _| {})
    }

    /// Sends every frame back, and ends on `Stop`.
    pub fn echo() -> Probe {
        Probe::new(|_, seen, effects| match seen {
            Seen::Frame { from, bytes } => {
                effects.send_with(Peer::Conn(*from), |out| out.extend_from_slice(bytes));
            }
            Seen::Stop => effects.push(Effect::Exit { code: 7, reason: "asked to".into() }),
            _ => {}
        })
    }

    pub fn frames(&self) -> Vec<&[u8]> {
        let mut frames = Vec::new();
        for seen in &self.seen {
            if let Seen::Frame { bytes, .. } = seen {
                frames.push(&bytes[..]);
            }
        }
        frames
    }

    pub fn count(&self, wanted: impl Fn(&Seen) -> bool) -> usize {
        self.seen.iter().filter(|seen| wanted(seen)).count()
    }
}

impl Machine for Probe {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        let seen = match input {
            Input::Start { .. } => Seen::Start,
            Input::Tick => Seen::Tick,
            Input::Frame { from, bytes } => Seen::Frame { from, bytes: bytes.to_vec() },
            Input::Met { conn, peer, own } => Seen::Met { conn, peer, own },
            Input::Bytes { from, bytes } => Seen::Bytes { from, bytes: bytes.to_vec() },
            Input::Lost { addr, how } => Seen::Lost { addr, how },
            Input::Closed { conn } => Seen::Closed { conn },
            Input::Disk { token, result } => Seen::Disk { token, result: result.map(<[u8]>::to_vec) },
            Input::Store { token, result } => Seen::Store { token, result },
            Input::Secret { token, result } => Seen::Secret { token, result },
            Input::Stop => Seen::Stop,
        };
        if seen == Seen::Tick {
            self.deadline = None;
        }
        if let (Seen::Frame { from, bytes }, true) = (&seen, self.gathers) {
            self.put_off.push((*from, bytes.clone()));
        }
        (self.react)(now, &seen, effects);
        self.seen.push(seen);
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn puts_off(&self) -> bool {
        !self.put_off.is_empty()
    }

    fn turn_over(&mut self, _: Instant, effects: &mut Effects) {
        self.turns.push(self.put_off.len());
        for (conn, frame) in self.put_off.drain(..) {
            effects.send_with(Peer::Conn(conn), |out| out.extend_from_slice(&frame));
        }
    }

    fn came_after(&mut self, time: Instant) {
        self.came_after = time;
    }
}

/// Lines that a runtime reported.
pub type Lines = Arc<Mutex<Vec<(Level, String)>>>;

pub fn quiet(limits: NetworkLimits) -> (RuntimeConfig, Lines) {
    let lines = Lines::default();
    let kept = Arc::clone(&lines);
    let report =
        Box::new(move |level, text: &str| kept.lock().expect("no panic").push((level, text.to_owned())));
    (RuntimeConfig { limits, report, ..RuntimeConfig::default() }, lines)
}

pub fn server_with(machine: Probe, limits: NetworkLimits) -> (Runtime<Probe>, SocketAddr) {
    let (config, _) = quiet(limits);
    let listen = Some("127.0.0.1:0".parse().expect("an address"));
    let runtime = Runtime::new(machine, RuntimeConfig { listen, ..config }).expect("starts");
    let addr = runtime.local_addr().expect("listens");
    (runtime, addr)
}

pub fn server(machine: Probe) -> (Runtime<Probe>, SocketAddr) {
    server_with(machine, NetworkLimits::default())
}

pub fn client(machine: Probe) -> Runtime<Probe> {
    client_over(machine, crate::TRANSPORT)
}

pub fn client_over(machine: Probe, transport: Transport) -> Runtime<Probe> {
    let limits = NetworkLimits { transport, ..NetworkLimits::default() };
    Runtime::new(machine, quiet(limits).0).expect("starts")
}

/// Turns the loop until the condition holds; fails the test when that takes longer than anything should.
#[track_caller]
pub fn until(runtime: &mut Runtime<Probe>, mut holds: impl FnMut(&mut Runtime<Probe>) -> bool) {
    let give_up = std::time::Instant::now() + Duration::from_secs(30);
    while !holds(runtime) {
        assert!(std::time::Instant::now() < give_up, "never came to be; saw {:?}", runtime.machine().seen);
        runtime.turn(Some(Duration::from_millis(1)));
    }
}

/// The same for two loops that talk to each other.
#[track_caller]
pub fn until_both(
    one: &mut Runtime<Probe>,
    other: &mut Runtime<Probe>,
    mut holds: impl FnMut(&Probe, &Probe) -> bool,
) {
    until(one, |one| {
        assert_ne!(other.turn(Some(Duration::ZERO)), Turn::Ended);
        holds(one.machine(), other.machine())
    });
}

/// A request with this number and a body of this many bytes.
pub fn request(rpc: u64, body_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = Header::request(Opcode::Ping, RpcId(rpc));
    frame::write(&mut bytes, &header, |out| out.extend((0..body_bytes).map(|i| i as u8)));
    bytes
}

/// A peer without a runtime: a plain socket that never blocks.
pub struct Raw {
    stream: TcpStream,
    pub got: Vec<u8>,
    pub ended: bool,
}

impl Raw {
    pub fn connect(addr: SocketAddr) -> Raw {
        Raw::of(TcpStream::connect(addr).expect("connects"))
    }

    pub fn of(stream: TcpStream) -> Raw {
        stream.set_nonblocking(true).expect("a socket");
        Raw { stream, got: Vec::new(), ended: false }
    }

    /// Writes as much as fits and tells how much that was.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            match self.stream.write(&bytes[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("after {written} bytes: {error}"),
            }
        }
        written
    }

    /// Reads what is there into `got`.
    pub fn read(&mut self) -> &[u8] {
        let mut part = [0; 65536];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    self.got.extend_from_slice(&part[..count]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
            return &self.got;
        }
    }

    pub fn finish_writing(&self) {
        self.stream.shutdown(std::net::Shutdown::Write).expect("connected");
    }
}
