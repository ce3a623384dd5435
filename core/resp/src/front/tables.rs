//! The table of each database: looked up by name when the database is first used, and made if there is none.

use super::answer::Answer;
use super::tickets::Part;
use super::{Host, Resp};
use crate::Fault;
use ramhold_base::map::FastMap;
use ramhold_base::{ConnId, Effects, Instant, TableId};
use ramhold_client_core::{Operation, WhichTable};
use ramhold_wire::membership::Durability;
use ramhold_wire::table::{LeftOpen, TableOptions};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Databases {
    known: FastMap<u16, TableId>,
    /// Commands that wait until the table is known.
    asking: FastMap<u16, Vec<(ConnId, u64)>>,
}

impl Databases {
    pub fn table(&self, db: u16) -> Option<TableId> {
        self.known.get(&db).copied()
    }

    /// The databases whose table is known.
    pub fn known(&self) -> BTreeMap<u16, TableId> {
        self.known.iter().map(|(db, table)| (*db, *table)).collect()
    }

    pub fn learn(&mut self, db: u16, table: TableId) {
        self.known.insert(db, table);
    }

    pub fn forget(&mut self, db: u16) {
        self.known.remove(&db);
    }

    /// Forgets the table of a database, if it is still this one.
    pub fn forget_one(&mut self, db: u16, table: TableId) {
        if self.table(db) == Some(table) {
            self.known.remove(&db);
        }
    }

    pub fn forget_all(&mut self) {
        self.known.clear();
    }
}

impl Resp {
    /// Has a command begin anew when the table of a database is known.
    pub fn wait_for_table(&mut self, db: u16, conn: ConnId, seq: u64) {
        self.stats.table_waits += 1;
        let is_first = !self.databases.asking.contains_key(&db);
        self.databases.asking.entry(db).or_default().push((conn, seq));
        if is_first {
            self.describe(db);
        }
    }

    fn describe(&mut self, db: u16) {
        let which = WhichTable::Name(self.config.table_name(db));
        self.posted.push((Operation::DescribeTable { which }, Part::Database(db)));
    }

    /// Asks for the description of a database's table, on behalf of a command.
    pub fn ask_table(&mut self, conn: ConnId, seq: u64, db: u16) {
        let which = WhichTable::Name(self.config.table_name(db));
        let part = Part::Command { conn, seq, index: 0, attempt: 0 };
        self.posted.push((Operation::DescribeTable { which }, part));
    }

    pub fn on_table_answer(
        &mut self,
        now: Instant,
        db: u16,
        answer: Answer<'_>,
        host: &mut impl Host,
        effects: &mut Effects,
    ) {
        match answer {
            Answer::Table(table) => {
                self.databases.known.insert(db, table);
            }
            Answer::Described(ref description) => {
                self.databases.known.insert(db, description.table);
            }
            Answer::NoTable => {
                // The cluster's default decides the number of replicas.
                let options =
                    TableOptions { durability: Durability::Buffered, replicas: 3, tablets: 0, slots: true };
                let operation = Operation::CreateTable {
                    name: self.config.table_name(db),
                    options,
                    left_open: Some(LeftOpen::Durability),
                };
                return self.posted.push((operation, Part::Database(db)));
            }
            // Another server has made the table meanwhile.
            Answer::TableExists => return self.describe(db),
            _ => {}
        }
        let fault = match answer {
            Answer::Table(_) | Answer::Described(_) => None,
            Answer::Fault(fault) if fault.0.starts_with("NOREPLICAS") => {
                let name = self.config.table_name(db);
                Some(Fault::said(format!(
                    "{}, or make the table with fewer: 'ramhold table create {name} --slots --replicas COUNT'",
                    fault.0
                )))
            }
            Answer::Fault(fault) => Some(fault),
            other => Some(Fault::said(format!("ERR the table of the database cannot be found: {other:?}"))),
        };
        for (conn, seq) in self.databases.asking.remove(&db).unwrap_or_default() {
            match &fault {
                None => self.begin_anew(now, conn, seq, host, effects),
                Some(fault) => self.end_with_fault(conn, seq, fault),
            }
        }
    }
}
