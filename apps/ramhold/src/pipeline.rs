//! Many operations of one client under way at once, bounded in number and in bytes.

use ramhold_base::map::FastMap;
use ramhold_client::{Client, Keys, Operation, OperationId, Outcome};

pub struct Pipeline<T> {
    client: Client,
    under_way: FastMap<OperationId, (T, u64)>,
    bytes: u64,
    count_max: usize,
    bytes_max: u64,
}

impl<T> Pipeline<T> {
    pub fn new(client: Client, count_max: usize, bytes_max: u64) -> Pipeline<T> {
        Pipeline { client, under_way: FastMap::default(), bytes: 0, count_max, bytes_max }
    }

    /// Whether an outcome must be taken before the next operation is submitted.
    pub fn is_full(&self) -> bool {
        self.under_way.len() >= self.count_max || self.bytes >= self.bytes_max
    }

    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Starts operations together; each comes with what `submit` takes.
    pub fn submit_all(&mut self, operations: impl Iterator<Item = (Operation, u64, T)>) {
        let (operations, others): (Vec<_>, Vec<_>) =
            operations.map(|(operation, bytes, tag)| (operation, (bytes, tag))).unzip();
        for (id, (bytes, tag)) in self.client.submit_all(operations).into_iter().zip(others) {
            self.bytes += bytes;
            self.under_way.insert(id, (tag, bytes));
        }
    }

    /// `bytes`: what the operation holds in memory; `tag` comes back with its outcome.
    pub fn submit(&mut self, operation: Operation, bytes: u64, tag: T) {
        let id = self.client.submit(operation);
        self.bytes += bytes;
        self.under_way.insert(id, (tag, bytes));
    }

    /// Starts a read of many keys.
    pub fn submit_reads(&mut self, keys: Keys, tag: T) {
        let id = self.client.submit_reads(keys);
        self.under_way.insert(id, (tag, 0));
    }

    /// Waits for the next operation to end; `None` when none is under way.
    pub fn next_outcome(&mut self) -> Option<(T, Outcome)> {
        loop {
            let (id, outcome) = self.client.wait_any()?;
            if let Some(tag) = self.ended(id) {
                return Some((tag, outcome));
            }
        }
    }

    /// An operation that has ended, if there is one already.
    pub fn poll_outcome(&mut self) -> Option<(T, Outcome)> {
        loop {
            let (id, outcome) = self.client.poll_any()?;
            if let Some(tag) = self.ended(id) {
                return Some((tag, outcome));
            }
        }
    }

    fn ended(&mut self, id: OperationId) -> Option<T> {
        let (tag, bytes) = self.under_way.remove(&id)?;
        self.bytes -= bytes;
        Some(tag)
    }
}
