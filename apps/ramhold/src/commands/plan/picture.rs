//! All that follows from the description of a cluster.

use super::crossing::{Crossing, crossing};
use super::description::{Failing, Plan};
use super::hardware::Hardware;
use super::loss::Layout;
use super::network::{Servers, Survey, survey};
use super::quorum::QuorumTable;
use super::recovery::{Bound, Recovery, Work, recovery, recreation};
use ramhold_base::limits::SEGMENT_BYTES;
use ramhold_wire::ReplicaPlacement;
use ramhold_wire::topology::Topology;

/// A recovery partition as the coordinator cuts it by default: smaller logs have fewer recovery masters.
const PARTITION_BYTES: f64 = 64.0 * 1024.0 * 1024.0;
const YEAR_SECONDS: f64 = 365.25 * 24.0 * 3600.0;
/// Where the sum for a year is not good any more: each server away for that share of the time.
const AWAY_MAX: f64 = 0.1;

/// All that is told.
pub struct Picture<'a> {
    pub plan: &'a Plan,
    pub hardware: Hardware,
    pub layout: Layout,
    pub failing: Failing,
    pub after_power_cut: f64,
    /// When something is lost then, expected.
    pub bytes_lost_then: f64,
    pub at_once: f64,
    /// None: servers are away for too much of the time.
    pub in_a_year: Option<f64>,
    pub recovery: Recovery,
    pub masters: u64,
    /// The servers that have primaries of one log.
    pub backups: u64,
    /// Seconds until the replicas that a dead server held are made anew, and on how many servers.
    pub recreation: f64,
    pub recreation_servers: u64,
    /// None: there are no zones.
    pub zones: Option<Zones>,
    /// None: nothing is known of switches.
    pub network: Option<OnPorts>,
    /// None: none is planned.
    pub quorum: Option<QuorumTable>,
}

/// The cluster in a network of switches.
pub struct OnPorts {
    pub survey: Survey,
    /// Seconds that the recovery's bytes are on the fullest port.
    pub seconds: f64,
}

/// The bytes that cross zones.
pub struct Zones {
    pub crossing: Crossing,
    /// In the recovery of one server: fetched from other zones, and replicated to other zones.
    pub fetched_bytes: f64,
    pub replicated_bytes: f64,
    /// Seconds that the recovery's bytes are on the fullest uplink; none: its rate is not known.
    pub uplink: Option<f64>,
}

impl Picture<'_> {
    /// Seconds until a server that is lost is missed by nothing any more.
    pub fn whole_again(&self) -> f64 {
        self.recovery.total.max(self.recreation)
    }
}

impl Plan {
    fn between_zones(&self, zones: u64, log_bytes: f64) -> Zones {
        let crossing = crossing(self.placement, zones, u64::from(self.replicas()));
        let fetched_bytes = crossing.fetched * log_bytes;
        let replicated_bytes = crossing.written * self.utilisation * log_bytes;
        // Recovery masters of one zone send all new replicas over its uplink; else each zone sends its share.
        let senders = if self.placement == ReplicaPlacement::ZoneLocal { 1.0 } else { zones as f64 };
        let sent = fetched_bytes / zones as f64 + replicated_bytes / senders;
        Zones { crossing, fetched_bytes, replicated_bytes, uplink: self.uplink.map(|rate| sent / rate) }
    }

