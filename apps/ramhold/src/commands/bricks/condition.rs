//! The condition of a brick in a word, and what is wrong with the bricks together.

use super::reach;
use super::survey::{Found, Survey};
use crate::commands::brick::scale::Ordered;
use crate::findings::{Finding, Grade, finding, gravest, listed};
use crate::output::bytes_for_eyes;
use ramhold_client::{BrickStatus, ObstacleKind, ServerId};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// The activity of a brick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    Serving,
    /// Some of its tablets do not vote; so many percent of its keys do, or are rebuilt.
    Rebuilding(u64),
    /// So many percent of its log are loaded, and it answers for keys that are.
    Loading(u64),
    /// Some of its tablets do not vote, and something is awaited: bricks that do not answer, clocks, or room here.
    Waiting,
    Starting,
    /// It has no id yet.
    Unnamed,
    /// It does not answer, and was heard so long ago by others.
    Silent(Option<u64>),
    /// The same, and its supervisor starts it no more.
    Offline,
}

impl Condition {
    pub fn of(brick: &Found) -> Condition {
        let Ok(status) = &brick.told else {
            return if brick.is_offline { Condition::Offline } else { Condition::Silent(brick.heard_millis) };
        };
        match &status.brick {
            Some(brick) if brick.life == 0 => Condition::Unnamed,
            Some(brick) if !brick.is_serving => Condition::Starting,
            Some(BrickStatus { loaded_permille: Some(permille), .. }) => {
                Condition::Loading(u64::from(*permille / 10))
            }
            Some(brick) if brick.without_vote == 0 => Condition::Serving,
            Some(brick) if !awaited(brick).is_empty() || brick.stalled.is_some() => Condition::Waiting,
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
            Condition::Loading(_) => "loading",
            Condition::Waiting => "waiting",
            Condition::Starting => "starting",
            Condition::Unnamed => "unnamed",
            Condition::Silent(_) => "silent",
            Condition::Offline => "offline",
        }
    }
}

/// The bricks without which some of its tablets do not vote.
fn awaited(brick: &BrickStatus) -> BTreeSet<ServerId> {
    brick.tablets.iter().flat_map(|tablet| &tablet.waits_for).copied().collect()
}

/// The gravest first.
pub fn findings(survey: &Survey) -> Vec<Finding> {
    let status_of = |id: ServerId| survey.bricks.iter().find(|brick| brick.id == id)?.told.as_ref().ok();
    let is_up = |brick: ServerId| status_of(brick).is_some();
    let mut found: Vec<Finding> = survey.bricks.iter().filter_map(|brick| of_brick(brick, &is_up)).collect();
    found.extend(survey.bricks.iter().filter_map(of_device));
    found.extend(reach::findings(&survey.tablets, |brick, tablet| {
        status_of(brick).is_some_and(|status| reach::votes(status, tablet))
    }));
    found.extend(survey.strange.iter().map(|(address, why)| {
        let what = format!("no brick that is known is at {address}: {}", bytes_for_eyes(why.as_bytes()));
        finding(Grade::Degraded, what, "check the address that --bricks gives, or start the brick there")
    }));
    let ordered = survey.bricks.iter().filter_map(|brick| Some((brick, brick.scaling.as_ref()?)));
    found.extend(ordered.map(|(brick, order)| of_order(brick.id, brick.address, order)));
    if let Some(why) = &survey.coordinator {
        found.push(finding(
            Grade::Degraded,
            format!("the coordinator tells nothing: {}", bytes_for_eyes(why.as_bytes())),
            "start it again; until then no table is made or dropped, and only bricks that others know are shown",
        ));
    }
    found.sort_by_key(|finding| std::cmp::Reverse(finding.grade));
    found
}

/// A brick without tablets is missed by nobody. `is_up`: whether another brick answers whoever else asks it.
pub fn of_brick(brick: &Found, is_up: &dyn Fn(ServerId) -> bool) -> Option<Finding> {
    let name = format!("{} at {}", brick.id, brick.address);
    let (grade, what, action) = match Condition::of(brick) {
        Condition::Serving => return super::memory::shortage(brick),
        Condition::Starting => {
            (Grade::Recovering, format!("{name} takes over its log"), "nothing, it serves when it has")
        }
        Condition::Silent(_) | Condition::Offline if brick.tablets == Some(0) => return None,
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
        Condition::Offline => {
            let what = format!("{name} was restarted too often, and its supervisor starts it no more");
            let action = format!("find out why in its log, then run 'ramhold brick restart {}'", brick.id);
            return Some(Finding { grade: Grade::Degraded, what, action });
        }
        Condition::Rebuilding(percent) => match givers(brick) {
            Some(givers) => {
                let what = format!("{name} takes tablets from {}, {percent} % so far", listed(givers));
                (Grade::Note, what, "nothing, each has one vote less until it votes here")
            }
            None => {
                let what = format!("{name} is rebuilt from the others, {percent} % so far");
                (Grade::Recovering, what, "nothing, it votes when it has everything")
            }
        },
        Condition::Loading(percent) => {
            let what = format!("{name} loads its log, {percent} % so far, and answers for what is loaded");
            (Grade::Recovering, what, "nothing, other bricks answer for the rest")
        }
        Condition::Waiting => return Some(of_waiting(&name, brick, is_up)),
        Condition::Unnamed => {
            let what =
                format!("a brick at {} has no id yet: the coordinator has not answered it", brick.address);
            (Grade::Degraded, what, "check its --coordinator; its log says what is wrong")
        }
    };
    Some(finding(grade, what, action))
}

