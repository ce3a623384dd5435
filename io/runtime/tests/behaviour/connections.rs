//! Frames travel; connections are made and end (E1).

use crate::probe::{Probe, Raw, Seen, client, quiet, request, server, until, until_both};
use ramhold_base::{Effect, Instant, Level, Lost, Peer, Rest, Status, Taken};
use ramhold_runtime::{NetworkLimits, Poll, Runtime, RuntimeConfig, StartError, Turn};
use ramhold_wire::{Header, Kind, Opcode, frame};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

fn send(runtime: &mut Runtime<Probe>, addr: SocketAddr, frame: &[u8]) {
    runtime.step(|_, _, effects| effects.send_with(Peer::Addr(addr), |out| out.extend_from_slice(frame)));
}

/// An address where nobody listens.
fn deserted() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

#[test]
fn a_frame_goes_there_and_back() {
    let (mut server, addr) = server(Probe::echo());
    let mut client = client(Probe::silent());
    let large = request(2, 3_000_000);
    send(&mut client, addr, &request(1, 5));
    send(&mut client, addr, &large);
    until_both(&mut client, &mut server, |client, _| client.frames().len() == 2);
    assert_eq!(client.machine().frames()[0], request(1, 5));
    assert!(client.machine().frames()[1] == large);
    assert_eq!(server.machine().seen[0], Seen::Start);
    assert_eq!(client.stats().connections_opened, 1);
    assert_eq!(server.stats().connections_accepted, 1);
    assert_eq!(server.stats().bytes_received, client.stats().bytes_sent);
}

// I1: a small operation spends no system call on telling the poller what it already knows.
#[test]
fn requests_and_answers_change_nothing_at_the_poller() {
    let (mut server, addr) = server(Probe::echo());
    let mut client = client(Probe::silent());
    let go_round = |client: &mut Runtime<Probe>, server: &mut Runtime<Probe>, count: usize| {
        send(client, addr, &request(count as u64, 100));
        until_both(client, server, |client, _| client.frames().len() == count);
    };
    go_round(&mut client, &mut server, 1);
    let before = (client.stats().interest_changes, server.stats().interest_changes);
    for count in 2..=50 {
        go_round(&mut client, &mut server, count);
    }
    assert_eq!((client.stats().interest_changes, server.stats().interest_changes), before);
}

#[test]
fn busy_polling_works_too() {
    let (config, _) = quiet(NetworkLimits::default());
    let mut client = Runtime::new(Probe::silent(), RuntimeConfig { poll: Poll::Busy, ..config }).unwrap();
    let (mut server, addr) = server(Probe::echo());
    send(&mut client, addr, &request(1, 5));
    until_both(&mut client, &mut server, |client, _| client.frames().len() == 1);
    assert_eq!(client.turn(Some(Duration::from_millis(1))), Turn::Idle);
}

#[test]
fn a_frame_may_come_in_single_bytes() {
    let (mut server, addr) = server(Probe::echo());
    let mut raw = Raw::connect(addr);
    let stream = [request(1, 0), request(2, 20)].concat();
    for byte in &stream {
        assert_eq!(raw.write(&[*byte]), 1);
        server.turn(Some(Duration::ZERO));
    }
    until(&mut server, |_| raw.read().len() == stream.len());
    assert_eq!(raw.got, stream);
    assert_eq!(server.machine().frames().len(), 2);
}

