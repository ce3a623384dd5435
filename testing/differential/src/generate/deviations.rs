//! Ramhold's deliberate deviations: command forms that no other choice generates, at least one for each such
//! row of docs/redis-differences.md.
//!
//! Invariant: where only one of the servers does what it is asked, a last command makes the keys the same
//! again. Both servers answer that command alike, whatever the keys were.

use super::{Choice, words};
use crate::step::Command;
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// No key of an episode is in this slot but `{f}a`.
const ELSEWHERE: &[u8] = b"{f}a";

impl Choice<'_> {
    pub fn deviation(&mut self) -> Vec<Command> {
        if self.in_transaction {
            return self.within_multi();
        }
        match self.rng.below(19) {
            0..2 => self.transaction_across_slots(),
            2..4 => self.across_slots(),
            4 => self.far_expiry(),
            5 => vec![words![
                self.one(&["GET", "TTL", "STRLEN", "TYPE", "SUBSTR"]),
                vec![b'k'; KEY_BYTES_MAX + 1]
            ]],
            6 if self.rng.chance(1, 8) => {
                let key = self.key();
                vec![words!["SET", key, vec![b'v'; VALUE_BYTES_MAX + 1]], words!["SET", key, "v"]]
            }
            6..9 => self.not_here(),
            9..11 => self.newer(),
            11 => {
                let asked = self.one(&["MYID", "INFO", "SLOTS", "SHARDS", "NODES", "KEYSLOT"]);
                let mut command = words!["CLUSTER", asked];
                if asked == b"KEYSLOT" {
                    command.push(self.key());
                }
                vec![if self.rng.chance(1, 4) {
                    words![self.one(&["READONLY", "READWRITE"])]
                } else {
                    command
                }]
            }
            12..14 => vec![self.of_the_table()],
            // The object is changed in place, which only Redis shows.
            14 => {
                let key = self.key();
                let asked = self.one(&["REFCOUNT", "ENCODING"]);
                vec![words!["SET", key, "1"], words!["APPEND", key, "2"], words!["OBJECT", asked, key]]
            }
            15 => vec![self.one_of_no_key()],
            _ => self.within_multi(),
        }
    }

    /// Wrong arguments for a missing key, which redis-server 7.0 does not look at.
    fn one_of_no_key(&mut self) -> Command {
        let key = b"{e}nothing".to_vec();
        match self.rng.below(4) {
            0 => words!["BITCOUNT", key, "x", "1"],
            1 => words!["BITCOUNT", key, "0", "1", "NIBBLE"],
            2 => words!["BITPOS", key, "1", "x"],
            _ => words!["BITPOS", key, "0", "0", "1", "NIBBLE"],
        }
    }

    fn transaction_across_slots(&mut self) -> Vec<Command> {
        let key = self.key_of_one_slot();
        vec![
            words!["UNWATCH"],
            words!["MULTI"],
            words!["SET", key, self.value()],
            words!["SET", ELSEWHERE, self.value()],
            words!["EXEC"],
            words!["MSET", key, "v", ELSEWHERE, "v"],
        ]
    }

    fn across_slots(&mut self) -> Vec<Command> {
        let key = self.key_of_one_slot();
        let command = match self.rng.below(7) {
            0 => words!["RENAME", key, ELSEWHERE],
            1 => words!["RENAMENX", ELSEWHERE, key],
            2 => words!["COPY", key, ELSEWHERE, "REPLACE"],
            3 => words!["MSETNX", key, "1", ELSEWHERE, "2"],
            4 => words!["BITOP", "OR", key, key, ELSEWHERE],
            5 => words!["BITOP", "NOT", ELSEWHERE, key],
            _ => words!["LCS", key, ELSEWHERE],
        };
        vec![
            words!["MSET", key, "ohmytext", ELSEWHERE, "mynewtext"],
            command,
            words!["MSET", key, "v", ELSEWHERE, "v"],
        ]
    }

    /// Expiry beyond a hundred years.
    fn far_expiry(&mut self) -> Vec<Command> {
        let key = self.key();
        let command = match self.rng.below(6) {
            0 => words!["SET", key, "v", "EX", "4000000000"],
            1 => words!["SETEX", key, "4000000000", "v"],
            2 => words!["PSETEX", key, "4000000000000", "v"],
            3 => words!["PEXPIREAT", key, "9000000000000"],
            4 => words!["GETEX", key, "PX", "4000000000000"],
            _ => words!["EXPIRE", key, "4000000000"],
        };
        vec![words!["SET", key, "v"], command, words!["SET", key, "v"]]
    }

    /// Commands that Ramhold does not have.
    fn not_here(&mut self) -> Vec<Command> {
        let key = self.key();
        let command = match self.rng.below(13) {
            0 => words!["HSET", key, "field", "v"],
            1 => words!["LPUSH", key, "v"],
            2 => words!["SADD", key, "v"],
            3 => words!["ZADD", key, "1", "v"],
            4 => words!["XADD", key, "1-1", "field", "v"],
            5 => words!["HGETALL", key],
            6 => words!["LRANGE", key, "0", "-1"],
            7 => words!["SORT", key],
            8 => words!["PFADD", key, "v"],
            9 => words!["EVAL", "return 1", "0"],
            10 => words!["MEMORY", "PURGE"],
            11 => words!["CLIENT", self.one(&["TRACKINGINFO", "UNPAUSE", "GETREDIR"])],
            _ => words!["LATENCY", "GRAPH", "command"],
        };
        // A missing key, so that it is not one of strings.
        vec![words!["DEL", key], command, words!["SET", key, "v"]]
    }

    /// Commands that redis-server 7.0 does not have.
    fn newer(&mut self) -> Vec<Command> {
        let key = self.key();
        let command = match self.rng.below(7) {
            0 => words!["SET", key, "v", "IFEQ", "v"],
            1 => words!["SET", key, "v", "IFVER", "0"],
            2 => words!["DELIFEQ", key, "v"],
            3 => words!["GETVER", key],
            4 => words!["WAITAOF", "0", "0", "0"],
            5 => words!["CLIENT", "SETINFO", "LIB-NAME", "ramhold-differential"],
            _ => words!["CLIENT", "NO-TOUCH", "on"],
        };
        vec![words!["SET", key, "v"], command, words!["SET", key, "v"]]
    }

    /// Answers from a table of commands or of settings.
    fn of_the_table(&mut self) -> Command {
        match self.rng.below(8) {
            0 => words!["COMMAND", "LIST", "FILTERBY", "PATTERN", "*get*"],
            1 => words!["COMMAND", "DOCS", self.one(&["get", "set", "nosuch"])],
            2 => words![
                self.one(&["CLIENT", "CONFIG", "COMMAND", "LATENCY", "SLOWLOG", "PUBSUB", "MEMORY"]),
                "HELP"
            ],
            3 | 4 => words!["CONFIG", "GET", "maxmemory*"],
            5 | 6 => words!["DEBUG", "SLEEP", "0"],
            _ => words!["LATENCY", "DOCTOR"],
        }
    }

    /// Redis queues these, and Ramhold does not. DISCARD ends the transaction on both sides.
    fn within_multi(&mut self) -> Vec<Command> {
        self.in_transaction = false;
        let command = match self.rng.below(12) {
            0 => words!["KEYS", "*"],
            1 => words!["SCAN", "0"],
            2 => words!["RANDOMKEY"],
            3 => words!["DBSIZE"],
            4 => words!["FLUSHDB"],
            5 => words!["CLIENT", "REPLY", "ON"],
            6 => words!["PUBSUB", "NUMPAT"],
            7 => words!["CLIENT", "KILL", "ID", "999999999999"],
            8 => words!["HELLO", "3"],
            9 => words!["AUTH", "default", "v"],
            10 => words!["SUBSCRIBE", "nobody"],
            _ => words!["CLUSTER", "SLOTS"],
        };
        vec![words!["MULTI"], command, words!["DISCARD"]]
    }
}
