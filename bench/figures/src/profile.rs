//! Machine profiles: those of the papers as the papers describe them, and one of 2026.

use std::fmt;

/// The hardware of a host, and its processor and network costs. Rates in bytes per second, times in
/// nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    pub name: &'static str,
    /// In each direction.
    pub network: f64,
    /// From port to port.
    pub latency: u64,
    /// The rate of one device. A host of a whole cluster runs `devices` backups with one device each.
    pub read: f64,
    pub write: f64,
    pub devices: usize,
    /// A host's processor takes this many times the measured time (`costs`).
    pub slower: f64,
    /// Whether bytes pass through the kernel and every message takes system calls; otherwise the adapter takes them from
    /// memory.
    pub kernel: bool,
    /// Segments that a backup buffers until they are on its device.
    pub buffers: u32,
    pub source: &'static str,
}

pub const GBIT: f64 = 1e9 / 8.0;

/// RAMCloud replays 3 million records of 128 B a second in SOSP11 4.1, and some 5.4 million here (docs/performance.md, One
/// recovery master's core: 5.5 million of 100 B, 5.1 million of 256 B).
const XEON_SLOWER: f64 = 1.8;
/// The part of the kernel's cost of a message that is left when the process itself drives the adapter.
pub const BYPASS_MESSAGE: f64 = 500.0;

/// SOSP11 with disks: table 1; one backup per disk, 22 Gbit/s when the switches are full.
pub const SOSP11_DISK: Profile = Profile {
    name: "sosp11 (disks)",
    network: 22.0 * GBIT,
    latency: 2_500,
    read: 106.5e6,
    write: 98.5e6,
    devices: 2,
    slower: XEON_SLOWER,
    kernel: false,
    buffers: 1 << 20,
    source: "SOSP11 table 1 (4 x 2.93 GHz Xeon X3470, 4X QDR Infiniband), 4.1",
};

/// SOSP11 with flash drives, as for its Fig. 9.
pub const SOSP11: Profile = Profile { name: "sosp11", read: 269e6, write: 182e6, ..SOSP11_DISK };

/// The cluster of TUT15's measurements: 80 machines of the same kind, two flash drives each.
pub const TUT15: Profile = Profile {
    name: "tut15",
    network: 24.0 * GBIT,
    source: "TUT15 'Recovery Scalability' (80 masters, 160 SSDs) on SOSP11's kind of machine, Infiniband",
    ..SOSP11
};

/// 25 Gbit Ethernet, one NVMe drive, one server process with one core per host; processor, kernel and buffers as measured
/// and by default here.
pub const NOW: Profile = Profile {
    name: "2026",
    network: 25.0 * GBIT,
    latency: 15_000,
    read: 3e9,
    write: 1.5e9,
    devices: 1,
    slower: 1.0,
    kernel: true,
    buffers: 32,
    source: "25 GbE over TCP, a data-centre NVMe drive (sustained), one AMD EPYC core",
};

/// The same hosts, whose processes drive the adapter themselves. No such host was measured: the latency is that
/// of SOSP11's network, and messages cost `BYPASS_MESSAGE`.
pub const NOW_BYPASS: Profile = Profile {
    name: "2026, past the kernel",
    latency: SOSP11.latency,
    kernel: false,
    source: "assumed: 25 GbE, the adapter driven by the process, on profile 2026's processor and drive",
    ..NOW
};

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buffers =
            if self.buffers >= 1 << 20 { "as much as comes".into() } else { self.buffers.to_string() };
        write!(
            f,
            "{}: network {:.0} Gbit/s, {:.1} us one way{}; {} x {:.0}/{:.0} MB/s read/write; one core per process, {:.2} times \
             the time measured; segments buffered: {buffers}. {}",
            self.name,
            self.network / GBIT,
            self.latency as f64 / 1e3,
            if self.kernel { ", through the kernel" } else { ", past the kernel" },
            self.devices,
            self.read / 1e6,
            self.write / 1e6,
            self.slower,
            self.source
        )
    }
}
