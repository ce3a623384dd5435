//! One connection with thousands of commands under way, and an account of the store's contents by its own
//! answers.
//!
//! Commands go out in batches. A second batch is sent before the answers to the first are read, so that the
//! store never waits for the client. Both sides block on the socket. The answers to two batches are a few ten
//! KiB, which the kernel buffers, so the store can always go on reading while the client writes.

use super::dialect::{Answer, Dialect};
use ramhold_workload::{KeyId, Step};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const BATCH_STEPS: usize = 2048;
const BATCH_BYTES: usize = 256 * 1024;
/// A store that sends nothing for this long is taken for dead.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The sums of the store's answers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Account {
    /// Bytes of the keys and values that the store holds.
    pub held_bytes: u64,
    pub held_count: u64,
    /// Inserts that were sent.
    pub writes: u64,
    /// Inserts that the store refused.
    pub refused: u64,
    /// Keys to delete that were not there.
    pub missing: u64,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Insert { bytes: u64 },
    Delete { bytes: u64 },
}

pub struct Connection {
    stream: TcpStream,
    dialect: Dialect,
    out: Vec<u8>,
    /// Commands in `out`.
    out_count: usize,
    /// Commands of the batch before the latest one that are still to be answered.
    asked: VecDeque<Asked>,
    input: Vec<u8>,
    /// Answered bytes at the front of `input`.
    input_used: usize,
    account: Account,
}

impl Connection {
    pub fn open(port: u16, dialect: Dialect) -> Result<Connection, String> {
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        stream.set_read_timeout(Some(SILENCE_MAX)).map_err(|e| e.to_string())?;
        stream.set_write_timeout(Some(SILENCE_MAX)).map_err(|e| e.to_string())?;
        Ok(Connection {
            stream,
            dialect,
            out: Vec::new(),
            out_count: 0,
            asked: VecDeque::new(),
            input: Vec::new(),
            input_used: 0,
            account: Account::default(),
        })
    }

    /// As of the answers read so far; all of them after `finish`.
    pub fn account(&self) -> Account {
        self.account
    }

    pub fn ask(&mut self, step: Step) -> Result<(), String> {
        let bytes = |key: KeyId, value_bytes: u32| key.bytes().len() as u64 + u64::from(value_bytes);
        match step {
            Step::Insert { key, value_bytes } => {
                self.dialect.set(&mut self.out, key, value_bytes);
                self.asked.push_back(Asked::Insert { bytes: bytes(key, value_bytes) });
                self.account.writes += 1;
            }
            Step::Delete { key, value_bytes } => {
                self.dialect.delete(&mut self.out, key);
                self.asked.push_back(Asked::Delete { bytes: bytes(key, value_bytes) });
            }
        }
        self.out_count += 1;
        if self.out_count == BATCH_STEPS || self.out.len() >= BATCH_BYTES {
            let sent_now = self.send()?;
            self.read_until_asked(sent_now)?;
        }
        Ok(())
    }

    /// Sends what is left and reads all answers.
    pub fn finish(&mut self) -> Result<(), String> {
        self.send()?;
        self.read_until_asked(0)
    }

    /// Sends the batch; returns how many commands it had.
    fn send(&mut self) -> Result<usize, String> {
        self.stream.write_all(&self.out).map_err(|e| format!("sending to the store: {e}"))?;
        self.out.clear();
        Ok(std::mem::take(&mut self.out_count))
    }

    /// Reads until no more than `count` commands are unanswered.
    fn read_until_asked(&mut self, count: usize) -> Result<(), String> {
        while self.asked.len() > count {
            match self.input[self.input_used..].iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    let line = self.input[self.input_used..self.input_used + end].trim_ascii_end();
                    let answer = self.dialect.answer(line)?;
                    let asked = self.asked.pop_front().ok_or("an answer to nothing")?;
                    self.input_used += end + 1;
                    self.account.enter(asked, answer)?;
                }
                None => self.read_more()?,
            }
        }
        Ok(())
    }

    fn read_more(&mut self) -> Result<(), String> {
        self.input.drain(..self.input_used);
        self.input_used = 0;
        let length = self.input.len();
        self.input.resize(length + 65_536, 0);
        let read = self.stream.read(&mut self.input[length..]);
        self.input.truncate(length + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err("the store closed the connection".into()),
            Ok(_) => Ok(()),
            Err(e) => Err(format!("reading from the store: {e}")),
        }
    }
}

impl Account {
    fn enter(&mut self, asked: Asked, answer: Answer) -> Result<(), String> {
        match (asked, answer) {
            (Asked::Insert { bytes }, Answer::Stored) => {
                self.held_bytes += bytes;
                self.held_count += 1;
            }
            (Asked::Insert { .. }, Answer::Refused) => self.refused += 1,
            (Asked::Delete { bytes }, Answer::Deleted) => {
                self.held_bytes -= bytes;
                self.held_count -= 1;
            }
            (Asked::Delete { .. }, Answer::Missing) => self.missing += 1,
            (asked, answer) => return Err(format!("{asked:?} was answered with {answer:?}")),
        }
        if self.missing > self.refused {
            return Err("the store lost objects that it had taken".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_objects_are_not_held_and_lost_ones_are_noticed() {
        let mut account = Account::default();
        account.enter(Asked::Insert { bytes: 130 }, Answer::Stored).unwrap();
        account.enter(Asked::Insert { bytes: 150 }, Answer::Refused).unwrap();
        assert_eq!((account.held_bytes, account.held_count, account.refused), (130, 1, 1));
        account.enter(Asked::Delete { bytes: 150 }, Answer::Missing).unwrap();
        assert_eq!(account.held_bytes, 130);
        assert!(account.enter(Asked::Delete { bytes: 130 }, Answer::Missing).is_err());
        assert!(account.enter(Asked::Delete { bytes: 130 }, Answer::Stored).is_err());
    }

    #[test]
    fn answers_in_pieces_are_put_together_and_all_are_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // A store that takes everything in and answers in two pieces that cut a line.
        let store = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut input = Vec::new();
            let mut buffer = [0; 4096];
            while !input.ends_with(b"DEL\r\n$30\r\nkey-00000000000000000000000000\r\n") {
                let count = stream.read(&mut buffer).unwrap();
                assert!(count > 0);
                input.extend_from_slice(&buffer[..count]);
            }
            stream.write_all(b"+OK\r\n+O").unwrap();
            stream.write_all(b"K\r\n:1\r\n").unwrap();
        });
        let mut connection = Connection::open(port, Dialect::Resp).unwrap();
        connection.ask(Step::Insert { key: KeyId(0), value_bytes: 100 }).unwrap();
        connection.ask(Step::Insert { key: KeyId(1), value_bytes: 70 }).unwrap();
        connection.ask(Step::Delete { key: KeyId(0), value_bytes: 100 }).unwrap();
        connection.finish().unwrap();
        let expected = Account { held_bytes: 100, held_count: 1, writes: 2, refused: 0, missing: 0 };
        assert_eq!(connection.account(), expected);
        store.join().unwrap();
    }
}
