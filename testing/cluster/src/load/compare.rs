//! Compares the cluster's contents at the end with the answers that the clients got.

use super::{PATIENCE, found};
use crate::cluster::Cluster;
use crate::journal::{Finding, Journal};
use crate::waiting::Failure;
use ramhold_client::{Client, Operation, RejectRules, TableId};
use std::collections::BTreeMap;

const VERIFY_PIPELINE: usize = 64;

impl Journal {
    /// Compares every key with the cluster's contents. An empty result means no fault.
    pub fn compare(&self, cluster: &Cluster, table: TableId) -> Result<Vec<(String, Finding)>, Failure> {
        let mut client = cluster.client(PATIENCE)?;
        let mut under_way = BTreeMap::new();
        let mut findings = Vec::new();
        let mut take = |client: &mut Client, under_way: &mut BTreeMap<_, &Vec<u8>>| {
            let (id, outcome) = client.wait_any().expect("operations are under way");
            let key = under_way.remove(&id).expect("only our own operations are under way");
            let name = String::from_utf8_lossy(key).into_owned();
            let finding = match found(outcome.clone()) {
                Some(found) => self.keys[key].judge(found),
                None => Some(Finding::Wrong { what: format!("no answer: {outcome:?}") }),
            };
            findings.extend(finding.map(|finding| (name, finding)));
        };
        for key in self.keys.keys() {
            if under_way.len() >= VERIFY_PIPELINE {
                take(&mut client, &mut under_way);
            }
            let rules = RejectRules::default();
            let id = client.submit(Operation::Read { table, key: key.clone(), rules });
            under_way.insert(id, key);
        }
        while !under_way.is_empty() {
            take(&mut client, &mut under_way);
        }
        Ok(findings)
    }
}
