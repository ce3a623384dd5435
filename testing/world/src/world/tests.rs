//! Tests of the world itself, with machines that are as small as possible.

mod secrets;

use super::*;
use crate::network::SECOND;
use ramhold_base::{
    ConnId, DiskFile, DiskToken, Effect, Input, Level, Lost, Peer, StoreCondition, StoreRequest, StoreResult,
    StoreToken,
};
use std::time::Duration;

/// Answers every frame with the same bytes. A caller sends one frame each millisecond and remembers the
/// answers.
#[derive(Default)]
struct Echo {
    calls: Option<SocketAddr>,
    next: Option<Instant>,
    sent: u64,
    heard: Vec<u64>,
    lost: Vec<Lost>,
    closed: Vec<ConnId>,
}

impl Machine for Echo {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match input {
            Input::Start { .. } => self.next = self.calls.map(|_| now),
            Input::Tick => {}
            Input::Frame { from, bytes } => match self.calls {
                Some(_) => self.heard.extend(bytes.first_chunk().map(|b| u64::from_le_bytes(*b))),
                None => effects.send_with(Peer::Conn(from), |out| out.extend_from_slice(bytes)),
            },
            Input::Lost { how, .. } => self.lost.push(how),
            Input::Closed { conn } => self.closed.push(conn),
            Input::Stop => effects.push(Effect::Exit { code: 0, reason: "asked to".into() }),
            Input::Disk { .. }
            | Input::Store { .. }
            | Input::Secret { .. }
            | Input::Met { .. }
            | Input::Bytes { .. } => {
                unreachable!("asked for none")
            }
        }
        if let (Some(addr), Some(next)) = (self.calls, self.next)
            && next <= now
        {
            self.sent += 1;
            let number = self.sent;
            effects.send_with(Peer::Addr(addr), |out| {
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&[0; 16]);
            });
            self.next = Some(now + Duration::from_millis(1));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.next
    }
}

fn addr(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], 1000))
}

/// Node 0 answers, node 1 calls it.
fn pair(seed: u64, network: NetworkOptions) -> World<Echo> {
    let mut world = World::new(seed, network);
    world.add_node(NodeOptions::plain("answers", addr(1)), |_| Echo::default());
    let clock = Clock { origin: 77, since: 0, rate_ppm: 200, wall_skew_millis: -5 };
    world.add_node(NodeOptions { clock, ..NodeOptions::plain("calls", addr(2)) }, |_| Echo {
        calls: Some(addr(1)),
        ..Echo::default()
    });
    world
}

fn caller(world: &World<Echo>) -> &Echo {
    world.machine(1).unwrap()
}

fn rough() -> NetworkOptions {
    NetworkOptions {
        hold_max: 20 * MILLI,
        hold_ppm: 50_000,
        loss_ppm: 20_000,
        duplicate_ppm: 20_000,
        corrupt_ppm: 10_000,
        break_ppm: 2_000,
        ..NetworkOptions::calm()
    }
}

/// J3
#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let run = |seed| {
        let mut world = pair(seed, rough());
        for second in 1..10 {
            world.run_until(second * SECOND / 2);
            match second % 3 {
                0 => world.crash(0),
                1 => world.restart_at(0, 0),
                _ => world.stall(1, 300 * MILLI),
            }
        }
        (world.trace, world.steps)
    };
    assert_eq!(run(4), run(4));
    assert_ne!(run(4), run(5));
}

#[test]
fn on_a_calm_network_every_frame_is_answered_once_and_in_order() {
    let mut world = pair(1, NetworkOptions::calm());
    world.run_until(SECOND);
    let heard = &caller(&world).heard;
    assert!((990..=1001).contains(&heard.len()), "{}", heard.len());
    assert!(heard.iter().zip(1..).all(|(a, b)| *a == b));
    assert!(caller(&world).lost.is_empty());
}

#[test]
fn a_rough_network_loses_doubles_reorders_and_changes_frames() {
    let mut world = pair(2, rough());
    world.run_until(20 * SECOND);
    let echo = caller(&world);
    let distinct: BTreeSet<u64> = echo.heard.iter().copied().collect();
    assert!(distinct.len() < echo.sent as usize, "nothing was lost");
    assert!(distinct.len() < echo.heard.len(), "nothing came twice");
    assert!(echo.heard.windows(2).any(|w| w[0] > w[1]), "nothing overtook");
    for kind in ["lost frame", "doubled frame", "held frame", "corrupt frame", "broken connection"] {
        assert!(world.faults[kind] > 0, "{kind}");
    }
    assert!(world.machine(0).unwrap().closed.len() > 1);
}

