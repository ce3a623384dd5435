//! Increments: adding to the number that an object holds as decimal text.
//!
//! The sum goes into the result too. The object may hold another number later, but a client that repeats its increment
//! is told its own sum.
//!
//! Catalogue: A7.

use crate::multi::Asker;
use crate::objects::{is_object, result_of};
use crate::service::Service;
use ramhold_base::number::NUMBER_TEXT_BYTES_MAX;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{KeyHash, Number, Status, TableId};
use ramhold_log::{Object, Purpose, Remembered, RpcResult};
use ramhold_wire::data::IncrementRequest;
use ramhold_wire::{Header, Step};

impl Service {
    /// Adds to the number that an object holds as text. An absent object counts as zero. The object's end of life stays
    /// as it is. If the value or the sum is no number, the increment is refused for good, as by a rule.
    pub fn on_increment(&mut self, step: &mut Step<'_>, header: &Header, body: &[u8], from: Asker) {
        match IncrementRequest::decode(body) {
            Ok(request) => self.increment(step, header, &request, from),
            Err(status) => self.answers.refuse(from, header, status, step.effects),
        }
    }

    pub fn increment(
        &mut self,
        step: &mut Step<'_>,
        header: &Header,
        request: &IncrementRequest<'_>,
        from: Asker,
    ) {
        let IncrementRequest { table, rules, by, key } = *request;
        let admitted = self.admit(step, header, table, key, from);
        let Some((tablet, hash)) = admitted else { return };
        if let Err(status) = self.expire_if_over(step, &tablet, table, hash, key) {
            return self.answers.refuse(from, header, status, step.effects);
        }
        let found = match self.shard.log.lookup(table, hash, key) {
            Ok(found) => found,
            Err(unreadable) => {
                let status = self.unreadable(step, unreadable);
                return self.answers.refuse(from, header, status, step.effects);
            }
        };
        let there = found.filter(is_object);
        let current = there.map(|f| f.version);
        let sum = rules.check(current).and_then(|()| match there {
            // A number's text is short: no longer value is copied.
            Some(found) if found.value.len() > NUMBER_TEXT_BYTES_MAX => Err(Status::NotANumber),
            Some(found) => by.parse_alike(&found.value.to_vec())?.sum(by),
            None => by.zero_alike().sum(by),
        });
        let sum = match sum {
            Ok(sum) => sum,
            Err(status) => {
                let result = result_of(header, table, hash, status, current.unwrap_or_default());
                return self.settle(step, &tablet, Purpose::Ordinary, &result, from, header);
            }
        };
        let replaces = found.map(|f| f.at);
        let expires = there.and_then(|f| f.expires);
        let version = self.next_version(&tablet, found.map(|f| f.version));
        let text = sum.to_string();
        let (time, value) = (step.view.time(step.now).seconds(), text.as_bytes());
        let object = Object { table, version, time, expires, key, value };
        let number = Some(sum.bits());
        let result = RpcResult { number, ..result_of(header, table, hash, Status::Ok, version) };
        self.put(step, &tablet, &object, replaces, &result, from, header);
    }

    /// Changes a recalled outcome as `Defect::IncrementNumberNotLogged` would. Without that defect the outcome stays as
    /// it is.
    pub fn with_present_number_if_planted(
        &self,
        outcome: Remembered,
        table: TableId,
        hash: KeyHash,
        key: &[u8],
    ) -> Remembered {
        if !planted(Defect::IncrementNumberNotLogged) {
            return outcome;
        }
        let value = self
            .shard
            .log
            .lookup(table, hash, key)
            .ok()
            .flatten()
            .filter(is_object)
            .map(|f| f.value.to_vec());
        let present = value.and_then(|value| Number::Integer(0).parse_alike(&value).ok());
        Remembered { number: present.map(Number::bits), ..outcome }
    }
}
