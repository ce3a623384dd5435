//! Keeps the children of `ramhold dev` running, and stops them in order.

use super::record::{Held, Record};
use crate::failure::Failure;
use crate::interrupt;
use crate::local::{LocalCluster, Plan, wait_until_healthy, wait_until_redis_is_served};
use crate::output;
use crate::process::code_of;
use crate::size::bytes_text;
use crate::supervising::{LOOK_INTERVAL, Supervising};
use ramhold_client::{Client, ClusterStatus, ServerState};
use ramhold_supervisor::{Act, ChargeConfig, Ended, RestartLimit};
use ramhold_wire::ReplicaPlacement;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// How long a cluster may take to come up, recoveries of a cold start not counted.
pub const START_WITHIN: Duration = Duration::from_secs(60);
/// From a death to the next life.
const RESPAWN_AFTER: Duration = Duration::from_secs(2);
/// Flushing everything to a slow disk.
const STOP_WITHIN: Duration = Duration::from_secs(120);
/// Where commands look for the coordinator when nothing else is said.
const COORDINATOR_PORT: u16 = 7400;
/// The treatment of a process that has died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dead {
    /// Bricks stay offline after so many restarts.
    StartAgain { limit: RestartLimit },
    /// As `--no-respawn` says.
    Leave,
}

pub fn run(plan: Plan, dead: Dead, _held: &Held) -> Result<(), Failure> {
    interrupt::watch()?;
    let mut cluster = LocalCluster::new(plan)?;
    let mut bricks = match dead {
        Dead::StartAgain { limit } if cluster.plan.brick_count > 0 => {
            Some(supervise_bricks(&mut cluster, limit)?)
        }
        Dead::StartAgain { .. } | Dead::Leave => None,
    };
    let mut client = start_in_order(&mut cluster)?;
    wait_until_redis_is_served(&mut cluster, START_WITHIN)?;
    check_frames(&mut client)?;
    drop(client);
    Record::of(&cluster, true).write(&cluster.plan.dir)?;
    output::print(&banner(&cluster.plan))?;

    supervise(&mut cluster, dead, bricks.as_mut())?;
    // Nobody restarts the bricks that stop now.
    drop(bricks);

    output::print("stopping: the coordinator first, then all servers, which flush\n")?;
    // A second Ctrl-C ends the wait.
    let left = cluster.stop(STOP_WITHIN, &mut interrupt::take);
    if left.is_empty() {
        return output::print("stopped; everything is flushed\n");
    }
    Err(Failure::usage(format!(
        "these processes did not stop in time and were killed: {}; writes that they had not flushed are still in their buffers in memory",
        left.join(", ")
    )))
}

/// One server after the other, so that server-1 is s1, and so on: their names rise as their directories' do. Then the
/// bricks in the same way.
fn start_in_order(cluster: &mut LocalCluster) -> Result<Client, Failure> {
    cluster.start(0)?;
    for server in 1..=cluster.plan.server_count() {
        cluster.start(server)?;
        Record::of(cluster, false).write(&cluster.plan.dir)?;
        let address = cluster.plan.address(server);
        let is_there = |status: &ClusterStatus| {
            status.servers.iter().any(|known| known.address.0 == address && known.state == ServerState::Up)
        };
        drop(wait_until_healthy(cluster, 0, START_WITHIN, is_there)?);
    }
    for brick in cluster.plan.server_count() + 1..cluster.plan.ports.len() {
        cluster.start(brick)?;
        Record::of(cluster, false).write(&cluster.plan.dir)?;
        let address = cluster.plan.address(brick);
        let is_there = |status: &ClusterStatus| {
            status.bricks.iter().any(|known| known.address.0 == address && known.heard_millis.is_some())
        };
        drop(wait_until_healthy(cluster, 0, START_WITHIN, is_there)?);
    }
    let count = cluster.plan.server_count();
    wait_until_healthy(cluster, count, START_WITHIN, |_| true)
}

/// A server without any frame takes no replicas: that all are up would be half of the truth. One that has frames, none of
/// them free, is needed for what they hold.
fn check_frames(client: &mut Client) -> Result<(), Failure> {
    for server in client.cluster_status()?.servers {
        let Some(backup) = client.server_status(server.address.0)?.backup else { continue };
        let Some(full) = backup.full else { continue };
        let text = format!("{} takes no replicas: disk full: {full}; free space there", server.id);
        if backup.frames == 0 {
            return Err(Failure::usage(text));
        }
        if full.frames_free == 0 {
            output::print(&format!("{text}, or writes may wait\n"))?;
        }
    }
    Ok(())
}

/// Restarts bricks as `ramhold supervise` does. They run already, or will soon.
fn supervise_bricks(cluster: &mut LocalCluster, limit: RestartLimit) -> Result<Supervising, Failure> {
    let plan = &mut cluster.plan;
    let members = plan.server_count() + 1..plan.ports.len();
    let charge = |member| ChargeConfig {
        name: plan.name(member),
        address: plan.address(member),
        limit,
        is_foreign: false,
    };
    let bricks = Supervising::new((Ipv4Addr::LOCALHOST, 0).into(), members.map(charge).collect())?;
    plan.supervisor = Some(bricks.address().port());
    Ok(bricks)
}

/// Carries out what the supervisor of bricks wants.
fn carry_out(cluster: &mut LocalCluster, bricks: &mut Supervising) -> Result<bool, Failure> {
    let first = cluster.plan.server_count() + 1;
    let mut is_changed = false;
    for (index, act) in bricks.turn().unwrap_or_default() {
        let member = first + index;
        match act {
            Act::Start => {
                // At first it runs already.
                if cluster.child(member).is_none() {
                    cluster.start(member)?;
                    is_changed = true;
                }
                bricks.started(index);
            }
            Act::Stop => cluster.signal(member, Signal::TERM),
            Act::Kill => cluster.signal(member, Signal::KILL),
        }
    }
    Ok(is_changed)
}

