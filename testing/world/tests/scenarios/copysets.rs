//! Replicas placed by copysets. Catalogue: D4, C9.

use ramhold_base::ServerId;
use ramhold_placement::Copysets;
use ramhold_wire::ReplicaPlacement;
use ramhold_world::cluster::Cluster;
use ramhold_world::stage::{Setting, Stage};

const RINGS: u8 = 2;

fn stage() -> Stage {
    let plain = Setting::of(9);
    let placement = ReplicaPlacement::Copysets { rings: RINGS };
    Stage::with(Setting { cluster: Cluster { placement, ..plain.cluster }, ..plain })
}

/// The backups of each segment of a server.
fn sets(stage: &Stage, server: usize) -> Vec<Vec<ServerId>> {
    let log = stage.node(server).unwrap().master().unwrap().log();
    let backups = |segment| stage.backups(server, segment).into_iter().map(|b| stage.id(b)).collect();
    log.segments().map(|segment| backups(segment.id)).collect()
}

fn outside(stage: &Stage, server: usize) -> Vec<Vec<ServerId>> {
    let view = stage.node(server).unwrap().view();
    let copysets = Copysets::new(view, RINGS, 3, false);
    assert!(!copysets.sets().is_empty());
    sets(stage, server).into_iter().filter(|set| set.len() != 3 || !copysets.hold(set)).collect()
}

/// This also covers the replacement of a lost replica, and the replicas that a recovery writes.
#[test]
fn all_replicas_of_a_segment_are_in_one_copyset_whoever_leaves() {
    let mut stage = stage();
    let table = stage.table("t", 3);
    stage.fill(table, "key", 200);
    let master = stage.owner(table).unwrap();
    assert!(sets(&stage, master).len() >= 4, "several segments");
    assert_eq!(outside(&stage, master), Vec::<Vec<ServerId>>::new());
    let lost = stage.head_backups(master, table)[1];
    let id = stage.id(lost);
    stage.crash(lost);
    stage.wait("its replicas are made anew", |stage| {
        stage.is_recovered(id) && sets(stage, master).iter().all(|set| set.len() == 3)
    });
    assert_eq!(outside(&stage, master), Vec::<Vec<ServerId>>::new());
    stage.crash(master);
    stage.expect_filled(table, "key", 200);
    stage.fill(table, "more", 100);
    let owner = stage.owner(table).unwrap();
    assert_eq!(outside(&stage, owner), Vec::<Vec<ServerId>>::new());
    stage.close();
}

/// Just as many servers are left as one segment's replicas need. Then any other backup is as good, and
/// nothing waits.
#[test]
fn a_cluster_without_another_whole_copyset_writes_on() {
    let plain = Setting::of(5);
    let placement = ReplicaPlacement::Copysets { rings: 1 };
    let mut stage = Stage::with(Setting { cluster: Cluster { placement, ..plain.cluster }, ..plain });
    let table = stage.table("t", 3);
    stage.fill(table, "key", 60);
    let master = stage.owner(table).unwrap();
    let lost = stage.head_backups(master, table)[0];
    stage.crash(lost);
    stage.fill(table, "more", 60);
    stage.expect_filled(table, "key", 60);
    stage.restart(lost);
    stage.close();
}
