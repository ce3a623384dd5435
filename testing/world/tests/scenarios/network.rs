//! The network: frames that it loses, doubles or delays, and partitions. Catalogue: A11, E1, F1, F8.

use ramhold_base::TableId;
use ramhold_world::history::{Condition, Outcome};
use ramhold_world::network::{MILLI, SECOND};
use ramhold_world::stage::{Setting, Stage};
use std::time::Duration;

fn patient(servers: u8) -> Stage {
    Stage::with(Setting { patience: Duration::from_secs(40), ..Setting::of(servers) })
}

/// Writes and reads for this many rounds. Every outcome is in the history.
fn work(stage: &mut Stage, table: TableId, rounds: u8) -> u32 {
    let mut done = 0;
    for round in 0..rounds {
        let write = stage.begin_write(0, table, &format!("key{}", round % 3), &[round], Condition::Free);
        let read = stage.begin_read(1, table, &format!("key{}", round % 3));
        done += u32::from(matches!(stage.end(write), Outcome::Done { .. }));
        stage.finish(read);
        stage.pass(100);
    }
    done
}

/// N1
#[test]
fn frames_may_be_lost_doubled_held_and_changed() {
    let mut stage = patient(5);
    let table = stage.table("t", 3);
    let options = &mut stage.world.network.options;
    (options.loss_ppm, options.duplicate_ppm, options.corrupt_ppm) = (100_000, 200_000, 20_000);
    (options.hold_ppm, options.hold_max, options.break_ppm) = (200_000, 400 * MILLI, 10_000);
    assert!(work(&mut stage, table, 30) > 20);
    stage.close();
}

/// N2: a client's frames arrive twenty seconds late, when other clients have written the key since.
#[test]
fn a_write_that_arrives_much_later_takes_effect_once_or_never() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.write(table, "key", b"first");
    let master = stage.owner(table).unwrap();
    let until = stage.world.now() + 20 * SECOND;
    stage.world.network.clog(stage.clients[0], stage.servers[master], until);
    let late = stage.begin_write(0, table, "key", b"late", Condition::Free);
    assert!(matches!(stage.end(late), Outcome::Unknown | Outcome::Refused { .. }));
    let other = stage.begin_write(1, table, "key", b"other", Condition::Free);
    assert!(matches!(stage.end(other), Outcome::Done { .. }));
    stage.expect(table, "key", b"other");
    stage.pass(25_000);
    stage.read(table, "key");
    stage.close();
}

/// N2: frames for a life that is over reach its successor.
#[test]
fn a_write_for_an_earlier_life_is_refused() {
    let mut stage = patient(5);
    let table = stage.table("t", 3);
    stage.write(table, "key", b"first");
    let master = stage.owner(table).unwrap();
    let coordinator = [stage.coordinator];
    let client = [stage.clients[0]];
    // The client goes on believing in the old owner.
    stage.part(&client, &coordinator);
    stage.crash(master);
    stage.restart(master);
    let late = stage.begin_write(0, table, "key", b"late", Condition::Free);
    let other = stage.begin_write(1, table, "key", b"other", Condition::Free);
    assert!(matches!(stage.end(other), Outcome::Done { .. }));
    assert!(stage.stays(3000, |stage| !stage.is_done(late)));
    stage.world.network.heal();
    assert!(matches!(stage.end(late), Outcome::Done { .. }));
    stage.expect(table, "key", b"late");
    stage.close();
}

/// N3
#[test]
fn changed_frames_are_never_believed() {
    let mut stage = patient(5);
    let table = stage.table("t", 3);
    stage.world.network.options.corrupt_ppm = 100_000;
    assert!(work(&mut stage, table, 30) > 20);
    assert!(stage.world.faults["corrupt frame"] > 100);
    stage.close();
}

