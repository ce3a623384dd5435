//! Reads and mutations of objects.
//!
//! A mutation's result goes into the log in the same group as its effect. The result of a mutation that is refused by
//! the rules goes into the log alone. A client that repeats the mutation gets the same result again
//! (docs/protocols/exactly-once.md).

use crate::confirm::is_confirmed;
use crate::expiry::Over;
use crate::multi::Asker;
use crate::parked::Answer;
use crate::service::Service;
use crate::tablets::{Tablet, TabletState};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effects, Instant, KeyHash, Position, Status, TableId, Version};
use ramhold_log::{
    AppendRefusal, Found, Kind, Object, Purpose, Reference, Removal, RpcResult, Unreadable, Written,
};
use ramhold_wire::data::{KeyRequest, ReadReply, RejectRules, WriteRequest};
use ramhold_wire::{Header, Step, View};

impl Service {
    pub fn on_read(&mut self, step: &mut Step<'_>, header: &Header, body: &[u8], from: Asker) {
        match KeyRequest::decode(body) {
            Ok(request) => self.read(step, header, &request, from),
            Err(status) => self.answers.refuse(from, header, status, step.effects),
        }
    }

    pub fn read(&mut self, step: &mut Step<'_>, header: &Header, request: &KeyRequest<'_>, from: Asker) {
        let (tablet, hash) = match self.serving_to(request.table, request.key, from) {
            Ok(found) => found,
            Err(status) => return self.answers.refuse(from, header, status, step.effects),
        };
        self.counters.reads += 1;
        let is_leased = self.answers.is_leased(step.now, &self.shard);
        let is_over = match self.expire_for_reader(step, &tablet, request, hash) {
            Ok(is_over) => is_over,
            Err(status) => {
                let is_told = status == Status::Corrupt && !is_leased;
                let status = if is_told { Status::NotLeased } else { status };
                return self.answers.refuse(from, header, status, step.effects);
            }
        };
        let found = match self.shard.log.lookup(request.table, hash, request.key) {
            Ok(found) => found.filter(|found| is_object(found) && !is_over),
            Err(unreadable) => {
                let status = self.unreadable(step, unreadable);
                let is_told = status == Status::Corrupt && !is_leased;
                let status = if is_told { Status::NotLeased } else { status };
                return self.answers.refuse(from, header, status, step.effects);
            }
        };
        let version = found.map(|f| f.version);
        let refusal = request.rules.check(version).err().or(version.is_none().then_some(Status::NotFound));
        let mut position = self.depends_on(step.now, &tablet, request.table, hash, found.as_ref(), step.view);
        if planted(Defect::ReadEarly) && found.is_some() {
            position = Position::default();
        }
        if position > self.shard.durable(tablet.stream) && self.answers.is_crowded(tablet.stream) {
            return self.answers.refuse(from, header, Status::TooMany, step.effects);
        }
        if let Some(status) = refusal {
            let answer = Answer::of(status, version.unwrap_or_default());
            return self.answers.answer_read(
                step,
                &self.shard,
                (tablet.stream, position),
                from,
                header,
                answer,
            );
        }
        let found = found.expect("an absent object has been refused");
        let value_bytes = found.value.len();
        if let Err(status) = self.answers.check_room(from, value_bytes) {
            return self.answers.refuse(from, header, status, step.effects);
        }
        let write = |out: &mut Vec<u8>| {
            ReadReply::encode_head(out, found.version, found.time, found.expires);
            found.value.append_to(out);
        };
        if position <= self.shard.replicator.durable(tablet.stream) && is_leased {
            self.answers.multis.answer(from, header, Status::Ok, write, step.effects);
        } else {
            let mut bytes = Vec::new();
            write(&mut bytes);
            self.answers.answer_read(
                step,
                &self.shard,
                (tablet.stream, position),
                from,
                header,
                Answer::Body(bytes),
            );
        }
    }

