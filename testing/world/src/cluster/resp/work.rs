//! The operation of a lane: the commands that carry it out, step by step, and the meaning of their replies.
//!
//! A reply may lack facts, such as the version of a write. A `GETVER` behind the command in the same pipeline may
//! tell them.
//!
//! A panic here is a finding: a reply that no server may give.

use super::pipe::{Of, Pipe, command, text};
use crate::history::{Condition, Outcome, ValueId};
use crate::resp::{Answer, Words};
use crate::system::Met;
use crate::workload::sum_of;
use ramhold_base::{Instant, Number, ServerId, Status, Version};
use std::collections::BTreeSet;
use std::time::Duration;

/// The limit of attempts of a loop over a key that others change.
const ROUNDS_MAX: u32 = 20;

/// The form of a mutation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Plain,
    /// `GETSET` or `GETDEL`.
    Get,
    /// Between `MULTI` and `EXEC`.
    Multi,
    /// Reads the version and writes under the condition that it is still there.
    Swap,
    /// The same with `WATCH`, `MULTI` and `EXEC`.
    Watch,
}

pub(super) enum Goal {
    Read,
    Count,
    Write { value: Vec<u8>, condition: Condition, ttl: Option<Duration> },
    Remove { condition: Condition },
    Increment { by: Number, condition: Condition },
    Append { letter: u8 },
    Scan,
}

/// The operation of a lane.
pub(super) struct Work {
    lane: usize,
    key: Vec<u8>,
    goal: Goal,
    way: Way,
    /// The number of replies that are still to come.
    missing: usize,
    /// Whether a command with an effect has been sent.
    at_stake: bool,
    result: Option<Outcome>,
    /// The highest version of the key that this connection had seen when the write was sent.
    floor: u64,
    /// The sum that a swap wrote.
    wrote: i64,
    rounds: u32,
    asked: Instant,
    pub met: Vec<Met>,
    keys: BTreeSet<Vec<u8>>,
}

impl Work {
    pub fn new(now: Instant, lane: usize, key: &[u8], goal: Goal, way: Way) -> Work {
        Work {
            lane,
            key: key.to_vec(),
            goal,
            way,
            missing: 0,
            at_stake: false,
            result: None,
            floor: 0,
            wrote: 0,
            rounds: 0,
            asked: now,
            met: Vec::new(),
            keys: BTreeSet::new(),
        }
    }

    /// The outcome, when all replies have come.
    pub fn outcome(&self) -> Option<Outcome> {
        self.result.filter(|_| self.missing == 0)
    }

    /// The outcome if the connection is lost now. The fate of the commands that were sent is open.
    pub fn outcome_if_lost(&self) -> Outcome {
        let lost = if self.at_stake { Outcome::Unknown } else { Outcome::Refused { status: Status::Retry } };
        // A scan that reached its end has not read every key yet.
        self.result.filter(|told| *told != Outcome::Scanned).unwrap_or(lost)
    }

    fn put(&mut self, pipe: &mut Pipe, command: Words, of: Of) {
        self.missing += 1;
        pipe.put(self.lane, command, of);
    }

    /// Sends a command with an effect, alone or between `MULTI` and `EXEC`, perhaps with a read behind it.
    fn put_effect(&mut self, pipe: &mut Pipe, change: Words, in_multi: bool) {
        self.at_stake = true;
        self.floor = pipe.highest_seen(&self.key);
        if in_multi {
            self.put(pipe, command("MULTI", &[]), Of::Ok);
            self.put(pipe, change, Of::Queued);
            self.put(pipe, command("EXEC", &[]), Of::Exec);
        } else {
            self.put(pipe, change, Of::Effect);
        }
        if pipe.rng.chance(3, 4) {
            let key = self.key.clone();
            self.put(pipe, command("GETVER", &[&key]), Of::VerAfter);
        }
    }

