//! Lets another thread look at the state of the loop: the thread asks, and the loop shows its state at its
//! next turn.
//!
//! Asking sets a flag and wakes the loop. Showing is a call on the loop's thread with the current state. So
//! no state is shared, the loop pays only when somebody asks, and a stuck loop is noticed because it shows
//! nothing.
//!
//! Invariant: a question that is asked while the loop turns is answered at this turn or the next one.

use crate::network::Stats;
use crate::poll::Waker;
use crate::polling::Polled;
use ramhold_base::{Instant, Latencies};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The loop's knowledge of itself, as it was at `at`.
#[derive(Clone, Debug)]
pub struct LoopSeen {
    pub at: Instant,
    pub network: Stats,
    /// Connections that are there now, accepted and opened.
    pub connections: usize,
    /// From the first thing that was taken in to the flush, of every turn that took something in.
    pub turns: Latencies,
    /// How the loop waits.
    pub polled: Polled,
    /// For how long its thread was ready to run while others had the cores. Zero: the system does not tell.
    pub waited: Duration,
    /// Processor time of the whole process.
    pub processor: Duration,
}

/// Asks the loop from any thread to show what it owns.
#[derive(Clone)]
pub struct AskHandle {
    asked: Arc<AtomicBool>,
    /// When the loop last woke, in nanoseconds of its clock.
    turned: Arc<AtomicU64>,
    waker: Arc<Waker>,
}

impl AskHandle {
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// When the loop last began a turn; one that sleeps because there is nothing to do may have done so long ago.
    pub fn last_turn(&self) -> Instant {
        Instant(self.turned.load(Ordering::Relaxed))
    }
}

/// Is called on the loop's thread; must not take long.
pub(crate) type Show<M> = Box<dyn FnMut(&M, LoopSeen) + Send>;

/// The loop's side.
pub(crate) struct Observer<M> {
    handle: AskHandle,
    show: Option<Show<M>>,
}

impl<M> Observer<M> {
    pub(crate) fn new(waker: Arc<Waker>) -> Observer<M> {
        let handle = AskHandle { asked: Arc::default(), turned: Arc::default(), waker };
        Observer { handle, show: None }
    }

    pub(crate) fn show_with(&mut self, show: Show<M>) -> AskHandle {
        self.show = Some(show);
        self.handle.clone()
    }

    pub(crate) fn turned(&self, now: Instant) {
        self.handle.turned.store(now.0, Ordering::Relaxed);
    }

    /// Who shows something, if somebody has asked since the last time.
    pub(crate) fn take_asked(&mut self) -> Option<&mut Show<M>> {
        if self.handle.asked.swap(false, Ordering::SeqCst) { self.show.as_mut() } else { None }
    }
}
