//! Recoveries that lack room at once: frames, or memory. Catalogue: F7, D2; faults "cold start".

use ramhold_base::{Instant, TableId};
use ramhold_coordinator::State;
use ramhold_world::cluster::Cluster;
use ramhold_world::stage::{Setting, Stage};

const SERVERS: u8 = 6;
/// Keys with values of 1,000 bytes each, in a log of 1 MiB: 60 % of its memory.
const KEYS: u32 = 600;
/// Frames per server. A log has twenty segments, each on three backups: 60 % of the frames.
const FRAMES: u32 = 100;
/// Few and large frames: heads and last segments that are not full take much of the frames of a recovery.
const FEW_FRAMES: u32 = 31;
const FEW_KEYS: u32 = 74;

fn all(stage: &Stage) -> Vec<usize> {
    stage.others(&[])
}

/// A cluster whose servers each have `each` tables with `keys` keys each.
fn filled_with(seed: u64, frames: u32, each: u8, keys: u32) -> (Stage, Vec<TableId>) {
    let plain = Setting::of(SERVERS);
    let cluster = Cluster { frames: Some(frames), ..plain.cluster };
    let mut stage = Stage::with(Setting { cluster, seed, ..plain });
    let tables: Vec<TableId> = (0..SERVERS * each).map(|n| stage.table(&format!("t{n}"), 3)).collect();
    for table in &tables {
        stage.fill(*table, "key", keys);
    }
    let owners: Vec<_> = tables.iter().map(|table| stage.owner(*table)).collect();
    let count = |server: u8| owners.iter().filter(|owner| **owner == Some(usize::from(server))).count();
    assert!((0..SERVERS).all(|server| count(server) == usize::from(each)), "{each} each: {owners:?}");
    (stage, tables)
}

/// A cluster whose servers each have a table, with 60 % of their memory and frames full.
fn filled(seed: u64, frames: u32) -> (Stage, Vec<TableId>) {
    filled_with(seed, frames, 1, KEYS)
}

/// A cluster with few frames, 60 % of them full: six or seven segments in each log, of two tables.
fn filled_with_few(seed: u64) -> (Stage, Vec<TableId>) {
    let (stage, tables) = filled_with(seed, FEW_FRAMES, 2, FEW_KEYS);
    let used = frames_used(&stage) * 100 / u64::from(FEW_FRAMES * u32::from(SERVERS));
    assert!((58..=66).contains(&used), "{used} % of the frames are in use");
    (stage, tables)
}

/// The frames in use on all running servers.
fn frames_used(stage: &Stage) -> u64 {
    let servers = all(stage).into_iter().filter_map(|server| stage.node(server));
    servers.map(|node| node.backup().status(Instant::ZERO).frames_used).sum()
}

fn restart_all(stage: &mut Stage) {
    all(stage).into_iter().for_each(|server| stage.crash(server));
    stage.world.crash(stage.coordinator);
    stage.pass(100);
    stage.world.restart(stage.coordinator);
    all(stage).into_iter().for_each(|server| stage.restart(server));
}

fn expect_all(stage: Stage, tables: &[TableId]) {
    expect_each(stage, tables, KEYS);
}

fn expect_each(mut stage: Stage, tables: &[TableId], keys: u32) {
    expect_readable(&mut stage, tables, keys);
    stage.close();
}

fn expect_readable(stage: &mut Stage, tables: &[TableId], keys: u32) {
    for table in tables {
        for number in (0..keys).step_by(7) {
            stage.expect(*table, &format!("key{number}"), &ramhold_world::stage::filling("key", number));
        }
    }
}

/// Whether every server that was ever lost is recovered.
fn is_over(stage: &Stage) -> bool {
    let is_done = |state: &State| state.recoveries.len() >= 5 && state.recoveries.values().all(|r| r.done);
    stage.state().is_some_and(is_done)
}

/// A second copy of everything does not fit; one dead log after the other does.
#[test]
fn a_cluster_starts_again_with_sixty_percent_of_its_frames_and_memory_full() {
    for seed in 0..3 {
        let (mut stage, tables) = filled(seed, FRAMES);
        let used = frames_used(&stage) * 100 / u64::from(FRAMES * u32::from(SERVERS));
        assert!((55..=75).contains(&used), "{used} % of the frames are in use");
        restart_all(&mut stage);
        assert!(stage.try_for(60_000, is_over), "seed {seed}: {:?}", stage.recoveries());
        expect_all(stage, &tables);
    }
}

