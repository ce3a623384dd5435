//! Runs the commands of the pages for users and operators exactly as the pages print them.

use ramhold_cluster_tests::{
    Failure, Network, Process, Scratch, free_ports, is_network_possible, program, wait_for,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(60);

/// The code blocks of a page below a heading, each with its kind.
fn blocks(page: &str, heading: &str) -> Vec<(String, Vec<String>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(&path).expect("the page is there");
    let below = text.split(&format!("\n## {heading}\n")).nth(1).expect("the heading is there");
    let section = below.split("\n## ").next().expect("a text has a beginning");
    let mut blocks = Vec::new();
    let mut open: Option<(String, Vec<String>)> = None;
    for line in section.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(kind), None) => open = Some((kind.to_owned(), Vec::new())),
            (Some(_), Some(done)) => blocks.push(done),
            (None, Some((kind, mut lines))) => {
                lines.push(line.to_owned());
                open = Some((kind, lines));
            }
            (None, None) => {}
        }
    }
    blocks
}

fn shell(line: &str, dir: &Path, variables: &[(&str, String)]) -> Output {
    let bin = program().canonicalize().expect("the program is there");
    let path = format!(
        "{}:{}",
        bin.parent().expect("a file is in a directory").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut command = Command::new("bash");
    // The line itself is not among the words of the shell, where pgrep would find it.
    command.args(["-c", "eval \"$LINE\""]).env("LINE", line).env("PATH", path).current_dir(dir);
    command.envs(variables.iter().map(|(name, value)| (*name, value.as_str())));
    command.output().expect("a shell can be started")
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

// The five minutes of README, line by line, at other ports.
#[test]
fn five_minutes_are_as_readme_says() -> Result<(), Failure> {
    let _machine = crate::machine();
    let scratch = Scratch::new();
    let ports = free_ports(8);
    let (port, resp, admin) = (ports[0], ports[6], ports[7]);
    let variables = [
        ("RAMHOLD_PORT", port.to_string()),
        ("RAMHOLD_RESP_PORT", resp.to_string()),
        ("RAMHOLD_ADMIN_PORT", (admin + 100).to_string()),
        ("RAMHOLD_MEMORY", "128MiB".to_owned()),
        ("RAMHOLD_CLUSTER", format!("127.0.0.1:{port}")),
    ];
    // A small tree instead of all files of the machine.
    let docs = scratch.dir().join("doc");
    for name in 0..50 {
        std::fs::create_dir_all(docs.join("below")).expect("a directory can be made");
        std::fs::write(docs.join(format!("below/{name}")), vec![b'x'; name * 100])
            .expect("a file can be written");
    }
    let has_redis_cli = Command::new("redis-cli").arg("--version").output().is_ok();
    if !has_redis_cli {
        println!("skipped: the lines with redis-cli, which is not here");
    }
    let mut ran = Vec::new();
    for (_, lines) in blocks("README.md", "Five minutes") {
        for line in lines {
            let command = line.split(" # ").next().unwrap_or_default().trim();
            if command.is_empty() || (command.starts_with("redis-cli") && !has_redis_cli) {
                continue;
            }
            let typed = command
                .replace(":7403", &format!(":{}", port + 3))
                .replace("redis-cli", &format!("redis-cli -p {resp}"))
                .replace("/usr/share/doc", &docs.display().to_string());
            let output = shell(&typed, scratch.dir(), &variables);
            if !output.status.success() {
                let _ = shell("ramhold stop --dir ./cluster", scratch.dir(), &variables);
            }
            assert!(output.status.success(), "{command}: {}", told(&output));
            if command.starts_with("ramhold get notes hello") {
                assert_eq!(output.stdout, b"world", "{command}");
            }
            if command.contains("status") {
                let wide: Vec<String> =
                    told(&output).lines().filter(|l| l.chars().count() > 80).map(ToOwned::to_owned).collect();
                assert!(wide.is_empty(), "{wide:?}");
            }
            ran.push(command.to_owned());
        }
    }
    assert!(ran.len() > 20 && ran.iter().any(|line| line.starts_with("kill -9")), "{ran:?}");
    Ok(())
}

/// The hosts of the page, and the processes that run there.
struct Hosts {
    network: Network,
    scratch: Scratch,
    running: BTreeMap<String, Process>,
}

impl Hosts {
    /// Replaces the addresses of the page by those of the network, and memory sizes by small ones.
    fn translate(&self, line: &str) -> String {
        let mut line = line.replace("4GiB", "256MiB").replace("16GiB", "1GiB").replace("1GiB --", "2GiB --");
        for host in 1..=4 {
            let ip = Network::address(host - 1).ip().to_string();
            line = line.replace(&format!("10.0.0.{host}:"), &format!("{ip}:"));
        }
        line
    }

    /// Starts a process of the page on its host.
    fn start(&mut self, line: &str) -> Result<(), Failure> {
        let bind = line.split("--bind 10.0.0.").nth(1).and_then(|rest| rest.split(':').next());
        let host: usize =
            bind.and_then(|host| host.parse().ok()).expect("each process says where it listens");
        let role = line.split_whitespace().nth(1).expect("a command has a name");
        let name = format!("{role}-{host}");
        let own = self.scratch.dir().join(format!("host-{host}"));
        let words = self.translate(line).replace("/var/lib", &own.display().to_string());
        let mut arguments: Vec<OsString> = words.split_whitespace().skip(1).map(OsString::from).collect();
        if role == "server" {
            arguments.extend(["--buffer-dir".into(), self.scratch.buffer_dir().join(&name).into()]);
        }
        let log = self.scratch.dir().join(format!("{name}.log"));
        let process = self.network.within(host - 1, || Process::start(&name, &arguments, &log))?;
        self.running.insert(name, process);
        Ok(())
    }

    fn variables(&self) -> [(&'static str, String); 1] {
        [("RAMHOLD_CLUSTER", Network::address(0).to_string())]
    }

    /// The output of a line that must succeed within a while: servers may still be starting.
    fn ask(&self, line: &str) -> Result<String, Failure> {
        wait_for(line, WITHIN, || {
            let output = shell(&self.translate(line), self.scratch.dir(), &self.variables());
            Ok(if output.status.success() { Ok(told(&output)) } else { Err(told(&output)) })
        })
    }

    fn wait_status(&self, wanted: &str) -> Result<String, Failure> {
        wait_for(wanted, WITHIN, || {
            let output = shell("ramhold status", self.scratch.dir(), &self.variables());
            let text = told(&output);
            Ok(if text.contains(wanted) { Ok(text) } else { Err(text) })
        })
    }

    fn follow(&mut self, heading: &str) -> Result<(), Failure> {
        for (kind, lines) in blocks("docs/operating/three-hosts.md", heading) {
            for line in lines {
                match kind.as_str() {
                    "sh" => self.start(&line)?,
                    "console" if line.starts_with("export ") => {}
                    "console" => drop(self.ask(&line)?),
                    other => panic!("a block of kind '{other}'"),
                }
            }
        }
        Ok(())
    }
}

/// In a thread of its own, which stays in the clients' namespace and ends there.
// B1, D2
#[test]
fn a_cluster_of_three_hosts_and_of_four_comes_up_as_the_page_says() {
    let _machine = crate::machine();
    if let Err(failure) = is_network_possible() {
        println!("skipped: {failure}");
        return;
    }
    let ended = std::thread::spawn(three_and_four_hosts).join().expect("no panic");
    assert!(ended.is_ok(), "{ended:?}");
}

fn three_and_four_hosts() -> Result<(), Failure> {
    let network = Network::create(4)?;
    let mut hosts = Hosts { network, scratch: Scratch::new(), running: BTreeMap::new() };
    hosts.follow("Three hosts, R = 2")?;
    let healthy = hosts.wait_status("healthy: 3 of 3 servers up")?;
    assert!(healthy.contains("note: the cluster is reachable from other hosts"), "{healthy}");
    // R + 1 hosts: without one, writes wait and say why; reads go on.
    drop(hosts.running.remove("server-3"));
    hosts.wait_status("2 of 3 servers up")?;
    let text = hosts.wait_status("gone since")?;
    assert!(text.starts_with("critical: ") && text.contains("writes to table 'notes' are blocked"), "{text}");
    assert_eq!(hosts.ask("ramhold get notes hello")?, "world");
    let refused =
        shell("ramhold --timeout 1s put notes hello again", hosts.scratch.dir(), &hosts.variables());
    assert!(!refused.status.success(), "nothing is acknowledged with fewer copies");
    // Back on its directory, it is not gone any more.
    let blocks = blocks("docs/operating/three-hosts.md", "Three hosts, R = 2");
    let third = blocks.iter().flat_map(|(_, lines)| lines).find(|line| line.contains("--bind 10.0.0.3:"));
    hosts.start(third.expect("a server for each host"))?;
    hosts.wait_status("healthy: 3 of 3 servers up")?;
    hosts.follow("Four hosts, R = 3")?;
    hosts.wait_status("healthy: 4 of 4 servers up")?;
    // R + 2 hosts: writes go on without one.
    hosts.ask("ramhold table create spare --replicas 2")?;
    drop(hosts.running.remove("server-2"));
    let text = hosts.wait_status("gone since")?;
    assert!(text.contains("3 of 4 servers up") && text.contains("table 'ledger' are blocked"), "{text}");
    hosts.ask("ramhold put spare written meanwhile")?;
    // It never returns.
    let gone = text.lines().find_map(|line| line.split("'ramhold server forget ").nth(1));
    let gone = gone.and_then(|rest| rest.split('\'').next()).expect("status says what to do");
    hosts.ask(&format!("ramhold server forget {gone}"))?;
    hosts.wait_status("3 of 3 servers up").map(drop)
}
