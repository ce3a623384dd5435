//! A brick's side of the register: judges writes, stores them, and answers when what it says is durable.
//!
//! Judging and storing are one step, so that no older value can be stored over a newer one. The values are on a `Shelf`:
//! the log of a real brick, or a map in tests. A shelf may need time until something is durable. Every answer about a key
//! waits until the newest that was stored for it is: a stamp that is told, and a refusal for its sake, must outlive the
//! brick.
//!
//! A brick that does not vote is silent, and stores nothing: it has forgotten something, and is rebuilt from others.
//!
//! Not here: time (the caller's: the median of the brick's own clock and its siblings'), the tablets that it holds.

use crate::clock::Moment;
use crate::message::{Answer, Ask, BrickId, Heard, Life, Said, Write};
use crate::{AHEAD_PUT, AHEAD_REPAIR, HORIZON};
use ramhold_base::Stamp;
use ramhold_base::planted::{Defect, planted};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::time::Duration;

/// Names something that was stored. Tickets rise, and become durable in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(pub u64);

/// When something that was stored is as durable as the table promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    Now,
    /// The shelf will tell: `Brick::is_durable`.
    Later(Ticket),
}

/// The most answers that wait for the device. Beyond them a brick is silent.
const WAITING_COUNT_MAX: usize = 65_536;

/// A shelf has no room for a value now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom;

/// The values of a brick, and what it remembers of those that were overwritten.
pub trait Shelf<K, V> {
    /// `Stamp::NONE` if the key was never written.
    fn newest(&self, key: &K) -> Stamp;
    /// The newest value; `None`: a tombstone, or none at all.
    fn value(&self, key: &K) -> Option<V>;
    /// Whether a stamp was stored that has been overwritten since.
    fn has_applied(&self, key: &K, stamp: Stamp) -> bool;
    /// Whether `has_applied` has no answer, because the stamp is too old.
    fn has_forgotten(&self, stamp: Stamp) -> bool;
    /// Stores a value over all others. The stamp before it counts as applied from now on. Without room nothing changes, and
    /// the brick is silent: it may store the same stamp later.
    fn store(&mut self, key: &K, stamp: Stamp, value: Option<V>) -> Result<Stored, NoRoom>;
}

/// The effect of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Store,
    Applied,
    Rejected,
    Unknown,
    Silent,
}

/// A session that is to be answered, as the caller knows it.
type Answers<A, V> = Vec<(A, Answer<V>)>;

/// One brick. `A` names who asked.
#[derive(Clone, Debug)]
pub struct Brick<K, V, A> {
    id: BrickId,
    life: Life,
    epoch: u64,
    siblings: BTreeMap<BrickId, Life>,
    votes: bool,
    /// Answers that wait for this ticket.
    waiting: BTreeMap<Ticket, Vec<(A, Said<V>)>>,
    waiting_count: usize,
    /// For keys whose newest value is not durable yet: its ticket.
    unstored: BTreeMap<K, Ticket>,
    /// With a planted defect: writes that are stored a moment after they were judged.
    late: Vec<(A, K, Write<V>)>,
}

impl<K: Ord + Clone, V: Clone, A> Brick<K, V, A> {
    pub fn new(id: BrickId, life: Life, epoch: u64) -> Brick<K, V, A> {
        let (siblings, waiting, unstored) = Default::default();
        let (waiting_count, late) = (0, Vec::new());
        Brick { id, life, epoch, siblings, votes: true, waiting, waiting_count, unstored, late }
    }

    pub fn id(&self) -> BrickId {
        self.id
    }

    pub fn life(&self) -> Life {
        self.life
    }

    /// A sibling's life, as far as it is known.
    pub fn life_of(&self, sibling: BrickId) -> Option<Life> {
        self.siblings.get(&sibling).copied()
    }

    /// Notes a sibling's life. It must be durable before anything is answered.
    pub fn hear_of(&mut self, sibling: BrickId, life: Life) {
        let known = self.siblings.entry(sibling).or_default();
        *known = life.max(*known);
    }

