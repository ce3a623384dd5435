//! One segment: its wanted state, and the state that each of its backups has reached.

use crate::Tail;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Epoch, Instant, ServerId, StreamId};
use ramhold_wire::data::AppendReply;
use std::time::Duration;

const BACKOFF_FIRST: Duration = Duration::from_millis(5);
const BACKOFF_MAX: Duration = Duration::from_millis(500);
/// The most by which the timeout of an append is multiplied, as a power of two.
const PATIENCE_MAX: u32 = 4;

#[derive(Debug)]
pub(crate) struct Segment {
    pub stream: StreamId,
    pub side: bool,
    /// A held head: it is not rolled yet, and backups hold frames for it.
    pub held: bool,
    /// The tail right after the segment began. No more may be sent while the head before it is still open.
    pub opening: Tail,
    /// The epoch that is wanted on every replica.
    pub epoch: Epoch,
    /// The last epoch that the coordinator has recorded. Epoch 0 needs no record.
    pub recorded: Epoch,
    pub recording: bool,
    /// The length up to which the segment may have been acknowledged.
    pub floor: u32,
    /// R places. While a replica moves, its successor is one more at the end.
    pub places: Vec<Place>,
    /// The place of the replica that moves.
    pub moves: Option<usize>,
    /// The highest attempt of places that are gone.
    pub attempts: u32,
    /// Backups that must not be chosen for this segment before an instant.
    pub avoided: Vec<(ServerId, Instant)>,
    /// The segment is closed, and whole on all places.
    pub complete: bool,
    /// The segment was complete once. A replica that is missing now was lost.
    pub was_complete: bool,
    /// A side segment for which a recovery or a cleaning pass waits: replicas that it lacks are made at once.
    pub awaited: bool,
    /// Some backup may have closed the segment, perhaps one that is lost by now.
    pub closing: bool,
    /// The segment has no replicas for now, so that others may have the frames.
    pub put_off: bool,
    /// The instant since when no failure domain is left for one of the replicas.
    pub none_fits_since: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Place {
    pub backup: Option<ServerId>,
    /// The backup may have created the replica.
    pub touched: bool,
    pub sent: u32,
    /// The last message did not hold all that there was, and has no certificate. The rest follows it at once.
    pub is_cut: bool,
    pub sent_epoch: Option<Epoch>,
    pub sent_close: bool,
    /// The length that the backup has certified.
    pub certified: u32,
    pub epoch: Option<Epoch>,
    pub closed: bool,
    /// The length that is on the backup's device, at the wanted epoch. A closed replica is flushed as a whole or not.
    pub flushed: u32,
    /// The backup is not probed for `flushed` before this instant.
    pub probe_at: Instant,
    pub in_flight: u16,
    /// Answers to earlier attempts do not count for `in_flight`.
    pub attempt: u32,
    /// The attempt with which the present backup was chosen, or the replica was opened anew. Earlier answers are about
    /// another replica.
    pub born: u32,
    /// The epoch at which the replica was opened last.
    pub opened: Option<Epoch>,
    pub retry_at: Instant,
    pub backoff: Duration,
    /// The number of timeouts in a row. Each one doubles the next timeout, so that a backup that is only slow is not
    /// flooded with repetitions.
    pub patience: u32,
    /// The instant when the first message was sent after which no answer has come.
    pub silent_since: Option<Instant>,
    /// The instant when the newest append was sent that the backup has accepted.
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
            moves: None,
            attempts: 0,
            avoided: Vec::new(),
            complete: false,
            was_complete: false,
            awaited: side,
            closing: false,
            put_off: false,
            none_fits_since: None,
        }
    }

    /// Whether all replicas hold at least `length` certified bytes at the wanted epoch.
    pub fn holds(&self, length: u32) -> bool {
        self.places.iter().all(|p| p.epoch == Some(self.epoch) && p.certified >= length)
    }

    /// Whether all replicas are closed at the wanted epoch, and that epoch is recorded or needs no record.
    pub fn is_durably_closed(&self, length: u32) -> bool {
        self.holds(length) && self.places.iter().all(|p| p.closed) && self.recorded == self.epoch
    }

    /// Whether the replica of this place is the one that recoveries read first.
    pub fn is_primary(&self, index: usize) -> bool {
        index == 0 || (self.moves == Some(0) && self.is_successor(index))
    }

    /// Whether this place is that of the successor of a replica that moves.
    pub fn is_successor(&self, index: usize) -> bool {
        self.moves.is_some() && index + 1 == self.places.len()
    }

    /// The places without the successor of a replica that moves: it does not count before it is whole.
    pub fn own_places(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().take(self.places.len() - usize::from(self.moves.is_some()))
    }

    /// The number of replicas that are closed and whole.
    pub fn replicas_left(&self) -> usize {
        self.places.iter().filter(|place| place.closed).count()
    }

    pub fn taken(&self) -> Vec<ServerId> {
        self.places.iter().filter_map(|p| p.backup).collect()
    }

    pub fn avoided(&self, now: Instant) -> Vec<ServerId> {
        self.avoided.iter().filter(|(_, until)| *until > now).map(|(id, _)| *id).collect()
    }

    /// Raises the epoch. Every replica must be told, and the coordinator.
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
            is_cut: false,
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

    /// Takes in an answer. Answers come in any order: one from before the closing, or of an older epoch, does not tell
    /// what the device has now.
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
            // Nothing is missing, even if the answer is to a message from before the last `rewind`. The segment may be
            // shorter in DRAM by now, and a second closing, with fewer bytes than the replica has, would be refused.
            (self.sent_epoch, self.sent_close) = (self.epoch, true);
        }
    }

    /// Whether the replica is closed, and is on the device as a closed one.
    pub fn is_flushed(&self) -> bool {
        self.closed && self.flushed >= self.certified
    }

    /// Notes that a message that opens the replica is about to be sent. If an earlier such message had another epoch
    /// and nothing is known of its replica, this message makes another replica in its place. Late answers about the
    /// earlier replica do not hold for the new one.
    pub fn opens(&mut self, epoch: Epoch) {
        let is_another = self.epoch.is_none() && self.opened.is_some_and(|before| before != epoch);
        if is_another && !planted(Defect::OpenedAnewUnnoticed) {
            self.born = self.attempt;
        }
        self.opened = Some(epoch);
    }

    /// Empties the place. Answers to earlier messages no longer count for it.
    pub fn reset(&mut self) {
        let attempt = self.attempt + 1;
        *self = Place { attempt, born: attempt, ..Place::empty() };
    }

    /// Goes back to the certified length, and sends again from there after a pause.
    pub fn rewind(&mut self, now: Instant) {
        self.rewind_to(self.certified);
        self.retry_at = now + self.backoff;
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
    }

    pub fn rewind_to(&mut self, length: u32) {
        self.attempt += 1;
        self.in_flight = 0;
        self.sent = length;
        self.is_cut = false;
        self.sent_epoch = self.epoch;
        self.sent_close = self.closed;
    }

    /// Notes that no answer came in time.
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
        // The epoch was raised meanwhile, and the backup has not been told yet.
        let mut place = Place { in_flight: 1, ..Place::empty() };
        place.reached(&closed, Epoch(1));
        assert_eq!((place.sent_epoch, place.sent_close), (None, false));
    }
}
