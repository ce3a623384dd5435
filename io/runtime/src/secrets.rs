//! Works with passwords, on a thread of its own.
//!
//! One hash takes a core for tens of milliseconds on purpose, and the loop must not wait. The thread starts with the first
//! work, and carries out one work after the other. A password that was found right not long ago is answered at once instead,
//! so a flood of wrong passwords delays no client that was here before.
//!
//! Invariants:
//! - each work gets exactly one result, unless the loop ends before;
//! - at most `WAITING_COUNT_MAX` works wait, and the loop waits for none of them.
//!
//! Not here: who may try how often (`core/access`). Interface: `core/base/src/secret.rs`. Catalogue: J4.

mod hashing;
mod passwords;
mod remembered;

pub use hashing::{SecretFault, is_password, is_stored_password, random_bytes, store_password};

use crate::pending::Pending;
use crate::poll::Waker;
use passwords::Passwords;
use ramhold_base::{SecretResult, SecretToken, SecretWork};
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, TrySendError, sync_channel};

/// Works that wait for the thread, beside the one that it carries out: some seconds' work. Any further one would wait
/// longer than a client does.
const WAITING_COUNT_MAX: usize = 256;

/// The loop's end of the thread.
pub(crate) struct Secrets {
    completions: Sender<Pending>,
    waker: Arc<Waker>,
    worker: Option<Worker>,
}

struct Worker {
    works: SyncSender<(SecretToken, SecretWork)>,
    passwords: Arc<Passwords>,
}

impl Secrets {
    pub(crate) fn new(completions: Sender<Pending>, waker: Arc<Waker>) -> Secrets {
        Secrets { completions, waker, worker: None }
    }

    /// Hands a work to the thread, or answers it at once.
    pub(crate) fn submit(&mut self, token: SecretToken, work: SecretWork) -> Option<Pending> {
        let result = self.try_submit(token, work).unwrap_or_else(|why| Some(SecretResult::Failed(why)))?;
        Some(Pending::Secret { token, result })
    }

    fn try_submit(&mut self, token: SecretToken, work: SecretWork) -> Result<Option<SecretResult>, String> {
        let worker = match &mut self.worker {
            Some(worker) => worker,
            none => none.insert(Worker::start(self.completions.clone(), Arc::clone(&self.waker))?),
        };
        if let Some(result) = worker.passwords.at_once(&work) {
            return Ok(Some(result));
        }
        worker.works.try_send((token, work)).map(|()| None).map_err(|error| match error {
            TrySendError::Full(_) => format!(
                "{WAITING_COUNT_MAX} works with passwords wait already in this process; try again in a few seconds"
            ),
            TrySendError::Disconnected(_) => "the thread for passwords has ended".into(),
        })
    }
}

impl Worker {
    fn start(completions: Sender<Pending>, waker: Arc<Waker>) -> Result<Worker, String> {
        let passwords = Arc::new(Passwords::new().map_err(|fault| fault.to_string())?);
        let (works, receiver) = sync_channel::<(SecretToken, SecretWork)>(WAITING_COUNT_MAX);
        let own = Arc::clone(&passwords);
        let run = move || {
            while let Ok((token, work)) = receiver.recv() {
                let result = own.carry_out(work);
                // When the loop has ended, nobody waits for this result nor for those of the works that are left. The thread
                // holds nothing that the next life needs, so nobody waits for its end either.
                if completions.send(Pending::Secret { token, result }).is_err() {
                    return;
                }
                waker.wake();
            }
        };
        std::thread::Builder::new()
            .name("ramhold-secret".into())
            .spawn(run)
            .map_err(|error| format!("the kernel refuses a thread for passwords: {error}"))?;
        Ok(Worker { works, passwords })
    }
}
