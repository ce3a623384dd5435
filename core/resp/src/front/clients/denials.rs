//! `ACL LOG`: the last requests that were refused for want of a right, and logins that failed.
//!
//! Refusals that are alike and follow each other within a minute are one entry with a count, so that one client does not push
//! out the others.
//!
//! Invariant: there are at most `ENTRY_COUNT_MAX` entries of bounded size; the oldest go first.

use crate::parse::integer;
use crate::{Fault, Reply};
use std::collections::VecDeque;

const ENTRY_COUNT_MAX: usize = 128;
/// Entries that `ACL LOG` shows when it is not asked for a number.
const SHOWN_COUNT: usize = 10;
/// Bytes of a name or of an object that are kept.
const TEXT_BYTES_MAX: usize = 128;
/// Within this time refusals that are alike are one entry.
const ALIKE_MILLIS: u64 = 60_000;

/// The thing that was lacking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    Login,
    Command,
    Table,
    Key,
    Channel,
}

impl Reason {
    pub const ALL: [Reason; 5] =
        [Reason::Login, Reason::Command, Reason::Table, Reason::Key, Reason::Channel];

    /// The words of Redis and Valkey.
    fn name(self) -> &'static str {
        match self {
            Reason::Login => "auth",
            Reason::Command => "command",
            Reason::Table => "database",
            Reason::Key => "key",
            Reason::Channel => "channel",
        }
    }
}

/// A refusal.
#[derive(Clone, Copy, Debug)]
pub struct Denial<'a> {
    pub reason: Reason,
    pub is_in_multi: bool,
    /// The command, key or channel.
    pub object: &'a [u8],
    pub user: &'a [u8],
    /// The line of the client in `CLIENT LIST`.
    pub client: &'a str,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    count: u64,
    reason: Reason,
    is_in_multi: bool,
    object: Vec<u8>,
    user: Vec<u8>,
    client: String,
    /// Milliseconds since 1970.
    created: u64,
    updated: u64,
}

#[derive(Debug, Default)]
pub struct Denials {
    last: u64,
    /// The newest first.
    entries: VecDeque<Entry>,
    /// Since the start, in the order of `Reason::ALL`.
    counts: [u64; Reason::ALL.len()],
}

impl Denials {
    /// `time`: milliseconds since 1970.
    pub fn note(&mut self, time: u64, denial: &Denial<'_>) {
        self.counts[denial.reason as usize] += 1;
        let kept = |text: &[u8]| text[..text.len().min(TEXT_BYTES_MAX)].to_vec();
        let (object, user) = (kept(denial.object), kept(denial.user));
        let alike = self.entries.iter().position(|entry| {
            (entry.reason, entry.is_in_multi) == (denial.reason, denial.is_in_multi)
                && (&entry.object, &entry.user) == (&object, &user)
                && time.saturating_sub(entry.updated) <= ALIKE_MILLIS
        });
        if let Some(mut entry) = alike.and_then(|at| self.entries.remove(at)) {
            (entry.count, entry.updated) = (entry.count + 1, time);
            denial.client.clone_into(&mut entry.client);
            return self.entries.push_front(entry);
        }
        let Denial { reason, is_in_multi, client, .. } = *denial;
        let id = self.last;
        self.last += 1;
        let client = client.to_owned();
        let (created, updated) = (time, time);
        self.entries.push_front(Entry {
            id,
            count: 1,
            reason,
            is_in_multi,
            object,
            user,
            client,
            created,
            updated,
        });
        self.entries.truncate(ENTRY_COUNT_MAX);
    }

    /// Refusals since the start, each with the name of its reason.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Reason::ALL.iter().zip(self.counts).map(|(reason, count)| (reason.name(), count))
    }

    /// `ACL LOG [count | RESET]`
    pub fn answer(&mut self, time: u64, args: &[&[u8]], reply: &mut Reply<'_>) {
        let count = match args {
            [] => SHOWN_COUNT,
            [word] if word.eq_ignore_ascii_case(b"reset") => {
                self.entries.clear();
                return reply.ok();
            }
            [count] => match integer(count) {
                Some(count) => usize::try_from(count).unwrap_or(0),
                None => return reply.fault(&Fault::NOT_AN_INTEGER),
            },
            _ => return reply.fault(&Fault::SYNTAX),
        };
        let shown = self.entries.iter().take(count);
        reply.array(shown.len());
        for entry in shown {
            reply.map(10);
            reply.bulk(b"count");
            reply.integer(entry.count as i64);
            let context = if entry.is_in_multi { "multi" } else { "toplevel" };
            for (name, text) in [
                ("reason", entry.reason.name().as_bytes()),
                ("context", context.as_bytes()),
                ("object", &entry.object),
                ("username", &entry.user),
            ] {
                reply.bulk(name.as_bytes());
                reply.bulk(text);
            }
            reply.bulk(b"age-seconds");
            reply.double(time.saturating_sub(entry.created) as f64 / 1000.0);
            reply.bulk(b"client-info");
            reply.bulk(entry.client.as_bytes());
            for (name, number) in [
                ("entry-id", entry.id),
                ("timestamp-created", entry.created),
                ("timestamp-last-updated", entry.updated),
            ] {
                reply.bulk(name.as_bytes());
                reply.integer(number as i64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;

    fn denial<'a>(object: &'a [u8], user: &'a [u8]) -> Denial<'a> {
        Denial { reason: Reason::Key, is_in_multi: false, object, user, client: "id=1" }
    }

    // J4: the log is bounded, and one client that is refused again and again takes one entry.
    #[test]
    fn refusals_that_are_alike_are_one_entry_and_old_ones_go() {
        let mut denials = Denials::default();
        (0..1000).for_each(|time| denials.note(time, &denial(b"a", b"bob")));
        denials.note(70_000, &denial(b"a", b"bob"));
        let counts: Vec<u64> = denials.entries.iter().map(|entry| entry.count).collect();
        assert_eq!(counts, [1, 1000]);
        for number in 0..1000u32 {
            denials.note(80_000, &denial(&number.to_be_bytes(), &[b'x'; 5000]));
        }
        assert_eq!(denials.entries.len(), ENTRY_COUNT_MAX);
        assert!(denials.entries.iter().all(|entry| entry.user.len() == TEXT_BYTES_MAX));
        assert_eq!(denials.counts().find(|(reason, _)| *reason == "key"), Some(("key", 2001)));
        assert_eq!(denials.counts().map(|(_, count)| count).sum::<u64>(), 2001);
        let mut out = Vec::new();
        denials.answer(80_000, &[b"reset"], &mut Reply::new(&mut out, Protocol::Resp2));
        denials.answer(80_000, &[], &mut Reply::new(&mut out, Protocol::Resp2));
        assert_eq!(out, b"+OK\r\n*0\r\n");
    }
}
