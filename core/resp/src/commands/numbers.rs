//! Strings that are numbers.

use crate::command::{Command, Fast, Flags, KeyPlaces, Run};
use crate::extended::{Extended, Parsed};
use crate::parse::integer;
use crate::reply::put_integer;
use crate::{Call, Fault, Stop};

pub const INCR: Command = Command {
    name: "incr",
    arity: 2,
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RW access update"],
    group: "string",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "key",
    summary: "Adds 1 to the integer that a key holds.",
    run: Run::Fast(Fast::Incr, incr),
    ..Command::BASE
};

fn incr(call: &mut Call<'_>) -> Result<(), Stop> {
    add(call, 1)
}

pub const DECR: Command = Command {
    name: "decr",
    arity: 2,
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RW access update"],
    group: "string",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "key",
    summary: "Subtracts 1 from the integer that a key holds.",
    run: Run::Fast(Fast::Decr, decr),
    ..Command::BASE
};

fn decr(call: &mut Call<'_>) -> Result<(), Stop> {
    add(call, -1)
}

pub const INCRBY: Command = Command {
    name: "incrby",
    arity: 3,
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RW access update"],
    group: "string",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "key increment",
    summary: "Adds an integer to the one that a key holds.",
    run: Run::Fast(Fast::IncrBy, incrby),
    ..Command::BASE
};

fn incrby(call: &mut Call<'_>) -> Result<(), Stop> {
    let by = call.integer(2)?;
    add(call, by)
}

pub const DECRBY: Command = Command {
    name: "decrby",
    arity: 3,
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RW access update"],
    group: "string",
    since: "1.0.0",
    complexity: "O(1)",
    usage: "key decrement",
    summary: "Subtracts an integer from the one that a key holds.",
    run: Run::Fast(Fast::DecrBy, decrby),
    ..Command::BASE
};

fn decrby(call: &mut Call<'_>) -> Result<(), Stop> {
    let by = call.integer(2)?.checked_neg().ok_or(Fault::fixed("ERR decrement would overflow"))?;
    add(call, by)
}

fn add(call: &mut Call<'_>, by: i64) -> Result<(), Stop> {
    let key = call.args[1];
    let (value, expires) = match call.get(key)? {
        Some(object) => (integer(&object.value).ok_or(Fault::NOT_AN_INTEGER)?, object.expires),
        None => (0, None),
    };
    let sum = value.checked_add(by).ok_or(Fault::OVERFLOW)?;
    let mut text = Vec::with_capacity(20);
    put_integer(&mut text, sum);
    call.put(key, text, expires);
    call.reply.integer(sum);
    Ok(())
}

pub const INCRBYFLOAT: Command = Command {
    name: "incrbyfloat",
    arity: 3,
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RW access update"],
    group: "string",
    since: "2.6.0",
    complexity: "O(1)",
    usage: "key increment",
    summary: "Adds a decimal number to the one that a key holds.",
    run: Run::Keys(incrbyfloat),
    ..Command::BASE
};

fn incrbyfloat(call: &mut Call<'_>) -> Result<(), Stop> {
    let key = call.args[1];
    let (value, expires) = match call.get(key)? {
        Some(object) => (object.value.clone(), object.expires),
        None => (b"0".to_vec(), None),
    };
    let read = |text: &[u8]| Extended::parse(text).ok_or(Fault::NOT_A_FLOAT);
    let sum = match (read(&value)?, read(call.args[2])?) {
        (Parsed::Finite(value), Parsed::Finite(by)) => value.sum(by),
        (Parsed::Infinite, _) | (_, Parsed::Infinite) => None,
    };
    let sum = sum.ok_or(Fault::fixed("ERR increment would produce NaN or Infinity"))?.text();
    call.reply.bulk(sum.as_bytes());
    call.put(key, sum.into_bytes(), expires);
    Ok(())
}
