//! The stages of the backup's life: starting, enlisted, serving; and its end in order.
//!
//! A backup may be told to stop at any stage.
//!
//! Not here: the steps of a start (start), a device that has failed (disk).

use ramhold_base::Status;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Stage {
    #[default]
    Starting,
    /// The server has enlisted: the identity of this life is known, and is to be made durable.
    Enlisted,
    Serving,
}

/// The progress of an ordered stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    Flushing,
    Syncing,
    Marking,
    Done,
}

#[derive(Debug, Default)]
pub(crate) struct Life {
    stage: Stage,
    pub stop: Option<Stop>,
    start_error: Option<String>,
}

impl Life {
    pub fn enlist(&mut self) {
        self.stage = self.stage.max(Stage::Enlisted);
    }

    pub fn is_enlisted(&self) -> bool {
        self.stage >= Stage::Enlisted
    }

    pub fn serve(&mut self) {
        self.stage = Stage::Serving;
    }

    pub fn is_serving(&self) -> bool {
        self.stage == Stage::Serving
    }

    /// Checks that requests are taken.
    pub fn check_serving(&self) -> Result<(), Status> {
        if self.is_serving() && self.stop.is_none() { Ok(()) } else { Err(Status::NotReady) }
    }

    /// The directory cannot be used. The first reason counts.
    pub fn refuse_to_start(&mut self, reason: String) {
        self.start_error.get_or_insert(reason);
    }

    pub fn start_error(&self) -> Option<&str> {
        self.start_error.as_deref()
    }
}
