//! Objects from lines of JSON.

use crate::base64;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// A line with the largest key and value, every byte written as `\u00XX`, is shorter than this.
const LINE_BYTES_MAX: u64 = 8 * 1024 * 1024;

pub struct Lines {
    input: Box<dyn BufRead>,
    number: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Object { number: u64, key: Vec<u8>, value: Vec<u8> },
    Bad { number: u64, why: String },
}

pub fn open(path: &Path) -> io::Result<Lines> {
    let input: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(BufReader::new(io::stdin()))
    } else {
        Box::new(BufReader::new(File::open(path)?))
    };
    Ok(Lines { input, number: 0 })
}

impl Lines {
    /// The next line that is not empty. Errors are those of reading.
    pub fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let mut line = Vec::new();
            if self.input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            let number = self.number;
            if line.len() as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
                self.skip_line()?;
                let why = format!("longer than {LINE_BYTES_MAX} bytes");
                return Ok(Some(Line::Bad { number, why }));
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            return Ok(Some(match parse(&line) {
                Ok((key, value)) => Line::Object { number, key, value },
                Err(why) => Line::Bad { number, why },
            }));
        }
    }

    /// Reads up to the end of a line without keeping it.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let buffer = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(buffer.len(), |at| at + 1);
            self.input.consume(used);
            if end.is_some() || used == 0 {
                return Ok(());
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    key: Option<String>,
    key_base64: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
}

fn parse(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let fields: Fields = serde_json::from_slice(line).map_err(|error| {
        // The parser sees only one line and calls it line 1. The caller reports the real line number.
        let text = error.to_string();
        text.split(" at line 1").collect::<Vec<_>>().join(" at")
    })?;
    Ok((bytes("key", fields.key, fields.key_base64)?, bytes("value", fields.value, fields.value_base64)?))
}

fn bytes(name: &str, text: Option<String>, coded: Option<String>) -> Result<Vec<u8>, String> {
    match (text, coded) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(coded)) => base64::decode(&coded).ok_or_else(|| format!("{name}_base64 is not base64")),
        (None, None) => Err(format!("there is neither {name} nor {name}_base64")),
        (Some(_), Some(_)) => Err(format!("there are both {name} and {name}_base64")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &'static [u8]) -> Vec<Line> {
        let mut lines = Lines { input: Box::new(text), number: 0 };
        std::iter::from_fn(|| lines.next_line().unwrap()).collect()
    }

    #[test]
    fn both_forms_are_read_and_bad_lines_are_told_by_number() {
        let text = br#"{"key": "alice", "value": "a\nb"}

{"key_base64": "//4=", "value_base64": ""}
{"key": "x"}
{"key": "x", "key_base64": "eA==", "value": ""}
{"key_base64": "?", "value": ""}
nonsense
{"key": "x", "value": "y", "other": 1}
{"value": "no end of line", "key": ""}"#;
        let lines = lines(text);
        let object =
            |number, key: &[u8], value: &[u8]| Line::Object { number, key: key.into(), value: value.into() };
        assert_eq!(lines[0], object(1, b"alice", b"a\nb"));
        assert_eq!(lines[1], object(3, b"\xFF\xFE", b""));
        assert_eq!(lines[2], Line::Bad { number: 4, why: "there is neither value nor value_base64".into() });
        assert_eq!(lines[3], Line::Bad { number: 5, why: "there are both key and key_base64".into() });
        assert_eq!(lines[4], Line::Bad { number: 6, why: "key_base64 is not base64".into() });
        assert!(matches!(&lines[5], Line::Bad { number: 7, .. }));
        assert!(matches!(&lines[6], Line::Bad { number: 8, why } if why.contains("other")));
        assert_eq!(lines[7], object(9, b"", b"no end of line"));
        assert_eq!(lines.len(), 8);
    }

    #[test]
    fn a_line_too_long_is_told_and_the_next_one_is_read() {
        let mut text = vec![b'x'; LINE_BYTES_MAX as usize + 100];
        text.extend_from_slice(b"\n{\"key\": \"k\", \"value\": \"v\"}\n");
        let mut lines = Lines { input: Box::new(io::Cursor::new(text)), number: 0 };
        assert!(matches!(lines.next_line().unwrap(), Some(Line::Bad { number: 1, .. })));
        assert!(matches!(lines.next_line().unwrap(), Some(Line::Object { number: 2, .. })));
        assert_eq!(lines.next_line().unwrap(), None);
    }
}
