//! LZF, the compression of strings in Redis's files.
//!
//! A control byte below 32 is followed by literal bytes, one more than its value. Any other control byte is a
//! copy of bytes that came before. Its upper three bits are the length less two; if they are 7, one more byte
//! adds to the length. The lower five bits and the next byte tell how far back the copy begins, less one.

/// The bytes are no LZF, or their output does not have the claimed length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// The most output bytes per input byte: three bytes copy 264.
const GROWTH_MAX: usize = 88;

/// Decompresses `input`, whose output has exactly `output_bytes`. Takes memory for at most `GROWTH_MAX` (88)
/// times the input.
pub fn decompress(input: &[u8], output_bytes: usize) -> Result<Vec<u8>, Corrupt> {
    if output_bytes > input.len().saturating_mul(GROWTH_MAX) {
        return Err(Corrupt);
    }
    let mut output = Vec::with_capacity(output_bytes);
    let mut rest = input;
    while let Some((control, behind)) = rest.split_first() {
        let control = usize::from(*control);
        if control < 32 {
            let (literals, behind) = behind.split_at_checked(control + 1).ok_or(Corrupt)?;
            if output.len() + literals.len() > output_bytes {
                return Err(Corrupt);
            }
            output.extend_from_slice(literals);
            rest = behind;
            continue;
        }
        let mut length = (control >> 5) + 2;
        let mut behind = behind;
        if length == 9 {
            let (more, after) = behind.split_first().ok_or(Corrupt)?;
            length += usize::from(*more);
            behind = after;
        }
        let (low, behind) = behind.split_first().ok_or(Corrupt)?;
        let back = ((control & 31) << 8 | usize::from(*low)) + 1;
        let start = output.len().checked_sub(back).ok_or(Corrupt)?;
        if output.len() + length > output_bytes {
            return Err(Corrupt);
        }
        // The copy may overlap its own output: then it repeats.
        for at in start..start + length {
            let byte = *output.get(at).ok_or(Corrupt)?;
            output.push(byte);
        }
        rest = behind;
    }
    if output.len() == output_bytes { Ok(output) } else { Err(Corrupt) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_copies_and_copies_of_themselves_are_decompressed() {
        assert_eq!(decompress(b"\x02abc", 3), Ok(b"abc".to_vec()));
        assert_eq!(decompress(b"\x02abc\x20\x02", 6), Ok(b"abcabc".to_vec()));
        assert_eq!(decompress(b"\x00a\xe0\x00\x00", 10), Ok(vec![b'a'; 10]));
        assert_eq!(decompress(b"\x00a\xe0\xff\x00", 265), Ok(vec![b'a'; 265]));
        assert_eq!(decompress(b"", 0), Ok(Vec::new()));
    }

    #[test]
    fn bytes_that_are_no_lzf_are_refused() {
        let bad: [(&[u8], usize); 8] = [
            (b"\x02ab", 3),
            (b"\x02abc", 2),
            (b"\x02abc", 4),
            (b"\x20\x00", 3),
            (b"\x00a\x20", 4),
            (b"\x00a\xe0", 10),
            (b"\x00a\x20\x01", 4),
            (b"\x00a", usize::MAX),
        ];
        for (input, length) in bad {
            assert_eq!(decompress(input, length), Err(Corrupt), "{input:?}");
        }
    }
}
