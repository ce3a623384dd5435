//! A recovery, and one further failure while it runs. Catalogue: F4-F6, F9, D3, D5; TUT15 "Secondary
//! Failures".

use ramhold_base::Rng;
use ramhold_world::stage::{Setting, Stage};

/// The number of recoveries, each with a failure drawn for it. `RAMHOLD_SECONDARY` sets another number.
const COUNT: u64 = 60;

/// Where recovery masters and backups die.
const MARKS: [&str; 12] = [
    "recovery_begun",
    "recovery_replayed",
    "recovery_entered",
    "recovery_durable",
    "recovery_published",
    "backup_opened",
    "backup_certificate_written",
    "backup_flush_copied",
    "backup_flush_certified",
    "backup_fence_answered",
    "backup_ranges_told",
    "backup_segment_divided",
];

/// Plays a failure. Returns its name.
fn second_failure(stage: &mut Stage, rng: &mut Rng, others: &[usize]) -> &'static str {
    let one = |rng: &mut Rng| *rng.pick(others).expect("others");
    match rng.below(9) {
        0..=2 => {
            let mark = *rng.pick(&MARKS).expect("marks");
            let armed = one(rng);
            stage.arm(&[armed], mark);
            mark
        }
        3 => {
            stage.crash(one(rng));
            "another server dies"
        }
        4 => {
            let first = one(rng);
            let second = *rng.pick(&stage.others(&[first])).expect("others");
            stage.crash(first);
            if stage.node(second).is_some() {
                stage.crash(second);
            }
            "two others die"
        }
        5 => {
            stage.world.crash(stage.coordinator);
            let back = stage.world.now() + rng.below(500) * 1_000_000;
            stage.world.restart_at(stage.coordinator, back);
            "the coordinator dies"
        }
        6 => {
            let away = stage.hosts(&[one(rng)]);
            let rest = [stage.hosts(others), vec![stage.coordinator]].concat();
            let rest: Vec<usize> = rest.into_iter().filter(|host| !away.contains(host)).collect();
            stage.part(&away, &rest);
            "one is cut off"
        }
        7 => {
            let node = stage.hosts(&[one(rng)])[0];
            (0..300).for_each(|_| stage.world.rot(node));
            "a device rots"
        }
        _ => {
            let node = stage.hosts(&[one(rng)])[0];
            stage.world.disks_mut(node).options.read_error_ppm = 300_000;
            "a device reads badly"
        }
    }
}

/// Whichever failure happens during a recovery: nothing is lost, and the recovery ends when all servers are
/// there again.
#[test]
fn a_recovery_outlives_one_failure_more() {
    let count = std::env::var("RAMHOLD_SECONDARY").ok().and_then(|text| text.parse().ok()).unwrap_or(COUNT);
    for seed in 0..count {
        let mut rng = Rng::new(seed);
        let mut stage = Stage::with(Setting { seed, ..Setting::of(7) });
        let table = stage.table("t", 3);
        let keys = rng.between(20, 160) as u32;
        stage.fill(table, "key", keys);
        let master = stage.owner(table).expect("an owner");
        let others = stage.others(&[master]);
        let id = stage.id(master);
        // Before the recovery, or somewhere in its course.
        let before = rng.chance(1, 3);
        let what = if before { second_failure(&mut stage, &mut rng, &others) } else { "" };
        stage.crash(master);
        let what = if before {
            what
        } else {
            stage.pass(rng.below(400));
            second_failure(&mut stage, &mut rng, &others)
        };
        // Without the dead server the recovery ends, or tells what it waits for.
        let ends = stage.try_for(20_000, |stage| stage.is_recovered(id));
        if !ends {
            let recoveries = stage.recoveries();
            let report = recoveries.iter().find(|report| report.crashed == id);
            let waits = report.is_some_and(|report| !report.missing.is_empty());
            assert!(waits, "seed {seed}, {what}: it neither ends nor tells why: {report:?}");
        }
        stage.settle();
        stage.expect_filled(table, "key", keys);
        stage.close();
        println!("seed {seed}: {what}; {}", if ends { "it ended" } else { "it waited, and said for what" });
    }
}
