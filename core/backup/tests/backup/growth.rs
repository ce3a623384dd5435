//! A device that is full for a while: frames grow by what there is, and again when there is room.

use crate::rig::*;
use ramhold_backup::BackupConfig;
use ramhold_base::{Level, Rng, Status};
use std::time::Duration;

/// Longer than any pause between two tries.
const A_WHILE: Duration = Duration::from_secs(2);

fn roomy() -> BackupConfig {
    BackupConfig { frames_max: 1000, ..in_frames() }
}

fn has_room_for(rig: &mut Rig, frames: u64) {
    rig.disk.frames_bytes_max = Some(frames * PLACE_BYTES as u64 + PLACE_BYTES as u64 / 2);
}

/// Opens segments from `first` on until one is refused; how many were taken.
fn fill(rig: &mut Rig, first: u64) -> u64 {
    for count in 0.. {
        let log = Log::new(first + count);
        match rig.append(&log, log.from(0)).0 {
            Status::Ok => {}
            Status::OpenRefused => return count,
            other => panic!("{other:?}"),
        }
    }
    unreachable!("frames are bounded")
}

fn said(rig: &Rig, level: Level, part: &str) -> usize {
    rig.reports.iter().filter(|(is, text)| *is == level && text.contains(part)).count()
}

// D3
#[test]
fn frames_grow_by_what_the_device_has_room_for() {
    for room in [5, 6, 7, 9, 13] {
        let mut rig = Rig::new(roomy());
        has_room_for(&mut rig, room);
        assert_eq!(fill(&mut rig, 1), room, "down to one frame, not a step or nothing");
        assert_eq!(rig.backup.status(rig.now).frames, room);
        assert!(!rig.has_error());
    }
}

// D3
#[test]
fn a_device_that_was_full_takes_replicas_again_when_it_has_room() {
    let mut rig = Rig::new(roomy());
    has_room_for(&mut rig, 6);
    assert_eq!(fill(&mut rig, 1), 6);
    rig.pass(160 * A_WHILE);
    let log = Log::new(7);
    assert_eq!(rig.append(&log, log.from(0)).0, Status::OpenRefused);
    assert_eq!(rig.backup.frames_left(), 0, "none is promised to a recovery");

    has_room_for(&mut rig, 40);
    rig.pass(A_WHILE);
    assert_eq!(fill(&mut rig, 7), 34);
    rig.disk.frames_bytes_max = None;
    rig.pass(A_WHILE);
    assert!(rig.backup.frames_left() > 900);
    assert!(!rig.has_error());
}

// D3, J5
#[test]
fn a_full_device_is_told_once_when_it_begins_and_once_when_it_ends() {
    let mut rig = Rig::new(BackupConfig { directory: "/data/s3".into(), ..roomy() });
    assert_eq!(rig.backup.full(rig.now), None);
    has_room_for(&mut rig, 6);
    assert_eq!(fill(&mut rig, 1), 6);
    rig.pass(Duration::from_secs(34));
    let full = rig.backup.full(rig.now).expect("the device is full");
    assert_eq!(full.directory, "/data/s3");
    assert_eq!(full.free_bytes, PLACE_BYTES as u64 / 2);
    assert_eq!(full.wanted_bytes, 4 * PLACE_BYTES as u64, "a step");
    assert_eq!((full.frames_free, full.since_millis), (0, 34_000));
    assert_eq!(rig.backup.status(rig.now).full, Some(full));
    assert_eq!(said(&rig, Level::Warn, "/data/s3"), 1, "{:?}", rig.reports);

    rig.disk.frames_bytes_max = None;
    rig.pass(A_WHILE);
    assert_eq!(rig.backup.full(rig.now), None);
    assert_eq!(said(&rig, Level::Info, "/data/s3"), 1, "{:?}", rig.reports);
    assert_eq!(said(&rig, Level::Warn, "/data/s3"), 1);
    assert_eq!(rig.backup.status(rig.now).failed, None);
}

// D3
#[test]
fn a_backup_starts_on_a_full_device_and_holds_what_it_held() {
    let mut rig = Rig::new(roomy());
    has_room_for(&mut rig, 3);
    let mut rig = Rig::on(roomy(), std::mem::take(&mut rig.disk), 2);
    assert_eq!(rig.backup.status(rig.now).frames, 4, "made before the device was full");
    assert_eq!(fill(&mut rig, 1), 4);
    let mut rig = rig.crash();
    assert_eq!(rig.backup.replicas().count(), 4);
    assert!(rig.backup.full(rig.now).is_some());
    rig.disk.frames_bytes_max = None;
    rig.pass(A_WHILE);
    assert!(fill(&mut rig, 5) > 900);

    let disk = Disk { frames_bytes_max: Some(0), ..Disk::default() };
    let mut rig = Rig::on(roomy(), disk, 1);
    assert_eq!(rig.backup.status(rig.now).frames, 0);
    assert_eq!(fill(&mut rig, 1), 0);
    has_room_for(&mut rig, 2);
    rig.pass(A_WHILE);
    assert_eq!(fill(&mut rig, 1), 2);
}

// D3
#[test]
fn freed_frames_end_a_shortage_too() {
    let mut rig = Rig::new(roomy());
    has_room_for(&mut rig, 8);
    assert_eq!(fill(&mut rig, 1), 8);
    for segment in 1..=4 {
        assert!(rig.backup.full(rig.now).is_some());
        assert_eq!(rig.free(&Log::new(segment)), Status::Ok);
    }
    assert_eq!(rig.backup.full(rig.now), None, "a whole step is free");
}

/// However the room comes and goes: what was taken is kept, and what fits is taken within a while.
// D3
#[test]
fn room_that_comes_and_goes_is_always_used() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut rig =
            Rig::new(BackupConfig { frames_max: 60, frames_grow_by: 1 + rng.below(20) as u32, ..roomy() });
        let (mut held, mut room) = (0, u64::from(rig.config.frames_max));
        for _ in 0..20 {
            room = rng.below(70);
            has_room_for(&mut rig, room);
            rig.pass(Duration::from_millis(rng.below(3000)));
            held += fill(&mut rig, held + 1);
            assert!(held >= room.min(60).min(rig.backup.status(rig.now).frames), "seed {seed}");
            assert!(rig.backup.full(rig.now).is_some() || held == 60, "seed {seed}: {held} of {room}");
        }
        has_room_for(&mut rig, room.max(30));
        rig.pass(A_WHILE);
        held += fill(&mut rig, held + 1);
        assert!(held >= room.clamp(30, 60), "seed {seed}: {held} of {room}");
        assert!(!rig.has_error());
    }
}
