//! `ramhold dev`: a cluster on this machine, in one command.
//!
//! This process is the supervisor: it starts the coordinator and the servers as its children, restarts a dead
//! one, and stops them in order. With `--detach`, the supervisor is a child process in its own session, and
//! this process only waits until the supervisor reports that the cluster is healthy.

mod record;
mod supervisor;

pub use record::Record;

use super::coordinator::check_zone_local;
use super::server::arguments::parse_database;
use super::server::device::{FRAMES_MIN, FRAMES_MIN_BYTES, held_bytes};
use crate::cross_slot::{cross_slot_text, parse_cross_slot};
use crate::failure::Failure;
use crate::local::{Output, Plan, check_free, is_free, tail};
use crate::memory::{BRICK_MEMORY_MIN, check_available};
use crate::output;
use crate::size::{bytes_text, parse_bytes};
use crate::supervising::{
    RESTART_LIMIT, RESTART_LOAD, RESTART_THRESHOLD, RestartThreshold, parse_restart_limit,
    parse_restart_load, parse_restart_threshold, restart_limit_text, restart_load_text,
    restart_threshold_text,
};
use clap::Args;
use ramhold_base::limits::{REPLICA_COUNT_DEFAULT, REPLICA_COUNT_MAX};
use ramhold_node::{CrossSlot, RestartLoad};
use ramhold_placement::{Grid, check_neighbourhoods};
use ramhold_supervisor::RestartLimit;
use ramhold_wire::ReplicaPlacement;
use ramhold_wire::topology::Topology;
use record::Held;
use std::fs::{self, DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use supervisor::{Dead, START_WITHIN};

/// A server's replicas take what the others' logs hold, three times over, with what is dead and not cleaned yet, and a
/// quarter is left for recoveries.
const DISK_PER_MEMORY: u64 = 8;

/// For each process beside frames: the coordinator's store, logs, and what is written to measure the device.
const OTHERS_BYTES: u64 = 16 << 20;

/// Where Redis listens.
const RESP_PORT: u16 = 6379;

/// How far above the ports of the processes their admin ports are.
const ADMIN_PORT_STEP: u16 = 1000;
/// Ports for clients of Redis Cluster stand so far above those of the servers.
const CLUSTER_PORT_STEP: u16 = 2000;

const HELP: &str = "\
Examples:
  ramhold dev
      five servers in a temporary directory, until Ctrl-C
  ramhold dev --dir ./cluster --detach
      in the background; 'ramhold stop --dir ./cluster' stops it
  ramhold dev --servers 7 --memory 256MiB --port 7500
  ramhold dev --servers 3 --replicas 2
      as many copies as three servers can keep
  ramhold dev --servers 12 --placement copyset
      replicas in few sets of servers
  ramhold dev --servers 3 --replicas 2 --bricks 3
      then: ramhold table create carts --quorum 3
  ramhold dev --servers 3 --replicas 2 --bricks 3 --resp-table 1=carts
      and then: redis-cli -n 1 set hello world
  ramhold dev --servers 6 --topology zones --placement zone-local
      three zones, and servers are recovered in their own
  ramhold dev --servers 9 --topology bcube:3,1 --placement multiring

Then, in another terminal:
  ramhold table create notes
  ramhold put notes hello world
  ramhold get notes hello
  redis-cli set hello world
      any Redis client, at port 6379

Every server is a process and a failure domain of its own. That protects against
the death of processes, not of the machine. Ctrl-C or 'ramhold stop' stops the
cluster cleanly. The same --dir starts it again with all data.";

/// Run a cluster on this machine.
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Dev {
    /// Number of servers.
    #[arg(long, env = "RAMHOLD_SERVERS", default_value_t = 5, value_name = "COUNT",
        value_parser = clap::value_parser!(u16).range(1..=64))]
    servers: u16,
    /// Number of bricks, for tables with --quorum; each a process of its own.
    #[arg(long, env = "RAMHOLD_BRICKS", default_value_t = 0, value_name = "COUNT",
        value_parser = clap::value_parser!(u16).range(0..=64))]
    bricks: u16,
    /// Give bricks that hold nothing a share of the tables with --quorum, as 'ramhold brick add' does.
    #[arg(long, env = "RAMHOLD_AUTO_SCALE")]
    auto_scale: bool,
    /// Copies of a table that is created without --replicas, each on another server than its data: 0 to 7. A
    /// new number applies to new tables only [default: 3, or the number of other servers if that is less]
    #[arg(long, env = "RAMHOLD_REPLICAS", value_name = "COUNT",
        value_parser = clap::value_parser!(u8).range(0..=i64::from(REPLICA_COUNT_MAX)))]
    replicas: Option<u8>,
    /// Placement of replicas: 'scatter', 'copyset', 'zone-local', 'multiring', 'multiring-strict' or
    /// 'rack-local', as for 'ramhold coordinator'.
    #[arg(long, env = "RAMHOLD_PLACEMENT", value_name = "HOW", default_value = "scatter")]
    placement: ReplicaPlacement,
    /// Topology of a network to play: 'zones' labels the servers zone=a, b and c in turn, 'bcube:N,K' and
    /// 'grid:R0,R1,...' give them the first places. Give it at every start, and take another --dir for
    /// another one; see 'ramhold topology'.
    #[arg(long, env = "RAMHOLD_TOPOLOGY", value_name = "NETWORK", default_value = "flat")]
    topology: Topology,
    /// Memory of each server.
    #[arg(long, env = "RAMHOLD_MEMORY", value_name = "SIZE", default_value = "512MiB", value_parser = parse_bytes)]
    memory: u64,
    /// Disk space of each server [default: eight times its memory, or its share of the free space if that is
    /// less]
    #[arg(long, env = "RAMHOLD_DISK", value_name = "SIZE", value_parser = parse_bytes)]
    disk: Option<u64>,
    /// Directory of the cluster [default: a temporary directory, which is removed at the end]
    #[arg(long, env = "RAMHOLD_DIR")]
    dir: Option<PathBuf>,
    /// Port of the coordinator; the servers use the next ports.
    #[arg(long, env = "RAMHOLD_PORT", default_value_t = 7400)]
    port: u16,
    /// Port for Redis clients, shared by all servers [default: 6379 if it is free]
    #[arg(long, env = "RAMHOLD_RESP_PORT", value_parser = clap::value_parser!(u16).range(1..))]
    resp_port: Option<u16>,
    /// Port of the first server for clients of Redis Cluster; the other servers use the next ports [default:
    /// 2000 above the first server's port, if the ports are free]
    #[arg(long, env = "RAMHOLD_RESP_CLUSTER_PORT", value_parser = clap::value_parser!(u16).range(1..))]
    resp_cluster_port: Option<u16>,
    /// Table of a Redis database: NUMBER=TABLE, as for 'ramhold server'. May be repeated. Create a table with
    /// --quorum before Redis clients use its database: a missing table is made as an ordinary one.
    #[arg(long, env = "RAMHOLD_RESP_TABLE", value_name = "NUMBER=TABLE", value_delimiter = ',', value_parser = parse_database)]
    resp_table: Vec<(u16, String)>,
    /// Whether a Redis command or transaction may have keys of several hash slots: 'strict' refuses it,
    /// 'allow' accepts it if one server has all the keys.
    #[arg(long, env = "RAMHOLD_RESP_CROSS_SLOT", value_name = "HOW", default_value = "strict",
        value_parser = parse_cross_slot)]
    resp_cross_slot: CrossSlot,
    /// HTTP port of the coordinator for metrics and health; the servers use the next ports [default: 1000
    /// above --port, if the ports are free]
    #[arg(long, env = "RAMHOLD_ADMIN_PORT", value_parser = clap::value_parser!(u16).range(1..))]
    admin_port: Option<u16>,
    /// Return as soon as the cluster is healthy, and leave it running in the background.
    #[arg(long, requires = "dir")]
    detach: bool,
    /// Restarts of a brick within a time after which it stays offline: COUNT/TIME, or 'none'.
    #[arg(long, env = "RAMHOLD_RESTART_LIMIT", value_name = "LIMIT", default_value = RESTART_LIMIT,
        value_parser = parse_restart_limit)]
    restart_limit: RestartLimit,
    /// When a brick serves after a start: 'preload' or 'incremental', as for 'ramhold server --brick'.
    #[arg(long, env = "RAMHOLD_RESTART_LOAD", value_name = "WHEN", default_value = RESTART_LOAD,
        value_parser = parse_restart_load)]
    restart_load: RestartLoad,
    /// Statistics of 17 that must be unlike those of the other bricks before a brick that answers is restarted,
    /// or 'off'.
    #[arg(long, env = "RAMHOLD_RESTART_THRESHOLD", value_name = "COUNT", default_value = RESTART_THRESHOLD,
        value_parser = parse_restart_threshold)]
    restart_threshold: RestartThreshold,
    /// Do not start a dead process again.
    #[arg(long, env = "RAMHOLD_NO_RESPAWN")]
    no_respawn: bool,
    /// File with options: TOML, keys as the long options without --.
    #[arg(long, env = "RAMHOLD_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// This is the process in the background.
    #[arg(long, hide = true)]
    detached: bool,
}

