//! The differences between an existing table and the options that were asked for.

use ramhold_wire::membership::Durability;
use ramhold_wire::quorum::QuorumOptions;
use ramhold_wire::table::{LeftOpen, TableDescription, TableOptions};
use std::fmt;

/// One option that a table has otherwise than it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableDifference {
    Durability {
        has: Durability,
        asked: Durability,
    },
    Replicas {
        has: u8,
        asked: u8,
    },
    /// How many it has now; it was not made with as many as were asked for either.
    Tablets {
        has: u32,
        asked: u32,
    },
    Slots {
        has: bool,
    },
    /// The numbers of a quorum table; none: masters hold it.
    Quorum {
        has: Option<QuorumOptions>,
        asked: Option<QuorumOptions>,
    },
    /// The zone; none: any.
    Zone {
        has: Option<String>,
        asked: Option<String>,
    },
}

impl TableDifference {
    /// All differences, but those in what was left to the cluster.
    pub fn all(
        table: &TableDescription,
        asked: &TableOptions,
        left_open: Option<LeftOpen>,
    ) -> Vec<TableDifference> {
        let TableOptions { durability, replicas, tablets, slots, ref zone, quorum } = *asked;
        let has = &table.options;
        let count = u32::try_from(table.tablets.len()).unwrap_or(u32::MAX);
        let mut differences = Vec::new();
        if quorum != has.quorum {
            differences.push(TableDifference::Quorum { has: has.quorum, asked: quorum });
        }
        if durability != has.durability && left_open != Some(LeftOpen::Durability) {
            differences.push(TableDifference::Durability { has: has.durability, asked: durability });
        }
        if replicas != has.replicas && left_open.is_none() {
            differences.push(TableDifference::Replicas { has: has.replicas, asked: replicas });
        }
        // A table may have been divided since it was made. If no number is asked for (0), any number is
        // accepted.
        if tablets != 0 && tablets != has.tablets && tablets != count {
            differences.push(TableDifference::Tablets { has: count, asked: tablets });
        }
        if slots != has.slots {
            differences.push(TableDifference::Slots { has: has.slots });
        }
        // A table that is asked for without a zone may be in one.
        if zone.is_some() && *zone != has.zone {
            differences.push(TableDifference::Zone { has: has.zone.clone(), asked: zone.clone() });
        }
        differences
    }
}

impl fmt::Display for TableDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableDifference::Durability { has, asked } => {
                write!(f, "its durability is {}, not {}", has.name(), asked.name())
            }
            TableDifference::Replicas { has: 1, asked } => write!(f, "it has 1 replica, not {asked}"),
            TableDifference::Replicas { has, asked } => write!(f, "it has {has} replicas, not {asked}"),
            TableDifference::Tablets { has: 1, asked } => write!(f, "it has 1 tablet, not {asked}"),
            TableDifference::Tablets { has, asked } => write!(f, "it has {has} tablets, not {asked}"),
            TableDifference::Slots { has: true } => write!(f, "it is by slots"),
            TableDifference::Slots { has: false } => write!(f, "it is not by slots"),
            TableDifference::Quorum { has, asked } => {
                let text = |quorum: &Option<QuorumOptions>| {
                    quorum.map_or("masters".to_owned(), |it| {
                        format!(
                            "{} bricks (W {}, R {}, {})",
                            it.bricks,
                            it.write,
                            it.read,
                            it.protocol.name()
                        )
                    })
                };
                write!(f, "it is held by {}, not by {}", text(has), text(asked))
            }
            TableDifference::Zone { has, asked } => {
                let name = |zone: &Option<String>| {
                    zone.as_ref()
                        .map_or("any zone".to_owned(), |zone| format!("zone '{}'", zone.escape_debug()))
                };
                write!(f, "it is in {}, not in {}", name(has), name(asked))
            }
        }
    }
}
