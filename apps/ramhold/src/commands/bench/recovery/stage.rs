//! The cluster that loses a server: its processes, its directories, and the owners of the data.

use crate::failure::Failure;
use crate::global::Global;
use crate::interrupt;
use crate::local::{
    LOOK_INTERVAL, LocalCluster, Output, Plan, connect_to, find_free, remove_directories, wait_until_healthy,
};
use crate::memory::{PLACE_BYTES, check_available};
use crate::size::bytes_text;
use crate::supervising::RestartThreshold;
use ramhold_base::limits::SEGMENT_BYTES;
use ramhold_client::{
    Client, Durability, ProcessStatus, RecoveryPhase, RecoveryReport, ServerState, TableId, TableOptions,
};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const START_WITHIN: Duration = Duration::from_secs(60);
/// A slow device needs long for gigabytes.
const SETTLE_WITHIN: Duration = Duration::from_secs(600);
const OVER_WITHIN: Duration = Duration::from_secs(600);
/// Share of a server's memory beside log and buffers, in hundredths.
const OTHER_PERCENT: u64 = 26;
const MEMORY_BYTES_MIN: u64 = 256 << 20;
/// Segments that a master may have open or half full at once.
const SPARE_SEGMENTS: u64 = 24;

/// The size of the cluster, and where it keeps its files.
pub struct Setting<'a> {
    pub servers: u16,
    pub data_bytes: u64,
    pub replicas: u8,
    /// None: what a server of this size takes.
    pub buffers: Option<Buffers>,
    /// Redis gets the same data afterwards, in memory of its own.
    pub beside_redis: bool,
    /// None: a temporary directory.
    pub work_dir: Option<&'a Path>,
    pub keeps: bool,
}

/// The room of each server for others' writes that are not flushed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffers {
    All,
    Bytes(u64),
}

/// The table that is filled: one tablet.
#[derive(Clone, Copy)]
pub struct Table {
    pub name: &'static str,
    pub slots: bool,
}

pub struct Stage {
    cluster: LocalCluster,
    pub work_dir: PathBuf,
    buffer_dir: PathBuf,
    keeps: bool,
}

