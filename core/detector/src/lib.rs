//! Which servers seem dead: one random other server after another is pinged, and neighbours all the time.
//!
//! Random pings need no neighbours and no leader. Since every server pings, a dead one is noticed within about one
//! interval (SOSP11 3.3, TUT15). That is only a suspicion: the coordinator pings the suspect itself.
//!
//! Bricks are also compared by their operating statistics: which one is unlike the others now (`mad`) or over
//! time (`tarzan`), and whether it is to be restarted (`anomaly`).
//!
//! Where a topology says who is near whom, neighbours find a dead one sooner (`neighbours`), and what they see says what
//! has failed (`causes`).
//!
//! Not here: sending and the verdict (node, coordinator). Catalogue: F1, H3, I6.

pub mod anomaly;
mod causes;
pub mod mad;
pub mod neighbours;
pub mod tarzan;

pub use causes::causes;

use ramhold_base::map::FastMap;
use ramhold_base::{Instant, Rng, ServerId};
use ramhold_wire::View;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct DetectorConfig {
    pub ping_interval: Duration,
    pub ping_timeout: Duration,
    /// The same server is not reported again within this interval.
    pub report_interval: Duration,
    /// How long a neighbour may be silent on a link.
    pub neighbour_timeout: Duration,
}

impl Default for DetectorConfig {
    fn default() -> DetectorConfig {
        DetectorConfig {
            ping_interval: Duration::from_millis(100),
            ping_timeout: Duration::from_millis(400),
            report_interval: Duration::from_millis(200),
            neighbour_timeout: Duration::from_millis(300),
        }
    }
}

#[derive(Debug)]
pub struct Detector {
    config: DetectorConfig,
    rng: Rng,
    next_ping: Instant,
    reported: FastMap<ServerId, Instant>,
}

impl Detector {
    pub fn new(config: DetectorConfig, seed: u64) -> Detector {
        Detector { config, rng: Rng::new(seed), next_ping: Instant::ZERO, reported: FastMap::default() }
    }

    pub fn ping_timeout(&self) -> Duration {
        self.config.ping_timeout
    }

    /// The server to ping now, if it is time.
    pub fn choose_target(&mut self, now: Instant, view: &View) -> Option<ServerId> {
        if now < self.next_ping {
            return None;
        }
        self.next_ping = now + self.config.ping_interval;
        let others: Vec<ServerId> = view.list.up().map(|e| e.id).filter(|id| *id != view.me).collect();
        self.rng.pick(&others).copied()
    }

    pub fn deadline(&self) -> Instant {
        self.next_ping
    }

    /// Whether a suspicion is to be reported now; one server is not reported too often.
    pub fn suspects(&mut self, now: Instant, server: ServerId) -> bool {
        self.reported.retain(|_, at| now.since(*at) < self.config.report_interval);
        let first = !self.reported.contains_key(&server);
        if first {
            self.reported.insert(server, now);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspicion_is_not_repeated_at_once() {
        let mut detector = Detector::new(DetectorConfig::default(), 1);
        let at = |millis: u64| Instant(millis * 1_000_000);
        assert!(detector.suspects(at(1000), ServerId(1)));
        assert!(!detector.suspects(at(1100), ServerId(1)));
        assert!(detector.suspects(at(1100), ServerId(2)));
        assert!(detector.suspects(at(1300), ServerId(1)));
    }
}
