//! Sends the bytes of a replica to its own live master, whose memory is damaged.
//!
//! Open replicas are read too. Their bytes up to a certificate never change, so the bytes are compared with the
//! certificate that the replica had when the read began.
//!
//! Invariant: no bytes are sent that do not match their certificate.
//!
//! Protocol: docs/protocols/cleaning.md, Damage. Catalogue: C8.

use crate::device::DeviceStep;
use crate::disk::Task;
use crate::keys::{ReplicaKey, ReplicaNumber};
use crate::replica::Replica;
use crate::replicas::Replicas;
use crate::request::{Asker, Request};
use ramhold_base::{Effects, LogId, Status};
use ramhold_wire::data::Certificate;
use ramhold_wire::membership::ReplicaRead;
use ramhold_wire::{decode, frame};
use std::collections::BTreeMap;

/// The most replicas that are read at a time. Each read brings a whole segment.
const READ_COUNT_MAX: usize = 4;

/// A read under way, and the request that waits for it.
#[derive(Clone, Copy, Debug)]
struct PendingRead {
    number: ReplicaNumber,
    certificate: Certificate,
    /// `None` when the request was answered before the end of the read, because the device failed.
    asker: Option<Asker>,
}

#[derive(Debug, Default)]
pub(crate) struct ReplicaReads {
    pending: BTreeMap<u64, PendingRead>,
}

impl ReplicaReads {
    /// Reads a replica for the sender of the request. It is answered when the read is over.
    pub fn read(
        &mut self,
        request: &Request<'_>,
        replicas: &mut Replicas,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), Status> {
        let asked = decode::<ReplicaRead>(request.body)?.replica;
        let log = LogId { server: request.header.sender, shard: asked.shard };
        let key = ReplicaKey { log, segment: asked.segment, stream: asked.stream };
        // A replica of any epoch will do: the master's own checksum tells whether the bytes fit.
        let held = replicas.of_segment(&key);
        let certified =
            held.filter_map(|replica| replica.stored.certificate.map(|certificate| (replica, certificate)));
        // A brick takes what is left of its own log.
        let may_be_cut = step.config.is_own;
        let is_sound = |replica: &Replica| !replica.corrupt && (may_be_cut || !replica.cut);
        let (replica, certificate) = certified
            .max_by_key(|(replica, certificate)| (is_sound(replica), certificate.length))
            .ok_or(Status::UnknownReplica)?;
        if !is_sound(replica) {
            return Err(Status::CorruptReplica);
        }
        if self.pending.len() >= READ_COUNT_MAX {
            return Err(Status::Retry);
        }
        let number = replica.number;
        let read = (0..).find(|read| !self.pending.contains_key(read)).expect("few are under way");
        self.pending.insert(read, PendingRead { number, certificate, asker: Some(request.asker()) });
        replicas[number].begin_read(Task::MasterRead { read }, step);
        Ok(())
    }

    /// `None`: the read failed.
    pub fn on_read(
        &mut self,
        read: u64,
        bytes: Option<&[u8]>,
        replicas: &mut Replicas,
        step: &mut DeviceStep<'_>,
    ) {
        let pending = self.pending.remove(&read).expect("a read is pending until it is over");
        let PendingRead { number, certificate, asker } = pending;
        let bytes = replicas.end_read_of(number, certificate, bytes, step.effects);
        let Some(asker) = asker else { return };
        let Some(bytes) = bytes else { return asker.answer(Status::CorruptReplica, step.effects) };
        step.effects.send_with(asker.peer(), |out| {
            frame::write(out, &asker.header.answer(Status::Ok), |out| out.extend_from_slice(bytes));
        });
    }

    pub fn fail(&mut self, effects: &mut Effects) {
        for asker in self.pending.values_mut().filter_map(|pending| pending.asker.take()) {
            asker.answer(Status::DeviceFailed, effects);
        }
    }
}
