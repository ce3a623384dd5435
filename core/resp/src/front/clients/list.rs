//! All clients of this server, with everything that they have in common.

use super::client::Client;
use super::denials::Denials;
use super::subscriptions::Subscribers;
use super::timings::Timings;
use ramhold_access::Member;
use ramhold_base::map::FastMap;
use ramhold_base::{ConnId, Instant};
use ramhold_wire::pubsub::Publish;
use std::sync::Arc;

pub struct Clients {
    pub all: FastMap<ConnId, Client>,
    last_id: u64,
    pub subscribers: Subscribers,
    /// Messages of transactions that have taken effect. They go out before the step ends.
    pub publications: Vec<Publish>,
    pub timings: Timings,
    /// Requests that were refused for want of a right, and logins that failed.
    pub denials: Denials,
}

impl Clients {
    pub fn new(timings: Timings) -> Clients {
        Clients {
            all: FastMap::default(),
            last_id: 0,
            subscribers: Subscribers::default(),
            publications: Vec::new(),
            timings,
            denials: Denials::default(),
        }
    }

    pub fn get(&self, conn: ConnId) -> Option<&Client> {
        self.all.get(&conn)
    }

    pub fn get_mut(&mut self, conn: ConnId) -> Option<&mut Client> {
        self.all.get_mut(&conn)
    }

    /// The client whose request is being carried out.
    pub fn asking(&mut self, conn: ConnId) -> &mut Client {
        self.all.get_mut(&conn).expect("a connection has a client as long as it is heard")
    }

    /// Enters a new client. `member`: the account that it is without logging in.
    pub fn enter(&mut self, now: Instant, conn: ConnId, member: Option<Arc<Member>>) {
        self.last_id += 1;
        self.all.insert(conn, Client::new(self.last_id, now, member));
    }

    pub fn remove(&mut self, conn: ConnId) {
        self.leave_all(conn);
        self.all.remove(&conn);
    }

    /// Ends all subscriptions of a client.
    pub fn leave_all(&mut self, conn: ConnId) {
        if let Some(client) = self.all.get_mut(&conn) {
            self.subscribers.leave_all(conn, &mut client.subscriptions);
        }
    }
}
