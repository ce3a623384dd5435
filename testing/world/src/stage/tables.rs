//! Requests about tables, and those of an operator.

use super::record::Begun;
use super::{Stage, WAIT_MAX};
use ramhold_base::{Status, TableId};
use ramhold_client_core as core;
use ramhold_client_core::{Reply, TableChange};
use ramhold_wire::membership::Durability;
use ramhold_wire::status::{LossAccepted, RecoveryReport};
use ramhold_wire::table::{Division, TableOptions};

impl Stage {
    /// The coordinator's reports of recoveries, newest first.
    pub fn recoveries(&mut self) -> Vec<RecoveryReport> {
        let begun = self.give(1, core::Operation::Recoveries, None);
        match self.finish(begun) {
            core::Outcome::Done(Reply::Recoveries(recoveries)) => recoveries,
            other => panic!("asking for recoveries: {other:?}"),
        }
    }

    /// An operator confirms that all servers that a recovery waits for are switched off.
    pub fn accept_loss(&mut self, report: &RecoveryReport) -> LossAccepted {
        let directories = report.away.iter().map(|away| away.directory).collect();
        let accept = core::Operation::AcceptLoss { recovery: report.recovery, directories };
        let begun = self.give(1, accept, None);
        match self.finish(begun) {
            core::Outcome::Done(Reply::LossAccepted(accepted)) => accepted,
            other => panic!("accepting a loss: {other:?}"),
        }
    }

    /// A table of one tablet with this number of replicas of each segment.
    pub fn table(&mut self, name: &str, replicas: u8) -> TableId {
        let begun = self.begin_table(name, replicas);
        self.finish_table(begun)
    }

    /// The same, as soon as there are servers for it.
    pub fn table_when_possible(&mut self, name: &str, replicas: u8) -> TableId {
        loop {
            let begun = self.begin_table(name, replicas);
            match self.finish(begun) {
                core::Outcome::Done(Reply::TableCreated { table }) => return table,
                core::Outcome::Refused { status: Status::TooFewBackups, .. } => self.pass(20),
                other => panic!("creating a table: {other:?}"),
            }
            assert!(self.world.now() < WAIT_MAX, "never enough servers; {}", self.troubles());
        }
    }

    pub fn begin_table(&mut self, name: &str, replicas: u8) -> Begun {
        self.begin_table_of(0, name, replicas)
    }

    /// A table with as many tablets as the coordinator finds right for this cluster.
    pub fn spread_table(&mut self, name: &str, replicas: u8) -> TableId {
        let durability = Durability::Buffered;
        let options =
            TableOptions { durability, replicas, tablets: 0, slots: false, zone: None, quorum: None };
        let create = core::Operation::CreateTable { name: name.into(), options, left_open: None };
        let begun = self.give(0, create, None);
        self.finish_table(begun)
    }

    /// A table by slots.
    pub fn slotted_table(&mut self, name: &str, replicas: u8) -> TableId {
        let durability = Durability::Buffered;
        let options =
            TableOptions { durability, replicas, tablets: 1, slots: true, zone: None, quorum: None };
        let create = core::Operation::CreateTable { name: name.into(), options, left_open: None };
        let begun = self.give(0, create, None);
        self.finish_table(begun)
    }

    /// A table whose writes are acknowledged when they are on devices.
    pub fn synced_table(&mut self, name: &str, replicas: u8) -> TableId {
        let begun = self.begin_table_with(0, name, Durability::Synced, replicas);
        self.finish_table(begun)
    }

    pub fn begin_table_of(&mut self, client: usize, name: &str, replicas: u8) -> Begun {
        let durability = if replicas == 0 { Durability::None } else { Durability::Buffered };
        self.begin_table_with(client, name, durability, replicas)
    }

    fn begin_table_with(&mut self, client: usize, name: &str, durability: Durability, replicas: u8) -> Begun {
        let options =
            TableOptions { durability, replicas, tablets: 1, slots: false, zone: None, quorum: None };
        let create = core::Operation::CreateTable { name: name.into(), options, left_open: None };
        self.give(client, create, None)
    }

    pub fn finish_table(&mut self, begun: Begun) -> TableId {
        match self.finish(begun) {
            core::Outcome::Done(Reply::TableCreated { table }) => table,
            other => panic!("creating a table: {other:?}"),
        }
    }

    pub fn begin_drop(&mut self, table: TableId) -> Begun {
        self.give(0, core::Operation::DropTable { table }, None)
    }

    pub fn drop_table(&mut self, table: TableId) {
        let begun = self.begin_drop(table);
        let outcome = self.finish(begun);
        assert!(matches!(outcome, core::Outcome::Done(_)), "dropping {table:?}: {outcome:?}");
    }

    pub fn begin_divide(&mut self, table: TableId, division: Division) -> Begun {
        self.give(0, core::Operation::DivideTable { table, division }, None)
    }

    /// Cuts or joins tablets of a table. Returns the number of tablets after that.
    pub fn divide(&mut self, table: TableId, division: Division) -> u32 {
        let begun = self.begin_divide(table, division);
        match self.finish(begun) {
            core::Outcome::Done(Reply::TableDivided { tablets }) => tablets,
            other => panic!("dividing {table:?}: {other:?}"),
        }
    }

    /// Alters a table's durability or replicas, and does not wait for its tablets.
    pub fn alter(&mut self, table: TableId, durability: Option<Durability>, replicas: Option<u8>) {
        let begun = self.begin_alter(table, durability, replicas);
        let outcome = self.finish(begun);
        assert!(
            matches!(outcome, core::Outcome::Done(Reply::TableAltered)),
            "altering {table:?}: {outcome:?}"
        );
    }

    pub fn begin_alter(
        &mut self,
        table: TableId,
        durability: Option<Durability>,
        replicas: Option<u8>,
    ) -> Begun {
        self.give(
            0,
            core::Operation::AlterTable { table, change: TableChange { durability, replicas, zone: None } },
            None,
        )
    }
}
