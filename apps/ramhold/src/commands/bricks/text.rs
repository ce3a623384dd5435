//! The bricks for people: a verdict, remedies, and a row for each brick, in 80 columns.

use super::condition::{Condition, ago, findings, verdict};
use super::survey::{Found, Survey};
use crate::findings::Grade;
use crate::output::{Columns, bytes_for_eyes};
use crate::screen::{Colour, Screen, WIDTH, wrap};
use crate::size::bytes_text;
use ramhold_client::{BrickStatus, ProcessStatus};
use ramhold_wire::brick_status::KEYS_BEHIND_MAX;

/// How much is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Breadth {
    /// Only columns that fit into 80 characters.
    Narrow,
    Wide,
}

pub fn survey(survey: &Survey, breadth: Breadth, screen: Screen) -> String {
    let findings = findings(survey);
    let (grade, line) = verdict(survey, &findings);
    let (word, rest) = line.split_once(':').unwrap_or((&line, ""));
    let mut text = format!("{}:{rest}\n", screen.paint(colour(grade), word));
    for finding in &findings {
        text.push_str(&wrap("- ", &format!("{}: {}", finding.grade.name(), finding.what)));
        text.push_str(&wrap("  do: ", &finding.action));
    }
    if survey.bricks.is_empty() {
        text.push_str("no brick has been started; 'ramhold server --brick --help' shows how\n");
        return text;
    }
    text.push('\n');
    text.push_str(&match breadth {
        Breadth::Narrow => narrow(survey),
        Breadth::Wide => wide(survey).text(),
    });
    text
}

fn colour(grade: Grade) -> Colour {
    match grade {
        Grade::Note => Colour::Green,
        Grade::Recovering | Grade::Degraded => Colour::Yellow,
        Grade::Critical => Colour::Red,
    }
}

fn narrow(survey: &Survey) -> String {
    let mut columns = Columns::new([
        "brick", "address", "state", "life", "votes", "memory", "behind", "swept", "up", "place",
    ]);
    for brick in &survey.bricks {
        let [id, address, state, life, votes, memory, behind, swept, up] = cells(brick);
        columns.row([id, address, state, life, votes, memory, behind, swept, up, place(brick)]);
    }
    columns.fitted_without(WIDTH, &["place", "up", "life", "memory", "swept"])
}

fn cells(brick: &Found) -> [String; 9] {
    let status = brick.told.as_ref().ok();
    let own = status.and_then(|status| status.brick.as_ref());
    [
        id(brick),
        brick.address.to_string(),
        state(brick),
        dash_if(brick.life == 0, || brick.life.to_string()),
        votes(brick, own),
        dash_or(status, |status| percent(status.log_used_bytes, status.log_bytes)),
        dash_or(own, behind),
        dash_or(own, swept),
        dash_or(status, |status| ago(status.uptime_millis)),
    ]
}

fn id(brick: &Found) -> String {
    dash_if(brick.id.is_none(), || brick.id.to_string())
}

fn state(brick: &Found) -> String {
    match Condition::of(brick) {
        Condition::Rebuilding(percent) => format!("rebuilt {percent} %"),
        Condition::Loading(percent) => format!("loading {percent} %"),
        Condition::Silent(Some(millis)) => format!("silent {}", ago(millis)),
        other => other.name().to_owned(),
    }
}

fn votes(brick: &Found, own: Option<&BrickStatus>) -> String {
    match (brick.tablets, own) {
        (Some(all), Some(own)) => format!("{}/{all}", all.saturating_sub(u64::from(own.without_vote))),
        (Some(all), None) => format!("0/{all}"),
        (None, _) => dash(),
    }
}

fn behind(own: &BrickStatus) -> String {
    let bound = if own.sweep.behind >= KEYS_BEHIND_MAX { "+" } else { "" };
    match own.sweep.behind_millis {
        Some(millis) => format!("{}{bound}, {}", own.sweep.behind, ago(millis)),
        None => format!("{}{bound}", own.sweep.behind),
    }
}

fn swept(own: &BrickStatus) -> String {
    own.sweep.whole_millis.map_or_else(|| "never".to_owned(), ago)
}

/// The zone, else the rack, else the host.
fn place(brick: &Found) -> String {
    let label = |name| brick.labels.iter().find(|label| label.name == name);
    let found = ["zone", "rack", "host"].into_iter().find_map(label);
    found.map_or_else(dash, |label| bytes_for_eyes(label.value.as_bytes()))
}

