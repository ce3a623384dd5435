//! From the arguments to a client.

use crate::cli::Global;
use crate::failure::Failure;
use ramhold_client::{Client, Options, TableId, parse_addresses};
use std::time::Duration;

/// A coordinator that does not answer within this is reported, however long operations may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the servers remember results for a command that has ended.
const LEASE_TERM_MIN: Duration = Duration::from_secs(30);

impl Global {
    pub fn connect(&self) -> Result<Client, Failure> {
        let addresses =
            parse_addresses(&self.cluster).map_err(|error| Failure::from(error).about("--cluster"))?;
        let options = Options {
            deadline: self.timeout(),
            connect_timeout: CONNECT_TIMEOUT.min(self.timeout()),
            // Most commands write once and go; the others renew it.
            lease_term: (self.timeout() * 2).max(LEASE_TERM_MIN),
        };
        Ok(Client::connect_with(&addresses, options)?)
    }

    /// A client, and the id of a table.
    pub fn connect_to_table(&self, name: &str) -> Result<(Client, TableId), Failure> {
        let mut client = self.connect()?;
        let table =
            client.table(name).map_err(|error| Failure::from(error).about(&format!("table '{name}'")))?;
        Ok((client, table))
    }
}
