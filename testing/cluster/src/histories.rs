//! A run: client processes record the answers that they get, while the cluster is killed, stopped and cut
//! apart. An independent checker judges the records.

use crate::ballast::{fill, verify};
use crate::checker::{Checker, Verdict};
use crate::clients::Clients;
use crate::cluster::{Cluster, Options, name};
use crate::episodes::{Consequence, Episode};
use crate::history::{commit, now};
use crate::namespace::COORDINATOR;
use crate::network::Network;
use crate::sums::Sums;
use crate::waiting::{Failure, check_interrupted, pass};
use crate::zone_faults::ZoneFault;
use ramhold_base::Rng;
use ramhold_client::{Durability, TableOptions};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const TABLE: &str = "histories";
const BALLAST: &str = "ballast";
const REPLICA_COUNT: u8 = 3;
/// So many tablets that a returned server gets some when another dies.
const TABLET_COUNT: u32 = 21;
const PATIENCE: Duration = Duration::from_secs(60);
/// Growth of the histories between two episodes: some 5000 operations.
const PROGRESS_BYTES: u64 = 1_000_000;
/// Once in this many episodes, a client process is killed and another started first.
const CLIENT_KILL_ONE_OF: u64 = 8;
/// Once in this many episodes, a client process is stopped meanwhile.
const CLIENT_STOP_ONE_OF: u64 = 4;
/// Episodes without effect do not count, and are repeated. This is the limit of attempts for each episode
/// that counts.
const TRIES: u64 = 3;
const READ_ALL_WITHIN: Duration = Duration::from_secs(300);

pub struct Plan {
    pub servers: usize,
    pub kills: u64,
    pub stops: u64,
    pub cuts: u64,
    /// The zones of the servers, which are placed by zone-local; none: they have no zones.
    pub zones: Option<Zones>,
    /// The load runs at least this long, also when all episodes are over.
    pub load: Duration,
    pub clients: u64,
    pub sessions: u64,
    pub pause: Duration,
    pub seed: u64,
    /// The program of a client process: this one, with `client` as its first argument.
    pub program: PathBuf,
    pub checker: Checker,
    /// Histories of a failed run are copied here, into a directory of their own.
    pub keep: PathBuf,
}

/// Zones, and what happens to them as a whole.
pub struct Zones {
    pub count: usize,
    pub kills: u64,
    pub cuts: u64,
    pub cut_time: Duration,
    /// Objects of another table that fill the memory.
    pub ballast: u64,
}

/// Runs the plan; `tell` gets a line per episode. The sums count even if the run does not reach its end.
pub fn run(plan: &Plan, tell: impl FnMut(&str)) -> Result<Sums, Failure> {
    let zone_cuts = plan.zones.as_ref().map_or(0, |zones| zones.cuts);
    let network = match plan.cuts + zone_cuts {
        0 => None,
        _ => Some(Network::create(plan.servers + 1)?),
    };
    let (zones, coordinator_options): (usize, &[&str]) = match &plan.zones {
        Some(zones) => (zones.count, &["--topology", "zones", "--placement", "zone-local"]),
        None => (0, &[]),
    };
    let options = Options { servers: plan.servers, zones, coordinator_options, ..Options::default() };
    let cluster = match network {
        None => Cluster::start(options)?,
        Some(network) => Cluster::start_in(network, options)?,
    };
    let table = TableOptions {
        durability: Durability::Buffered,
        replicas: REPLICA_COUNT,
        tablets: TABLET_COUNT,
        slots: false,
        zone: None,
        quorum: None,
    };
    let mut client = cluster.client(PATIENCE)?;
    client.create_table(TABLE, table.clone())?;
    if let Some(zones) = plan.zones.as_ref().filter(|zones| zones.ballast > 0) {
        let ballast = client.create_table(BALLAST, table)?;
        fill(&mut client, ballast, zones.ballast)?;
    }

    let dir = cluster.scratch.dir().join("histories");
    let made = |error: std::io::Error| Failure(format!("{}: {error}", dir.display()));
    std::fs::create_dir(&dir).map_err(made)?;
    let faults = File::create_new(dir.join("faults.jsonl")).map_err(made)?;
    let arguments = [
        "client".to_owned(),
        format!("--coordinator={}", cluster.address(COORDINATOR)),
        format!("--table={TABLE}"),
        format!("--begun={}", now()),
        format!("--git={}", commit()),
        format!("--seed={}", plan.seed),
        format!("--sessions={}", plan.sessions),
        format!("--pause-micros={}", plan.pause.as_micros()),
    ];
    let clients = Clients::new(&plan.program, arguments.into(), &dir);
    let mut under_way =
        Run { plan, cluster, clients, faults, sums: Sums::default(), rng: Rng::new(plan.seed), tell };
    let end = under_way.play();
    under_way.judge(end, &dir)
}

