//! Directories of bricks that are lost, copied, or taken for those of servers.

use crate::bricks::{read, write_and_read};
use ramhold_client::{Client, Error, Status, TableId};
use ramhold_cluster_tests::{BRICK_MEMORY_MIN, Bricks, Failure, Options, Process, free_ports, wait_for};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(30);
const EXIT_USAGE: i32 = 2;
const EXIT_REFUSED: i32 = 3;
const EXIT_BRICK_FAILED: i32 = 7;

/// The arguments with other values for these options.
fn with(mut arguments: Vec<OsString>, values: &[(&str, OsString)]) -> Vec<OsString> {
    for (option, value) in values {
        let at = arguments.iter().position(|argument| argument == option).expect("the option is given");
        arguments[at + 1].clone_from(value);
    }
    arguments
}

/// The files of a directory, with their bytes.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries =
        std::fs::read_dir(dir).expect("the directory is there").map(|entry| entry.expect("an entry"));
    entries.map(|it| (it.path(), std::fs::read(it.path()).expect("a file that can be read"))).collect()
}

// I6: the brick comes up as a new one, with an id of its own and without tablets.
#[test]
fn a_brick_whose_directory_is_lost_does_not_vote_under_its_old_id() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut bricks = Bricks::start(3)?;
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    write_and_read(&mut client, table, "key", "of three")?;
    let before: Vec<_> = bricks.cluster.status()?.bricks.iter().map(|it| it.brick).collect();
    bricks.kill(3);
    write_and_read(&mut client, table, "key", "of two")?;
    for dir in [bricks.data_dir(3), bricks.buffer_dir(3)] {
        std::fs::remove_dir_all(dir).expect("the directory can be removed");
    }
    bricks.start_brick(3);
    bricks.wait_serving(3)?;
    let new = wait_for("the new brick", SOON, || {
        let known = bricks.cluster.status()?.bricks;
        let new = known.iter().find(|it| !before.contains(&it.brick)).cloned();
        Ok(new.ok_or_else(|| format!("{known:?}")))
    })?;
    assert_eq!((new.address.0, new.tablets), (bricks.address(3), 0));
    write_and_read(&mut client, table, "key", "of two again")?;

    // If it voted, it would be the second of three here.
    bricks.signal(&[2], Signal::STOP);
    client.set_deadline(SHORT);
    let error = client.get(table, b"key").expect_err("a brick without tablets does not vote");
    assert_eq!(error.status(), Some(Status::NoQuorum), "{error}");
    bricks.signal(&[2], Signal::CONT);
    client.set_deadline(PATIENCE);
    assert_eq!(read(&mut client, table, "key")?.as_deref(), Some("of two again"));
    Ok(())
}

// I6
#[test]
fn directories_of_bricks_and_servers_are_not_mixed_up() -> Result<(), Failure> {
    let _machine = crate::machine();
    let options = Options { servers: 1, memory_bytes: BRICK_MEMORY_MIN, ..Options::default() };
    let mut bricks = Bricks::start_beside(options, 1, BRICK_MEMORY_MIN)?;
    let table = bricks.create_table("carts", 1)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    write_and_read(&mut client, table, "key", "value")?;
    let log = |bricks: &Bricks, name: &str| bricks.cluster.scratch.dir().join("logs").join(name);

    bricks.kill(1);
    let before = contents(&bricks.data_dir(1));
    let mut arguments = bricks.arguments(1);
    arguments.retain(|argument| argument != "--brick");
    // A server takes no options of bricks.
    let threshold = arguments.iter().position(|argument| argument == "--restart-threshold");
    threshold.into_iter().for_each(|at| _ = arguments.drain(at..at + 2));
    let process = Process::start("brick-as-server", &arguments, &log(&bricks, "brick-as-server.log"));
    let status = process.wait_ended(SOON)?;
    let printed = process.printed();
    assert_eq!(status.code(), Some(EXIT_USAGE), "{printed}");
    assert!(printed.contains("is the directory of a brick; start it with --brick, or give another --dir"));
    assert!(before == contents(&bricks.data_dir(1)), "the directory has changed");
    bricks.start_brick(1);
    bricks.wait_serving(1)?;
    assert_eq!(read(&mut client, table, "key")?.as_deref(), Some("value"));

    bricks.cluster.kill(1);
    let dir = bricks.cluster.data_dir(1);
    let before = contents(&dir);
    let buffer_dir = bricks.cluster.buffer_dir(1);
    let own = with(
        bricks.arguments(1),
        &[
            ("--dir", dir.clone().into()),
            ("--buffer-dir", buffer_dir.into()),
            ("--bind", bricks.cluster.address(1).to_string().into()),
        ],
    );
    let process = Process::start("server-as-brick", &own, &log(&bricks, "server-as-brick.log"));
    let status = process.wait_ended(SOON)?;
    let printed = process.printed();
    assert_eq!(status.code(), Some(EXIT_BRICK_FAILED), "{printed}");
    assert!(
        printed.contains("which is no brick; start it without --brick, or give another --dir"),
        "{printed}"
    );
    assert!(before == contents(&dir), "the directory has changed");
    bricks.cluster.start_member(1);
    bricks.cluster.wait_up(1)
}

