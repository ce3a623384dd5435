//! The frames that one server sends and receives, as `tcpdump` sees them at all its devices, in one order.
//!
//! A packet is seen before the process can read it, and after the process has sent it. So if one frame stands before
//! another one here, the process had the first one before it sent the second one.

mod flow;

use flow::{Flow, Flows};
use ramhold_cluster_tests::{Failure, Network, Scratch, wait_for};
use ramhold_wire::Header;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Kilobytes for packets that tcpdump has not written yet.
const BUFFER: &str = "65536";
const WITHIN: Duration = Duration::from_secs(10);
/// By then tcpdump has written the packets that it was given. It is given them a second later at most.
const WRITTEN_AFTER: Duration = Duration::from_secs(2);

/// One whole frame.
pub struct Seen {
    pub from: Ipv4Addr,
    pub to: Ipv4Addr,
    pub header: Header,
    pub body: Vec<u8>,
    /// When its first and its last bytes passed.
    pub begun: At,
    pub ended: At,
}

/// A packet: its place in the order of all, and its time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    pub place: usize,
    pub nanos: u64,
}

pub struct Capture {
    own: Vec<Ipv4Addr>,
    tcpdump: Child,
    scratch: Scratch,
}

/// The packets that were captured, and whether anything is missing.
pub struct Captured {
    pub frames: Vec<Seen>,
    /// Packets that the kernel dropped, and gaps between those that it did not.
    pub missing: u64,
}

impl Capture {
    pub fn start(network: &Network, server: usize, levels: usize) -> Result<Capture, Failure> {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.dir()).map_err(|error| Failure(format!("a capture: {error}")))?;
        let errors = fs::File::create(scratch.dir().join("errors")).map_err(about)?;
        let mut command = Command::new("tcpdump");
        command.args(["-i", "any", "-n", "-s", "0", "-U", "-B", BUFFER, "-Z", "root", "-y", "LINUX_SLL2"]);
        command.args(["--time-stamp-precision=nano", "-w"]).arg(scratch.dir().join("packets")).arg("tcp");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let tcpdump = network.within(server, || command.spawn())?.map_err(about)?;
        let IpAddr::V4(first) = Network::address(server).ip() else { return Err(Failure("not IPv4".into())) };
        let own = (0..levels).map(|level| Network::level_address(server, level)).chain([first]).collect();
        let capture = Capture { own, tcpdump, scratch };
        wait_for("tcpdump", WITHIN, || {
            let told = capture.told();
            Ok(if told.contains("listening on") { Ok(()) } else { Err(told) })
        })?;
        Ok(capture)
    }

    fn told(&self) -> String {
        fs::read_to_string(self.scratch.dir().join("errors")).unwrap_or_default()
    }

    /// Ends the capture, and takes the frames to and from the server apart.
    pub fn stop(mut self) -> Result<Captured, Failure> {
        std::thread::sleep(WRITTEN_AFTER);
        let pid = i32::try_from(self.tcpdump.id()).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.expect("a process has a number");
        rustix::process::kill_process(pid, rustix::process::Signal::INT)
            .map_err(|error| Failure(format!("tcpdump: {error}")))?;
        self.tcpdump.wait().map_err(about)?;
        let told = self.told();
        let dropped = told.lines().find_map(|line| line.strip_suffix(" packets dropped by kernel"));
        let dropped: u64 = dropped.and_then(|count| count.parse().ok()).ok_or(Failure(told))?;
        let (frames, gaps) = frames(&self.scratch.dir().join("packets"), &self.own)?;
        Ok(Captured { frames, missing: dropped + gaps })
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
    }
}

fn about(error: std::io::Error) -> Failure {
    Failure(format!("tcpdump: {error}; install the package tcpdump"))
}

/// The frames of a file of packets (pcap, nanoseconds, Linux "cooked" headers), and the number of gaps.
fn frames(path: &Path, own: &[Ipv4Addr]) -> Result<(Vec<Seen>, u64), Failure> {
    const MAGIC: [u8; 4] = [0x4d, 0x3c, 0xb2, 0xa1];
    let bytes = fs::read(path).map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    if bytes.get(..4) != Some(&MAGIC) {
        return Err(Failure(format!("{}: not the packets that were asked for", path.display())));
    }
    let mut flows = Flows::default();
    let mut rest = &bytes[24..];
    let mut place = 0;
    while let Some((head, behind)) = rest.split_at_checked(16) {
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let Some((packet, next)) = behind.split_at_checked(number(8) as usize) else { break };
        rest = next;
        let nanos = u64::from(number(0)) * 1_000_000_000 + u64::from(number(4));
        if let Some((flow, part)) = Flow::of(packet).filter(|(flow, _)| own.iter().any(|ip| flow.has(*ip))) {
            flows.take(flow, &part, At { place, nanos });
        }
        place += 1;
    }
    Ok(flows.end())
}
