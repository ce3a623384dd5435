//! Many requests to one master in one frame, and the answer to each of them (A5).
//!
//! The body of `Multi`: count u16. Then for each item: opcode u16, flags u16, sequence u64, length u32, and
//! the body that the request would have alone. Cluster, target, lease and `unacknowledged` are those of the
//! frame. The body of its answer: for each item, in any order: its place u16, status u16, length u32, body.
//!
//! `decode` takes bytes from outside: it checks every length before anything is carried out, and allocates
//! nothing.

use crate::data::{KeyRequest, ReadReply};
use crate::{Addressee, ForObject, Opcode};
use ramhold_base::bytes::{Put, Reader};
use ramhold_base::limits::{FRAME_BODY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::{Sequence, Status, TableId};

/// Items of one frame. A few hundred items share the costs of a frame well, and take a master less than a
/// millisecond.
pub const MULTI_COUNT_MAX: usize = 256;
/// Bytes of a frame's body. A larger request goes alone.
pub const MULTI_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of the items of one answer, beyond which reads are refused with `AnswerFull`.
pub const MULTI_ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The bytes of an item in a request, without its body.
pub const ITEM_BYTES: usize = 16;
/// The bytes of an item in an answer, without its body.
pub const ANSWER_ITEM_BYTES: usize = 8;
/// The largest body of any answer except a read's: a version and a number.
pub const SHORT_ANSWER_BYTES_MAX: usize = 16;

const REPEATED: u16 = 1;
/// Stands in place of a status: the master does not answer this item, as it would not answer the request
/// alone.
const UNANSWERED: u16 = u16::MAX;

const _: () = assert!(
    MULTI_ANSWER_BYTES_MAX + MULTI_COUNT_MAX * (ANSWER_ITEM_BYTES + SHORT_ANSWER_BYTES_MAX)
        <= FRAME_BODY_BYTES_MAX as usize
);
// A value fits an answer of its own.
const _: () = assert!(VALUE_BYTES_MAX + 64 <= MULTI_ANSWER_BYTES_MAX);

/// One request of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item<'a> {
    pub request: ForObject,
    /// An earlier request with this sequence may have been carried out.
    pub repeated: bool,
    /// None for reads.
    pub sequence: Sequence,
    pub body: &'a [u8],
}

/// The items of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MultiRequest<'a> {
    count: usize,
    items: &'a [u8],
}

/// Appends the body of a frame of `count` items, whose bytes `put` appends with `encode_item`.
pub fn encode_multi(count: usize, out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    out.put_u16(u16::try_from(count).expect("whoever packs items keeps to the limit"));
    put(out);
}

/// Appends one item; `body` appends its body.
pub fn encode_item(
    opcode: Opcode,
    repeated: bool,
    sequence: Sequence,
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>),
) {
    out.put_u16(opcode.code());
    out.put_u16(if repeated { REPEATED } else { 0 });
    out.put_u64(sequence.raw());
    put_with_length(out, body);
}

/// The bytes of a read without rules in a frame, without its key.
pub const READ_ITEM_BYTES: usize = ITEM_BYTES + KeyRequest::PLAIN_HEAD_BYTES;

/// Appends a read without rules: the same bytes as those of `encode_item`.
#[inline]
pub fn encode_read_item(table: TableId, key: &[u8], out: &mut Vec<u8>) {
    let mut head = [0; READ_ITEM_BYTES];
    let body_bytes = (KeyRequest::PLAIN_HEAD_BYTES + key.len()) as u32;
    head[..2].copy_from_slice(&Opcode::Read.code().to_le_bytes());
    head[12..16].copy_from_slice(&body_bytes.to_le_bytes());
    head[16..20].copy_from_slice(&table.raw().to_le_bytes());
    out.reserve(head.len() + key.len());
    out.extend_from_slice(&head);
    out.extend_from_slice(key);
}

