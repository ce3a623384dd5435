//! Keys, whatever they hold.

use crate::command::{Command, Fast, Flags, Front, KeyPlaces, Run};
use crate::{Call, Fault, Stop};

pub const DEL: Command = Command {
    name: "del",
    arity: -2,
    flags: Flags::WRITE.with(Flags::KEYSPACE),
    keys: KeyPlaces::ALL,
    access: &["RM delete"],
    group: "generic",
    since: "1.0.0",
    complexity: "O(N) with N the keys",
    usage: "key [key ...]",
    summary: "Delete a key.",
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    note: "Each key is removed by itself.",
    run: Run::Fast(Fast::Del, del),
};

pub const UNLINK: Command = Command {
    name: "unlink",
    arity: -2,
    flags: Flags::WRITE.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::ALL,
    access: &["RM delete"],
    group: "generic",
    since: "4.0.0",
    complexity: "O(N) with N the keys",
    usage: "key [key ...]",
    summary: "Delete a key.",
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    note: "The same as DEL.",
    run: Run::Fast(Fast::Del, del),
};

fn del(call: &mut Call<'_>) -> Result<(), Stop> {
    let keys = &call.args[1..];
    call.need(keys)?;
    let mut count = 0;
    for key in keys {
        if call.get(key)?.is_some() {
            call.remove(key);
            count += 1;
        }
    }
    call.reply.integer(count);
    Ok(())
}

pub const EXISTS: Command = Command {
    name: "exists",
    arity: -2,
    flags: Flags::READONLY.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::ALL,
    access: &["RO"],
    group: "generic",
    since: "1.0.0",
    complexity: "O(N) where N is the number of keys to check.",
    usage: "key [key ...]",
    summary: "Determine if a key exists.",
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    run: Run::Fast(Fast::Exists, exists),
    ..Command::BASE
};

pub const TOUCH: Command = Command {
    name: "touch",
    arity: -2,
    flags: Flags::READONLY.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::ALL,
    access: &["RO"],
    group: "generic",
    since: "3.2.1",
    complexity: "O(N) where N is the number of keys that will be touched.",
    usage: "key [key ...]",
    summary: "Count how many of the given keys exist.",
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    note: "Times of use are not kept; counts the keys that are there.",
    run: Run::Fast(Fast::Exists, exists),
};

fn exists(call: &mut Call<'_>) -> Result<(), Stop> {
    let keys = &call.args[1..];
    call.need(keys)?;
    let mut count = 0;
    for key in keys {
        count += i64::from(call.get(key)?.is_some());
    }
    call.reply.integer(count);
    Ok(())
}

pub const TYPE: Command = Command {
    name: "type",
    arity: 2,
    flags: Flags::READONLY.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::ONE,
    access: &["RO"],
    group: "generic",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "key",
    summary: "Determine the type stored at key.",
    run: Run::Keys(type_of),
    ..Command::BASE
};

fn type_of(call: &mut Call<'_>) -> Result<(), Stop> {
    let there = call.get(call.args[1])?.is_some();
    call.reply.simple(if there { "string" } else { "none" });
    Ok(())
}

pub const RENAME: Command = Command {
    name: "rename",
    arity: 3,
    flags: Flags::WRITE.with(Flags::KEYSPACE),
    keys: KeyPlaces::TWO,
    access: &["RW access delete", "OW update"],
    group: "generic",
    since: "1.0.0",
    complexity: "O(N) with N the bytes of the value: it is written anew",
    usage: "key newkey",
    summary: "Rename a key.",
    run: Run::Keys(rename),
    ..Command::BASE
};

fn rename(call: &mut Call<'_>) -> Result<(), Stop> {
    rename_unless(call, false)?;
    call.reply.ok();
    Ok(())
}

pub const RENAMENX: Command = Command {
    name: "renamenx",
    arity: 3,
    flags: Flags::WRITE.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::TWO,
    access: &["RW access delete", "OW insert"],
    group: "generic",
    since: "1.0.0",
    complexity: "O(N) with N the bytes of the value: it is written anew",
    usage: "key newkey",
    summary: "Rename a key, only if the new key does not exist.",
    run: Run::Keys(renamenx),
    ..Command::BASE
};

fn renamenx(call: &mut Call<'_>) -> Result<(), Stop> {
    let renamed = rename_unless(call, true)?;
    call.reply.integer(i64::from(renamed));
    Ok(())
}

/// Whether the key has its new name, which it does not take from another one if `new_only`.
fn rename_unless(call: &mut Call<'_>, new_only: bool) -> Result<bool, Stop> {
    let (from, to) = (call.args[1], call.args[2]);
    call.need(&call.args[1..3])?;
    let object = call.get(from)?.cloned().ok_or(Fault::NO_SUCH_KEY)?;
    if new_only && call.get(to)?.is_some() {
        return Ok(false);
    }
    if from != to {
        call.remove(from);
        call.put(to, object.value, object.expires);
    }
    Ok(true)
}

pub const COPY: Command = Command {
    name: "copy",
    arity: -3,
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::KEYSPACE),
    keys: KeyPlaces::TWO,
    access: &["RO access", "OW update"],
    group: "generic",
    since: "6.2.0",
    complexity: "O(N) with N the bytes of the value",
    usage: "source destination [DB destination-db] [REPLACE]",
    summary: "Copy a key.",
    run: Run::Keys(copy),
    ..Command::BASE
};