impl Dev {
    fn members_text(&self) -> String {
        match self.bricks {
            0 => format!("{} servers", self.servers),
            bricks => format!("{} servers and {bricks} bricks", self.servers),
        }
    }
}

pub fn run(arguments: Dev) -> Result<(), Failure> {
    if arguments.detach && !arguments.detached {
        return detach(&arguments);
    }
    if arguments.detached {
        rustix::process::setsid()
            .map_err(|error| Failure::usage(format!("cannot leave the terminal's session: {error}")))?;
    }
    let (dir, is_temporary) = directory(arguments.dir.as_deref())?;
    let held = Held::take(&dir)?;
    let dead = match arguments.no_respawn {
        true => Dead::Leave,
        false => Dead::StartAgain { limit: arguments.restart_limit },
    };
    let result = prepare(&arguments, &dir).and_then(|plan| supervisor::run(plan, dead, &held));
    if is_temporary {
        // The cluster's processes have ended. Files that cannot be removed stay in /tmp.
        let _ = fs::remove_dir_all(&dir);
    }
    result
}

/// The directory without links, and whether it is only for this run.
fn directory(named: Option<&Path>) -> Result<(PathBuf, bool), Failure> {
    let path = named.map_or_else(
        || std::env::temp_dir().join(format!("ramhold-dev-{}", std::process::id())),
        Path::to_path_buf,
    );
    let failed = |error: std::io::Error| Failure::local(&path, &error).about("--dir");
    DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed)?;
    Ok((path.canonicalize().map_err(failed)?, named.is_none()))
}

