//! A Ramhold cluster of processes, and its own benchmark as the client.

use crate::one_run::{Figures, OBJECTS, Test};
use crate::process::{free_port, pinned, ramhold, scratch};
use clap::ValueEnum;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Cluster {
    children: Vec<Child>,
    coordinator: String,
    dir: PathBuf,
    /// In memory. It is removed at the end, because a server that is killed does not remove it.
    buffer_dir: PathBuf,
    replicas: u8,
    transport: Transport,
    /// The port for Redis clients; 0: none.
    resp_port: u16,
}

/// How the processes of a cluster and its clients reach each other.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// As on hosts of their own.
    Tcp,
    /// As on one host by default.
    SharedMemory,
}

impl Cluster {
    pub fn start(servers: usize, replicas: u8, transport: Transport) -> Result<Cluster, String> {
        let mut cluster = Cluster::begin(replicas, transport)?;
        let coordinator = cluster.coordinator.clone();
        for number in 0..servers {
            let name = format!("server-{number}");
            let label = format!("host={name}");
            let buffers = cluster.buffer_dir.join(&name);
            cluster.spawn(&name, |c, dir| {
                c.args(["server", "--coordinator", &coordinator, "--memory", "2G", "--disk", "4G"]);
                c.arg("--buffer-dir").arg(buffers);
                c.args(["--label", &label, "--dir"]).arg(dir);
            })?;
        }
        cluster.wait_for(servers)?;
        Ok(cluster)
    }

    /// One server without replicas that hears Redis clients.
    pub fn resp() -> Result<Cluster, String> {
        let mut cluster = Cluster::begin_with(0, Transport::SharedMemory, &["--default-replicas", "0"])?;
        let coordinator = cluster.coordinator.clone();
        let (port, buffers) = (free_port()?, cluster.buffer_dir.join("server-0"));
        cluster.spawn("server-0", |c, dir| {
            c.args(["server", "--coordinator", &coordinator, "--memory", "3G", "--disk", "4G"]);
            c.args(["--resp-port", &port.to_string(), "--buffer-dir"]).arg(buffers).arg("--dir").arg(dir);
        })?;
        cluster.resp_port = port;
        cluster.wait_for(1)?;
        Ok(cluster)
    }

    pub fn coordinator(&self) -> &str {
        &self.coordinator
    }

    pub fn resp_port(&self) -> u16 {
        self.resp_port
    }

    /// The process of the server that was started last.
    pub fn server_pid(&self) -> u32 {
        self.children.last().expect("a cluster has processes").id()
    }

    /// One server that owns all data and is no backup, and three backups with files.
    pub fn split(memory_mebibytes: u64) -> Result<Cluster, String> {
        let mut cluster = Cluster::begin(3, Transport::Tcp)?;
        let coordinator = cluster.coordinator.clone();
        let owner = format!("{memory_mebibytes}MiB");
        for number in 0..4 {
            let name = format!("server-{number}");
            let label = format!("host={name}");
            let buffers = cluster.buffer_dir.join(&name);
            cluster.spawn(&name, |c, dir| {
                c.args(["server", "--coordinator", &coordinator, "--label", &label]);
                c.arg("--buffer-dir").arg(buffers);
                if number == 0 {
                    c.args(["--no-backup", "--memory", &owner]);
                } else {
                    c.args(["--no-master", "--memory", "1GiB", "--disk", "16GiB"]);
                }
                c.arg("--dir").arg(dir);
            })?;
        }
        cluster.wait_for(4)?;
        Ok(cluster)
    }

    fn begin(replicas: u8, transport: Transport) -> Result<Cluster, String> {
        Cluster::begin_with(replicas, transport, &[])
    }

    fn begin_with(replicas: u8, transport: Transport, more: &[&str]) -> Result<Cluster, String> {
        let port = free_port()?;
        let dir = scratch(&format!("ramhold-{port}"))?;
        let coordinator = format!("127.0.0.1:{port}");
        let buffer_dir = Path::new("/dev/shm").join(dir.file_name().expect("a folder of ours has a name"));
        let children = Vec::new();
        let mut cluster = Cluster {
            children,
            coordinator: coordinator.clone(),
            dir,
            buffer_dir,
            replicas,
            transport,
            resp_port: 0,
        };
        cluster.spawn("coordinator", |c, dir| {
            c.args(["coordinator", "--bind", &coordinator, "--dir"]).arg(dir).args(more);
        })?;
        Ok(cluster)
    }

