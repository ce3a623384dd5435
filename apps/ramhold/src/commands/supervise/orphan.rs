//! A brick that an earlier supervisor has left behind, and that holds the data directory.
//!
//! A brick stops in order when its supervisor ends. One that hangs does not hear that it is to stop, and no process can be
//! started on its directory. So the next supervisor ends it, but only a process that holds the lock of this very directory,
//! and is silent for a second at the brick's address and wherever else it listens. The kernel says who holds the lock, so no
//! file can name the wrong one.
//!
//! Not here: the lock that keeps out a second supervisor (`supervise`). Protocol: docs/protocols/quorum.md, rule 69.
//! Catalogue: I6.

use crate::failure::Failure;
use crate::output;
use crate::process::loopback;
use crate::question::ask;
use ramhold_wire::Header;
use ramhold_wire::restart::BrickProbe;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// A question to the brick, as a supervisor asks it, and how many go without an answer before the process is ended.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
const UNANSWERED_MAX: u32 = 2;
/// And the time that they take at least: connections may be refused in no time.
const SILENT_AFTER: Duration = Duration::from_secs(1);
/// A brick that answers is stopping in order, or has no supervisor. It is waited for as long as its flushing may take.
const STOP_WITHIN: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Waits until no other process holds the directory. A process that holds it and hangs is ended. `is_stopped`: somebody
/// wants this process to end.
pub fn await_free(
    dir: &Path,
    address: SocketAddr,
    mut is_stopped: impl FnMut() -> bool,
) -> Result<(), Failure> {
    let lock = dir.join("lock");
    let begun = Instant::now();
    let mut silent: Option<(Pid, Instant, u32)> = None;
    let mut is_told = false;
    while let Some(holder) = holder_of(&lock) {
        if begun.elapsed() > STOP_WITHIN || is_stopped() {
            return Err(Failure::usage(format!(
                "process {} holds {} and answers at {address}; stop it first, or give another --dir",
                holder.as_raw_nonzero(),
                dir.display()
            )));
        }
        if !std::mem::replace(&mut is_told, true) {
            output::tell(&format!(
                "ramhold: process {} still holds {}; waiting until it has stopped",
                holder.as_raw_nonzero(),
                dir.display()
            ));
        }
        let asked = Instant::now();
        // It may have been started with another address.
        let mut addresses = listening(holder);
        addresses.push(address);
        let answers =
            |to: &SocketAddr| ask(*to, &Header::default(), &BrickProbe::default(), ANSWER_WITHIN).is_ok();
        if addresses.iter().any(answers) {
            silent = None;
        } else {
            let (_, since, count) = silent.filter(|(who, ..)| *who == holder).unwrap_or((holder, asked, 0));
            silent = Some((holder, since, count + 1));
            if count + 1 >= UNANSWERED_MAX && since.elapsed() >= SILENT_AFTER {
                end(holder, &lock, since.elapsed());
                silent = None;
            }
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}

/// SIGKILL, if it still holds the lock. The descriptor is of this process, whatever gets its number meanwhile.
fn end(holder: Pid, lock: &Path, silent: Duration) {
    let Ok(process) = pidfd_open(holder, PidfdFlags::empty()) else { return };
    if holder_of(lock) != Some(holder) {
        return;
    }
    // It may have ended just now.
    let _ = pidfd_send_signal(&process, Signal::KILL);
    output::tell(&format!(
        "event: process {}, a brick of an earlier supervisor, has answered nothing for {:.1} s; noticed by its supervisor; \
         killed, as it holds the data directory",
        holder.as_raw_nonzero(),
        silent.as_secs_f64()
    ));
}

/// The process that holds the lock. `None`: nobody does, or nobody whom this process may look at.
fn holder_of(lock: &Path) -> Option<Pid> {
    let path = lock.canonicalize().ok()?;
    let inode = fs::metadata(&path).ok()?.ino();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let own = std::process::id();
    holders(&locks, inode).filter(|pid| *pid != own).find_map(|pid| {
        // Another file system may have an inode of this number.
        let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let is_it = files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|open| open == path));
        Pid::from_raw(i32::try_from(pid).ok()?).filter(|_| is_it)
    })
}

