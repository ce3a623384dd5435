//! Executes disk effects and delivers their completions.
//!
//! Buffers are memory in effect (tmpfs or the page cache), so work that touches only buffers is done at once,
//! in order. All other work goes to three threads:
//! - `appending` writes to frames, because somebody waits for the acknowledgement of these writes;
//! - `writing` executes copies, reservations, syncs and writes of the superblock, in order;
//! - `reading` reads.
//!
//! So an append that finds no buffer does not wait for the flush of earlier segments, and a recovery read
//! does not wait for a sync.
//!
//! Invariants:
//! - a write is complete or an error, never short;
//! - effects on one thread do not overlap: the later one begins after the earlier one is complete.
//!
//! Not here: a bound on the number of waiting effects. The machine counts the effects that it has asked for.

mod files;
mod mapped;
mod read;
mod work;

pub use files::{DiskConfig, DiskFiles, open_disk};
pub(crate) use files::{lock_directory, open_file};
pub(crate) use read::ReadBytes;
pub(crate) use work::reserve;

use crate::pending::Pending;
use crate::poll::Waker;
use ramhold_base::DiskToken;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
pub(crate) use work::{WhenKilled, Work};

/// How long a thread has had nothing to do when it looks for memory.
const IDLE_PAUSE: Duration = Duration::from_millis(5);

/// Where a piece of work is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lane {
    AtOnce,
    Appending,
    Writing,
    Reading,
}

pub(crate) struct Disk {
    files: Arc<DiskFiles>,
    appending: LaneThread,
    writing: LaneThread,
    reading: LaneThread,
}

impl Disk {
    /// `read_memory_bytes`: at most so much memory is found for large reads before the first of them comes.
    pub(crate) fn start(
        files: DiskFiles,
        read_memory_bytes: u64,
        completions: Sender<Pending>,
        waker: Arc<Waker>,
    ) -> std::io::Result<Disk> {
        let files = Arc::new(files);
        let appending = LaneThread::start("ramhold-append", &files, 0, completions.clone(), &waker)?;
        let writing = LaneThread::start("ramhold-write", &files, 0, completions.clone(), &waker)?;
        let reading = LaneThread::start("ramhold-read", &files, read_memory_bytes, completions, &waker)?;
        Ok(Disk { files, appending, writing, reading })
    }

    /// Does the work, or hands it to its thread. Work that is done at once answers with its completion.
    pub(crate) fn submit(&self, token: DiskToken, work: Work<'_>) -> Option<Pending> {
        let lane = match work.lane() {
            Lane::AtOnce => return Some(Pending::Disk { token, result: work.perform(&self.files) }),
            Lane::Appending => &self.appending,
            Lane::Writing => &self.writing,
            Lane::Reading => &self.reading,
        };
        lane.send(token, work.into_owned(|| self.files.write_memory()));
        None
    }

    /// Takes memory back that a read had brought.
    pub(crate) fn recycle(&self, memory: Vec<u8>) {
        self.files.recycle(memory);
    }
}

struct LaneThread {
    jobs: Option<Sender<(DiskToken, Work<'static>)>>,
    thread: Option<JoinHandle<()>>,
}

impl LaneThread {
    fn start(
        name: &str,
        files: &Arc<DiskFiles>,
        mut memory_wanted: u64,
        completions: Sender<Pending>,
        waker: &Arc<Waker>,
    ) -> std::io::Result<LaneThread> {
        let (sender, receiver) = channel::<(DiskToken, Work<'static>)>();
        let (files, waker) = (Arc::clone(files), Arc::clone(waker));
        let run = move || {
            loop {
                // Memory for reads is allocated one piece at a time, and only when the thread has nothing
                // else to do.
                let next = if memory_wanted > 0 {
                    receiver.recv_timeout(IDLE_PAUSE)
                } else {
                    receiver.recv().map_err(RecvTimeoutError::from)
                };
                let (token, work) = match next {
                    Ok(job) => job,
                    Err(RecvTimeoutError::Timeout) => {
                        memory_wanted = memory_wanted.saturating_sub(files.find_memory(memory_wanted));
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                let result = work.perform(&files);
                work.into_memory().into_iter().for_each(|memory| files.recycle_written(memory));
                // If the loop has ended, nobody waits for this completion.
                let _ = completions.send(Pending::Disk { token, result });
                waker.wake();
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(LaneThread { jobs: Some(sender), thread: Some(thread) })
    }

    fn send(&self, token: DiskToken, work: Work<'static>) {
        let jobs = self.jobs.as_ref().expect("jobs are there until the drop");
        // Without its disk thread, effects would never complete.
        assert!(jobs.send((token, work)).is_ok(), "a disk thread has ended by a panic");
    }
}

impl Drop for LaneThread {
    /// Lets the thread finish what it was given; then the files and their locks are free.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported by the panic hook.
            let _ = thread.join();
        }
    }
}