    pub fn on_write(&mut self, step: &mut Step<'_>, header: &Header, body: &[u8], from: Asker) {
        match WriteRequest::decode(body) {
            Ok(request) => self.write(step, header, &request, from),
            Err(status) => self.answers.refuse(from, header, status, step.effects),
        }
    }

    pub fn write(&mut self, step: &mut Step<'_>, header: &Header, request: &WriteRequest<'_>, from: Asker) {
        let admitted = self.admit(step, header, request.table, request.key, from);
        let Some((tablet, hash)) = admitted else { return };
        if let Err(status) = self.expire_if_over(step, &tablet, request.table, hash, request.key) {
            return self.answers.refuse(from, header, status, step.effects);
        }
        let found = match self.shard.log.lookup(request.table, hash, request.key) {
            Ok(found) => found,
            // A client that sets no rules may write over an object that is lost.
            Err(Unreadable::Lost) if request.rules == RejectRules::default() => None,
            Err(unreadable) => {
                let status = self.unreadable(step, unreadable);
                return self.answers.refuse(from, header, status, step.effects);
            }
        };
        let current = found.filter(is_object).map(|f| f.version);
        if let Err(status) = request.rules.check(current) {
            let result = result_of(header, request.table, hash, status, current.unwrap_or_default());
            return self.settle(step, &tablet, Purpose::Ordinary, &result, from, header);
        }
        let replaces = found.map(|f| f.at);
        let version = self.next_version(&tablet, found.map(|f| f.version));
        let time = step.view.time(step.now);
        let expires = match request.expiry.map(|expiry| expiry.end(time)).transpose() {
            Ok(expires) => expires,
            Err(status) => return self.answers.refuse(from, header, status, step.effects),
        };
        let object = Object {
            table: request.table,
            version,
            time: time.seconds(),
            expires,
            key: request.key,
            value: request.value,
        };
        let result = result_of(header, request.table, hash, Status::Ok, version);
        self.put(step, &tablet, &object, replaces, &result, from, header);
    }

    /// Appends the object of an admitted mutation with the mutation's result, and answers with the result.
    pub fn put(
        &mut self,
        step: &mut Step<'_>,
        tablet: &Tablet,
        object: &Object<'_>,
        replaces: Option<Reference>,
        result: &RpcResult,
        from: Asker,
        header: &Header,
    ) {
        if !self.ceiling.admits(object.version) {
            return self.answers.refuse(from, header, Status::Retry, step.effects);
        }
        let logged = is_logged(tablet, result).then_some(result);
        let written = self.append(step, tablet, Purpose::Ordinary, |master, is_moved| {
            let replaces =
                if is_moved { master.found_again(object.table, result.hash, object.key)? } else { replaces };
            master.shard.log.write(tablet.stream, Purpose::Ordinary, result.hash, object, replaces, logged)
        });
        match written {
            Ok(written) => {
                self.counters.writes += 1;
                self.keep_if_unreplicated(tablet, result);
                let answer = Answer::Outcome(result.remembered());
                self.answer_mutation(tablet, written.position, from, header, answer, step.effects);
            }
            Err(status) => self.answers.refuse(from, header, status, step.effects),
        }
    }

    pub fn on_remove(&mut self, step: &mut Step<'_>, header: &Header, body: &[u8], from: Asker) {
        match KeyRequest::decode(body) {
            Ok(request) => self.remove(step, header, &request, from),
            Err(status) => self.answers.refuse(from, header, status, step.effects),
        }
    }

