//! Reads requests out of bytes: arrays of strings, and lines for people who type (`PING`).
//!
//! The parser looks at the bytes that have come so far, from the start of a request on. It remembers how far
//! it got, so that a request which comes in many parts is looked at once. It keeps positions, not the bytes
//! themselves: the caller holds the bytes that have come. A length that is only claimed takes no memory.
//!
//! Invariant: the same bytes give the same requests, wherever they were cut.

use crate::Fault;
use std::ops::Range;

/// Limits of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    pub args: usize,
    /// Bytes of one argument.
    pub arg_bytes: usize,
    /// Bytes of the whole request, with its framing.
    pub bytes: usize,
}

/// Bytes of a request that is a line and no array.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Digits and sign of a number; a longer text is no number.
const NUMBER_BYTES_MAX: usize = 20;
/// Memory kept from one request for the next: positions of arguments, and bytes of quoted words. Memory that
/// a larger request took beyond that is given back after it. Otherwise every connection would hold as much as
/// the largest request that it ever sent.
const KEPT_ARGS: usize = 1024;
const KEPT_BYTES: usize = 4096;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// The request ends after this number of bytes, and `Parser::args` gives its arguments. A request without
    /// arguments is empty and gets no answer.
    Whole(usize),
    /// More bytes are needed.
    Part,
    /// The connection cannot go on, because the start of the next request is unknown.
    Bad(Fault),
}

/// The parser's progress in the request at the front of the bytes.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    args: Vec<Range<usize>>,
    /// The words of a line with quotes, unescaped. If this is not empty, `args` holds positions in here, and
    /// not in the bytes of the request.
    unescaped: Vec<u8>,
    /// Arguments still to come. `None`: nothing is known of the request yet.
    missing: Option<usize>,
    at: usize,
}

impl Parser {
    /// Looks at the bytes of a request that have come. After `Whole`, the arguments stand until the next
    /// call, which begins with the bytes behind the request.
    pub fn parse(&mut self, bytes: &[u8], limits: &Limits) -> Parsed {
        match self.try_parse(bytes, limits) {
            Ok(Some(end)) => {
                self.missing = None;
                self.at = 0;
                Parsed::Whole(end)
            }
            Ok(None) => Parsed::Part,
            Err(fault) => Parsed::Bad(fault),
        }
    }

