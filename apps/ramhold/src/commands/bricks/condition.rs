//! The condition of a brick in a word, and what is wrong with the bricks together.

use super::survey::{Found, Survey};
use crate::output::bytes_for_eyes;
use ramhold_client::BrickStatus;

/// The activity of a brick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    Serving,
    /// Some of its tablets do not vote; so many percent of its keys do, or are rebuilt.
    Rebuilding(u64),
    /// Some of its tablets do not vote, and none is being rebuilt now.
    Waiting,
    Starting,
    /// It has no id yet.
    Unnamed,
    /// It does not answer, and was heard so long ago by others.
    Silent(Option<u64>),
}

impl Condition {
    pub fn of(brick: &Found) -> Condition {
        let Ok(status) = &brick.told else { return Condition::Silent(brick.heard_millis) };
        match &status.brick {
            Some(brick) if brick.life == 0 => Condition::Unnamed,
            Some(brick) if !brick.is_serving => Condition::Starting,
            Some(brick) if brick.without_vote == 0 => Condition::Serving,
            Some(BrickStatus { rebuilding: Some(rebuilding), without_vote, .. }) => {
                let voting = status.tablets.saturating_sub(u64::from(*without_vote));
                let done = voting * 1000 + u64::from(rebuilding.permille);
                Condition::Rebuilding((done / 10 / status.tablets.max(1)).min(99))
            }
            Some(_) => Condition::Waiting,
            None => Condition::Serving,
        }
    }

    /// For programs.
    pub fn name(self) -> &'static str {
        match self {
            Condition::Serving => "serving",
            Condition::Rebuilding(_) => "rebuilding",
            Condition::Waiting => "waiting",
            Condition::Starting => "starting",
            Condition::Unnamed => "unnamed",
            Condition::Silent(_) => "silent",
        }
    }
}

/// How grave it is, rising.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Grade {
    Healthy,
    Recovering,
    Degraded,
    Critical,
}

impl Grade {
    pub fn name(self) -> &'static str {
        match self {
            Grade::Healthy => "healthy",
            Grade::Recovering => "recovering",
            Grade::Degraded => "degraded",
            Grade::Critical => "critical",
        }
    }
}

pub struct Finding {
    pub grade: Grade,
    pub what: String,
    /// The way out.
    pub action: String,
}

/// The gravest first.
pub fn findings(survey: &Survey) -> Vec<Finding> {
    let mut found: Vec<Finding> = survey.bricks.iter().filter_map(of_brick).collect();
    found.extend(survey.bricks.iter().filter_map(of_device));
    if let Some(why) = &survey.coordinator {
        found.push(Finding {
            grade: Grade::Degraded,
            what: format!("the coordinator tells nothing: {}", bytes_for_eyes(why.as_bytes())),
            action: "start it again; until then no table is made or dropped, and only bricks that others know are shown".into(),
        });
    }
    found.sort_by_key(|finding| std::cmp::Reverse(finding.grade));
    found
}

/// A brick without tablets is missed by nobody.
fn of_brick(brick: &Found) -> Option<Finding> {
    let name = format!("{} at {}", brick.id, brick.address);
    let (grade, what, action) = match Condition::of(brick) {
        Condition::Serving => return None,
        Condition::Starting => {
            (Grade::Recovering, format!("{name} takes over its log"), "nothing, it serves when it has")
        }
        Condition::Silent(_) if brick.tablets == Some(0) => return None,
        Condition::Silent(heard) => {
            let since = match heard {
                Some(millis) => format!("was last heard {} ago", ago(millis)),
                None => "has not been heard".to_owned(),
            };
            let why = brick.told.as_ref().err().map(|why| bytes_for_eyes(why.as_bytes())).unwrap_or_default();
            (
                Grade::Degraded,
                format!(
                    "{name} {since} ({why}); its tablets go on while enough of their other bricks answer"
                ),
                "start it again on its directory",
            )
        }
        Condition::Rebuilding(percent) => {
            let what = format!("{name} is rebuilt from the others, {percent} % so far");
            (Grade::Recovering, what, "nothing, it votes when it has everything")
        }
        Condition::Waiting => {
            let what = format!("{name} has tablets that do not vote: too few of their bricks answer");
            (Grade::Degraded, what, "start the bricks that are silent")
        }
        Condition::Unnamed => {
            let what =
                format!("a brick at {} has no id yet: the coordinator has not answered it", brick.address);
            (Grade::Degraded, what, "check its --coordinator; its log says what is wrong")
        }
    };
    Some(Finding { grade, what, action: action.to_owned() })
}

fn of_device(brick: &Found) -> Option<Finding> {
    let backup = brick.told.as_ref().ok()?.backup.as_ref()?;
    let (grade, why, action) = match (&backup.failed, &backup.full) {
        (Some(why), _) => (Grade::Critical, format!("has failed: {why}"), "replace its device"),
        (None, Some(full)) => (Grade::Critical, format!("is full: {full}"), "free space there"),
        (None, None) => return None,
    };
    let what = format!("the device of {} at {} {}", brick.id, brick.address, bytes_for_eyes(why.as_bytes()));
    Some(Finding { grade, what, action: action.to_owned() })
}

/// The word for all bricks, and the reason.
pub fn verdict(survey: &Survey, findings: &[Finding]) -> (Grade, String) {
    let grade = findings.first().map_or(Grade::Healthy, |finding| finding.grade);
    let serving = survey.bricks.iter().filter(|brick| Condition::of(brick) == Condition::Serving).count();
    let all = survey.bricks.len();
    let more = match findings.len() {
        0 => String::new(),
        1 => "; 1 finding, see below".to_owned(),
        count => format!("; {count} findings, the gravest first"),
    };
    let bricks = if all == 1 { "brick serves" } else { "bricks serve" };
    (grade, format!("{}: {serving} of {all} {bricks}{more}", grade.name()))
}

/// A time in one unit: `12 s`, `3 min`, `5 h`, `2 d`.
pub fn ago(millis: u64) -> String {
    match millis / 1000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}
