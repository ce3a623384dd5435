//! Clusters that have lost servers for good and cannot keep R replicas any more. All data must become
//! readable again.
//!
//! Catalogue: F6, D1, D2, A3. Rule: docs/protocols/recovery.md, "Until devices have it".

use ramhold_base::TableId;
use ramhold_world::history::Condition;
use ramhold_world::stage::{Setting, Stage};

const KEYS: u32 = 24;

/// A cluster with this number of servers, and tables of several classes. The largest replica count equals the
/// number of other servers.
fn filled(seed: u64, servers: u8) -> (Stage, Vec<TableId>) {
    let mut stage = Stage::with(Setting { seed, ..Setting::of(servers) });
    let tables = vec![
        stage.table("most", servers - 1),
        stage.table("three", 3),
        stage.synced_table("synced", 3),
        stage.table("two", 2),
        stage.synced_table("synced-two", 2),
    ];
    for table in &tables {
        stage.fill(*table, "key", KEYS);
    }
    (stage, tables)
}

/// The servers are gone for good. Each of them that owns something is recovered, whatever room and replicas
/// there are.
fn expect_readable(stage: &mut Stage, tables: &[TableId]) {
    stage.wait("everything is live", |stage| {
        stage.state().is_some_and(|state| state.recoveries.values().all(|recovery| recovery.done))
    });
    for table in tables {
        stage.expect_filled(*table, "key", KEYS);
    }
}

// F6, D1: R + 1 and R + 2 servers, one and two dead for good, together and one after the other.
#[test]
fn everything_is_readable_when_r_cannot_be_held() {
    for seed in 0..6 {
        for servers in [4, 5] {
            for (dead, millis_between) in [(1, 0), (2, 0), (2, 5_000)] {
                let (mut stage, tables) = filled(seed, servers);
                for number in 0..dead {
                    stage.crash((seed as usize + number) % usize::from(servers));
                    stage.pass(millis_between);
                }
                expect_readable(&mut stage, &tables);
                stage.close();
            }
        }
    }
}

// D1, A3: a write that cannot be kept by R backups is refused before it has any effect, and its key stays readable.
#[test]
fn what_cannot_hold_its_replicas_refuses_writes_and_is_read_on() {
    let (mut stage, tables) = filled(7, 4);
    stage.crash(1);
    expect_readable(&mut stage, &tables);
    stage.pass(3_000);
    let write = stage.begin_write(0, tables[1], "key0", b"new", Condition::Free);
    assert!(stage.stays(2_000, |stage| !stage.is_done(write)), "three replicas need three other servers");
    for table in &tables {
        stage.expect_filled(*table, "key", KEYS);
    }
    stage.write(tables[3], "key0", &ramhold_world::stage::filling("key", 0));
    stage.restart(1);
    stage.wait("the write goes on", |stage| stage.is_done(write));
    stage.close();
}
