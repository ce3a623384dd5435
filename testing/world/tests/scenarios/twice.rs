//! A coordinator that dies a second time within its first seconds. Catalogue: E7, G1, A3.

use ramhold_base::TableId;
use ramhold_world::history::Condition;
use ramhold_world::stage::{Setting, Stage};

/// The lifetimes of the coordinator between its two deaths.
fn offsets() -> impl Iterator<Item = u64> {
    (0..=5000).step_by(50)
}

/// A cluster with a native client and two Redis clients at servers that do not own the table. All clients
/// have written.
fn busy(seed: u64, servers: u8) -> (Stage, TableId) {
    let mut stage = Stage::with(Setting { speakers: 3, seed, ..Setting::of(servers) });
    let table = stage.table("world", 3);
    let owner = stage.owner(table).unwrap();
    let away = stage.others(&[owner]);
    for (client, server) in away.iter().take(3).enumerate() {
        stage.connect(client, *server);
    }
    for client in 0..2 {
        stage.say(client, "SET key 0");
    }
    stage.write(table, "key", b"0");
    (stage, table)
}

fn die_twice(stage: &mut Stage, offset: u64) {
    stage.world.crash(stage.coordinator);
    stage.pass(300);
    stage.world.restart(stage.coordinator);
    stage.pass(offset);
    // One client of one server is served between the two deaths.
    stage.tell(1, &["SET key 1".to_string()]);
    stage.pass(2);
    stage.world.crash(stage.coordinator);
}

/// E7, G1, A3: a client that wrote before the first death goes on writing after the second.
#[test]
fn data_goes_on_when_the_coordinator_dies_again_soon_after_its_start() {
    for offset in offsets() {
        let (mut stage, table) = busy(offset, 5);
        die_twice(&mut stage, offset);
        for round in 0..20u8 {
            let replies = [0, 1].map(|client| stage.resp_write(client, table, "key", &round.to_string()));
            let native = stage.begin_write(0, table, "key", &[round], Condition::Free);
            let is_over = |stage: &Stage| {
                stage.is_done(native) && [0, 1].iter().all(|c| stage.replies(*c).len() > replies[*c])
            };
            assert!(stage.try_for(100, is_over), "{offset} ms, round {round}: somebody waits");
            stage.pass(50);
        }
        assert!(stage.in_charge().is_none());
        stage.close();
    }
}

/// The longest time from the coordinator's return until everything that needs it is done.
const BACK_MAX: u64 = 500;

/// E7, A3: a client without a lease, a server whose Redis clients have written nothing yet, and a table to be
/// made wait for the coordinator, and no longer than a moment.
#[test]
fn whoever_needs_the_coordinator_goes_on_as_soon_as_it_is_back() {
    for offset in offsets() {
        let (mut stage, table) = busy(offset, 5);
        die_twice(&mut stage, offset);
        let reply = stage.resp_write(2, table, "new", "1");
        let native = stage.begin_write(1, table, "key", b"1", Condition::Free);
        let made = stage.begin_table("other", 3);
        // So that the coordinator returns at all phases of their back-off.
        stage.pass(1000 + 37 * offset % 3000);
        stage.world.restart(stage.coordinator);
        let is_over =
            |stage: &Stage| stage.replies(2).len() > reply && stage.is_done(native) && stage.is_done(made);
        assert!(stage.try_for(BACK_MAX, is_over), "{offset} ms: somebody waits for more than {BACK_MAX} ms");
        stage.close();
    }
}
