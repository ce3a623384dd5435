//! Copies bytes to where nobody reads them soon, past the processor's caches.
//!
//! A line of memory that is written as usual is read first, and stays in the caches until something else needs the room. Of
//! a line that is written whole and past them nothing is read: of three lines that a copy moves, one less. Who reads what
//! was copied waits for memory, so this is for what is looked at much later, or by others.
//!
//! Measured in docs/performance.md.

/// What is shorter has too few whole lines.
#[cfg(target_arch = "x86_64")]
const BYTES_MIN: usize = 1024;

/// As `copy_from_slice`: panics when the lengths differ.
#[inline]
pub fn copy_past_caches(to: &mut [u8], from: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if from.len() >= BYTES_MIN && std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has what the function is compiled for, as was asked just now.
        #[expect(unsafe_code, reason = "a quarter less time for a copy")]
        return unsafe { in_lines(to, from) };
    }
    to.copy_from_slice(from);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn in_lines(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{_mm_sfence, _mm512_loadu_si512, _mm512_stream_si512};
    const LINE_BYTES: usize = 64;
    assert_eq!(to.len(), from.len());
    let before = to.as_ptr().align_offset(LINE_BYTES).min(to.len());
    let (to_before, to) = to.split_at_mut(before);
    let (from_before, from) = from.split_at(before);
    to_before.copy_from_slice(from_before);
    let (to_lines, to_behind) = to.as_chunks_mut::<LINE_BYTES>();
    let (from_lines, from_behind) = from.as_chunks::<LINE_BYTES>();
    assert!(to_lines.is_empty() || to_lines.as_ptr().addr().is_multiple_of(LINE_BYTES));
    for (to, from) in to_lines.iter_mut().zip(from_lines) {
        // SAFETY: both are arrays of as many bytes as are read and written, and `to` begins where a line does, as the first
        // does. Before the fence others may see what is written behind it and not this; it comes before anybody else can
        // have the slice.
        #[expect(unsafe_code, reason = "there is no other way to say it")]
        unsafe {
            _mm512_stream_si512(to.as_mut_ptr().cast(), _mm512_loadu_si512(from.as_ptr().cast()));
        }
    }
    to_behind.copy_from_slice(from_behind);
    _mm_sfence();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    /// Whatever lengths and places: the same bytes are written as by a plain copy, and none beside them.
    #[test]
    fn exactly_what_is_copied_is_written() {
        let mut rng = Rng::new(3);
        let source: Vec<u8> = (0..10_000).map(|_| rng.u64() as u8).collect();
        let mut copied = vec![0; source.len()];
        let mut expected = copied.clone();
        for round in 0..20_000 {
            let bytes = rng.below(if round % 2 == 0 { 300 } else { 9000 }) as usize;
            let [from, to] = [0; 2].map(|_| rng.below((source.len() - bytes) as u64 + 1) as usize);
            copy_past_caches(&mut copied[to..to + bytes], &source[from..from + bytes]);
            expected[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
            assert!(copied == expected, "{bytes} from {from} to {to}");
        }
    }

    #[test]
    #[should_panic(expected = "left == right")]
    fn lengths_that_differ_are_refused() {
        copy_past_caches(&mut [0; 2000], &[0; 2001]);
    }
}
