//! Requests of clients over the network: finds the code for each opcode, alone or many in one frame.
//!
//! Not here: the requests themselves, requests of this process (`local`). Catalogue: A5.

use crate::multi::{Asker, Collected};
use crate::service::Service;
use crate::together::Places;
use ramhold_base::{ConnId, Mark, Peer};
use ramhold_wire::multi::MultiRequest;
use ramhold_wire::{Addressee, ForMaster, ForObject, Header, Opcode, Step, reply};

/// A request to a master, over the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MasterRequest {
    Object(ForObject),
    Master(ForMaster),
}

impl TryFrom<Opcode> for MasterRequest {
    /// The operation that another role answers.
    type Error = Opcode;

    fn try_from(opcode: Opcode) -> Result<MasterRequest, Opcode> {
        match opcode.addressee() {
            Addressee::ForObject(request) => Ok(MasterRequest::Object(request)),
            Addressee::ForMaster(request) => Ok(MasterRequest::Master(request)),
            Addressee::ForProcess(_)
            | Addressee::ForSender(_)
            | Addressee::ForBackup(_)
            | Addressee::ForBrick(_)
            | Addressee::ForSupervisor(_)
            | Addressee::ForServer(_)
            | Addressee::ForCoordinator(_) => Err(opcode),
        }
    }
}

impl Service {
    /// Whether there are mutations among the items.
    pub fn on_multi(&mut self, step: &mut Step<'_>, header: &Header, body: &[u8], from: ConnId) -> bool {
        let request = match MultiRequest::decode(body) {
            Ok(request) => request,
            Err(status) => {
                reply(step.effects, Peer::Conn(from), header, status);
                return false;
            }
        };
        step.effects.mark(Mark::Multi);
        let mut answers = self.answers.multis.memory();
        // Mutations do not use the lease.
        let begins_with_reads = request.items().next().is_some_and(|item| item.request == ForObject::Read);
        let done = match begins_with_reads && self.answers.is_leased(step.now, &self.shard) {
            true => self.read_at_once(step.now, step.view, &request, &mut answers),
            false => Places::default(),
        };
        self.counters.reads += done.count() as u64;
        self.answers.multis.answered.count_several(Opcode::Read.code(), done.count() as u64);
        let left = request.count() - done.count();
        let frame = Collected::of(from, header, step.now, left, answers);
        let Some(multi) = self.answers.multis.begin(frame, step.effects) else { return false };
        let mut has_mutations = false;
        for (place, item) in (0..).zip(request.items()).filter(|(place, _)| !done.has(*place)) {
            has_mutations |= item.request != ForObject::Read;
            let to = self.answers.multis.take_in_hand(multi, place);
            let header = Header {
                opcode: Opcode::from(item.request).code(),
                sequence: item.sequence,
                repeated: item.repeated,
                ..*header
            };
            self.on_object_request(step, item.request, &header, item.body, to);
            self.answers.multis.let_go(multi, place, step.effects);
        }
        has_mutations
    }

    /// A request of a client about one object.
    pub fn on_object_request(
        &mut self,
        step: &mut Step<'_>,
        request: ForObject,
        header: &Header,
        body: &[u8],
        from: Asker,
    ) {
        match request {
            ForObject::Read => self.on_read(step, header, body, from),
            ForObject::Write => self.on_write(step, header, body, from),
            ForObject::Remove => self.on_remove(step, header, body, from),
            ForObject::Increment => self.on_increment(step, header, body, from),
        }
    }
}
