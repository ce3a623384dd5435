//! How something that decides meets something that does.
//!
//! A `Machine` is stepped with the time and one input; it answers with effects, which are executed in order.
//! The same machine runs under the Linux event loop (`io/runtime`) and in the simulator (`testing/world`).
//!
//! Delivery of frames promises little: a sent frame arrives whole and unchanged or not at all; it may arrive late,
//! twice, or after later ones. Whoever needs more numbers its messages and repeats them.
//!
//! Invariants:
//! - same state, time and input give the same effects;
//! - an effect that must wait for another is emitted only after that other's completion came in as an input.

use crate::{Instant, ServerId};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

/// A connection that this process accepted or opened; never used again within a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

/// Where a frame goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// Back over the connection on which a request came in; dropped if that is gone.
    Conn(ConnId),
    /// To whoever listens there; a connection is opened when there is none.
    Addr(SocketAddr),
}

/// How an outgoing connection ended. All that was sent over it and not answered has an unknown fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// Nobody listens: the process is certainly not there. Nothing sent since the last loss has arrived.
    Refused,
    /// The connection broke.
    Broken,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DiskToken(pub u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StoreToken(pub u64);

/// The files of a backup. Paths are the executor's business.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DiskFile {
    /// Identity of the data directory; on the device, a few KiB.
    Superblock,
    /// Frames with replicas; on the device.
    Frames,
    /// Buffers of open replicas; in the buffer directory: survives the process, perhaps not a loss of power.
    /// Writes to it are executed at once, in order, and their completions come in the same turn.
    Buffers,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskError {
    /// No space left: temporary, and no failure of the device. `free_bytes` is what it has left for this process.
    Full { free_bytes: u64 },
    /// Anything else: from then on the file is not to be trusted.
    Failed(String),
}

/// What a commit to the coordinator's store demands: the key's version, or that it is absent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreCondition {
    pub key: String,
    pub version: Option<u64>,
}

/// A request to the store that keeps the coordinator's state. Keys are paths; values are opaque.
/// A key's version is 1 after its first put and rises by one with each further put; a removed key starts again at 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreRequest {
    Get {
        key: String,
    },
    List {
        prefix: String,
    },
    /// All puts (`None` removes) or, when a condition fails, none. Durable when answered.
    Commit {
        conditions: Vec<StoreCondition>,
        puts: Vec<(String, Option<Vec<u8>>)>,
    },
    /// From now on tell of every change below the prefix.
    Watch {
        prefix: String,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreResult {
    /// Key, version, value; for `Get` at most one, for `List` all below the prefix in order of keys.
    Found(Vec<(String, u64, Vec<u8>)>),
    Committed,
    /// A condition did not hold; nothing was changed.
    Conflict {
        key: String,
    },
    /// A watched key changed; the token is the watch's. `None`: removed.
    Changed {
        key: String,
        value: Option<Vec<u8>>,
    },
    /// Nothing was done for want of room on the store's device: the request may be made again later. `reason` says where.
    NoRoom {
        request: StoreRequest,
        reason: String,
    },
    /// The store cannot be reached or is broken; whether a commit took place is unknown.
    Failed(String),
}

#[derive(Debug)]
pub enum Input<'a> {
    /// The first input of a machine's life. `wall_millis` is the wall clock, milliseconds since 1970, untrusted.
    Start {
        wall_millis: u64,
    },
    /// The deadline has come, or somebody just wants to look.
    Tick,
    /// One whole frame, its length and nothing else checked.
    Frame {
        from: ConnId,
        bytes: &'a [u8],
    },
    /// An accepted connection begins to speak, and not in frames: where its other side is, and which of our addresses it
    /// came to, as far as that can be told.
    Met {
        conn: ConnId,
        peer: Option<SocketAddr>,
        own: Option<SocketAddr>,
    },
    /// What has come over an accepted connection that does not speak in frames, from the first byte on that the machine has
    /// not taken. It says in [`Effects::taken`] what it takes. Comes only to processes that are started to hear such.
    Bytes {
        from: ConnId,
        bytes: &'a [u8],
    },
    /// An outgoing connection ended or could not be opened.
    Lost {
        addr: SocketAddr,
        how: Lost,
    },
    /// A connection that this process accepted has ended.
    Closed {
        conn: ConnId,
    },
    /// A disk effect is complete. Reads bring their bytes, which may be fewer than asked at the end of the file.
    Disk {
        token: DiskToken,
        result: Result<&'a [u8], DiskError>,
    },
    Store {
        token: StoreToken,
        result: StoreResult,
    },
    /// The operator wants this process to end: finish what must be finished, then `Exit`.
    Stop,
}

