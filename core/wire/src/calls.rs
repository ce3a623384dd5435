//! The calls that a machine has made and that are not answered yet.
//!
//! Each call carries a context, which the caller gets back when the answer, the deadline or the loss of the
//! connection comes. Ids start at a random number, so that an answer to a call of an earlier life is not
//! taken for an answer to one of this life.
//!
//! Invariant: a call ends exactly once, by `answered`, `overdue` or `lost`.

use ramhold_base::map::FastMap;
use ramhold_base::{Instant, RpcId};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// One unanswered call.
#[derive(Clone, Debug)]
pub struct Call<T> {
    pub addr: SocketAddr,
    pub sent: Instant,
    pub deadline: Instant,
    pub context: T,
}

/// Calls that nothing will answer any more.
#[derive(Clone, Copy, Debug)]
pub enum Gone<'a> {
    /// All calls to this address: its connection is lost.
    Address(SocketAddr),
    /// Calls that went over a path which is silent, while another path to the same server works. They are to be made
    /// again, and say nothing of the server.
    OverPath(&'a [RpcId]),
}

impl Gone<'_> {
    /// Whether the server itself may be gone.
    pub fn is_suspicious(self) -> bool {
        matches!(self, Gone::Address(_))
    }
}

#[derive(Debug)]
pub struct Calls<T> {
    /// The top byte is the role's number.
    next: u64,
    open: FastMap<RpcId, Call<T>>,
    by_deadline: BTreeSet<(Instant, RpcId)>,
}

const ROLE_SHIFT: u32 = 56;

/// The parts of a process that make calls. Their numbers are in the ids of their calls, so that each answer finds its
/// caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CallRole {
    /// The process as a whole: a server's node, or the coordinator.
    Process = 1,
    Backup = 2,
    Replicator = 3,
    Master = 4,
    /// The client session of the Redis front.
    Front = 5,
    /// The Redis front's calls to other servers.
    Peers = 6,
    Brick = 7,
    Supervisor = 8,
    /// The session of a client that is a process of its own, or a part of one.
    Client = 0xC1,
}

impl CallRole {
    const ALL: [CallRole; 9] = [
        CallRole::Process,
        CallRole::Backup,
        CallRole::Replicator,
        CallRole::Master,
        CallRole::Front,
        CallRole::Peers,
        CallRole::Brick,
        CallRole::Supervisor,
        CallRole::Client,
    ];

    /// The role whose call an answer is for. `None`: no part of this process made it.
    pub fn of(rpc: RpcId) -> Option<CallRole> {
        let number = rpc.raw() >> ROLE_SHIFT;
        CallRole::ALL.into_iter().find(|role| *role as u64 == number)
    }

    /// The first id of this life: a number made from the role and `random`.
    pub fn first_id(self, random: u64) -> u64 {
        (self as u64) << ROLE_SHIFT | (random >> 16)
    }
}

impl<T> Calls<T> {
    /// The ids of this life begin at a number made from `role` and `random`.
    pub fn new(role: CallRole, random: u64) -> Calls<T> {
        Calls { next: role.first_id(random), open: FastMap::default(), by_deadline: BTreeSet::new() }
    }

    /// Enters a call and gives it its id.
    pub fn open(&mut self, addr: SocketAddr, now: Instant, deadline: Instant, context: T) -> RpcId {
        let rpc = RpcId(self.next);
        self.next += 1;
        self.open.insert(rpc, Call { addr, sent: now, deadline, context });
        self.by_deadline.insert((deadline, rpc));
        rpc
    }

    /// Ends the call that this answer is for. `None`: the answer is late, doubled, or was never for a call of
    /// ours.
    pub fn answered(&mut self, rpc: RpcId) -> Option<Call<T>> {
        let call = self.open.remove(&rpc)?;
        self.by_deadline.remove(&(call.deadline, rpc));
        Some(call)
    }

    /// Ends one call whose deadline has come.
    pub fn overdue(&mut self, now: Instant) -> Option<Call<T>> {
        let (deadline, rpc) = *self.by_deadline.first()?;
        if deadline > now {
            return None;
        }
        self.answered(rpc)
    }

    /// Ends all calls to an address whose connection is gone, oldest first.
    pub fn lost(&mut self, addr: SocketAddr) -> Vec<Call<T>> {
        let mut ids: Vec<RpcId> =
            self.open.iter().filter(|(_, c)| c.addr == addr).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| self.answered(id)).collect()
    }

    /// Ends the calls that nothing will answer any more, oldest first.
    pub fn end(&mut self, gone: Gone<'_>) -> Vec<Call<T>> {
        match gone {
            Gone::Address(addr) => self.lost(addr),
            Gone::OverPath(rpcs) => rpcs.iter().filter_map(|rpc| self.answered(*rpc)).collect(),
        }
    }

    /// A call that is not answered yet.
    pub fn get(&self, rpc: RpcId) -> Option<&Call<T>> {
        self.open.get(&rpc)
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.by_deadline.first().map(|(at, _)| *at)
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_ends_exactly_once() {
        let a: SocketAddr = "10.0.0.1:1".parse().unwrap();
        let b: SocketAddr = "10.0.0.2:1".parse().unwrap();
        let mut calls = Calls::new(CallRole::Replicator, 99);
        let first = calls.open(a, Instant(0), Instant(10), "first");
        let second = calls.open(b, Instant(0), Instant(5), "second");
        let third = calls.open(b, Instant(0), Instant(20), "third");
        assert_eq!(CallRole::of(first), Some(CallRole::Replicator));
        assert_eq!(calls.deadline(), Some(Instant(5)));
        assert_eq!(calls.overdue(Instant(6)).map(|c| c.context), Some("second"));
        assert!(calls.overdue(Instant(6)).is_none());
        assert!(calls.answered(second).is_none());
        assert_eq!(calls.lost(b).len(), 1);
        assert!(calls.answered(third).is_none());
        assert_eq!(calls.answered(first).map(|c| c.context), Some("first"));
        assert!(calls.is_empty());
        assert_eq!(calls.deadline(), None);
    }
}
