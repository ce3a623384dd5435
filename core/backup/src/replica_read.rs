//! Sends the bytes of a replica to its own live master, whose memory is damaged.
//!
//! Open replicas are read too. Their bytes up to a certificate never change, so the bytes are compared with the
//! certificate that the replica had when the read began.
//!
//! Invariant: no bytes are sent that do not match their certificate.
//!
//! Protocol: docs/protocols/cleaning.md, Damage. Catalogue: C8.

use crate::Backup;
use crate::disk::Task;
use crate::keys::{ReplicaKey, ReplicaNumber};
use ramhold_base::checksum::crc;
use ramhold_base::{ConnId, Effects, LogId, Peer, Status};
use ramhold_wire::data::Certificate;
use ramhold_wire::membership::ReplicaRead;
use ramhold_wire::{Header, View, decode, frame, reply};

/// The most replicas that are read at a time. Each read brings a whole segment.
const READ_COUNT_MAX: usize = 4;

/// A read under way, and the request that waits for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingRead {
    number: ReplicaNumber,
    certificate: Certificate,
    /// `None` when the request was answered before the end of the read, because the device failed.
    asker: Option<(Header, ConnId)>,
}

impl Backup {
    pub(crate) fn on_replica_read(
        &mut self,
        header: &Header,
        body: &[u8],
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) {
        if let Err(status) = self.try_replica_read(header, body, from, view, effects) {
            reply(effects, Peer::Conn(from), header, status);
        }
    }

    fn try_replica_read(
        &mut self,
        header: &Header,
        body: &[u8],
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        self.check_sender(header, view)?;
        if header.sender.is_none() {
            return Err(Status::NotInCluster);
        }
        self.check_device()?;
        let asked = decode::<ReplicaRead>(body)?.replica;
        let log = LogId { server: header.sender, shard: asked.shard };
        let key = ReplicaKey { log, segment: asked.segment, stream: asked.stream };
        // A replica of any epoch will do: the master's own checksum tells whether the bytes fit.
        let held = self.present.get(&key).into_iter().chain(self.found.get(&key));
        let held = held.copied().filter(|number| self.replicas[number].stored.certificate.is_some());
        let use_of = |number: &ReplicaNumber| {
            let replica = &self.replicas[number];
            (!replica.corrupt && !replica.cut, replica.stored.certified())
        };
        let number = held.max_by_key(use_of).ok_or(Status::UnknownReplica)?;
        let replica = &self.replicas[&number];
        if replica.corrupt || replica.cut {
            return Err(Status::CorruptReplica);
        }
        if self.replica_reads.len() >= READ_COUNT_MAX {
            return Err(Status::Retry);
        }
        let certificate = replica.stored.certificate.expect("only what is certified fits");
        let read = (0..).find(|read| !self.replica_reads.contains_key(read)).expect("few are under way");
        let pending = PendingRead { number, certificate, asker: Some((*header, from)) };
        self.replica_reads.insert(read, pending);
        self.read_replica(Task::MasterRead { read }, number, effects);
        Ok(())
    }

    pub(crate) fn on_master_read(&mut self, read: u64, bytes: Option<&[u8]>, effects: &mut Effects) {
        let pending = self.replica_reads.remove(&read).expect("a read is pending until it is over");
        let PendingRead { number, certificate, asker } = pending;
        self.replicas.get_mut(&number).expect("a replica stays while it is read").reads -= 1;
        self.settling.insert(number);
        let bytes = bytes.and_then(|bytes| bytes.get(..certificate.length as usize));
        let bytes = bytes.filter(|bytes| crc(bytes) == certificate.crc);
        if bytes.is_none() {
            self.mark_corrupt(number, effects);
        }
        let Some((header, from)) = asker else { return };
        let Some(bytes) = bytes else {
            return reply(effects, Peer::Conn(from), &header, Status::CorruptReplica);
        };
        effects.send_with(Peer::Conn(from), |out| {
            frame::write(out, &header.answer(Status::Ok), |out| out.extend_from_slice(bytes));
        });
    }

    pub(crate) fn fail_replica_reads(&mut self, effects: &mut Effects) {
        for pending in self.replica_reads.values_mut() {
            if let Some((header, from)) = pending.asker.take() {
                reply(effects, Peer::Conn(from), &header, Status::DeviceFailed);
            }
        }
    }
}
