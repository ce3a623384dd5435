//! Strings as rows of bits. The first bit is the highest bit of the first byte.

use super::parts::places;
use crate::command::{Command, Flags, KeyPlaces, Run};
use crate::parse::integer;
use crate::{Call, Fault, Stop};
use std::ops::Range;

/// Bytes of the largest string of Redis. A place behind them is no offset in Redis.
const REDIS_STRING_BYTES_MAX: u64 = 512 * 1024 * 1024;

const NOT_AN_OFFSET: Fault = Fault::fixed("ERR bit offset is not an integer or out of range");

/// Reads the place of a bit. It is a fault if Redis has no such place. With `field_bits`, `#3` means the
/// field with the number 3, counted from 0, where each field has this number of bits.
pub fn offset(text: &[u8], field_bits: Option<u8>) -> Result<u64, Fault> {
    let offset = match (text, field_bits) {
        ([b'#', index @ ..], Some(bits)) => integer(index).and_then(|index| index.checked_mul(bits.into())),
        _ => integer(text),
    };
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < REDIS_STRING_BYTES_MAX).ok_or(NOT_AN_OFFSET)
}

pub const GETBIT: Command = Command {
    name: "getbit",
    arity: 3,
    flags: Flags::READONLY.with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RO access"],
    group: "bitmap",
    since: "2.2.0",
    complexity: "O(1)",
    usage: "key offset",
    summary: "Tells whether a bit of a string is 0 or 1.",
    run: Run::Keys(getbit),
    ..Command::BASE
};

fn getbit(call: &mut Call<'_>) -> Result<(), Stop> {
    let offset = offset(call.args[2], None)?;
    let object = call.get(call.args[1])?;
    let byte = object.and_then(|object| object.value.get((offset / 8) as usize)).copied().unwrap_or(0);
    call.reply.integer((byte >> (7 - offset % 8) & 1).into());
    Ok(())
}

pub const SETBIT: Command = Command {
    name: "setbit",
    arity: 4,
    flags: Flags::WRITE.with(Flags::DENYOOM),
    keys: KeyPlaces::ONE,
    access: &["RW access update"],
    group: "bitmap",
    since: "2.2.0",
    complexity: "O(N) with N the bytes of the value: it is written anew",
    usage: "key offset value",
    summary: "Writes one bit of a string and answers what it was before.",
    run: Run::Keys(setbit),
    ..Command::BASE
};

fn setbit(call: &mut Call<'_>) -> Result<(), Stop> {
    let key = call.args[1];
    let offset = offset(call.args[2], None)?;
    let bit = integer(call.args[3]).filter(|bit| (0..=1).contains(bit));
    let bit = bit.ok_or(Fault::fixed("ERR bit is not an integer or out of range"))? as u8;
    let at = (offset / 8) as usize;
    call.check_value(at + 1)?;
    let mut object = call.get(key)?.cloned().unwrap_or_default();
    let grows = object.value.len() <= at;
    if grows {
        object.value.resize(at + 1, 0);
    }
    let shift = 7 - offset % 8;
    let before = object.value[at] >> shift & 1;
    object.value[at] = object.value[at] & !(1 << shift) | bit << shift;
    // A bit that is so already is not written, so that clients that watch the key are not disturbed.
    if grows || before != bit {
        call.put(key, object.value, object.expires);
    }
    call.reply.integer(before.into());
    Ok(())
}

/// The unit in which `start` and `end` count.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Byte,
    Bit,
}

impl Unit {
    fn parse(word: &[u8]) -> Result<Unit, Fault> {
        match &word.to_ascii_lowercase()[..] {
            b"byte" => Ok(Unit::Byte),
            b"bit" => Ok(Unit::Bit),
            _ => Err(Fault::SYNTAX),
        }
    }

    /// The number of units in this number of bytes.
    fn count(self, bytes: usize) -> usize {
        match self {
            Unit::Byte => bytes,
            Unit::Bit => bytes * 8,
        }
    }

    fn bits(self, places: Range<usize>) -> Range<usize> {
        match self {
            Unit::Byte => places.start * 8..places.end * 8,
            Unit::Bit => places,
        }
    }
}

pub const BITCOUNT: Command = Command {
    name: "bitcount",
    arity: -2,
    flags: Flags::READONLY,
    keys: KeyPlaces::ONE,
    access: &["RO access"],
    group: "bitmap",
    since: "2.6.0",
    complexity: "O(N) with N the bytes of the string",
    usage: "key [start end [BYTE | BIT]]",
    summary: "Tells how many bits of a string, or of a part of it, are 1.",
    run: Run::Keys(bitcount),
    ..Command::BASE
};

fn bitcount(call: &mut Call<'_>) -> Result<(), Stop> {
    // Arguments are looked at before the key, as Redis does from 7.2 on.
    let range = match &call.args[2..] {
        [] => None,
        [_, _, unit @ ..] if unit.len() <= 1 => {
            let (start, end) = (call.integer(2)?, call.integer(3)?);
            let unit = unit.first().map_or(Ok(Unit::Byte), |unit| Unit::parse(unit))?;
            Some((start, end, unit))
        }
        _ => return Err(Fault::SYNTAX.into()),
    };
    let Some(object) = call.keys.get(call.db, call.args[1])? else {
        call.reply.integer(0);
        return Ok(());
    };
    let length = object.value.len();
    let bits = match range {
        None => 0..length * 8,
        Some((start, end, unit)) => unit.bits(places(start, end, unit.count(length))),
    };
    call.reply.integer(ones(&object.value, bits) as i64);
    Ok(())
}

