//! Behaviour at the limits: time, memory, numbers.

use crate::probe::{Probe, Raw, Seen, client, quiet, request, server_with, until};
use ramhold_base::{Lost, Peer, Rest, Taken};
use ramhold_runtime::{NetworkLimits, Runtime, RuntimeConfig, Turn};
use ramhold_wire::frame::FRAME_BYTES_MAX;
use rustix::net::{AddressFamily, SocketType};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

#[test]
fn who_does_not_speak_is_shut_out_and_who_pauses_between_frames_is_not() {
    let limits = NetworkLimits { first_frame_within: Duration::from_millis(100), ..NetworkLimits::default() };
    let (mut server, addr) = server_with(Probe::echo(), limits);
    let mut polite = Raw::connect(addr);
    polite.write(&request(1, 0));
    until(&mut server, |_| polite.read() == request(1, 0));
    let (mut silent, mut slow) = (Raw::connect(addr), Raw::connect(addr));
    slow.write(&request(1, 0)[..50]);
    until(&mut server, |_| {
        silent.read();
        slow.read();
        silent.ended && slow.ended
    });
    assert_eq!(server.stats().frames_overdue, 2);
    assert_eq!(server.connection_count(), 1);
    polite.got.clear();
    polite.write(&request(2, 0));
    until(&mut server, |_| polite.read() == request(2, 0));
}

#[test]
fn a_frame_that_stops_halfway_ends_its_connection() {
    let limits = NetworkLimits {
        first_frame_within: Duration::from_millis(100),
        frame_within: Duration::from_millis(200),
        ..NetworkLimits::default()
    };
    let (mut server, addr) = server_with(Probe::echo(), limits);
    let mut raw = Raw::connect(addr);
    raw.write(&request(1, 0));
    raw.write(&request(2, 100)[..150]);
    until(&mut server, |_| {
        raw.read();
        raw.ended
    });
    assert_eq!(raw.got, request(1, 0));
    assert_eq!(server.stats().frames_overdue, 1);
    assert_eq!(server.machine().count(|seen| matches!(seen, Seen::Closed { .. })), 1);
}

#[test]
fn who_sends_without_pause_has_time_for_each_frame_anew() {
    let within = Duration::from_millis(100);
    let limits =
        NetworkLimits { first_frame_within: within, frame_within: within, ..NetworkLimits::default() };
    let (mut server, addr) = server_with(Probe::silent(), limits);
    let mut raw = Raw::connect(addr);
    let frame = request(1, 0);
    raw.write(&frame[..50]);
    let start = std::time::Instant::now();
    // Each write completes one frame and begins the next.
    let mut sent_count = 0;
    while start.elapsed() < within * 3 {
        raw.write(&[&frame[50..], &frame[..50]].concat());
        sent_count += 1;
        until(&mut server, |server| server.machine().frames().len() == sent_count);
    }
    assert_eq!(server.connection_count(), 1);
    until(&mut server, |server| server.connection_count() == 0);
}

// A server whose queue of new connections is full answers nothing at all, like a host that is switched off.
#[test]
fn a_connection_that_does_not_come_about_is_given_up() {
    let listener = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let addr = SocketAddr::try_from(rustix::net::getsockname(&listener).unwrap()).unwrap();
    let _first_in_the_queue = TcpStream::connect(addr).unwrap();
    let (mut config, _) = quiet(NetworkLimits::default());
    config.limits.connect_within = Duration::from_millis(30);
    let mut client = Runtime::new(Probe::silent(), config).unwrap();
    for rpc in 0..2 {
        client.step(|_, _, effects| effects.send_with(Peer::Addr(addr), |out| out.extend(request(rpc, 0))));
    }
    until(&mut client, |client| client.machine().seen.len() > 1);
    assert_eq!(client.machine().seen[1..], [Seen::Lost { addr, how: Lost::Broken }]);
    assert_eq!(client.connection_count(), 0);
}

#[test]
fn too_much_output_for_one_who_does_not_read_ends_its_connection() {
    let limits = NetworkLimits { output_bytes_max: FRAME_BYTES_MAX, ..NetworkLimits::default() };
    let (mut server, addr) = server_with(
        Probe::new(|_, seen, effects| {
            if let Seen::Frame { from, .. } = seen {
                for rpc in 0..2 {
                    effects.send_with(Peer::Conn(*from), |out| out.extend(request(rpc, 8_000_000)));
                }
            }
        }),
        limits,
    );
    let mut raw = Raw::connect(addr);
    raw.write(&request(1, 0));
    until(&mut server, |server| server.stats().connections_accepted == 1 && server.connection_count() == 0);
    assert_eq!(server.stats().output_overflows, 1);
    server.turn(Some(Duration::ZERO));
    assert_eq!(server.machine().count(|seen| matches!(seen, Seen::Closed { .. })), 1);
}

// The queue for an address that does not answer is also bounded.
#[test]
fn too_much_output_for_a_connection_to_come_is_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let mut client = client(Probe::silent());
    client.step(|_, _, effects| {
        for rpc in 0..10 {
            effects.send_with(Peer::Addr(addr), |out| out.extend(request(rpc, 8_000_000)));
        }
    });
    assert!(client.stats().output_overflows >= 1);
    assert_eq!(client.machine().seen[1], Seen::Lost { addr, how: Lost::Broken });
}

