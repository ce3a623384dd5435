//! The theory: the bytes that cleaning must copy when the keys of overwrites are uniform.
//!
//! Every overwrite kills one entry of the log, each with the same probability. So a segment that was full
//! when it was written has a live share of `a = exp(-t)` after `t` overwrites per live entry. If segments are
//! cleaned in order of age, the log holds segments of all ages up to the age at which they are cleaned, and
//! its mean utilisation is `u = (1 - a) / -ln a`. Freeing the share `1 - a` of a segment copies the share
//! `a`: `a / (1 - a)` bytes per new byte.
//!
//! Source: Rosenblum and Ousterhout, SOSP 1991, 3.4-3.6. The closed form is that of uniform overwrites in age
//! order.

/// Bytes copied per new byte when live entries take the part `utilisation` of the memory in use.
/// Infinite when they take all of it.
pub fn copied_per_new_byte(utilisation: f64) -> f64 {
    if utilisation >= 1.0 {
        return f64::INFINITY;
    }
    let alive = alive_when_cleaned(utilisation);
    alive / (1.0 - alive)
}

/// The part of a segment that lives when its turn comes. Solved by halving: `u` grows with `a`.
fn alive_when_cleaned(utilisation: f64) -> f64 {
    let (mut low, mut high) = (0.0f64, 1.0f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if (1.0 - middle) / -middle.ln() < utilisation {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of whole segments with uniform overwrites, cleaned in age order: what the formula is about.
    fn simulated(utilisation: f64) -> f64 {
        const SEGMENT: usize = 512;
        const SEGMENTS: usize = 200;
        let objects = (utilisation * (SEGMENT * SEGMENTS) as f64) as usize;
        let mut rng = ramhold_base::Rng::new(5);
        let mut place = vec![u64::MAX; objects];
        let mut log = std::collections::VecDeque::new();
        let (mut end, mut copied, mut written) = (0u64, 0u64, 0u64);
        let mut next = 0;
        while written < 12 * objects as u64 {
            if written == 6 * objects as u64 {
                copied = 0;
            }
            while log.len() >= SEGMENT * (SEGMENTS - 1) {
                for _ in 0..SEGMENT {
                    let (object, at): (usize, u64) = log.pop_front().unwrap();
                    if place[object] == at {
                        place[object] = end;
                        log.push_back((object, end));
                        (end, copied) = (end + 1, copied + 1);
                    }
                }
            }
            let object = if next < objects { next } else { rng.below(objects as u64) as usize };
            next += 1;
            place[object] = end;
            log.push_back((object, end));
            (end, written) = (end + 1, written + 1);
        }
        copied as f64 / (6 * objects) as f64
    }

    #[test]
    fn the_formula_says_what_a_simulated_log_does() {
        for utilisation in [0.5, 0.7, 0.8, 0.9] {
            let (predicted, seen) = (copied_per_new_byte(utilisation), simulated(utilisation));
            assert!((predicted / seen - 1.0).abs() < 0.1, "{utilisation}: {predicted} and {seen}");
        }
    }

    #[test]
    fn it_grows_from_nothing_without_bound() {
        assert!(copied_per_new_byte(0.01) < 1e-6);
        assert!(copied_per_new_byte(0.9) < copied_per_new_byte(0.95));
        assert_eq!(copied_per_new_byte(1.0), f64::INFINITY);
    }
}
