//! The file of a brick's state: two copies behind the superblock, written one after the other.
//!
//! A state is durable when both copies have it, so that no damage of one brings an older state back. One copy is written
//! only when the other is on the device, so a torn write leaves the other. A found state may be in
//! the system's memory only, because the process that wrote it may have died before its sync; so it is synced first.
//!
//! Invariant: `durable` is on the device.
//!
//! Not here: the contents (`state`). Bytes: docs/formats/brick.md. Catalogue: I6.

use crate::state::{BrickState, COPY_BYTES, FIRST_COPY_AT, FoundState, encode, find};
use ramhold_base::{DiskError, DiskFile, DiskToken, Effect, Effects};

/// The tokens of a brick have this bit; those of its backup do not.
const TOKENS: u64 = 1 << 63;
const READ: DiskToken = DiskToken(TOKENS);
const FOUND_SYNC: DiskToken = DiskToken(TOKENS + 1);
const WRITE: DiskToken = DiskToken(TOKENS + 2);
const WRITE_SYNC: DiskToken = DiskToken(TOKENS + 3);

/// Whether a completed operation is one of this file.
pub fn is_of_state(token: DiskToken) -> bool {
    token.0 & TOKENS != 0
}

#[derive(Debug, Default)]
pub(crate) struct StateFile {
    is_read: bool,
    found: Option<BrickState>,
    durable: Option<BrickState>,
    /// Rises with each state that became durable in this life.
    durable_count: u64,
    sequence: u64,
    wanted: Option<BrickState>,
    writing: Option<BrickState>,
    /// The first of the two copies is on the device.
    is_half_written: bool,
    /// Why the file cannot be used.
    failure: Option<String>,
}

impl StateFile {
    pub fn read(&mut self, effects: &mut Effects) {
        let bytes = 2 * COPY_BYTES as u32;
        let file = DiskFile::Superblock;
        effects.push(Effect::DiskRead { token: READ, file, offset: FIRST_COPY_AT, bytes });
    }

    /// Whether the file was read, and what was found is on the device.
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The state on the device.
    pub fn durable(&self) -> Option<&BrickState> {
        self.durable.as_ref()
    }

    /// The number of states that have become durable: it tells whether something has changed.
    pub fn durable_count(&self) -> u64 {
        self.durable_count
    }

    /// The state that is on the device, or will be next.
    pub fn newest(&self) -> Option<&BrickState> {
        self.wanted.as_ref().or(self.writing.as_ref()).or(self.durable.as_ref())
    }

    /// Whether everything that was wanted is on the device.
    pub fn is_durable(&self) -> bool {
        self.wanted.is_none() && self.writing.is_none() && self.failure.is_none()
    }

    /// The state is to be written. Only the newest of several that wait is.
    pub fn want(&mut self, state: BrickState, effects: &mut Effects) {
        self.wanted = Some(state);
        self.advance(effects);
    }

    fn advance(&mut self, effects: &mut Effects) {
        if self.writing.is_some() || !self.is_read || self.failure.is_some() {
            return;
        }
        self.writing = self.wanted.take();
        self.is_half_written = false;
        self.write_copy(effects);
    }

    fn write_copy(&mut self, effects: &mut Effects) {
        let Some(state) = &self.writing else { return };
        let sequence = self.sequence + 1;
        let Some(copy) = encode(sequence, state) else {
            return self.fail("the brick's state is larger than its place in the data directory".into());
        };
        self.sequence = sequence;
        let offset = FIRST_COPY_AT + sequence % 2 * COPY_BYTES as u64;
        effects.disk_write(WRITE, DiskFile::Superblock, offset, &copy);
    }

    fn fail(&mut self, reason: String) {
        self.failure.get_or_insert(reason);
    }

    pub fn on_disk(&mut self, token: DiskToken, result: Result<&[u8], DiskError>, effects: &mut Effects) {
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(DiskError::Full { .. }) => {
                return self.fail("there is no space left for the brick's state".into());
            }
            Err(DiskError::Failed(text)) => {
                return self.fail(format!("the brick's state cannot be kept: {text}"));
            }
        };
        let sync = |token| Effect::DiskSync { token, file: DiskFile::Superblock };
        match token {
            READ => match find(bytes) {
                FoundState::New => self.is_read = true,
                FoundState::Newest { sequence, state } => {
                    (self.sequence, self.found) = (sequence, Some(*state));
                    effects.push(sync(FOUND_SYNC));
                }
                FoundState::Unusable(reason) => self.fail(reason),
            },
            FOUND_SYNC => {
                (self.durable, self.is_read) = (self.found.take(), true);
                self.durable_count += 1;
            }
            WRITE => effects.push(sync(WRITE_SYNC)),
            WRITE_SYNC if self.is_half_written => {
                self.durable = self.writing.take();
                self.durable_count += 1;
            }
            WRITE_SYNC => {
                self.is_half_written = true;
                self.write_copy(effects);
            }
            _ => {}
        }
        self.advance(effects);
    }
}
