//! The common part of the long-lived processes: how they end.
//!
//! Invariants:
//! - a panic ends the process at once: the cluster survives a dead process, but not a faulty one;
//! - the first SIGTERM or SIGINT asks for a clean stop; the second ends the process without waiting for it.

use crate::failure::Failure;
use ramhold_runtime::{Exit, StopHandle};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::backtrace::Backtrace;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A shell reports a process that a signal ended by 128 and the signal's number.
const ENDED_BY_SIGNAL: i32 = 128;

/// From now on a panic prints where it was and aborts.
pub fn abort_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        crate::output::tell(&format!("ramhold: a bug in ramhold: {panic}\n{}", Backtrace::force_capture()));
        std::process::abort();
    }));
}

/// The loops of a process that a wish to stop reaches, also those that are started later.
#[derive(Clone, Default)]
pub struct Stops(Arc<Mutex<Stopping>>);

#[derive(Default)]
struct Stopping {
    handles: Vec<StopHandle>,
    is_stopping: bool,
}

impl Stops {
    /// For a process with one loop.
    pub fn of(handle: StopHandle) -> Stops {
        let stops = Stops::default();
        stops.enter(handle);
        stops
    }

    /// Whether the loop may go on: nobody wants the process to stop yet.
    pub fn enter(&self, handle: StopHandle) -> bool {
        let mut stopping = self.stopping();
        stopping.handles.push(handle);
        !stopping.is_stopping
    }

    pub fn stop(&self) {
        let mut stopping = self.stopping();
        stopping.is_stopping = true;
        stopping.handles.iter().for_each(StopHandle::stop);
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping().is_stopping
    }

    fn stopping(&self) -> MutexGuard<'_, Stopping> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Feeds the first SIGTERM or SIGINT to the loops as a wish to stop; the second ends the process where it stands.
pub fn stop_on_signal(stops: Stops) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Failure::usage(format!("cannot watch for signals: {error}")))?;
    let watch = move || {
        let mut is_stopping = false;
        for signal in signals.forever() {
            if is_stopping {
                crate::output::tell("ramhold: the second signal; ending at once");
                std::process::exit(ENDED_BY_SIGNAL + signal);
            }
            is_stopping = true;
            stops.stop();
        }
    };
    let thread = std::thread::Builder::new().name("ramhold-signals".to_owned()).spawn(watch);
    thread.map(drop).map_err(|error| Failure::usage(format!("cannot start a thread: {error}")))
}

/// SIGHUP would end the process. From now on it is told that none of its options change while it runs.
pub fn stay_on_hangup(what: &'static str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("cannot watch for SIGHUP: {error}"));
    let mut signals = Signals::new([SIGHUP]).map_err(failed)?;
    let watch = move || {
        for _ in signals.forever() {
            crate::output::tell(&format!(
                "ramhold: SIGHUP: no option of a {what} changes while it runs; start it again"
            ));
        }
    };
    std::thread::Builder::new().name("ramhold-hangup".to_owned()).spawn(watch).map(drop).map_err(failed)
}

/// Stops this process when the one that started it ends, however that ends. `parent` is who started it, as it says.
pub fn end_with(parent: u32) -> Result<(), Failure> {
    let failed = |what: String| Failure::usage(format!("cannot tie this process to its parent: {what}"));
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| failed(error.to_string()))?;
    // The parent may have ended before the signal was requested. Then this process has another parent.
    let present = getppid().map(Pid::as_raw_nonzero).map(|pid| pid.get().unsigned_abs());
    if present == Some(parent) { Ok(()) } else { Err(failed(format!("process {parent} is gone"))) }
}

/// Where a process of this host is reached that listens at an address. The kernel sends that over loopback, too.
pub fn loopback(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

/// The exit status of a child as a shell tells it.
pub fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| ENDED_BY_SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// How the end of a machine becomes the end of its process.
pub fn ended(exit: Exit) -> Result<(), Failure> {
    match exit.code {
        0 => Ok(()),
        code => Err(Failure::new(code, exit.reason)),
    }
}

/// Anybody who can connect can read, write and pretend to be a server, so by default nobody from outside can.
pub fn check_exposure(addresses: &[SocketAddr], is_allowed: bool) -> Result<(), Failure> {
    let exposed = addresses.iter().find(|address| !address.ip().is_loopback());
    match exposed {
        Some(address) if !is_allowed => Err(Failure::usage(format!(
            "{address} is reachable from other machines, there is no encryption yet, and accounts bind Redis clients alone: \
             everybody who reaches it can read and change everything; use a loopback address, \
             or give --insecure-network if the network keeps strangers out"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_allowed_unasked() {
        let inside: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let outside: SocketAddr = "0.0.0.0:1".parse().unwrap();
        assert!(check_exposure(&[inside, "[::1]:1".parse().unwrap()], false).is_ok());
        let refused = check_exposure(&[inside, outside], false).unwrap_err();
        assert!(refused.text().contains("0.0.0.0:1") && refused.text().contains("--insecure-network"));
        assert!(check_exposure(&[outside], true).is_ok());
    }
}
