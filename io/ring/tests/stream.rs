//! E2: whatever is pushed comes out, in order and whole, however it is cut.
#![cfg(not(feature = "loom"))]

use proptest::prelude::*;
use ramhold_ring::{
    BadMemory, Broken, CONTROL_WORDS, Memory, Receiver, Sender, Side, Word, ends, pair_words, take_back,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Words = Arc<[Word]>;

const DATA_WORDS: usize = 1024;

fn words(data_words: usize) -> Words {
    (0..pair_words(data_words)).map(|_| Word::new(0)).collect()
}

fn pull<M: AsRef<[Word]>>(receiver: &mut Receiver<M>, bytes_max: usize) -> Result<(Vec<u8>, bool), Broken> {
    let mut out: Vec<u8> = Vec::with_capacity(bytes_max);
    let (filled, wakes) = receiver.pull(&mut out.spare_capacity_mut()[..bytes_max])?;
    #[expect(unsafe_code, reason = "the test reads what the ring says that it has initialised")]
    // SAFETY: `pull` promises that so many bytes are initialised; under Miri this test would show it.
    unsafe {
        out.set_len(filled);
    }
    Ok((out, wakes))
}

#[derive(Clone, Debug)]
enum Act {
    Push(usize),
    Publish,
    Pull(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => (0usize..700).prop_map(Act::Push),
        3 => Just(Act::Publish),
        3 => (0usize..900).prop_map(Act::Pull),
    ];
    prop::collection::vec(act, 1..200)
}

proptest! {
    #[test]
    fn a_ring_is_a_stream(acts in acts(), seed in any::<u8>()) {
        let memory = words(64);
        let (mut sender, _) = ends(Arc::clone(&memory), Side::Maker);
        let (_, mut receiver) = ends(memory, Side::Other);
        let (mut pushed, mut shown) = (VecDeque::new(), VecDeque::new());
        let mut next = seed;
        for act in acts {
            match act {
                Act::Push(bytes) => {
                    let bytes: Vec<u8> = (0..bytes).map(|_| { next = next.wrapping_mul(31).wrapping_add(7); next }).collect();
                    let taken = sender.push(&bytes).unwrap();
                    prop_assert!(taken <= bytes.len());
                    pushed.extend(&bytes[..taken]);
                }
                Act::Publish => {
                    prop_assert!(!sender.publish(), "nobody sleeps");
                    shown.append(&mut pushed);
                }
                Act::Pull(bytes) => {
                    let (found, _) = pull(&mut receiver, bytes).unwrap();
                    prop_assert_eq!(found.len(), bytes.min(shown.len()));
                    prop_assert!(found.iter().copied().eq(shown.drain(..found.len())));
                    prop_assert_eq!(receiver.has_input(), !shown.is_empty());
                }
            }
        }
        // An empty ring takes something again, whatever was done before.
        let _ = sender.publish();
        shown.append(&mut pushed);
        prop_assert!(pull(&mut receiver, 10_000).unwrap().0.iter().eq(shown.iter()));
        prop_assert!(sender.finds_room().unwrap());
        // Four chunks, with a word for the length of each.
        prop_assert_eq!(sender.push(&[1; 8 * 64]).unwrap(), 8 * 60);
    }

    // F5: the other process may store whatever it likes, at any time.
    #[test]
    fn no_store_of_the_other_side_ends_this_process(
        stores in prop::collection::vec((0usize..2 * (CONTROL_WORDS + 64), prop_oneof![
            any::<u64>(), 0u64..200, Just(u64::MAX), Just(1 << 63)
        ]), 0..60),
        acts in acts(),
    ) {
        let memory = words(64);
        let (mut sender, mut receiver) = ends(Arc::clone(&memory), Side::Maker);
        let mut stores = stores.into_iter();
        for act in acts {
            if let Some((place, value)) = stores.next() {
                memory[place].store(value, Ordering::Relaxed);
            }
            let went = match act {
                Act::Push(bytes) => sender.push(&vec![7; bytes]).map(|taken| assert!(taken <= bytes)),
                Act::Publish => {
                    let _ = sender.publish();
                    sender.waits().map(|_| ())
                }
                Act::Pull(bytes) => {
                    if receiver.sleeps() {
                        receiver.wakes();
                    }
                    pull(&mut receiver, bytes).map(|(found, _)| assert!(found.len() <= bytes))
                }
            };
            if went.is_err() {
                break;
            }
        }
    }
}

fn pair() -> (Sender<Words>, Receiver<Words>, Words) {
    let memory = words(64);
    let (sender, _) = ends(Arc::clone(&memory), Side::Other);
    let (_, receiver) = ends(Arc::clone(&memory), Side::Maker);
    (sender, receiver, memory)
}

// E2
#[test]
fn who_sleeps_is_woken_once_and_who_waits_for_room_too() {
    let (mut sender, mut receiver, _) = pair();
    assert!(receiver.sleeps());
    assert_eq!(sender.push(b"hello"), Ok(5));
    assert!(sender.publish());
    assert_eq!(sender.push(b"again"), Ok(5));
    assert!(!sender.publish(), "it was woken already");
    assert!(!receiver.sleeps(), "something has come");
    assert_eq!(pull(&mut receiver, 100).unwrap(), (b"helloagain".to_vec(), false));

    let bytes = [3; 2000];
    let taken = sender.push(&bytes).unwrap();
    assert!(taken < bytes.len());
    let _ = sender.publish();
    assert_eq!(sender.waits(), Ok(false));
    assert_eq!(pull(&mut receiver, 100).unwrap(), (vec![3; 100], false), "the chunk is not over");
    assert_eq!(pull(&mut receiver, taken).unwrap(), (vec![3; taken - 100], true));
    assert_eq!(sender.waits(), Ok(true));
}

// F5
#[test]
fn positions_and_lengths_that_cannot_be_are_broken() {
    let tail_of_second = pair_words(64) / 2;
    for tail in [65, u64::MAX, 1 << 40] {
        let (_, mut receiver, memory) = pair();
        memory[tail_of_second].store(tail, Ordering::Relaxed);
        assert_eq!(pull(&mut receiver, 10), Err(Broken), "{tail}");
    }
    for length in [0, 9, u64::MAX, 1 << 32] {
        let (_, mut receiver, memory) = pair();
        memory[tail_of_second + CONTROL_WORDS].store(length, Ordering::Relaxed);
        memory[tail_of_second].store(2, Ordering::Relaxed);
        assert_eq!(pull(&mut receiver, 10), Err(Broken), "{length}");
    }
    let (mut sender, _, memory) = pair();
    sender.push(&[1; 300]).unwrap();
    let _ = sender.publish();
    memory[tail_of_second + 16].store(1000, Ordering::Relaxed);
    assert_eq!(sender.push(&[1; 300]), Err(Broken), "more was read than written");
}

// F5: whoever is handed a descriptor looks at it first.
#[test]
fn only_sealed_memory_of_two_rings_is_mapped() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    let (ours, file) = Memory::new(DATA_WORDS).unwrap();
    let theirs = Memory::handed(&file, DATA_WORDS).unwrap();
    let (mut sender, _) = ends(ours, Side::Maker);
    let (_, mut receiver) = ends(theirs, Side::Other);
    assert_eq!(sender.push(b"through two mappings"), Ok(20));
    let _ = sender.publish();
    assert_eq!(pull(&mut receiver, 100).unwrap().0, b"through two mappings");

    let made = |bytes: u64, seals: SealFlags| {
        let file = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, bytes).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        Memory::handed(&file, DATA_WORDS).err()
    };
    let sealed = SealFlags::SHRINK | SealFlags::GROW;
    let bytes = 8 * pair_words(64) as u64;
    assert_eq!(made(bytes, sealed), None);
    assert_eq!(made(bytes, SealFlags::GROW), Some(BadMemory::Unsealed));
    for wrong in [
        0,
        8,
        bytes - 8,
        bytes + 1,
        2 * bytes,
        8 * pair_words(32) as u64,
        8 * pair_words(2048) as u64,
        1 << 40,
    ] {
        assert_eq!(made(wrong, sealed), Some(BadMemory::Length), "{wrong}");
    }
    let (reads, _writes) = rustix::pipe::pipe().unwrap();
    assert_eq!(Memory::handed(&reads, DATA_WORDS).err(), Some(BadMemory::Unsealed));
    let disk = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    assert_eq!(Memory::handed(&disk.into(), DATA_WORDS).err(), Some(BadMemory::Unsealed));
    assert!(Memory::new(100).is_err());
}

// E4: what nobody has read is taken back whole, once.
#[test]
fn what_was_not_read_is_taken_back() {
    let memory = words(64);
    let (mut sender, _) = ends(Arc::clone(&memory), Side::Maker);
    for bytes in [&b"one"[..], b"", &[7; 200]] {
        assert_eq!(sender.push(bytes), Ok(bytes.len()));
    }
    let _ = sender.publish();
    assert_eq!(take_back(memory, Side::Maker).unwrap(), [&b"one"[..], &[7; 200]].concat());
}
