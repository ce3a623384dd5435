//! The windows of a session, and the questions that wait until one opens.
//!
//! Each brick has a window for each class of questions. A question that finds its window full is *held*. It goes out as
//! soon as an answer or a timeout makes room, in the order in which the operations began. A put that is done by then
//! still goes to the bricks that it has not been sent to, for a short time: without that a burst of puts would leave
//! bricks behind that are not slow at all.
//!
//! Invariants:
//! - questions are held for a window only while it is full;
//! - an operation holds at most one question for each window;
//! - late puts are bounded by number, bytes and time.
//!
//! Not here: the rules of one window (core/quorum), who is asked (`ranking`), the calls (`quorum`). Protocol:
//! docs/protocols/quorum.md, rules 38, 39. Catalogue: I5.

use super::post::Post;
use crate::operation::OperationId;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, ServerId};
use ramhold_quorum::{Class, Sending, Window};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a put that is done is still sent to bricks whose windows were full. Reads and sweeps repair a brick that does
/// not keep up for longer.
const LATE_FOR: Duration = Duration::from_secs(1);
/// The most late puts of a session, and their bytes.
const LATE_COUNT_MAX: usize = 1024;
const LATE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The way in which a question ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It was answered in time.
    Succeeded,
    /// It was refused because too much waits at the brick, or its time was over.
    Lost,
    /// The end says nothing of the brick's load.
    Other,
}

#[derive(Default)]
struct Brick {
    /// The newest life that an answer has told; 0: none.
    life: u64,
    windows: [Window; Class::ALL.len()],
}

/// A question that waits for its window.
pub struct Held {
    pub post: Post,
    /// Its operation is done. The question is worth sending until then.
    pub late_until: Option<Instant>,
}

#[derive(Default)]
pub struct Flow {
    bricks: BTreeMap<ServerId, Brick>,
    held: BTreeMap<(ServerId, Class), BTreeMap<OperationId, Held>>,
    /// Late puts among them.
    late_count: usize,
    late_bytes: usize,
}

impl Flow {
    /// Takes a place in the window, if the question may go out now.
    pub fn send(&mut self, brick: ServerId, class: Class) -> Option<Sending> {
        let window = &mut self.bricks.entry(brick).or_default().windows[class.index()];
        window.is_open().then(|| window.send())
    }

    /// The question waits. One that the operation held before is replaced.
    pub fn hold(&mut self, post: Post) {
        let line = self.held.entry((post.brick, post.class)).or_default();
        line.insert(post.operation, Held { post, late_until: None });
    }

    /// Takes the next question that waits for this window, if the window is open.
    pub fn take_held(&mut self, brick: ServerId, class: Class) -> Option<Held> {
        if !self.is_open(brick, class) {
            return None;
        }
        let line = self.held.get_mut(&(brick, class))?;
        let first = line.pop_first();
        if line.is_empty() {
            self.held.remove(&(brick, class));
        }
        let (_, held) = first?;
        self.leave(&held);
        Some(held)
    }

    fn leave(&mut self, held: &Held) {
        if held.late_until.is_some() {
            self.late_count -= 1;
            self.late_bytes -= held.post.question.value_bytes();
        }
    }

    pub fn is_open(&self, brick: ServerId, class: Class) -> bool {
        self.bricks.get(&brick).is_none_or(|known| known.windows[class.index()].is_open())
    }

    pub fn utilisation(&self, brick: ServerId, class: Class) -> u64 {
        self.bricks.get(&brick).map_or(0, |known| known.windows[class.index()].utilisation())
    }

    /// A question that went out has ended.
    pub fn ended(&mut self, brick: ServerId, class: Class, sending: Sending, end: End) {
        let known = self.bricks.get_mut(&brick).expect("a brick with questions under way is kept");
        let window = &mut known.windows[class.index()];
        match end {
            End::Succeeded => window.succeeded(sending),
            End::Lost => window.lost(sending),
            End::Other => window.ended(sending),
        }
    }

    /// A brick has told its life. The windows of a new one are narrow.
    pub fn hear_life(&mut self, brick: ServerId, life: u64) {
        let known = self.bricks.entry(brick).or_default();
        if known.life != 0 && life > known.life && !planted(Defect::QuorumWindowOfOldLife) {
            known.windows.iter_mut().for_each(Window::restarted);
        }
        known.life = known.life.max(life);
    }

    /// An operation has ended. If it is done, what it writes still goes to bricks whose windows are full.
    pub fn forget(&mut self, now: Instant, operation: OperationId, is_done: bool) {
        if self.held.is_empty() {
            return;
        }
        for ((_, class), line) in &mut self.held {
            let Some(held) = line.get_mut(&operation) else { continue };
            let bytes = held.post.question.value_bytes();
            let fits = self.late_count < LATE_COUNT_MAX && self.late_bytes + bytes <= LATE_BYTES_MAX;
            let is_late = is_done || planted(Defect::QuorumRefusedStillSent);
            if is_late && *class == Class::Put && fits {
                held.late_until = Some(now + LATE_FOR);
                self.late_count += 1;
                self.late_bytes += bytes;
            } else {
                line.remove(&operation);
            }
        }
        self.held.retain(|_, line| !line.is_empty());
    }

    /// Forgets bricks that hold nothing of this session any more, and have no question under way.
    pub fn keep(&mut self, bricks: &BTreeSet<ServerId>) {
        let is_idle = |known: &Brick| known.windows.iter().all(|window| window.utilisation() == 0);
        self.bricks.retain(|brick, known| bricks.contains(brick) || !is_idle(known));
        let gone: Vec<(ServerId, Class)> =
            self.held.keys().filter(|(brick, _)| !bricks.contains(brick)).copied().collect();
        for key in gone {
            let line = self.held.remove(&key).unwrap_or_default();
            line.values().for_each(|held| self.leave(held));
        }
    }
}
