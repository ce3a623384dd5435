//! Strings as Redis writes them: plain, as a small integer, or compressed.

use crate::error::{Error, Fault};
use crate::lzf;
use crate::source::{Length, Source, write_length};
use std::io::Read;

/// A string, or only its length if it is longer than the caller takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    Bytes(Vec<u8>),
    TooLong { bytes: u64 },
}

const INT8: u8 = 0;
const INT16: u8 = 1;
const INT32: u8 = 2;
const LZF: u8 = 3;
/// The longest text that is tried as an integer: that of an i32, eleven bytes.
const INTEGER_BYTES_MAX: usize = 11;

/// Reads a string of at most `bytes_max`. A longer one is skipped.
pub fn read_string<R: Read>(source: &mut Source<R>, bytes_max: u64) -> Result<Text, Error> {
    let at = source.offset();
    let encoding = match source.length_or_encoding()? {
        Length::Plain(bytes) if bytes > bytes_max => {
            source.skip(bytes)?;
            return Ok(Text::TooLong { bytes });
        }
        Length::Plain(bytes) => return Ok(Text::Bytes(source.bytes(bytes)?)),
        Length::Encoded(encoding) => encoding,
    };
    let integer = match encoding {
        INT8 => i32::from(i8::from_le_bytes(source.array()?)),
        INT16 => i32::from(i16::from_le_bytes(source.array()?)),
        INT32 => i32::from_le_bytes(source.array()?),
        LZF => return read_compressed(source, bytes_max),
        _ => return Err(Error { offset: at, fault: Fault::StringEncoding(encoding) }),
    };
    Ok(Text::Bytes(integer.to_string().into_bytes()))
}

fn read_compressed<R: Read>(source: &mut Source<R>, bytes_max: u64) -> Result<Text, Error> {
    let compressed = source.length()?;
    let at = source.offset();
    let bytes = source.length()?;
    // Compressed bytes are fewer than the bytes that they stand for; Redis keeps no others.
    if compressed == 0 || compressed > bytes {
        return Err(Error { offset: at, fault: Fault::Lzf });
    }
    if bytes > bytes_max {
        source.skip(compressed)?;
        return Ok(Text::TooLong { bytes });
    }
    let at = source.offset();
    let corrupt = |_| Error { offset: at, fault: Fault::Lzf };
    let input = source.bytes(compressed)?;
    let length = usize::try_from(bytes).map_err(|_| Error { offset: at, fault: Fault::Length })?;
    Ok(Text::Bytes(lzf::decompress(&input, length).map_err(corrupt)?))
}

/// Skips a string.
pub fn skip_string<R: Read>(source: &mut Source<R>) -> Result<(), Error> {
    let at = source.offset();
    match source.length_or_encoding()? {
        Length::Plain(bytes) => source.skip(bytes),
        Length::Encoded(INT8) => source.skip(1),
        Length::Encoded(INT16) => source.skip(2),
        Length::Encoded(INT32) => source.skip(4),
        Length::Encoded(LZF) => {
            let compressed = source.length()?;
            source.length()?;
            source.skip(compressed)
        }
        Length::Encoded(encoding) => Err(Error { offset: at, fault: Fault::StringEncoding(encoding) }),
    }
}

/// Appends a string as Redis does, but uncompressed: an integer of 32 bits in its shortest form, any other
/// text plain.
pub fn write_string(bytes: &[u8], out: &mut Vec<u8>) {
    let Some(integer) = canonical_integer(bytes) else {
        write_length(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
        return;
    };
    if let Ok(small) = i8::try_from(integer) {
        out.push(0xc0 | INT8);
        out.extend_from_slice(&small.to_le_bytes());
    } else if let Ok(small) = i16::try_from(integer) {
        out.push(0xc0 | INT16);
        out.extend_from_slice(&small.to_le_bytes());
    } else {
        out.push(0xc0 | INT32);
        out.extend_from_slice(&integer.to_le_bytes());
    }
}

/// The integer whose text is exactly these bytes.
fn canonical_integer(bytes: &[u8]) -> Option<i32> {
    if bytes.len() > INTEGER_BYTES_MAX {
        return None;
    }
    let integer: i32 = std::str::from_utf8(bytes).ok()?.parse().ok()?;
    (integer.to_string().as_bytes() == bytes).then_some(integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], bytes_max: u64) -> Result<Text, Error> {
        read_string(&mut Source::new(bytes), bytes_max)
    }

    #[test]
    fn a_string_written_is_read_again_and_skipped() {
        let long = vec![7; 100_000];
        let texts: [&[u8]; 14] = [
            b"",
            b"0",
            b"-0",
            b"007",
            b"+7",
            b"127",
            b"-128",
            b"128",
            b"32768",
            b"-2147483648",
            b"2147483648",
            b"text",
            b"\xff\x00",
            &long,
        ];
        for text in texts {
            let mut out = Vec::new();
            write_string(text, &mut out);
            let mut source = Source::new(out.as_slice());
            assert_eq!(read_string(&mut source, 1 << 20).unwrap(), Text::Bytes(text.to_vec()));
            assert_eq!(source.offset(), out.len() as u64);
            let mut source = Source::new(out.as_slice());
            skip_string(&mut source).unwrap();
            assert_eq!(source.offset(), out.len() as u64);
        }
    }

    #[test]
    fn a_string_that_is_too_long_is_passed_over() {
        let mut out = Vec::new();
        write_string(b"hello", &mut out);
        assert_eq!(read(&out, 4).unwrap(), Text::TooLong { bytes: 5 });
        assert_eq!(read(b"\xc3\x05\x0a\x00a\xe0\x00\x00", 9).unwrap(), Text::TooLong { bytes: 10 });
        assert_eq!(read(b"\xc3\x05\x0a\x00a\xe0\x00\x00", 10).unwrap(), Text::Bytes(vec![b'a'; 10]));
    }

    #[test]
    fn a_claimed_length_takes_no_memory() {
        let claimed = b"\x81\x00\x00\x00\xff\xff\xff\xff\xffabc";
        assert!(matches!(read(claimed, u64::MAX).unwrap_err().fault, Fault::Truncated));
        let claimed = b"\xc3\x03\x81\x00\x00\x00\xff\xff\xff\xff\xff\x00ab";
        assert!(matches!(read(claimed, u64::MAX).unwrap_err().fault, Fault::Lzf));
    }
}
