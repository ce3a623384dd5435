//! The memory of a made-up brick: one key, everything that was ever stored, and what is on the device.

use ramhold_quorum::{Applied, NoRoom, Shelf, Stamp, Stored, Ticket};

/// The only key.
pub const KEY: u8 = 1;

#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// All that was stored, in order, with its time in microseconds.
    stored: Vec<(u64, Stamp, Option<u64>)>,
    applied: Applied<u8>,
    /// The time of the step that goes on.
    pub now: u64,
    /// Answers wait for the device.
    is_synced: bool,
}

impl Memory {
    pub fn new(is_synced: bool) -> Memory {
        Memory { is_synced, ..Memory::default() }
    }

    /// Forgets all that was stored after this.
    pub fn lose_after(&mut self, time: u64) {
        self.stored.retain(|(at, ..)| *at <= time);
        let mut applied = Applied::default();
        for (_, stamp, _) in &self.stored {
            applied.note(&KEY, *stamp);
        }
        applied.forget(self.applied.bound());
        self.applied = applied;
    }

    /// Nothing is left but this, and nothing is known of stamps up to the bound.
    pub fn become_rebuilt(&mut self, newest: (Stamp, Option<u64>), bound: u64) {
        self.stored = vec![(self.now, newest.0, newest.1)];
        self.applied = Applied::default();
        self.applied.forget(bound);
    }

    pub fn forget(&mut self, bound: u64) {
        self.applied.forget(bound);
    }

    /// The number of values that were stored.
    pub fn count(&self) -> u64 {
        self.stored.len() as u64
    }
}

impl Shelf<u8, u64> for Memory {
    fn newest(&self, _: &u8) -> Stamp {
        self.stored.last().map_or(Stamp::NONE, |(_, stamp, _)| *stamp)
    }

    fn value(&self, _: &u8) -> Option<u64> {
        self.stored.last().and_then(|(.., value)| *value)
    }

    fn has_applied(&self, key: &u8, stamp: Stamp) -> bool {
        self.applied.has(key, stamp)
    }

    fn has_forgotten(&self, stamp: Stamp) -> bool {
        self.applied.has_forgotten(stamp)
    }

    fn store(&mut self, key: &u8, stamp: Stamp, value: Option<u64>) -> Result<Stored, NoRoom> {
        if let Some((_, before, _)) = self.stored.last() {
            self.applied.note(key, *before);
        }
        self.stored.push((self.now, stamp, value));
        Ok(if self.is_synced { Stored::Later(Ticket(self.count())) } else { Stored::Now })
    }
}
