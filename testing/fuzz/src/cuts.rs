//! Where an input is cut. The input's own last bytes choose the cuts: so the fuzzer controls them, and a
//! recorded session is an input without any change.

/// The most cuts.
const COUNT_MAX: usize = 15;

/// An input's parts.
#[derive(Debug)]
pub struct Cut<'a> {
    pub bytes: &'a [u8],
    /// Ascending, and the last one is the end.
    pub ends: Vec<usize>,
    /// Four bits for the target's own choices.
    pub choice: u8,
}

impl<'a> Cut<'a> {
    /// The last byte tells the number of cuts and the target's choices. Two bytes before it for each cut tell
    /// its place.
    pub fn of(input: &'a [u8]) -> Cut<'a> {
        let Some((last, rest)) = input.split_last() else {
            return Cut { bytes: input, ends: vec![0], choice: 0 };
        };
        let count = usize::from(last & 0x0F).min(COUNT_MAX).min(rest.len() / 2);
        let (bytes, places) = rest.split_at(rest.len() - 2 * count);
        let place = |pair: &[u8]| usize::from(u16::from_le_bytes([pair[0], pair[1]])) % (bytes.len() + 1);
        let mut ends: Vec<usize> = places.chunks_exact(2).map(place).collect();
        ends.push(bytes.len());
        ends.sort_unstable();
        Cut { bytes, ends, choice: last >> 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_say_where_to_cut() {
        let cut = Cut::of(b"abcdefgh\x03\x00\x01\x01\x22");
        assert_eq!((cut.bytes, cut.choice), (&b"abcdefgh"[..], 2));
        assert_eq!(cut.ends, [3, 257 % 9, 8]);
        assert_eq!(Cut::of(b"").ends, [0]);
        assert_eq!(Cut::of(b"a\x0f").ends, [1]);
    }
}
