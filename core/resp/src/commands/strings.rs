//! Strings.

use crate::command::{Command, Fast, Flags, KeyPlaces, Run};
use crate::{Call, Fault, Stop};
use ramhold_base::limits::VALUE_BYTES_MAX;

pub const GET: Command = Command {
    name: "get",
    arity: 2,
    flags: Flags::READONLY.with(Flags::FAST),
    keys: KeyPlaces::ONE,
    group: "string",
    since: "1.0.0",
    complexity: "O(1)",
    summary: "Returns the string value of a key.",
    note: "",
    run: Run::Fast(Fast::Get, get),
};

fn get(call: &mut Call<'_>) -> Result<(), Stop> {
    let key = call.args[1];
    match call.keys.get(call.db, key)? {
        Some(object) => call.reply.bulk(&object.value),
        None => call.reply.null(),
    }
    Ok(())
}

pub const APPEND: Command = Command {
    name: "append",
    arity: 3,
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::FAST),
    keys: KeyPlaces::ONE,
    group: "string",
    since: "2.0.0",
    complexity: "O(n) with n the bytes of the value: it is written anew",
    summary: "Appends a string to the value of a key. Creates the key if it doesn't exist.",
    note: "",
    run: Run::Keys(append),
};

fn append(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, more) = (call.args[1], call.args[2]);
    let mut object = call.get(key)?.cloned().unwrap_or_default();
    if object.value.len() + more.len() > VALUE_BYTES_MAX {
        return Err(Fault::VALUE_TOO_LARGE.into());
    }
    object.value.extend_from_slice(more);
    call.reply.integer(object.value.len() as i64);
    call.put(key, object.value, object.expires);
    Ok(())
}
