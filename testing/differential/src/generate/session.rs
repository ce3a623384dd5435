//! Commands on the connection and the server, and sessions on a connection of their own.

use super::{Choice, command, words};
use crate::step::Command;

impl Choice<'_> {
    pub fn session(&mut self) -> Command {
        if self.in_transaction {
            return match self.rng.below(10) {
                0 => words!["PING"],
                1 => words!["ECHO", self.value()],
                2 => words!["CLIENT", "SETNAME", self.name_of_client()],
                3 => words!["CLIENT", self.one(&["GETNAME", "ID", "INFO", "LIST", "NOSUCH"])],
                4 => words!["CLIENT", "NO-EVICT", self.one(&["ON", "OFF", "MAYBE"])],
                5 => {
                    let database = self.rng.pick(&self.ground.databases).copied().unwrap_or_default();
                    words!["SELECT", database.to_string()]
                }
                6 => words!["TIME"],
                7 => words!["CONFIG", "GET", self.one(&["maxmemory-policy", "nosuchparameter"])],
                8 => words!["WAIT", "0", "0"],
                _ => words!["GET", self.key()],
            };
        }
        match self.rng.below(34) {
            0 => words!["PING"],
            1 => words!["PING", self.value()],
            2 | 3 => words!["ECHO", self.value()],
            4..7 => {
                let database = self.rng.pick(&self.ground.databases).map_or_else(String::new, u32::to_string);
                words!["SELECT", database]
            }
            7 => words!["SELECT", self.one(&["16", "-1", "abc", "", "99999999999", "1.5"])],
            8..10 => words!["HELLO", self.one(&["2", "3"])],
            10 => words!["HELLO", self.one(&["1", "4", "abc", "", "-3"])],
            11 => match self.rng.below(4) {
                0 => words!["HELLO"],
                1 => words!["HELLO", "3", "SETNAME", self.name_of_client()],
                2 => words!["HELLO", "2", "AUTH", "default"],
                _ => words!["HELLO", "3", "NOSUCH", "x"],
            },
            12 => words!["RESET"],
            13 => words!["AUTH", self.value()],
            14 => words!["CLIENT", "ID"],
            15 | 16 => words!["CLIENT", "SETNAME", self.name_of_client()],
            17 | 18 => words!["CLIENT", "GETNAME"],
            19 => words!["CLIENT", self.one(&["INFO", "LIST", "NOSUCH", "info"])],
            20 => words!["CLIENT", "NO-EVICT", self.one(&["ON", "OFF", "MAYBE"])],
            21 => self.kill(),
            22 => words!["COMMAND", self.one(&["COUNT", "NOSUCH"])],
            23 => {
                let mut command = words!["COMMAND", "GETKEYS"];
                command.extend(match self.rng.below(5) {
                    0 => words!["MSET", "a", "1", "b", "2"],
                    1 => words!["GET", self.key()],
                    2 => words!["BITOP", "AND", "d", "x", "y"],
                    3 => words!["PING"],
                    _ => words!["NOSUCH", "x"],
                });
                command
            }
            24 => words!["COMMAND", "INFO", self.one(&["get", "GET", "nosuch", "mset", "ping"])],
            25 => words!["WAIT", "0", "0"],
            26 => words!["TIME"],
            27 => words!["PUBLISH", self.key(), self.value()],
            28 => match self.rng.below(3) {
                0 => words!["PUBSUB", self.one(&["NUMPAT", "NUMSUB", "NOSUCH"])],
                1 => words!["PUBSUB", "NUMSUB", "nobody", self.value()],
                _ => words!["PUBSUB", "CHANNELS", "nobody*"],
            },
            29 => match self.rng.below(7) {
                0 => words![
                    "CONFIG",
                    "SET",
                    self.one(&["nosuchparameter", "latency-monitor-threshold", "LATENCY-MONITOR-THRESHOLD"]),
                    self.one(&["abc", "-1", "", "1.5"])
                ],
                1 => words!["CONFIG", "RESETSTAT"],
                2 => words!["LATENCY", self.one(&["LATEST", "RESET", "NOSUCH"])],
                3 => words!["LATENCY", self.one(&["HISTORY", "RESET"]), "command"],
                4 => words!["SLOWLOG", self.one(&["RESET", "LEN", "GET", "NOSUCH"])],
                5 => words![self.one(&["ROLE", "LASTSAVE"])],
                _ => words![
                    "CONFIG",
                    "GET",
                    self.one(&["maxmemory-policy", "nosuchparameter", "latency-monitor-*"])
                ],
            },
            30 => words!["MEMORY", "USAGE", self.key()],
            31 => words!["UNWATCH"],
            32 => words!["INFO", self.one(&["memory", "server", "nosuchsection"])],
            _ => {
                words![self.one(&["EXEC", "DISCARD", "GET", "SET", "CLIENT", "OBJECT", "PUBSUB", "COMMAND "])]
            }
        }
    }

    /// Matches no connection, since other connections watch.
    fn kill(&mut self) -> Command {
        let mut command = words!["CLIENT", "KILL"];
        if self.rng.chance(1, 6) {
            command.push(self.one(&["127.0.0.1:1", "nosuch", "abc", ""]));
            return command;
        }
        // One filter that matches no connection, with others in front or behind.
        let nobody = match self.rng.below(5) {
            0 => words!["ID", self.one(&["999999999999", "abc", "-1", "0", "1.5"])],
            1 => words!["ADDR", "127.0.0.1:1"],
            2 => words!["LADDR", self.one(&["127.0.0.1:1", ""])],
            3 => words!["USER", self.one(&["nosuch", "", "DEFAULT"])],
            _ => words!["TYPE", self.one(&["master", "SLAVE", "replica", "nosuch", ""])],
        };
        let more = match self.rng.below(6) {
            0 => words!["SKIPME", self.one(&["yes", "NO", "maybe"])],
            1 => words!["USER", "default"],
            2 => words!["TYPE", self.one(&["normal", "PUBSUB"])],
            3 => words!["ADDR"],
            4 => words!["MAXAGE", "5"],
            _ => Vec::new(),
        };
        // The last filter of a kind counts, so TYPE comes before the filter that matches nothing.
        command.extend([more, nobody].concat());
        command
    }

    fn name_of_client(&mut self) -> Vec<u8> {
        self.one(&["name", "worker-1", "", "with space", "line\nbreak", "caf\u{e9}"])
    }

    /// A session of its own: subscriptions, the end of a connection, and the state that survives or does not.
    pub fn alone(&mut self) -> Vec<Command> {
        // Channels belong to the whole server, so this name belongs to this episode's connection.
        let channel = format!("channel-{}", self.ground.databases[0]);
        let three = self.rng.chance(1, 2);
        let mut session = if three { vec![command(["HELLO", "3"])] } else { Vec::new() };
        session.extend(match self.rng.below(9) {
            0 => vec![command(["PING"]), command(["QUIT"]), command(["PING"])],
            1 => vec![
                words!["SUBSCRIBE", channel, "other-channel"],
                words!["PING"],
                words!["GET", "k"],
                words!["UNSUBSCRIBE", channel],
                words!["UNSUBSCRIBE"],
                words!["PING"],
            ],
            2 => vec![
                words!["PSUBSCRIBE", format!("{channel}*")],
                words!["PUNSUBSCRIBE"],
                words!["UNSUBSCRIBE"],
            ],
            3 => vec![words!["SUBSCRIBE"], words!["SUBSCRIBE", channel, channel], words!["DISCARD"]],
            4 => {
                vec![words!["UNSUBSCRIBE", "never"], words!["PUNSUBSCRIBE"], words!["PUBSUB", "NUMPAT", "x"]]
            }
            5 => vec![
                words!["SUBSCRIBE", channel],
                words!["RESET"],
                words!["CLIENT", "GETNAME"],
                words!["PUBLISH", "nobody", "x"],
            ],
            6 => vec![
                words!["MULTI"],
                words!["PING", "x"],
                words!["SELECT", "abc"],
                words!["WATCH", "k"],
                words!["EXEC"],
            ],
            7 => vec![words!["MULTI"], words!["SET"], words!["GET", "k"], words!["EXEC"], words!["EXEC"]],
            _ => vec![
                words!["CLIENT", "SETNAME", "x"],
                words!["CLIENT", "GETNAME"],
                words!["RESET"],
                words!["CLIENT", "GETNAME"],
            ],
        });
        session
    }
}
