//! The log-structured memory of one shard: seglets, segments, entries, streams and the index.
//!
//! All data of a shard lies in one region of DRAM, cut into *seglets*. A *segment* is a chain of seglets that fills
//! from the front with *entries*; an entry is never changed. Several *streams* share the region and one *index*,
//! which leads from a key to its newest entry. The bytes of a segment are the same in DRAM, on the wire and on the
//! backups, so replication reads them directly from here.
//!
//! ```text
//!   kind, older ── entry ── reader ── opening             the bytes (docs/formats/log.md)
//!                    │
//!           free ── memory ── segment, pieces              their places in memory
//!                    │
//!                   log ── stream, replay, sweep            their meaning; index, tombstones, results
//!                    │       ├─ stats ── profile ── will    their weight, and its distribution
//!                    │       ├─ ranges ── divide, intake    entries of another log's segment, and their owners
//!                    │       └─ stamped ── adopt            values of quorum tables, in the log of a brick
//!                    │
//!                  scrub ── repair, loss                   damage in memory
//! ```
//!
//! Not here: sending bytes to backups (replication), ownership of keys (master), time and chance (handed in).
//! Catalogue: C1, C2, C3, C4. Source: SOSP11 2.5, TUT15 Part III.

mod adopt;
mod awaiting;
mod choose;
mod combine;
mod commit;
mod compact;
mod divide;
mod entry;
mod expiry;
mod free;
mod index;
mod intake;
mod kind;
mod log;
mod loss;
mod memory;
mod moving;
mod older;
pub mod opening;
mod pending;
mod pieces;
mod prefetch;
mod profile;
mod ranges;
mod reader;
mod reclass;
mod recount;
mod repair;
mod replay;
mod results;
mod scan;
mod scrub;
mod segment;
mod stamped;
mod stats;
mod stream;
mod sweep;
mod together;
mod tombstones;
mod will;

pub use adopt::{Adopting, HeldHashOf, NotAdopted};
pub use choose::{Choice, FRAMES_RUNWAY, HEADROOM_SEGMENTS, PASS_FRAMES, Plan, Wish};
pub use combine::Combined;
pub use commit::Change;
pub use compact::Compaction;
pub use divide::{NotEntries, divide};
pub use entry::{
    Damage, Digest, Entry, FORMAT, HEADER_BYTES, OBJECT_OVERHEAD_BYTES, Object, QUORUM_OVERHEAD_BYTES,
    QuorumRecord, RpcResult, SegmentHeader, Summaries, Summary, TabletStat, TabletStats, Tombstone,
    VERSION_MAX,
};
pub use expiry::EndedKey;
pub use index::Cursor;
pub use intake::{INTAKE_SLICE_BYTES, IntakeStop};
pub use kind::{Alive, KIND_NUMBER_MAX, KINDS, Kind, KindRow, Partition, RESERVED};
pub use log::{
    AppendRefusal, Found, Geometry, Log, LogConfig, OutOfMemory, Purpose, Removal, Unreadable, Usage, Written,
};
pub use loss::Lost;
pub use memory::Reference;
pub use moving::{Grant, HashOf, LOOK_COST, Moved, Step};
pub use older::{OBJECT_OLDER_COUNT_MAX, OlderList, TOMBSTONE_OLDER_COUNT_MAX};
pub use pending::Awaited;
pub use pieces::{PieceIter, Pieces};
pub use prefetch::PREFETCH_COUNT_MAX;
pub use ranges::Ranges;
pub use reader::{CorruptEntry, EntryReader};
pub use reclass::{CopyStop, GATHER_COUNT_MAX};
pub use repair::Repaired;
pub use replay::Replayed;
pub use results::{LEASE_COUNT_MAX, Recalled, Remembered};
pub use scan::{Scanned, Shown, Walked};
pub use scrub::{ScrubCursor, Scrubbed};
pub use segment::SegmentInfo;
pub use stamped::Newest;
pub use stats::HashRange;
pub use stream::SideId;
pub use together::{SoughtKey, TOGETHER_COUNT_MAX};