    /// Sends the first commands of an operation.
    pub fn start(&mut self, now: Instant, pipe: &mut Pipe) {
        self.asked = now;
        if pipe.rng.chance(1, 16) {
            pipe.put_echo(self.lane);
        }
        let key = self.key.clone();
        let multi = self.way == Way::Multi;
        match (&self.goal, self.way) {
            (Goal::Read | Goal::Count, way) => {
                let (name, of) = if way == Way::Plain { ("GET", Of::Get) } else { ("GETVER", Of::GetVer) };
                self.put(pipe, command(name, &[&key]), of);
            }
            (Goal::Scan, _) => {
                let count = text(pipe.rng.between(1, 100));
                self.put(pipe, command("SCAN", &[b"0", b"COUNT", &count]), Of::Scan);
            }
            (_, Way::Swap) => self.put(pipe, command("GETVER", &[&key]), Of::GetVer),
            (_, Way::Watch) => {
                self.put(pipe, command("WATCH", &[&key]), Of::Ok);
                self.put(pipe, command("GETVER", &[&key]), Of::GetVer);
            }
            (Goal::Write { value, condition, ttl }, way) => {
                let mut set = match (way, condition, ttl) {
                    (Way::Get, Condition::Free, None) => command("GETSET", &[&key, value]),
                    (Way::Get, Condition::Absent, None) => command("SETNX", &[&key, value]),
                    _ => command("SET", &[&key, value]),
                };
                if set[0] == b"SET" {
                    match condition {
                        Condition::Free => {}
                        Condition::Absent => set.push(b"NX".to_vec()),
                        Condition::VersionIs(version) => {
                            set.extend([b"IFVER".to_vec(), text(version.raw())]);
                        }
                    }
                    set.extend(ttl.iter().flat_map(|ttl| [b"PX".to_vec(), text(ttl.as_millis())]));
                }
                self.put_effect(pipe, set, multi);
            }
            (Goal::Remove { .. }, way) => {
                let name = if way == Way::Get { "GETDEL" } else { "DEL" };
                self.put_effect(pipe, command(name, &[&key]), multi);
            }
            (Goal::Increment { by, .. }, _) => {
                let (name, by) = match by {
                    Number::Integer(by) => ("INCRBY", text(by)),
                    Number::Float(by) => ("INCRBYFLOAT", text(by)),
                };
                self.put_effect(pipe, command(name, &[&key, &by]), multi);
            }
            (Goal::Append { letter }, _) => {
                let append = command("APPEND", &[&key, &[*letter]]);
                self.put_effect(pipe, append, multi);
            }
        }
    }

    /// The next step of a loop after its read: it writes under the condition that the object is unchanged, or
    /// ends.
    fn go_on(&mut self, pipe: &mut Pipe, value: Option<&[u8]>, version: u64) {
        let there = Version(version);
        let condition = match self.goal {
            Goal::Remove { condition } | Goal::Increment { condition, .. } => condition,
            _ => Condition::Free,
        };
        let meets = match condition {
            Condition::Free => true,
            Condition::Absent => there.is_none(),
            Condition::VersionIs(wanted) => wanted == there && !there.is_none(),
        };
        let removes_nothing = matches!(self.goal, Goal::Remove { .. }) && there.is_none();
        if !meets || removes_nothing {
            if self.way == Way::Watch {
                self.put(pipe, command("UNWATCH", &[]), Of::Ok);
            }
            self.result = Some(if !meets {
                Outcome::ConditionFailed { version: Some(there) }
            } else {
                Outcome::Done { version: Version::NONE }
            });
            return;
        }
        let key = self.key.clone();
        let change = match &self.goal {
            Goal::Increment { by, .. } => {
                let by = sum_of(by.to_string().as_bytes());
                self.wrote = value.map_or(0, sum_of) + by;
                command("SET", &[&key, &text(self.wrote)])
            }
            Goal::Remove { .. } => command("DEL", &[&key]),
            _ => unreachable!("only these are loops"),
        };
        if self.way == Way::Watch {
            return self.put_effect(pipe, change, true);
        }
        let change = [change, command("IFVER", &[&text(version)])].concat();
        self.put_effect(pipe, change, false);
    }

    /// A loop found that another client was faster.
    fn again(&mut self, pipe: &mut Pipe) {
        let condition = match self.goal {
            Goal::Remove { condition } | Goal::Increment { condition, .. } => condition,
            _ => Condition::Free,
        };
        self.at_stake = false;
        self.rounds += 1;
        if condition != Condition::Free {
            self.result = Some(Outcome::ConditionFailed { version: None });
        } else if self.rounds > ROUNDS_MAX {
            self.result = Some(Outcome::Refused { status: Status::Retry });
        } else {
            let key = self.key.clone();
            if self.way == Way::Watch {
                self.put(pipe, command("WATCH", &[&key]), Of::Ok);
            }
            self.put(pipe, command("GETVER", &[&key]), Of::GetVer);
        }
    }

