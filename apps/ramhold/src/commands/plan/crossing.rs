//! How many bytes cross zones: when data is written, and when a server is recovered.
//!
//! All zones are of the same size. Copies go to the zone with the fewest copies of the segment, the copy in DRAM among
//! them, and by chance to one of several. With zone-local the primary is in the master's own zone before that.
//!
//! Not here: headers (about 3 % of values of 4 KB), copies that are made again after the loss of a backup.
//! Source: docs/decisions/0026, 0027; measured by `cargo xtask bench zones`. Catalogue: H3.

use ramhold_wire::ReplicaPlacement;

/// Bytes, each for one byte.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Crossing {
    /// Sent to other zones for each byte that is written.
    pub written: f64,
    /// Fetched from other zones for each byte of a dead log.
    pub fetched: f64,
}

/// `zones`: at least 2. `replicas`: at least 1.
pub fn crossing(placement: ReplicaPlacement, zones: u64, replicas: u64) -> Crossing {
    let zones = zones as f64;
    let is_local = placement == ReplicaPlacement::ZoneLocal && replicas > 1;
    // Copies in the master's own zone before the others are placed, and those that are still to be placed.
    let (own, left) = if is_local { (2.0, replicas as f64 - 1.0) } else { (1.0, replicas as f64) };
    // The other zones are filled up to the same number first; what is left then goes everywhere alike.
    let outside_first = f64::min(left, own * (zones - 1.0));
    let written = outside_first + (left - outside_first) * (zones - 1.0) / zones;
    // Primaries that are elsewhere are in any zone, and so are the recovery masters of scattered data.
    let fetched = match (placement, is_local) {
        (_, true) => 0.0,
        // The only replica is in another zone, and the recovery masters are in the dead server's.
        (ReplicaPlacement::ZoneLocal, false) => 1.0,
        _ => (zones - 1.0) / zones,
    };
    Crossing { written, fetched }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `bench zones` measured 2.06, 1.03 and 2.82 with headers, and 0, 0 and 70 % fetched from other zones.
    #[test]
    fn three_zones_are_as_measured() {
        let scatter = crossing(ReplicaPlacement::Scatter, 3, 3);
        assert!((scatter.written - 8.0 / 3.0).abs() < 1e-9 && (scatter.fetched - 2.0 / 3.0).abs() < 1e-9);
        let local = |replicas| crossing(ReplicaPlacement::ZoneLocal, 3, replicas);
        assert_eq!(local(3), Crossing { written: 2.0, fetched: 0.0 });
        assert_eq!(local(2), Crossing { written: 1.0, fetched: 0.0 });
        assert_eq!(local(1), Crossing { written: 1.0, fetched: 1.0 });
    }

    #[test]
    fn copies_fill_zones_evenly() {
        assert_eq!(crossing(ReplicaPlacement::Scatter, 2, 1).written, 1.0);
        // Four copies in two zones: two in each.
        assert_eq!(crossing(ReplicaPlacement::Scatter, 2, 3).written, 2.0);
        // Eight copies in two zones: four in each.
        assert_eq!(crossing(ReplicaPlacement::ZoneLocal, 2, 7).written, 4.0);
        assert_eq!(crossing(ReplicaPlacement::ZoneLocal, 4, 4).written, 3.0);
    }
}
