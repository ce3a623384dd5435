//! A stream of bytes each way between two processes of one host, through memory that both have mapped.
//!
//! The memory holds two rings, one for each direction. A ring has one sender and one receiver. Positions only grow:
//! the sender alone writes the tail, the receiver alone writes the head. A side that finds nothing to do looks again,
//! or leaves word in the ring that it sleeps. The other side then rings its bell, which is not part of this crate.
//!
//! Invariants:
//! - no store of the other side can make this side panic, read outside of the ring, or read a byte twice. A position or
//!   a length that cannot be is [`Broken`];
//! - bytes are copied out of the ring before anybody looks at them, so the other side cannot change them afterwards;
//! - of a side that has left word and looked in vain, and a side that has stored and then looked for such word, at least
//!   one has seen the other's store. So nobody sleeps over bytes that have come.
//!
//! Not here: the bell, the end of a connection, who may connect (ramhold-runtime). Bytes: docs/formats/shared-memory.md.

mod layout;
#[cfg(not(feature = "loom"))]
mod memory;
mod receiver;
mod sender;
mod word;

pub use layout::{Broken, CONTROL_WORDS, DATA_WORDS_MAX, DATA_WORDS_MIN, data_words, pair_words};
#[cfg(not(feature = "loom"))]
pub use memory::{BadMemory, Memory};
pub use receiver::Receiver;
pub use sender::Sender;
pub use word::Word;

/// Which of the two rings one sends over. The process that made the memory takes the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Maker,
    Other,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Maker => Side::Other,
            Side::Other => Side::Maker,
        }
    }
}

/// Takes out all that one side has pushed, if the other one has read none of it.
pub fn take_back<M: AsRef<[Word]> + Clone>(memory: M, side: Side) -> Result<Vec<u8>, Broken> {
    let (_, mut receiver) = ends(memory, side.other());
    receiver.pull_all()
}

/// Both ends that one side has.
///
/// # Panics
/// When the number of words is not that of two rings: check with [`data_words`] what comes from outside.
pub fn ends<M: AsRef<[Word]> + Clone>(memory: M, side: Side) -> (Sender<M>, Receiver<M>) {
    let words = memory.as_ref().len();
    let data_words = data_words(words).expect("the memory holds two rings");
    let (first, second) = (0, words / 2);
    let (sends, receives) = match side {
        Side::Maker => (first, second),
        Side::Other => (second, first),
    };
    (Sender::new(memory.clone(), sends, data_words), Receiver::new(memory, receives, data_words))
}
