//! Replicas of other servers' segments: a storage server's second role.
//!
//! A backup takes appends from masters into buffers that outlive the process, copies them to its device a little later,
//! and after a master's death tells what it holds, reads it, and divides it among those who take over. It also owns the
//! superblock, the identity of the data directory, on servers that take no replicas as well.
//!
//! Everything that touches a disk is an effect with a token; nothing is answered before the completions that it rests on.
//!
//! Not here: choosing backups (placement), what a master does with answers (replication), proving a log complete
//! (coordinator). Protocols: docs/protocols/replication.md, docs/protocols/recovery.md. Bytes: docs/formats/replica.md.
//! Catalogue: D1, D6-D9, F2, F4, F9.

mod backup;
mod config;
mod superblock;

mod certificate;
mod place;
mod replica;
mod space;

mod append;
mod collection;
mod content;
mod disk;
mod fence;
mod flush;
mod growth;
mod marks;
mod recovery_read;
mod replica_read;
mod start;
mod work;

pub use backup::{Backup, ReplicaState};
pub use config::{BackupConfig, Buffers};
pub use marks::MARKS;
pub use superblock::Identity;
