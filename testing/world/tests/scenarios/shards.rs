//! Processes with several shards: servers of one host that die at one instant. Catalogue: D4, E3, F1.

use ramhold_world::cluster::Cluster;
use ramhold_world::stage::{Setting, Stage};

/// With three replicas a server needs three other hosts, when one host is gone.
const HOSTS: u8 = 5;

fn stage(shards: u8, seed: u64) -> Stage {
    let plain = Setting::of(HOSTS * shards);
    Stage::with(Setting { cluster: Cluster { shards, ..plain.cluster }, seed, ..plain })
}

/// The servers of the process that has this one.
fn process_of(server: usize, shards: u8) -> Vec<usize> {
    let shards = usize::from(shards);
    let first = server / shards * shards;
    (first..first + shards).collect()
}

// D4, F1
#[test]
fn all_shards_of_a_process_die_at_once_and_nothing_is_lost() {
    for shards in 1..=3 {
        for seed in 1..=4 {
            let mut stage = stage(shards, seed);
            let table = stage.spread_table("t", 3);
            stage.fill(table, "key", 300);
            let owner = stage.owner(table).unwrap();
            let process = process_of(owner, shards);
            for server in &process {
                let log = stage.node(*server).unwrap().master().unwrap().log();
                let segments: Vec<_> = log.segments().map(|segment| segment.id).collect();
                for segment in segments {
                    let backups = stage.backups(*server, segment);
                    assert!(
                        backups.iter().all(|backup| !process.contains(backup)),
                        "{backups:?} of {server}"
                    );
                }
            }
            let ids: Vec<_> = process.iter().map(|server| stage.id(*server)).collect();
            process.iter().for_each(|server| stage.crash(*server));
            stage.expect_filled(table, "key", 300);
            stage.fill(table, "more", 100);
            stage.wait("all are recovered", |stage| ids.iter().all(|id| stage.is_recovered(*id)));
            process.iter().for_each(|server| stage.restart(*server));
            stage.expect_filled(table, "more", 100);
            stage.close();
        }
    }
}