fn wide(survey: &Survey) -> Columns {
    let mut columns = Columns::new([
        "brick", "address", "labels", "state", "life", "votes", "memory", "of", "index", "behind", "swept",
        "graves", "gets", "puts", "stamps", "refused", "repairs", "up", "version",
    ]);
    for brick in &survey.bricks {
        let status = brick.told.as_ref().ok();
        let own = status.and_then(|status| status.brick.as_ref());
        let [id, address, state, life, votes, memory, behind, swept, up] = cells(brick);
        let figure = |of: &dyn Fn(&BrickStatus) -> u64| dash_or(own, |own| of(own).to_string());
        let of_process = |of: &dyn Fn(&ProcessStatus) -> String| dash_or(status, |status| of(status));
        columns.row([
            id,
            address,
            labels(brick),
            state,
            life,
            votes,
            memory,
            of_process(&|status| bytes_text(status.log_bytes)),
            of_process(&|status| percent(status.index_bytes, status.index_bytes_max)),
            behind,
            swept,
            figure(&|own| own.graves),
            figure(&|own| own.gets.answered),
            figure(&|own| own.puts.answered),
            figure(&|own| own.stamps.answered),
            figure(&|own| own.gets.refused + own.puts.refused + own.stamps.refused),
            figure(&|own| own.repairs),
            up,
            of_process(&|status| bytes_for_eyes(status.version.as_bytes())),
        ]);
    }
    columns
}

fn labels(brick: &Found) -> String {
    let labels: Vec<String> =
        brick.labels.iter().map(|label| format!("{}={}", label.name, label.value)).collect();
    dash_if(labels.is_empty(), || bytes_for_eyes(labels.join(",").as_bytes()))
}

fn dash() -> String {
    "-".to_owned()
}

fn dash_if(is_unknown: bool, text: impl FnOnce() -> String) -> String {
    if is_unknown { dash() } else { text() }
}

fn dash_or<T>(known: Option<&T>, text: impl FnOnce(&T) -> String) -> String {
    known.map_or_else(dash, text)
}

