//! `ramhold bench verdict`: it kills servers of its own cluster, reports how soon their deaths were known,
//! and cleans up.

use ramhold_cluster_tests::program;
use serde_json::Value;
use std::process::Command;

fn told(words: &[&str]) -> Value {
    let output = Command::new(program()).args(["--json", "bench", "verdict"]).args(words).output();
    let output = output.expect("the program can be started");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

// F1, F11
#[test]
fn deaths_are_timed_one_by_one_and_nobody_else_is_declared_dead() {
    let _machine = crate::machine();
    let told = told(&["--rounds", "3", "--seed", "5"]);
    assert_eq!(told["verdict_seconds"].as_array().map(Vec::len), Some(3));
    assert!(told["max_seconds"].as_f64() >= told["p50_seconds"].as_f64());
    // A verdict takes two refused connections, some time apart.
    assert!(told["p50_seconds"].as_f64() > Some(0.01), "{told}");
    assert_eq!(told["false_verdicts"], Value::Array(Vec::new()));
}

// F7
#[test]
fn a_soak_kills_nobody() {
    let _machine = crate::machine();
    let told = told(&["--soak", "1s", "--busy", "1", "--servers", "4"]);
    assert_eq!(told["rounds"], 0);
    assert_eq!(told["p99_seconds"], Value::Null);
    assert_eq!(told["false_verdicts"], Value::Array(Vec::new()));
    assert!(told["seconds"].as_f64() >= Some(1.0));
}
