//! Commands that read or write data, from their first request to their reply.
//!
//! A command is one of four kinds of work. A `FastWork` is one operation for each key. A `Transact` runs
//! handlers over keys that it reads and writes optimistically. A `QuorumWork` runs a handler over keys of a quorum
//! table. A `Walk` goes over a whole table. Each work owns its progress. It is begun once, takes one answer after another, and says when its reply is written.
//!
//! Not here: when a command may begin, and when its reply goes out (`ordering`). Nothing here knows the
//! other commands of the connection.

pub mod commit;
pub mod exec;
pub mod fast;
pub mod keyspace;
pub mod quorum;
pub mod transact;
