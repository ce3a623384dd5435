//! The programs beside which writes are measured: memcached, and redis-server with an append-only file synced every
//! second. Each runs in the network namespace of a server, and listens on that server's first address.

use ramhold_cluster_tests::{Failure, Network, Process, Scratch, wait_for};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

const PORT: u16 = 7500;
const LISTENS_WITHIN: Duration = Duration::from_secs(10);
/// A program that says nothing for this long is taken for dead.
const SILENCE_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Memcached,
    Redis,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Peer::Memcached => "memcached -t 1",
            Peer::Redis => "redis-server, appendfsync everysec",
        }
    }

    fn arguments(self, address: IpAddr, dir: &Path) -> String {
        match self {
            Peer::Memcached => format!("memcached -u root -U 0 -t 1 -m 1024 -l {address} -p {PORT}"),
            Peer::Redis => format!(
                "redis-server --bind {address} --port {PORT} --protected-mode no --dir {} --save --appendonly yes \
                 --appendfsync everysec",
                dir.display()
            ),
        }
    }
}

/// A peer that runs until it is dropped.
pub struct Running {
    pub process: Process,
    pub address: SocketAddr,
    // Dropped after the process.
    _scratch: Scratch,
}

impl Running {
    pub fn start(peer: Peer, network: &Network, server: usize) -> Result<Running, Failure> {
        let scratch = Scratch::new();
        let address = SocketAddr::new(Network::address(server).ip(), PORT);
        let log = scratch.dir().join("log");
        // It ends with the thread that started it, however that one ends.
        let arguments = format!("--pdeathsig KILL {}", peer.arguments(address.ip(), scratch.dir()));
        let mut arguments: Vec<OsString> = arguments.split(' ').map(OsString::from).collect();
        if let Some(save) = arguments.iter().position(|argument| argument == "--save") {
            arguments.insert(save + 1, OsString::new());
        }
        let start = || Process::start_program(peer.name(), Path::new("setpriv"), &arguments, &log);
        let process = network.within(server, start)?;
        wait_for(peer.name(), LISTENS_WITHIN, || {
            if let Some(status) = process.ended() {
                let printed = process.printed();
                return Err(Failure(format!(
                    "{} has ended with {status}; is it installed? {printed}",
                    peer.name()
                )));
            }
            Ok(TcpStream::connect(address).map(drop).map_err(|error| error.to_string()))
        })?;
        Ok(Running { process, address, _scratch: scratch })
    }
}

/// A client of a peer, with one command under way.
pub struct PeerClient {
    peer: Peer,
    stream: BufReader<TcpStream>,
    out: String,
    answer: String,
}

impl PeerClient {
    pub fn connect(peer: Peer, address: SocketAddr) -> Result<PeerClient, Failure> {
        let open = || {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            Ok(stream)
        };
        let stream = open().map_err(|error: std::io::Error| Failure(format!("{}: {error}", peer.name())))?;
        Ok(PeerClient { peer, stream: BufReader::new(stream), out: String::new(), answer: String::new() })
    }

    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Failure> {
        self.out.clear();
        self.answer.clear();
        let (key_bytes, value_bytes) = (key.len(), value.len());
        let (_, expected) = match self.peer {
            Peer::Memcached => (write!(self.out, "set {key} 0 0 {value_bytes}\r\n{value}\r\n"), "STORED"),
            Peer::Redis => (
                write!(self.out, "*3\r\n$3\r\nSET\r\n${key_bytes}\r\n{key}\r\n${value_bytes}\r\n{value}\r\n"),
                "+OK",
            ),
        };
        let about = |error: std::io::Error| Failure(format!("{}: {error}", self.peer.name()));
        self.stream.get_mut().write_all(self.out.as_bytes()).map_err(about)?;
        self.stream.read_line(&mut self.answer).map_err(about)?;
        match self.answer.trim_end() == expected {
            true => Ok(()),
            false => Err(Failure(format!("{} answered {:?}", self.peer.name(), self.answer))),
        }
    }
}
