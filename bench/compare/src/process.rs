//! Programs that are compared. Each runs in a process started here, pinned to a core, on a free port, in a
//! folder of its own.
//!
//! Dropping a `Process` kills that process by its id and removes its folder. No other process is ever ended.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time limit for a program until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);

/// A server on a port of 127.0.0.1, on core 0.
pub struct Process {
    child: Child,
    port: u16,
    dir: PathBuf,
}

impl Process {
    /// Starts `program` with the arguments that `arguments` gives for its port and folder; returns when it listens.
    pub fn start(program: &str, arguments: impl FnOnce(&mut Command, u16, &Path)) -> Result<Process, String> {
        let port = free_port()?;
        let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        let dir = scratch(&format!("{name}-{port}"))?;
        let mut command = pinned(0, program);
        arguments(&mut command, port, &dir);
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("{program}: {e}; install it, or leave this comparison out"))?;
        let mut process = Process { child, port, dir };
        let until = Instant::now() + LISTENS_WITHIN;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Ok(Some(status)) = process.child.try_wait() {
                return Err(format!("{program} ended at once: {status}"));
            }
            if Instant::now() > until {
                return Err(format!("{program} does not listen"));
            }
            std::thread::yield_now();
        }
        Ok(process)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Bytes of memory that are charged to the process: all its resident pages, shared ones by their share (Pss).
    pub fn resident_bytes(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/smaps_rollup", self.child.id());
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        pss_bytes(&text).ok_or_else(|| format!("{path} tells no Pss"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Has the calling thread run on this core alone, where the system lets it.
pub fn pin(core: usize) {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    let _ = rustix::thread::sched_setaffinity(None, &cores);
}

/// Lets this process and those that it starts have as many descriptors as the system allows them, for many connections.
pub fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Without it, whoever opens too many connections is told so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// CPU time that a process has used so far, its own and the kernel's for it, in microseconds; good to some 10 ms.
pub fn cpu_micros(pid: u32) -> Result<u64, String> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    cpu_ticks(&text).map(|ticks| ticks * TICK_MICROS).ok_or_else(|| format!("{path} tells no times"))
}

/// The unit in which Linux reports a process's CPU time, whatever unit it counts in itself.
const TICK_MICROS: u64 = 10_000;

/// Fields 14 and 15, behind the program's name in brackets, which may have anything in it.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, behind) = stat.rsplit_once(") ")?;
    let mut times = behind.split(' ').skip(11).map(|field| field.parse::<u64>().ok());
    times.next()??.checked_add(times.next()??)
}

/// The line `Pss: N kB` of smaps_rollup, in bytes.
fn pss_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Marks a process that was started again on the clients' core. From then on the process sees one core only,
/// so it no longer asks the system whether the machine has several.
const PINNED: &str = "RAMHOLD_COMPARE_PINNED";

fn is_pinned() -> bool {
    std::env::var_os(PINNED).is_some()
}

/// Whether there are several cores, and the tools to choose one.
pub fn can_pin() -> bool {
    let several = || std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
    let tools = ["/usr/bin/taskset", "/usr/bin/setpriv"];
    tools.iter().all(|tool| Path::new(tool).exists()) && (is_pinned() || several())
}

/// A program pinned to a core, if the machine has several cores and `taskset` and `setpriv` are there. The
/// program keeps the process id of the spawned process, and is killed when this process ends, however it
/// ends.
pub fn pinned(core: usize, program: &str) -> Command {
    if !can_pin() {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string(), "setpriv", "--pdeathsig", "KILL", program]);
    command
}

/// Runs this program again on core 1 with the same arguments, since the clients are in it. Returns the exit
/// code. Returns none if the program runs there already, or if nothing can be pinned.
pub fn run_again_pinned() -> Option<u8> {
    if is_pinned() || !can_pin() {
        return None;
    }
    let own = std::env::current_exe().ok()?;
    let mut command = pinned(1, &own.to_string_lossy());
    let status = command.args(std::env::args().skip(1)).env(PINNED, "1").status().ok()?;
    Some(status.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(1))
}

/// Microseconds for one byte to a process on a core and back, as the median: the cost of sleeping and waking
/// on this machine. Every figure with one operation under way includes it, and it differs tenfold between
/// machines.
pub fn echo_micros(core: usize) -> Result<f64, String> {
    const ROUNDS: usize = 2000;
    let text = |e: std::io::Error| format!("cat: {e}");
    let mut echo = pinned(core, "cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(text)?;
    let (mut to, mut from) = (echo.stdin.take().expect("piped"), echo.stdout.take().expect("piped"));
    let mut go_round = || {
        let start = Instant::now();
        to.write_all(b"x")?;
        from.read_exact(&mut [0])?;
        Ok(start.elapsed())
    };
    let times: std::io::Result<Vec<Duration>> = (0..ROUNDS).map(|_| go_round()).collect();
    drop(to);
    let _ = echo.wait();
    let mut times = times.map_err(text)?;
    times.sort();
    Ok(times[ROUNDS / 2].as_secs_f64() * 1e6)
}

/// The Ramhold program that was built beside this one.
pub fn ramhold() -> String {
    std::env::var("RAMHOLD_BIN").unwrap_or_else(|_| "target/release/ramhold".into())
}

/// Whether a program is on the search path.
pub fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// A folder of our own below the system's temporary one.
pub fn scratch(name: &str) -> Result<PathBuf, String> {
    let path = std::env::temp_dir().join(format!("ramhold-compare-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

/// A port that was free a moment ago.
pub fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    listener.local_addr().map(|a| a.port()).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_bytes_are_the_line_pss_alone() {
        let text = "56-7f ---p 0 00:00 0 [rollup]\nRss:    9 kB\nPss:    1207 kB\nPss_Anon:  3 kB\n";
        assert_eq!(pss_bytes(text), Some(1207 * 1024));
        assert_eq!(pss_bytes("Rss: 9 kB\n"), None);
    }

    #[test]
    fn cpu_time_is_the_process_s_and_the_kernel_s() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 12 30 5 6 20 0 1 0 99";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(cpu_ticks("7 (a) S 1"), None);
        assert!(cpu_micros(std::process::id()).is_ok());
    }
}
