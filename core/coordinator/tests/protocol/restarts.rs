//! The coordinator dies at every commit of a long story; the story ends the same.

use crate::harness::*;
use ramhold_base::ServerId;
use ramhold_wire::table::{TableDrop, TabletState};
use std::time::Duration;

/// Servers come, tables are made, a server dies and is recovered, a table is dropped.
fn story(crash_at: Option<(u64, bool)>) -> (World, u64) {
    let mut world = World::new();
    world.crash_at = crash_at;
    for port in 1..=4 {
        world.enlist(port);
    }
    world.run(Duration::from_millis(300));
    let kept = world.create("kept", buffered(2, 4));
    let dropped = world.create("dropped", buffered(2, 2));
    let cache = ramhold_wire::table::TableOptions {
        durability: ramhold_wire::membership::Durability::None,
        replicas: 0,
        tablets: 4,
        slots: false,
        zone: None,
        quorum: None,
    };
    world.create("cache", cache);
    world.give_head(ServerId(1), 2, &[2, 3, 4]);
    let victim = ServerId(1);
    world.kill(1);
    world.run_until("recovered", |w| w.is_over(victim));
    for _ in 0..30 {
        if world.client(&TableDrop { table: dropped }).is_some() {
            break;
        }
        world.run(Duration::from_millis(500));
    }
    world.run(Duration::from_secs(5));
    let description = world.describe("kept");
    assert_eq!(description.table, kept);
    for name in ["kept", "cache"] {
        let description = world.describe(name);
        assert_covered(&description);
        assert!(description.tablets.iter().all(|t| t.state == TabletState::Serving), "{description:?}");
        assert!(description.tablets.iter().all(|t| t.owner != victim));
    }
    assert!(!world.state().tables.contains_key(&dropped));
    assert_eq!(world.state().losses.len(), 1, "each loss is filed once");
    assert_eq!(world.state().all_up().count(), 3);
    let version = world.state().meta.list_version;
    assert!(
        world.servers.values().filter(|s| s.mood == Mood::Answering).all(|s| s.list.version() == version)
    );
    let commits = world.commits;
    (world, commits)
}

// G1, G3
#[test]
fn a_coordinator_that_dies_at_any_commit_finishes_what_was_begun() {
    let (_, commits) = story(None);
    assert!(commits > 15, "{commits}");
    for at in 1..=commits {
        for applied in [false, true] {
            let (world, _) = story(Some((at, applied)));
            assert!(world.crashes <= 1);
        }
    }
}

// G1
#[test]
fn what_is_in_the_store_is_what_was_in_memory() {
    let (mut world, _) = story(None);
    let before = world.state().clone();
    world.restart();
    let after = world.state();
    assert_eq!(after.servers, before.servers);
    assert_eq!(after.tables, before.tables);
    assert_eq!(after.recoveries, before.recoveries);
    assert_eq!(after.losses, before.losses);
    assert_eq!(after.leases, before.leases);
    assert!(after.leases.values().any(|lease| !lease.updates.is_empty()));
}
