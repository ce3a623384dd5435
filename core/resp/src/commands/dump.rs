//! Values in the form in which Redis takes them from one server to another.

use super::lifetime::{Since, Unit, bounded, moment};
use crate::command::{Command, Flags, KeyPlaces, OnQuorum, Run};
use crate::parse::integer;
use crate::{Call, Fault, Stop};
use ramhold_base::limits::VALUE_BYTES_MAX;
use ramhold_rdb::{Value, check_dump, read_dump, write_dump};

pub const DUMP: Command = Command {
    name: "dump",
    arity: 2,
    flags: Flags::READONLY.with(Flags::KEYSPACE),
    keys: KeyPlaces::ONE,
    access: &["RO access"],
    group: "generic",
    since: "2.6.0",
    complexity: "O(N) with N the bytes of the value",
    usage: "key",
    summary: "Packs a value into bytes that RESTORE understands.",
    tips: &["nondeterministic_output"],
    note: "Strings are not compressed. Redis 7.0 and all later ones restore the payload.",
    quorum: OnQuorum::No,
    run: Run::Keys(dump),
};

fn dump(call: &mut Call<'_>) -> Result<(), Stop> {
    match call.keys.get(call.db, call.args[1])? {
        Some(object) => call.reply.bulk(&write_dump(&object.value)),
        None => call.reply.null(),
    }
    Ok(())
}

pub const RESTORE: Command = Command {
    name: "restore",
    arity: -4,
    flags: Flags::WRITE.with(Flags::DENYOOM).with(Flags::KEYSPACE).with(Flags::DANGEROUS),
    keys: KeyPlaces::ONE,
    access: &["OW update"],
    group: "generic",
    since: "2.6.0",
    complexity: "O(N) with N the bytes of the value",
    usage: "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
    summary: "Makes a key from bytes that DUMP has packed.",
    note: "Restores strings only, from any Redis up to version 12 of the format. IDLETIME and FREQ are checked and not kept.",
    run: Run::Keys(restore),
    ..Command::BASE
};

#[derive(Default)]
struct Options {
    replace: bool,
    /// The time counts from 1970.
    absolute: bool,
}

fn options(words: &[&[u8]]) -> Result<Options, Fault> {
    let mut options = Options::default();
    let (mut has_idle_time, mut has_frequency) = (false, false);
    let number = |text: &[u8]| integer(text).ok_or(Fault::NOT_AN_INTEGER);
    let mut rest = words;
    while let [word, more @ ..] = rest {
        rest = more;
        match (&word.to_ascii_lowercase()[..], more) {
            (b"replace", _) => options.replace = true,
            (b"absttl", _) => options.absolute = true,
            (b"idletime", [text, more @ ..]) if !has_frequency => {
                if number(text)? < 0 {
                    return Err(Fault::fixed("ERR Invalid IDLETIME value, must be >= 0"));
                }
                has_idle_time = true;
                rest = more;
            }
            (b"freq", [text, more @ ..]) if !has_idle_time => {
                if !(0..=255).contains(&number(text)?) {
                    return Err(Fault::fixed("ERR Invalid FREQ value, must be >= 0 and <= 255"));
                }
                has_frequency = true;
                rest = more;
            }
            _ => return Err(Fault::SYNTAX),
        }
    }
    Ok(options)
}

fn restore(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, payload) = (call.args[1], call.args[3]);
    let options = options(&call.args[4..])?;
    if !options.replace && call.get(key)?.is_some() {
        return Err(Fault::fixed("BUSYKEY Target key name already exists.").into());
    }
    let count = call.integer(2)?;
    if count < 0 {
        return Err(Fault::fixed("ERR Invalid TTL value, must be >= 0").into());
    }
    let value = value(payload)?;
    let since = if options.absolute { Since::Epoch } else { Since::Now };
    let ends = match count {
        0 => None,
        count => {
            let ends = moment(call, count, Unit::Millis, since).ok_or(Fault::EXPIRE_TOO_FAR)?;
            Some(bounded(call, ends)?)
        }
    };
    call.put(key, value, ends);
    call.reply.ok();
    Ok(())
}

fn value(payload: &[u8]) -> Result<Vec<u8>, Fault> {
    check_dump(payload).map_err(|_| Fault::fixed("ERR DUMP payload version or checksum are wrong"))?;
    match read_dump(payload, VALUE_BYTES_MAX as u64) {
        Ok((_, Value::String(value))) => Ok(value),
        Ok((_, Value::TooLong { .. })) => Err(Fault::VALUE_TOO_LARGE),
        Ok((kind, Value::Other)) => {
            Err(Fault::said(format!("ERR Bad data format: only strings are restored, and this is a {kind}")))
        }
        Err(_) => Err(Fault::fixed("ERR Bad data format")),
    }
}
