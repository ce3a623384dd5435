//! Asks for keys over Redis's protocol from the kill on, in the same way for every kind of server.
//!
//! Each of a few connections has an equal share of the keys. A connection asks for all keys that it has not
//! read yet, takes the answers, waits a moment (`ASK_INTERVAL`), and asks again for the keys that it did not
//! get, because of `LOADING`, `MOVED` or `CLUSTERDOWN`, or because no server listens. So each key is read a
//! moment after it can be read, with every kind of server.

use super::redis::connection::{Connection, Reply, command};
use crate::failure::Failure;
use crate::interrupt;
use crate::local::LOOK_INTERVAL;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Answers of a connection come in the order of its questions, so one that waits holds up those behind it.
const CONNECTION_COUNT: usize = 16;
/// Until those are asked for again that were refused.
const ASK_INTERVAL: Duration = LOOK_INTERVAL;
/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// When the middle and the last key was read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    pub half: Duration,
    pub last: Duration,
}

/// Questions under way.
pub struct Asking {
    stops: Arc<AtomicBool>,
    times: Receiver<Result<Duration, String>>,
    count: usize,
}

impl Asking {
    /// Asks for all `keys` at any of `ports`. Times count from `began`.
    pub fn begin(ports: &[u16], keys: &[Vec<u8>], began: Instant) -> Result<Asking, Failure> {
        let (sender, times) = channel();
        let stops = Arc::new(AtomicBool::new(false));
        for first in 0..CONNECTION_COUNT.min(keys.len()) {
            let mut share = Share {
                ports: ports.to_vec(),
                turn: first,
                connection: None,
                keys: keys.iter().skip(first).step_by(CONNECTION_COUNT).cloned().collect(),
            };
            let (sender, stops) = (sender.clone(), Arc::clone(&stops));
            let work = move || {
                while !share.keys.is_empty() && !stops.load(Ordering::SeqCst) {
                    // A server that is absent or breaks the connection is asked again, like a server that
                    // refuses.
                    let _ = share.ask(&mut |read| drop(sender.send(read.map(|()| began.elapsed()))));
                    if !share.keys.is_empty() {
                        std::thread::sleep(ASK_INTERVAL);
                    }
                }
            };
            std::thread::Builder::new()
                .name("ramhold-asking".to_owned())
                .spawn(work)
                .map_err(|error| Failure::usage(format!("cannot start a thread: {error}")))?;
        }
        Ok(Asking { stops, times, count: keys.len() })
    }

    /// Until every key was read.
    pub fn wait(self) -> Result<Read, Failure> {
        let began = Instant::now();
        let mut times = Vec::new();
        while times.len() < self.count {
            interrupt::check()?;
            match self.times.recv_timeout(LOOK_INTERVAL) {
                Ok(Ok(time)) => times.push(time),
                Ok(Err(text)) => return Err(Failure::usage(text)),
                Err(RecvTimeoutError::Timeout) if began.elapsed() < PATIENCE => {}
                Err(_) => {
                    let (read, count) = (times.len(), self.count);
                    return Err(Failure::usage(format!("only {read} of {count} keys could be read")));
                }
            }
        }
        times.sort();
        Ok(Read { half: times[times.len() / 2], last: times[times.len() - 1] })
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
    }
}

/// The keys that one connection asks for, and the port.
struct Share {
    ports: Vec<u16>,
    turn: usize,
    connection: Option<Connection>,
    keys: Vec<Vec<u8>>,
}

impl Share {
    /// Asks once for every key that is not read yet. When that breaks off, it is the next port's turn.
    fn ask(&mut self, tell: &mut dyn FnMut(Result<(), String>)) -> std::io::Result<()> {
        let port = self.ports[self.turn % self.ports.len()];
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                self.turn += 1;
                Connection::open(port)?
            }
        };
        let mut out = Vec::new();
        self.keys.iter().for_each(|key| command(&mut out, &[b"GET", key]));
        connection.send(&out)?;
        let mut asked = std::mem::take(&mut self.keys).into_iter();
        while let Some(key) = asked.next() {
            match connection.reply() {
                Ok(Reply::Text(_)) => tell(Ok(())),
                Ok(Reply::Refused(_)) => self.keys.push(key),
                Ok(other) => {
                    let (key, found) = (String::from_utf8_lossy(&key), other.text());
                    tell(Err(format!("key {key} was written, and now the answer is {found}")));
                }
                Err(error) => {
                    self.keys.push(key);
                    self.keys.extend(asked);
                    return Err(error);
                }
            }
        }
        self.connection = Some(connection);
        Ok(())
    }
}
