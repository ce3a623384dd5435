//! Finds where a server answers differently from redis-server.
//!
//! Random commands on few keys, so that they meet each other, go to both servers on connections side by side.
//! Every reply is compared. The commands come in episodes of some hundred steps that begin with the same
//! empty keys. The seed, the connection's number and the episode's number alone decide an episode. If replies
//! differ, the episode is made shorter as long as they still differ.
//!
//! Invariants:
//! - what a step asks does not depend on any answer, so an episode can be played again
//! - a reply is the same to the byte, or the comparison says why not (`compare`: what two redis-servers would
//!   answer differently, too; docs/redis-differences.md: what Ramhold answers otherwise on purpose)
//!
//! Not here: collections, blocking commands, redis-servers in cluster mode, and the ends of servers.

pub mod compare;
pub mod differences;
pub mod episode;
pub mod generate;
pub mod link;
pub mod ramhold;
pub mod redis;
pub mod reply;
pub mod rights;
pub mod run;
pub mod shrink;
pub mod step;
