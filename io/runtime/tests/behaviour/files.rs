//! Disk effects: order, results, errors, and exclusive use of directories.

use crate::probe::{Probe, Seen, quiet, until};
use crate::scratch::Scratch;
use ramhold_base::{DiskError, DiskFile, DiskToken, Effect, Effects};
use ramhold_runtime::{DiskConfig, NetworkLimits, Runtime, RuntimeConfig, StartError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn with_disk(scratch: &Scratch, machine: Probe) -> Result<Runtime<Probe>, StartError> {
    let disk =
        DiskConfig { data_dir: scratch.path().join("data"), buffer_dir: scratch.path().join("buffers") };
    let (config, _) = quiet(NetworkLimits::default());
    Runtime::new(machine, RuntimeConfig { disk: Some(disk), ..config })
}

fn done(token: u64, bytes: &[u8]) -> Seen {
    Seen::Disk { token: DiskToken(token), result: Ok(bytes.to_vec()) }
}

fn read(token: u64, file: DiskFile, bytes: u32) -> Effect {
    Effect::DiskRead { token: DiskToken(token), file, offset: 0, bytes }
}

// D1: a write to the buffers completes without waiting.
#[test]
fn work_on_buffers_completes_in_order_before_anything_else_is_fed() {
    let scratch = Scratch::new();
    let mut runtime = with_disk(&scratch, Probe::silent()).unwrap();
    runtime.step(|_, _, effects| {
        effects.push(Effect::DiskReserve { token: DiskToken(1), file: DiskFile::Buffers, bytes: 8 });
        effects.disk_write(DiskToken(2), DiskFile::Buffers, 0, b"first");
        effects.disk_write(DiskToken(3), DiskFile::Buffers, 3, b"second");
        effects.push(read(4, DiskFile::Buffers, 100));
        effects.push(Effect::DiskSync { token: DiskToken(5), file: DiskFile::Buffers });
    });
    let expected = [done(1, b""), done(2, b""), done(3, b""), done(4, b"firsecond"), done(5, b"")];
    assert_eq!(runtime.machine().seen[1..], expected);
}

// F11: so a machine can tell how long it took to divide a segment.
#[test]
fn the_step_after_one_with_what_was_read_sees_how_long_that_took() {
    let scratch = Scratch::new();
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&times);
    let slow = Probe::new(move |now, seen, _| {
        noted.lock().unwrap().push(now);
        if let Seen::Disk { token: DiskToken(2), .. } = seen {
            let began = std::time::Instant::now();
            while began.elapsed() < Duration::from_millis(5) {
                std::hint::spin_loop();
            }
        }
    });
    let mut runtime = with_disk(&scratch, slow).unwrap();
    runtime.step(|_, _, effects| {
        effects.disk_write(DiskToken(1), DiskFile::Buffers, 0, b"segment");
        effects.push(read(2, DiskFile::Buffers, 7));
        effects.push(Effect::DiskSync { token: DiskToken(3), file: DiskFile::Buffers });
    });
    let times = times.lock().unwrap();
    let [.., before, after] = times[..] else { panic!("{times:?}") };
    assert!(after.since(before) >= Duration::from_millis(5), "{times:?}");
    assert!(times.is_sorted());
}

#[test]
fn work_that_follows_from_completions_goes_on_in_the_same_step() {
    let scratch = Scratch::new();
    let chain = Probe::new(|_, seen, effects: &mut Effects| {
        if let Seen::Disk { token: DiskToken(token @ ..100), .. } = seen {
            effects.disk_write(DiskToken(token + 1), DiskFile::Buffers, *token, b"x");
        }
    });
    let mut runtime = with_disk(&scratch, chain).unwrap();
    runtime.step(|_, _, effects| effects.disk_write(DiskToken(0), DiskFile::Buffers, 0, b"x"));
    assert_eq!(runtime.machine().seen.len(), 102);
}

