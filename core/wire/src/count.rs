//! The number of objects in a tablet.
//!
//! The messages are laid out by hand. `decode` takes bytes from outside: it answers a status, and never
//! panics.

use ramhold_base::bytes::{Put, Reader};
use ramhold_base::{KeyHash, Status, TableId};

/// The body of `Count`: table u32, and the hash u64 at which a tablet begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountRequest {
    pub table: TableId,
    pub first: KeyHash,
}

impl CountRequest {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.table.raw());
        out.put_u64(self.first.0);
    }

    pub fn decode(body: &[u8]) -> Result<CountRequest, Status> {
        let mut reader = Reader::new(body);
        let mut read = || Some(CountRequest { table: TableId(reader.u32()?), first: KeyHash(reader.u64()?) });
        let request = read().ok_or(Status::BadRequest)?;
        if reader.is_empty() { Ok(request) } else { Err(Status::BadRequest) }
    }
}

/// The body of the answer to `Count`: last hash u64 of the tablet, objects u64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountReply {
    /// Inclusive.
    pub last: KeyHash,
    pub objects: u64,
}

impl CountReply {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.last.0);
        out.put_u64(self.objects);
    }

    pub fn decode(body: &[u8]) -> Result<CountReply, Status> {
        let mut reader = Reader::new(body);
        let mut read = || Some(CountReply { last: KeyHash(reader.u64()?), objects: reader.u64()? });
        read().ok_or(Status::BadRequest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_round_trip(table: u32, hash: u64, objects: u64, cut in 0usize..12) {
            let (request, reply) =
                (CountRequest { table: TableId(table), first: KeyHash(hash) }, CountReply { last: KeyHash(hash), objects });
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            prop_assert_eq!(CountRequest::decode(&bytes), Ok(request));
            prop_assert_eq!(CountRequest::decode(&bytes[..cut]), Err(Status::BadRequest));
            bytes.push(0);
            prop_assert_eq!(CountRequest::decode(&bytes), Err(Status::BadRequest));
            bytes.clear();
            reply.encode(&mut bytes);
            prop_assert_eq!(CountReply::decode(&bytes), Ok(reply));
            prop_assert_eq!(CountReply::decode(&bytes[..cut]), Err(Status::BadRequest));
        }
    }
}
