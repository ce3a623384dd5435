//! Frames of the native protocol.
//!
//! Promised:
//! - The prefix tells the length. It is the same however much more has arrived, and never beyond the limit.
//! - Bytes that are no frame are refused as soon as the length would be known.
//! - A frame that was read can be written, and the written bytes read as the same frame.
//!
//! The checksum rejects random input, so the input is tried with a right checksum, too.

use ramhold_base::checksum::{crc, crc_append};
use ramhold_wire::frame;

const CHECKSUM_AT: usize = 16;
const CHECKSUM_END: usize = 20;

pub fn run(input: &[u8]) {
    check(input);
    if let Ok(Some(length)) = frame::length(input)
        && let Some(whole) = input.get(..length)
    {
        let before = crc(&whole[..CHECKSUM_AT]);
        let sum = crc_append(crc_append(before, &[0; 4]), &whole[CHECKSUM_END..]);
        let mut right = whole.to_vec();
        right[CHECKSUM_AT..CHECKSUM_END].copy_from_slice(&sum.to_le_bytes());
        check(&right);
    }
}

fn check(input: &[u8]) {
    let whole = frame::length(input);
    for end in 0..input.len().min(frame::HEADER_BYTES + 1) {
        match (frame::length(&input[..end]), &whole) {
            (Ok(None), _) => {}
            (early, whole) => assert_eq!(early, *whole, "after {end} bytes"),
        }
    }
    if let Ok(Some(length)) = whole {
        assert!(length <= frame::FRAME_BYTES_MAX, "{length}");
    }
    if let Ok((header, body)) = frame::parse(input) {
        let mut again = Vec::new();
        frame::write(&mut again, &header, |out| out.extend_from_slice(body));
        assert_eq!(frame::parse(&again), Ok((header, body)));
    }
}
