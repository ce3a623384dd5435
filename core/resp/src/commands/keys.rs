//! Commands about keys, whatever they hold.

use crate::command::{Command, Fast, Flags, Front, KeyPlaces, OnQuorum, Run};
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
    summary: "Removes keys and answers how many were there.",
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    note: "Each key is removed by itself.",
    quorum: OnQuorum::ReadFirst,
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
    summary: "Removes keys and answers how many were there.",
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    note: "The same as DEL.",
    quorum: OnQuorum::ReadFirst,
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
    complexity: "O(N) with N the keys asked about",
    usage: "key [key ...]",
    summary: "Tells how many of its arguments are keys, one named twice counted twice.",
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    quorum: OnQuorum::EachKey,
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
    complexity: "O(N) with N the keys asked about",
    usage: "key [key ...]",
    summary: "Tells how many of its arguments are keys, as EXISTS does.",
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    note: "Times of use are not kept; counts the keys that are there.",
    quorum: OnQuorum::EachKey,
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
    summary: "Tells whether a key holds a string or is not there.",
    quorum: OnQuorum::Yes,
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
    summary: "Gives a key another name, in place of whatever has that name.",
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
    summary: "Gives a key another name, unless that name is taken.",
    run: Run::Keys(renamenx),
    ..Command::BASE
};

fn renamenx(call: &mut Call<'_>) -> Result<(), Stop> {
    let renamed = rename_unless(call, true)?;
    call.reply.integer(i64::from(renamed));
    Ok(())
}

/// Renames a key, and returns whether it has its new name. If `new_only`, it does not take the name from
/// another key.
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
    summary: "Writes the value and the end of one key to another as well.",
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
    summary: "Takes a key out of this database and puts it into another one.",
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

/// The treatment of a key that is there already.
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
    complexity: "O(N) with N the keys of the database, if names and pattern are short",
    usage: "pattern",
    summary: "Lists those keys of the database whose names fit a pattern.",
    tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    note: "At a port for clients of Redis Cluster: of the server that is asked.",
    run: Run::Front(Front::Keys),
    ..Command::BASE
};

pub const SCAN: Command = Command {
    name: "scan",
    arity: -2,
    flags: Flags::READONLY.with(Flags::KEYSPACE),
    group: "generic",
    since: "2.8.0",
    complexity: "O(1) a call, and O(N) the whole walk, with N the keys of the database",
    usage: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
    summary: "Walks through the keys of the database, some at each call, from the cursor of the call before.",
    tips: &["nondeterministic_output", "request_policy:special"],
    note: "At a port for clients of Redis Cluster: of the server that is asked.",
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
    summary: "Picks any key of the database.",
    tips: &["request_policy:all_shards", "nondeterministic_output"],
    note: "At a port for clients of Redis Cluster: of the server that is asked.",
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
    summary: "Counts the keys of the database.",
    note: "At a port for clients of Redis Cluster: of the server that is asked. Where objects without copies were lost, and on quorum tables, every key is looked at, and those that are there count.",
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
    complexity: "O(N) with N the keys of the database",
    usage: "[ASYNC | SYNC]",
    summary: "Empties the database.",
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    note: "ASYNC and SYNC are the same. The tables keep their durability, replicas, slots and tablets; refused with NOREPLICAS when the servers that are up cannot keep that many replicas.",
    run: Run::Front(Front::FlushDb),
    ..Command::BASE
};

pub const FLUSHALL: Command = Command {
    name: "flushall",
    arity: -1,
    flags: Flags::WRITE.with(Flags::KEYSPACE).with(Flags::DANGEROUS),
    group: "server",
    since: "1.0.0",
    complexity: "O(N) with N the keys of every database together",
    usage: "[ASYNC | SYNC]",
    summary: "Empties every database.",
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    note: "ASYNC and SYNC are the same. The tables keep their durability, replicas, slots and tablets; refused with NOREPLICAS when the servers that are up cannot keep that many replicas.",
    run: Run::Front(Front::FlushAll),
    ..Command::BASE
};
