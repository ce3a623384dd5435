//! Requests of clients over the network: finds the code for each opcode, alone or many in one frame.
//!
//! Not here: the requests themselves, requests of this process (`local`). Catalogue: A5.

use crate::multi::Asker;
use crate::service::Service;
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
    pub fn on_multi(&mut self, step: &mut Step<'_>, header: &Header, body: &[u8], from: ConnId) {
        let request = match MultiRequest::decode(body) {
            Ok(request) => request,
            Err(status) => return reply(step.effects, Peer::Conn(from), header, status),
        };
        step.effects.mark(Mark::Multi);
        let multi = self.answers.multis.begin(step.now, from, header, request.count());
        for (place, item) in (0..).zip(request.items()) {
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
