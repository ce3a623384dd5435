//! A death that is planned for a step of a process.
//!
//! Not here: who passes which mark (marks).

/// A step of a process: it passes this mark for the `number`-th time, counted from 1.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Step {
    pub node: usize,
    pub mark: String,
    pub number: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// The process is killed. Written data stays in its files.
    Killed,
    /// The host loses its power.
    PowerCut,
}

/// A death that is planned for a step of a process.
pub(super) struct CrashPoint {
    pub mark: String,
    /// Passings before the fatal one.
    pub spared: u64,
    pub victim: usize,
    pub death: Death,
}

impl CrashPoint {
    /// Whether this passing is the fatal one.
    pub fn is_fatal(&mut self, mark: &str) -> bool {
        if self.mark != mark {
            return false;
        }
        match self.spared.checked_sub(1) {
            Some(left) => {
                self.spared = left;
                false
            }
            None => true,
        }
    }
}
