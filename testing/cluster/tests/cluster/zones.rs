//! Servers in two zones, each of which is killed as a whole.

use ramhold_client::{Client, Durability, TableId, TableOptions};
use ramhold_cluster_tests::{Cluster, Failure, Options, wait_for};
use std::time::{Duration, Instant};

const SERVERS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(60);
/// Values are large, so that the log has several segments of 8 MiB.
const VALUE_BYTES: usize = 100_000;

fn value(number: u64) -> Vec<u8> {
    (0..VALUE_BYTES as u64).map(|at| (at * 31 + number * 17) as u8).collect()
}

fn put(client: &mut Client, table: TableId, numbers: std::ops::Range<u64>) -> Result<(), Failure> {
    for number in numbers {
        client.put(table, &number.to_le_bytes(), &value(number))?;
    }
    Ok(())
}

fn read(client: &mut Client, table: TableId, count: u64) -> Result<(), Failure> {
    for number in 0..count {
        let found = client.get(table, &number.to_le_bytes())?;
        assert!(found.is_some_and(|object| object.value == value(number)), "object {number} of {count}");
    }
    Ok(())
}

fn unspread(cluster: &Cluster) -> Result<u64, Failure> {
    let processes = cluster.processes()?;
    Ok(processes.iter().flat_map(|process| &process.streams).map(|stream| stream.unspread_segments).sum())
}

// H1, D3, O3: what is written while a zone is away is spread again when it is back, so that then the other may go.
#[test]
fn either_of_two_zones_may_go_once_the_other_has_everything_again() -> Result<(), Failure> {
    let _machine = crate::machine();
    let options = Options { servers: SERVERS, zones: 2, ..Options::default() };
    let mut cluster = Cluster::start(options)?;
    let mut client = cluster.client(PATIENCE)?;
    let shape = TableOptions { durability: Durability::Buffered, replicas: 3, tablets: 8, slots: false };
    let table = client.create_table("data", shape)?;
    put(&mut client, table, 0..600)?;
    assert_eq!(unspread(&cluster)?, 0);

    let (odd, even): (Vec<usize>, Vec<usize>) = (1..=SERVERS).partition(|member| member % 2 == 1);
    cluster.kill_at_once(&odd);
    let began = Instant::now();
    read(&mut client, table, 600)?;
    let readable = began.elapsed();
    put(&mut client, table, 600..1200)?;
    let written = began.elapsed();

    let began = Instant::now();
    for member in &odd {
        cluster.start_member(*member);
    }
    cluster.wait_up(SERVERS)?;
    let most = unspread(&cluster)?;
    assert!(most > 0, "all copies of what was written meanwhile are in one zone");
    wait_for("copies in both zones", PATIENCE, || {
        let left = unspread(&cluster)?;
        Ok(if left == 0 { Ok(()) } else { Err(format!("{left} segments are in one zone")) })
    })?;
    let spread = began.elapsed();
    cluster.wait_replicated(0)?;

    cluster.kill_at_once(&even);
    let began = Instant::now();
    read(&mut client, table, 1200)?;
    assert!(cluster.status()?.losses.is_empty());
    println!(
        "a zone of four killed: 60 MB read after {:.1} s, 60 MB written with R = 3 after {:.1} s; \
         {most} segments spread again {:.1} s after its start; the other zone killed: 120 MB read after {:.1} s",
        readable.as_secs_f64(),
        written.as_secs_f64(),
        spread.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
    Ok(())
}
