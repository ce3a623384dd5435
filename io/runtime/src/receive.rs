//! Bytes that arrived over one connection and are not yet handed on.
//!
//! Memory grows with the bytes that have arrived, to at most about twice their number. It never follows the
//! length that a header claims. A large frame is read into memory that an earlier large frame has left, if
//! there is some: the pages are allocated only once, and stay in the processor's caches. The front of the
//! buffer is always the start of a frame, or of bytes that the machine has not taken.

use crate::link::Link;
use ramhold_wire::BadFrame;
use ramhold_wire::frame;
use rustix::io::Errno;
use std::ops::Range;

/// Taken from the kernel in one turn, so that one connection cannot keep the loop from the others.
const READ_BYTES_MAX: usize = 256 * 1024;
/// From this size on a frame is read to its end and no further: what follows would have to be moved to the front.
const LARGE_BYTES: usize = 64 * 1024;
/// Room that is made before reading; holds many small frames.
const ROOM_BYTES: usize = 16 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Received {
    Bytes(usize),
    /// Nothing there just now.
    Nothing,
    /// The other side will send no more.
    End,
    Broken,
}

/// Memory that large frames have left, for large frames to come; at most `LEFT_COUNT_MAX` pieces.
#[derive(Default)]
pub(crate) struct Left {
    pieces: Vec<Vec<u8>>,
    /// Something was taken since the last look.
    busy: bool,
}

/// As many large frames as come side by side in a recovery of a few servers.
const LEFT_COUNT_MAX: usize = 8;

impl Left {
    fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let fits = self.pieces.iter().rposition(|piece| piece.capacity() >= bytes)?;
        self.busy = true;
        Some(self.pieces.swap_remove(fits))
    }

    /// Gives memory back when none was taken since the last time.
    pub(crate) fn shrink(&mut self) {
        if !std::mem::take(&mut self.busy) {
            self.pieces.clear();
        }
    }
}

#[derive(Default)]
pub(crate) struct ReceiveBuffer {
    bytes: Vec<u8>,
    start: usize,
    /// The last bytes that were read belong to a large frame.
    is_large: bool,
}

