//! Names and addresses in a simulated cluster, and its time.

use ramhold_base::{ClusterId, Instant, ServerId, TableId};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub const CLUSTER: ClusterId = ClusterId(99);
pub const TABLE: TableId = TableId(7);
/// Where the coordinator is.
pub const COORDINATOR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 100)), 7400);
/// The date at the beginning, in microseconds.
pub const DATE: u64 = 1_700_000_000_000_000;

/// The time that all bricks tell.
pub fn date(now: Instant) -> u64 {
    DATE + now.0 / 1000
}

/// The brick's name.
pub fn id(place: usize) -> ServerId {
    ServerId(place as u64 + 1)
}

/// Where it listens.
pub fn address(place: usize) -> SocketAddr {
    let [high, low] = (place as u16).to_be_bytes();
    SocketAddr::from(([10, 1, high, low], 7401))
}

/// The brick that listens there.
pub fn place_of(addr: SocketAddr) -> Option<usize> {
    let IpAddr::V4(ip) = addr.ip() else { return None };
    let [10, 1, high, low] = ip.octets() else { return None };
    Some(usize::from(u16::from_be_bytes([high, low])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_back_to_its_brick() {
        assert_eq!(place_of(address(26)), Some(26));
        assert_eq!(place_of(COORDINATOR), None);
    }
}
