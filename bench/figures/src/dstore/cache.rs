//! The part of a brick's values and stamps that is in memory.
//!
//! The paper *induces* a hit rate: clients choose keys of a working set that fits into the file cache with a probability,
//! and else keys that surely do not. A file cache that is *filled* has what was read or written last, so a brick that holds
//! half as much has more of it.
//!
//! The stamps of all keys are in a table. A brick that was killed keeps its file cache, and has lost that table: it is
//! loaded again before the start, or *incrementally*, each stamp when it is asked for. This is a model: the product has
//! everything in memory before it serves.

use super::shelf::Key;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Files {
    /// The keys below this are in the cache.
    Induced(Key),
    /// So many keys fit. Which ones do, and the order in which they came; those that were used since get another round.
    Filled { room: usize, cached: Vec<bool>, used: Vec<bool>, order: VecDeque<Key> },
}

#[derive(Clone, Debug)]
pub struct Cache {
    files: Files,
    /// Keys whose stamps are in the table. None: all.
    loaded: Option<Vec<bool>>,
}

impl Cache {
    pub fn induced(working: Key) -> Cache {
        Cache { files: Files::Induced(working), loaded: None }
    }

    /// A cache with room for so many of `count` keys. The first ones are there.
    pub fn filled(count: u32, room: u32) -> Cache {
        let used = vec![false; count as usize];
        let cached = (0..count).map(|key| key < room).collect();
        Cache {
            files: Files::Filled { room: room as usize, cached, used, order: (0..room).collect() },
            loaded: None,
        }
    }

    /// The table of stamps is empty: stamps are loaded one by one.
    pub fn lose_stamps(&mut self, count: u32) {
        self.loaded = Some(vec![false; count as usize]);
    }

    pub fn has_value(&mut self, key: Key) -> bool {
        let is_cached = match &mut self.files {
            Files::Induced(working) => key < *working,
            Files::Filled { cached, used, .. } => {
                used[key as usize] = true;
                cached[key as usize]
            }
        };
        if is_cached {
            self.note_stamp(key);
        }
        is_cached
    }

    fn is_loaded(&self, key: Key) -> bool {
        self.loaded.as_ref().is_none_or(|loaded| loaded[key as usize])
    }

    /// Whether a stamp is not in the table, but its value is in the file cache.
    pub fn must_derive_stamp(&self, key: Key) -> bool {
        !self.is_loaded(key)
            && match &self.files {
                Files::Induced(working) => key < *working,
                Files::Filled { cached, .. } => cached[key as usize],
            }
    }

    pub fn has_stamp(&mut self, key: Key) -> bool {
        self.is_loaded(key) || self.has_value(key)
    }

    fn note_stamp(&mut self, key: Key) {
        if let Some(loaded) = &mut self.loaded {
            loaded[key as usize] = true;
        }
    }

    /// A value was read from the medium, for itself or for its stamp alone.
    pub fn read(&mut self, key: Key) {
        self.note_stamp(key);
        self.enter(key);
    }

    pub fn written(&mut self, key: Key) {
        self.note_stamp(key);
        self.enter(key);
    }

    fn enter(&mut self, key: Key) {
        let Files::Filled { room, cached, used, order } = &mut self.files else { return };
        if std::mem::replace(&mut cached[key as usize], true) {
            return;
        }
        used[key as usize] = true;
        order.push_back(key);
        while order.len() > *room {
            let Some(oldest) = order.pop_front() else { return };
            if std::mem::take(&mut used[oldest as usize]) {
                order.push_back(oldest);
            } else {
                cached[oldest as usize] = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I6
    #[test]
    fn stamps_are_loaded_one_by_one_and_values_leave_a_full_cache() {
        let mut cache = Cache::induced(10);
        assert!(cache.has_value(9) && !cache.has_value(10) && cache.has_stamp(10));
        cache.lose_stamps(20);
        assert!(cache.must_derive_stamp(9) && !cache.must_derive_stamp(10) && !cache.has_stamp(10));
        cache.read(10);
        assert!(cache.has_stamp(10) && !cache.has_value(10), "the working set is the paper's");
        assert!(cache.has_stamp(9) && !cache.must_derive_stamp(9));
        let mut cache = Cache::filled(10, 3);
        assert!((0..3).all(|key| cache.has_value(key)));
        cache.read(3);
        assert!(cache.has_value(3));
        assert_eq!((0..4).filter(|key| cache.has_value(*key)).count(), 3);
    }
}
