//! An operation on one key of a quorum table, in the register's words, and these words on the wire.

use crate::operation::Operation;
use crate::token::Token;
use ramhold_base::{ClusterId, ClusterTime, ServerId, Stamp, TableId};
use ramhold_quorum::{Answer, Ask, BrickId, Life, Said, Write};
use ramhold_wire::ask::{AskReply, AskRequest, AskSaid, AskWhat, AskedWrite, StampedValue};
use ramhold_wire::data::{Expiry, RejectRules};
use std::sync::Arc;

/// Shared by the requests to all bricks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    pub bytes: Arc<Vec<u8>>,
    pub expires: Option<ClusterTime>,
}

impl Value {
    /// When it ends, in microseconds.
    pub fn end(&self) -> Option<u64> {
        self.expires.map(|end| end.0.saturating_mul(1000))
    }
}

pub struct Order {
    pub cluster: ClusterId,
    pub table: TableId,
    pub key: Arc<Vec<u8>>,
    pub what: What,
}

/// The wish of the caller.
pub enum What {
    Read,
    ReadStale,
    Write { bytes: Arc<Vec<u8>>, expiry: Option<Expiry> },
    Remove,
    Resume,
}

/// A put that was sent, and whose fate is open. It goes on with its own stamp and no other.
#[derive(Clone)]
pub struct Open {
    pub stamp: Stamp,
    pub value: Option<Value>,
    /// When the put began: microseconds of the session's clock.
    pub begun: u64,
}

impl Order {
    /// Takes the order out of an operation, and the open put if the operation settles one. `Err`: the reason why quorum
    /// tables do not carry it out.
    pub fn take(
        cluster: ClusterId,
        operation: &mut Operation,
    ) -> Result<(Order, Option<Open>), &'static str> {
        const NO_CONDITIONS: &str = "quorum tables take no conditions, only plain reads, writes and removes; use an ordinary table for this";
        let has_rules = match operation {
            Operation::Read { rules, .. }
            | Operation::Write { rules, .. }
            | Operation::Remove { rules, .. } => *rules != RejectRules::default(),
            _ => false,
        };
        if has_rules {
            return Err(NO_CONDITIONS);
        }
        let (table, key, what, open) = match operation {
            Operation::Read { table, key, .. } => (*table, key.clone(), What::Read, None),
            Operation::ReadStale { table, key } => (*table, key.clone(), What::ReadStale, None),
            Operation::Write { table, key, value, expiry, .. } => {
                let what = What::Write { bytes: Arc::new(std::mem::take(value)), expiry: *expiry };
                (*table, key.clone(), what, None)
            }
            Operation::Remove { table, key, .. } => (*table, key.clone(), What::Remove, None),
            Operation::Resume { token } => {
                let Token { table, stamp, expires, begun, .. } = **token;
                let bytes = token.value.take();
                let value = bytes.map(|bytes| Value { bytes: Arc::new(bytes), expires });
                (table, token.key.clone(), What::Resume, Some(Open { stamp, value, begun }))
            }
            Operation::Increment { .. } => {
                return Err(
                    "quorum tables cannot increment, which is a condition; use an ordinary table for this",
                );
            }
            Operation::Commit { .. } => {
                return Err("quorum tables take part in no commit; use ordinary tables for this");
            }
            Operation::Count { .. } => {
                return Err("bricks of quorum tables do not count objects: a scan of the keys does");
            }
            _ => return Err("quorum tables do not carry this operation out"),
        };
        Ok((Order { cluster, table, key: Arc::new(key), what }, open))
    }

    pub fn token(&self, open: &Open) -> Token {
        Token {
            cluster: self.cluster,
            table: self.table,
            key: self.key.to_vec(),
            stamp: open.stamp,
            value: open.value.as_ref().map(|value| value.bytes.to_vec()),
            expires: open.value.as_ref().and_then(|value| value.expires),
            begun: open.begun,
        }
    }
}

/// Appends the body of a request to a brick.
pub fn encode(table: TableId, key: &[u8], ask: &Ask<Value>, out: &mut Vec<u8>) {
    let what = match ask {
        Ask::Value => AskWhat::Value,
        Ask::Stamp => AskWhat::Stamp,
        Ask::Write(Write { stamp, value, begun, is_repair }) => {
            let value = value.as_ref();
            if let Some(value) = value {
                out.reserve(value.bytes.len() + key.len() + 48);
            }
            let value = value.map(|value| StampedValue { bytes: &value.bytes, expires: value.expires });
            AskWhat::Write(AskedWrite { stamp: *stamp, begun: *begun, is_repair: *is_repair, value })
        }
    };
    AskRequest { table, key, what }.encode(out);
}

/// A brick's answer in the register's words.
pub fn answer(from: ServerId, reply: AskReply<'_>) -> Answer<Value> {
    let value =
        |value: StampedValue<'_>| Value { bytes: Arc::new(value.bytes.to_vec()), expires: value.expires };
    let said = match reply.said {
        AskSaid::Value(stamp, found) => Said::Value(stamp, found.map(value)),
        AskSaid::Stamp(stamp) => Said::Stamp(stamp),
        AskSaid::Applied => Said::Applied,
        AskSaid::Rejected(stamp) => Said::Rejected(stamp),
        AskSaid::Unknown(stamp) => Said::Unknown(stamp),
        AskSaid::WrongOwner => Said::WrongOwner,
    };
    let siblings = reply.siblings.iter().map(|(brick, life)| (BrickId(brick.raw()), Life(*life)));
    Answer {
        from: BrickId(from.raw()),
        life: Life(reply.life),
        siblings: siblings.collect(),
        epoch: reply.epoch,
        clock: reply.clock,
        said,
    }
}
