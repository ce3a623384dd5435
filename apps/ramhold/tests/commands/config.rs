//! `ramhold config`. J8

use crate::binary::{Directory, nobody, ramhold_at};
use serde_json::Value;

fn config(arguments: &[&str]) -> crate::binary::Ran {
    ramhold_at(&nobody(), b"", &[&["config"], arguments].concat())
}

#[test]
fn a_file_is_checked_for_each_process_that_has_a_section() {
    let directory = Directory::new();
    let path = directory.0.join("ramhold.toml");
    let path = path.to_str().unwrap();
    let check = |text: &str, more: &[&str]| {
        std::fs::write(path, text).unwrap();
        config(&[&["check", "--config", path], more].concat())
    };
    let whole = "memory = \"1GiB\"\n[server]\ncoordinator = \"10.0.0.1\"\ndir = \"/srv/a\"\n\
                 [coordinator]\ndir = \"/srv/b\"\n";
    let said = check(whole, &[]).ok().text();
    assert_eq!(
        said,
        format!("{path}: all right\n3 options for 'ramhold server'\n1 options for 'ramhold coordinator'\n")
    );
    let json = check(whole, &["--json"]).ok().json();
    assert_eq!(json["options"], serde_json::json!({ "server": 3, "coordinator": 1 }));
    check("memory = \"1GiB\"", &["server", "--", "--dir", "/srv/a", "--coordinator", "10.0.0.1"]).ok();
    for (text, more, why) in [
        ("[server]\nmemory = \"1GiB\"", &[][..], "--coordinator"),
        (
            "[server]\nmemry = 1",
            &[],
            ":2:1: 'memry' is not an option of 'ramhold server'; did you mean 'memory'?",
        ),
        ("[coordinator]\nmemory = \"1GiB\"", &[], "is not an option of 'ramhold coordinator'"),
        ("[servers]\n", &["server"], ":1:2: there is no section [servers]"),
        ("memory = \"lots\"\n[server]\ncoordinator = \"a\"\ndir = \"b\"", &[], ":1:1: memory:"),
        ("memory = \"1GiB\"", &[], "has no section; say for which process"),
        ("memory = ", &["server"], ":1:"),
        ("coordinator = \"a\"\n[coordinator]\ndir = \"b\"", &[], "goes into a section, not to the top"),
    ] {
        let said = check(text, more).failed(2);
        assert!(said.contains(why), "{text}: {said}");
    }
    // The other process starts all the same.
    check("[server]\nmemry = 1\n[coordinator]\ndir = \"b\"", &["coordinator"]).ok();
    assert!(config(&["check", "--config", "none"]).failed(2).contains("is no file that can be checked"));
    assert!(config(&["check", "--config", "/nowhere/x.toml"]).failed(2).contains("/nowhere/x.toml"));
}

#[test]
fn each_option_is_shown_with_its_value_and_source() {
    let directory = Directory::new();
    let path = directory.0.join("ramhold.toml");
    std::fs::write(&path, "[server]\nmemory = \"1GiB\"\n").unwrap();
    let path = path.to_str().unwrap();
    let shown = config(&["show", "server", "--config", path, "--json", "--", "--disk", "9GiB"]).ok().json();
    let of = |name: &str| {
        let all = shown.as_array().unwrap();
        all.iter().find(|one| one["option"] == name).cloned().unwrap_or(Value::Null)
    };
    assert_eq!((&of("memory")["value"], &of("memory")["source"]), (&"1GiB".into(), &"file".into()));
    assert_eq!((&of("memory")["file"], &of("memory")["line"]), (&path.into(), &2.into()));
    assert_eq!(of("disk")["source"], "command line");
    assert_eq!(of("copy-rate")["source"], "built in");
    assert_eq!(of("help"), Value::Null);
    let text = config(&["show", "server", "--config", "none"]).ok().text();
    assert!(text.starts_with("no file\n\noption"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let said = config(&["show", "server", "--config", "none", "--", "--memory", "x"]).failed(2);
    assert!(said.contains("ramhold server: ") && said.contains("--memory"), "{said}");
}

// The file that is printed is taken as it is: all of it is comments but for the sections.
#[test]
fn the_printed_file_is_taken() {
    let directory = Directory::new();
    let path = directory.0.join("ramhold.toml");
    let text = config(&["default"]).ok().text();
    assert!(text.contains("\n[coordinator]\n") && text.starts_with("[server]\n"));
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    config(&["show", "server", "--config", path]).ok();
    let said = config(&["check", "coordinator", "--config", path]).failed(2);
    assert!(said.contains("--dir"), "{said}");
}
