//! Every maximum of Ramhold, with its reason.

use std::time::Duration;

/// A key's bytes (A2). An empty key is allowed.
pub const KEY_BYTES_MAX: usize = 64 * 1024 - 1;
/// A value's bytes (A2). An empty value is allowed.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;
/// The longest time to live of an object, in milliseconds: a hundred years (A12). Far above any use, and far
/// below the point where a sum with the cluster time could overflow.
pub const EXPIRY_MILLIS_MAX: u64 = 36_525 * 24 * 3600 * 1000;
/// The tablets of a brick. Their description, with the longest names, fits a frame and the brick's state.
pub const BRICK_TABLET_COUNT_MAX: u32 = 512;
/// Bricks that the server list names, that a brick is told of beside its siblings, and that an answer to a session
/// names. With so many one that answers is found; and a brick's state has room for them.
pub const BRICKS_TOLD_MAX: usize = 64;
/// Processes that a session asks, in one round, for the tablets of a quorum table. Bounds its memory, and the time that
/// it spends on a table that nobody has.
pub const SEARCH_COUNT_MAX: usize = 1024;
/// Puts of unknown outcome that a session remembers to settle them before it reads their keys, and the bytes of their
/// keys and values. Bounds a session's memory; a few values of the largest size fit.
pub const OPEN_PUTS_MAX: usize = 256;
pub const OPEN_PUTS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The newest events that a brick keeps for operators, the bytes of each of their texts, and the events of one answer: at
/// most 0.7 MiB are kept, and an answer is far smaller than a frame (J5).
pub const BRICK_EVENT_COUNT_MAX: usize = 1024;
pub const BRICK_EVENT_TEXT_BYTES_MAX: usize = 256;
pub const BRICK_EVENT_PAGE_MAX: usize = 256;
/// A table name's bytes (A1).
pub const TABLE_NAME_BYTES_MAX: usize = 255;
/// Tables of one cluster; bounds the coordinator's memory.
pub const TABLE_COUNT_MAX: usize = 65_536;
/// Tablets a table may be created with, or be cut into; bounds one message.
pub const TABLET_COUNT_MAX: u32 = 4096;
/// Replicas of a segment. More copies than this do not help.
pub const REPLICA_COUNT_MAX: u8 = 7;
/// Replicas of a table if neither its creator nor the operator of the cluster chooses a number: RAMCloud's
/// number.
pub const REPLICA_COUNT_DEFAULT: u8 = 3;
/// Rings of copysets. Each ring adds as many copysets as there are backups. With more rings, nearly as many
/// sets of servers hold data as without copysets.
pub const COPYSET_RINGS_MAX: u8 = 16;
/// A segment in production. Large enough for a disk to stream, small enough to scatter (SOSP11 2.5).
pub const SEGMENT_BYTES: u32 = 8 * 1024 * 1024;
/// A seglet in production: the unit in which memory is given back.
pub const SEGLET_BYTES: u32 = 64 * 1024;
/// The body of one frame: a whole segment's records for one partition, and some room.
pub const FRAME_BODY_BYTES_MAX: u32 = SEGMENT_BYTES + 64 * 1024;
/// Data bytes in one append message to a backup; longer runs are sent as several.
pub const APPEND_BYTES_MAX: u32 = 1024 * 1024;
/// Labels of a server, and bytes of one label's name or value.
pub const LABEL_COUNT_MAX: usize = 8;
pub const LABEL_BYTES_MAX: usize = 64;
/// Further addresses of a server, one for each network that it is on.
pub const LINK_COUNT_MAX: usize = 8;
/// How long a grant lets a shard answer reads (docs/protocols/read-leases.md). The same in all processes of a
/// cluster. Long compared to the noise of a busy machine, short compared to a recovery.
pub const READ_LEASE: Duration = Duration::from_millis(250);
/// Servers of one cluster; bounds the server list.
pub const SERVER_COUNT_MAX: usize = 10_000;
/// Connections that one process accepts; bounds its buffers.
pub const CONNECTION_COUNT_MAX: usize = 65_536;
/// Dead logs from which one piece of a tablet may have to be recovered, its owner's among them. There is one
/// more for each owner that dies before the devices of backups have the data that it recovered. At this
/// number the piece goes live only when devices have it.
pub const PIECE_LOGS_MAX: usize = 8;
/// Streams of one shard (a MultiRing server needs at most 256).
pub const STREAM_COUNT_MAX: u16 = 512;

// The largest put is remembered.
const _: () = assert!(KEY_BYTES_MAX + VALUE_BYTES_MAX <= OPEN_PUTS_BYTES_MAX);
// An object must fit an empty segment together with the head's own entries and a tombstone with its key.
const _: () = assert!((VALUE_BYTES_MAX + 2 * KEY_BYTES_MAX) * 2 < SEGMENT_BYTES as usize);
const _: () = assert!(SEGMENT_BYTES.is_multiple_of(SEGLET_BYTES));

/// The most bytes of keys and values of the coordinator's state that a server holds for the coordinator. All
/// tables, leases and results at their limits, with the usual number of tablets, are a tenth of that.
pub const STATE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Records of the state travel in parts of about this size. The largest single record is a table's, which is
/// smaller.
pub const STATE_PART_BYTES: usize = 1024 * 1024;