fn copy_directory(bricks: &Bricks, brick: usize, name: &str) {
    let copied = bricks.cluster.scratch.dir().join(name);
    let status = Command::new("cp").arg("-a").args([bricks.data_dir(brick), copied]).status();
    assert!(status.expect("cp can be started").success());
}

/// Starts a brick on a copied directory, at another port.
fn start_copy(bricks: &Bricks, brick: usize, name: &str) -> Process {
    let copied = bricks.cluster.scratch.dir().join(name);
    let arguments = with(
        bricks.arguments(brick),
        &[
            ("--dir", copied.into()),
            ("--buffer-dir", bricks.cluster.scratch.buffer_dir().join(name).into()),
            ("--bind", format!("127.0.0.1:{}", free_ports(1)[0]).into()),
        ],
    );
    Process::start(name, &arguments, &bricks.cluster.scratch.dir().join("logs").join(format!("{name}.log")))
}

/// Checks that a copy of the third brick has got no vote, and that the original goes on.
fn check_no_vote(bricks: &Bricks, copy: &Process) {
    assert!(copy.printed().contains("no vote until it is rebuilt"), "{}", copy.printed());
    let is_rebuilt = |line: &str| line.contains(" INFO ") && line.ends_with("is rebuilt");
    assert!(!copy.printed().lines().any(is_rebuilt), "{}", copy.printed());
    assert!(bricks.process(3).ended().is_none(), "{}", bricks.printed(3));
}

/// Three bricks that all hold a table.
fn start_with_table() -> Result<(Bricks, Client, TableId), Failure> {
    let bricks = Bricks::start(3)?;
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    write_and_read(&mut client, table, "key", "before the copy")?;
    // A table is created when two of three bricks hold it.
    wait_for("the third brick has the table, too", SOON, || {
        let printed = bricks.printed(3);
        Ok(if printed.contains("table carts is held here") { Ok(()) } else { Err(printed) })
    })?;
    Ok((bricks, client, table))
}

// I6: the copy is of the life that runs, so it begins a later one than the original's.
#[test]
fn a_copy_of_a_brick_that_runs_does_not_take_its_place() -> Result<(), Failure> {
    let _machine = crate::machine();
    let (bricks, mut client, table) = start_with_table()?;
    copy_directory(&bricks, 3, "copy");
    let copy = start_copy(&bricks, 3, "copy");
    let status = copy.wait_ended(SOON)?;
    assert_eq!(status.code(), Some(EXIT_BRICK_FAILED), "{}", copy.printed());
    check_no_vote(&bricks, &copy);
    let way_out = "keep the original, and start a new brick on an empty directory";
    assert!(copy.printed().contains(way_out), "{}", copy.printed());
    // The original's vote is needed here.
    bricks.signal(&[2], Signal::STOP);
    write_and_read(&mut client, table, "key", "with the original")?;
    bricks.signal(&[2], Signal::CONT);
    bricks.wait_known(3)?;
    let places = bricks.places(&mut client, "carts")?;
    assert!(places.iter().any(|place| place.address.0 == bricks.address(3)), "{places:?}");
    Ok(())
}

// I6: a brick without tablets has no siblings that could tell it.
#[test]
fn a_copy_of_a_brick_without_tablets_ends_too() -> Result<(), Failure> {
    let _machine = crate::machine();
    let bricks = Bricks::start(1)?;
    copy_directory(&bricks, 1, "copy");
    let copy = start_copy(&bricks, 1, "copy");
    let status = copy.wait_ended(SOON)?;
    assert_eq!(status.code(), Some(EXIT_BRICK_FAILED), "{}", copy.printed());
    let told = format!("another process of this brick runs at {}", bricks.address(1));
    assert!(copy.printed().contains(&told), "{}", copy.printed());
    assert!(bricks.process(1).ended().is_none(), "{}", bricks.printed(1));
    bricks.wait_known(1)
}

