//! Read leases: dead servers never answer, and live servers do not fall silent. Catalogue: F8, J2.
//!
//! In each script one client reads at a server that is being declared dead, while another client writes at
//! its successor. The history is judged when the stage closes.

use ramhold_base::TableId;
use ramhold_world::history::{Condition, Outcome};
use ramhold_world::network::{MILLI, SECOND};
use ramhold_world::stage::{Begun, Stage};

/// Client 0 reads and client 1 overwrites one key, all the time. It counts the answers of each.
struct Contest {
    table: TableId,
    reading: Begun,
    writing: Begun,
    reads: u32,
    writes: u32,
}

impl Contest {
    fn new(stage: &mut Stage, table: TableId) -> Contest {
        let reading = stage.begin_read(0, table, "key0");
        let writing = stage.begin_write(1, table, "key0", b"0", Condition::Free);
        Contest { table, reading, writing, reads: 0, writes: 0 }
    }

    /// Goes on for this many milliseconds.
    fn run(&mut self, stage: &mut Stage, millis: u64) {
        for _ in 0..millis {
            if stage.outcome(self.reading).is_some() {
                self.reads += u32::from(stage.is_done(self.reading));
                self.reading = stage.begin_read(0, self.table, "key0");
            }
            if stage.outcome(self.writing).is_some() {
                self.writes += u32::from(stage.is_done(self.writing));
                let value = format!("write {}", self.writes);
                self.writing = stage.begin_write(1, self.table, "key0", value.as_bytes(), Condition::Free);
            }
            stage.pass(1);
        }
    }
}

/// Puts the master, its head's backups and client 0 on one side, and the coordinator, all others and client 1
/// on the other. The coordinator still reaches the backups in `reached`.
fn cut_off(stage: &mut Stage, table: TableId, reached: usize) {
    let master = stage.owner(table).unwrap();
    let backups = stage.head_backups(master, table);
    let inside = [&[master], &backups[reached..]].concat();
    let rest = stage.others(&[&backups[..], &[master]].concat());
    let near = [stage.hosts(&inside), vec![stage.clients[0]]].concat();
    let far = [stage.hosts(&rest), vec![stage.coordinator, stage.clients[1]]].concat();
    stage.part(&near, &far);
}

/// F8: cut off with all backups of its head but one, a master goes on answering reads until that one is
/// fenced, and no longer than its lease.
#[test]
fn a_master_that_is_cut_off_with_some_of_its_backups_answers_nothing_old() {
    for reached in 1..=3 {
        let mut stage = Stage::new(8);
        let table = stage.table("t", 3);
        stage.fill(table, "key", 20);
        let mut contest = Contest::new(&mut stage, table);
        contest.run(&mut stage, 200);
        let (reads, writes) = (contest.reads, contest.writes);
        assert!(reads > 20 && writes > 20, "{reads} reads, {writes} writes");
        cut_off(&mut stage, table, reached);
        contest.run(&mut stage, 500);
        assert!(contest.reads > reads, "its backups grant it what it needs");
        contest.run(&mut stage, 4000);
        assert!(stage.marks("recovery_published") > 0);
        let (reads, writes) = (contest.reads, contest.writes);
        contest.run(&mut stage, 1000);
        assert!(contest.writes > writes, "its successor serves");
        assert_eq!(contest.reads, reads, "it does not answer any more");
        stage.world.network.heal();
        contest.run(&mut stage, 3000);
        assert!(contest.reads > reads, "and client 0 finds the successor");
        stage.close();
    }
}

/// Why-these-rules 3: a request that came while the master stood still is not answered from the state before.
#[test]
fn a_master_that_stood_still_answers_nothing_old() {
    for stall in [100, 300, 1000, 1300, 1600, 2000, 5000] {
        let mut stage = Stage::new(5);
        let table = stage.table("t", 3);
        stage.fill(table, "key", 20);
        let mut contest = Contest::new(&mut stage, table);
        contest.run(&mut stage, 100);
        let master = stage.owner(table).unwrap();
        stage.world.stall(stage.servers[master], stall * MILLI);
        contest.run(&mut stage, stall + 3000);
        let (reads, writes) = (contest.reads, contest.writes);
        contest.run(&mut stage, 500);
        assert!(contest.reads > reads && contest.writes > writes, "{stall} ms");
        stage.close();
    }
}

