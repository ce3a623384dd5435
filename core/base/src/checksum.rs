//! CRC32C, the checksum of entries, certificates, frames and disk records.
//!
//! What is short, as most entries and their parts are, is taken eight bytes a step wherever it begins; the library, which
//! looks for words that are aligned and takes the bytes around them one by one, is for what is long, in three at once.

/// From here on the library's three at once are faster.
#[cfg(target_arch = "x86_64")]
const LONG_BYTES: usize = 3 * 256;

/// CRC32C of `bytes`.
#[inline]
pub fn crc(bytes: &[u8]) -> u32 {
    crc_append(0, bytes)
}

/// The CRC32C of what `so_far` covers followed by `bytes`.
#[inline]
pub fn crc_append(so_far: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < LONG_BYTES && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has what the function is compiled for, as was asked just now.
        #[expect(unsafe_code, reason = "a library call for a few bytes costs more than the bytes")]
        return unsafe { short(so_far, bytes) };
    }
    crc32c::crc32c_append(so_far, bytes)
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse4.2")]
fn short(so_far: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let words =
        words.iter().fold(u64::from(!so_far), |crc, word| _mm_crc32_u64(crc, u64::from_le_bytes(*word)));
    let mut crc = words as u32;
    let mut rest = rest;
    if let Some((four, behind)) = rest.split_first_chunk::<4>() {
        crc = _mm_crc32_u32(crc, u32::from_le_bytes(*four));
        rest = behind;
    }
    if let Some((two, behind)) = rest.split_first_chunk::<2>() {
        crc = _mm_crc32_u16(crc, u16::from_le_bytes(*two));
        rest = behind;
    }
    if let Some(last) = rest.first() {
        crc = _mm_crc32_u8(crc, *last);
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_value_and_appending_agree() {
        assert_eq!(crc(b"123456789"), 0xE306_9283);
        assert_eq!(crc_append(crc(b"12345"), b"6789"), 0xE306_9283);
        assert_eq!(crc(b""), 0);
    }

    #[test]
    fn every_length_at_every_place_is_as_the_library_has_it() {
        let mut rng = crate::Rng::new(7);
        let bytes: Vec<u8> = (0..2000).map(|_| rng.u64() as u8).collect();
        for from in 0..9 {
            for to in from..bytes.len() {
                let (part, so_far) = (&bytes[from..to], rng.u64() as u32);
                assert_eq!(crc_append(so_far, part), crc32c::crc32c_append(so_far, part), "{from}..{to}");
            }
        }
    }
}
