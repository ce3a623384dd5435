//! The identity of a data directory, and the state in which its last life left it.
//!
//! There are two copies, written in turn. One copy is written only when the other is on the device, so that a torn
//! write leaves the other. The very first write has no other copy. If it is torn, nothing was ever kept in the
//! directory.
//!
//! Bytes: docs/formats/replica.md.

use ramhold_base::bytes::{Put, Reader};
use ramhold_base::checksum::crc;
use ramhold_base::{ClusterId, DirectoryId, ServerId};

/// The size of a copy: one page.
pub(crate) const COPY_BYTES: usize = 4096;
const MAGIC: &[u8; 8] = b"RHSUPER\0";
const FORMAT: u32 = 1;
const CRC_AT: usize = COPY_BYTES - 4;
const CLEAN: u32 = 1;

/// The identity of a data directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    pub directory: DirectoryId,
    /// `None` until a server with this directory has enlisted in a cluster.
    pub cluster: Option<ClusterId>,
    /// The server id of the last life.
    pub last: Option<ServerId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    pub sequence: u64,
    pub directory: DirectoryId,
    pub cluster: ClusterId,
    pub server: ServerId,
    /// The id of the buffer file when the superblock was written. A buffer file with another id is not the same one.
    pub buffer_id: u64,
    pub segment_bytes: u32,
    /// The last life ended in order: all its replicas are on the device.
    pub clean: bool,
}

/// The contents of the superblock file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// Nothing was ever written.
    New,
    Newest(Superblock),
    /// The directory cannot be used, with the reason for the operator.
    Unusable(String),
}

enum Decoded {
    Zero,
    Damaged,
    Newer(u32),
    Valid(Superblock),
}

impl Superblock {
    pub fn identity(&self) -> Identity {
        Identity {
            directory: self.directory,
            cluster: Some(self.cluster).filter(|id| !id.is_none()),
            last: Some(self.server).filter(|id| !id.is_none()),
        }
    }

    /// The offset at which the copy with this sequence number is written.
    pub fn offset(&self) -> u64 {
        self.sequence % 2 * COPY_BYTES as u64
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(COPY_BYTES);
        out.put_bytes(MAGIC);
        out.put_u32(FORMAT);
        out.put_u32(if self.clean { CLEAN } else { 0 });
        out.put_u64(self.sequence);
        out.put_u64(self.directory.raw());
        out.put_u64(self.cluster.raw());
        out.put_u64(self.server.raw());
        out.put_u64(self.buffer_id);
        out.put_u32(self.segment_bytes);
        out.resize(CRC_AT, 0);
        let sum = crc(&out);
        out.put_u32(sum);
        out
    }

    fn decode(bytes: &[u8]) -> Decoded {
        if bytes.iter().all(|byte| *byte == 0) {
            return Decoded::Zero;
        }
        let Some((body, sum)) = bytes.split_at_checked(CRC_AT) else { return Decoded::Damaged };
        if sum != crc(body).to_le_bytes() {
            return Decoded::Damaged;
        }
        let mut reader = Reader::new(body);
        let mut read = || {
            let magic = reader.take(MAGIC.len())?;
            let format = reader.u32()?;
            if magic != MAGIC {
                return Some(Decoded::Damaged);
            }
            if format != FORMAT {
                return Some(Decoded::Newer(format));
            }
            let flags = reader.u32()?;
            Some(Decoded::Valid(Superblock {
                sequence: reader.u64()?,
                directory: DirectoryId(reader.u64()?),
                cluster: ClusterId(reader.u64()?),
                server: ServerId(reader.u64()?),
                buffer_id: reader.u64()?,
                segment_bytes: reader.u32()?,
                clean: flags & CLEAN != 0,
            }))
        };
        read().unwrap_or(Decoded::Damaged)
    }

    /// Finds the newest copy. `bytes` are the contents of the file, perhaps less than two copies.
    pub fn find(bytes: &[u8]) -> Found {
        let mut newest: Option<Superblock> = None;
        let mut damaged = false;
        let mut is_second_written = false;
        for (index, copy) in bytes.chunks(COPY_BYTES).enumerate() {
            let decoded = Superblock::decode(copy);
            is_second_written |= index == 0 && !matches!(decoded, Decoded::Zero);
            match decoded {
                Decoded::Zero => {}
                Decoded::Damaged => damaged = true,
                Decoded::Newer(format) => {
                    return Found::Unusable(format!(
                        "the data directory is of format {format}, this program knows {FORMAT}"
                    ));
                }
                Decoded::Valid(one) if newest.is_none_or(|other| one.sequence > other.sequence) => {
                    newest = Some(one)
                }
                Decoded::Valid(_) => {}
            }
        }
        match newest {
            // The damaged copy may be the newer one, so the flag `clean` of this one is not believed.
            Some(found) => Found::Newest(Superblock { clean: found.clean && !damaged, ..found }),
            None if damaged && is_second_written => {
                Found::Unusable("the superblock of the data directory is damaged".into())
            }
            None => Found::New,
        }
    }
}

/// The first page of the buffer file, which holds the buffer id.
pub(crate) fn encode_buffer_id(id: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(COPY_BYTES);
    out.put_bytes(b"RHBUFFER");
    out.put_u64(id);
    let sum = crc(&out);
    out.put_u32(sum);
    out.resize(COPY_BYTES, 0);
    out
}

pub(crate) fn decode_buffer_id(bytes: &[u8]) -> Option<u64> {
    let mut reader = Reader::new(bytes);
    let magic = reader.take(8)?;
    let id = reader.u64()?;
    let sum = reader.u32()?;
    (magic == b"RHBUFFER" && sum == crc(bytes.get(..16)?)).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(sequence: u64, clean: bool) -> Superblock {
        Superblock {
            sequence,
            directory: DirectoryId(2),
            cluster: ClusterId(3),
            server: ServerId(4),
            buffer_id: 5,
            segment_bytes: 4096,
            clean,
        }
    }

    #[test]
    fn a_torn_copy_leaves_the_other() {
        let mut bytes = example(4, true).encode();
        bytes.extend(example(5, false).encode());
        assert_eq!(Superblock::find(&bytes), Found::Newest(example(5, false)));
        bytes[COPY_BYTES + 30] ^= 1;
        assert_eq!(
            Superblock::find(&bytes),
            Found::Newest(example(4, false)),
            "no longer believed to be clean"
        );
        bytes[30] ^= 1;
        assert!(matches!(Superblock::find(&bytes), Found::Unusable(_)));
        bytes[..COPY_BYTES].fill(0);
        assert_eq!(Superblock::find(&bytes), Found::New, "the first write of all was torn");
        assert_eq!(Superblock::find(&[]), Found::New);
        assert_eq!(Superblock::find(&[0; 2 * COPY_BYTES]), Found::New);
    }

    #[test]
    fn a_newer_format_is_refused() {
        let mut bytes = example(1, false).encode();
        bytes[8] = 9;
        let sum = crc(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&sum.to_le_bytes());
        assert!(matches!(Superblock::find(&bytes), Found::Unusable(reason) if reason.contains("format 9")));
    }

    #[test]
    fn the_buffer_id_is_under_a_checksum() {
        let mut bytes = encode_buffer_id(77);
        assert_eq!(decode_buffer_id(&bytes), Some(77));
        for bit in 0..20 * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_buffer_id(&bytes), None);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(decode_buffer_id(&[]), None);
    }
}
