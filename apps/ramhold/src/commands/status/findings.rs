//! The findings about a cluster that an operator should know, each with a remedy: from "nothing" to "writes
//! may be gone".
//!
//! Every problem becomes a finding here, whatever its source: the coordinator's warnings and reports, or a
//! server's figures. The verdict is the gravest finding.
//!
//! Not here: what servers say of themselves (`servers`), single bricks (`commands::bricks::condition`).

mod servers;

use super::picture::{Picture, is_silent};
use crate::commands::brick::scale::ordered;
use crate::commands::bricks::{condition, reach};
use crate::commands::recoveries::reports::away_text;
use crate::findings::{Finding, Grade, finding, gravest};
use crate::output::bytes_for_eyes;
use ramhold_client::{BrickReport, ClusterTime, GoneReport, RecoveryReport, ServerId, ServerState};
use ramhold_wire::outage::{OutageKind, StandingOutage};
use servers::{of_server, of_silent_links, of_waiting};

/// Findings of one kind that are told one by one.
const COUNT_MAX: usize = 8;

/// The gravest first.
pub fn findings(picture: &Picture) -> Vec<Finding> {
    let cluster = &picture.cluster;
    let mut found = Vec::new();
    for loss in &cluster.losses {
        let tables: Vec<String> = loss.tables.iter().map(ToString::to_string).collect();
        let reason = bytes_for_eyes(loss.reason.as_bytes());
        let what = format!("writes to {} on {} may be gone: {reason}", tables.join(", "), loss.crashed);
        let action =
            format!("'ramhold acknowledge-loss {}' when you have seen it (loss {})", loss.id, loss.id);
        found.push(finding(Grade::Critical, what, action));
    }
    found.extend(cluster.recoveries.iter().map(of_recovery));
    for warning in &cluster.warnings {
        let warning = bytes_for_eyes(warning.as_bytes());
        let (what, action) = warning.split_once("; ").unwrap_or((&warning, ""));
        let grade = if what.contains("blocked") { Grade::Critical } else { Grade::Degraded };
        found.push(finding(grade, what, action));
    }
    let gone: Vec<&GoneReport> = cluster.gone.iter().flatten().rev().collect();
    found.extend(gone.iter().take(COUNT_MAX).map(|gone| of_gone(gone, cluster.time)));
    if gone.len() > COUNT_MAX {
        let what = format!("{} more servers are gone", gone.len() - COUNT_MAX);
        found.push(finding(Grade::Degraded, what, "'ramhold status --json' names all"));
    }
    found.extend(cluster.outages.iter().flatten().take(COUNT_MAX).map(of_outage));
    if let Some(more) = cluster.outages.iter().flatten().count().checked_sub(COUNT_MAX + 1) {
        let what = format!("{} more links, paths or switches are down", more + 1);
        found.push(finding(Grade::Degraded, what, "'ramhold topology links' names all"));
    }
    found.extend(of_waiting(picture));
    found.extend(of_tablets(picture).into_iter().take(COUNT_MAX));
    found.extend(cluster.bricks.iter().filter_map(|brick| of_brick(picture, brick)).take(COUNT_MAX));
    let orders = cluster.bricks.iter().filter_map(|brick| Some((brick, ordered(brick)?)));
    let orders = orders.map(|(brick, order)| condition::of_order(brick.brick, brick.address.0, &order));
    found.extend(orders.take(COUNT_MAX));
    for server in &cluster.servers {
        match picture.processes.get(&server.id) {
            Some(Err(why)) => found.push(finding(
                Grade::Degraded,
                format!("{} at {} does not tell its figures: {why}", server.id, server.address.0),
                "check whether it is stopped or cut off from the network; if it is dead, the cluster notices by itself",
            )),
            Some(Ok(process)) => {
                of_server(server, process, &mut found);
                // An outage explains the silences that servers tell of.
                if cluster.outages.is_none() {
                    found.extend(of_silent_links(server.id, process));
                }
            }
            None => {}
        }
    }
    if cluster.servers.iter().any(|server| !server.address.0.ip().is_loopback()) {
        found.push(finding(
            Grade::Note,
            "the cluster is reachable from other hosts, and connections are not authenticated",
            "keep the cluster in a private network",
        ));
    }
    found.sort_by_key(|finding| std::cmp::Reverse(finding.grade));
    found
}

