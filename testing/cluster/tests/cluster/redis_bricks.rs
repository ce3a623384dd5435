//! A quorum table as a Redis database, at a real server beside real bricks.

use crate::redis::Redis;
use ramhold_cluster_tests::{BRICK_MEMORY_MIN, Bricks, Failure, Options};
use rustix::process::Signal;
use std::collections::BTreeSet;

/// One server, whose database 1 is the table `carts`.
fn options() -> Options {
    Options {
        servers: 1,
        coordinator_options: &["--default-replicas", "0"],
        server_options: &["--resp-table", "1=carts"],
        ..Options::default()
    }
}

/// The keys that a walk shows, each as often as it comes.
fn walked(redis: &mut Redis, count: u32) -> Result<Vec<String>, Failure> {
    let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let mut page = redis.texts(&format!("scan {cursor} match cart:* count {count}"))?.into_iter();
        cursor = page.next().unwrap_or_default();
        keys.extend(page);
        if cursor == "0" {
            return Ok(keys);
        }
    }
}

// A6, I1, J1
#[test]
fn walks_over_a_quorum_table_go_on_without_the_coordinator_and_one_brick() -> Result<(), Failure> {
    const KEYS: u32 = 500;
    let _machine = crate::machine();
    let mut bricks = Bricks::start_beside(options(), 3, BRICK_MEMORY_MIN)?;
    bricks.create_table("carts", 3)?;
    let redis = &mut Redis::connect(&bricks.cluster, 1)?;
    assert_eq!(redis.ask("select 1")?, "+OK");
    let all: BTreeSet<String> = (0..KEYS).map(|number| format!("cart:{number}")).collect();
    for key in &all {
        assert_eq!(redis.ask(&format!("set {key} full"))?, "+OK");
    }
    assert_eq!(redis.ask("set other 1")?, "+OK");
    assert_eq!(redis.number("del cart:0 nothing")?, 1);
    assert_eq!(redis.ask("set cart:0 again")?, "+OK");
    assert_eq!(redis.number("dbsize")?, i64::from(KEYS) + 1);

    bricks.signal_coordinator(Signal::STOP);
    bricks.kill(2);
    for count in [10, 64, 10_000] {
        let shown = walked(redis, count)?;
        assert_eq!(shown.len(), all.len(), "nothing changed, so nothing comes twice");
        assert_eq!(shown.into_iter().collect::<BTreeSet<_>>(), all, "{count} at a time");
    }
    assert_eq!(redis.number("dbsize")?, i64::from(KEYS) + 1);
    assert_eq!(redis.texts("keys cart:*")?.into_iter().collect::<BTreeSet<_>>(), all);
    let drawn = redis.bulk("randomkey")?;
    assert!(drawn == "other" || all.contains(&drawn), "{drawn}");

    // Too few are left.
    bricks.signal(&[3], Signal::STOP);
    let said = redis.ask("scan 0")?;
    assert!(said.starts_with("-NOQUORUM "), "{said}");
    assert!([2, 3].iter().all(|brick| said.contains(&bricks.address(*brick).to_string())), "{said}");
    bricks.signal(&[3], Signal::CONT);
    assert_eq!(walked(redis, 100)?.len(), all.len());
    bricks.signal_coordinator(Signal::CONT);
    Ok(())
}

// I1, J1
#[test]
fn a_redis_client_begins_at_a_server_that_was_never_asked_without_the_coordinator() -> Result<(), Failure> {
    let _machine = crate::machine();
    let bricks = Bricks::start_beside(options(), 3, BRICK_MEMORY_MIN)?;
    bricks.create_table("carts", 3)?;
    let redis = &mut Redis::connect(&bricks.cluster, 1)?;
    bricks.signal_coordinator(Signal::STOP);
    assert_eq!(redis.ask("select 1")?, "+OK");
    assert_eq!(redis.ask("set cart:1 full")?, "+OK");
    assert_eq!(redis.bulk("get cart:1")?, "full");
    assert_eq!(walked(redis, 10)?, ["cart:1"]);
    bricks.signal_coordinator(Signal::CONT);
    Ok(())
}

// I1, J1: the other server still knows the table that was emptied, and the coordinator does not tell it of the new one.
#[test]
fn a_server_finds_the_table_that_another_one_has_emptied_without_the_coordinator() -> Result<(), Failure> {
    let _machine = crate::machine();
    let bricks = Bricks::start_beside(Options { servers: 2, ..options() }, 3, BRICK_MEMORY_MIN)?;
    bricks.create_table("carts", 3)?;
    let (one, other) = (&mut Redis::connect(&bricks.cluster, 1)?, &mut Redis::connect(&bricks.cluster, 2)?);
    for redis in [&mut *one, &mut *other] {
        assert_eq!(redis.ask("select 1")?, "+OK");
        assert_eq!(redis.ask("set cart:1 full")?, "+OK");
    }
    assert_eq!(one.ask("flushdb")?, "+OK");
    bricks.signal_coordinator(Signal::STOP);
    assert_eq!(other.ask("get cart:1")?, "$-1");
    assert_eq!(other.ask("set cart:1 new")?, "+OK");
    assert_eq!(one.bulk("get cart:1")?, "new");
    bricks.signal_coordinator(Signal::CONT);
    Ok(())
}
