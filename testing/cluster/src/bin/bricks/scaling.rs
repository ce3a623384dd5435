//! Bricks are added to a table one by one under load, and removed again: what fails, how long clients wait, how many bytes
//! a moved tablet costs, and what each stage is worth.
//!
//! Clients begin operations at even intervals all the time. Between the stages they run as fast as bricks answer, for the
//! throughput of each stage.

use crate::faults::tell_times;
use crate::figures::{Figures, Sorted, millis};
use crate::load::{self, CLIENTS, Tally, Worker};
use crate::stage::{PATIENCE, QUORUM};
use ramhold_client::{Client, ServerId};
use ramhold_cluster_tests::{Bricks, Failure, check_interrupted, pass, wait_for};
use rustix::process::Signal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const FIRST: usize = 3;
const VALUE_BYTES: usize = 1000;
const MEMORY_BYTES: u64 = 256 << 20;
/// Operations per second while tablets move: few enough that the bricks of one machine keep up.
const RATE: f64 = 2000.0;
/// The throughput of a stage is measured for so long.
const STAGE: Duration = Duration::from_secs(5);
/// The coordinator is stopped for so long in the middle of some moves.
const STOPPED: Duration = Duration::from_secs(1);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const WITHIN: Duration = Duration::from_secs(300);
/// The most bytes that may be read for each byte of keys and values that moves.
const READ_PER_MOVED: f64 = 1.1;

/// Bytes that the bricks have read and stored to rebuild tablets.
#[derive(Clone, Copy, Default)]
struct Bytes {
    read: u64,
    stored: u64,
}

pub fn measure(megabytes: u64, most: usize, seed: u64) -> Result<bool, Failure> {
    let mut figures = Figures::new("scaling", true);
    let mut bricks = Bricks::start_first(FIRST, most, MEMORY_BYTES)?;
    let table = bricks.create_table("load", QUORUM)?;
    let keys = megabytes as usize * 1_000_000 / VALUE_BYTES;
    let mut workers = load::workers(table, (keys, VALUE_BYTES), seed, || bricks.cluster.client(PATIENCE))?;
    load::all(&mut workers, Worker::fill)?;
    figures.tell("data", &format!("{keys} values of {VALUE_BYTES} B, 3 to {most} bricks and back"));
    stage(&mut figures, &mut workers, FIRST)?;

    let mut all = Tally::default();
    let mut longest = Duration::ZERO;
    for brick in FIRST + 1..=most {
        bricks.start_brick(brick);
        bricks.wait_serving(brick)?;
        bricks.wait_known(brick)?;
        let stops = brick % 3 == 0;
        longest = longest.max(order(&mut figures, &bricks, &mut workers, ("add", brick, stops), &mut all)?);
        if brick.is_multiple_of(FIRST) {
            stage(&mut figures, &mut workers, brick)?;
        }
    }
    let moved = bytes(&bricks, most)?;
    let ratio = moved.read as f64 / moved.stored.max(1) as f64;
    let text = format!("{:.1} / {:.1} MB = {ratio:.3}", moved.read as f64 / 1e6, moved.stored as f64 / 1e6);
    figures.check("bytes read / bytes moved, 3 to the most", &text, "1.1", ratio <= READ_PER_MOVED);
    let tablets = tablets(&bricks)?;
    let wanted = most / FIRST;
    figures.check("tablets", &tablets.to_string(), &wanted.to_string(), tablets == wanted);
    for brick in (FIRST + 1..=most).rev() {
        let stops = brick % 3 == 0;
        longest =
            longest.max(order(&mut figures, &bricks, &mut workers, ("remove", brick, stops), &mut all)?);
        bricks.kill(brick);
        if (brick - 1).is_multiple_of(FIRST) {
            stage(&mut figures, &mut workers, brick - 1)?;
        }
    }
    let tablets = self::tablets(&bricks)?;
    figures.check("tablets at the end", &tablets.to_string(), "1", tablets == 1);
    figures.tell("longest move", &millis(longest));
    let failed = all.failed + all.unknown;
    figures.check("failed and unknown", &failed.to_string(), "0", failed == 0);
    let wrong = all.violations.len();
    figures.check("gets of an old or a wrong value", &wrong.to_string(), "0", wrong == 0);
    for (what, count) in &all.troubles {
        figures.tell("  trouble", &format!("{count} times: {what}"));
    }
    for (name, times) in [("get", all.gets.sorted()), ("put", all.puts.sorted())] {
        tell_times(&mut figures, name, &times);
        let longest = Sorted::quantile(&times, 1000);
        figures.check(&format!("longest {name}"), &millis(longest), "1 s", longest < Duration::from_secs(1));
    }
    let lost = load::lost(&mut workers, || bricks.cluster.client(PATIENCE))?.len();
    figures.check("acknowledged writes lost", &lost.to_string(), "0", lost == 0);
    Ok(figures.is_good)
}

