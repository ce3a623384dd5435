//! An append-only file: the commands that changed a Redis, in their order. Also the manifest of several such
//! files.
//!
//! ```text
//! *3\r\n $3\r\n SET\r\n $1\r\n k\r\n $1\r\n v\r\n …      lines that begin with # are notes
//! file appendonly.aof.1.base.rdb seq 1 type b         of a manifest
//! ```

use crate::error::{Error, Fault};
use crate::source::Source;
use crate::string::Text;
use std::io::Read;

/// The longest line with a number or a note.
const LINE_BYTES_MAX: usize = 1024;
const WORD_COUNT_MAX: u64 = 1024 * 1024;

/// The next thing in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Command {
        offset: u64,
        words: Vec<Text>,
    },
    End,
    /// The file ends within the command that begins here: Redis was writing that command when it died.
    CutOff {
        offset: u64,
    },
}

pub struct Commands<R> {
    source: Source<R>,
    word_bytes_max: u64,
}

impl<R: Read> Commands<R> {
    /// Longer words are reported as too long.
    pub fn new(from: R, word_bytes_max: u64) -> Commands<R> {
        Commands { source: Source::new(from), word_bytes_max }
    }

    pub fn next_command(&mut self) -> Result<Next, Error> {
        loop {
            let offset = self.source.offset();
            let Some(first) = self.source.byte_or_end()? else { return Ok(Next::End) };
            let read = match first {
                b'#' => self.line().map(|_| None),
                b'*' => self.words().map(Some),
                _ => return Err(Error { offset, fault: Fault::Command }),
            };
            return match read {
                Ok(None) => continue,
                Ok(Some(words)) => Ok(Next::Command { offset, words }),
                Err(Error { fault: Fault::Truncated, .. }) => Ok(Next::CutOff { offset }),
                Err(error) => Err(error),
            };
        }
    }

    fn words(&mut self) -> Result<Vec<Text>, Error> {
        let at = self.source.offset();
        let count = self.number()?;
        if count == 0 || count > WORD_COUNT_MAX {
            return Err(Error { offset: at, fault: Fault::Command });
        }
        let mut words = Vec::new();
        for _ in 0..count {
            let at = self.source.offset();
            if self.source.byte()? != b'$' {
                return Err(Error { offset: at, fault: Fault::Command });
            }
            let bytes = self.number()?;
            words.push(if bytes > self.word_bytes_max {
                self.source.skip(bytes)?;
                Text::TooLong { bytes }
            } else {
                Text::Bytes(self.source.bytes(bytes)?)
            });
            let at = self.source.offset();
            if self.source.array()? != *b"\r\n" {
                return Err(Error { offset: at, fault: Fault::Command });
            }
        }
        Ok(words)
    }

    fn number(&mut self) -> Result<u64, Error> {
        let at = self.source.offset();
        let line = self.line()?;
        let digits = std::str::from_utf8(&line).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        digits.and_then(|text| text.parse().ok()).ok_or(Error { offset: at, fault: Fault::Command })
    }

    /// The bytes up to the next line feed, without it and the carriage return.
    fn line(&mut self) -> Result<Vec<u8>, Error> {
        let mut line = Vec::new();
        while line.len() <= LINE_BYTES_MAX {
            match self.source.byte()? {
                b'\n' => {
                    line.pop_if(|byte| *byte == b'\r');
                    return Ok(line);
                }
                byte => line.push(byte),
            }
        }
        self.source.wrong(Fault::Command)
    }
}

/// A file that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: String,
    pub sequence: u64,
    pub is_base: bool,
}