    /// The JSON that a `ramhold` command prints.
    pub fn json(&self, arguments: &[&str]) -> Result<Value, String> {
        let output = self.command().arg("--json").args(arguments).output().map_err(|e| e.to_string())?;
        serde_json::from_slice(&output.stdout).map_err(|e| {
            let text = String::from_utf8_lossy(&output.stdout);
            format!("ramhold {}: {e}: {text}", arguments.join(" "))
        })
    }

    /// The status of the server that has a log.
    pub fn owner(&self) -> Result<Value, String> {
        let status = self.json(&["status"])?;
        let servers = status["servers"].as_array().cloned().unwrap_or_default();
        servers
            .into_iter()
            .find(|server| server["log_bytes"].as_u64().unwrap_or_default() > 0)
            .ok_or_else(|| "no server tells of a log".to_owned())
    }

    fn spawn(&mut self, name: &str, arguments: impl FnOnce(&mut Command, PathBuf)) -> Result<(), String> {
        let mut command = pinned(0, &ramhold());
        if self.transport == Transport::Tcp {
            command.env("RAMHOLD_SHARED_MEMORY", "0");
        }
        arguments(&mut command, self.dir.join(name));
        let log = std::fs::File::create(self.dir.join(format!("{name}.log"))).map_err(|e| e.to_string())?;
        let child =
            command.stdout(Stdio::null()).stderr(log).spawn().map_err(|e| format!("{}: {e}", ramhold()))?;
        self.children.push(child);
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = pinned(1, &ramhold());
        command.args(["--cluster", &self.coordinator]).stderr(Stdio::inherit());
        if self.transport == Transport::Tcp {
            command.args(["--transport", "tcp"]);
        }
        command
    }

    fn wait_for(&self, servers: usize) -> Result<(), String> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let output = self.command().args(["--json", "status"]).stderr(Stdio::null()).output();
            let up = output
                .ok()
                .and_then(|o| serde_json::from_slice::<Value>(&o.stdout).ok())
                .and_then(|v| Some(v.get("servers")?.as_array()?.len()));
            if up == Some(servers) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("the cluster did not come up; see {}", self.dir.display()));
            }
            std::thread::yield_now();
        }
    }

    /// Writes the objects that every test reads and overwrites.
    pub fn fill(&self) -> Result<(), String> {
        let durability = if self.replicas == 0 { "none" } else { "buffered" };
        let objects = OBJECTS.to_string();
        let replicas = self.replicas.to_string();
        self.json(&[
            "bench",
            "kv",
            "--objects",
            &objects,
            "--replicas",
            &replicas,
            "--durability",
            durability,
            "--pipeline",
            "64",
            "--seconds",
            "1",
        ])?;
        Ok(())
    }

    /// Runs one test on the objects that `fill` wrote.
    pub fn run(&self, test: Test) -> Result<Figures, String> {
        let durability = if self.replicas == 0 { "none" } else { "buffered" };
        let output = self
            .command()
            .args(["--json", "bench", "kv", "--objects", &OBJECTS.to_string(), "--no-fill"])
            .args(["--replicas", &self.replicas.to_string(), "--durability", durability])
            .args(["--read-percent", if test.reads { "100" } else { "0" }])
            .args(["--pipeline", &test.pipeline.to_string(), "--seconds", &test.seconds.to_string()])
            .output()
            .map_err(|e| e.to_string())?;
        let value: Value = serde_json::from_slice(&output.stdout)
            .map_err(|e| format!("bench kv: {e}: {}", String::from_utf8_lossy(&output.stdout)))?;
        let times = &value["run"][if test.reads { "reads" } else { "writes" }];
        let number = |name: &str| times[name].as_f64().ok_or(format!("bench kv told no {name}"));
        Ok(Figures {
            ops_per_second: number("ops_per_second")?,
            p50_micros: number("p50_nanos")? / 1000.0,
            p99_micros: number("p99_nanos")? / 1000.0,
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
        let _ = std::fs::remove_dir_all(&self.buffer_dir);
    }
}