/// A brick that the coordinator does not hear, or that does not vote: it was asked itself.
fn of_brick(picture: &Picture, report: &BrickReport) -> Option<Finding> {
    let brick = picture.bricks.get(&report.brick)?;
    let is_up = |other: ServerId| {
        let has_answered = picture.bricks.get(&other).is_some_and(|found| found.told.is_ok());
        let reports = picture.cluster.bricks.iter();
        has_answered || reports.filter(|report| report.brick == other).any(|report| !is_silent(report))
    };
    condition::of_brick(brick, &is_up).or_else(|| {
        let since = match report.heard_millis {
            None => "since its start".to_owned(),
            Some(millis) => format!("for {} s", millis / 1000),
        };
        let what =
            format!("{} at {} serves, and the coordinator has not heard it {since}", brick.id, brick.address);
        let action = "check its --coordinator, and the network between the two";
        is_silent(report).then(|| finding(Grade::Degraded, what, action))
    })
}

/// Tables that are not served, because too few of their bricks vote.
fn of_tablets(picture: &Picture) -> Vec<Finding> {
    reach::findings(&picture.tablets, |brick, tablet| match picture.bricks.get(&brick) {
        Some(asked) => asked.told.as_ref().is_ok_and(|status| reach::votes(status, tablet)),
        // The coordinator hears it, and all its tablets vote.
        None => picture.cluster.bricks.iter().any(|report| report.brick == brick),
    })
}

fn of_recovery(report: &RecoveryReport) -> Finding {
    let (recovery, crashed) = (report.recovery, report.crashed);
    let Some(missing) = report.missing.first() else {
        let live = format!("{} of {} partitions are live", report.partitions_live, report.partitions);
        return finding(
            Grade::Recovering,
            format!("{crashed} is dead and is being recovered: {live}"),
            format!("nothing, it goes on by itself; 'ramhold recoveries {recovery}' shows how far it is"),
        );
    };
    let missing = bytes_for_eyes(missing.as_bytes());
    let more = match report.missing.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let away: Vec<String> = report.away.iter().map(away_text).collect();
    let action = match away.is_empty() {
        true => format!("start the servers that are down; 'ramhold recoveries {recovery}' tells more"),
        false => format!(
            "start one of these again: {}; if all are gone for good, see 'ramhold accept-loss --help'",
            away.join(", ")
        ),
    };
    finding(Grade::Critical, format!("{recovery} of {crashed} waits for: {missing}{more}"), action)
}

fn of_gone(gone: &GoneReport, now: ClusterTime) -> Finding {
    let server = gone.server;
    finding(
        Grade::Degraded,
        format!("{server} at {} is gone since {}", gone.address.0, since_text(gone.since, now)),
        format!("start it again on its directory, or 'ramhold server forget {server}'"),
    )
}

/// `2026-11-24 17:55 UTC (12 min)`.
pub fn since_text(since: ClusterTime, now: ClusterTime) -> String {
    let utc = ramhold_runtime::utc(since.0);
    let minute = utc.get(..16).unwrap_or(&utc).replace('T', " ");
    let seconds = now.0.saturating_sub(since.0) / 1000;
    let ago = match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    };
    format!("{minute} UTC ({ago})")
}

fn of_outage(standing: &StandingOutage) -> Finding {
    let seconds = standing.millis / 1000;
    let text = bytes_for_eyes(standing.outage.to_string().as_bytes());
    let action = match standing.outage.what {
        OutageKind::Rack => "look at its power and its switch; its data is recovered elsewhere",
        _ => "look at its cables and its power; servers use other ways, and nobody is recovered for it",
    };
    finding(Grade::Degraded, format!("{text}, for {seconds} s"), action)
}

