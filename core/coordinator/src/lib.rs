//! Membership, tables and recovery: the one authority on which servers are alive and who owns which tablet.
//!
//! The coordinator is a process of its own, not on the data path. All of its state is in a store (`state`), and no
//! message that depends on a change leaves before the change is durable (`outbox`). The state says what is wanted. Each
//! part compares that with what has been reached, sends the one next message, and repeats the message until it is
//! answered.
//!
//! The parts lie in layers, and a file imports only what lies below it. Each part owns its state and is lent the `desk`:
//! the state, the clock, and the way out.
//!
//! Not here: the store itself (only `Effect::Store`), the servers' side of each conversation.
//! Protocols: docs/protocols/membership.md, docs/protocols/recovery.md. Format: docs/formats/store.md.
//! Catalogue: B1, B3, A1, F1-F3, F5-F7, D8, G1.

// The base of all others, lowest first.
mod asked;
mod choosing;
mod claims;
mod clock;
mod config;
mod retry;
mod weight;

mod cut;
mod divide;
mod leading;
mod pieces;
mod prove;
mod records;
mod roster;
mod state;

mod desk;
mod list;
mod neighbours;
mod outbox;

// Functions that need the desk alone.
mod earlier;
mod gone;
mod home;
mod losses;
mod shortage;
mod streams;
mod timeline;

mod confirmed;
mod forgetting;
mod full;
mod leases;
mod links;
mod progress;
mod read_leases;

// Recoveries.
mod departed;
mod inquiry;
mod plan;
mod recovery;
mod rooms;
mod watching;

mod recoveries;

mod accept;
mod kept;
mod levelling;
mod planning;
mod publish;
mod replaying;
mod room;
mod steps;
mod turns;

// Tables.
mod division;
mod reclassing;
mod tables;
mod tablets;
mod updates;
mod weighing;

// Accounts.
mod accounts;

// Bricks.
mod assignment;
mod bricks;
mod calling_back;
mod loads;
mod moving;
mod quorum_tables;
pub mod shares;
mod stalls;
mod taking;

// Servers.
mod copies;
mod death;
mod enlist;
mod verify;

// The whole.
mod machine;
mod parts;
mod rebuild;
mod reign;
mod replacing;
mod replies;
mod requests;
mod scaling;
mod seen;
mod status;

pub use clock::Clock;
pub use config::{CoordinatorConfig, Rebuild};
pub use cut::DeadTablet;
pub use divide::{Bounds, Spare, cut_on, divide};
pub use machine::Coordinator;
pub use prove::{
    Evidence, HeldReplica, Missing, Proof, SegmentProof, Source, StreamLoss, StreamProof, prove,
};
pub use records::{
    AccountRecord, BrickRecord, EndRecord, GivingRecord, Key, LeaseRecord, Meta, QuorumTableRecord,
    QuorumTabletRecord, RecoveryRecord, ServerRecord, StreamRecord, TableRecord, TabletRecord, UpdateRecord,
    UpdateResult,
};
pub use seen::CoordinatorSeen;
pub use state::{LoadError, State, term_record};
