//! The end of a ring that takes bytes out.

use crate::layout::{ASLEEP, Broken, CONTROL_WORDS, HEAD, TAIL, WAITS, chunk_words};
use crate::word::{Ordering, Word};
use std::mem::MaybeUninit;

#[derive(Debug)]
pub struct Receiver<M> {
    memory: M,
    /// The place of the ring in the memory.
    start: usize,
    data_words: usize,
    /// Words ever read; of the chunk that has begun, none counts before the last.
    head: u64,
    /// Words ever written, as far as this end knows.
    tail: u64,
    /// The length of the chunk that has begun, and its bytes that were taken out. Zero: none has begun.
    chunk: usize,
    taken: usize,
}

impl<M: AsRef<[Word]>> Receiver<M> {
    pub(crate) fn new(memory: M, start: usize, data_words: usize) -> Receiver<M> {
        Receiver { memory, start, data_words, head: 0, tail: 0, chunk: 0, taken: 0 }
    }

    fn control(&self, word: usize) -> &Word {
        &self.memory.as_ref()[self.start + word]
    }

    /// Whether bytes may have come. Costs no more than the look at one line of memory.
    #[must_use]
    pub fn has_input(&self) -> bool {
        self.tail != self.head || self.control(TAIL).load(Ordering::Relaxed) != self.tail
    }

    fn look(&mut self) -> Result<(), Broken> {
        let tail = self.control(TAIL).load(Ordering::Acquire);
        if tail < self.tail || tail - self.head > self.data_words as u64 {
            return Err(Broken);
        }
        self.tail = tail;
        Ok(())
    }

    /// Takes out as many bytes as have come and fit; how many, and whether the sender waited for room and has to be
    /// woken. All these bytes of `out`, from its front, are initialised.
    pub fn pull(&mut self, out: &mut [MaybeUninit<u8>]) -> Result<(usize, bool), Broken> {
        let mut filled = 0;
        let before = self.head;
        while filled < out.len() {
            if self.chunk == 0 {
                if self.tail == self.head {
                    self.look()?;
                    if self.tail == self.head {
                        break;
                    }
                }
                self.begin()?;
            }
            let count = (self.chunk - self.taken).min(out.len() - filled);
            self.copy(self.taken, &mut out[filled..filled + count]);
            filled += count;
            self.taken += count;
            if self.taken == self.chunk {
                self.head += chunk_words(self.chunk) as u64;
                (self.chunk, self.taken) = (0, 0);
            }
        }
        if self.head == before {
            return Ok((filled, false));
        }
        self.control(HEAD).store(self.head, Ordering::Release);
        // Ordered with the exchange in `Sender::waits`, as in `Sender::publish`.
        Ok((filled, self.control(WAITS).swap(0, Ordering::AcqRel) != 0))
    }

    /// Takes out all that has come.
    pub(crate) fn pull_all(&mut self) -> Result<Vec<u8>, Broken> {
        // More than a ring holds.
        let mut out = Vec::with_capacity(8 * self.data_words);
        let (filled, _) = self.pull(out.spare_capacity_mut())?;
        #[expect(unsafe_code, reason = "the bytes were copied out just now")]
        // SAFETY: `pull` has initialised the first `filled` bytes of the spare capacity, which began at 0.
        unsafe {
            out.set_len(filled);
        }
        Ok(out)
    }

    /// Reads the length of the next chunk. All of a chunk is there when its first word is.
    fn begin(&mut self) -> Result<(), Broken> {
        let mask = self.data_words - 1;
        let length = self.data()[self.head as usize & mask].load(Ordering::Relaxed);
        let words_max = self.tail - self.head;
        let fits = length > 0 && length <= 8 * self.data_words as u64;
        if !fits || chunk_words(length as usize) as u64 > words_max {
            return Err(Broken);
        }
        (self.chunk, self.taken) = (length as usize, 0);
        Ok(())
    }

    fn data(&self) -> &[Word] {
        &self.memory.as_ref()[self.start + CONTROL_WORDS..][..self.data_words]
    }

    /// Copies bytes of the chunk that has begun, from this byte on.
    fn copy(&self, from: usize, mut out: &mut [MaybeUninit<u8>]) {
        let mask = self.data_words - 1;
        let data = self.data();
        let mut place = self.head as usize + 1 + from / 8;
        let within = from % 8;
        if within > 0 {
            let word = data[place & mask].load(Ordering::Relaxed).to_le_bytes();
            let count = out.len().min(8 - within);
            out[..count].write_copy_of_slice(&word[within..within + count]);
            out = &mut out[count..];
            place += 1;
        }
        let near = out.len().min(8 * (self.data_words - (place & mask)));
        let (near, far) = out.split_at_mut(near);
        load(&data[place & mask..], near);
        load(data, far);
    }

    /// Leaves word that this end is about to sleep. False, and no word is left, when something has come.
    #[must_use]
    pub fn sleeps(&mut self) -> bool {
        // Ordered with the exchange in `Sender::publish`.
        self.control(ASLEEP).swap(1, Ordering::AcqRel);
        if self.has_input() {
            self.wakes();
            return false;
        }
        true
    }

    /// Takes the word back.
    pub fn wakes(&mut self) {
        // An exchange, not a store: what the sender published before it found the word gone has to be seen here.
        self.control(ASLEEP).swap(0, Ordering::AcqRel);
    }
}

/// Whole words, and the beginning of the last one.
fn load(words: &[Word], out: &mut [MaybeUninit<u8>]) {
    let (whole, rest) = out.as_chunks_mut::<8>();
    for (word, out) in words.iter().zip(whole.iter_mut()) {
        out.write_copy_of_slice(&word.load(Ordering::Relaxed).to_le_bytes());
    }
    if !rest.is_empty() {
        let last = words[whole.len()].load(Ordering::Relaxed).to_le_bytes();
        rest.write_copy_of_slice(&last[..rest.len()]);
    }
}
