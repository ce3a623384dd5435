//! Requests of the cluster are heard before those of clients (E4).

use crate::probe::{Probe, Raw, Seen, client, request, server, until};
use ramhold_base::{ConnId, Peer, RpcId};
use ramhold_runtime::{Runtime, Turn};
use ramhold_wire::{Header, Opcode, frame};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const CLIENT_COUNT: usize = 40;

fn read(rpc: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, &Header::request(Opcode::Read, RpcId(rpc)), |_| {});
    bytes
}

fn opcode(bytes: &[u8]) -> Option<Opcode> {
    frame::parse(bytes).ok().and_then(|(header, _)| header.opcode())
}

/// Clients that each have sent one frame, which has not come yet.
fn clients(addr: SocketAddr, frames_each: u64) -> Vec<Raw> {
    let stream: Vec<u8> = (0..frames_each).flat_map(read).collect();
    let mut clients: Vec<Raw> = (0..CLIENT_COUNT).map(|_| Raw::connect(addr)).collect();
    clients.iter_mut().for_each(|raw| assert_eq!(raw.write(&stream), stream.len()));
    clients
}

/// The opcodes of the frames in the order in which they came, from the first `Read` on.
fn order(server: &Runtime<Probe>) -> Vec<Opcode> {
    let all = server.machine().frames().into_iter();
    let opcodes = all.map(|bytes| opcode(bytes).expect("known"));
    opcodes.skip_while(|opcode| *opcode != Opcode::Read).collect()
}

/// A process of the cluster in a thread of its own: it sends a `Ping`, and another one whenever it is told to, and says so.
fn pinger(addr: SocketAddr, told: &Receiver<()>, says: &Sender<()>) {
    let mut pinger = client(Probe::silent());
    for rpc in 0.. {
        let ping = request(rpc, 0);
        pinger.step(|_, _, effects| effects.send_with(Peer::Addr(addr), |out| out.extend_from_slice(&ping)));
        until(&mut pinger, |pinger| pinger.stats().bytes_sent == (rpc + 1) * ping.len() as u64);
        if rpc > 0 && says.send(()).is_err() || told.recv().is_err() {
            return;
        }
    }
}

/// A server at which each `Read` takes longer than clients are heard at a time. At the third one, a ping is sent.
fn slow_server_with_pinger() -> (Runtime<Probe>, SocketAddr) {
    let (tell, told) = channel();
    let (says, said) = channel();
    let mut reads = 0;
    let probe = Probe::new(move |_, seen, _| {
        let Seen::Frame { bytes, .. } = seen else { return };
        if opcode(bytes) != Some(Opcode::Read) {
            return;
        }
        reads += 1;
        if reads == 3 {
            tell.send(()).expect("the pinger waits");
            said.recv().expect("the pinger says so");
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(300) {
            std::hint::spin_loop();
        }
    });
    let (mut server, addr) = server(probe);
    std::thread::spawn(move || pinger(addr, &told, &says));
    until(&mut server, |server| server.machine().frames().len() == 1);
    (server, addr)
}

fn turn_once(server: &mut Runtime<Probe>) {
    assert_eq!(server.turn(Some(Duration::from_secs(10))), Turn::Worked);
}

// E4: a turn with many clients in it does not make the cluster wait.
#[test]
fn a_ping_that_comes_while_clients_are_heard_waits_for_few_of_them() {
    let (mut server, addr) = slow_server_with_pinger();
    let _clients = clients(addr, 1);
    until(&mut server, |server| order(server).len() == CLIENT_COUNT + 1);
    let at = order(&server).iter().position(|opcode| *opcode == Opcode::Ping).unwrap();
    // The third read was the last before the next look.
    assert_eq!(at, 3, "{:?}", order(&server));
    assert!(server.stats().looks_at_first > 0);
}

// E4: nor does one client that sends much.
#[test]
fn a_ping_that_comes_while_one_client_is_heard_waits_for_few_frames() {
    let (mut server, addr) = slow_server_with_pinger();
    let mut raw = Raw::connect(addr);
    let stream: Vec<u8> = (0..100).flat_map(read).collect();
    assert_eq!(raw.write(&stream), stream.len());
    until(&mut server, |server| order(server).len() == 101);
    let at = order(&server).iter().position(|opcode| *opcode == Opcode::Ping).unwrap();
    assert!(at <= 32, "{at}");
}

// E4
#[test]
fn in_one_turn_the_cluster_goes_first() {
    let (mut server, addr) = server(Probe::echo());
    let mut of_cluster = Raw::connect(addr);
    of_cluster.write(&request(1, 0));
    until(&mut server, |_| of_cluster.read().len() == request(1, 0).len());
    let mut clients = clients(addr, 1);
    // All are accepted, and nothing of them is taken in before the ping is there, too.
    while server.stats().connections_accepted < CLIENT_COUNT as u64 + 1 {
        turn_once(&mut server);
    }
    until(&mut server, |server| order(server).len() == CLIENT_COUNT);
    clients.iter_mut().for_each(|raw| assert_eq!(raw.write(&read(7)), read(7).len()));
    of_cluster.write(&request(2, 0));
    turn_once(&mut server);
    assert_eq!(order(&server)[CLIENT_COUNT], Opcode::Ping, "{:?}", order(&server));
}

// E4: a connection is one of the cluster's once a request of the cluster has come over it.
#[test]
fn a_client_that_only_reads_does_not_go_first() {
    let (mut server, addr) = server(Probe::echo());
    let mut early = Raw::connect(addr);
    early.write(&read(1));
    until(&mut server, |server| order(server).len() == 1);
    let mut pinged = Raw::connect(addr);
    pinged.write(&request(1, 0));
    until(&mut server, |server| order(server).len() == 2);
    early.write(&read(2));
    pinged.write(&read(3));
    turn_once(&mut server);
    let froms: Vec<ConnId> = (server.machine().seen.iter())
        .filter_map(|seen| if let Seen::Frame { from, .. } = seen { Some(*from) } else { None })
        .collect();
    assert_eq!(froms[2..], [froms[1], froms[0]]);
}