/// Until somebody wants the end.
fn supervise(
    cluster: &mut LocalCluster,
    dead: Dead,
    mut bricks: Option<&mut Supervising>,
) -> Result<(), Failure> {
    let mut respawn: BTreeMap<usize, Instant> = BTreeMap::new();
    while !interrupt::take() {
        let mut is_changed = false;
        match &mut bricks {
            Some(bricks) => is_changed |= carry_out(cluster, bricks)?,
            None => std::thread::sleep(LOOK_INTERVAL),
        }
        for (member, status) in cluster.take_ended() {
            is_changed = true;
            if let Some(bricks) = bricks.as_mut().filter(|_| cluster.plan.is_brick(member)) {
                let end = Ended { how: &status.to_string(), code: code_of(status) };
                bricks.ended(member - cluster.plan.server_count() - 1, end);
                continue;
            }
            tell_death(&cluster.plan.name(member), status, dead);
            match dead {
                Dead::StartAgain { .. } => {
                    respawn.insert(member, Instant::now() + RESPAWN_AFTER);
                }
                Dead::Leave => {}
            }
        }
        let now = Instant::now();
        let due: Vec<usize> =
            respawn.iter().filter(|(_, at)| **at <= now).map(|(member, _)| *member).collect();
        for member in &due {
            respawn.remove(member);
            cluster.start(*member)?;
        }
        if is_changed || !due.is_empty() {
            // A full disk must not end the cluster. The next change writes the record again.
            if let Err(failure) = Record::of(cluster, true).write(&cluster.plan.dir) {
                output::tell(&format!("ramhold: {}", failure.text()));
            }
        }
    }
    Ok(())
}

fn tell_death(name: &str, status: ExitStatus, dead: Dead) {
    let then = match dead {
        Dead::Leave => "it stays dead (--no-respawn)".to_owned(),
        Dead::StartAgain { .. } => format!("starting it again in {} s", RESPAWN_AFTER.as_secs()),
    };
    output::tell(&format!("ramhold: {name} has ended ({status}); {then}"));
}

pub fn banner(plan: &Plan) -> String {
    let first = plan.ports[1];
    let last = plan.ports[plan.server_count()];
    let cluster = if plan.ports[0] == COORDINATOR_PORT {
        String::new()
    } else {
        format!(" --cluster {}", plan.coordinator())
    };
    let replicas = match plan.default_replicas {
        0 => "0 by default: each table is in one server's memory alone".to_owned(),
        count => format!("{count} by default, each on another server than the data"),
    };
    let replicas = match plan.placement {
        ReplicaPlacement::Scatter => replicas,
        placement => format!("{replicas}; placed by {placement}"),
    };
    let redis = match plan.resp_port {
        Some(port) => format!("redis-cli -p {port} set hello world"),
        None => format!("redis-cli -p {first} set hello world   (6379 is in use)"),
    };
    let shared = match plan.resp_port {
        Some(port) => format!("127.0.0.1:{port} (all clients), "),
        None => String::new(),
    };
    let databases: String = plan
        .resp_tables
        .iter()
        .map(|(number, table)| format!("  database     {number} of Redis clients is table '{table}'\n"))
        .collect();
    let redis_cluster = match plan.resp_cluster_port {
        Some(port) => format!(
            "{shared}127.0.0.1:{port} to {} (clients in\n               cluster mode)",
            usize::from(port) + plan.server_count() - 1
        ),
        None => "no ports for cluster mode: the usual ones are in use; give --resp-cluster-port".to_owned(),
    };
    let admin = match plan.admin_port {
        Some(port) => format!(
            "http://127.0.0.1:{port}/metrics, /health and /ready (coordinator),\n               {} to {} ({})",
            port + 1,
            usize::from(port) + plan.ports.len() - 1,
            if plan.brick_count == 0 { "servers" } else { "servers, bricks" }
        ),
        None => "off: the usual ports are in use; give --admin-port".to_owned(),
    };
    let bricks = match plan.brick_count {
        0 => String::new(),
        _ => {
            let (first, last) = (plan.ports[plan.server_count() + 1], plan.ports[plan.ports.len() - 1]);
            format!("  bricks       127.0.0.1:{first} to {last}, for tables with --quorum\n")
        }
    };
    format!(
        "ramhold dev: {servers} up\n\
         \x20 coordinator  {coordinator}\n\
         \x20 servers      127.0.0.1:{first} to {last}\n\
         {bricks}\
         \x20 redis        {redis_cluster}\n\
         {databases}\
         \x20 admin        {admin}\n\
         \x20 directory    {dir}\n\
         \x20 replicas     {replicas}\n\
         \x20 try          ramhold{cluster} table create notes\n\
         \x20              ramhold{cluster} put notes hello world\n\
         \x20              ramhold{cluster} status\n\
         \x20              {redis}\n\
         \x20 protects     against the death of processes, not of this machine: all\n\
         \x20              copies are on it\n\
         \x20 end          Ctrl-C, or 'ramhold stop --dir {dir}'\n",
        servers = match (plan.server_count(), bytes_text(plan.memory_bytes)) {
            (1, memory) => format!("1 server with {memory} is"),
            (count, memory) => format!("{count} servers with {memory} each are"),
        },
        coordinator = plan.coordinator(),
        dir = plan.dir.display(),
    )
}
