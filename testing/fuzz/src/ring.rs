//! Memory that another process shares, and stores into at any time.
//!
//! Promised:
//! - No store of the other side makes this side panic or fill more than it was given room for.
//! - As long as nobody stores what cannot be, what was pushed comes out, in order.
//!
//! The input is a list of acts of five bytes: what to do, and two numbers of two bytes. A first byte without its top bit
//! leaves stores out, so that those inputs are sound.

use ramhold_ring::{DATA_WORDS_MIN, Receiver, Sender, Side, Word, ends, pair_words};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Words = Arc<[Word]>;

/// Bytes pushed or pulled by one act at most: more than a ring holds.
const BYTES_MAX: usize = 700;

pub fn run(input: &[u8]) {
    let Some((first, acts)) = input.split_first() else { return };
    let is_sound = first & 0x80 == 0;
    let memory: Words = (0..pair_words(DATA_WORDS_MIN)).map(|_| Word::new(0)).collect();
    let (mut sender, _) = ends(Arc::clone(&memory), Side::Maker);
    let (_, mut receiver) = ends(Arc::clone(&memory), Side::Other);
    let (mut pushed, mut shown) = (VecDeque::new(), VecDeque::new());
    for act in acts.chunks_exact(5) {
        let (one, other) = (u16::from_le_bytes([act[1], act[2]]), u16::from_le_bytes([act[3], act[4]]));
        if act[0] % 5 == 4 {
            if !is_sound {
                memory[usize::from(one) % memory.len()].store(value(other), Ordering::Relaxed);
            }
            continue;
        }
        match step(act[0], usize::from(one) % BYTES_MAX, act[3], (&mut sender, &mut receiver)) {
            Some(Step::Pushed(bytes)) => pushed.extend(bytes),
            Some(Step::Published) => shown.append(&mut pushed),
            Some(Step::Pulled(bytes)) if is_sound => {
                assert!(bytes.iter().copied().eq(shown.drain(..bytes.len())));
            }
            Some(Step::Pulled(_) | Step::Looked) => {}
            None => {
                assert!(!is_sound, "nobody has broken it");
                return;
            }
        }
    }
}

/// Numbers that may be positions or lengths, and others.
fn value(from: u16) -> u64 {
    match from >> 14 {
        0 => u64::from(from & 0xFF),
        1 => u64::MAX - u64::from(from & 0xFF),
        2 => 1 << (from & 63),
        _ => u64::from(from).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    }
}

enum Step {
    Pushed(Vec<u8>),
    Published,
    Pulled(Vec<u8>),
    Looked,
}

/// None: the ring is broken.
fn step(
    act: u8,
    bytes: usize,
    byte: u8,
    (sender, receiver): (&mut Sender<Words>, &mut Receiver<Words>),
) -> Option<Step> {
    match act % 5 {
        0 => {
            let mut bytes: Vec<u8> = (0..bytes).map(|at| byte.wrapping_add(at as u8)).collect();
            bytes.truncate(sender.push(&bytes).ok()?);
            Some(Step::Pushed(bytes))
        }
        1 => {
            let _ = sender.publish();
            Some(Step::Published)
        }
        2 => {
            let mut room = vec![MaybeUninit::new(0); bytes];
            let (filled, _) = receiver.pull(&mut room).ok()?;
            // All of it was initialised above, so it may be read as what `MaybeUninit` holds.
            Some(Step::Pulled(initialised(&room[..filled])))
        }
        _ => {
            sender.waits().ok()?;
            if receiver.sleeps() {
                receiver.wakes();
            }
            Some(Step::Looked)
        }
    }
}

fn initialised(bytes: &[MaybeUninit<u8>]) -> Vec<u8> {
    let read = |byte: &MaybeUninit<u8>| {
        #[expect(unsafe_code, reason = "the caller has made every byte with `new`")]
        // SAFETY: see the reason.
        unsafe {
            byte.assume_init()
        }
    };
    bytes.iter().map(read).collect()
}
