//! Sessions of unmodified Redis clients against a cluster of this machine, and servers and bricks that are killed
//! under their load.
//!
//! The sessions are programs in testing/clients. Each asserts its results and ends with an exit code. The
//! environment tells them the addresses of the servers.

use crate::waiting::{Failure, wait_for};
use crate::{BRICK_MEMORY_MIN, Bricks, Cluster, Options};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Addresses for sessions, with commas between.
const SERVERS: &str = "RAMHOLD_RESP";
/// Tells whether sessions play the client's cluster mode, too.
const CLUSTER_MODE: &str = "RAMHOLD_RESP_CLUSTER";
/// Commands that must be acknowledged before a server is killed, and after it is back.
const ACKNOWLEDGED_BETWEEN: u64 = 2000;
const PROGRESS_WITHIN: Duration = Duration::from_secs(120);
const WRITER_ENDS_WITHIN: Duration = Duration::from_secs(180);

/// A session's name and its command line.
#[derive(Clone, Debug)]
pub struct Session {
    pub name: String,
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

impl Session {
    fn command(&self, servers: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env(SERVERS, servers);
        command
    }
}

/// Plays the sessions one after the other, and says which failed.
pub fn play(sessions: &[Session], servers: &str, with_cluster_mode: bool) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for session in sessions {
        println!("--- {}", session.name);
        let mut command = session.command(servers);
        if with_cluster_mode {
            command.env(CLUSTER_MODE, "1");
        }
        let start = Instant::now();
        let status = command.status().map_err(|error| Failure(format!("{}: {error}", session.name)))?;
        println!("    {:.1} s", start.elapsed().as_secs_f64());
        if !status.success() {
            failed.push(format!("{} ({status})", session.name));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure(format!("sessions failed: {}", failed.join(", ")))) }
}

/// The servers' own ports, which accept Redis clients, too.
pub fn servers_of(cluster: &Cluster) -> String {
    let addresses = (1..=cluster.options.servers).map(|member| cluster.address(member).to_string());
    addresses.collect::<Vec<_>>().join(",")
}

/// Kills a server the given number of times under the load of `writer` and of redis-benchmark, and starts it
/// again. The writer compares at the end.
pub fn kill_under_load(rounds: usize, writer: &Session) -> Result<(), Failure> {
    let mut cluster = Cluster::start(Options::default())?;
    let servers = servers_of(&cluster);
    let mut load = Load::start(writer, &servers)?;
    // This server is never killed: redis-benchmark ends when its own server does.
    let survivor = cluster.address(cluster.options.servers);
    let mut goal = ACKNOWLEDGED_BETWEEN;
    for round in 0..rounds {
        load.wait_acknowledged(goal)?;
        let mut benchmark = Command::new("redis-benchmark")
            .args(["-h", &survivor.ip().to_string(), "-p", &survivor.port().to_string()])
            .args(["-t", "set,get,incr", "-n", "20000", "-r", "10000", "-c", "20", "-q"])
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| Failure(format!("redis-benchmark: {error}")))?;
        let victim = 1 + round % (cluster.options.servers - 1);
        let start = Instant::now();
        cluster.kill(victim);
        cluster.wait_counted(cluster.options.servers - 1)?;
        cluster.wait_up(cluster.options.servers - 1)?;
        let recovered = start.elapsed();
        goal = load.acknowledged()? + ACKNOWLEDGED_BETWEEN;
        load.wait_acknowledged(goal)?;
        let status = benchmark.wait().map_err(|error| Failure(format!("redis-benchmark: {error}")))?;
        println!(
            "    round {round}: server {victim} killed, recovered within {:.2} s; redis-benchmark {status}",
            recovered.as_secs_f64()
        );
        if !status.success() {
            return Err(Failure("redis-benchmark did not survive the death of another server".to_owned()));
        }
        cluster.start_member(victim);
        cluster.wait_up(cluster.options.servers)?;
        goal = load.acknowledged()? + ACKNOWLEDGED_BETWEEN;
    }
    load.finish()
}

