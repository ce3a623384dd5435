//! A session that speaks the Redis protocol with any server, as a client library does. It uses pipelines and
//! transactions, and changes to another server when the connection breaks or an answer takes too long.
//!
//! Each lane has an operation under way. Its commands go out with those of the other lanes. Every reply is
//! compared with the command that it must answer. A reply may lack facts, such as the version of a write. A
//! `GETVER` behind the command in the same pipeline may tell them.
//!
//! A panic here is a finding: a reply that no server may give.

use super::settings::{LANES_MAX, PACKED_LANES_MAX};
use crate::history::{Condition, Outcome, ValueId};
use crate::resp::{Answer, Heard, Link, Words};
use crate::system::{Ask, End, Met, Request, Session};
use crate::workload::sum_of;
use ramhold_base::{Effects, Input, Instant, Machine, Number, Rng, ServerId, Status, Version};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// The limit of attempts of a loop over a key that others change.
const ROUNDS_MAX: u32 = 20;

/// The command that a reply must answer.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Of {
    /// No operation's: the word comes back.
    Echo(Vec<u8>),
    /// A step of a lane's operation.
    Get,
    GetVer,
    /// The `GETVER` behind a write.
    VerAfter,
    /// The command that changes something, or the `EXEC` around it.
    Effect,
    Exec,
    /// `MULTI`, `WATCH`, `UNWATCH`.
    Ok,
    Queued,
    Scan,
    /// The read of a key that a scan has met.
    Met(Vec<u8>),
}

/// The form of a mutation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
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

enum Goal {
    Read,
    Count,
    Write { value: Vec<u8>, condition: Condition, ttl: Option<Duration> },
    Remove { condition: Condition },
    Increment { by: Number, condition: Condition },
    Append { letter: u8 },
    Scan,
}

/// The operation of a lane.
struct Work {
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
    met: Vec<Met>,
    keys: BTreeSet<Vec<u8>>,
}

struct Sent {
    lane: usize,
    of: Of,
}

pub struct RespSession {
    servers: Vec<SocketAddr>,
    link: Link,
    /// The time of the next attempt to connect.
    retry_at: Option<Instant>,
    /// The deadline of the answer that has been awaited longest.
    patience: Duration,
    heard_at: Instant,
    rng: Rng,
    lanes: usize,
    packs: bool,
    watches: bool,
    /// By lane.
    works: BTreeMap<usize, Work>,
    /// Lanes whose operation has not been sent.
    unsent: Vec<usize>,
    sent: VecDeque<Sent>,
    out: Vec<Words>,
    /// Highest versions seen on this connection.
    seen: BTreeMap<Vec<u8>, u64>,
    ends: VecDeque<(usize, End)>,
    met: BTreeMap<usize, Vec<Met>>,
    echoes: u64,
}

fn text(word: impl ToString) -> Vec<u8> {
    word.to_string().into_bytes()
}

fn command(name: &str, args: &[&[u8]]) -> Words {
    [name.as_bytes()].into_iter().chain(args.iter().copied()).map(<[u8]>::to_vec).collect()
}

impl RespSession {
    pub fn new(seed: u64, servers: Vec<SocketAddr>) -> RespSession {
        let mut rng = Rng::new(seed);
        let watches = rng.chance(1, 3);
        let packs = !watches && rng.chance(2, 3);
        let lanes = if packs { PACKED_LANES_MAX } else { LANES_MAX };
        RespSession {
            servers,
            link: Link::new(rng.u64()),
            retry_at: Some(Instant::ZERO),
            patience: Duration::from_millis(rng.between(300, 12_000)),
            heard_at: Instant::ZERO,
            lanes: if watches { 1 } else { rng.between(1, lanes) as usize },
            packs,
            watches,
            works: BTreeMap::new(),
            unsent: Vec::new(),
            sent: VecDeque::new(),
            out: Vec::new(),
            seen: BTreeMap::new(),
            ends: VecDeque::new(),
            met: BTreeMap::new(),
            echoes: 0,
            rng,
        }
    }

