//! One run of one test of speed: what is done, and its results.

/// Different keys.
pub const OBJECTS: u64 = 100_000;

/// The results of one run of one test.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub ops_per_second: f64,
    pub p50_micros: f64,
    pub p99_micros: f64,
}

/// One test: reads or writes, with a fixed number under way.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    pub reads: bool,
    pub pipeline: u16,
    pub seconds: u64,
}
