//! Commands about one string as a whole: its value, the condition for setting it, and its lifetime.

use super::lifetime::{Lifetime, ends_at};
use crate::command::{Command, Fast, Flags, KeyPlaces, OnQuorum, Run};
use crate::{Call, Fault, Stop};

pub const GET: Command = Command {
    name: "get",
    arity: 2,
    flags: Flags::READONLY.with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RO access"],
    group: "string",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "key",
    summary: "Reads a key.",
    quorum: OnQuorum::Yes,
    run: Run::Fast(Fast::Get, get),
    ..Command::BASE
};

fn get(call: &mut Call<'_>) -> Result<(), Stop> {
    match call.keys.get(call.db, call.args[1])? {
        Some(object) => call.reply.bulk(&object.value),
        None => call.reply.null(),
    }
    Ok(())
}

pub const SET: Command = Command {
    name: "set",
    arity: -3,
    flags: Flags::WRITE.with(Flags::DENYOOM),
    keys: KeyPlaces::ONE,
    access: &["RW access update variable_flags; reads the key only with GET or a condition on the value"],
    group: "string",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "key value [NX | XX | IFEQ comparison-value | IFVER version] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
    summary: "Writes a key, under a condition and with an end if wanted.",
    note: "IFEQ is as in Valkey 8.1: set only if the value is equal to the given one. IFVER is our own: set only if the version of the key is the given one, where 0 is a key that is not there; see GETVER.",
    quorum: OnQuorum::Unconditional,
    run: Run::Fast(Fast::Set, set),
    ..Command::BASE
};

/// The condition under which `SET` writes.
#[derive(Clone, Copy)]
enum Condition<'a> {
    Absent,
    Present,
    Equal(&'a [u8]),
    /// The key has this version. 0: the key is absent.
    Version(&'a [u8]),
}

#[derive(Default)]
struct Options<'a> {
    condition: Option<Condition<'a>>,
    get: bool,
    lifetime: Option<Lifetime<'a>>,
}

/// Reads the options behind `SET key value`. An option may be repeated, and the last one counts. Two options
/// of one kind that exclude each other may not stand together.
fn options<'a>(args: &[&'a [u8]]) -> Result<Options<'a>, Fault> {
    let mut options = Options::default();
    let mut rest = args;
    while let [word, more @ ..] = rest {
        rest = more;
        let condition = match (&word.to_ascii_lowercase()[..], more) {
            (b"nx", _) => Condition::Absent,
            (b"xx", _) => Condition::Present,
            (b"ifeq", [value, ..]) => Condition::Equal(value),
            (b"ifver", [version, ..]) => Condition::Version(version),
            (b"get", _) => {
                options.get = true;
                continue;
            }
            (b"persist", _) => return Err(Fault::SYNTAX),
            _ => {
                let found = Lifetime::parse(word, more, options.lifetime).ok_or(Fault::SYNTAX)?;
                rest = &more[found.words_behind()..];
                options.lifetime = Some(found);
                continue;
            }
        };
        use std::mem::discriminant;
        if options.condition.is_some_and(|other| discriminant(&other) != discriminant(&condition)) {
            return Err(Fault::SYNTAX);
        }
        if matches!(condition, Condition::Equal(_) | Condition::Version(_)) {
            rest = &more[1..];
        }
        options.condition = Some(condition);
    }
    Ok(options)
}

fn set(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, value) = (call.args[1], call.args[2]);
    let options = options(&call.args[3..])?;
    let ends = match options.lifetime {
        Some(Lifetime::Until { .. }) | None => ends_at(call, options.lifetime, "set")?,
        Some(Lifetime::Keep) => call.get(key)?.and_then(|object| object.expires),
        Some(Lifetime::Forever) => None,
    };
    call.check_value(value.len())?;
    let version = match options.condition {
        Some(Condition::Version(text)) => {
            Some(crate::parse::integer(text).filter(|version| *version >= 0).ok_or(Fault::NOT_AN_INTEGER)?)
        }
        _ => None,
    };
    let holds = match options.condition {
        None => true,
        Some(Condition::Absent) => call.get(key)?.is_none(),
        Some(Condition::Present) => call.get(key)?.is_some(),
        Some(Condition::Equal(wanted)) => call.get(key)?.is_some_and(|object| object.value == wanted),
        Some(Condition::Version(_)) => Some(call.version(key)?) == version,
    };
    if options.get {
        match call.keys.get(call.db, key)? {
            Some(object) => call.reply.bulk(&object.value),
            None => call.reply.null(),
        }
    } else if holds {
        call.reply.ok();
    } else {
        call.reply.null();
    }
    if holds {
        call.put(key, value.to_vec(), ends);
    }
    Ok(())
}

pub const SETNX: Command = Command {
    name: "setnx",
    arity: 3,
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["OW insert"],
    group: "string",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "key value",
    summary: "Writes a key, unless it is there already.",
    run: Run::Keys(setnx),
    ..Command::BASE
};

fn setnx(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, value) = (call.args[1], call.args[2]);
    call.check_value(value.len())?;
    let absent = call.get(key)?.is_none();
    if absent {
        call.put(key, value.to_vec(), None);
    }
    call.reply.integer(i64::from(absent));
    Ok(())
}

