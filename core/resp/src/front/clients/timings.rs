//! Times that commands took which were not answered in the step in which they came.

use super::latency::Latency;
use super::slowlog::SlowLog;
use crate::Command;
use crate::front::config::TimingConfig;
use crate::front::host::Host;
use crate::front::request::Args;
use crate::front::step::Step;
use ramhold_base::Latencies;
use std::time::Duration;

pub struct Timings {
    /// `CONFIG SET` changes it.
    pub config: TimingConfig,
    pub slow: SlowLog,
    pub latency: Latency,
    pub waits: Latencies,
}

impl Timings {
    pub fn new(config: TimingConfig) -> Timings {
        Timings { config, slow: SlowLog::default(), latency: Latency::default(), waits: Latencies::default() }
    }

    /// Notes a reply that goes out now, `took` after the command of the client called `name` came.
    pub fn note(
        &mut self,
        step: &Step<'_, impl Host>,
        (row, args): (&Command, &Args),
        took: Duration,
        name: &[u8],
    ) {
        self.waits.count(took);
        let TimingConfig { slow, slow_count_max, latency_threshold } = self.config;
        if took >= slow {
            self.slow.note(args, took, step.host.time(step.now) / 1000, name, slow_count_max);
        }
        if took >= latency_threshold && !latency_threshold.is_zero() && args.bytes() > 0 {
            self.latency.note(row, took, step.host.time(step.now) / 1000);
        }
    }
}
