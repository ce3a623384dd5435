//! Keys and values by the numbers of objects.

use super::plan::Load;
use ramhold_base::Rng;

/// Among so many beginnings each object has one.
const OFFSET_COUNT: usize = 4096;

/// The values to write: random bytes, the same for an object each time, so that values differ, cannot be compressed, and
/// can be compared with those that are read.
pub struct Values {
    material: Vec<u8>,
    bytes: usize,
}

impl Values {
    pub fn new(load: &Load) -> Values {
        let mut rng = Rng::new(load.seed);
        let words = (load.value_bytes + OFFSET_COUNT).div_ceil(8);
        let material = (0..words).flat_map(|_| rng.u64().to_le_bytes()).collect();
        Values { material, bytes: load.value_bytes }
    }

    pub fn of(&self, object: u64) -> &[u8] {
        // Any fixed choice among the offsets is good enough.
        let start = (object.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize;
        &self.material[start..start + self.bytes]
    }
}

/// The number in decimal with zeros in front.
pub fn key(object: u64, bytes: usize) -> Vec<u8> {
    let mut key = vec![b'0'; bytes];
    let mut rest = object;
    for digit in key.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    if rest > 0 { object.to_string().into_bytes() } else { key }
}

/// The shortest keys that tell all objects apart.
pub fn key_bytes_min(objects: u64) -> usize {
    (objects - 1).to_string().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_wanted_length_and_differ() {
        assert_eq!(key(7, 4), b"0007");
        assert_eq!(key(1_234_567, 4), b"1234567");
        assert_eq!(key(u64::MAX, 20), u64::MAX.to_string().as_bytes());
        for objects in [1, 10, 11, 100_000] {
            assert_eq!(key(objects - 1, key_bytes_min(objects)).len(), key_bytes_min(objects));
        }
        assert_eq!(key_bytes_min(10), 1);
        assert_eq!(key_bytes_min(11), 2);
    }
}