/// F8: a master that is cut off from the coordinator alone is declared dead, and its backups are told.
#[test]
fn a_master_that_only_the_coordinator_does_not_reach_answers_nothing_old() {
    let mut stage = Stage::new(6);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    let mut contest = Contest::new(&mut stage, table);
    let master = stage.owner(table).unwrap();
    let host = stage.hosts(&[master]);
    let coordinator = [stage.coordinator];
    let reader = [stage.clients[0]];
    stage.part(&host, &coordinator);
    stage.part(&reader, &coordinator);
    contest.run(&mut stage, 6000);
    assert!(stage.marks("recovery_published") > 0);
    stage.world.network.heal();
    contest.run(&mut stage, 3000);
    stage.close();
}

/// G1: only the coordinator is away: reads go on.
#[test]
fn reads_go_on_without_the_coordinator() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    let mut contest = Contest::new(&mut stage, table);
    contest.run(&mut stage, 500);
    stage.world.crash(stage.coordinator);
    let mut least = u32::MAX;
    for _ in 0..6 {
        let before = contest.reads;
        contest.run(&mut stage, 500);
        least = least.min(contest.reads - before);
    }
    assert!(least > 20, "{least} reads in the worst half second");
    stage.world.restart(stage.coordinator);
    contest.run(&mut stage, 1000);
    stage.close();
}

/// Why-these-rules 4d: a backup of the head stands still. The coordinator grants the lease until the replica
/// is replaced.
#[test]
fn reads_go_on_when_a_backup_of_the_head_stands_still() {
    let mut stage = Stage::new(6);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    let master = stage.owner(table).unwrap();
    let backup = stage.head_backups(master, table)[1];
    stage.expect(table, "key1", &ramhold_world::stage::filling("key", 1));
    stage.world.stall(stage.servers[backup], 900 * MILLI);
    let mut done = 0;
    for _ in 0..800 {
        let begun = stage.begin_read(0, table, "key1");
        stage.pass(1);
        if stage.outcome(begun).is_none() {
            stage.end(begun);
        }
        done += u32::from(stage.is_done(begun));
    }
    assert_eq!(done, 800);
    stage.close();
}

/// D2: an answer from a cache is an answer of its owner too.
#[test]
fn a_cache_is_never_answered_by_two() {
    let mut stage = Stage::new(8);
    let buffered = stage.table("t", 3);
    stage.fill(buffered, "key", 20);
    let cache = stage.table("cache", 0);
    let master = stage.owner(cache).unwrap();
    // Only writes after the loss are judged. The earlier data is gone, as it may be.
    let host = stage.hosts(&[master]);
    let rest = [stage.hosts(&stage.others(&[master])), vec![stage.coordinator, stage.clients[1]]].concat();
    stage.part(&host, &rest);
    let coordinator = [stage.coordinator];
    let reader = [stage.clients[0]];
    stage.part(&reader, &coordinator);
    let at = stage.world.now();
    let mut contest = Contest::new(&mut stage, cache);
    contest.run(&mut stage, 8000);
    assert!(stage.world.now() > at + SECOND && contest.writes > 20, "{} writes", contest.writes);
    assert_eq!(contest.reads, 0, "it knows nothing of what was written elsewhere, and says nothing");
    let late = stage.begin_write(0, cache, "late", b"x", Condition::Free);
    assert!(stage.stays(1000, |stage| !stage.is_done(late)), "nor does it take anything");
    stage.world.network.heal();
    assert!(matches!(stage.end(late), Outcome::Done { .. }));
    stage.close();
}
