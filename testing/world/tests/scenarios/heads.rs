//! Heads, epochs, and the proof that a log is complete. Catalogue: D6, D8, D9, F2, F10, J2.

use ramhold_base::{SegmentId, ServerId, TableId};
use ramhold_world::history::{Condition, Outcome};
use ramhold_world::network::MILLI;
use ramhold_world::stage::{Stage, filling};

/// Whether a recovery of this server is under way and no partition of it is live yet.
fn waits(stage: &Stage, id: ServerId) -> bool {
    let recovery = stage.state().and_then(|state| state.recovery_of(id));
    recovery.is_some_and(|recovery| recovery.complete_millis.is_none() && !recovery.done)
}

/// A table whose master has a few closed segments and a head. Returns the table, its master and the master's
/// id.
fn some_segments(stage: &mut Stage, count: u32) -> (TableId, usize, ServerId) {
    let table = stage.table("t", 3);
    stage.fill(table, "key", count);
    let master = stage.owner(table).unwrap();
    (table, master, stage.id(master))
}

/// B1: dies after any number of effects around the rolling of its head; the older of two open heads counts.
#[test]
fn a_crash_at_any_step_of_rolling_the_head_loses_nothing() {
    let mut rolled = 0;
    for effects in (0..60).step_by(3) {
        let mut stage = Stage::new(5);
        let (table, master, _) = some_segments(&mut stage, 26);
        let before = stage.marks("head_rolled");
        let node = stage.servers[master];
        stage.world.crash_after_effects(node, effects);
        let open: Vec<_> = (0..12)
            .map(|n| stage.begin_write(0, table, &format!("more{n}"), &filling("more", n), Condition::Free))
            .collect();
        for begun in open {
            assert!(matches!(stage.end(begun), Outcome::Done { .. }));
        }
        rolled += u64::from(stage.marks("head_rolled") > before);
        stage.expect_filled(table, "key", 26);
        stage.expect_filled(table, "more", 12);
        stage.close();
    }
    assert!(rolled > 10);
}

/// B1: at the mark itself.
#[test]
fn a_crash_when_the_new_head_is_only_in_memory_loses_nothing() {
    let mut stage = Stage::new(5);
    let (table, master, _) = some_segments(&mut stage, 26);
    stage.arm(&[master], "head_rolled");
    let open: Vec<_> = (0..12)
        .map(|n| stage.begin_write(0, table, &format!("more{n}"), &filling("more", n), Condition::Free))
        .collect();
    assert_eq!(stage.wait_for_death_at("head_rolled"), master);
    for begun in open {
        assert!(matches!(stage.end(begun), Outcome::Done { .. }));
    }
    stage.expect_filled(table, "more", 12);
    stage.close();
}

/// B2
#[test]
fn without_any_replica_of_the_head_recovery_waits_and_then_goes_on_by_itself() {
    let mut stage = Stage::new(8);
    let (table, master, id) = some_segments(&mut stage, 40);
    let backups = stage.head_backups(master, table);
    for server in [&backups[..], &[master]].concat() {
        stage.crash(server);
    }
    let read = stage.begin_read(1, table, "key0");
    stage.wait("a recovery that waits", |stage| waits(stage, id));
    assert!(stage.stays(6000, |stage| waits(stage, id)));
    assert!(!stage.is_done(read));
    stage.restart(backups[1]);
    stage.wait("it is recovered", |stage| stage.is_recovered(id));
    stage.expect_filled(table, "key", 40);
    stage.close();
}

/// B3
#[test]
fn without_any_replica_of_an_old_segment_recovery_waits_and_then_goes_on_by_itself() {
    let mut stage = Stage::new(10);
    let (table, master, id) = some_segments(&mut stage, 120);
    let head = stage.head(master, table);
    let old = (1..head.raw()).map(SegmentId).find(|s| stage.backups(master, *s).len() == 3).unwrap();
    let backups = stage.backups(master, old);
    for server in [&backups[..], &[master]].concat() {
        stage.crash(server);
    }
    stage.wait("a recovery that waits", |stage| waits(stage, id));
    assert!(stage.stays(5000, |stage| waits(stage, id)));
    stage.restart(backups[2]);
    stage.wait("it is recovered", |stage| stage.is_recovered(id));
    stage.expect_filled(table, "key", 120);
    stage.close();
}

