//! A coordinator and servers, each a process, in directories of their own.

use crate::namespace::COORDINATOR;
use crate::network::{LINK_COUNT, Network};
use crate::process::Process;
use crate::scratch::Scratch;
use crate::waiting::{Failure, wait_for};
use ramhold_base::Rng;
use ramhold_client::{Client, ClusterStatus, ProcessStatus, RecoveryReport, ServerEntry, ServerState};
use rustix::process::Signal;
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::time::Duration;

/// If this is set in the environment, the directories of the tests stay for inspection.
const KEEP: &str = "RAMHOLD_TEST_KEEP";

/// Lines of the end of each log that a failure shows.
const LOG_LINE_COUNT: usize = 30;
const ATTEMPT: Duration = Duration::from_secs(2);
/// The time limit from the start of a process until it is up, on a busy machine.
const START_WITHIN: Duration = Duration::from_secs(60);
const STOP_WITHIN: Duration = Duration::from_secs(60);
/// The time limit to replay and replicate everything again, with every process on the same few cores and one
/// disk.
pub(crate) const RECOVER_WITHIN: Duration = Duration::from_secs(120);

#[derive(Clone, Debug)]
pub struct Options {
    /// Processes of servers.
    pub servers: usize,
    /// Servers in each of these processes. In a network of their own, processes have one.
    pub shards: u16,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    pub flush_interval: &'static str,
    /// Further options of the coordinator process.
    pub coordinator_options: &'static [&'static str],
    pub server_options: &'static [&'static str],
    /// The zones in which the servers are in turn; 0: they have no zone.
    pub zones: usize,
    /// Each server has a link in each of the further networks. Needs a network of its own.
    pub has_links: bool,
}

impl Default for Options {
    fn default() -> Options {
        // The smallest memory that has buffers of its own.
        Options {
            servers: 5,
            shards: 1,
            memory_bytes: 512 << 20,
            disk_bytes: 2 << 30,
            flush_interval: "100ms",
            coordinator_options: &[],
            server_options: &[],
            zones: 0,
            has_links: false,
        }
    }
}

/// Frames in use on all backups, and the replicas that all masters count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frames {
    pub used: u64,
    pub wanted: u64,
}

pub struct Cluster {
    // Dropped before the directories, so that no process runs in them when they are removed.
    members: Vec<Option<Process>>,
    pub options: Options,
    addresses: Vec<SocketAddr>,
    /// The ports for clients of Redis Cluster, from the first server on. In a network of their own, servers
    /// have none.
    cluster_ports: Vec<u16>,
    /// None: all members are on loopback.
    network: Option<Network>,
    /// The client that observes the cluster. It is kept, so that observing costs the cluster little.
    observer: Mutex<Option<Client>>,
    pub scratch: Scratch,
}

impl Cluster {
    /// Starts everything and waits until all servers serve.
    pub fn start(options: Options) -> Result<Cluster, Failure> {
        Cluster::prepare(options).started()
    }

    /// Like `start`, in a network that was made for this number of servers and the coordinator.
    pub fn start_in(network: Network, options: Options) -> Result<Cluster, Failure> {
        Cluster::prepare_in(network, options).started()
    }

    /// Like `prepare`, in such a network.
    pub fn prepare_in(network: Network, options: Options) -> Cluster {
        let addresses = (0..=options.servers).map(Network::address).collect();
        Cluster::prepare_at(addresses, Some(network), options)
    }

    /// Starts every process, and waits until all servers serve.
    pub fn started(self) -> Result<Cluster, Failure> {
        let mut cluster = self;
        cluster.start_all();
        cluster.wait_up(cluster.options.servers * usize::from(cluster.options.shards))?;
        cluster.wait_serving()?;
        Ok(cluster)
    }

    /// Waits until every server has said that it serves. A server is up in the list as soon as the
    /// coordinator has accepted it. Its directory belongs to the cluster only once it serves.
    fn wait_serving(&self) -> Result<(), Failure> {
        let waited = wait_for("servers that serve", START_WITHIN, || {
            self.check_running()?;
            let servers = self.members.iter().flatten().skip(1);
            let mut waiting = servers.filter(|server| !server.printed().contains("serving as"));
            Ok(waiting.next().map_or(Ok(()), |server| Err(format!("{} does not serve yet", server.name()))))
        });
        self.with_logs(waited)
    }

