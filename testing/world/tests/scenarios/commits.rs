//! Several objects changed as one, whichever processes die meanwhile. Catalogue: A10, D9.

use ramhold_base::{Status, TableId, Version};
use ramhold_world::history::{Condition, Outcome};
use ramhold_world::stage::Stage;

const KEYS: [&str; 3] = ["a", "b", "c"];

fn all(table: TableId, value: &[u8]) -> Vec<(TableId, &'static str, &[u8])> {
    KEYS.map(|key| (table, key, value)).to_vec()
}

/// The master dies after any number of effects: the commit is there whole, and once.
#[test]
fn a_crash_between_any_two_effects_leaves_a_commit_whole_and_done_once() {
    for effects in 0..24 {
        let mut stage = Stage::new(5);
        let table = stage.table("t", 3);
        let first = stage.begin_commit(0, &all(table, b"1"), Condition::Absent);
        let Outcome::Done { version } = stage.end(first) else { panic!("nothing is in its way") };
        let node = stage.servers[stage.owner(table).unwrap()];
        stage.world.crash_after_effects(node, effects);
        let begun = stage.begin_commit(0, &all(table, b"2"), Condition::VersionIs(version));
        assert_eq!(stage.end(begun), Outcome::Done { version: Version(version.raw() + 1) }, "{effects}");
        stage.disarm();
        KEYS.iter().for_each(|key| stage.expect(table, key, b"2"));
        stage.close();
    }
}

/// The answer is lost and the master dies: a client that repeats the commit learns its outcome on all its
/// keys.
#[test]
fn a_commit_that_nobody_heard_of_is_recovered_whole() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    let first = stage.begin_commit(0, &all(table, b"1"), Condition::Absent);
    let Outcome::Done { version } = stage.end(first) else { panic!("nothing is in its way") };
    let master = stage.owner(table).unwrap();
    let (own, client) = (stage.hosts(&[master]), [stage.clients[0]]);
    stage.world.network.cut(&own, &client);
    let begun = stage.begin_commit(0, &all(table, b"2"), Condition::VersionIs(version));
    stage.pass(100);
    assert!(stage.outcome(begun).is_none());
    stage.crash(master);
    KEYS.iter().for_each(|key| stage.expect(table, key, b"2"));
    // The commit's condition does not hold any more, but the commit was carried out.
    stage.write(table, "b", b"3");
    stage.world.network.heal();
    assert_eq!(stage.end(begun), Outcome::Done { version: Version(version.raw() + 1) });
    assert!(stage.marks("result_recalled") > 0);
    stage.expect(table, "b", b"3");
    stage.close();
}

/// Keys of two servers are refused, and nothing is done.
#[test]
fn keys_on_two_servers_are_not_changed_as_one() {
    let mut stage = Stage::new(5);
    let (one, other) = (stage.table("one", 3), stage.table("other", 3));
    assert_ne!(stage.owner(one), stage.owner(other));
    let begun = stage.begin_commit(0, &[(one, "a", b"1"), (other, "a", b"1")], Condition::Free);
    assert_eq!(stage.end(begun), Outcome::Refused { status: Status::NotTogether });
    assert_eq!(stage.read(one, "a"), Outcome::Absent);
    assert_eq!(stage.read(other, "a"), Outcome::Absent);
    stage.close();
}