/// B4
#[test]
fn a_head_replica_of_an_older_epoch_never_counts() {
    let mut stage = Stage::new(8);
    let (table, master, id) = some_segments(&mut stage, 20);
    let absent = stage.head_backups(master, table)[0];
    stage.crash(absent);
    stage.write(table, "key0", b"after it");
    let now = stage.head_backups(master, table);
    assert_eq!((now.len(), now.contains(&absent)), (3, false));
    for server in [&now[..], &[master]].concat() {
        stage.crash(server);
    }
    stage.restart(absent);
    stage.wait("a recovery that waits", |stage| waits(stage, id));
    assert!(stage.stays(6000, |stage| waits(stage, id)), "it was recovered from an old replica");
    stage.restart(now[0]);
    stage.wait("it is recovered", |stage| stage.is_recovered(id));
    stage.expect(table, "key0", b"after it");
    stage.close();
}

/// B5
#[test]
fn writes_that_need_a_new_epoch_wait_for_the_coordinator() {
    let mut stage = Stage::new(6);
    let (table, master, _) = some_segments(&mut stage, 20);
    stage.world.crash(stage.coordinator);
    let backup = stage.head_backups(master, table)[0];
    stage.crash(backup);
    let open = stage.begin_write(0, table, "key0", b"new", Condition::Free);
    assert!(stage.stays(3000, |stage| !stage.is_done(open)));
    stage.world.restart(stage.coordinator);
    assert!(matches!(stage.end(open), Outcome::Done { .. }));
    stage.close();
}

/// B6, and schedules 5c and 5d: a backup dies, and at any moment after that its master; nothing waits for ever.
#[test]
fn a_master_that_dies_while_it_replaces_a_replica_is_recovered() {
    for millis in [0, 1, 2, 3, 5, 8, 13, 21, 100, 250, 400, 420, 450, 500, 600, 800] {
        let mut stage = Stage::new(6);
        let (table, master, id) = some_segments(&mut stage, 60);
        let backup = stage.head_backups(master, table)[0];
        stage.crash(backup);
        stage.pass(millis);
        stage.crash(master);
        assert!(
            stage.try_for(10_000, |stage| stage.is_recovered(id)),
            "it waits, {millis} ms after the backup"
        );
        stage.expect_filled(table, "key", 60);
        stage.close();
    }
}

/// B6: mid-copy, the master and the other holders die, and come back without the backup.
#[test]
fn a_copy_that_was_never_whole_is_never_used() {
    for millis in [0, 1, 2, 4, 8, 16, 450, 500, 550] {
        let mut stage = Stage::new(8);
        let (table, master, _) = some_segments(&mut stage, 100);
        let backups = stage.head_backups(master, table);
        stage.crash(backups[0]);
        stage.pass(millis);
        for server in [master, backups[1], backups[2]] {
            stage.crash(server);
        }
        stage.pass(2000);
        stage.restart(backups[1]);
        stage.restart(backups[2]);
        stage.expect_filled(table, "key", 100);
        stage.close();
    }
}

/// B8: dies at each step of cleaning.
#[test]
fn a_crash_at_any_step_of_cleaning_loses_nothing_and_revives_nothing() {
    let steps = [
        "combined_begun",
        "survivors_copied",
        "survivors_entered",
        "sources_retired",
        "compaction_begun",
        "compacted",
    ];
    for step in steps {
        let mut stage = Stage::new(5);
        let table = stage.table("t", 3);
        stage.fill(table, "kept", 40);
        stage.write(table, "gone", b"1");
        stage.remove(table, "gone");
        let master = stage.owner(table).unwrap();
        stage.arm(&[master], step);
        let died = |stage: &Stage| stage.world.crash_points.contains_key(step);
        for round in 0..4000 {
            stage.write(table, &format!("hot{}", round % 30), &filling("hot", round % 30));
            if died(&stage) {
                break;
            }
        }
        assert!(died(&stage), "nobody died at {step}");
        stage.expect_filled(table, "kept", 40);
        assert_eq!(stage.read(table, "gone"), Outcome::Absent, "after {step}");
        stage.close();
    }
}

