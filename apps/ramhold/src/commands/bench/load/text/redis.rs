//! Redis's protocol: writes commands, and finds replies in the bytes of a connection, as far as a benchmark looks at them.
//!
//! Values are not copied. A reply that is not whole yet is looked for again when more has come; a value is
//! skipped by its length, so that costs little.

use std::io::Write;

/// A line is a length, a status or an error.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Larger than any value that is asked for.
const VALUE_BYTES_MAX: usize = 64 << 20;
/// More than are ever asked for together.
const ELEMENT_COUNT_MAX: usize = 4096;

/// A reply, or an element of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// A value, a number or a status.
    There,
    Absent,
    Refused(&'a [u8]),
    /// So many elements follow.
    Several(usize),
}

/// Why bytes are no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strange(pub String);

impl Strange {
    /// For bytes that begin no reply.
    pub fn reply(bytes: &[u8]) -> Strange {
        let beginning = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        Strange(format!("a reply begins with {beginning:?}"))
    }
}

/// GET of one key, MGET of several.
pub fn get(out: &mut Vec<u8>, count: usize, keys: impl Iterator<Item = Vec<u8>>) {
    put_length(out, b'*', count + 1);
    put_word(out, if count == 1 { b"GET" } else { b"MGET" });
    keys.for_each(|key| put_word(out, &key));
}

/// SET of one value, MSET of several.
pub fn set<'a>(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = (Vec<u8>, &'a [u8])>) {
    let count = values.len();
    put_length(out, b'*', 2 * count + 1);
    put_word(out, if count == 1 { b"SET" } else { b"MSET" });
    for (key, value) in values {
        put_word(out, &key);
        put_word(out, value);
    }
}

fn put_word(out: &mut Vec<u8>, word: &[u8]) {
    put_length(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

fn put_length(out: &mut Vec<u8>, kind: u8, length: usize) {
    out.push(kind);
    write!(out, "{length}\r\n").expect("memory takes all that is written");
}

/// The reply that the bytes begin with, and its length; an array counts without its elements. `None`: it is not whole yet.
pub fn first(bytes: &[u8]) -> Result<Option<(Seen<'_>, usize)>, Strange> {
    let Some(end) = bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') else {
        return if bytes.len() < LINE_BYTES_MAX { Ok(None) } else { Err(Strange::reply(bytes)) };
    };
    let length = end + 1;
    let Some((kind, rest)) = bytes[..length].strip_suffix(b"\r\n").and_then(<[u8]>::split_first) else {
        return Err(Strange::reply(bytes));
    };
    let seen = match kind {
        b'+' | b':' => Seen::There,
        b'-' => Seen::Refused(rest),
        b'$' | b'*' if rest == b"-1" => Seen::Absent,
        b'$' => {
            let value = number(rest, VALUE_BYTES_MAX).ok_or_else(|| Strange::reply(bytes))?;
            let Some(end) = bytes.get(length + value..length + value + 2) else { return Ok(None) };
            return if end == b"\r\n" {
                Ok(Some((Seen::There, length + value + 2)))
            } else {
                Err(Strange::reply(bytes))
            };
        }
        b'*' => Seen::Several(number(rest, ELEMENT_COUNT_MAX).ok_or_else(|| Strange::reply(bytes))?),
        _ => return Err(Strange::reply(bytes)),
    };
    Ok(Some((seen, length)))
}

/// The length of the first reply with all its elements. `None`: it is not whole yet.
pub fn whole(bytes: &[u8]) -> Result<Option<usize>, Strange> {
    let Some((seen, mut length)) = first(bytes)? else { return Ok(None) };
    if let Seen::Several(count) = seen {
        for _ in 0..count {
            match first(&bytes[length..])? {
                None => return Ok(None),
                Some((Seen::Several(_), _)) => return Err(Strange::reply(&bytes[length..])),
                Some((_, more)) => length += more,
            }
        }
    }
    Ok(Some(length))
}

/// The element at `at` of a whole reply. Moves `at` behind it.
pub fn next<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Seen<'a>, Strange> {
    let rest = &bytes[*at..];
    let (seen, length) = first(rest)?.ok_or_else(|| Strange::reply(rest))?;
    *at += length;
    Ok(seen)
}

fn number(digits: &[u8], max: usize) -> Option<usize> {
    let number = std::str::from_utf8(digits).ok()?.parse::<usize>().ok()?;
    (number <= max).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLIES: [&[u8]; 7] = [
        b"+OK\r\n",
        b"$3\r\na\r\n\r\n",
        b"$-1\r\n",
        b":7\r\n",
        b"-LOADING wait\r\n",
        b"*3\r\n$1\r\nx\r\n$-1\r\n$0\r\n\r\n",
        b"*0\r\n",
    ];

    #[test]
    fn a_reply_is_found_when_all_of_it_is_there_and_not_before() {
        let stream = REPLIES.concat();
        let mut at = 0;
        for reply in REPLIES {
            for end in at..at + reply.len() {
                assert_eq!(whole(&stream[at..end]), Ok(None), "{end}");
            }
            assert_eq!(whole(&stream[at..]), Ok(Some(reply.len())));
            at += reply.len();
        }
    }

    #[test]
    fn replies_are_told_apart() {
        let seen = REPLIES.map(|reply| first(reply).unwrap().unwrap().0);
        let refused = Seen::Refused(b"LOADING wait");
        let (there, absent) = (Seen::There, Seen::Absent);
        assert_eq!(seen, [there, there, absent, there, refused, Seen::Several(3), Seen::Several(0)]);
    }

    #[test]
    fn what_is_no_reply_is_refused_before_memory_is_taken() {
        for bytes in [
            &b"+O\n"[..],
            b"\r\n",
            b"GET\r\n",
            b"$x\r\n",
            b"$-2\r\n",
            b"$99999999999\r\n",
            b"$1\r\nab\r\n",
            b"*99999\r\n",
            b"*1\r\n*1\r\n+OK\r\n",
            &[b'+'; LINE_BYTES_MAX],
        ] {
            assert!(whole(bytes).is_err(), "{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(40)]));
        }
    }
}