    /// The reply to a command with an effect.
    fn on_effect(&mut self, pipe: &mut Pipe, answer: Answer) {
        let is_loop = matches!(self.way, Way::Swap | Way::Watch);
        let nonsense = |answer: &Answer, work: &Work| -> ! {
            panic!("{answer:?} to a change of {:?} ({:?})", String::from_utf8_lossy(&work.key), work.way)
        };
        if let Answer::Error(error) = &answer {
            self.result = Some(refusal(error));
            return;
        }
        let result = match (&self.goal, &answer) {
            (Goal::Increment { .. }, answer) if is_loop => match answer {
                ok if ok.is_ok() => Outcome::Summed { sum: self.wrote },
                nil if nil.is_nil() => return self.again(pipe),
                other => nonsense(other, self),
            },
            (Goal::Increment { by: Number::Integer(_), .. }, Answer::Integer(sum)) => {
                Outcome::Summed { sum: *sum }
            }
            (Goal::Increment { by: Number::Float(_), .. }, Answer::Bulk(Some(sum))) => {
                Outcome::Summed { sum: sum_of(sum) }
            }
            (Goal::Append { .. }, Answer::Integer(1..)) => Outcome::Acknowledged,
            (Goal::Remove { .. }, Answer::Array(None)) if is_loop => return self.again(pipe),
            (Goal::Remove { .. }, Answer::Integer(1)) if self.way != Way::Get => Outcome::Acknowledged,
            (Goal::Remove { .. }, Answer::Integer(0)) if self.way != Way::Get && !is_loop => {
                Outcome::Done { version: Version::NONE }
            }
            (Goal::Remove { .. }, Answer::Bulk(value)) if self.way == Way::Get => match value {
                Some(_) => Outcome::Acknowledged,
                None => Outcome::Done { version: Version::NONE },
            },
            (Goal::Write { condition, ttl, .. }, answer) => match (self.way, condition, answer) {
                (Way::Get, Condition::Free, Answer::Bulk(_)) if ttl.is_none() => Outcome::Acknowledged,
                (Way::Get, Condition::Absent, Answer::Integer(1)) if ttl.is_none() => Outcome::Acknowledged,
                (Way::Get, Condition::Absent, Answer::Integer(0)) if ttl.is_none() => {
                    Outcome::ConditionFailed { version: None }
                }
                (_, _, ok) if ok.is_ok() => Outcome::Acknowledged,
                (_, Condition::Absent | Condition::VersionIs(_), nil) if nil.is_nil() => {
                    Outcome::ConditionFailed { version: None }
                }
                (_, _, other) => nonsense(other, self),
            },
            (_, other) => nonsense(other, self),
        };
        self.result = Some(result);
    }

    /// The reply to the read behind a write in its pipeline.
    fn on_version_after(&mut self, value: Option<Vec<u8>>, version: u64) {
        let is_acknowledged = matches!(self.result, Some(Outcome::Acknowledged | Outcome::Summed { .. }));
        if !is_acknowledged || value.is_none() {
            return;
        }
        let key = String::from_utf8_lossy(&self.key);
        assert!(
            version > self.floor,
            "{key}: the read behind a write sees version {version}, known before it"
        );
        let value = value.unwrap_or_default();
        let version = Version(version);
        match (&self.goal, self.result) {
            (Goal::Write { value: written, .. }, _) if *written == value => {
                self.result = Some(Outcome::Done { version });
            }
            (Goal::Append { letter }, _) => {
                assert!(value.contains(letter), "{key}: the read behind an append does not see it");
            }
            (Goal::Increment { .. }, Some(Outcome::Summed { sum })) => {
                let there = sum_of(&value);
                assert!(there >= sum, "{key}: the read behind an increment to {sum} sees {there}");
                if there == sum {
                    self.result = Some(Outcome::Counted { version, sum });
                }
            }
            _ => {}
        }
    }

