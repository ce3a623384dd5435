//! All readers of bytes from outside, as functions from bytes to nothing that panic when a promise is broken.
//!
//! A fuzzer feeds them generated inputs (`cargo xtask fuzz`, guided by which edges of the code an input
//! reaches). The ordinary tests feed them the kept inputs: the corpus, which includes recordings of real
//! Redis clients, and earlier findings. A target checks more than the absence of panics. The same bytes cut
//! elsewhere must mean the same. A value that was read must read the same again after it is written. Memory
//! must follow the bytes that have arrived.
//!
//! Not here: flags and numbers of a run (xtask), whole processes under hostile bytes (testing/cluster).

pub mod aof;
pub mod cuts;
pub mod entry;
pub mod frame;
pub mod front;
pub mod memory;
pub mod parse;
pub mod rdb;
pub mod replies;
pub mod requests;
pub mod ring;
pub mod stored_password;
pub mod token;

/// One decoder under test.
pub struct Target {
    pub name: &'static str,
    /// The folder of its corpus; several targets may share one.
    pub corpus: &'static str,
    pub run: fn(&[u8]),
}

pub const TARGETS: &[Target] = &[
    Target { name: "resp_parse", corpus: "sessions", run: parse::run },
    Target { name: "resp_front", corpus: "sessions", run: front::run },
    Target { name: "frame", corpus: "frame", run: frame::run },
    Target { name: "requests", corpus: "requests", run: requests::run },
    Target { name: "entry", corpus: "entry", run: entry::run },
    Target { name: "rdb", corpus: "rdb", run: rdb::run },
    Target { name: "token", corpus: "token", run: token::run },
    Target { name: "stored_password", corpus: "stored_password", run: stored_password::run },
    Target { name: "ring", corpus: "ring", run: ring::run },
    Target { name: "aof", corpus: "sessions", run: aof::run },
];

/// The target with this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