/// The files of a manifest in the order in which they are to be read: the base, then the appended ones. Files
/// that Redis keeps only as history are left out.
pub fn read_manifest(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what: &str| format!("line {} of the manifest {what}: {line}", number + 1);
        let (mut name, mut sequence, mut kind) = (None, None, None);
        let mut words = line.split_whitespace();
        while let (Some(field), Some(value)) = (words.next(), words.next()) {
            match field {
                "file" => name = Some(value.trim_matches('"').to_owned()),
                "seq" => sequence = value.parse().ok(),
                "type" => kind = Some(value),
                // Later versions add fields.
                _ => {}
            }
        }
        let (Some(name), Some(sequence), Some(kind)) = (name, sequence, kind) else {
            return Err(wrong("does not name a file, its number and its type"));
        };
        if name.contains('/') || name == ".." {
            return Err(wrong("names a file that is elsewhere"));
        }
        match kind {
            "b" => parts.push(Part { name, sequence, is_base: true }),
            "i" => parts.push(Part { name, sequence, is_base: false }),
            "h" => {}
            _ => return Err(wrong("has a type that is not known")),
        }
    }
    parts.sort_by_key(|part| (!part.is_base, part.sequence));
    if parts.iter().filter(|part| part.is_base).count() > 1 {
        return Err("the manifest names two bases".to_owned());
    }
    if parts.is_empty() { Err("the manifest names no file".to_owned()) } else { Ok(parts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<Next>, Error> {
        let mut commands = Commands::new(bytes, 10);
        let mut all = Vec::new();
        loop {
            let next = commands.next_command()?;
            let is_last = !matches!(next, Next::Command { .. });
            all.push(next);
            if is_last {
                return Ok(all);
            }
        }
    }

    const TWO: &[u8] = b"#TS:1\r\n*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n";

    #[test]
    fn commands_are_read_and_a_tail_cut_off_anywhere_is_told() {
        let text = |bytes: &[u8]| Text::Bytes(bytes.to_vec());
        let ping = Next::Command { offset: 7, words: vec![text(b"PING")] };
        let get = Next::Command { offset: 21, words: vec![text(b"GET"), text(b"\r\n")] };
        assert_eq!(all(TWO).unwrap(), [ping.clone(), get, Next::End]);
        for length in 22..TWO.len() {
            assert_eq!(all(&TWO[..length]).unwrap(), [ping.clone(), Next::CutOff { offset: 21 }]);
        }
        let long = all(b"*1\r\n$11\r\n0123456789a\r\n").unwrap();
        assert_eq!(long[0], Next::Command { offset: 0, words: vec![Text::TooLong { bytes: 11 }] });
    }

    #[test]
    fn what_is_no_command_is_refused_where_it_stands() {
        let cases: [(&[u8], u64); 7] = [
            (b"PING\r\n", 0),
            (b"*1\r\n+PING\r\n", 4),
            (b"*0\r\n", 1),
            (b"*-1\r\n", 1),
            (b"*99999999999\r\n", 1),
            (b"*1\r\n$4\r\nPINGxx", 12),
            (b"*1\r\n$4x\r\nPING\r\n", 5),
        ];
        for (bytes, offset) in cases {
            let error = all(bytes).unwrap_err();
            assert!(matches!(error.fault, Fault::Command) && error.offset == offset, "{bytes:?}: {error}");
        }
        // A length without bytes takes no memory.
        assert_eq!(all(b"*1\r\n$9\r\nabc").unwrap(), [Next::CutOff { offset: 0 }]);
        assert_eq!(all(b"*1\r\n$18446744073709551615\r\nabc").unwrap(), [Next::CutOff { offset: 0 }]);
    }

    #[test]
    fn a_manifest_names_its_files_in_order() {
        let text = "file a.aof.2.incr.aof seq 2 type i\nfile a.aof.0.base.rdb seq 9 type h\n\
                    file a.aof.1.base.rdb seq 1 type b\n# note\nfile a.aof.1.incr.aof seq 1 type i\n";
        let names: Vec<String> = read_manifest(text).unwrap().into_iter().map(|part| part.name).collect();
        assert_eq!(names, ["a.aof.1.base.rdb", "a.aof.1.incr.aof", "a.aof.2.incr.aof"]);
        for bad in
            ["", "file a seq x type b", "file a seq 1 type z", "file ../a seq 1 type b", "file a seq 1"]
        {
            assert!(read_manifest(bad).is_err(), "{bad}");
        }
    }
}
