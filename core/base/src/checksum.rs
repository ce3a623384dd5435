//! CRC32C, the checksum of entries, certificates, frames and disk records.
//!
//! There is one implementation for each level of `processor`; all give the same results.
//! - baseline: tables (`portable`).
//! - sse4.2: short runs take eight bytes a step, at any address; most entries and their parts are short. Long
//!   runs go to the library, which takes three parts at once; it looks for aligned words and takes the bytes
//!   around them one by one.
//! - avx512: the same as sse4.2.
//! - vpclmulqdq: long runs are folded by carry-less products (`folded`); short runs are as for sse4.2.
//!
//! On other architectures there is the library alone.
//!
//! The checksum of two runs, one behind the other, follows from their checksums and the length of the second
//! run. The first checksum is multiplied by x^(8 * length) modulo the polynomial. Tables of powers make that
//! one product per byte of the length.

#[cfg(target_arch = "x86_64")]
mod folded;
#[cfg(target_arch = "x86_64")]
mod portable;

#[cfg(target_arch = "x86_64")]
use crate::processor::Level;
use crate::processor::{self, Path};

/// From this length on, the library's three parts at once are faster than words one after the other.
#[cfg(target_arch = "x86_64")]
const LONG_BYTES: usize = 3 * 256;
/// The polynomial, reflected like all of these numbers: the lowest power is in the highest bit.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// x^0.
const ONE: u32 = 1 << 31;

/// CRC32C of `bytes`.
#[inline]
pub fn crc(bytes: &[u8]) -> u32 {
    crc_append(0, bytes)
}

/// The CRC32C of the bytes that `so_far` covers, followed by `bytes`.
#[inline]
pub fn crc_append(so_far: u32, bytes: &[u8]) -> u32 {
    append_on(processor::path(), so_far, bytes)
}

