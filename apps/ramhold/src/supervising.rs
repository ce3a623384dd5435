//! Runs the machine that restarts bricks, for whoever owns their processes: `supervise` and `dev`.
//!
//! The owner starts and ends processes as it is told, and says when one has started or ended. It is asked after each turn of
//! the loop, so a process that has died is noticed within `LOOK_INTERVAL`.
//!
//! Not here: the decisions (core/supervisor).

use crate::failure::Failure;
use crate::size::parse_duration;
use ramhold_base::ServerId;
use ramhold_detector::anomaly::THRESHOLD;
use ramhold_node::RestartLoad;
use ramhold_runtime::{Exit, Runtime, RuntimeConfig, Turn};
use ramhold_supervisor::{Act, ChargeConfig, Ended, RestartLimit, Supervisor};
use ramhold_wire::statistics::STATISTIC_COUNT;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::Duration;

/// How often an owner looks after its processes.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// `RestartLimit::DEFAULT`, as people write it.
pub const RESTART_LIMIT: &str = "3/10m";

/// `3/10m`, or `none`.
pub fn parse_restart_limit(text: &str) -> Result<RestartLimit, String> {
    if text == "none" {
        return Ok(RestartLimit::None);
    }
    let wrong = || format!("'{text}' is not like 3/10m, for three restarts in ten minutes, or 'none'");
    let (count, within) = text.split_once('/').ok_or_else(wrong)?;
    let count = count.parse().map_err(|_| wrong())?;
    RestartLimit::at_most(count, parse_duration(within)?)
        .ok_or_else(|| format!("'{text}': give at most 1000 restarts, or 'none'"))
}

/// `3/10m`, or `none`.
pub fn restart_limit_text(limit: RestartLimit) -> String {
    match limit {
        RestartLimit::None => "none".to_owned(),
        RestartLimit::AtMost { count, within } => match within.as_millis() {
            millis if millis % 60_000 == 0 => format!("{count}/{}m", millis / 60_000),
            millis if millis % 1000 == 0 => format!("{count}/{}s", millis / 1000),
            millis => format!("{count}/{millis}ms"),
        },
    }
}

/// `RestartThreshold::DEFAULT`, as people write it.
pub const RESTART_THRESHOLD: &str = "11";

/// Statistics of 17 that make a brick anomalous; none: no brick is restarted for an anomaly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RestartThreshold(pub Option<usize>);

impl RestartThreshold {
    pub const DEFAULT: RestartThreshold = RestartThreshold(Some(THRESHOLD));
}

/// `11`, or `off`.
pub fn parse_restart_threshold(text: &str) -> Result<RestartThreshold, String> {
    if text == "off" {
        return Ok(RestartThreshold(None));
    }
    match text.parse() {
        Ok(count) if (1..=STATISTIC_COUNT).contains(&count) => Ok(RestartThreshold(Some(count))),
        _ => Err(format!("'{text}' is not a number of statistics from 1 to {STATISTIC_COUNT}, or 'off'")),
    }
}

/// `11`, or `off`.
pub fn restart_threshold_text(threshold: RestartThreshold) -> String {
    threshold.0.map_or_else(|| "off".to_owned(), |count| count.to_string())
}

pub struct Supervising {
    runtime: Runtime<Supervisor>,
}

impl Supervising {
    /// Listens for siblings and operators. Nothing is started yet.
    pub fn new(listen: SocketAddr, charges: Vec<ChargeConfig>) -> Result<Supervising, Failure> {
        let random = RandomState::new().hash_one(std::process::id());
        let config = RuntimeConfig { listen: Some(listen), ..RuntimeConfig::default() };
        let runtime = Runtime::new(Supervisor::new(charges, random), config);
        Ok(Supervising { runtime: runtime.map_err(|error| Failure::usage(error.to_string()))? })
    }

    /// Where siblings and operators reach it.
    pub fn address(&self) -> SocketAddr {
        self.runtime.local_addr().expect("a supervisor always listens")
    }

    /// Waits for something to happen, for `LOOK_INTERVAL` at most. It returns what is to be done with which process; none: the
    /// supervisor has ended.
    pub fn turn(&mut self) -> Option<Vec<(usize, Act)>> {
        let turn = self.runtime.turn(Some(LOOK_INTERVAL));
        let acts = self.runtime.machine_mut().take_acts();
        (turn != Turn::Ended).then_some(acts)
    }

    pub fn started(&mut self, index: usize) {
        self.runtime.step(|machine, now, effects| machine.started(now, index, effects));
    }

    /// The process was reaped, or could not be started; or the command that was to end it has ended.
    pub fn ended(&mut self, index: usize, end: Ended<'_>) {
        self.runtime.step(|machine, now, effects| machine.ended(now, index, end, effects));
    }

    /// How the supervisor has ended.
    pub fn exit(&self) -> Option<Exit> {
        self.runtime.exit().cloned()
    }

    /// The brick, and the newest life that it has told since this start.
    pub fn newest_life(&self, index: usize) -> Option<(ServerId, u64)> {
        self.runtime.machine().newest_life(index)
    }

    /// Ends the processes in order, then the supervisor.
    pub fn stop(&self) {
        self.runtime.stop_handle().stop();
    }
}

/// `RestartLoad::default()`, as people write it.
pub const RESTART_LOAD: &str = "incremental";

/// Reads when a brick serves after a start.
pub fn parse_restart_load(text: &str) -> Result<RestartLoad, String> {
    match text {
        "preload" => Ok(RestartLoad::Preload),
        "incremental" => Ok(RestartLoad::Incremental),
        _ => Err("give 'preload' or 'incremental'".to_owned()),
    }
}

pub fn restart_load_text(load: RestartLoad) -> &'static str {
    match load {
        RestartLoad::Preload => "preload",
        RestartLoad::Incremental => "incremental",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read() {
        assert_eq!(parse_restart_threshold(RESTART_THRESHOLD), Ok(RestartThreshold::DEFAULT));
        for text in ["off", "1", "8", "17"] {
            assert_eq!(parse_restart_threshold(text).map(restart_threshold_text).as_deref(), Ok(text));
        }
        for text in ["", "0", "18", "-1", "none", "11.5"] {
            assert!(parse_restart_threshold(text).is_err(), "{text}");
        }
    }

    #[test]
    fn limits_are_read() {
        assert_eq!(parse_restart_load(RESTART_LOAD), Ok(RestartLoad::default()));
        for load in [RestartLoad::Preload, RestartLoad::Incremental] {
            assert_eq!(parse_restart_load(restart_load_text(load)), Ok(load));
        }
        assert!(parse_restart_load("lazy").is_err());
        assert_eq!(parse_restart_limit(RESTART_LIMIT), Ok(RestartLimit::DEFAULT));
        assert_eq!(parse_restart_limit("none"), Ok(RestartLimit::None));
        for text in ["", "3", "/10m", "3/", "x/10m", "1001/1s", "-1/1s"] {
            assert!(parse_restart_limit(text).is_err(), "{text}");
        }
        for text in ["none", RESTART_LIMIT, "0/1ms", "7/90s"] {
            assert_eq!(parse_restart_limit(text).map(restart_limit_text).as_deref(), Ok(text));
        }
    }
}
