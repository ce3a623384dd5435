//! Commands about the strings of several keys at once.

use crate::command::{Command, Fast, Flags, KeyPlaces, OnQuorum, Run};
use crate::{Call, Fault, Stop};

pub const MGET: Command = Command {
    name: "mget",
    arity: -2,
    flags: Flags::READONLY.with(Flags::FAST),
    keys: KeyPlaces::ALL,
    access: &["RO access"],
    group: "string",
    since: "1.0.0",
    complexity: "O(N) with N the keys to read",
    usage: "key [key ...]",
    summary: "Reads many keys at once, with nil for each that is absent.",
    tips: &["request_policy:multi_shard"],
    quorum: OnQuorum::EachKey,
    run: Run::Fast(Fast::MGet, mget),
    ..Command::BASE
};

fn mget(call: &mut Call<'_>) -> Result<(), Stop> {
    let keys = &call.args[1..];
    call.need(keys)?;
    call.reply.array(keys.len());
    for key in keys {
        match call.keys.get(call.db, key)? {
            Some(object) => call.reply.bulk(&object.value),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub const MSET: Command = Command {
    name: "mset",
    arity: -3,
    flags: Flags::WRITE.with(Flags::DENYOOM),
    keys: KeyPlaces::PAIRS,
    access: &["OW update"],
    group: "string",
    since: "1.0.1",
    complexity: "O(N) with N the keys to write",
    usage: "key value [key value ...]",
    summary: "Writes many keys at once.",
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    note: "Takes effect as one if all keys have one hash slot; otherwise each key is written by itself, and a reader may find some written and others not yet.",
    quorum: OnQuorum::EachKey,
    run: Run::Fast(Fast::MSet, mset),
};

fn mset(call: &mut Call<'_>) -> Result<(), Stop> {
    let pairs = pairs(call, "mset")?;
    put_pairs(call, pairs);
    call.reply.ok();
    Ok(())
}

pub const MSETNX: Command = Command {
    name: "msetnx",
    arity: -3,
    flags: Flags::WRITE.with(Flags::DENYOOM),
    keys: KeyPlaces::PAIRS,
    access: &["OW insert"],
    group: "string",
    since: "1.0.1",
    complexity: "O(N) with N the keys to write",
    usage: "key value [key value ...]",
    summary: "Writes many keys at once, or none of them if any is there already.",
    tips: &["request_policy:multi_shard", "response_policy:agg_min"],
    run: Run::Keys(msetnx),
    ..Command::BASE
};

fn msetnx(call: &mut Call<'_>) -> Result<(), Stop> {
    let pairs = pairs(call, "msetnx")?;
    let keys: Vec<&[u8]> = pairs.iter().step_by(2).copied().collect();
    call.need(&keys)?;
    let mut absent = true;
    for key in keys {
        absent &= call.get(key)?.is_none();
    }
    if absent {
        put_pairs(call, pairs);
    }
    call.reply.integer(i64::from(absent));
    Ok(())
}

/// Keys and values in turn, after a check that all of them may be written.
fn pairs<'a>(call: &Call<'a>, name: &str) -> Result<&'a [&'a [u8]], Stop> {
    let pairs = &call.args[1..];
    if !pairs.len().is_multiple_of(2) {
        return Err(Fault::wrong_arity(name).into());
    }
    for value in pairs.iter().skip(1).step_by(2) {
        call.check_value(value.len())?;
    }
    Ok(pairs)
}

fn put_pairs(call: &mut Call<'_>, pairs: &[&[u8]]) {
    for pair in pairs.chunks_exact(2) {
        call.put(pair[0], pair[1].to_vec(), None);
    }
}