struct Run<'a, T> {
    plan: &'a Plan,
    // Dropped before the cluster, so that the clients end first.
    clients: Clients,
    cluster: Cluster,
    faults: File,
    sums: Sums,
    rng: Rng,
    tell: T,
}

impl<T: FnMut(&str)> Run<'_, T> {
    /// Plays all episodes under load. Returns the number of the client that read everything at the end.
    fn play(&mut self) -> Result<u64, Failure> {
        let begun = Instant::now();
        for _ in 0..self.plan.clients {
            self.clients.start()?;
        }
        let played = self.play_episodes(begun).and_then(|()| self.play_zones());
        if played.is_ok() {
            pass(self.plan.load.saturating_sub(begun.elapsed()))?;
        }
        let stopped = self.clients.stop();
        self.sums.raise("seconds", begun.elapsed().as_secs());
        played?;
        stopped?;
        let reader = self.clients.run(&["--read-all"], READ_ALL_WITHIN)?;
        let mut client = self.cluster.client(PATIENCE)?;
        if let Some(zones) = self.plan.zones.as_ref().filter(|zones| zones.ballast > 0) {
            let ballast = client.table(BALLAST)?;
            verify(&mut client, ballast, zones.ballast)?;
            (self.tell)(&format!("all {} objects of the ballast are as they were written", zones.ballast));
        }
        let losses = client.cluster_status()?.losses;
        for loss in &losses {
            (self.tell)(&format!("LOST: a loss is reported: {}", loss.reason));
        }
        self.sums.raise("lost", losses.len() as u64);
        Ok(reader)
    }

    fn play_episodes(&mut self, begun: Instant) -> Result<(), Failure> {
        let Plan { servers, kills, stops, cuts, .. } = *self.plan;
        type Make = fn(&mut Rng, usize) -> Episode;
        let of = |make: Make, count: u64| (0..count).map(move |_| (make, TRIES));
        let mut planned: Vec<(Make, u64)> =
            of(Episode::kill, kills).chain(of(Episode::stop, stops)).chain(of(Episode::cut, cuts)).collect();
        self.rng.shuffle(&mut planned);
        let spare = 2 * u64::from(REPLICA_COUNT) * servers as u64;
        let (all, mut counted, mut without_effect) = (planned.len(), 0, 0);
        while let Some((make, tries)) = planned.pop() {
            self.clients.wait_progress(PROGRESS_BYTES)?;
            self.cluster.wait_replicated(spare)?;
            let is_client_killed = self.rng.chance(1, CLIENT_KILL_ONE_OF);
            if is_client_killed {
                self.clients.replace_one()?;
                self.sums.raise("clients killed", 1);
            }
            let episode = make(&mut self.rng, servers);
            let kind = episode.fault.describe(episode.member);
            let from = now();
            // One that has just been started may have no connection yet.
            let is_client_held = !is_client_killed && self.rng.chance(1, CLIENT_STOP_ONE_OF);
            if is_client_held {
                self.clients.hold_one()?;
                self.sums.raise("clients stopped", 1);
            }
            let played = episode.play(&mut self.cluster);
            if is_client_held {
                self.clients.go_on()?;
            }
            let aftermath = played?;
            self.sums.raise_episode(kind, aftermath.effect);
            self.sums.raise("needless recoveries", aftermath.needless.len() as u64);
            for cause in &aftermath.needless {
                (self.tell)(&format!("needless recovery of {cause}"));
            }
            let effect = match aftermath.effect {
                Consequence::Recovered => "recovery",
                Consequence::Cleared => "verified reply",
                Consequence::Away => "silent and back",
                Consequence::None => "without effect",
            };
            let record = json!({
                "t0": from, "t1": now(), "kind": kind, "target": name(episode.member),
                "millis": u64::try_from(episode.time.as_millis()).unwrap_or(u64::MAX), "effect": effect,
            });
            writeln!(self.faults, "{record}").map_err(|error| Failure(format!("faults.jsonl: {error}")))?;
            if aftermath.effect == Consequence::None {
                without_effect += 1;
                if tries > 1 {
                    planned.push((make, tries - 1));
                }
            } else {
                counted += 1;
            }
            (self.tell)(&format!(
                "[{counted}/{all}, {without_effect} without effect, {:.0} s, {:.1} MB of history] {kind} ({}), {} ms: \
                 {effect}, all well {:.1} s later",
                begun.elapsed().as_secs_f64(),
                self.clients.bytes() as f64 / 1e6,
                name(episode.member),
                episode.time.as_millis(),
                aftermath.settled_after.as_secs_f64()
            ));
        }
        Ok(())
    }

    /// Kills and cuts off whole zones.
    fn play_zones(&mut self) -> Result<(), Failure> {
        let Some(zones) = &self.plan.zones else { return Ok(()) };
        let cut = |index: u64| ZoneFault::Cut { time: zones.cut_time, clients_too: index.is_multiple_of(2) };
        let mut planned: Vec<ZoneFault> =
            (0..zones.kills).map(|_| ZoneFault::Kill).chain((0..zones.cuts).map(cut)).collect();
        self.rng.shuffle(&mut planned);
        let (all, spare) = (planned.len(), 2 * u64::from(REPLICA_COUNT) * self.plan.servers as u64);
        for (number, fault) in (1..).zip(planned) {
            self.clients.wait_progress(PROGRESS_BYTES)?;
            self.cluster.wait_replicated(spare)?;
            let zone = self.rng.below(zones.count as u64) as usize;
            let members: Vec<usize> = (1..=self.plan.servers).filter(|m| m % zones.count == zone).collect();
            let from = now();
            let aftermath = fault.play(&mut self.cluster, &members)?;
            self.sums.raise_episode(fault.describe(), Consequence::Recovered);
            let record =
                json!({ "t0": from, "t1": now(), "kind": fault.describe(), "target": format!("z{zone}") });
            writeln!(self.faults, "{record}").map_err(|error| Failure(format!("faults.jsonl: {error}")))?;
            (self.tell)(&format!(
                "[{number}/{all}] {} (z{zone}): the rest has everything after {:.1} s; once it is back, copies are in \
                 all zones after {:.1} s",
                fault.describe(),
                aftermath.served.as_secs_f64(),
                aftermath.spread.as_secs_f64()
            ));
        }
        Ok(())
    }

    /// Judges the histories, also those of a run that broke: the writes acknowledged until then count.
    fn judge(mut self, end: Result<u64, Failure>, dir: &Path) -> Result<Sums, Failure> {
        if let Err(failure) = &end {
            // If a person has interrupted the run, there is no verdict.
            check_interrupted()?;
            (self.tell)(&format!("BROKEN: {failure}"));
            self.sums.raise("broken runs", 1);
        }
        self.clients.stop().unwrap_or_else(|failure| (self.tell)(&format!("BROKEN: {failure}")));
        let files = self.clients.files();
        if files.is_empty() {
            return end.map(|_| self.sums);
        }
        let verdict = self.plan.checker.judge(&files, &dir.join("evidence.jsonl"), self.plan.seed)?;
        self.count(&verdict, end.as_ref().ok().copied());
        if verdict.violations.is_empty() && verdict.undecided == 0 {
            let copy = dir.join("spoiled.jsonl");
            let mistake = self.plan.checker.rejects_spoiled(&files, &copy, self.plan.seed)?;
            (self.tell)(&format!("a copy with a '{mistake}' in it is rejected"));
            self.sums.raise("spoiled copies rejected", 1);
            // This copy is not needed.
            let _ = std::fs::remove_file(copy);
        }
        if !is_good(&self.sums) {
            let kept = keep(dir, &self.plan.keep, self.plan.seed)?;
            (self.tell)(&format!("the histories are kept in {}", kept.display()));
        }
        Ok(self.sums)
    }

    fn count(&mut self, verdict: &Verdict, reader: Option<u64>) {
        // A read at the end that no order explains shows a permanent loss, since nothing is broken any more.
        let lost = reader.map_or(0, |reader| verdict.of_process(reader));
        let sums = [
            ("runs", 1),
            ("operations", verdict.operations),
            ("ok", verdict.ok),
            ("refused", verdict.refused),
            ("failed", verdict.failed),
            ("unknown", verdict.unknown),
            ("violations", verdict.violations.len() as u64),
            ("undecided", verdict.undecided),
            ("lost", lost),
            ("mistakes found", verdict.mistakes_found),
        ];
        for (name, value) in sums {
            self.sums.raise(name, value);
        }
    }
}

/// Whether no check failed, and enough happened to say so.
pub fn is_good(sums: &Sums) -> bool {
    let wrong = ["violations", "undecided", "lost", "broken runs"];
    let enough = 10 * sums.of("ok") >= 6 * sums.of("operations") && sums.of("operations") > 0;
    wrong.iter().all(|name| sums.of(name) == 0) && enough
}

fn keep(dir: &Path, folder: &Path, seed: u64) -> Result<PathBuf, Failure> {
    let kept = folder.join(format!("{seed}-{}", std::process::id()));
    let copy = || {
        std::fs::create_dir_all(&kept)?;
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            std::fs::copy(entry.path(), kept.join(entry.file_name()))?;
        }
        Ok(())
    };
    copy().map_err(|error: std::io::Error| Failure(format!("{}: {error}", kept.display())))?;
    Ok(kept)
}
