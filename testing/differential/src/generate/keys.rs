//! Commands on keys, and transactions.

use super::{Choice, words};
use crate::step::{Command, Step};

impl Choice<'_> {
    pub fn key_command(&mut self) -> Command {
        let key = self.key();
        match self.rng.below(40) {
            0..3 => [words![self.one(&["DEL", "UNLINK"])], self.keys(3)].concat(),
            3..5 => [words![self.one(&["EXISTS", "TOUCH"])], self.keys(4)].concat(),
            5..13 => self.expire(key),
            13..17 => words![self.one(&["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"]), key],
            17 | 18 => words!["PERSIST", key],
            19 | 20 => words!["TYPE", key],
            21..25 => {
                words![self.one(&["RENAME", "RENAMENX"]), self.key_of_one_slot(), self.key_of_one_slot()]
            }
            25..29 => self.copy(),
            29 => words![
                "OBJECT",
                self.one(&["ENCODING", "REFCOUNT", "IDLETIME", "FREQ", "encoding", "NOSUCH"]),
                key
            ],
            30 => words!["OBJECT", self.one(&["HELP", "ENCODING"])],
            31 | 32 => self.restore(key),
            33 => words!["DUMP", key],
            34 if !self.in_transaction => self.move_between(key),
            // Commands on a whole database are no part of transactions.
            _ if self.in_transaction => words!["EXISTS", key],
            34 | 35 => words!["KEYS", self.pattern()],
            36 | 37 => words!["DBSIZE"],
            38 => words!["SCAN", self.one(&["abc", "1.5", "99999999999999999999999"])],
            _ if self.rng.chance(1, 4) => self.flush(),
            _ => words!["DBSIZE"],
        }
    }

    fn expire(&mut self, key: Vec<u8>) -> Command {
        let name = *self.rng.pick(&["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"]).unwrap_or(&"EXPIRE");
        let mut command = words![name, key, self.expiry(name)];
        for _ in 0..self.rng.pick(&[0, 0, 0, 1, 1, 2]).copied().unwrap_or(0) {
            command.push(self.one(&["NX", "XX", "GT", "LT", "gt", "lt", "XY"]));
        }
        command
    }

    fn copy(&mut self) -> Command {
        let mut command = words!["COPY", self.key_of_one_slot(), self.key_of_one_slot()];
        if !self.in_transaction && self.rng.chance(1, 4) {
            let database = self.rng.pick(&self.ground.databases).map_or_else(String::new, u32::to_string);
            let wrong = self.one(&["-1", "16", "abc"]);
            let database = if self.rng.chance(1, 6) { wrong } else { database.into_bytes() };
            command.extend(words!["DB", database]);
        }
        if self.rng.chance(1, 2) {
            command.push(self.one(&["REPLACE", "REPLACE", "replace", "REPLACED"]));
        }
        command
    }

    fn move_between(&mut self, key: Vec<u8>) -> Command {
        let database = self.rng.pick(&self.ground.databases).map_or_else(String::new, u32::to_string);
        let wrong = self.one(&["-1", "16", "abc"]);
        words!["MOVE", key, if self.rng.chance(1, 8) { wrong } else { database.into_bytes() }]
    }

    /// A payload that is wrong in some way. Right payloads are exchanged elsewhere.
    fn restore(&mut self, key: Vec<u8>) -> Command {
        let payload: &[u8] = match self.rng.below(5) {
            // The dump of "hello" by Redis 7.0.
            0 | 1 => b"\x00\x05hello\x0a\x00cr\xdfve4 \n",
            2 => b"\x00\x05hellx\x0a\x00cr\xdfve4 \n",
            3 => b"",
            _ => b"\x00\x05hello\xff\x7fcr\xdfve4 \n",
        };
        let time = match self.rng.below(4) {
            0 => (self.seconds() * 1000).to_string().into_bytes(),
            1 => self.one(&["-1", "abc", ""]),
            _ => b"0".to_vec(),
        };
        let mut command = words!["RESTORE", key, time, payload];
        for _ in 0..self.rng.below(3) {
            match self.rng.below(6) {
                0 => command.extend(words!["IDLETIME", self.index()]),
                1 => command.extend(words!["FREQ", self.index()]),
                2 => command.push(b"NOSUCH".to_vec()),
                3 => command.push(b"ABSTTL".to_vec()),
                _ => command.push(b"REPLACE".to_vec()),
            }
        }
        command
    }

    fn pattern(&mut self) -> Vec<u8> {
        self.one(&[
            "*", "{e}*", "{e}?", "{e}[a-c]", "{e}[^a]", "{f}*", "\\{e}a", "", "*a", "*[", "[z-a]*", "{e}a",
            "*\\", "{e}[\\a]", "**a**", "nothing*", "?", "{e}[a",
        ])
    }

    fn flush(&mut self) -> Command {
        let name =
            if self.ground.is_alone { self.one(&["FLUSHDB", "FLUSHALL"]) } else { b"FLUSHDB".to_vec() };
        let mut command = words![name];
        if self.rng.chance(1, 2) {
            command.push(self.one(&["SYNC", "ASYNC", "sync", "NOW"]));
        }
        command
    }

    pub fn scan(&mut self) -> Step {
        let mut words = Vec::new();
        if self.rng.chance(1, 2) {
            words.extend(words!["MATCH", self.pattern()]);
        }
        if self.rng.chance(1, 2) {
            words.extend(words!["COUNT", self.one(&["1", "2", "5", "100", "0", "-1", "abc"])]);
        }
        if self.rng.chance(1, 4) {
            words.extend(words!["TYPE", self.one(&["string", "STRING", "list", "hash"])]);
        }
        if self.rng.chance(1, 20) {
            words.push(self.junk());
        }
        Step::Scan(words)
    }

    pub fn transaction(&mut self) -> Command {
        match self.rng.below(if self.in_transaction { 6 } else { 10 }) {
            0..3 => words!["EXEC"],
            3 => words!["DISCARD"],
            4 => words!["MULTI"],
            5 => words!["UNWATCH"],
            6 | 7 => {
                let keys = self.keys_of_one_slot(3);
                [words!["WATCH"], keys].concat()
            }
            _ => words!["MULTI"],
        }
    }
}