/// The bricks that give this one its tablets, if all that do not vote here move here.
fn givers(brick: &Found) -> Option<BTreeSet<ServerId>> {
    let own = brick.told.as_ref().ok()?.brick.as_ref()?;
    let voteless = own.tablets.iter().filter(|tablet| !tablet.votes);
    voteless.map(|tablet| tablet.giver).collect::<Option<BTreeSet<ServerId>>>().filter(|it| !it.is_empty())
}

/// A brick whose tablets do not vote, and are not rebuilt now.
fn of_waiting(name: &str, brick: &Found, is_up: &dyn Fn(ServerId) -> bool) -> Finding {
    let status = brick.told.as_ref().ok().and_then(|status| status.brick.as_ref());
    let awaited = status.map(awaited).unwrap_or_default();
    let tablets = match status.map_or(0, |status| status.without_vote) {
        1 => "1 tablet that does not vote".to_owned(),
        count => format!("{count} tablets that do not vote"),
    };
    if awaited.is_empty() {
        if let Some(stalled) = status.and_then(|status| status.stalled.as_ref()) {
            let (why, since) = (stalled.why(), ago(stalled.millis));
            let what = format!("{name} has {tablets}: the rebuilding has come no further for {since}: {why}");
            return finding(Grade::Degraded, what, stalled.obstacle.way_out());
        }
        if let Some(shortage) = super::memory::shortage(brick) {
            return shortage;
        }
        let what = format!("{name} has {tablets}: too few of their other bricks have told their clocks");
        let action = "nothing, if it or they have just been started; else start those that are silent";
        return finding(Grade::Degraded, what, action);
    }
    let (up, down): (BTreeSet<ServerId>, BTreeSet<ServerId>) = awaited.into_iter().partition(|it| is_up(*it));
    let unreached = listed(&up);
    if down.is_empty() {
        // Nothing is lost, whatever this one has: the others answer.
        let back = match givers(brick) {
            Some(_) => "; the tablet is called back by 'ramhold brick add|remove BRICK --cancel'",
            None => "",
        };
        return finding(
            Grade::Degraded,
            format!("{name} has {tablets}: it is cut off from {unreached}, which others hear"),
            format!("check the network between {} and {unreached}{back}", brick.id),
        );
    }
    let (answer, it) = if down.len() == 1 { ("does not answer", "it") } else { ("do not answer", "them") };
    let names = listed(down);
    if !up.is_empty() {
        return finding(
            Grade::Degraded,
            format!("{name} has {tablets}: {names} {answer}, and it is cut off from {unreached}"),
            format!("check the network between {} and {unreached}, then start {names} again", brick.id),
        );
    }
    finding(
        Grade::Degraded,
        format!("{name} has {tablets}: {names} {answer}, and may have what is newer"),
        format!(
            "start {names} again; if the data is destroyed, 'ramhold brick accept-loss --help' says how to go on without \
             {it}"
        ),
    )
}

/// An order to add or remove a brick, with what it waits for: a table of bricks has no room for that. Nothing is wrong while
/// tablets move, or wait for a brick that votes soon.
pub fn of_order(brick: ServerId, address: SocketAddr, order: &Ordered) -> Finding {
    let what = format!("{brick} at {address} is {}", order.text);
    let (grade, action) = match order.waits {
        None | Some(ObstacleKind::Rebuilding) => (Grade::Note, "nothing, tablets move one after the other"),
        Some(ObstacleKind::Silent | ObstacleKind::NotHeard) => {
            (Grade::Degraded, "start that one, or check the network to it")
        }
        Some(_) => (Grade::Degraded, "see what it waits for"),
    };
    finding(grade, what, format!("{action}; 'ramhold brick add|remove BRICK --cancel' ends the order"))
}

fn of_device(brick: &Found) -> Option<Finding> {
    let backup = brick.told.as_ref().ok()?.backup.as_ref()?;
    let (grade, why, action) = match (&backup.failed, &backup.full) {
        (Some(why), _) => (Grade::Critical, format!("has failed: {why}"), "replace its device"),
        (None, Some(full)) => (Grade::Critical, format!("is full: {full}"), "free space there"),
        (None, None) => return None,
    };
    let what = format!("the device of {} at {} {}", brick.id, brick.address, bytes_for_eyes(why.as_bytes()));
    Some(finding(grade, what, action))
}

/// The word for all bricks, and the reason.
pub fn verdict(survey: &Survey, findings: &[Finding]) -> (Grade, String) {
    let grade = gravest(findings);
    let serving = survey.bricks.iter().filter(|brick| Condition::of(brick) == Condition::Serving).count();
    let all = survey.bricks.len();
    let more = match findings.len() {
        0 => String::new(),
        1 => "; 1 finding, see below".to_owned(),
        count => format!("; {count} findings, the gravest first"),
    };
    let bricks = if all == 1 { "brick serves" } else { "bricks serve" };
    (grade, format!("{}: {serving} of {all} {bricks}{more}", grade.verdict()))
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
