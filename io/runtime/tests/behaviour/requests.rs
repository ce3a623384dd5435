//! Time, stopping, reports and the store.

use crate::probe::{Probe, Raw, Seen, quiet, request, server, until};
use ramhold_base::{Effect, Level, Machine, Peer, ServerId, StoreRequest, StoreResult, StoreToken};
use ramhold_runtime::{Answer, Exit, NetworkLimits, Runtime, RuntimeConfig, Store, Turn};
use std::time::Duration;

#[test]
fn a_tick_comes_when_the_deadline_has_come_and_not_before() {
    let mut runtime = Runtime::new(Probe::silent(), quiet(NetworkLimits::default()).0).unwrap();
    let due = ramhold_runtime::now() + Duration::from_millis(20);
    runtime.step(|machine, _, _| machine.deadline = Some(due));
    assert_eq!(runtime.turn(Some(Duration::ZERO)), Turn::Idle);
    assert_eq!(runtime.machine().seen, [Seen::Start]);
    // The loop sleeps until the deadline, because no maximum wait is given.
    while runtime.machine().seen.len() < 2 {
        runtime.turn(None);
    }
    assert_eq!(runtime.machine().seen[1], Seen::Tick);
    assert!(ramhold_runtime::now() >= due);
    assert_eq!(runtime.machine().deadline(), None);
}

#[test]
fn stopping_from_another_thread_ends_the_loop_after_its_last_answer() {
    let (mut runtime, addr) = server(Probe::new(|_, seen, effects| match seen {
        Seen::Frame { from, bytes } => {
            effects.send_with(Peer::Conn(*from), |out| out.extend_from_slice(bytes));
            effects.push(Effect::Exit { code: 7, reason: "asked to".into() });
            effects.report(Level::Error, "an effect after the exit");
        }
        Seen::Stop => {
            effects.send_with(Peer::Conn(ramhold_base::ConnId(0)), |out| out.extend_from_slice(b"to nobody"));
        }
        _ => {}
    }));
    let stop = runtime.stop_handle();
    let loop_thread = std::thread::spawn(move || (runtime.run(), runtime));
    stop.stop();
    let mut stream = std::net::TcpStream::connect(addr).unwrap();
    let large = request(1, 5_000_000);
    std::io::Write::write_all(&mut stream, &large).unwrap();
    let mut answer = vec![0; large.len()];
    std::io::Read::read_exact(&mut stream, &mut answer).unwrap();
    assert!(answer == large);
    let (exit, mut runtime) = loop_thread.join().unwrap();
    assert_eq!(exit, Exit { code: 7, reason: "asked to".into() });
    assert_eq!(runtime.machine().count(|seen| *seen == Seen::Stop), 1);
    assert_eq!(runtime.turn(None), Turn::Ended);
    assert_eq!(runtime.exit(), Some(&exit));
}

#[test]
fn stop_wakes_a_sleeping_loop() {
    let (mut runtime, _) = server(Probe::echo());
    let stop = runtime.stop_handle();
    let loop_thread = std::thread::spawn(move || runtime.run());
    stop.stop();
    assert_eq!(loop_thread.join().unwrap().code, 7);
}

#[test]
fn a_machine_that_ended_gets_nothing_more() {
    let (mut runtime, addr) = server(Probe::new(|_, seen, effects| {
        if matches!(seen, Seen::Frame { .. }) {
            effects.push(Effect::Exit { code: 1, reason: String::new() });
        }
    }));
    let mut raw = Raw::connect(addr);
    raw.write(&request(1, 0).repeat(5));
    until(&mut runtime, |runtime| runtime.exit().is_some());
    assert_eq!(runtime.machine().frames().len(), 1);
}

// J5
#[test]
fn reports_are_single_lines_with_the_name_of_the_process() {
    let (config, lines) = quiet(NetworkLimits::default());
    let mut runtime = Runtime::new(Probe::silent(), config).unwrap();
    runtime.step(|_, _, effects| {
        effects.report(Level::Info, "before");
        effects.push(Effect::Named { server: ServerId(4) });
        effects.report(Level::Warn, "key \"a\nb\" is odd");
    });
    let expected = [(Level::Info, "before".into()), (Level::Warn, "s4: key \"a\\nb\" is odd".into())];
    assert_eq!(*lines.lock().unwrap(), expected);
}

struct Doubling;

impl Store for Doubling {
    fn execute(&mut self, token: StoreToken, request: StoreRequest, answer: &Answer) {
        match request {
            StoreRequest::Get { key } => answer(token, StoreResult::Found(vec![(key, 1, vec![])])),
            StoreRequest::Watch { prefix } => {
                answer(token, StoreResult::Found(vec![]));
                // A store may answer from its own threads.
                let answer = Answer::clone(answer);
                std::thread::spawn(move || answer(token, StoreResult::Changed { key: prefix, value: None }));
            }
            StoreRequest::List { .. } | StoreRequest::Commit { .. } => answer(token, StoreResult::Committed),
        }
    }
}

// G1
#[test]
fn the_store_answers_in_order_and_whenever_something_changes() {
    let (config, _) = quiet(NetworkLimits::default());
    let mut runtime =
        Runtime::new(Probe::silent(), RuntimeConfig { store: Some(Box::new(Doubling)), ..config }).unwrap();
    runtime.step(|_, _, effects| {
        effects.push(Effect::Store { token: StoreToken(1), request: StoreRequest::Get { key: "k".into() } });
        effects.push(Effect::Store {
            token: StoreToken(2),
            request: StoreRequest::Watch { prefix: "p".into() },
        });
    });
    until(&mut runtime, |runtime| runtime.machine().seen.len() == 4);
    let seen = |token, result| Seen::Store { token: StoreToken(token), result };
    let expected = [
        seen(1, StoreResult::Found(vec![("k".into(), 1, vec![])])),
        seen(2, StoreResult::Found(vec![])),
        seen(2, StoreResult::Changed { key: "p".into(), value: None }),
    ];
    assert_eq!(runtime.machine().seen[1..], expected);
}