// E4, J4: bytes that are not a frame never reach the machine. The answer says why.
#[test]
fn what_is_no_frame_is_answered_and_ended() {
    let mut of_another_version = request(1, 0);
    of_another_version[4] = 9;
    let mut too_large = request(1, 0);
    too_large[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    let cases = [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), Status::BadFrame),
        (of_another_version, Status::UnsupportedVersion),
        (too_large, Status::FrameTooLarge),
        // Many more bytes are on their way. Nobody wants them, but a reset must not overtake the answer.
        (vec![0xEE; 20_000_000], Status::BadFrame),
    ];
    for (bytes, status) in cases {
        let (config, lines) = quiet(NetworkLimits::default());
        let listen = Some("127.0.0.1:0".parse().unwrap());
        let mut server = Runtime::new(Probe::echo(), RuntimeConfig { listen, ..config }).unwrap();
        let mut raw = Raw::connect(server.local_addr().unwrap());
        let good = request(1, 3);
        raw.write(&good);
        let mut rest = &bytes[..];
        until(&mut server, |_| {
            rest = &rest[raw.write(rest)..];
            raw.read();
            raw.ended && rest.is_empty()
        });
        // The frame before the bad bytes was answered as usual.
        let (first, last) = raw.got.split_at(good.len());
        assert_eq!(first, good);
        let (header, body) = frame::parse(last).unwrap();
        let expected = Header { kind: Kind::Reply, opcode: Opcode::Malformed.code(), ..Header::default() };
        assert_eq!(header, Header { status: status.code(), ..expected });
        assert!(body.is_empty());
        drop(raw);
        until(&mut server, |server| server.connection_count() == 0);
        assert_eq!(server.machine().frames().len(), 1);
        assert_eq!(server.machine().count(|seen| matches!(seen, Seen::Closed { .. })), 1);
        assert_eq!(server.stats().bad_frames, 1);
        let lines = lines.lock().unwrap();
        assert_eq!(lines.iter().filter(|(level, _)| *level == Level::Warn).count(), 1, "{lines:?}");
    }
}

#[test]
fn nonsense_from_a_server_breaks_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let mut client = client(Probe::silent());
    send(&mut client, addr, &request(1, 0));
    client.turn(Some(Duration::ZERO));
    let mut raw = Raw::of(listener.accept().unwrap().0);
    raw.write(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    until(&mut client, |client| client.machine().seen.len() > 1);
    assert_eq!(client.machine().seen[1..], [Seen::Lost { addr, how: Lost::Broken }]);
}

// F1: "nobody listens there" is distinguished from "no answer".
#[test]
fn a_refused_connection_is_told_once_and_tried_again_by_the_next_send() {
    let addr = deserted();
    let mut client = client(Probe::silent());
    for rpc in 0..3 {
        send(&mut client, addr, &request(rpc, 100));
    }
    until(&mut client, |client| client.connection_count() == 0);
    client.turn(Some(Duration::ZERO));
    assert_eq!(client.machine().seen, [Seen::Start, Seen::Lost { addr, how: Lost::Refused }]);

    // The queued frames are gone. Frames sent from now on arrive.
    let listener = TcpListener::bind(addr).unwrap();
    send(&mut client, addr, &request(9, 1));
    client.turn(Some(Duration::ZERO));
    let mut raw = Raw::of(listener.accept().unwrap().0);
    until(&mut client, |_| raw.read().len() >= request(9, 1).len());
    assert_eq!(raw.got, request(9, 1));
}

#[test]
fn a_broken_connection_is_told_once_and_opened_again_by_the_next_send() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let mut client = client(Probe::silent());
    for round in 1..=2 {
        send(&mut client, addr, &request(round, 0));
        client.turn(Some(Duration::ZERO));
        drop(listener.accept().unwrap());
        until(&mut client, |client| client.connection_count() == 0);
        client.turn(Some(Duration::ZERO));
        let lost = |seen: &Seen| *seen == Seen::Lost { addr, how: Lost::Broken };
        assert_eq!(client.machine().count(lost), round as usize);
    }
    assert_eq!(client.machine().seen.len(), 3);
}

#[test]
fn an_accepted_connection_that_ends_is_told_and_then_answers_are_dropped() {
    let (mut server, addr) = server(Probe::silent());
    let mut raw = Raw::connect(addr);
    raw.write(&request(1, 0));
    until(&mut server, |server| server.machine().frames().len() == 1);
    let Seen::Frame { from, .. } = server.machine().seen[1] else { panic!() };
    drop(raw);
    until(&mut server, |server| server.connection_count() == 0);
    server.turn(Some(Duration::ZERO));
    assert_eq!(server.machine().seen[2..], [Seen::Closed { conn: from }]);
    server.step(|_, _, effects| {
        effects.send_with(Peer::Conn(from), |out| out.extend_from_slice(&request(1, 0)))
    });
    assert_eq!(server.stats().frames_dropped, 1);
}

