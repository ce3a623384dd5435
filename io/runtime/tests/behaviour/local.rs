//! Processes of one host share memory (E2), and no process can hurt another one by it (F5).

use crate::probe::{Probe, Seen, client_over, quiet, request, server, server_with, until, until_both};
use crate::scratch::Scratch;
use ramhold_base::{Level, Lost, Peer, Rng};
use ramhold_ring::{Memory, Word, ends};
use ramhold_runtime::{NetworkLimits, Poll, Runtime, RuntimeConfig, StartError, Transport};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::net::{SocketAddrUnix, SocketType};
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn send(runtime: &mut Runtime<Probe>, addr: SocketAddr, frame: &[u8]) {
    runtime.step(|_, _, effects| effects.send_with(Peer::Addr(addr), |out| out.extend_from_slice(frame)));
}

/// Sends one request, and turns both until its answer is there.
fn ask(client: &mut Runtime<Probe>, server: &mut Runtime<Probe>, addr: SocketAddr, frame: &[u8]) {
    let before = client.machine().frames().len();
    send(client, addr, frame);
    until_both(client, server, |client, _| client.frames().len() > before);
    assert!(*client.machine().frames()[before] == *frame);
}

#[test]
fn processes_of_one_host_share_memory_unless_told_otherwise() {
    for (transport, shared) in
        [(Transport::Automatic, 1), (Transport::SharedMemory, 1), (Transport::Unix, 0), (Transport::Tcp, 0)]
    {
        let (mut server, addr) = server(Probe::echo());
        let mut client = client_over(Probe::silent(), transport);
        ask(&mut client, &mut server, addr, &request(1, 5));
        assert_eq!(client.stats().connections_shared, shared, "{transport:?}");
        assert_eq!(server.stats().connections_shared, shared, "{transport:?}");
    }
}

// E2: each wakes the other, and what is larger than the memory goes through it in parts.
#[test]
fn loops_that_sleep_are_woken_and_large_frames_go_through() {
    let polls = [Poll::Sleep, Poll::ADAPTIVE, Poll::Busy].map(|poll| (poll, Transport::SharedMemory));
    for (poll, transport) in polls.into_iter().chain([(Poll::Sleep, Transport::Unix)]) {
        let (config, _) = quiet(NetworkLimits::default());
        let listen = Some("127.0.0.1:0".parse().unwrap());
        let mut server = Runtime::new(Probe::echo(), RuntimeConfig { listen, poll, ..config }).unwrap();
        let (addr, stop) = (server.local_addr().unwrap(), server.stop_handle());
        let serves = std::thread::spawn(move || server.run());
        let (config, _) = quiet(NetworkLimits { transport, ..NetworkLimits::default() });
        let mut client = Runtime::new(Probe::silent(), RuntimeConfig { poll, ..config }).unwrap();
        let mut rng = Rng::new(5);
        for round in 0..2000 {
            let bytes = if round % 50 == 0 { rng.below(3_000_000) } else { rng.below(2000) };
            let frame = request(round, bytes as usize);
            send(&mut client, addr, &frame);
            // Without a bell that rings, this waits until its time is over.
            let give_up = std::time::Instant::now() + Duration::from_secs(30);
            while client.machine().frames().is_empty() {
                client.turn(Some(Duration::from_secs(60)));
                assert!(std::time::Instant::now() < give_up, "round {round} slept");
            }
            assert!(client.machine().frames() == [&frame[..]]);
            client.machine_mut().seen.clear();
        }
        stop.stop();
        serves.join().unwrap();
    }
}

