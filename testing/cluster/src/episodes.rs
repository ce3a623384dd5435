//! Injects one fault at a time and records its effect.
//!
//! The coordinator decides whether an episode had an effect. The episode had one if, since it began, the
//! coordinator has recovered a server, or has cleared a suspect by a reply to its own pings. A fault of the
//! coordinator itself had an effect if the coordinator answered nobody while the fault lasted, and answers
//! again. Episodes without effect are reported separately and never count as survived.
//!
//! A server that was declared dead ends by itself, with an exit code of its own, and is started again. Any
//! other end is a failure of the run.

use crate::cluster::{Cluster, name};
use crate::namespace::COORDINATOR;
use crate::namespace::End;
use crate::network::{Cut, between};
use crate::waiting::{Failure, pass, wait_for};
use ramhold_base::{RecoveryId, Rng, Term};
use ramhold_client::{RecoveryPhase, RecoveryReport, ServerId, ServerState};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The exit code of a server that has been declared dead.
const EXIT_DECLARED_DEAD: i32 = 3;
const ATTEMPT: Duration = Duration::from_secs(2);
/// A healthy process answers within this time.
const ATTEMPT_LEAST: Duration = Duration::from_millis(200);
/// The time limit from the end of a fault until the whole cluster is healthy again.
const SETTLE_WITHIN: Duration = Duration::from_secs(180);
/// A suspicion that a fault has raised is reported and settled within this time after the fault's end. It
/// covers a ping that times out (400 ms), the verification (1 s), and delays of this machine.
const EFFECT_WITHIN: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    Kill,
    Stop,
    Cut(CutOff),
}

/// The peers that a member is cut off from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CutOff {
    /// From everybody, both ways.
    Everybody,
    /// By taking its interface down.
    Interface,
    /// From the coordinator, both ways: others and clients still reach it.
    Coordinator,
    /// Messages that it sends to the coordinator are lost.
    ToCoordinator,
    /// Messages that the coordinator sends to it are lost.
    FromCoordinator,
    /// From the other servers, both ways: the coordinator and clients still reach it.
    Servers,
    /// Messages that it sends to the other servers are lost.
    ToServers,
}

const CUT_OFFS: [CutOff; 7] = [
    CutOff::Everybody,
    CutOff::Interface,
    CutOff::Coordinator,
    CutOff::ToCoordinator,
    CutOff::FromCoordinator,
    CutOff::Servers,
    CutOff::ToServers,
];

#[derive(Clone, Copy, Debug)]
pub struct Episode {
    pub fault: Fault,
    pub member: usize,
    /// The duration of the fault. For a kill: the time until the coordinator is started again.
    pub time: Duration,
    /// For a killed server: it comes back before any process has looked for it.
    pub comes_back_at_once: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    Recovered,
    Cleared,
    /// The coordinator was silent, and is back.
    Away,
    None,
}

/// The consequences of an episode.
#[derive(Clone, Debug)]
pub struct Aftermath {
    pub effect: Consequence,
    /// The reasons for verdicts on servers that had no fault.
    pub needless: Vec<String>,
    pub settled_after: Duration,
}

impl Fault {
    pub fn describe(self, member: usize) -> &'static str {
        match (self, member == COORDINATOR) {
            (Fault::Kill, false) => "kill -9 of a server",
            (Fault::Kill, true) => "kill -9 of the coordinator",
            (Fault::Stop, false) => "stop of a server",
            (Fault::Stop, true) => "stop of the coordinator",
            (Fault::Cut(CutOff::Everybody), false) => "cut: server | everybody",
            (Fault::Cut(CutOff::Everybody), true) => "cut: coordinator | everybody",
            (Fault::Cut(CutOff::Interface), false) => "cut: interface of a server down",
            (Fault::Cut(CutOff::Interface), true) => "cut: interface of the coordinator down",
            (Fault::Cut(CutOff::Coordinator), _) => "cut: server | coordinator",
            (Fault::Cut(CutOff::ToCoordinator), _) => "cut: server -> coordinator",
            (Fault::Cut(CutOff::FromCoordinator), _) => "cut: coordinator -> server",
            (Fault::Cut(CutOff::Servers), _) => "cut: server | other servers",
            (Fault::Cut(CutOff::ToServers), _) => "cut: server -> other servers",
        }
    }
}