fn prepare(arguments: &Dev, dir: &Path) -> Result<Plan, Failure> {
    let members = u32::from(arguments.servers) + u32::from(arguments.bricks);
    let last = u32::from(arguments.port) + members;
    let Ok(last) = u16::try_from(last) else {
        return Err(Failure::usage(format!(
            "--port {} leaves no ports above it for the servers and bricks; give a lower --port",
            arguments.port
        )));
    };
    let places = Grid::of(&arguments.topology).map(|grid| grid.server_count());
    if let Some(places) = places.filter(|places| *places < u64::from(arguments.servers)) {
        return Err(Failure::usage(format!(
            "--topology {} has {places} places for {} servers; give fewer --servers, or a larger topology",
            arguments.topology, arguments.servers
        )));
    }
    let replicas = default_replicas(arguments.replicas, arguments.servers).map_err(Failure::usage)?;
    check_neighbourhoods(&arguments.topology, arguments.placement).map_err(Failure::usage)?;
    if arguments.placement == ReplicaPlacement::ZoneLocal {
        if arguments.topology != Topology::Zones {
            return Err(Failure::usage("--placement zone-local needs zones; give --topology zones as well"));
        }
        check_zone_local(replicas)?;
    }
    let missing = (usize::from(arguments.servers) + 1..)
        .take_while(|member| dir.join(crate::local::name(*member)).exists());
    let more = missing.count();
    if more > 0 {
        return Err(Failure::usage(format!(
            "{} has the data of {} servers; give --servers {}, or another --dir",
            dir.display(),
            usize::from(arguments.servers) + more,
            usize::from(arguments.servers) + more
        )));
    }
    let bricks = usize::from(arguments.bricks);
    let more = (bricks + 1..).take_while(|brick| dir.join(crate::local::brick_name(*brick)).exists()).count();
    if more > 0 {
        return Err(Failure::usage(format!(
            "{} has the data of {count} bricks; give --bricks {count}, or another --dir",
            dir.display(),
            count = bricks + more
        )));
    }
    let brick_memory = arguments.memory.max(BRICK_MEMORY_MIN);
    let memory = arguments.memory.saturating_mul(u64::from(arguments.servers));
    let memory = memory.saturating_add(brick_memory.saturating_mul(u64::from(arguments.bricks)));
    check_available(memory, 0, ramhold_runtime::memory_available()).map_err(|text| {
        Failure::usage(format!(
            "{} with {} each: {text}",
            arguments.members_text(),
            bytes_text(arguments.memory)
        ))
    })?;
    let disk_bytes = disk_of_each(dir, arguments).map_err(|failure| failure.about("--dir"))?;
    let ports: Vec<u16> = (arguments.port..=last).collect();
    check_free(&ports)?;
    let resp_port = resp_port(arguments, &ports)?;
    let ours: Vec<u16> = ports.iter().copied().chain(resp_port).collect();
    let admin_port =
        Row { option: "--admin-port", count: ports.len(), usual: ports[0].checked_add(ADMIN_PORT_STEP) }
            .choose(arguments.admin_port, &ours)?;
    let admin_ports = admin_port.into_iter().flat_map(|first| (first..).take(ports.len()));
    let ours: Vec<u16> = ours.iter().copied().chain(admin_ports).collect();
    let usual_cluster_port = ports[1].checked_add(CLUSTER_PORT_STEP);
    let cluster_ports = Row {
        option: "--resp-cluster-port",
        count: usize::from(arguments.servers),
        usual: usual_cluster_port,
    };
    let resp_cluster_port = cluster_ports.choose(arguments.resp_cluster_port, &ours)?;
    Ok(Plan {
        dir: dir.to_owned(),
        ports,
        brick_count: bricks,
        memory_bytes: arguments.memory,
        buffer_bytes: None,
        disk_bytes,
        default_replicas: replicas,
        auto_scale: arguments.auto_scale,
        placement: arguments.placement,
        topology: arguments.topology.clone(),
        resp_port,
        resp_cluster_port,
        resp_tables: arguments.resp_table.clone(),
        resp_cross_slot: arguments.resp_cross_slot,
        admin_port,
        buffer_dir: None,
        supervisor: None,
        restart_load: arguments.restart_load,
        restart_threshold: arguments.restart_threshold,
        output: Output::Warnings,
    })
}