/// The throughput with so many bricks.
fn stage(figures: &mut Figures, workers: &mut [Worker], bricks: usize) -> Result<(), Failure> {
    load::take_tally(workers);
    let (stops, began) = (AtomicBool::new(false), Instant::now());
    during(workers, &stops, Worker::run_closed, || pass(STAGE))?;
    let rate = load::take_tally(workers).operations() as f64 / began.elapsed().as_secs_f64();
    figures.tell(&format!("operations/s with {bricks} bricks"), &format!("{rate:.0}"));
    Ok(())
}

fn during(
    workers: &mut [Worker],
    stops: &AtomicBool,
    run: impl Fn(&mut Worker, &AtomicBool) -> Result<(), Failure> + Sync,
    until: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    std::thread::scope(|scope| {
        let load = scope.spawn(|| load::all(workers, |worker| run(worker, stops)));
        let waited = until();
        stops.store(true, Ordering::Relaxed);
        load.join().unwrap_or_else(|_| Err(Failure("the load has panicked".to_owned())))?;
        waited
    })
}

/// Adds or removes a brick under load. The time until it is done.
fn order(
    figures: &mut Figures,
    bricks: &Bricks,
    workers: &mut [Worker],
    (verb, brick, stops): (&str, usize, bool),
    all: &mut Tally,
) -> Result<Duration, Failure> {
    load::take_tally(workers);
    let id = id_of(bricks, brick)?;
    let ends = AtomicBool::new(false);
    let interval = Duration::from_secs_f64(CLIENTS as f64 / RATE);
    let mut took = Duration::ZERO;
    during(
        workers,
        &ends,
        |worker, stops| worker.run_open(interval, stops),
        || {
            let began = Instant::now();
            let output = bricks.run(&["brick", verb, &id.to_string()]);
            if !output.status.success() {
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(Failure(format!("brick {verb} {id}: {text}")));
            }
            if stops {
                // In the middle of a move, as likely as not; bricks finish it among themselves.
                pass(LOOK_INTERVAL * 3)?;
                bricks.signal_coordinator(Signal::STOP);
                pass(STOPPED)?;
                bricks.signal_coordinator(Signal::CONT);
            }
            let mut client = bricks.cluster.client(PATIENCE)?;
            wait_for("the order is carried out", WITHIN, || {
                check_interrupted()?;
                let report = report(&mut client, id)?;
                Ok(if report.scaling.is_none() { Ok(()) } else { Err(format!("{report:?}")) })
            })?;
            took = began.elapsed();
            pass(Duration::from_secs(1))
        },
    )?;
    let tally = load::take_tally(workers);
    let worst = tally.slow.iter().map(|(_, time, _)| *time).max().unwrap_or_default();
    let text = format!(
        "{:.1} s, {} failed, longest {}",
        took.as_secs_f64(),
        tally.failed + tally.unknown,
        millis(worst)
    );
    figures.tell(&format!("{verb} {id}{}", if stops { ", coordinator stopped" } else { "" }), &text);
    all.add(tally);
    Ok(took)
}

fn report(client: &mut Client, id: ServerId) -> Result<ramhold_client::BrickReport, Failure> {
    let bricks = client.cluster_status()?.bricks;
    bricks.into_iter().find(|report| report.brick == id).ok_or_else(|| Failure(format!("{id} is not there")))
}

/// The id of the brick that listens there.
fn id_of(bricks: &Bricks, brick: usize) -> Result<ServerId, Failure> {
    let address = bricks.address(brick);
    let known = bricks.cluster.status()?.bricks;
    let found = known.iter().find(|report| report.address.0 == address).map(|report| report.brick);
    found.ok_or_else(|| Failure(format!("no brick listens at {address}")))
}

fn tablets(bricks: &Bricks) -> Result<usize, Failure> {
    let described = bricks.cluster.client(PATIENCE)?.describe_table("load")?;
    Ok(described.quorum.map_or(0, |tablets| tablets.len()))
}

fn bytes(bricks: &Bricks, count: usize) -> Result<Bytes, Failure> {
    let mut client = bricks.cluster.client(PATIENCE)?;
    (1..=count).try_fold(Bytes::default(), |sum, brick| {
        let status = client.server_status(bricks.address(brick))?.brick;
        let (read, stored) = status.map_or((0, 0), |status| (status.rebuild_read, status.rebuild_stored));
        Ok(Bytes { read: sum.read + read, stored: sum.stored + stored })
    })
}