#[test]
fn frames_are_written_copied_synced_and_read_by_other_threads() {
    let scratch = Scratch::new();
    let mut runtime = with_disk(&scratch, Probe::silent()).unwrap();
    runtime.step(|_, _, effects| {
        effects.disk_write(DiskToken(1), DiskFile::Buffers, 0, b"replica");
        effects.push(Effect::DiskReserve { token: DiskToken(2), file: DiskFile::Frames, bytes: 4096 });
    });
    until(&mut runtime, |runtime| runtime.machine().seen.len() == 3);
    // Appends have a thread of their own, so an effect that needs an append is asked for only after its
    // completion.
    runtime.step(|_, _, effects| effects.disk_write(DiskToken(3), DiskFile::Frames, 0, b"--"));
    until(&mut runtime, |runtime| runtime.machine().seen.len() == 4);
    runtime.step(|_, _, effects| {
        let (from, to) = (DiskFile::Buffers, DiskFile::Frames);
        effects.push(Effect::DiskCopy {
            token: DiskToken(4),
            from,
            from_offset: 0,
            to,
            to_offset: 1,
            bytes: 7,
        });
        effects.push(Effect::DiskSync { token: DiskToken(5), file: DiskFile::Frames });
        effects.disk_write(DiskToken(6), DiskFile::Superblock, 0, b"identity");
    });
    until(&mut runtime, |runtime| runtime.machine().seen.len() == 7);
    let all: Vec<Seen> = (1..=6).map(|token| done(token, b"")).collect();
    assert_eq!(runtime.machine().seen[1..], all);
    runtime.step(|_, _, effects| {
        effects.push(read(7, DiskFile::Frames, 8));
        effects.push(read(8, DiskFile::Superblock, 3 * 4096));
    });
    until(&mut runtime, |runtime| runtime.machine().seen.len() == 9);
    // The space for both copies of the superblock is reserved from the beginning.
    let mut superblock = vec![0; 2 * 4096];
    superblock[..8].copy_from_slice(b"identity");
    assert_eq!(runtime.machine().seen[7..], [done(7, b"-replica"), done(8, &superblock)]);
}

// D2: a lack of space is reported as such, not as a device failure.
#[test]
fn a_full_device_is_told() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path().join("data")).unwrap();
    std::os::unix::fs::symlink("/dev/full", scratch.path().join("data/frames")).unwrap();
    let mut runtime = with_disk(&scratch, Probe::silent()).unwrap();
    runtime.step(|_, _, effects| effects.disk_write(DiskToken(1), DiskFile::Frames, 0, b"x"));
    until(&mut runtime, |runtime| runtime.machine().seen.len() == 2);
    let Seen::Disk { token: DiskToken(1), result: Err(DiskError::Full { .. }) } = runtime.machine().seen[1]
    else {
        panic!()
    };
}

#[test]
fn without_a_directory_disk_effects_fail() {
    let mut runtime = Runtime::new(Probe::silent(), quiet(NetworkLimits::default()).0).unwrap();
    runtime.step(|_, _, effects| effects.push(read(1, DiskFile::Frames, 1)));
    let Seen::Disk { result: Err(DiskError::Failed(why)), .. } = &runtime.machine().seen[1] else { panic!() };
    assert!(why.contains("data directory"), "{why}");
}

#[test]
fn a_directory_has_one_owner_and_its_work_is_finished_before_the_next() {
    let scratch = Scratch::new();
    let mut first = with_disk(&scratch, Probe::silent()).unwrap();
    assert!(matches!(with_disk(&scratch, Probe::silent()), Err(StartError::InUse { .. })));
    for token in 0..100 {
        first.step(|_, _, effects| effects.disk_write(DiskToken(token), DiskFile::Frames, token, b"x"));
    }
    drop(first);
    let mut second = with_disk(&scratch, Probe::silent()).unwrap();
    second.step(|_, _, effects| effects.push(read(1, DiskFile::Frames, 1000)));
    until(&mut second, |second| second.machine().seen.len() == 2);
    assert_eq!(second.machine().seen[1], done(1, &[b'x'; 100]));
}
