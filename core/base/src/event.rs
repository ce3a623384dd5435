//! Events: automatic actions, each with its indicator, its monitor, and its treatment.
//!
//! All of them are worded here, and nowhere else. A log has an event as one line, `event: INDICATOR; MONITOR; TREATMENT`,
//! and none of the three parts has a semicolon in it: those in texts from elsewhere become commas.
//!
//! Not here: who decides (core/brick, core/supervisor). Source: DSTORE04 7. Catalogue: I6.

use crate::{ServerId, Status};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// An automatic action.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub indicator: Indicator,
    pub monitor: Monitor,
    pub treatment: Treatment,
}

/// The reason of an action, about one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Indicator {
    /// No announcement of a brick came for this long.
    Silent { brick: ServerId, life: u64, silent: Duration },
    /// A brick answers, and so many of its statistics are unlike those of the other bricks. The text names them.
    Anomalous { brick: ServerId, life: u64, count: usize, flagged: String },
    /// The process has ended by itself. The text says which one, and how.
    Ended { name: String, how: String },
    /// The process has answered nothing over loopback for this long.
    Unanswering { name: String, waited: Duration },
    /// An operator has asked for it.
    Asked { name: String },
    /// The process was told to stop so long ago.
    Unstopped { name: String, waited: Duration },
    /// The command has failed that was to end the process. The text says how.
    CommandFailed { name: String, how: String },
    /// The process answers again, which was given up.
    Back { name: String },
    /// Something that is no brick answers at its address.
    NoBrick { address: SocketAddr, status: Status },
}

/// Who has noticed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Monitor {
    /// The next brick by id.
    Brick(ServerId),
    /// The parent of the process.
    Supervisor,
    Operator,
}

/// The treatment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Treatment {
    /// Its supervisor is told to restart it.
    Ordered { after: String },
    /// It is killed and started again.
    Killed,
    /// It is stopped in order and started again.
    Stopped,
    /// It is started after this pause.
    Started { pause: Duration },
    /// It answers, and is killed and started again, as its siblings consent.
    Cured,
    /// Nothing: it answers its supervisor.
    Left,
    /// Nothing: not all its siblings consent.
    Held,
    /// Nothing, although it is unlike the others: it was restarted too often, and answers.
    Spared { restarts: u32, within: Duration },
    /// It stays offline. The text says how to start it again.
    Offline { restarts: u32, within: Duration, way_out: String },
    /// It is killed, and perhaps started again.
    Forced { starts: bool },
    /// A command of the operator restarts it.
    Commanded,
    /// Nothing: it runs on, and is asked again.
    NotEnded,
    /// Nothing: it was to end.
    StaysEnded,
    /// It is restarted when it hangs again.
    Watched,
    /// Nothing: processes that are no bricks are not restarted.
    NothingRestarted,
}

impl Event {
    /// Whether somebody should look at it.
    pub fn is_trouble(&self) -> bool {
        !matches!(self.treatment, Treatment::Left | Treatment::Held | Treatment::Stopped | Treatment::Watched)
    }
}

fn seconds(time: Duration) -> String {
    format!("{}.{} s", time.as_secs(), time.subsec_millis() / 100)
}

/// A text from elsewhere, without semicolons.
fn plain(text: &str) -> String {
    text.replace(';', ",")
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event: {}; {}; {}", self.indicator, self.monitor, self.treatment)
    }
}

impl fmt::Display for Indicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Indicator::Silent { brick, life, silent } => {
                write!(f, "brick {brick}, life {life}, is silent for {} (announcements)", seconds(*silent))
            }
            Indicator::Anomalous { brick, life, count, flagged } => write!(
                f,
                "brick {brick}, life {life}, is anomalous: {count} of its statistics are unlike those of the other \
                 bricks ({})",
                plain(flagged)
            ),
            Indicator::Ended { name, how } => write!(f, "{} has ended ({})", plain(name), plain(how)),
            Indicator::Unanswering { name, waited } => {
                write!(f, "{} has answered nothing for {}", plain(name), seconds(*waited))
            }
            Indicator::Asked { name } => write!(f, "a restart of {} was asked for", plain(name)),
            Indicator::Unstopped { name, waited } => {
                write!(f, "{} has not stopped within {}", plain(name), seconds(*waited))
            }
            Indicator::CommandFailed { name, how } => {
                write!(f, "the command that ends {} has failed ({})", plain(name), plain(how))
            }
            Indicator::Back { name } => write!(f, "{} answers again", plain(name)),
            Indicator::NoBrick { address, status } => {
                write!(f, "there is no brick at {address} ({})", plain(&status.to_string()))
            }
        }
    }
}

