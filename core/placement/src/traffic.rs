//! How far the bytes go that a server exchanges with others.
//!
//! Not here: which bytes are counted (replication, master). Catalogue: H3.

use crate::domain::{label, rack, zone};
use crate::grid::Grid;
use ramhold_base::ServerId;
use ramhold_base::map::FastMap;
use ramhold_wire::View;
use ramhold_wire::status::DistanceBytes;
use ramhold_wire::topology::Topology;

/// Where another server stands, as seen from this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distance {
    /// They share an edge switch: in a grid a switch, else a rack.
    Near,
    /// In the same zone, or there are no zones.
    Zone,
    OtherZone,
}

impl Distance {
    /// Adds bytes to the sum of this distance.
    pub fn add(self, sums: &mut DistanceBytes, bytes: u64) {
        match self {
            Distance::Near => sums.near += bytes,
            Distance::Zone => sums.zone += bytes,
            Distance::OtherZone => sums.other_zone += bytes,
        }
    }
}

/// Where another server stands, as seen from this one.
pub fn distance(view: &View, other: ServerId) -> Distance {
    let (Some(own), Some(other)) = (view.list.entry(view.me), view.list.entry(other)) else {
        return Distance::Zone;
    };
    if zone(own) != zone(other) {
        return Distance::OtherZone;
    }
    let place = |entry| {
        let grid = Grid::of(&view.topology)?;
        grid.label(label(entry, view.topology.label_name()?)?).ok()
    };
    let is_near = match (place(own), place(other)) {
        (Some(own), Some(other)) => own.levels_apart(&other).count() <= 1,
        _ => rack(own).is_some() && rack(own) == rack(other),
    };
    if is_near { Distance::Near } else { Distance::Zone }
}

/// Bytes that were exchanged with other servers, by distance.
#[derive(Debug, Default)]
pub struct Traffic {
    /// The list and topology that the distances are of.
    of: Option<(u64, Topology)>,
    distances: FastMap<ServerId, Distance>,
    bytes: DistanceBytes,
}

impl Traffic {
    /// Counts bytes that were exchanged with another server, and tells how far they went.
    pub fn count(&mut self, view: &View, other: ServerId, bytes: u64) -> Distance {
        if self.of.as_ref().is_none_or(|of| (of.0, &of.1) != (view.list.version(), &view.topology)) {
            self.of = Some((view.list.version(), view.topology.clone()));
            self.distances.clear();
        }
        let distance = *self.distances.entry(other).or_insert_with(|| distance(view, other));
        distance.add(&mut self.bytes, bytes);
        distance
    }

    pub fn bytes(&self) -> DistanceBytes {
        self.bytes
    }
}
