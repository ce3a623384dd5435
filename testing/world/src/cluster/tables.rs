//! Tables that a session makes and drops beside its work, one after the other, each under a name of its own.
//! They are updates at the coordinator whose repetition shows.
//!
//! A session that makes a table under such a name is never told that the table exists already. A session that
//! drops the table is never told that it does not exist. Once the session is told that the table is gone,
//! there is never a table of that name again. Contradictions to these rules, and the names that must not come
//! back, are stated as facts. The audit looks at the facts.
//!
//! Rules: docs/protocols/exactly-once.md, 12 to 16. Catalogue: A3, G1, J3.

use ramhold_base::{Effects, Instant, Level, Rng, Status, TableId};
use ramhold_client_core::{Operation, OperationId, Outcome, Reply, Session};
use ramhold_wire::table::TableOptions;

/// The prefix of a fact that is itself a finding.
pub const WRONG: &str = "update wrong: ";
/// The prefix of a fact that names a table that is gone for good.
pub const GONE: &str = "update gone: ";

enum Doing {
    Nothing,
    Creating(OperationId),
    Truncating(OperationId),
    Dropping(OperationId),
}

pub struct Tables {
    /// Begins a table once in this many occasions; none: never.
    one_in: Option<u64>,
    session: u64,
    count: u64,
    doing: Doing,
}

impl Tables {
    pub fn new(session: u64, rng: &mut Rng) -> Tables {
        let one_in = rng.chance(1, 2).then(|| rng.between(30, 300));
        Tables { one_in, session, count: 0, doing: Doing::Nothing }
    }

    fn name(&self) -> String {
        format!("beside-{:016x}-{}", self.session, self.count)
    }

    /// An occasion to begin the next table.
    pub fn occasion(
        &mut self,
        now: Instant,
        session: &mut Session,
        rng: &mut Rng,
        options: &TableOptions,
        effects: &mut Effects,
    ) {
        let is_time = self.one_in.is_some_and(|one_in| rng.chance(1, one_in));
        if !is_time || !matches!(self.doing, Doing::Nothing) {
            return;
        }
        self.count += 1;
        let options = TableOptions { tablets: 1, ..options.clone() };
        let create = Operation::CreateTable { name: self.name(), options, left_open: None };
        self.doing = Doing::Creating(session.start(now, create, effects));
    }

    /// Whether this was the end of an update that this module began.
    pub fn take(
        &mut self,
        now: Instant,
        id: OperationId,
        outcome: &Outcome,
        session: &mut Session,
        effects: &mut Effects,
    ) -> bool {
        let name = self.name();
        match (&self.doing, outcome) {
            (Doing::Creating(creating), _) if *creating == id => {
                self.doing = match outcome {
                    // Some tables are emptied first.
                    Outcome::Done(Reply::TableCreated { table }) if table.raw() % 3 == 0 => {
                        let truncate = Operation::TruncateTable { table: *table };
                        Doing::Truncating(session.start(now, truncate, effects))
                    }
                    Outcome::Done(Reply::TableCreated { table }) => self.drop(now, *table, session, effects),
                    Outcome::Refused { status: Status::TableExists, .. } => {
                        effects.report(Level::Debug, format!("fact:{WRONG}{name} was made twice"));
                        Doing::Nothing
                    }
                    _ => Doing::Nothing,
                };
                true
            }
            (Doing::Truncating(truncating), _) if *truncating == id => {
                self.doing = match outcome {
                    Outcome::Done(Reply::TableTruncated { table }) => {
                        self.drop(now, *table, session, effects)
                    }
                    Outcome::Refused { status: Status::UnknownTable, .. } => {
                        effects.report(Level::Debug, format!("fact:{WRONG}{name} was emptied twice"));
                        Doing::Nothing
                    }
                    _ => Doing::Nothing,
                };
                true
            }
            (Doing::Dropping(dropping), _) if *dropping == id => {
                match outcome {
                    Outcome::Done(_) => effects.report(Level::Debug, format!("fact:{GONE}{name}")),
                    Outcome::Refused { status: Status::UnknownTable, .. } => {
                        effects.report(Level::Debug, format!("fact:{WRONG}{name} was dropped twice"));
                    }
                    Outcome::Refused { .. } | Outcome::Unknown { .. } => {}
                }
                self.doing = Doing::Nothing;
                true
            }
            _ => false,
        }
    }

    fn drop(&self, now: Instant, table: TableId, session: &mut Session, effects: &mut Effects) -> Doing {
        Doing::Dropping(session.start(now, Operation::DropTable { table }, effects))
    }
}

/// Contradictions between the facts of a run and its end. `there`: the names of all tables at the end.
pub fn contradictions<'a>(facts: impl Iterator<Item = &'a str>, there: &[&str]) -> Vec<String> {
    let finding = |fact: &str| match fact.strip_prefix(GONE) {
        Some(name) => there.contains(&name).then(|| format!("{name} was dropped and is there")),
        None => fact.strip_prefix(WRONG).map(ToString::to_string),
    };
    facts.filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_came_back_is_a_finding() {
        let facts = ["time 5", "update gone: a", "update gone: b", "update wrong: c was made twice"];
        assert_eq!(contradictions(facts.into_iter(), &["world"]), ["c was made twice"]);
        let found = contradictions(facts.into_iter(), &["world", "b"]);
        assert_eq!(found, ["b was dropped and is there", "c was made twice"]);
    }
}