    /// The arguments of the request for which `parse` has just returned `Whole`.
    pub fn args<'a>(&'a self, bytes: &'a [u8], out: &mut Vec<&'a [u8]>) {
        out.clear();
        let unescaped = &self.unescaped;
        let get = |range: &Range<usize>| {
            if unescaped.is_empty() { &bytes[range.clone()] } else { &unescaped[range.clone()] }
        };
        out.extend(self.args.iter().map(get));
    }

    fn try_parse(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, Fault> {
        let mut missing = match self.missing {
            Some(missing) => missing,
            None => {
                self.args.clear();
                self.args.shrink_to(KEPT_ARGS);
                self.unescaped.clear();
                self.unescaped.shrink_to(KEPT_BYTES);
                match bytes.first() {
                    None => return Ok(None),
                    Some(b'*') => {}
                    Some(_) => return self.line(bytes, limits),
                }
                let Some((count, at)) = number(bytes, 1, "ERR Protocol error: invalid multibulk length")?
                else {
                    return Ok(None);
                };
                if count > limits.args as i64 {
                    return Err(Fault::fixed("ERR Protocol error: invalid multibulk length"));
                }
                if count <= 0 {
                    return Ok(Some(at));
                }
                self.at = at;
                count as usize
            }
        };
        while missing > 0 {
            self.missing = Some(missing);
            if self.at > limits.bytes {
                return Err(Fault::fixed("ERR Protocol error: request is too large"));
            }
            match bytes.get(self.at) {
                None => return Ok(None),
                Some(b'$') => {}
                Some(other) => {
                    let shown = if other.is_ascii_graphic() { *other as char } else { ' ' };
                    return Err(Fault::said(format!("ERR Protocol error: expected '$', got '{shown}'")));
                }
            }
            let Some((length, start)) =
                number(bytes, self.at + 1, "ERR Protocol error: invalid bulk length")?
            else {
                return Ok(None);
            };
            if length < 0 || length > limits.arg_bytes as i64 {
                return Err(Fault::fixed("ERR Protocol error: invalid bulk length"));
            }
            let end = start + length as usize;
            if end > limits.bytes {
                return Err(Fault::fixed("ERR Protocol error: request is too large"));
            }
            if bytes.len() < end + 2 {
                return Ok(None);
            }
            if &bytes[end..end + 2] != b"\r\n" {
                return Err(Fault::fixed("ERR Protocol error: an argument is not followed by CRLF"));
            }
            self.args.push(start..end);
            self.at = end + 2;
            missing -= 1;
        }
        Ok(Some(self.at))
    }

    /// Reads a request that is one line of words, as people type it.
    fn line(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, Fault> {
        let Some(offset) = bytes[self.at..].iter().position(|byte| *byte == b'\n') else {
            self.at = bytes.len();
            if bytes.len() > LINE_BYTES_MAX.min(limits.bytes) {
                return Err(Fault::fixed("ERR Protocol error: too big inline request"));
            }
            return Ok(None);
        };
        let end = self.at + offset;
        if end > LINE_BYTES_MAX.min(limits.bytes) {
            return Err(Fault::fixed("ERR Protocol error: too big inline request"));
        }
        let line = &bytes[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // In Redis, a zero byte ends a line, too.
        let line = line.split(|byte| *byte == 0).next().unwrap_or(line);
        self.words(line).ok_or(Fault::fixed("ERR Protocol error: unbalanced quotes in request"))?;
        if self.args.len() > limits.args || self.args.iter().any(|arg| arg.len() > limits.arg_bytes) {
            return Err(Fault::fixed("ERR Protocol error: too big inline request"));
        }
        Ok(Some(end + 1))
    }

    /// Splits a line at white space. `"…"` knows escapes; `'…'` knows only the escape of its own quote.
    fn words(&mut self, line: &[u8]) -> Option<()> {
        let quoted = line.iter().any(|byte| matches!(byte, b'"' | b'\''));
        let mut at = 0;
        loop {
            while line.get(at).is_some_and(|byte| byte.is_ascii_whitespace() || *byte == 0x0B) {
                at += 1;
            }
            if at == line.len() {
                return Some(());
            }
            if !quoted {
                let start = at;
                while line.get(at).is_some_and(|byte| !byte.is_ascii_whitespace() && *byte != 0x0B) {
                    at += 1;
                }
                self.args.push(start..at);
                continue;
            }
            let start = self.unescaped.len();
            at = self.word(line, at)?;
            self.args.push(start..self.unescaped.len());
            if self.unescaped.is_empty() {
                // So far there is only an empty word. This byte ensures that its position is not looked for
                // in the line.
                self.unescaped.push(0);
            }
        }
    }

    /// Unescapes the word at `at`, and returns its end.
    fn word(&mut self, line: &[u8], mut at: usize) -> Option<usize> {
        let mut quote = None;
        loop {
            let byte = line.get(at).copied();
            match (quote, byte) {
                (None, None) => return Some(at),
                (Some(_), None) => return None,
                (None, Some(b' ' | b'\n' | b'\r' | b'\t')) => return Some(at),
                (None, Some(byte @ (b'"' | b'\''))) => quote = Some(byte),
                (Some(b'"'), Some(b'\\')) => {
                    let hex = |at: usize| line.get(at).and_then(|digit| (*digit as char).to_digit(16));
                    if let (Some(b'x'), Some(high), Some(low)) = (line.get(at + 1), hex(at + 2), hex(at + 3))
                    {
                        self.unescaped.push((high * 16 + low) as u8);
                        at += 3;
                    } else {
                        at += 1;
                        self.unescaped.push(match line.get(at)? {
                            b'n' => b'\n',
                            b'r' => b'\r',
                            b't' => b'\t',
                            b'b' => 8,
                            b'a' => 7,
                            other => *other,
                        });
                    }
                }
                (Some(b'\''), Some(b'\\')) if line.get(at + 1) == Some(&b'\'') => {
                    at += 1;
                    self.unescaped.push(b'\'');
                }
                (Some(open), Some(byte)) if open == byte => {
                    // A closing quote must be followed by white space or by the end of the line.
                    at += 1;
                    let ends = line.get(at).is_none_or(|byte| byte.is_ascii_whitespace() || *byte == 0x0B);
                    return ends.then_some(at);
                }
                (_, Some(byte)) => self.unescaped.push(byte),
            }
            at += 1;
        }
    }
}

/// Reads the number on the line that starts at `at`, and returns it with the start of the next line. `None`:
/// the line has not come whole.
fn number(bytes: &[u8], at: usize, complaint: &'static str) -> Result<Option<(i64, usize)>, Fault> {
    let rest = &bytes[at..];
    let seen = &rest[..rest.len().min(NUMBER_BYTES_MAX + 2)];
    let Some(length) = seen.iter().position(|byte| *byte == b'\r') else {
        return if seen.len() < NUMBER_BYTES_MAX + 2 { Ok(None) } else { Err(Fault::fixed(complaint)) };
    };
    let value = integer(&rest[..length]).ok_or(Fault::fixed(complaint))?;
    match rest.get(length + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((value, at + length + 2))),
        Some(_) => Err(Fault::fixed(complaint)),
    }
}

/// Reads an integer in its one spelling, as Redis does: no sign but a minus before a number other than 0, and
/// no leading zero.
pub fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        b"0" if !negative => return Some(0),
        [b'0', ..] => return None,
        _ if digits.len() > 19 => return None,
        _ => {}
    }
    let mut value: i64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // Counts downwards, because there is one more negative number than there are positive ones.
        value = value.checked_mul(10)?.checked_sub(i64::from(digit - b'0'))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { args: 1024, arg_bytes: 1024 * 1024, bytes: 4 * 1024 * 1024 };

    /// All requests of `bytes` when they come in parts that end at `cuts`, and the fault that ends them.
    fn requests(bytes: &[u8], cuts: &[usize]) -> (Vec<Vec<Vec<u8>>>, Option<Fault>) {
        let (mut parser, mut found, mut start) = (Parser::default(), Vec::new(), 0);
        let mut ends: Vec<usize> = cuts.iter().copied().filter(|cut| *cut < bytes.len()).collect();
        ends.sort_unstable();
        ends.push(bytes.len());
        for end in ends {
            loop {
                match parser.parse(&bytes[start..end], &LIMITS) {
                    Parsed::Whole(length) => {
                        let mut args = Vec::new();
                        parser.args(&bytes[start..start + length], &mut args);
                        found.push(args.iter().map(|arg| arg.to_vec()).collect());
                        start += length;
                    }
                    Parsed::Part => break,
                    Parsed::Bad(fault) => return (found, Some(fault)),
                }
            }
        }
        (found, None)
    }

    fn words(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    // J1: requests as clients send them, and lines as people type them.
    #[test]
    fn requests_are_read() {
        let table: &[(&str, &[&[&str]])] = &[
            ("*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n", &[&["GET", "a"], &["PING"]]),
            ("PING\r\nget  a \nset a ''\r\n", &[&["PING"], &["get", "a"], &["set", "a", ""]]),
            ("*0\r\n*-1\r\n\r\nPING\r\n", &[&[], &[], &[], &["PING"]]),
            ("set \"a\\x41\\n\" 'b\\'c'\r\n", &[&["set", "aA\n", "b'c"]]),
            ("''\r\n", &[&[""]]),
            ("get 'a' \0'b'\r\nget a\0b c\r\n", &[&["get", "a"], &["get", "a"]]),
            ("*1\r\n$0\r\n\r\n", &[&[""]]),
        ];
        for (bytes, want) in table {
            let want: Vec<_> = want.iter().map(|request| words(request)).collect();
            assert_eq!(requests(bytes.as_bytes(), &[]), (want, None), "{bytes:?}");
        }
    }

    // Z1: bytes that are no request end the connection with an error that says why, and take no memory.
    #[test]
    fn nonsense_is_refused() {
        let table = [
            ("*2147483648\r\n", "invalid multibulk length"),
            ("*1025\r\n", "invalid multibulk length"),
            ("*+1\r\n", "invalid multibulk length"),
            ("*01\r\n", "invalid multibulk length"),
            ("*1\rX", "invalid multibulk length"),
            ("*111111111111111111111111111111", "invalid multibulk length"),
            ("*1\r\n$9223372036854775807\r\n", "invalid bulk length"),
            ("*1\r\n$-1\r\n", "invalid bulk length"),
            ("*1\r\n$01\r\n", "invalid bulk length"),
            ("*1\r\n:1\r\n", "expected '$', got ':'"),
            ("*1\r\n$1\r\nab\r\n", "not followed by CRLF"),
            ("set \"a\r\n", "unbalanced quotes"),
            ("set 'a'b\r\n", "unbalanced quotes"),
        ];
        for (bytes, want) in table {
            let (_, fault) = requests(bytes.as_bytes(), &[]);
            assert!(fault.as_ref().is_some_and(|fault| fault.0.contains(want)), "{bytes:?}: {fault:?}");
        }
        let long = vec![b'a'; 70_000];
        assert!(requests(&long, &[]).1.unwrap().0.contains("too big inline"));
        let many = [
            b"*5\r\n".to_vec(),
            [b"$1000000\r\n".to_vec(), vec![b'x'; 1_000_000], b"\r\n".to_vec()].concat().repeat(5),
        ]
        .concat();
        assert!(requests(&many, &[]).1.unwrap().0.contains("too large"));
    }

    #[test]
    fn integers_have_one_spelling() {
        for (text, want) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-0", None),
            ("", None),
            ("-", None),
            ("1 ", None),
            ("+1", None),
            ("00", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(integer(text.as_bytes()), want, "{text:?}");
        }
    }

    fn fragment() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..5).prop_map(|args| {
                let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
                for arg in args {
                    bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
                    bytes.extend_from_slice(&arg);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes
            }),
            "[a-z \"'\\\\x0-9]{0,20}\r?\n".prop_map(String::into_bytes),
            proptest::collection::vec(
                prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b'1'), any::<u8>()],
                0..8
            ),
        ]
    }

    proptest! {
        // Z1: any split of the same bytes gives the same requests, and the same fault.
        #[test]
        fn cuts_change_nothing(
            parts in proptest::collection::vec(fragment(), 0..6),
            cuts in proptest::collection::vec(0usize..200, 0..20),
        ) {
            let bytes = parts.concat();
            let whole = requests(&bytes, &[]);
            prop_assert_eq!(&requests(&bytes, &cuts), &whole);
            let everywhere: Vec<usize> = (0..bytes.len()).collect();
            prop_assert_eq!(&requests(&bytes, &everywhere), &whole);
        }
    }
}
