//! Checks an append against its replica, before anything is changed.
//!
//! Bytes that are already held are skipped. If a certificate of the message ends among the uncertified bytes that are
//! held, these bytes are dropped: their checksum up to that point is no longer known, and uncertified bytes do not
//! exist.
//!
//! Protocol: docs/protocols/replication.md. Catalogue: D6, D8.

use crate::replica::Replica;
use crate::replica::operations::Held;
use ramhold_base::Status;
use ramhold_base::checksum::crc_append;
use ramhold_base::limits::APPEND_BYTES_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_wire::Header;
use ramhold_wire::data::AppendRequest;

/// The state of a replica after an accepted append.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Accepted {
    pub held: Held,
    pub crc: u32,
    /// The offset at which the new bytes are written, and the number of bytes of the message's data before them.
    pub write_at: u32,
    pub skip: usize,
}

pub(crate) fn decode_append<'a>(
    header: &Header,
    body: &'a [u8],
    segment_bytes: u32,
) -> Result<AppendRequest<'a>, Status> {
    let request = AppendRequest::decode(body)?;
    let end = u64::from(request.offset) + request.data.len() as u64;
    let is_named = !header.segment.is_none() && !header.stream.is_none();
    let is_sized = end <= u64::from(segment_bytes) && request.data.len() <= APPEND_BYTES_MAX as usize;
    let is_open_sound = !request.open || request.offset == 0;
    let is_close_sound = !request.close || request.certificate.is_some();
    if is_named && is_sized && is_open_sound && is_close_sound {
        Ok(request)
    } else {
        Err(Status::BadRequest)
    }
}

/// Whether a message opens a segment anew, from its begin, although a replica of it is here, because that replica has
/// an older epoch or is damaged.
pub(crate) fn is_reopened(replica: &Replica, header: &Header, request: &AppendRequest<'_>) -> bool {
    let is_newer = !request.raise_epoch && header.epoch > replica.accepted.epoch;
    let is_damaged = replica.corrupt && header.epoch >= replica.accepted.epoch;
    request.open && (is_newer || is_damaged)
}

/// The state of the replica after this message, or the reason why the message is refused.
pub(crate) fn accept(
    replica: &Replica,
    header: &Header,
    request: &AppendRequest<'_>,
) -> Result<Accepted, Status> {
    let before = replica.accepted;
    let is_unchecked = replica.opened.incarnation == 0 || planted(Defect::OldEpochTaken);
    if !is_unchecked && (header.epoch < before.epoch || (header.epoch > before.epoch && !request.raise_epoch))
    {
        return Err(Status::StaleEpoch);
    }
    let end = request.offset + request.data.len() as u32;
    if before.closed && end > before.length {
        return Err(Status::NotAllowed);
    }
    if request.close && end < before.certified() {
        return Err(Status::NotAllowed);
    }
    if replica.corrupt {
        return Err(Status::CorruptReplica);
    }
    if replica.operations.are_full() {
        return Err(Status::TooMany);
    }
    // The certificate ends among uncertified bytes: start again from the last certificate.
    let certified = before.certified();
    let drops = request.certificate.is_some_and(|certificate| {
        certificate.length < before.length && (certificate.length > certified || request.close)
    });
    let (length, crc) =
        if drops { (certified, before.certificate_crc()) } else { (before.length, replica.crc) };
    if request.offset > length {
        return Err(Status::OutOfOrder);
    }
    let skip = ((length - request.offset) as usize).min(request.data.len());
    let epoch = if planted(Defect::OldEpochTaken) { before.epoch.max(header.epoch) } else { header.epoch };
    let mut held = Held { length: length.max(end), epoch, ..before };
    let crc = crc_append(crc, &request.data[skip..]);
    if let Some(certificate) = request.certificate {
        let known = if certificate.length == held.length { Some(crc) } else { None };
        let known = if certificate.length == certified && before.certificate.is_some() {
            before.certificate.map(|before| before.crc)
        } else {
            known
        };
        // A certificate that is shorter than the present one comes from an old message, and changes nothing.
        if known.is_some_and(|known| known != certificate.crc) {
            return Err(Status::CorruptReplica);
        }
        if certificate.length > certified || before.certificate.is_none() {
            held.certificate = Some(certificate);
        }
    }
    held.closed |= request.close;
    if request.open {
        held.primary = request.primary;
    }
    Ok(Accepted { held, crc, write_at: length, skip })
}
