//! Questions of sessions about keys, and their answers, now or when something is durable.
//!
//! Not here: the rules of the register (core/quorum), the store (`store`). Catalogue: I1.

use crate::phase::{Context, Phase};
use crate::question::{Answered, Asker, Key, Refusal};
use crate::store::{LogShelf, Owns};
use crate::{Brick, Value};
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, KeyHash, Status, TableId};
use ramhold_log::{AppendRefusal, Purpose, QuorumRecord, Unreadable};
use ramhold_quorum::Ask;
use ramhold_shard::{Found, LogSegments};
use ramhold_wire::Step;

/// The most values that wait until they are durable, the brick's own repairs included. More are refused.
const WAITING_COUNT_MAX: usize = 65_536;
/// How often a write tries again when cleaning has made room.
const STORE_TRIES: u32 = 4;

impl Brick {
    /// A session asks about a key. Its answer, now or when something is durable, goes out with `send_answers`; a brick that
    /// is silent has none.
    pub(crate) fn ask(
        &mut self,
        step: &mut Step<'_>,
        (table, key): (TableId, &[u8]),
        ask: Ask<Value>,
        asker: Asker,
    ) -> Result<(), Refusal> {
        if self.phase != Phase::Serving || self.outlived.is_some() {
            return Err(Refusal::NotReady);
        }
        check_limits(key, &ask)?;
        let now = step.now;
        let hash = self.tables.hash(table, key).ok_or(Refusal::UnknownTable)?;
        let bytes = match &ask {
            Ask::Write(write) => {
                let value_bytes = write.value.as_ref().map_or(0, |value| value.bytes.len());
                (ramhold_log::QUORUM_OVERHEAD_BYTES + key.len() + value_bytes) as u64
            }
            Ask::Value | Ask::Stamp => 0,
        };
        let key: Key = key.to_vec();
        let asked = self.ask_register(step, (table, hash), &key, ask, asker);
        let is_early = u64::from(self.is_loading() && asked.is_ok());
        let count = if bytes > 0 { &mut self.counts.early_writes } else { &mut self.counts.early };
        *count += is_early;
        self.advance_appended(step);
        if bytes > 0
            && let Some(store) = &mut self.store
        {
            store.pay(step, &self.tables, bytes);
            self.release(now);
        }
        asked
    }

    pub(crate) fn ask_register(
        &mut self,
        step: &mut Step<'_>,
        (table, hash): (TableId, KeyHash),
        key: &Key,
        ask: Ask<Value>,
        mut asker: Asker,
    ) -> Result<(), Refusal> {
        let time = self.clock.now(step.now);
        for _ in 0..STORE_TRIES {
            let store = self.store.as_mut().expect("who serves has a log");
            let Some(tablet) = self.tables.find(table, hash) else {
                return self.answer_wrong_owner(time.earlier, table, asker);
            };
            if !self.clock.is_known(&tablet.siblings) || !tablet.register.votes() {
                return Err(Refusal::NotReady);
            }
            if matches!(ask, Ask::Write(_)) && store.waiting_count() >= WAITING_COUNT_MAX {
                return Err(Refusal::TooMany);
            }
            tablet.load.asked += u64::from(asker != Asker::NOBODY);
            let stream = tablet.stream;
            let stored_before = store.stored_count();
            let purpose = Purpose::Ordinary;
            let mut shelf = LogShelf { store, table, stream, hash, purpose, refusal: None, is_new: false };
            if let Err(unreadable) = shelf.check(key) {
                return Err(self.unreadable(step, unreadable));
            }
            if self.loading.is_some() && !shelf.is_loaded(key, &ask) {
                self.counts.unloaded += 1;
                return Err(Refusal::NotReady);
            }
            shelf.purpose = purpose_of(&ask, asker, shelf.value_bytes(key) > 0);
            let purpose = shelf.purpose;
            let is_ordinary = purpose == Purpose::Ordinary;
            if matches!(ask, Ask::Value) && tablet.register.is_open(key) {
                // The answer waits together with the value.
                asker.load.bytes = u32::try_from(key.len() + shelf.value_bytes(key)).unwrap_or(u32::MAX);
                if !self.queues.admits(asker.load) {
                    return Err(Refusal::TooMany);
                }
            }
            let waiting = tablet.register.waiting_count();
            let answers = tablet.register.ask(time, (key, ask.clone()), asker, &mut shelf);
            let (refusal, is_new) = (shelf.refusal, shelf.is_new);
            if tablet.register.waiting_count() > waiting {
                self.queues.waits(asker.load);
            }
            let is_repair = matches!(&ask, Ask::Write(write) if write.is_repair) && asker != Asker::NOBODY;
            self.counts.repairs += u64::from(is_repair && store.stored_count() > stored_before);
            self.answers.extend(answers.into_iter().map(|(asker, answer)| Answered { asker, answer }));
            if is_ordinary && store.stored_count() > stored_before {
                store.shard.cleaning.has_refused = false;
            }
            if is_new {
                store.has_placed(step.now);
            }
            match refusal {
                None => return Ok(()),
                Some(AppendRefusal::HeadFull)
                    if store.roll_for(step, &self.tables, stream, purpose).is_some() => {}
                Some(refusal @ (AppendRefusal::HeadFull | AppendRefusal::OutOfMemory)) => {
                    if store.lacks_place(step.now, refusal) {
                        return Err(Refusal::OutOfMemory);
                    }
                    store.shard.cleaning.has_refused = !store.clean_for_room(step, &self.tables, purpose);
                    if store.shard.cleaning.has_refused {
                        return Err(Refusal::OutOfMemory);
                    }
                }
                Some(AppendRefusal::TooLarge) => return Err(Refusal::BadRequest),
                Some(AppendRefusal::Unreadable(unreadable)) => return Err(self.unreadable(step, unreadable)),
            }
        }
        // The log has room, and takes nothing all the same: a digest of its segments would fill half of one.
        Err(Refusal::OutOfMemory)
    }

