//! The setting of the demo: the cluster, the writer, the directories, and the messages on the way.

use super::comparison::Differences;
use super::journal::Journal;
use super::tree::Tree;
use crate::failure::Failure;
use crate::interrupt;
use crate::local::{
    Child, LOOK_INTERVAL, LocalCluster, Output, Plan, connect_to, find_free, remove_directories,
};
use crate::memory::check_available;
use crate::size::bytes_text;
use crate::supervising::RestartThreshold;
use ramhold_client::{ServerId, ServerState};
use ramhold_wire::ReplicaPlacement;
use ramhold_wire::topology::Topology;
use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

pub const SERVER_COUNT: u16 = 5;
pub const REPLICAS: u8 = 3;
/// Five of these, and a client or two, stay below 4 GB.
const MEMORY_BYTES: u64 = 512 << 20;
const DISK_BYTES: u64 = 2 << 30;
/// How long one operation of the demo may take while a server is being recovered.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// All replicas of the data, as much again for the copies that recoveries make, and logs.
const DISK_FACTOR: u64 = 8;
const DISK_SPARE: u64 = 1 << 30;
const WRITER_WITHIN: Duration = Duration::from_secs(60);
const END_WITHIN: Duration = Duration::from_secs(60);

/// Where the demo keeps its files, and whether they stay.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// None: a temporary directory.
    pub work_dir: Option<&'a Path>,
    pub keeps: bool,
}

pub struct Scene {
    pub cluster: LocalCluster,
    pub work_dir: PathBuf,
    buffer_dir: PathBuf,
    writer: Option<Child>,
    keeps: bool,
    start: Instant,
}