/// B10: the backup that held the object is away while object, remove and tombstone go, and comes back to a recovery.
#[test]
fn a_removed_object_does_not_come_back_with_an_old_replica() {
    let mut stage = Stage::new(7);
    let table = stage.table("t", 3);
    stage.write(table, "gone", b"1");
    let master = stage.owner(table).unwrap();
    let away = stage.head_backups(master, table);
    stage.fill(table, "fill", 40);
    stage.crash(away[0]);
    stage.remove(table, "gone");
    let before = stage.marks("sources_retired");
    for round in 0..3000 {
        stage.write(table, &format!("hot{}", round % 30), &filling("hot", round % 30));
    }
    assert!(stage.marks("sources_retired") > before + 3);
    stage.crash(master);
    stage.restart(away[0]);
    assert_eq!(stage.read(table, "gone"), Outcome::Absent);
    stage.expect_filled(table, "fill", 40);
    stage.close();
}

/// B11, schedule 10: versions grow over removes, new objects and recoveries.
#[test]
fn versions_grow_over_removes_and_recoveries() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    let mut last = 0;
    for round in 0..6u8 {
        let version = stage.write(table, "key", &[round]);
        assert!(version > last, "{version} after {last}");
        last = stage.remove(table, "key");
        assert!(last > version);
        let master = stage.owner(table).unwrap();
        let id = stage.id(master);
        stage.crash(master);
        stage.wait("it is recovered", |stage| stage.is_recovered(id));
        stage.restart(master);
    }
    stage.close();
}

/// B13
#[test]
fn a_dropped_tables_objects_never_come_back() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    stage.drop_table(table);
    let again = stage.table("t", 3);
    assert_ne!(again, table);
    let master = stage.owner(again).unwrap();
    assert_eq!(stage.read(again, "key0"), Outcome::Absent);
    stage.crash(master);
    assert_eq!(stage.read(again, "key0"), Outcome::Absent);
    stage.close();
}

/// B14
#[test]
fn many_recoveries_of_the_same_data_do_not_make_it_more() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 60);
    let bytes = |stage: &Stage| {
        let master = stage.node(stage.owner(table).unwrap()).unwrap().master().unwrap();
        master.log().segments().map(|s| u64::from(s.live_bytes)).sum::<u64>()
    };
    let before = bytes(&stage);
    for _ in 0..20 {
        let master = stage.owner(table).unwrap();
        let id = stage.id(master);
        stage.crash(master);
        stage.wait("it is recovered", |stage| stage.is_recovered(id) && stage.owner(table).is_some());
        stage.restart(master);
        stage.pass(300);
    }
    assert!(bytes(&stage) < before + before / 4, "{} bytes, once {before}", bytes(&stage));
    stage.expect_filled(table, "key", 60);
    stage.close();
}

/// B15
#[test]
fn nobody_reads_what_is_not_replicated() {
    for dies in [false, true] {
        let mut stage = Stage::new(5);
        let table = stage.table("t", 3);
        stage.write(table, "key", b"old");
        let master = stage.owner(table).unwrap();
        let (own, backups) = (stage.hosts(&[master]), stage.hosts(&stage.head_backups(master, table)));
        stage.world.network.cut(&own, &backups);
        let write = stage.begin_write(0, table, "key", b"new", Condition::Free);
        stage.pass(5);
        let read = stage.begin_read(1, table, "key");
        assert!(stage.stays(200, |stage| stage.outcome(read).is_none() && stage.outcome(write).is_none()));
        if dies {
            stage.crash(master);
        }
        stage.world.network.heal();
        stage.finish(write);
        stage.finish(read);
        stage.expect(table, "key", b"new");
        stage.close();
    }
}

