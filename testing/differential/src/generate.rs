//! Decides an episode: its commands, their keys, and the mistakes in some of them.
//!
//! Episodes use a few keys, values that are often numbers, and options in any order. Now and then a command
//! has a word too few, a word too many or another word. All keys of transactions have one hash tag, since
//! only keys of one slot can be changed together.
//!
//! Relative times to live are far longer than an episode and far apart from each other. So no comparison of
//! two of them depends on the moment at which they were given. All other times are already over when they are
//! given.

mod bits;
mod deviations;
mod keys;
mod raw;
mod session;
mod strings;

use crate::step::{Command, Step, name};
use ramhold_base::Rng;

/// The databases of an episode.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Databases that no other connection uses meanwhile.
    pub databases: [u32; 2],
    /// Whether no other connection uses any other database either.
    pub is_alone: bool,
}

/// Keys among which values are moved, copied and compared. The values stay small.
const KEYS: [&[u8]; 6] = [b"{e}a", b"{e}b", b"{e}c", b"{e}d", b"{e}\x00\xff\r\n", b"{e}long"];
/// Keys of other slots.
const OTHER_KEYS: [&[u8]; 3] = [b"{f}a", b"g", b""];
/// A key whose value may become long: no command reads it whole often, and none takes it as a source.
const LONG_VALUE_KEY: &[u8] = b"{e}large";
const LONG_KEY_BYTES: usize = 1000;

/// Every key of an episode.
pub fn all_keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = KEYS.iter().chain(&OTHER_KEYS).map(|key| long(key)).collect();
    keys.push(LONG_VALUE_KEY.to_vec());
    keys
}

fn long(key: &[u8]) -> Vec<u8> {
    if key == b"{e}long" { [key, &[b'x'; LONG_KEY_BYTES]].concat() } else { key.to_vec() }
}

/// Decides the steps of an episode.
pub fn episode(rng: &mut Rng, ground: &Ground, step_count: usize) -> Vec<Step> {
    let mut choice = Choice { rng, ground, in_transaction: false, duration_count: 0 };
    let mut steps = Vec::new();
    // Half of the episodes use each version of the protocol, some without asking for one.
    match choice.rng.below(5) {
        0 | 1 => steps.push(Step::Command(command(["HELLO", "3"]))),
        2 => steps.push(Step::Command(command(["HELLO", "2"]))),
        _ => {}
    }
    while steps.len() < step_count {
        choice.step(&mut steps);
    }
    steps
}

/// Words of text as a command.
pub fn command<const N: usize>(words: [&str; N]) -> Command {
    words.map(|word| word.as_bytes().to_vec()).into()
}

/// Words of text and of bytes as a command.
macro_rules! words {
    ($($word:expr),* $(,)?) => { vec![$(AsRef::<[u8]>::as_ref(&$word).to_vec()),*] };
}
pub(crate) use words;

struct Choice<'a> {
    rng: &'a mut Rng,
    ground: &'a Ground,
    /// Since the last MULTI that may have worked.
    in_transaction: bool,
    duration_count: u64,
}

