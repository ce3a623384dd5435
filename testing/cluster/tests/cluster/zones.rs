//! Servers in zones: each zone is killed as a whole, and with zone-local a server is recovered in its own.

use ramhold_client::{Client, Durability, ServerState, TableId, TableOptions};
use ramhold_cluster_tests::{Cluster, Failure, Options, wait_for};
use std::collections::BTreeSet;
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
    let shape = TableOptions {
        durability: Durability::Buffered,
        replicas: 3,
        tablets: 8,
        slots: false,
        zone: None,
        quorum: None,
    };
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

/// The zones of the servers that have a table's tablets.
fn zones_of(cluster: &Cluster, client: &mut Client, table: &str) -> Result<BTreeSet<String>, Failure> {
    let servers = cluster.status()?.servers;
    let tablets = client.describe_table(table)?.tablets;
    let zone = |owner| {
        let server = servers.iter().find(|server| server.id == owner && server.state == ServerState::Up);
        let label = server.and_then(|server| server.labels.iter().find(|label| label.name == "zone"));
        label.map_or_else(|| format!("{owner} is not up"), |label| label.value.clone())
    };
    Ok(tablets.iter().map(|tablet| zone(tablet.owner)).collect())
}

// H3, F4: the data of a zone stays in it when one of its servers dies, and leaves it with the zone alone.
#[test]
fn with_zone_local_data_stays_in_its_zone_while_the_zone_lives() -> Result<(), Failure> {
    let _machine = crate::machine();
    let options = Options {
        servers: 6,
        zones: 2,
        coordinator_options: &["--topology", "zones", "--placement", "zone-local"],
        ..Options::default()
    };
    let mut cluster = Cluster::start(options)?;
    let mut client = cluster.client(PATIENCE)?;
    // The members of this zone are the odd ones.
    let own: BTreeSet<String> = ["z1".to_owned()].into();
    let members: Vec<usize> = (1..=6).filter(|member| member % 2 == 1).collect();
    let of = |zone| TableOptions {
        durability: Durability::Buffered,
        replicas: 2,
        tablets: 0,
        slots: false,
        zone,
        quorum: None,
    };
    let near = client.create_table("near", of(Some("z1".into())))?;
    let all = client.create_table("all", of(None))?;
    put(&mut client, near, 0..400)?;
    put(&mut client, all, 0..400)?;
    assert_eq!(zones_of(&cluster, &mut client, "near")?, own);
    let outside = |cluster: &Cluster| -> Result<u64, Failure> {
        let streams = cluster.processes()?.into_iter().flat_map(|process| process.streams);
        Ok(streams.map(|stream| stream.outside_segments + stream.unspread_segments).sum())
    };
    assert_eq!(outside(&cluster)?, 0, "all primaries are in their master's zone, and no other replica");

    let before = client.describe_table("all")?.tablets;
    let dead =
        cluster.status()?.servers.iter().find(|s| s.address.0 == cluster.address(members[0])).map(|s| s.id);
    cluster.kill_at_once(&members[..1]);
    read(&mut client, near, 400)?;
    read(&mut client, all, 400)?;
    assert_eq!(zones_of(&cluster, &mut client, "near")?, own);
    let after = client.describe_table("all")?.tablets;
    let servers = cluster.status()?.servers;
    let moved = before.iter().filter(|tablet| Some(tablet.owner) == dead);
    for hash in moved.map(|tablet| tablet.first) {
        let tablet =
            after.iter().find(|t| t.first <= hash && hash <= t.last).expect("tablets cover all hashes");
        let owner = servers.iter().find(|s| s.id == tablet.owner).expect("an owner is in the list");
        assert!(owner.labels.iter().any(|l| own.contains(&l.value)), "{owner:?} is in another zone");
    }

    cluster.kill_at_once(&members[1..]);
    read(&mut client, near, 400)?;
    read(&mut client, all, 400)?;
    let away = client.describe_table("near")?;
    assert_eq!(away.outside, u32::try_from(away.tablets.len()).ok());
    put(&mut client, near, 400..420)?;
    assert!(cluster.status()?.losses.is_empty());
    Ok(())
}
