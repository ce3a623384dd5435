//! The master, a role of a storage server: owns tablets, keeps their objects in its log, and replays the logs of dead
//! servers.
//!
//! Every mutation takes one path: recall of its result, tablet, client lease, reject rules, one group at the head of
//! the tablet's stream, index, replication. Its answer is parked until the stream is durable up to the group. An answer
//! that tells of an entry that is not durable yet waits in the same way, so nobody ever sees data that a crash could
//! take back.
//!
//! Invariants:
//! - an answer that depends on an entry leaves only when R backups have that entry;
//! - a tablet is served only after the coordinator has been told where it starts and has agreed;
//! - a version is handed out once: versions only grow for a key, and stay below the ceiling that the coordinator keeps.
//!
//! Not here: bytes of entries (log), sending them to backups (replication), holding others' replicas (backup).
//! Catalogue: A2, A3, A4, B2, B3, C1, D1, F4, F5. Protocols: docs/protocols/replication.md, docs/protocols/recovery.md.

mod admit;
mod answered;
mod answers;
mod calls;
mod ceiling;
mod cleaning;
mod commit;
mod config;
mod confirm;
mod count;
mod division;
mod expire;
mod expiry;
mod increment;
mod leases;
mod local;
mod master;
mod multi;
mod objects;
mod owner;
mod parked;
mod prefetch;
mod read_lease;
mod reclassing;
mod repair;
mod replay;
mod requests;
mod scan;
mod service;
mod settling;
mod status;
mod sweeps;
mod tablets;
mod takes;
mod together;

pub use config::{
    DISK_EXPANSION, MasterConfig, PROFILE_PER_MILLE, RECLASSING_STRETCH_BYTES, SCRUB_BYTES_PER_SECOND,
};
pub use master::Master;
pub use prefetch::Wanted;
pub use ramhold_replication::Event;
pub use ramhold_shard::CleaningCounters;
pub use requests::MasterRequest;
pub use status::TabletSeen;
