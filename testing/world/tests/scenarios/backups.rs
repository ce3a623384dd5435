//! Backups: their deaths, their returns, what they free. Catalogue: D3, D6, D7.

use ramhold_base::{Instant, SegmentId};
use ramhold_world::history::{Condition, Outcome};
use ramhold_world::stage::Stage;

/// C1
#[test]
fn after_the_death_of_a_backup_every_segment_has_its_replicas_again() {
    let mut stage = Stage::new(6);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 200);
    let master = stage.owner(table).unwrap();
    let lost = stage.head_backups(master, table)[0];
    stage.crash(lost);
    let is_whole = move |stage: &Stage| {
        let owner = stage.node(master).unwrap().master().unwrap();
        let segments: Vec<SegmentId> = owner.log().segments().map(|s| s.id).collect();
        let backups: Vec<Vec<usize>> = segments.into_iter().map(|s| stage.backups(master, s)).collect();
        owner.is_fully_replicated() && backups.iter().all(|b| b.len() == 3 && !b.contains(&lost))
    };
    assert!(stage.try_for(5000, is_whole), "five seconds are enough");
    stage.restart(lost);
    stage.close();
}

/// C2: the master is up, crashed, or gone when the backup comes back. `close` finds replicas that are held
/// for no log, and missing replicas.
#[test]
fn a_backup_that_returns_frees_what_nobody_needs_and_nothing_else() {
    // The master is up.
    let mut stage = Stage::new(6);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 60);
    let master = stage.owner(table).unwrap();
    let backup = stage.head_backups(master, table)[0];
    stage.crash(backup);
    stage.pass(2000);
    stage.restart(backup);
    stage.expect_filled(table, "key", 60);
    stage.close();
    // The master has crashed: the backup has the only replicas that can be reached.
    let mut stage = Stage::new(8);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    let master = stage.owner(table).unwrap();
    let backups = stage.head_backups(master, table);
    for server in [&backups[..], &[master]].concat() {
        stage.crash(server);
    }
    stage.pass(3000);
    stage.restart(backups[0]);
    stage.pass(5000);
    stage.expect_filled(table, "key", 20);
    stage.close();
    // The master is gone: it was recovered from the others meanwhile.
    let mut stage = Stage::new(6);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 60);
    let master = stage.owner(table).unwrap();
    let id = stage.id(master);
    let backup = stage.head_backups(master, table)[0];
    stage.crash(backup);
    stage.crash(master);
    stage.wait("it is recovered", |stage| stage.is_recovered(id));
    stage.restart(backup);
    stage.expect_filled(table, "key", 60);
    stage.close();
}

/// C4
#[test]
fn a_backup_that_dies_during_a_recovery_is_replaced_by_the_next() {
    for millis in [0, 1, 2, 4, 8, 16] {
        let mut stage = Stage::new(7);
        let table = stage.table("t", 3);
        stage.fill(table, "key", 100);
        let master = stage.owner(table).unwrap();
        let backups = stage.head_backups(master, table);
        stage.crash(master);
        stage.wait("a recovery has begun", |stage| stage.marks("recovery_begun") > 0);
        stage.pass(millis);
        stage.crash(backups[0]);
        stage.crash(backups[1]);
        stage.expect_filled(table, "key", 100);
        stage.close();
    }
}

/// C5: one backup has no room for anything new.
#[test]
fn a_backup_that_refuses_is_passed_over() {
    let mut stage = Stage::new(5);
    let full = stage.servers[2];
    stage.world.disks_mut(full).options.frames_bytes_max = 0;
    let table = stage.table("t", 3);
    stage.fill(table, "key", 100);
    assert!(stage.marks("none") == 0 && stage.deaths().is_empty());
    stage.expect_filled(table, "key", 100);
    stage.close();
}

/// D3, J5: no device has room for a while, whichever servers have frames left.
#[test]
fn full_devices_are_told_of_and_writes_go_on_when_they_have_room() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 50);
    for server in stage.servers.clone() {
        stage.world.disks_mut(server).options.is_full = true;
    }
    let warned = |stage: &Stage, part: &str| {
        let coordinator = stage.in_charge().expect("one is in charge");
        let warnings = coordinator.warnings(Instant::ZERO);
        warnings.iter().filter(|warning| warning.contains(part)).count()
    };
    // Until the frames that there are have been taken. Data that was never overwritten cannot be cleaned
    // away.
    let open = (0..4000).find_map(|number| {
        let key = format!("more{number}");
        let open = stage.begin_write(0, table, &key, &[7; 900], Condition::Free);
        (!stage.try_for(8_000, |stage| stage.is_done(open))).then_some(open)
    });
    let open = open.expect("writes wait in the end");
    assert!(warned(&stage, "disk full on s") > 0 && warned(&stage, "MiB free in /data") > 0);
    let waits: Vec<String> = stage
        .others(&[])
        .into_iter()
        .filter_map(|server| stage.node(server))
        .flat_map(|node| {
            let master = node.master().expect("all are masters");
            let streams: Vec<_> = master.replicator().streams().map(|(stream, _)| stream).collect();
            streams.into_iter().filter_map(move |stream| master.replicator().waits_for(stream, node.view()))
        })
        .collect();
    assert!(waits.iter().any(|why| why.contains("disk full on s")), "{waits:?}");
    stage.pass(160_000);

    for server in stage.servers.clone() {
        stage.world.disks_mut(server).options.is_full = false;
    }
    let again = stage.begin_write(1, table, "again", b"1", Condition::Free);
    assert!(stage.try_for(5_000, |stage| stage.is_done(again)), "within five seconds");
    assert!(matches!(stage.end(open), Outcome::Done { .. } | Outcome::Unknown));
    assert!(stage.try_for(5_000, |stage| warned(stage, "disk full") == 0));
    stage.expect_filled(table, "key", 50);
    assert!(stage.deaths().is_empty());
    stage.close();
}

/// C6
#[test]
fn with_too_few_backups_nothing_is_acknowledged() {
    let mut stage = Stage::new(4);
    let table = stage.table("t", 3);
    stage.write(table, "key", b"1");
    let master = stage.owner(table).unwrap();
    let lost = stage.others(&[master])[0];
    stage.crash(lost);
    let open = stage.begin_write(0, table, "key", b"2", Condition::Free);
    assert!(stage.stays(5000, |stage| !stage.is_done(open)), "two copies were enough");
    let stream = stage.stream(master, table);
    let node = stage.node(master).unwrap();
    let why = node.master().unwrap().replicator().waits_for(stream, node.view());
    assert!(why.is_some_and(|why| why.contains("3 replicas need 3 other")), "status says why");
    stage.restart(lost);
    assert!(matches!(stage.end(open), Outcome::Done { .. } | Outcome::Unknown));
    stage.close();
}

/// C7
#[test]
fn what_was_acknowledged_outlives_all_processes_at_once() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 50);
    stage.write(table, "newest", b"1");
    for server in 0..5 {
        stage.crash(server);
    }
    stage.world.crash(stage.coordinator);
    stage.pass(1000);
    stage.world.restart(stage.coordinator);
    for server in 0..5 {
        stage.restart(server);
    }
    stage.expect(table, "newest", b"1");
    stage.expect_filled(table, "key", 50);
    assert_eq!(stage.state().unwrap().losses.len(), 0);
    stage.close();
}
