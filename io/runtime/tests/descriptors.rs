//! Behaviour when file descriptors run out. The test has a process of its own, because the limit is the
//! process's.

use ramhold_base::{Effects, Input, Instant, Machine, Peer};
use ramhold_runtime::{Runtime, RuntimeConfig};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

struct Echo;

impl Machine for Echo {
    fn step(&mut self, _: Instant, input: Input<'_>, effects: &mut Effects) {
        if let Input::Frame { from, bytes } = input {
            effects.send_with(Peer::Conn(from), |out| out.extend_from_slice(bytes));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

#[test]
fn without_descriptors_the_loop_rests_and_accepts_later() {
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let mut server = Runtime::new(Echo, RuntimeConfig { listen, ..RuntimeConfig::default() }).unwrap();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: limit.maximum }).unwrap();
    let mut client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    let mut held: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(held.len() < 64);

    let give_up = std::time::Instant::now() + Duration::from_secs(30);
    let start = std::time::Instant::now();
    let mut turn_count = 0;
    while server.stats().accept_pauses < 3 {
        assert!(std::time::Instant::now() < give_up);
        server.turn(Some(Duration::from_secs(10)));
        turn_count += 1;
    }
    assert!(turn_count < 20, "{turn_count} turns for three pauses are a spin");
    assert!(start.elapsed() > Duration::from_millis(150), "three pauses took {:?}", start.elapsed());

    held.clear();
    let mut frame = Vec::new();
    let header = ramhold_wire::Header::request(ramhold_wire::Opcode::Ping, ramhold_base::RpcId(1));
    ramhold_wire::frame::write(&mut frame, &header, |_| {});
    client.write_all(&frame).unwrap();
    client.set_nonblocking(true).unwrap();
    let mut answer = vec![0; frame.len()];
    while client.read(&mut answer).is_err() {
        assert!(std::time::Instant::now() < give_up);
        server.turn(Some(Duration::from_millis(10)));
    }
    assert_eq!(answer, frame);
}