    fn connect(&mut self, now: Instant, effects: &mut Effects) {
        self.retry_at = None;
        self.heard_at = now;
        let addr = *self.rng.pick(&self.servers).expect("there are servers");
        self.link.open(addr, effects);
    }

    /// The connection is lost. The fate of the commands that were sent is open.
    fn disconnect(&mut self, now: Instant, effects: &mut Effects) {
        self.link.abandon(effects);
        self.retry_at = Some(now + Duration::from_millis(self.rng.below(60)));
        self.sent.clear();
        self.out.clear();
        self.seen.clear();
        for (lane, mut work) in std::mem::take(&mut self.works) {
            if self.unsent.contains(&lane) {
                self.works.insert(lane, work);
                continue;
            }
            let lost =
                if work.at_stake { Outcome::Unknown } else { Outcome::Refused { status: Status::Retry } };
            // A scan that reached its end has not read every key yet.
            let told = work.result.take().filter(|told| *told != Outcome::Scanned);
            let outcome = told.unwrap_or(lost);
            self.ends.push_back((lane, End { outcome, answered_by: None }));
        }
    }

    fn put(&mut self, lane: usize, work: &mut Work, command: Words, of: Of) {
        work.missing += 1;
        self.out.push(command);
        self.sent.push_back(Sent { lane, of });
    }

    /// Sends a command with an effect, alone or between `MULTI` and `EXEC`, perhaps with a read behind it.
    fn put_effect(&mut self, lane: usize, work: &mut Work, change: Words, in_multi: bool) {
        work.at_stake = true;
        work.floor = self.seen.get(&work.key).copied().unwrap_or(0);
        if in_multi {
            self.put(lane, work, command("MULTI", &[]), Of::Ok);
            self.put(lane, work, change, Of::Queued);
            self.put(lane, work, command("EXEC", &[]), Of::Exec);
        } else {
            self.put(lane, work, change, Of::Effect);
        }
        if self.rng.chance(3, 4) {
            let key = work.key.clone();
            self.put(lane, work, command("GETVER", &[&key]), Of::VerAfter);
        }
    }

    /// Sends the first commands of an operation.
    fn start(&mut self, now: Instant, lane: usize) {
        let Some(mut work) = self.works.remove(&lane) else { return };
        work.asked = now;
        if self.rng.chance(1, 16) {
            self.echoes += 1;
            let word = text(format!("echo {}", self.echoes));
            self.out.push(command("ECHO", &[&word]));
            self.sent.push_back(Sent { lane, of: Of::Echo(word) });
        }
        let key = work.key.clone();
        let multi = work.way == Way::Multi;
        match (&work.goal, work.way) {
            (Goal::Read | Goal::Count, way) => {
                let (name, of) = if way == Way::Plain { ("GET", Of::Get) } else { ("GETVER", Of::GetVer) };
                self.put(lane, &mut work, command(name, &[&key]), of);
            }
            (Goal::Scan, _) => {
                let count = text(self.rng.between(1, 100));
                self.put(lane, &mut work, command("SCAN", &[b"0", b"COUNT", &count]), Of::Scan);
            }
            (_, Way::Swap) => self.put(lane, &mut work, command("GETVER", &[&key]), Of::GetVer),
            (_, Way::Watch) => {
                self.put(lane, &mut work, command("WATCH", &[&key]), Of::Ok);
                self.put(lane, &mut work, command("GETVER", &[&key]), Of::GetVer);
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
                self.put_effect(lane, &mut work, set, multi);
            }
            (Goal::Remove { .. }, way) => {
                let name = if way == Way::Get { "GETDEL" } else { "DEL" };
                self.put_effect(lane, &mut work, command(name, &[&key]), multi);
            }
            (Goal::Increment { by, .. }, _) => {
                let (name, by) = match by {
                    Number::Integer(by) => ("INCRBY", text(by)),
                    Number::Float(by) => ("INCRBYFLOAT", text(by)),
                };
                self.put_effect(lane, &mut work, command(name, &[&key, &by]), multi);
            }
            (Goal::Append { letter }, _) => {
                let append = command("APPEND", &[&key, &[*letter]]);
                self.put_effect(lane, &mut work, append, multi);
            }
        }
        self.works.insert(lane, work);
    }

