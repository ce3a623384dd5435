//! All that follows from the description of a cluster.

use super::description::{Failing, Plan};
use super::hardware::Hardware;
use super::loss::Layout;
use super::recovery::{Recovery, Work, recovery, recreation};
use ramhold_base::limits::SEGMENT_BYTES;

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
    /// Seconds until the replicas that a dead server held are made anew, and on how many servers.
    pub recreation: f64,
    pub recreation_servers: u64,
}

impl Picture<'_> {
    /// Seconds until a server that is lost is missed by nothing any more.
    pub fn whole_again(&self) -> f64 {
        self.recovery.total.max(self.recreation)
    }
}

impl Plan {
    /// Fails for a description that makes no sense, with the reason.
    pub fn picture(&self) -> Result<Picture<'_>, String> {
        let replicas = u64::from(self.replicas);
        if self.servers <= replicas {
            return Err(format!(
                "{replicas} replicas need {} servers, because each is on another server than the data; give more --servers or fewer --replicas",
                replicas + 1
            ));
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
        let hardware = self.hardware();
        let layout = Layout {
            servers: self.servers,
            replicas,
            segments: (self.memory as f64 / f64::from(SEGMENT_BYTES)).ceil(),
            spread: self.spread()?,
        };
        let failing = self.failing()?;
        let over = |loss: fn(&Layout, u64) -> f64| match failing {
            Failing::Count(failed) => loss(&layout, failed),
            Failing::Each(probability) => layout.expected(probability, loss),
        };
        let after_power_cut = over(Layout::after_power_cut);
        let bytes_lost = over(Layout::segments_lost) * f64::from(SEGMENT_BYTES) * self.utilisation;
        let log_bytes = self.memory as f64;
        let others = self.servers - 1;
        let masters = others.min((log_bytes / PARTITION_BYTES).ceil() as u64);
        let work = Work {
            log_bytes,
            live: self.utilisation,
            object_bytes: self.object_bytes as f64,
            replicas: f64::from(self.replicas),
            masters: masters as f64,
            backups: others as f64,
        };
        // A single replica has no other replicas whose copyset it must stay in.
        let recreation_servers = if replicas == 1 { others } else { layout.scatter_width() };
        let mut picture = Picture {
            plan: self,
            hardware,
            layout,
            failing,
            after_power_cut,
            bytes_lost_then: if after_power_cut > 0.0 { bytes_lost / after_power_cut } else { 0.0 },
            at_once: over(Layout::at_once),
            in_a_year: None,
            recovery: recovery(&work, &hardware),
            masters,
            recreation: recreation(&work, recreation_servers as f64, &hardware),
            recreation_servers,
        };
        let away_years = picture.whole_again() / YEAR_SECONDS;
        if self.crashes_per_year * away_years <= AWAY_MAX {
            picture.in_a_year = Some(layout.in_a_year(self.crashes_per_year, away_years));
        }
        Ok(picture)
    }
}
