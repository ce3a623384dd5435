//! The head of an answer with records: the only part of the conversation of a recovery that is not CBOR.

use ramhold_base::bytes::{Put, Reader};

/// Stands before the records in an answer to `RecoveryRead`: the time that they took at the backup, in
/// microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadTimes {
    /// From asking the device to having the segment.
    pub reading: u32,
    /// From the question to the answer.
    pub waiting: u32,
}

impl ReadTimes {
    pub const BYTES: usize = 8;

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.reading);
        out.put_u32(self.waiting);
    }

    /// The times, and the records behind them.
    pub fn split(body: &[u8]) -> Option<(ReadTimes, &[u8])> {
        let mut reader = Reader::new(body);
        let times = ReadTimes { reading: reader.u32()?, waiting: reader.u32()? };
        Some((times, body.get(ReadTimes::BYTES..)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // F11
    #[test]
    fn times_come_before_the_records() {
        let times = ReadTimes { reading: 7, waiting: u32::MAX };
        let mut body = Vec::new();
        times.encode(&mut body);
        body.extend(b"records");
        assert_eq!(ReadTimes::split(&body), Some((times, &b"records"[..])));
        assert_eq!(ReadTimes::split(&body[..ReadTimes::BYTES - 1]), None);
    }
}
