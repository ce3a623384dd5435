//! Freed memory is returned to the system (A12). The test has a process of its own, because the setting is
//! the process's.

use ramhold_runtime::give_back_freed_memory;

const PIECE_BYTES: usize = 256 * 1024;
const PIECE_COUNT: usize = 256;

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("a process can see its own");
    let pages: usize = text.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("the second is resident");
    pages * 4096
}

#[test]
fn pieces_between_small_ones_go_back_when_they_are_freed() {
    give_back_freed_memory();
    // A larger piece is allocated and freed. Without the setting, all later pieces would then come from the
    // heap.
    drop(vec![1u8; 8 << 20]);
    let before = resident_bytes();
    let mut small = Vec::new();
    let mut pieces = Vec::new();
    for _ in 0..PIECE_COUNT {
        pieces.push(vec![1u8; PIECE_BYTES]);
        small.push(Box::new([1u8; 1000]));
    }
    let held = resident_bytes() - before;
    assert!(held >= PIECE_BYTES * PIECE_COUNT, "{held} bytes are held");
    drop(pieces);
    let left = resident_bytes().saturating_sub(before);
    assert!(left < PIECE_BYTES * PIECE_COUNT / 8, "{left} of {held} bytes are still held");
    drop(small);
}