    /// The reply to a command.
    pub fn on_reply(&mut self, now: Instant, of: Of, answer: Answer, pipe: &mut Pipe) {
        self.missing -= 1;
        match (of, answer) {
            (Of::Effect, answer) => self.on_effect(pipe, answer),
            (Of::Exec, Answer::Array(Some(mut parts))) => {
                assert_eq!(parts.len(), 1, "one command was queued");
                let part = parts.pop().expect("there is one");
                self.on_effect(pipe, part);
            }
            (Of::Exec, answer @ Answer::Array(None)) if self.way == Way::Watch => {
                self.on_effect(pipe, answer);
            }
            (Of::Exec, answer @ Answer::Error(_)) => self.on_effect(pipe, answer),
            (Of::VerAfter, Answer::Error(_)) => {}
            (Of::Ok, answer) if answer.is_ok() => {}
            (Of::Queued, Answer::Simple(text)) if text == "QUEUED" => {}
            (of @ (Of::Get | Of::GetVer | Of::Scan | Of::Met(_) | Of::Ok), Answer::Error(error)) => {
                if self.way == Way::Watch && of == Of::GetVer {
                    // Otherwise the key would still be watched when the next command comes.
                    self.put(pipe, command("UNWATCH", &[]), Of::Ok);
                }
                let refused = refusal(&error);
                let status = Status::Retry;
                let is_unknown = refused == Outcome::Unknown;
                self.result = Some(if is_unknown { Outcome::Refused { status } } else { refused });
            }
            (Of::Get, Answer::Bulk(value)) => {
                self.result = Some(match (value, &self.goal) {
                    (None, _) => Outcome::Absent,
                    (Some(value), Goal::Count) => Outcome::Summed { sum: sum_of(&value) },
                    (Some(value), _) => Outcome::Seen { value: ValueId::of(&value) },
                });
            }
            (of @ (Of::GetVer | Of::VerAfter | Of::Met(_)), Answer::Array(Some(parts))) => {
                let [Answer::Bulk(value), Answer::Integer(version)] = &parts[..] else {
                    panic!("{parts:?} to a GETVER");
                };
                let version = u64::try_from(*version).expect("versions are positive");
                assert_eq!(value.is_none(), version == 0, "what is there has a version");
                let key = if let Of::Met(key) = &of { key.clone() } else { self.key.clone() };
                pipe.saw(&key, version);
                match of {
                    Of::VerAfter => self.on_version_after(value.clone(), version),
                    Of::Met(_) => {
                        let (call, ret) = (self.asked.0, now.0);
                        let version = Version(version);
                        self.met.extend(value.clone().map(|value| Met {
                            key,
                            version,
                            value,
                            call,
                            ret,
                            answered_by: ServerId::NONE,
                        }));
                    }
                    _ => self.on_version(pipe, value.as_deref(), version),
                }
            }
            (Of::Scan, Answer::Array(Some(parts))) => self.on_page(now, pipe, &parts),
            (of, other) => panic!("{other:?} to {of:?} about {:?}", String::from_utf8_lossy(&self.key)),
        }
    }

    fn on_version(&mut self, pipe: &mut Pipe, value: Option<&[u8]>, version: u64) {
        match (&self.goal, value) {
            (Goal::Read | Goal::Count, None) => self.result = Some(Outcome::Absent),
            (Goal::Read, Some(value)) => {
                let (version, value) = (Version(version), ValueId::of(value));
                self.result = Some(Outcome::Found { version, value });
            }
            (Goal::Count, Some(value)) => {
                self.result = Some(Outcome::Counted { version: Version(version), sum: sum_of(value) });
            }
            // The operation's WATCH was refused.
            _ if self.result.is_some() => {}
            _ => self.go_on(pipe, value, version),
        }
    }

    /// Reads every key of a page, and asks for the next page behind them.
    fn on_page(&mut self, now: Instant, pipe: &mut Pipe, parts: &[Answer]) {
        let [Answer::Bulk(Some(cursor)), Answer::Array(Some(keys))] = parts else {
            panic!("{parts:?} to a SCAN");
        };
        if self.result.is_some() {
            // The read of a key of the page before was refused, so nothing is known of that key.
            return;
        }
        self.asked = now;
        for key in keys {
            let Answer::Bulk(Some(key)) = key else { panic!("{key:?} among the keys of a SCAN") };
            // A page may repeat keys of the one before.
            if self.keys.insert(key.clone()) {
                self.put(pipe, command("GETVER", &[key]), Of::Met(key.clone()));
            }
        }
        if cursor == b"0" {
            // An error for one of the last keys replaces this result.
            self.result = Some(Outcome::Scanned);
        } else {
            let count = text(pipe.rng.between(1, 100));
            self.put(pipe, command("SCAN", &[cursor, b"COUNT", &count]), Of::Scan);
        }
    }
}

/// The meaning of an error for a change: surely without effect, or unknown.
fn refusal(error: &str) -> Outcome {
    match error.split(' ').next() {
        Some("UNKNOWN") => Outcome::Unknown,
        Some("OOM") => Outcome::Refused { status: Status::OutOfMemory },
        Some("TRYAGAIN" | "LOADING" | "NOREPLICAS") => Outcome::Refused { status: Status::Retry },
        // A bit flipped in the memory of a server that is declared dead and that backups no longer answer.
        _ if error == format!("ERR {}", Status::Corrupt.text()) => {
            Outcome::Refused { status: Status::Corrupt }
        }
        _ => panic!("an error that nothing asked for: {error}"),
    }
}
