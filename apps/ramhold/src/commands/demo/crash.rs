//! One server dies under load. The death, its detection and the recovery are reported as they happen.

use super::scene::Scene;
use crate::failure::Failure;
use crate::interrupt;
use crate::local::{LOOK_INTERVAL, name};
use crate::size::bytes_text;
use ramhold_client::{Client, ClusterStatus, RecoveryPhase, RecoveryReport, ServerId, ServerState};
use std::time::{Duration, Instant};

/// Far more than any recovery of this size takes.
const RECOVERED_WITHIN: Duration = Duration::from_secs(120);

pub struct Times {
    /// From the kill to the verdict of the coordinator.
    pub detect: Duration,
    /// From the verdict until everything was served again.
    pub recover: Duration,
    /// A description of the recovered data.
    pub what: String,
}

pub fn kill_one(scene: &mut Scene, client: &mut Client, victim: usize) -> Result<Times, Failure> {
    let port = scene.cluster.plan.ports[victim];
    let status = client.cluster_status()?;
    let server = status
        .servers
        .iter()
        .find(|server| server.address.0.port() == port && server.state == ServerState::Up)
        .map(|server| server.id)
        .ok_or_else(|| Failure::usage(format!("{} is not in the cluster", name(victim))))?;

    scene.tell(&format!("killing {} ({server}) under load: kill -9", name(victim)));
    scene.cluster.kill(victim);
    let killed = Instant::now();
    let detect = wait_for(client, killed, "the death was not noticed", |status| !is_up(status, server))?;
    scene.tell(&format!("declared dead {:.0} ms after the kill", detect.as_secs_f64() * 1e3));
    let mut told = String::new();
    let recovered = wait_for(client, killed, "the recovery did not end", |status| {
        let report = status.recoveries.iter().find(|report| report.crashed == server);
        let now = report.map_or_else(String::new, progress);
        if now != told && !now.is_empty() {
            scene.tell(&now);
            told = now;
        }
        report.is_none() && status.tablets_recovering == 0
    })?;
    let report = client.recoveries()?.into_iter().find(|report| report.crashed == server);
    let (recover, what) = match &report {
        Some(report) => (
            report.done_millis.map_or(recovered - detect, Duration::from_millis),
            format!(
                "{} in {} segments, {} records, {} partitions",
                bytes_text(report.bytes),
                report.segments,
                report.records,
                report.partitions
            ),
        ),
        None => (recovered - detect, "the server held nothing".to_owned()),
    };
    scene.tell(&format!("recovered {:.0} ms later: {what}", recover.as_secs_f64() * 1e3));
    Ok(Times { detect, recover, what })
}

fn is_up(status: &ClusterStatus, server: ServerId) -> bool {
    status.servers.iter().any(|entry| entry.id == server && entry.state == ServerState::Up)
}

/// How far a recovery is, in words.
fn progress(report: &RecoveryReport) -> String {
    match report.phase {
        RecoveryPhase::Asking => "  asking all backups for their replicas".to_owned(),
        RecoveryPhase::Incomplete => format!("  waiting for {}", report.missing.join(", ")),
        RecoveryPhase::WaitingForRoom => "  waiting until other recoveries leave room".to_owned(),
        RecoveryPhase::Replaying => {
            format!("  replaying: {} of {} partitions are live", report.partitions_live, report.partitions)
        }
        RecoveryPhase::Done => "  everything is live".to_owned(),
    }
}

/// Time from `since` until the status is as wanted.
fn wait_for(
    client: &mut Client,
    since: Instant,
    otherwise: &str,
    mut is_wanted: impl FnMut(&ClusterStatus) -> bool,
) -> Result<Duration, Failure> {
    while since.elapsed() < RECOVERED_WITHIN {
        interrupt::check()?;
        if is_wanted(&client.cluster_status()?) {
            return Ok(since.elapsed());
        }
        std::thread::sleep(LOOK_INTERVAL / 5);
    }
    Err(Failure::usage(format!("{otherwise} within {} s", RECOVERED_WITHIN.as_secs())))
}