    /// The next step of a loop after its read: it writes under the condition that the object is unchanged, or
    /// ends.
    fn go_on(&mut self, lane: usize, work: &mut Work, value: Option<&[u8]>, version: u64) {
        let there = Version(version);
        let condition = match work.goal {
            Goal::Remove { condition } | Goal::Increment { condition, .. } => condition,
            _ => Condition::Free,
        };
        let meets = match condition {
            Condition::Free => true,
            Condition::Absent => there.is_none(),
            Condition::VersionIs(wanted) => wanted == there && !there.is_none(),
        };
        let removes_nothing = matches!(work.goal, Goal::Remove { .. }) && there.is_none();
        if !meets || removes_nothing {
            if work.way == Way::Watch {
                self.put(lane, work, command("UNWATCH", &[]), Of::Ok);
            }
            work.result = Some(if !meets {
                Outcome::ConditionFailed { version: Some(there) }
            } else {
                Outcome::Done { version: Version::NONE }
            });
            return;
        }
        let key = work.key.clone();
        let change = match &work.goal {
            Goal::Increment { by, .. } => {
                let by = sum_of(by.to_string().as_bytes());
                work.wrote = value.map_or(0, sum_of) + by;
                command("SET", &[&key, &text(work.wrote)])
            }
            Goal::Remove { .. } => command("DEL", &[&key]),
            _ => unreachable!("only these are loops"),
        };
        if work.way == Way::Watch {
            return self.put_effect(lane, work, change, true);
        }
        let change = [change, command("IFVER", &[&text(version)])].concat();
        self.put_effect(lane, work, change, false);
    }

    /// A loop found that another client was faster.
    fn again(&mut self, lane: usize, work: &mut Work) {
        let condition = match work.goal {
            Goal::Remove { condition } | Goal::Increment { condition, .. } => condition,
            _ => Condition::Free,
        };
        work.at_stake = false;
        work.rounds += 1;
        if condition != Condition::Free {
            work.result = Some(Outcome::ConditionFailed { version: None });
        } else if work.rounds > ROUNDS_MAX {
            work.result = Some(Outcome::Refused { status: Status::Retry });
        } else {
            let key = work.key.clone();
            if work.way == Way::Watch {
                self.put(lane, work, command("WATCH", &[&key]), Of::Ok);
            }
            self.put(lane, work, command("GETVER", &[&key]), Of::GetVer);
        }
    }