fn copy(call: &mut Call<'_>) -> Result<(), Stop> {
    let (from, to) = (call.args[1], call.args[2]);
    let (mut db, mut replace) = (call.db, false);
    let mut rest = &call.args[3..];
    while let [word, more @ ..] = rest {
        rest = match (&word.to_ascii_lowercase()[..], more) {
            (b"replace", _) => {
                replace = true;
                more
            }
            (b"db", [text, more @ ..]) => {
                db = call.database(text)?;
                more
            }
            _ => return Err(Fault::SYNTAX.into()),
        };
    }
    if db == call.db && from == to {
        return Err(Fault::SAME_OBJECT.into());
    }
    transfer(call, from, db, to, if replace { Target::Replaced } else { Target::Kept }, Source::Kept)
}

pub const MOVE: Command = Command {
    name: "move",
    arity: 3,
    flags: Flags::WRITE.with(Flags::FAST).with(Flags::KEYSPACE),
    keys: KeyPlaces::ONE,
    access: &["RW access update"],
    group: "generic",
    since: "1.0.0",
    complexity: "O(N) with N the bytes of the value",
    usage: "key db",
    summary: "Move a key to another database.",
    run: Run::Keys(move_to),
    ..Command::BASE
};

fn move_to(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, db) = (call.args[1], call.database(call.args[2])?);
    if db == call.db {
        return Err(Fault::SAME_OBJECT.into());
    }
    transfer(call, key, db, key, Target::Kept, Source::Removed)
}

/// What becomes of a key that is there already.
#[derive(PartialEq)]
enum Target {
    Kept,
    Replaced,
}

#[derive(PartialEq)]
enum Source {
    Kept,
    Removed,
}

fn transfer(
    call: &mut Call<'_>,
    from: &[u8],
    db: u16,
    to: &[u8],
    target: Target,
    source: Source,
) -> Result<(), Stop> {
    call.keys.need([(call.db, from), (db, to)])?;
    let free = call.keys.get(db, to)?.is_none() || target == Target::Replaced;
    let Some(object) = call.get(from)?.cloned().filter(|_| free) else {
        call.reply.integer(0);
        return Ok(());
    };
    if source == Source::Removed {
        call.remove(from);
    }
    call.keys.put(db, to, object.value, object.expires);
    call.reply.integer(1);
    Ok(())
}

pub const KEYS: Command = Command {
    name: "keys",
    arity: 2,
    flags: Flags::READONLY.with(Flags::KEYSPACE).with(Flags::DANGEROUS),
    group: "generic",
    since: "1.0.0",
    complexity: "O(N) with N being the number of keys in the database, under the assumption that the key names in the database and the given pattern have limited length.",
    usage: "pattern",
    summary: "Find all keys matching the given pattern.",
    tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    run: Run::Front(Front::Keys),
    ..Command::BASE
};

pub const SCAN: Command = Command {
    name: "scan",
    arity: -2,
    flags: Flags::READONLY.with(Flags::KEYSPACE),
    group: "generic",
    since: "2.8.0",
    complexity: "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.",
    usage: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
    summary: "Incrementally iterate the keys space.",
    tips: &["nondeterministic_output", "request_policy:special"],
    run: Run::Front(Front::Scan),
    ..Command::BASE
};

pub const RANDOMKEY: Command = Command {
    name: "randomkey",
    arity: 1,
    flags: Flags::READONLY.with(Flags::KEYSPACE),
    group: "generic",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "",
    summary: "Return a random key from the keyspace.",
    tips: &["request_policy:all_shards", "nondeterministic_output"],
    run: Run::Front(Front::RandomKey),
    ..Command::BASE
};

pub const DBSIZE: Command = Command {
    name: "dbsize",
    arity: 1,
    flags: Flags::READONLY.with(Flags::FAST).with(Flags::KEYSPACE),
    group: "server",
    since: "1.0.0",
    complexity: "O(N) with N the keys of the database, which are counted all over the cluster",
    usage: "",
    summary: "Return the number of keys in the selected database.",
    tips: &["request_policy:all_shards", "response_policy:agg_sum"],
    run: Run::Front(Front::DbSize),
    ..Command::BASE
};

pub const FLUSHDB: Command = Command {
    name: "flushdb",
    arity: -1,
    flags: Flags::WRITE.with(Flags::KEYSPACE).with(Flags::DANGEROUS),
    group: "server",
    since: "1.0.0",
    complexity: "O(N) where N is the number of keys in the selected database",
    usage: "[ASYNC | SYNC]",
    summary: "Remove all keys from the current database.",
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    note: "ASYNC and SYNC are the same.",
    run: Run::Front(Front::FlushDb),
    ..Command::BASE
};

pub const FLUSHALL: Command = Command {
    name: "flushall",
    arity: -1,
    flags: Flags::WRITE.with(Flags::KEYSPACE).with(Flags::DANGEROUS),
    group: "server",
    since: "1.0.0",
    complexity: "O(N) where N is the total number of keys in all databases",
    usage: "[ASYNC | SYNC]",
    summary: "Remove all keys from all databases.",
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    note: "ASYNC and SYNC are the same.",
    run: Run::Front(Front::FlushAll),
    ..Command::BASE
};
