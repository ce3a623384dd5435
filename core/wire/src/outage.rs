//! Outages of the network, as the silences of neighbours show them.
//!
//! Not here: how that is found out (detector). Protocol: docs/protocols/neighbours.md, "What has failed". Catalogue: H4.
//! Source: RAMCUBE 3.3.

use minicbor::{Decode, Encode};
use ramhold_base::ServerId;
use std::fmt;

/// Something of the network that has failed, as the silences of neighbours show.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Outage {
    #[n(0)]
    pub what: OutageKind,
    /// The edge switch: in a grid `<0,10>`, else the zone and rack, as in `a/r1`.
    #[n(1)]
    pub switch: String,
    /// The network of that switch; none: that of the first addresses.
    #[n(2)]
    pub link: Option<String>,
    /// The servers that it concerns: one of a link, two of a path, all of a switch or rack.
    #[n(3)]
    pub servers: Vec<ServerId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum OutageKind {
    /// A server answers nobody. The verdict is the coordinator's.
    #[n(0)]
    Server,
    /// All servers of a rack are down.
    #[n(1)]
    Rack,
    /// No two servers reach each other over the switch.
    #[n(2)]
    Switch,
    /// One server reaches nobody over the switch, over which others reach each other.
    #[n(3)]
    Link,
    /// Two servers do not reach each other over the switch.
    #[n(4)]
    Path,
    /// No helper has answered those who look for the server.
    #[n(5)]
    Unknown,
}

impl fmt::Display for Outage {
    /// As in `link down: s3 on switch <0,1>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.servers.iter().map(ToString::to_string).collect();
        let over = match &self.link {
            Some(link) if !self.switch.starts_with('<') => format!("{}, network {link}", self.switch),
            _ => self.switch.clone(),
        };
        match self.what {
            OutageKind::Server => write!(f, "server down: {}", names.join(", ")),
            OutageKind::Rack => write!(f, "rack {} down: {}", self.switch, names.join(", ")),
            OutageKind::Switch => write!(f, "switch {over} down"),
            OutageKind::Link => write!(f, "link down: {} on switch {over}", names.join(", ")),
            OutageKind::Path => write!(f, "path down: {} on switch {over}", names.join(" and ")),
            OutageKind::Unknown => {
                write!(f, "{} silent on switch {over}, and nobody can say why", names.join(", "))
            }
        }
    }
}

/// An outage that has stood for a while, in the status of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StandingOutage {
    #[n(0)]
    pub outage: Outage,
    /// For how long it has stood.
    #[n(1)]
    pub millis: u64,
}
