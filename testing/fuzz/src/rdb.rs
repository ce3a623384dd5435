//! Dump files of Redis and payloads of `DUMP`.
//!
//! Promised:
//! - Reading goes on with every item and says where it stopped.
//! - Strings and keys beyond the requested size are reported and not held.
//! - Memory follows the bytes that have arrived.
//! - A string that was read is written as a payload that reads the same.
//!
//! A payload's checksum rejects random input, so the input is tried with a right checksum, too.

use crate::memory;
use ramhold_rdb::{File, Item, Kind, Value, crc64, read_dump, write_dump};

const KEY_BYTES_MAX: u64 = 64;
const VALUE_BYTES_MAX: u64 = 4096;
/// The output of LZF is held beside its input, and strings grow by doubling.
const HELD_MAX: usize = 64 * 1024;

pub fn run(input: &[u8]) {
    let ((), held) = memory::peak(|| items(input));
    assert!(held <= HELD_MAX + 2 * input.len(), "{held} bytes held for {}", input.len());
    let (read, held) = memory::peak(|| {
        let _ = read_dump(input, VALUE_BYTES_MAX);
        read_dump(&with_checksum(input), VALUE_BYTES_MAX)
    });
    assert!(held <= HELD_MAX + 3 * input.len(), "{held} bytes held for {}", input.len());
    if let Ok((kind, Value::String(value))) = read {
        assert!(value.len() as u64 <= VALUE_BYTES_MAX);
        let payload = write_dump(&value);
        assert_eq!(read_dump(&payload, VALUE_BYTES_MAX).ok(), Some((kind, Value::String(value))));
    }
}

fn items(input: &[u8]) {
    let Ok(mut file) = File::open(input, KEY_BYTES_MAX, VALUE_BYTES_MAX) else { return };
    let mut before = file.offset();
    loop {
        let next = file.next_item();
        let now = file.offset();
        assert!(now <= input.len() as u64);
        match next {
            Ok(None) => return,
            Err(error) => return assert!(error.offset <= input.len() as u64, "{error}"),
            Ok(Some(item)) => {
                assert!(now > before, "{item:?} took nothing");
                before = now;
                match item {
                    Item::Object { key, kind, value, .. } => {
                        assert!(key.len() as u64 <= KEY_BYTES_MAX);
                        let is_string = matches!(value, Value::String(_) | Value::TooLong { .. });
                        assert_eq!(is_string, kind == Kind::String, "{kind:?}");
                    }
                    Item::KeyTooLong { bytes, .. } => assert!(bytes > KEY_BYTES_MAX),
                    _ => {}
                }
            }
        }
    }
}

/// A payload ends with eight bytes of checksum.
fn with_checksum(input: &[u8]) -> Vec<u8> {
    let mut payload = input.to_vec();
    if let Some(end) = input.len().checked_sub(8) {
        let sum = crc64(&input[..end]);
        payload[end..].copy_from_slice(&sum.to_le_bytes());
    }
    payload
}
