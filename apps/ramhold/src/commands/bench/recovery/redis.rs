//! The two ways in which Redis recovers from the death of a server: a restart from the append-only file, or
//! the failover of a cluster.
//!
//! Both hold the same objects as Ramhold did, and are asked for the same number of them in the same way. All
//! settings are Redis's defaults, except that no dump is written: it would only take time from them.

pub mod connection;
mod process;
mod topology;

use super::asking::{Asking, Read};
use crate::commands::bench::load::{Load, Values, key};
use crate::failure::Failure;
use crate::interrupt;
use crate::local::{find_free, is_free};
use connection::{Connection, Reply, command};
use process::{Server, is_installed};
use ramhold_base::hash::slot_of;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use topology::{Master, masters};

const NODE_COUNT: u16 = 6;
/// A node of a cluster speaks to the others so far above its port.
const BUS_PORT_DISTANCE: u16 = 10_000;
/// Commands sent before the answers to them are read.
const FILL_BATCH: usize = 64;
/// Milliseconds until a replica must have everything.
const WAIT_MILLIS: &[u8] = b"60000";

/// The result of one of the two.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Objects that the dead server held.
    pub objects: u64,
    pub read: Read,
}

/// Refuses when what this needs is missing.
pub fn check_installed() -> Result<(), Failure> {
    match ["redis-server", "redis-cli"].into_iter().find(|program| !is_installed(program)) {
        None => Ok(()),
        Some(program) => Err(Failure::usage(format!(
            "{program} is not installed; install it ('apt-get install redis-server' on Debian), or leave out --beside-redis"
        ))),
    }
}

/// Kills a redis-server with an append-only file, and starts it again at once.
pub fn restart(dir: &Path, load: &Load, probes: u64) -> Result<Measured, Failure> {
    let port = find_free(1)?[0];
    let mut server = Server::start(port, &dir.join("redis"), &["--appendonly", "yes"])?;
    server.wait_for(&[b"PING"], |text| text == "PONG")?;
    fill(load, |_| port, &[port])?;
    // Waits until the server's background work is done: rewrites of the append-only file and pending fsyncs.
    server.wait_for(&[b"INFO", b"persistence"], |text| {
        ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0", "aof_pending_bio_fsync:0"]
            .iter()
            .all(|line| text.contains(line))
    })?;
    let keys = probed_of_all(load, probes);
    Asking::begin(&[port], &keys, Instant::now())?.wait()?;
    let killed = Instant::now();
    server.kill();
    server.start_again()?;
    let read = Asking::begin(&[port], &keys, killed)?.wait()?;
    Ok(Measured { objects: load.objects, read })
}

/// Kills one of the three masters of a cluster with a replica each.
pub fn failover(dir: &Path, load: &Load, probes: u64) -> Result<Measured, Failure> {
    let ports = cluster_ports()?;
    let options = ["--cluster-enabled", "yes"];
    let start = |port: &u16| Server::start(*port, &dir.join(format!("redis-{port}")), &options);
    let mut servers = ports.iter().map(start).collect::<Result<Vec<Server>, Failure>>()?;
    for server in &mut servers {
        server.wait_for(&[b"PING"], |text| text == "PONG")?;
    }
    join(&ports)?;
    for server in &mut servers {
        server.wait_for(&[b"CLUSTER", b"INFO"], |text| text.contains("cluster_state:ok"))?;
        server.wait_for(&[b"INFO", b"replication"], |text| {
            text.contains("master_link_status:up") || text.contains("connected_slaves:1")
        })?;
    }
    // The first server learns from the others which server replicates which master. It may learn this later
    // than they do.
    servers[0].wait_for(&[b"CLUSTER", b"NODES"], |text| masters(text).is_some())?;
    let masters = masters_at(ports[0])?;
    let master_of = |object: u64| {
        let slot = slot_of(&key(object, load.key_bytes));
        masters.iter().position(|master| master.has(slot)).expect("a cluster that is ok has all slots")
    };
    let master_ports: Vec<u16> = masters.iter().map(|master| master.port).collect();
    fill(load, |object| masters[master_of(object)].port, &master_ports)?;
    let held: Vec<u64> = (0..load.objects).filter(|object| master_of(*object) == 0).collect();
    if held.is_empty() {
        return Err(Failure::usage("too few objects: a master of the Redis cluster holds none"));
    }
    let Master { port, replica, .. } = masters[0];
    let keys = probed(load, probes, &held);
    Asking::begin(&[port], &keys, Instant::now())?.wait()?;
    let victim = servers.iter_mut().find(|server| server.port == port);
    let killed = Instant::now();
    victim.expect("the master is one of ours").kill();
    // This client already knows the server that its keys will move to.
    let read = Asking::begin(&[replica], &keys, killed)?.wait()?;
    Ok(Measured { objects: held.len() as u64, read })
}

