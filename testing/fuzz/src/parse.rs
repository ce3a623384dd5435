//! Requests of the Redis protocol out of bytes.
//!
//! Promised:
//! - The same bytes give the same requests and the same fault, wherever they are cut.
//! - A request ends behind its beginning and within its bytes.
//! - No request is beyond the limits.
//! - Memory follows the bytes that have arrived.
//! - A request that was read has one canonical spelling, which reads as the same request.

use crate::cuts::Cut;
use crate::memory;
use ramhold_resp::{Fault, Limits, Parsed, Parser};

/// The limits of a connection, those before it has given its password, and limits so small that all of their
/// edges are met.
const LIMITS: [Limits; 3] = [
    Limits { args: 1024 * 1024, arg_bytes: 8 * 1024 * 1024, bytes: 64 * 1024 * 1024 },
    Limits { args: 10, arg_bytes: 4 * 1024, bytes: 16 * 1024 },
    Limits { args: 3, arg_bytes: 16, bytes: 64 },
];
/// Inputs up to this length are cut at every byte, too.
const CUT_EVERYWHERE_BYTES_MAX: usize = 192;
/// The place of an argument takes 16 bytes in a list that doubles. The old half stands beside the new list
/// while it grows, so it takes 48 bytes at most. The shortest argument of a line has two bytes with its
/// separator, and that of an array has six. The unescaped copy of a line doubles, too.
const HELD_PER_LINE_BYTE: usize = 27;
const HELD_PER_BYTE: usize = 8;
const HELD_ALWAYS: usize = 256;
/// Longer lines are refused.
const LINE_BYTES_MAX: usize = 64 * 1024;

type Request = Vec<Vec<u8>>;

/// The meaning of bytes: the requests, the end of each, and the fault behind the last.
#[derive(PartialEq, Eq, Debug)]
struct Meaning {
    requests: Vec<(usize, Request)>,
    fault: Option<Fault>,
}

fn meaning(bytes: &[u8], ends: impl IntoIterator<Item = usize>, limits: &Limits) -> Meaning {
    let (mut parser, mut start) = (Parser::default(), 0);
    let mut meaning = Meaning { requests: Vec::new(), fault: None };
    for end in ends {
        loop {
            let come = &bytes[start..end];
            let (parsed, most) = memory::peak(|| parser.parse(come, limits));
            let per_byte = if come.first() == Some(&b'*') { HELD_PER_BYTE } else { HELD_PER_LINE_BYTE };
            assert!(most <= HELD_ALWAYS + per_byte * come.len(), "{most} bytes held for {}", come.len());
            match parsed {
                Parsed::Part => break,
                Parsed::Whole(length) => {
                    assert!(length > 0 && length <= come.len(), "{length} of {}", come.len());
                    let mut args = Vec::new();
                    parser.args(&come[..length], &mut args);
                    check_limits(length, &args, limits);
                    start += length;
                    meaning.requests.push((start, args.iter().map(|arg| arg.to_vec()).collect()));
                }
                Parsed::Bad(fault) => {
                    assert!(!fault.0.contains(['\r', '\n']), "{fault:?}");
                    meaning.fault = Some(fault);
                    return meaning;
                }
            }
        }
        // The waiting bytes are within the limits, so the caller of the parser need not hold more.
        let most = limits.bytes.max(LINE_BYTES_MAX) + 64;
        assert!(end - start <= most, "{} bytes wait", end - start);
    }
    meaning
}

fn check_limits(length: usize, args: &[&[u8]], limits: &Limits) {
    assert!(args.len() <= limits.args, "{} arguments", args.len());
    assert!(args.iter().all(|arg| arg.len() <= limits.arg_bytes));
    assert!(length <= limits.bytes + 2, "a request of {length} bytes");
}

/// A request as clients send it.
fn canonical(request: &Request) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
    for arg in request {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

pub fn run(input: &[u8]) {
    let cut = Cut::of(input);
    let limits = &LIMITS[usize::from(cut.choice) % LIMITS.len()];
    let whole = meaning(cut.bytes, [cut.bytes.len()], limits);
    assert_eq!(meaning(cut.bytes, cut.ends, limits), whole, "cut as chosen");
    if cut.bytes.len() <= CUT_EVERYWHERE_BYTES_MAX {
        assert_eq!(meaning(cut.bytes, 1..=cut.bytes.len(), limits), whole, "cut everywhere");
    }
    // A line may be shorter than its canonical spelling. The spelling has room under the widest limits.
    let requests = whole.requests.iter().map(|(_, request)| request);
    let again: Vec<u8> = requests.clone().flat_map(canonical).collect();
    let read = meaning(&again, [again.len()], &LIMITS[0]);
    assert_eq!(read.fault, None);
    assert!(read.requests.iter().map(|(_, request)| request).eq(requests), "the canonical spelling");
}

#[cfg(test)]
mod tests {
    use super::*;

    // Z4: the parser of a connection that once received a large request does not keep the memory of it.
    #[test]
    fn what_a_large_request_took_is_given_back() {
        let array = [&b"*100000\r\n"[..], &b"$0\r\n\r\n".repeat(100_000)].concat();
        let line = [&b"'a' ".repeat(10_000)[..], b"\r\n"].concat();
        for request in [array, line] {
            let mut parser = Parser::default();
            let before = memory::held();
            assert_eq!(parser.parse(&request, &LIMITS[0]), Parsed::Whole(request.len()));
            assert!(memory::held() - before > 100_000, "it took memory");
            assert_eq!(parser.parse(b"", &LIMITS[0]), Parsed::Part);
            assert!(memory::held() - before <= 32 * 1024, "{} bytes", memory::held() - before);
        }
    }
}
