//! Redis's protocol, version 2, and memcached's text protocol, for any server that speaks one of them.
//!
//! A link is one connection. Its commands are GET and SET, and MGET and MSET for what starts together; memcached has a
//! `get` of several keys, and no such `set`. Replies come in the order of the commands. Commands go out when the worker waits or polls, all at once. A wait
//! spins for a moment and then sleeps, as Ramhold's own client does, so that all servers are measured alike.
//!
//! A connection that breaks is lost: what is under way fails, and so does whatever is started later.
//!
//! Not here: Redis clusters, whose keys are at several servers (cluster); passwords.

mod memcached;
mod redis;

use super::link::{Ending, Link, Request, Tag};
use super::plan::Load;
use super::values::{Values, key};
use crate::failure::{Failure, REFUSED, UNREACHABLE};
pub use memcached::KEY_BYTES_MAX as MEMCACHED_KEY_BYTES_MAX;
use redis::{Seen, Strange};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// As long as Ramhold's client spins (`Poll::ADAPTIVE`).
pub const SPIN: Duration = Duration::from_micros(50);
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
const READ_BYTES: usize = 64 << 10;

/// The protocol that a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Redis,
    Memcached,
}

impl Dialect {
    /// The option that names servers of this protocol.
    pub fn option(self) -> &'static str {
        match self {
            Dialect::Redis => "--resp",
            Dialect::Memcached => "--memcached",
        }
    }
}

/// The operations that a command's reply is about.
#[derive(Clone, Copy, Debug)]
enum Command {
    /// GET or SET: one reply for one operation.
    One,
    /// MGET, or a `get` of several keys: an element for each of so many operations.
    Each(usize),
    /// MSET: one reply for so many operations.
    All(usize),
    /// The same: so many elements for one operation.
    Together(usize),
}

pub struct Text<'a> {
    dialect: Dialect,
    load: &'a Load,
    values: &'a Values,
    stream: TcpStream,
    /// How long a reply is waited for.
    patience: Duration,
    /// Commands that are not sent yet, and how much of this is.
    output: Vec<u8>,
    sent_bytes: usize,
    /// The beginning of a reply.
    input: Vec<u8>,
    buffer: Vec<u8>,
    /// Under way, in order.
    commands: VecDeque<Command>,
    /// The operations of these commands.
    tags: VecDeque<Tag>,
    ended: VecDeque<(Tag, Ending)>,
    lost: Option<String>,
}

impl<'a> Text<'a> {
    pub fn connect(
        dialect: Dialect,
        load: &'a Load,
        values: &'a Values,
        address: SocketAddr,
        patience: Duration,
    ) -> Result<Text<'a>, Failure> {
        let open = || {
            let stream = TcpStream::connect_timeout(&address, CONNECT_WITHIN.min(patience))?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        let stream = open().map_err(|error: std::io::Error| {
            let option = dialect.option();
            let text = format!("{address}: {error}; start a server there, or name another one with {option}");
            Failure::new(UNREACHABLE, text)
        })?;
        Ok(Text {
            dialect,
            load,
            values,
            stream,
            patience,
            output: Vec::new(),
            sent_bytes: 0,
            input: Vec::new(),
            buffer: vec![0; READ_BYTES],
            commands: VecDeque::new(),
            tags: VecDeque::new(),
            ended: VecDeque::new(),
            lost: None,
        })
    }

    /// Whether nothing is under way and nothing has ended.
    pub fn is_idle(&self) -> bool {
        self.tags.is_empty() && self.ended.is_empty()
    }

