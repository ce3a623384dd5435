//! Bodies of the native protocol: those laid out by hand, and the messages of the control plane.
//!
//! Promised:
//! - A body laid out by hand has one encoding, so a body that was read is written as the same bytes.
//! - A newer program may have added fields to a message of the control plane. A message that was read is read
//!   again from its written form.
//! - Reading takes memory in proportion to the bytes that have arrived.

use crate::memory;
use ramhold_wire::ask::{AskReply, AskRequest};
use ramhold_wire::brick_page::{BrickPageReply, BrickPageRequest};
use ramhold_wire::commit::{CommitRequest, encode_commit};
use ramhold_wire::control::{Message, decode, encode_into};
use ramhold_wire::count::CountRequest;
use ramhold_wire::data::{AppendRequest, IncrementRequest, KeyRequest, WriteRequest};
use ramhold_wire::multi::{MultiRequest, encode_item, encode_multi};
use ramhold_wire::scan::{ScanRequest, decode_page, encode_object_head};
use ramhold_wire::{accounts, copies, lease, membership, neighbours, pubsub, recovery, status, table};

/// The largest item of a list, in relation to the fewest bytes that encode one. Lists double.
const HELD_PER_BYTE: usize = 256;
const HELD_ALWAYS: usize = 4 * 1024;

/// Reads a body with a decoder, and writes the result again; none: the body is invalid.
type Through = fn(&[u8]) -> Option<Vec<u8>>;

/// Laid out by hand: one encoding each.
const BY_HAND: &[Through] = &[
    |body| KeyRequest::decode(body).ok().map(|read| written(|out| read.encode(out))),
    |body| WriteRequest::decode(body).ok().map(|read| written(|out| read.encode(out))),
    |body| IncrementRequest::decode(body).ok().map(|read| written(|out| read.encode(out))),
    |body| ScanRequest::decode(body).ok().map(|read| written(|out| read.encode(out))),
    |body| CountRequest::decode(body).ok().map(|read| written(|out| read.encode(out))),
    |body| {
        let read = CommitRequest::decode(body).ok()?;
        Some(written(|out| {
            encode_commit(read.items().len(), out, |out| {
                read.items().iter().for_each(|item| item.encode(out))
            })
        }))
    },
    |body| {
        let read = MultiRequest::decode(body).ok()?;
        Some(written(|out| {
            encode_multi(read.count(), out, |out| {
                for item in read.items() {
                    let body = |out: &mut Vec<u8>| out.extend_from_slice(item.body);
                    encode_item(item.request.into(), item.repeated, item.sequence, out, body);
                }
            });
        }))
    },
];

/// Bodies with several encodings: an append without a certificate has room for one all the same, as a page
/// has for the place where the next one begins.
const OTHERS: &[Through] = &[
    |body| {
        let (head, objects) = decode_page(body).ok()?;
        Some(written(|out| {
            head.encode(out);
            for object in objects {
                let fields = (object.version, object.time, object.expires);
                encode_object_head(out, fields, object.key.len(), object.value.len());
                out.extend_from_slice(object.key);
                out.extend_from_slice(object.value);
            }
        }))
    },
    |body| {
        let read = AppendRequest::decode(body).ok()?;
        Some(written(|out| {
            read.encode_head(out);
            out.extend_from_slice(read.data);
        }))
    },
    message::<membership::ServerListUpdate>,
    message::<membership::Enlist>,
    message::<membership::SuspectServer>,
    message::<neighbours::NeighbourReport>,
    message::<neighbours::ReachNeighbour>,
    message::<membership::MembershipVerify>,
    message::<membership::StreamRegister>,
    message::<membership::HeadRecord>,
    message::<membership::CeilingRaise>,
    message::<membership::ReplicasNeeded>,
    message::<membership::ReplicaRead>,
    message::<recovery::Fence>,
    message::<recovery::Recover>,
    message::<recovery::Recovered>,
    message::<recovery::RecoveryRead>,
    message::<lease::LeaseOpen>,
    message::<lease::LeaseRenew>,
    message::<lease::LeaseCheck>,
    message::<lease::LeaseMeet>,
    message::<lease::ReadLease>,
    message::<table::TableCreate>,
    message::<table::TableDrop>,
    message::<table::TableList>,
    message::<table::TableDescribe>,
    message::<table::TabletTake>,
    message::<table::TabletDrop>,
    message::<table::TableDivide>,
    message::<table::TabletDivide>,
    message::<status::Ping>,
    message::<status::ProcessStatusRequest>,
    message::<status::ClusterStatusRequest>,
    message::<status::RecoveriesRequest>,
    message::<status::LossAcknowledge>,
    message::<status::ServerForget>,
    message::<status::LossAccept>,
    message::<status::Reach>,
    message::<pubsub::Publish>,
    message::<pubsub::Listeners>,
    message::<copies::StateCopy>,
    message::<copies::StateTell>,
    message::<copies::StateRead>,
    through_ask,
    through_page,
    message::<accounts::AccountList>,
    message::<accounts::AccountSet>,
    message::<accounts::AccountRemove>,
];

/// A question to a brick about a key, then an answer to one. The byte of an answer that says nothing, and the stamp of one
/// that has none, may be anything.
fn through_ask(body: &[u8]) -> Option<Vec<u8>> {
    let request = AskRequest::decode(body).ok().map(|read| written(|out| read.encode(out)));
    request.or_else(|| AskReply::decode(body).ok().map(|read| written(|out| read.encode(out))))
}

/// A question to a brick for a page, then an answer to one.
fn through_page(body: &[u8]) -> Option<Vec<u8>> {
    if let Ok(read) = BrickPageRequest::decode(body) {
        let again = written(|out| read.encode(out));
        assert_eq!(again, body, "one encoding only");
        return Some(again);
    }
    let again = BrickPageReply::decode(body).ok().map(|read| written(|out| read.encode(out)))?;
    assert_eq!(again, body, "one encoding only");
    Some(again)
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// A message as a request, then as an answer to one.
fn message<M: Message>(body: &[u8]) -> Option<Vec<u8>> {
    through::<M>(body).or_else(|| through::<M::Reply>(body))
}

fn through<T>(body: &[u8]) -> Option<Vec<u8>>
where
    T: minicbor::Encode<()> + for<'b> minicbor::Decode<'b, ()>,
{
    decode::<T>(body).ok().map(|read| written(|out| encode_into(out, &read)))
}

/// The first byte selects the decoder.
pub fn run(input: &[u8]) {
    let Some((which, body)) = input.split_first() else { return };
    let which = usize::from(*which) % (BY_HAND.len() + OTHERS.len());
    let through = BY_HAND.iter().chain(OTHERS).nth(which).expect("the number is below their count");
    let (again, held) = memory::peak(|| through(body));
    assert!(held <= HELD_ALWAYS + HELD_PER_BYTE * body.len(), "{held} bytes held for {}", body.len());
    let Some(again) = again else { return };
    if which < BY_HAND.len() {
        assert_eq!(again, body, "one encoding only");
    } else {
        assert_eq!(through(&again).as_ref(), Some(&again), "read again from what was written");
    }
}
