//! The role brick: holds tablets of quorum tables, answers sessions about their keys, and outlives its restarts.
//!
//! A brick keeps its values in a log of its own, whose segments are on the backup of its own process and nowhere else. No
//! coordinator recovers them: a brick that starts again takes its log over as it stands, and serves. Reads repair
//! whatever it missed meanwhile. Its losses are rebuilt from the other bricks of its tablets, and until then it
//! does not vote.
//!
//! ```text
//!   session ── ask ── queues: turns and bounds ─┐
//!         ┌─────────────────────────────────────┘
//!         └── tables: register of the tablet (core/quorum) ── store: log, applied set
//!                                                                       │ replication
//!   session ── page ── scanning: newest records of a stretch of keys ─────┤
//!   siblings: pages told and asked for ── rebuild ──▶ store
//!   start: adopts the log ◀── own backup (frames, buffers) ◀────────────┘
//!   state: id, life, tables, tablets, siblings' lives ── state_file
//! ```
//!
//! Invariants:
//! - the number of this life is on the device before anything is answered;
//! - a tablet of which something may be missing neither answers nor stores;
//! - everything that was found at the start is on the device before the first answer.
//!
//! Not here: the rules of the register (core/quorum), frames and buffers (core/backup).
//! Protocol: docs/protocols/quorum.md. Catalogue: I1, I2, I5, I6.

mod announcing;
mod answering;
mod asking;
mod beginning;
mod behind;
mod brick;
mod changes;
mod cleaning;
mod clock;
mod closing;
mod config;
mod consents;
mod counts;
mod curing;
mod dropped;
mod dropping;
mod events;
mod forgetting;
mod graves;
mod judging;
mod load;
mod load_report;
mod loading;
mod measuring;
mod opening;
mod orders;
mod pages;
mod phase;
mod question;
mod queues;
mod rebuild;
mod replica;
mod requests;
mod restarting;
mod scanning;
mod siblings;
mod silence;
mod stale;
mod stall_report;
mod stalling;
mod stand_in;
mod start;
mod state;
mod state_file;
mod statistics;
mod status;
mod store;
mod stretch;
mod sweep;
mod sweeping;
mod tables;
mod tablet_load;
mod taking;
mod telling;
mod unopened;
mod words;

pub use brick::Brick;
pub use config::BrickConfig;
pub use load::RestartLoad;
pub(crate) use question::Value;
// Simulations of other media drive the queues, and compare the bricks.
pub use measuring::Measuring;
pub use question::{Asker, Load};
pub use queues::{Queued, Queues, SHARES};
pub use replica::FoundReplica;
pub use state::{
    BrickState, LifeState, SiblingState, StreamState, TableState, TabletState, is_brick_directory,
};
pub use state_file::is_of_state;
pub use statistics::{Average, BrickStatistics, ClassStatistics, STATISTIC_COUNT};
pub use taking::NotTaken;
