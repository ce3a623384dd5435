//! Quorum tables on real bricks: killed, stopped, all at once, and without a coordinator.

use ramhold_client::{Client, ClusterStatus, Error, Status, TableId, Version, WriteProtocol};
use ramhold_cluster_tests::{BRICK_MEMORY_MIN, Bricks, Failure, Options, pass};
use rustix::process::Signal;
use std::time::{Duration, Instant, SystemTime};

/// Longer than any operation takes here.
const PATIENCE: Duration = Duration::from_secs(10);
/// The deadline of operations that cannot succeed, and the time by which their ends may be late.
const SHORT: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_millis(500);
/// Keys of which some are in each of two tablets, all but surely.
const KEYS_OF_ALL: [&str; 8] = ["ann", "bob", "cal", "dan", "eve", "fay", "gus", "hal"];
/// The exit codes of `ramhold resume`.
const EXIT_NEVER: i32 = 3;

pub fn read(client: &mut Client, table: TableId, key: &str) -> Result<Option<String>, Error> {
    let object = client.get(table, key.as_bytes())?;
    Ok(object.map(|object| String::from_utf8_lossy(&object.value).into_owned()))
}

/// Writes a value and reads it back.
pub fn write_and_read(client: &mut Client, table: TableId, key: &str, value: &str) -> Result<(), Failure> {
    client.put(table, key.as_bytes(), value.as_bytes())?;
    assert_eq!(read(client, table, key)?.as_deref(), Some(value));
    Ok(())
}

// I1
#[test]
fn keys_of_three_bricks_are_put_read_and_removed() -> Result<(), Failure> {
    let _machine = crate::machine();
    let bricks = Bricks::start(3)?;
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    assert_eq!(read(&mut client, table, "ann")?, None);
    let mut last = Version::default();
    for value in ["1", "2", ""] {
        let version = client.put(table, b"ann", value.as_bytes())?;
        assert!(version > last, "{version} after {last}");
        let object = client.get(table, b"ann")?.expect("it was just written");
        assert_eq!((object.version, object.value), (version, value.as_bytes().to_vec()));
        last = version;
    }
    assert!(client.delete(table, b"ann")?.is_some_and(|version| version > last));
    assert_eq!(read(&mut client, table, "ann")?, None);

    // A second session sees the same, and what is not built is refused without effect.
    write_and_read(&mut client, table, "bob", "here")?;
    let mut other = bricks.cluster.client(PATIENCE)?;
    assert_eq!(read(&mut other, table, "bob")?.as_deref(), Some("here"));
    let refused = other.increment(table, b"bob", 1).expect_err("bricks do not count");
    assert_eq!(refused.status(), Some(Status::Unsupported), "{refused}");
    assert_eq!(read(&mut client, table, "bob")?.as_deref(), Some("here"));
    Ok(())
}

// I1, I6
#[test]
fn nobody_needs_the_coordinator_while_bricks_die_and_come_back() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut bricks = Bricks::start(3)?;
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    write_and_read(&mut client, table, "key", "before")?;
    bricks.signal_coordinator(Signal::STOP);
    write_and_read(&mut client, table, "key", "without the coordinator")?;

    // A session that is given the address of a brick alone.
    let mut new = bricks.client_of(2, PATIENCE)?;
    assert_eq!(new.table("carts")?, table);
    write_and_read(&mut new, table, "other", "of a new session")?;

    bricks.kill(1);
    write_and_read(&mut client, table, "key", "one of three is dead")?;
    bricks.start_brick(1);
    bricks.wait_serving(1)?;
    // Now the first brick's vote is one of the two that are needed.
    bricks.signal(&[2], Signal::STOP);
    write_and_read(&mut client, table, "key", "the first votes again")?;
    assert_eq!(read(&mut client, table, "other")?.as_deref(), Some("of a new session"));
    write_and_read(&mut new, table, "other", "to both")?;
    bricks.signal(&[2], Signal::CONT);
    bricks.signal_coordinator(Signal::CONT);
    bricks.wait_known(3)
}

