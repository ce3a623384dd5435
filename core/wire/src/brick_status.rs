//! The state of a brick for operators, and the events that it has noted.
//!
//! Both are told to anybody by the brick itself, so nobody needs the coordinator to look at bricks.
//!
//! Not here: the status of a process in general (`status`). Catalogue: I6, J5.

use crate::Opcode;
use crate::control::{Address, Message};
use crate::membership::Label;
use crate::statistics::Flags;
use minicbor::{Decode, Encode};
use ramhold_base::{ClusterTime, KeyHash, ServerId, Status, TableId};

/// The most keys that a brick counts as behind.
pub const KEYS_BEHIND_MAX: u64 = 10_000;

/// A brick, as part of its `ProcessStatus`. Counts are since its start.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickStatus {
    /// The number of its starts; 0: it has no id yet.
    #[n(0)]
    pub life: u64,
    #[n(1)]
    pub address: Address,
    #[n(2)]
    pub labels: Vec<Label>,
    /// It has taken over its log, and answers where a tablet votes.
    #[n(3)]
    pub is_serving: bool,
    /// Tablets here that do not vote, or not for all keys: they are being rebuilt or loaded, are not served yet, or too few
    /// siblings have told their clocks.
    #[n(4)]
    pub without_vote: u32,
    /// The tablet that is being rebuilt now.
    #[n(5)]
    pub rebuilding: Option<RebuildStatus>,
    /// The bricks that share a tablet with this one.
    #[n(6)]
    pub siblings: Vec<SiblingStatus>,
    /// Questions of sessions, by what was wanted: a value, a write, a stamp.
    #[n(7)]
    pub gets: AsksStatus,
    #[n(8)]
    pub puts: AsksStatus,
    #[n(9)]
    pub stamps: AsksStatus,
    /// Repairs of sessions that stored something here.
    #[n(10)]
    pub repairs: u64,
    #[n(11)]
    pub sweep: SweepStatus,
    /// Tombstones that go when nothing can bring an older value back.
    #[n(12)]
    pub graves: u64,
    /// Tombstones that have gone.
    #[n(13)]
    pub graves_gone: u64,
    /// The tablets here, in the order of the brick's state; empty also from a brick that does not tell them.
    #[n(14)]
    #[cbor(default)]
    pub tablets: Vec<TabletStatus>,
    /// The part of its log that is loaded, of 1,000, while it answers only for keys that are. `None`: all is.
    #[n(15)]
    pub loaded_permille: Option<u16>,
    /// The queues of questions: of gets, puts and stamps.
    #[n(16)]
    #[cbor(default)]
    pub queues: Vec<QueueStatus>,
    /// Its statistics that are unlike those of the other bricks. Absent: it is not compared yet, or with too few.
    #[n(17)]
    #[cbor(default)]
    pub flagged: Option<Flags>,
    /// Bricks whose reports it has, its own among them.
    #[n(18)]
    #[cbor(default)]
    pub reporting: u32,
    /// Bytes that were read from other bricks to rebuild tablets, and bytes of the records that came of it.
    #[n(19)]
    #[cbor(default)]
    pub rebuild_read: u64,
    #[n(20)]
    #[cbor(default)]
    pub rebuild_stored: u64,
    /// The limit for which it refuses puts. Absent: none, or it does not tell.
    #[n(21)]
    pub full: Option<BrickLimit>,
    /// Tablets that are not served, since there is no room for the first head of their stream.
    #[n(22)]
    #[cbor(default)]
    pub waits_for_room: u32,
    /// Its rebuilding has come no further for a minute. Absent: it has, or there is none.
    #[n(23)]
    pub stalled: Option<StalledStatus>,
}

/// A rebuilding that comes no further.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StalledStatus {
    #[n(0)]
    pub obstacle: RebuildObstacle,
    /// Time since it last came further.
    #[n(1)]
    pub millis: u64,
    /// With `Pages`: the siblings.
    #[n(2)]
    pub bricks: Vec<RefusingStatus>,
}

/// A sibling that tells no page of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct RefusingStatus {
    #[n(0)]
    pub brick: ServerId,
    /// The status with which it last answered such a question. Absent: it did not answer in time.
    #[n(1)]
    pub status: Option<u16>,
}

/// The obstacle in the way of a rebuilding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum RebuildObstacle {
    /// The memory of its log has no room for what it stores.
    #[n(0)]
    Memory,
    /// The device has no frame for a next head.
    #[n(1)]
    Frames,
    /// The index has no place for a further key.
    #[n(2)]
    Index,
    /// The device does not take what was stored, or segments that must leave the log are still there.
    #[n(3)]
    Device,
    /// An entry of the brick's own log is damaged, and its repair does not end.
    #[n(4)]
    Damage,
    /// Siblings tell no pages, although they may be heard.
    #[n(5)]
    Pages,
}

