//! All clients of this server, with everything that they have in common.

use super::client::Client;
use super::subscriptions::Subscribers;
use super::timings::Timings;
use ramhold_base::map::FastMap;
use ramhold_base::{ConnId, Instant};
use ramhold_wire::pubsub::Publish;

pub struct Clients {
    pub all: FastMap<ConnId, Client>,
    last_id: u64,
    pub subscribers: Subscribers,
    /// Messages of transactions that have taken effect. They go out before the step ends.
    pub publications: Vec<Publish>,
    pub timings: Timings,
}

impl Clients {
    pub fn new(timings: Timings) -> Clients {
        Clients {
            all: FastMap::default(),
            last_id: 0,
            subscribers: Subscribers::default(),
            publications: Vec::new(),
            timings,
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

    /// Enters a new client. `is_known`: it need not give a password.
    pub fn enter(&mut self, now: Instant, conn: ConnId, is_known: bool) {
        self.last_id += 1;
        self.all.insert(conn, Client::new(self.last_id, now, is_known));
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
