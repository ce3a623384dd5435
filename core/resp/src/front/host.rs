//! The services that the front asks of the process around it.
//!
//! The front knows no other role. A server process lends it a `Host` in each step; tests lend it a stand-in.
//!
//! Not here: requests that go through the client session (`access`).

use ramhold_access::{AtOnce, Begun, Roster};
use ramhold_base::map::FastMap;
use ramhold_base::{Effects, Instant, KeyHash, SecretToken, ServerId, TableId};
use ramhold_wire::Header;
use ramhold_wire::local::{LocalAnswers, LocalRequest};
use ramhold_wire::status::ProcessStatus;
use std::net::{IpAddr, SocketAddr};

/// A client that says who it is.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// Where the client comes from, if that is known.
    pub address: Option<IpAddr>,
    pub name: &'a [u8],
    pub password: &'a [u8],
}

/// The services of the process around the front.
pub trait Host {
    /// Treats a request about an object of this process, if the object is one. The answer comes among
    /// `swap_answers`, at once or later. Refusals like `NotServed` come as statuses.
    fn treat(&mut self, now: Instant, request: &LocalRequest<'_>, ticket: u64, effects: &mut Effects);
    /// Says that requests about these keys follow, so that the host can already fetch their memory.
    fn prefetch(&self, table: TableId, keys: &mut dyn Iterator<Item = &[u8]>);
    /// Ends a series of requests that have `bytes` bytes together.
    fn finish(&mut self, now: Instant, bytes: u64, effects: &mut Effects);
    fn swap_answers(&mut self, answers: &mut LocalAnswers);
    /// Milliseconds since 1970, as the cluster counts them.
    fn time(&self, now: Instant) -> u64;
    fn status(&self, now: Instant) -> ProcessStatus;
    /// Number of objects of each table in this process. `None`: the number is unknown, because objects were
    /// lost.
    fn objects_by_table(&self) -> FastMap<TableId, Option<u64>>;
    /// First and last hash of each of the table's tablets that this process serves, in ascending order.
    fn ranges_served(&self, table: TableId) -> Vec<(KeyHash, KeyHash)>;
    /// Whether this process may still refuse commands for tablets that it serves, because the coordinator has
    /// not yet said that they are its own.
    fn has_unconfirmed(&self) -> bool;
    fn me(&self) -> ServerId;
    fn cluster(&self) -> u64;
    /// The servers of the cluster that serve, with their addresses.
    fn servers(&self) -> Vec<(ServerId, SocketAddr)>;
    /// The servers of `servers` that keep data, with their addresses.
    fn masters(&self) -> Vec<(ServerId, SocketAddr)>;
    /// The address at which a server hears clients of Redis Cluster alone. `None`: the server has no such
    /// port.
    fn cluster_address(&self, server: ServerId) -> Option<SocketAddr>;
    /// Where bricks listen that may describe quorum tables while the coordinator is away; not all of them.
    fn bricks(&self) -> Vec<SocketAddr>;
    /// The accounts that this process knows.
    fn roster(&self) -> &Roster;
    /// Begins a login with the name and the password that a client gave. The verdict comes at once, or later
    /// (`Resp::on_logins`).
    fn login(&mut self, now: Instant, attempt: Attempt<'_>, effects: &mut Effects) -> Begun;
    /// A login whose password is compared at once, unless the address was wrong too often.
    fn login_at_once(&mut self, now: Instant, address: Option<IpAddr>, is_right: &dyn Fn() -> bool)
    -> AtOnce;
    /// Asks for random bytes that nobody can guess. They come later (`Resp::on_random`).
    fn random(&mut self, bytes: u16, effects: &mut Effects) -> SecretToken;
    /// The header of a request to another server.
    fn to_server(&self, server: ServerId) -> Header;
}
