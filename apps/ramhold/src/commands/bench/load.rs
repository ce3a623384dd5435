//! The load: threads with one client each, which keep their pipelines full, or offer a given rate.

mod choice;
mod cluster;
mod folded;
mod link;
mod little;
mod measured;
mod mix;
mod native;
mod plan;
mod text;
mod values;
mod worker;

pub use link::Kind;
pub use little::Little;
pub use measured::Measured;
pub use mix::{Distribution, Mix, SCAN_COUNT_MAX, Ycsb};
pub use plan::Load;
pub use text::{Dialect, MEMCACHED_KEY_BYTES_MAX};
pub use values::{Values, key, key_bytes_min};

use super::folded::FoldedBackups;
use crate::failure::Failure;
use crate::global::Global;
use cluster::Clustered;
use folded::Folded;
use link::Link;
use native::Native;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use text::Text;
use worker::Worker;

/// The servers that carry a load out.
#[derive(Clone, Copy)]
pub enum Servers<'a> {
    /// A Ramhold cluster, over its own protocol.
    Native(&'a Global),
    /// The same, by one client whose thread is also these backups.
    Folded(&'a Global, &'a FoldedBackups),
    /// Whatever speaks this protocol at these addresses. Connections take them in turn.
    Text { dialect: Dialect, addresses: &'a [SocketAddr], patience: Duration },
    /// The Redis cluster that has servers at these addresses.
    Cluster { addresses: &'a [SocketAddr], patience: Duration },
}

/// Writes every object once. Ends with the first write that fails: each further one may take as long to fail, and a table
/// without some of its objects is not the one that is to be measured.
pub fn fill(load: &Load, servers: Servers<'_>) -> Result<Measured, Failure> {
    let has_failed = AtomicBool::new(false);
    on_threads(load, servers, |worker, number| {
        worker.fill((number..load.objects).step_by(usize::from(load.clients)), &has_failed)
    })
}

/// Carries out operations of the load's mix for `time`.
pub fn measure(load: &Load, servers: Servers<'_>, time: Duration) -> Result<Measured, Failure> {
    let clients = u64::from(load.clients);
    on_threads(load, servers, |worker, number| match load.rate {
        None => worker.run_closed(time),
        // The operations of all threads interleave at even distances.
        Some(rate) => worker.run_open(time, |turn| distance(turn * clients + number, rate)),
    })
}

/// The time from the first operation to this one, at so many operations a second.
fn distance(operation: u64, rate: u64) -> Duration {
    let nanos = u128::from(operation) * 1_000_000_000 / u128::from(rate);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Connects one worker per thread, and starts them all only when all are connected.
fn on_threads(
    load: &Load,
    servers: Servers<'_>,
    work: impl Fn(Worker<'_>, u64) -> Measured + Sync,
) -> Result<Measured, Failure> {
    let values = Values::new(load);
    let mut links: Vec<Box<dyn Link + Send + '_>> = Vec::new();
    for client in 0..load.clients {
        links.push(match servers {
            Servers::Native(global) => Box::new(Native::new(load, &values, global.connect()?)),
            Servers::Folded(global, backups) => {
                Box::new(Folded::new(Native::new(load, &values, global.connect()?), backups))
            }
            Servers::Text { dialect, addresses, patience } => {
                let address = addresses[usize::from(client) % addresses.len()];
                Box::new(Text::connect(dialect, load, &values, address, patience)?)
            }
            Servers::Cluster { addresses, patience } => {
                let address = addresses[usize::from(client) % addresses.len()];
                Box::new(Clustered::connect(load, &values, address, patience)?)
            }
        });
    }
    let mut sum = Measured::new();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, link) in (0u64..).zip(links) {
            let work = &work;
            threads.push(scope.spawn(move || work(Worker::new(load, number, link, &Instant::now), number)));
        }
        for thread in threads {
            match thread.join() {
                Ok(measured) => sum.add(measured),
                Err(_) => return Err(Failure::usage("a thread of the benchmark has panicked")),
            }
        }
        Ok(sum)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_an_open_loop_are_due_at_even_distances() {
        assert_eq!(distance(0, 20_000), Duration::ZERO);
        assert_eq!(distance(1, 20_000), Duration::from_micros(50));
        assert_eq!(distance(20_000, 20_000), Duration::from_secs(1));
        // A day at the highest rate.
        assert_eq!(distance(864_000_000_000, 10_000_000), Duration::from_secs(86_400));
    }
}
