//! Payloads of DUMP and RESTORE: type and value, then the format's version (2 bytes) and the CRC64 of all
//! these bytes (8 bytes), both little-endian.

use crate::crc64;
use crate::error::{Error, Fault};
use crate::file::VERSION_MAX;
use crate::object::{Kind, Value, read_value};
use crate::source::Source;
use crate::string::write_string;

/// The version in written payloads: that of Redis 7.0, so that 7.0 and all later releases restore them.
pub const DUMP_VERSION: u16 = 10;
const FOOTER_BYTES: usize = 10;

/// The payload of a string.
pub fn write_dump(value: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    write_string(value, &mut out);
    out.extend_from_slice(&DUMP_VERSION.to_le_bytes());
    let crc = crc64(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Type and value of a payload whose version is known and whose checksum is right. A checksum of zero means
/// none.
pub fn check_dump(payload: &[u8]) -> Result<&[u8], Error> {
    let wrong = |offset: usize, fault| Error { offset: offset as u64, fault };
    let at = payload.len().checked_sub(FOOTER_BYTES).ok_or(wrong(payload.len(), Fault::Truncated))?;
    let (body, footer) = payload.split_at(at);
    let (version, said) = footer.split_at(2);
    let version = u32::from(u16::from_le_bytes(version.try_into().expect("two bytes were split off")));
    if version > VERSION_MAX {
        return Err(wrong(at, Fault::Version { version, max: VERSION_MAX }));
    }
    let said = u64::from_le_bytes(said.try_into().expect("eight bytes are left of ten"));
    let is = crc64(&payload[..at + 2]);
    if said != 0 && said != is {
        return Err(wrong(at + 2, Fault::Checksum { said, is }));
    }
    Ok(body)
}

/// The kind of a payload's value, and the value if it is a string of at most `bytes_max`.
pub fn read_dump(payload: &[u8], bytes_max: u64) -> Result<(Kind, Value), Error> {
    let mut source = Source::new(check_dump(payload)?);
    let read = read_value(&mut source, bytes_max)?;
    if source.byte().is_ok() {
        return source.wrong(Fault::Trailing);
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by Redis 7.0.15.
    const DUMPED: [(&[u8], &[u8]); 3] = [
        (b"10", b"\x00\xc0\n\n\x00n\x9fWE\x0e\xaec\xbb"),
        (b"hello", b"\x00\x05hello\n\x00cr\xdfve4 \n"),
        (b"-70000", b"\x00\xc2\x90\xee\xfe\xff\n\x00(u\xde{\x13\xeb(\x00"),
    ];
    /// 100 times "abc".
    const COMPRESSED: &[u8] =
        b"\x00\xc3\x0eA,\x03abca\xe0\xff\x02\xe1\x15\x07\x01bc\n\x00\xd2W3\xce\xc0D\xe1+";
    const LIST: &[u8] =
        b"\x12\x01\x02\r\r\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff\n\x00h\xeb\n\x89\x13A\xbb\xb1";

    #[test]
    fn what_redis_dumped_is_read_and_written_alike() {
        for (value, payload) in DUMPED {
            assert_eq!(write_dump(value), payload);
            assert_eq!(read_dump(payload, 100).unwrap(), (Kind::String, Value::String(value.to_vec())));
        }
        let long = b"abc".repeat(100);
        assert_eq!(read_dump(COMPRESSED, 300).unwrap(), (Kind::String, Value::String(long.clone())));
        assert_eq!(read_dump(COMPRESSED, 299).unwrap(), (Kind::String, Value::TooLong { bytes: 300 }));
        assert_eq!(read_dump(&write_dump(&long), 300).unwrap(), (Kind::String, Value::String(long)));
        assert_eq!(read_dump(LIST, 300).unwrap(), (Kind::List, Value::Other));
    }

    #[test]
    fn every_flipped_bit_and_every_missing_byte_is_noticed() {
        let payload = write_dump(b"some value");
        for at in 0..payload.len() {
            assert!(read_dump(&payload[..at], 100).is_err());
            for bit in 0..8 {
                let mut flipped = payload.clone();
                flipped[at] ^= 1 << bit;
                assert!(read_dump(&flipped, 100).is_err());
            }
        }
    }
}
