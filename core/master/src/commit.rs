//! Commits: several objects checked and changed as one.
//!
//! All rules are checked before anything is appended. Then the whole commit goes into the log as one group with its one
//! result, and into the index in the same step. So nobody sees a part of a commit, here or after a recovery. All keys
//! are in one stream, so the group comes after every entry that the rules were checked against: when the group is
//! durable, so are those entries. A commit that only checks has no group. It is a read of all its keys at one moment,
//! and waits as a read does.
//!
//! All objects that a commit writes or removes get one version, above those of all its keys. The result has room for
//! one version, and a key's version only has to grow.
//!
//! Rules: docs/protocols/consistency.md, "Commits". Catalogue: A4, A10.

use crate::confirm::is_confirmed;
use crate::multi::Asker;
use crate::objects::{is_logged, is_object, parked_key, result_of};
use crate::parked::Answer;
use crate::service::Service;
use crate::tablets::Tablet;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ConnId, KeyHash, Mark, Position, Status, TableId, Version};
use ramhold_log::{AppendRefusal, Change, Object, Purpose, Removal, RpcResult, Unreadable, Written};
use ramhold_wire::commit::{CommitAction, CommitItem, CommitRequest};
use ramhold_wire::data::RejectRules;
use ramhold_wire::{Header, Step};
use std::collections::BTreeSet;

/// An item with the tablet and the hash of its key.
struct Part<'a> {
    item: CommitItem<'a>,
    tablet: Tablet,
    hash: KeyHash,
}

/// The outcome of checking all items.
struct Judged<'a> {
    /// The refusal by the rules of one item: the status, the version of the item's object, and the item's number.
    refused: Option<(Status, Version, usize)>,
    changes: Vec<Change<'a>>,
    /// The version of all changes; none when nothing is changed.
    version: Version,
    /// The position up to which the stream must be durable before anybody may hear the outcome.
    position: Position,
}

impl Service {
    pub fn on_commit(&mut self, step: &mut Step<'_>, header: &Header, body: &[u8], from: ConnId) {
        let from = Asker::Conn(from);
        match CommitRequest::decode(body) {
            Ok(request) => self.carry_out(step, header, &request, from),
            Err(status) => self.answers.refuse(from, header, status, step.effects),
        }
    }

    pub fn carry_out(
        &mut self,
        step: &mut Step<'_>,
        header: &Header,
        request: &CommitRequest<'_>,
        from: Asker,
    ) {
        let first = request.first();
        let admitted = self.admit(step, header, first.table, first.key, from);
        let Some((tablet, hash)) = admitted else { return };
        let result = |status, version| result_of(header, first.table, hash, status, version);
        let parts = match self.together(&tablet, request.items()) {
            Ok(parts) => parts,
            // A client that repeats the commit must get the same answer, and the owners of the keys may change
            // meanwhile. So the refusal is logged.
            Err(Status::NotTogether) => {
                step.effects.mark(Mark::NotTogether);
                let result = result(Status::NotTogether, Version::NONE);
                return self.settle(step, &tablet, Purpose::Ordinary, &result, from, header);
            }
            Err(status) => {
                let tables: BTreeSet<TableId> = request.items().iter().map(|item| item.table).collect();
                for table in tables.into_iter().filter(|_| status == Status::NotReady) {
                    self.confirming.ask(step, table, &mut self.calls);
                }
                return self.answers.refuse(from, header, status, step.effects);
            }
        };
        let only_checks = parts.iter().all(|part| part.item.action == CommitAction::Check);
        let is_leased = !only_checks || self.answers.is_leased(step.now, &self.shard);
        let judged = match self.judge_commit(step, &parts) {
            Ok(judged) => judged,
            Err(Status::Corrupt) if !is_leased => {
                return self.answers.refuse(from, header, Status::NotLeased, step.effects);
            }
            Err(status) => return self.answers.refuse(from, header, status, step.effects),
        };
        let result = match judged.refused {
            None => result(Status::Ok, judged.version),
            Some((status, version, item)) => {
                RpcResult { number: Some(item as u64), ..result(status, version) }
            }
        };
        if only_checks {
            self.counters.reads += 1;
            let answer = Answer::Outcome(result.remembered());
            let position = judged.position;
            return self.answers.answer_read(
                step,
                &self.shard,
                (tablet.stream, position),
                from,
                header,
                answer,
            );
        }
        let is_in_part = planted(Defect::CommitInPart) && judged.refused.is_some();
        if is_in_part && !judged.changes.is_empty() {
            let _ = self.append_commit(step, &tablet, &judged.changes, None);
        }
        if judged.refused.is_some() || judged.changes.is_empty() {
            let purpose = if judged.refused.is_some() { Purpose::Ordinary } else { Purpose::Freeing };
            return self.settle(step, &tablet, purpose, &result, from, header);
        }
        if !self.ceiling.admits(judged.version) {
            return self.answers.refuse(from, header, Status::Retry, step.effects);
        }
        let is_logged = is_logged(&tablet, &result) && !planted(Defect::CommitResultNotLogged);
        let logged = is_logged.then_some(&result);
        match self.append_commit(step, &tablet, &judged.changes, logged) {
            Ok(position) => {
                step.effects.mark(Mark::Commit);
                self.counters.writes += judged.changes.len() as u64;
                self.keep_if_unreplicated(&tablet, &result);
                let answer = Answer::Outcome(result.remembered());
                self.answer_mutation(&tablet, position, from, header, answer, step.effects);
            }
            Err(Status::ValueTooLarge) => {
                self.answers.refuse(from, header, Status::CommitTooLarge, step.effects)
            }
            Err(status) => self.answers.refuse(from, header, status, step.effects),
        }
    }