    /// The reply to a command with an effect.
    fn on_effect(&mut self, lane: usize, work: &mut Work, answer: Answer) {
        let is_loop = matches!(work.way, Way::Swap | Way::Watch);
        let nonsense = |answer: &Answer, work: &Work| -> ! {
            panic!("{answer:?} to a change of {:?} ({:?})", String::from_utf8_lossy(&work.key), work.way)
        };
        if let Answer::Error(error) = &answer {
            work.result = Some(refusal(error));
            return;
        }
        let result = match (&work.goal, &answer) {
            (Goal::Increment { .. }, answer) if is_loop => match answer {
                ok if ok.is_ok() => Outcome::Summed { sum: work.wrote },
                nil if nil.is_nil() => return self.again(lane, work),
                other => nonsense(other, work),
            },
            (Goal::Increment { by: Number::Integer(_), .. }, Answer::Integer(sum)) => {
                Outcome::Summed { sum: *sum }
            }
            (Goal::Increment { by: Number::Float(_), .. }, Answer::Bulk(Some(sum))) => {
                Outcome::Summed { sum: sum_of(sum) }
            }
            (Goal::Append { .. }, Answer::Integer(1..)) => Outcome::Acknowledged,
            (Goal::Remove { .. }, Answer::Array(None)) if is_loop => return self.again(lane, work),
            (Goal::Remove { .. }, Answer::Integer(1)) if work.way != Way::Get => Outcome::Acknowledged,
            (Goal::Remove { .. }, Answer::Integer(0)) if work.way != Way::Get && !is_loop => {
                Outcome::Done { version: Version::NONE }
            }
            (Goal::Remove { .. }, Answer::Bulk(value)) if work.way == Way::Get => match value {
                Some(_) => Outcome::Acknowledged,
                None => Outcome::Done { version: Version::NONE },
            },
            (Goal::Write { condition, ttl, .. }, answer) => match (work.way, condition, answer) {
                (Way::Get, Condition::Free, Answer::Bulk(_)) if ttl.is_none() => Outcome::Acknowledged,
                (Way::Get, Condition::Absent, Answer::Integer(1)) if ttl.is_none() => Outcome::Acknowledged,
                (Way::Get, Condition::Absent, Answer::Integer(0)) if ttl.is_none() => {
                    Outcome::ConditionFailed { version: None }
                }
                (_, _, ok) if ok.is_ok() => Outcome::Acknowledged,
                (_, Condition::Absent | Condition::VersionIs(_), nil) if nil.is_nil() => {
                    Outcome::ConditionFailed { version: None }
                }
                (_, _, other) => nonsense(other, work),
            },
            (_, other) => nonsense(other, work),
        };
        work.result = Some(result);
    }

    /// The reply to the read behind a write in its pipeline.
    fn on_version_after(&mut self, work: &mut Work, value: Option<Vec<u8>>, version: u64) {
        let is_acknowledged = matches!(work.result, Some(Outcome::Acknowledged | Outcome::Summed { .. }));
        if !is_acknowledged || value.is_none() {
            return;
        }
        let key = String::from_utf8_lossy(&work.key);
        assert!(
            version > work.floor,
            "{key}: the read behind a write sees version {version}, known before it"
        );
        let value = value.unwrap_or_default();
        let version = Version(version);
        match (&work.goal, work.result) {
            (Goal::Write { value: written, .. }, _) if *written == value => {
                work.result = Some(Outcome::Done { version });
            }
            (Goal::Append { letter }, _) => {
                assert!(value.contains(letter), "{key}: the read behind an append does not see it");
            }
            (Goal::Increment { .. }, Some(Outcome::Summed { sum })) => {
                let there = sum_of(&value);
                assert!(there >= sum, "{key}: the read behind an increment to {sum} sees {there}");
                if there == sum {
                    work.result = Some(Outcome::Counted { version, sum });
                }
            }
            _ => {}
        }
    }