// I6
#[test]
fn the_kill_of_all_bricks_at_once_loses_nothing() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut bricks = Bricks::start(3)?;
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    // More than a segment, so closed segments and heads come back.
    let (count, padding) = (600, "p".repeat(20_000));
    let value = |number: u32| format!("{number} {padding}");
    for number in 0..count {
        client.put(table, format!("k{number}").as_bytes(), value(number).as_bytes())?;
    }
    for number in (0..count).step_by(7) {
        client.delete(table, format!("k{number}").as_bytes())?;
    }
    bricks.kill_all();
    (1..=3).for_each(|brick| bricks.start_brick(brick));
    (1..=3).try_for_each(|brick| bricks.wait_serving(brick))?;
    for number in 0..count {
        let wanted = (number % 7 != 0).then(|| value(number));
        assert_eq!(read(&mut client, table, &format!("k{number}"))?, wanted, "key {number}");
    }
    Ok(())
}

/// Checks that an operation ended within its deadline, for want of a quorum, and that the silent bricks are named.
fn check_no_quorum(began: Instant, error: &Error, silent: &[String]) {
    assert!(began.elapsed() <= SHORT + LATE, "{:?}", began.elapsed());
    let text = error.to_string();
    for brick in silent {
        assert!(text.contains(brick), "{brick} is not named: {text}");
    }
}

// I1
#[test]
fn with_two_of_three_bricks_stopped_nothing_is_answered_with_an_old_value() -> Result<(), Failure> {
    let _machine = crate::machine();
    let bricks = Bricks::start(3)?;
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    write_and_read(&mut client, table, "key", "old")?;
    let places = bricks.places(&mut client, "carts")?;
    let is_silent = |address| address == bricks.address(2) || address == bricks.address(3);
    let silent: Vec<String> =
        places.iter().filter(|it| is_silent(it.address.0)).map(|it| it.brick.to_string()).collect();
    assert_eq!(silent.len(), 2);
    // Bricks 1 and 3 are a quorum, so brick 1 knows its siblings' clocks by now.
    bricks.signal(&[2], Signal::STOP);
    assert_eq!(read(&mut client, table, "key")?.as_deref(), Some("old"));
    bricks.signal(&[3], Signal::STOP);

    client.set_deadline(SHORT);
    let mut unknown = Vec::new();
    for round in 0..3 {
        let began = Instant::now();
        let error = client.get(table, b"key").expect_err("one of three is no read quorum");
        assert_eq!(error.status(), Some(Status::NoQuorum), "{error}");
        check_no_quorum(began, &error, &silent);
        let began = Instant::now();
        let error = client.put(table, b"key", b"new").expect_err("one of three is no write quorum");
        check_no_quorum(began, &error, &silent);
        match error {
            // The first brick may have it.
            Error::Unknown { token: Some(token), .. } => unknown.push(token),
            Error::Refused { status: Status::NoQuorum, .. } => {}
            other => panic!("round {round}: {other}"),
        }
    }
    // Who asks for a value that may be old gets one, with its time, from the brick that is left.
    let object = client.get_stale(table, b"key")?;
    assert!([&b"old"[..], b"new"].contains(&object.value.as_slice()), "{object:?}");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a date after 1970");
    let written = Duration::from_micros(object.version.raw());
    assert!(now.abs_diff(written) < Duration::from_secs(60), "{written:?}");
    bricks.signal(&[2, 3], Signal::CONT);
    client.set_deadline(PATIENCE);
    let found = read(&mut client, table, "key")?;
    // The session's own get settles its unknown put first.
    assert_eq!(found.as_deref(), Some(if unknown.is_empty() { "old" } else { "new" }));
    write_and_read(&mut client, table, "key", "newest")
}

