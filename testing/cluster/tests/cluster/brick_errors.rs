//! Errors of commands on quorum tables: what they say, how soon, and with which exit code.

use ramhold_cluster_tests::{BRICK_MEMORY_MIN, Bricks, Failure, Options, wait_for};
use std::process::Output;
use std::time::{Duration, Instant};

const NOT_FOUND: i32 = 1;
const USAGE: i32 = 2;
const REFUSED: i32 = 3;
const UNKNOWN: i32 = 4;
const UNREACHABLE: i32 = 5;
const SOON: Duration = Duration::from_secs(30);
/// A command that waited for its deadline would take 10 s.
const AT_ONCE: Duration = Duration::from_secs(5);
/// Fewer of these bytes fill a brick of the least memory.
const VALUE_BYTES: &str = "6000";
const FILL_OBJECTS: &str = "40000";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The error of a command that must end with this code.
fn error(output: &Output, code: i32) -> String {
    let text = said(output);
    assert_eq!(output.status.code(), Some(code), "{text}{}", String::from_utf8_lossy(&output.stdout));
    text
}

// J5
#[test]
fn a_command_says_at_once_what_is_wrong_and_what_to_do() -> Result<(), Failure> {
    let _machine = crate::machine();
    let bricks = Bricks::start(3)?;
    bricks.create_table("carts", 3)?;
    // A brick where the coordinator should be.
    for words in [&["status"][..], &["table", "list"], &["table", "create", "x"], &["brick", "restart", "s2"]]
    {
        let begun = Instant::now();
        let text = error(&bricks.run_at(bricks.address(1), words), UNREACHABLE);
        assert!(begun.elapsed() < AT_ONCE, "{words:?}: {:?}", begun.elapsed());
        assert!(text.contains("is a brick or a server") && text.contains("--cluster"), "{words:?}: {text}");
    }
    // A table that no brick holds: it is an ordinary one, or none at all.
    for words in [&["get", "notes", "a"][..], &["put", "notes", "a", "1"]] {
        let begun = Instant::now();
        let text = error(&bricks.run_at(bricks.address(1), words), UNREACHABLE);
        assert!(begun.elapsed() < AT_ONCE, "{words:?}: {:?}", begun.elapsed());
        assert!(text.contains("only the coordinator knows tables that bricks do not hold"), "{text}");
        assert!(text.contains("name the coordinator with --cluster"), "{text}");
    }
    assert!(bricks.run_at(bricks.address(1), &["put", "carts", "a", "1"]).status.success());
    // Names of bricks.
    let text = error(&bricks.run(&["brick", "replace", "s2", "--by", "s2"]), USAGE);
    assert!(text.contains("cannot take its own place"), "{text}");
    let text = error(&bricks.run(&["events", "--brick", "s99"]), NOT_FOUND);
    assert!(text.contains("there is no brick s99"), "{text}");
    // Quorum tables do not do these.
    let text = error(&bricks.run(&["put", "carts", "a", "2", "--if-absent"]), REFUSED);
    assert!(text.contains("use an ordinary table") && !text.contains("not built yet"), "{text}");
    let text = error(&bricks.run(&["table", "create", "carts", "--quorum", "1", "--if-absent"]), REFUSED);
    assert!(text.contains("choose another name") && !text.contains("alter"), "{text}");
    let words = ["table", "create", "five", "--quorum", "5", "--wait", "--timeout", "1s"];
    let text = error(&bricks.run(&words), REFUSED);
    assert!(!text.contains("--wait") && text.contains("--timeout"), "{text}");
    // For programs.
    let text = error(&bricks.run(&["put", "carts", "a", "2", "--if-absent", "--json"]), REFUSED);
    assert!(text.starts_with("{\"error\":\"'a': "), "{text}");
    let text = error(&bricks.run(&["resume", "abc"]), USAGE);
    assert!(text.contains("not a token"), "{text}");
    let text = error(&bricks.run(&["import", "carts"]), USAGE);
    assert!(text.contains("--dir") && text.contains("--jsonl"), "{text}");
    Ok(())
}

// I5, C6
#[test]
fn bricks_without_memory_say_so_and_objects_can_be_read_and_removed() -> Result<(), Failure> {
    let _machine = crate::machine();
    let options = Options { servers: 1, memory_bytes: BRICK_MEMORY_MIN, ..Options::default() };
    let bricks = Bricks::start_beside(options, 3, BRICK_MEMORY_MIN)?;
    bricks.create_table("full", 3)?;
    let words = ["bench", "kv", "--table", "full", "--quorum", "3", "--objects", FILL_OBJECTS];
    let words = [&words[..], &["--value-bytes", VALUE_BYTES, "--seconds", "1", "--timeout", "3s"]].concat();
    let output = bricks.run(&words);
    let text = said(&output);
    // The first brick that is full makes no write fail. With the second one a third may have stored it.
    assert!(matches!(output.status.code(), Some(REFUSED | UNKNOWN)), "{text}");
    assert!(text.contains("filling 'full'") && text.contains("memory is full"), "{text}");
    // A put that nobody has stored is refused, not unknown: as soon as all are full.
    let value = "x".repeat(100_000);
    wait_for("all bricks are full", SOON, || {
        let output = bricks.run(&["put", "full", "more", &value, "--timeout", "1s"]);
        let text = said(&output);
        assert!(text.len() < 1000, "{} bytes", text.len());
        Ok(if output.status.code() == Some(REFUSED) { Ok(()) } else { Err(text) })
    })?;
    let output = bricks.run(&["put", "full", "more", &value, "--timeout", "1s"]);
    let text = error(&output, REFUSED);
    assert!(text.contains("memory is full") && text.contains("remove something"), "{text}");
    let shown = bricks.run(&["bricks"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("critical") && shown.contains("is full"), "{shown}");
    // Reads and removals go on, also those of keys that too few bricks had room for.
    let keys = bricks.run(&["scan", "full", "--keys"]);
    assert!(keys.status.success(), "{}", said(&keys));
    let keys = String::from_utf8_lossy(&keys.stdout).into_owned();
    let keys: Vec<&str> = keys.lines().collect();
    println!("{} keys", keys.len());
    assert!(keys.len() > 1000, "{}", keys.len());
    for key in keys.iter().take(400) {
        let output = bricks.run(&["del", "full", key]);
        assert!(output.status.success(), "{key}: {}", said(&output));
    }
    wait_for("there is room again", SOON, || {
        let output = bricks.run(&["put", "full", "more", &value, "--timeout", "1s"]);
        Ok(if output.status.success() { Ok(()) } else { Err(said(&output)) })
    })
}