    fn on_reply(&mut self, now: Instant, answer: Answer) {
        let Some(Sent { lane, of }) = self.sent.pop_front() else {
            panic!("{answer:?} to nothing that was asked");
        };
        if let Of::Echo(word) = of {
            assert_eq!(answer, Answer::Bulk(Some(word)), "the reply to an ECHO");
            return;
        }
        let mut work = self.works.remove(&lane).expect("who waits for a reply is there");
        work.missing -= 1;
        match (of, answer) {
            (Of::Effect, answer) => self.on_effect(lane, &mut work, answer),
            (Of::Exec, Answer::Array(Some(mut parts))) => {
                assert_eq!(parts.len(), 1, "one command was queued");
                let part = parts.pop().expect("there is one");
                self.on_effect(lane, &mut work, part);
            }
            (Of::Exec, answer @ Answer::Array(None)) if work.way == Way::Watch => {
                self.on_effect(lane, &mut work, answer);
            }
            (Of::Exec, answer @ Answer::Error(_)) => self.on_effect(lane, &mut work, answer),
            (Of::VerAfter, Answer::Error(_)) => {}
            (Of::Ok, answer) if answer.is_ok() => {}
            (Of::Queued, Answer::Simple(text)) if text == "QUEUED" => {}
            (of @ (Of::Get | Of::GetVer | Of::Scan | Of::Met(_) | Of::Ok), Answer::Error(error)) => {
                if work.way == Way::Watch && of == Of::GetVer {
                    // Otherwise the key would still be watched when the next command comes.
                    self.put(lane, &mut work, command("UNWATCH", &[]), Of::Ok);
                }
                let refused = refusal(&error);
                let status = Status::Retry;
                let is_unknown = refused == Outcome::Unknown;
                work.result = Some(if is_unknown { Outcome::Refused { status } } else { refused });
            }
            (Of::Get, Answer::Bulk(value)) => {
                work.result = Some(match (value, &work.goal) {
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
                let key = if let Of::Met(key) = &of { key.clone() } else { work.key.clone() };
                let seen = self.seen.entry(key.clone()).or_default();
                *seen = version.max(*seen);
                match of {
                    Of::VerAfter => self.on_version_after(&mut work, value.clone(), version),
                    Of::Met(_) => {
                        let (call, ret) = (work.asked.0, now.0);
                        let version = Version(version);
                        work.met.extend(value.clone().map(|value| Met {
                            key,
                            version,
                            value,
                            call,
                            ret,
                            answered_by: ServerId::NONE,
                        }));
                    }
                    _ => self.on_version(lane, &mut work, value.as_deref(), version),
                }
            }
            (Of::Scan, Answer::Array(Some(parts))) => self.on_page(now, lane, &mut work, &parts),
            (of, other) => panic!("{other:?} to {of:?} about {:?}", String::from_utf8_lossy(&work.key)),
        }
        if work.missing > 0 || work.result.is_none() {
            self.works.insert(lane, work);
            return;
        }
        let outcome = work.result.take().expect("it is there");
        if outcome == Outcome::Scanned {
            self.met.insert(lane, work.met);
        }
        self.ends.push_back((lane, End { outcome, answered_by: None }));
    }

    fn on_version(&mut self, lane: usize, work: &mut Work, value: Option<&[u8]>, version: u64) {
        match (&work.goal, value) {
            (Goal::Read | Goal::Count, None) => work.result = Some(Outcome::Absent),
            (Goal::Read, Some(value)) => {
                let (version, value) = (Version(version), ValueId::of(value));
                work.result = Some(Outcome::Found { version, value });
            }
            (Goal::Count, Some(value)) => {
                work.result = Some(Outcome::Counted { version: Version(version), sum: sum_of(value) });
            }
            // The operation's WATCH was refused.
            _ if work.result.is_some() => {}
            _ => self.go_on(lane, work, value, version),
        }
    }

    /// Reads every key of a page, and asks for the next page behind them.
    fn on_page(&mut self, now: Instant, lane: usize, work: &mut Work, parts: &[Answer]) {
        let [Answer::Bulk(Some(cursor)), Answer::Array(Some(keys))] = parts else {
            panic!("{parts:?} to a SCAN");
        };
        if work.result.is_some() {
            // The read of a key of the page before was refused, so nothing is known of that key.
            return;
        }
        work.asked = now;
        for key in keys {
            let Answer::Bulk(Some(key)) = key else { panic!("{key:?} among the keys of a SCAN") };
            // A page may repeat keys of the one before.
            if work.keys.insert(key.clone()) {
                self.put(lane, work, command("GETVER", &[key]), Of::Met(key.clone()));
            }
        }
        if cursor == b"0" {
            // An error for one of the last keys replaces this result.
            work.result = Some(Outcome::Scanned);
        } else {
            let count = text(self.rng.between(1, 100));
            self.put(lane, work, command("SCAN", &[cursor, b"COUNT", &count]), Of::Scan);
        }
    }

    fn flush(&mut self, now: Instant, effects: &mut Effects) {
        if !self.link.is_open() {
            return;
        }
        for lane in std::mem::take(&mut self.unsent) {
            self.start(now, lane);
        }
        if !self.out.is_empty() {
            if self.sent.len() == self.out.len() {
                self.heard_at = now;
            }
            let out = std::mem::take(&mut self.out);
            self.link.send(&out, effects);
        }
    }

    fn late_at(&self) -> Option<Instant> {
        let waits = !self.sent.is_empty() || (self.link.addr.is_some() && !self.link.is_open());
        waits.then(|| self.heard_at + self.patience)
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

impl Session for RespSession {
    fn lanes(&self) -> usize {
        self.lanes
    }

    fn goes_on_after_unknown(&self) -> bool {
        true
    }

    fn packs(&self) -> bool {
        self.packs
    }

    fn appends(&self) -> bool {
        true
    }

    fn commits(&self) -> bool {
        false
    }

    fn begin(&mut self, now: Instant, lane: usize, request: &Request<'_>, effects: &mut Effects) {
        let goal = match request.ask {
            Ask::Read => Goal::Read,
            Ask::Count => Goal::Count,
            Ask::Write { value, condition, ttl } => Goal::Write { value: value.to_vec(), condition, ttl },
            Ask::Remove { condition } => Goal::Remove { condition },
            Ask::Increment { by, condition } => Goal::Increment { by, condition },
            Ask::Append { letter } => Goal::Append { letter },
            Ask::Scan => Goal::Scan,
            Ask::Commit(_) => unreachable!("it does not say that it commits"),
        };
        let ways: &[Way] = match &goal {
            Goal::Read | Goal::Count | Goal::Scan => &[Way::Plain, Way::Swap],
            Goal::Write { .. } | Goal::Remove { condition: Condition::Free } => {
                &[Way::Plain, Way::Plain, Way::Get, Way::Multi]
            }
            Goal::Append { .. } => &[Way::Plain, Way::Multi],
            Goal::Increment { condition: Condition::Free, .. } if self.watches => &[Way::Watch, Way::Plain],
            Goal::Increment { condition: Condition::Free, .. } => &[Way::Plain, Way::Multi, Way::Swap],
            Goal::Increment { .. } if self.watches => &[Way::Watch, Way::Swap],
            Goal::Increment { .. } => &[Way::Swap],
            Goal::Remove { .. } => &[Way::Watch],
        };
        let way = *self.rng.pick(ways).expect("there is a way");
        if way == Way::Watch && !self.watches {
            // Only a lane that has the connection alone can watch a key on it.
            let outcome = Outcome::Refused { status: Status::Retry };
            return self.ends.push_back((lane, End { outcome, answered_by: None }));
        }
        let work = Work {
            key: request.key.to_vec(),
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
        };
        self.works.insert(lane, work);
        self.unsent.push(lane);
        if !self.packs {
            self.flush(now, effects);
        }
    }

    fn all_begun(&mut self, now: Instant, effects: &mut Effects) {
        self.flush(now, effects);
    }

    fn leave(&mut self, effects: &mut Effects) {
        self.link.abandon(effects);
    }

    fn take_met(&mut self, lane: usize) -> Vec<Met> {
        self.met.remove(&lane).unwrap_or_default()
    }

    fn take_end(&mut self) -> Option<(usize, End)> {
        self.ends.pop_front()
    }
}

impl Machine for RespSession {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match input {
            Input::Start { .. } => self.connect(now, effects),
            Input::Bytes { from, bytes } => {
                for heard in self.link.on_bytes(from, bytes, effects) {
                    self.heard_at = now;
                    match heard {
                        Heard::Open => {}
                        Heard::Reply(answer) => self.on_reply(now, answer),
                        Heard::Refused => {
                            self.disconnect(now, effects);
                            break;
                        }
                    }
                }
            }
            Input::Lost { addr, how } if self.link.on_lost(addr, how, effects) => {
                self.disconnect(now, effects);
            }
            _ => {}
        }
        if self.late_at().is_some_and(|at| at <= now) {
            self.disconnect(now, effects);
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.connect(now, effects);
        }
        self.flush(now, effects);
    }

    fn deadline(&self) -> Option<Instant> {
        ramhold_base::time::earliest(self.late_at(), self.retry_at)
    }
}