/// N4
#[test]
fn cuts_of_any_shape_leave_one_owner() {
    type Shape = fn(&mut Stage);
    let shapes: [(&str, Shape); 5] = [
        ("two do not see each other", |stage| {
            let (a, b) = ([stage.servers[0]], [stage.servers[1]]);
            stage.part(&a, &b);
        }),
        ("one way", |stage| {
            let (a, b) = (stage.servers[..2].to_vec(), stage.servers[2..].to_vec());
            stage.world.network.cut(&a, &b);
        }),
        ("a ring", |stage| {
            for at in 0..5 {
                let far = [stage.servers[(at + 2) % 5], stage.servers[(at + 3) % 5]];
                let own = [stage.servers[at]];
                stage.part(&own, &far);
            }
        }),
        ("a bridge", |stage| {
            let (a, b) = (stage.servers[..2].to_vec(), stage.servers[3..].to_vec());
            stage.part(&a, &b);
        }),
        ("the coordinator sees two", |stage| {
            let far = stage.servers[2..].to_vec();
            let coordinator = [stage.coordinator];
            stage.part(&far, &coordinator);
        }),
    ];
    for (name, shape) in shapes {
        let mut stage = Stage::with(Setting { patience: Duration::from_secs(2), ..Setting::of(5) });
        let tables: Vec<TableId> = (0..3).map(|n| stage.table(&format!("t{n}"), 3)).collect();
        shape(&mut stage);
        for table in &tables {
            work(&mut stage, *table, 6);
        }
        println!("{name}: {} deaths", stage.deaths().len());
        stage.close();
    }
}

/// N5
#[test]
fn a_link_that_comes_and_goes_causes_bounded_recoveries() {
    let mut stage = patient(5);
    let table = stage.table("t", 3);
    let master = stage.owner(table).unwrap();
    let own = stage.hosts(&[master]);
    let rest = [stage.hosts(&stage.others(&[master])), vec![stage.coordinator]].concat();
    for round in 0..20u8 {
        stage.part(&own, &rest);
        let write = stage.begin_write(0, table, "key", &[round], Condition::Free);
        stage.pass(300);
        stage.world.network.heal();
        stage.pass(300);
        assert!(matches!(stage.end(write), Outcome::Done { .. }));
    }
    assert!(stage.deaths().len() <= 2, "{} deaths", stage.deaths().len());
    stage.close();
}

/// N7, O3: a rack is unreachable, then it comes back.
#[test]
fn a_rack_that_nobody_reaches_is_replaced_and_rejoins() {
    let mut stage = patient(7);
    let tables: Vec<TableId> = (0..7).map(|n| stage.table(&format!("t{n}"), 3)).collect();
    for table in &tables {
        stage.fill(*table, "key", 10);
    }
    let rack = [0, 1];
    let inside = stage.hosts(&rack);
    let outside =
        [stage.hosts(&stage.others(&rack)), vec![stage.coordinator], stage.clients.clone()].concat();
    let ids = rack.map(|s| stage.id(s));
    stage.part(&inside, &outside);
    for table in &tables {
        stage.expect_filled(*table, "key", 10);
        stage.write(*table, "key0", b"meanwhile");
    }
    assert!(ids.iter().all(|id| stage.deaths().contains_key(id)));
    stage.world.network.heal();
    stage.wait("both rejoin as new servers", |stage| {
        rack.iter().all(|s| stage.id(*s) > ids[*s] && stage.is_up(stage.id(*s)))
    });
    stage.close();
}

/// N9
#[test]
fn after_a_long_cut_everything_is_well_within_seconds() {
    let mut stage = patient(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    let (all, coordinator) = (stage.servers.clone(), [stage.coordinator]);
    stage.part(&all[..2], &all[2..]);
    stage.part(&all[..2], &coordinator);
    stage.pass(60_000);
    stage.world.network.heal();
    let healed_at = stage.world.now();
    stage.settle();
    assert!(stage.world.now() - healed_at < 15 * SECOND, "{} s", (stage.world.now() - healed_at) / SECOND);
    stage.expect_filled(table, "key", 20);
    stage.close();
}