impl Episode {
    pub fn kill(rng: &mut Rng, servers: usize) -> Episode {
        let member = choose_member(rng, servers, 8);
        let time = Duration::from_millis(rng.between(0, 3000));
        Episode { fault: Fault::Kill, member, time, comes_back_at_once: rng.chance(1, 4) }
    }

    /// Stopped for 100 ms to 10 s. Each order of magnitude is equally likely.
    pub fn stop(rng: &mut Rng, servers: usize) -> Episode {
        let member = choose_member(rng, servers, 6);
        let (low, high) = if rng.chance(1, 2) { (100, 1000) } else { (1000, 10_000) };
        let time = Duration::from_millis(rng.between(low, high));
        Episode { fault: Fault::Stop, member, time, comes_back_at_once: false }
    }

    pub fn cut(rng: &mut Rng, servers: usize) -> Episode {
        let cut_off = *rng.pick(&CUT_OFFS).expect("there are some");
        // The other kinds are named from a server's side.
        let may_be_any = matches!(cut_off, CutOff::Everybody | CutOff::Interface);
        let member = if may_be_any { choose_member(rng, servers, 6) } else { choose_server(rng, servers) };
        let time = Duration::from_millis(rng.between(500, 6000));
        Episode { fault: Fault::Cut(cut_off), member, time, comes_back_at_once: false }
    }

    /// Injects the fault, and waits until the whole cluster is healthy again.
    pub fn play(&self, cluster: &mut Cluster) -> Result<Aftermath, Failure> {
        let told = |failure: Failure| {
            Failure(format!("{} ({}): {failure}", self.fault.describe(self.member), name(self.member)))
        };
        self.play_it(cluster).map_err(told)
    }

    fn play_it(&self, cluster: &mut Cluster) -> Result<Aftermath, Failure> {
        settle(cluster, None, self)?;
        let before = Record::of(cluster)?;
        let mut is_silent = false;
        match self.fault {
            Fault::Kill => {
                cluster.kill(self.member);
                if self.member == COORDINATOR {
                    pass(self.time)?;
                } else if !self.comes_back_at_once {
                    before.wait_declared_dead(cluster, self.member)?;
                }
                cluster.start_member(self.member);
            }
            Fault::Stop => {
                cluster.process(self.member).signal(Signal::STOP);
                let passed = self.last(cluster);
                cluster.process(self.member).signal(Signal::CONT);
                is_silent = passed?;
            }
            Fault::Cut(cut_off) => {
                let network = cluster.network().expect("cuts are planned only where there is a network");
                if cut_off == CutOff::Interface {
                    network.plug(self.member, false)?;
                } else {
                    network.cut(&cuts(cut_off, self.member, cluster.options.servers))?;
                }
                let passed = self.last(cluster);
                network.heal()?;
                is_silent = passed?;
            }
        }
        let mut aftermath = settle(cluster, Some(&before), self)?;
        if is_silent && aftermath.effect == Consequence::None {
            aftermath.effect = Consequence::Away;
        }
        if self.fault == Fault::Kill
            && self.member != COORDINATOR
            && aftermath.effect != Consequence::Recovered
        {
            return Err(Failure("a killed server was not recovered".to_owned()));
        }
        Ok(aftermath)
    }

    /// Lets the fault last. True if the fault hit the coordinator and it answered nobody meanwhile.
    fn last(&self, cluster: &Cluster) -> Result<bool, Failure> {
        let begun = Instant::now();
        let left = || self.time.saturating_sub(begun.elapsed());
        let mut is_silent = self.member == COORDINATOR;
        while is_silent && left() > ATTEMPT_LEAST {
            pass(Duration::ZERO)?;
            is_silent = cluster.client(left().min(ATTEMPT)).is_err();
        }
        pass(left())?;
        Ok(is_silent && self.time > ATTEMPT_LEAST)
    }
}

