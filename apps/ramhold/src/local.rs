//! A whole cluster on this machine, as child processes of this one: for `dev` and `demo`.
//!
//! ```text
//!   DIR/coordinator/        the coordinator's state
//!   DIR/server-1/ ...       a data directory each
//!   DIR/brick-1/ ...        the same, for bricks
//!   DIR/logs/NAME.log       what each process printed
//! ```
//!
//! Every server has a label of its own, so that the replicas of a segment are in different processes. This
//! protects against the death of processes, not of the machine.
//!
//! Invariants:
//! - a process that has not been waited for keeps its number, so a signal never hits a stranger;
//! - children end with this process, however it ends.

mod child;
mod ports;
mod waiting;

pub use child::{Child, Output, tail};
pub use ports::{check_free, find_free, is_free};
pub use waiting::{connect_to, wait_until_healthy, wait_until_redis_is_served};

use crate::cross_slot::cross_slot_text;
use crate::failure::Failure;
use crate::memory::BRICK_MEMORY_MIN;
use crate::supervising::{RestartThreshold, restart_load_text, restart_threshold_text};
use ramhold_node::{CrossSlot, RestartLoad};
use ramhold_placement::Grid;
use ramhold_wire::ReplicaPlacement;
use ramhold_wire::topology::Topology;
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Redis clients' connections that wait in the kernel to be accepted.
const RESP_WAITING_COUNT_MAX: i32 = 1024;

/// How often a wait looks again.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// The parts of a cluster on this machine.
#[derive(Clone, Debug)]
pub struct Plan {
    pub dir: PathBuf,
    /// The coordinator's port, then one per server, then one per brick.
    pub ports: Vec<u16>,
    /// How many of the members are bricks; they are the last ones.
    pub brick_count: usize,
    pub memory_bytes: u64,
    /// For others' writes; none: what a server takes by default.
    pub buffer_bytes: Option<u64>,
    pub disk_bytes: u64,
    /// Replicas of a table that is made without a number; at most one per server but the one that keeps the data.
    pub default_replicas: u8,
    /// Bricks that hold nothing get a share by themselves.
    pub auto_scale: bool,
    pub placement: ReplicaPlacement,
    /// Servers have the labels of this topology.
    pub topology: Topology,
    /// Where Redis clients are heard beside the servers' own ports. This process listens there and hands the socket to all
    /// servers, so a connection goes to the first server that accepts it, and to none that is stopped or dead.
    pub resp_port: Option<u16>,
    /// Where the first server hears clients of Redis Cluster; the others take the next ports.
    pub resp_cluster_port: Option<u16>,
    /// Tables of Redis databases whose table is not `db<n>`.
    pub resp_tables: Vec<(u16, String)>,
    pub resp_cross_slot: CrossSlot,
    /// Where the coordinator tells its metrics and health; the servers take the next ports.
    pub admin_port: Option<u16>,
    /// Where buffers go; none: where a server puts them by default.
    pub buffer_dir: Option<PathBuf>,
    /// The port of the process that restarts bricks.
    pub supervisor: Option<u16>,
    /// When a brick serves after a start.
    pub restart_load: RestartLoad,
    pub restart_threshold: RestartThreshold,
    pub output: Output,
}

/// The label of the server with this index, from 0, in a topology.
fn place_label(topology: &Topology, index: usize) -> Option<String> {
    let name = topology.label_name()?;
    let value = match Grid::of(topology) {
        Some(grid) => grid.name(&grid.labels().nth(index)?),
        None => ["a", "b", "c"][index % 3].to_owned(),
    };
    Some(format!("{name}={value}"))
}

impl Plan {
    pub fn server_count(&self) -> usize {
        self.ports.len() - 1 - self.brick_count
    }

    pub fn is_brick(&self, member: usize) -> bool {
        member > self.server_count()
    }

    /// Member 0 is the coordinator; the servers follow, then the bricks.
    pub fn name(&self, member: usize) -> String {
        match member.checked_sub(self.server_count() + 1) {
            Some(brick) => brick_name(brick + 1),
            None => name(member),
        }
    }

    pub fn coordinator(&self) -> SocketAddr {
        self.address(0)
    }

