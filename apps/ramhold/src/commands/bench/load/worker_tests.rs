//! The worker against a server and a clock that the test moves.

use super::super::little::Little;
use super::super::mix::{Distribution, Mix, Ycsb};
use super::*;
use ramhold_client::TableId;
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

const TRAVEL: Duration = Duration::from_micros(5);
const SERVICE: Duration = Duration::from_micros(10);
/// The client's own work for an answer.
const CLIENT: Duration = Duration::from_micros(1);
const RUN: Duration = Duration::from_millis(50);

/// Does one operation after the other. The clock stands still but for what it does.
struct Played {
    now: Rc<Cell<Instant>>,
    free_at: Instant,
    under_way: VecDeque<(Instant, Tag)>,
    most: Rc<Cell<usize>>,
    /// The client's own work for operations that start together, however many they are.
    start: Duration,
}

impl Link for Played {
    fn start(&mut self, requests: &mut Vec<(Request, Tag)>) {
        self.now.set(self.now.get() + self.start);
        for (_, tag) in requests.drain(..) {
            self.free_at = self.free_at.max(self.now.get() + TRAVEL) + SERVICE;
            self.under_way.push_back((self.free_at + TRAVEL, tag));
        }
        self.most.set(self.most.get().max(self.under_way.len()));
    }

    fn wait(&mut self) -> Option<(Tag, Ending)> {
        let (at, tag) = self.under_way.pop_front()?;
        self.now.set(self.now.get().max(at) + CLIENT);
        Some((tag, Ending::Done))
    }

    fn poll(&mut self) -> Option<(Tag, Ending)> {
        self.now.set(self.now.get() + CLIENT);
        let (at, _) = self.under_way.front()?;
        if *at <= self.now.get() { self.wait() } else { None }
    }
}

fn load(pipeline: usize, multi: usize, rate: Option<u64>) -> Load {
    Load {
        table: TableId(1),
        clients: 1,
        objects: 100,
        key_bytes: 30,
        value_bytes: 100,
        mix: Mix::reads(50),
        distribution: Distribution::Uniform,
        pipeline,
        multi,
        seed: 7,
        rate,
    }
}

/// The figures of one run, and the most operations that were under way.
fn run(load: &Load) -> (Measured, Little, usize) {
    run_with(load, Duration::ZERO)
}

fn run_with(load: &Load, start: Duration) -> (Measured, Little, usize) {
    let began = Instant::now();
    let (now, most) = (Rc::new(Cell::new(began)), Rc::new(Cell::new(0)));
    let link = Played {
        now: Rc::clone(&now),
        free_at: began,
        under_way: VecDeque::new(),
        most: Rc::clone(&most),
        start,
    };
    let clock = || now.get();
    let worker = Worker::new(load, 0, Box::new(link), &clock);
    let measured = match load.rate {
        None => worker.run_closed(RUN),
        Some(rate) => worker.run_open(RUN, |turn| Duration::from_secs(turn) / rate as u32),
    };
    let little = Little::of(&measured, load);
    (measured, little, most.get())
}

// E2: with times from before the wait for a place, one operation more seemed to be under way than there are places.
#[test]
fn count_rate_and_mean_of_a_closed_loop_agree() {
    for (pipeline, multi) in [(1, 1), (2, 1), (4, 1), (16, 1), (16, 16), (64, 16), (64, 64)] {
        let (measured, little, most) = run(&load(pipeline, multi, None));
        let places = pipeline as f64;
        assert_eq!(most, pipeline);
        assert!(measured.done() > 2000, "{pipeline} {multi}: {measured:?}");
        let told = measured.under_way_told();
        assert!(told <= places * 1.03, "{pipeline} {multi}: {told} operations under way");
        assert!(told >= places / 2.0, "{pipeline} {multi}: {told} operations under way");
        assert_eq!(little.contradiction(), None, "{pipeline} {multi}");
        assert!(!little.is_client_bound());
    }
    let (measured, ..) = run(&load(1, 1, None));
    for kind in [Kind::Read, Kind::Write] {
        all_take(&measured, kind, ALONE);
    }
}

