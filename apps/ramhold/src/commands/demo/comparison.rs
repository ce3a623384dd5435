//! Reads many objects back, and collects those that are not as they should be.

use crate::failure::Failure;
use crate::interrupt;
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_client::{Client, Operation, OperationId, Outcome, RejectRules, Reply, Status, TableId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Reads under way at once.
const PIPELINE_COUNT: usize = 64;
/// More names than these are only counted.
const NAMED_COUNT: usize = 20;

/// Stands for the bytes of a value in the journal and in memory.
pub fn hash(bytes: &[u8]) -> u64 {
    PlacementHasher::new(PlacementSeed(0)).hash(bytes).0
}

/// Things that are not as they should be.
#[derive(Default)]
pub struct Differences {
    checked: u64,
    /// Sentences that name them; the first few.
    named: Vec<String>,
    count: u64,
}

impl Differences {
    /// None yet, among `checked` objects.
    pub fn among(checked: usize) -> Differences {
        Differences { checked: checked as u64, ..Differences::default() }
    }

    pub fn add(&mut self, what: String) {
        self.count += 1;
        if self.named.len() < NAMED_COUNT {
            self.named.push(what);
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// A sentence on all of them, and a line for each of the first few.
    pub fn text(&self, when: &str) -> (String, Vec<String>) {
        if self.count == 0 {
            return (format!("{} objects compared {when}: all of them are right", self.checked), Vec::new());
        }
        let sentence = format!("{} of {} objects {when} are LOST OR WRONG:", self.count, self.checked);
        let more = self.count - self.named.len() as u64;
        let rest = (more > 0).then(|| format!("... and {more} more"));
        (sentence, self.named.iter().cloned().chain(rest).collect())
    }
}

/// The result of reading one key.
pub enum Seen {
    Value {
        version: u64,
        value: Vec<u8>,
    },
    Absent,
    /// No answer in time; why.
    Unreadable(String),
}

/// Reads many keys, some at a time, and gives each result to `judge` with the key's place in `keys`.
pub fn read_all<'a>(
    client: &mut Client,
    table: TableId,
    keys: impl Iterator<Item = &'a [u8]>,
    patience: Duration,
    mut judge: impl FnMut(usize, Seen),
) -> Result<(), Failure> {
    let mut under_way: BTreeMap<OperationId, usize> = BTreeMap::new();
    let mut take = |client: &mut Client, under_way: &mut BTreeMap<OperationId, usize>| {
        let (id, outcome) = client.wait_any().expect("operations are under way");
        judge(under_way.remove(&id).expect("only our own operations are under way"), seen(outcome));
    };
    for (index, key) in keys.enumerate() {
        interrupt::check()?;
        if under_way.len() >= PIPELINE_COUNT {
            take(client, &mut under_way);
        }
        let operation = Operation::Read { table, key: key.to_vec(), rules: RejectRules::default() };
        under_way.insert(client.submit_within(operation, patience), index);
    }
    while !under_way.is_empty() {
        take(client, &mut under_way);
    }
    Ok(())
}

fn seen(outcome: Outcome) -> Seen {
    match outcome {
        Outcome::Done(Reply::Read { version, value, .. }) => Seen::Value { version: version.raw(), value },
        Outcome::Refused { status: Status::NotFound, .. } => Seen::Absent,
        Outcome::Refused { status, detail, .. } => Seen::Unreadable(format!("{status} ({detail})")),
        Outcome::Unknown { detail, .. } => Seen::Unreadable(detail),
        Outcome::Done(_) => Seen::Unreadable("the answer does not belong to the question".to_owned()),
    }
}
