//! Redis clients of a stage. Each is connected to one server and sends the script's commands.
//!
//! Writes and reads that are to be judged with those of the other clients go through `resp_write` and
//! `resp_read`. The script itself judges all its other requests. Database 0 is the table `world`.

use super::{Player, Stage};
use crate::history::{Action, Condition, Outcome, ValueId};
use crate::resp::{Answer, Heard, Link, Words, words};
use ramhold_base::{Effects, Input, Instant, Machine, Status, TableId, Version};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// A Redis client.
pub struct Speaker {
    link: Link,
    wanted: Option<SocketAddr>,
    given: VecDeque<Words>,
    /// With the time at which each came.
    replies: Vec<(u64, Answer)>,
    is_lost: bool,
}

impl Speaker {
    pub(super) fn new(name: u64) -> Speaker {
        Speaker {
            link: Link::new(name),
            wanted: None,
            given: VecDeque::new(),
            replies: Vec::new(),
            is_lost: false,
        }
    }
}

impl Machine for Speaker {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match input {
            Input::Bytes { from, bytes } => {
                for heard in self.link.on_bytes(from, bytes, effects) {
                    match heard {
                        Heard::Reply(answer) => self.replies.push((now.0, answer)),
                        Heard::Open => {}
                        Heard::Refused => self.is_lost = true,
                    }
                }
            }
            Input::Lost { addr, how } => self.is_lost |= self.link.on_lost(addr, how, effects),
            _ => {}
        }
        if let Some(addr) = self.wanted.take() {
            self.is_lost = false;
            self.replies.clear();
            self.link.open(addr, effects);
        }
        if self.link.is_open() && !self.given.is_empty() {
            let given: Vec<Words> = self.given.drain(..).collect();
            self.link.send(&given, effects);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// A judged command whose reply is still to come.
pub(super) struct Asked {
    client: usize,
    reply: usize,
    /// Its place in the history.
    at: usize,
}

/// Client numbers in histories from here on are Redis clients.
const FIRST_NUMBER: usize = 100;

impl Stage {
    fn speaker(&self, client: usize) -> &Speaker {
        match self.world.machine(self.speakers[client]) {
            Some(Player::Speaker(speaker)) => speaker,
            _ => panic!("a Redis client that runs"),
        }
    }

    fn speaker_mut(&mut self, client: usize) -> &mut Speaker {
        let node = self.speakers[client];
        self.world.nudge(node);
        match self.world.machine_mut(node) {
            Some(Player::Speaker(speaker)) => speaker,
            _ => panic!("a Redis client that runs"),
        }
    }

    /// Connects to a server; replies count from 0 again.
    pub fn connect(&mut self, client: usize, server: usize) {
        self.note_replies();
        self.asked.retain(|asked| asked.client != client);
        self.given[client] = 0;
        let addr = self.world.node(self.servers[server]).addr;
        self.speaker_mut(client).wanted = Some(addr);
        self.wait("a connection", |stage| {
            let speaker = stage.speaker(client);
            speaker.wanted.is_none() && (speaker.link.is_open() || speaker.is_lost)
        });
    }

    /// Sends commands in one piece. Returns the number of the first reply.
    pub fn tell(&mut self, client: usize, lines: &[String]) -> usize {
        let first = self.given[client];
        self.given[client] += lines.len();
        let lines: Vec<Words> = lines.iter().map(|line| words(line)).collect();
        self.speaker_mut(client).given.extend(lines);
        first
    }

    /// The replies of the present connection.
    pub fn replies(&self, client: usize) -> Vec<Answer> {
        self.speaker(client).replies.iter().map(|(_, answer)| answer.clone()).collect()
    }

    /// Whether the connection has ended.
    pub fn is_lost(&self, client: usize) -> bool {
        self.speaker(client).is_lost
    }

    /// One command and its reply.
    pub fn say(&mut self, client: usize, line: &str) -> Answer {
        let reply = self.tell(client, &[line.to_string()]);
        self.wait(&format!("the reply to {line}"), |stage| stage.speaker(client).replies.len() > reply);
        self.speaker(client).replies[reply].1.clone()
    }

    /// A judged `SET`. Returns the number of its reply.
    pub fn resp_write(&mut self, client: usize, table: TableId, key: &str, value: &str) -> usize {
        let value_id = ValueId::of(value.as_bytes());
        let action = Action::Write { value: value_id, condition: Condition::Free, ttl: None };
        self.judged(client, table, key, action, &format!("SET {key} {value}"))
    }

    /// A judged `GETVER`. Returns the number of its reply.
    pub fn resp_read(&mut self, client: usize, table: TableId, key: &str) -> usize {
        self.judged(client, table, key, Action::Read, &format!("GETVER {key}"))
    }

    fn judged(&mut self, client: usize, table: TableId, key: &str, action: Action, line: &str) -> usize {
        let at = self.record(FIRST_NUMBER + client, table, key, action);
        let reply = self.tell(client, &[line.to_string()]);
        self.asked.push(Asked { client, reply, at });
        reply
    }

    /// Enters the replies that have come into the history.
    pub(super) fn note_replies(&mut self) {
        for asked in std::mem::take(&mut self.asked) {
            let reply = match self.world.machine(self.speakers[asked.client]) {
                Some(Player::Speaker(speaker)) => speaker.replies.get(asked.reply).cloned(),
                _ => None,
            };
            let Some((now, answer)) = reply else {
                self.asked.push(asked);
                continue;
            };
            let operation = &mut self.history[asked.at];
            operation.outcome = match answer {
                ok if ok.is_ok() => Outcome::Acknowledged,
                Answer::Array(Some(parts)) => match &parts[..] {
                    [Answer::Bulk(Some(value)), Answer::Integer(version)] => {
                        Outcome::Found { version: Version(version.unsigned_abs()), value: ValueId::of(value) }
                    }
                    _ => Outcome::Absent,
                },
                Answer::Error(error) if error.starts_with("UNKNOWN") => Outcome::Unknown,
                Answer::Error(error)
                    if ["TRYAGAIN", "LOADING", "NOREPLICAS"].iter().any(|word| error.starts_with(word)) =>
                {
                    Outcome::Refused { status: Status::Retry }
                }
                other => panic!("{other:?} to a SET or a GETVER"),
            };
            if operation.outcome != Outcome::Unknown {
                operation.ret = now;
            }
        }
    }
}