#[test]
fn without_a_store_requests_fail() {
    let mut runtime = Runtime::new(Probe::silent(), quiet(NetworkLimits::default()).0).unwrap();
    let request = StoreRequest::List { prefix: String::new() };
    runtime.step(|_, _, effects| effects.push(Effect::Store { token: StoreToken(1), request }));
    assert!(matches!(&runtime.machine().seen[1], Seen::Store { result: StoreResult::Failed(_), .. }));
}

/// F8, J2: the time that a frame comes with was read after its bytes were received, so it is never before its client sent
/// it, however long the loop stood still meanwhile. A read lease is compared with it (docs/protocols/read-leases.md).
#[test]
fn a_frame_comes_with_a_time_that_is_not_before_it_was_sent() {
    let sender = std::sync::Arc::new(std::sync::Mutex::new(None::<std::net::TcpStream>));
    let late = std::sync::Arc::clone(&sender);
    let (mut runtime, addr) = server(Probe::new(move |now, seen, _| {
        let Seen::Frame { bytes, .. } = seen else { return };
        let (header, _) = ramhold_wire::frame::parse(bytes).unwrap();
        if header.rpc.raw() > 2 {
            assert!(now.0 >= header.rpc.raw(), "at {now:?} it had not been sent");
        } else if let Some(mut other) = late.lock().unwrap().take() {
            // This is the first of two frames of one turn. While it is handled, a third one arrives over the
            // other frame's connection.
            std::thread::sleep(Duration::from_millis(20));
            let sent = ramhold_runtime::now();
            std::io::Write::write_all(&mut other, &request(sent.0, 0)).unwrap();
        }
    }));
    let mut streams = [1, 2].map(|_| std::net::TcpStream::connect(addr).unwrap());
    until(&mut runtime, |runtime| runtime.connection_count() == 2);
    *sender.lock().unwrap() = Some(streams[1].try_clone().unwrap());
    for (stream, rpc) in streams.iter_mut().zip([1, 2]) {
        std::io::Write::write_all(stream, &request(rpc, 0)).unwrap();
    }
    until(&mut runtime, |runtime| runtime.machine().frames().len() == 3);
}

// I6: a loop that is late tells since when the next frame may have waited, not when it found it.
#[test]
fn a_frame_that_waited_for_a_long_step_came_before_that_step_ended() {
    let (sent, written_at) = std::sync::mpsc::channel();
    let mut other: Option<Raw> = None;
    let (mut runtime, addr) = server(Probe::silent());
    let mut raw = Raw::connect(addr);
    let mut late = Raw::connect(addr);
    raw.write(&request(1, 0));
    until(&mut runtime, |runtime| runtime.machine().frames().len() == 1);
    late.write(&request(2, 0));
    until(&mut runtime, |runtime| runtime.machine().frames().len() == 2);
    other.replace(late);
    let machine = runtime.machine_mut();
    *machine = Probe::new(move |now, seen, _| {
        if let (Seen::Frame { .. }, Some(mut late)) = (seen, other.take()) {
            late.write(&request(3, 0));
            sent.send((ramhold_runtime::now(), late)).expect("somebody listens");
            // The processor is taken away for a while.
            while ramhold_runtime::now() < now + Duration::from_millis(5) {}
        }
    });
    raw.write(&request(4, 0));
    until(&mut runtime, |runtime| runtime.machine().frames().len() == 1);
    let (written, _late) = written_at.recv().expect("it was sent");
    until(&mut runtime, |runtime| runtime.machine().frames().len() == 2);
    let came_after = runtime.machine().came_after;
    assert!(came_after != ramhold_base::Instant::ZERO && came_after <= written, "{came_after:?} {written:?}");
}

// E3
#[test]
fn frames_of_a_turn_are_dealt_with_together_and_answered_before_the_next_turn() {
    let (mut runtime, addr) = server(Probe::gathering());
    let mut peers = [Raw::connect(addr), Raw::connect(addr)];
    until(&mut runtime, |runtime| runtime.connection_count() == 2);
    let frames = request(1, 10).repeat(5);
    for peer in &mut peers {
        peer.write(&frames);
    }
    until(&mut runtime, |runtime| runtime.machine().turns.iter().sum::<usize>() == 10);
    let turns = &runtime.machine().turns;
    assert!(turns.len() <= 2, "one for each write at most: {turns:?}");
    // The loop does not turn any more.
    let give_up = std::time::Instant::now() + Duration::from_secs(30);
    for peer in &mut peers {
        while peer.read().len() < frames.len() {
            assert!(std::time::Instant::now() < give_up, "the answers have not gone out");
        }
        assert_eq!(peer.got, frames);
    }
}

// E3
#[test]
fn the_loop_does_not_wait_while_something_is_put_off() {
    let mut runtime = Runtime::new(Probe::gathering(), quiet(NetworkLimits::default()).0).unwrap();
    runtime.step(|machine, _, _| machine.put_off.push((ramhold_base::ConnId(0), Vec::new())));
    let begun = std::time::Instant::now();
    runtime.turn(Some(Duration::from_secs(60)));
    assert_eq!(runtime.machine().turns, [1]);
    assert!(begun.elapsed() < Duration::from_secs(30), "it has waited for something else to happen");
}
