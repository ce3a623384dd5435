//! The clients of this server, and the commands about them, about the process and about the cluster.
//!
//! A `Client` is what a connection's commands can see and change of the connection: name, database, protocol,
//! subscriptions, transaction. All clients are in one list, so that a command may look at the others.
//!
//! Nothing here reads or writes an object, and nothing waits. A command either writes its reply, or returns
//! what it has asked of other servers (`pubsub::Asked`).
//!
//! Not here: requests that are under way and the order of replies (`ordering`).

pub mod acl;
pub mod asker;
pub mod block;
pub mod client;
pub mod client_command;
pub mod cluster;
pub mod denials;
pub mod greeting;
pub mod immediate;
pub mod info;
pub mod latency;
pub mod list;
pub mod pubsub;
pub mod replies;
pub mod settings;
pub mod slowlog;
pub mod subscriptions;
pub mod timings;
