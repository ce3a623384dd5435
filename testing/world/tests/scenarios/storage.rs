//! Devices and memory that fail or lie. Catalogue: C8, D2, D6, F9, F10.

use ramhold_base::{Rng, ServerId};
use ramhold_world::stage::Stage;

/// Flips so many bits of a backup's device that hardly any frame stays whole.
fn rot(stage: &mut Stage, server: usize) {
    let node = stage.servers[server];
    for _ in 0..3000 {
        stage.world.rot(node);
    }
}

/// G1, D6
#[test]
fn a_recovery_that_meets_rotten_replicas_takes_others() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 150);
    stage.pass(2000);
    let master = stage.owner(table).unwrap();
    let rotten = stage.others(&[master])[0];
    rot(&mut stage, rotten);
    stage.crash(master);
    stage.expect_filled(table, "key", 150);
    stage.close();
}

/// G3: every replica is rotten and the master is dead. Nothing shorter is served, and the operator is told.
#[test]
fn a_log_whose_replicas_are_all_rotten_is_waited_for() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 150);
    stage.pass(2000);
    let master = stage.owner(table).unwrap();
    let id: ServerId = stage.id(master);
    for server in stage.others(&[master]) {
        rot(&mut stage, server);
    }
    let read = stage.begin_read(1, table, "key0");
    stage.finish(read);
    stage.crash(master);
    stage.wait("its death is known", |stage| stage.deaths().contains_key(&id));
    let read = stage.begin_read(1, table, "key0");
    assert!(stage.stays(20_000, |stage| !stage.is_done(read) && !stage.is_recovered(id)));
    stage.judge_history();
}

/// G4: bits flip in the memory of the master.
#[test]
fn flipped_memory_is_never_served_and_is_repaired() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 100);
    let master = stage.owner(table).unwrap();
    let mut rng = Rng::new(5);
    for _ in 0..12 {
        stage.flip_memory(master, &mut rng);
        stage.expect_filled(table, "key", 100);
    }
    assert!(stage.marks("repaired") > 0 || stage.owner(table) != Some(master));
    stage.close();
}

/// G7
#[test]
fn a_recovery_that_cannot_read_one_device_takes_others() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 150);
    stage.pass(2000);
    let master = stage.owner(table).unwrap();
    let bad = stage.servers[stage.others(&[master])[1]];
    stage.world.disks_mut(bad).options.read_error_ppm = 1_000_000;
    stage.crash(master);
    stage.expect_filled(table, "key", 150);
    stage.close();
}

/// G8
#[test]
fn a_device_whose_sync_failed_is_never_trusted_again() {
    let mut stage = Stage::new(6);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 60);
    let master = stage.owner(table).unwrap();
    let bad = stage.head_backups(master, table)[0];
    let node = stage.servers[bad];
    stage.world.disks_mut(node).options.sync_error_ppm = 1_000_000;
    stage.fill(table, "more", 60);
    stage.wait("the device has failed", |stage| stage.node(bad).unwrap().backup().has_failed());
    // From now on syncs would succeed, but the data that the device forgot is gone all the same.
    stage.world.disks_mut(node).options.sync_error_ppm = 0;
    let is_left = move |stage: &Stage| {
        let owner = stage.node(master).unwrap().master().unwrap();
        let segments: Vec<_> = owner.log().segments().map(|s| s.id).collect();
        owner.is_fully_replicated() && segments.iter().all(|s| !stage.backups(master, *s).contains(&bad))
    };
    stage.write(table, "key0", b"new");
    assert!(stage.try_for(10_000, is_left), "its replicas are made anew elsewhere");
    stage.close();
}

/// G9
#[test]
fn full_devices_refuse_and_lose_nothing() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 60);
    for server in 0..2 {
        let node = stage.servers[server];
        let bytes = stage.world.node(node).disks.file(ramhold_base::DiskFile::Frames).bytes().len() as u64;
        stage.world.disks_mut(node).options.frames_bytes_max = bytes;
    }
    // The other backups have room for everything that is written and cleaned.
    for round in 0..600 {
        let begun = stage.begin_remove(0, table, &format!("more{}", round % 20));
        stage.finish(begun);
        stage.fill(table, "more", 1);
    }
    stage.expect_filled(table, "key", 60);
    stage.close();
}
