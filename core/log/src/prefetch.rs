//! Has the memory of many look-ups fetched at once.
//!
//! A look-up of a random key misses the processor's caches twice: in its bucket, then in its entry. One after another
//! the misses are most of what an operation costs; but who knows of several look-ups in advance reads from all their
//! buckets first, then from all their entries, in loops so short that the processor has many misses under way.
//!
//! The bytes that are read have no meaning: reading ahead changes nothing, and no caller need do it. Measured in
//! docs/measurements/experiments.md, Redis front.

use crate::Reference;
use crate::log::Log;
use ramhold_base::{KeyHash, TableId};
use std::hint::black_box;

/// Look-ups whose memory is fetched together: as many as keep the processor busy, few enough to stay in its caches.
pub const PREFETCH_COUNT_MAX: usize = 64;

/// Begins to fetch the cache line where something starts, and does not wait for it.
#[inline]
pub(crate) fn fetch<T>(what: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // A load would have to be waited for.
        // SAFETY: fetching reads nothing and cannot fail; and the place is that of a reference.
        #[expect(unsafe_code, reason = "there is no other way to say it")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(what).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = what;
}

/// The same of all cache lines of some bytes.
#[inline]
pub(crate) fn fetch_all(bytes: &[u8]) {
    bytes.iter().step_by(64).for_each(fetch);
}

impl Log {
    /// Reads from where the objects of these keys lie, the first 64 of them.
    pub fn prefetch(&self, keys: &[(TableId, KeyHash)]) {
        let mut places = [0; PREFETCH_COUNT_MAX];
        let places = &mut places[..keys.len().min(PREFETCH_COUNT_MAX)];
        for (place, (table, hash)) in places.iter_mut().zip(keys) {
            *place = self.place(*table, *hash);
        }
        let places = &*places;
        black_box(places.iter().fold(0, |sum, place| sum ^ self.index.touch(*place)));
        black_box(places.iter().fold(0, |sum, place| sum ^ self.index.touch_next(*place)));
        // The entries in a loop of their own, too: while the processor waits for one it looks only so far ahead.
        let mut entries = [Reference(0); 2 * PREFETCH_COUNT_MAX];
        let mut count = 0;
        for place in places {
            self.index.find(*place, |at| -> Option<()> {
                if count < entries.len() {
                    entries[count] = at;
                    count += 1;
                }
                None
            });
        }
        black_box(entries[..count].iter().fold(0, |sum, at| sum ^ self.memory.touch(*at)));
    }
}