/// The keys of so many of the objects, spread over all.
pub fn probed_of_all(load: &Load, probes: u64) -> Vec<Vec<u8>> {
    probed(load, probes, &(0..load.objects).collect::<Vec<_>>())
}

fn probed(load: &Load, probes: u64, objects: &[u64]) -> Vec<Vec<u8>> {
    let count = (probes as usize).min(objects.len());
    (0..count).map(|number| key(objects[objects.len() / count * number], load.key_bytes)).collect()
}

fn cluster_ports() -> Result<Vec<u16>, Failure> {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        let ports = find_free(NODE_COUNT)?;
        if ports.iter().all(|port| is_free(port + BUS_PORT_DISTANCE)) {
            return Ok(ports);
        }
    }
    Err(Failure::usage(format!("no {NODE_COUNT} ports are free with those {BUS_PORT_DISTANCE} above them")))
}

/// As its users do it.
fn join(ports: &[u16]) -> Result<(), Failure> {
    let mut command = Command::new("redis-cli");
    command.args(["--cluster", "create"]).args(ports.iter().map(|port| format!("127.0.0.1:{port}")));
    command.args(["--cluster-replicas", "1", "--cluster-yes"]).stdin(Stdio::null());
    let ran = command.output().map_err(|error| Failure::usage(format!("redis-cli: {error}")))?;
    if ran.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
    let last = printed.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
    Err(Failure::usage(format!("redis-cli --cluster create: {last}")))
}

fn masters_at(port: u16) -> Result<Vec<Master>, Failure> {
    let reply = Connection::open(port).and_then(|mut connection| connection.ask(&[b"CLUSTER", b"NODES"]));
    let text = reply.map_err(failed)?.text();
    masters(&text).ok_or_else(|| Failure::usage(format!("these are no nodes of a Redis cluster: {text}")))
}

/// Writes every object to the port that `port_of` says, until those that have a replica have it there too.
fn fill(load: &Load, port_of: impl Fn(u64) -> u16, ports: &[u16]) -> Result<(), Failure> {
    let values = Values::new(load);
    let mut writers = ports.iter().map(|port| Writer::open(*port)).collect::<Result<Vec<_>, _>>()?;
    for object in 0..load.objects {
        let port = port_of(object);
        let writer = writers.iter_mut().find(|writer| writer.port == port).expect("it is one of these");
        command(&mut writer.out, &[b"SET", &key(object, load.key_bytes), values.of(object)]);
        writer.count += 1;
        if writer.count == FILL_BATCH {
            interrupt::check()?;
            writer.flush()?;
        }
    }
    for writer in &mut writers {
        writer.flush()?;
        if ports.len() > 1 {
            let reply = writer.connection.ask(&[b"WAIT", b"1", WAIT_MILLIS]).map_err(failed)?;
            if reply != Reply::Number(1) {
                return Err(Failure::usage("a replica of the Redis cluster does not take everything in"));
            }
        }
    }
    Ok(())
}

struct Writer {
    port: u16,
    connection: Connection,
    out: Vec<u8>,
    count: usize,
}

impl Writer {
    fn open(port: u16) -> Result<Writer, Failure> {
        let connection = Connection::open(port).map_err(failed)?;
        Ok(Writer { port, connection, out: Vec::new(), count: 0 })
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.connection.send(&self.out).map_err(failed)?;
        self.out.clear();
        for _ in 0..std::mem::take(&mut self.count) {
            match self.connection.reply().map_err(failed)? {
                Reply::Text(text) if text == b"OK" => {}
                other => return Err(Failure::usage(format!("redis-server refuses a SET: {}", other.text()))),
            }
        }
        Ok(())
    }
}

fn failed(error: std::io::Error) -> Failure {
    Failure::usage(format!("redis-server: {error}"))
}
