//! A source of bytes that keeps the offset and a running checksum.

use crate::crc64_append;
use crate::error::{Error, Fault};
use std::io::{ErrorKind, Read};

/// The most bytes that are asked for at once, so that memory follows the bytes that arrive.
const PIECE_BYTES: usize = 64 * 1024;

pub struct Source<R> {
    from: R,
    offset: u64,
    crc: u64,
}

/// A length, or the encoding of the string that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Plain(u64),
    Encoded(u8),
}

impl<R: Read> Source<R> {
    pub fn new(from: R) -> Source<R> {
        Source { from, offset: 0, crc: 0 }
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The CRC64 of all bytes so far.
    pub fn crc(&self) -> u64 {
        self.crc
    }

    pub fn into_inner(self) -> R {
        self.from
    }

    pub fn wrong<T>(&self, fault: Fault) -> Result<T, Error> {
        Err(Error { offset: self.offset, fault })
    }

    /// Fills `bytes` completely.
    pub fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        match self.from.read_exact(bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return self.wrong(Fault::Truncated),
            Err(error) => return self.wrong(Fault::Source(error)),
        }
        self.crc = crc64_append(self.crc, bytes);
        self.offset += bytes.len() as u64;
        Ok(())
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub fn byte(&mut self) -> Result<u8, Error> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// The next byte. None: the source has ended.
    pub fn byte_or_end(&mut self) -> Result<Option<u8>, Error> {
        match self.byte() {
            Ok(byte) => Ok(Some(byte)),
            Err(Error { fault: Fault::Truncated, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The next `count` bytes, in memory that grows as they arrive.
    pub fn bytes(&mut self, count: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let mut left = count;
        while left > 0 {
            let piece = usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            let at = bytes.len();
            bytes.resize(at + piece, 0);
            self.fill(&mut bytes[at..])?;
            left -= piece as u64;
        }
        Ok(bytes)
    }

    pub fn skip(&mut self, count: u64) -> Result<(), Error> {
        let mut buffer = [0; 4096];
        let mut left = count;
        while left > 0 {
            let piece = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
            self.fill(&mut buffer[..piece])?;
            left -= piece as u64;
        }
        Ok(())
    }

    pub fn length_or_encoding(&mut self) -> Result<Length, Error> {
        let at = self.offset;
        let first = self.byte()?;
        Ok(match first >> 6 {
            0 => Length::Plain(u64::from(first & 63)),
            1 => Length::Plain(u64::from(first & 63) << 8 | u64::from(self.byte()?)),
            2 => match first {
                0x80 => Length::Plain(u64::from(u32::from_be_bytes(self.array()?))),
                0x81 => Length::Plain(u64::from_be_bytes(self.array()?)),
                _ => return Err(Error { offset: at, fault: Fault::Length }),
            },
            _ => Length::Encoded(first & 63),
        })
    }

    /// A length or any other unsigned number.
    pub fn length(&mut self) -> Result<u64, Error> {
        let at = self.offset;
        match self.length_or_encoding()? {
            Length::Plain(length) => Ok(length),
            Length::Encoded(_) => Err(Error { offset: at, fault: Fault::Length }),
        }
    }
}

/// Appends a length.
pub fn write_length(length: u64, out: &mut Vec<u8>) {
    match length {
        0..64 => out.push(length as u8),
        64..16_384 => out.extend_from_slice(&(0x4000 | length as u16).to_be_bytes()),
        16_384..=0xffff_ffff => {
            out.push(0x80);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_written_is_read_again() {
        let lengths = [0, 1, 63, 64, 16_383, 16_384, 0xffff_ffff, 0x1_0000_0000, u64::MAX];
        for (length, bytes) in lengths.into_iter().zip([1, 1, 1, 2, 2, 5, 5, 9, 9]) {
            let mut out = Vec::new();
            write_length(length, &mut out);
            assert_eq!(out.len(), bytes);
            assert_eq!(Source::new(out.as_slice()).length().unwrap(), length);
        }
    }
}
