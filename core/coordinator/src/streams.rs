//! The records that servers make about themselves: their streams, the heads of these, and their version ceilings.
//!
//! Invariants:
//! - the recorded head of a stream only rises;
//! - no server hands out a version above its ceiling.
//!
//! Protocol: docs/protocols/membership.md. Catalogue: D8.

use crate::desk::Desk;
use crate::records::{Key, StreamRecord};
use ramhold_base::limits::{LABEL_BYTES_MAX, REPLICA_COUNT_MAX, STREAM_COUNT_MAX};
use ramhold_base::{Peer, ServerId, Status, Version};
use ramhold_wire::Header;
use ramhold_wire::control::Empty;
use ramhold_wire::membership::{CeilingRaise, CeilingRaised, Durability, HeadRecord, StreamRegister};

/// Ceilings are raised in steps of this size, so that a master asks once in a million versions.
pub(crate) const CEILING_STEP: u64 = 1 << 20;
/// No honest server needs a version above this.
const CEILING_NEEDED_MAX: u64 = 1 << 62;
/// The most streams of one server over all its shards; bounds the server's record.
const SERVER_STREAM_COUNT_MAX: usize = 8 * STREAM_COUNT_MAX as usize;

/// The longest name of a neighbourhood: a zone and a rack, and a character between them.
const NEIGHBOURHOOD_BYTES_MAX: usize = 2 * LABEL_BYTES_MAX + 1;

/// Whether a stream was registered before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registration {
    New,
    Known,
}

pub(crate) fn on_stream_register(
    desk: &mut Desk,
    to: Peer,
    header: &Header,
    message: &StreamRegister,
) -> Result<Registration, Status> {
    let server = desk.state.servers.get_mut(&sender_of(header)?).ok_or(Status::Fenced)?;
    check_durability(message.durability, message.replicas)?;
    if message.stream.is_none() || message.segment.is_none() {
        return Err(Status::BadRequest);
    }
    let is_long = |name: &String| name.len() > NEIGHBOURHOOD_BYTES_MAX;
    if message.neighbourhood.as_ref().is_some_and(is_long) {
        return Err(Status::BadRequest);
    }
    let full = server.streams.len() >= SERVER_STREAM_COUNT_MAX;
    let known = server.streams.iter_mut().find(|s| (s.shard, s.stream) == (message.shard, message.stream));
    let mut registration = Registration::Known;
    match known {
        Some(known) if (known.durability, known.replicas) != (message.durability, message.replicas) => {
            return Err(Status::NotAllowed);
        }
        // A head that was opened again before it was registered has a higher epoch; the old epoch must not count.
        Some(known) if (message.segment, message.epoch) > (known.segment, known.epoch) => {
            (known.segment, known.epoch) = (message.segment, message.epoch);
            desk.outbox.touch(Key::Server(header.sender));
        }
        Some(_) => {}
        None if full => return Err(Status::TooMany),
        None => {
            server.streams.push(StreamRecord {
                shard: message.shard,
                stream: message.stream,
                durability: message.durability,
                replicas: message.replicas,
                segment: message.segment,
                epoch: message.epoch,
                neighbourhood: message.neighbourhood.clone(),
            });
            desk.outbox.touch(Key::Server(header.sender));
            registration = Registration::New;
        }
    }
    desk.outbox.reply_with(to, header, &Empty {});
    Ok(registration)
}

pub(crate) fn on_head_record(
    desk: &mut Desk,
    to: Peer,
    header: &Header,
    message: &HeadRecord,
) -> Result<(), Status> {
    let server = desk.state.servers.get_mut(&sender_of(header)?).ok_or(Status::Fenced)?;
    let mut streams = server.streams.iter_mut();
    let stream = streams.find(|s| (s.shard, s.stream) == (message.shard, message.stream));
    let stream = stream.ok_or(Status::NotAllowed)?;
    if (message.segment, message.epoch) > (stream.segment, stream.epoch) {
        (stream.segment, stream.epoch) = (message.segment, message.epoch);
        desk.outbox.touch(Key::Server(header.sender));
    }
    desk.outbox.reply_with(to, header, &Empty {});
    Ok(())
}

pub(crate) fn on_ceiling_raise(
    desk: &mut Desk,
    to: Peer,
    header: &Header,
    message: &CeilingRaise,
) -> Result<(), Status> {
    let server = desk.state.servers.get_mut(&sender_of(header)?).ok_or(Status::Fenced)?;
    if message.needed.raw() > CEILING_NEEDED_MAX {
        return Err(Status::BadRequest);
    }
    if server.ceiling.raw() < message.needed.raw() + CEILING_STEP / 2 {
        server.ceiling = Version(message.needed.raw() + CEILING_STEP);
        desk.outbox.touch(Key::Server(header.sender));
    }
    let ceiling = server.ceiling;
    desk.outbox.reply_with(to, header, &CeilingRaised { ceiling });
    Ok(())
}

/// The server that sends this request; a client must not.
pub(crate) fn sender_of(header: &Header) -> Result<ServerId, Status> {
    if header.sender.is_none() { Err(Status::BadRequest) } else { Ok(header.sender) }
}

/// Checks that a durability goes with a number of replicas.
pub(crate) fn check_durability(durability: Durability, replicas: u8) -> Result<(), Status> {
    if replicas > REPLICA_COUNT_MAX {
        return Err(Status::BadRequest);
    }
    match durability {
        Durability::None if replicas == 0 => Ok(()),
        Durability::Buffered | Durability::Synced if replicas > 0 => Ok(()),
        Durability::None | Durability::Buffered | Durability::Synced => Err(Status::BadRequest),
    }
}
