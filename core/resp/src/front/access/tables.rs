//! The table of each database: looked up by name when the database is first used, and made if there is none.

use super::answer::Answer;
use super::posted::Posted;
use super::tickets::Part;
use crate::Fault;
use crate::front::config::RespConfig;
use crate::front::request::CommandId;
use crate::front::step::Step;
use ramhold_base::TableId;
use ramhold_base::map::FastMap;
use ramhold_client_core::{Operation, WhichTable};
use ramhold_wire::membership::Durability;
use ramhold_wire::table::{LeftOpen, TableDescription, TableOptions};
use std::collections::BTreeMap;

/// The table of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    pub table: TableId,
    /// Bricks hold the table, and no master.
    pub is_quorum: bool,
}

impl Known {
    fn of(description: &TableDescription) -> Known {
        Known { table: description.table, is_quorum: description.options.quorum.is_some() }
    }
}

#[derive(Debug, Default)]
pub struct Databases {
    known: FastMap<u16, Known>,
    /// Commands that wait until the table is known.
    asking: FastMap<u16, Vec<CommandId>>,
}

impl Databases {
    pub fn table(&self, db: u16) -> Option<TableId> {
        self.known(db).map(|known| known.table)
    }

    pub fn known(&self, db: u16) -> Option<Known> {
        self.known.get(&db).copied()
    }

    /// Whether the table of a database is known, and a quorum table.
    pub fn is_quorum(&self, db: u16) -> bool {
        self.known(db).is_some_and(|known| known.is_quorum)
    }

    /// The databases whose table is known.
    pub fn tables(&self) -> BTreeMap<u16, TableId> {
        self.known.iter().map(|(db, known)| (*db, known.table)).collect()
    }

    pub fn learn(&mut self, db: u16, description: &TableDescription) {
        self.known.insert(db, Known::of(description));
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

    /// Has a command begin anew when the table of a database is known.
    pub fn wait<H>(&mut self, step: &mut Step<'_, H>, posted: &mut Posted, db: u16, command: CommandId) {
        step.stats.table_waits += 1;
        let is_first = !self.asking.contains_key(&db);
        self.asking.entry(db).or_default().push(command);
        if is_first {
            posted.push(describe(step.config, db), Part::Database(db));
        }
    }

    /// Takes an answer about the table of a database. `None`: another answer is awaited.
    pub fn on_answer(
        &mut self,
        config: &RespConfig,
        posted: &mut Posted,
        db: u16,
        answer: Answer<'_>,
    ) -> Option<Resolved> {
        match answer {
            // The front has made the table, and makes ordinary ones only.
            Answer::Table(table) => {
                self.known.insert(db, Known { table, is_quorum: false });
            }
            Answer::Described(ref description) => self.learn(db, description),
            Answer::NoTable => {
                // The cluster's default decides the number of replicas.
                let options = TableOptions {
                    durability: Durability::Buffered,
                    replicas: 3,
                    tablets: 0,
                    slots: true,
                    zone: None,
                    quorum: None,
                };
                let operation = Operation::CreateTable {
                    name: config.table_name(db),
                    options,
                    left_open: Some(LeftOpen::Durability),
                };
                posted.push(operation, Part::Database(db));
                return None;
            }
            // Another server has made the table meanwhile.
            Answer::TableExists => {
                posted.push(describe(config, db), Part::Database(db));
                return None;
            }
            _ => {}
        }
        let fault = match answer {
            Answer::Table(_) | Answer::Described(_) => None,
            Answer::Fault(fault) if fault.0.starts_with("NOREPLICAS") => {
                let name = config.table_name(db);
                Some(Fault::said(format!(
                    "{}, or make the table with fewer: 'ramhold table create {name} --slots --replicas COUNT'",
                    fault.0
                )))
            }
            Answer::Fault(fault) => Some(fault),
            other => Some(Fault::said(format!("ERR the table of the database cannot be found: {other:?}"))),
        };
        Some(Resolved { commands: self.asking.remove(&db).unwrap_or_default(), fault })
    }
}

/// The end of the search for a table.
pub struct Resolved {
    /// The commands that waited for it.
    pub commands: Vec<CommandId>,
    /// The reason why there is no table for them.
    pub fault: Option<Fault>,
}

/// The operation that asks for a database's table.
pub fn describe(config: &RespConfig, db: u16) -> Operation {
    Operation::DescribeTable { which: WhichTable::Name(config.table_name(db)) }
}
