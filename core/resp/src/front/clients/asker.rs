//! The facts about a client on which the reply to its command may depend.
//!
//! They are copied, so that a command can look at all clients and change them.

use super::client::Client;
use crate::Protocol;
use ramhold_base::ConnId;

#[derive(Clone, Copy, Debug)]
pub struct Asker {
    pub conn: ConnId,
    pub protocol: Protocol,
    pub db: u16,
    pub is_subscribed: bool,
    pub is_of_cluster: bool,
    /// The port of this process that the client came to. 0: unknown.
    pub own_port: u16,
}

impl Asker {
    pub fn of(conn: ConnId, client: &Client) -> Asker {
        Asker {
            conn,
            protocol: client.protocol,
            db: client.db,
            is_subscribed: client.is_subscribed(),
            is_of_cluster: client.is_of_cluster,
            own_port: client.addresses.map_or(0, |(_, own)| own.port()),
        }
    }

    /// The asker of a command within `EXEC`: the reply does not depend on what the client is.
    pub fn in_exec(conn: ConnId, db: u16, protocol: Protocol) -> Asker {
        Asker { conn, protocol, db, is_subscribed: false, is_of_cluster: false, own_port: 0 }
    }
}
