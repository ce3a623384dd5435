//! A connection of the Redis protocol: bytes in, replies out, over a host with objects of its own.
//!
//! Promised:
//! - The same bytes give the same replies and leave the same objects, wherever they are cut and however late
//!   the host answers.
//! - Replies are whole and well-formed.
//! - Every request has one reply, in order, until the connection ends.
//! - A request that waits is heard when its wait is over.

#[path = "../../../core/resp/tests/rig/mod.rs"]
mod rig;

use crate::cuts::Cut;
use crate::replies;
use ramhold_base::{ConnId, Version};
use ramhold_resp::{Limits, Parsed, Parser, RespConfig};
use rig::{A, Rig};
use std::collections::BTreeMap;

const LIMITS: Limits = Limits { args: 64, arg_bytes: 4 * 1024, bytes: 16 * 1024 };
/// The most rounds until the host has given all its answers. Each round gives all answers that wait.
const ROUND_COUNT_MAX: usize = 10_000;

/// The choices of an input.
const PASSWORD: u8 = 1;
const NARROW: u8 = 2;

#[derive(PartialEq, Eq, Debug)]
struct Outcome {
    replies: Vec<u8>,
    closed: Vec<ConnId>,
    /// The remaining objects, without versions: versions tell which of two different keys was written first.
    values: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn configure(choice: u8, config: &mut RespConfig) {
    config.limits = LIMITS;
    if choice & PASSWORD != 0 {
        config.password = Some("secret".into());
    }
    if choice & NARROW != 0 {
        config.running_count_max = 2;
    }
}

fn outcome(bytes: &[u8], ends: &[usize], choice: u8, delays: bool) -> Outcome {
    let mut rig = Rig::with(|config| configure(choice, config));
    rig.refuses = true;
    rig.shelf.delays = delays;
    let mut start = 0;
    for end in ends {
        rig.feed(A, &bytes[start..*end]);
        start = *end;
        if delays && end % 2 == 0 {
            rig.release();
        }
    }
    let mut rounds = 0;
    while !rig.shelf.waiting.is_empty() {
        rig.release();
        rounds += 1;
        assert!(rounds < ROUND_COUNT_MAX, "what was begun does not come to its end");
    }
    assert!(rig.held.is_empty(), "nothing is under way, and bytes are left unheard");
    let values = rig.shelf.objects.into_iter().map(|(key, (Version(_), value))| (key, value)).collect();
    Outcome { replies: rig.outputs.remove(&A).unwrap_or_default(), closed: rig.closed, values }
}

pub fn run(input: &[u8]) {
    let cut = Cut::of(input);
    let whole = outcome(cut.bytes, &[cut.bytes.len()], cut.choice, false);
    let is_told = tells_counts(cut.bytes);
    if !is_told && cut.ends.len() > 1 {
        assert_eq!(shown(&outcome(cut.bytes, &cut.ends, cut.choice, false)), shown(&whole), "cut");
    }
    if !is_told && !tells_order(cut.bytes) {
        assert_eq!(shown(&outcome(cut.bytes, &cut.ends, cut.choice, true)), shown(&whole), "cut and delayed");
    }
    let count = replies::count(&whole.replies);
    let asked = if cut.choice & PASSWORD == 0 { asked(cut.bytes) } else { None };
    if let Some(asked) = asked {
        assert_eq!(count, asked, "replies to so many requests: {}", whole.replies.escape_ascii());
    }
}

fn shown(outcome: &Outcome) -> (String, &[ConnId], &BTreeMap<Vec<u8>, Vec<u8>>) {
    (outcome.replies.escape_ascii().to_string(), &outcome.closed, &outcome.values)
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
}

fn contains_any(bytes: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| contains(bytes, word.as_bytes()))
}

/// Whether a reply may tell counters, which differ when its request comes together with others.
fn tells_counts(bytes: &[u8]) -> bool {
    contains_any(bytes, &["info", "latency", "slowlog"])
}

/// Whether a reply may tell the order in which different keys were written, or the requests under way.
fn tells_order(bytes: &[u8]) -> bool {
    contains_any(bytes, &["ver", "client"])
}

/// The number of replies that the bytes must have; none: it depends on the effects of the requests.
fn asked(bytes: &[u8]) -> Option<usize> {
    // These have several replies or none, or end the connection.
    if contains_any(bytes, &["subscribe", "quit", "kill", "reply"]) {
        return None;
    }
    let (mut parser, mut start, mut count) = (Parser::default(), 0, 0);
    loop {
        match parser.parse(&bytes[start..], &LIMITS) {
            Parsed::Part => return Some(count),
            Parsed::Bad(_) => return Some(count + 1),
            Parsed::Whole(length) => {
                let mut args = Vec::new();
                parser.args(&bytes[start..start + length], &mut args);
                count += usize::from(!args.is_empty());
                start += length;
            }
        }
    }
}
