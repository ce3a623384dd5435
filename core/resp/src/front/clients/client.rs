//! One client, as its commands see and change it.

use super::block::Block;
use super::replies::Replies;
use super::subscriptions::Subscriptions;
use crate::Protocol;
use ramhold_access::Member;
use ramhold_access::account::DEFAULT;
use ramhold_base::Instant;
use std::net::SocketAddr;
use std::sync::Arc;

#[derive(Debug)]
pub struct Client {
    pub id: u64,
    /// The address of the other side, and the address of this process that the client came to.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// The client came to the port for clients of Redis Cluster.
    pub is_of_cluster: bool,
    pub name: Vec<u8>,
    /// Name and version of the client's library.
    pub library: (Vec<u8>, Vec<u8>),
    pub protocol: Protocol,
    pub db: u16,
    pub admission: Admission,
    pub activity: Activity,
    /// The connection is closed when all replies have gone out.
    pub closes: bool,
    pub block: Block,
    pub subscriptions: Subscriptions,
    pub replies: Replies,
    pub no_evict: bool,
    pub no_touch: bool,
}

/// Whether a client is let in.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The account that the client has become, or is without saying so. `None`: it has to log in.
    pub member: Option<Arc<Member>>,
    /// Sweeps that met the connection before the client had logged in, and bytes of replies that it got
    /// until then.
    pub stranger_for: u8,
    pub stranger_bytes: usize,
}

/// The facts about a client's requests that `CLIENT LIST` tells.
#[derive(Clone, Copy, Debug)]
pub struct Activity {
    pub since: Instant,
    /// Time of the last request.
    pub last: Instant,
    /// Name of the last command.
    pub command: &'static str,
    pub commands: u64,
}

impl Client {
    pub fn new(id: u64, now: Instant, member: Option<Arc<Member>>) -> Client {
        Client {
            id,
            addresses: None,
            is_of_cluster: false,
            name: Vec::new(),
            library: Default::default(),
            protocol: Protocol::Resp2,
            db: 0,
            admission: Admission { member, stranger_for: 0, stranger_bytes: 0 },
            activity: Activity { since: now, last: now, command: "NULL", commands: 0 },
            closes: false,
            block: Block::default(),
            subscriptions: Subscriptions::default(),
            replies: Replies::Sent,
            no_evict: false,
            no_touch: false,
        }
    }

    pub fn is_known(&self) -> bool {
        self.admission.member.is_some()
    }

    /// The database of its next command. Within `MULTI` that is the one behind the last `SELECT`.
    pub fn database(&self) -> u16 {
        self.block.multi.as_ref().map_or(self.db, |multi| multi.db())
    }

    /// The name of its account, as other commands show it.
    pub fn user(&self) -> &str {
        self.admission.member.as_ref().map_or(DEFAULT, |member| member.name())
    }

    pub fn is_subscribed(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    /// Sets the client back to the state in which it began, as `RESET` does. Its subscriptions have ended
    /// before.
    pub fn reset(&mut self, member: Option<Arc<Member>>) {
        self.name.clear();
        self.protocol = Protocol::Resp2;
        self.db = 0;
        self.admission.member = member;
        self.block = Block::default();
        self.replies = Replies::Sent;
        self.no_evict = false;
        self.no_touch = false;
    }
}
