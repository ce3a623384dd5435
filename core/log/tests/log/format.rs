//! The example in docs/formats/log.md is what the code writes.

use crate::harness::*;
use ramhold_base::{ClusterTime, TableId};

/// The segment of the example: a head's opening, an object, its overwrite, its remove, and one that expires.
fn example() -> Vec<u8> {
    let mut harness = Harness::new(config(64 * 1024));
    harness.now = ClusterTime(1_700_000_000_000 - 10);
    harness.write(TableId(1), b"k", b"one").unwrap();
    harness.write(TableId(1), b"k", b"two").unwrap();
    harness.remove(TableId(1), b"k").unwrap();
    harness.write(TableId(1), b"k", b"new").unwrap();
    segment_bytes(&harness.log, harness.log.head_segment(STREAM).unwrap())
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (row, line) in bytes.chunks(16).enumerate() {
        let fields: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push_str(&format!("{:04x}  {}\n", row * 16, fields.join(" ")));
    }
    text
}

// C1
#[test]
fn the_document_shows_the_bytes_that_are_written() {
    let document = include_str!("../../../../docs/formats/log.md");
    let hex = hex(&example());
    assert!(document.contains(&hex), "docs/formats/log.md must contain:\n{hex}");
}
