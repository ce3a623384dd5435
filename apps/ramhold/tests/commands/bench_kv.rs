//! `ramhold bench kv` against a played cluster.

use crate::binary::{nobody, ramhold_at};
use crate::played::{Mischief, Played};
use serde_json::{Value, json};

fn count(run: &Value, kind: &str) -> u64 {
    run["run"][kind]["count"].as_u64().unwrap()
}

// E3: an insert is read only when it has ended, so nothing that is read is absent.
#[test]
fn the_workloads_of_ycsb_have_their_operations() {
    for (letter, often, seldom, never) in [
        ("d", "reads", "inserts", ["writes", "modifies", "scans"]),
        ("E", "scans", "inserts", ["reads", "writes", "modifies"]),
        ("f", "reads", "modifies", ["writes", "inserts", "scans"]),
    ] {
        let played = Played::start(Mischief::default());
        let arguments =
            ["bench", "kv", "--ycsb", letter, "--objects", "300", "--seconds", "1", "--clients", "2"];
        let run = played.ramhold(&[&arguments[..], &["--json"]].concat()).ok().json();
        assert_eq!(run["run"]["errors"], json!({}), "{letter}");
        assert_eq!((&run["value_bytes"], &run["contradiction"]), (&json!(1000), &Value::Null));
        assert!(count(&run, often) > 0 && count(&run, seldom) > 0, "{letter}: {run}");
        if seldom == "inserts" {
            assert!(count(&run, often) > count(&run, seldom), "{letter}: {run}");
        }
        assert!(never.iter().all(|kind| count(&run, kind) == 0), "{letter}: {run}");
    }
}

#[test]
fn a_load_that_cannot_be_carried_out_is_refused_before_anybody_is_asked() {
    for (arguments, way_out) in [
        (&["--ycsb", "e", "--pipeline", "11"][..], "--pipeline must be at most 10"),
        (&["--objects", "300", "--key-bytes", "2"], "between 3 and"),
        (&["--value-bytes", "1048577"], "at most 1048576"),
        (&["--pipeline", "4", "--multi", "5"], "more than --pipeline"),
    ] {
        let said = ramhold_at(&nobody(), b"", &[&["bench", "kv"][..], arguments].concat()).failed(2);
        assert!(said.contains(way_out), "{said}");
    }
    for arguments in [&["--ycsb", "g"][..], &["--ycsb", "a", "--read-percent", "5"]] {
        assert_eq!(ramhold_at(&nobody(), b"", &[&["bench", "kv"][..], arguments].concat()).code, 2);
    }
}