    /// The event at the socket that lets this link get on.
    pub fn awaited(&self) -> PollFd<'_> {
        let is_sent = self.output.is_empty();
        PollFd::new(&self.stream, if is_sent { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT })
    }

    /// Ends whatever is under way, since it has been waited for too long.
    pub fn give_up(&mut self) {
        self.lose(format!("no reply within {} s", self.patience.as_secs_f64()));
    }

    fn ask_one(&mut self, request: Request, tag: Tag) {
        match request {
            Request::Read { object } => {
                self.get(object..=object, Command::One);
            }
            Request::Write { object } => self.set(&[object]),
            Request::ReadSeveral { first, count } => {
                self.get(first..=first + count - 1, Command::Together(count as usize));
            }
        }
        self.tags.push_back(tag);
    }

    /// One command for all reads, and for all writes where the protocol has one.
    fn ask_together(&mut self, requests: &[(Request, Tag)]) {
        let objects = |wanted: fn(Request) -> Option<u64>| {
            let of_kind = requests.iter().filter_map(move |(request, tag)| Some((wanted(*request)?, *tag)));
            of_kind.unzip::<u64, Tag, Vec<u64>, Vec<Tag>>()
        };
        let (reads, tags) = objects(|request| match request {
            Request::Read { object } => Some(object),
            Request::Write { .. } | Request::ReadSeveral { .. } => None,
        });
        if !reads.is_empty() {
            self.tags.extend(tags);
            let command = Command::Each(reads.len());
            self.get(reads.into_iter(), command);
        }
        let (writes, tags) = objects(|request| match request {
            Request::Write { object } => Some(object),
            Request::Read { .. } | Request::ReadSeveral { .. } => None,
        });
        if !writes.is_empty() {
            self.tags.extend(tags);
            self.set(&writes);
        }
        for (request, tag) in requests {
            if let Request::ReadSeveral { .. } = request {
                self.ask_one(*request, *tag);
            }
        }
    }

    /// One command that reads all of them. `command`: what its reply is about, if they are several.
    fn get(&mut self, objects: impl Iterator<Item = u64> + Clone, command: Command) {
        let load = self.load;
        let count = objects.clone().count();
        self.commands.push_back(if count == 1 { Command::One } else { command });
        let keys = objects.map(|object| key(object, load.key_bytes));
        match self.dialect {
            Dialect::Redis => redis::get(&mut self.output, count, keys),
            Dialect::Memcached => memcached::get(&mut self.output, keys),
        }
    }

    /// Commands that write all of them, and what their replies are about.
    fn set(&mut self, objects: &[u64]) {
        match self.dialect {
            Dialect::Redis => {
                let of = |object: &u64| (key(*object, self.load.key_bytes), self.values.of(*object));
                redis::set(&mut self.output, objects.iter().map(of));
                let command = if objects.len() == 1 { Command::One } else { Command::All(objects.len()) };
                self.commands.push_back(command);
            }
            Dialect::Memcached => {
                for object in objects {
                    let key = key(*object, self.load.key_bytes);
                    memcached::set(&mut self.output, &key, self.values.of(*object));
                    self.commands.push_back(Command::One);
                }
            }
        }
    }

    /// Sends what the socket takes.
    fn flush(&mut self) {
        while self.sent_bytes < self.output.len() {
            match self.stream.write(&self.output[self.sent_bytes..]) {
                Ok(0) => return self.lose("the server takes no more commands".to_owned()),
                Ok(count) => self.sent_bytes += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.lose(error.to_string()),
            }
        }
        self.output.clear();
        self.sent_bytes = 0;
    }

    /// Takes in what has come. Whether anything has.
    fn receive(&mut self) -> bool {
        match self.stream.read(&mut self.buffer) {
            Ok(0) => self.lose("the server closed the connection".to_owned()),
            Ok(count) => {
                self.input.extend_from_slice(&self.buffer[..count]);
                if let Err(Strange(text)) = self.take_replies() {
                    self.lose(text);
                }
                return true;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => self.lose(error.to_string()),
        }
        false
    }

    fn take_replies(&mut self) -> Result<(), Strange> {
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        loop {
            let rest = &input[at..];
            let length = match self.dialect {
                Dialect::Redis => redis::whole(rest)?,
                Dialect::Memcached => memcached::whole(rest)?,
            };
            let Some(length) = length else { break };
            self.take_reply(&rest[..length])?;
            at += length;
        }
        self.input = input;
        self.input.drain(..at);
        Ok(())
    }

    /// A whole reply.
    fn take_reply(&mut self, bytes: &[u8]) -> Result<(), Strange> {
        let odd = || Strange("the server answered more than it was asked, or in another way".to_owned());
        let command = self.commands.pop_front().ok_or_else(odd)?;
        let (seen, mut at) = match self.dialect {
            Dialect::Redis => redis::first(bytes)?.ok_or_else(odd)?,
            // Absent ones are left out, wherever they were asked for; it does not matter here which they are.
            Dialect::Memcached => match memcached::read(bytes)? {
                memcached::Reply::Stored => (Seen::There, 0),
                memcached::Reply::Refused(text) => (Seen::Refused(text), 0),
                memcached::Reply::Values(found) => return self.take_values(command, found).ok_or_else(odd),
            },
        };
        match (command, seen) {
            (Command::One, Seen::There | Seen::Absent | Seen::Refused(_)) => self.end_one(seen),
            (Command::Each(asked), Seen::Several(count)) if count == asked => {
                for _ in 0..count {
                    self.end_one(redis::next(bytes, &mut at)?);
                }
            }
            (Command::Each(count) | Command::All(count), Seen::Refused(_))
            | (Command::All(count), Seen::There) => (0..count).for_each(|_| self.end_one(seen)),
            (Command::Together(_), Seen::Refused(_)) => self.end_one(seen),
            (Command::Together(asked), Seen::Several(count)) if count == asked => {
                let mut worst = Seen::There;
                for _ in 0..count {
                    let seen = redis::next(bytes, &mut at)?;
                    if seen != Seen::There {
                        worst = seen;
                    }
                }
                self.end_one(worst);
            }
            _ => return Err(odd()),
        }
        Ok(())
    }

    /// So many of the values that a command asks for were found. None: there are more than that.
    fn take_values(&mut self, command: Command, found: usize) -> Option<()> {
        let (asked, is_one) = match command {
            Command::One => (1, true),
            Command::Each(asked) => (asked, false),
            Command::Together(asked) => (asked, true),
            Command::All(_) => return None,
        };
        let absent = asked.checked_sub(found)?;
        if is_one {
            self.end_one(if absent == 0 { Seen::There } else { Seen::Absent });
        } else {
            (0..found).for_each(|_| self.end_one(Seen::There));
            (0..absent).for_each(|_| self.end_one(Seen::Absent));
        }
        Some(())
    }

    fn end_one(&mut self, seen: Seen<'_>) {
        let ending = match seen {
            Seen::There | Seen::Several(_) => Ending::Done,
            Seen::Absent => failed("absent", "an object that was written is not there".to_owned(), REFUSED),
            Seen::Refused(text) => {
                let text = String::from_utf8_lossy(text).into_owned();
                let kind = text.split(' ').next().unwrap_or_default().to_owned();
                failed(&kind, format!("the server refused: {text}"), REFUSED)
            }
        };
        let tag = self.tags.pop_front().expect("a command has as many tags as it ends");
        self.ended.push_back((tag, ending));
    }

    /// Ends whatever is under way.
    fn lose(&mut self, text: String) {
        let ended = self.tags.drain(..).map(|tag| (tag, lost(&text)));
        self.ended.extend(ended);
        self.commands.clear();
        self.output.clear();
        self.sent_bytes = 0;
        if self.lost.is_none() {
            self.lost = Some(text);
        }
    }

    /// Sends and receives; waits until something comes, if it is to.
    fn turn(&mut self, waits: bool) {
        self.flush();
        if self.receive() || !waits {
            return;
        }
        let began = Instant::now();
        while self.lost.is_none() {
            self.flush();
            if self.receive() {
                return;
            }
            let waited = began.elapsed();
            match self.patience.checked_sub(waited) {
                // Any other thread that wants this core gets it now.
                Some(_) if waited < SPIN => std::thread::yield_now(),
                Some(left) => self.sleep(left),
                None => self.give_up(),
            }
        }
    }

    fn sleep(&mut self, time: Duration) {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let time = Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() };
        let polled = poll(&mut [self.awaited()], Some(&time));
        match polled {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => self.lose(error.to_string()),
        }
    }
}

