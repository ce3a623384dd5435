//! Checks how a server treats frames at its door, whatever they ask for:
//! - A frame for another life of the server is refused at once.
//! - A frame from another cluster is refused at once.
//! - An append of a lower epoch than its replica's is refused at once (docs/protocols/replication.md, "What a
//!   backup does with an Append").
//! - A coordinator speaks for its own term alone.
//!
//! In most runs frames come to the door late or twice. The damage that they would do inside shows only in few
//! runs.
//!
//! Not here: the other refusals, which the checkers see by their effect. Catalogue: D6, D8, J3.

use ramhold_base::{ClusterId, Effect, Effects, Epoch, RpcId, SegmentId, ServerId, ShardId, Status};
use ramhold_node::{Coordinator, ServerNode};
use ramhold_wire::frame::{self, HEADER_BYTES, MAGIC};
use ramhold_wire::{Header, Kind, Opcode};
use std::collections::BTreeMap;

/// The prefix of a fact that is itself a finding.
pub const OPEN: &str = "door: ";

/// The offset of the kind in a header, and its value in a request.
const KIND_AT: usize = 20;
const REQUEST: u8 = 1;
const TERM_AT: usize = 40;

/// A request that must be refused in the step in which it arrives.
pub struct Unwelcome {
    rpc: RpcId,
    why: String,
}

/// The raised epochs of the appends that a server received.
#[derive(Default)]
pub struct Door {
    epochs: BTreeMap<(ServerId, ShardId, SegmentId), Epoch>,
}

/// One request in this many also arrives as a request of another cluster.
const FOREIGN_PART: u64 = 256;

/// Now and then makes a request as another cluster would send it, whose servers had this address before. A
/// request that is refused at the door changes nothing, and its answer would go to that cluster.
pub fn foreign(node: &ServerNode, bytes: &[u8]) -> Option<(Vec<u8>, Unwelcome)> {
    if bytes.len() < HEADER_BYTES || bytes[..4] != MAGIC || bytes[KIND_AT] != REQUEST || node.id().is_none() {
        return None;
    }
    let is_meant = [Opcode::Read as u16, Opcode::Append as u16];
    if !is_meant.contains(&u16::from_le_bytes([bytes[6], bytes[7]])) {
        return None;
    }
    let (header, body) = frame::parse(bytes).ok()?;
    if header.rpc.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & (FOREIGN_PART - 1) != 0 {
        return None;
    }
    let foreign = Header { cluster: ClusterId(header.cluster.0 ^ 1), ..header };
    let mut copy = Vec::new();
    frame::write(&mut copy, &foreign, |out| out.extend_from_slice(body));
    let why = format!("a request of another cluster was let in by {}", node.id());
    Some((copy, Unwelcome { rpc: header.rpc, why }))
}

/// Removes the answer to such a request.
pub fn keep_from_us(unwelcome: &Unwelcome, effects: &mut Effects) {
    let Effects { list, bytes, .. } = effects;
    list.retain(|effect| match effect {
        Effect::Send { frame, .. } => !frame::parse(&frame.of(bytes))
            .is_ok_and(|(reply, _)| reply.kind == Kind::Reply && reply.rpc == unwelcome.rpc),
        _ => true,
    });
}

impl Door {
    /// Whether an incoming frame must be refused. Damaged frames are ignored here.
    pub fn unwelcome(&mut self, node: &ServerNode, bytes: &[u8]) -> Option<Unwelcome> {
        if bytes.len() < HEADER_BYTES || bytes[..4] != MAGIC || bytes[KIND_AT] != REQUEST {
            return None;
        }
        let opcode = u16::from_le_bytes([bytes[6], bytes[7]]);
        let is_append = opcode == Opcode::Append as u16;
        if node.id().is_none() || (opcode != Opcode::Read as u16 && !is_append) {
            return None;
        }
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let is_for_another = number(56) != node.id().raw();
        let epoch = Epoch(u32::from_le_bytes([bytes[68], bytes[69], bytes[70], bytes[71]]));
        if !is_for_another && (!is_append || (epoch == Epoch(0) && self.epochs.is_empty())) {
            return None;
        }
        let (header, _) = frame::parse(bytes).ok()?;
        if is_for_another {
            let why = format!("a request for {} was let in by {}", header.target, node.id());
            return Some(Unwelcome { rpc: header.rpc, why });
        }
        let key = (header.sender, header.shard, header.segment);
        let known = self.epochs.get(&key).copied().unwrap_or_default();
        if header.epoch >= known {
            if header.epoch > Epoch(0) {
                self.epochs.insert(key, header.epoch);
            }
            return None;
        }
        let held = held(node, &header).filter(|held| header.epoch < *held)?;
        let why = format!("an append at {} to {} was let in, held at {held}", header.epoch, header.segment);
        Some(Unwelcome { rpc: header.rpc, why })
    }
}

/// The epoch at which the backup holds the replica of a frame.
fn held(node: &ServerNode, header: &Header) -> Option<Epoch> {
    let is_it = |replica: &ramhold_backup::ReplicaState| {
        let log = replica.log;
        !replica.found
            && (log.server, log.shard, replica.segment) == (header.sender, header.shard, header.segment)
    };
    node.backup().replicas().find(is_it).map(|replica| replica.epoch)
}

/// The fault in the answer to the request, if it was let in.
pub fn was_let_in(unwelcome: &Unwelcome, effects: &Effects) -> Option<String> {
    let refuses = |effect: &Effect| match effect {
        Effect::Send { frame, .. } => frame::parse(&frame.of(&effects.bytes)).is_ok_and(|(reply, _)| {
            reply.kind == Kind::Reply && reply.rpc == unwelcome.rpc && reply.status() != Status::Ok
        }),
        _ => false,
    };
    (!effects.list.iter().any(refuses)).then(|| unwelcome.why.clone())
}

/// Finds a request of a coordinator that does not speak for its term. Replies to unreadable requests have no
/// term.
pub fn foreign_term(coordinator: &Coordinator, effects: &Effects) -> Option<String> {
    let term = coordinator.term().raw().to_le_bytes();
    let is_foreign = |effect: &Effect| match effect {
        Effect::Send { frame, .. } => {
            let bytes = frame.of(&effects.bytes);
            bytes[KIND_AT] == REQUEST && bytes[TERM_AT..TERM_AT + 8] != term
        }
        _ => false,
    };
    let is_any = coordinator.is_active() && effects.list.iter().any(is_foreign);
    is_any.then(|| format!("the coordinator of {} speaks for another term", coordinator.term()))
}
