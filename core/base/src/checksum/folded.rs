//! CRC32C by folding: 256 bytes a step, with the carry-less products of AVX-512.
//!
//! The bytes are a polynomial, and the checksum is its remainder. Bytes that others follow count as their own
//! polynomial times a power of x. Folding takes 16 bytes and computes, with two products, a remainder that is
//! 16 bytes long, too. It adds this remainder to the 16 bytes that lie a fixed distance behind. The bytes
//! that are left in the end, 16 for whole lines, have the checksum of all of them.
//!
//! Not here: shorter runs, and processors without these instructions (`checksum`). Source: Intel, "Fast CRC
//! Computation for Generic Polynomials Using PCLMULQDQ Instruction".

use super::{ONE, short, times};
use std::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_crc32_u64, _mm_cvtsi32_si128, _mm_cvtsi128_si64, _mm_extract_epi64,
    _mm_prefetch, _mm_xor_si128, _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_xor_si256,
    _mm512_castsi512_si256, _mm512_clmulepi64_epi128, _mm512_extracti64x4_epi64, _mm512_loadu_si512,
    _mm512_maskz_mov_epi64, _mm512_set_epi64, _mm512_setzero_si512, _mm512_ternarylogic_epi64,
    _mm512_xor_si512, _mm512_zextsi128_si512,
};

const LINE_BYTES: usize = 64;
/// Lines that are folded side by side: the products of one line need not wait for those of another.
const LINE_COUNT: usize = 4;
/// How far lines are fetched ahead.
const AHEAD_BYTES: usize = 2048;
/// A shorter run has no step to fold.
pub(super) const BYTES_MIN: usize = LINE_COUNT * LINE_BYTES;

/// The CRC32C of the bytes that `so_far` covers, followed by `bytes`, which are at least `BYTES_MIN`.
#[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
pub(super) fn crc_append(so_far: u32, bytes: &[u8]) -> u32 {
    let (lines, rest) = bytes.as_chunks::<LINE_BYTES>();
    let (steps, lines) = lines.as_chunks::<LINE_COUNT>();
    let ([a, b, c, d], steps) = steps.split_first().expect("there is a step at least");
    let so_far = _mm512_zextsi128_si512(_mm_cvtsi32_si128((!so_far).cast_signed()));
    let mut ends = [_mm512_xor_si512(load(a), so_far), load(b), load(c), load(d)];
    for step in steps {
        fetch(step);
        for (end, line) in ends.iter_mut().zip(step) {
            *end = folded(*end, alike(const { powers(4 * LINE_BYTES) }), load(line));
        }
    }
    let [a, b, c, d] = ends;
    let nothing = _mm512_setzero_si512();
    let a = folded(a, alike(const { powers(3 * LINE_BYTES) }), nothing);
    let b = folded(b, alike(const { powers(2 * LINE_BYTES) }), nothing);
    let mut end = _mm512_ternarylogic_epi64::<XOR>(a, b, folded(c, alike(const { powers(LINE_BYTES) }), d));
    for line in lines {
        end = folded(end, alike(const { powers(LINE_BYTES) }), load(line));
    }
    short(!remainder(end), rest)
}

/// Prefetches lines that are needed some steps later: the processor's own prefetching does not look beyond a
/// page.
#[inline]
#[target_feature(enable = "sse4.2")]
fn fetch(step: &[[u8; LINE_BYTES]; LINE_COUNT]) {
    for line in step {
        let later = line.as_ptr().wrapping_add(AHEAD_BYTES);
        // Nothing is read, so an address without memory behind it does no harm.
        _mm_prefetch::<_MM_HINT_T0>(later.cast());
    }
}

/// The remainder of a line of bytes, without the inversions at the beginning and the end of a checksum.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
fn remainder(line: __m512i) -> u32 {
    let [[a, b], [c, d], [e, f]] = const { [powers(48), powers(32), powers(16)] };
    let last = _mm512_maskz_mov_epi64(0b1100_0000, line);
    let parts = folded(line, _mm512_set_epi64(0, 0, f, e, d, c, b, a), last);
    let half = _mm256_xor_si256(_mm512_castsi512_si256(parts), _mm512_extracti64x4_epi64::<1>(parts));
    let part = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
    let first = _mm_crc32_u64(0, _mm_cvtsi128_si64(part).cast_unsigned());
    _mm_crc32_u64(first, _mm_extract_epi64::<1>(part).cast_unsigned()) as u32
}

/// `onto` plus the remainder of an earlier line: of each 16 bytes, the first eight and the last eight times
/// their power.
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn folded(line: __m512i, powers: __m512i, onto: __m512i) -> __m512i {
    let first = _mm512_clmulepi64_epi128::<0x00>(line, powers);
    let second = _mm512_clmulepi64_epi128::<0x11>(line, powers);
    _mm512_ternarylogic_epi64::<XOR>(first, second, onto)
}

/// The truth table of the exclusive or of three operands.
const XOR: i32 = 0x96;

#[inline]
#[target_feature(enable = "avx512f")]
fn load(line: &[u8; LINE_BYTES]) -> __m512i {
    // SAFETY: only the bytes of the array are read, and they may lie at any address.
    #[expect(unsafe_code, reason = "there is no other way to say it")]
    unsafe {
        _mm512_loadu_si512(line.as_ptr().cast())
    }
}

/// Two powers for each 16 bytes of a line.
#[inline]
#[target_feature(enable = "avx512f")]
fn alike([first, second]: [i64; 2]) -> __m512i {
    _mm512_set_epi64(second, first, second, first, second, first, second, first)
}

/// The factors for the first and the last eight of 16 bytes that `bytes` more bytes follow: x^(8 * bytes +
/// 64) and x^(8 * bytes), both modulo the polynomial. Both powers are lower by 32 here: a product of
/// reflected numbers has a factor x of its own, and the number stands 31 bits above the lowest power that a
/// factor has.
const fn powers(bytes: usize) -> [i64; 2] {
    let mut first = ONE;
    let mut bit = 0;
    let mut of_others = ONE;
    while bit < 8 * bytes + 32 {
        if bit == 8 * bytes - 32 {
            of_others = first;
        }
        first = times(first, ONE >> 1);
        bit += 1;
    }
    [(first as i64) << 1, (of_others as i64) << 1]
}
