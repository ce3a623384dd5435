//! The cluster whose servers are killed: the servers that we killed, and the others that were declared dead.

use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt;
use crate::local::{
    LOOK_INTERVAL, LocalCluster, Output, Plan, connect_to, find_free, name, remove_directories,
};
use crate::memory::check_available;
use crate::supervising::RestartThreshold;
use ramhold_base::ServerId;
use ramhold_client::{Client, RecoveryReport, ServerState};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const WHOLE_WITHIN: Duration = Duration::from_secs(120);
/// Far beyond any verdict that is worth a figure.
const VERDICT_WITHIN: Duration = Duration::from_secs(120);
/// The smallest with buffers of its own.
const MEMORY_BYTES: u64 = 512 << 20;
const DISK_BYTES: u64 = 1 << 30;
/// The memory that a server with little data really takes.
const RESIDENT_BYTES: u64 = 64 << 20;
const REPLICAS: u8 = 2;

/// The size of the cluster, and where it keeps its files.
pub struct Setting<'a> {
    pub servers: u16,
    /// None: a temporary directory.
    pub work_dir: Option<&'a Path>,
    pub keeps: bool,
}

pub struct Stage {
    cluster: LocalCluster,
    client: Option<Client>,
    work_dir: PathBuf,
    buffer_dir: PathBuf,
    keeps: bool,
    killed: BTreeSet<ServerId>,
    /// Lives that were declared dead and were not killed, and why.
    false_verdicts: BTreeMap<ServerId, String>,
}

impl Stage {
    pub fn set(setting: &Setting<'_>) -> Result<Stage, Failure> {
        let needed = u64::from(setting.servers) * RESIDENT_BYTES;
        check_available(needed, 0, ramhold_runtime::memory_available()).map_err(Failure::usage)?;
        let parent = setting.work_dir.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let name = format!("ramhold-verdict-{}", std::process::id());
        let (work_dir, buffer_dir) = (parent.join(&name), Path::new("/dev/shm").join(&name));
        let failed = |error: std::io::Error| Failure::local(&work_dir, &error).about("--work-dir");
        DirBuilder::new().recursive(true).mode(0o700).create(&work_dir).map_err(failed)?;
        let plan = Plan {
            dir: work_dir.clone(),
            ports: find_free(setting.servers + 1)?,
            brick_count: 0,
            memory_bytes: MEMORY_BYTES,
            buffer_bytes: None,
            disk_bytes: DISK_BYTES,
            default_replicas: REPLICAS,
            auto_scale: false,
            placement: Default::default(),
            topology: Default::default(),
            resp_port: None,
            resp_cluster_port: None,
            resp_tables: Vec::new(),
            resp_cross_slot: Default::default(),
            admin_port: None,
            buffer_dir: Some(buffer_dir.clone()),
            supervisor: None,
            restart_load: Default::default(),
            restart_threshold: RestartThreshold::DEFAULT,
            output: Output::LogsOnly,
        };
        Ok(Stage {
            cluster: LocalCluster::new(plan)?,
            client: None,
            work_dir,
            buffer_dir,
            keeps: setting.keeps,
            killed: BTreeSet::new(),
            false_verdicts: BTreeMap::new(),
        })
    }

    pub fn start(&mut self) -> Result<(), Failure> {
        self.cluster.start_all()?;
        self.client = Some(connect_to(self.cluster.plan.coordinator(), PATIENCE)?);
        self.wait_whole()
    }

    /// The options with which a user's command would reach this cluster.
    pub fn global(&self, global: &Global) -> Global {
        Global { cluster: self.cluster.plan.coordinator().to_string(), ..global.clone() }
    }

    fn client(&mut self) -> &mut Client {
        self.client.as_mut().expect("the cluster was started")
    }

    /// Until all servers are up and nothing is being recovered.
    pub fn wait_whole(&mut self) -> Result<(), Failure> {
        let count = self.cluster.plan.server_count();
        let began = Instant::now();
        loop {
            interrupt::check()?;
            self.look()?;
            let status = self.client().cluster_status()?;
            let up = status.servers.iter().filter(|server| server.state == ServerState::Up).count();
            if up == count && status.recoveries.is_empty() && status.tablets_recovering == 0 {
                return Ok(());
            }
            if began.elapsed() > WHOLE_WITHIN {
                let recoveries = status.recoveries.len();
                let text = format!("{up} of {count} servers are up and {recoveries} recoveries are not done");
                return Err(Failure::usage(format!("{text} after {WHOLE_WITHIN:?}")));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Kills a server; how long after it the coordinator had its verdict. Then starts the server again.
    pub fn kill(&mut self, member: usize) -> Result<Duration, Failure> {
        let victim = self.life_of(member)?;
        self.killed.insert(victim);
        let killed = Instant::now();
        self.cluster.kill(member);
        let verdict = self.wait_verdict(victim, killed)?;
        self.cluster.start(member)?;
        Ok(verdict)
    }

    fn life_of(&mut self, member: usize) -> Result<ServerId, Failure> {
        let port = self.cluster.plan.ports[member];
        let servers = self.client().cluster_status()?.servers;
        let is_it = |state, address: u16| state == ServerState::Up && address == port;
        let entry = servers.iter().find(|entry| is_it(entry.state, entry.address.0.port()));
        entry
            .map(|entry| entry.id)
            .ok_or_else(|| Failure::usage(format!("{} is not in the server list", name(member))))
    }

    /// The coordinator's clock says how long ago the verdict was, so it does not matter how often this looks.
    fn wait_verdict(&mut self, victim: ServerId, killed: Instant) -> Result<Duration, Failure> {
        loop {
            interrupt::check()?;
            let now = self.client().cluster_status()?.time;
            let since = killed.elapsed();
            let reports = self.client().recoveries()?;
            if let Some(report) = reports.iter().find(|report| report.crashed == victim) {
                let ago = Duration::from_millis(now.0.saturating_sub(report.detected.0));
                return Ok(since.saturating_sub(ago));
            }
            if since > VERDICT_WITHIN {
                return Err(Failure::usage(format!("{victim} is not declared dead after {since:?}")));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Notes who was declared dead without being killed, and starts again whoever has ended for it.
    pub fn look(&mut self) -> Result<(), Failure> {
        let reports = self.client().recoveries()?;
        self.false_verdicts.extend(not_killed(&self.killed, &reports));
        for (member, status) in self.cluster.take_ended() {
            if self.false_verdicts.is_empty() {
                return Err(Failure::usage(format!("{} has ended by itself: {status}", name(member))));
            }
            self.cluster.start(member)?;
        }
        Ok(())
    }

    pub fn false_verdicts(&self) -> &BTreeMap<ServerId, String> {
        &self.false_verdicts
    }

    /// How often a living server was suspected and cleared.
    pub fn cleared(&mut self) -> Result<u64, Failure> {
        Ok(self.client().cluster_status()?.cleared.iter().map(|report| report.count).sum())
    }

    /// Whatever happened: nothing runs any more, and nothing is left but what was asked for.
    pub fn clear_away(&mut self) {
        self.cluster.kill_all();
        if self.keeps {
            crate::output::tell(&format!(
                "kept: {} and {}",
                self.work_dir.display(),
                self.buffer_dir.display()
            ));
        } else {
            remove_directories([&self.work_dir, &self.buffer_dir]);
        }
    }
}

fn not_killed(killed: &BTreeSet<ServerId>, reports: &[RecoveryReport]) -> BTreeMap<ServerId, String> {
    let others = reports.iter().filter(|report| !killed.contains(&report.crashed));
    others.map(|report| (report.crashed, report.cause.clone())).collect()
}
