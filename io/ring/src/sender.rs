//! The end of a ring that stores bytes.

use crate::layout::{ASLEEP, Broken, CHUNKS_MIN, CONTROL_WORDS, HEAD, TAIL, WAITS, chunk_words};
use crate::word::{Ordering, Word};

#[derive(Debug)]
pub struct Sender<M> {
    memory: M,
    /// The place of the ring in the memory.
    start: usize,
    data_words: usize,
    /// Words ever written, those included that are not published yet.
    tail: u64,
    published: u64,
    /// Words ever read, as far as this end knows.
    head: u64,
}

impl<M: AsRef<[Word]>> Sender<M> {
    pub(crate) fn new(memory: M, start: usize, data_words: usize) -> Sender<M> {
        Sender { memory, start, data_words, tail: 0, published: 0, head: 0 }
    }

    fn control(&self, word: usize) -> &Word {
        &self.memory.as_ref()[self.start + word]
    }

    fn room(&self) -> usize {
        self.data_words - (self.tail - self.head) as usize
    }

    /// Looks how far the receiver has read.
    fn look(&mut self) -> Result<(), Broken> {
        let head = self.control(HEAD).load(Ordering::Acquire);
        // It only grows, and never beyond what has been published.
        if head < self.head || head > self.published {
            return Err(Broken);
        }
        self.head = head;
        Ok(())
    }

    /// Stores as much of `bytes` as there is room for; how much. The receiver sees it after `publish`.
    pub fn push(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let mut taken = 0;
        while taken < bytes.len() {
            let rest = &bytes[taken..];
            if self.room() < chunk_words(rest.len()) {
                self.look()?;
            }
            let Some(words_max) = self.room().checked_sub(1).filter(|words| *words > 0) else { break };
            // Bytes count as read at the end of their chunk, so a large one would hide for long that the receiver reads.
            let bytes_max = 8 * words_max.min(self.data_words / CHUNKS_MIN);
            taken += self.push_chunk(&rest[..rest.len().min(bytes_max)]);
        }
        Ok(taken)
    }

    fn push_chunk(&mut self, bytes: &[u8]) -> usize {
        let mask = self.data_words - 1;
        let place = self.tail as usize & mask;
        let data = &self.memory.as_ref()[self.start + CONTROL_WORDS..][..self.data_words];
        data[place].store(bytes.len() as u64, Ordering::Relaxed);
        let place = (place + 1) & mask;
        let (near, far) = bytes.split_at(bytes.len().min(8 * (self.data_words - place)));
        store(&data[place..], near);
        store(data, far);
        self.tail += chunk_words(bytes.len()) as u64;
        bytes.len()
    }

    /// Shows the receiver all that was pushed. True when it sleeps, and has to be woken.
    #[must_use]
    pub fn publish(&mut self) -> bool {
        if self.published == self.tail {
            return false;
        }
        self.published = self.tail;
        self.control(TAIL).store(self.tail, Ordering::Release);
        // Exchanges of one word have an order. If this one comes first, the receiver's in `sleeps` finds what this one has
        // left, and sees the tail. If the receiver's comes first, this one finds its word.
        self.control(ASLEEP).swap(0, Ordering::AcqRel) != 0
    }

    /// Leaves word that this end waits for room. True when there is some already.
    pub fn waits(&mut self) -> Result<bool, Broken> {
        // Ordered with the exchange in `Receiver::pull`, as in `publish`.
        self.control(WAITS).swap(1, Ordering::AcqRel);
        self.look()?;
        Ok(self.has_room())
    }

    /// Whether something can be pushed, as far as this end knows.
    #[must_use]
    fn has_room(&self) -> bool {
        self.room() >= self.data_words / 4
    }

    /// Looks whether there is room for a good part of the ring.
    pub fn finds_room(&mut self) -> Result<bool, Broken> {
        self.look()?;
        Ok(self.has_room())
    }
}

/// Whole words, and what is left in the last one.
fn store(words: &[Word], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<8>();
    for (word, bytes) in words.iter().zip(whole) {
        word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        words[whole.len()].store(u64::from_le_bytes(last), Ordering::Relaxed);
    }
}
