//! Looks ahead in the bytes that a connection has sent, to guess which keys will be asked for.
//!
//! The guess serves only to fetch memory early. It is the second word of each array, up to the first bytes
//! that are no array. Only the bytes that decide where the next request begins are checked.
//!
//! Not here: requests as they will be carried out (`parse`).

/// The second words of the requests that have come, in order.
pub(crate) struct Ahead<'a> {
    bytes: &'a [u8],
}

/// Digits of a number that is worth reading; a longer number ends the guess.
const DIGIT_COUNT_MAX: usize = 8;

impl<'a> Ahead<'a> {
    pub fn of(bytes: &'a [u8]) -> Ahead<'a> {
        Ahead { bytes }
    }

    /// Reads the number of a line that begins with `mark`, and goes on behind the line.
    fn number(&mut self, mark: u8) -> Option<usize> {
        let [first, rest @ ..] = self.bytes else { return None };
        if *first != mark {
            return None;
        }
        let mut value = 0;
        for (at, byte) in rest.iter().enumerate().take(DIGIT_COUNT_MAX + 1) {
            match byte {
                b'0'..=b'9' => value = value * 10 + usize::from(byte - b'0'),
                b'\r' if at > 0 => {
                    self.bytes = rest.get(at + 2..)?;
                    return Some(value);
                }
                _ => return None,
            }
        }
        None
    }

    fn word(&mut self) -> Option<&'a [u8]> {
        let length = self.number(b'$')?;
        let word = self.bytes.get(..length)?;
        self.bytes = self.bytes.get(length + 2..)?;
        Some(word)
    }
}

impl<'a> Iterator for Ahead<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let count = self.number(b'*')?;
            if count == 0 {
                continue;
            }
            self.word()?;
            if count == 1 {
                continue;
            }
            let second = self.word()?;
            for _ in 2..count {
                if self.word().is_none() {
                    // The rest of this request is still to come.
                    self.bytes = &[];
                    break;
                }
            }
            return Some(second);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ahead(bytes: &[u8]) -> Vec<&[u8]> {
        Ahead::of(bytes).collect()
    }

    #[test]
    fn keys_are_seen_up_to_what_is_no_request() {
        let get = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
        let set = b"*3\r\n$3\r\nSET\r\n$2\r\nbc\r\n$1\r\n1\r\n";
        let ping = b"*1\r\n$4\r\nPING\r\n*0\r\n";
        assert_eq!(ahead(&[&get[..], ping, set, get].concat()), [&b"a"[..], b"bc", b"a"]);
        assert_eq!(ahead(&[&get[..], b"PING\r\n", get].concat()), [&b"a"[..]]);
        assert_eq!(ahead(&set[..set.len() - 3]), [&b"bc"[..]]);
        assert_eq!(ahead(&set[..18]), [&b""[..]; 0]);
        assert_eq!(ahead(b"*2\r\n$3\r\nGET\r\n$99999999999999999999\r\n"), [&b""[..]; 0]);
    }

    // The iterator ends, whatever bytes come.
    proptest! {
        #[test]
        fn anything_may_come(bytes in proptest::collection::vec(prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), b'0'..=b'3', any::<u8>()], 0..200)) {
            let keys = ahead(&bytes);
            prop_assert!(keys.iter().map(|key| key.len()).sum::<usize>() <= bytes.len());
        }
    }
}