// I1: the put reaches one brick while the two others are stopped, and its token carries it to its end.
#[test]
fn the_token_of_an_unknown_put_settles_it() -> Result<(), Failure> {
    let _machine = crate::machine();
    let bricks = Bricks::start(3)?;
    // With two phases, a put that cannot learn the stamps is not begun.
    let table = bricks.create_table_written("carts", 3, WriteProtocol::Single)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    write_and_read(&mut client, table, "key", "old")?;
    // As above: brick 1 must be one that answers.
    bricks.signal(&[2], Signal::STOP);
    assert_eq!(read(&mut client, table, "key")?.as_deref(), Some("old"));
    bricks.signal(&[3], Signal::STOP);
    client.set_deadline(SHORT);
    let error = client.put(table, b"key", b"new").expect_err("one of three is no write quorum");
    let Error::Unknown { token: Some(token), .. } = error else { panic!("no token: {error}") };
    bricks.signal(&[2, 3], Signal::CONT);
    client.set_deadline(PATIENCE);

    let output = bricks.run(&["resume", &token.to_string()]);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("the put of 'key' took effect, version "));
    assert_eq!(read(&mut client, table, "key")?.as_deref(), Some("new"));
    // The token is used again after another write: the put took effect before that, and does not come back.
    write_and_read(&mut client, table, "key", "newest")?;
    let output = bricks.run(&["resume", &token.to_string()]);
    assert!(output.status.success() || output.status.code() == Some(EXIT_NEVER), "{output:?}");
    assert_eq!(read(&mut client, table, "key")?.as_deref(), Some("newest"));
    Ok(())
}

// I1, I6: a brick that is stopped for a while answers nothing that is old when it goes on.
#[test]
fn a_brick_that_slept_is_caught_up_by_reads() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut bricks = Bricks::start(3)?;
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    write_and_read(&mut client, table, "key", "old")?;
    bricks.signal(&[3], Signal::STOP);
    write_and_read(&mut client, table, "key", "new")?;
    pass(Duration::from_millis(100))?;
    bricks.signal(&[3], Signal::CONT);
    // Only the first brick has the new value besides the one that slept.
    bricks.kill(2);
    let mut other = bricks.client_of(3, PATIENCE)?;
    assert_eq!(read(&mut other, table, "key")?.as_deref(), Some("new"));
    Ok(())
}

// I6, C32: a brick that is destroyed is replaced by another one under writes, and the new one's vote is needed afterwards.
#[test]
fn a_brick_that_is_lost_is_replaced_without_a_failed_operation() -> Result<(), Failure> {
    const KEYS: u32 = 300;
    let _machine = crate::machine();
    let mut bricks = Bricks::start(4)?;
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    let held = bricks.places(&mut client, "carts")?;
    let number = |address| (1..=4).find(|brick| bricks.address(*brick) == address);
    let members: Vec<usize> = held.iter().filter_map(|place| number(place.address.0)).collect();
    let spare = (1..=4).find(|brick| !members.contains(brick)).expect("one has no tablet");
    let id = |status: &ClusterStatus, brick: usize| {
        let address = bricks.address(brick);
        let report = status.bricks.iter().find(|report| report.address.0 == address);
        report.expect("it is listed").brick.to_string()
    };
    let status = client.cluster_status()?;
    let (old, new, other) = (id(&status, members[0]), id(&status, spare), id(&status, members[1]));
    for key in 0..KEYS {
        client.put(table, format!("{key}").as_bytes(), b"before")?;
    }
    bricks.kill(members[0]);
    std::fs::remove_dir_all(bricks.data_dir(members[0])).expect("its directory");

    let refused = bricks.run(&["brick", "replace", &old, "--by", &other]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("nothing is changed") && said.contains("take another brick"), "{said}");
    let replaced = bricks.run(&["brick", "replace", &old, "--by", &new]);
    assert_eq!(replaced.status.code(), Some(0), "{replaced:?}");
    // A session looks for the present bricks once a second while one of those that it knows refuses.
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < Duration::from_secs(2) {
        for key in 0..KEYS {
            let began = Instant::now();
            client.put(table, format!("{key}").as_bytes(), b"after")?;
            longest = longest.max(began.elapsed());
        }
    }
    // Two of the three are left, the new one among them.
    bricks.signal_coordinator(Signal::STOP);
    bricks.kill(members[1]);
    for key in 0..KEYS {
        assert_eq!(read(&mut client, table, &format!("{key}"))?.as_deref(), Some("after"), "{key}");
    }
    write_and_read(&mut client, table, "key", "of two")?;
    println!("the longest put after the change: {longest:?}");
    bricks.signal_coordinator(Signal::CONT);
    Ok(())
}

