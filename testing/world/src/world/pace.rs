//! How long things take in a world that is there to be measured: steps, ways of frames, work of devices.
//!
//! Without a pace they take what chance says within [`super::Costs`], which finds faults and measures nothing. With one
//! every step is told to it with what came of it, and what a step decides leaves when the step is over, not when it
//! begins. A frame passes the sender's port, is under way, and passes the receiver's port; each may be busy with others.
//! The network loses, changes and cuts nothing then, and the trace does not look into frames.
//!
//! Invariant: no time that is answered is before the time that was asked with.
//!
//! Not here: what anything costs; whoever measures brings that.

use ramhold_base::{DiskFile, DiskToken, Effects, Input};

/// What a process was stepped with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Given<'a> {
    /// A whole frame.
    Frame(&'a [u8]),
    /// A disk effect is complete and has brought so many bytes.
    Disk {
        bytes: u64,
    },
    Other,
}

impl<'a> Given<'a> {
    pub(super) fn of(input: &Input<'a>) -> Given<'a> {
        match input {
            Input::Frame { bytes, .. } => Given::Frame(bytes),
            Input::Disk { result, .. } => {
                Given::Disk { bytes: result.as_ref().map_or(0, |bytes| bytes.len() as u64) }
            }
            Input::Start { .. }
            | Input::Tick
            | Input::Met { .. }
            | Input::Bytes { .. }
            | Input::Lost { .. }
            | Input::Closed { .. }
            | Input::Store { .. }
            | Input::Stop => Given::Other,
        }
    }
}

/// Work on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceWork {
    Read { bytes: u64 },
    Write { bytes: u64 },
    Sync,
}

/// All times are nanoseconds since the world began.
pub trait Pace {
    /// For how many nanoseconds the step keeps its process busy.
    fn step(&mut self, node: usize, given: Given<'_>, effects: &Effects) -> u64;

    /// A frame is at its sender's port: when its first byte is at the receiver's.
    fn leave(&mut self, now: u64, from: usize, frame: &[u8]) -> u64;

    /// The first byte of a frame is at its receiver's port: when the last one has passed it.
    fn enter(&mut self, now: u64, to: usize, frame: &[u8]) -> u64;

    /// Work is handed to a device: when it is done if nothing that goes before it comes.
    fn device(&mut self, now: u64, node: usize, token: DiskToken, file: DiskFile, work: DeviceWork) -> u64;

    /// It would be done now: when to look again, if something has gone before it meanwhile.
    fn device_again(&mut self, now: u64, node: usize, token: DiskToken) -> Option<u64>;

    /// For how many nanoseconds the coordinator's store works on a request.
    fn store(&mut self) -> u64;
}