/// Appends a u32 and then the bytes that it counts.
fn put_with_length(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.put_u32(0);
    body(out);
    let length = u32::try_from(out.len() - at - 4).expect("a body is far below 4 GiB");
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

impl<'a> MultiRequest<'a> {
    /// `TooMany`: more than `MULTI_COUNT_MAX` items. `FrameTooLarge`: more than `MULTI_BYTES_MAX` bytes.
    /// `BadRequest`: an item of another kind, such as a frame of items, or lengths and flags that make no
    /// sense.
    pub fn decode(body: &'a [u8]) -> Result<MultiRequest<'a>, Status> {
        let (count, items) = body.split_first_chunk::<2>().ok_or(Status::BadRequest)?;
        let count = usize::from(u16::from_le_bytes(*count));
        if count > MULTI_COUNT_MAX {
            return Err(Status::TooMany);
        }
        if body.len() > MULTI_BYTES_MAX {
            return Err(Status::FrameTooLarge);
        }
        let mut reader = Reader::new(items);
        for _ in 0..count {
            read_item(&mut reader).ok_or(Status::BadRequest)?;
        }
        if count == 0 || !reader.is_empty() {
            return Err(Status::BadRequest);
        }
        Ok(MultiRequest { count, items })
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn items(&self) -> impl Iterator<Item = Item<'a>> {
        let mut reader = Reader::new(self.items);
        (0..self.count).map_while(move |_| read_item(&mut reader))
    }
}

#[inline]
fn read_item<'a>(reader: &mut Reader<'a>) -> Option<Item<'a>> {
    let mut head = Reader::new(reader.take(ITEM_BYTES)?);
    let opcode = Opcode::from_code(head.u16()?)?;
    let Addressee::ForObject(request) = opcode.addressee() else { return None };
    let flags = head.u16()?;
    let sequence = Sequence(head.u64()?);
    let length = head.u32()?;
    let body = reader.take(length as usize)?;
    let item = Item { request, repeated: flags & REPEATED != 0, sequence, body };
    (flags & !REPEATED == 0).then_some(item)
}

/// The answer to one item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ItemAnswer<'a> {
    /// Its place in the request, from 0.
    pub place: u16,
    /// The raw status, as in a header. None: the item is not answered, and nobody says whether it was carried
    /// out.
    pub status: Option<u16>,
    pub body: &'a [u8],
}

/// Appends an item's answer; `body` appends its body.
pub fn encode_answer(place: u16, status: Option<Status>, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    out.put_u16(place);
    out.put_u16(status.map_or(UNANSWERED, Status::code));
    put_with_length(out, body);
}

/// Appends the answer to a read that has found its object: the same bytes as those of `encode_answer`.
#[inline]
pub fn encode_read(place: u16, reply: &ReadReply<'_>, out: &mut Vec<u8>) {
    let mut head = [0; ANSWER_ITEM_BYTES + ReadReply::HEAD_BYTES];
    let body_bytes = (ReadReply::HEAD_BYTES + reply.value.len()) as u32;
    head[..2].copy_from_slice(&place.to_le_bytes());
    head[2..4].copy_from_slice(&Status::Ok.code().to_le_bytes());
    head[4..8].copy_from_slice(&body_bytes.to_le_bytes());
    head[8..16].copy_from_slice(&reply.version.raw().to_le_bytes());
    head[16..20].copy_from_slice(&reply.time.to_le_bytes());
    head[20..28].copy_from_slice(&reply.expires.unwrap_or_default().0.to_le_bytes());
    out.reserve(head.len() + reply.value.len());
    out.extend_from_slice(&head);
    out.extend_from_slice(reply.value);
}

