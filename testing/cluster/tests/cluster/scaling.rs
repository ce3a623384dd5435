//! Bricks that are added to a quorum table and removed from it, on real processes and under load.

use crate::bricks::read;
use ramhold_client::{BrickReport, Client, ServerId, TableId};
use ramhold_cluster_tests::{BRICK_MEMORY_MIN, Bricks, Failure, pass, wait_for};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
const WITHIN: Duration = Duration::from_secs(120);
const KEYS: usize = 4000;
/// An operation that takes longer than this met something that it should not have met.
const LONGEST: Duration = Duration::from_secs(2);
/// The exit codes of orders.
const NOT_FOUND: i32 = 1;
const REFUSED: i32 = 3;

fn key(number: usize) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

fn value(number: usize, round: u64) -> Vec<u8> {
    format!("{number} in round {round} {}", "p".repeat(900)).into_bytes()
}

pub fn id_of(bricks: &Bricks, brick: usize) -> Result<ServerId, Failure> {
    let known = bricks.cluster.status()?.bricks;
    let found = known.iter().find(|it| it.address.0 == bricks.address(brick)).map(|it| it.brick);
    found.ok_or_else(|| Failure(format!("brick {brick} is not known")))
}

pub fn report(client: &mut Client, id: ServerId) -> Result<BrickReport, Failure> {
    let bricks = client.cluster_status()?.bricks;
    bricks.into_iter().find(|report| report.brick == id).ok_or_else(|| Failure(format!("{id} is not there")))
}

pub fn tablets(client: &mut Client) -> Result<Vec<Vec<ServerId>>, Failure> {
    let tablets = client.describe_table("carts")?.quorum.unwrap_or_default();
    Ok(tablets.iter().map(|tablet| tablet.bricks.iter().map(|place| place.brick).collect()).collect())
}

fn wait_done(client: &mut Client, id: ServerId) -> Result<BrickReport, Failure> {
    wait_for("the order is carried out", WITHIN, || {
        let report = report(client, id)?;
        Ok(if report.scaling.is_none() { Ok(report) } else { Err(format!("{report:?}")) })
    })
}

/// Puts and reads keys of its own in turn until it is told to stop. The values, and the longest operation.
fn work(
    mut client: Client,
    table: TableId,
    (first, step): (usize, usize),
    stops: &AtomicBool,
) -> Result<(BTreeMap<usize, u64>, Duration), Failure> {
    let (mut rounds, mut longest) = (BTreeMap::new(), Duration::ZERO);
    for round in 1.. {
        for number in (first..KEYS).step_by(step) {
            if stops.load(Ordering::Relaxed) {
                return Ok((rounds, longest));
            }
            let began = Instant::now();
            client.put(table, &key(number), &value(number, round))?;
            longest = longest.max(began.elapsed());
            rounds.insert(number, round);
            let other = (number * 7 + first) % KEYS / step * step + first;
            if let Some(round) = rounds.get(&other) {
                let began = Instant::now();
                let found = client.get(table, &key(other))?.map(|object| object.value);
                longest = longest.max(began.elapsed());
                assert_eq!(found, Some(value(other, *round)), "key {other}");
            }
        }
    }
    Ok((rounds, longest))
}

// I7: three bricks more and three fewer under load; the coordinator is stopped in the middle of a move.
#[test]
fn bricks_are_added_and_removed_under_load() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut bricks = Bricks::start_first(3, 6, BRICK_MEMORY_MIN)?;
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    for number in 0..KEYS {
        client.put(table, &key(number), &value(number, 0))?;
    }
    (4..=6).for_each(|brick| bricks.start_brick(brick));
    (4..=6).try_for_each(|brick| bricks.wait_serving(brick))?;
    bricks.wait_known(6)?;
    let free = String::from_utf8_lossy(&bricks.run(&["brick", "add"]).stdout).into_owned();
    for brick in 4..=6 {
        assert!(free.contains(&id_of(&bricks, brick)?.to_string()), "{free}");
    }
    let stops = AtomicBool::new(false);
    let clients = (0..3).map(|_| bricks.cluster.client(PATIENCE)).collect::<Result<Vec<_>, _>>()?;
    let (bricks, stops) = (&bricks, &stops);
    std::thread::scope(|scope| -> Result<(), Failure> {
        let threads: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(number, client)| scope.spawn(move || work(client, table, (number, 3), stops)))
            .collect();
        // The clients end, whatever happens.
        let end = catch_unwind(AssertUnwindSafe(|| orders(bricks, &mut client)));
        stops.store(true, Ordering::Relaxed);
        let end = end.unwrap_or_else(|panic| resume_unwind(panic));
        let mut longest_of_all = Duration::ZERO;
        let mut known = BTreeMap::new();
        for thread in threads {
            let (rounds, longest) =
                thread.join().unwrap_or_else(|_| Err(Failure("a client has panicked".into())))?;
            longest_of_all = longest_of_all.max(longest);
            known.extend(rounds);
        }
        end?;
        println!("longest operation {longest_of_all:?}, {} keys written on", known.len());
        assert!(longest_of_all < LONGEST, "{longest_of_all:?}");
        for number in 0..KEYS {
            let found = client.get(table, &key(number))?.map(|object| object.value);
            assert_eq!(found, Some(value(number, known.get(&number).copied().unwrap_or(0))), "key {number}");
        }
        Ok(())
    })
}