/// The latency of an operation that waits for no other one.
const ALONE: Duration = Duration::from_micros(21);

fn all_take(measured: &Measured, kind: Kind, time: Duration) {
    let times = measured.times(kind).unwrap_or_else(|| panic!("no {kind:?}"));
    let nanos = time.as_nanos() as u64;
    assert!(
        times.equivalent(times.min(), nanos) && times.equivalent(times.max(), nanos),
        "{kind:?}: {times:?}"
    );
}

// E2
#[test]
fn a_read_with_a_write_of_the_same_object_is_one_operation_in_one_place() {
    let load = Load { mix: Ycsb::F.mix(), ..load(1, 1, None) };
    let (measured, little, most) = run(&load);
    assert_eq!(most, 1);
    all_take(&measured, Kind::Read, ALONE);
    all_take(&measured, Kind::Modify, 2 * ALONE);
    assert!(measured.times(Kind::Write).is_none());
    assert_eq!(little.contradiction(), None);
    let (.., most) = run(&Load { pipeline: 16, ..load });
    assert_eq!(most, 16);
}

// E2
#[test]
fn an_open_loop_counts_from_the_due_moment_and_never_has_more_under_way_than_places() {
    // Half of what the server can do: no operation waits for another one.
    let (measured, little, _) = run(&load(8, 1, Some(50_000)));
    assert_eq!(measured.done(), 2500);
    assert_eq!(little.contradiction(), None);
    let times = measured.times(Kind::Read).expect("half of the operations");
    assert!(times.max() < 40_000, "{times:?}");
    // Twice what it can do: the last operation is due when half of them are done.
    let (measured, little, most) = run(&load(8, 1, Some(200_000)));
    assert_eq!((measured.done(), most), (10_000, 8));
    assert_eq!(little.contradiction(), None);
    assert!(little.sent <= 8.0 * 1.03, "{little:?}");
    assert!(little.told > 100.0, "{little:?}");
    let times = measured.times(Kind::Write).expect("half of the operations");
    assert!(times.max() > RUN.as_nanos() as u64 * 9 / 10, "{times:?}");
}

// E2: with a start for each operation, the client would fall behind for ever; without a look for answers in between, all places
// would be taken, and each answer would wait for the last one.
#[test]
fn an_open_loop_that_is_behind_sends_together_and_takes_answers_in() {
    let load = load(64, 1, Some(50_000));
    // Two and a half operations are due in the meantime.
    let (measured, little, most) = run_with(&load, Duration::from_micros(50));
    assert_eq!(little.contradiction(), None);
    assert!(most < 20, "{most}");
    let times = measured.times(Kind::Read).expect("half of the operations");
    assert!(times.max() < 300_000, "{times:?}");
}

// E2
#[test]
fn a_client_that_is_slower_than_the_server_is_noticed() {
    let load = load(1, 1, None);
    let began = Instant::now();
    let now = Rc::new(Cell::new(began));
    let link = Played {
        now: Rc::clone(&now),
        free_at: began,
        under_way: VecDeque::new(),
        most: Rc::new(Cell::new(0)),
        start: Duration::ZERO,
    };
    // An operation has three looks at the clock: when it is sent, before the next one is made, and when its answer is taken
    // in. After that the client takes ten times as long as the server before it sends the next one. The worker has looked
    // twice before the first one is sent.
    let looks = Cell::new(2_u32);
    let clock = || {
        let is_taken = looks.replace(looks.get() + 1).is_multiple_of(3);
        now.replace(now.get() + if is_taken { 10 * SERVICE } else { Duration::ZERO })
    };
    let measured = Worker::new(&load, 0, Box::new(link), &clock).run_closed(RUN);
    let little = Little::of(&measured, &load);
    assert_eq!(little.contradiction(), None);
    assert!(little.is_client_bound(), "{little:?}");
}