// E4: memory is shared with a bounded number of processes; the others go over sockets, and notice nothing.
#[test]
fn too_many_go_over_sockets() {
    let limits = NetworkLimits { shared_count_max: 2, ..NetworkLimits::default() };
    let (mut server, addr) = server_with(Probe::echo(), limits);
    let mut clients: Vec<_> = (0..3).map(|_| client_over(Probe::silent(), Transport::Automatic)).collect();
    for client in &mut clients[..2] {
        ask(client, &mut server, addr, &request(1, 5));
    }
    let third = &mut clients[2];
    // Much of this lies in the memory when the refusal comes, and the rest waits for room there.
    let frames: Vec<_> = (0..10).map(|rpc| request(rpc, 70_000)).collect();
    frames.iter().for_each(|frame| send(third, addr, frame));
    third.turn(Some(Duration::ZERO));
    until_both(third, &mut server, |third, _| third.frames().len() == frames.len());
    assert!(third.machine().frames() == frames);
    assert_eq!((server.stats().memory_refused, server.stats().connections_shared), (1, 2));
    assert_eq!(third.machine().count(|seen| matches!(seen, Seen::Lost { .. })), 0);
    // One ends, and another one may share again.
    clients.remove(0);
    until(&mut server, |server| server.connection_count() == 2);
    let mut fourth = client_over(Probe::silent(), Transport::Automatic);
    ask(&mut fourth, &mut server, addr, &request(1, 5));
    assert_eq!(server.stats().connections_shared, 3);
}

// E2: output of several pieces, of which each finds room and the next turn does not.
#[test]
fn loops_that_sleep_over_much_output_are_woken_when_there_is_room() {
    let (config, _) = quiet(NetworkLimits::default());
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let poll = Poll::Sleep;
    let mut server = Runtime::new(Probe::echo(), RuntimeConfig { listen, poll, ..config }).unwrap();
    let (addr, stop) = (server.local_addr().unwrap(), server.stop_handle());
    let serves = std::thread::spawn(move || server.run());
    let (config, _) = quiet(NetworkLimits { transport: Transport::SharedMemory, ..NetworkLimits::default() });
    let mut client = Runtime::new(Probe::silent(), RuntimeConfig { poll, ..config }).unwrap();
    for round in 0..150 {
        for piece in 0..40 {
            send(&mut client, addr, &request(piece, 65_536 + round as usize));
        }
        let give_up = std::time::Instant::now() + Duration::from_secs(30);
        while client.machine().frames().len() < 40 {
            client.turn(Some(Duration::from_secs(60)));
            assert!(std::time::Instant::now() < give_up, "round {round} slept");
        }
        client.machine_mut().seen.clear();
    }
    stop.stop();
    serves.join().unwrap();
}

#[test]
fn a_process_that_shares_with_nobody_is_reached_over_tcp() {
    let (mut server, addr) =
        server_with(Probe::echo(), NetworkLimits { shared_count_max: 0, ..NetworkLimits::default() });
    let mut client = client_over(Probe::silent(), Transport::Automatic);
    ask(&mut client, &mut server, addr, &request(1, 5));
    let mut insists = client_over(Probe::silent(), Transport::SharedMemory);
    send(&mut insists, addr, &request(1, 5));
    until(&mut insists, |insists| insists.machine().seen.len() == 2);
    assert_eq!(insists.machine().seen[1], Seen::Lost { addr, how: Lost::Refused });
}

// F5: whoever takes the name of an address first keeps no server from its address.
#[test]
fn a_name_that_somebody_else_holds_costs_nothing_but_the_short_way() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
    let squatter = unix_socket();
    rustix::net::bind(&squatter, &name_of(free)).unwrap();
    let (config, lines) = quiet(NetworkLimits::default());
    let _server = Runtime::new(Probe::echo(), RuntimeConfig { listen: Some(free), ..config }).unwrap();
    let lines = lines.lock().unwrap();
    assert!(
        lines.iter().any(|(level, line)| *level == Level::Warn && line.contains(&format!("@ramhold/{free}")))
    );
}

// E2: a path that a killed process has left is taken over, and nobody else's.
#[test]
fn clients_come_over_a_path_that_is_no_other_process_s() {
    let scratch = Scratch::new();
    let path = scratch.path().join("redis.sock");
    let start = |mode| {
        let (config, _) = quiet(NetworkLimits::default());
        let listen = Some("127.0.0.1:0".parse().unwrap());
        Runtime::new(
            Probe::echo(),
            RuntimeConfig { listen, listen_path: Some((path.clone(), mode)), ..config },
        )
    };
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "left behind, as by a kill");

    let mut server = start(0o700).unwrap();
    assert_eq!(mode(), 0o700);
    assert!(matches!(start(0o777), Err(StartError::ListenPath { .. })));
    assert_eq!(mode(), 0o700, "it is another process's");
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_nonblocking(true).unwrap();
    let frame = request(1, 50);
    client.write_all(&frame).unwrap();
    let mut got = vec![0; frame.len()];
    until(&mut server, |_| client.read_exact(&mut got).is_ok());
    assert_eq!(got, frame);
    drop(server);
    assert!(!path.exists());

    std::fs::write(&path, b"a file").unwrap();
    let refused = start(0o700).err().unwrap().to_string();
    assert!(refused.contains("redis.sock") && refused.contains("exists"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), b"a file");
}

