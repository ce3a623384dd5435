//! The load: connections that each keep a fixed number of commands under way, all from one thread.
//!
//! As in redis-benchmark, a connection sends its commands in one write, and sends the next ones when all are
//! answered. Every reply has the same length and is compared with the expected one. A server that answers
//! otherwise ends the run.

use super::request::{Form, Request};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

const GIVE_UP: Duration = Duration::from_secs(60);

struct Connection {
    stream: TcpStream,
    /// The commands. Their keys are written anew for each batch.
    out: Vec<u8>,
    /// Bytes of replies that are still to come.
    missing_bytes: usize,
}

pub struct Load {
    poll: OwnedFd,
    connections: Vec<Connection>,
    request: Request,
    form: Form,
    keys: u64,
    /// All replies to one write.
    replies: Vec<u8>,
    pipeline: usize,
    state: u64,
}

impl Load {
    pub fn open(
        port: u16,
        connections: u16,
        request: Request,
        keys: u64,
        pipeline: usize,
    ) -> Result<Load, String> {
        let text = |error: io::Error| format!("port {port}: {error}");
        let poll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| text(error.into()))?;
        let form = request.form();
        let mut opened = Vec::new();
        for token in 0..u64::from(connections) {
            let stream = TcpStream::connect(("127.0.0.1", port)).map_err(text)?;
            stream.set_nodelay(true).map_err(text)?;
            stream.set_read_timeout(Some(GIVE_UP)).map_err(text)?;
            epoll::add(&poll, &stream, EventData::new_u64(token), EventFlags::IN)
                .map_err(|error| text(error.into()))?;
            opened.push(Connection { stream, out: form.request.repeat(pipeline), missing_bytes: 0 });
        }
        let replies = form.reply.repeat(pipeline);
        let state = 88_172_645_463_325_252;
        Ok(Load { poll, connections: opened, request, form, keys, replies, pipeline, state })
    }

    /// Asks for random keys. Returns the number of commands that were answered, and the seconds that they
    /// took.
    pub fn run(mut self, time: Duration) -> Result<(u64, f64), String> {
        let start = Instant::now();
        let mut state = self.state;
        let keys = self.keys;
        let next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % keys
        };
        let count = self.drive(next, |_| start.elapsed() >= time)?;
        Ok((count, start.elapsed().as_secs_f64()))
    }

    /// Asks for every key once, and at the end for some keys again. Returns the seconds that it took.
    pub fn fill(mut self) -> Result<f64, String> {
        let start = Instant::now();
        let (mut key, keys) = (0, self.keys);
        let next = move || {
            key += 1;
            (key - 1) % keys
        };
        self.drive(next, move |sent| sent >= keys)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Goes on until `is_over`, which is given the number of commands sent. Then reads the replies that are
    /// under way.
    fn drive(&mut self, mut next: impl FnMut() -> u64, is_over: impl Fn(u64) -> bool) -> Result<u64, String> {
        let text = |error: io::Error| format!("{}: {error}", self.request);
        let (mut sent, mut answered, mut under_way) = (0, 0, 0);
        for connection in &mut self.connections {
            connection.send(&self.form, &self.replies, &mut next).map_err(text)?;
            sent += self.pipeline as u64;
            under_way += 1;
        }
        let mut buffer = vec![0; 64 * 1024];
        let mut events: Vec<Event> = Vec::with_capacity(1024);
        let give_up = rustix::event::Timespec { tv_sec: GIVE_UP.as_secs() as i64, tv_nsec: 0 };
        while under_way > 0 {
            events.clear();
            epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&give_up))
                .map_err(|error| text(error.into()))?;
            if events.is_empty() {
                return Err(format!("{}: no answer within {} s", self.request, GIVE_UP.as_secs()));
            }
            let over = is_over(sent);
            for event in &events {
                let connection = &mut self.connections[event.data.u64() as usize];
                let count = connection.stream.read(&mut buffer).map_err(text)?;
                if !connection.take(&buffer[..count], &self.replies) {
                    let said = String::from_utf8_lossy(&buffer[..count.min(200)]).into_owned();
                    return Err(format!("{}: the server answered {said:?}", self.request));
                }
                if connection.missing_bytes > 0 {
                    continue;
                }
                answered += self.pipeline as u64;
                if over {
                    under_way -= 1;
                } else {
                    connection.send(&self.form, &self.replies, &mut next).map_err(text)?;
                    sent += self.pipeline as u64;
                }
            }
        }
        Ok(answered)
    }
}

impl Connection {
    fn send(&mut self, form: &Form, replies: &[u8], next: &mut impl FnMut() -> u64) -> io::Result<()> {
        for command in self.out.chunks_mut(form.request.len()) {
            let mut number = next();
            for digit in command[form.digits.clone()].iter_mut().rev() {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        self.missing_bytes = replies.len();
        self.stream.write_all(&self.out)
    }

    /// Whether the bytes are the next ones expected.
    fn take(&mut self, bytes: &[u8], replies: &[u8]) -> bool {
        let at = replies.len() - self.missing_bytes;
        let is_right = !bytes.is_empty() && replies[at..].starts_with(bytes);
        if is_right {
            self.missing_bytes -= bytes.len();
        }
        is_right
    }
}
