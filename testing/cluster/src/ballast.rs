//! Objects that fill a cluster, and whose values tell whether they are what was written.

use crate::waiting::Failure;
use ramhold_base::Rng;
use ramhold_client::{Client, Operation, Outcome, RejectRules, Reply, TableId};
use std::collections::BTreeMap;

pub const VALUE_BYTES: usize = 4096;
const UNDER_WAY: usize = 512;

/// The value of the object with this number.
fn value(number: u64) -> Vec<u8> {
    let mut rng = Rng::new(number);
    let words = std::iter::repeat_with(|| rng.u64().to_le_bytes());
    words.take(VALUE_BYTES / 8).flatten().collect()
}

/// Writes so many objects of `VALUE_BYTES`, many at a time. Returns the bytes of their keys and values.
pub fn fill(client: &mut Client, table: TableId, count: u64) -> Result<u64, Failure> {
    let write = |number: u64| Operation::Write {
        table,
        key: number.to_le_bytes().to_vec(),
        value: value(number),
        rules: RejectRules::default(),
        expiry: None,
    };
    run(client, count, write, |number, outcome| match outcome {
        Outcome::Done(Reply::Written { .. }) => Ok(()),
        other => Err(Failure(format!("object {number} is not written: {other:?}"))),
    })?;
    Ok(count * (8 + VALUE_BYTES as u64))
}

/// Reads all of them, and fails at the first that is not as it was written.
pub fn verify(client: &mut Client, table: TableId, count: u64) -> Result<(), Failure> {
    let read = |number: u64| {
        let key = number.to_le_bytes().to_vec();
        Operation::Read { table, key, rules: RejectRules::default() }
    };
    run(client, count, read, |number, outcome| match outcome {
        Outcome::Done(Reply::Read { value: found, .. }) if found == value(number) => Ok(()),
        Outcome::Done(Reply::Read { .. }) => Err(Failure(format!("object {number} has another value"))),
        other => Err(Failure(format!("object {number} is not read: {other:?}"))),
    })
}

fn run(
    client: &mut Client,
    count: u64,
    operation: impl Fn(u64) -> Operation,
    mut judge: impl FnMut(u64, Outcome) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut under_way = BTreeMap::new();
    let mut next = 0;
    while next < count || !under_way.is_empty() {
        while next < count && under_way.len() < UNDER_WAY {
            under_way.insert(client.submit(operation(next)), next);
            next += 1;
        }
        let Some((id, outcome)) = client.wait_any() else { break };
        if let Some(number) = under_way.remove(&id) {
            judge(number, outcome)?;
        }
    }
    Ok(())
}
