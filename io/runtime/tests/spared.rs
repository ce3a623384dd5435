//! Descriptors that strangers cannot take. The test has a process of its own, because the limit is the
//! process's.

use ramhold_base::{Effects, Input, Instant, Lost, Machine, Peer};
use ramhold_runtime::{Runtime, RuntimeConfig};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Connects to a peer when it is told to.
#[derive(Default)]
struct Caller {
    peer: Option<SocketAddr>,
    lost: Vec<Lost>,
}

impl Machine for Caller {
    fn step(&mut self, _: Instant, input: Input<'_>, effects: &mut Effects) {
        match input {
            Input::Lost { how, .. } => self.lost.push(how),
            Input::Tick => {
                if let Some(peer) = self.peer.take() {
                    effects.send_with(Peer::Addr(peer), |out| out.push(b'x'));
                }
            }
            _ => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.peer.map(|_| Instant::ZERO)
    }
}

// Z8: of 256 descriptors, a thousand strangers get 192. The process still reaches its peers.
#[test]
fn strangers_leave_descriptors_for_files_and_peers() {
    let limit = getrlimit(Resource::Nofile);
    let few = Rlimit { current: Some(256), maximum: limit.maximum };
    setrlimit(Resource::Nofile, few).unwrap();
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let mut server =
        Runtime::new(Caller::default(), RuntimeConfig { listen, ..RuntimeConfig::default() }).unwrap();
    // The strangers are connections of this process too, so they need descriptors as well.
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let addr = server.local_addr().unwrap();
    let mut strangers = Vec::new();
    let give_up = std::time::Instant::now() + Duration::from_secs(30);
    for _ in 0..1_000 {
        strangers.push(TcpStream::connect(addr).unwrap());
        server.turn(Some(Duration::ZERO));
    }
    while server.stats().connections_accepted + server.stats().connections_refused < 1_000 {
        assert!(std::time::Instant::now() < give_up, "{:?}", server.stats());
        server.turn(Some(Duration::from_millis(1)));
    }
    assert_eq!(server.stats().connections_accepted, 192);
    assert_eq!(server.stats().accept_pauses, 0);
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    peer.set_nonblocking(true).unwrap();
    server.machine_mut().peer = Some(peer.local_addr().unwrap());
    while peer.accept().is_err() {
        assert!(std::time::Instant::now() < give_up && server.machine().lost.is_empty());
        server.turn(Some(Duration::from_millis(1)));
    }
}
