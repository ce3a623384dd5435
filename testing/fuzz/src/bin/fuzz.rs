//! libFuzzer over one target: `RAMHOLD_FUZZ_TARGET` names the target, and the arguments are libFuzzer's.
//!
//! With `RAMHOLD_FUZZ_EDGES=FILE` the program does not fuzz. It runs the inputs in the folders that its
//! arguments name. For each edge of the program it writes whether the edge was reached, and the address of
//! its code.

#![no_main]
#![expect(unsafe_code, reason = "the compiler's counters are found by their sections' symbols")]

use ramhold_fuzz::{Target, find};
use std::fmt::Write as _;
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

static TARGET: OnceLock<&'static Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(init: begin(), |bytes: &[u8]| {
    if let Some(target) = TARGET.get() {
        (target.run)(bytes);
    }
});

fn begin() {
    let name = std::env::var("RAMHOLD_FUZZ_TARGET").unwrap_or_default();
    let target = find(&name).unwrap_or_else(|| panic!("there is no target '{name}'"));
    TARGET.get_or_init(|| target);
    if let Some(file) = std::env::var_os("RAMHOLD_FUZZ_EDGES") {
        let folders = std::env::args().skip(1);
        let reached = edges_of(target, folders);
        fs::write(file, reached).expect("the list of edges can be written");
        std::process::exit(0);
    }
}

/// A line for each edge, `1` or `0` and the code's address, after all files of the folders were run.
fn edges_of(target: &Target, folders: impl Iterator<Item = String>) -> String {
    let (counters, places) = (counters(), places());
    assert_eq!(counters.len(), places.len(), "each counter has its place");
    let mut reached = vec![false; counters.len()];
    for folder in folders {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder}: {error}")) {
            let path = entry.expect("the folder can be read").path();
            (target.run)(&fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
            // After each, because a counter of eight bits may come back to 0.
            for (reached, counter) in reached.iter_mut().zip(counters) {
                *reached |= counter.load(Relaxed) != 0;
                counter.store(0, Relaxed);
            }
        }
    }
    let mut lines = String::new();
    for (reached, [address, _]) in reached.iter().zip(places) {
        let _ = writeln!(lines, "{} {address:#x}", u8::from(*reached));
    }
    lines
}

// The places where the linker has put the sections of -sanitizer-coverage-inline-8bit-counters and -pc-table.
// They are in assembler, because the pass that counts declares the same names in every crate, and would take
// a second declaration for another symbol.
std::arch::global_asm!(
    ".pushsection .data.rel.ro.ramhold_edges, \"aw\"",
    ".balign 8",
    ".globl ramhold_edges",
    "ramhold_edges:",
    ".quad __start___sancov_cntrs, __stop___sancov_cntrs, __start___sancov_pcs, __stop___sancov_pcs",
    ".popsection",
);

unsafe extern "C" {
    #[link_name = "ramhold_edges"]
    static EDGES: [usize; 4];
}

fn counters() -> &'static [AtomicU8] {
    // SAFETY: the two addresses are the ends of one section of bytes that lives as long as the program; it is written
    // by this thread alone.
    unsafe { std::slice::from_raw_parts(EDGES[0] as *const AtomicU8, EDGES[1] - EDGES[0]) }
}

/// Addresses and flags of edges.
fn places() -> &'static [[usize; 2]] {
    // SAFETY: the two addresses are the ends of one section of pairs of words that nobody writes.
    unsafe {
        std::slice::from_raw_parts(
            EDGES[2] as *const [usize; 2],
            (EDGES[3] - EDGES[2]) / size_of::<[usize; 2]>(),
        )
    }
}
