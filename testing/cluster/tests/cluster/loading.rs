//! A real brick that serves before its log is loaded, under load.

use ramhold_client::{Client, TableId};
use ramhold_cluster_tests::{BRICK_MEMORY_MIN, Bricks, Failure, Options, wait_for};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(60);
/// 120 MB.
const KEYS: usize = 12_000;
const VALUE_BYTES: usize = 10_000;
const CLIENTS: usize = 3;
const VICTIM: usize = 2;

fn key(number: usize) -> Vec<u8> {
    format!("key{number}").into_bytes()
}

fn value(number: usize, round: usize) -> Vec<u8> {
    let mut value = format!("{number} {round} ").into_bytes();
    value.resize(VALUE_BYTES, b'.');
    value
}

/// One client's share of the keys: it puts and reads them until it is stopped, and knows the newest value of each.
struct Worker {
    client: Client,
    rounds: Vec<(usize, usize)>,
    operations: u64,
}

impl Worker {
    fn put(&mut self, table: TableId, at: usize) -> Result<(), Failure> {
        let (number, round) = self.rounds[at];
        self.client.put(table, &key(number), &value(number, round + 1))?;
        (self.rounds[at].1, self.operations) = (round + 1, self.operations + 1);
        Ok(())
    }

    fn check(&mut self, table: TableId, at: usize) -> Result<(), Failure> {
        let (number, round) = self.rounds[at];
        let found = self.client.get(table, &key(number))?.map(|object| object.value);
        assert!(found == Some(value(number, round)), "key {number} is not of round {round}");
        self.operations += 1;
        Ok(())
    }

    fn run(&mut self, table: TableId, stops: &AtomicBool) -> Result<(), Failure> {
        let mut at = 0;
        while !stops.load(Ordering::Relaxed) {
            at = (at + 7919) % self.rounds.len();
            if self.operations.is_multiple_of(2) {
                self.put(table, at)?;
            } else {
                self.check(table, at)?;
            }
        }
        Ok(())
    }
}

/// The number that stands before these words in what a brick has printed.
fn count_before(printed: &str, words: &str) -> u64 {
    let before = printed.split(words).next().unwrap_or_default();
    before.split_whitespace().next_back().and_then(|word| word.parse().ok()).expect("a number")
}

// I6: no operation fails, and the brick takes writes before it has loaded its log.
#[test]
fn a_killed_brick_takes_writes_before_its_log_is_loaded() -> Result<(), Failure> {
    let _machine = crate::machine();
    let options = Options { servers: 0, ..Options::default() };
    let mut bricks = Bricks::start_beside(options, 3, BRICK_MEMORY_MIN + (512 << 20))?;
    bricks.restart_load = Some("incremental");
    let table = bricks.create_table("carts", 3)?;
    let mut workers = Vec::new();
    for worker in 0..CLIENTS {
        let rounds = (worker..KEYS).step_by(CLIENTS).map(|number| (number, 0)).collect();
        workers.push(Worker { client: bricks.cluster.client(PATIENCE)?, rounds, operations: 0 });
    }
    std::thread::scope(|scope| {
        let fill = |worker: &mut Worker| (0..worker.rounds.len()).try_for_each(|at| worker.put(table, at));
        let filling: Vec<_> = workers.iter_mut().map(|worker| scope.spawn(move || fill(worker))).collect();
        filling.into_iter().try_for_each(|it| it.join().expect("it does not panic"))
    })?;
    let stops = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running: Vec<_> = workers
            .iter_mut()
            .map(|worker| {
                let stops = &stops;
                scope.spawn(move || worker.run(table, stops))
            })
            .collect();
        let restarted = restart(&mut bricks);
        stops.store(true, Ordering::Relaxed);
        running.into_iter().try_for_each(|it| it.join().expect("it does not panic"))?;
        restarted
    })?;
    bricks.wait_known(3)?;
    let printed = bricks.printed(VICTIM);
    assert!(count_before(&printed, " writes and ") > 0, "{printed}");
    // All that was acknowledged is there, with this brick's vote and one other's.
    bricks.kill(1);
    for worker in &mut workers {
        (0..worker.rounds.len()).step_by(11).try_for_each(|at| worker.check(table, at))?;
    }
    Ok(())
}

fn restart(bricks: &mut Bricks) -> Result<(), Failure> {
    ramhold_cluster_tests::pass(Duration::from_secs(1))?;
    bricks.kill(VICTIM);
    bricks.start_brick(VICTIM);
    bricks.wait_serving(VICTIM)?;
    wait_for("the log is loaded", SOON, || {
        let printed = bricks.printed(VICTIM);
        Ok(if printed.contains("the log is loaded") { Ok(()) } else { Err(printed) })
    })
}
