//! Output for people: on a terminal of its own, and on a pipe whose reader has gone.

use crate::binary::Directory;
use crate::played::{Mischief, Played};
use std::process::{Command, Output, Stdio};

/// The text that a shell prints for this line, with the program as `$R`.
fn shell(played: &Played, line: &str) -> Output {
    let mut command = Command::new("bash");
    command.args(["-o", "pipefail", "-c", line]).env("R", env!("CARGO_BIN_EXE_ramhold"));
    command.env("RAMHOLD_CLUSTER", played.address.to_string()).stdin(Stdio::null()).output().unwrap()
}

/// The same on a terminal; none where there is no `script` to make one.
fn on_terminal(played: &Played, line: &str) -> Option<String> {
    let script = Command::new("script").arg("--version").stdout(Stdio::null()).status();
    if !script.is_ok_and(|status| status.success()) {
        println!("skipped: there is no 'script', which makes a terminal");
        return None;
    }
    let output = shell(played, &format!("TERM=xterm script -qec '{line}' /dev/null"));
    Some(String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n"))
}

fn with_objects() -> Played {
    let played = Played::start(Mischief::default());
    played.ramhold(&["table", "create", "notes"]).ok();
    played.ramhold(&["put", "notes", "hello", "world"]).ok();
    played.ramhold_with(&b"long line\n".repeat(100), &["put", "notes", "a/long/key", "-"]).ok();
    played
}

// A6
#[test]
fn a_terminal_shows_one_line_for_each_object() {
    let played = with_objects();
    let Some(text) = on_terminal(&played, "$R scan notes") else { return };
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("hello             5 B  world\n"), "{text}");
    assert!(text.contains("a/long/key     1000 B  long line\\nlong line\\n"), "{text}");
    let raw = played.ramhold(&["scan", "notes"]).ok().text();
    assert!(raw.contains("hello\tworld\n") && raw.len() > 1000, "whole elsewhere: {raw}");
}

// A3
#[test]
fn a_value_ends_its_line_on_a_terminal_only() {
    let played = with_objects();
    let Some(text) = on_terminal(&played, "$R get notes hello; $R get notes a/long/key | tail -c 5") else {
        return;
    };
    assert_eq!(text, "world\nline\n");
    assert_eq!(played.ramhold(&["get", "notes", "hello"]).ok().stdout, b"world");
}

// J5
#[test]
fn the_verdict_has_a_colour_on_a_terminal_only() {
    let played = with_objects();
    let Some(text) = on_terminal(&played, "$R status") else { return };
    assert!(text.starts_with("\x1b[1;31mcritical\x1b[0m: "), "{text}");
    let plain = on_terminal(&played, "NO_COLOR=1 $R status").unwrap();
    assert!(plain.starts_with("critical: "), "{plain}");
}

// A6
#[test]
fn prefixes_are_bytes() {
    let played = with_objects();
    played
        .ramhold_with(
            b"{\"key_base64\": \"AP9hYg==\", \"value\": \"binary\"}\n",
            &["import", "notes", "--jsonl", "-"],
        )
        .ok();
    let with = |arguments: &[&str]| played.ramhold(&[&["scan", "notes", "--json"], arguments].concat());
    assert!(with(&["--prefix-base64", "AP8="]).ok().text().contains("\"value\":\"binary\""));
    assert_eq!(with(&["--prefix-base64", "/w=="]).ok().text().lines().count(), 1, "the cursor alone");
    assert_eq!(with(&["--prefix-base64", "no base64"]).code, 2);
    let typed = shell(&played, "$R scan notes --prefix $'\\xff'");
    assert!(typed.status.success() && typed.stdout.is_empty(), "{typed:?}");
}

// The reader of a command's output may disappear at any time.
#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let (played, directory) = (with_objects(), Directory::new());
    for name in 0..200 {
        directory.write(format!("file {name}"), b"not imported");
    }
    let dir = directory.text();
    // Each command line, and the exit codes that it may have.
    let commands = [
        (format!("$R verify notes --dir {dir} 2>&1"), &[1][..]),
        (format!("$R import notes --dir {dir} --list-skipped 2>&1"), &[0]),
        (format!("$R verify notes --dir {dir} --exact 2>&1"), &[1]),
        ("$R scan notes".to_owned(), &[0]),
        ("$R export notes 2>&1".to_owned(), &[0]),
        ("$R status".to_owned(), &[0]),
        ("$R recoveries".to_owned(), &[0]),
        ("$R table list".to_owned(), &[0]),
        ("$R get notes nothing 2>&1".to_owned(), &[1]),
        ("$R get elsewhere nothing 2>&1".to_owned(), &[3]),
        ("$R --help".to_owned(), &[0]),
        ("$R nothing 2>&1".to_owned(), &[2]),
    ];
    for (line, codes) in commands {
        // The reader is gone before the first byte.
        let output = shell(&played, &format!("{{ {line}; echo $? >&3; }} 3>&2 2>/dev/null | true"));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let code: i32 = told.trim().parse().unwrap_or_else(|_| panic!("{line}: {told}"));
        assert!(codes.contains(&code), "{line}: {code}");
    }
}

// A1
#[test]
fn a_mistyped_table_gets_a_suggestion() {
    let played = with_objects();
    let wanted = "ramhold: there is no table 'nots'; did you mean 'notes'?\n";
    for arguments in
        [&["get", "nots", "hello"][..], &["table", "drop", "nots"], &["table", "describe", "nots"]]
    {
        assert_eq!(played.ramhold(arguments).failed(3), wanted, "{arguments:?}");
    }
    assert!(played.ramhold(&["get", "elsewhere", "x"]).failed(3).contains("'ramhold table list'"));
    let told = played.ramhold(&["table", "alter", "notes"]);
    assert_eq!(told.code, 2);
    assert!(told.stderr.contains("--durability") && told.stderr.contains("--replicas"), "{told:?}");
}
