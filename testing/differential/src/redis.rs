//! A redis-server of our own: on a free port of the loopback, without files, ended with this value.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LISTENS_WITHIN: Duration = Duration::from_secs(10);

pub struct Redis {
    child: Child,
    address: SocketAddr,
}

impl Redis {
    pub fn start() -> io::Result<Redis> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--save", "", "--appendonly", "no", "--databases", "16"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| io::Error::other(format!("redis-server: {error}")))?;
        let mut redis = Redis { child, address };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = redis.child.try_wait()? {
                return Err(io::Error::other(format!("redis-server ended at once: {status}")));
            }
            if start.elapsed() > LISTENS_WITHIN {
                return Err(io::Error::other("redis-server does not listen"));
            }
            std::thread::yield_now();
        }
        Ok(redis)
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