/// Two servers that serve Redis clients, and three bricks. The servers' database 1 is the quorum table `carts`.
fn start_with_bricks() -> Result<Bricks, Failure> {
    let options = Options {
        servers: 2,
        coordinator_options: &["--default-replicas", "1"],
        server_options: &["--resp-table", "1=carts"],
        ..Options::default()
    };
    let bricks = Bricks::start_beside(options, 3, BRICK_MEMORY_MIN)?;
    bricks.create_table("carts", 3)?;
    Ok(bricks)
}

/// Plays sessions on a quorum table.
pub fn play_on_bricks(sessions: &[Session]) -> Result<(), Failure> {
    let bricks = start_with_bricks()?;
    play(sessions, &servers_of(&bricks.cluster), false)
}

/// Kills one of three bricks after the other under a load that counts its failures, and starts it again. The
/// coordinator is stopped meanwhile.
pub fn kill_bricks_under_load(rounds: usize, load: &Session) -> Result<(), Failure> {
    let mut bricks = start_with_bricks()?;
    let mut load = Load::start(load, &servers_of(&bricks.cluster))?;
    load.wait_acknowledged(ACKNOWLEDGED_BETWEEN)?;
    bricks.signal_coordinator(Signal::STOP);
    for round in 0..rounds {
        let victim = 1 + round % bricks.count();
        bricks.kill(victim);
        let goal = load.acknowledged()? + ACKNOWLEDGED_BETWEEN;
        load.wait_acknowledged(goal)?;
        bricks.start_brick(victim);
        bricks.wait_serving(victim)?;
        let goal = load.acknowledged()? + ACKNOWLEDGED_BETWEEN;
        load.wait_acknowledged(goal)?;
        println!("    round {round}: brick {victim} killed and started again, without the coordinator");
    }
    load.finish()?;
    bricks.signal_coordinator(Signal::CONT);
    Ok(())
}

/// The writer while it runs.
struct Load {
    child: Child,
    lines: Receiver<String>,
    acknowledged: u64,
    rest: Vec<String>,
}

impl Load {
    fn start(writer: &Session, servers: &str) -> Result<Load, Failure> {
        let mut command = writer.command(servers);
        let failed = |error: std::io::Error| Failure(format!("{}: {error}", writer.name));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let output = child.stdout.take().expect("it is piped");
        Ok(Load { child, lines: lines_of(output), acknowledged: 0, rest: Vec::new() })
    }

    fn acknowledged(&mut self) -> Result<u64, Failure> {
        while let Ok(line) = self.lines.try_recv() {
            self.take(line);
        }
        match self.child.try_wait() {
            Ok(None) => Ok(self.acknowledged),
            ended => Err(Failure(format!("the writer has ended: {ended:?} {}", self.rest.join("\n")))),
        }
    }

    fn take(&mut self, line: String) {
        match line.strip_prefix("acknowledged ").and_then(|number| number.parse().ok()) {
            Some(number) => self.acknowledged = number,
            None => self.rest.push(line),
        }
    }

    fn wait_acknowledged(&mut self, goal: u64) -> Result<(), Failure> {
        wait_for("commands to be acknowledged", PROGRESS_WITHIN, || {
            let now = self.acknowledged()?;
            Ok(if now >= goal { Ok(()) } else { Err(format!("{now} of {goal} are")) })
        })
    }

    /// Tells the writer to stop and compare.
    fn finish(mut self) -> Result<(), Failure> {
        drop(self.child.stdin.take());
        let child = &mut self.child;
        let status = wait_for("the end of the writer", WRITER_ENDS_WITHIN, || {
            let status = child.try_wait().map_err(|error| Failure(error.to_string()))?;
            Ok(status.ok_or_else(|| "it still runs".to_owned()))
        })?;
        while let Ok(line) = self.lines.recv() {
            self.take(line);
        }
        println!("    {}", self.rest.join("\n    "));
        if status.success() { Ok(()) } else { Err(Failure(format!("the writer ended with {status}"))) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(output: ChildStdout) -> Receiver<String> {
    /// Longer than any line that the writer prints.
    const PRINTED_MAX: u64 = 64 * 1024 * 1024;
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output.take(PRINTED_MAX)).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
