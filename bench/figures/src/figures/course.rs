//! The course of a recovery in a network: how even its masters were, how fast they fetched, and what was busy.

use crate::charge::{BIN, PortUse};
use crate::stage::{Measured, Plan};
use ramhold_base::ServerId;
use std::collections::BTreeMap;

/// Rates are averages over so many bins: 200 ms.
const WINDOW: usize = 20;

pub struct Course<'a> {
    plan: &'a Plan,
    measured: &'a Measured,
}

impl<'a> Course<'a> {
    pub fn new(plan: &'a Plan, measured: &'a Measured) -> Course<'a> {
        Course { plan, measured }
    }

    /// Seconds from the kill to the last partition live.
    pub fn since_kill(&self) -> f64 {
        self.measured.detection + self.measured.recovery
    }

    /// For each recovery master, the milliseconds from the verdict until it had reported its last partition.
    fn reported(&self) -> BTreeMap<ServerId, u64> {
        let mut times: BTreeMap<ServerId, u64> = BTreeMap::new();
        for part in &self.measured.parts {
            let time = times.entry(part.server).or_default();
            *time = (*time).max(part.reported.unwrap_or(part.assigned));
        }
        times
    }

    pub fn masters(&self) -> usize {
        self.reported().len()
    }

    /// The time of the last recovery master by that of the first.
    pub fn unevenness(&self) -> f64 {
        let times = self.reported();
        let (least, most) = (times.values().min(), times.values().max());
        least.zip(most).map_or(1.0, |(least, most)| *most as f64 / (*least).max(1) as f64)
    }

    /// The highest rate at which all recovery masters together fetched records, in bytes per second.
    pub fn peak(&self) -> f64 {
        let fetched = &self.measured.busy.fetched;
        let window = WINDOW.min(fetched.len().max(1));
        let most = fetched.windows(window).map(|bins| bins.iter().sum::<f64>()).fold(0.0, f64::max);
        most / (window as f64 * BIN as f64 / 1e9)
    }

    /// Bytes of records that came from more than one hop away, as recovery masters tell. They know positions of
    /// a log that is simulated small.
    pub fn far(&self) -> f64 {
        let told = self.measured.parts.iter().filter_map(|part| part.times.far_bytes);
        told.sum::<u64>() as f64 * self.plan.scale.bytes()
    }

    fn ports(&self) -> &[PortUse] {
        &self.measured.busy.ports
    }

    /// Bytes of records that passed uplinks out of racks.
    pub fn on_uplinks(&self) -> f64 {
        let fabric = self.plan.fabric(self.hosts());
        let uplinks = (0..fabric.port_count()).filter(|port| fabric.is_uplink(*port) && port % 2 == 0);
        uplinks.map(|port| self.ports()[port].records).fold(0.0, |sum, bytes| sum + bytes)
    }

    /// Bytes of records that hosts passed on.
    pub fn relayed(&self) -> f64 {
        self.ports().iter().map(|port| port.relayed).sum()
    }

    fn hosts(&self) -> usize {
        self.plan.layout.servers().map_or(0, |servers| servers + 1)
    }

    /// The busiest port, and the shares of the time for which it passed records, replicas and other bytes.
    pub fn busiest_port(&self) -> String {
        let fabric = self.plan.fabric(self.hosts());
        let ports = self.ports();
        let Some(busiest) = (0..ports.len()).max_by_key(|port| ports[*port].nanos) else {
            return "-".into();
        };
        let percent = |bytes: f64| 100.0 * bytes / fabric.rate(busiest) / self.since_kill();
        let PortUse { records, replicas, other, .. } = ports[busiest];
        format!(
            "{}: {:.0} % records, {:.0} % replicas, {:.0} % other",
            fabric.name(busiest),
            percent(records),
            percent(replicas),
            percent(other)
        )
    }
}
