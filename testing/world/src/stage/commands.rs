//! Commands of the Redis clients of a stage.
//!
//! Writes and reads that are to be judged with those of the other clients go through `resp_write` and
//! `resp_read`. The script itself judges all its other requests. Database 0 is the table `world`.

use super::Stage;
use super::player::Player;
use super::record::Asked;
use super::speaker::Speaker;
use crate::history::{Action, Condition, ValueId};
use crate::resp::{Answer, Words, words};
use ramhold_base::TableId;

/// Client numbers in histories from here on are Redis clients.
const FIRST_NUMBER: usize = 100;

impl Stage {
    fn speaker(&self, client: usize) -> &Speaker {
        let player = self.world.machine(self.speakers[client]);
        player.and_then(Player::speaker).expect("a Redis client that runs")
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
        self.note_ends();
        self.record.asked.retain(|asked| asked.client != client);
        self.given[client] = 0;
        let addr = self.world.node(self.servers[server]).addr;
        self.speaker_mut(client).wanted = Some(addr);
        self.wait("a connection", |stage| stage.speaker(client).is_settled());
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
        let now = self.world.now();
        let at = self.record.enter(now, FIRST_NUMBER + client, (table, key), action);
        let reply = self.tell(client, &[line.to_string()]);
        self.record.asked.push(Asked { client, reply, at });
        reply
    }
}
