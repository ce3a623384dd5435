//! The checks that every mutation passes before it is carried out: recall of its result, tablet, the client's lease,
//! the read lease.
//!
//! Protocol: docs/protocols/exactly-once.md, 2. Catalogue: A3, D8.

use crate::leases::LeaseStanding;
use crate::multi::Asker;
use crate::parked::Answer;
use crate::service::Service;
use crate::tablets::Tablet;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{KeyHash, Mark, Position, Status, TableId};
use ramhold_log::{Recalled, Unreadable};
use ramhold_wire::control::encode_into;
use ramhold_wire::{Header, Opcode, Step};

impl Service {
    /// The checks that every mutation passes first. `None`: the mutation has been answered, or is dropped, because a
    /// refusal that is not remembered would prove nothing.
    pub fn admit(
        &mut self,
        step: &mut Step<'_>,
        header: &Header,
        table: TableId,
        key: &[u8],
        from: Asker,
    ) -> Option<(Tablet, KeyHash)> {
        if let Asker::Local(_) = from {
            return match self.admit_local(step.now, table, key, from) {
                Ok(admitted) => Some(admitted),
                Err(status) => {
                    self.answers.refuse(from, header, status, step.effects);
                    None
                }
            };
        }
        let (lease, sequence) = (header.lease, header.sequence);
        if lease.is_none() || sequence.is_none() {
            self.answers.refuse(from, header, Status::BadRequest, step.effects);
            return None;
        }
        if !self.leases.admits(lease) {
            self.counters.dropped += 1;
            return None;
        }
        self.leases.enter(lease);
        let recalled = self.shard.log.recall(lease, sequence, header.unacknowledged);
        match recalled {
            Recalled::First | Recalled::Burnt | Recalled::Done { .. } => {}
            Recalled::Acknowledged => return None,
            Recalled::Full => {
                self.counters.dropped += 1;
                return None;
            }
            Recalled::Damaged(at) => {
                self.unreadable(step, Unreadable::Damaged(at));
                return None;
            }
        }
        let (tablet, hash) = match self.serving(table, key) {
            Ok(serving) => serving,
            Err(status) => {
                self.answers.refuse(from, header, status, step.effects);
                return None;
            }
        };
        let refusal = match recalled {
            // The answer is not `TooMany`: if a frame comes twice, that answer would tell its client that the mutation
            // had no effect.
            Recalled::Done { position, .. }
                if position > self.shard.durable(tablet.stream) && self.answers.is_crowded(tablet.stream) =>
            {
                self.counters.dropped += 1;
                return None;
            }
            // Recovered results have no position. The client would take the result for safe, although a single backup
            // may have it. So the client waits, as for a new write.
            Recalled::Done { position, .. }
                if position == Position::default()
                    && self.tablets.is_tail_short(table, hash)
                    && !planted(Defect::ShortTailTold) =>
            {
                step.effects.mark(Mark::ResultWaits);
                if !header.repeated {
                    self.counters.dropped += 1;
                    return None;
                }
                Status::Retry
            }
            Recalled::Done { outcome, position } if !is_done_again(header, from) => {
                self.counters.recalled += 1;
                step.effects.mark(Mark::ResultRecalled);
                if header.opcode == Opcode::Increment.code() && outcome.number.is_some() {
                    step.effects.mark(Mark::IncrementRecalled);
                }
                let outcome = self.with_present_number_if_planted(outcome, table, hash, key);
                let answer = Answer::Outcome(outcome);
                self.answers.answer_when_durable(
                    &self.shard,
                    (tablet.stream, position),
                    from,
                    header,
                    answer,
                    step.effects,
                );
                return None;
            }
            Recalled::Burnt if !header.repeated && !planted(Defect::SequenceNotBurnt) => Status::Retry,
            _ => match self.leases.check(step.now, lease) {
                LeaseStanding::Live if self.tablets.blocks(table, hash) => Status::Retry,
                LeaseStanding::Live if self.shard.is_blocked(step.now, tablet.stream) => {
                    Status::TooFewBackups
                }
                LeaseStanding::Live if self.answers.is_crowded(tablet.stream) => Status::TooMany,
                // Nothing else would show that this server does not own the tablet any more.
                LeaseStanding::Live
                    if tablet.unreplicated && !self.answers.is_leased(step.now, &self.shard) =>
                {
                    Status::NotLeased
                }
                LeaseStanding::Live => return Some((tablet, hash)),
                LeaseStanding::Unknown => Status::Retry,
                LeaseStanding::Over => Status::LeaseOver,
            },
        };
        let shortage = match refusal {
            Status::TooFewBackups => self.shard.replicator.shortage(tablet.stream, step.view),
            _ => None,
        };
        if let Some(shortage) = shortage {
            step.effects.mark(Mark::WriteLacksBackups);
            let facts = |out: &mut Vec<u8>| encode_into(out, &shortage);
            self.answers.multis.answer(from, header, refusal, facts, step.effects);
        } else {
            self.answers.refuse(from, header, refusal, step.effects);
        }
        None
    }
}

/// Whether a planted defect carries this mutation out again although it is already done.
fn is_done_again(header: &Header, from: Asker) -> bool {
    planted(Defect::ResultIgnored)
        || (planted(Defect::ItemsNotRecalled) && matches!(from, Asker::Item { .. }))
        || (planted(Defect::IncrementRepeated) && header.opcode == Opcode::Increment.code())
}
