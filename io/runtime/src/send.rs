//! Bytes that wait to go out over one connection.

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::SendFlags;

/// Given to the kernel in one turn, so that one fast reader cannot keep the loop from the others.
const SEND_BYTES_MAX: usize = 1024 * 1024;
/// From here on it pays to move the rest to the front before appending.
const COMPACT_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    All,
    /// The rest goes out when the socket takes more.
    Some,
    Broken,
}

#[derive(Default)]
pub(crate) struct SendBuffer {
    bytes: Vec<u8>,
    start: usize,
    /// Bytes that the kernel took, since the connection began.
    sent: u64,
}

impl SendBuffer {
    /// The bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Bytes that have gone out, of all that ever were to.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn push(&mut self, frame: &[u8]) {
        // Moving at most as much as was sent since the last move: each byte is moved once on average.
        if self.start >= COMPACT_BYTES && self.start >= self.len() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(frame);
    }

    /// Sends the beginning of a frame past the buffer when nothing waits in it; how much. What is wrong with the socket shows
    /// at the next flush.
    pub(crate) fn send_at_once(&mut self, socket: impl AsFd, frame: &[u8]) -> usize {
        if self.len() > 0 {
            return 0;
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let count = rustix::net::send(&socket, &frame[..frame.len().min(SEND_BYTES_MAX)], flags).unwrap_or(0);
        self.sent += count as u64;
        count
    }

    /// For whoever writes frames in place.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Sends until nothing is left, the socket is full, or this turn's share is used up.
    pub(crate) fn flush(&mut self, socket: impl AsFd) -> Sent {
        let mut share = SEND_BYTES_MAX;
        while self.len() > 0 && share > 0 {
            let end = self.bytes.len().min(self.start + share);
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(&socket, &self.bytes[self.start..end], flags) {
                Ok(count) => {
                    self.start += count;
                    self.sent += count as u64;
                    share -= count;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Sent::Some,
                Err(_) => return Sent::Broken,
            }
        }
        if self.len() > 0 {
            return Sent::Some;
        }
        self.bytes.clear();
        self.start = 0;
        Sent::All
    }

    /// Gives memory back when nothing waits.
    pub(crate) fn shrink(&mut self) {
        if self.len() == 0 {
            self.bytes = Vec::new();
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_slow_reader_gets_everything_in_order() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut buffer = SendBuffer::default();
        let mut want = Vec::new();
        let mut got = Vec::new();
        let mut part = vec![0; 30_000];
        for round in 0..200u32 {
            let frame: Vec<u8> = (0..20_000u32).map(|i| (i ^ round) as u8).collect();
            buffer.push(&frame);
            want.extend_from_slice(&frame);
            assert_ne!(buffer.flush(&near), Sent::Broken);
            let count = far.read(&mut part).unwrap();
            got.extend_from_slice(&part[..count]);
        }
        while got.len() < want.len() {
            assert_ne!(buffer.flush(&near), Sent::Broken);
            let count = far.read(&mut part).unwrap();
            got.extend_from_slice(&part[..count]);
        }
        assert_eq!(buffer.len(), 0);
        assert!(got == want);
        drop(far);
        buffer.push(b"x");
        assert_eq!(buffer.flush(&near), Sent::Broken);
    }
}