#[test]
fn who_does_not_fetch_its_answers_is_not_heard_until_it_does() {
    const ANSWER_BYTES: usize = 1_000_000;
    let limits = NetworkLimits { output_bytes_max: FRAME_BYTES_MAX, ..NetworkLimits::default() };
    let (mut server, addr) = server_with(
        Probe::new(|_, seen, effects| {
            if let Seen::Frame { from, .. } = seen {
                effects.send_with(Peer::Conn(*from), |out| out.extend(request(1, ANSWER_BYTES)));
            }
        }),
        limits,
    );
    let mut raw = Raw::connect(addr);
    raw.write(&request(1, 0).repeat(40));
    until(&mut server, |server| server.machine().frames().len() > 2);
    // Lets the server answer until it stops by itself.
    let mut before = 0;
    until(&mut server, |server| {
        let now = server.machine().frames().len();
        std::mem::replace(&mut before, now) == now
    });
    assert!(before < 40, "answered {before}");
    // Then the server is idle.
    until(&mut server, |server| server.turn(Some(Duration::from_millis(1))) == Turn::Idle);
    let all = 40 * request(1, ANSWER_BYTES).len();
    until(&mut server, |_| raw.read().len() == all);
    assert!(raw.got == request(1, ANSWER_BYTES).repeat(40));
    assert_eq!(server.stats().output_overflows, 0);
}

/// A server that answers the first byte of each connection with many, and takes lines afterwards.
fn generous(limits: NetworkLimits, bytes: usize) -> (Runtime<Probe>, SocketAddr) {
    let (config, _) = quiet(limits);
    let machine = Probe::new(move |_, seen, effects| {
        if let Seen::Bytes { from, bytes: come } = seen {
            let end = come.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            effects.taken = Taken { bytes: end, rest: Rest::Part };
            if end > 0 {
                effects.send_with(Peer::Conn(*from), |out| out.resize(out.len() + bytes, b'x'));
            }
        }
    });
    let listen = Some("127.0.0.1:0".parse().expect("an address"));
    let server =
        Runtime::new(machine, RuntimeConfig { listen, hears_bytes: true, ..config }).expect("starts");
    let addr = server.local_addr().expect("listens");
    (server, addr)
}

// Z7: a client that reads a byte now and then cannot hold the memory of its answers for as long as it likes.
// A client that reads slowly but steadily gets the whole answer.
#[test]
fn who_fetches_too_slowly_is_shut_out_and_who_fetches_slowly_is_not() {
    const BYTES: usize = 14_000_000;
    let limits = NetworkLimits { fetch_within: Duration::from_millis(300), ..NetworkLimits::default() };
    let (mut server, addr) = generous(limits, BYTES);
    let (mut dripping, mut slow) = (TcpStream::connect(addr).unwrap(), TcpStream::connect(addr).unwrap());
    for stream in [&mut dripping, &mut slow] {
        stream.write_all(b"all\n").unwrap();
        stream.set_nonblocking(true).unwrap();
    }
    let (mut dripped, mut fetched) = (0, 0);
    let mut piece = vec![0; 2_000_000];
    let mut next = std::time::Instant::now();
    until(&mut server, |server| {
        if std::time::Instant::now() >= next {
            next += Duration::from_millis(20);
            dripped += dripping.read(&mut piece[..1]).unwrap_or(0);
            fetched += slow.read(&mut piece).unwrap_or(0);
        }
        server.stats().outputs_overdue == 1 && fetched == BYTES
    });
    assert!(dripped < 1_000, "{dripped} bytes were fetched");
    assert_eq!((server.stats().connections_accepted, server.connection_count()), (2, 1));
}

// Z7: a request that is not in frames also has a time limit. Between requests there is none.
#[test]
fn a_line_that_does_not_come_to_its_end_ends_its_connection() {
    let limits = NetworkLimits {
        first_frame_within: Duration::from_millis(100),
        frame_within: Duration::from_millis(200),
        ..NetworkLimits::default()
    };
    let (mut server, addr) = generous(limits, 1);
    let (mut polite, mut stuck) = (Raw::connect(addr), Raw::connect(addr));
    let (mut slow, mut slow_ended) = (TcpStream::connect(addr).unwrap(), false);
    slow.set_nonblocking(true).unwrap();
    polite.write(b"one\n");
    stuck.write(b"one\ntw");
    let start = std::time::Instant::now();
    until(&mut server, |_| {
        // A single byte is progress, but does not extend the time limit.
        slow_ended |= slow.write(b"o").is_err_and(|error| error.kind() != ErrorKind::WouldBlock);
        polite.read();
        stuck.read();
        slow_ended && stuck.ended
    });
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!((server.stats().frames_overdue, server.connection_count()), (2, 1));
    polite.got.clear();
    polite.write(b"two\n");
    until(&mut server, |_| polite.read() == b"x");
}

#[test]
fn one_connection_too_many_is_closed_and_there_is_room_again_when_one_leaves() {
    let limits = NetworkLimits { connection_count_max: 3, ..NetworkLimits::default() };
    let (mut server, addr) = server_with(Probe::echo(), limits);
    let mut raws: Vec<Raw> = (0..3).map(|_| Raw::connect(addr)).collect();
    until(&mut server, |server| server.connection_count() == 3);
    let mut fourth = Raw::connect(addr);
    until(&mut server, |_| {
        fourth.read();
        fourth.ended
    });
    assert_eq!(server.stats().connections_refused, 1);
    raws.pop();
    until(&mut server, |server| server.connection_count() == 2);
    let mut fifth = Raw::connect(addr);
    fifth.write(&request(5, 0));
    until(&mut server, |_| fifth.read() == request(5, 0));
}
