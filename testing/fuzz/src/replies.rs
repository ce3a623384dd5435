//! Checks that bytes are whole replies of the Redis protocol. It reads strictly and without recursion.

/// The number of replies in `bytes`, without pushes. Panics when the bytes are no replies, or when the last
/// one is cut off.
pub fn count(bytes: &[u8]) -> usize {
    let (mut rest, mut count) = (bytes, 0);
    while let Some(kind) = rest.first() {
        count += usize::from(*kind != b'>');
        rest = behind(rest);
    }
    count
}

/// The bytes behind the first reply.
fn behind(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    // Values still to come, of this reply and of its elements.
    let mut missing: u64 = 1;
    while missing > 0 {
        missing -= 1;
        let (kind, line);
        (kind, line, rest) = head(rest);
        match kind {
            b'+' | b'-' | b',' | b'(' => {}
            b':' => drop(integer(line)),
            b'_' => assert!(line.is_empty()),
            b'#' => assert!(line == b"t" || line == b"f"),
            b'$' | b'=' | b'!' => {
                if let Some(length) = length(line, kind == b'$') {
                    let (text, after) = rest.split_at_checked(length).expect("the string is whole");
                    assert!(kind != b'=' || text.get(3) == Some(&b':'));
                    rest = after.strip_prefix(b"\r\n").expect("a string ends with its line");
                }
            }
            b'*' | b'~' | b'>' => missing += length(line, kind == b'*').unwrap_or(0) as u64,
            b'%' => missing += 2 * length(line, false).unwrap_or(0) as u64,
            other => panic!("no reply begins with {:?}", other as char),
        }
    }
    rest
}

/// The kind, the rest of its line, and the bytes behind the line.
fn head(bytes: &[u8]) -> (u8, &[u8], &[u8]) {
    let (kind, rest) = bytes.split_first().expect("a reply is whole");
    let end = rest.iter().position(|byte| *byte == b'\r').expect("a line ends");
    let after = rest[end..].strip_prefix(b"\r\n").expect("a line ends with both");
    assert!(!rest[..end].contains(&b'\n'));
    (*kind, &rest[..end], after)
}

fn integer(line: &[u8]) -> i64 {
    let text = std::str::from_utf8(line).expect("a number is text");
    let value: i64 = text.parse().expect("a number");
    assert_eq!(value.to_string(), text, "numbers have one spelling");
    value
}

/// None: there is no such value, which only the older types can say.
fn length(line: &[u8], may_be_none: bool) -> Option<usize> {
    let value = integer(line);
    assert!(value >= 0 || (value == -1 && may_be_none));
    usize::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_both_versions_are_counted() {
        let bytes = b"+OK\r\n*2\r\n$1\r\na\r\n:-1\r\n$-1\r\n*-1\r\n%1\r\n+a\r\n*1\r\n_\r\n>1\r\n+x\r\n=6\r\ntxt:hi\r\n#t\r\n";
        assert_eq!(count(bytes), 7);
        for cut in 1..bytes.len() {
            let whole = std::panic::catch_unwind(|| count(&bytes[..cut]));
            assert!(whole.is_err() || bytes[..cut].ends_with(b"\n"), "{cut}");
        }
    }
}