impl ReceiveBuffer {
    /// Reads once from the link.
    pub(crate) fn fill(&mut self, link: &mut Link, left: &mut Left) -> Received {
        let wanted = self.rest_of_large();
        self.is_large = wanted.is_some();
        if let Some(wanted) = wanted {
            self.move_to_left(wanted, left);
        }
        self.make_room(wanted.map_or(ROOM_BYTES, |wanted| wanted.min(ROOM_BYTES)));
        let length = self.bytes.len();
        let spare = self.bytes.spare_capacity_mut();
        let bound = spare.len().min(wanted.unwrap_or(READ_BYTES_MAX)).min(READ_BYTES_MAX);
        let filled = loop {
            match link.recv(&mut spare[..bound]) {
                Ok(filled) => break filled,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Received::Nothing,
                Err(_) => return Received::Broken,
            }
        };
        #[expect(
            unsafe_code,
            reason = "zeroing what the kernel overwrites would cost as much as the copy itself"
        )]
        // SAFETY: `Link::recv` has initialised the first `filled` bytes of the spare capacity.
        unsafe {
            self.bytes.set_len(length + filled);
        }
        if filled == 0 { Received::End } else { Received::Bytes(filled) }
    }

    /// The bytes that are missing of a large frame that has begun to come.
    fn rest_of_large(&self) -> Option<usize> {
        let waiting = self.waiting();
        let length = frame::length(waiting).ok()?.filter(|length| *length >= LARGE_BYTES)?;
        length.checked_sub(waiting.len()).filter(|rest| *rest > 0)
    }

    /// Goes on in memory that is left, when there is some for a whole large frame of which so much is missing.
    fn move_to_left(&mut self, missing: usize, left: &mut Left) {
        if self.bytes.capacity() - self.bytes.len() >= missing {
            return;
        }
        if let Some(mut memory) = left.take(self.waiting().len() + missing) {
            memory.clear();
            memory.extend_from_slice(self.waiting());
            (self.bytes, self.start) = (memory, 0);
        }
    }

    /// After a large frame was handed on and when nothing is held: leaves the memory to other large frames.
    pub(crate) fn leave(&mut self, left: &mut Left) {
        if self.is_large && self.is_empty() && left.pieces.len() < LEFT_COUNT_MAX {
            left.pieces.push(std::mem::take(self).bytes);
        }
    }

    fn make_room(&mut self, room: usize) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
        if self.bytes.capacity() - self.bytes.len() >= room {
            return;
        }
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        if self.bytes.capacity() - self.bytes.len() < room {
            // The capacity doubles, so that a growing large frame is moved only a few times.
            self.bytes.reserve(self.bytes.len().max(ROOM_BYTES));
        }
    }

    /// Where the first whole frame lies, if it is there.
    pub(crate) fn frame(&self) -> Result<Option<Range<usize>>, BadFrame> {
        let rest = &self.bytes[self.start..];
        match frame::length(rest)? {
            Some(length) if length <= rest.len() => Ok(Some(self.start..self.start + length)),
            Some(_) | None => Ok(None),
        }
    }

    /// All that has come and is not handed on.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// So many bytes at the front have been handed on.
    pub(crate) fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes.len() - self.start);
        self.start += bytes;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Gives memory back when nothing is held.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() {
            *self = ReceiveBuffer::default();
        }
    }

    #[cfg(test)]
    fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::RpcId;
    use ramhold_wire::{Header, Opcode};
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn frame_bytes(body: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &Header::request(Opcode::Ping, RpcId(1)), |out| {
            out.resize(out.len() + body, 7)
        });
        bytes
    }

    // E2: frames are found wherever the stream is split.
    #[test]
    fn frames_are_found_in_a_stream_of_single_bytes() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut far = Link::socket(far.into());
        let stream = [frame_bytes(0), frame_bytes(33), frame_bytes(1)].concat();
        let (mut buffer, mut left) = (ReceiveBuffer::default(), Left::default());
        let mut found = Vec::new();
        for byte in &stream {
            near.write_all(&[*byte]).unwrap();
            assert_eq!(buffer.fill(&mut far, &mut left), Received::Bytes(1));
            while let Some(range) = buffer.frame().unwrap() {
                found.extend_from_slice(buffer.bytes(range.clone()));
                buffer.consume(range.len());
            }
        }
        assert_eq!(found, stream);
        assert!(buffer.is_empty());
        assert_eq!(buffer.fill(&mut far, &mut left), Received::Nothing);
        drop(near);
        assert_eq!(buffer.fill(&mut far, &mut left), Received::End);
    }

    #[test]
    fn memory_follows_what_has_arrived_not_what_is_claimed() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut far = Link::socket(far.into());
        let large = frame_bytes(4 * 1024 * 1024);
        let (mut buffer, mut left) = (ReceiveBuffer::default(), Left::default());
        let mut arrived = 0;
        for part in large.chunks(50_000) {
            near.write_all(part).unwrap();
            let mut rest = part.len();
            while rest > 0 {
                let Received::Bytes(count) = buffer.fill(&mut far, &mut left) else { panic!() };
                rest -= count;
            }
            arrived += part.len();
            assert!(buffer.capacity() <= 2 * arrived + 4 * ROOM_BYTES, "{} for {arrived}", buffer.capacity());
        }
        let range = buffer.frame().unwrap().unwrap();
        assert!(buffer.bytes(range.clone()) == large);
        buffer.consume(range.len());
        buffer.shrink();
        assert_eq!(buffer.capacity(), 0);
    }

    #[test]
    fn a_large_frame_is_read_into_what_another_has_left() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut far = Link::socket(far.into());
        let mut left = Left::default();
        let mut read_one = |near: &mut UnixStream, frame: &[u8], left: &mut Left| {
            let mut buffer = ReceiveBuffer::default();
            for part in frame.chunks(50_000) {
                near.write_all(part).unwrap();
                let mut rest = part.len();
                while rest > 0 {
                    let Received::Bytes(count) = buffer.fill(&mut far, left) else { panic!() };
                    rest -= count;
                }
            }
            let range = buffer.frame().unwrap().unwrap();
            assert!(buffer.bytes(range.clone()) == frame);
            let place = buffer.bytes(range.clone()).as_ptr();
            buffer.leave(left);
            assert_eq!(buffer.waiting().len(), frame.len(), "what is held stays");
            buffer.consume(range.len());
            buffer.leave(left);
            place
        };
        let (large, larger, small) =
            (frame_bytes(300_000), frame_bytes(2_000_000), frame_bytes(LARGE_BYTES / 2));
        let first = read_one(&mut near, &large, &mut left);
        assert_eq!(read_one(&mut near, &large, &mut left), first);
        read_one(&mut near, &small, &mut left);
        assert_eq!(left.pieces.len(), 1, "small frames leave nothing");
        assert_ne!(read_one(&mut near, &larger, &mut left), first, "it would not hold that");
        left.shrink();
        assert_eq!(left.pieces.len(), 2);
        left.shrink();
        assert!(left.pieces.is_empty());
    }
}
