//! Makes a client from the command's arguments.

use crate::failure::{Failure, REFUSED};
use crate::global::Global;
use ramhold_client::{Client, Error, Options, Status, TableId, parse_addresses};
use std::net::SocketAddr;
use std::time::Duration;

/// A coordinator that does not answer within this is reported, however long operations may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the servers remember results for a command that has ended.
const LEASE_TERM_MIN: Duration = Duration::from_secs(30);

impl Global {
    pub fn connect(&self) -> Result<Client, Failure> {
        let addresses =
            parse_addresses(&self.cluster).map_err(|error| Failure::from(error).about("--cluster"))?;
        self.connect_to(&addresses)
    }

    /// A client that begins with one of these addresses.
    pub fn connect_to(&self, addresses: &[SocketAddr]) -> Result<Client, Failure> {
        let options = Options {
            deadline: self.timeout(),
            connect_timeout: CONNECT_TIMEOUT.min(self.timeout()),
            // Most commands write once and end. The others renew their lease.
            lease_term: (self.timeout() * 2).max(LEASE_TERM_MIN),
            transport: self.transport.into(),
            zone: self.zone.clone(),
        };
        Ok(Client::connect_with(addresses, options)?)
    }

    /// A client, and the id of a table.
    pub fn connect_to_table(&self, name: &str) -> Result<(Client, TableId), Failure> {
        let mut client = self.connect().map_err(Failure::of_objects)?;
        let table = client.table(name);
        let table = table.map_err(|error| about_table(&mut client, name, error))?;
        Ok((client, table))
    }
}

/// An error about a table; where there is none of this name, with the one that was probably meant.
pub fn about_table(client: &mut Client, name: &str, error: Error) -> Failure {
    if error.status() == Some(Status::UnknownTable)
        && let Ok(tables) = client.tables()
        && let Some(meant) = alike(name, tables.iter().map(|table| table.name.as_str()))
    {
        return Failure::new(REFUSED, format!("there is no table '{name}'; did you mean '{meant}'?"));
    }
    table_failure(name, error)
}

/// An error about a table that is there.
pub fn table_failure(name: &str, error: Error) -> Failure {
    Failure::from(error).about(&format!("table '{name}'"))
}

/// The name that differs least, if it does not differ much.
pub fn alike<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let nearest = names.map(|name| (strsim::damerau_levenshtein(typed, name), name)).min()?;
    let is_near = nearest.0 <= typed.chars().count().div_ceil(3);
    is_near.then_some(nearest.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_slip_is_recognized() {
        let names = || ["notes", "users", "db0"].into_iter();
        assert_eq!(alike("nots", names()), Some("notes"));
        assert_eq!(alike("ntoes", names()), Some("notes"));
        assert_eq!(alike("db1", names()), Some("db0"));
        assert_eq!(alike("sessions", names()), None);
        assert_eq!(alike("x", [].into_iter()), None);
    }
}
