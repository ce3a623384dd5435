//! The topology of the cluster's network: what tells which servers share an edge switch.
//!
//! The coordinator is given it, stores it, and tells it with every server list, so that all servers agree. Each server's
//! labels say where the server stands in it.
//!
//! Invariant: a topology that was read has levels and radices within the limits.
//!
//! Not here: labels of grids, and who is near whom (placement). Catalogue: H1. Source: RAMCUBE 2.2.

use minicbor::data::Type;
use minicbor::decode::{self, Decoder};
use minicbor::encode::{self, Encoder, Write};
use minicbor::{Decode, Encode};
use std::fmt;
use std::str::FromStr;

/// The most levels: a server has at most as many network ports.
pub const LEVEL_COUNT_MAX: usize = 8;
/// The highest radix of a level: the ports of the largest switches.
pub const RADIX_MAX: u16 = 256;

/// For people it is a text: `flat`, `zones`, `bcube:4,1`, `grid:4,4,2`. On the wire it is the same text, and null for
/// `flat`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Topology {
    /// Nothing is known of switches.
    #[default]
    Flat,
    /// Servers have the labels `zone` and `rack`. The servers of a rack share a switch.
    Zones,
    /// BCube(n, k): k + 1 levels of n digits.
    Bcube { radix: u16, order: u16 },
    /// The number of digits of each level, level 0 first.
    Grid(Vec<u16>),
}

impl Topology {
    /// The number of digits of each level, level 0 first; none if there are no levels.
    pub fn radices(&self) -> Option<Vec<u16>> {
        match self {
            Topology::Flat | Topology::Zones => None,
            Topology::Bcube { radix, order } => Some(vec![*radix; usize::from(*order) + 1]),
            Topology::Grid(radices) => Some(radices.clone()),
        }
    }

    /// The name of the label that every server must have.
    pub fn label_name(&self) -> Option<&'static str> {
        match self {
            Topology::Flat => None,
            Topology::Zones => Some("zone"),
            Topology::Bcube { .. } => Some("bcube"),
            Topology::Grid(_) => Some("grid"),
        }
    }

    fn is_sound(&self) -> bool {
        self.radices().is_none_or(|radices| {
            (1..=LEVEL_COUNT_MAX).contains(&radices.len())
                && radices.iter().all(|radix| (2..=RADIX_MAX).contains(radix))
        })
    }
}

impl FromStr for Topology {
    type Err = String;

    fn from_str(text: &str) -> Result<Topology, String> {
        let numbers =
            |text: &str| text.split(',').map(|n| n.trim().parse().ok()).collect::<Option<Vec<u16>>>();
        let read = match text.split_once(':') {
            None if text == "flat" => Some(Topology::Flat),
            None if text == "zones" => Some(Topology::Zones),
            Some(("bcube", rest)) => match numbers(rest).as_deref() {
                // Far more levels than there may be would be a long list.
                Some([radix, order]) if usize::from(*order) < LEVEL_COUNT_MAX => {
                    Some(Topology::Bcube { radix: *radix, order: *order })
                }
                _ => None,
            },
            Some(("grid", rest)) => numbers(rest).map(Topology::Grid),
            _ => None,
        };
        read.filter(Topology::is_sound).ok_or_else(|| {
            format!(
                "'{text}' is not 'flat', 'zones', 'bcube:N,K' or 'grid:R0,R1,...' with 1 to {LEVEL_COUNT_MAX} levels \
                 of 2 to {RADIX_MAX} digits"
            )
        })
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Topology::Flat => f.write_str("flat"),
            Topology::Zones => f.write_str("zones"),
            Topology::Bcube { radix, order } => write!(f, "bcube:{radix},{order}"),
            Topology::Grid(radices) => {
                let radices: Vec<String> = radices.iter().map(ToString::to_string).collect();
                write!(f, "grid:{}", radices.join(","))
            }
        }
    }
}

impl<C> Encode<C> for Topology {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
        match self {
            Topology::Flat => e.null()?.ok(),
            other => e.str(&other.to_string())?.ok(),
        }
    }

    fn is_nil(&self) -> bool {
        *self == Topology::Flat
    }
}

impl<'b, C> Decode<'b, C> for Topology {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Topology, decode::Error> {
        if d.datatype()? == Type::Null {
            d.null()?;
            return Ok(Topology::Flat);
        }
        d.str()?.parse().map_err(decode::Error::message)
    }

    fn nil() -> Option<Topology> {
        Some(Topology::Flat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // H1
    #[test]
    fn topologies_are_read_as_they_are_written() {
        for text in ["flat", "zones", "bcube:4,1", "bcube:2,7", "bcube:256,0", "grid:3", "grid:4,4,2"] {
            let topology: Topology = text.parse().unwrap();
            assert_eq!(topology.to_string(), text);
            let bytes = minicbor::to_vec(&topology).unwrap();
            assert_eq!(minicbor::decode::<Topology>(&bytes).unwrap(), topology);
        }
        for text in [
            "",
            "Flat",
            "zones:3",
            "bcube",
            "bcube:4",
            "bcube:1,1",
            "bcube:4,8",
            "bcube:257,1",
            "bcube:4,1,1",
            "bcube:4,-1",
            "grid:",
            "grid:4,1",
            "grid:2,2,2,2,2,2,2,2,2",
            "grid:x",
            "bcube:4,65535",
        ] {
            let refused = text.parse::<Topology>().unwrap_err();
            assert!(refused.contains("1 to 8 levels of 2 to 256 digits"), "{text}: {refused}");
            assert!(minicbor::decode::<Topology>(&minicbor::to_vec(text).unwrap()).is_err(), "{text}");
        }
    }
}
