//! Why a table cannot keep its replicas: the facts of a refusal with `TooFewBackups`, and one sentence made
//! of them.
//!
//! The coordinator tells these facts when a table is made or altered, a master when a write would wait.
//! Format: docs/formats/messages.md. Catalogue: A1, D3.

use crate::membership::{Label, ServerEntry};
use minicbor::{Decode, Encode};
use std::fmt;

/// The kind of failure domain: each replica needs a domain of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum DomainLevel {
    #[n(0)]
    Server,
    #[n(1)]
    Host,
    #[n(2)]
    Rack,
}

/// A table wants more replicas, or more bricks for each tablet, than there are failure domains for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Shortage {
    /// Replicas of the table, or bricks of each tablet, and so failure domains that it needs.
    #[n(0)]
    pub replicas: u8,
    /// Failure domains with a backup that is up, as seen by the master that has the fewest; or those with a brick.
    #[n(1)]
    pub up: u32,
    #[n(2)]
    pub level: DomainLevel,
    /// Whether the master's own failure domain counts (a cluster on one machine).
    #[n(3)]
    pub own_counts: bool,
    /// The table is a quorum table: it lacks bricks.
    #[n(4)]
    #[cbor(skip_if = "is_not")]
    pub bricks: bool,
}

/// A field that came later is left out where it says nothing, so that older messages are what they were.
fn is_not(flag: &bool) -> bool {
    !flag
}

impl DomainLevel {
    /// The level that separates these servers: the failure domain of each is its `host`, else its `rack`, else itself.
    /// With different ones, the finest.
    pub fn of<'a>(servers: impl Iterator<Item = &'a ServerEntry>) -> DomainLevel {
        DomainLevel::of_labels(servers.map(|server| server.labels.as_slice()))
    }

    /// The level that separates processes with these labels.
    pub fn of_labels<'a>(all: impl Iterator<Item = &'a [Label]>) -> DomainLevel {
        let has = |labels: &[Label], name: &str| labels.iter().any(|label| label.name == name);
        let of_one = |labels: &[Label]| match (has(labels, "host"), has(labels, "rack")) {
            (true, _) => DomainLevel::Host,
            (false, true) => DomainLevel::Rack,
            (false, false) => DomainLevel::Server,
        };
        let rank = |level: &DomainLevel| match level {
            DomainLevel::Server => 0,
            DomainLevel::Host => 1,
            DomainLevel::Rack => 2,
        };
        all.map(of_one).min_by_key(rank).unwrap_or(DomainLevel::Server)
    }

    pub fn noun(self) -> &'static str {
        match self {
            DomainLevel::Server => "server",
            DomainLevel::Host => "host",
            DomainLevel::Rack => "rack",
        }
    }
}

impl Shortage {
    /// The number of missing failure domains.
    pub fn missing(&self) -> u32 {
        u32::from(self.replicas).saturating_sub(self.up)
    }

    /// The remedy for the shortage: "start one more server".
    pub fn remedy(&self) -> String {
        let process = if self.bricks { "brick" } else { "server" };
        match (self.missing(), self.level) {
            (0 | 1, DomainLevel::Server) => format!("start one more {process}"),
            (count, DomainLevel::Server) => format!("start {count} more {process}s"),
            (0 | 1, level) => format!("start a {process} on one more {}", level.noun()),
            (count, level) => format!("start {process}s on {count} more {}s", level.noun()),
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other = if self.own_counts { "" } else { "other " };
        let noun = self.level.noun();
        match (self.replicas, self.level) {
            (1, DomainLevel::Server) if self.bricks => write!(f, "each key needs 1 brick")?,
            (count, DomainLevel::Server) if self.bricks => write!(f, "each key needs {count} bricks")?,
            (1, _) if self.bricks => write!(f, "each key needs a brick on 1 {noun}")?,
            (count, _) if self.bricks => write!(f, "each key needs bricks on {count} {noun}s")?,
            (1, _) => write!(f, "1 replica needs 1 {other}{noun}")?,
            (count, _) => write!(f, "{count} replicas need {count} {other}{noun}s")?,
        }
        match self.up {
            0 => write!(f, ", none is up"),
            1 => write!(f, ", 1 is up"),
            count => write!(f, ", {count} are up"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A1
    #[test]
    fn a_shortage_is_one_sentence_with_its_facts() {
        let shortage =
            Shortage { replicas: 3, up: 2, level: DomainLevel::Host, own_counts: false, bricks: false };
        assert_eq!(shortage.to_string(), "3 replicas need 3 other hosts, 2 are up");
        assert_eq!(shortage.remedy(), "start a server on one more host");
        let servers =
            Shortage { replicas: 5, up: 1, level: DomainLevel::Server, own_counts: true, bricks: false };
        assert_eq!(servers.to_string(), "5 replicas need 5 servers, 1 is up");
        assert_eq!(servers.remedy(), "start 4 more servers");
        let one = Shortage { replicas: 1, up: 0, level: DomainLevel::Rack, own_counts: false, bricks: false };
        assert_eq!(one.to_string(), "1 replica needs 1 other rack, none is up");
    }

    // A1, I1
    #[test]
    fn a_shortage_of_bricks_says_so() {
        let bricks =
            Shortage { replicas: 3, up: 1, level: DomainLevel::Server, own_counts: true, bricks: true };
        assert_eq!(bricks.to_string(), "each key needs 3 bricks, 1 is up");
        assert_eq!(bricks.remedy(), "start 2 more bricks");
        let hosts = Shortage { up: 2, level: DomainLevel::Host, ..bricks };
        assert_eq!(hosts.to_string(), "each key needs bricks on 3 hosts, 2 are up");
        assert_eq!(hosts.remedy(), "start a brick on one more host");
        assert_eq!(
            Shortage { replicas: 1, up: 0, ..bricks }.to_string(),
            "each key needs 1 brick, none is up"
        );
    }

    // E1
    #[test]
    fn a_shortage_of_backups_has_the_bytes_that_older_versions_write_and_read() {
        let backups =
            Shortage { replicas: 3, up: 2, level: DomainLevel::Host, own_counts: false, bricks: false };
        let bytes = minicbor::to_vec(backups).expect("a shortage is written");
        assert_eq!(bytes, [0x84, 3, 2, 1, 0xf4]);
        assert_eq!(minicbor::decode::<Shortage>(&bytes).expect("it is read"), backups);
        let bricks = Shortage { bricks: true, ..backups };
        let bytes = minicbor::to_vec(bricks).expect("a shortage is written");
        assert_eq!(minicbor::decode::<Shortage>(&bytes).expect("it is read"), bricks);
    }
}