/// The word for the state of all, and the reason.
pub fn verdict(picture: &Picture, findings: &[Finding]) -> (Grade, String) {
    let cluster = &picture.cluster;
    let up = cluster.servers.iter().filter(|server| server.state == ServerState::Up).count();
    let expected = cluster.expected.unwrap_or(cluster.servers.len() as u64);
    let bricks: Vec<&BrickReport> = cluster.bricks.iter().filter(|brick| !brick.is_replaced).collect();
    let heard = bricks.iter().filter(|brick| !is_silent(brick)).count();
    let servers = match (expected, bricks.len()) {
        (0, 1..) => format!("{heard} of {} bricks up", bricks.len()),
        (_, 0) => format!("{up} of {expected} servers up"),
        (_, count) => format!("{up} of {expected} servers and {heard} of {count} bricks up"),
    };
    let grade = gravest(findings);
    let serious = findings.iter().filter(|finding| finding.grade > Grade::Note).count();
    match serious {
        0 => (Grade::Note, format!("healthy: {servers}")),
        1 => (grade, format!("{}: {servers}; 1 finding, see below", grade.name())),
        count => (grade, format!("{}: {servers}; {count} findings, the gravest first", grade.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bricks::reach::tests::{address, status};
    use crate::commands::bricks::survey::Found;
    use ramhold_base::{ClusterId, Term};
    use ramhold_client::{
        ClusterStatus, KeyHash, Obstacle, ObstacleKind, ProcessStatus, ScaleWay, Scaling, TableId,
        TabletStatus,
    };
    use ramhold_wire::control::Address;
    use std::collections::BTreeMap;

    fn report(brick: u64, heard_millis: Option<u64>) -> BrickReport {
        BrickReport {
            brick: ServerId(brick),
            address: Address(address(100)),
            labels: Vec::new(),
            life: 1,
            heard_millis,
            tablets: 1,
            rebuilding: 0,
            log_bytes: 1,
            used_bytes: 0,
            is_replaced: false,
            assigned: 1,
            taken: 1,
            supervisor: None,
            scaling: None,
            waits: None,
            is_removed: false,
            ended: None,
        }
    }

    /// Three bricks of one table. Those of which something is told here were asked themselves.
    fn picture(told: Vec<(BrickReport, Result<ProcessStatus, String>)>) -> Picture {
        let own = TabletStatus {
            table: TableId(7),
            name: "carts".into(),
            first: KeyHash(0),
            last: KeyHash(u64::MAX),
            epoch: 1,
            bricks: [1, 2, 3].map(ServerId).to_vec(),
            needed: 2,
            votes: true,
            waits_for: Vec::new(),
            giver: None,
        };
        let mut bricks = BTreeMap::new();
        let mut reports: Vec<BrickReport> = (1..=3).map(|brick| report(brick, Some(100))).collect();
        for (report, told) in told {
            let with_own = |mut status: ProcessStatus| {
                status.server = report.brick;
                status.brick.as_mut().unwrap().tablets = vec![own.clone()];
                Box::new(status)
            };
            bricks.insert(report.brick, Found::of(&report, told.map(with_own)));
            let place = report.brick.raw() as usize - 1;
            reports[place] = report;
        }
        Picture {
            cluster: ClusterStatus {
                cluster: ClusterId(1),
                term: Term(1),
                time: ClusterTime(0),
                servers: Vec::new(),
                tables: 1,
                tablets: 1,
                tablets_recovering: 0,
                recoveries: Vec::new(),
                losses: Vec::new(),
                warnings: Vec::new(),
                version: String::new(),
                cleared: Vec::new(),
                outages: None,
                copyset_rings: None,
                placement: None,
                topology: Default::default(),
                expected: None,
                gone: None,
                bricks: reports,
            },
            tables: Vec::new(),
            processes: BTreeMap::new(),
            bricks,
            tablets: reach::told([status_with(&own)].iter().filter_map(|it| it.brick.as_ref())),
        }
    }

    fn status_with(own: &TabletStatus) -> ProcessStatus {
        let mut told = status(None);
        told.brick.as_mut().unwrap().tablets = vec![own.clone()];
        told
    }

    fn told(picture: &Picture) -> Vec<String> {
        let findings = findings(picture).into_iter().filter(|it| it.grade > Grade::Note);
        findings.map(|it| format!("{}: {}; do: {}", it.grade.name(), it.what, it.action)).collect()
    }

    // I6: it says nothing to the coordinator before it serves.
    #[test]
    fn a_brick_that_takes_over_a_large_log_is_not_to_be_started() {
        let mut starting = status(None);
        starting.brick.as_mut().unwrap().is_serving = false;
        let told = told(&picture(vec![(report(2, Some(9000)), Ok(starting))]));
        let wanted =
            "recovering: s2 at 192.168.100.100:7501 takes over its log; do: nothing, it serves when it has";
        assert_eq!(told, [wanted]);
    }

    // I6
    #[test]
    fn a_lost_quorum_is_critical_and_a_brick_that_only_the_coordinator_misses_votes() {
        let silent = |brick| (report(brick, Some(9000)), Err("connection refused".to_owned()));
        let one = told(&picture(vec![silent(3)]));
        assert_eq!(one.len(), 1, "{one:?}");
        assert!(
            one[0].starts_with("degraded: s3 at") && one[0].contains("was last heard 9 s ago"),
            "{one:?}"
        );
        let two = told(&picture(vec![silent(1), silent(3)]));
        assert!(two[0].starts_with("critical: table 'carts' is neither read nor written: 1 of 3"), "{two:?}");
        assert_eq!(two.len(), 3);
        let unheard = told(&picture(vec![silent(3), (report(2, Some(9000)), Ok(status(None)))]));
        assert_eq!(unheard.len(), 2, "{unheard:?}");
        assert!(unheard.iter().any(|it| it.contains("s2 at") && it.contains("check its --coordinator")));
    }

    // I7, J5: the row of the brick has no room for the reason why an order waits.
    #[test]
    fn an_order_that_waits_says_for_whom() {
        let scaling = Scaling { number: 1, way: ScaleWay::Adding, table: None, moved: 0, is_auto: false };
        let waits = Obstacle { kind: ObstacleKind::Stalled, brick: ServerId(2), table: TableId(7) };
        let ordered = BrickReport { scaling: Some(scaling), waits: Some(waits), ..report(2, Some(100)) };
        let told = told(&picture(vec![(ordered, Ok(status(None)))]));
        assert_eq!(told.len(), 1, "{told:?}");
        let wanted = "is being added, 0 tablets moved here; s2 has come no further for a minute; 'ramhold brick add s2 --cancel'";
        assert!(told[0].starts_with("degraded: s2 at") && told[0].contains(wanted), "{told:?}");
    }

    fn adding(brick: u64) -> BrickReport {
        let scaling = Scaling { number: 1, way: ScaleWay::Adding, table: None, moved: 0, is_auto: false };
        BrickReport { scaling: Some(scaling), ..report(brick, Some(100)) }
    }

    // I7, J5: an order is no fault, and neither is the tablet that moves because of it.
    #[test]
    fn an_order_that_is_carried_out_leaves_the_cluster_healthy() {
        let taking = BrickReport { rebuilding: 1, ..adding(2) };
        let mut picture = picture(vec![(taking, Ok(status(Some(420))))]);
        let found = picture.bricks.get_mut(&ServerId(2)).and_then(|it| it.told.as_mut().ok()).unwrap();
        let tablet = &mut found.brick.as_mut().unwrap().tablets[0];
        (tablet.votes, tablet.giver) = (false, Some(ServerId(4)));
        assert_eq!(told(&picture), [""; 0]);
        let findings = findings(&picture);
        let notes: Vec<&str> = findings.iter().map(|it| it.what.as_str()).collect();
        assert!(notes.iter().any(|it| it.contains("takes tablets from s4, 42 % so far")), "{notes:?}");
        assert!(notes.iter().any(|it| it.contains("s2 at") && it.contains("is being added")), "{notes:?}");
        assert!(verdict(&picture, &findings).1.starts_with("healthy"));
    }

    // I7, J5: the others answer, so nothing is lost, and nothing is to be given up.
    #[test]
    fn a_brick_that_is_cut_off_while_it_takes_a_tablet_is_not_to_be_given_up() {
        let stalled = Obstacle { kind: ObstacleKind::Stalled, brick: ServerId(2), table: TableId(7) };
        let taking = BrickReport { rebuilding: 1, waits: Some(stalled), ..adding(2) };
        let mut picture = picture(vec![(taking, Ok(status(Some(0))))]);
        let found = picture.bricks.get_mut(&ServerId(2)).and_then(|it| it.told.as_mut().ok()).unwrap();
        let tablet = &mut found.brick.as_mut().unwrap().tablets[0];
        (tablet.votes, tablet.giver) = (false, Some(ServerId(4)));
        tablet.waits_for = vec![ServerId(1), ServerId(3)];
        let told = told(&picture);
        let of_brick = told.iter().find(|it| it.contains("does not vote")).expect("it takes a tablet");
        assert!(of_brick.contains("it is cut off from s1 and s3, which others hear"), "{of_brick}");
        assert!(of_brick.contains("check the network between s2 and s1 and s3"), "{of_brick}");
        assert!(
            of_brick.contains("--cancel") && !told.iter().any(|it| it.contains("accept-loss")),
            "{told:?}"
        );
        // One of them is dead: nobody says yet that its data is.
        picture.cluster.bricks[2].heard_millis = Some(9000);
        let told = self::told(&picture);
        assert!(
            told.iter().any(|it| it.contains("s3 does not answer, and it is cut off from s1")),
            "{told:?}"
        );
        assert!(!told.iter().any(|it| it.contains("accept-loss")), "{told:?}");
    }

    #[test]
    fn times_are_told_as_people_do() {
        let at = |millis: u64| ClusterTime(1_700_000_000_000 + millis);
        assert_eq!(since_text(at(0), at(5000)), "2023-11-14 22:13 UTC (5 s)");
        assert_eq!(since_text(at(0), at(12 * 60_000)), "2023-11-14 22:13 UTC (12 min)");
        assert_eq!(since_text(at(0), at(3 * 86_400_000)), "2023-11-14 22:13 UTC (3 days)");
    }
}
