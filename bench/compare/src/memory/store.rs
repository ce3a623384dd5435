//! The stores that are compared, and how each is started.

use super::dialect::Dialect;
use crate::process::{Process, is_installed};
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Store {
    Redis,
    /// With active defragmentation, where the build has it.
    RedisDefrag,
    Memcached,
    Ramhold,
}

impl Store {
    pub const ALL: [Store; 4] = [Store::Redis, Store::RedisDefrag, Store::Memcached, Store::Ramhold];

    pub fn name(self) -> &'static str {
        match self {
            Store::Redis => "redis",
            Store::RedisDefrag => "redis+defrag",
            Store::Memcached => "memcached",
            Store::Ramhold => "ramhold",
        }
    }

    /// Starts an empty store that may use several times `live_bytes`, or says why there is none.
    pub fn start(self, live_bytes: u64) -> Result<(Process, Dialect), String> {
        match self {
            Store::Redis => Ok((start_redis()?, Dialect::Resp)),
            Store::RedisDefrag => {
                let process = start_redis()?;
                defragment(process.port())?;
                Ok((process, Dialect::Resp))
            }
            Store::Memcached => Ok((start_memcached(live_bytes)?, Dialect::Text)),
            Store::Ramhold => Err("it is measured by its own program".into()),
        }
    }
}

fn needs(program: &str) -> Result<(), String> {
    if is_installed(program) { Ok(()) } else { Err(format!("{program} is not installed")) }
}

fn start_redis() -> Result<Process, String> {
    needs("redis-server")?;
    Process::start("redis-server", |command, port, dir| {
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"]).arg(dir);
        command.args(["--save", "", "--appendonly", "no", "--maxmemory", "0", "--activedefrag", "no"]);
    })
}

/// Turns defragmentation on. It needs the allocator that Redis is built with for it.
fn defragment(port: u16) -> Result<(), String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string())?;
    stream.write_all(b"CONFIG SET activedefrag yes\r\n").map_err(|e| e.to_string())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(|e| e.to_string())?;
    if answer.trim() == "+OK" { Ok(()) } else { Err(answer.trim().trim_start_matches('-').to_string()) }
}

/// Starts memcached with room for four times the live bytes, so that no value is refused for want of a limit.
/// If the limit is reached all the same, memcached refuses (`-M`) and does not evict.
fn start_memcached(live_bytes: u64) -> Result<Process, String> {
    needs("memcached")?;
    let mebibytes = ((live_bytes * 4) >> 20).max(256);
    Process::start("memcached", |command, port, _| {
        command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0", "-M", "-o", "modern"]);
        command.args(["-m", &mebibytes.to_string()]);
        // As root, memcached runs only if a user is named. Other users may not name one.
        if is_root() {
            command.args(["-u", "root"]);
        }
    })
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Store {
    type Err = String;

    fn from_str(text: &str) -> Result<Store, String> {
        let found = Store::ALL.into_iter().find(|store| store.name() == text);
        let names = Store::ALL.map(Store::name).join(", ");
        found.ok_or_else(|| format!("there is no store '{text}'; there are {names}"))
    }
}
