//! The coordinator's store, on a thread of its own.
//!
//! A commit waits for a device or for other machines, and the loop must not wait. Requests are executed in
//! order.
//!
//! Not here: the stores themselves (crate `ramhold-metadata`).

use crate::pending::Pending;
use crate::poll::Waker;
use ramhold_base::{StoreRequest, StoreResult, StoreToken};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Takes a store's answers: the result of the request that had this token, or a change that this watch told of.
/// May be called from any thread, also after the machine has ended.
pub type Answer = Arc<dyn Fn(StoreToken, StoreResult) + Send + Sync>;

/// Something that keeps the coordinator's state; see `StoreRequest` for what each request demands.
pub trait Store {
    /// Executes one request and gives exactly one result for it to `answer`, now or later.
    ///
    /// A watch is answered with `Found` and the present state below its prefix, then with one `Changed` for each key
    /// that a later commit changed, in the order of the commits. A commit's own `Committed` comes before its changes.
    fn execute(&mut self, token: StoreToken, request: StoreRequest, answer: &Answer);
}

/// The loop's end of the store's thread.
pub(crate) struct StoreThread {
    requests: Option<Sender<(StoreToken, StoreRequest)>>,
    thread: Option<JoinHandle<()>>,
}

impl StoreThread {
    pub(crate) fn start(
        mut store: Box<dyn Store + Send>,
        completions: Sender<Pending>,
        waker: Arc<Waker>,
    ) -> std::io::Result<StoreThread> {
        let (sender, receiver) = channel::<(StoreToken, StoreRequest)>();
        let answer: Answer = Arc::new(move |token, result| {
            // If the loop has ended, nobody waits for this answer.
            let _ = completions.send(Pending::Store { token, result });
            waker.wake();
        });
        let run = move || {
            while let Ok((token, request)) = receiver.recv() {
                store.execute(token, request, &answer);
            }
        };
        let thread = std::thread::Builder::new().name("ramhold-store".into()).spawn(run)?;
        Ok(StoreThread { requests: Some(sender), thread: Some(thread) })
    }

    /// Hands a request over. False when the thread is gone.
    pub(crate) fn send(&self, token: StoreToken, request: StoreRequest) -> bool {
        self.requests.as_ref().is_some_and(|requests| requests.send((token, request)).is_ok())
    }
}

impl Drop for StoreThread {
    /// Lets the thread finish what it was given, so that its locks are free when the runtime is gone.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported by the panic hook.
            let _ = thread.join();
        }
    }
}
