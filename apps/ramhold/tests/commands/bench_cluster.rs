//! Benchmarks that start a cluster of their own: the arguments that they refuse before they start it.

use crate::binary::{Directory, nobody, ramhold_at};
use std::process::Command;

#[test]
fn what_is_missing_beside_redis_is_named_with_the_way_to_get_it() {
    let empty = Directory::new();
    let ran = Command::new(env!("CARGO_BIN_EXE_ramhold"))
        .args(["bench", "recovery", "--beside-redis"])
        .env("PATH", &empty.0)
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(2));
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.starts_with("ramhold: redis-server is not installed"), "{said}");
    assert!(said.contains("apt-get install redis-server"), "{said}");
}

#[test]
fn a_soak_has_no_rounds() {
    let arguments = ["bench", "verdict", "--soak", "1s", "--rounds", "3"];
    assert_eq!(ramhold_at(&nobody(), b"", &arguments).code, 2);
    let arguments = ["bench", "verdict", "--servers", "3"];
    assert_eq!(ramhold_at(&nobody(), b"", &arguments).code, 2);
}
