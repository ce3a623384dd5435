//! Replicas of other servers' segments: a storage server's second role.
//!
//! A backup takes appends from masters into buffers that outlive the process, and copies them to its device a little
//! later. After a master's death it reports the master's replicas, reads them, and divides their records among the
//! recovery masters. It also owns the superblock, the identity of the data directory, even on servers that take no
//! replicas.
//!
//! Every disk operation is an effect with a token. No request is answered before the disk operations are complete on
//! which the answer rests.
//!
//! Not here: choosing backups (placement), a master's use of answers (replication), proving a log complete
//! (coordinator). Protocols: docs/protocols/replication.md, docs/protocols/recovery.md. Bytes: docs/formats/replica.md.
//! Catalogue: D1, D6-D9, F2, F4, F9.

// The machine, and the values that it lends to its parts.
mod audit;
mod backup;
mod config;
mod device;
mod life;
mod request;

// The directory, and the operations on its device.
mod directory;
mod disk;
mod superblock;
mod superblock_file;

// Replicas: names, places, stages, the table of all.
mod certificate;
mod keys;
mod place;
mod replica;
mod replicas;

// The life of a replica: appends, flushes, room on the device, freeing.
mod append;
mod flush;
mod flush_queue;
mod growth;
mod settle;
mod space;

// The start.
mod start;

// Questions to masters, and reads for them.
mod collection;
mod replica_read;

// Recovery of a dead server: fence, report, divided segments.
mod content;
mod fence;
mod grants;
mod recovery_read;
mod work;

pub use audit::ReplicaState;
pub use backup::Backup;
pub use config::{BackupConfig, Buffers};
pub use superblock::Identity;
