//! One simulated host: its clock, its files, its process, and the inputs that wait for the process.

use super::crash_point::CrashPoint;
use crate::disk::Disks;
use crate::secrets::Secrets;
use ramhold_base::{
    ConnId, DiskError, DiskToken, Input, Instant, Lost, Machine, SecretResult, SecretToken, StoreResult,
    StoreToken,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

/// One life of a process, as the factory of its machine sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    /// From 1.
    pub number: u64,
    /// The seed of the machine's own random numbers.
    pub seed: u64,
    /// Its store was lost before this life, or an earlier one.
    pub store_lost: bool,
}

/// A host's monotonic clock and wall clock, as functions of the world's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    /// The time that the monotonic clock shows at the world's time `since`, in nanoseconds.
    pub origin: u64,
    pub since: u64,
    /// The error of the clock's rate, in parts per million; above 0 it is too fast.
    pub rate_ppm: i32,
    pub wall_skew_millis: i64,
}

/// The wall clock when a world begins: 14 November 2023.
const WALL_START_MILLIS: u64 = 1_700_000_000_000;
const MILLION: i128 = 1_000_000;

impl Clock {
    /// Shows the world's own time.
    pub const TRUE: Clock = Clock { origin: 0, since: 0, rate_ppm: 0, wall_skew_millis: 0 };

    pub fn local(&self, world: u64) -> Instant {
        let passed = i128::from(world - self.since) * (MILLION + i128::from(self.rate_ppm)) / MILLION;
        Instant(self.origin + u64::try_from(passed).expect("a clock does not run backwards"))
    }

    /// The first time of the world at which the clock shows at least `local`.
    pub fn world(&self, local: Instant) -> u64 {
        if local.0 <= self.origin {
            return self.since;
        }
        let rate = MILLION + i128::from(self.rate_ppm);
        let passed = (i128::from(local.0 - self.origin) * MILLION + rate - 1) / rate;
        self.since.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    pub fn wall_millis(&self, world: u64) -> u64 {
        (WALL_START_MILLIS + world / 1_000_000).saturating_add_signed(self.wall_skew_millis)
    }
}

/// An input that waits, with its bytes.
#[derive(Debug)]
pub enum Pending {
    Start,
    Tick,
    Frame {
        from: ConnId,
        bytes: Vec<u8>,
    },
    /// All bytes that wait on this connection at the time when it is delivered.
    Bytes {
        from: ConnId,
    },
    Lost {
        addr: SocketAddr,
        how: Lost,
    },
    Closed {
        conn: ConnId,
    },
    Disk {
        token: DiskToken,
        result: Result<Vec<u8>, DiskError>,
    },
    Store {
        token: StoreToken,
        result: StoreResult,
    },
    Secret {
        token: SecretToken,
        result: SecretResult,
    },
    Stop,
}

impl Pending {
    /// For the trace: which kind, and how long its bytes are.
    pub fn shape(&self) -> (u64, u64) {
        match self {
            Pending::Start => (1, 0),
            Pending::Tick => (2, 0),
            Pending::Frame { bytes, .. } => (3, bytes.len() as u64),
            Pending::Lost { .. } => (4, 0),
            Pending::Closed { conn } => (5, conn.0),
            Pending::Disk { token, result } => {
                (6, token.0 ^ result.as_ref().map_or(u64::MAX, |b| b.len() as u64))
            }
            Pending::Store { token, .. } => (7, token.0),
            Pending::Stop => (8, 0),
            Pending::Bytes { from } => (9, from.0),
            // 10 is the end of a turn.
            Pending::Secret { token, .. } => (11, token.0),
        }
    }

    /// The input, and its bytes if they can be used again.
    pub fn with_input<R>(
        self,
        wall_millis: u64,
        use_it: impl FnOnce(Input<'_>) -> R,
    ) -> (R, Option<Vec<u8>>) {
        match self {
            Pending::Start => (use_it(Input::Start { wall_millis }), None),
            Pending::Tick => (use_it(Input::Tick), None),
            Pending::Frame { from, bytes } => (use_it(Input::Frame { from, bytes: &bytes }), Some(bytes)),
            Pending::Lost { addr, how } => (use_it(Input::Lost { addr, how }), None),
            Pending::Closed { conn } => (use_it(Input::Closed { conn }), None),
            Pending::Disk { token, result: Ok(bytes) } => {
                (use_it(Input::Disk { token, result: Ok(&bytes) }), Some(bytes))
            }
            Pending::Disk { token, result: Err(error) } => {
                (use_it(Input::Disk { token, result: Err(error) }), None)
            }
            Pending::Store { token, result } => (use_it(Input::Store { token, result }), None),
            Pending::Secret { token, result } => (use_it(Input::Secret { token, result }), None),
            Pending::Stop => (use_it(Input::Stop), None),
            Pending::Bytes { from } => (use_it(Input::Bytes { from, bytes: &[] }), None),
        }
    }
}

/// A host. `machine` is its process, none while it is down.
pub struct Node<M: Machine> {
    pub name: String,
    pub addr: SocketAddr,
    pub clock: Clock,
    pub disks: Disks,
    /// The store that its store effects go to.
    pub store: usize,
    /// The store was lost, before this life or an earlier one.
    pub store_lost: bool,
    /// Restarted by the world some time after its machine asked to exit.
    pub supervised: bool,
    pub machine: Option<M>,
    pub life: u64,
    pub powered: bool,
    pub(super) factory: Box<dyn FnMut(Life) -> M>,
    pub(super) inbox: VecDeque<Pending>,
    pub(super) wake_planned: bool,
    /// The end of the turn that the process is in is planned.
    pub(super) turn_planned: bool,
    pub(super) busy_until: u64,
    pub(super) stalled_until: u64,
    pub(super) secrets: Secrets,
    /// Works with passwords that are planned, and when the last of them will be done.
    pub(super) secrets_planned: u32,
    pub(super) secrets_busy_until: u64,
    /// The time at which the earliest planned timer fires.
    pub(super) timer_at: Option<u64>,
    /// By address, and whether it carries bytes.
    pub(super) outgoing: BTreeMap<(SocketAddr, bool), usize>,
    /// Connections with an open end here.
    pub(super) connections: BTreeSet<usize>,
    /// The process dies in the middle of a step, after this many further effects.
    pub(super) dies_after: Option<u32>,
    /// A process, as a rule this one, dies when this one reports a mark: a named crash point.
    pub(super) dies_at: Option<CrashPoint>,
    pub(super) last_tick: u64,
    pub(super) hasty_ticks: u32,
}

impl<M: Machine> Node<M> {
    pub fn is_up(&self) -> bool {
        self.machine.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_reached_early() {
        for rate_ppm in [-500, -1, 0, 1, 333] {
            let clock = Clock { origin: 12_345, since: 1000, rate_ppm, wall_skew_millis: 0 };
            for local in [12_345u64, 12_346, 99_999_999, 7_000_000_000_123] {
                let at = clock.world(Instant(local));
                assert!(clock.local(at) >= Instant(local));
                assert!(at == 1000 || clock.local(at - 1) < Instant(local));
            }
            assert!(clock.world(Instant::FAR) > 1 << 62);
        }
    }
}