/// Where a process listens.
fn listening(process: Pid) -> Vec<SocketAddr> {
    let process = process.as_raw_nonzero();
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    let sockets: Vec<String> = files
        .flatten()
        .filter_map(|file| {
            let open = fs::read_link(file.path()).ok()?;
            Some(open.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/{process}/net/{name}")));
    let lines = tables.iter().flatten().flat_map(|table| table.lines());
    lines.filter_map(|line| listener(line, |socket| sockets.iter().any(|own| own == socket))).collect()
}

/// A line as `0: 0100007F:1D4D 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4242 ...` of a socket that listens
/// (0A): its address, in words of four bytes, and the number of the socket.
fn listener(line: &str, is_own: impl Fn(&str) -> bool) -> Option<SocketAddr> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, local, _, "0A", _, _, _, _, _, socket, ..] = words[..] else { return None };
    let (address, port) = local.split_once(':').filter(|_| is_own(socket))?;
    let word =
        |at: usize| Some(u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok()?.to_le_bytes());
    let address: IpAddr = if address.len() == 8 {
        Ipv4Addr::from(word(0)?).into()
    } else {
        let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
        Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?).into()
    };
    Some(SocketAddr::new(loopback(address), u16::from_str_radix(port, 16).ok()?))
}

/// Lines as `3: FLOCK  ADVISORY  WRITE 1234 fd:01:131 0 EOF`. A line with an arrow is of somebody who waits.
fn holders(locks: &str, inode: u64) -> impl Iterator<Item = u32> {
    locks.lines().filter_map(move |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, file, ..] = words[..] else { return None };
        let locked: u64 = file.rsplit(':').next()?.parse().ok()?;
        (locked == inode).then(|| pid.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn scratch(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("ramhold-orphan-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        dir
    }

    /// A process that holds the lock of a directory, and answers nobody.
    fn holder(dir: &Path) -> Child {
        let lock = dir.join("lock");
        let child =
            Command::new("flock").args(["--nonblock", "--no-fork"]).arg(&lock).args(["sleep", "60"]).spawn();
        let child = child.expect("flock of util-linux");
        let begun = Instant::now();
        while holder_of(&lock).is_none() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    // I6
    #[test]
    fn a_silent_process_that_holds_this_directory_is_ended_and_no_other_one() {
        let (own, other) = (scratch("own"), scratch("other"));
        let (mut orphan, mut stranger) = (holder(&own), holder(&other));
        assert_eq!(
            holder_of(&own.join("lock")).map(|pid| pid.as_raw_nonzero().get()),
            i32::try_from(orphan.id()).ok()
        );
        let nobody: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        let reaper = std::thread::spawn(move || orphan.wait().expect("a child of ours"));
        let begun = Instant::now();
        await_free(&own, nobody, || false).expect("it is free in the end");
        assert!(begun.elapsed() >= SILENT_AFTER, "refused connections alone are no silence");
        assert!(!reaper.join().expect("it does not panic").success());
        assert!(stranger.try_wait().expect("a child of ours").is_none(), "the other one lives");
        await_free(&scratch("free"), nobody, || false).expect("nobody holds it");
        let refused = await_free(&other, nobody, || true).expect_err("somebody wants the end");
        assert!(refused.text().contains("stop it first"), "{}", refused.text());
        stranger.kill().expect("it is there");
        stranger.wait().expect("it has ended");
        for name in ["own", "other", "free"] {
            fs::remove_dir_all(scratch(name)).expect("it was just made");
        }
    }

    // I6
    #[test]
    fn the_kernel_tells_where_a_process_listens() {
        let listens = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let own = Pid::from_raw(i32::try_from(std::process::id()).expect("a process id")).expect("not 0");
        assert!(listening(own).contains(&listens.local_addr().expect("it listens")));
        let line = "0: 0100007F:1D4D 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4242 1 0";
        let address = |line: &str| listener(line, |socket| socket == "4242");
        assert_eq!(address(line), "127.0.0.1:7501".parse().ok());
        assert_eq!(address(&line.replace(" 0A ", " 01 ")), None, "a connection");
        assert_eq!(address(&line.replace("4242", "4243")), None, "of another process");
        let six = line.replace("0100007F", "00000000000000000000000001000000");
        assert_eq!(address(&six), "[::1]:7501".parse().ok());
        assert_eq!(address("  sl  local_address rem_address   st tx_queue"), None);
    }

    // I6
    #[test]
    fn the_kernels_table_of_locks_is_read() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 fd:01:131 0 EOF\n2: FLOCK  ADVISORY  WRITE 1234 fd:01:131 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 99 fd:01:131 0 EOF\n3: FLOCK  ADVISORY  READ  8 fd:01:131 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 5 fd:01:132 0 EOF\nnonsense\n";
        assert!(holders(locks, 131).eq([1234]));
        assert!(holders(locks, 132).eq([5]) && holders(locks, 1).next().is_none());
    }
}