impl fmt::Display for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Monitor::Brick(brick) => write!(f, "noticed by brick {brick}"),
            Monitor::Supervisor => f.write_str("noticed by its supervisor"),
            Monitor::Operator => f.write_str("by an operator"),
        }
    }
}

impl fmt::Display for Treatment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Treatment::Ordered { after } => write!(f, "its restart was ordered: {}", plain(after)),
            Treatment::Killed => f.write_str("it is silent over loopback: killed and started again"),
            Treatment::Stopped => f.write_str("stopped in order and started again"),
            Treatment::Started { pause } if pause.is_zero() => f.write_str("started again"),
            Treatment::Started { pause } => write!(f, "started again in {}", seconds(*pause)),
            Treatment::Cured => f.write_str("its siblings consent: killed and started again"),
            Treatment::Held => {
                f.write_str("left alone for now: not all bricks of its tablets vote and consent to a restart")
            }
            Treatment::Spared { restarts, within } => write!(
                f,
                "left as it is, as it answers: {restarts} restarts within {} s have not cured it, so look at its host",
                within.as_secs()
            ),
            Treatment::Left => f.write_str("left alone: it answers its supervisor"),
            Treatment::Offline { restarts, within, way_out } => {
                write!(
                    f,
                    "offline after {restarts} restarts within {} s: {}",
                    within.as_secs(),
                    plain(way_out)
                )
            }
            Treatment::Forced { starts: true } => f.write_str("killed and started again"),
            Treatment::Forced { starts: false } => f.write_str("killed"),
            Treatment::Commanded => f.write_str("the command of --run restarts it"),
            Treatment::NotEnded => f.write_str("none: it runs on, and is asked again"),
            Treatment::StaysEnded => {
                f.write_str("none: it was to end, and its supervisor ends with its status")
            }
            Treatment::Watched => f.write_str("it is restarted when it hangs again"),
            Treatment::NothingRestarted => f.write_str("none: a process that is no brick is never restarted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_of_three_parts() {
        let event = Event {
            indicator: Indicator::Silent { brick: ServerId(3), life: 7, silent: Duration::from_millis(1040) },
            monitor: Monitor::Brick(ServerId(4)),
            treatment: Treatment::Killed,
        };
        let text = event.to_string();
        assert_eq!(
            text,
            "event: brick s3, life 7, is silent for 1.0 s (announcements); noticed by brick s4; it is silent over \
             loopback: killed and started again"
        );
        let ended = Indicator::Ended { name: "brick-1".into(), how: "a; b".into() };
        let event = Event { indicator: ended, monitor: Monitor::Supervisor, treatment: Treatment::Left };
        assert_eq!(event.to_string().split("; ").count(), 3);
        assert!(!event.is_trouble());
        let flagged = "cpu, latency_get; cpu".to_owned();
        let anomalous = Indicator::Anomalous { brick: ServerId(3), life: 7, count: 2, flagged };
        for treatment in [
            Treatment::Cured,
            Treatment::Held,
            Treatment::Spared { restarts: 3, within: Duration::from_secs(600) },
        ] {
            let is_held = treatment == Treatment::Held;
            let event =
                Event { indicator: anomalous.clone(), monitor: Monitor::Brick(ServerId(4)), treatment };
            assert_eq!((event.to_string().split("; ").count(), event.is_trouble()), (3, !is_held), "{event}");
        }
    }

    // I6: a program that splits an event at its semicolons gets three parts, whatever the texts in it say.
    #[test]
    fn no_text_from_elsewhere_adds_a_part() {
        let odd = || "a; b; c".to_owned();
        let seconds = Duration::from_secs(3);
        let address = "127.0.0.1:7501".parse().expect("an address");
        let indicators = [
            Indicator::Anomalous { brick: ServerId(3), life: 7, count: 2, flagged: odd() },
            Indicator::Ended { name: odd(), how: odd() },
            Indicator::Unanswering { name: odd(), waited: seconds },
            Indicator::Asked { name: odd() },
            Indicator::Unstopped { name: odd(), waited: seconds },
            Indicator::CommandFailed { name: odd(), how: odd() },
            Indicator::Back { name: odd() },
            Indicator::NoBrick { address, status: Status::WrongOwner },
        ];
        let treatments = [
            Treatment::Ordered { after: odd() },
            Treatment::Offline { restarts: 3, within: seconds, way_out: odd() },
            Treatment::Spared { restarts: 3, within: seconds },
            Treatment::Commanded,
            Treatment::NotEnded,
            Treatment::StaysEnded,
            Treatment::NothingRestarted,
        ];
        for indicator in &indicators {
            for treatment in &treatments {
                let (indicator, treatment) = (indicator.clone(), treatment.clone());
                let event = Event { indicator, monitor: Monitor::Supervisor, treatment };
                assert_eq!(event.to_string().split(';').count(), 3, "{event}");
            }
        }
    }
}