fn orders(bricks: &Bricks, client: &mut Client) -> Result<(), Failure> {
    let ids = (1..=6).map(|brick| id_of(bricks, brick)).collect::<Result<Vec<_>, _>>()?;
    for brick in 4..=6 {
        let id = ids[brick - 1].to_string();
        let output = bricks.run(&["brick", "add", &id]);
        assert!(output.status.success(), "{output:?}");
        let again = bricks.run(&["brick", "add", &id]);
        assert_eq!(again.status.code(), Some(REFUSED), "{again:?}");
        if brick == 5 {
            pass(Duration::from_millis(400))?;
            bricks.signal_coordinator(Signal::STOP);
            pass(Duration::from_secs(1))?;
            bricks.signal_coordinator(Signal::CONT);
        }
        let report = wait_done(client, ids[brick - 1])?;
        assert!(report.tablets > 0, "{report:?}");
    }
    let mut held = tablets(client)?;
    held.sort();
    // Ids are given out in the order in which bricks were heard.
    let sorted =
        |ids: &[ServerId]| ids.iter().copied().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
    assert_eq!(held, [sorted(&ids[..3]), sorted(&ids[3..])], "two tablets of three bricks");
    let moved: Vec<(u64, u64)> = (4..=6)
        .map(|brick| {
            let status = client.server_status(bricks.address(brick))?.brick;
            let status = status.ok_or_else(|| Failure(format!("{brick} is no brick")))?;
            Ok((status.rebuild_read, status.rebuild_stored))
        })
        .collect::<Result<_, Failure>>()?;
    println!("bytes read and stored by the new bricks: {moved:?}");
    for brick in [4, 5] {
        let output = bricks.run(&["brick", "remove", &ids[brick - 1].to_string(), "--wait"]);
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("may be stopped"), "{output:?}");
    }
    let output = bricks.run(&["brick", "remove", &ids[5].to_string()]);
    assert!(output.status.success(), "{output:?}");
    pass(Duration::from_millis(300))?;
    bricks.signal_coordinator(Signal::STOP);
    pass(Duration::from_secs(1))?;
    bricks.signal_coordinator(Signal::CONT);
    wait_done(client, ids[5])?;
    assert_eq!(tablets(client)?, [sorted(&ids[..3])], "one tablet again");
    Ok(())
}

// I7: what cannot be done is refused, with the way out, and nothing changes.
#[test]
fn orders_are_refused_with_the_way_out() -> Result<(), Failure> {
    let _machine = crate::machine();
    let bricks = Bricks::start(3)?;
    let refused = |words: &[&str], exit: i32, hint: &str| {
        let output = bricks.run(words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(exit), "{words:?}: {text}");
        assert!(text.contains(hint), "{words:?}: {text}");
    };
    let ids =
        (1..=3).map(|brick| Ok(id_of(&bricks, brick)?.to_string())).collect::<Result<Vec<_>, Failure>>()?;
    refused(&["brick", "add", &ids[0]], REFUSED, "table create");
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    client.put(table, b"key", b"value")?;
    let before = client.describe_table("carts")?;
    refused(&["brick", "remove", &ids[1]], REFUSED, "start another brick first");
    refused(&["brick", "remove", "s99"], NOT_FOUND, "ramhold status");
    refused(&["brick", "add", "s99"], NOT_FOUND, "ramhold status");
    refused(&["brick", "add", &ids[0], "--cancel"], REFUSED, "neither");
    refused(&["table", "split", "carts"], REFUSED, "ramhold brick add");
    assert_eq!(client.describe_table("carts")?, before);
    assert_eq!(read(&mut client, table, "key")?.as_deref(), Some("value"));
    Ok(())
}