    /// The bricks of the tablet have changed: these are the others, with their lives as far as they are known.
    pub fn change(&mut self, epoch: u64, siblings: BTreeMap<BrickId, Life>) {
        self.epoch = self.epoch.max(epoch);
        self.siblings = siblings;
    }

    /// The tablet is cut: another register goes on with the keys of which `is_other` is true. Answers that wait are not
    /// given: the parts may soon have different epochs, and sessions ask again.
    #[must_use]
    pub fn cut(&mut self, is_other: impl Fn(&K) -> bool) -> Brick<K, V, A> {
        let mut other = Brick::new(self.id, self.life, self.epoch);
        (other.siblings, other.votes) = (self.siblings.clone(), self.votes);
        other.unstored = self.unstored.extract_if(.., |key, _| is_other(key)).collect();
        (self.waiting, self.waiting_count) = Default::default();
        other
    }

    /// The tablet and another one become one. It votes if both did, under the lower epoch until it is told the next one.
    pub fn join(&mut self, other: Brick<K, V, A>) {
        self.votes &= other.votes;
        self.epoch = self.epoch.min(other.epoch);
        self.waiting_count += other.waiting_count;
        for (ticket, answers) in other.waiting {
            self.waiting.entry(ticket).or_default().extend(answers);
        }
        self.unstored.extend(other.unstored);
        for (sibling, life) in other.siblings {
            self.hear_of(sibling, life);
        }
    }

    /// The brick starts its next life. If it has forgotten something, it does not vote until it is rebuilt.
    /// All that the shelf has must be durable by then: it is told without waiting.
    pub fn begin_life(&mut self, has_forgotten: bool) {
        self.life = Life(self.life.0 + 1);
        self.votes = !has_forgotten || planted(Defect::QuorumForgottenVotes);
        (self.waiting, self.unstored, self.waiting_count) = Default::default();
        self.late.clear();
    }

    /// The brick has the newest of each key from others (`Rebuild`), and votes from now on.
    pub fn is_rebuilt(&mut self) {
        self.votes = true;
    }

    pub fn votes(&self) -> bool {
        self.votes
    }

    /// A question about a key that this brick holds. `time` is the brick's, in microseconds. Returns the answers that
    /// may be given now; others come from `is_durable`, or never.
    pub fn ask<S: Shelf<K, V>>(
        &mut self,
        time: impl Into<Moment>,
        (key, ask): (&K, Ask<V>),
        asker: A,
        shelf: &mut S,
    ) -> Answers<A, V> {
        if !self.votes {
            return Vec::new();
        }
        let moment = time.into();
        let time = moment.earlier;
        let said = match ask {
            Ask::Value => Some(Said::Value(shelf.newest(key), shelf.value(key))),
            Ask::Stamp => Some(Said::Stamp(shelf.newest(key))),
            Ask::Write(write) => {
                let verdict = judge(moment, key, &write, shelf);
                if verdict == Verdict::Store && planted(Defect::QuorumWriteNotAtomic) {
                    self.late.push((asker, key.clone(), write));
                    return Vec::new();
                }
                self.obey(verdict, key, write, shelf)
            }
        };
        let mut answers: Answers<A, V> = Vec::new();
        if let Some(said) = said {
            answers.extend(self.answer(time, key, asker, said));
        }
        answers.extend(self.store_late(time, shelf));
        answers
    }

    fn obey<S: Shelf<K, V>>(
        &mut self,
        verdict: Verdict,
        key: &K,
        write: Write<V>,
        shelf: &mut S,
    ) -> Option<Said<V>> {
        match verdict {
            Verdict::Store => {
                if let Stored::Later(ticket) = shelf.store(key, write.stamp, write.value).ok()? {
                    self.unstored.insert(key.clone(), ticket);
                }
                Some(Said::Applied)
            }
            Verdict::Applied => Some(Said::Applied),
            Verdict::Rejected => Some(Said::Rejected(shelf.newest(key))),
            Verdict::Unknown => Some(Said::Unknown(shelf.newest(key))),
            Verdict::Silent => None,
        }
    }

