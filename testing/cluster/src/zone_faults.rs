//! A whole zone goes, under load: killed, or cut off from everything else. Then it comes back.
//!
//! Two kinds of cuts take turns. In one nobody outside reaches the zone. In the other clients still do, and they must
//! hear errors, never old data: the histories tell.
//!
//! Not here: faults of single members (episodes).

use crate::cluster::{Cluster, RECOVER_WITHIN};
use crate::namespace::COORDINATOR;
use crate::namespace::End;
use crate::network::Cut;
use crate::waiting::{Failure, pass, wait_for};
use ramhold_client::ServerState;
use std::time::{Duration, Instant};

/// How long a killed zone stays away once the rest serves everything.
const AWAY: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneFault {
    Kill,
    /// Cut off from the other servers and the coordinator for some time, and from clients or not.
    Cut {
        time: Duration,
        clients_too: bool,
    },
}

/// The consequences of a fault.
#[derive(Clone, Copy, Debug)]
pub struct ZoneAftermath {
    /// From the fault until the rest had everything.
    pub served: Duration,
    /// From the end of the fault until all servers were up and no segment had all copies in one zone.
    pub spread: Duration,
}

impl ZoneFault {
    pub fn describe(self) -> &'static str {
        match self {
            ZoneFault::Kill => "kill -9 of a zone",
            ZoneFault::Cut { clients_too: true, .. } => "cut: zone | everybody",
            ZoneFault::Cut { clients_too: false, .. } => "cut: zone | others, not clients",
        }
    }

    /// Lets the fault hit these members, and waits until the cluster is whole again.
    pub fn play(self, cluster: &mut Cluster, zone: &[usize]) -> Result<ZoneAftermath, Failure> {
        let told = |failure: Failure| Failure(format!("{}: {failure}", self.describe()));
        self.play_it(cluster, zone).map_err(told)
    }

    fn play_it(self, cluster: &mut Cluster, zone: &[usize]) -> Result<ZoneAftermath, Failure> {
        let all = cluster.options.servers;
        cluster.wait_up(all)?;
        let began = Instant::now();
        let served;
        match self {
            ZoneFault::Kill => {
                cluster.kill_at_once(zone);
                wait_served(cluster, all - zone.len())?;
                served = began.elapsed();
                pass(AWAY)?;
                zone.iter().for_each(|member| cluster.start_member(*member));
            }
            ZoneFault::Cut { time, clients_too } => {
                let network = cluster.network().expect("cuts are planned only where there is a network");
                network.cut(&cuts(zone, all, clients_too))?;
                let waited = wait_served(cluster, all - zone.len());
                served = began.elapsed();
                let passed = waited.and_then(|()| pass(time.saturating_sub(began.elapsed())));
                cluster.network().expect("it was there").heal()?;
                passed?;
            }
        }
        let healed = Instant::now();
        wait_for("all servers up, copies in all zones", RECOVER_WITHIN, || {
            // A server that was declared dead ends when it hears of that.
            for (member, _) in cluster.take_ended() {
                cluster.start_member(member);
            }
            Ok(look_whole(cluster, all))
        })
        .map_err(|failure| Failure(format!("{failure}\n{}", cluster.logs())))?;
        Ok(ZoneAftermath { served, spread: healed.elapsed() })
    }
}

/// Waits until so many servers are up and have everything.
fn wait_served(cluster: &Cluster, count: usize) -> Result<(), Failure> {
    wait_for("the other zones have everything", RECOVER_WITHIN, || {
        Ok(cluster.status().map_err(|failure| failure.0).and_then(|status| {
            let up = status.servers.iter().filter(|entry| entry.state == ServerState::Up).count();
            let left = status.tablets_recovering;
            if up == count && left == 0 {
                Ok(())
            } else {
                Err(format!("{up} are up, {left} tablets are left"))
            }
        }))
    })
}

fn look_whole(cluster: &Cluster, count: usize) -> Result<(), String> {
    let status = cluster.status().map_err(|failure| failure.0)?;
    let up = status.servers.iter().filter(|entry| entry.state == ServerState::Up).count();
    if up != count || up != status.servers.len() || !status.recoveries.is_empty() {
        return Err(format!("{up} of {} servers are up", status.servers.len()));
    }
    let processes = cluster.processes().map_err(|failure| failure.0)?;
    let streams = processes.iter().flat_map(|process| &process.streams);
    match streams.map(|stream| stream.unspread_segments).sum() {
        0 => Ok(()),
        left => Err(format!("{left} segments have all copies in one zone")),
    }
}

fn cuts(zone: &[usize], servers: usize, clients_too: bool) -> Vec<Cut> {
    let others = (0..=servers).filter(|member| *member == COORDINATOR || !zone.contains(member));
    let clients = clients_too.then_some(End::Clients);
    let ends: Vec<End> = others.map(End::Member).chain(clients).collect();
    let both = |member: &usize| {
        let own = End::Member(*member);
        ends.iter().flat_map(move |end| [Cut { from: own, to: *end }, Cut { from: *end, to: own }])
    };
    zone.iter().flat_map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_keeps_its_own_cables() {
        let cut = cuts(&[1, 3], 4, false);
        assert_eq!(cut.len(), 2 * 2 * 3, "two members, both ways, from two servers and the coordinator");
        let within = |cut: &Cut| [cut.from, cut.to] == [End::Member(1), End::Member(3)];
        assert!(!cut.iter().any(|cut| within(cut) || cut.from == End::Clients || cut.to == End::Clients));
        assert_eq!(cuts(&[1, 3], 4, true).len(), 2 * 2 * 4);
    }
}