/// The bytes that each server may take on the device. All of them share its file system, so it is their sum that must fit; what a
/// cluster holds already counts as room, and one that holds something starts however full the file system is.
fn disk_of_each(dir: &Path, arguments: &Dev) -> Result<u64, Failure> {
    let free = ramhold_runtime::free_space(dir).map_err(|error| Failure::local(dir, &error))?;
    let servers = (1..=usize::from(arguments.servers)).map(crate::local::name);
    let bricks = (1..=usize::from(arguments.bricks)).map(crate::local::brick_name);
    let held: u64 = servers.chain(bricks).map(|name| held_bytes(&dir.join(name))).sum();
    let wanted = arguments.memory.saturating_mul(DISK_PER_MEMORY);
    let room = Room { free, held, servers: u64::from(arguments.servers) + u64::from(arguments.bricks) };
    room.share(arguments.disk, wanted)
        .map_err(|text| Failure::usage(format!("the file system of {} {text}", dir.display())))
}

/// The room of a file system for the servers of one cluster, in bytes.
#[derive(Clone, Copy, Debug)]
struct Room {
    free: u64,
    held: u64,
    servers: u64,
}

impl Room {
    /// The part of each server: as asked for, or `usual` as far as there is room for it.
    fn share(self, asked: Option<u64>, usual: u64) -> Result<u64, String> {
        let others = OTHERS_BYTES * (self.servers + 1);
        let room = self.free.saturating_sub(others).saturating_add(self.held);
        let share = room / self.servers;
        if self.held > 0 {
            return Ok(asked.unwrap_or(usual.min(share.max(FRAMES_MIN_BYTES))));
        }
        if share < FRAMES_MIN_BYTES {
            return Err(format!(
                "has {} free, and {} servers need {}: {} each for their first {FRAMES_MIN} frames, and {} for everything \
                 else; free space there, or give another --dir or fewer --servers",
                bytes_text(self.free),
                self.servers,
                bytes_text(FRAMES_MIN_BYTES * self.servers + others),
                bytes_text(FRAMES_MIN_BYTES),
                bytes_text(others)
            ));
        }
        match asked {
            Some(disk) if disk > share => Err(format!(
                "has {} free, and {} servers with --disk {} need more; give --disk {}MiB or less, fewer --servers, or \
                 another --dir",
                bytes_text(self.free),
                self.servers,
                bytes_text(disk),
                share >> 20
            )),
            Some(disk) => Ok(disk),
            None => Ok(usual.min(share)),
        }
    }
}