    pub fn remove(&mut self, step: &mut Step<'_>, header: &Header, request: &KeyRequest<'_>, from: Asker) {
        let admitted = self.admit(step, header, request.table, request.key, from);
        let Some((tablet, hash)) = admitted else { return };
        if let Err(status) = self.expire_if_over(step, &tablet, request.table, hash, request.key) {
            return self.answers.refuse(from, header, status, step.effects);
        }
        let found = match self.shard.log.lookup(request.table, hash, request.key) {
            Ok(found) => found.filter(is_object),
            // A client that sets no rules gets a lost object removed.
            Err(Unreadable::Lost) if request.rules == RejectRules::default() => None,
            Err(unreadable) => {
                let status = self.unreadable(step, unreadable);
                return self.answers.refuse(from, header, status, step.effects);
            }
        };
        let current = found.map(|f| f.version);
        let checked = request.rules.check(current);
        let result = |status, version| result_of(header, request.table, hash, status, version);
        let (Some(found), Ok(())) = (found, checked) else {
            // The rules refuse the remove, or there is no object: then there is nothing to do.
            let status = checked.err().unwrap_or(Status::Ok);
            if current.is_none() && status == Status::Ok {
                self.shard.log.forgive_key(request.table, hash);
            }
            let result = result(status, current.unwrap_or_default());
            return self.settle(step, &tablet, Purpose::Freeing, &result, from, header);
        };
        let (at, version) = (found.at, self.next_version(&tablet, Some(found.version)));
        let result = result(Status::Ok, version);
        let removal = (at, version, is_logged(&tablet, &result).then_some(&result));
        match self.take_out(step, &tablet, request.table, hash, request.key, removal) {
            Ok(position) => {
                self.counters.writes += 1;
                self.keep_if_unreplicated(&tablet, &result);
                let answer = Answer::Outcome(result.remembered());
                self.answer_mutation(&tablet, position, from, header, answer, step.effects);
            }
            Err(status) => self.answers.refuse(from, header, status, step.effects),
        }
    }

    /// Answers a mutation that changes nothing when its result is as durable as an effect would be, since an answer
    /// that was given once must be given again. All entries on which the answer depends were appended before.
    pub fn settle(
        &mut self,
        step: &mut Step<'_>,
        tablet: &Tablet,
        purpose: Purpose,
        result: &RpcResult,
        from: Asker,
        header: &Header,
    ) {
        let answer = Answer::Outcome(result.remembered());
        if tablet.unreplicated {
            self.keep_if_unreplicated(tablet, result);
            return self.answers.send(from, header, &answer, step.effects);
        }
        if result.lease.is_none() {
            // Nobody will ask again: the answer tells the present state, as a read does.
            let position = self.shard.log.head_end(tablet.stream);
            return self.answers.answer_read(
                step,
                &self.shard,
                (tablet.stream, position),
                from,
                header,
                answer,
            );
        }
        if planted(Defect::RefusalNotLogged) {
            let position = self.shard.log.head_end(tablet.stream);
            return self.answer_mutation(tablet, position, from, header, answer, step.effects);
        }
        let written = self.append(step, tablet, purpose, |master, _| {
            master.shard.log.refuse(tablet.stream, purpose, result)
        });
        match written {
            Ok(written) => self.answer_mutation(tablet, written.position, from, header, answer, step.effects),
            Err(status) => self.answers.refuse(from, header, status, step.effects),
        }
    }

    pub fn keep_if_unreplicated(&mut self, tablet: &Tablet, result: &RpcResult) {
        if tablet.unreplicated && !result.lease.is_none() {
            self.shard.log.keep_result(result);
        }
    }

    /// Takes an object that was just found out of the index, with a tombstone of this version. Returns where the
    /// tombstone ends.
    pub fn take_out(
        &mut self,
        step: &mut Step<'_>,
        tablet: &Tablet,
        table: TableId,
        hash: KeyHash,
        key: &[u8],
        (at, version, result): (Reference, Version, Option<&RpcResult>),
    ) -> Result<Position, Status> {
        if !self.ceiling.admits(version) || self.tablets.blocks(table, hash) {
            return Err(Status::Retry);
        }
        let removal = Removal { table, key, version, time: step.view.time(step.now).seconds() };
        let written = self.append(step, tablet, Purpose::Freeing, |master, is_moved| {
            let at = if is_moved { master.found_again(table, hash, key)?.unwrap_or(at) } else { at };
            master.shard.log.remove(tablet.stream, hash, &removal, at, result)
        })?;
        if !tablet.unreplicated {
            self.shard.appended = true;
            let key = parked_key(table, hash);
            self.answers.parked.entry(tablet.stream).or_default().remember_removal(written.position, key);
        }
        Ok(written.position)
    }

