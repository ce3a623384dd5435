//! Measures round trips of one 100-byte request over shared memory, a Unix socket and loopback TCP, for each way of
//! waiting. The difference shows the benefit of polling, and of leaving the kernel out, on this machine.
//!
//! Run: `cargo run --release -p ramhold-runtime --example ping [round trips]`.

use ramhold_base::{Effect, Effects, Input, Instant, Machine, Peer, RpcId};
use ramhold_runtime::{NetworkLimits, Poll, Runtime, RuntimeConfig, StartError, Transport, now};
use ramhold_wire::{Header, Opcode, frame};
use std::net::SocketAddr;

/// Answers every frame with itself.
struct Echo;

impl Machine for Echo {
    fn step(&mut self, _: Instant, input: Input<'_>, effects: &mut Effects) {
        match input {
            Input::Frame { from, bytes } => {
                effects.send_with(Peer::Conn(from), |out| out.extend_from_slice(bytes));
            }
            Input::Stop => effects.push(Effect::Exit { code: 0, reason: "done".into() }),
            Input::Start { .. }
            | Input::Tick
            | Input::Lost { .. }
            | Input::Closed { .. }
            | Input::Disk { .. }
            | Input::Store { .. }
            | Input::Secret { .. }
            | Input::Met { .. }
            | Input::Bytes { .. } => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// Counts what comes back.
#[derive(Default)]
struct Caller {
    answer_count: u64,
}

impl Machine for Caller {
    fn step(&mut self, _: Instant, input: Input<'_>, _: &mut Effects) {
        if let Input::Frame { .. } = input {
            self.answer_count += 1;
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

fn main() -> Result<(), StartError> {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let ways = [("busy", Poll::Busy), ("adaptive, 50 us", Poll::ADAPTIVE), ("sleep", Poll::Sleep)];
    let over =
        [("shared memory", Transport::SharedMemory), ("unix", Transport::Unix), ("tcp", Transport::Tcp)];
    println!("{:<32} {:>8} {:>8} {:>8} us", "", "p50", "p99", "p99.9");
    for (over, transport) in over {
        for (name, poll) in ways {
            let mut nanos = round_trips(poll, transport, count)?;
            nanos.sort_unstable();
            let at = |per_mille: usize| nanos[(nanos.len() - 1) * per_mille / 1000] as f64 / 1000.0;
            println!("{over:<15} {name:<16} {:>8.2} {:>8.1} {:>8.1}", at(500), at(990), at(999));
        }
    }
    Ok(())
}

fn round_trips(poll: Poll, transport: Transport, count: usize) -> Result<Vec<u64>, StartError> {
    let listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let mut server = Runtime::new(Echo, RuntimeConfig { listen, poll, ..RuntimeConfig::default() })?;
    let addr = server.local_addr().expect("it listens");
    let stop = server.stop_handle();
    let serving = std::thread::spawn(move || server.run());

    let limits = NetworkLimits { transport, ..NetworkLimits::default() };
    let mut client =
        Runtime::new(Caller::default(), RuntimeConfig { poll, limits, ..RuntimeConfig::default() })?;
    let mut nanos = Vec::with_capacity(count);
    for i in 0..count as u64 {
        let start = now();
        client.step(|_, _, effects| {
            effects.send_with(Peer::Addr(addr), |out| {
                frame::write(out, &Header::request(Opcode::Ping, RpcId(i)), |out| {
                    out.resize(out.len() + 100, 7)
                });
            });
        });
        while client.machine().answer_count == i {
            client.turn(None);
        }
        nanos.push(now().0 - start.0);
    }
    stop.stop();
    serving.join().expect("the server does not panic");
    Ok(nanos)
}