/// A limit that a brick has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum BrickLimit {
    /// The memory of its log: all puts are refused.
    #[n(0)]
    Memory,
    /// The frames of its device, each of which holds a segment: all puts are refused.
    #[n(1)]
    Frames,
    /// The memory of its index: writes of keys that it does not have are refused.
    #[n(2)]
    Index,
}

impl BrickLimit {
    pub const ALL: [BrickLimit; 3] = [BrickLimit::Memory, BrickLimit::Frames, BrickLimit::Index];

    /// For programs.
    pub const fn name(self) -> &'static str {
        match self {
            BrickLimit::Memory => "memory",
            BrickLimit::Frames => "frames",
            BrickLimit::Index => "index",
        }
    }
}

impl RebuildObstacle {
    pub const ALL: [RebuildObstacle; 6] = [
        RebuildObstacle::Memory,
        RebuildObstacle::Frames,
        RebuildObstacle::Index,
        RebuildObstacle::Device,
        RebuildObstacle::Damage,
        RebuildObstacle::Pages,
    ];

    /// For programs.
    pub const fn name(self) -> &'static str {
        match self {
            RebuildObstacle::Memory => "memory",
            RebuildObstacle::Frames => "frames",
            RebuildObstacle::Index => "index",
            RebuildObstacle::Device => "device",
            RebuildObstacle::Damage => "damage",
            RebuildObstacle::Pages => "pages",
        }
    }

    /// The next thing to do, for an operator. Removals free no place of the index before the brick votes: their tombstones
    /// take one here, and stay until all bricks of the tablet have told that they have them.
    pub const fn way_out(self) -> &'static str {
        match self {
            RebuildObstacle::Memory => {
                "remove objects, or start it again with more --memory; it goes on by itself"
            }
            RebuildObstacle::Frames => {
                "remove objects, or start it again with more --disk; it goes on by itself"
            }
            RebuildObstacle::Index => {
                "start it again with more --memory, or drop a table that it holds; removals make no room before it votes"
            }
            RebuildObstacle::Device => "check its device; its log says more",
            RebuildObstacle::Damage => {
                "check its device; if it cannot be read, replace the brick: see 'ramhold brick replace --help'"
            }
            RebuildObstacle::Pages => "check these bricks, and the network to them; it goes on by itself",
        }
    }
}

