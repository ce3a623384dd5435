//! A Redis cluster of three masters and three replicas, all on core 0.

use crate::process::{Process, free_port};
use std::process::Command;
use std::time::{Duration, Instant};

const MASTERS: usize = 3;
/// From the first word of the cluster until all slots are served and all replicas are connected.
const READY_WITHIN: Duration = Duration::from_secs(60);

pub struct RedisCluster {
    servers: Vec<Process>,
}

impl RedisCluster {
    pub fn start() -> Result<RedisCluster, String> {
        let mut servers = Vec::new();
        for _ in 0..2 * MASTERS {
            let bus = free_port()?.to_string();
            servers.push(Process::start("redis-server", |command, port, dir| {
                command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
                command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--dir"]).arg(dir);
                command.args(["--cluster-enabled", "yes", "--cluster-port", &bus]);
                command.args(["--cluster-node-timeout", "5000"]);
            })?);
        }
        let cluster = RedisCluster { servers };
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]).args(cluster.addresses());
        create.args(["--cluster-replicas", "1", "--cluster-yes"]);
        let output = create.output().map_err(|error| format!("redis-cli: {error}"))?;
        if !output.status.success() {
            let told = [output.stdout, output.stderr].concat();
            return Err(format!("redis-cli --cluster create: {}", String::from_utf8_lossy(&told)));
        }
        let until = Instant::now() + READY_WITHIN;
        while !cluster.is_ready()? {
            if Instant::now() > until {
                return Err("the Redis cluster did not come up".to_owned());
            }
            std::thread::yield_now();
        }
        Ok(cluster)
    }

    pub fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect()
    }

    pub fn version(&self) -> Result<String, String> {
        let info = self.ask(0, &["info", "server"])?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        Ok(version.unwrap_or_default().trim().to_owned())
    }

    /// Every server sees the whole cluster, and every replica follows its master.
    fn is_ready(&self) -> Result<bool, String> {
        for number in 0..self.servers.len() {
            let state = self.ask(number, &["cluster", "info"])?;
            let replication = self.ask(number, &["info", "replication"])?;
            let follows = replication.contains("role:master") && replication.contains("connected_slaves:1")
                || replication.contains("master_link_status:up");
            if !state.contains("cluster_state:ok") || !follows {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn ask(&self, number: usize, words: &[&str]) -> Result<String, String> {
        let port = self.servers[number].port().to_string();
        let output = Command::new("redis-cli").args(["-p", &port]).args(words).output();
        let output = output.map_err(|error| format!("redis-cli: {error}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
