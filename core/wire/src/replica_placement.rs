//! Which backups may hold the replicas of one segment together: the same for the whole cluster.
//!
//! The coordinator is given it, and tells it with every server list, so that all masters place alike. It counts for
//! replicas that are made from then on.
//!
//! Not here: the choice itself (placement). Catalogue: D3, D4, H3.

use ramhold_base::limits::COPYSET_RINGS_MAX;
use std::fmt;
use std::str::FromStr;

/// The most neighbourhoods that a master employs: each has a head in every class of streams.
pub const NEIGHBOURHOODS_MAX: u8 = 64;

/// For people it is a text: `scatter`, `copyset`, `copyset:2`, `zone-local`, `multiring`, `multiring:4`,
/// `multiring-strict`, `rack-local`. Messages have two fields for it: the number of rings of copysets, and the name of any
/// later placement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplicaPlacement {
    /// Any backups that are in separate failure domains.
    #[default]
    Scatter,
    /// The backups of one of a few sets, which follow from the server list.
    Copysets { rings: u8 },
    /// The primary in the master's own zone, the other replicas in other zones. A server is recovered in its own zone.
    ZoneLocal,
    /// Each part of a master's data with the servers that are to recover it. `most`: the parts that a master has at most,
    /// 1 to `NEIGHBOURHOODS_MAX`.
    Neighbourhoods { by: Neighbouring, most: u8 },
}

/// The ways to make neighbourhoods.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Neighbouring {
    /// In a grid: each server near the master recovers, fed by the servers that are near it and not near the master.
    MultiRing,
    /// The same, and all replicas of a segment are on its ring: as RAMCUBE has it. Only for servers that fail one by one.
    StrictRing,
    /// The servers of each other rack recover, and feed each other.
    RackLocal,
}

const ZONE_LOCAL: &str = "zone-local";
const MULTIRING: &str = "multiring";
const STRICT_RING: &str = "multiring-strict";
const RACK_LOCAL: &str = "rack-local";

impl Neighbouring {
    fn of(name: &str) -> Option<Neighbouring> {
        match name {
            MULTIRING => Some(Neighbouring::MultiRing),
            STRICT_RING => Some(Neighbouring::StrictRing),
            RACK_LOCAL => Some(Neighbouring::RackLocal),
            _ => None,
        }
    }

    /// Whether each neighbourhood is a ring of a grid.
    pub fn is_ring(self) -> bool {
        matches!(self, Neighbouring::MultiRing | Neighbouring::StrictRing)
    }

    fn name(self) -> &'static str {
        match self {
            Neighbouring::MultiRing => MULTIRING,
            Neighbouring::StrictRing => STRICT_RING,
            Neighbouring::RackLocal => RACK_LOCAL,
        }
    }
}

/// `multiring`, `multiring-strict`, `rack-local`, each with a number of neighbourhoods behind it or not.
fn neighbourhoods_of(text: &str) -> Option<ReplicaPlacement> {
    let (name, most) = text.split_once(':').map_or((text, None), |(name, most)| (name, Some(most)));
    let by = Neighbouring::of(name)?;
    let most = most.map_or(Some(NEIGHBOURHOODS_MAX), |most| most.parse().ok())?;
    (1..=NEIGHBOURHOODS_MAX).contains(&most).then_some(ReplicaPlacement::Neighbourhoods { by, most })
}

impl FromStr for ReplicaPlacement {
    type Err = String;

    fn from_str(text: &str) -> Result<ReplicaPlacement, String> {
        if let Some(neighbourhoods) = neighbourhoods_of(text) {
            return Ok(neighbourhoods);
        }
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
                "'{text}' is not 'scatter', 'copyset', 'copyset:RINGS' with 1 to {COPYSET_RINGS_MAX} rings, '{ZONE_LOCAL}', \
                 '{MULTIRING}', '{STRICT_RING}' or '{RACK_LOCAL}', all three also with ':COUNT', 1 to {NEIGHBOURHOODS_MAX}"
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
            ReplicaPlacement::Neighbourhoods { by, most: NEIGHBOURHOODS_MAX } => f.write_str(by.name()),
            ReplicaPlacement::Neighbourhoods { by, most } => write!(f, "{}:{most}", by.name()),
        }
    }
}

impl ReplicaPlacement {
    /// The placement of these fields of a message. A placement that this version does not know is `scatter`.
    pub fn of(copyset_rings: Option<u8>, named: Option<&str>) -> ReplicaPlacement {
        match (copyset_rings, named) {
            (Some(rings), _) => ReplicaPlacement::Copysets { rings },
            (None, Some(ZONE_LOCAL)) => ReplicaPlacement::ZoneLocal,
            (None, named) => named.and_then(neighbourhoods_of).unwrap_or_default(),
        }
    }

    /// The rings of copysets; none of another placement.
    pub fn copyset_rings(self) -> Option<u8> {
        match self {
            ReplicaPlacement::Copysets { rings } => Some(rings),
            ReplicaPlacement::Scatter
            | ReplicaPlacement::ZoneLocal
            | ReplicaPlacement::Neighbourhoods { .. } => None,
        }
    }

    /// How neighbourhoods are made; none: the placement has none.
    pub fn neighbouring(self) -> Option<(Neighbouring, u8)> {
        match self {
            ReplicaPlacement::Neighbourhoods { by, most } => Some((by, most)),
            _ => None,
        }
    }

    /// The name of a placement that is neither `scatter` nor by copysets.
    pub fn named(self) -> Option<String> {
        match self {
            ReplicaPlacement::Scatter | ReplicaPlacement::Copysets { .. } => None,
            ReplicaPlacement::ZoneLocal | ReplicaPlacement::Neighbourhoods { .. } => Some(self.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // D4, H3
    #[test]
    fn placements_are_read_as_they_are_written() {
        assert_eq!("copyset".parse(), Ok(ReplicaPlacement::Copysets { rings: 1 }));
        for text in [
            "scatter",
            "copyset:1",
            "copyset:16",
            "zone-local",
            "multiring",
            "multiring:1",
            "rack-local:63",
            "multiring-strict",
            "multiring-strict:2",
        ] {
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
            "multiring:0",
            "multiring:65",
            "multiring-strict:0",
            "multiring-loose",
            "rack-local:",
            "rack-local:x",
        ] {
            let refused = text.parse::<ReplicaPlacement>().unwrap_err();
            assert!(refused.contains("1 to 16 rings"), "{refused}");
        }
    }
}