    /// Removes the object of a key if its time to live is over, as a client would. So nobody can see it again, whatever
    /// the clock of the next owner says (consistency rule 8).
    pub fn expire_if_over(
        &mut self,
        step: &mut Step<'_>,
        tablet: &Tablet,
        table: TableId,
        hash: KeyHash,
        key: &[u8],
    ) -> Result<(), Status> {
        // An object that only seems to be over is rare. So `peek_expiry` decides first, and only then the object is
        // looked up.
        if planted(Defect::ExpiredServed) {
            return Ok(());
        }
        if self.shard.log.peek_expiry(table, hash, key).is_none_or(|end| end > step.view.time(step.now)) {
            return Ok(());
        }
        let found = match self.shard.log.lookup(table, hash, key) {
            Ok(found) => found.filter(is_object),
            Err(unreadable) => return Err(self.unreadable(step, unreadable)),
        };
        let Some(found) = found.filter(|f| f.expires.is_some_and(|end| end <= step.view.time(step.now)))
        else {
            return Ok(());
        };
        let over = Over::of(&found);
        self.take_out_over(step, tablet, table, hash, key, over).map_err(|status| match status {
            // The object is over, but nobody may be told so until there is room for its tombstone.
            Status::OutOfMemory => Status::Retry,
            other => other,
        })
    }

    /// The tablet of a key, if it is served here.
    pub fn serving(&self, table: TableId, key: &[u8]) -> Result<(Tablet, KeyHash), Status> {
        let (tablet, hash) = self.tablets.find(table, key).ok_or(Status::WrongOwner)?;
        check_serving(&tablet).map(|tablet| (tablet, hash))
    }

    /// Like `serving`, but a request of this process only gets a confirmed tablet.
    pub fn serving_to(
        &mut self,
        table: TableId,
        key: &[u8],
        from: Asker,
    ) -> Result<(Tablet, KeyHash), Status> {
        let found = self.serving(table, key)?;
        match from {
            Asker::Local(_) if !is_confirmed(&found.0) => {
                self.confirming.wanted = Some(table);
                Err(Status::NotReady)
            }
            Asker::Local(_) | Asker::Conn(_) | Asker::Item { .. } => Ok(found),
        }
    }

    /// The tablet of a hash, if it is served here.
    pub fn serving_hash(&self, table: TableId, hash: KeyHash) -> Result<Tablet, Status> {
        self.tablets.of_hash(table, hash).ok_or(Status::WrongOwner).and_then(|tablet| check_serving(&tablet))
    }

    /// A version above that of the key, and never below the floors of the tablet and the shard (consistency rule 8).
    pub fn next_version(&self, tablet: &Tablet, current: Option<Version>) -> Version {
        match current {
            Some(version) => version.next().max(tablet.version_floor),
            None => self.shard.log.safe_version().max(tablet.version_floor),
        }
    }

    /// The position up to which the stream must be durable before anybody may hear that `found` is the state of the
    /// key.
    pub fn depends_on(
        &self,
        now: Instant,
        tablet: &Tablet,
        table: TableId,
        hash: KeyHash,
        found: Option<&Found<'_>>,
        view: &View,
    ) -> Position {
        if tablet.unreplicated || self.tablets.is_led(table, hash) {
            return Position::default();
        }
        match found {
            Some(found) => found.position(),
            None => self
                .answers
                .parked
                .get(&tablet.stream)
                .and_then(|p| p.removal(parked_key(table, hash), view.past_for_all(now)))
                .unwrap_or_default(),
        }
    }

