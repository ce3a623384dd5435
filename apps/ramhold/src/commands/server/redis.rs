//! How a server speaks the Redis protocol, and at which ports.

use super::arguments::Server;
use crate::failure::Failure;
use ramhold_node::{Process, RespConfig};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// A port that means two things would mean the first: connections do not say which one they want.
pub fn check_resp_ports(arguments: &Server) -> Result<(), Failure> {
    let Some(port) = arguments.resp_cluster_port else { return Ok(()) };
    let others = [("--bind", Some(arguments.bind.port())), ("--resp-port", arguments.resp_port)];
    match others.into_iter().find(|(_, other)| *other == Some(port)) {
        Some((option, _)) => Err(Failure::usage(format!(
            "--resp-cluster-port {port} is also the port of {option}; choose another port"
        ))),
        None => Ok(()),
    }
}

/// Where Redis clients are heard.
pub fn redis_line(arguments: &Server) -> String {
    if arguments.no_resp {
        return "  redis        off (--no-resp)".to_owned();
    }
    let at = |port| SocketAddr::new(arguments.bind.ip(), port);
    let mut text = "  redis        at the same address".to_owned();
    if arguments.resp_stdin {
        text += ", and at the port of all servers of this machine";
    }
    if let Some(port) = arguments.resp_port {
        text += &format!("; at {}", at(port));
    }
    if let Some(path) = &arguments.resp_unix_socket {
        text += &format!("; at the Unix socket {}", path.display());
    }
    if let Some(port) = arguments.resp_cluster_port {
        text += &format!("; for clients of Redis Cluster at {}", at(port));
    }
    text
}

/// The listening socket that a server of 'ramhold dev' has as its standard input.
pub fn handed(is_handed: bool) -> Result<Vec<OwnedFd>, Failure> {
    let stdin = is_handed.then(|| std::io::stdin().as_fd().try_clone_to_owned()).transpose();
    let stdin = stdin.map_err(|error| Failure::usage(format!("--resp-stdin: {error}")))?;
    Ok(stdin.into_iter().collect())
}

/// How the Redis protocol is to be spoken.
pub fn resp_config(arguments: &Server, coordinator: SocketAddr) -> Result<RespConfig, Failure> {
    let mut config = RespConfig::new(coordinator);
    config.databases = arguments.resp_databases;
    config.cluster_port = arguments.resp_cluster_port;
    config.cross_slot = arguments.resp_cross_slot;
    config.debug = arguments.resp_debug;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let os = format!("Linux {} {}", release.trim(), std::env::consts::ARCH);
    config.process = Process { id: std::process::id(), os };
    config.tables = arguments.resp_table.clone();
    config.idle = arguments.resp_idle;
    config.password = arguments.resp_password_file.as_deref().map(password).transpose()?.map(Into::into);
    Ok(config)
}

/// The first line of a password file.
fn password(path: &Path) -> Result<String, Failure> {
    let about = |text: String| Failure::usage(format!("--resp-password-file {}: {text}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| about(error.to_string()))?;
    match text.lines().next().map(str::trim_end) {
        Some("") | None => Err(about("the first line is empty; write the password there".into())),
        Some(password) => Ok(password.to_owned()),
    }
}
