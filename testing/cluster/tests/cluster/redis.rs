//! A connection to a server over Redis's protocol, one command at a time.

use ramhold_cluster_tests::{Cluster, Failure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

pub struct Redis(BufReader<TcpStream>);

impl Redis {
    pub fn connect(cluster: &Cluster, member: usize) -> Result<Redis, Failure> {
        let address = cluster.address(member);
        let stream = TcpStream::connect(address).map_err(|e| Failure(format!("{address}: {e}")))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|e| Failure(e.to_string()))?;
        Ok(Redis(BufReader::new(stream)))
    }

    /// The first line of the reply to a command.
    pub fn ask(&mut self, command: &str) -> Result<String, Failure> {
        let failed = |e: std::io::Error| Failure(format!("{command}: {e}"));
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).map_err(failed)?;
        self.line(command)
    }

    pub fn number(&mut self, command: &str) -> Result<i64, Failure> {
        let reply = self.ask(command)?;
        let number = reply.strip_prefix(':').and_then(|number| number.parse().ok());
        number.ok_or_else(|| Failure(format!("{command}: {reply}")))
    }

    /// The text of a reply that is a bulk string.
    pub fn bulk(&mut self, command: &str) -> Result<String, Failure> {
        let head = self.ask(command)?;
        self.text(command, head)
    }

    /// The texts of a reply that is an array, in their order, with those of the arrays in it.
    pub fn texts(&mut self, command: &str) -> Result<Vec<String>, Failure> {
        let mut texts = Vec::new();
        let (mut head, mut left) = (self.ask(command)?, 1_usize);
        loop {
            match head.strip_prefix('*').and_then(|count| count.parse::<usize>().ok()) {
                Some(count) => left += count,
                None => texts.push(self.text(command, head)?),
            }
            left -= 1;
            if left == 0 {
                return Ok(texts);
            }
            head = self.line(command)?;
        }
    }

    /// The next line of a reply.
    pub fn next_line(&mut self) -> Result<String, Failure> {
        self.line("the rest of a reply")
    }

    fn line(&mut self, command: &str) -> Result<String, Failure> {
        let mut line = String::new();
        self.0.read_line(&mut line).map_err(|e| Failure(format!("{command}: {e}")))?;
        Ok(line.trim_end().to_owned())
    }

    /// The text of a bulk string that begins with this line.
    fn text(&mut self, command: &str, head: String) -> Result<String, Failure> {
        let failed = |what: String| Failure(format!("{command}: {what}"));
        let length = head.strip_prefix('$').and_then(|length| length.parse::<usize>().ok());
        let length = length.ok_or_else(|| failed(head))?;
        let mut text = vec![0; length + 2];
        self.0.read_exact(&mut text).map_err(|e| failed(e.to_string()))?;
        text.truncate(length);
        String::from_utf8(text).map_err(|e| failed(e.to_string()))
    }
}