impl Stage {
    /// Looks whether the machine has what it takes, and makes the directories.
    pub fn set(setting: &Setting<'_>) -> Result<Stage, Failure> {
        let parent = setting.work_dir.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let name = format!("ramhold-recovery-{}", std::process::id());
        let (work_dir, buffer_dir) = (parent.join(&name), Path::new("/dev/shm").join(&name));
        let failed = |error: std::io::Error| Failure::local(&work_dir, &error).about("--work-dir");
        DirBuilder::new().recursive(true).mode(0o700).create(&work_dir).map_err(failed)?;

        let servers = u64::from(setting.servers);
        let replicated = setting.data_bytes * u64::from(setting.replicas);
        // `All` covers the replicas of before and of after the crash on each surviving server, with room for
        // an uneven spread.
        let buffer_bytes = match setting.buffers {
            None => None,
            Some(Buffers::Bytes(bytes)) => Some(bytes),
            Some(Buffers::All) => Some(2 * replicated / (servers - 1) * 5 / 4 + SPARE_SEGMENTS * PLACE_BYTES),
        };
        let log_bytes =
            setting.data_bytes + setting.data_bytes / 8 + SPARE_SEGMENTS * u64::from(SEGMENT_BYTES);
        let memory_bytes = ((log_bytes + buffer_bytes.unwrap_or(0)) * 100 / (100 - OTHER_PERCENT))
            .max(buffer_bytes.unwrap_or(0) * 2 + PLACE_BYTES)
            .max(MEMORY_BYTES_MIN);
        let disk_bytes = 4 * replicated / (servers - 1) + 64 * PLACE_BYTES;
        // The memory of the dead server's log is free again before its data is in other logs.
        let needed = (if setting.beside_redis { 4 } else { 2 }) * setting.data_bytes
            + servers * buffer_bytes.unwrap_or(256 << 20)
            + servers * (64 << 20);
        let plan = Plan {
            dir: work_dir.clone(),
            ports: find_free(setting.servers + 1)?,
            brick_count: 0,
            memory_bytes,
            buffer_bytes,
            disk_bytes,
            default_replicas: setting.replicas,
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
        let stage = Stage { cluster: LocalCluster::new(plan)?, work_dir, buffer_dir, keeps: setting.keeps };
        let checked = stage.check_room(needed, servers * disk_bytes);
        if checked.is_err() {
            stage.remove_directories();
        }
        checked.map(|()| stage)
    }

    fn check_room(&self, memory: u64, disk: u64) -> Result<(), Failure> {
        check_available(memory, 0, ramhold_runtime::memory_available()).map_err(Failure::usage)?;
        let free = ramhold_runtime::free_space(&self.work_dir)
            .map_err(|error| Failure::local(&self.work_dir, &error))?;
        if free < disk {
            return Err(Failure::usage(format!(
                "{} has {} free, but {} are needed; name another directory with --work-dir",
                self.work_dir.display(),
                bytes_text(free),
                bytes_text(disk)
            )));
        }
        Ok(())
    }

    /// All processes, and a table in one tablet.
    pub fn start(&mut self, table: Table, replicas: u8) -> Result<TableId, Failure> {
        self.cluster.start_all()?;
        let count = self.cluster.plan.server_count();
        drop(wait_until_healthy(&mut self.cluster, count, START_WITHIN, |_| true)?);
        let Table { name, slots } = table;
        let options = TableOptions {
            durability: Durability::Buffered,
            replicas,
            tablets: 1,
            slots,
            zone: None,
            quorum: None,
        };
        Ok(self.client()?.create_table(name, options)?)
    }

    /// The options with which a user's command would reach this cluster.
    pub fn global(&self, global: &Global) -> Global {
        Global { cluster: self.cluster.plan.coordinator().to_string(), ..global.clone() }
    }

    fn client(&self) -> Result<Client, Failure> {
        connect_to(self.cluster.plan.coordinator(), PATIENCE)
    }

    fn statuses(&self) -> Result<Vec<ProcessStatus>, Failure> {
        let mut client = self.client()?;
        let servers = client.cluster_status()?.servers;
        let up = servers.iter().filter(|server| server.state == ServerState::Up);
        Ok(up.map(|server| client.server_status(server.address.0)).collect::<Result<_, _>>()?)
    }

    /// Waits until the devices have everything, or the buffers as much as they hold; the member with the data.
    pub fn settle(&self, objects: u64) -> Result<usize, Failure> {
        let began = Instant::now();
        loop {
            interrupt::check()?;
            let statuses = self.statuses()?;
            let unflushed: u64 =
                statuses.iter().filter_map(|s| s.backup.as_ref()).map(|b| b.unflushed_bytes).sum();
            let unreplicated: u64 =
                statuses.iter().flat_map(|s| &s.streams).map(|s| s.incomplete_segments).sum();
            if unflushed == 0 && unreplicated == 0 {
                let owner = statuses
                    .iter()
                    .find(|status| status.objects >= objects)
                    .ok_or_else(|| Failure::usage("no server holds all objects"))?;
                let servers = self.client()?.cluster_status()?.servers;
                let entry = servers.iter().find(|entry| entry.id == owner.server);
                let port = entry.map_or(0, |entry| entry.address.0.port());
                let member = self.cluster.plan.ports.iter().position(|p| *p == port);
                return member.ok_or_else(|| {
                    Failure::usage("the server with the data was not started by this benchmark")
                });
            }
            if began.elapsed() > SETTLE_WITHIN {
                let text =
                    format!("{} are not on the devices after {SETTLE_WITHIN:?}", bytes_text(unflushed));
                return Err(Failure::usage(text));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    pub fn kill(&mut self, member: usize) {
        self.cluster.kill(member);
    }

    /// Ports of all servers but one.
    pub fn ports_without(&self, member: usize) -> Vec<u16> {
        let ports = self.cluster.plan.ports.iter().enumerate().skip(1);
        ports.filter(|(other, _)| *other != member).map(|(_, port)| *port).collect()
    }

    /// Nothing runs any more; the files are still there.
    pub fn end(&mut self) {
        self.cluster.kill_all();
    }

    /// Until the coordinator has nothing to recover any more.
    pub fn wait_over(&self, member: usize) -> Result<RecoveryReport, Failure> {
        let port = self.cluster.plan.ports[member];
        let mut client = self.client()?;
        let began = Instant::now();
        loop {
            interrupt::check()?;
            let over = client
                .recoveries()?
                .into_iter()
                .find(|report| report.address.0.port() == port && report.phase == RecoveryPhase::Done);
            if let Some(report) = over {
                return Ok(report);
            }
            if began.elapsed() > OVER_WITHIN {
                return Err(Failure::usage(format!("the recovery is not over after {OVER_WITHIN:?}")));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// The present report of a recovery that is over.
    pub fn report_of(&self, member: usize) -> Result<Option<RecoveryReport>, Failure> {
        let port = self.cluster.plan.ports[member];
        let reports = self.client()?.recoveries()?;
        Ok(reports.into_iter().find(|r| r.address.0.port() == port && r.phase == RecoveryPhase::Done))
    }

    /// The buffers of all servers that are up.
    pub fn buffer_bytes(&self) -> Result<u64, Failure> {
        let statuses = self.statuses()?;
        let backups = statuses.iter().filter_map(|status| status.backup.as_ref());
        Ok(backups.map(|backup| backup.buffers * u64::from(SEGMENT_BYTES)).sum())
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
            self.remove_directories();
        }
    }

    fn remove_directories(&self) {
        remove_directories([&self.work_dir, &self.buffer_dir]);
    }
}