    /// The parts of a commit, if all keys are served here, in the stream of the first key's tablet.
    fn together<'a>(&self, first: &Tablet, items: &[CommitItem<'a>]) -> Result<Vec<Part<'a>>, Status> {
        let part = |item: &CommitItem<'a>| {
            let (table, key) = (item.table, item.key);
            let is_served_elsewhere = self.tablets.find(table, key).is_none();
            if planted(Defect::NotTogetherPassed)
                && is_served_elsewhere
                && let Some(hash) = self.tablets.hash(table, key)
            {
                return Ok(Part { item: *item, tablet: *first, hash });
            }
            if is_served_elsewhere {
                return Err(Status::NotTogether);
            }
            let (tablet, hash) = self.serving(table, key)?;
            if self.tablets.blocks(table, hash) {
                return Err(Status::Retry);
            }
            if tablet.stream != first.stream {
                // The tablets will be in one stream again when reclassing is over.
                let may_be_one =
                    |table| self.tablets.is_reclassed(table) || self.to_unite.contains_key(&table);
                let is_reclassing = may_be_one(table) || may_be_one(first.range.table);
                return Err(if is_reclassing { Status::Retry } else { Status::NotTogether });
            }
            // The coordinator has sent this client only to the tablet of the first key.
            if tablet.range != first.range && !is_confirmed(&tablet) {
                return Err(Status::NotReady);
            }
            Ok(Part { item: *item, tablet, hash })
        };
        items.iter().map(part).collect()
    }

    /// Checks the rules against the present objects, and says what is to be changed.
    fn judge_commit<'a>(&mut self, step: &mut Step<'_>, parts: &[Part<'a>]) -> Result<Judged<'a>, Status> {
        for Part { item, tablet, hash } in parts {
            self.expire_if_over(step, tablet, item.table, *hash, item.key)?;
        }
        // Nothing is appended from here on, so the objects that are found stay where they are.
        let mut judged = Judged {
            refused: None,
            changes: Vec::new(),
            version: Version::NONE,
            position: Position::default(),
        };
        let mut found = Vec::with_capacity(parts.len());
        for (number, Part { item, tablet, hash }) in parts.iter().enumerate() {
            let there = match self.shard.log.lookup(item.table, *hash, item.key) {
                Ok(there) => there,
                // An item without rules may write or remove an object that is lost.
                Err(Unreadable::Lost) if is_indifferent(item) => None,
                Err(unreadable) => return Err(self.unreadable(step, unreadable)),
            };
            let object = there.filter(is_object);
            let depends_on = self.depends_on(step.now, tablet, item.table, *hash, object.as_ref(), step.view);
            judged.position = judged.position.max(depends_on);
            let current = object.map(|object| object.version);
            let is_skipped = number > 0 && planted(Defect::CommitRulesSkipped);
            if let Err(status) = item.rules.check(current)
                && !is_skipped
            {
                judged.refused = Some((status, current.unwrap_or_default(), number));
                break;
            }
            let version = self.next_version(tablet, there.map(|there| there.version));
            match (item.action, current) {
                (CommitAction::Write { .. }, _) | (CommitAction::Remove, Some(_)) => {
                    judged.version = judged.version.max(version);
                }
                (CommitAction::Remove, None) | (CommitAction::Check, _) => {}
            }
            found.push((there.map(|there| there.at), current.is_some()));
        }
        if judged.refused.is_some() && !planted(Defect::CommitInPart) {
            return Ok(judged);
        }
        let time = step.view.time(step.now);
        for (Part { item, hash, .. }, (at, is_there)) in parts.iter().zip(found) {
            let (table, key, version, seconds) = (item.table, item.key, judged.version, time.seconds());
            match (item.action, at) {
                (CommitAction::Write { value, expiry }, replaces) => {
                    let expires = expiry.map(|expiry| expiry.end(time)).transpose()?;
                    let object = Object { table, version, time: seconds, expires, key, value };
                    judged.changes.push(Change::Write { hash: *hash, object, replaces });
                }
                (CommitAction::Remove, Some(at)) if is_there => {
                    let removal = Removal { table, key, version, time: seconds };
                    judged.changes.push(Change::Remove { hash: *hash, removal, at });
                }
                (CommitAction::Remove, _) => self.shard.log.forgive_key(table, *hash),
                (CommitAction::Check, _) => {}
            }
        }
        Ok(judged)
    }

    /// Appends all changes as one group. Returns the position at which the group ends.
    fn append_commit(
        &mut self,
        step: &mut Step<'_>,
        tablet: &Tablet,
        changes: &[Change<'_>],
        result: Option<&RpcResult>,
    ) -> Result<Position, Status> {
        let is_write = |change: &Change<'_>| matches!(change, Change::Write { .. });
        let purpose = if changes.iter().any(is_write) { Purpose::Ordinary } else { Purpose::Freeing };
        let groups = if planted(Defect::CommitTorn) { 1 } else { changes.len() };
        let mut position = Position::default();
        for (number, group) in changes.chunks(groups).enumerate() {
            let result = result.filter(|_| number == 0);
            let append =
                |master: &mut Service, is_moved| master.commit(tablet, purpose, group, result, is_moved);
            position = self.append(step, tablet, purpose, append)?.position;
            if planted(Defect::CommitTorn) {
                self.shard.appended = true;
                self.advance_if_appended(step);
            }
        }
        if !tablet.unreplicated {
            self.shard.appended = true;
            let parked = self.answers.parked.entry(tablet.stream).or_default();
            for change in changes {
                if let Change::Remove { hash, removal, .. } = change {
                    parked.remember_removal(position, parked_key(removal.table, *hash));
                }
            }
        }
        Ok(position)
    }

    fn commit(
        &mut self,
        tablet: &Tablet,
        purpose: Purpose,
        changes: &[Change<'_>],
        result: Option<&RpcResult>,
        is_moved: bool,
    ) -> Result<Written, AppendRefusal> {
        if !is_moved {
            return self.shard.log.commit(tablet.stream, purpose, changes, result);
        }
        let changes = changes.iter().map(|change| self.change_again(change));
        let changes: Vec<Change<'_>> = changes.collect::<Result<_, _>>()?;
        self.shard.log.commit(tablet.stream, purpose, &changes, result)
    }

    /// The change again, with the present place of the object, which cleaning may have moved.
    fn change_again<'a>(&self, change: &Change<'a>) -> Result<Change<'a>, AppendRefusal> {
        Ok(match *change {
            Change::Write { hash, object, .. } => {
                let replaces = self.found_again(object.table, hash, object.key)?;
                Change::Write { hash, object, replaces }
            }
            Change::Remove { hash, removal, at } => {
                let found = self.found_again(removal.table, hash, removal.key)?;
                Change::Remove { hash, removal, at: found.unwrap_or(at) }
            }
        })
    }
}

/// Whether an item is carried out whatever object is present.
fn is_indifferent(item: &CommitItem<'_>) -> bool {
    item.action != CommitAction::Check && item.rules == RejectRules::default()
}
