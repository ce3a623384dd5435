//! Finds where a server answers otherwise than redis-server does.
//!
//! Random commands on few keys, so that they meet each other, go to both servers on connections side by side, and every
//! reply is compared. They come in episodes of some hundred steps that begin with the same empty keys and are decided by
//! the seed, the connection's number and the episode's number alone; an episode in which replies differ is made shorter
//! as long as they still do.
//!
//! Invariants:
//! - what a step asks does not depend on what was answered, so an episode can be played again
//! - a reply is the same to the byte, or the comparison says why not (`compare`: what two redis-servers would answer
//!   differently, too; docs/redis-differences.md: what Ramhold answers otherwise on purpose)
//!
//! Not here: collections, blocking commands, redis-servers in cluster mode, what happens when servers end.

pub mod compare;
pub mod differences;
pub mod episode;
pub mod generate;
pub mod link;
pub mod ramhold;
pub mod redis;
pub mod reply;
pub mod run;
pub mod shrink;
pub mod step;
