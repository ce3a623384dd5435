//! All replicas by their numbers, and the lists in which each of them stands.
//!
//! A replica is *present* if it was opened in this life and takes appends. It is *found* if it was found at start, or
//! was replaced: it takes no appends. A replica that is being freed is neither.
//!
//! Invariants:
//! - `present` and `found` name disjoint replicas, each by its own key;
//! - a frame or a buffer belongs to at most one replica.
//!
//! Not here: the steps of an append (append), of a flush (flush), and of freeing (settle).

use crate::device::Device;
use crate::flush_queue::FlushQueue;
use crate::keys::{ReplicaKey, ReplicaNumber};
use crate::replica::{Reason, Replica};
use ramhold_base::checksum::crc;
use ramhold_base::{Effects, Instant, ServerId};
use ramhold_wire::data::Certificate;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Replicas {
    by_number: BTreeMap<ReplicaNumber, Replica>,
    /// The number given out last.
    last: u64,
    present: BTreeMap<ReplicaKey, ReplicaNumber>,
    found: BTreeMap<ReplicaKey, ReplicaNumber>,
    pub queue: FlushQueue,
    /// Replicas that may be ready to be wiped, or to give their buffers back.
    pub settling: BTreeSet<ReplicaNumber>,
}

impl Index<ReplicaNumber> for Replicas {
    type Output = Replica;

    fn index(&self, number: ReplicaNumber) -> &Replica {
        self.by_number.get(&number).expect("a replica stays while its number is used")
    }
}

impl IndexMut<ReplicaNumber> for Replicas {
    fn index_mut(&mut self, number: ReplicaNumber) -> &mut Replica {
        self.by_number.get_mut(&number).expect("a replica stays while its number is used")
    }
}

impl Replicas {
    pub fn new(flush_interval: Duration) -> Replicas {
        Replicas {
            by_number: BTreeMap::new(),
            last: 0,
            present: BTreeMap::new(),
            found: BTreeMap::new(),
            queue: FlushQueue::new(flush_interval),
            settling: BTreeSet::new(),
        }
    }

    /// The replicas that take appends.
    pub fn present(&self) -> &BTreeMap<ReplicaKey, ReplicaNumber> {
        &self.present
    }

    /// The replicas that take no appends.
    pub fn found(&self) -> &BTreeMap<ReplicaKey, ReplicaNumber> {
        &self.found
    }