    fn store_late<S: Shelf<K, V>>(&mut self, time: u64, shelf: &mut S) -> Answers<A, V> {
        let late = std::mem::take(&mut self.late);
        let mut answers = Vec::new();
        for (asker, key, write) in late {
            if let Some(said) = self.obey(Verdict::Store, &key, write, shelf) {
                answers.extend(self.answer(time, &key, asker, said));
            }
        }
        answers
    }

    /// Gives an answer now, or keeps it until the newest value of its key is durable.
    fn answer(&mut self, time: u64, key: &K, asker: A, said: Said<V>) -> Option<(A, Answer<V>)> {
        match self.unstored.get(key) {
            Some(_) if self.waiting_count >= WAITING_COUNT_MAX => None,
            Some(ticket) if !planted(Defect::QuorumToldEarly) => {
                self.waiting_count += 1;
                self.waiting.entry(*ticket).or_default().push((asker, said));
                None
            }
            _ => Some((asker, self.told(time, said))),
        }
    }

    /// Everything up to this ticket is durable.
    pub fn is_durable(&mut self, time: u64, through: Ticket) -> Answers<A, V> {
        self.unstored.retain(|_, ticket| *ticket > through);
        let later = self.waiting.split_off(&Ticket(through.0 + 1));
        let durable = std::mem::replace(&mut self.waiting, later);
        self.waiting_count -= durable.values().map(Vec::len).sum::<usize>();
        durable.into_values().flatten().map(|(asker, said)| (asker, self.told(time, said))).collect()
    }

    /// The number of answers that wait until something is durable.
    pub fn waiting_count(&self) -> usize {
        self.waiting_count
    }

    /// Those whose answers wait until something is durable.
    pub fn waiting(&self) -> impl Iterator<Item = &A> {
        self.waiting.values().flatten().map(|(asker, _)| asker)
    }

    /// The answer of a brick that does not hold the key.
    /// It tells no epoch: the one of another tablet says nothing about the key's.
    pub fn wrong_owner(&self, time: u64) -> Answer<V> {
        Answer { epoch: 0, ..self.told(time, Said::WrongOwner) }
    }

    /// Whether the newest value of a key is not as durable yet as the table promises. Nobody may be told of it.
    pub fn is_open<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.unstored.contains_key(key) && !planted(Defect::QuorumPageEarly)
    }

    /// These words, with what the brick knows of lives. They tell of nothing that is not durable.
    pub fn told<S>(&self, clock: u64, said: S) -> Heard<S> {
        let siblings = self.siblings.iter().map(|(brick, life)| (*brick, *life)).collect();
        Heard { from: self.id, life: self.life, siblings, epoch: self.epoch, clock, said }
    }
}

/// Whether the stamp of a put is older than any tombstone that may be gone.
fn is_outdated(stamp: Stamp, time: Moment) -> bool {
    let age = (HORIZON + AHEAD_REPAIR).as_micros() as u64;
    stamp.time.saturating_add(age) < time.later && !planted(Defect::QuorumOutdatedStored)
}

fn judge<K, V, S: Shelf<K, V>>(time: Moment, key: &K, write: &Write<V>, shelf: &S) -> Verdict {
    let micros = |time: Duration| time.as_micros() as u64;
    let (stamp, newest) = (write.stamp, shelf.newest(key));
    let ahead = micros(if write.is_repair { AHEAD_REPAIR } else { AHEAD_PUT });
    if stamp == newest || shelf.has_applied(key, stamp) {
        Verdict::Applied
    } else if write.begun.saturating_add(micros(HORIZON)) < time.later
        || (!write.is_repair && is_outdated(stamp, time))
    {
        // A tombstone that it would have met may be gone.
        Verdict::Silent
    } else if stamp.time > time.earlier.saturating_add(ahead) && !planted(Defect::QuorumFarStored) {
        // Never `Rejected`: the same stamp can be stored when its time has come.
        Verdict::Silent
    } else if stamp > newest {
        Verdict::Store
    } else if shelf.has_forgotten(stamp) {
        Verdict::Unknown
    } else {
        Verdict::Rejected
    }
}