#[test]
fn closing_lets_what_was_sent_before_go_out_first() {
    let (mut server, addr) = server(Probe::new(|_, seen, effects| {
        if let Seen::Frame { from, bytes } = seen {
            effects.send_with(Peer::Conn(*from), |out| out.extend_from_slice(bytes));
            effects.push(Effect::Close { conn: *from });
            effects.send_with(Peer::Conn(*from), |out| out.extend_from_slice(bytes));
        }
    }));
    let mut raw = Raw::connect(addr);
    let large = request(1, 4_000_000);
    let mut rest = &large[..];
    until(&mut server, |_| {
        rest = &rest[raw.write(rest)..];
        raw.read();
        raw.ended
    });
    assert!(raw.got == large);
    drop(raw);
    until(&mut server, |server| server.connection_count() == 0);
    assert_eq!(server.stats().frames_dropped, 1);
    assert_eq!(server.machine().count(|seen| matches!(seen, Seen::Closed { .. })), 1);
}

#[test]
fn who_finishes_writing_still_gets_the_answer() {
    let (mut server, addr) = server(Probe::echo());
    let mut raw = Raw::connect(addr);
    raw.write(&request(1, 10));
    raw.finish_writing();
    until(&mut server, |_| {
        raw.read();
        raw.ended
    });
    assert_eq!(raw.got, request(1, 10));
    until(&mut server, |server| server.connection_count() == 0);
}

/// Takes whole lines and sends them back; holds what follows a line that says so until the next tick.
fn lines() -> Probe {
    let (mut held, mut met) = (None, Vec::new());
    Probe::new(move |_, seen, effects| match seen {
        Seen::Met { conn, peer, own } => {
            assert!(!met.contains(conn), "once, before anything else");
            assert!(peer.is_some() && own.is_some() && peer != own);
            met.push(*conn);
        }
        Seen::Bytes { from, .. } if !met.contains(from) => panic!("it was not met"),
        Seen::Bytes { from, bytes } => {
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1) else { return };
            if held == Some(*from) {
                effects.taken.rest = Rest::Held;
                return;
            }
            let line = &bytes[..end];
            effects.send_with(Peer::Conn(*from), |out| out.extend_from_slice(line));
            let is_last = line == b"hold\n";
            held = is_last.then_some(*from);
            let rest = if is_last { Rest::Held } else { Rest::More };
            effects.taken = Taken { bytes: end, rest };
        }
        Seen::Tick => {
            if let Some(conn) = held.take() {
                effects.push(Effect::Hear { conn });
            }
        }
        _ => {}
    })
}

// J1: the first byte decides whether a connection speaks in frames. The machine takes bytes at its own pace.
#[test]
fn bytes_are_offered_until_they_are_taken() {
    let (config, _) = quiet(NetworkLimits::default());
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let also = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = RuntimeConfig { listen, listen_also: vec![also], hears_bytes: true, ..config };
    let mut server = Runtime::new(lines(), config).unwrap();
    for addr in [server.local_addr().unwrap(), also] {
        let mut raw = Raw::connect(addr);
        let mut sent = b"one\ntw".to_vec();
        raw.write(&sent);
        until(&mut server, |_| raw.read().len() == 4);
        raw.write(b"o\nhold\nfour\n");
        sent.extend_from_slice(b"o\nhold\n");
        until(&mut server, |_| raw.read().len() == sent.len());
        // The bytes are offered once more after the answer has gone out, and then not over and over.
        until(&mut server, |server| server.turn(Some(Duration::ZERO)) == Turn::Idle);
        let before = server.machine().seen.len();
        for _ in 0..50 {
            assert_ne!(server.turn(Some(Duration::ZERO)), Turn::Ended);
        }
        assert_eq!(server.machine().seen.len(), before);
        server.machine_mut().deadline = Some(Instant::ZERO);
        sent.extend_from_slice(b"four\n");
        until(&mut server, |_| raw.read().len() == sent.len());
        assert_eq!(raw.got, sent);
        // The same addresses also accept frames.
        let mut framed = Raw::connect(addr);
        framed.write(&request(1, 3));
        let frames = server.machine().frames().len();
        until(&mut server, |server| server.machine().frames().len() == frames + 1);
    }
}