fn choose_server(rng: &mut Rng, servers: usize) -> usize {
    1 + usize::try_from(rng.below(servers as u64)).expect("an index")
}

/// Chooses the coordinator once in `one_of` times.
fn choose_member(rng: &mut Rng, servers: usize, one_of: u64) -> usize {
    if rng.chance(1, one_of) { COORDINATOR } else { choose_server(rng, servers) }
}

fn cuts(cut_off: CutOff, member: usize, servers: usize) -> Vec<Cut> {
    let all_servers = || (1..=servers).map(End::Member);
    let (me, coordinator) = (End::Member(member), End::Member(COORDINATOR));
    match cut_off {
        CutOff::Everybody => between(member, all_servers().chain([coordinator, End::Clients])),
        CutOff::Interface => Vec::new(),
        CutOff::Coordinator => between(member, [coordinator]),
        CutOff::ToCoordinator => vec![Cut { from: me, to: coordinator }],
        CutOff::FromCoordinator => vec![Cut { from: coordinator, to: me }],
        CutOff::Servers => between(member, all_servers()),
        CutOff::ToServers => {
            between(member, all_servers()).into_iter().filter(|cut| cut.from == me).collect()
        }
    }
}

/// The coordinator's records.
struct Record {
    term: Term,
    /// The newest recovery.
    recovery: RecoveryId,
    recoveries: Vec<RecoveryReport>,
    /// The number of times that each server was cleared.
    cleared: BTreeMap<ServerId, u64>,
    /// The server life at each address.
    lives: BTreeMap<SocketAddr, ServerId>,
}

impl Record {
    fn of(cluster: &Cluster) -> Result<Record, Failure> {
        let mut client = cluster.client(ATTEMPT)?;
        let status = client.cluster_status()?;
        let recoveries = client.recoveries()?;
        Ok(Record {
            term: status.term,
            recovery: recoveries.iter().map(|report| report.recovery).max().unwrap_or_default(),
            recoveries,
            cleared: status.cleared.iter().map(|report| (report.server, report.count)).collect(),
            lives: status.servers.iter().map(|entry| (entry.address.0, entry.id)).collect(),
        })
    }

    /// The consequences since this record, and the reasons for which servers other than the target were
    /// declared dead.
    fn effect(&self, cluster: &Cluster, episode: &Episode) -> Result<(Consequence, Vec<String>), Failure> {
        let now = Record::of(cluster)?;
        let address = cluster.address(episode.member);
        let done = now
            .recoveries
            .iter()
            .filter(|report| report.recovery > self.recovery && report.phase == RecoveryPhase::Done);
        // Only this life counts. The next life of that server had no fault.
        let life = self.lives.get(&address);
        let (own, others): (Vec<_>, Vec<_>) = done.partition(|report| Some(&report.crashed) == life);
        let needless: Vec<String> =
            others.iter().map(|report| format!("{}: {}", report.address.0, report.cause)).collect();
        let count = |record: &Record, server: &ServerId| record.cleared.get(server).copied().unwrap_or(0);
        let is_new = now.term > self.term;
        let is_cleared =
            |server: &ServerId| count(&now, server) > if is_new { 0 } else { count(self, server) };
        // A member that is cut off may suspect the others, and they may suspect it.
        let may_be_any = episode.member == COORDINATOR || matches!(episode.fault, Fault::Cut(_));
        let is_target = |server: &&ServerId| may_be_any || life == Some(server);
        let effect = if !own.is_empty() {
            Consequence::Recovered
        } else if now.cleared.keys().filter(is_target).any(is_cleared) {
            Consequence::Cleared
        } else if may_be_any && !needless.is_empty() {
            Consequence::Recovered
        } else {
            Consequence::None
        };
        Ok((effect, needless))
    }

