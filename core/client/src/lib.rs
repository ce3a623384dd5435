//! One client's view of a cluster: sends operations to the servers that own the keys, and states reliably how
//! each ended.
//!
//! A `Session` is a machine without I/O: the blocking client, the simulator and the Redis front all drive the
//! same one. An operation ends as done, refused (surely without effect) or unknown. An operation whose effect
//! is unknown is never repeated.
//!
//! Not here: sockets and threads (`io/runtime`), waiting for an outcome (`clients/rust`). Catalogue: A1-A4,
//! B5, I1-I3, I5.

mod backoff;
mod bricks;
mod count;
mod keys;
mod operation;
mod outcome;
mod quorum;
mod scan;
mod search;
mod session;
mod tablets;
mod token;
mod trouble;

pub use count::TableCount;
pub use keys::Keys;
pub use operation::{CommitAction, CommitItem, Operation, OperationId, TableChange, WhichTable};
pub use outcome::{Cause, Objects, Outcome, ReadObject, Reply};
pub use scan::{NoCursor, Page, PageLimits, ScanCursor, ScannedObject};
pub use session::{Session, SessionConfig};
pub use token::{NoToken, Token};
// The most questions that one brick of a quorum table has at a time, of each class.
pub use ramhold_quorum::WINDOW_MOST;

// The parts of operations and replies.
pub use ramhold_wire::data::{Expiry, RejectRules};
pub use ramhold_wire::shortage::{DomainLevel, Shortage};
