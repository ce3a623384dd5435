//! Little's law over the figures of a run: operations per second times their mean latency is the mean number
//! of operations under way.
//!
//! That number cannot be more than there are places in the pipelines. A benchmark that counts times from the
//! wrong moment, or forgets operations, contradicts itself here, whatever the servers do. So each run is
//! checked, and a run that contradicts itself is not a measurement.
//!
//! In an open loop latencies count from the moment at which operations were due. Their number under way, as
//! told, then has no bound, but it is not less than the number that was sent and had not ended.

use super::measured::Measured;
use super::plan::Load;

/// The histograms have three digits, and threads do not end at the same moment.
const SLACK: f64 = 0.03;

/// The mean numbers of operations under way, and the places for them.
#[derive(Clone, Copy, Debug)]
pub struct Little {
    /// Rate times mean latency, both as they are told.
    pub told: f64,
    /// From sending to the end, summed up apart from the histograms.
    pub sent: f64,
    /// All pipelines together.
    pub places: f64,
    is_open: bool,
    /// Whether every operation was done. Those that fail take places too, and are not counted.
    is_whole: bool,
}

impl Little {
    pub fn of(measured: &Measured, load: &Load) -> Little {
        Little {
            told: measured.under_way_told(),
            sent: measured.under_way(),
            places: load.pipeline as f64 * f64::from(load.clients),
            is_open: load.rate.is_some(),
            is_whole: measured.errors.is_empty(),
        }
    }

    /// The contradiction in the figures, if there is one.
    pub fn contradiction(&self) -> Option<String> {
        let Little { told, sent, places, is_open, .. } = *self;
        if sent > places * (1.0 + SLACK) {
            return Some(format!("{sent:.2} operations were under way, but there are {places} places"));
        }
        let (least, most) = (sent * (1.0 - SLACK), sent * (1.0 + SLACK));
        if told < least || (told > most && !is_open) {
            return Some(format!(
                "rate times mean latency says that {told:.2} operations were under way, but {sent:.2} were"
            ));
        }
        None
    }

    /// Whether less than half of the places of a closed loop were taken: the client was slower than the servers.
    pub fn is_client_bound(&self) -> bool {
        !self.is_open && self.is_whole && self.sent < self.places / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn little(told: f64, sent: f64, is_open: bool) -> Little {
        Little { told, sent, places: 4.0, is_open, is_whole: true }
    }

    // E2
    #[test]
    fn figures_that_cannot_be_are_told() {
        for (told, sent) in [(3.9, 3.9), (4.1, 4.1), (0.5, 0.5), (3.95, 3.9), (0.0, 0.0)] {
            assert_eq!(little(told, sent, false).contradiction(), None, "{told} {sent}");
        }
        // Times from before the wait for a place: one more is under way than there are places.
        let early = little(4.9, 3.9, false).contradiction().unwrap();
        assert!(early.contains("4.90") && early.contains("3.90"), "{early}");
        // Operations that are counted twice, or not at all.
        let twice = little(7.8, 7.8, false).contradiction().unwrap();
        assert!(twice.contains("4 places"), "{twice}");
        assert!(little(1.9, 3.8, false).contradiction().is_some());
        // Waiting for a place is no contradiction where times count from the due moment; less time is one.
        assert_eq!(little(250.0, 4.0, true).contradiction(), None);
        assert!(little(1.0, 4.0, true).contradiction().is_some());
        assert!(little(250.0, 8.0, true).contradiction().is_some());
    }

    // E2
    #[test]
    fn a_slow_client_is_told_from_a_slow_cluster() {
        assert!(little(1.9, 1.9, false).is_client_bound());
        assert!(!little(2.1, 2.1, false).is_client_bound());
        assert!(!little(1.0, 1.0, true).is_client_bound());
        let failed = Little { is_whole: false, ..little(1.0, 1.0, false) };
        assert!(!failed.is_client_bound());
    }
}
