//! A message through shared memory and back, with nothing in between: two threads, each on its core, that look again and
//! again.

use super::echo::Trip;
use crate::process::pin;
use hdrhistogram::Histogram;
use ramhold_ring::{Memory, Receiver, Sender, Side, ends};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// As large as those of a server.
const DATA_WORDS: usize = 32 * 1024;

pub fn echo(bytes: u32, time: Duration) -> Result<Trip, String> {
    let (ours, file) = Memory::new(DATA_WORDS).map_err(|error| format!("shared memory: {error}"))?;
    let theirs = Memory::handed(&file, DATA_WORDS).map_err(|error| format!("shared memory: {error:?}"))?;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(0);
            let (mut sender, mut receiver) = ends(theirs, Side::Other);
            let mut message = vec![MaybeUninit::new(0); bytes as usize];
            let mut answer = vec![b'y'; bytes as usize];
            while !ended.load(Ordering::Relaxed) {
                if take(&mut receiver, &mut message) {
                    answer[0] = answer[0].wrapping_add(1);
                    put(&mut sender, &answer);
                }
            }
        });
        let trip = round_trips(ends(ours, Side::Maker), bytes, time);
        ended.store(true, Ordering::Relaxed);
        trip
    })
}

fn round_trips(
    (mut sender, mut receiver): (Sender<Memory>, Receiver<Memory>),
    bytes: u32,
    time: Duration,
) -> Result<Trip, String> {
    let mut times = Histogram::<u64>::new(3).map_err(|error| error.to_string())?;
    let message = vec![b'x'; bytes as usize];
    let mut answer = vec![MaybeUninit::new(0); bytes as usize];
    let began = Instant::now();
    while began.elapsed() < time {
        let sent = Instant::now();
        put(&mut sender, &message);
        while !take(&mut receiver, &mut answer) {}
        let nanos = u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX);
        times.record(nanos.max(1)).map_err(|error| error.to_string())?;
    }
    Ok(Trip::of(&times))
}

fn put(sender: &mut Sender<Memory>, message: &[u8]) {
    let pushed = sender.push(message).expect("both ends are ours");
    assert_eq!(pushed, message.len(), "the ring holds many messages");
    assert!(!sender.publish(), "nobody sleeps");
}

/// False: nothing has come. Messages come whole.
fn take(receiver: &mut Receiver<Memory>, message: &mut [MaybeUninit<u8>]) -> bool {
    if !receiver.has_input() {
        std::hint::spin_loop();
        return false;
    }
    receiver.pull(message).expect("both ends are ours").0 == message.len()
}
