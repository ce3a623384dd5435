//! Facts about how a key is held.

use crate::command::{Command, Flags, Front, KeyPlaces, OnQuorum, Run};
use crate::parse::integer;
use crate::{Call, Fault, Object, Stop};

/// Bytes that an object takes in its server's memory beyond key and value: for its entry in the log
/// (docs/formats/log.md), `ENTRY_EXPIRY_BYTES` more if it expires, and at most `INDEX_BYTES` as its share of
/// the index.
const ENTRY_BYTES: usize = 22;
const ENTRY_EXPIRY_BYTES: usize = 8;
const INDEX_BYTES: usize = 12;

/// Redis keeps one shared object for each integer below this bound, and counts its users as very many.
const SHARED_INTEGERS: i64 = 10_000;

/// Bytes of the longest string that Redis keeps beside its object's head.
const EMBEDDED_BYTES_MAX: usize = 44;

pub const OBJECT: Command = Command {
    name: "object",
    arity: -2,
    group: "generic",
    since: "2.2.3",
    complexity: "As much as the subcommand takes",
    usage: "",
    summary: "Holds what tells how a value is kept.",
    run: Run::Container(&[
        Command {
            name: "encoding",
            arity: 3,
            flags: Flags::READONLY.with(Flags::KEYSPACE),
            keys: KeyPlaces::SECOND,
            access: &["RO"],
            group: "generic",
            since: "2.2.3",
            complexity: "O(1)",
            usage: "key",
            summary: "Tells in which form Redis would keep the value.",
            tips: &["nondeterministic_output"],
            note: "What Redis would choose if the value were set now: int, embstr or raw. There a string that was changed in place is raw.",
            quorum: OnQuorum::No,
            run: Run::Keys(encoding),
        },
        Command {
            name: "freq",
            arity: 3,
            flags: Flags::READONLY.with(Flags::KEYSPACE),
            keys: KeyPlaces::SECOND,
            access: &["RO"],
            group: "generic",
            since: "4.0.0",
            complexity: "O(1)",
            usage: "key",
            summary: "Would tell how often a key is used.",
            tips: &["nondeterministic_output"],
            note: "Always the error that no LFU policy is selected.",
            quorum: OnQuorum::No,
            run: Run::Keys(freq),
        },
        Command {
            name: "help",
            arity: 2,
            flags: Flags::ANYTIME.with(Flags::KEYSPACE),
            group: "generic",
            since: "6.2.0",
            complexity: "O(1)",
            usage: "",
            summary: "Lists the subcommands, each with a line about it.",
            run: Run::Front(Front::Help),
            ..Command::BASE
        },
        Command {
            name: "idletime",
            arity: 3,
            flags: Flags::READONLY.with(Flags::KEYSPACE),
            keys: KeyPlaces::SECOND,
            access: &["RO"],
            group: "generic",
            since: "2.2.3",
            complexity: "O(1)",
            usage: "key",
            summary: "Would tell for how many seconds a key has not been used.",
            tips: &["nondeterministic_output"],
            note: "Always 0: times of use are not kept.",
            quorum: OnQuorum::No,
            run: Run::Keys(idletime),
        },
        Command {
            name: "refcount",
            arity: 3,
            flags: Flags::READONLY.with(Flags::KEYSPACE),
            keys: KeyPlaces::SECOND,
            access: &["RO"],
            group: "generic",
            since: "2.2.3",
            complexity: "O(1)",
            usage: "key",
            summary: "Tells how many users Redis would count of the value.",
            tips: &["nondeterministic_output"],
            note: "As if the value were set now: 2147483647 for integers from 0 to 9999, otherwise 1.",
            quorum: OnQuorum::No,
            run: Run::Keys(refcount),
        },
    ]),
    ..Command::BASE
};

/// The object that a subcommand is about. `None`: there is none, and this has been answered.
fn object(call: &mut Call<'_>) -> Result<Option<Object>, Stop> {
    let object = call.get(call.args[2])?.cloned();
    if object.is_none() {
        call.reply.null();
    }
    Ok(object)
}

fn encoding(call: &mut Call<'_>) -> Result<(), Stop> {
    if let Some(object) = object(call)? {
        let encoding = match &object.value {
            value if integer(value).is_some() => "int",
            value if value.len() <= EMBEDDED_BYTES_MAX => "embstr",
            _ => "raw",
        };
        call.reply.bulk(encoding.as_bytes());
    }
    Ok(())
}

fn refcount(call: &mut Call<'_>) -> Result<(), Stop> {
    if let Some(object) = object(call)? {
        let is_shared = integer(&object.value).is_some_and(|value| (0..SHARED_INTEGERS).contains(&value));
        call.reply.integer(if is_shared { i32::MAX.into() } else { 1 });
    }
    Ok(())
}

fn idletime(call: &mut Call<'_>) -> Result<(), Stop> {
    if object(call)?.is_some() {
        call.reply.integer(0);
    }
    Ok(())
}

fn freq(call: &mut Call<'_>) -> Result<(), Stop> {
    if object(call)?.is_some() {
        return Err(Fault::fixed(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
        )
        .into());
    }
    Ok(())
}

pub const MEMORY: Command = Command {
    name: "memory",
    arity: -2,
    group: "server",
    since: "4.0.0",
    complexity: "As much as the subcommand takes",
    usage: "",
    summary: "Holds what tells where memory goes.",
    run: Run::Container(&[
        Command {
            name: "help",
            arity: 2,
            flags: Flags::ANYTIME,
            group: "server",
            since: "4.0.0",
            complexity: "O(1)",
            usage: "",
            summary: "Lists the subcommands, each with a line about it.",
            run: Run::Front(Front::Help),
            ..Command::BASE
        },
        Command {
            name: "usage",
            arity: -3,
            flags: Flags::READONLY,
            keys: KeyPlaces::SECOND,
            access: &["RO"],
            group: "server",
            since: "4.0.0",
            complexity: "O(N) with N the samples asked for",
            usage: "key [SAMPLES count]",
            summary: "Tells how many bytes a key takes.",
            note: "Bytes in the memory of the server that has the key: key, value, 22 for the entry, 8 more if it expires, 12 for the index. Copies on backups are not in it.",
            run: Run::Keys(usage),
            ..Command::BASE
        },
    ]),
    ..Command::BASE
};

fn usage(call: &mut Call<'_>) -> Result<(), Stop> {
    let mut rest = &call.args[3..];
    while let [word, more @ ..] = rest {
        let [text, more @ ..] = more else {
            return Err(Fault::SYNTAX.into());
        };
        if !word.eq_ignore_ascii_case(b"samples") {
            return Err(Fault::SYNTAX.into());
        }
        if integer(text).ok_or(Fault::NOT_AN_INTEGER)? < 0 {
            return Err(Fault::SYNTAX.into());
        }
        rest = more;
    }
    if let Some(object) = object(call)? {
        let expiry = if object.expires.is_some() { ENTRY_EXPIRY_BYTES } else { 0 };
        let bytes = ENTRY_BYTES + expiry + INDEX_BYTES + call.args[2].len() + object.value.len();
        call.reply.integer(bytes as i64);
    }
    Ok(())
}