    pub fn iter(&self) -> impl Iterator<Item = &Replica> {
        self.by_number.values()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Replica> {
        self.by_number.values_mut()
    }

    pub fn known(&self, number: ReplicaNumber) -> Option<&Replica> {
        self.by_number.get(&number)
    }

    pub fn known_mut(&mut self, number: ReplicaNumber) -> Option<&mut Replica> {
        self.by_number.get_mut(&number)
    }

    /// The replicas of a segment: the present one, then the found one.
    pub fn of_segment(&self, key: &ReplicaKey) -> impl Iterator<Item = &Replica> {
        let numbers = self.present.get(key).into_iter().chain(self.found.get(key));
        numbers.map(|number| &self[*number])
    }

    /// The replicas of a server's segments that exist for other servers.
    pub fn reportable_of(&self, server: ServerId) -> impl Iterator<Item = &Replica> {
        let keys = ReplicaKey::all_of(server);
        let numbers = self.present.range(keys.clone()).chain(self.found.range(keys));
        numbers.map(|(_, number)| &self[*number]).filter(|replica| replica.is_reportable())
    }

    /// Gives a replica its number.
    fn insert(&mut self, mut replica: Replica) -> ReplicaNumber {
        self.last += 1;
        let number = ReplicaNumber(self.last);
        replica.number = number;
        self.by_number.insert(number, replica);
        number
    }

    /// Enters a replica that was opened just now.
    pub fn insert_present(&mut self, replica: Replica) -> ReplicaNumber {
        let key = replica.key;
        let number = self.insert(replica);
        self.present.insert(key, number);
        number
    }

    /// Enters a replica that was found at start. If one segment was opened several times, the best opening is taken,
    /// and the others are freed.
    pub fn insert_found(&mut self, mut replica: Replica) {
        let rank = |it: &Replica| (!it.cut && !it.corrupt, it.stored.epoch, it.opened.incarnation);
        let other = self.found.get(&replica.key).copied();
        let is_best = other.is_none_or(|other| rank(&self[other]) < rank(&replica));
        replica.found = true;
        let key = replica.key;
        let number = self.insert(replica);
        if !is_best {
            self.free(number, Reason::NotNeeded);
        } else {
            other.into_iter().for_each(|other| self.free(other, Reason::NotNeeded));
            self.found.insert(key, number);
        }
    }

    /// Makes room for a new replica in the place of a present one. If that was itself replacing an older replica, it has
    /// no certificate that counts, and the older one is kept: recovery may need it. A replica's first certificate
    /// covers all that its master had. So the older replica is freed as soon as the new one has a certificate that
    /// counts, and not before.
    pub fn replace(&mut self, now: Instant, before: ReplicaNumber) {
        let key = self[before].key;
        if self.found.contains_key(&key) {
            return self.free(before, Reason::NotNeeded);
        }
        self.present.remove(&key);
        self.found.insert(key, before);
        self[before].found = true;
        self.want_flush(now, before);
    }

    /// Frees the replica that this one replaces, if this one has a certificate that counts.
    pub fn free_older(&mut self, number: ReplicaNumber) {
        let replica = &self[number];
        if replica.counts()
            && self.present.get(&replica.key) == Some(&number)
            && let Some(older) = self.found.get(&replica.key).copied()
        {
            self.free(older, Reason::NotNeeded);
        }
    }

    /// Forgets a replica. Its places are wiped when no operation under way needs them any more.
    pub fn free(&mut self, number: ReplicaNumber, reason: Reason) {
        let (replica, queue) = self.with_queue(number);
        replica.leave(reason);
        queue.forget(replica);
        let key = replica.key;
        for list in [&mut self.present, &mut self.found] {
            if list.get(&key) == Some(&number) {
                list.remove(&key);
            }
        }
        self.settling.insert(number);
    }

    /// A replica that was freed goes, because its heads are wiped.
    pub fn remove(&mut self, number: ReplicaNumber) -> Replica {
        self.by_number.remove(&number).expect("a replica goes once")
    }

    /// A replica together with the queue in which it may stand.
    pub fn with_queue(&mut self, number: ReplicaNumber) -> (&mut Replica, &mut FlushQueue) {
        let replica = self.by_number.get_mut(&number).expect("a replica stays while its number is used");
        (replica, &mut self.queue)
    }

    /// Schedules a flush of a replica, if some of it is not on the device.
    pub fn want_flush(&mut self, now: Instant, number: ReplicaNumber) {
        let (replica, queue) = self.with_queue(number);
        queue.want(now, replica);
    }

    /// Ends the read of a replica. Returns its bytes if they match the certificate.
    pub fn end_read<'a>(
        &mut self,
        number: ReplicaNumber,
        bytes: Option<&'a [u8]>,
        effects: &mut Effects,
    ) -> Option<&'a [u8]> {
        let certificate = self[number].stored.certificate.expect("only what is certified is read");
        self.end_read_of(number, certificate, bytes, effects)
    }

    /// Ends the read of a replica which may have got a newer certificate since the read began.
    pub fn end_read_of<'a>(
        &mut self,
        number: ReplicaNumber,
        certificate: Certificate,
        bytes: Option<&'a [u8]>,
        effects: &mut Effects,
    ) -> Option<&'a [u8]> {
        self.settling.insert(number);
        let replica = &mut self[number];
        replica.places.reads -= 1;
        let sound = bytes
            .and_then(|bytes| bytes.get(..certificate.length as usize))
            .filter(|bytes| crc(bytes) == certificate.crc);
        if sound.is_none() {
            replica.mark_corrupt(effects);
        }
        sound
    }

    /// Returns the number of frames that belong to replicas.
    pub fn check_invariants(&self, device: &Device) -> u64 {
        let mut frames = BTreeSet::new();
        let mut buffers = BTreeSet::new();
        for replica in self.iter() {
            assert!(replica.accepted.length <= device.config.segment_bytes);
            if !device.disk.has_failed() {
                replica.check_invariants();
            }
            if replica.leaving.is_some_and(|leaving| leaving.heads_wiping > 0) {
                continue; // Its places no longer belong to it.
            }
            let places = &replica.places;
            assert!(places.frame.is_none_or(|frame| frames.insert(frame)), "a frame has one owner");
            assert!(places.buffer.is_none_or(|buffer| buffers.insert(buffer)), "a buffer has one owner");
        }
        for (list, found) in [(&self.present, false), (&self.found, true)] {
            for (key, number) in list {
                let replica = &self[*number];
                assert_eq!(replica.key, *key);
                assert_eq!(replica.found, found);
                assert!(!replica.is_leaving());
            }
        }
        let named = self.present.len() + self.found.len();
        assert_eq!(named, self.iter().filter(|replica| !replica.is_leaving()).count());
        let flushing = self.iter().filter(|replica| replica.flushing.under_way.is_some()).count();
        assert_eq!(self.queue.under_way() as usize, flushing);
        frames.len() as u64
    }
}
