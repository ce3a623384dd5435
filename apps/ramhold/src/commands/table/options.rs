//! The options with which a table is made, and what of them the cluster decides (D2).

use crate::failure::Failure;
use clap::{Args, ValueEnum};
use ramhold_base::limits::{REPLICA_COUNT_DEFAULT, REPLICA_COUNT_MAX};
use ramhold_client::{
    Client, Durability, Error, LeftOpen, QuorumOptions, TableDescription, TableDifference, TableId,
    TableOptions, WriteProtocol,
};

/// How a table keeps what is written to it.
#[derive(Args, Clone, Debug, Default)]
pub struct OptionArguments {
    /// Copies on backups, 0 to 7; 0 keeps the table in one server's memory alone [default: the cluster's,
    /// see 'ramhold coordinator --default-replicas']
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=i64::from(REPLICA_COUNT_MAX)))]
    replicas: Option<u8>,
    /// When a write is acknowledged [default: buffered, or none with --replicas 0]
    #[arg(long, value_name = "HOW", value_enum)]
    durability: Option<DurabilityArgument>,
    /// Place keys by the hash slots of Redis Cluster, so that keys with the same {tag} are on one server.
    #[arg(long)]
    slots: bool,
    /// Keep the table's data on the servers of this zone while one of them is up and has room. Servers have
    /// their zone from --label zone=...
    #[arg(long, value_name = "ZONE", value_parser = clap::builder::NonEmptyStringValueParser::new(),
        conflicts_with = "quorum")]
    zone: Option<String>,
    /// Make a quorum table: N bricks (1 to 7) hold each key, none of them owns it, and it can be read and
    /// written while any minority of them is dead or slow. It takes no conditions and no increments.
    #[arg(long, value_name = "N", conflicts_with = "replicas", value_parser = clap::value_parser!(u8).range(1..=7))]
    quorum: Option<u8>,
    /// Bricks that must have a write before it is acknowledged [default: more than half of N]
    #[arg(long, value_name = "W", requires = "quorum", value_parser = clap::value_parser!(u8).range(1..=7))]
    write_quorum: Option<u8>,
    /// Bricks that are asked by a read [default: as many as make W + R > N]
    #[arg(long, value_name = "R", requires = "quorum", value_parser = clap::value_parser!(u8).range(1..=7))]
    read_quorum: Option<u8>,
    /// Rounds of a write: 'adaptive' takes one while all bricks of the key answer, else two [default:
    /// adaptive]
    #[arg(long, value_name = "HOW", requires = "quorum", value_enum)]
    write: Option<WriteArgument>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum WriteArgument {
    /// One round while all bricks answer, else two.
    Adaptive,
    /// One round. A write may end unknown while a brick is away and clocks differ.
    Single,
    /// Two rounds: the stamps first.
    TwoPhase,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum DurabilityArgument {
    /// When the buffers of all its backups have it.
    Buffered,
    /// When the devices of all its backups have it.
    Synced,
    /// When one server's memory has it; it is lost when that server dies.
    None,
}

/// The options of a table to be made, and what of them is the cluster's to decide.
#[derive(Clone, Debug)]
pub struct Wish {
    options: TableOptions,
    left_open: Option<LeftOpen>,
    /// Whether the durability was said, and is not only what the replicas make of it.
    says_durability: bool,
}

/// The write and the read quorum of N bricks. Numbers that are left open are a majority of writers, and as few readers as that allows.
pub fn quorum_numbers(bricks: u8, write: Option<u8>, read: Option<u8>) -> Result<(u8, u8), String> {
    let write = write.unwrap_or(bricks / 2 + 1);
    let read = read.unwrap_or((bricks + 1).saturating_sub(write).max(1));
    match () {
        () if write > bricks || read > bricks => {
            Err(format!("a quorum of {} is more than the {bricks} bricks of a key", write.max(read)))
        }
        () if write + read <= bricks => Err(format!(
            "--write-quorum {write} and --read-quorum {read} of {bricks} bricks need not meet, so a read could miss a \
             write; they must make more than {bricks}"
        )),
        () if 2 * write <= bricks => Err(format!(
            "two writes to {write} of {bricks} bricks need not meet, so one could be lost; give --write-quorum {} or more",
            bricks / 2 + 1
        )),
        () => Ok((write, read)),
    }
}

impl OptionArguments {
    /// The numbers of a quorum table.
    fn numbers(&self) -> Result<Option<QuorumOptions>, Failure> {
        let Some(bricks) = self.quorum else { return Ok(None) };
        let (write, read) =
            quorum_numbers(bricks, self.write_quorum, self.read_quorum).map_err(Failure::usage)?;
        let protocol = match self.write {
            None | Some(WriteArgument::Adaptive) => WriteProtocol::Adaptive,
            Some(WriteArgument::Single) => WriteProtocol::Single,
            Some(WriteArgument::TwoPhase) => WriteProtocol::TwoPhase,
        };
        Ok(Some(QuorumOptions { bricks, write, read, protocol }))
    }

    /// The options of a quorum table.
    fn quorum_wish(&self, quorum: QuorumOptions) -> Result<Wish, Failure> {
        let durability = match self.durability {
            None | Some(DurabilityArgument::Buffered) => Durability::Buffered,
            Some(DurabilityArgument::Synced) => Durability::Synced,
            Some(DurabilityArgument::None) => {
                return Err(Failure::usage(
                    "a quorum table is buffered or synced; leave out --durability none",
                ));
            }
        };
        let options = TableOptions {
            durability,
            replicas: 0,
            tablets: 0,
            slots: self.slots,
            zone: None,
            quorum: Some(quorum),
        };
        Ok(Wish { options, left_open: None, says_durability: self.durability.is_some() })
    }

    pub fn wish(&self, tablets: u32) -> Result<Wish, Failure> {
        if let Some(quorum) = self.numbers()? {
            if tablets > 0 {
                return Err(Failure::usage("bricks decide the number of tablets; leave out --tablets"));
            }
            return self.quorum_wish(quorum);
        }
        let durability = match (self.durability, self.replicas) {
            (Some(DurabilityArgument::Buffered), _) => Durability::Buffered,
            (Some(DurabilityArgument::Synced), _) => Durability::Synced,
            (Some(DurabilityArgument::None), _) | (None, Some(0)) => Durability::None,
            (None, _) => Durability::Buffered,
        };
        let replicas = match (durability, self.replicas) {
            (Durability::None, None | Some(0)) => 0,
            (Durability::None, Some(_)) => {
                return Err(Failure::usage("--durability none keeps no replicas; leave out --replicas"));
            }
            (Durability::Buffered | Durability::Synced, Some(0)) => {
                return Err(Failure::usage(
                    "--replicas 0 keeps nothing durable; use --durability none, or more replicas",
                ));
            }
            // The cluster decides an option that is left open. An older coordinator takes this value.
            (Durability::Buffered | Durability::Synced, replicas) => {
                replicas.unwrap_or(REPLICA_COUNT_DEFAULT)
            }
        };
        let left_open = match (self.durability, self.replicas) {
            (None, None) => Some(LeftOpen::Durability),
            (Some(DurabilityArgument::Buffered | DurabilityArgument::Synced), None) => {
                Some(LeftOpen::Replicas)
            }
            (Some(DurabilityArgument::None), None) | (_, Some(_)) => None,
        };
        let says_durability = self.durability.is_some() || self.replicas == Some(0);
        let options = TableOptions {
            durability,
            replicas,
            tablets,
            slots: self.slots,
            zone: self.zone.clone(),
            quorum: None,
        };
        Ok(Wish { options, left_open, says_durability })
    }
}

impl Wish {
    pub fn zone(&self) -> Option<&str> {
        self.options.zone.as_deref()
    }

    pub fn quorum(&self) -> Option<QuorumOptions> {
        self.options.quorum
    }

    pub fn create(&self, client: &mut Client, name: &str) -> Result<TableId, Error> {
        match self.left_open {
            None => client.create_table(name, self.options.clone()),
            Some(left_open) => client.create_table_leaving(left_open, name, self.options.clone()),
        }
    }

    /// The options in which a table differs from what was said. An option that was not said may be as it is.
    pub fn differences(&self, table: &TableDescription) -> Vec<TableDifference> {
        let mut differences = TableDifference::all(table, &self.options, self.left_open);
        differences.retain(|difference| match difference {
            TableDifference::Durability { .. } => self.says_durability,
            TableDifference::Slots { .. } => self.options.slots,
            TableDifference::Zone { .. } => self.options.zone.is_some(),
            TableDifference::Replicas { .. }
            | TableDifference::Tablets { .. }
            | TableDifference::Quorum { .. } => true,
        });
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(replicas: Option<u8>, durability: Option<DurabilityArgument>) -> Option<(&'static str, u8)> {
        let options =
            OptionArguments { replicas, durability, ..OptionArguments::default() }.wish(0).ok()?.options;
        Some((options.durability.name(), options.replicas))
    }

    fn left_open(replicas: Option<u8>, durability: Option<DurabilityArgument>) -> Option<LeftOpen> {
        OptionArguments { replicas, durability, ..OptionArguments::default() }.wish(0).unwrap().left_open
    }

    #[test]
    fn what_is_not_said_is_the_clusters_to_decide() {
        // D2
        assert_eq!(left_open(None, None), Some(LeftOpen::Durability));
        assert_eq!(left_open(None, Some(DurabilityArgument::Buffered)), Some(LeftOpen::Replicas));
        assert_eq!(left_open(None, Some(DurabilityArgument::None)), None);
        assert_eq!(left_open(Some(2), None), None);
        assert_eq!(left_open(Some(2), Some(DurabilityArgument::Buffered)), None);
    }

    #[test]
    fn replicas_and_durability_agree() {
        // D2
        assert_eq!(options(None, None), Some(("buffered", 3)));
        assert_eq!(options(Some(1), None), Some(("buffered", 1)));
        assert_eq!(options(Some(0), None), Some(("none", 0)));
        assert_eq!(options(None, Some(DurabilityArgument::None)), Some(("none", 0)));
        assert_eq!(options(Some(2), Some(DurabilityArgument::None)), None);
        assert_eq!(options(Some(0), Some(DurabilityArgument::Buffered)), None);
    }
}