    pub fn address(&self, member: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[member]))
    }

    pub fn data_dir(&self, member: usize) -> PathBuf {
        self.dir.join(self.name(member))
    }

    /// Where the buffers of a server are, when the plan says so.
    pub fn buffers_of(&self, member: usize) -> Option<PathBuf> {
        self.buffer_dir.as_ref().map(|dir| dir.join(self.name(member)))
    }

    fn arguments(&self, member: usize) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut push = |option: &str, value: OsString| arguments.extend([option.into(), value]);
        push("--dir", self.data_dir(member).into());
        push("--bind", self.address(member).to_string().into());
        push("--end-with", std::process::id().to_string().into());
        // The option is always passed: a value from this process's environment would apply to all members at
        // once.
        let admin = self.admin_port.map(|first| first + u16::try_from(member).expect("a member has a port"));
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string();
        push("--admin", admin.map_or_else(|| "off".to_owned(), address).into());
        if self.is_brick(member) {
            push("--coordinator", self.coordinator().to_string().into());
            push("--memory", self.memory_bytes.max(BRICK_MEMORY_MIN).to_string().into());
            push("--disk", self.disk_bytes.to_string().into());
            push("--label", format!("host={}", self.name(member)).into());
            if let Some(label) = place_label(&self.topology, member - 1 - self.server_count()) {
                push("--label", label.into());
            }
            if let Some(dir) = self.buffers_of(member) {
                push("--buffer-dir", dir.into());
            }
            if let Some(supervisor) = self.supervisor {
                push("--supervisor", supervisor.to_string().into());
            }
            push("--restart-load", restart_load_text(self.restart_load).into());
            push("--restart-threshold", restart_threshold_text(self.restart_threshold).into());
            arguments.push("--brick".into());
        } else if member == 0 {
            push("--default-replicas", self.default_replicas.to_string().into());
            push("--placement", self.placement.to_string().into());
            push("--topology", self.topology.to_string().into());
            if self.auto_scale {
                arguments.push("--auto-scale".into());
            }
        } else {
            push("--coordinator", self.coordinator().to_string().into());
            push("--memory", self.memory_bytes.to_string().into());
            if let Some(bytes) = self.buffer_bytes {
                push("--buffers", bytes.to_string().into());
            }
            push("--disk", self.disk_bytes.to_string().into());
            push("--label", format!("host={}", self.name(member)).into());
            if let Some(label) = place_label(&self.topology, member - 1) {
                push("--label", label.into());
            }
            if let Some(first) = self.resp_cluster_port {
                let port = first + u16::try_from(member - 1).expect("a member has a port");
                push("--resp-cluster-port", port.to_string().into());
            }
            for (number, table) in &self.resp_tables {
                push("--resp-table", format!("{number}={table}").into());
            }
            push("--resp-cross-slot", cross_slot_text(self.resp_cross_slot).into());
            if let Some(dir) = self.buffers_of(member) {
                push("--buffer-dir", dir.into());
            }
            if self.resp_port.is_some() {
                arguments.push("--resp-stdin".into());
            }
        }
        arguments.insert(0, if member == 0 { "coordinator" } else { "server" }.into());
        arguments
    }
}

/// Listens for Redis clients; the servers accept.
fn listen(port: u16) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|listener| {
        rustix::net::listen(&listener, RESP_WAITING_COUNT_MAX)?;
        Ok(listener)
    });
    listener.map_err(|error| {
        Failure::usage(format!(
            "cannot listen on port {port} of 127.0.0.1: {error}; choose another with --resp-port"
        ))
    })
}

/// Removes what a run has made; what cannot be removed is told.
pub fn remove_directories(dirs: [&Path; 2]) {
    for dir in dirs {
        match std::fs::remove_dir_all(dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                crate::output::tell(&format!("ramhold: cannot remove {}: {error}", dir.display()));
            }
            _ => {}
        }
    }
}

/// The name of the n-th brick, from 1.
pub fn brick_name(brick: usize) -> String {
    format!("brick-{brick}")
}

/// The name of the coordinator (0) or of a server.
pub fn name(member: usize) -> String {
    if member == 0 { "coordinator".to_owned() } else { format!("server-{member}") }
}

/// The running processes of a plan.
pub struct LocalCluster {
    pub plan: Plan,
    members: Vec<Option<Child>>,
    /// For Redis clients; every server has a copy as its standard input.
    resp: Option<TcpListener>,
}