/// The number of bits that are set in this range.
fn ones(value: &[u8], bits: Range<usize>) -> u64 {
    if bits.is_empty() {
        return 0;
    }
    let (first, last) = (bits.start / 8, (bits.end - 1) / 8);
    let count = |bytes: &[u8]| -> u64 {
        let mut words = bytes.chunks_exact(8);
        let whole: u64 = words
            .by_ref()
            .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")).count_ones() as u64)
            .sum();
        whole + words.remainder().iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
    };
    let before = value[first] & !(0xFF >> (bits.start % 8));
    let behind = value[last] & (0x7Fu8 >> ((bits.end - 1) % 8));
    count(&value[first..=last]) - u64::from(before.count_ones() + behind.count_ones())
}

pub const BITPOS: Command = Command {
    name: "bitpos",
    arity: -3,
    flags: Flags::READONLY,
    keys: KeyPlaces::ONE,
    access: &["RO access"],
    group: "bitmap",
    since: "2.8.7",
    complexity: "O(N) with N the bytes of the string",
    usage: "key bit [start [end [BYTE | BIT]]]",
    summary: "Tells where in a string the first 0 or the first 1 is.",
    run: Run::Keys(bitpos),
    ..Command::BASE
};

fn bitpos(call: &mut Call<'_>) -> Result<(), Stop> {
    let bit = call.integer(2)?;
    if !(0..=1).contains(&bit) {
        return Err(Fault::fixed("ERR The bit argument must be 1 or 0.").into());
    }
    let (start, unit, end) = match &call.args[3..] {
        [] => (0, Unit::Byte, None),
        [_] => (call.integer(3)?, Unit::Byte, None),
        [_, _] => (call.integer(3)?, Unit::Byte, Some(call.integer(4)?)),
        [_, _, unit] => {
            let start = call.integer(3)?;
            let unit = Unit::parse(unit)?;
            (start, unit, Some(call.integer(4)?))
        }
        _ => return Err(Fault::SYNTAX.into()),
    };
    let Some(object) = call.keys.get(call.db, call.args[1])? else {
        // In Redis, an absent key is zeros without end.
        call.reply.integer(if bit == 1 { -1 } else { 0 });
        return Ok(());
    };
    // Unlike elsewhere, an end before the start counts as the start if both are before the string.
    let length = unit.count(object.value.len()) as i64;
    let absolute = |at: i64| (if at < 0 { at.saturating_add(length) } else { at }).max(0);
    let (first, last) = (absolute(start), absolute(end.unwrap_or(-1)).min(length - 1));
    if first > last {
        call.reply.integer(-1);
        return Ok(());
    }
    let bits = unit.bits(first as usize..last as usize + 1);
    let found = first_bit(&object.value, bits.clone(), bit as u8).map(|at| at as i64);
    // If no end was given, zeros follow the string.
    let behind = if bit == 0 && end.is_none() { bits.end as i64 } else { -1 };
    call.reply.integer(found.unwrap_or(behind));
    Ok(())
}

/// The first bit in this range that has this value.
fn first_bit(value: &[u8], bits: Range<usize>, bit: u8) -> Option<usize> {
    let other = if bit == 1 { 0x00 } else { 0xFF };
    let mut at = bits.start;
    while at < bits.end {
        let byte = value[at / 8];
        if at.is_multiple_of(8) && byte == other {
            at += 8;
            continue;
        }
        if byte >> (7 - at % 8) & 1 == bit {
            return Some(at);
        }
        at += 1;
    }
    None
}

pub const BITOP: Command = Command {
    name: "bitop",
    arity: -4,
    flags: Flags::WRITE.with(Flags::DENYOOM),
    keys: KeyPlaces::FROM_SECOND,
    access: &["OW update", "RO access"],
    group: "bitmap",
    since: "2.6.0",
    complexity: "O(N) with N the bytes of all strings",
    usage: "operation destkey key [key ...]",
    summary: "Combines strings bit by bit with AND, OR, XOR or NOT and keeps what results in a key.",
    run: Run::Keys(bitop),
    ..Command::BASE
};

fn bitop(call: &mut Call<'_>) -> Result<(), Stop> {
    let (target, sources) = (call.args[2], &call.args[3..]);
    let fold: fn(u8, u8) -> u8 = match &call.args[1].to_ascii_lowercase()[..] {
        b"and" => |one, other| one & other,
        b"or" => |one, other| one | other,
        b"xor" => |one, other| one ^ other,
        b"not" if sources.len() > 1 => {
            return Err(Fault::fixed("ERR BITOP NOT must be called with a single source key.").into());
        }
        b"not" => |_, other| !other,
        _ => return Err(Fault::SYNTAX.into()),
    };
    let negates = call.args[1].eq_ignore_ascii_case(b"not");
    call.need(sources)?;
    let mut length = 0;
    for source in sources {
        length = length.max(call.get(source)?.map_or(0, |object| object.value.len()));
    }
    let mut result: Option<Vec<u8>> = None;
    for source in sources {
        let value = call.get(source)?.map_or(&[][..], |object| &object.value);
        match &mut result {
            None => {
                let mut first = value.to_vec();
                first.resize(length, 0);
                result = Some(first);
            }
            Some(result) => {
                let padded = value.iter().copied().chain(std::iter::repeat(0));
                result.iter_mut().zip(padded).for_each(|(byte, other)| *byte = fold(*byte, other));
            }
        }
    }
    let mut result = result.unwrap_or_default();
    if negates {
        result.iter_mut().for_each(|byte| *byte = fold(0, *byte));
    }
    if length > 0 {
        call.put(target, result, None);
    } else if call.get(target)?.is_some() {
        call.remove(target);
    }
    call.reply.integer(length as i64);
    Ok(())
}