/// The CRC32C of two runs of bytes, one behind the other, from the checksum of each: `first` and `second`.
#[inline]
pub fn crc_joined(first: u32, second: u32, second_bytes: usize) -> u32 {
    joined_on(processor::path(), first, second, second_bytes)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn append_on(path: Path, so_far: u32, bytes: &[u8]) -> u32 {
    match path.level() {
        Level::Baseline => portable::crc_append(so_far, bytes),
        Level::Vpclmulqdq if bytes.len() >= folded::BYTES_MIN => {
            // SAFETY: a path of this level is the proof that the processor has the features that the function
            // is compiled for.
            #[expect(unsafe_code, reason = "two to six times as fast as the library for what entries have")]
            unsafe {
                folded::crc_append(so_far, bytes)
            }
        }
        Level::Sse42 | Level::Avx512 | Level::Vpclmulqdq if bytes.len() < LONG_BYTES => {
            // SAFETY: as above; all three levels have SSE 4.2.
            #[expect(unsafe_code, reason = "a library call for a few bytes costs more than the bytes")]
            unsafe {
                short(so_far, bytes)
            }
        }
        Level::Sse42 | Level::Avx512 | Level::Vpclmulqdq => crc32c::crc32c_append(so_far, bytes),
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn append_on(_: Path, so_far: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(so_far, bytes)
}

#[inline]
fn joined_on(path: Path, first: u32, second: u32, second_bytes: usize) -> u32 {
    // The library squares matrices, which takes microseconds. Only runs far longer than entries are beyond
    // the tables.
    if second_bytes >= 1 << (8 * POWERS.len()) {
        return crc32c::crc32c_combine(first, second, second_bytes);
    }
    moved_up_on(path, first, second_bytes) ^ second
}

/// The checksum of a run with `bytes` zero bytes behind it, from the checksum of the run.
#[cfg(target_arch = "x86_64")]
#[inline]
fn moved_up_on(path: Path, crc: u32, bytes: usize) -> u32 {
    match path.level() {
        Level::Baseline => moved_up_portably(crc, bytes),
        Level::Sse42 | Level::Avx512 | Level::Vpclmulqdq => {
            // SAFETY: a path of these levels is the proof that the processor has the features that the
            // function is compiled for.
            #[expect(unsafe_code, reason = "a tenth of the time without the instructions")]
            unsafe {
                moved_up(crc, bytes)
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn moved_up_on(_: Path, crc: u32, bytes: usize) -> u32 {
    moved_up_portably(crc, bytes)
}

fn moved_up_portably(crc: u32, bytes: usize) -> u32 {
    /// The instructions of `moved_up` multiply by this factor themselves, so `POWERS` lack it. x^32 modulo
    /// the polynomial is `POLYNOMIAL`.
    const X_TO_33: u32 = times(POLYNOMIAL, ONE >> 1);
    let (mut crc, mut rest) = (crc, bytes);
    for powers in &POWERS {
        crc = times(times(crc, powers[rest & 0xFF]), X_TO_33);
        rest >>= 8;
        if rest == 0 {
            break;
        }
    }
    crc
}

/// The same as `moved_up_portably`, with special instructions.
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
        // The instruction divides, and multiplies by x^32. The product of reflected numbers has a factor x of
        // its own.
        crc = _mm_crc32_u64(0, _mm_cvtsi128_si64(product).cast_unsigned()) as u32;
        rest >>= 8;
        if rest == 0 {
            break;
        }
    }
    crc
}

/// The product of two numbers modulo the polynomial.
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
        for path in Path::all_here() {
            assert_eq!(append_on(path, 0, b"123456789"), 0xE306_9283, "{path}");
            assert_eq!(append_on(path, append_on(path, 0, b"12345"), b"6789"), 0xE306_9283, "{path}");
            assert_eq!(append_on(path, 0, b""), 0, "{path}");
        }
    }

    #[test]
    fn every_length_at_every_place_is_as_the_library_has_it_on_every_path() {
        let mut rng = crate::Rng::new(7);
        let bytes: Vec<u8> = (0..2000).map(|_| rng.u64() as u8).collect();
        for from in 0..9 {
            for to in from..bytes.len() {
                let (part, so_far) = (&bytes[from..to], rng.u64() as u32);
                let expected = crc32c::crc32c_append(so_far, part);
                for path in Path::all_here() {
                    assert_eq!(append_on(path, so_far, part), expected, "{path}: {from}..{to}");
                }
            }
        }
    }

    #[test]
    fn long_runs_are_as_the_library_has_them_on_every_path() {
        let mut rng = crate::Rng::new(9);
        let bytes: Vec<u8> = (0..300_000).map(|_| rng.u64() as u8).collect();
        for _ in 0..500 {
            let from = rng.below(bytes.len() as u64) as usize;
            let part = &bytes[from..from + rng.below((bytes.len() - from) as u64 + 1) as usize];
            let so_far = rng.u64() as u32;
            let expected = crc32c::crc32c_append(so_far, part);
            for path in Path::all_here() {
                assert_eq!(append_on(path, so_far, part), expected, "{path}: {}", part.len());
            }
        }
    }

    #[test]
    fn the_checksum_of_two_runs_is_that_of_both_in_one_on_every_path() {
        let mut rng = crate::Rng::new(8);
        let bytes: Vec<u8> = (0..200_000).map(|_| rng.u64() as u8).collect();
        let lengths = (0..600).chain([65_535, 65_536, 65_537, 199_000]);
        for length in lengths {
            let first_bytes = rng.below(999) as usize;
            let (first, rest) = bytes.split_at(first_bytes);
            let second = &rest[..length];
            let both = crc(&bytes[..first_bytes + length]);
            for path in Path::all_here() {
                let joined = joined_on(path, crc(first), crc(second), length);
                assert_eq!(joined, both, "{path}: {first_bytes} and {length}");
            }
        }
        for length in [1, (1 << 24) - 1, 1 << 24, 1 << 30] {
            let (first, second) = (rng.u64() as u32, rng.u64() as u32);
            let expected = crc32c::crc32c_combine(first, second, length);
            for path in Path::all_here() {
                assert_eq!(joined_on(path, first, second, length), expected, "{path}: {length}");
            }
        }
    }
}
