//! Which backups may hold the replicas of one segment together: the same for the whole cluster.
//!
//! The coordinator is given it, and tells it with every server list, so that all masters place alike. It counts for
//! replicas that are made from then on.
//!
//! Not here: the choice itself (placement). Catalogue: D3, D4, H3.

use ramhold_base::limits::COPYSET_RINGS_MAX;
use std::fmt;
use std::str::FromStr;

/// For people it is a text: `scatter`, `copyset`, `copyset:2`, `zone-local`. Messages have two fields for it: the number
/// of rings of copysets, and the name of any later placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplicaPlacement {
    /// Any backups that are in separate failure domains.
    #[default]
    Scatter,
    /// The backups of one of a few sets, which follow from the server list.
    Copysets { rings: u8 },
    /// The primary in the master's own zone, the other replicas in other zones. A server is recovered in its own zone.
    ZoneLocal,
}

const ZONE_LOCAL: &str = "zone-local";

impl FromStr for ReplicaPlacement {
    type Err = String;

    fn from_str(text: &str) -> Result<ReplicaPlacement, String> {
        let rings = match text.split_once(':') {
            None if text == "scatter" => return Ok(ReplicaPlacement::Scatter),
            None if text == ZONE_LOCAL => return Ok(ReplicaPlacement::ZoneLocal),
            None if text == "copyset" => Some(1),
            Some(("copyset", rings)) => {
                rings.parse().ok().filter(|rings| (1..=COPYSET_RINGS_MAX).contains(rings))
            }
            None | Some(_) => None,
        };
        rings.map(|rings| ReplicaPlacement::Copysets { rings }).ok_or_else(|| {
            format!(
                "'{text}' is not 'scatter', 'copyset', 'copyset:RINGS' with 1 to {COPYSET_RINGS_MAX} rings, or \
                 '{ZONE_LOCAL}'"
            )
        })
    }
}

impl fmt::Display for ReplicaPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplicaPlacement::Scatter => f.write_str("scatter"),
            ReplicaPlacement::Copysets { rings } => write!(f, "copyset:{rings}"),
            ReplicaPlacement::ZoneLocal => f.write_str(ZONE_LOCAL),
        }
    }
}

impl ReplicaPlacement {
    /// The placement of these fields of a message. A placement that this version does not know is `scatter`.
    pub fn of(copyset_rings: Option<u8>, named: Option<&str>) -> ReplicaPlacement {
        match (copyset_rings, named) {
            (Some(rings), _) => ReplicaPlacement::Copysets { rings },
            (None, Some(ZONE_LOCAL)) => ReplicaPlacement::ZoneLocal,
            (None, _) => ReplicaPlacement::Scatter,
        }
    }

    /// The rings of copysets; none of another placement.
    pub fn copyset_rings(self) -> Option<u8> {
        match self {
            ReplicaPlacement::Copysets { rings } => Some(rings),
            ReplicaPlacement::Scatter | ReplicaPlacement::ZoneLocal => None,
        }
    }

    /// The name of a placement that is neither `scatter` nor by copysets.
    pub fn named(self) -> Option<String> {
        (self == ReplicaPlacement::ZoneLocal).then(|| ZONE_LOCAL.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // D4, H3
    #[test]
    fn placements_are_read_as_they_are_written() {
        assert_eq!("copyset".parse(), Ok(ReplicaPlacement::Copysets { rings: 1 }));
        for text in ["scatter", "copyset:1", "copyset:16", "zone-local"] {
            let placement: ReplicaPlacement = text.parse().unwrap();
            assert_eq!(placement.to_string(), text);
            let named = placement.named();
            assert_eq!(ReplicaPlacement::of(placement.copyset_rings(), named.as_deref()), placement);
        }
        assert_eq!(ReplicaPlacement::of(None, Some("of a later version")), ReplicaPlacement::Scatter);
        for text in [
            "",
            "random",
            "scatter:2",
            "copyset:",
            "copyset:0",
            "copyset:17",
            "copyset:-1",
            "copyset:x",
            "zone",
        ] {
            let refused = text.parse::<ReplicaPlacement>().unwrap_err();
            assert!(refused.contains("1 to 16 rings"), "{refused}");
        }
    }
}