    /// Advances after a question: only replication can have something new to do.
    pub(crate) fn advance_appended(&mut self, step: &mut Step<'_>) {
        let Some(store) = &mut self.store else { return };
        if std::mem::take(&mut store.shard.appended) {
            let log = LogSegments(&store.shard.log);
            store.shard.replicator.advance_heads(step.now, &log, step.view, step.effects);
            self.release(step.now);
        }
    }

    /// The answer about a key that another brick has. A table of which this brick has no tablet has no epoch here.
    fn answer_wrong_owner(&mut self, time: u64, table: TableId, asker: Asker) -> Result<(), Refusal> {
        let own = self.tables.all().find(|tablet| tablet.range.table == table);
        let answer = own.map(|tablet| tablet.register.wrong_owner(time)).ok_or(Refusal::UnknownTable)?;
        self.answers.push(Answered { asker, answer });
        Ok(())
    }

    /// Begins the repair of a damaged entry.
    pub(crate) fn unreadable(&mut self, step: &mut Step<'_>, unreadable: Unreadable) -> Refusal {
        let Unreadable::Damaged(at) = unreadable else { return Refusal::Corrupt };
        let store = self.store.as_mut().expect("who reads has a log");
        let (segment, offset) = store.shard.log.place_of(at);
        store.shard.note_damage(step, segment, offset);
        self.advance_repairs(step);
        match self.store.as_ref().map(|store| store.shard.scrub.refusal(segment)) {
            Some(Status::Retry) => Refusal::Retry,
            _ => Refusal::Corrupt,
        }
    }

    pub(crate) fn advance_repairs(&mut self, step: &mut Step<'_>) {
        let now = step.now;
        let Brick { store: Some(store), tables, calls, failure, .. } = self else { return };
        let mut open = |address, deadline, read| calls.open(address, now, deadline, Context::ReadBack(read));
        for found in store.shard.advance_repairs(step, &Owns(tables), &mut open) {
            let Found::Beyond(segment) = found else { continue };
            *failure = Some(format!(
                "{segment} is damaged in memory where the device does not have it: start again"
            ));
        }
    }

    /// Gives the answers that waited for what is durable now.
    pub(crate) fn release(&mut self, now: Instant) {
        let Some(store) = &mut self.store else { return };
        let time = self.clock.now(now).earlier;
        for (stream, through) in store.take_durable() {
            for tablet in self.tables.in_stream(stream) {
                for (asker, answer) in tablet.register.is_durable(time, through) {
                    self.queues.waited(asker.load);
                    self.answers.push(Answered { asker, answer });
                }
            }
        }
    }
}

/// How much of the log's reserve a write may use. A tombstone over a value frees memory. A session's repair stores what
/// another brick has stored already, and so does a removal of a key that only others have: without room for them nobody
/// could read or remove the keys that were half stored when memory ran out. The sweep waits for room instead, or it would
/// take the room of the repairs.
fn purpose_of(ask: &Ask<Value>, asker: Asker, has_value: bool) -> Purpose {
    match ask {
        _ if planted(Defect::QuorumRepairWithoutReserve) => Purpose::Ordinary,
        Ask::Write(write) if write.value.is_none() && has_value => Purpose::Freeing,
        Ask::Write(write) if asker != Asker::NOBODY && (write.is_repair || write.value.is_none()) => {
            Purpose::Recovery
        }
        Ask::Value | Ask::Stamp | Ask::Write(_) => Purpose::Ordinary,
    }
}

/// Checks what comes from outside against the limits of a log.
fn check_limits(key: &[u8], ask: &Ask<Value>) -> Result<(), Refusal> {
    let is_fine = match ask {
        Ask::Value | Ask::Stamp => true,
        Ask::Write(write) => {
            let is_stamp = write.stamp.is_of_put() || write.is_repair;
            let is_value = write.value.as_ref().is_none_or(|value| value.bytes.len() <= VALUE_BYTES_MAX);
            is_value && is_stamp && QuorumRecord::is_possible(write.stamp)
        }
    };
    if is_fine && key.len() <= KEY_BYTES_MAX { Ok(()) } else { Err(Refusal::BadRequest) }
}
