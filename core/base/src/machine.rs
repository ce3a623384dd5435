//! The interface between a machine that decides and an executor that acts.
//!
//! A `Machine` is stepped with the time and one input. It answers with effects, which are executed in order.
//! The same machine runs under the Linux event loop (`io/runtime`) and in the simulator (`testing/world`).
//!
//! The delivery of frames promises little. A sent frame arrives whole and unchanged, or not at all. It may
//! arrive late, twice, or after later frames. A sender that needs more numbers its messages and repeats them.
//!
//! Invariants:
//! - the same state, time and input give the same effects;
//! - an effect that must wait for another one is emitted only after the other's completion came in as an
//!   input.

use crate::secret::{SecretResult, SecretToken, SecretWork};
use crate::{Instant, Mark, ServerId};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

/// A connection that this process accepted or opened. An id is never used again within a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

/// Where a frame goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// Back over the connection on which a request came in. The frame is dropped if that connection is gone.
    Conn(ConnId),
    /// To the process that listens there. A connection is opened when there is none.
    Addr(SocketAddr),
}

/// How an outgoing connection ended. A request that was sent over it and not answered has an unknown fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// No process listens: it is certainly not there. Nothing sent since the last loss has arrived.
    Refused,
    /// The connection broke.
    Broken,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DiskToken(pub u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StoreToken(pub u64);

/// The files of a backup. The executor chooses the paths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DiskFile {
    /// Identity of the data directory; on the device, a few KiB.
    Superblock,
    /// Frames with replicas; on the device.
    Frames,
    /// Buffers of open replicas, in the buffer directory. The file survives the process, but perhaps not a
    /// loss of power. Writes to it are executed at once, in order, and their completions come in the same
    /// turn.
    Buffers,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskError {
    /// No space left: temporary, and no failure of the device. `free_bytes` is the space that it has left for
    /// this process.
    Full { free_bytes: u64 },
    /// Any other error: from then on the file is not to be trusted.
    Failed(String),
}

/// A condition of a commit to the coordinator's store: the key has this version, or is absent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreCondition {
    pub key: String,
    pub version: Option<u64>,
}

/// A request to the store that keeps the coordinator's state. Keys are paths; values are opaque.
/// A key's version is 1 after its first put and rises by one with each further put. A removed key starts
/// again at 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreRequest {
    Get {
        key: String,
    },
    List {
        prefix: String,
    },
    /// All puts (`None` removes), or none of them when a condition fails. Durable when answered.
    Commit {
        conditions: Vec<StoreCondition>,
        puts: Vec<(String, Option<Vec<u8>>)>,
    },
    /// From now on, report every change below the prefix.
    Watch {
        prefix: String,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreResult {
    /// Key, version, value. For `Get` at most one; for `List` all below the prefix, in order of keys.
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
    /// Nothing was done because the store's device has no room. The request may be made again later. `reason`
    /// says where.
    NoRoom {
        request: StoreRequest,
        reason: String,
    },
    /// The store cannot be reached or is broken; whether a commit took place is unknown.
    Failed(String),
}

#[derive(Debug)]
pub enum Input<'a> {
    /// The first input of a machine's life. `wall_millis` is the wall clock, in milliseconds since 1970,
    /// untrusted.
    Start {
        wall_millis: u64,
    },
    /// The deadline has come, or somebody wants the machine to look at its state.
    Tick,
    /// One whole frame. Its length was checked, and nothing else.
    Frame {
        from: ConnId,
        bytes: &'a [u8],
    },
    /// An accepted connection begins to speak, and not in frames. `peer` is the address of its other side,
    /// and `own` is the address of ours that it came to, as far as these are known.
    Met {
        conn: ConnId,
        peer: Option<SocketAddr>,
        own: Option<SocketAddr>,
    },
    /// Bytes that came over an accepted connection that does not speak in frames, from the first one on that
    /// the machine has not taken. The machine says in [`Effects::taken`] how many it takes. This input comes
    /// only to processes that are started to hear such connections.
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
    /// A disk effect is complete. A read brings its bytes, which may be fewer than asked for at the end of
    /// the file.
    Disk {
        token: DiskToken,
        result: Result<&'a [u8], DiskError>,
    },
    Store {
        token: StoreToken,
        result: StoreResult,
    },
    /// Work with passwords is done.
    Secret {
        token: SecretToken,
        result: SecretResult,
    },
    /// The operator wants this process to end: finish what must be finished, then `Exit`.
    Stop,
}

