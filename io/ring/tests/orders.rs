//! E2: in every order in which two threads may see each other's stores, nothing is lost, torn or slept over.
//! `cargo test -p ramhold-ring --features loom`
#![cfg(feature = "loom")]

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use ramhold_ring::{DATA_WORDS_MIN, Receiver, Sender, Side, Word, ends, pair_words};
use std::mem::MaybeUninit;

/// Not loom's: the count of holders is not what is tried here.
type Words = std::sync::Arc<[Word]>;

fn pair() -> (Sender<Words>, Receiver<Words>) {
    let memory: Words = (0..pair_words(DATA_WORDS_MIN)).map(|_| Word::new(0)).collect();
    let (sender, _) = ends(Words::clone(&memory), Side::Maker);
    let (_, receiver) = ends(memory, Side::Other);
    (sender, receiver)
}

fn pull(receiver: &mut Receiver<Words>, out: &mut [u8]) -> (usize, bool) {
    let mut room = vec![MaybeUninit::new(0); out.len()];
    let (filled, wakes) = receiver.pull(&mut room).unwrap();
    for (out, byte) in out.iter_mut().zip(&room[..filled]) {
        #[expect(unsafe_code, reason = "the room was initialised above")]
        // SAFETY: every byte of `room` was made with `new`.
        unsafe {
            *out = byte.assume_init();
        }
    }
    (filled, wakes)
}

/// The bell of one side: who sleeps does so until it rings.
#[derive(Clone)]
struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    fn new() -> Bell {
        Bell(Arc::new((Mutex::new(false), Condvar::new())))
    }

    fn ring(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.0.0.lock().unwrap();
        while !std::mem::take(&mut *rung) {
            rung = self.0.1.wait(rung).unwrap();
        }
    }
}

/// A sleeper over whom bytes come for ever is what loom calls a deadlock.
#[test]
fn nobody_sleeps_over_bytes_that_have_come() {
    loom::model(|| {
        let (mut sender, mut receiver) = pair();
        let bell = Bell::new();
        let rings = bell.clone();
        let sends = thread::spawn(move || {
            for byte in [1, 2] {
                assert_eq!(sender.push(&[byte]), Ok(1));
                if sender.publish() {
                    rings.ring();
                }
            }
        });
        let (mut got, mut found) = ([0; 2], 0);
        while found < 2 {
            let (count, _) = pull(&mut receiver, &mut got[found..]);
            found += count;
            if found < 2 && receiver.sleeps() {
                bell.wait();
                receiver.wakes();
            }
        }
        assert_eq!(got, [1, 2]);
        sends.join().unwrap();
    });
}

#[test]
fn who_waits_for_room_is_woken_and_what_was_read_is_not_overwritten() {
    const CHUNK: usize = 8 * (DATA_WORDS_MIN - 1);
    loom::model(|| {
        let (mut sender, mut receiver) = pair();
        let bell = Bell::new();
        let (waits, has_bytes) = (bell.clone(), Bell::new());
        let rings = has_bytes.clone();
        // The ring is full before the other thread begins.
        assert_eq!(sender.push(&[1; CHUNK]), Ok(CHUNK));
        let _ = sender.publish();
        let sends = thread::spawn(move || {
            while sender.push(&[2; 9]).unwrap() == 0 {
                if !sender.waits().unwrap() {
                    waits.wait();
                }
            }
            if sender.publish() {
                rings.ring();
            }
        });
        let mut got = [0; CHUNK + 9];
        let mut found = 0;
        while found < got.len() {
            let (count, wakes) = pull(&mut receiver, &mut got[found..]);
            found += count;
            if wakes {
                bell.ring();
            }
            if count == 0 && receiver.sleeps() {
                has_bytes.wait();
                receiver.wakes();
            }
        }
        assert!(got[..CHUNK].iter().all(|byte| *byte == 1));
        assert_eq!(got[CHUNK..], [2; 9]);
        sends.join().unwrap();
    });
}
