//! The reports of this brick and of others, and what was noted of the last judgement.
//!
//! Not here: the verdict (core/detector), the treatment (`curing`). Protocol: docs/protocols/quorum.md, rules 49, 64.
//! Catalogue: I6.

use crate::measuring::Measuring;
use crate::restarting::Answer;
use ramhold_base::{Instant, ServerId};
use ramhold_detector::anomaly::{Anomalies, Guard};
use ramhold_wire::bricks::StatisticsReport;
use ramhold_wire::statistics::Flags;
use std::collections::BTreeMap;

/// A finding that was noted as an event; it is not noted again while it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Noted {
    Shift,
    Guarded(ServerId, u64, Guard),
}

/// The reports of this brick and of others.
#[derive(Debug, Default)]
pub(crate) struct Judging {
    pub measuring: Measuring,
    /// `None`: no brick is restarted for an anomaly by this one.
    pub anomalies: Option<Anomalies>,
    /// Whether all tablets of a sibling vote there, as it told last.
    pub votes: BTreeMap<ServerId, bool>,
    pub judge_at: Instant,
    pub noted: Option<Noted>,
    /// The last answer of the supervisor of a sentenced brick that was noted: its brick, life, and words.
    pub answered: Option<(ServerId, u64, Answer)>,
}

impl Judging {
    pub fn new(threshold: Option<usize>) -> Judging {
        Judging { anomalies: threshold.map(Anomalies::new), ..Judging::default() }
    }

    /// The own statistics that are unlike those of the other bricks. `None`: this brick cannot be compared.
    pub fn flagged_of(&self, brick: ServerId) -> Option<Flags> {
        self.anomalies.as_ref()?.flagged_of(brick)
    }

    /// The bricks that have reported here, this one among them.
    pub fn reporting_count(&self) -> usize {
        self.anomalies.as_ref().map_or(0, Anomalies::count)
    }

    pub fn report(&mut self, now: Instant, brick: ServerId, report: &StatisticsReport) {
        if let Some(anomalies) = &mut self.anomalies {
            anomalies.report(now, (brick, report.life), report.statistics);
        }
    }
}
