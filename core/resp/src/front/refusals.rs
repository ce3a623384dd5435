//! The errors of commands that a quorum table does not carry out.
//!
//! A quorum table takes no conditions, because no single process decides the order of its writes. So every command that
//! writes what depends on the key as it is is refused, and so is every transaction. The error names the command, the
//! table, and the way out. Nothing has taken effect when a command is refused.
//!
//! Not here: which commands are refused (`OnQuorum`). Protocol: docs/protocols/resp.md, section 8. Catalogue: J1, J3.

use super::config::RespConfig;
use crate::{Command, Fault, Flags, OnQuorum, Run, find};

/// The table of the database was replaced by one of the other kind while the command ran.
pub const REPLACED: Fault = Fault::fixed(
    "TRYAGAIN the table of the database was replaced by one of another kind while the command ran",
);

/// A request that a database's quorum table may refuse.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub row: &'static Command,
    pub args: &'a [&'a [u8]],
    pub db: u16,
}

impl Asked<'_> {
    /// Refuses a command about keys that the quorum table of its database does not carry out.
    pub fn check(self, config: &RespConfig) -> Result<(), Fault> {
        match self.row.on_quorum() {
            OnQuorum::Yes | OnQuorum::EachKey | OnQuorum::ReadFirst | OnQuorum::Unconditional => Ok(()),
            OnQuorum::No | OnQuorum::Aborts | OnQuorum::AllSlotsHere => Err(self.fault(config)),
        }
    }

    /// The error of a command that the quorum table does not carry out.
    pub fn fault(self, config: &RespConfig) -> Fault {
        let (name, table) = (self.name(), config.table_name(self.db));
        if self.row.flags.has(Flags::READONLY) {
            let text = "ERR quorum tables do not carry out";
            return Fault::said(format!("{text} {name}, and '{table}' is one; use an ordinary table"));
        }
        needs_condition(&name, &table)
    }

    /// The error of a form that has to read the key before it writes.
    pub fn form_fault(self, config: &RespConfig) -> Fault {
        let OnQuorum::Unconditional = self.row.on_quorum() else { return self.fault(config) };
        let forms = "with NX, XX, IFEQ, IFVER, GET or KEEPTTL";
        needs_condition(&format!("{} {forms}", self.name()), &config.table_name(self.db))
    }

    /// The error of a command between `MULTI` and `EXEC`.
    pub fn multi_fault(self, config: &RespConfig) -> Fault {
        needs_condition(&format!("{} inside MULTI", self.name()), &config.table_name(self.db))
    }

    /// The command's name, behind that of its container, in upper case.
    fn name(self) -> String {
        let container = self.args.first().and_then(|first| find(first));
        let container = container.filter(|row| matches!(row.run, Run::Container(_)));
        let name = self.row.name.to_ascii_uppercase();
        container.map_or(name.clone(), |row| format!("{} {name}", row.name.to_ascii_uppercase()))
    }
}

fn needs_condition(name: &str, table: &str) -> Fault {
    Fault::said(format!(
        "ERR {name} needs a condition, which the quorum table '{table}' does not take; use an ordinary table"
    ))
}