// J1: processes that hold the same socket share its connections. A process that does nothing gets none.
#[test]
fn a_socket_that_several_hold_is_served_by_whoever_accepts() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let holder = || {
        let (config, _) = quiet(NetworkLimits::default());
        let listen_open = vec![listener.try_clone().unwrap().into()];
        Runtime::new(Probe::echo(), RuntimeConfig { listen_open, ..config }).unwrap()
    };
    let [mut first, mut second, stopped] = [holder(), holder(), holder()];
    let mut raws: Vec<Raw> = (0..20).map(|_| Raw::connect(at)).collect();
    for (rpc, raw) in raws.iter_mut().enumerate() {
        raw.write(&request(rpc as u64, rpc));
    }
    until(&mut first, |_| {
        second.turn(Some(Duration::ZERO));
        raws.iter_mut().enumerate().all(|(rpc, raw)| raw.read() == request(rpc as u64, rpc))
    });
    assert_eq!(first.connection_count() + second.connection_count(), 20);
    assert!(first.connection_count() >= 5 && second.connection_count() >= 5, "they share");
    assert_eq!(stopped.connection_count(), 0);
    let (config, _) = quiet(NetworkLimits::default());
    let no_listener = std::net::TcpStream::connect(at).unwrap();
    let wrong = RuntimeConfig { listen_open: vec![no_listener.into()], ..config };
    assert!(Runtime::new(Probe::echo(), wrong).is_err(), "it does not listen");
}

#[test]
fn many_connections_are_all_served() {
    let (mut server, addr) = server(Probe::echo());
    let mut raws: Vec<Raw> = (0..300).map(|_| Raw::connect(addr)).collect();
    for (rpc, raw) in raws.iter_mut().enumerate() {
        raw.write(&request(rpc as u64, rpc));
    }
    until(&mut server, |_| {
        raws.iter_mut().enumerate().all(|(rpc, raw)| raw.read() == request(rpc as u64, rpc))
    });
    assert_eq!(server.connection_count(), 300);
    drop(raws);
    until(&mut server, |server| server.connection_count() == 0);
    assert_eq!(server.machine().count(|seen| matches!(seen, Seen::Closed { .. })), 300);
}

// E4: a client that sends without pause does not keep the others waiting.
#[test]
fn a_flood_on_one_connection_does_not_hold_up_another() {
    let (mut server, addr) = server(Probe::silent());
    // A large frame comes first: from then on, many bytes are read from this connection at once.
    let flood = [request(1, 8_000_000), request(2, 0).repeat(20_000)].concat();
    let mut flooding = Raw::connect(addr);
    let mut rest = &flood[..];
    until(&mut server, |server| {
        rest = &rest[flooding.write(rest)..];
        server.machine().frames().len() > 300
    });
    let mut other = Raw::connect(addr);
    other.write(&request(3, 0));
    let before = server.machine().frames().len();
    until(&mut server, |server| {
        rest = &rest[flooding.write(rest)..];
        server.machine().frames().len() == 20_002
    });
    let place = server.machine().frames().iter().position(|frame| **frame == request(3, 0)).unwrap();
    assert!(place < before + 600, "came as number {place} after {before}");
}

#[test]
fn an_address_that_is_taken_is_named() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = holder.local_addr().unwrap();
    let (config, _) = quiet(NetworkLimits::default());
    let refused =
        Runtime::new(Probe::silent(), RuntimeConfig { listen: Some(addr), ..config }).err().unwrap();
    assert!(matches!(refused, StartError::Listen { .. }));
    assert!(refused.to_string().contains(&addr.to_string()), "{refused}");
}