#[test]
fn a_dead_process_refuses_and_a_dead_host_is_silent() {
    let mut world = pair(3, NetworkOptions::calm());
    world.run_until(100 * MILLI);
    world.crash(0);
    world.run_until(8 * SECOND);
    let lost = caller(&world).lost.clone();
    assert_eq!(lost[0], Lost::Broken);
    assert!(lost.len() > 1000 && lost[1..].iter().all(|l| *l == Lost::Refused));

    let mut world = pair(3, NetworkOptions::calm());
    world.run_until(100 * MILLI);
    world.cut_power(0);
    world.run_until(8 * SECOND);
    let lost = caller(&world).lost.clone();
    assert!((3..=10).contains(&lost.len()), "{lost:?}");
    assert!(lost.iter().all(|l| *l == Lost::Broken));
}

/// The promise of `Lost::Refused`: nothing sent since the last loss has arrived.
#[test]
fn what_was_refused_has_not_arrived() {
    for seed in 0..20 {
        let mut world = pair(seed, rough());
        let mut known = 0;
        let (mut at_loss, mut sent_at_loss) = (0, 0);
        for tick in 1..4000u64 {
            world.run_until(tick * MILLI);
            if tick % 40 == 0 {
                world.crash(0);
                world.restart_at(0, (tick + 1 + seed % 5) * MILLI);
            }
            let echo = caller(&world);
            if echo.lost.len() > known {
                if echo.lost.len() == known + 1 && echo.lost[known] == Lost::Refused {
                    let range = at_loss + 1..=sent_at_loss;
                    assert!(
                        !echo.heard.iter().any(|n| range.contains(n)),
                        "seed {seed}: answered, then refused"
                    );
                }
                known = echo.lost.len();
                at_loss = echo.sent;
            }
            sent_at_loss = echo.sent;
        }
    }
}

#[test]
fn a_cut_is_silence_first_and_heals() {
    let mut world = pair(5, NetworkOptions::calm());
    world.run_until(SECOND);
    world.network.cut(&[0], &[1]);
    world.run_until(1600 * MILLI);
    let before = caller(&world).heard.len();
    assert!(caller(&world).lost.is_empty());
    world.run_until(6 * SECOND);
    assert_eq!(caller(&world).heard.len(), before);
    world.network.heal();
    world.run_until(9 * SECOND);
    assert!(caller(&world).heard.len() > before + 1500);
}

#[test]
fn a_stalled_process_finds_its_inputs_waiting() {
    let mut world = pair(6, NetworkOptions::calm());
    world.run_until(SECOND);
    let before = caller(&world).heard.len();
    world.stall(0, SECOND);
    world.run_until(1990 * MILLI);
    assert!(caller(&world).heard.len() <= before + 1);
    world.run_until(2100 * MILLI);
    assert!(caller(&world).heard.len() > before + 1000);
}

#[test]
fn a_stopped_process_exits_and_its_supervisor_restarts_it() {
    let mut world = World::new(1, NetworkOptions::calm());
    let options = NodeOptions { supervised: true, ..NodeOptions::plain("a", addr(1)) };
    world.add_node(options, |_| Echo::default());
    world.run_until(MILLI);
    world.stop(0);
    world.run_until(2 * MILLI);
    assert!(world.machine(0).is_none());
    assert_eq!(world.exits[0].reason, "asked to");
    world.run_until(2 * SECOND);
    assert_eq!(world.node(0).life, 2);
    assert!(world.machine(0).is_some());
}

/// Writes numbers to the frames one after the other, and syncs each before the next. It knows which are
/// synced.
#[derive(Default)]
struct Writer {
    written: u64,
    synced: u64,
    found: Option<u64>,
}

const WRITE: DiskToken = DiskToken(1);
const SYNC: DiskToken = DiskToken(2);
const READ: DiskToken = DiskToken(3);
const NOTE: DiskToken = DiskToken(4);

