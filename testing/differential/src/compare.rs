//! Decides whether two replies are equal: byte for byte, except where two redis-servers would answer
//! differently, too.

use crate::differences::{Differences, Treatment, same_types};
use crate::link::Answer;
use crate::reply::{ManyKind, Reply};
use crate::step::{Command, name};

/// The allowed difference of times to live and relative ends: the servers were asked at slightly different
/// times, and the machine may be busy.
const SECONDS_APART_MAX: i64 = 5;
/// A time from here on was given as an absolute time, since no time to live in the episodes lasts so long. It
/// is compared exactly.
const ABSOLUTE_SINCE_SECONDS: i64 = 4_000_000_000;

/// Compares the replies on one connection, in order. It knows the answers of EXEC.
pub struct Comparer<'a> {
    differences: &'a Differences,
    /// Commands of the transaction that is open.
    queued: Option<Vec<Command>>,
}

impl<'a> Comparer<'a> {
    pub fn new(differences: &'a Differences) -> Comparer<'a> {
        Comparer { differences, queued: None }
    }

    pub fn same(&mut self, command: &Command, left: &Answer, right: &Answer) -> bool {
        let (Answer::Reply(left), Answer::Reply(right)) = (left, right) else {
            return both_closed(left, right);
        };
        let name = name(command);
        let is_same = match (name.as_str(), &self.queued, left, right) {
            ("EXEC", Some(queued), Reply::Many(_, lefts), Reply::Many(_, rights))
                if lefts.len() == queued.len() && rights.len() == queued.len() =>
            {
                let pairs = lefts.iter().zip(rights);
                queued.iter().zip(pairs).all(|(command, (left, right))| {
                    self.same_replies(&crate::step::name(command), left, right)
                })
            }
            _ => self.same_replies(&name, left, right),
        };
        self.follow(&name, command, left);
        is_same
    }

    pub fn same_replies(&self, name: &str, left: &Reply, right: &Reply) -> bool {
        left == right
            || same_but_for_chance(name, left, right)
            || self.differences.explain(name, left, right).is_some()
    }

    /// Follows the state of the transaction.
    fn follow(&mut self, name: &str, command: &Command, reply: &Reply) {
        let is = |text: &[u8]| matches!(reply, Reply::Simple(line) if line == text);
        let has_wrong_arity = matches!(reply, Reply::Error(line) if line.starts_with(b"ERR wrong number"));
        match name {
            "MULTI" if is(b"OK") => self.queued = Some(Vec::new()),
            "EXEC" if !has_wrong_arity => self.queued = None,
            "DISCARD" if is(b"OK") => self.queued = None,
            "RESET" if is(b"RESET") => self.queued = None,
            _ if is(b"QUEUED") => {
                if let Some(queued) = &mut self.queued {
                    queued.push(command.clone());
                }
            }
            _ => {}
        }
    }
}

fn same_but_for_chance(name: &str, left: &Reply, right: &Reply) -> bool {
    let near = |apart_max: i64, below: i64| match (left, right) {
        (Reply::Integer(left), Reply::Integer(right)) => {
            (0..below).contains(left)
                && (0..below).contains(right)
                && left.abs_diff(*right) <= apart_max as u64
        }
        _ => false,
    };
    match name {
        "TTL" => near(SECONDS_APART_MAX, i64::MAX),
        "PTTL" => near(SECONDS_APART_MAX * 1000, i64::MAX),
        "EXPIRETIME" => near(SECONDS_APART_MAX, ABSOLUTE_SINCE_SECONDS),
        "PEXPIRETIME" => near(SECONDS_APART_MAX * 1000, ABSOLUTE_SINCE_SECONDS * 1000),
        "KEYS" | "COMMAND LIST" | "CONFIG GET" => match (left, right) {
            (Reply::Many(_, lefts), Reply::Many(_, rights)) => sorted(lefts) == sorted(rights),
            _ => false,
        },
        "HELLO" => match (left, right) {
            (Reply::Many(one, lefts), Reply::Many(other, rights)) => {
                one == other && lefts.len() == rights.len() && same_but_for_id(lefts, rights)
            }
            _ => false,
        },
        // All commands, in the order of a table of hashes.
        "COMMAND" | "COMMAND INFO" => matches!((left, right), (Reply::Many(..), Reply::Many(..))),
        // Other connections subscribe meanwhile.
        "PUBSUB CHANNELS" => matches!((left, right), (Reply::Many(..), Reply::Many(..))),
        // The dumped payload is tried on the other side: a step of its own.
        "DUMP" | "TIME" | "LASTSAVE" | "INFO" | "CLIENT ID" | "CLIENT INFO" | "CLIENT LIST"
        | "MEMORY USAGE" | "PUBSUB NUMPAT" | "OBJECT IDLETIME" | "SLOWLOG GET" | "SLOWLOG LEN"
        | "LATENCY LATEST" => same_types(left, right),
        _ => false,
    }
}

fn sorted(replies: &[Reply]) -> Vec<String> {
    let mut texts: Vec<String> = replies.iter().map(|reply| format!("{reply:?}")).collect();
    texts.sort();
    texts
}

fn same_but_for_id(lefts: &[Reply], rights: &[Reply]) -> bool {
    let mut is_id = false;
    lefts.iter().zip(rights).all(|(left, right)| {
        let is_same = left == right || (is_id && same_types(left, right));
        is_id = matches!(left, Reply::Bulk(bytes) if bytes == b"id");
        is_same
    })
}

/// Compares all answers of a connection, which belong to no single command.
pub fn same_all(differences: &Differences, name: &str, lefts: &[Answer], rights: &[Answer]) -> bool {
    for (left, right) in lefts.iter().zip(rights) {
        let is_same = match (left, right) {
            (Answer::Reply(left), Answer::Reply(right)) => {
                let is_map = |reply: &Reply| matches!(reply, Reply::Many(ManyKind::Map, _));
                let is_same = left == right || (is_map(left) && is_map(right));
                let row = if is_same { None } else { differences.explain(name, left, right) };
                // One of them may have ended the connection here.
                if row == Some(Treatment::Answered) {
                    return true;
                }
                is_same || row.is_some()
            }
            _ => both_closed(left, right),
        };
        if !is_same {
            return false;
        }
    }
    lefts.len() == rights.len()
}

/// Silence and garbage are never right, not even on both sides.
fn both_closed(left: &Answer, right: &Answer) -> bool {
    matches!((left, right), (Answer::Closed, Answer::Closed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(differences: &Differences, command: &str, left: Reply, right: Reply) -> bool {
        let command = command.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        Comparer::new(differences).same(&command, &Answer::Reply(left), &Answer::Reply(right))
    }

    #[test]
    fn times_are_near_and_points_in_time_exact() {
        let none = Differences::default();
        let number = Reply::Integer;
        assert!(same(&none, "ttl k", number(100), number(99)));
        assert!(!same(&none, "ttl k", number(100), number(50)));
        assert!(!same(&none, "ttl k", number(-1), number(1)));
        assert!(!same(&none, "strlen k", number(100), number(99)));
        assert!(!same(&none, "EXPIRETIME k", number(4_102_444_800), number(4_102_444_801)));
        assert!(same(&none, "EXPIRETIME k", number(1_802_444_800), number(1_802_444_801)));
    }

    #[test]
    fn what_exec_answers_is_compared_command_by_command() {
        let none = Differences::default();
        let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Command>();
        let simple = |text: &str| Answer::Reply(Reply::Simple(text.as_bytes().to_vec()));
        let both = |of: Answer| (of.clone(), of);
        for (right, is) in [(101, true), (200, false)] {
            let mut comparer = Comparer::new(&none);
            for (command, (left, right)) in [("MULTI", both(simple("OK"))), ("TTL k", both(simple("QUEUED")))]
            {
                assert!(comparer.same(&words(command), &left, &right));
            }
            let exec = |ttl| Answer::Reply(Reply::Many(ManyKind::Array, vec![Reply::Integer(ttl)]));
            assert_eq!(comparer.same(&words("EXEC"), &exec(100), &exec(right)), is);
        }
    }

    #[test]
    fn keys_are_compared_whatever_their_order() {
        let none = Differences::default();
        let keys = |keys: &[&str]| {
            let bulk = |key: &&str| Reply::Bulk(key.as_bytes().to_vec());
            Reply::Many(ManyKind::Array, keys.iter().map(bulk).collect())
        };
        assert!(same(&none, "KEYS *", keys(&["a", "b"]), keys(&["b", "a"])));
        assert!(!same(&none, "KEYS *", keys(&["a", "b"]), keys(&["b", "b"])));
        assert!(!same(&none, "MGET a b", keys(&["a", "b"]), keys(&["b", "a"])));
    }
}