impl LocalCluster {
    /// A cluster of which nothing runs yet; makes its directories.
    pub fn new(plan: Plan) -> Result<LocalCluster, Failure> {
        let logs = plan.dir.join("logs");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&logs)
            .map_err(|error| Failure::local(&logs, &error).about("--dir"))?;
        let members = plan.ports.iter().map(|_| None).collect();
        let resp = plan.resp_port.map(listen).transpose()?;
        Ok(LocalCluster { plan, members, resp })
    }

    /// Starts one member that does not run. Must be called from the thread that lives as long as this process: children
    /// end with the thread that started them.
    pub fn start(&mut self, member: usize) -> Result<(), Failure> {
        assert!(self.members[member].is_none(), "a member runs once");
        let log = self.plan.dir.join("logs").join(format!("{}.log", self.plan.name(member)));
        let hears_redis = member > 0 && !self.plan.is_brick(member);
        let resp = self.resp.as_ref().filter(|_| hears_redis).map(TcpListener::try_clone).transpose();
        let resp =
            resp.map_err(|error| Failure::usage(format!("cannot pass the Redis port to a server: {error}")))?;
        let input = resp.map_or_else(Stdio::null, |listener| OwnedFd::from(listener).into());
        let child = Child::start(
            &self.plan.name(member),
            self.plan.arguments(member),
            input,
            &log,
            self.plan.output,
        )?;
        self.members[member] = Some(child);
        Ok(())
    }

    pub fn start_all(&mut self) -> Result<(), Failure> {
        (0..self.members.len()).try_for_each(|member| self.start(member))
    }

    pub fn child(&self, member: usize) -> Option<&Child> {
        self.members[member].as_ref()
    }

    pub fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.members.len()).filter(|member| self.members[*member].is_some())
    }

    /// Members that have ended by themselves since the last look, with how; they do not run any more.
    pub fn take_ended(&mut self) -> Vec<(usize, ExitStatus)> {
        let mut ended = Vec::new();
        for (member, place) in self.members.iter_mut().enumerate() {
            if let Some(status) = place.as_mut().and_then(Child::ended) {
                *place = None;
                ended.push((member, status));
            }
        }
        ended
    }

    pub fn signal(&self, member: usize, signal: Signal) {
        if let Some(child) = &self.members[member] {
            child.signal(signal);
        }
    }

    /// Waits until the members have ended; false when some have not by then, or when `gives_up` says so.
    fn wait_ended(
        &mut self,
        members: &[usize],
        within: Duration,
        gives_up: &mut dyn FnMut() -> bool,
    ) -> bool {
        let start = Instant::now();
        loop {
            self.take_ended();
            if members.iter().all(|member| self.members[*member].is_none()) {
                return true;
            }
            if start.elapsed() >= within || gives_up() {
                return false;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// SIGKILL for one member, and waits until it is gone.
    pub fn kill(&mut self, member: usize) {
        self.signal(member, Signal::KILL);
        if let Some(child) = self.members[member].take() {
            child.wait();
        }
    }

    /// SIGKILL for all that run, all at once, and waits until they are gone.
    pub fn kill_all(&mut self) {
        for member in 0..self.members.len() {
            self.signal(member, Signal::KILL);
        }
        for place in &mut self.members {
            if let Some(child) = place.take() {
                child.wait();
            }
        }
    }

    /// Ends all in order: the coordinator first, so that it declares nobody dead, then all servers at once, which flush.
    /// A member that has not ended within `patience`, or when `gives_up` says so, is killed. Returns the names of those.
    pub fn stop(&mut self, patience: Duration, gives_up: &mut dyn FnMut() -> bool) -> Vec<String> {
        let servers: Vec<usize> = (1..self.members.len()).collect();
        // Each member is asked once, because a second signal ends it without flushing.
        for group in [&[0][..], &servers] {
            for member in group {
                self.signal(*member, Signal::TERM);
            }
            if !self.wait_ended(group, patience, gives_up) {
                break;
            }
        }
        let left = self.running().map(|member| self.plan.name(member)).collect();
        self.kill_all();
        left
    }
}

impl Drop for LocalCluster {
    /// Whatever went wrong, nothing is left running.
    fn drop(&mut self) {
        self.kill_all();
    }
}
