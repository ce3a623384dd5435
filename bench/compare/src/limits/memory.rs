//! Memory: a copy of much, and reads of little at random places.
//!
//! Places are cache lines, and each names the next one: the processor can neither guess nor fetch ahead. With
//! several chains at once it waits for several lines at a time, as a server does that looks ahead.
//! The pages are the system's usual ones, as a server's are, so the reads include translations of addresses.

use ramhold_base::Rng;
use std::hint::black_box;
use std::time::Instant;

const COPIED_BYTES: usize = 256 << 20;
const CHUNK_BYTES: usize = 1 << 20;
const COPIES: usize = 5;
const LINE_BYTES: u64 = 64;
const WORDS: usize = LINE_BYTES as usize / 8;
const READS: u32 = 4_000_000;
/// Chains that are followed at once.
pub const CHAINS: usize = 8;

pub fn copy_gigabytes_per_second() -> f64 {
    let from = vec![1u8; COPIED_BYTES];
    let mut to = vec![2u8; COPIED_BYTES];
    let mut seconds: Vec<f64> = Vec::new();
    for _ in 0..COPIES {
        let began = Instant::now();
        for (to, from) in to.chunks_mut(CHUNK_BYTES).zip(from.chunks(CHUNK_BYTES)) {
            to.copy_from_slice(black_box(from));
        }
        black_box(&mut to);
        seconds.push(began.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    COPIED_BYTES as f64 / seconds[COPIES / 2] / 1e9
}

/// Nanoseconds for one line.
#[derive(Clone, Copy, Debug)]
pub struct Reads {
    /// When the place of each read is known only after the read before it.
    pub dependent_nanos: f64,
    /// When several chains are followed at once.
    pub together_nanos: f64,
}

pub fn random_reads(bytes: u64) -> Reads {
    let ring = ring(bytes / LINE_BYTES, &mut Rng::new(1));
    let lines = ring.len() / WORDS;
    let dependent_nanos = nanos(READS, || {
        let mut at = 0;
        for _ in 0..READS {
            at = next(&ring, at);
        }
        black_box(at);
    });
    let rounds = READS / CHAINS as u32;
    let together_nanos = nanos(rounds * CHAINS as u32, || {
        // All are on one ring, far apart on average.
        let mut at: [usize; CHAINS] = std::array::from_fn(|chain| chain * lines / CHAINS);
        for _ in 0..rounds {
            at = at.map(|at| next(&ring, at));
        }
        black_box(at);
    });
    Reads { dependent_nanos, together_nanos }
}

/// Lines whose first words lead through all of them, in one ring (Sattolo's way).
fn ring(lines: u64, rng: &mut Rng) -> Vec<u64> {
    let mut ring = vec![0; lines as usize * WORDS];
    (0..lines).for_each(|line| ring[line as usize * WORDS] = line);
    for line in (1..lines).rev() {
        let other = rng.below(line);
        ring.swap(line as usize * WORDS, other as usize * WORDS);
    }
    ring
}

fn next(ring: &[u64], line: usize) -> usize {
    ring[line * WORDS] as usize
}

fn nanos(count: u32, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1e9 / f64::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    // E2
    #[test]
    fn one_ring_leads_through_all_lines() {
        for lines in [1, 2, 3, 1000] {
            let ring = ring(lines, &mut Rng::new(lines));
            let mut at = 0;
            for step in 1..=lines {
                at = next(&ring, at);
                assert_eq!(at == 0, step == lines, "{lines} lines, step {step}");
            }
        }
    }
}