impl Link for Text<'_> {
    fn start(&mut self, requests: &mut Vec<(Request, Tag)>) {
        if let Some(text) = &self.lost {
            self.ended.extend(requests.drain(..).map(|(_, tag)| (tag, lost(text))));
            return;
        }
        if self.load.multi > 1 && requests.len() > 1 {
            self.ask_together(requests);
        } else {
            requests.iter().for_each(|(request, tag)| self.ask_one(*request, *tag));
        }
        requests.clear();
    }

    fn wait(&mut self) -> Option<(Tag, Ending)> {
        loop {
            if let Some(ended) = self.ended.pop_front() {
                return Some(ended);
            }
            if self.tags.is_empty() {
                return None;
            }
            self.turn(true);
        }
    }

    fn poll(&mut self) -> Option<(Tag, Ending)> {
        if self.ended.is_empty() && !self.tags.is_empty() {
            self.turn(false);
        }
        self.ended.pop_front()
    }

    fn is_lost(&self) -> bool {
        self.lost.is_some()
    }
}

fn failed(name: &str, text: String, code: u8) -> Ending {
    Ending::Failed { name: name.to_owned(), failure: Failure::new(code, text) }
}

fn lost(text: &str) -> Ending {
    failed("connection lost", format!("connection lost: {text}"), UNREACHABLE)
}