impl<'a> Input<'a> {
    /// The frame of a step; empty for any other input.
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
            | Input::Secret { .. }
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

/// The bytes to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskData {
    /// The range is in `Effects::bytes`. If the process is killed, each page of the file is written entirely
    /// or not at all.
    Own(Range<usize>),
    /// The last bytes, as many as this number says, of the frame that the machine was stepped with. They are
    /// written from where they lie. A kill before the completion may leave any part of them.
    FrameEnd(usize),
}

impl DiskData {
    /// The bytes. `own` are the bytes of the effects; `frame` is the frame that the machine was stepped with,
    /// or empty.
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
    /// A range of `Effects::bytes`: the frame, or the part of it before `shared`.
    pub own: Range<usize>,
    /// The rest, which other frames may end with too. Nobody changes it any more. It is sent from where it
    /// lies.
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
    /// Ends a connection after everything sent before has gone out.
    Close {
        conn: ConnId,
    },
    /// Offers again the bytes of a connection that were left with [`Rest::Held`].
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
    /// Complete when every write to the file whose completion came before is on the device.
    DiskSync {
        token: DiskToken,
        file: DiskFile,
    },
    /// Makes the file at least this long, with its space reserved. Existing bytes are not changed.
    DiskReserve {
        token: DiskToken,
        file: DiskFile,
        bytes: u64,
    },
    Store {
        token: StoreToken,
        request: StoreRequest,
    },
    Secret {
        token: SecretToken,
        work: SecretWork,
    },
    /// The machine passes this place. Real processes drop marks.
    Mark(Mark),
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

/// When the rest of an [`Input::Bytes`] is offered again, together with the bytes that come after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rest {
    /// When more bytes have come.
    #[default]
    Part,
    /// In the next turn.
    More,
    /// When the machine says so with [`Effect::Hear`]; perhaps also after something was sent.
    Held,
}

/// The machine's answer to an [`Input::Bytes`]: it is done with the first `bytes` of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    pub bytes: usize,
    pub rest: Rest,
}

/// The effects of one step, and the bytes that they refer to. Reused from turn to turn.
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

    /// Appends to `bytes` with `write`, and sends the appended bytes. Usually called through `wire::frame`.
    pub fn send_with(&mut self, to: Peer, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let frame = Outgoing { own: start..self.bytes.len(), shared: None };
        self.list.push(Effect::Send { to, frame });
    }

    /// The same, with `shared` behind the appended bytes. Usually called through `wire::frame::send_sharing`.
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

    pub fn mark(&mut self, mark: Mark) {
        self.list.push(Effect::Mark(mark));
    }

    pub fn report(&mut self, level: Level, text: impl Into<String>) {
        self.list.push(Effect::Report { level, text: text.into() });
    }
}

pub trait Machine {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects);

    /// When to step with `Tick` if nothing else happens. Only `step` and `turn_over` may change it.
    fn deadline(&self) -> Option<Instant>;

    /// Whether something was put off to the end of the turn. A turn is all that an executor hands on before it looks
    /// for more. Only the executor ends it, so `deadline` does not name this work.
    fn puts_off(&self) -> bool {
        false
    }

    /// The turn is over: the machine does what it put off, once for all inputs of the turn. An executor calls this
    /// before it waits whenever `puts_off` is true, and may call it earlier, and at any time.
    /// A machine that wraps another one passes both calls on.
    fn turn_over(&mut self, now: Instant, effects: &mut Effects) {
        let _ = (now, effects);
    }

    /// A hint: these bytes of several connections are going to be handed on next. A machine that knows which
    /// memory they need can have that fetched for all of them at once. Nothing depends on it.
    fn prefetch(&self, coming: &mut dyn Iterator<Item = Coming<'_>>) {
        let _ = coming;
    }

    /// Everything that is handed on from now on had not come by this time, as far as the executor knows. A process that is late
    /// finds what has waited for it since then. Only statistics depend on it.
    fn came_after(&mut self, time: Instant) {
        let _ = time;
    }
}

/// Bytes that came over a connection and are not handed on yet. They begin with a frame or with a request,
/// and the last one may be incomplete.
#[derive(Clone, Copy, Debug)]
pub struct Coming<'a> {
    pub from: ConnId,
    pub bytes: &'a [u8],
}