impl Machine for Writer {
    fn step(&mut self, _: Instant, input: Input<'_>, effects: &mut Effects) {
        match input {
            Input::Start { .. } => {
                effects.push(Effect::DiskRead {
                    token: READ,
                    file: DiskFile::Frames,
                    offset: 0,
                    bytes: 1 << 20,
                });
                return;
            }
            Input::Disk { token: READ, result } => {
                let bytes = result.expect("no read errors here");
                let numbers = bytes.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().unwrap()));
                self.written = numbers.zip(1..).take_while(|(a, b)| a == b).count() as u64;
                self.found = Some(self.written);
            }
            Input::Disk { token: WRITE, .. } => {
                effects.push(Effect::DiskSync { token: SYNC, file: DiskFile::Frames });
                return;
            }
            Input::Disk { token: SYNC, .. } => {
                self.synced = self.written;
                effects.disk_write(NOTE, DiskFile::Buffers, 0, &self.written.to_le_bytes());
                return;
            }
            Input::Disk { token: NOTE, .. } => effects.report(Level::Debug, "mark:number noted"),
            other => panic!("{other:?}"),
        }
        self.written += 1;
        effects.disk_write(WRITE, DiskFile::Frames, (self.written - 1) * 8, &self.written.to_le_bytes());
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// D1: a step is counted from when the death is planned, and whoever was named dies at it.
#[test]
fn a_process_dies_at_the_step_of_another() {
    for death in [Death::Killed, Death::PowerCut] {
        let mut world: World<Writer> = World::new(1, NetworkOptions::calm());
        let [one, other] = [1, 2]
            .map(|host| world.add_node(NodeOptions::plain("writer", addr(host)), |_| Writer::default()));
        world.note_passes();
        world.run_until(SECOND);
        let mark = "number noted";
        let passed = world.take_passes()[&(one, mark.to_string())];
        assert!(passed > 10);
        world.note_passes();
        world.crash_when(other, death, &Step { node: one, mark: mark.into(), number: 3 });
        world.run_while(2 * SECOND, |world| world.node(other).is_up());
        assert!(world.node(one).is_up() && !world.node(other).is_up());
        assert_eq!((world.take_passes()[&(one, mark.to_string())], world.crash_points[mark]), (3, 1));
        world.crash_when(one, death, &Step { node: one, mark: mark.into(), number: 1 });
        world.run_while(2 * SECOND, |world| world.node(one).is_up());
        assert!(!world.node(one).is_up());
    }
}

/// D2, J3: through kills, deaths in the middle of a step and power cuts, synced numbers are found again.
#[test]
fn a_completed_sync_survives_everything() {
    let mut more_than_synced = 0;
    for seed in 0..50 {
        let mut world: World<Writer> = World::new(seed, NetworkOptions::calm());
        world.add_node(NodeOptions::plain("writer", addr(1)), |_| Writer::default());
        for round in 1..40 {
            world.run_until(round * 100 * MILLI);
            let synced = world.machine(0).map(|m| m.synced.max(m.found.unwrap_or(0))).unwrap();
            match round % 3 {
                0 => world.crash(0),
                1 => world.cut_power(0),
                _ => world.crash_after_effects(0, round as u32 % 7),
            }
            world.run_until(round * 100 * MILLI + 50 * MILLI);
            if round % 3 == 2 {
                assert!(world.machine(0).is_none(), "the effects for its death came");
                let note = world.node(0).disks.file(DiskFile::Buffers).bytes().to_vec();
                assert!(note.first_chunk().is_some_and(|b| u64::from_le_bytes(*b) >= synced.min(1)));
            }
            world.restart(0);
            world.run_until(round * 100 * MILLI + 60 * MILLI);
            let found = world.machine(0).unwrap().found.unwrap();
            assert!(found >= synced, "seed {seed}: {synced} were synced, {found} found");
            more_than_synced += u64::from(found > synced);
        }
        assert!(world.marks["number noted"] > 100);
    }
    assert!(more_than_synced > 50);
}

/// Counts in the store with conditional commits, two of them against each other.
#[derive(Default)]
struct Counter {
    committed: u64,
    told: u64,
}

