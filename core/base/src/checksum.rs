//! CRC32C, the checksum of entries, certificates, frames and disk records.
//!
//! What is short, as most entries and their parts are, is taken eight bytes a step wherever it begins; what is longer is
//! folded by carry-less products (`folded`) where the processor has them for 64 bytes at once. Where it has not, the
//! library takes what is long in three at once; it looks for words that are aligned and takes the bytes around them one by
//! one.
//! Of two runs whose checksums are known that of both is worked out from the two and the second's length: the first is
//! multiplied by x^(8 * length) modulo the polynomial, which tables of powers make one product per byte of the length.

#[cfg(target_arch = "x86_64")]
mod folded;

/// From here on the library's three at once are faster than words one after the other.
#[cfg(target_arch = "x86_64")]
const LONG_BYTES: usize = 3 * 256;
/// The polynomial, reflected as all of these numbers are: the lowest power in the highest bit.
#[cfg(target_arch = "x86_64")]
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// x^0.
#[cfg(target_arch = "x86_64")]
const ONE: u32 = 1 << 31;

/// CRC32C of `bytes`.
#[inline]
pub fn crc(bytes: &[u8]) -> u32 {
    crc_append(0, bytes)
}

/// The CRC32C of what `so_far` covers followed by `bytes`.
#[inline]
pub fn crc_append(so_far: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= folded::BYTES_MIN && folded::is_here() {
        // SAFETY: the processor has what the function is compiled for, as was asked just now.
        #[expect(unsafe_code, reason = "two to six times as fast as the library for what entries have")]
        return unsafe { folded::crc_append(so_far, bytes) };
    }
    unfolded(so_far, bytes)
}

/// The same, on any processor.
#[inline]
fn unfolded(so_far: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < LONG_BYTES && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has what the function is compiled for, as was asked just now.
        #[expect(unsafe_code, reason = "a library call for a few bytes costs more than the bytes")]
        return unsafe { short(so_far, bytes) };
    }
    crc32c::crc32c_append(so_far, bytes)
}

/// The CRC32C of two runs of bytes, one behind the other: of the first it is `first`, of the other `second`.
#[inline]
pub fn crc_joined(first: u32, second: u32, second_bytes: usize) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if second_bytes < 1 << (8 * POWERS.len())
        && std::arch::is_x86_feature_detected!("sse4.2")
        && std::arch::is_x86_feature_detected!("pclmulqdq")
    {
        // SAFETY: the processor has what the function is compiled for, as was asked just now.
        #[expect(unsafe_code, reason = "the library squares matrices, which is for runs longer than entries")]
        let moved = unsafe { moved_up(first, second_bytes) };
        return moved ^ second;
    }
    crc32c::crc32c_combine(first, second, second_bytes)
}

/// What a checksum becomes when so many zero bytes follow.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn moved_up(crc: u32, bytes: usize) -> u32 {
    use std::arch::x86_64::{_mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64};
    let (mut crc, mut rest) = (crc, bytes);
    for powers in &POWERS {
        let power = powers[rest & 0xFF];
        let product =
            _mm_clmulepi64_si128::<0>(_mm_cvtsi64_si128(i64::from(crc)), _mm_cvtsi64_si128(i64::from(power)));
        // The instruction divides, and multiplies by x^32; the product of reflected numbers has an x of its own.
        crc = _mm_crc32_u64(0, _mm_cvtsi128_si64(product).cast_unsigned()) as u32;
        rest >>= 8;
        if rest == 0 {
            break;
        }
    }
    crc
}

/// The product of two numbers modulo the polynomial.
#[cfg(target_arch = "x86_64")]
const fn times(a: u32, b: u32) -> u32 {
    let (mut sum, mut a, mut bit) = (0, a, ONE);
    while bit > 0 {
        if b & bit != 0 {
            sum ^= a;
        }
        a = a >> 1 ^ if a & 1 == 1 { POLYNOMIAL } else { 0 };
        bit >>= 1;
    }
    sum
}

/// x^(8 * 256^table * place - 33) modulo the polynomial.
#[cfg(target_arch = "x86_64")]
static POWERS: [[u32; 256]; 3] = {
    let (mut first, mut step) = (ONE, 0);
    while step < 33 {
        // Divided by x.
        first = if first & ONE == 0 { first << 1 } else { (first ^ POLYNOMIAL) << 1 | 1 };
        step += 1;
    }
    let mut unit = ONE >> 8;
    let mut tables = [[first; 256]; 3];
    let mut table = 0;
    while table < 3 {
        let mut place = 1;
        while place < 256 {
            tables[table][place] = times(tables[table][place - 1], unit);
            place += 1;
        }
        let mut doubling = 0;
        while doubling < 8 {
            unit = times(unit, unit);
            doubling += 1;
        }
        table += 1;
    }
    tables
};

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
                let expected = crc32c::crc32c_append(so_far, part);
                assert_eq!(crc_append(so_far, part), expected, "{from}..{to}");
                assert_eq!(unfolded(so_far, part), expected, "{from}..{to}");
            }
        }
    }

    #[test]
    fn long_runs_are_as_the_library_has_them() {
        let mut rng = crate::Rng::new(9);
        let bytes: Vec<u8> = (0..300_000).map(|_| rng.u64() as u8).collect();
        for _ in 0..500 {
            let from = rng.below(bytes.len() as u64) as usize;
            let part = &bytes[from..from + rng.below((bytes.len() - from) as u64 + 1) as usize];
            let so_far = rng.u64() as u32;
            assert_eq!(crc_append(so_far, part), crc32c::crc32c_append(so_far, part), "{}", part.len());
        }
    }

    #[test]
    fn the_checksum_of_two_runs_is_that_of_both_in_one() {
        let mut rng = crate::Rng::new(8);
        let bytes: Vec<u8> = (0..200_000).map(|_| rng.u64() as u8).collect();
        let lengths = (0..600).chain([65_535, 65_536, 65_537, 199_000]);
        for length in lengths {
            let first_bytes = rng.below(999) as usize;
            let (first, rest) = bytes.split_at(first_bytes);
            let second = &rest[..length];
            let both = crc(&bytes[..first_bytes + length]);
            assert_eq!(crc_joined(crc(first), crc(second), length), both, "{first_bytes} and {length}");
        }
        for length in [1, (1 << 24) - 1, 1 << 24, 1 << 30] {
            let (first, second) = (rng.u64() as u32, rng.u64() as u32);
            assert_eq!(crc_joined(first, second, length), crc32c::crc32c_combine(first, second, length));
        }
    }
}
