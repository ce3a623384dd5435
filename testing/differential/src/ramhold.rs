//! A Ramhold cluster of our own: `ramhold dev` in a folder of its own. Dropping the value stops it.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub struct Ramhold {
    program: PathBuf,
    dir: PathBuf,
    address: SocketAddr,
}

impl Ramhold {
    /// Starts this number of servers. Returns when they are healthy and accept Redis clients.
    pub fn start(program: &Path, servers: u16) -> io::Result<Ramhold> {
        let dir = std::env::temp_dir().join(format!("ramhold-differential-{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        let ports = free_ports(servers + 2)?;
        let (first, resp) = (ports, ports + servers + 1);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, resp));
        // From here on the cluster is stopped and its folder removed, whatever happens.
        let ramhold = Ramhold { program: program.to_owned(), dir, address };
        let output = ramhold.command(&["dev", "--detach"], |command| {
            command.args(["--servers", &servers.to_string(), "--port", &first.to_string()]);
            command.args(["--resp-port", &resp.to_string()]);
            // The meaning of commands is compared, and not the rule for keys of several slots.
            command.args(["--resp-cross-slot", "allow"]);
        })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!("{} dev: {said}", program.display())));
        }
        TcpStream::connect(address)?;
        Ok(ramhold)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn command(&self, words: &[&str], more: impl FnOnce(&mut Command)) -> io::Result<Output> {
        let mut command = Command::new(&self.program);
        command.args(words).arg("--dir").arg(&self.dir).stdin(Stdio::null());
        more(&mut command);
        command.output().map_err(|error| io::Error::other(format!("{}: {error}", self.program.display())))
    }
}

impl Drop for Ramhold {
    fn drop(&mut self) {
        let _ = self.command(&["stop"], |_| {});
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The first of `count` free ports in a row, below those of outgoing connections.
fn free_ports(count: u16) -> io::Result<u16> {
    let start = 20_000 + u16::try_from(std::process::id() % 9000).unwrap_or(0);
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let found =
        (start..31_000).step_by(usize::from(count)).find(|first| (*first..first + count).all(is_free));
    found.ok_or_else(|| io::Error::other("there are no free ports"))
}
