//! redis-server, and a client that keeps a fixed number of commands under way on one connection.

use crate::one_run::{Figures, OBJECTS, Test};
use crate::process::Process;
use hdrhistogram::Histogram;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub struct Server {
    process: Process,
}

impl Server {
    pub fn start(options: &[&str]) -> Result<Server, String> {
        let process = Process::start("redis-server", |command, port, dir| {
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]);
            command.arg(dir).args(options);
        })?;
        let server = Server { process };
        server.fill()?;
        Ok(server)
    }

    fn fill(&self) -> Result<(), String> {
        let mut connection = Connection::open(self.process.port())?;
        let mut next = 0;
        connection.drive(64, Duration::from_secs(600), |out| {
            (next < OBJECTS).then(|| {
                set(out, next);
                next += 1;
            })
        })?;
        Ok(())
    }

    pub fn run(&self, test: Test) -> Result<Figures, String> {
        // The client's own thread runs on core 1, because this whole program runs there; see `Connection`.
        let mut connection = Connection::open(self.process.port())?;
        let mut state = 88_172_645_463_325_252u64;
        let started = Instant::now();
        let end = started + Duration::from_secs(test.seconds);
        let times = connection.drive(usize::from(test.pipeline), Duration::from_secs(600), |out| {
            (Instant::now() < end).then(|| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let key = state % OBJECTS;
                if test.reads { get(out, key) } else { set(out, key) }
            })
        })?;
        let micros = |q: f64| times.value_at_quantile(q) as f64 / 1000.0;
        Ok(Figures {
            ops_per_second: times.len() as f64 / started.elapsed().as_secs_f64(),
            p50_micros: micros(0.5),
            p99_micros: micros(0.99),
        })
    }
}

fn key(number: u64) -> String {
    format!("key-{number:026}")
}

fn get(out: &mut Vec<u8>, number: u64) {
    let key = key(number);
    let _ = write!(out, "*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
}

fn set(out: &mut Vec<u8>, number: u64) {
    let key = key(number);
    let _ = write!(out, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$100\r\n{:0100}\r\n", key.len(), number);
}

/// A connection that keeps commands under way and waits by spinning, as Ramhold's client does.
struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    /// The target of each system call that reads. It is kept, since clearing it would be charged to Redis.
    buffer: Box<[u8; 65_536]>,
}

impl Connection {
    fn open(port: u16) -> Result<Connection, String> {
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        stream.set_nonblocking(true).map_err(|e| e.to_string())?;
        Ok(Connection { stream, input: Vec::new(), buffer: Box::new([0; 65_536]) })
    }

    /// Keeps `depth` commands under way until `next` has none left. Returns the latency of each, in
    /// nanoseconds.
    fn drive(
        &mut self,
        depth: usize,
        limit: Duration,
        mut next: impl FnMut(&mut Vec<u8>) -> Option<()>,
    ) -> Result<Histogram<u64>, String> {
        let mut times = Histogram::new(3).map_err(|e| e.to_string())?;
        let mut sent: std::collections::VecDeque<Instant> = std::collections::VecDeque::new();
        let mut more = true;
        let give_up = Instant::now() + limit;
        let mut out = Vec::new();
        while more || !sent.is_empty() {
            out.clear();
            while more && sent.len() < depth {
                match next(&mut out) {
                    Some(()) => sent.push_back(Instant::now()),
                    None => more = false,
                }
            }
            self.write(&out)?;
            self.read()?;
            let now = Instant::now();
            let mut used = 0;
            while let Some(length) = reply_length(&self.input[used..])? {
                used += length;
                let at = sent.pop_front().ok_or("redis answered more than it was asked")?;
                times.record(now.since(at)).map_err(|e| e.to_string())?;
            }
            self.input.drain(..used);
            if now > give_up {
                return Err("redis-server is too slow".into());
            }
        }
        Ok(times)
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(e) => return Err(e.to_string()),
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), String> {
        match self.stream.read(&mut self.buffer[..]) {
            Ok(0) => Err("redis-server closed the connection".into()),
            Ok(count) => {
                self.input.extend_from_slice(&self.buffer[..count]);
                Ok(())
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
            Err(e) => Err(e.to_string()),
        }
    }
}

trait Since {
    fn since(&self, earlier: Instant) -> u64;
}

impl Since for Instant {
    fn since(&self, earlier: Instant) -> u64 {
        u64::try_from(self.duration_since(earlier).as_nanos()).unwrap_or(u64::MAX).max(1)
    }
}

/// The length of the first whole reply: a simple string or a bulk string.
fn reply_length(bytes: &[u8]) -> Result<Option<usize>, String> {
    let Some(end) = bytes.iter().position(|b| *b == b'\n') else { return Ok(None) };
    let line = &bytes[..=end];
    match line[0] {
        b'+' => Ok(Some(line.len())),
        b'$' => {
            let text = std::str::from_utf8(&line[1..]).map_err(|e| e.to_string())?.trim();
            let length: i64 = text.parse().map_err(|_| format!("redis answered {text:?}"))?;
            let whole = line.len() + if length < 0 { 0 } else { length as usize + 2 };
            Ok((bytes.len() >= whole).then_some(whole))
        }
        _ => Err(format!("redis answered {:?}", String::from_utf8_lossy(line))),
    }
}