pub const SETEX: Command = Command {
    name: "setex",
    arity: 4,
    flags: Flags::WRITE.with(Flags::DENYOOM),
    keys: KeyPlaces::ONE,
    access: &["OW update"],
    group: "string",
    since: "2.0.0",
    complexity: "O(1)",
    usage: "key seconds value",
    summary: "Writes a key that ends so many seconds from now.",
    quorum: OnQuorum::Yes,
    run: Run::Keys(setex),
    ..Command::BASE
};

fn setex(call: &mut Call<'_>) -> Result<(), Stop> {
    set_for(call, b"EX", "setex")
}

pub const PSETEX: Command = Command {
    name: "psetex",
    arity: 4,
    flags: Flags::WRITE.with(Flags::DENYOOM),
    keys: KeyPlaces::ONE,
    access: &["OW update"],
    group: "string",
    since: "2.6.0",
    complexity: "O(1)",
    usage: "key milliseconds value",
    summary: "Writes a key that ends so many milliseconds from now.",
    quorum: OnQuorum::Yes,
    run: Run::Keys(psetex),
    ..Command::BASE
};

fn psetex(call: &mut Call<'_>) -> Result<(), Stop> {
    set_for(call, b"PX", "psetex")
}

fn set_for(call: &mut Call<'_>, unit: &[u8], name: &str) -> Result<(), Stop> {
    let (key, value) = (call.args[1], call.args[3]);
    let ends = ends_at(call, Lifetime::parse(unit, &call.args[2..3], None), name)?;
    call.check_value(value.len())?;
    call.put(key, value.to_vec(), ends);
    call.reply.ok();
    Ok(())
}

pub const GETSET: Command = Command {
    name: "getset",
    arity: 3,
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RW access update"],
    group: "string",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "key value",
    summary: "Writes a key and answers what it held before.",
    run: Run::Keys(getset),
    ..Command::BASE
};

fn getset(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, value) = (call.args[1], call.args[2]);
    call.check_value(value.len())?;
    get(call)?;
    call.put(key, value.to_vec(), None);
    Ok(())
}

pub const GETDEL: Command = Command {
    name: "getdel",
    arity: 2,
    flags: Flags::WRITE.with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RW access delete"],
    group: "string",
    since: "6.2.0",
    complexity: "O(1)",
    usage: "key",
    summary: "Reads a key and removes it.",
    run: Run::Keys(getdel),
    ..Command::BASE
};

fn getdel(call: &mut Call<'_>) -> Result<(), Stop> {
    get(call)?;
    if call.get(call.args[1])?.is_some() {
        call.remove(call.args[1]);
    }
    Ok(())
}

pub const GETEX: Command = Command {
    name: "getex",
    arity: -2,
    flags: Flags::WRITE.with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RW access update; writes the key only when its end is given or taken away"],
    group: "string",
    since: "6.2.0",
    complexity: "O(1)",
    usage: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
    summary: "Reads a key and, if wanted, changes when it ends.",
    run: Run::Keys(getex),
    ..Command::BASE
};

fn getex(call: &mut Call<'_>) -> Result<(), Stop> {
    let key = call.args[1];
    let mut lifetime = None;
    let mut rest = &call.args[2..];
    while let [word, more @ ..] = rest {
        let found = Lifetime::parse(word, more, lifetime).filter(|found| !matches!(found, Lifetime::Keep));
        let found = found.ok_or(Fault::SYNTAX)?;
        rest = &more[found.words_behind()..];
        lifetime = Some(found);
    }
    let Some(object) = call.get(key)?.cloned() else {
        call.reply.null();
        return Ok(());
    };
    let ends = ends_at(call, lifetime, "getex")?;
    call.reply.bulk(&object.value);
    if lifetime.is_some() && ends != object.expires {
        call.put(key, object.value, ends);
    }
    Ok(())
}

pub const GETVER: Command = Command {
    name: "getver",
    arity: 2,
    flags: Flags::READONLY.with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RO access"],
    group: "string",
    since: "ramhold 0.1",
    usage: "key",
    summary: "Reads a key together with its version, which SET takes behind IFVER.",
    note: "Redis has no such command. An array of the value and its version; of an absent key nil and 0. Within MULTI the version is the one before the transaction.",
    run: Run::Keys(getver),
    ..Command::BASE
};

fn getver(call: &mut Call<'_>) -> Result<(), Stop> {
    let version = call.version(call.args[1])?;
    call.reply.array(2);
    get(call)?;
    call.reply.integer(version);
    Ok(())
}

pub const DELIFEQ: Command = Command {
    name: "delifeq",
    arity: 3,
    flags: Flags::WRITE.with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RM access delete"],
    group: "string",
    since: "valkey 9.0.0",
    usage: "key value",
    summary: "Removes a key, but only while it holds the given value.",
    note: "As Valkey 9 has it; Redis 7.0 has not.",
    run: Run::Keys(delifeq),
    ..Command::BASE
};

fn delifeq(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, value) = (call.args[1], call.args[2]);
    let equal = call.get(key)?.is_some_and(|object| object.value == value);
    if equal {
        call.remove(key);
    }
    call.reply.integer(i64::from(equal));
    Ok(())
}
