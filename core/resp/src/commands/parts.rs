//! Parts of a string.

use crate::command::{Command, Flags, KeyPlaces, OnQuorum, Run};
use crate::{Call, Fault, Stop};
use std::ops::Range;

pub const APPEND: Command = Command {
    name: "append",
    arity: 3,
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RW insert"],
    group: "string",
    since: "2.0.0",
    complexity: "O(N) with N the bytes of the value: it is written anew",
    usage: "key value",
    summary: "Writes more bytes behind the end of a string.",
    run: Run::Keys(append),
    ..Command::BASE
};

fn append(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, more) = (call.args[1], call.args[2]);
    let mut object = call.get(key)?.cloned().unwrap_or_default();
    call.check_value(object.value.len() + more.len())?;
    object.value.extend_from_slice(more);
    call.reply.integer(object.value.len() as i64);
    call.put(key, object.value, object.expires);
    Ok(())
}

pub const STRLEN: Command = Command {
    name: "strlen",
    arity: 2,
    flags: Flags::READONLY.with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RO"],
    group: "string",
    since: "2.2.0",
    complexity: "O(1)",
    usage: "key",
    summary: "Tells how many bytes a string has.",
    quorum: OnQuorum::Yes,
    run: Run::Keys(strlen),
    ..Command::BASE
};

fn strlen(call: &mut Call<'_>) -> Result<(), Stop> {
    let length = call.get(call.args[1])?.map_or(0, |object| object.value.len());
    call.reply.integer(length as i64);
    Ok(())
}

pub const SETRANGE: Command = Command {
    name: "setrange",
    arity: 4,
    flags: Flags::WRITE.with(Flags::DENYOOM),
    keys: KeyPlaces::ONE,
    access: &["RW update"],
    group: "string",
    since: "2.2.0",
    complexity: "O(N) with N the bytes of the value: it is written anew",
    usage: "key offset value",
    summary: "Writes bytes over those of a string from an offset on.",
    run: Run::Keys(setrange),
    ..Command::BASE
};

fn setrange(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, part) = (call.args[1], call.args[3]);
    let offset = usize::try_from(call.integer(2)?).map_err(|_| Fault::OFFSET_OUT_OF_RANGE)?;
    let length = call.get(key)?.map_or(0, |object| object.value.len());
    if part.is_empty() {
        call.reply.integer(length as i64);
        return Ok(());
    }
    let end = offset.saturating_add(part.len());
    call.check_value(end)?;
    let mut object = call.get(key)?.cloned().unwrap_or_default();
    object.value.resize(length.max(end), 0);
    object.value[offset..end].copy_from_slice(part);
    call.reply.integer(object.value.len() as i64);
    call.put(key, object.value, object.expires);
    Ok(())
}

pub const GETRANGE: Command = Command {
    name: "getrange",
    arity: 4,
    flags: Flags::READONLY,
    keys: KeyPlaces::ONE,
    access: &["RO access"],
    group: "string",
    since: "2.4.0",
    complexity: "O(N) with N the bytes answered",
    usage: "key start end",
    summary: "Reads the bytes of a string from one place to another.",
    quorum: OnQuorum::Yes,
    run: Run::Keys(getrange),
    ..Command::BASE
};

pub const SUBSTR: Command = Command {
    name: "substr",
    arity: 4,
    flags: Flags::READONLY,
    keys: KeyPlaces::ONE,
    access: &["RO access"],
    group: "string",
    since: "1.0.0",
    complexity: "O(N) with N the bytes answered",
    usage: "key start end",
    summary: "Reads the bytes of a string from one place to another, by the old name of GETRANGE.",
    quorum: OnQuorum::Yes,
    run: Run::Keys(getrange),
    ..Command::BASE
};

fn getrange(call: &mut Call<'_>) -> Result<(), Stop> {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let object = call.keys.get(call.db, call.args[1])?;
    let value = object.map_or(&[][..], |object| &object.value);
    call.reply.bulk(&value[places(start, end, value.len())]);
    Ok(())
}

/// The places from `start` to `end` among `length` places. Both are included, and count from the end if
/// negative.
pub fn places(start: i64, end: i64, length: usize) -> Range<usize> {
    let length = length as i64;
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let absolute = |at: i64| (if at < 0 { at.saturating_add(length) } else { at }).max(0);
    let (start, end) = (absolute(start), absolute(end).min(length - 1));
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}