/// Schedule 2: a master with two streams; all replicas of one head are away. The table of that stream is not
/// opened empty.
#[test]
fn a_stream_without_any_replica_is_missed() {
    let mut stage = Stage::new(9);
    // Tables of two classes at one master.
    let first = stage.table("three", 3);
    let master = stage.owner(first).unwrap();
    let tables: Vec<TableId> = (0..20).map(|n| stage.table(&format!("two{n}"), 2)).collect();
    let second =
        tables.into_iter().find(|t| stage.owner(*t) == Some(master)).expect("one of twenty is there");
    stage.fill(first, "first", 5);
    stage.fill(second, "second", 5);
    let id = stage.id(master);
    let backups = stage.head_backups(master, second);
    assert_eq!(backups.len(), 2);
    let kept = stage.head_backups(master, first).iter().any(|b| !backups.contains(b));
    assert!(kept, "the other stream can be found");
    for server in [&backups[..], &[master]].concat() {
        stage.crash(server);
    }
    let read = stage.begin_read(1, second, "second0");
    stage.wait("a recovery", |stage| stage.deaths().contains_key(&id));
    assert!(stage.stays(6000, |stage| stage.outcome(read).is_none() && !stage.is_recovered(id)));
    stage.restart(backups[0]);
    stage.wait("it is recovered", |stage| stage.is_recovered(id));
    stage.expect_filled(first, "first", 5);
    stage.expect_filled(second, "second", 5);
    stage.close();
}

/// Schedule 1A: master and a backup lose their power; the other holders cannot be reached for two seconds.
#[test]
fn a_head_that_lost_its_buffer_proves_nothing() {
    let mut stage = Stage::new(7);
    let (table, master, id) = some_segments(&mut stage, 8);
    let backups = stage.head_backups(master, table);
    // The newest writes are on no device yet.
    stage.write(table, "newest", b"1");
    stage.cut_power(master);
    stage.cut_power(backups[1]);
    let (hosts, coordinator) = (stage.hosts(&[backups[0], backups[2]]), [stage.coordinator]);
    stage.part(&hosts, &coordinator);
    stage.restart(backups[1]);
    stage.wait("its death is known", |stage| stage.deaths().contains_key(&id));
    assert!(stage.stays(2000, |stage| waits(stage, id)), "a cut replica was believed");
    stage.world.network.heal();
    stage.expect(table, "newest", b"1");
    stage.expect_filled(table, "key", 8);
    stage.close();
}

/// Schedule 1B: a backup forgets that a head was closed; the next head is on servers that the coordinator
/// cannot reach.
#[test]
fn a_backup_that_forgot_a_closing_does_not_bring_the_old_head_back() {
    let mut stage = Stage::new(9);
    let (table, master, id) = some_segments(&mut stage, 20);
    let old = stage.head(master, table);
    let old_backups = stage.backups(master, old);
    let mut number = 0;
    while stage.head(master, table) == old || stage.head_backups(master, table).len() < 3 {
        stage.write(table, &format!("more{number}"), &filling("more", number));
        number += 1;
    }
    let new_backups = stage.head_backups(master, table);
    let forgetful = *old_backups.iter().find(|b| !new_backups.contains(b)).expect("heads are scattered");
    stage.cut_power(forgetful);
    // The master's side: all backups that hold either head, and client 0.
    let side: Vec<usize> = [&old_backups[..], &new_backups[..], &[master]].concat();
    let side: Vec<usize> = side.into_iter().filter(|s| *s != forgetful).collect();
    let inside = [stage.hosts(&side), vec![stage.clients[0]]].concat();
    let outside = [stage.hosts(&stage.others(&side)), vec![stage.coordinator, stage.clients[1]]].concat();
    stage.part(&inside, &outside);
    stage.restart(forgetful);
    let behind = stage.begin_write(0, table, "behind", b"1", Condition::Free);
    stage.wait("its death is known", |stage| stage.deaths().contains_key(&id));
    assert!(stage.stays(3000, |stage| waits(stage, id)), "the old head was believed");
    stage.world.network.heal();
    stage.finish(behind);
    stage.expect_filled(table, "more", number);
    stage.expect_filled(table, "key", 20);
    stage.close();
}

/// Time bound of C1 for the head alone: a write that meets the death of a backup.
#[test]
fn a_write_that_meets_the_death_of_a_backup_is_done_within_a_second() {
    let mut stage = Stage::new(6);
    let (table, master, _) = some_segments(&mut stage, 20);
    stage.crash(stage.head_backups(master, table)[0]);
    let begun_at = stage.world.now();
    stage.write(table, "key0", b"new");
    assert!(stage.world.now() - begun_at < 1000 * MILLI, "{} ms", (stage.world.now() - begun_at) / MILLI);
    stage.close();
}