impl Choice<'_> {
    fn step(&mut self, steps: &mut Vec<Step>) {
        let mut chosen = match self.rng.below(1000) {
            0..480 => self.string(),
            480..620 => self.bits(),
            620..820 => self.key_command(),
            820..900 => self.transaction(),
            900..970 => self.session(),
            970..985 => return steps.push(Step::Beside(self.short_write())),
            985..989 => return steps.push(self.scan()),
            989..991 => return steps.extend(self.deviation().into_iter().map(Step::Command)),
            991..993 => return steps.push(Step::RandomKey),
            993..996 => return steps.push(Step::Exchange { from: self.key(), to: self.key() }),
            996 => {
                let key = self.key();
                return steps.push(match self.rng.below(6) {
                    0 | 1 => Step::Lapse { key },
                    2 => Step::Watched { key, is_removed: self.rng.chance(1, 2) },
                    _ => Step::RandomKey,
                });
            }
            997 => return steps.push(Step::Alone(self.alone())),
            998 => return steps.push(Step::Raw(self.raw())),
            _ => words!["NOSUCHCOMMAND", self.value(), self.value()],
        };
        self.spoil(&mut chosen);
        let name = name(&chosen);
        match name.as_str() {
            "MULTI" => self.in_transaction = true,
            "EXEC" | "DISCARD" | "RESET" if chosen.len() == 1 => self.in_transaction = false,
            // A watched key exists here. `Step::Watched` covers the others.
            "WATCH" if !self.in_transaction => {
                let mut make = words!["MSET"];
                chosen[1..].iter().for_each(|key| make.extend(words![key, "v"]));
                if make.len() > 1 {
                    steps.push(Step::Command(make));
                }
            }
            _ => {}
        }
        // RESET goes to database 0, which may be another connection's.
        let goes_home = name == "RESET";
        steps.push(Step::Command(chosen));
        if goes_home {
            steps.push(Step::Command(words!["SELECT", self.ground.databases[0].to_string()]));
        }
    }

    /// Spoils one word of some commands, but never so that the command could then reach another connection's
    /// database.
    fn spoil(&mut self, command: &mut Command) {
        let count = command.len() as u64;
        match self.rng.below(100) {
            0 | 1 if count > 1 => {
                command.pop();
            }
            // In a transaction another word could be a key of another slot.
            2 if !self.in_transaction && !Self::is_risky(command) => command.push(self.junk()),
            3 if count > 1 && !self.in_transaction && !Self::is_risky(command) => {
                let at = self.rng.between(1, count - 1) as usize;
                command[at] = self.junk();
            }
            4..20 => {
                for byte in command.iter_mut().take(1).flatten() {
                    *byte = if self.rng.chance(1, 2) { byte.to_ascii_lowercase() } else { *byte };
                }
            }
            _ => {}
        }
    }

    /// Whether another word could be another's database, a key of another slot, a time or an offset
    /// beyond Ramhold's limits, or a long wait.
    fn is_risky(command: &Command) -> bool {
        const RISKY: [&str; 19] = [
            "SELECT",
            "COPY",
            "MOVE",
            "SCAN",
            "SETEX",
            "PSETEX",
            "GETEX",
            "RESTORE",
            "SETBIT",
            "SETRANGE",
            "BITFIELD",
            "BITFIELD_RO",
            "WAIT",
            "MSETNX",
            "BITOP",
            "LCS",
            "RENAME",
            "RENAMENX",
            "WATCH",
        ];
        let name = name(command);
        let is_long_set = name == "SET" && command.len() > 3;
        is_long_set || name.contains("EXPIRE") || RISKY.contains(&name.as_str())
    }

    /// One of `words`.
    fn one(&mut self, words: &[&str]) -> Vec<u8> {
        self.rng.pick(words).map(|word| word.as_bytes().to_vec()).unwrap_or_default()
    }

    fn key(&mut self) -> Vec<u8> {
        let keys: &[&[u8]] =
            if !self.in_transaction && self.rng.chance(15, 100) { &OTHER_KEYS } else { &KEYS };
        // The first keys are chosen more often, so that commands meet on them.
        let at = self.rng.below(keys.len() as u64).min(self.rng.below(keys.len() as u64));
        long(keys[at as usize])
    }

    /// A key of the slot that most keys have. Commands that take effect on several keys need that.
    fn key_of_one_slot(&mut self) -> Vec<u8> {
        let in_transaction = std::mem::replace(&mut self.in_transaction, true);
        let key = self.key();
        self.in_transaction = in_transaction;
        key
    }

    fn keys_of_one_slot(&mut self, count_max: u64) -> Vec<Vec<u8>> {
        (0..self.rng.between(1, count_max)).map(|_| self.key_of_one_slot()).collect()
    }

    fn keys(&mut self, count_max: u64) -> Vec<Vec<u8>> {
        (0..self.rng.between(1, count_max)).map(|_| self.key()).collect()
    }

    fn value(&mut self) -> Vec<u8> {
        match self.rng.below(12) {
            0..4 => self.integer(),
            4 => self.float(),
            5 => Vec::new(),
            6 => self.one(&["hello", "hello world", "hallo welt", "aXbXc", "ohmytext", "mynewtext"]),
            7 => vec![b'x'; self.rng.pick(&[44, 45, 63, 64, 200]).copied().unwrap_or(1)],
            8 => (0..self.rng.below(20)).map(|_| self.rng.below(256) as u8).collect(),
            9 => b"a\r\nb\0c\xff".to_vec(),
            _ => (0..self.rng.below(12)).map(|_| b'a' + self.rng.below(4) as u8).collect(),
        }
    }

    /// Integers, most of them small.
    fn integer(&mut self) -> Vec<u8> {
        const EDGES: [&str; 16] = [
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775806",
            "-9223372036854775807",
            "4611686018427387904",
            "2147483647",
            "-2147483648",
            "4294967296",
            "9999",
            "10000",
            "1000000000000",
            "255",
            "256",
            "-32768",
            "65536",
            "-10000",
        ];
        if self.rng.chance(1, 4) { self.one(&EDGES) } else { self.small().to_string().into_bytes() }
    }

    fn small(&mut self) -> i64 {
        self.rng.between(0, 24) as i64 - 8
    }

    /// A word that looks like an integer.
    fn near_integer(&mut self) -> Vec<u8> {
        self.one(&[
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
            "",
            "abc",
            "1.5",
            " 1",
            "1 ",
            "+1",
            "01",
            "-0",
            "0x10",
            "1e3",
            "1\0",
        ])
    }

    fn float(&mut self) -> Vec<u8> {
        const FLOATS: [&str; 22] = [
            "0.1",
            "1.5",
            "-2.25",
            "3.0",
            "1e2",
            "-1.5e-3",
            "0.333333333333333333",
            "100000000000000000000",
            "1e17",
            "-0.0",
            "0",
            "5.0e3",
            "1e-5",
            "123456789.987654321",
            "0.5",
            "10.50",
            "2",
            "-7",
            "12345678901234567.5",
            "1.7976931348623157e308",
            "0.1e1",
            ".5",
        ];
        self.one(&FLOATS)
    }

    fn junk(&mut self) -> Vec<u8> {
        match self.rng.below(4) {
            0 => self.near_integer(),
            1 => self.integer(),
            2 => self.one(&["EX", "NX", "XX", "GET", "LIMIT", "nan", "inf", "-inf", "KEEPTTL", "BIT"]),
            _ => self.value(),
        }
    }

    /// A time to live in seconds: long, and far from all others of the episode.
    fn seconds(&mut self) -> u64 {
        self.duration_count += 1;
        20_000 + self.duration_count * 7919 % 10_007 * 100
    }

    /// A point in time, in milliseconds, that is compared exactly.
    fn point_millis(&mut self) -> u64 {
        4_102_444_800_000 + self.rng.below(1_000_000)
    }

    /// A number for an option of expiry with this name. Now and then it is wrong, or the time is over
    /// already.
    fn expiry(&mut self, option: &str) -> Vec<u8> {
        if self.rng.chance(1, 25) {
            return if self.rng.chance(1, 2) {
                self.expiry_out_of_range(option)
            } else {
                self.one(&["0", "-1", "-9223372036854775808"])
            };
        }
        if option.ends_with("AT") && self.rng.chance(1, 8) {
            return self.rng.between(1, 1_000_000).to_string().into_bytes();
        }
        self.ahead(option)
    }

    /// The same, without times that are over already.
    fn expiry_ahead(&mut self, option: &str) -> Vec<u8> {
        if self.rng.chance(1, 25) {
            return if self.rng.chance(1, 2) {
                self.expiry_out_of_range(option)
            } else {
                self.one(&["0", "-1"])
            };
        }
        self.ahead(option)
    }

    /// A word that is no integer, or an integer whose sum with the time, or whose milliseconds, are too
    /// large. Times beyond a hundred years are not asked for, as Redis takes them and Ramhold does not.
    fn expiry_out_of_range(&mut self, option: &str) -> Vec<u8> {
        let is_seconds = matches!(option, "EX" | "EXAT" | "EXPIRE" | "EXPIREAT" | "SETEX");
        match self.rng.below(2) {
            0 if is_seconds => self.one(&["9223372036854775807", "9223372036854776"]),
            0 if !option.ends_with("AT") => b"9223372036854775807".to_vec(),
            _ => self.near_integer(),
        }
    }

    fn ahead(&mut self, option: &str) -> Vec<u8> {
        let number = match option {
            "EX" | "EXPIRE" | "SETEX" => self.seconds(),
            "PX" | "PEXPIRE" | "PSETEX" => self.seconds() * 1000 + self.rng.below(1000),
            "EXAT" | "EXPIREAT" => self.point_millis() / 1000,
            _ => self.point_millis(),
        };
        number.to_string().into_bytes()
    }

    /// A write that another connection does.
    fn short_write(&mut self) -> Command {
        let key = self.rng.pick(&KEYS).map(|key| long(key)).unwrap_or_default();
        match self.rng.below(4) {
            0 => words!["SET", key, self.value()],
            1 => words!["DEL", key],
            2 => words!["APPEND", key, "x"],
            _ => words!["GET", key],
        }
    }
}
