//! One segment: what is wanted of it, and what each backup has reached.

use crate::Tail;
use ramhold_base::{Epoch, Instant, ServerId, StreamId};
use std::time::Duration;

const BACKOFF_FIRST: Duration = Duration::from_millis(5);
const BACKOFF_MAX: Duration = Duration::from_millis(500);
/// The most by which the time for an answer is stretched, as a power of two.
const PATIENCE_MAX: u32 = 4;

#[derive(Debug)]
pub(crate) struct Segment {
    pub stream: StreamId,
    pub side: bool,
    /// Its tail right after it began: what may be sent while the head before it is still open.
    pub opening: Tail,
    /// Wanted on every replica.
    pub epoch: Epoch,
    /// The last epoch that the coordinator has recorded; 0 needs no record.
    pub recorded: Epoch,
    pub recording: bool,
    /// Acknowledged up to here.
    pub floor: u32,
    pub places: Vec<Place>,
    /// Backups not to be chosen for this segment before a time.
    pub avoided: Vec<(ServerId, Instant)>,
    /// Closed and whole on all places.
    pub complete: bool,
}

#[derive(Debug)]
pub(crate) struct Place {
    pub backup: Option<ServerId>,
    /// The backup may have created the replica.
    pub touched: bool,
    pub sent: u32,
    pub sent_epoch: Option<Epoch>,
    pub sent_close: bool,
    /// Certified there.
    pub certified: u32,
    pub epoch: Option<Epoch>,
    pub closed: bool,
    pub in_flight: u16,
    /// Answers of earlier attempts do not count for `in_flight`.
    pub attempt: u32,
    /// The attempt with which the present backup was chosen: earlier answers are about another replica.
    pub born: u32,
    pub retry_at: Instant,
    pub backoff: Duration,
    /// How often in a row no answer came in time: each time the next is given twice as long, so that a backup that is
    /// merely slow is not buried under repetitions.
    pub patience: u32,
    /// When the first of the messages that are unanswered since was sent.
    pub silent_since: Option<Instant>,
}

impl Segment {
    pub fn new(stream: StreamId, side: bool, replicas: u8, opening: Tail) -> Segment {
        Segment {
            stream,
            side,
            opening,
            epoch: Epoch(0),
            recorded: Epoch(0),
            recording: false,
            floor: 0,
            places: (0..replicas).map(|_| Place::empty()).collect(),
            avoided: Vec::new(),
            complete: false,
        }
    }

    /// All replicas hold at least `length` certified bytes at the wanted epoch.
    pub fn holds(&self, length: u32) -> bool {
        self.places.iter().all(|p| p.epoch == Some(self.epoch) && p.certified >= length)
    }

    /// All replicas are closed at the wanted epoch, and that epoch needs no record or has it.
    pub fn is_durably_closed(&self, length: u32) -> bool {
        self.holds(length) && self.places.iter().all(|p| p.closed) && self.recorded == self.epoch
    }

    pub fn taken(&self) -> Vec<ServerId> {
        self.places.iter().filter_map(|p| p.backup).collect()
    }

    pub fn avoided(&self, now: Instant) -> Vec<ServerId> {
        self.avoided.iter().filter(|(_, until)| *until > now).map(|(id, _)| *id).collect()
    }

    /// Raises the epoch: every replica has to be told, and the coordinator.
    pub fn raise_epoch(&mut self) {
        self.epoch = self.epoch.next();
        for place in &mut self.places {
            place.sent_epoch = None;
        }
    }
}

impl Place {
    pub fn empty() -> Place {
        Place {
            backup: None,
            touched: false,
            sent: 0,
            sent_epoch: None,
            sent_close: false,
            certified: 0,
            epoch: None,
            closed: false,
            in_flight: 0,
            attempt: 0,
            born: 0,
            retry_at: Instant::ZERO,
            backoff: BACKOFF_FIRST,
            patience: 0,
            silent_since: None,
        }
    }

    /// Empties the place; answers to what was sent before are not its own any more.
    pub fn reset(&mut self) {
        let attempt = self.attempt + 1;
        *self = Place { attempt, born: attempt, ..Place::empty() };
    }

    /// Goes back to what is known to be reached and sends again from there, after a pause.
    pub fn rewind(&mut self, now: Instant) {
        self.rewind_to(self.certified);
        self.retry_at = now + self.backoff;
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
    }

    pub fn rewind_to(&mut self, length: u32) {
        self.attempt += 1;
        self.in_flight = 0;
        self.sent = length;
        self.sent_epoch = self.epoch;
        self.sent_close = self.closed;
    }

    /// No answer came in time.
    pub fn unanswered(&mut self, now: Instant) {
        self.patience = (self.patience + 1).min(PATIENCE_MAX);
        self.rewind(now);
    }

    pub fn answered(&mut self) {
        self.patience = 0;
        self.backoff = BACKOFF_FIRST;
        self.silent_since = None;
    }
}
