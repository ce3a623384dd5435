//! A redis-server of our own: on a free port of the loopback, without files. Dropping the value ends it.

use crate::generate::words;
use crate::link::{Answer, Link};
use crate::reply::Reply;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const LISTENS_WITHIN: Duration = Duration::from_secs(10);
const PORTS_TRIED: usize = 10;

pub struct Redis {
    child: Child,
    address: SocketAddr,
}

impl Redis {
    /// Starts one. Returns when this process answers at the address. Two that start at once may be given the
    /// same free port. The second one ends, and another port is tried.
    pub fn start() -> io::Result<Redis> {
        let mut last = None;
        for _ in 0..PORTS_TRIED {
            let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
            match Redis::start_at(address)? {
                Ok(redis) => return Ok(redis),
                Err(status) => last = Some(status),
            }
        }
        let status = last.map(|status| status.to_string()).unwrap_or_default();
        Err(io::Error::other(format!("redis-server ended at once, {PORTS_TRIED} times: {status}")))
    }

    /// The exit status if the server ended before it answered, as it does on a port that is taken.
    fn start_at(address: SocketAddr) -> io::Result<Result<Redis, ExitStatus>> {
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--save", "", "--appendonly", "no", "--databases", "16"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| io::Error::other(format!("redis-server: {error}")))?;
        let mut redis = Redis { child, address };
        let start = Instant::now();
        while !redis.is_answering() {
            if let Some(status) = redis.child.try_wait()? {
                return Ok(Err(status));
            }
            if start.elapsed() > LISTENS_WITHIN {
                return Err(io::Error::other("redis-server does not answer"));
            }
            std::thread::yield_now();
        }
        Ok(Ok(redis))
    }

    /// Whether the server that answers at the address is this process.
    fn is_answering(&self) -> bool {
        let Ok(mut link) = Link::open(self.address) else { return false };
        let Answer::Reply(Reply::Bulk(info)) = link.ask(&words!["INFO", "server"]) else { return false };
        let own = format!("process_id:{}", self.child.id());
        info.split(|byte| *byte == b'\n').any(|line| line.trim_ascii_end() == own.as_bytes())
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_on_a_taken_port_is_not_taken_for_ours() {
        let first = match Redis::start() {
            Ok(first) => first,
            Err(error) => {
                assert!(std::env::var("CI").as_deref() != Ok("true"), "{error}");
                eprintln!("skipped: {error}");
                return;
            }
        };
        let second = Redis::start_at(first.address()).expect("it ends by itself");
        assert!(second.is_err_and(|status| !status.success()));
        assert!(first.is_answering());
    }
}