/// The same, and the coordinator dies again and again meanwhile. The recoveries at work are forgotten, and
/// recovered data that recovery masters hold must make room.
#[test]
fn and_with_a_coordinator_that_dies_meanwhile() {
    for seed in 0..4 {
        let (mut stage, tables) = filled(seed, FRAMES);
        restart_all(&mut stage);
        for _ in 0..4 {
            stage.pass(400 + 150 * seed);
            stage.world.crash(stage.coordinator);
            stage.pass(50);
            stage.world.restart(stage.coordinator);
        }
        assert!(stage.try_for(120_000, is_over), "seed {seed}: {:?}", stage.recoveries());
        expect_all(stage, &tables);
    }
}

/// The same, and one server stays away: a sixth of the frames and of the memory less.
#[test]
fn and_with_one_server_less() {
    for seed in 0..3 {
        let (mut stage, tables) = filled(seed, FRAMES);
        all(&stage).into_iter().for_each(|server| stage.crash(server));
        let rest = stage.others(&[seed as usize]);
        rest.into_iter().for_each(|server| stage.restart(server));
        assert!(stage.try_for(120_000, is_over), "seed {seed}: {:?}", stage.recoveries());
        expect_all(stage, &tables);
    }
}

/// Few and large frames: heads and last segments alone take as much as is free.
#[test]
fn a_cluster_with_few_frames_starts_again_with_sixty_percent_of_them_full() {
    for seed in 0..8 {
        let (mut stage, tables) = filled_with_few(seed);
        restart_all(&mut stage);
        assert!(stage.try_for(120_000, is_over), "seed {seed}: {:?}", stage.recoveries());
        expect_each(stage, &tables, FEW_KEYS);
    }
}

/// The same, and the coordinator dies again and again meanwhile.
#[test]
fn and_with_few_frames_and_a_coordinator_that_dies_meanwhile() {
    for seed in 0..4 {
        let (mut stage, tables) = filled_with_few(seed);
        restart_all(&mut stage);
        for _ in 0..4 {
            stage.pass(400 + 150 * seed);
            stage.world.crash(stage.coordinator);
            stage.pass(50);
            stage.world.restart(stage.coordinator);
        }
        assert!(stage.try_for(120_000, is_over), "seed {seed}: {:?}", stage.recoveries());
        expect_each(stage, &tables, FEW_KEYS);
    }
}

/// The same, and servers die meanwhile that have taken over a part and hold heads of other servers. Their
/// recovered data is in their log and in a kept log, and frames may be full before their turn comes. Without
/// letting kept logs go, and without turns of masters, some of these seeds would wait for ever.
#[test]
fn and_with_few_frames_and_recovery_masters_that_die_meanwhile() {
    let (mut let_go, mut gave_way, mut freed) = (0, 0, 0);
    for seed in (0..40).chain([43, 148]) {
        let (mut stage, tables) = filled_with_few(seed);
        restart_all(&mut stage);
        for round in 0..3 {
            let before = stage.marks("recovery_entered");
            assert!(
                stage.try_for(200_000, |stage| stage.marks("recovery_entered") > before),
                "seed {seed} round {round}: {:?}",
                stage.recoveries()
            );
            let dies = (seed as usize + 2 * round) % usize::from(SERVERS);
            stage.crash(dies);
            stage.pass(50);
            stage.restart(dies);
        }
        assert!(stage.try_for(200_000, is_over), "seed {seed}: {:?}", stage.recoveries());
        // With so few frames replicas are made one master after the other, and in some seeds some find no
        // frames: see docs/protocols/recovery.md, "What is open". All data can be read by now, whatever comes
        // of that.
        let is_freed =
            |stage: &Stage| stage.state().is_some_and(|s| s.servers.values().all(|s| !s.entry.kept));
        let is_all_freed = stage.try_for(300_000, is_freed);
        let_go += stage.marks("kept_log_let_go");
        gave_way += stage.marks("live_gave_way");
        if is_all_freed {
            freed += 1;
            expect_each(stage, &tables, FEW_KEYS);
        } else {
            expect_readable(&mut stage, &tables, FEW_KEYS);
        }
    }
    assert!(freed >= 30, "only {freed} of 42 clusters found frames for everything");
    assert!(let_go > 0 && gave_way > 0, "{let_go} let go, {gave_way} gave way");
}