impl StalledStatus {
    /// The reason, as the end of a sentence.
    pub fn why(&self) -> String {
        match self.obstacle {
            RebuildObstacle::Memory => "the log's memory has no room for what it stores".to_owned(),
            RebuildObstacle::Frames => "the device has no frame left for what it stores".to_owned(),
            RebuildObstacle::Index => "the index has no place for further keys".to_owned(),
            RebuildObstacle::Device => {
                "the device does not take what is stored, or the log is not cleaned of what must go"
                    .to_owned()
            }
            RebuildObstacle::Damage => "an entry of its log is damaged, and is not repaired yet".to_owned(),
            RebuildObstacle::Pages => {
                let words = |it: &RefusingStatus| format!("{} {}", it.brick, it.words());
                self.bricks.iter().map(words).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

impl RefusingStatus {
    fn words(&self) -> &'static str {
        match self.status.map(Status::from_code) {
            None => "does not answer its questions for keys",
            Some(Some(Status::Retry)) => "repairs a damaged entry, or has not taken its tablets yet",
            Some(Some(Status::Corrupt)) => "has a damaged entry that it cannot repair",
            Some(Some(Status::NotReady)) => "is starting, or loads its log",
            Some(Some(Status::NotAllowed)) => "has another epoch of the tablet",
            Some(Some(Status::TooMany)) => "has too many such questions",
            Some(_) => "refuses its questions for keys",
        }
    }
}

/// A tablet of a quorum table, as one of its bricks has it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletStatus {
    #[n(0)]
    pub table: TableId,
    /// The table's.
    #[n(1)]
    pub name: String,
    #[n(2)]
    pub first: KeyHash,
    /// Inclusive.
    #[n(3)]
    pub last: KeyHash,
    #[n(4)]
    pub epoch: u64,
    /// All its bricks.
    #[n(5)]
    pub bricks: Vec<ServerId>,
    /// So many of them must answer: the larger of W and R.
    #[n(6)]
    pub needed: u8,
    /// This brick answers for it.
    #[n(7)]
    pub votes: bool,
    /// Bricks without which it does not vote here: nothing was decided for some seconds, and these do not answer.
    #[n(8)]
    pub waits_for: Vec<ServerId>,
    /// The brick that gives this one the tablet. Absent: it votes here, or does not move here.
    #[n(9)]
    pub giver: Option<ServerId>,
}

/// The questions of one class that wait, and the time that they take. Counts are since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct QueueStatus {
    /// Questions that wait now: for their turn, or until something is durable.
    #[n(0)]
    pub length: u64,
    /// Questions that were refused because too much waited, or for want of memory.
    #[n(1)]
    pub dropped: u64,
    /// Average time until the turn.
    #[n(2)]
    pub delay_nanos: u64,
    /// Average time until the answer.
    #[n(3)]
    pub latency_nanos: u64,
}

/// The rebuilding of one tablet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RebuildStatus {
    #[n(0)]
    pub table: TableId,
    #[n(1)]
    pub first: KeyHash,
    /// Inclusive.
    #[n(2)]
    pub last: KeyHash,
    /// The part of its keys that is rebuilt, of 1,000. With 1,000 it waits for its device.
    #[n(3)]
    pub permille: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SiblingStatus {
    #[n(0)]
    pub brick: ServerId,
    #[n(1)]
    pub address: Address,
    /// The newest life that is known; 0: none.
    #[n(2)]
    pub life: u64,
    /// Time since it was last heard. Absent: not since this brick's start.
    #[n(3)]
    pub heard_millis: Option<u64>,
    /// It has missed announcements.
    #[n(4)]
    pub is_silent: bool,
    /// It was restarted too often, and its supervisor has given it up.
    #[n(5)]
    #[cbor(default)]
    pub is_offline: bool,
}

/// Questions of one kind since the start. The rest of `asked` waits, or met silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct AsksStatus {
    #[n(0)]
    pub asked: u64,
    /// A value or a stamp was told; a write is applied.
    #[n(1)]
    pub answered: u64,
    /// The write was never stored here, and never will be.
    #[n(2)]
    pub rejected: u64,
    /// The write is older than what is remembered.
    #[n(3)]
    pub unknown: u64,
    /// Answered with a status: the tablet does not vote or is not here, or there is no room.
    #[n(4)]
    pub refused: u64,
}

/// The background sweep: the comparison of this brick's keys with its siblings'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct SweepStatus {
    /// Values and tombstones that it fetched from siblings and stored here.
    #[n(0)]
    pub stored: u64,
    /// Sweeps that reached all siblings of all tablets.
    #[n(1)]
    pub whole: u64,
    /// Time since the last of them ended. Absent: there was none.
    #[n(2)]
    pub whole_millis: Option<u64>,
    /// Keys of which siblings have something newer, as far as is known; at most `KEYS_BEHIND_MAX` are counted.
    #[n(3)]
    pub behind: u64,
    /// Time since the first of them was found to be so. Absent: there is none.
    #[n(4)]
    pub behind_millis: Option<u64>,
    /// Values that had ended, and that it overwrote here with their tombstones.
    #[n(5)]
    #[cbor(default)]
    pub ended: u64,
}

/// Anybody to brick: which events have you noted after this number?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickEvents {
    /// 0: from the oldest on.
    #[n(0)]
    pub after: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickEventsTold {
    /// 0: it has no id yet.
    #[n(0)]
    pub brick: ServerId,
    /// Events are numbered from 1 in each life.
    #[n(1)]
    pub life: u64,
    /// In order of their numbers; more may follow.
    #[n(2)]
    pub events: Vec<BrickEvent>,
    /// The number of the newest event.
    #[n(3)]
    pub newest: u64,
}

/// Something that a brick noticed, and its treatment.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BrickEvent {
    #[n(0)]
    pub number: u64,
    /// By the clock of the brick that tells.
    #[n(1)]
    pub time: ClusterTime,
    /// Its name for programs, such as `sibling-silent`.
    #[n(2)]
    pub kind: String,
    /// The part of the brick that noticed it.
    #[n(3)]
    pub monitor: String,
    /// The brick that it is about.
    #[n(4)]
    pub about: ServerId,
    /// The facts that were noticed.
    #[n(5)]
    pub indicator: String,
    /// The action that was taken.
    #[n(6)]
    pub treatment: String,
}

impl Message for BrickEvents {
    const OPCODE: Opcode = Opcode::BrickEvents;
    type Reply = BrickEventsTold;
}