    /// A cluster of which no process runs.
    pub fn prepare(options: Options) -> Cluster {
        let shards = usize::from(options.shards);
        let ports = free_ports(1 + 2 * options.servers * shards);
        let (coordinator, servers) = ports.split_at(1);
        let (servers, clusters) = servers.split_at(options.servers * shards);
        let cluster_ports = clusters.iter().step_by(shards).copied().collect();
        let members = coordinator.iter().chain(servers.iter().step_by(shards));
        let addresses = members.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, *port))).collect();
        let mut cluster = Cluster::prepare_at(addresses, None, options);
        cluster.cluster_ports = cluster_ports;
        cluster
    }

    fn prepare_at(addresses: Vec<SocketAddr>, network: Option<Network>, options: Options) -> Cluster {
        let members = addresses.iter().map(|_| None).collect();
        let cluster = Cluster {
            members,
            options,
            addresses,
            cluster_ports: Vec::new(),
            network,
            observer: Mutex::new(None),
            scratch: Scratch::new(),
        };
        std::fs::create_dir_all(cluster.scratch.dir().join("logs")).expect("a directory can be made");
        cluster
    }

    pub fn address(&self, member: usize) -> SocketAddr {
        self.addresses[member]
    }

    /// The address at which a running member serves its metrics, as the member printed it at its start.
    pub fn admin_address(&self, member: usize) -> Result<SocketAddr, Failure> {
        let log = self.scratch.dir().join("logs").join(format!("{}.log", name(member)));
        wait_for("the admin address", START_WITHIN, || {
            let printed = std::fs::read_to_string(&log).unwrap_or_default();
            let last = printed.lines().rev().find_map(|line| line.trim().strip_prefix("admin"));
            let address =
                last.and_then(|line| line.trim().strip_prefix("http://")?.split('/').next()?.parse().ok());
            Ok(address.ok_or(printed))
        })
    }

    /// The cluster's private network, to be cut apart.
    pub fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    pub fn data_dir(&self, member: usize) -> PathBuf {
        self.scratch.dir().join(name(member))
    }

    pub fn buffer_dir(&self, member: usize) -> PathBuf {
        self.scratch.buffer_dir().join(name(member))
    }

    /// The arguments of a member's process.
    pub fn arguments(&self, member: usize) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut push = |option: &str, value: OsString| arguments.extend([option.into(), value]);
        push("--dir", self.data_dir(member).into());
        push("--bind", self.address(member).to_string().into());
        push("--end-with", std::process::id().to_string().into());
        push("--admin", "127.0.0.1:0".into());
        if member != COORDINATOR {
            push("--coordinator", self.address(COORDINATOR).to_string().into());
            push("--buffer-dir", self.buffer_dir(member).into());
            push("--memory", self.options.memory_bytes.to_string().into());
            push("--disk", self.options.disk_bytes.to_string().into());
            push("--flush-interval", self.options.flush_interval.into());
            push("--shards", self.options.shards.to_string().into());
            push("--label", format!("host={}", name(member)).into());
            if let Some(zone) = member.checked_rem(self.options.zones) {
                push("--label", format!("zone=z{zone}").into());
            }
            if let Some(cube) = self.network.as_ref().and_then(Network::cube) {
                push("--label", format!("bcube={}", cube.label(member)).into());
                for level in 0..cube.level_count() {
                    push("--link", format!("{level}={}", crate::cube::address(member, level)).into());
                }
            }
            if self.options.has_links {
                for network in 1..=LINK_COUNT {
                    push("--link", format!("net-{network}={}", Network::link(member, network)).into());
                }
            }
            if let Some(port) = self.cluster_ports.get(member - 1) {
                push("--resp-cluster-port", port.to_string().into());
            }
        }
        let more = match member {
            COORDINATOR => self.options.coordinator_options,
            _ => self.options.server_options,
        };
        arguments.extend(more.iter().map(OsString::from));
        if self.network.is_some() {
            arguments.push("--insecure-network".into());
        }
        arguments.insert(0, if member == COORDINATOR { "coordinator" } else { "server" }.into());
        arguments
    }

    /// Starts a member that does not run. Call this from a thread that outlives the process: the process ends
    /// with that thread.
    pub fn start_member(&mut self, member: usize) {
        self.start_with(member, &self.arguments(member));
    }

    fn start_with(&mut self, member: usize, arguments: &[OsString]) {
        assert!(self.members[member].is_none(), "{} runs already", name(member));
        let log = self.scratch.dir().join("logs").join(format!("{}.log", name(member)));
        let start = || Process::start(&name(member), arguments, &log);
        let process = match &self.network {
            None => start(),
            Some(network) => network.within(member, start).unwrap_or_else(|failure| panic!("{failure}")),
        };
        self.members[member] = Some(process);
    }

    pub fn start_all(&mut self) {
        for member in 0..self.members.len() {
            self.start_member(member);
        }
    }

    pub fn process(&self, member: usize) -> &Process {
        self.members[member].as_ref().expect("the member runs")
    }

    /// Kills the coordinator with SIGKILL, deletes its directory, and starts another that rebuilds the state
    /// from the servers.
    pub fn rebuild_coordinator(&mut self, given_up: &[ramhold_client::ServerId]) {
        self.kill(COORDINATOR);
        let _ = std::fs::remove_dir_all(self.data_dir(COORDINATOR));
        let mut arguments = self.arguments(COORDINATOR);
        arguments.push("--rebuild-from-servers".into());
        for server in given_up {
            arguments.extend(["--given-up".into(), server.to_string().into()]);
        }
        self.start_with(COORDINATOR, &arguments);
    }

    /// Kills the coordinator with SIGKILL, and starts another on a new directory that is made from a backup.
    pub fn restore_coordinator(&mut self, backup: &std::path::Path) {
        self.kill(COORDINATOR);
        let _ = std::fs::remove_dir_all(self.data_dir(COORDINATOR));
        let mut arguments = self.arguments(COORDINATOR);
        arguments.extend(["--restore".into(), backup.into()]);
        self.start_with(COORDINATOR, &arguments);
    }

    /// Sends SIGKILL, and waits until the process is gone.
    pub fn kill(&mut self, member: usize) {
        if let Some(process) = self.members[member].take() {
            process.kill();
        }
    }

    /// Sends SIGKILL to all of these before waiting for any.
    pub fn kill_at_once(&mut self, members: &[usize]) {
        for process in members.iter().filter_map(|member| self.members[*member].as_ref()) {
            process.signal(Signal::KILL);
        }
        for member in members {
            self.kill(*member);
        }
    }

    /// Sends SIGKILL to all members.
    pub fn kill_all(&mut self) {
        let all: Vec<usize> = (0..self.members.len()).collect();
        self.kill_at_once(&all);
    }

    /// Waits until a member has ended by itself. The member counts as stopped from then on.
    pub fn wait_ended(&mut self, member: usize, within: Duration) -> Result<ExitStatus, Failure> {
        let status = self.process(member).wait_ended(within)?;
        self.members[member] = None;
        Ok(status)
    }

    /// Members that were started and have ended by themselves, and their exit status. They count as stopped
    /// from then on.
    pub fn take_ended(&mut self) -> Vec<(usize, ExitStatus)> {
        let mut ended = Vec::new();
        for (member, slot) in self.members.iter_mut().enumerate() {
            if let Some(status) = slot.as_ref().and_then(Process::ended) {
                *slot = None;
                ended.push((member, status));
            }
        }
        ended
    }

    /// A clean end of everything: the coordinator first, then all servers at once.
    pub fn stop_all(&mut self) -> Result<(), Failure> {
        self.process(COORDINATOR).signal(Signal::TERM);
        let mut ended = vec![(COORDINATOR, self.wait_ended(COORDINATOR, STOP_WITHIN)?)];
        for member in 1..self.members.len() {
            self.process(member).signal(Signal::TERM);
        }
        for member in 1..self.members.len() {
            ended.push((member, self.wait_ended(member, STOP_WITHIN)?));
        }
        match ended.iter().find(|(_, status)| !status.success()) {
            None => Ok(()),
            Some((member, status)) => Err(Failure(format!("{} ended with {status}", name(*member)))),
        }
    }

    /// Plays a loss of power: everything that was only in memory is gone. No process may run.
    pub fn lose_buffers(&self) {
        assert!(self.members.iter().all(Option::is_none), "buffers are lost with the processes");
        std::fs::remove_dir_all(self.scratch.buffer_dir()).expect("the buffers can be removed");
    }

    /// A client whose operations have this deadline.
    pub fn client(&self, deadline: Duration) -> Result<Client, Failure> {
        let options = ramhold_client::Options { deadline, connect_timeout: deadline, ..Default::default() };
        Ok(Client::connect_with(&[self.address(COORDINATOR)], options)?)
    }

    pub fn status(&self) -> Result<ClusterStatus, Failure> {
        self.look(|client| client.cluster_status())
    }

    /// Asks with the kept client, or else with a new one.
    fn look<T>(&self, look: impl Fn(&mut Client) -> Result<T, ramhold_client::Error>) -> Result<T, Failure> {
        let mut observer = self.observer.lock().expect("nobody panics while looking");
        if let Some(mut client) = observer.take()
            && let Ok(seen) = look(&mut client)
        {
            *observer = Some(client);
            return Ok(seen);
        }
        let mut client = self.client(ATTEMPT)?;
        let seen = look(&mut client)?;
        *observer = Some(client);
        Ok(seen)
    }

    /// The present life of a member in the server list.
    pub fn entry(&self, member: usize) -> Result<Option<ServerEntry>, Failure> {
        let address = self.address(member);
        let is_it = |entry: &ServerEntry| entry.address.0 == address && entry.state == ServerState::Up;
        Ok(self.status()?.servers.into_iter().find(is_it))
    }

    /// Waits until `count` servers are up and nothing is left to recover.
    pub fn wait_up(&self, count: usize) -> Result<(), Failure> {
        let within = if count == 0 { START_WITHIN } else { START_WITHIN + RECOVER_WITHIN };
        let waited = wait_for("servers up and everything recovered", within, || {
            self.check_running()?;
            Ok(self.status().map_err(|failure| failure.0).and_then(|status| {
                let up = status.servers.iter().filter(|entry| entry.state == ServerState::Up).count();
                let is_quiet = status.recoveries.is_empty() && status.tablets_recovering == 0;
                let is_good = up == count && up == status.servers.len() && is_quiet;
                if is_good { Ok(()) } else { Err(standing(&status)) }
            }))
        });
        self.with_logs(waited)
    }

    /// Waits until the coordinator counts exactly `count` servers as up, whatever is being recovered.
    pub fn wait_counted(&self, count: usize) -> Result<(), Failure> {
        let waited = wait_for("servers counted as up", RECOVER_WITHIN, || {
            Ok(self.status().map_err(|failure| failure.0).and_then(|status| {
                let up = status.servers.iter().filter(|entry| entry.state == ServerState::Up).count();
                if up == count { Ok(()) } else { Err(standing(&status)) }
            }))
        });
        self.with_logs(waited)
    }

    /// The status of every server that is up, as the server reports it.
    pub fn processes(&self) -> Result<Vec<ProcessStatus>, Failure> {
        self.look(|client| {
            let status = client.cluster_status()?;
            let up = status.servers.iter().filter(|entry| entry.state == ServerState::Up);
            up.map(|entry| client.server_status(entry.address.0)).collect()
        })
    }

    /// Bytes of live entries in each server that is up, by member.
    pub fn live_bytes(&self) -> Result<Vec<(usize, u64)>, Failure> {
        let held = self.look(|client| {
            let servers = client.cluster_status()?.servers;
            let up =
                servers.iter().filter(|entry| entry.state == ServerState::Up).map(|entry| entry.address.0);
            up.map(|address| Ok((address, client.server_status(address)?.log_live_bytes)))
                .collect::<Result<Vec<_>, _>>()
        })?;
        let member = |address| self.addresses.iter().position(|own| *own == address);
        let named = |(address, bytes)| {
            Ok((member(address).ok_or_else(|| Failure(format!("{address} is none of ours")))?, bytes))
        };
        held.into_iter().map(named).collect()
    }

    /// The newest recoveries.
    pub fn recoveries(&self, newest: usize) -> Result<Vec<RecoveryReport>, Failure> {
        let mut reports = self.look(|client| client.recoveries())?;
        reports.truncate(newest);
        Ok(reports)
    }

    /// Waits until every segment has all its replicas, and no backup holds more than these (D6, D7). `spare`:
    /// further frames that may be in use, for segments that come and go under load. Returns the frames at
    /// that moment.
    pub fn wait_replicated(&self, spare: u64) -> Result<Frames, Failure> {
        let what = "every segment on all its backups, and no frame beyond";
        let mut frames = Frames::default();
        let waited = wait_for(what, RECOVER_WITHIN, || {
            Ok(self.processes().map_err(|failure| failure.0).and_then(|processes| {
                let streams = || processes.iter().flat_map(|process| &process.streams);
                let incomplete: u64 = streams().map(|stream| stream.incomplete_segments).sum();
                let wanted: u64 = streams().map(|stream| stream.segments * u64::from(stream.replicas)).sum();
                let backups = processes.iter().filter_map(|process| process.backup.as_ref());
                let used: u64 = backups.map(|backup| backup.frames_used).sum();
                // With frames to spare the load is on. Then a head that is just being opened is always
                // incomplete.
                let is_whole = incomplete == 0 || (spare > 0 && incomplete <= processes.len() as u64);
                let is_good = is_whole && used >= wanted.saturating_sub(spare) && used <= wanted + spare;
                frames = Frames { used, wanted };
                let standing =
                    format!("{incomplete} segments are incomplete; {used} frames in use, {wanted} wanted");
                if is_good { Ok(()) } else { Err(standing) }
            }))
        });
        self.with_logs(waited)?;
        Ok(frames)
    }

    /// Checks that no started process has ended by itself.
    fn check_running(&self) -> Result<(), Failure> {
        let ended =
            self.members.iter().flatten().find_map(|process| Some((process.name(), process.ended()?)));
        ended.map_or(Ok(()), |(name, status)| Err(Failure(format!("{name} has ended: {status}"))))
    }

    /// Adds the logs of the processes to a failure.
    fn with_logs(&self, waited: Result<(), Failure>) -> Result<(), Failure> {
        waited.map_err(|failure| Failure(format!("{failure}\n{}", self.logs())))
    }

    /// The last lines of every log, for a failure.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for member in 0..self.members.len() {
            let log = self.scratch.dir().join("logs").join(format!("{}.log", name(member)));
            let printed = std::fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = printed.lines().collect();
            text += &format!(
                "--- {}\n{}\n",
                name(member),
                lines[lines.len().saturating_sub(LOG_LINE_COUNT)..].join("\n")
            );
        }
        text
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        if std::env::var_os(KEEP).is_some() {
            self.scratch.keep();
        }
        self.kill_all();
    }
}

pub fn name(member: usize) -> String {
    if member == COORDINATOR { "coordinator".to_owned() } else { format!("server-{member}") }
}

fn standing(status: &ClusterStatus) -> String {
    let servers: Vec<String> =
        status.servers.iter().map(|entry| format!("{} {:?}", entry.id, entry.state)).collect();
    let recoveries: Vec<String> = status
        .recoveries
        .iter()
        .map(|report| {
            format!(
                "{} of {}: {:?}, {}/{} partitions, missing [{}]",
                report.recovery,
                report.crashed,
                report.phase,
                report.partitions_live,
                report.partitions,
                report.missing.join("; ")
            )
        })
        .collect();
    format!("servers: {}; recoveries: {}", servers.join(", "), recoveries.join(" | "))
}

/// Ports below those of outgoing connections, so that a restarted member finds its port free.
pub fn free_ports(count: usize) -> Vec<u16> {
    let mut rng = Rng::new(RandomState::new().hash_one(std::process::id()));
    loop {
        let first = u16::try_from(rng.between(20_000, 31_000)).expect("in the range of ports");
        let ports: Vec<u16> = (first..).take(count).collect();
        if ports.iter().all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()) {
            return ports;
        }
    }
}