    /// Appends a group. Rolls the head once if the group does not fit, and cleans a little if there is no memory.
    /// `group` is told whether cleaning may have moved what was found before.
    pub fn append(
        &mut self,
        step: &mut Step<'_>,
        tablet: &Tablet,
        purpose: Purpose,
        mut group: impl FnMut(&mut Service, bool) -> Result<Written, AppendRefusal>,
    ) -> Result<Written, Status> {
        match self.append_or_roll(step, tablet, |master| group(master, false)) {
            Err(Status::OutOfMemory) => {}
            outcome => return outcome,
        }
        if self.shard.cleaning_runs {
            // The removal of an expired object does not begin other passes.
            return Err(Status::Retry);
        }
        self.shard.cleaning.has_refused = !self.clean_for_room(step, purpose);
        if self.shard.cleaning.has_refused {
            // Recovered data can be cleaned as soon as devices have it.
            return Err(if self.settling.has_any() { Status::Retry } else { Status::OutOfMemory });
        }
        // The objects that were found before may have moved.
        self.append_or_roll(step, tablet, |master| group(master, true)).map_err(|status| match status {
            Status::OutOfMemory => Status::Retry,
            other => other,
        })
    }

    fn append_or_roll(
        &mut self,
        step: &mut Step<'_>,
        tablet: &Tablet,
        mut group: impl FnMut(&mut Service) -> Result<Written, AppendRefusal>,
    ) -> Result<Written, Status> {
        match group(self) {
            Ok(written) => return Ok(written),
            Err(AppendRefusal::HeadFull) => {}
            Err(AppendRefusal::OutOfMemory) => return Err(Status::OutOfMemory),
            Err(AppendRefusal::TooLarge) => return Err(Status::ValueTooLarge),
            Err(AppendRefusal::Unreadable(what)) => return Err(self.unreadable(step, what)),
        }
        self.roll(step, tablet.stream).ok_or(Status::OutOfMemory)?;
        group(self).map_err(|refusal| match refusal {
            AppendRefusal::HeadFull | AppendRefusal::TooLarge => Status::ValueTooLarge,
            AppendRefusal::OutOfMemory => Status::OutOfMemory,
            AppendRefusal::Unreadable(what) => self.unreadable(step, what),
        })
    }

    /// The place of a key's object or tombstone, after cleaning may have moved it.
    pub fn found_again(
        &self,
        table: TableId,
        hash: KeyHash,
        key: &[u8],
    ) -> Result<Option<Reference>, AppendRefusal> {
        match self.shard.log.lookup(table, hash, key) {
            Ok(found) => Ok(found.map(|found| found.at)),
            Err(Unreadable::Lost) => Ok(None),
            Err(damaged @ Unreadable::Damaged(_)) => Err(AppendRefusal::Unreadable(damaged)),
        }
    }

    pub fn answer_mutation(
        &mut self,
        tablet: &Tablet,
        position: Position,
        to: Asker,
        request: &Header,
        answer: Answer,
        effects: &mut Effects,
    ) {
        if tablet.unreplicated {
            self.answers.send(to, request, &answer, effects);
        } else {
            self.shard.appended = true;
            self.answers.answer_when_durable(
                &self.shard,
                (tablet.stream, position),
                to,
                request,
                answer,
                effects,
            );
        }
    }
}

pub(crate) fn result_of(
    header: &Header,
    table: TableId,
    hash: KeyHash,
    status: Status,
    version: Version,
) -> RpcResult {
    let (lease, sequence, floor) = (header.lease, header.sequence, header.unacknowledged);
    RpcResult { table, hash, lease, sequence, floor, status, version, number: None }
}

/// Whether a mutation's result goes into the log with its effect. Nobody repeats a mutation without a lease.
pub(crate) fn is_logged(tablet: &Tablet, result: &RpcResult) -> bool {
    !tablet.unreplicated && !result.lease.is_none() && !planted(Defect::ResultNotLogged)
}

fn check_serving(tablet: &Tablet) -> Result<Tablet, Status> {
    match tablet.state {
        TabletState::Serving => Ok(*tablet),
        TabletState::Recovering => Err(Status::Recovering),
        TabletState::Taking => Err(Status::NotReady),
    }
}

pub(crate) fn is_object(found: &Found<'_>) -> bool {
    found.kind == Kind::Object
}

pub(crate) fn parked_key(table: TableId, hash: KeyHash) -> (u32, u64) {
    (table.raw(), hash.0)
}