/// The port for Redis clients that is asked for, or the usual one if nobody listens there.
fn resp_port(arguments: &Dev, ports: &[u16]) -> Result<Option<u16>, Failure> {
    match arguments.resp_port {
        Some(port) if ports.contains(&port) => Err(Failure::usage(format!(
            "--resp-port {port} is the port of a process of this cluster; choose another port"
        ))),
        Some(port) if !is_free(port) => Err(Failure::usage(format!(
            "port {port} of 127.0.0.1 is in use; choose another with --resp-port"
        ))),
        Some(port) => Ok(Some(port)),
        None => Ok(Some(RESP_PORT).filter(|port| is_free(*port) && !ports.contains(port))),
    }
}

/// Ports side by side, one for each of some processes.
struct Row {
    option: &'static str,
    count: usize,
    /// The first one, unless the user says another.
    usual: Option<u16>,
}

impl Row {
    /// The first port: the one that is asked for, or the usual one if nobody listens there and behind it.
    fn choose(&self, asked: Option<u16>, ours: &[u16]) -> Result<Option<u16>, Failure> {
        let count = u16::try_from(self.count).expect("a port for each process");
        let fits = |first: u16| {
            let last = first.checked_add(count - 1)?;
            Some((first..=last).all(|port| is_free(port) && !ours.contains(&port)))
        };
        match asked {
            Some(port) if fits(port) != Some(true) => Err(Failure::usage(format!(
                "{} {port}: this needs {count} free ports in a row, and not all are free; choose another port",
                self.option
            ))),
            Some(port) => Ok(Some(port)),
            None => Ok(self.usual.filter(|port| fits(*port) == Some(true))),
        }
    }
}

/// The number of `--replicas`, or as many as fit. Writes to a table wait until each of its copies has a server of its
/// own, so a larger default would serve nobody.
fn default_replicas(said: Option<u8>, servers: u16) -> Result<u8, String> {
    let others = u8::try_from(servers.saturating_sub(1)).unwrap_or(u8::MAX);
    let replicas = said.unwrap_or(REPLICA_COUNT_DEFAULT.min(others));
    if replicas <= others {
        return Ok(replicas);
    }
    Err(format!(
        "{replicas} replicas need {} servers, because each copy is on another server than the data, and there are \
         {servers}; give --servers {}, or --replicas {others}",
        u16::from(replicas) + 1,
        u16::from(replicas) + 1
    ))
}