/// Runs the program at this address, and expects success. Returns what it printed.
fn run_well(bricks: &Bricks, at: std::net::SocketAddr, words: &[&str]) -> String {
    let output = bricks.run_at(at, words);
    assert!(output.status.success(), "{words:?} at {at}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

// I1, I4: each brick holds one of two tablets, and the server holds none.
#[test]
fn a_program_begins_at_any_brick_or_server_without_the_coordinator() -> Result<(), Failure> {
    let _machine = crate::machine();
    let options =
        Options { servers: 1, coordinator_options: &["--default-replicas", "0"], ..Options::default() };
    let mut bricks = Bricks::start_beside(options, 6, BRICK_MEMORY_MIN)?;
    bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    let tablets = client.describe_table("carts")?.quorum.unwrap_or_default();
    assert_eq!(tablets.len(), 2);
    let holds = |tablet: usize, brick: usize| {
        tablets[tablet].bricks.iter().any(|place| place.address.0 == bricks.address(brick))
    };
    assert!((1..=6).all(|brick| holds(0, brick) != holds(1, brick)), "{tablets:?}");
    let of_second: Vec<usize> = (1..=6).filter(|brick| holds(1, *brick)).collect();
    let first = (1..=6).find(|brick| holds(0, *brick)).expect("three hold it");

    bricks.signal_coordinator(Signal::STOP);
    let server = bricks.cluster.address(1);
    let starts: Vec<_> = (1..=6).map(|brick| bricks.address(brick)).chain([server]).collect();
    for (round, at) in starts.iter().enumerate() {
        let value = format!("value {round}");
        for key in KEYS_OF_ALL {
            run_well(&bricks, *at, &["put", "carts", key, &value]);
        }
        let other = starts[(round + 3) % starts.len()];
        for key in KEYS_OF_ALL {
            assert_eq!(run_well(&bricks, other, &["get", "carts", key]), value);
        }
    }
    let listed = run_well(&bricks, server, &["scan", "carts"]);
    assert!(KEYS_OF_ALL.iter().all(|key| listed.contains(key)), "{listed}");

    // A brick that starts meanwhile has not forgotten the others.
    bricks.kill(first);
    bricks.start_brick(first);
    bricks.wait_serving(first)?;
    for key in KEYS_OF_ALL {
        assert_eq!(run_well(&bricks, bricks.address(first), &["get", "carts", key]), "value 6");
    }

    // Nobody who is left knows the second tablet.
    bricks.signal(&of_second, Signal::STOP);
    let began = Instant::now();
    let output = bricks.run_at(bricks.address(first), &["--timeout", "2s", "get", "carts", "ann"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && began.elapsed() < PATIENCE, "{output:?}");
    assert!(said.contains("1 tablet with 50 % of the hashes found"), "{said}");
    assert!(of_second.iter().any(|brick| said.contains(&bricks.address(*brick).to_string())), "{said}");
    bricks.signal(&of_second, Signal::CONT);
    bricks.signal_coordinator(Signal::CONT);
    Ok(())
}
