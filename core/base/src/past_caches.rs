//! Copies bytes past the processor's caches, to memory that nobody reads soon.
//!
//! A usual write reads its line of memory first, and the line stays in the caches until its room is needed. A
//! write of a whole line past the caches reads nothing, so a copy moves two lines instead of three. The
//! reader of such a copy waits for memory. Use it for bytes that are read much later, or by another process.
//!
//! Measured in docs/measurements/experiments.md, Recovery and Replay.

use crate::processor::{self, Path};

/// Shorter copies have too few whole lines.
#[cfg(target_arch = "x86_64")]
const BYTES_MIN: usize = 1024;

/// Copies like `copy_from_slice`: it panics when the lengths differ, on every path in the same way.
#[inline]
pub fn copy_past_caches(to: &mut [u8], from: &[u8]) {
    copy_on(processor::path(), to, from);
}

#[inline]
fn copy_on(path: Path, to: &mut [u8], from: &[u8]) {
    let (to_bytes, from_bytes) = (to.len(), from.len());
    assert!(to_bytes == from_bytes, "cannot copy {from_bytes} bytes into a slice of {to_bytes}");
    #[cfg(target_arch = "x86_64")]
    {
        use crate::processor::Level;
        match path.level() {
            Level::Avx512 | Level::Vpclmulqdq if from_bytes >= BYTES_MIN => {
                // SAFETY: a path of these levels is the proof that the processor has the features that the
                // function is compiled for.
                #[expect(unsafe_code, reason = "a quarter less time for a copy")]
                unsafe {
                    in_lines(to, from);
                }
            }
            Level::Baseline | Level::Sse42 | Level::Avx512 | Level::Vpclmulqdq => to.copy_from_slice(from),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = path;
        to.copy_from_slice(from);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn in_lines(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{_mm_sfence, _mm512_loadu_si512, _mm512_stream_si512};
    const LINE_BYTES: usize = 64;
    let before = to.as_ptr().align_offset(LINE_BYTES).min(to.len());
    let (to_before, to) = to.split_at_mut(before);
    let (from_before, from) = from.split_at(before);
    to_before.copy_from_slice(from_before);
    let (to_lines, to_behind) = to.as_chunks_mut::<LINE_BYTES>();
    let (from_lines, from_behind) = from.as_chunks::<LINE_BYTES>();
    assert!(to_lines.is_empty() || to_lines.as_ptr().addr().is_multiple_of(LINE_BYTES));
    for (to, from) in to_lines.iter_mut().zip(from_lines) {
        // SAFETY: both are arrays of as many bytes as are read and written, and `to` begins at the start of a
        // line, as the first line does. Before the fence others may see later writes without this one. The
        // fence comes before anybody else can have the slice.
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

    /// A copy writes the same bytes as a plain copy, and no others, for all lengths and places.
    #[test]
    fn exactly_what_is_copied_is_written_on_every_path() {
        for path in Path::all_here() {
            let mut rng = Rng::new(3);
            let source: Vec<u8> = (0..10_000).map(|_| rng.u64() as u8).collect();
            let mut copied = vec![0; source.len()];
            let mut expected = copied.clone();
            for round in 0..20_000 {
                let bytes = rng.below(if round % 2 == 0 { 300 } else { 9000 }) as usize;
                let [from, to] = [0; 2].map(|_| rng.below((source.len() - bytes) as u64 + 1) as usize);
                copy_on(path, &mut copied[to..to + bytes], &source[from..from + bytes]);
                expected[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
                assert!(copied == expected, "{path}: {bytes} from {from} to {to}");
            }
        }
    }

    #[test]
    fn lengths_that_differ_are_refused_on_every_path_in_the_same_words() {
        for path in Path::all_here() {
            for (to, from) in [(2000, 2001), (2001, 2000), (10, 11), (0, 1)] {
                let copy = || copy_on(path, &mut vec![0; to], &vec![0; from]);
                let panic = std::panic::catch_unwind(copy).expect_err("lengths differ");
                let text = panic.downcast_ref::<String>().expect("a message with numbers");
                let expected = format!("cannot copy {from} bytes into a slice of {to}");
                assert_eq!(*text, expected, "{path}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "cannot copy 2001 bytes into a slice of 2000")]
    fn lengths_that_differ_are_refused() {
        copy_past_caches(&mut [0; 2000], &[0; 2001]);
    }
}
