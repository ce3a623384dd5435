//! Tables that want more replicas than there are servers for: which requests are refused and why, and when
//! that ends.
//! Catalogue: A1, D2, D3.

use ramhold_base::Status;
use ramhold_client_core::{DomainLevel, Outcome, Shortage};
use ramhold_wire::membership::Durability;
use ramhold_wire::status::ProcessStatus;
use ramhold_world::history::Condition;
use ramhold_world::resp::Answer;
use ramhold_world::stage::{Setting, Stage};

fn lacks(replicas: u8, up: u32) -> Shortage {
    Shortage { replicas, up, level: DomainLevel::Host, own_counts: false, bricks: false }
}

fn shortage_of(outcome: &Outcome) -> Option<Shortage> {
    match outcome {
        Outcome::Refused { status: Status::TooFewBackups, shortage, .. } => *shortage,
        _ => None,
    }
}

/// The reasons for which streams of any server wait.
fn waits(stage: &Stage) -> Vec<String> {
    let mut waits = Vec::new();
    for node in (0..stage.servers.len()).filter_map(|server| stage.node(server)) {
        let mut status = ProcessStatus::default();
        if let Some(master) = node.master() {
            master.status_into(&mut status, node.view());
        }
        waits.extend(status.streams.into_iter().filter_map(|stream| stream.waits_for));
    }
    waits
}

/// A1, D3: the refusal comes at once, though a client is patient, and leaves nothing behind.
#[test]
fn a_table_that_cannot_be_kept_is_refused_at_once() {
    let mut stage = Stage::new(3);
    let from = stage.world.now();
    let begun = stage.begin_table("t", 3);
    let outcome = stage.finish(begun);
    assert_eq!(shortage_of(&outcome), Some(lacks(3, 2)), "{outcome:?}");
    assert!(format!("{outcome:?}").contains("3 replicas need 3 other hosts, 2 are up"));
    assert!(stage.world.now() - from < 500_000_000);
    assert!(stage.state().unwrap().tables.is_empty());
    let table = stage.table("t", 2);
    stage.write(table, "key", b"1");
    stage.close();
}

/// D3: the cluster shrank after the table was made. A write surely has no effect, and the refusal says what
/// it waits for.
#[test]
fn a_write_that_lacks_backups_says_so_and_is_done_when_they_are_back() {
    let mut stage = Stage::new(4);
    let table = stage.table("t", 3);
    stage.write(table, "key", b"1");
    let master = stage.owner(table).unwrap();
    let lost = stage.others(&[master])[0];
    let id = stage.id(lost);
    stage.crash(lost);
    stage.wait("its death is known", |stage| {
        let node = stage.node(master).unwrap();
        !node.view().list.up().any(|entry| entry.id == id)
    });
    // Writes are admitted for a moment, in case another backup is found.
    stage.pass(1500);
    let begun = stage.begin_write(0, table, "key", b"2", Condition::Free);
    let outcome = stage.finish(begun);
    assert_eq!(shortage_of(&outcome), Some(lacks(3, 2)), "{outcome:?}");
    let expected = "backups: 3 replicas need 3 other hosts, 2 are up; start a server on one more host";
    assert!(waits(&stage).iter().all(|why| why == expected) && !waits(&stage).is_empty());
    // Reads go on.
    stage.expect(table, "key", b"1");
    let waiting = stage.begin_write(1, table, "key", b"3", Condition::Free);
    stage.restart(lost);
    stage.wait("the write is done", |stage| stage.is_done(waiting));
    assert!(stage.marks("write_lacks_backups") > 0);
    stage.wait("nothing waits", |stage| waits(stage).is_empty());
    stage.close();
}

/// D2, D3: an alteration that the cluster cannot carry out any more is undone, and the shortage of its
/// streams is no longer reported.
#[test]
fn a_stream_that_nobody_needs_any_more_waits_for_nothing() {
    let mut stage = Stage::new(6);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 20);
    let refused = stage.begin_alter(table, None, Some(6));
    let outcome = stage.finish(refused);
    assert_eq!(shortage_of(&outcome), Some(lacks(6, 5)), "{outcome:?}");
    let master = stage.owner(table).unwrap();
    let backups = stage.head_backups(master, table);
    let lost = stage.others(&[&backups[..], &[master]].concat())[0];
    // It dies just when the table is altered to five replicas.
    stage.crash(lost);
    stage.alter(table, None, Some(5));
    stage.wait("it waits", |stage| waits(stage).iter().any(|why| why.contains("5 replicas need 5 other")));
    stage.alter(table, None, Some(3));
    stage.wait("nothing waits", |stage| waits(stage).is_empty());
    stage.write(table, "key0", b"1");
    stage.close();
}

/// J1, D2: `FLUSHDB` and `FLUSHALL` leave an empty table of the same kind.
#[test]
fn flushing_keeps_durability_replicas_and_division() {
    for command in ["FLUSHDB", "FLUSHALL"] {
        let mut stage = Stage::with(Setting { speakers: 1, ..Setting::of(4) });
        let table = stage.synced_table("world", 2);
        let owner = stage.owner(table).unwrap();
        stage.connect(0, stage.others(&[owner])[0]);
        assert!(stage.say(0, "SET key 1").is_ok());
        assert!(stage.say(0, command).is_ok());
        assert_eq!(stage.say(0, "GET key"), Answer::Bulk(None));
        assert!(stage.say(0, "SET key 2").is_ok());
        let made = stage.state().unwrap().table_named("world").unwrap();
        assert_ne!(made.id, table);
        assert_eq!((made.options.durability, made.options.replicas), (Durability::Synced, 2), "{command}");
        assert_eq!((made.options.tablets, made.options.slots, made.tablets.len()), (1, false, 1));
        stage.settle();
    }
}

/// J1, A1: a database's table is made when it is first used. A cluster too small for the default says so at
/// once. A cluster that has shrunk keeps the contents of a database that is to be emptied.
#[test]
fn redis_clients_hear_what_a_table_lacks() {
    let mut stage = Stage::with(Setting { speakers: 1, ..Setting::of(3) });
    stage.connect(0, 0);
    let from = stage.world.now();
    let expected = "NOREPLICAS 3 replicas need 3 other hosts, 2 are up; start a server on one more host, or make the \
                    table with fewer: 'ramhold table create world --slots --replicas COUNT'";
    assert_eq!(stage.say(0, "SET key 1"), Answer::Error(expected.into()));
    assert!(stage.world.now() - from < 500_000_000);
    let table = stage.table("world", 2);
    assert!(stage.say(0, "SET key 1").is_ok());
    let lost = stage.others(&[stage.owner(table).unwrap(), 0])[0];
    let id = stage.id(lost);
    stage.crash(lost);
    stage.wait("its death is known", |stage| !stage.is_up(id));
    let refused = "NOREPLICAS 2 replicas need 2 other hosts, 1 is up; start a server on one more host";
    assert_eq!(stage.say(0, "FLUSHDB"), Answer::Error(refused.into()));
    assert_eq!(stage.say(0, "GET key"), Answer::Bulk(Some(b"1".to_vec())));
    stage.close();
}
