//! Masters, zombies and the detection of failures. Catalogue: A11, F1, F8.

use ramhold_node::EXIT_DECLARED_DEAD;
use ramhold_world::history::{Condition, Outcome};
use ramhold_world::network::{MILLI, SECOND};
use ramhold_world::stage::{Stage, filling};

/// A1
#[test]
fn a_crashed_masters_table_is_served_again_within_two_seconds() {
    let mut stage = Stage::new(5);
    let table = stage.table("t", 3);
    stage.fill(table, "key", 100);
    let master = stage.owner(table).unwrap();
    // One write is under way when it dies.
    let open = stage.begin_write(0, table, "open", b"1", Condition::Free);
    stage.crash(master);
    let crashed_at = stage.world.now();
    stage.expect(table, "key0", &filling("key", 0));
    assert!(stage.world.now() - crashed_at < 2 * SECOND, "{} ms", (stage.world.now() - crashed_at) / MILLI);
    assert!(matches!(stage.end(open), Outcome::Done { .. }));
    stage.expect_filled(table, "key", 100);
    assert!(stage.marks("recovery_published") > 0);
    assert_ne!(stage.owner(table), Some(master));
    stage.close();
}