impl<'a> Input<'a> {
    /// The frame that a step is given; of any other input nothing.
    pub fn frame(&self) -> &'a [u8] {
        match self {
            Input::Frame { bytes, .. } => bytes,
            Input::Start { .. }
            | Input::Tick
            | Input::Met { .. }
            | Input::Bytes { .. }
            | Input::Lost { .. }
            | Input::Closed { .. }
            | Input::Disk { .. }
            | Input::Store { .. }
            | Input::Stop => &[],
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// The bytes of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskData {
    /// The range is in `Effects::bytes`. Of what lies within a page of the file a kill of the process leaves all or nothing.
    Own(Range<usize>),
    /// So many bytes at the end of the frame that the machine was stepped with: they are written from where they lie. A kill
    /// before the completion may leave any part of them.
    FrameEnd(usize),
}

impl DiskData {
    /// The bytes; `own` are those of the effects, `frame` is what the machine was stepped with, or nothing.
    pub fn of<'a>(&self, own: &'a [u8], frame: &'a [u8]) -> &'a [u8] {
        match self {
            DiskData::Own(range) => &own[range.clone()],
            DiskData::FrameEnd(bytes) => &frame[frame.len() - bytes..],
        }
    }
}

/// Where the bytes of a whole frame are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// In `Effects::bytes`: the frame, or what of it stands before `shared`.
    pub own: Range<usize>,
    /// The rest, which other frames may end with too. Nobody changes it any more; it is sent from where it lies.
    pub shared: Option<Arc<Vec<u8>>>,
}

impl Outgoing {
    /// The frame; `own` are the bytes of the effects.
    pub fn of<'a>(&self, own: &'a [u8]) -> Cow<'a, [u8]> {
        let own = &own[self.own.clone()];
        match &self.shared {
            None => Cow::Borrowed(own),
            Some(shared) => Cow::Owned([own, shared].concat()),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// One whole frame.
    Send {
        to: Peer,
        frame: Outgoing,
    },
    /// Ends a connection after what was sent before has gone out.
    Close {
        conn: ConnId,
    },
    /// Offers the bytes of a connection again that were left with [`Rest::Held`].
    Hear {
        conn: ConnId,
    },
    DiskWrite {
        token: DiskToken,
        file: DiskFile,
        offset: u64,
        data: DiskData,
    },
    DiskRead {
        token: DiskToken,
        file: DiskFile,
        offset: u64,
        bytes: u32,
    },
    /// Copies within the executor, so that flushing does not pass through the machine.
    DiskCopy {
        token: DiskToken,
        from: DiskFile,
        from_offset: u64,
        to: DiskFile,
        to_offset: u64,
        bytes: u32,
    },
    /// Complete when everything of the file whose completion came before is on the device.
    DiskSync {
        token: DiskToken,
        file: DiskFile,
    },
    /// Makes the file at least this long, its space reserved. An existing part is not changed.
    DiskReserve {
        token: DiskToken,
        file: DiskFile,
        bytes: u64,
    },
    Store {
        token: StoreToken,
        request: StoreRequest,
    },
    /// A line for the operator.
    Report {
        level: Level,
        text: String,
    },
    /// The process now has this identity (for logs and file locks).
    Named {
        server: ServerId,
    },
    /// The process ends with this exit code; later effects are not executed.
    Exit {
        code: u8,
        reason: String,
    },
}

/// When the rest of an [`Input::Bytes`] is offered again, together with what comes after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rest {
    /// When more has come.
    #[default]
    Part,
    /// In the next turn.
    More,
    /// When the machine says so with [`Effect::Hear`]; perhaps also after something was sent.
    Held,
}

/// What became of an [`Input::Bytes`]: so many bytes from the front are done with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    pub bytes: usize,
    pub rest: Rest,
}

/// The effects of one step, and the bytes that they speak of. Reused from turn to turn.
#[derive(Default, Debug)]
pub struct Effects {
    pub bytes: Vec<u8>,
    pub list: Vec<Effect>,
    pub taken: Taken,
}

impl Effects {
    pub fn new() -> Effects {
        Effects::default()
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
        self.taken = Taken::default();
    }

    /// Appends with `write` to `bytes` and sends what was appended. Usually called through `wire::frame`.
    pub fn send_with(&mut self, to: Peer, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let frame = Outgoing { own: start..self.bytes.len(), shared: None };
        self.list.push(Effect::Send { to, frame });
    }

    /// The same, with `shared` behind what was appended. Usually called through `wire::send_sharing`.
    pub fn send_sharing(&mut self, to: Peer, shared: &Arc<Vec<u8>>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let frame = Outgoing { own: start..self.bytes.len(), shared: Some(Arc::clone(shared)) };
        self.list.push(Effect::Send { to, frame });
    }

    pub fn disk_write(&mut self, token: DiskToken, file: DiskFile, offset: u64, data: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(data);
        let data = DiskData::Own(start..self.bytes.len());
        self.list.push(Effect::DiskWrite { token, file, offset, data });
    }

    pub fn push(&mut self, effect: Effect) {
        self.list.push(effect);
    }

    pub fn report(&mut self, level: Level, text: impl Into<String>) {
        self.list.push(Effect::Report { level, text: text.into() });
    }
}

pub trait Machine {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects);

    /// When to step with `Tick` if nothing else happens; may only change in `step`.
    fn deadline(&self) -> Option<Instant>;

    /// What is going to be handed on next, of several connections: whoever knows what memory it will need can have it
    /// fetched for all of them at once. Nothing depends on it.
    fn prefetch(&self, coming: &mut dyn Iterator<Item = Coming<'_>>) {
        let _ = coming;
    }
}

/// What has come over a connection and is not handed on; it begins with a frame or with a request, and what comes last
/// may be a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Coming<'a> {
    pub from: ConnId,
    pub bytes: &'a [u8],
}
