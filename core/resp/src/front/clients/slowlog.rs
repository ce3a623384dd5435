//! `SLOWLOG`: the last commands that took long.
//!
//! Invariant: there are at most as many entries as the settings allow; the oldest go first.

use crate::front::request::Args;
use crate::parse::integer;
use crate::{Fault, Front, Reply};
use std::collections::VecDeque;
use std::time::Duration;

#[derive(Debug)]
struct Slow {
    id: u64,
    at_seconds: u64,
    micros: u64,
    args: Vec<Vec<u8>>,
    name: Vec<u8>,
}

/// Commands that took long.
#[derive(Debug, Default)]
pub struct SlowLog {
    last: u64,
    entries: VecDeque<Slow>,
}

/// Arguments of a command that the slow log keeps, and bytes that it keeps of each.
const ARGS_MAX: usize = 32;
const ARG_BYTES_MAX: usize = 128;

impl SlowLog {
    /// Enters a command that took long, and was answered `at_seconds` after the beginning of 1970. `name`: its
    /// client's name.
    pub fn note(&mut self, request: &Args, took: Duration, at_seconds: u64, name: &[u8], count_max: usize) {
        if count_max == 0 || request.bytes() == 0 {
            return;
        }
        let list = request.list();
        let mut args: Vec<Vec<u8>> = Vec::new();
        for arg in list.iter().take(ARGS_MAX) {
            let mut kept = arg[..arg.len().min(ARG_BYTES_MAX)].to_vec();
            if arg.len() > ARG_BYTES_MAX {
                kept.extend_from_slice(format!("... ({} more bytes)", arg.len() - ARG_BYTES_MAX).as_bytes());
            }
            args.push(kept);
        }
        if list.len() > ARGS_MAX {
            args.pop();
            args.push(format!("... ({} more arguments)", list.len() - ARGS_MAX + 1).into_bytes());
        }
        self.entries.push_front(Slow {
            id: self.last,
            at_seconds,
            micros: took.as_micros() as u64,
            args,
            name: name.to_vec(),
        });
        self.last += 1;
        self.entries.truncate(count_max);
    }

    pub fn answer(&mut self, front: Front, args: &[&[u8]], mut reply: Reply<'_>) {
        match front {
            Front::SlowlogLen => reply.integer(self.entries.len() as i64),
            Front::SlowlogReset => {
                self.entries.clear();
                reply.ok();
            }
            _ => {
                let count = match args.get(2).map(|count| integer(count)) {
                    None => 10,
                    Some(Some(-1)) => self.entries.len(),
                    Some(Some(count)) if count >= 0 => count as usize,
                    Some(Some(_)) => {
                        let text = "ERR count should be greater than or equal to -1";
                        return reply.fault(&Fault::fixed(text));
                    }
                    Some(None) => return reply.fault(&Fault::NOT_AN_INTEGER),
                };
                let count = count.min(self.entries.len());
                reply.array(count);
                for entry in self.entries.iter().take(count) {
                    reply.array(6);
                    reply.integer(entry.id as i64);
                    reply.integer(entry.at_seconds as i64);
                    reply.integer(entry.micros as i64);
                    reply.array(entry.args.len());
                    for arg in &entry.args {
                        reply.bulk(arg);
                    }
                    reply.bulk(b"");
                    reply.bulk(&entry.name);
                }
            }
        }
    }
}
