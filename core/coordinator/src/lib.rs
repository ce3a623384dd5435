//! Membership, tables and recovery: the one authority on which servers are alive and who owns which tablet.
//!
//! The coordinator is a process of its own, not on the data path. All of its state is in a store (`state`), and no
//! message that depends on a change leaves before the change is durable (`outbox`). The state says what is wanted. Each
//! part compares that with what has been reached, sends the one next message, and repeats the message until it is
//! answered.
//!
//! Not here: the store itself (only `Effect::Store`), the servers' side of each conversation.
//! Protocols: docs/protocols/membership.md, docs/protocols/recovery.md. Format: docs/formats/store.md.
//! Catalogue: B1, B3, A1, F1-F3, F5-F7, D8, G1.

mod accept;
mod asked;
mod clock;
mod config;
mod confirmed;
mod copies;
mod death;
mod desk;
mod links;
mod list;
mod machine;
mod outbox;
mod parts;
mod progress;
mod rebuild;
mod records;
mod state;

mod enlist;
mod gone;
mod streams;
mod verify;

mod leases;
mod surroundings;
mod tables;
mod tablets;
mod timeline;
mod turns;
mod updates;

mod cut;
mod departed;
mod divide;
mod division;
mod drops;
mod earlier;
mod full;
mod inquiry;
mod kept;
mod losses;
mod migration;
mod pieces;
mod plan;
mod planning;
mod prove;
mod publish;
mod read_leases;
mod recoveries;
mod recovering;
mod recovery;
mod reign;
mod replaying;

mod replies;
mod requests;
mod retry;
mod room;
mod rooms;
mod seen;
mod shortage;
mod status;
mod watching;
mod weighing;
mod weight;

pub use clock::Clock;
pub use config::{CoordinatorConfig, Rebuild};
pub use cut::DeadTablet;
pub use divide::{Bounds, divide};
pub use machine::Coordinator;
pub use prove::{
    Evidence, HeldReplica, Missing, Proof, SegmentProof, Source, StreamLoss, StreamProof, prove,
};
pub use records::{
    EndRecord, Key, LeaseRecord, Meta, RecoveryRecord, ServerRecord, StreamRecord, TableRecord, TabletRecord,
    UpdateRecord, UpdateResult,
};
pub use seen::CoordinatorSeen;
pub use state::{LoadError, State, term_record};
