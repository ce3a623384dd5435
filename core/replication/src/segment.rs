//! One segment: what is wanted of it, and what each backup has reached.

use crate::Tail;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Epoch, Instant, ServerId, StreamId};
use ramhold_wire::data::AppendReply;
use std::time::Duration;

const BACKOFF_FIRST: Duration = Duration::from_millis(5);
const BACKOFF_MAX: Duration = Duration::from_millis(500);
/// The most by which the time for an answer is stretched, as a power of two.
const PATIENCE_MAX: u32 = 4;

#[derive(Debug)]
pub(crate) struct Segment {
    pub stream: StreamId,
    pub side: bool,
    /// It is not rolled yet: backups hold frames for it.
    pub held: bool,
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
    /// It was that once, so what it lacks now was lost.
    pub was_complete: bool,
    /// Something waits for it to be whole, other than its safety: it is not in the head order yet.
    pub awaited: bool,
    /// Some backup may have closed it, and one that is lost by now too.
    pub closing: bool,
    /// It has no replicas for now, so that others may have their frames.
    pub put_off: bool,
    /// Since when no failure domain is left for one of its replicas.
    pub none_fits_since: Option<Instant>,
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
    /// On the device there, at the wanted epoch; of a closed replica all or nothing.
    pub flushed: u32,
    /// It is not asked for what is flushed before this.
    pub probe_at: Instant,
    pub in_flight: u16,
    /// Answers of earlier attempts do not count for `in_flight`.
    pub attempt: u32,
    /// The attempt with which the present backup was chosen, or the replica opened anew: earlier answers are about
    /// another replica.
    pub born: u32,
    /// The epoch at which the replica was opened last.
    pub opened: Option<Epoch>,
    pub retry_at: Instant,
    pub backoff: Duration,
    /// How often in a row no answer came in time: each time the next is given twice as long, so that a backup that is
    /// merely slow is not buried under repetitions.
    pub patience: u32,
    /// When the first of the messages that are unanswered since was sent.
    pub silent_since: Option<Instant>,
    /// When the newest append was sent that the backup has accepted.
    pub granted: Option<Instant>,
}

impl Segment {
    pub fn new(stream: StreamId, side: bool, replicas: u8, opening: Tail) -> Segment {
        Segment {
            stream,
            side,
            held: false,
            opening,
            epoch: Epoch(0),
            recorded: Epoch(0),
            recording: false,
            floor: 0,
            places: (0..replicas).map(|_| Place::empty()).collect(),
            avoided: Vec::new(),
            complete: false,
            was_complete: false,
            awaited: side,
            closing: false,
            put_off: false,
            none_fits_since: None,
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

    /// Replicas that are closed and whole.
    pub fn replicas_left(&self) -> usize {
        self.places.iter().filter(|place| place.closed).count()
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
            place.flushed = 0;
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
            flushed: 0,
            probe_at: Instant::ZERO,
            in_flight: 0,
            attempt: 0,
            born: 0,
            opened: None,
            retry_at: Instant::ZERO,
            backoff: BACKOFF_FIRST,
            patience: 0,
            silent_since: None,
            granted: None,
        }
    }

    /// Takes in what an answer tells. Answers come in any order: one from before the closing, or of an older epoch, says
    /// nothing of what the device has now.
    pub fn reached(&mut self, reached: &AppendReply, wanted_epoch: Epoch) {
        self.certified = self.certified.max(reached.certified);
        self.epoch = self.epoch.max(Some(reached.epoch));
        if reached.closed && !self.closed {
            self.closed = true;
            self.flushed = 0;
        }
        if reached.epoch == wanted_epoch && reached.closed == self.closed {
            self.flushed = self.flushed.max(reached.flushed.min(reached.certified));
        }
        self.sent = self.sent.max(self.certified);
        if self.closed && self.epoch == Some(wanted_epoch) {
            // Also when it tells what was sent before the last rewinding: nothing is missing. The segment may be shorter
            // here by now, and a second closing, of less than the replica has, would be refused.
            (self.sent_epoch, self.sent_close) = (self.epoch, true);
        }
    }

    /// Closed there, and the device has it as that.
    pub fn is_flushed(&self) -> bool {
        self.closed && self.flushed >= self.certified
    }

    /// A message that opens the replica is about to be sent. Where nothing is known of one opened at a lower epoch, this
    /// makes another one in its place, which has nothing of what late answers may tell of that.
    pub fn opens(&mut self, epoch: Epoch) {
        let is_another = self.epoch.is_none() && self.opened.is_some_and(|before| before != epoch);
        if is_another && !planted(Defect::OpenedAnewUnnoticed) {
            self.born = self.attempt;
        }
        self.opened = Some(epoch);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_that_tells_of_the_closing_leaves_nothing_to_send() {
        let sent = Place { sent: 5156, sent_epoch: Some(Epoch(0)), sent_close: true, ..Place::empty() };
        let mut place = Place { backup: Some(ServerId(8)), touched: true, in_flight: 1, ..sent };
        place.unanswered(Instant(1_000_000));
        assert_eq!((place.sent, place.sent_epoch, place.sent_close), (0, None, false));
        let closed =
            AppendReply { length: 5156, certified: 5156, epoch: Epoch(0), closed: true, flushed: 5156 };
        place.reached(&closed, Epoch(0));
        assert_eq!((place.sent, place.sent_epoch, place.sent_close), (5156, Some(Epoch(0)), true));
        // The epoch was raised meanwhile: the backup has yet to be told.
        let mut place = Place { in_flight: 1, ..Place::empty() };
        place.reached(&closed, Epoch(1));
        assert_eq!((place.sent_epoch, place.sent_close), (None, false));
    }
}