fn percent(part: u64, of: u64) -> String {
    match (part, of) {
        (_, 0) => dash(),
        (0, _) => "0 %".to_owned(),
        _ => match u128::from(part) * 100 / u128::from(of) {
            0 => "<1 %".to_owned(),
            percent => format!("{percent} %"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::reach::tests::{address, status};
    use super::*;
    use ramhold_client::{KeyHash, Label, ServerId, SweepStatus, TableId, TabletStatus};
    use ramhold_wire::brick_status::{RebuildObstacle, RefusingStatus, StalledStatus};

    fn found(id: u64, told: Result<ProcessStatus, &str>) -> Found {
        Found {
            id: ServerId(id),
            address: address(100 + u8::try_from(id).unwrap()),
            labels: vec![Label { name: "zone".into(), value: "eu-central-1a".into() }],
            life: 12,
            tablets: Some(1),
            heard_millis: Some(12_000),
            is_offline: false,
            scaling: None,
            told: told.map(Box::new).map_err(str::to_owned),
        }
    }

    fn text(bricks: Vec<Found>, coordinator: Option<&str>) -> String {
        let survey = Survey {
            coordinator: coordinator.map(str::to_owned),
            bricks,
            tablets: Vec::new(),
            strange: Vec::new(),
        };
        super::survey(&survey, Breadth::Narrow, Screen::plain())
    }

    // I6, J5
    #[test]
    fn every_brick_has_a_row_that_fits_and_a_finding_if_something_is_wrong() {
        let healthy = text(vec![found(4, Ok(status(None))), found(5, Ok(status(None)))], None);
        assert!(healthy.starts_with("healthy: 2 of 2 bricks serve\n\nbrick"), "{healthy}");
        let mut waiting = status(None);
        waiting.brick.as_mut().unwrap().without_vote = 1;
        waiting.brick.as_mut().unwrap().sweep =
            SweepStatus { behind: 10_000, behind_millis: Some(3_000_000), ..SweepStatus::default() };
        let mut loading = status(None);
        loading.brick.as_mut().unwrap().loaded_permille = Some(431);
        let recovering = text(vec![found(4, Ok(loading))], None);
        for part in ["recovering: 0 of 1 brick", "loading 43 %", "loads its log, 43 % so far"] {
            assert!(recovering.contains(part), "{part}: {recovering}");
        }
        let bricks = vec![
            found(4, Ok(status(Some(426)))),
            found(5, Err("connection refused")),
            found(6, Ok(waiting)),
            Found { id: ServerId::NONE, told: Ok(Box::new(unnamed())), ..found(7, Err("")) },
        ];
        let told = text(bricks, Some("no answer within 1 s"));
        for part in [
            "degraded: 0 of 4 bricks serve; 5 findings",
            "- recovering: s4 at 192.168.100.104:7501 is rebuilt from the others, 42 % so far",
            "s5 at 192.168.100.105:7501 was last heard 12 s ago (connection refused)",
            "start it again on its directory",
            "s6 at 192.168.100.106:7501 has 1 tablet that does not vote: too few of their other bricks have told",
            "the coordinator tells nothing: no answer within 1 s",
            " 0/1 ",
            "10000+, 50 min",
            "never",
        ] {
            let joined = told.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(joined.contains(part.trim()), "no '{part}' in:\n{told}");
        }
        let wide = told.lines().find(|line| line.chars().count() > WIDTH);
        assert_eq!(wide, None, "{told}");
    }

    fn unnamed() -> ProcessStatus {
        let mut status = status(None);
        status.server = ServerId::NONE;
        status.brick.as_mut().unwrap().life = 0;
        status
    }

    // I6: the rebuilding goes on, and nothing is decided without the one that is lost.
    #[test]
    fn a_brick_that_waits_names_those_that_it_waits_for_and_the_way_out() {
        let mut waiting = status(Some(0));
        waiting.brick.as_mut().unwrap().tablets = vec![TabletStatus {
            table: TableId(7),
            name: "carts".into(),
            first: KeyHash(0),
            last: KeyHash(u64::MAX),
            epoch: 1,
            bricks: [4, 5, 6].map(ServerId).to_vec(),
            needed: 2,
            votes: false,
            waits_for: vec![ServerId(5)],
            giver: None,
        }];
        let told = text(vec![found(4, Ok(waiting))], None);
        let joined = told.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "degraded: 0 of 1 brick serves; 1 finding",
            "s4 at 192.168.100.104:7501 has 1 tablet that does not vote: s5 does not answer, and may have what is newer",
            "do: start s5 again; if the data is destroyed, 'ramhold brick accept-loss --help'",
            " waiting ",
        ] {
            assert!(joined.contains(part), "no '{part}' in:\n{told}");
        }
        assert!(!joined.contains("rebuilt"), "{told}");
    }

    // I6: rules 97 and 98. Where bricks do not answer at all, these are named, as above.
    #[test]
    fn a_brick_whose_rebuilding_comes_no_further_says_why_and_the_way_out() {
        for (obstacle, why, way_out) in [
            (RebuildObstacle::Memory, "the log's memory has no room for what it stores", "more --memory"),
            (RebuildObstacle::Frames, "the device has no frame left", "more --disk"),
            (
                RebuildObstacle::Index,
                "the index has no place for further keys",
                "more --memory, or drop a table",
            ),
            (
                RebuildObstacle::Pages,
                "s5 repairs a damaged entry, or has not taken its tablets yet",
                "check these bricks",
            ),
        ] {
            let bricks = match obstacle {
                RebuildObstacle::Pages => vec![RefusingStatus { brick: ServerId(5), status: Some(30) }],
                _ => Vec::new(),
            };
            let mut stalled = status(Some(426));
            stalled.brick.as_mut().unwrap().stalled =
                Some(StalledStatus { obstacle, millis: 185_000, bricks });
            let told = text(vec![found(4, Ok(stalled))], None);
            let joined = told.split_whitespace().collect::<Vec<_>>().join(" ");
            let what = format!(
                "degraded: s4 at 192.168.100.104:7501 has 1 tablet that does not vote: the rebuilding has come no further for 3 min: \
                 {why}"
            );
            for part in [&what, way_out, " waiting "] {
                assert!(joined.contains(part), "no '{part}' in:\n{told}");
            }
        }
    }

    // I6: nobody starts it but an operator.
    #[test]
    fn a_brick_that_its_supervisor_has_given_up_is_offline_and_its_finding_names_the_way_out() {
        let offline = Found { is_offline: true, ..found(5, Err("connection refused")) };
        let told = text(vec![found(4, Ok(status(None))), offline.clone()], None);
        let joined = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains("192.168.100.105:7501 offline"), "{told}");
        assert!(joined.contains("find out why in its log, then run 'ramhold brick restart s5'"), "{told}");
        // Its own word counts more than an old one of others.
        let back = Found { is_offline: true, ..found(5, Ok(status(None))) };
        assert!(text(vec![back], None).starts_with("healthy"));
    }

    #[test]
    fn a_silent_brick_without_tablets_is_missed_by_nobody() {
        let unused = Found { tablets: Some(0), ..found(5, Err("connection refused")) };
        assert!(text(vec![unused], None).starts_with("healthy: 0 of 1 brick serves\n"));
    }
}