#[test]
fn the_end_of_a_process_is_told_after_all_that_it_has_sent() {
    let (mut server, addr) = server(Probe::silent());
    let mut client = client_over(Probe::silent(), Transport::SharedMemory);
    for rpc in 0..50 {
        send(&mut client, addr, &request(rpc, 100));
    }
    client.turn(Some(Duration::ZERO));
    drop(client);
    until(&mut server, |server| matches!(server.machine().seen.last(), Some(Seen::Closed { .. })));
    assert_eq!(server.machine().frames().len(), 50);

    let (server, addr) = crate::probe::server(Probe::echo());
    let mut client = client_over(Probe::silent(), Transport::SharedMemory);
    send(&mut client, addr, &request(1, 5));
    drop(server);
    until(&mut client, |client| client.machine().seen.len() == 2);
    assert_eq!(client.machine().seen[1], Seen::Lost { addr, how: Lost::Broken });
}

// E4: what is not fetched is not kept for ever.
#[test]
fn a_process_that_does_not_fetch_its_answers_is_cut_off() {
    let limits = NetworkLimits { fetch_within: Duration::from_millis(50), ..NetworkLimits::default() };
    // More is answered than the memory holds.
    let answers = Probe::new(|_, seen, effects| {
        if let Seen::Frame { from, .. } = seen {
            (0..20).for_each(|rpc| {
                effects.send_with(Peer::Conn(*from), |out| out.extend(request(rpc, 100_000)))
            });
        }
    });
    let (mut server, addr) = server_with(answers, limits);
    let mut stopped = client_over(Probe::silent(), Transport::SharedMemory);
    send(&mut stopped, addr, &request(1, 5));
    stopped.turn(Some(Duration::ZERO));
    until(&mut server, |server| server.stats().outputs_overdue == 1);
    assert_eq!(server.connection_count(), 0);
}

fn unix_socket() -> OwnedFd {
    rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket")
}

fn name_of(addr: SocketAddr) -> SocketAddrUnix {
    SocketAddrUnix::new_abstract_name(format!("ramhold/{addr}").as_bytes()).expect("a short name")
}

/// A process of this host that says what the test wants.
fn hello(addr: SocketAddr, bytes: &[u8], file: Option<&OwnedFd>) -> OwnedFd {
    try_hello(addr, bytes, file).expect("somebody listens")
}

fn try_hello(addr: SocketAddr, bytes: &[u8], file: Option<&OwnedFd>) -> Option<OwnedFd> {
    let socket = unix_socket();
    rustix::net::connect(&socket, &name_of(addr)).ok()?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<_> = file.iter().map(|file| file.as_fd()).collect();
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    }
    rustix::net::sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
        .expect("the socket takes a few bytes");
    Some(socket)
}

// F5
#[test]
fn a_wrong_hello_ends_the_connection_and_nothing_else() {
    let (mut server, addr) = server(Probe::echo());
    let mut other = client_over(Probe::silent(), Transport::SharedMemory);
    ask(&mut other, &mut server, addr, &request(1, 5));
    let (_, good) = Memory::new(1024).unwrap();
    let disk: OwnedFd = std::fs::File::open(std::env::current_exe().unwrap()).unwrap().into();
    let cases: [(&[u8], Option<&OwnedFd>); 7] = [
        (b"RHS\x01", None),
        (b"RHS\x01", Some(&disk)),
        (b"RHS\x02", Some(&good)),
        (b"RHL\x01", Some(&good)),
        (b"RH", Some(&good)),
        (b"PING\r\n", None),
        (b"RHL\x02", None),
    ];
    for (number, (bytes, file)) in (1..).zip(cases) {
        let socket = hello(addr, bytes, file);
        until(&mut server, |server| server.stats().hellos_refused == number);
        let mut end = [0];
        assert!(matches!(rustix::net::recv(&socket, &mut end, RecvFlags::empty()), Ok((0, _)) | Err(_)));
        ask(&mut other, &mut server, addr, &request(number, 5));
    }
    assert_eq!(server.connection_count(), 1);
}

