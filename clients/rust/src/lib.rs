//! Talks to a Ramhold cluster from ordinary blocking code.
//!
//! A [`Client`] belongs to one thread and has its own connections; make one client per thread. Every
//! operation ends in one of three ways: done, refused (surely without effect) or unknown. An [`Error`] says
//! which. Nothing panics. A mutation is repeated until it is answered, and takes effect once, however often
//! it is repeated. It ends as unknown only when its time is over, or when the client stood still for longer
//! than its lease.
//!
//! ```no_run
//! use ramhold_client::{Client, Error, RejectRules};
//!
//! fn main() -> Result<(), Error> {
//!     let mut client = Client::connect("127.0.0.1:7400")?;
//!     let table = client.table("users")?;
//!     let version = client.put(table, b"alice", b"1")?;
//!     let object = client.get(table, b"alice")?.expect("it was just written");
//!     assert_eq!((object.version, &object.value[..]), (version, &b"1"[..]));
//!
//!     // Only if nobody has changed it meanwhile.
//!     let unchanged = RejectRules { version_other_than: Some(version), ..RejectRules::default() };
//!     match client.put_if(table, b"alice", b"2", unchanged) {
//!         Ok(version) => println!("written as {version}"),
//!         Err(Error::Refused { status, .. }) => println!("not written: {status}"),
//!         Err(Error::Unknown { detail, .. }) => println!("perhaps written: {detail}"),
//!         Err(error) => return Err(error),
//!     }
//!     Ok(())
//! }
//! ```
//!
//! An object may have a time to live:
//! `client.put_with(table, key, value, PutOptions::default().time_to_live(Duration::from_secs(30)))`. When
//! this time is over, the object is as if it had been removed, and versions go on growing.
//!
//! An object may be a counter: `client.increment(table, b"visits", 1)` returns the sum. The increment counts
//! once, however often it had to be sent. The value is the number as decimal text.
//!
//! Many objects at once: [`Client::multi_read`], [`Client::multi_write`], [`Client::multi_remove`],
//! [`Client::multi_increment`], and [`Client::multi`] for any mixture. The operations for one server travel
//! in one frame. Each part has its own result, and takes effect once. Fastest of all reads many keys:
//! [`Client::read_keys`], and [`Client::submit_reads`] without waiting.
//!
//! Several objects as one: [`Client::commit`] checks and changes all of them or none, if they are on one
//! server. In a table by slots, objects with the same `{tag}` in their keys always are.
//!
//! A whole table: [`Client::scan`] returns its objects one by one. [`Client::scan_page`] returns one page and
//! the cursor where the next page begins, which may be kept as text. An object that exists all the time is
//! returned once, whatever fails meanwhile.
//!
//! The number of objects in a table: [`Client::count`], without going through them.
//!
//! A table that is held by bricks is read and written in the same way, without conditions. A put or a removal
//! whose outcome is unknown has a token in its error: [`Client::resume`] settles it, also in another process.
//!
//! Many operations under way: [`Client::submit`] starts them, [`Client::wait_any`] returns the next one that
//! has ended.
//!
//! Not here: which message goes to which process, and which messages are repeated (`core/client`).

mod address;
mod client;
mod commit;
mod difference;
mod error;
mod multi;
mod scan;

pub use address::{PORT_DEFAULT, parse_addresses};
pub use client::{Client, Object, Options, PutOptions};
pub use difference::TableDifference;
pub use error::Error;
pub use scan::Scan;

// How connections are opened.
pub use ramhold_runtime::Transport;

// The types of operations, outcomes and answers.
pub use ramhold_base::{
    ClusterTime, DirectoryId, KeyHash, Number, RecoveryId, ServerId, Status, TableId, Version,
};
pub use ramhold_client_core::{
    Cause, CommitAction, CommitItem, DomainLevel, Expiry, Keys, NoCursor, NoToken, Objects, Operation,
    OperationId, Outcome, Page, PageLimits, ReadObject, RejectRules, Reply, ScanCursor, ScannedObject,
    Shortage, TableChange, TableCount, Token, WhichTable,
};
pub use ramhold_wire::accounts::{Account, AccountObstacle, AccountSet, Accounts, AccountsChanged, Presence};
pub use ramhold_wire::brick_status::{
    AsksStatus, BrickEvent, BrickEventsTold, BrickLimit, BrickStatus, RebuildObstacle, RebuildStatus,
    RefusingStatus, SiblingStatus, StalledStatus, SweepStatus, TabletStatus,
};
pub use ramhold_wire::copies::{StatePart, StatePosition, StateRecord};
pub use ramhold_wire::membership::{Durability, Label, ServerEntry, ServerState};
pub use ramhold_wire::obstacle::{EndedScaling, Obstacle, ObstacleKind, ScaleWay, Scaling, ScalingEnd};
pub use ramhold_wire::quorum::{
    BrickPlace, BrickReplace, BrickReplaced, BrickScale, BrickScaled, BrickTablet, Giving, QuorumOptions,
    ScaleOrder, WriteProtocol,
};
pub use ramhold_wire::status::{
    AwayReport, BackupReport, BackupStatus, BrickReport, CleaningStatus, ClearedReport, ClusterStatus,
    CopyingStatus, GoneReport, LossAccepted, LossReport, PartReport, Pong, ProcessStatus, ReadLeaseStatus,
    RecoveryPhase, RecoveryReport, RecoverySteps, ResultsStatus, ScrubStatus, SilentLink, StreamStatus,
    WorkReport,
};
pub use ramhold_wire::table::{
    LeftOpen, TableDescription, TableOptions, TableSummary, TabletDescription, TabletState,
};