/// The items' answers in the body of an answer. The iterator ends at the first answer that makes no sense.
pub fn decode_answers(body: &[u8]) -> impl Iterator<Item = ItemAnswer<'_>> {
    let mut reader = Reader::new(body);
    std::iter::from_fn(move || {
        let (place, status, length) = (reader.u16()?, reader.u16()?, reader.u32()?);
        let body = reader.take(length as usize)?;
        Some(ItemAnswer { place, status: (status != UNANSWERED).then_some(status), body })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::RejectRules;
    use proptest::prelude::*;
    use ramhold_base::{ClusterTime, Version};

    const REQUESTS: [ForObject; 4] =
        [ForObject::Read, ForObject::Write, ForObject::Remove, ForObject::Increment];

    fn encoded(items: &[(usize, bool, u64, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_multi(items.len(), &mut bytes, |out| {
            for (opcode, repeated, sequence, body) in items {
                encode_item(REQUESTS[*opcode].into(), *repeated, Sequence(*sequence), out, |out| {
                    out.put_bytes(body)
                });
            }
        });
        bytes
    }

    // A5
    #[test]
    fn limits_and_nested_frames_are_refused_before_anything_is_done() {
        let item = (1, false, 3, b"body".to_vec());
        let bytes = encoded(&[item.clone(), item.clone()]);
        assert_eq!(bytes.len(), 2 + 2 * (ITEM_BYTES + 4));
        assert_eq!(MultiRequest::decode(&bytes).map(|multi| multi.count()), Ok(2));
        assert_eq!(MultiRequest::decode(&encoded(&[])), Err(Status::BadRequest));
        for cut in 0..bytes.len() {
            assert_eq!(MultiRequest::decode(&bytes[..cut]), Err(Status::BadRequest));
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(MultiRequest::decode(&longer), Err(Status::BadRequest));
        for (at, byte) in [(2, 14), (2, 1), (3, 1), (4, 2), (5, 1)] {
            let mut bad = bytes.clone();
            bad[at] = byte;
            assert_eq!(MultiRequest::decode(&bad), Err(Status::BadRequest), "byte {at}");
        }
        let most = encoded(&vec![item.clone(); MULTI_COUNT_MAX]);
        assert!(MultiRequest::decode(&most).is_ok());
        let more = encoded(&vec![item; MULTI_COUNT_MAX + 1]);
        assert_eq!(MultiRequest::decode(&more), Err(Status::TooMany));
        let fits = encoded(&[(1, false, 3, vec![0; MULTI_BYTES_MAX - 2 - ITEM_BYTES])]);
        assert!(MultiRequest::decode(&fits).is_ok());
        let large = encoded(&[(1, false, 3, vec![0; MULTI_BYTES_MAX - 1 - ITEM_BYTES])]);
        assert_eq!(MultiRequest::decode(&large), Err(Status::FrameTooLarge));
    }

    proptest! {
        #[test]
        fn items_and_answers_round_trip(items in proptest::collection::vec(
            (0usize..4, any::<bool>(), any::<u64>(), proptest::collection::vec(any::<u8>(), 0..20)), 1..20)) {
            let bytes = encoded(&items);
            let decoded: Vec<_> = MultiRequest::decode(&bytes).unwrap().items().collect();
            prop_assert_eq!(decoded.len(), items.len());
            for (item, (opcode, repeated, sequence, body)) in decoded.iter().zip(&items) {
                let expected =
                    Item { request: REQUESTS[*opcode], repeated: *repeated, sequence: Sequence(*sequence), body };
                prop_assert_eq!(*item, expected);
            }
            let mut bytes = Vec::new();
            for (place, (opcode, answered, _, body)) in items.iter().enumerate() {
                let status = answered.then_some(Status::ALL[*opcode]);
                encode_answer(place as u16, status, &mut bytes, |out| out.put_bytes(body));
            }
            let answers: Vec<_> = decode_answers(&bytes).collect();
            prop_assert_eq!(answers.len(), items.len());
            for (place, (answer, (opcode, answered, _, body))) in answers.iter().zip(&items).enumerate() {
                let status = answered.then_some(Status::ALL[*opcode].code());
                prop_assert_eq!(*answer, ItemAnswer { place: place as u16, status, body });
            }
        }

        // A5
        #[test]
        fn short_forms_are_the_same_bytes(
            place in any::<u16>(), table in any::<u32>(), version in any::<u64>(), time in any::<u32>(), end in any::<u64>(),
            bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let expires = (end != 0).then_some(ClusterTime(end));
            let reply = ReadReply { version: Version(version), time, expires, value: &bytes };
            let (mut short, mut long) = (Vec::new(), Vec::new());
            encode_read(place, &reply, &mut short);
            encode_answer(place, Some(Status::Ok), &mut long, |out| {
                ReadReply::encode_head(out, reply.version, time, expires);
                out.put_bytes(&bytes);
            });
            prop_assert_eq!(&short, &long);
            let request = KeyRequest { table: TableId(table), rules: RejectRules::default(), key: &bytes };
            encode_read_item(request.table, &bytes, &mut short);
            encode_item(Opcode::Read, false, Sequence::NONE, &mut long, |out| request.encode(out));
            prop_assert_eq!(short, long);
        }

        #[test]
        fn hostile_bodies_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = MultiRequest::decode(&bytes).map(|multi| multi.items().count());
            let _ = decode_answers(&bytes).count();
        }
    }
}