    fn wait_declared_dead(&self, cluster: &Cluster, member: usize) -> Result<(), Failure> {
        wait_for("a killed server is declared dead", SETTLE_WITHIN, || {
            let is_dead = cluster.client(ATTEMPT).and_then(|mut client| {
                let recoveries = client.recoveries().map_err(Failure::from)?;
                let address = cluster.address(member);
                Ok(recoveries.iter().any(|r| r.recovery > self.recovery && r.address.0 == address))
            });
            Ok(match is_dead {
                Ok(true) => Ok(()),
                Ok(false) => Err("it is not".to_owned()),
                Err(failure) => Err(failure.to_string()),
            })
        })
    }
}

/// Waits until all members run, all servers are up and nothing is being recovered. With a record from before
/// a fault, also waits until the fault's effect is on record, or can no longer come.
fn settle(cluster: &mut Cluster, before: Option<&Record>, episode: &Episode) -> Result<Aftermath, Failure> {
    let begun = Instant::now();
    let settled = wait_for("all is well again", SETTLE_WITHIN, || {
        for (member, status) in cluster.take_ended() {
            if member == COORDINATOR || status.code() != Some(EXIT_DECLARED_DEAD) {
                return Err(Failure(format!("{} has ended: {status}", name(member))));
            }
            cluster.start_member(member);
        }
        let status = match cluster.status() {
            Ok(status) => status,
            Err(failure) => return Ok(Err(failure.to_string())),
        };
        let up = status.servers.iter().filter(|entry| entry.state == ServerState::Up).count();
        let is_well = up == cluster.options.servers
            && up == status.servers.len()
            && status.recoveries.is_empty()
            && status.tablets_recovering == 0;
        if !is_well {
            return Ok(Err(format!(
                "{up} of {} servers are up, {} recoveries under way, {} tablets recovering",
                status.servers.len(),
                status.recoveries.len(),
                status.tablets_recovering
            )));
        }
        let Some(before) = before else { return Ok(Ok((Consequence::None, Vec::new()))) };
        Ok(match before.effect(cluster, episode) {
            Err(failure) => Err(failure.to_string()),
            Ok((Consequence::None, _)) if begun.elapsed() < EFFECT_WITHIN => {
                Err("no effect on record".to_owned())
            }
            Ok(found) => Ok(found),
        })
    });
    let (effect, needless) = settled.map_err(|failure| Failure(format!("{failure}\n{}", cluster.logs())))?;
    Ok(Aftermath { effect, needless, settled_after: begun.elapsed() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn who_is_cut_off_from_whom() {
        let (me, coordinator) = (End::Member(2), End::Member(COORDINATOR));
        let of = |cut_off| cuts(cut_off, 2, 3);
        assert_eq!(of(CutOff::ToCoordinator), [Cut { from: me, to: coordinator }]);
        assert_eq!(of(CutOff::FromCoordinator), [Cut { from: coordinator, to: me }]);
        assert_eq!(of(CutOff::Coordinator).len(), 2);
        let others = [End::Member(1), End::Member(3)];
        assert_eq!(of(CutOff::ToServers), others.map(|to| Cut { from: me, to }));
        let servers = of(CutOff::Servers);
        assert!(others.iter().all(|other| servers.contains(&Cut { from: *other, to: me })));
        assert_eq!(servers.len(), 4);
        // The other servers, the coordinator and the clients.
        assert_eq!(of(CutOff::Everybody).len(), 8);
        assert_eq!(cuts(CutOff::Everybody, COORDINATOR, 3).len(), 8);
        for cut_off in CUT_OFFS {
            assert!(of(cut_off).iter().all(|cut| cut.from != cut.to && (cut.from == me || cut.to == me)));
        }
    }

    #[test]
    fn episodes_are_of_every_kind() {
        let mut rng = Rng::new(1);
        let kinds: BTreeSet<&str> = (0..1000)
            .flat_map(|_| [Episode::kill(&mut rng, 5), Episode::stop(&mut rng, 5), Episode::cut(&mut rng, 5)])
            .inspect(|episode| assert!(episode.member <= 5 && episode.time <= Duration::from_secs(10)))
            .map(|episode| episode.fault.describe(episode.member))
            .collect();
        assert_eq!(kinds.len(), 13, "{kinds:?}");
    }
}