    /// Fails for a description that makes no sense, with the reason.
    pub fn picture(&self) -> Result<Picture<'_>, String> {
        let replicas = u64::from(self.replicas());
        let servers = self.servers()?;
        if servers <= replicas {
            return Err(format!(
                "{replicas} replicas need {} servers, because each is on another server than the data; give more --servers or fewer --replicas",
                replicas + 1
            ));
        }
        if let Some(zones) = self.zones.filter(|zones| *zones > servers) {
            return Err(format!("--zones {zones}: {0} servers stand in 2 to {0} zones", servers));
        }
        if self.memory < u64::from(SEGMENT_BYTES) {
            return Err(format!("--memory {} holds no segment; give at least 8MiB", self.memory));
        }
        if self.utilisation <= 0.0 {
            return Err("--utilisation 0: a cluster without data loses none; give a share above 0".to_owned());
        }
        if self.object_bytes == 0 || self.object_bytes > u64::from(SEGMENT_BYTES) {
            return Err("--object-bytes must be between 1 and 8MiB, the size of a segment".to_owned());
        }
        let is_known = |topology: &&Topology| **topology != Topology::Flat;
        let topology = self.topology.as_ref().filter(is_known);
        let of = Servers {
            placement: self.placement,
            replicas: self.replicas(),
            log_bytes: self.memory,
            live: self.utilisation,
            buffer_bytes: self.hardware().buffers,
            partition_bytes: PARTITION_BYTES,
        };
        let survey = topology.map(|topology| survey(topology, &of)).transpose()?;
        let port_rate = self.hardware().network;
        let ports = survey.as_ref().map_or(1, |survey| survey.levels);
        let hardware = Hardware { network: port_rate * ports as f64, ..self.hardware() };
        let layout = Layout {
            servers,
            replicas,
            segments: (self.memory as f64 / f64::from(SEGMENT_BYTES)).ceil(),
            spread: self.spread(survey.as_ref())?,
        };
        let failing = self.failing(servers)?;
        let over = |loss: fn(&Layout, u64) -> f64| match failing {
            Failing::Count(failed) => loss(&layout, failed),
            Failing::Each(probability) => layout.expected(probability, loss),
        };
        let after_power_cut = over(Layout::after_power_cut);
        let bytes_lost = over(Layout::segments_lost) * f64::from(SEGMENT_BYTES) * self.utilisation;
        let log_bytes = self.memory as f64;
        let others = servers - 1;
        // With zone-local the primaries are in the dead server's zone, and its recovery masters.
        let at_home = match (self.placement, self.zones) {
            (ReplicaPlacement::ZoneLocal, Some(zones)) => (servers / zones).saturating_sub(1),
            _ => others,
        };
        if at_home == 0 {
            return Err(
                "--placement zone-local needs another server in each zone; give more --servers".into()
            );
        }
        let masters = at_home.min((log_bytes / PARTITION_BYTES).ceil() as u64);
        let (masters, backups, takers) = match &survey {
            Some(survey) => (survey.recoverers, survey.feeders, survey.takers),
            None => (masters, at_home, others),
        };
        let work = Work {
            log_bytes,
            live: self.utilisation,
            object_bytes: self.object_bytes as f64,
            replicas: f64::from(self.replicas()),
            masters: masters as f64,
            backups: backups as f64,
            takers: takers as f64,
        };
        // A single replica has no other replicas whose copyset it must stay in.
        let recreation_servers = if replicas == 1 { others } else { layout.scatter_width() };
        let zones = self.zones.map(|zones| self.between_zones(zones, log_bytes));
        let on_uplink = zones.as_ref().and_then(|zones| zones.uplink).unwrap_or_default();
        let network = survey.map(|survey| OnPorts { seconds: survey.fullest.bytes / port_rate, survey });
        let on_port = network.as_ref().map_or(0.0, |network| network.seconds);
        let mut picture = Picture {
            plan: self,
            hardware,
            layout,
            failing,
            after_power_cut,
            bytes_lost_then: if after_power_cut > 0.0 { bytes_lost / after_power_cut } else { 0.0 },
            at_once: over(Layout::at_once),
            in_a_year: None,
            recovery: recovery(&work, &hardware).over(Bound::Uplink, on_uplink).over(Bound::Port, on_port),
            masters,
            backups,
            recreation: recreation(&work, recreation_servers as f64, &hardware),
            recreation_servers,
            zones,
            network,
            quorum: None,
        };
        let live = layout.servers as f64 * log_bytes * self.utilisation;
        picture.quorum = self.quorum_table(live, picture.recovery.total, &hardware)?;
        let away_years = picture.whole_again() / YEAR_SECONDS;
        if self.crashes_per_year * away_years <= AWAY_MAX {
            picture.in_a_year = Some(layout.in_a_year(self.crashes_per_year, away_years));
        }
        Ok(picture)
    }
}
