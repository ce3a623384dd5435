//! Messages of the control plane: CBOR structs whose fields are numbered, so that old and new versions
//! understand each other.
//!
//! Every struct that is a request names its opcode and the type of its answer.

use crate::Opcode;
use crate::frame::{self, BadFrame, Header};
use ramhold_base::{ConnId, Effect, Effects, Peer, RpcId, Status};

/// A request of the control plane.
pub trait Message: minicbor::Encode<()> + for<'b> minicbor::Decode<'b, ()> {
    const OPCODE: Opcode;
    type Reply: minicbor::Encode<()> + for<'b> minicbor::Decode<'b, ()>;
}

/// An answer that consists of its status alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, minicbor::Encode, minicbor::Decode)]
pub struct Empty {}

/// Decodes a body. `BadRequest`: the body is not such a message.
pub fn decode<T: for<'b> minicbor::Decode<'b, ()>>(body: &[u8]) -> Result<T, Status> {
    minicbor::decode(body).map_err(|_| Status::BadRequest)
}

pub fn encode_into<T: minicbor::Encode<()>>(out: &mut Vec<u8>, value: &T) {
    minicbor::encode(value, out).expect("writing to a vector cannot fail");
}

/// The length of the message's encoding, in bytes.
pub fn encoded_len<T: minicbor::Encode<()>>(value: &T) -> usize {
    let mut bytes = Vec::new();
    encode_into(&mut bytes, value);
    bytes.len()
}

/// Sends a request. `header` brings the identity fields; the opcode is the message's.
pub fn request<M: Message>(effects: &mut Effects, to: Peer, header: &Header, rpc: RpcId, message: &M) {
    let header = Header { opcode: M::OPCODE.code(), rpc, kind: frame::Kind::Request, ..*header };
    effects.send_with(to, |out| frame::write(out, &header, |out| encode_into(out, message)));
}

/// Answers a request with a status alone.
pub fn reply(effects: &mut Effects, to: Peer, request: &Header, status: Status) {
    effects.send_with(to, |out| frame::write(out, &request.answer(status), |_| {}));
}

/// Answers bytes that are no frame: the status says why, then the connection ends, since its stream may be
/// out of step.
pub fn refuse_malformed(effects: &mut Effects, from: ConnId, bad: BadFrame) {
    let answer = Header::request(Opcode::Malformed, RpcId::NONE).answer(bad.status());
    effects.send_with(Peer::Conn(from), |out| {
        frame::write(out, &answer, |out| out.extend_from_slice(bad.to_string().as_bytes()));
    });
    effects.push(Effect::Close { conn: from });
}

/// Answers a request with a status and a body.
pub fn reply_with<T: minicbor::Encode<()>>(
    effects: &mut Effects,
    to: Peer,
    request: &Header,
    status: Status,
    body: &T,
) {
    effects.send_with(to, |out| frame::write(out, &request.answer(status), |out| encode_into(out, body)));
}

/// A socket address in a message: its usual text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address(pub std::net::SocketAddr);

impl<C> minicbor::Encode<C> for Address {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.str(&self.0.to_string())?;
        Ok(())
    }
}

impl<'b, C> minicbor::Decode<'b, C> for Address {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let text = d.str()?;
        text.parse().map(Address).map_err(|_| minicbor::decode::Error::message("not a socket address"))
    }
}