impl Scene {
    /// Looks whether the machine has what the demo takes, says what that is, and makes the directories.
    pub fn set(setting: Setting<'_>, tree: &Tree) -> Result<Scene, Failure> {
        let work_dir = setting.work_dir.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let name = format!("ramhold-demo-{}", std::process::id());
        let work_dir = work_dir.join(&name);
        let buffer_dir = Path::new("/dev/shm").join(&name);
        let failed = |error: std::io::Error| Failure::local(&work_dir, &error).about("--work-dir");
        DirBuilder::new().recursive(true).mode(0o700).create(&work_dir).map_err(failed)?;
        let work_dir = work_dir.canonicalize().map_err(failed)?;

        let plan = Plan {
            dir: work_dir.clone(),
            ports: find_free(SERVER_COUNT + 1)?,
            brick_count: 0,
            memory_bytes: MEMORY_BYTES,
            buffer_bytes: None,
            disk_bytes: DISK_BYTES,
            default_replicas: REPLICAS,
            auto_scale: false,
            placement: ReplicaPlacement::Scatter,
            topology: Topology::Flat,
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
        let scene = Scene {
            cluster: LocalCluster::new(plan)?,
            work_dir,
            buffer_dir,
            writer: None,
            keeps: setting.keeps,
            start: Instant::now(),
        };
        let checked = scene.check_room(tree);
        if checked.is_err() {
            scene.remove_directories();
        }
        checked.map(|()| scene)
    }

    fn check_room(&self, tree: &Tree) -> Result<(), Failure> {
        let memory = MEMORY_BYTES * u64::from(SERVER_COUNT);
        let disk = tree.bytes * DISK_FACTOR + DISK_SPARE;
        crate::output::show(&format!(
            "ramhold demo: {} files, {}, from {}\n\
             takes less than a minute, {} of memory and {} of disk in {}; {}\n",
            tree.files.len(),
            bytes_text(tree.bytes),
            tree.roots_text(),
            bytes_text(memory),
            bytes_text(disk),
            self.work_dir.display(),
            if self.keeps { "everything is kept" } else { "everything is removed at the end" },
        ));
        check_available(memory, 0, ramhold_runtime::memory_available()).map_err(Failure::usage)?;
        let free = ramhold_runtime::free_space(&self.work_dir)
            .map_err(|error| Failure::local(&self.work_dir, &error))?;
        if free < disk {
            return Err(Failure::usage(format!(
                "{} has only {} free; name another directory with --work-dir",
                self.work_dir.display(),
                bytes_text(free)
            )));
        }
        Ok(())
    }

    pub fn coordinator(&self) -> SocketAddr {
        self.cluster.plan.coordinator()
    }

    /// A line of the story, with the time since its beginning.
    pub fn tell(&self, text: &str) {
        crate::output::show(&format!("[{:6.1} s]  {text}", self.start.elapsed().as_secs_f64()));
    }

    pub fn tell_differences(&self, differences: &Differences, when: &str) {
        let (sentence, lines) = differences.text(when);
        self.tell(&sentence);
        for line in lines {
            crate::output::show(&format!("            {line}"));
        }
    }

    fn journal_path(&self) -> PathBuf {
        self.work_dir.join("journal")
    }

    pub fn journal(&self) -> Result<Journal, Failure> {
        Journal::read(&self.journal_path())
    }

    pub fn start_writer(&mut self, table: &str) -> Result<(), Failure> {
        let coordinator = self.coordinator().to_string();
        let pid = std::process::id().to_string();
        let mut arguments: Vec<std::ffi::OsString> =
            ["demo-writer", "--cluster", &coordinator, "--end-with", &pid, "--table", table, "--journal"]
                .iter()
                .map(Into::into)
                .collect();
        arguments.push(self.journal_path().into());
        let log = self.work_dir.join("logs/writer.log");
        self.writer = Some(Child::start("writer", arguments, Stdio::null(), &log, Output::LogsOnly)?);
        Ok(())
    }

    /// Waits until the journal has this many acknowledged writes.
    pub fn wait_for_writes(&mut self, count: u64) -> Result<(), Failure> {
        let start = Instant::now();
        while self.journal()?.acknowledged() < count {
            interrupt::check()?;
            let ended = self.writer.as_mut().and_then(Child::ended);
            if let Some(status) = ended {
                let text =
                    format!("the writer has ended ({status}); see {}", self.work_dir.join("logs").display());
                return Err(Failure::usage(text));
            }
            if start.elapsed() > WRITER_WITHIN {
                return Err(Failure::usage("the writer gets no answers any more; see the logs with --keep"));
            }
            std::thread::sleep(LOOK_INTERVAL * 10);
        }
        Ok(())
    }

    /// Ids of the servers whose logs count now.
    pub fn live_servers(&self) -> Result<Vec<ServerId>, Failure> {
        let status = connect_to(self.coordinator(), PATIENCE)?.cluster_status()?;
        let up = status.servers.iter().filter(|server| server.state == ServerState::Up);
        Ok(up.map(|server| server.id).collect())
    }

    pub fn kill_everything(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.signal(rustix::process::Signal::KILL);
            self.cluster.kill_all();
            writer.wait();
        } else {
            self.cluster.kill_all();
        }
    }

    /// Ends the cluster; in order when it is whole.
    pub fn end(&mut self, is_whole: bool) -> Result<(), Failure> {
        if is_whole {
            let left = self.cluster.stop(END_WITHIN, &mut interrupt::take);
            if !left.is_empty() {
                return Err(Failure::usage(format!(
                    "{} did not stop within {END_WITHIN:?}",
                    left.join(", ")
                )));
            }
        } else {
            self.cluster.kill_all();
        }
        Ok(())
    }

    /// Whatever happened: nothing runs any more, and nothing is left but what was asked for.
    pub fn clear_away(&mut self, result: &Result<(), Failure>) {
        self.kill_everything();
        if self.keeps {
            crate::output::show(&format!(
                "kept: {} and {}",
                self.work_dir.display(),
                self.buffer_dir.display()
            ));
            return;
        }
        if result.is_err() {
            // The logs are about to be removed, before anybody could read them.
            crate::output::show("the logs are removed with everything else; give --keep to keep them");
        }
        self.remove_directories();
    }

    fn remove_directories(&self) {
        remove_directories([&self.work_dir, &self.buffer_dir]);
    }
}
