//! Bytes that wait to be sent over one connection.

use crate::link::Link;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

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

/// Memory of somebody else, of which a part waits.
struct Lent {
    memory: Arc<Vec<u8>>,
    range: Range<usize>,
}

#[derive(Default)]
pub(crate) struct SendBuffer {
    /// The memory that goes out before `bytes`.
    lent: VecDeque<Lent>,
    lent_bytes: usize,
    bytes: Vec<u8>,
    start: usize,
    /// Bytes that the kernel took, since the connection began.
    sent: u64,
}

impl SendBuffer {
    /// The bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.lent_bytes + self.own_len()
    }

    fn own_len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Bytes that have gone out, of all that ever were to.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn push(&mut self, frame: &[u8]) {
        // At most as many bytes are moved as were sent since the last move, so each byte is moved once on
        // average.
        if self.start >= COMPACT_BYTES && self.start >= self.own_len() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(frame);
    }

    /// Appends a part of `memory`, which is held until it has gone out.
    pub(crate) fn push_lent(&mut self, memory: &Arc<Vec<u8>>, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        if self.own_len() > 0 {
            let own = self.start..self.bytes.len();
            self.start = 0;
            self.lent_bytes += own.len();
            self.lent.push_back(Lent { memory: Arc::new(std::mem::take(&mut self.bytes)), range: own });
        }
        self.lent_bytes += range.len();
        self.lent.push_back(Lent { memory: Arc::clone(memory), range });
    }

    /// Sends the beginning of a frame past the buffer when nothing waits in it; how much. A fault of the link shows at the
    /// next flush.
    pub(crate) fn send_at_once(&mut self, link: &mut Link, [first, second]: [&[u8]; 2]) -> usize {
        if self.len() > 0 {
            return 0;
        }
        let first = &first[..first.len().min(SEND_BYTES_MAX)];
        let second = &second[..second.len().min(SEND_BYTES_MAX - first.len())];
        let count = link.send([first, second]).unwrap_or(0);
        self.sent += count as u64;
        count
    }

    /// Puts back in front what the link had taken and nobody has read.
    pub(crate) fn take_back(&mut self, bytes: Vec<u8>) {
        let range = 0..bytes.len();
        if !range.is_empty() {
            self.sent -= bytes.len() as u64;
            self.lent_bytes += bytes.len();
            self.lent.push_front(Lent { memory: Arc::new(bytes), range });
        }
    }

    /// For whoever writes frames in place.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Sends until nothing is left, the link is full, or this turn's share is used up.
    pub(crate) fn flush(&mut self, link: &mut Link) -> Sent {
        let mut share = SEND_BYTES_MAX;
        while self.len() > 0 && share > 0 {
            let own = &self.bytes[self.start..];
            let mut parts =
                self.lent.iter().map(|lent| &lent.memory[lent.range.clone()]).chain(std::iter::once(own));
            // The head of a frame is sent together with the frame's shared part.
            let mut next = || parts.next().unwrap_or_default();
            let (first, second) = (next(), next());
            let first = &first[..first.len().min(share)];
            let second = &second[..second.len().min(share - first.len())];
            let first_bytes = first.len();
            match link.send([first, second]) {
                Ok(count) => {
                    let of_first = count.min(first_bytes);
                    self.took(of_first);
                    self.took(count - of_first);
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

    /// The kernel took so many of the bytes that are next.
    fn took(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.sent += count as u64;
        let Some(Lent { range, .. }) = self.lent.front_mut() else {
            self.start += count;
            return;
        };
        range.start += count;
        self.lent_bytes -= count;
        if range.start == range.end {
            self.lent.pop_front();
        }
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
        let mut near = Link::socket(near.into());
        let mut buffer = SendBuffer::default();
        let mut want = Vec::new();
        let mut got = Vec::new();
        let mut part = vec![0; 30_000];
        for round in 0..200u32 {
            let frame: Vec<u8> = (0..20_000u32).map(|i| (i ^ round) as u8).collect();
            buffer.push(&frame);
            want.extend_from_slice(&frame);
            assert_ne!(buffer.flush(&mut near), Sent::Broken);
            let count = far.read(&mut part).unwrap();
            got.extend_from_slice(&part[..count]);
        }
        while got.len() < want.len() {
            assert_ne!(buffer.flush(&mut near), Sent::Broken);
            let count = far.read(&mut part).unwrap();
            got.extend_from_slice(&part[..count]);
        }
        assert_eq!(buffer.len(), 0);
        assert!(got == want);
        drop(far);
        buffer.push(b"x");
        assert_eq!(buffer.flush(&mut near), Sent::Broken);
    }

    #[test]
    fn what_is_lent_goes_out_between_what_was_pushed_before_and_after_it() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut near = Link::socket(near.into());
        let mut rng = ramhold_base::Rng::new(11);
        let mut buffer = SendBuffer::default();
        let (mut want, mut got) = (Vec::new(), Vec::new());
        let mut part = vec![0; 50_000];
        let mut lent = Vec::new();
        for _ in 0..300 {
            let bytes: Vec<u8> = (0..rng.below(60_000)).map(|_| rng.u64() as u8).collect();
            if rng.chance(1, 2) {
                want.extend_from_slice(&bytes);
                buffer.push(&bytes);
            } else {
                let memory = Arc::new(bytes);
                let from = rng.below(memory.len() as u64 + 1) as usize;
                let between = from + rng.below((memory.len() - from) as u64 + 1) as usize;
                let taken = buffer.send_at_once(&mut near, [&memory[from..between], &memory[between..]]);
                want.extend_from_slice(&memory[from..]);
                buffer.push_lent(&memory, from + taken..memory.len());
                lent.push(memory);
            }
            assert_eq!(buffer.sent() as usize + buffer.len(), want.len());
            assert_ne!(buffer.flush(&mut near), Sent::Broken);
            let count =
                if buffer.len() > 0 || got.len() < want.len() { far.read(&mut part).unwrap() } else { 0 };
            got.extend_from_slice(&part[..count]);
        }
        while got.len() < want.len() {
            assert_ne!(buffer.flush(&mut near), Sent::Broken);
            let count = far.read(&mut part).unwrap();
            got.extend_from_slice(&part[..count]);
        }
        assert!(got == want);
        assert_eq!(buffer.len(), 0);
        assert!(lent.iter().all(|memory| Arc::strong_count(memory) == 1), "nothing is held any longer");
    }
}
