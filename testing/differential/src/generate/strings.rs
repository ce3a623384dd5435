//! Commands on strings.

use super::{Choice, LONG_VALUE_KEY, words};
use crate::step::Command;

impl Choice<'_> {
    pub fn string(&mut self) -> Command {
        let key = self.key();
        match self.rng.below(40) {
            0..5 => self.set(key),
            5..8 => words!["GET", key],
            8 => words!["SETNX", key, self.value()],
            9 => words!["SETEX", key, self.expiry("SETEX"), self.value()],
            10 => words!["PSETEX", key, self.expiry("PSETEX"), self.value()],
            11 => words!["GETSET", key, self.value()],
            12 => words!["GETDEL", key],
            13 | 14 => self.getex(key),
            15 | 16 => [words!["MGET"], self.keys(5)].concat(),
            17 | 18 => self.pairs("MSET"),
            19 => self.pairs("MSETNX"),
            20 | 21 => words!["APPEND", key, self.value()],
            22 => words!["STRLEN", key],
            23 | 24 => self.setrange(key),
            25 | 26 => {
                let name = self.one(&["GETRANGE", "GETRANGE", "SUBSTR"]);
                words![name, self.short_or_large(key), self.index(), self.index()]
            }
            27..29 => words![self.one(&["INCR", "DECR"]), key],
            29..32 => words![self.one(&["INCRBY", "DECRBY"]), key, self.integer()],
            32..34 => words!["INCRBYFLOAT", key, self.float_or_wrong()],
            34..36 => self.lcs(),
            36 => words!["SET", key, self.integer()],
            37 => words!["SET", key, self.float()],
            _ => words!["SET", key, self.value()],
        }
    }

    fn set(&mut self, key: Vec<u8>) -> Command {
        let mut command = words!["SET", key, self.value()];
        for _ in 0..self.rng.below(4) {
            match self.rng.below(5) {
                0 => command.push(self.one(&["NX", "XX", "nx"])),
                1 => command.push(b"GET".to_vec()),
                2 => command.push(b"KEEPTTL".to_vec()),
                _ => self.push_expiry(&mut command),
            }
        }
        command
    }

    fn push_expiry(&mut self, command: &mut Command) {
        let option = *self.rng.pick(&["EX", "PX", "EXAT", "PXAT"]).unwrap_or(&"EX");
        command
            .push(if self.rng.chance(1, 5) { option.to_ascii_lowercase() } else { option.to_owned() }.into());
        // Rarely the option is the last word.
        if !self.rng.chance(1, 40) {
            // Redis keeps an object that SET writes with a past time until it is looked at, and counts it
            // meanwhile.
            let is_set = command.first().is_some_and(|name| name == b"SET");
            let number = if is_set { self.expiry_ahead(option) } else { self.expiry(option) };
            command.push(number);
        }
    }

    fn getex(&mut self, key: Vec<u8>) -> Command {
        let mut command = words!["GETEX", key];
        match self.rng.below(6) {
            0 => {}
            1 => command.push(b"PERSIST".to_vec()),
            2 => {
                self.push_expiry(&mut command);
                command.push(b"PERSIST".to_vec());
            }
            _ => self.push_expiry(&mut command),
        }
        command
    }

    fn pairs(&mut self, name: &str) -> Command {
        let mut command = words![name];
        let keys = if name == "MSETNX" { self.keys_of_one_slot(4) } else { self.keys(4) };
        for key in keys {
            command.push(key);
            command.push(self.value());
        }
        command
    }

    fn setrange(&mut self, key: Vec<u8>) -> Command {
        let (key, offset) = match self.rng.below(20) {
            0 => (LONG_VALUE_KEY.to_vec(), self.one(&["70000", "1000000", "65535"])),
            1 => (key, self.one(&["-1", "1099511627776", "9223372036854775807", "-9223372036854775808"])),
            2 => (key, self.near_integer()),
            _ => (key, self.rng.below(40).to_string().into_bytes()),
        };
        words!["SETRANGE", key, offset, self.value()]
    }

    pub fn short_or_large(&mut self, key: Vec<u8>) -> Vec<u8> {
        if self.rng.chance(1, 10) { LONG_VALUE_KEY.to_vec() } else { key }
    }

    /// The beginning or end of a range.
    pub fn index(&mut self) -> Vec<u8> {
        match self.rng.below(12) {
            0 => self.integer(),
            1 => self.one(&["-1", "0", "-100", "100", "65536"]),
            2 if self.rng.chance(1, 4) => self.near_integer(),
            _ => self.small().to_string().into_bytes(),
        }
    }

    fn float_or_wrong(&mut self) -> Vec<u8> {
        match self.rng.below(10) {
            0 => self.near_integer(),
            1 => self.one(&["nan", "inf", "-inf", "infinity", "1e5000", "--1", "1..2", "0x1p3"]),
            _ => self.float(),
        }
    }

    fn lcs(&mut self) -> Command {
        let mut command = words!["LCS", self.key_of_one_slot(), self.key_of_one_slot()];
        for _ in 0..self.rng.below(4) {
            match self.rng.below(5) {
                0 => command.push(b"LEN".to_vec()),
                1 => command.extend(words!["MINMATCHLEN", self.index()]),
                2 => command.push(b"WITHMATCHLEN".to_vec()),
                _ => command.push(b"IDX".to_vec()),
            }
        }
        command
    }
}
