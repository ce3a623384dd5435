//! Clients that continuously read stored files and compare the bytes.

use super::comparison::hash;
use super::files::Imported;
use super::scene::PATIENCE;
use super::tree::Tree;
use crate::failure::{Failure, NOT_FOUND};
use crate::local::connect_to;
use crate::output::bytes_for_eyes;
use ramhold_base::Rng;
use ramhold_client::TableId;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const READER_COUNT: u64 = 2;
/// Leaves the cores to the cluster; short against any gap worth telling.
const PAUSE: Duration = Duration::from_micros(500);

/// The observations of the readers.
#[derive(Default)]
pub struct Read {
    pub count: u64,
    /// The longest time from one right answer to the next.
    pub gap: Duration,
}

pub struct Readers {
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Read, Failure>>>,
}

impl Readers {
    pub fn start(
        coordinator: SocketAddr,
        table: TableId,
        imported: &Imported,
        tree: &Tree,
    ) -> Result<Readers, Failure> {
        let stops = Arc::new(AtomicBool::new(false));
        let objects: Arc<Vec<(Vec<u8>, u64)>> = Arc::new(
            imported
                .objects
                .iter()
                .map(|object| (tree.files[object.file].key.clone(), object.hash))
                .collect(),
        );
        let mut threads = Vec::new();
        for reader in 0..READER_COUNT {
            let (stops, objects) = (Arc::clone(&stops), Arc::clone(&objects));
            let read = move || read(coordinator, table, &objects, &stops, reader);
            let thread = std::thread::Builder::new().name("ramhold-reader".to_owned()).spawn(read);
            threads.push(thread.map_err(|error| Failure::usage(format!("cannot start a thread: {error}")))?);
        }
        Ok(Readers { stops, threads })
    }

    /// Ends them; the failure is that of the one that saw something wrong.
    pub fn stop(mut self) -> Result<Read, Failure> {
        self.stops.store(true, Ordering::SeqCst);
        let mut all = Read::default();
        for thread in std::mem::take(&mut self.threads) {
            let read = thread.join().map_err(|_| Failure::usage("a reader has panicked"))??;
            all.count += read.count;
            all.gap = all.gap.max(read.gap);
        }
        Ok(all)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
    }
}

fn read(
    coordinator: SocketAddr,
    table: TableId,
    objects: &[(Vec<u8>, u64)],
    stops: &AtomicBool,
    seed: u64,
) -> Result<Read, Failure> {
    let mut client = connect_to(coordinator, PATIENCE)?;
    let mut rng = Rng::new(seed);
    let mut seen = Read::default();
    let mut last = Instant::now();
    while !stops.load(Ordering::SeqCst) {
        let (key, expected) = &objects[rng.below(objects.len() as u64) as usize];
        let name = bytes_for_eyes(key);
        let object =
            client.get(table, key).map_err(|error| Failure::from(error).about(&format!("files/{name}")))?;
        match object {
            Some(object) if hash(&object.value) == *expected => {}
            Some(_) => {
                return Err(Failure::new(NOT_FOUND, format!("files/{name} was read with other bytes")));
            }
            None => return Err(Failure::new(NOT_FOUND, format!("files/{name} was read as absent"))),
        }
        seen.count += 1;
        seen.gap = seen.gap.max(last.elapsed());
        last = Instant::now();
        std::thread::sleep(PAUSE);
    }
    Ok(seen)
}
