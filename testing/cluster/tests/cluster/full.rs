//! A server full of live data. It refuses writes and nothing else, and accepts writes again as soon as an
//! object is removed.

use ramhold_client::{Client, Durability, Error, TableId, TableOptions};
use ramhold_cluster_tests::{Cluster, Failure, Options, wait_for};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const OBJECT_BYTES: usize = 100_000;
/// More objects than the memory of one server can hold.
const OBJECT_COUNT_MAX: u64 = 10_000;
/// Writes after half was removed: too many for the memory that the removes freed at once.
const AFTERWARDS: u64 = 500;

fn value(number: u64) -> Vec<u8> {
    (0..OBJECT_BYTES as u64).map(|at| (at * 31 + number * 17) as u8).collect()
}

fn put(client: &mut Client, table: TableId, number: u64) -> Result<(), Error> {
    client.put(table, &number.to_le_bytes(), &value(number)).map(|_| ())
}

// C4: with full memory, writes are refused cleanly, and reads and removes work; C6: deleting half makes
// writes work again.
#[test]
fn a_full_server_refuses_writes_until_something_is_removed() -> Result<(), Failure> {
    let _machine = crate::machine();
    let cluster = Cluster::start(Options { servers: 2, ..Options::default() })?;
    let mut client = cluster.client(PATIENCE)?;
    let table = client.create_table(
        "data",
        TableOptions {
            durability: Durability::Buffered,
            replicas: 1,
            tablets: 1,
            slots: false,
            zone: None,
            quorum: None,
        },
    )?;

    client.set_deadline(Duration::from_secs(3));
    let mut count = 0;
    let refusal = loop {
        assert!(count < OBJECT_COUNT_MAX, "the memory never got full");
        match put(&mut client, table, count) {
            Ok(()) => count += 1,
            Err(refusal) => break refusal,
        }
    };
    assert!(matches!(refusal, Error::Refused { .. }), "not a refusal: {refusal}");
    assert!(refusal.to_string().contains("memory is full"), "it does not say why: {refusal}");
    let status = cluster.processes()?;
    assert!(
        status.iter().any(|s| s.cleaning.as_ref().is_some_and(|cleaning| cleaning.is_full)),
        "no status says that the memory is full"
    );

    client.set_deadline(PATIENCE);
    for number in 0..count {
        let found = client.get(table, &number.to_le_bytes())?;
        assert!(found.is_some_and(|object| object.value == value(number)), "object {number} of {count}");
    }
    let began = Instant::now();
    for number in (0..count).step_by(2) {
        assert!(client.delete(table, &number.to_le_bytes())?.is_some(), "object {number} of {count}");
    }
    let removed = Instant::now();
    let mut tries = 0;
    client.set_deadline(Duration::from_millis(100));
    wait_for("a write that is not refused", PATIENCE, || {
        tries += 1;
        Ok(put(&mut client, table, count).map_err(|error| error.to_string()))
    })?;
    println!(
        "{count} objects fitted; {:.2} s to remove half; the first write {:.3} s later, after {tries} tries",
        (removed - began).as_secs_f64(),
        removed.elapsed().as_secs_f64()
    );
    client.set_deadline(PATIENCE);
    for number in count..count + AFTERWARDS {
        put(&mut client, table, number)?;
    }
    println!("{AFTERWARDS} writes {:.3} s later", removed.elapsed().as_secs_f64());
    for number in 0..count + AFTERWARDS {
        let found = client.get(table, &number.to_le_bytes())?.map(|object| object.value);
        let expected = (number >= count || number % 2 == 1).then(|| value(number));
        assert!(found == expected, "object {number} of {count}");
    }
    Ok(())
}
