//! Connections by id, found without hashing.
//!
//! The high bits of an id are a serial number that only rises. The low bits are the slot. So an old id never
//! finds a newer connection.

use crate::connection::Connection;
use ramhold_base::ConnId;

const SLOT_BITS: u32 = 20;
/// Connections at one time.
pub(super) const SLOT_COUNT_MAX: usize = 1 << SLOT_BITS;

#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Option<Connection>>,
    free: Vec<usize>,
    serial: u64,
}

impl Slots {
    /// The id of the next connection to be inserted.
    pub(super) fn next_id(&mut self) -> ConnId {
        let slot = self.free.last().copied().unwrap_or(self.slots.len());
        assert!(slot < SLOT_COUNT_MAX);
        self.serial += 1;
        // The serial number has 44 bits: enough for a million connections a second for half a year.
        assert!(self.serial < 1 << (64 - SLOT_BITS));
        ConnId(self.serial << SLOT_BITS | slot as u64)
    }

    /// Inserts the connection that was given the last `next_id`.
    pub(super) fn insert(&mut self, connection: Connection) {
        let slot = slot_of(connection.id);
        assert_eq!(connection.id.0 >> SLOT_BITS, self.serial);
        if slot == self.slots.len() {
            self.slots.push(None);
        } else {
            assert_eq!(self.free.pop(), Some(slot));
        }
        assert!(self.slots[slot].is_none());
        self.slots[slot] = Some(connection);
    }

    pub(super) fn get(&self, id: ConnId) -> Option<&Connection> {
        self.slots.get(slot_of(id))?.as_ref().filter(|connection| connection.id == id)
    }

    pub(super) fn find(&mut self, id: ConnId) -> Option<&mut Connection> {
        self.slots.get_mut(slot_of(id))?.as_mut().filter(|connection| connection.id == id)
    }

    pub(super) fn remove(&mut self, id: ConnId) -> Option<Connection> {
        self.find(id)?;
        self.free.push(slot_of(id));
        self.slots[slot_of(id)].take()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.slots.iter_mut().flatten()
    }

    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

fn slot_of(id: ConnId) -> usize {
    (id.0 & (SLOT_COUNT_MAX as u64 - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{Phase, Side};
    use crate::link::Link;
    use crate::poll::Waker;
    use ramhold_base::Instant;
    use rustix::fd::AsFd;

    fn enter(slots: &mut Slots) -> ConnId {
        let id = slots.next_id();
        let descriptor = Waker::new().unwrap().as_fd().try_clone_to_owned().unwrap();
        slots.insert(Connection::new(
            id,
            Link::socket(descriptor),
            Side::Accepted,
            Phase::Open,
            Instant::ZERO,
        ));
        id
    }

    #[test]
    fn an_old_id_never_finds_a_newer_connection() {
        let mut slots = Slots::default();
        let (first, second) = (enter(&mut slots), enter(&mut slots));
        assert!(slots.remove(first).is_some());
        let third = enter(&mut slots);
        assert_eq!(slot_of(first), slot_of(third));
        assert!(slots.find(first).is_none());
        assert!(slots.remove(first).is_none());
        assert_eq!(slots.find(third).unwrap().id, third);
        assert_eq!(slots.find(second).unwrap().id, second);
        assert_eq!(slots.count(), 2);
        assert!(slots.find(ConnId(u64::MAX)).is_none());
    }
}