// I6: both have the same number of a life, and the siblings hear the original first.
#[test]
fn a_copy_of_a_bricks_directory_never_votes_beside_the_original() -> Result<(), Failure> {
    let _machine = crate::machine();
    let (mut bricks, mut client, table) = start_with_table()?;
    bricks.kill(3);
    copy_directory(&bricks, 3, "copy");
    bricks.start_brick(3);
    bricks.wait_serving(3)?;
    write_and_read(&mut client, table, "key", "after the copy")?;
    let copy = start_copy(&bricks, 3, "copy");
    let status = copy.wait_ended(SOON)?;
    assert_eq!(status.code(), Some(EXIT_BRICK_FAILED), "{}", copy.printed());
    check_no_vote(&bricks, &copy);
    write_and_read(&mut client, table, "key", "with the original")
}

// I1
#[test]
fn a_table_that_is_dropped_is_dropped_by_a_brick_that_was_away() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut bricks = Bricks::start(3)?;
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    write_and_read(&mut client, table, "key", "value")?;
    bricks.kill(3);
    let output = bricks.run(&["table", "drop", "carts"]);
    assert!(output.status.success(), "{output:?}");
    bricks.start_brick(3);
    bricks.wait_serving(3)?;
    for brick in 1..=3 {
        wait_for("no brick has the table any more", SOON, || {
            let held = client.server_status(bricks.address(brick))?.tablets;
            Ok(if held == 0 { Ok(()) } else { Err(format!("brick {brick} has {held} tablets")) })
        })?;
    }
    let mut new = bricks.cluster.client(PATIENCE)?;
    let error: Error = new.get(table, b"key").expect_err("the table is gone");
    assert_eq!(error.status(), Some(Status::UnknownTable), "{error}");
    Ok(())
}

/// The error of a command that must be refused.
fn refused(bricks: &Bricks, words: &[&str], code: i32) -> String {
    let output = bricks.run(words);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
    text
}

// I1
#[test]
fn a_quorum_table_that_cannot_be_is_refused_with_the_reason() -> Result<(), Failure> {
    let _machine = crate::machine();
    let bricks = Bricks::start(3)?;
    let create = |more: &[&'static str]| [&["table", "create", "carts", "--timeout", "5s"], more].concat();
    let text = refused(&bricks, &create(&["--quorum", "3", "--read-quorum", "1"]), EXIT_USAGE);
    assert!(text.contains("need not meet, so a read could miss a write"), "{text}");
    let numbers = ["--quorum", "4", "--write-quorum", "2", "--read-quorum", "3"];
    let text = refused(&bricks, &create(&numbers), EXIT_USAGE);
    assert!(text.contains("two writes to 2 of 4 bricks need not meet"), "{text}");
    let text = refused(&bricks, &create(&["--quorum", "3", "--write-quorum", "4"]), EXIT_USAGE);
    assert!(text.contains("a quorum of 4 is more than the 3 bricks of a key"), "{text}");
    let text = refused(&bricks, &create(&["--quorum", "3", "--durability", "none"]), EXIT_USAGE);
    assert!(text.contains("a quorum table is buffered or synced"), "{text}");
    let text = refused(&bricks, &create(&["--quorum", "5"]), EXIT_REFUSED);
    assert!(text.contains("start bricks on 2 more hosts, wait with --wait, or give --quorum 3"), "{text}");
    assert_eq!(String::from_utf8_lossy(&bricks.run(&["table", "list"]).stdout), "no tables\n");

    let output = bricks.run(&create(&["--quorum", "3"]));
    assert!(output.status.success(), "{output:?}");
    let before = bricks.run(&["table", "describe", "carts"]).stdout;
    let changes = [
        &["table", "alter", "carts", "--replicas", "2"][..],
        &["table", "split", "carts"],
        &["table", "merge", "carts"],
    ];
    for words in changes {
        let text = refused(&bricks, words, EXIT_REFUSED);
        assert!(text.contains("table 'carts': bricks hold it"), "{words:?}: {text}");
    }
    assert_eq!(bricks.run(&["table", "describe", "carts"]).stdout, before);
    Ok(())
}
