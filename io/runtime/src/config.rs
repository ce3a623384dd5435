//! The configuration of a runtime.

use crate::disk::DiskConfig;
use crate::network::NetworkLimits;
use crate::report::{Report, report_to_stderr};
use crate::store::Store;
use ramhold_base::Level;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// How the loop waits when there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Poll {
    /// Looks again and again for `spin` after the last work, then sleeps; where others use the same core, sleeps early.
    Adaptive { spin: Duration },
    /// Never sleeps and never gives its core away; for a core of its own.
    Busy,
    /// Sleeps whenever there is nothing to do.
    Sleep,
}

impl Poll {
    /// About what waking a sleeping core costs: a shorter wait is not worth a sleep, a longer one not worth the core.
    pub const ADAPTIVE: Poll = Poll::Adaptive { spin: Duration::from_micros(50) };
}

/// Everything has a sensible default: a process that only opens connections.
pub struct RuntimeConfig {
    /// Where to accept connections; port 0 lets the kernel choose.
    pub listen: Option<SocketAddr>,
    /// Where others reach this process if not at `listen`, for processes of this host that share memory.
    pub reached_at: Option<SocketAddr>,
    /// Further addresses at which this process alone accepts connections.
    pub listen_links: Vec<SocketAddr>,
    /// Further addresses at which connections are accepted. Several processes may share one: the kernel gives each
    /// connection to one of them.
    pub listen_also: Vec<SocketAddr>,
    /// Sockets that listen already, and that several processes hold: a connection goes to the first of them that accepts
    /// it, so never to one that is stopped.
    pub listen_open: Vec<OwnedFd>,
    /// A Unix socket at which connections are accepted, too, and its mode.
    pub listen_path: Option<(PathBuf, u32)>,
    /// Whether connections whose first byte begins no frame are heard: the machine is handed their bytes as they come.
    /// Otherwise they are told that they are wrong here.
    pub hears_bytes: bool,
    pub poll: Poll,
    pub limits: NetworkLimits,
    /// Needed by machines with disk effects.
    pub disk: Option<DiskConfig>,
    /// Memory that is found for large reads before the first of them comes; no more than a few segments' is.
    pub read_memory_bytes: u64,
    /// Needed by machines with store effects.
    pub store: Option<Box<dyn Store + Send>>,
    pub report: Report,
}

impl Default for RuntimeConfig {
    fn default() -> RuntimeConfig {
        RuntimeConfig {
            listen: None,
            reached_at: None,
            listen_links: Vec::new(),
            listen_also: Vec::new(),
            listen_open: Vec::new(),
            listen_path: None,
            hears_bytes: false,
            poll: Poll::ADAPTIVE,
            limits: NetworkLimits::default(),
            disk: None,
            read_memory_bytes: 0,
            store: None,
            report: report_to_stderr(Level::Info),
        }
    }
}