/// Starts the supervisor in the background and waits for its word.
fn detach(arguments: &Dev) -> Result<(), Failure> {
    let (dir, _) = directory(arguments.dir.as_deref())?;
    // The supervisor checks all of this again. Here an error can be reported at once.
    drop(Held::take(&dir)?);
    let plan = prepare(arguments, &dir)?;
    let logs = dir.join("logs");
    fs::create_dir_all(&logs).map_err(|error| Failure::local(&logs, &error))?;
    let log_path = logs.join("dev.log");
    let failed = |error: std::io::Error| Failure::local(&log_path, &error);
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&log_path).map_err(failed)?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::usage(format!("cannot find this program's own file: {error}")))?;
    let mut command = Command::new(program);
    command.args(["dev", "--detach", "--detached", "--dir"]).arg(&dir);
    command.args(["--servers", &arguments.servers.to_string(), "--port", &arguments.port.to_string()]);
    command.args(["--bricks", &arguments.bricks.to_string()]);
    command.args(["--restart-limit", &restart_limit_text(arguments.restart_limit)]);
    command.args(["--restart-load", restart_load_text(arguments.restart_load)]);
    command.args(["--restart-threshold", &restart_threshold_text(arguments.restart_threshold)]);
    command.args(["--replicas", &plan.default_replicas.to_string()]);
    command.args(["--placement", &plan.placement.to_string()]);
    command.args(["--topology", &plan.topology.to_string()]);
    command.args(["--memory", &plan.memory_bytes.to_string(), "--disk", &plan.disk_bytes.to_string()]);
    if let Some(port) = plan.resp_port {
        command.args(["--resp-port", &port.to_string()]);
    }
    if let Some(port) = plan.resp_cluster_port {
        command.args(["--resp-cluster-port", &port.to_string()]);
    }
    for (number, table) in &plan.resp_tables {
        command.args(["--resp-table", &format!("{number}={table}")]);
    }
    command.args(["--resp-cross-slot", cross_slot_text(plan.resp_cross_slot)]);
    if let Some(port) = plan.admin_port {
        command.args(["--admin-port", &port.to_string()]);
    }
    if arguments.auto_scale {
        command.arg("--auto-scale");
    }
    if arguments.no_respawn {
        command.arg("--no-respawn");
    }
    command.stdin(Stdio::null()).stdout(log.try_clone().map_err(failed)?).stderr(log);
    let mut child = command.spawn().map_err(failed)?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            let last = tail(&log_path);
            let text = format!(
                "the cluster ended while it was starting ({status}): {last}; see {}",
                log_path.display()
            );
            return Err(Failure::usage(text));
        }
        if let Ok(record) = Record::read(&dir)
            && record.pid == child.id()
            && record.healthy
        {
            output::print(&supervisor::banner(&plan))?;
            return output::print(&format!(
                "runs in the background as process {}; 'ramhold stop --dir {}' ends it\n",
                record.pid,
                dir.display()
            ));
        }
        if start.elapsed() > START_WITHIN * 2 {
            return Err(Failure::usage(format!(
                "the cluster is not healthy yet, and continues to start as process {}; see {}",
                child.id(),
                log_path.display()
            )));
        }
        std::thread::sleep(crate::local::LOOK_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_side_by_side_are_free_and_nobody_elses() {
        let ports = crate::local::find_free(4).unwrap();
        let [first, second, third, last] = ports[..] else { panic!("{ports:?}") };
        let row = |usual| Row { option: "--admin-port", count: 2, usual };
        assert_eq!(row(None).choose(Some(third), &[first, second]).unwrap(), Some(third));
        for (asked, resp) in [(second, None), (third, Some(last))] {
            let ours: Vec<u16> = [first, second].into_iter().chain(resp).collect();
            let refused = row(None).choose(Some(asked), &ours).unwrap_err();
            assert!(refused.text().contains("--admin-port"), "{}", refused.text());
        }
        assert!(row(None).choose(Some(u16::MAX), &[]).is_err());
        assert_eq!(row(Some(u16::MAX)).choose(None, &[]).unwrap(), None);
        assert_eq!(row(Some(third)).choose(None, &[first]).unwrap(), Some(third));
    }

    // D3
    #[test]
    fn the_servers_of_one_file_system_share_it() {
        const GIB: u64 = 1 << 30;
        let room = Room { free: 10 * GIB, held: 0, servers: 4 };
        assert_eq!(room.share(None, 2 * GIB), Ok(2 * GIB));
        assert_eq!(room.share(Some(2 * GIB), 2 * GIB), Ok(2 * GIB));
        let small = Room { free: 4 * GIB, ..room };
        assert_eq!(small.share(None, 2 * GIB), Ok(GIB - 20 * (1 << 20)));
        let refused = small.share(Some(GIB), 2 * GIB).unwrap_err();
        assert!(refused.contains("give --disk 1004MiB or less"), "{refused}");
        let tiny = Room { free: 220 << 20, ..room };
        let refused = tiny.share(None, 2 * GIB).unwrap_err();
        assert!(refused.contains("has 220.0 MiB free, and 4 servers need 272"), "{refused}");
        let held = Room { free: 0, held: 8 * GIB, servers: 4 };
        assert_eq!(held.share(Some(4 * GIB), 2 * GIB), Ok(4 * GIB), "what is there is needed");
        assert!(held.share(None, 2 * GIB).unwrap() >= FRAMES_MIN_BYTES);
    }

    #[test]
    fn each_copy_needs_a_server_of_its_own() {
        // D2
        assert_eq!(default_replicas(Some(3), 4), Ok(3));
        assert_eq!(default_replicas(Some(0), 1), Ok(0));
        assert_eq!([1, 3, 4, 5].map(|servers| default_replicas(None, servers)), [Ok(0), Ok(2), Ok(3), Ok(3)]);
        let refused = default_replicas(Some(3), 3).unwrap_err();
        assert!(refused.contains("--servers 4, or --replicas 2"), "{refused}");
        assert!(default_replicas(Some(1), 1).is_err());
    }
}
