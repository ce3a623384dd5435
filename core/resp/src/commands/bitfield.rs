//! Integers of any width up to 64 bits, anywhere in a string (`BITFIELD`).

use super::bits::offset;
use crate::command::{Command, Flags, KeyPlaces, Run};
use crate::parse::integer;
use crate::{Call, Fault, Stop};

/// An integer's place and shape.
#[derive(Clone, Copy)]
struct Field {
    is_signed: bool,
    /// 1 to 64; at most 63 for an integer without a sign.
    bits: u8,
    /// In bits.
    offset: u64,
}

impl Field {
    fn parse(kind: &[u8], place: &[u8]) -> Result<Field, Fault> {
        let (is_signed, bits) = match kind {
            [b'i', bits @ ..] => (true, integer(bits).filter(|bits| (1..=64).contains(bits))),
            [b'u', bits @ ..] => (false, integer(bits).filter(|bits| (1..=63).contains(bits))),
            _ => (false, None),
        };
        let bits = bits.ok_or(Fault::fixed(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ))? as u8;
        Ok(Field { is_signed, bits, offset: offset(place, Some(bits))? })
    }

    /// Bytes of the shortest string that holds the integer.
    fn end_bytes(self) -> usize {
        ((self.offset + u64::from(self.bits) - 1) / 8 + 1) as usize
    }

    /// Reads the integer. Bits behind the end of the string are zero.
    fn read(self, value: &[u8]) -> i64 {
        let mut raw = 0u64;
        for at in self.offset..self.offset + u64::from(self.bits) {
            let byte = value.get((at / 8) as usize).copied().unwrap_or(0);
            raw = raw << 1 | u64::from(byte >> (7 - at % 8) & 1);
        }
        let unused = 64 - u32::from(self.bits);
        if self.is_signed { (raw << unused) as i64 >> unused } else { raw as i64 }
    }

    /// Writes the low bits of `number` into a string that is long enough.
    fn write(self, value: &mut [u8], number: i64) {
        for index in 0..u64::from(self.bits) {
            let at = self.offset + index;
            let bit = (number >> (u64::from(self.bits) - 1 - index) & 1) as u8;
            let byte = &mut value[(at / 8) as usize];
            let shift = 7 - at % 8;
            *byte = *byte & !(1 << shift) | bit << shift;
        }
    }

    /// The number as the field holds it. `None`: the number does not fit, and the field must not be changed.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let width = u32::from(self.bits);
        let (min, max) = if self.is_signed {
            (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1)
        } else {
            (0, (1i128 << width) - 1)
        };
        if (min..=max).contains(&number) {
            return Some(number as i64);
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Saturate => Some(number.clamp(min, max) as i64),
            Overflow::Wrap => {
                let low = number & ((1i128 << width) - 1);
                Some((if low > max { low - (1i128 << width) } else { low }) as i64)
            }
        }
    }
}

/// The treatment of a number that does not fit its field.
#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64, Overflow),
    Increment(i64, Overflow),
}

/// Reads the actions, in order.
fn parse(words: &[&[u8]]) -> Result<Vec<(Field, Action)>, Fault> {
    let mut actions = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut rest = words;
    while let [word, more @ ..] = rest {
        let word = word.to_ascii_lowercase();
        rest = match (&word[..], more) {
            (b"get", [kind, place, rest @ ..]) => {
                actions.push((Field::parse(kind, place)?, Action::Get));
                rest
            }
            (b"set" | b"incrby", [kind, place, number, rest @ ..]) => {
                let field = Field::parse(kind, place)?;
                let number = integer(number).ok_or(Fault::NOT_AN_INTEGER)?;
                let action = if word == b"set" { Action::Set } else { Action::Increment };
                actions.push((field, action(number, overflow)));
                rest
            }
            (b"overflow", [how, rest @ ..]) => {
                overflow = match &how.to_ascii_lowercase()[..] {
                    b"wrap" => Overflow::Wrap,
                    b"sat" => Overflow::Saturate,
                    b"fail" => Overflow::Fail,
                    _ => return Err(Fault::fixed("ERR Invalid OVERFLOW type specified")),
                };
                rest
            }
            _ => return Err(Fault::SYNTAX),
        };
    }
    Ok(actions)
}

pub const BITFIELD: Command = Command {
    name: "bitfield",
    arity: -2,
    flags: Flags::WRITE.with(Flags::DENYOOM),
    keys: KeyPlaces::ONE,
    access: &["RW access update variable_flags; GET reads the key, SET and INCRBY write it"],
    group: "bitmap",
    since: "3.2.0",
    complexity: "O(N) with N the bytes of the value: it is written anew",
    usage: "key [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value | INCRBY encoding offset increment> ...]",
    summary: "Reads and changes integers of chosen widths inside a string.",
    note: "SAT with SET of a number so far below the least of a signed field that the difference is no 64-bit number writes the least; Redis, where that overflows, writes the greatest.",
    run: Run::Keys(bitfield),
    ..Command::BASE
};

fn bitfield(call: &mut Call<'_>) -> Result<(), Stop> {
    let key = call.args[1];
    let actions = parse(&call.args[2..])?;
    let writes = actions.iter().filter(|(_, action)| !matches!(action, Action::Get));
    let written_end = writes.map(|(field, _)| field.end_bytes()).max();
    call.check_value(written_end.unwrap_or(0))?;
    let mut object = call.get(key)?.cloned().unwrap_or_default();
    let length = object.value.len().max(written_end.unwrap_or(0));
    let mut is_changed = length > object.value.len();
    object.value.resize(length, 0);
    call.reply.array(actions.len());
    for (field, action) in actions {
        let before = field.read(&object.value);
        // An unsigned field takes a negative number for a very large one.
        let widened = |number: i64| {
            if field.is_signed { i128::from(number) } else { i128::from(number as u64) }
        };
        let (written, answer) = match action {
            Action::Get => (None, Some(before)),
            Action::Set(number, overflow) => {
                let fitting = field.fit(widened(number), overflow);
                (fitting, fitting.map(|_| before))
            }
            Action::Increment(by, overflow) => {
                let sum = field.fit(i128::from(before) + i128::from(by), overflow);
                (sum, sum)
            }
        };
        if let Some(number) = written {
            field.write(&mut object.value, number);
            is_changed |= number != before;
        }
        match answer {
            Some(number) => call.reply.integer(number),
            None => call.reply.null(),
        }
    }
    // As in Redis, the string grows as far as the writes need it, even if none of them took place. A string
    // that is the same as before is not written, so that clients that watch the key are not disturbed.
    if is_changed {
        call.put(key, object.value, object.expires);
    }
    Ok(())
}

pub const BITFIELD_RO: Command = Command {
    name: "bitfield_ro",
    arity: -2,
    flags: Flags::READONLY.with(Flags::FAST),
    keys: KeyPlaces::ONE,
    access: &["RO access"],
    group: "bitmap",
    since: "6.0.0",
    complexity: "O(N) with N the integers that are read",
    usage: "key [GET encoding offset ...]",
    summary: "Reads integers of chosen widths inside a string and changes nothing.",
    run: Run::Keys(bitfield_ro),
    ..Command::BASE
};

fn bitfield_ro(call: &mut Call<'_>) -> Result<(), Stop> {
    if parse(&call.args[2..])?.iter().any(|(_, action)| !matches!(action, Action::Get)) {
        return Err(Fault::fixed("ERR BITFIELD_RO only supports the GET subcommand").into());
    }
    bitfield(call)
}
