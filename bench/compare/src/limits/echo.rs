//! A message to another process and back, with nothing in between.
//!
//! Both ends wait in the same way: how a process learns that something has come makes up most of the time.
//! The relay passes each message to three echoes and answers when all three have.

use crate::process::Process;
use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::fmt;
use std::io::{Error, ErrorKind, Read, Result as IoResult, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

const RELAYED: usize = 3;
/// The first messages find cold caches.
const WARM_UP: u32 = 1000;

/// How a process waits for a message.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Asks the socket again and again.
    Spin,
    /// The same, and gives the core away in between.
    Yield,
    /// Asks an epoll again and again, as a busy server of Ramhold does.
    EpollSpin,
    /// Sleeps in an epoll.
    Epoll,
    /// Sleeps in the read.
    Block,
}

impl How {
    pub const ALL: [How; 5] = [How::Spin, How::Yield, How::EpollSpin, How::Epoll, How::Block];
}

impl fmt::Display for How {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            How::Spin => "spin on the socket",
            How::Yield => "spin, and yield the core",
            How::EpollSpin => "spin on an epoll",
            How::Epoll => "sleep in an epoll",
            How::Block => "sleep in the read",
        })
    }
}

/// Sends every message back, or has others do it.
#[derive(Args, Debug)]
pub struct Echo {
    #[arg(long)]
    port: u16,
    #[arg(long, value_enum)]
    how: How,
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    bytes: u32,
    /// Ports of echoes that are to have each message first.
    #[arg(long, value_delimiter = ',')]
    to: Vec<u16>,
}

/// Quantiles in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Trip {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

impl Trip {
    /// From nanoseconds.
    pub fn of(times: &Histogram<u64>) -> Trip {
        let at = |quantile| times.value_at_quantile(quantile) as f64 / 1000.0;
        Trip { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: times.max() as f64 / 1000.0 }
    }
}

/// Messages to an echo and back, one after the other.
pub fn echo(how: How, bytes: u32, time: Duration) -> Result<Trip, String> {
    let server = start(how, bytes, &[])?;
    round_trips(server.port(), how, bytes, time)
}

/// Messages to a relay with three echoes behind it.
pub fn relay(how: How, bytes: u32, time: Duration) -> Result<Trip, String> {
    let echoes = (0..RELAYED).map(|_| start(how, bytes, &[])).collect::<Result<Vec<Process>, String>>()?;
    let ports: Vec<u16> = echoes.iter().map(Process::port).collect();
    let relay = start(how, bytes, &ports)?;
    round_trips(relay.port(), how, bytes, time)
}

fn start(how: How, bytes: u32, to: &[u16]) -> Result<Process, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let how = how.to_possible_value().expect("no way of waiting is skipped");
    Process::start(&own.to_string_lossy(), |command, port, _| {
        command.args(["echo", "--port", &port.to_string(), "--bytes", &bytes.to_string()]);
        command.args(["--how", how.get_name()]);
        if !to.is_empty() {
            let to: Vec<String> = to.iter().map(u16::to_string).collect();
            command.args(["--to", &to.join(",")]);
        }
    })
}

fn round_trips(port: u16, how: How, bytes: u32, time: Duration) -> Result<Trip, String> {
    let text = |error: Error| format!("echo: {error}");
    let mut link = Link::connect(port, how).map_err(text)?;
    let mut times = Histogram::<u64>::new(3).map_err(|error| error.to_string())?;
    let mut message = vec![b'x'; bytes as usize];
    let mut began = Instant::now();
    for number in 0.. {
        if number == WARM_UP {
            began = Instant::now();
        }
        if number > WARM_UP && began.elapsed() >= time {
            break;
        }
        let sent = Instant::now();
        link.send(&message).map_err(text)?;
        if !link.receive(&mut message).map_err(text)? {
            return Err("echo: the server has ended".into());
        }
        if number >= WARM_UP {
            let nanos = u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX);
            times.record(nanos.max(1)).map_err(|error| error.to_string())?;
        }
    }
    Ok(Trip::of(&times))
}

impl Echo {
    pub fn run(self) -> Result<(), String> {
        self.serve().map_err(|error| format!("echo: {error}"))
    }

    /// One connection at a time: the first one only asks whether anybody listens.
    fn serve(&self) -> IoResult<()> {
        let mut behind = Vec::new();
        for port in &self.to {
            behind.push(Link::connect(*port, self.how)?);
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))?;
        let mut message = vec![0; self.bytes as usize];
        loop {
            let mut link = Link::over(listener.accept()?.0, self.how)?;
            while link.receive(&mut message)? {
                for link in &mut behind {
                    link.send(&message)?;
                }
                for link in &mut behind {
                    if !link.receive(&mut message)? {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                link.send(&message)?;
            }
        }
    }
}

/// A connection, and the way in which its process waits.
struct Link {
    stream: TcpStream,
    how: How,
    poll: Option<OwnedFd>,
    events: Vec<Event>,
}

impl Link {
    fn connect(port: u16, how: How) -> IoResult<Link> {
        Link::over(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?, how)
    }

    fn over(stream: TcpStream, how: How) -> IoResult<Link> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(how != How::Block)?;
        let poll = match how {
            How::EpollSpin | How::Epoll => {
                let poll = epoll::create(CreateFlags::CLOEXEC)?;
                epoll::add(&poll, &stream, EventData::new_u64(0), EventFlags::IN)?;
                Some(poll)
            }
            How::Spin | How::Yield | How::Block => None,
        };
        Ok(Link { stream, how, poll, events: Vec::with_capacity(1) })
    }

    fn send(&mut self, mut bytes: &[u8]) -> IoResult<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Fills the whole message. False: the other end has closed the connection before it.
    fn receive(&mut self, message: &mut [u8]) -> IoResult<bool> {
        let mut at = 0;
        while at < message.len() {
            self.wait()?;
            match self.stream.read(&mut message[at..]) {
                Ok(0) if at == 0 => return Ok(false),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => at += count,
                Err(error) if error.kind() == ErrorKind::ConnectionReset && at == 0 => return Ok(false),
                Err(error) if error.kind() == ErrorKind::WouldBlock => match self.how {
                    How::Yield => std::thread::yield_now(),
                    How::Spin | How::EpollSpin | How::Epoll | How::Block => std::hint::spin_loop(),
                },
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Until the epoll, if there is one, says that something has come.
    fn wait(&mut self) -> IoResult<()> {
        let Some(poll) = &self.poll else { return Ok(()) };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let time = if self.how == How::Epoll { None } else { Some(&at_once) };
        self.events.clear();
        while self.events.is_empty() {
            epoll::wait(poll, rustix::buffer::spare_capacity(&mut self.events), time)?;
        }
        Ok(())
    }
}
