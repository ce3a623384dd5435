//! Waits for sockets, and lets other threads wake the loop.
//!
//! Polling is level-triggered: a socket that was not read or written in this turn is reported again in the
//! next.

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Events taken from the kernel in one call; more are told in the next turn.
const EVENT_COUNT_MAX: usize = 256;

pub(crate) use epoll::EventFlags as Interest;

/// One event: the key of who registered, and what can be done.
#[derive(Clone, Copy)]
pub(crate) struct Ready {
    pub key: u64,
    pub flags: Interest,
    /// The poller says so. Otherwise it was found in shared memory.
    pub polled: bool,
}

pub(crate) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(crate) fn new() -> rustix::io::Result<Poller> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll })
    }

    pub(crate) fn add(&self, source: impl AsFd, key: u64, interest: Interest) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, source, epoll::EventData::new_u64(key), interest)
    }

    pub(crate) fn modify(&self, source: impl AsFd, key: u64, interest: Interest) -> rustix::io::Result<()> {
        epoll::modify(&self.epoll, source, epoll::EventData::new_u64(key), interest)
    }

    /// Waits at most `wait` (none: for ever) and appends to `ready` what is ready.
    pub(crate) fn wait(&self, wait: Option<Duration>, ready: &mut Vec<Ready>) -> rustix::io::Result<()> {
        // A wait that is too long for a Timespec becomes a wait without a timeout.
        let timeout = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENT_COUNT_MAX];
        let (events, _) = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok(filled) => filled,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error),
        };
        ready.extend(events.iter().map(|event| Ready {
            key: event.data.u64(),
            flags: event.flags,
            polled: true,
        }));
        Ok(())
    }
}

/// Wakes a loop out of its sleep; of many calls before the loop looks, one writes to the kernel.
///
/// Protocol: whoever has something for the loop makes it visible (sends it, sets its flag) and then calls `wake`;
/// the loop calls `clear` and then looks. So either the loop sees it, or it is woken once more.
pub(crate) struct Waker {
    event: OwnedFd,
    woken: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> rustix::io::Result<Waker> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Waker { event, woken: AtomicBool::new(false) })
    }

    /// May be called from any thread and from a signal handler.
    pub(crate) fn wake(&self) {
        if !self.woken.swap(true, Ordering::SeqCst) {
            // This fails only when the counter is full, and then the loop is already awake.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    pub(crate) fn clear(&self) {
        let mut count = [0; 8];
        // If there is nothing to read, another thread's wake is still on its way. The poller will report it.
        let _ = rustix::io::read(&self.event, &mut count);
        self.woken.store(false, Ordering::SeqCst);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.event.as_fd()
    }
}