// F5: closing a socket can take as long as who sent its descriptor wants. Root can play another user here.
#[test]
fn other_users_are_not_let_in_and_keep_nobody_waiting() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: playing another user needs root");
        return;
    }
    let (mut server, addr) = server(Probe::echo());
    let mut other = client_over(Probe::silent(), Transport::Automatic);
    ask(&mut other, &mut server, addr, &request(1, 5));
    let slow: Vec<OwnedFd> = (0..40).map(|_| linger()).collect();
    let knocks = move || {
        as_user(65_534);
        slow.into_iter().filter_map(|slow| try_hello(addr, b"RHS\x01", Some(&slow))).collect::<Vec<_>>()
    };
    let knockers = std::thread::spawn(knocks).join().unwrap();
    assert!(knockers.len() > 20);
    let begun = std::time::Instant::now();
    // So many of them are being closed that those of this user go over TCP for a while.
    until(&mut server, |server| server.stats().names_left == 1 && server.stats().hellos_refused >= 16);
    ask(&mut other, &mut server, addr, &request(2, 5));
    let mut fourth = client_over(Probe::silent(), Transport::Automatic);
    ask(&mut fourth, &mut server, addr, &request(3, 5));
    assert_eq!(fourth.stats().connections_shared, 0);
    assert!(begun.elapsed() < Duration::from_secs(LINGER_SECONDS as u64 / 2), "somebody waited");
}

const LINGER_SECONDS: u32 = 20;

/// A socket whose closing takes long: nobody reads what was sent over it.
fn linger() -> OwnedFd {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let sends = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    let reads_not = listener.accept().expect("one has connected").0;
    std::mem::forget(reads_not);
    sends.set_nonblocking(true).expect("a socket");
    while std::io::Write::write(&mut &sends, &[0; 65_536]).is_ok() {}
    rustix::net::sockopt::set_socket_linger(&sends, Some(Duration::from_secs(LINGER_SECONDS.into())))
        .expect("a socket");
    sends.into()
}

/// The calling thread alone becomes another user.
fn as_user(uid: u32) {
    rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(uid)).expect("root may");
}

// F5: a process that stores at random into the memory, rings, and is silent.
#[test]
fn memory_that_is_written_at_random_hurts_nobody() {
    let mut rng = Rng::new(23);
    let (mut server, addr) = server(Probe::echo());
    let mut other = client_over(Probe::silent(), Transport::SharedMemory);
    ask(&mut other, &mut server, addr, &request(0, 5));
    for round in 0..300 {
        let (memory, file) = Memory::new(64).unwrap();
        let socket = hello(addr, b"RHS\x01", Some(&file));
        let words: &[Word] = memory.as_ref();
        let (mut sender, _) = ends(memory.clone(), ramhold_ring::Side::Maker);
        for _ in 0..rng.below(60) {
            if rng.chance(1, 2) {
                let _ = sender.push(&request(rng.below(5), rng.below(200) as usize));
                let _ = sender.publish();
            }
            if rng.chance(1, 3) {
                let place = if rng.chance(1, 2) {
                    16 * rng.below(words.len() as u64 / 16)
                } else {
                    rng.below(words.len() as u64)
                };
                let value = if rng.chance(1, 2) { rng.below(300) } else { rng.u64() };
                words[place as usize].store(value, Ordering::Relaxed);
            }
            let _ = rustix::net::send(&socket, &[0; 3], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            server.turn(Some(Duration::ZERO));
        }
        drop(socket);
        ask(&mut other, &mut server, addr, &request(round, 50));
        until(&mut server, |server| server.connection_count() == 1);
    }
}
