//! The duration of steps, frames and device work in a world that is built for measurements.
//!
//! Without a pace, durations are drawn at random within [`super::Costs`], which finds faults and measures
//! nothing. With a pace, the world tells it every step together with the step's effects. The effects leave
//! when the step is over, not when it begins; a pace may let frames leave earlier, one after the other. A frame passes one port after the other: at least the sender's
//! and the receiver's, and those of switches and relays between them. Each port may be busy with other frames.
//! With a pace the network loses, changes and cuts nothing, and the trace does not look into frames.
//!
//! Invariant: no time that a pace answers is before the time that it was asked with.
//!
//! Not here: the costs of anything; the measurement brings them.

use crate::network::Way;
use ramhold_base::{DiskFile, DiskToken, Effects, Input};

/// The input of a process's step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Given<'a> {
    /// A whole frame.
    Frame(&'a [u8]),
    /// A disk effect is complete and has brought this many bytes.
    Disk {
        bytes: u64,
    },
    /// The inputs of a turn are through, and the process does what it put off.
    TurnOver,
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
            | Input::Secret { .. }
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

/// How a frame has passed one port of its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passed {
    /// Its first byte is at the next port at this time.
    Onward(u64),
    /// The port was the last one. The last byte has passed it at this time.
    Through(u64),
}

/// All times are nanoseconds since the world began.
pub trait Pace {
    /// The nanoseconds for which the step keeps its process busy.
    fn step(&mut self, node: usize, given: Given<'_>, effects: &Effects) -> u64;

    /// When a frame of the step that a process has just taken leaves it: not after the end of the step, and not before
    /// its begin. Frames are asked for in the order in which they are sent.
    fn leaves(&mut self, step_over: u64, frame: &[u8]) -> u64 {
        let _ = frame;
        step_over
    }

    /// The first byte of a frame is at a port of its way; the sender's port has index 0.
    fn pass(&mut self, now: u64, way: Way, index: usize, frame: &[u8]) -> Passed;

    /// Work is handed to a device. Returns when the work is done, unless other work goes before it.
    fn device(&mut self, now: u64, node: usize, token: DiskToken, file: DiskFile, work: DeviceWork) -> u64;

    /// The work would be done now. If other work has gone before it meanwhile, returns when to look again.
    fn device_again(&mut self, now: u64, node: usize, token: DiskToken) -> Option<u64>;

    /// The nanoseconds that the coordinator's store works on a request.
    fn store(&mut self) -> u64;
}
