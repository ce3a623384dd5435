//! A cold start that has not enough room at once: the frames are few and large.

use ramhold_client::{Client, Durability, TableId, TableOptions};
use ramhold_cluster_tests::{Cluster, Failure, Options};
use std::time::{Duration, Instant};

const SERVERS: usize = 6;
const PATIENCE: Duration = Duration::from_secs(60);
const OBJECT_BYTES: usize = 100_000;
/// More objects than fit into the frames of all servers.
const OBJECT_COUNT_MAX: u64 = 20_000;
const FULL_PERCENT: u64 = 60;

fn value(number: u64) -> Vec<u8> {
    (0..OBJECT_BYTES as u64).map(|at| (at * 31 + number * 17) as u8).collect()
}

/// How full the frames of all servers are.
fn full_percent(cluster: &Cluster) -> Result<u64, Failure> {
    let processes = cluster.processes()?;
    let backups = || processes.iter().flat_map(|process| &process.backup);
    let (used, max) =
        (backups().map(|b| b.frames_used).sum::<u64>(), backups().map(|b| b.frames_max).sum::<u64>());
    Ok(used * 100 / max.max(1))
}

/// Writes objects until the frames are this full. Returns how many.
fn fill(cluster: &Cluster, client: &mut Client, table: TableId) -> Result<u64, Failure> {
    for count in 0..OBJECT_COUNT_MAX {
        if count % 50 == 0 && full_percent(cluster)? >= FULL_PERCENT {
            return Ok(count);
        }
        client.put(table, &count.to_le_bytes(), &value(count))?;
    }
    panic!("the frames never got {FULL_PERCENT} % full");
}

// F7, D2: a second copy of everything does not fit beside the first, and everything is read all the same.
#[test]
fn a_cluster_starts_again_with_sixty_percent_of_its_frames_full() -> Result<(), Failure> {
    let _machine = crate::machine();
    let options = Options { servers: SERVERS, disk_bytes: 256 << 20, ..Options::default() };
    let mut cluster = Cluster::start(options)?;
    let mut client = cluster.client(PATIENCE)?;
    let shape = TableOptions {
        durability: Durability::Buffered,
        replicas: 3,
        tablets: 12,
        slots: false,
        zone: None,
        quorum: None,
    };
    let table = client.create_table("data", shape)?;
    let count = fill(&cluster, &mut client, table)?;
    let percent = full_percent(&cluster)?;
    drop(client);
    cluster.kill_all();

    let began = Instant::now();
    cluster.start_all();
    cluster.wait_up(SERVERS)?;
    let mut client = cluster.client(PATIENCE)?;
    for number in 0..count {
        let found = client.get(table, &number.to_le_bytes())?;
        assert!(found.is_some_and(|object| object.value == value(number)), "object {number} of {count}");
    }
    let took = began.elapsed().as_secs_f64();
    assert!(cluster.status()?.losses.is_empty());
    assert!(percent >= FULL_PERCENT, "a second copy of everything would fit");
    println!("{count} objects, frames {percent} % full; everything was read again after {took:.1} s");
    Ok(())
}