impl Machine for Counter {
    fn step(&mut self, _: Instant, input: Input<'_>, effects: &mut Effects) {
        let get = Effect::Store { token: StoreToken(1), request: StoreRequest::Get { key: "n".into() } };
        match input {
            Input::Start { .. } => {
                let watch = StoreRequest::Watch { prefix: "n".into() };
                effects.push(Effect::Store { token: StoreToken(9), request: watch });
                effects.push(get);
            }
            Input::Store { result: StoreResult::Found(found), .. } => {
                let version = found.first().map(|(_, version, _)| *version);
                let conditions = vec![StoreCondition { key: "n".into(), version }];
                let puts = vec![("n".into(), Some(vec![1]))];
                let request = StoreRequest::Commit { conditions, puts };
                effects.push(Effect::Store { token: StoreToken(2), request });
            }
            Input::Store { result: StoreResult::Committed, .. } => {
                self.committed += 1;
                effects.push(get);
            }
            Input::Store { result: StoreResult::Changed { .. }, .. } => self.told += 1,
            Input::Store { result: StoreResult::Conflict { .. } | StoreResult::Failed(_), .. } => {
                effects.push(get)
            }
            other => panic!("{other:?}"),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// G1: commits are atomic and durable; a failed commit has an unknown fate.
#[test]
fn a_commit_that_was_answered_stays_and_one_that_failed_may() {
    let mut unanswered = 0;
    for seed in 0..20 {
        let mut world: World<Counter> = World::new(seed, NetworkOptions::calm());
        world.store_failure_ppm = 100_000;
        world.add_node(NodeOptions::plain("a", addr(1)), |_| Counter::default());
        world.add_node(NodeOptions::plain("b", addr(2)), |_| Counter::default());
        world.run_until(3 * SECOND);
        let first_life = world.machine(0).unwrap().committed;
        assert!(world.machine(0).unwrap().told > 50);
        world.cut_power(0);
        world.restart(0);
        world.run_until(4 * SECOND);
        let second_life = world.machine(0).unwrap().committed;
        assert!(second_life > 0);
        let answered = first_life + second_life + world.machine(1).unwrap().committed;
        let version = world.store(0).version("n");
        assert!(version >= answered, "seed {seed}: an answered commit is gone");
        assert!(version <= answered + world.faults["store failure"] + 3, "seed {seed}: commits from nowhere");
        unanswered += version - answered;
        assert!(world.faults["store failure"] > 0);
    }
    assert!(unanswered > 0);
}

/// A machine whose deadline never moves is caught instead of hanging the run.
#[test]
#[should_panic(expected = "spins")]
fn a_spinning_machine_is_caught() {
    struct Spinner;
    impl Machine for Spinner {
        fn step(&mut self, _: Instant, _: Input<'_>, _: &mut Effects) {}
        fn deadline(&self) -> Option<Instant> {
            Some(Instant::ZERO)
        }
    }
    let mut world: World<Spinner> = World::new(1, NetworkOptions::calm());
    world.add_node(NodeOptions::plain("spinner", addr(1)), |_| Spinner);
    world.run_until(10 * SECOND);
}

/// Sends numbered bytes to a receiver that takes them in odd pieces and holds back at times. Both remember
/// the bytes.
#[derive(Default)]
struct Streamer {
    calls: Option<SocketAddr>,
    next: Option<Instant>,
    sent: u8,
    heard: Vec<u8>,
    turn: u64,
    held: Option<ConnId>,
    ends: u32,
}

impl Machine for Streamer {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        self.turn += 1;
        match input {
            Input::Start { .. } => self.next = Some(now),
            Input::Bytes { from, bytes } => {
                let part = (self.turn % 7 * 13) as usize;
                let taken = part.min(bytes.len());
                self.heard.extend_from_slice(&bytes[..taken]);
                let rest = match self.turn % 3 {
                    _ if taken == bytes.len() => ramhold_base::Rest::Part,
                    0 => ramhold_base::Rest::More,
                    _ => ramhold_base::Rest::Held,
                };
                self.held = (rest == ramhold_base::Rest::Held).then_some(from).or(self.held);
                effects.taken = ramhold_base::Taken { bytes: taken, rest };
            }
            Input::Lost { .. } | Input::Closed { .. } => {
                self.ends += 1;
                self.held = None;
            }
            _ => {}
        }
        if self.next.is_some_and(|next| next <= now) {
            self.next = Some(now + Duration::from_millis(1));
            if let Some(conn) = self.held.take() {
                effects.push(Effect::Hear { conn });
            }
            if let Some(addr) = self.calls {
                let from = self.sent;
                effects.send_with(Peer::Addr(addr), |out| {
                    out.extend((0..20).map(|n| from.wrapping_add(n) & 127))
                });
                self.sent = self.sent.wrapping_add(20);
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.next
    }
}

fn streaming(seed: u64, network: NetworkOptions) -> World<Streamer> {
    let mut world = World::new(seed, network);
    world.hears_bytes = true;
    world.add_node(NodeOptions::plain("hears", addr(1)), |_| Streamer::default());
    world.add_node(NodeOptions::plain("calls", addr(2)), |_| Streamer {
        calls: Some(addr(1)),
        ..Streamer::default()
    });
    world
}

/// Whatever frames would suffer, a stream arrives in order and whole.
#[test]
fn bytes_arrive_in_order_and_each_once() {
    let mut world = streaming(3, NetworkOptions { break_ppm: 0, ..rough() });
    world.run_until(5 * SECOND);
    let heard = &world.machine(0).unwrap().heard;
    assert!(heard.len() > 20_000, "{}", heard.len());
    assert!(heard.iter().zip((0..=255u8).cycle()).all(|(a, b)| *a == b & 127));
    assert_eq!(world.machine(0).unwrap().ends, 0);
    let trace = |seed| {
        let mut world = streaming(seed, NetworkOptions { break_ppm: 10_000, ..rough() });
        world.run_until(2 * SECOND);
        (world.trace, world.machine(0).unwrap().ends > 0)
    };
    assert_eq!(trace(5), trace(5));
    assert!(trace(5).1);
    assert_ne!(trace(5).0, trace(6).0);
}

/// After a cut nothing arrives that was sent after the lost packet. The sender learns of it and begins anew.
#[test]
fn a_stream_that_lost_something_ends() {
    let mut world = streaming(4, NetworkOptions::calm());
    world.run_until(SECOND);
    let before = world.machine(0).unwrap().heard.len();
    world.network.cut(&[1], &[0]);
    world.run_until(SECOND + 100 * MILLI);
    world.network.heal();
    world.run_until(SECOND + 500 * MILLI);
    let heard = world.machine(0).unwrap().heard.len();
    assert!(heard - before < 40, "{}", heard - before);
    world.run_until(10 * SECOND);
    assert!(world.machine(1).unwrap().ends >= 1);
    assert!(world.machine(0).unwrap().heard.len() > heard + 10_000);
}

/// Puts every frame off to the end of its turn, and notes how many each turn brought. A caller sends a few frames each
/// millisecond.
#[derive(Default)]
struct Gatherer {
    calls: Option<SocketAddr>,
    next: Option<Instant>,
    sent: u32,
    put_off: u32,
    turns: Vec<u32>,
}

const GATHERED: u32 = 400;

impl Machine for Gatherer {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match (&input, self.calls) {
            (Input::Start { .. }, Some(_)) => self.next = Some(now),
            (Input::Frame { .. }, _) => self.put_off += 1,
            _ => {}
        }
        if let (Some(addr), Some(next)) = (self.calls, self.next)
            && next <= now
        {
            for _ in 0..4 {
                effects.send_with(Peer::Addr(addr), |out| out.extend_from_slice(&[0; 24]));
            }
            self.sent += 4;
            self.next = (self.sent < GATHERED).then_some(now + Duration::from_millis(1));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.next
    }

    fn puts_off(&self) -> bool {
        self.put_off > 0
    }

    fn turn_over(&mut self, _: Instant, _: &mut Effects) {
        self.turns.push(std::mem::take(&mut self.put_off));
    }
}

/// E3
#[test]
fn a_turn_brings_one_input_or_several_and_ends_also_after_a_stall() {
    let mut world: World<Gatherer> = World::new(3, NetworkOptions::calm());
    world.add_node(NodeOptions::plain("gathers", addr(1)), |_| Gatherer::default());
    let calls = Some(addr(1));
    let caller = move |_| Gatherer { calls, ..Gatherer::default() };
    world.add_node(NodeOptions::plain("calls", addr(2)), caller);
    world.run_until(30 * MILLI);
    world.stall(0, SECOND);
    world.run_until(60 * MILLI);
    world.resume_all();
    world.run_until(SECOND / 2);
    let gatherer = world.machine(0).unwrap();
    assert_eq!(gatherer.turns.iter().sum::<u32>(), GATHERED);
    assert!(gatherer.turns.contains(&1) && gatherer.turns.iter().any(|count| *count > 1));
    assert!(!gatherer.puts_off());
}
