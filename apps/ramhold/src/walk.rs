//! The files below a directory, in byte order of their paths, without following links.

use crate::output::bytes_for_eyes;
use crate::screen::{WIDTH, cut};
use ramhold_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::ffi::OsString;
use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// One thing that was found.
pub enum Found {
    File { path: PathBuf, key: Vec<u8> },
    Skipped { key: Vec<u8>, why: Skip },
}

#[derive(Clone, Debug)]
pub enum Skip {
    Link,
    /// A socket, a pipe or a device.
    Special,
    TooLarge,
    PathTooLong,
    Unreadable(String),
}

impl Skip {
    pub fn text(&self) -> String {
        match self {
            Skip::Link => "a symbolic link".to_owned(),
            Skip::Special => "neither a file nor a directory".to_owned(),
            Skip::TooLarge => format!("larger than {VALUE_BYTES_MAX} bytes"),
            Skip::PathTooLong => format!("its path is longer than {KEY_BYTES_MAX} bytes"),
            Skip::Unreadable(error) => error.clone(),
        }
    }
}

/// Directories that are being read, the innermost last; each with what is left of it, last first.
pub struct Walk {
    root: PathBuf,
    left: Vec<Vec<Entry>>,
}

struct Entry {
    /// The path below the root.
    key: Vec<u8>,
    kind: io::Result<FileType>,
}

impl Walk {
    pub fn new(root: &Path) -> io::Result<Walk> {
        let entries = read_directory(root, b"")?;
        Ok(Walk { root: root.to_owned(), left: vec![entries] })
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let innermost = self.left.last_mut()?;
            let Some(Entry { key, kind }) = innermost.pop() else {
                self.left.pop();
                continue;
            };
            let path = self.root.join(OsString::from_vec(key.clone()));
            let why = match kind {
                Ok(kind) if kind.is_dir() => match read_directory(&path, &key) {
                    Ok(entries) => {
                        self.left.push(entries);
                        continue;
                    }
                    Err(error) => Skip::Unreadable(error.to_string()),
                },
                Ok(_) if key.len() > KEY_BYTES_MAX => Skip::PathTooLong,
                Ok(kind) if kind.is_file() => return Some(Found::File { path, key }),
                Ok(kind) if kind.is_symlink() => Skip::Link,
                Ok(_) => Skip::Special,
                Err(error) => Skip::Unreadable(error.to_string()),
            };
            return Some(Found::Skipped { key, why });
        }
    }
}

/// The entries of a directory, last first. A directory sorts as its name and a slash, so that whole paths are in order.
fn read_directory(path: &Path, key: &[u8]) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let mut below = key.to_vec();
        if !below.is_empty() {
            below.push(b'/');
        }
        below.extend_from_slice(entry.file_name().as_bytes());
        entries.push(Entry { key: below, kind: entry.file_type() });
    }
    entries.sort_by_cached_key(|entry| {
        let mut order = entry.key.clone();
        if entry.kind.as_ref().is_ok_and(FileType::is_dir) {
            order.push(b'/');
        }
        std::cmp::Reverse(order)
    });
    Ok(entries)
}

/// The bytes of a file that is to become an object.
pub fn read_object(path: &Path) -> Result<Vec<u8>, Skip> {
    let unreadable = |error: io::Error| Skip::Unreadable(error.to_string());
    let file = File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    if length > VALUE_BYTES_MAX as u64 {
        return Err(Skip::TooLarge);
    }
    let mut bytes = Vec::with_capacity(length as usize + 1);
    // The file may have grown since its length was read.
    file.take(VALUE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > VALUE_BYTES_MAX { Err(Skip::TooLarge) } else { Ok(bytes) }
}

/// How many were skipped, by reason, and the first of their names.
#[derive(Default, Debug)]
pub struct SkipCounts {
    pub links: Skipped,
    pub special: Skipped,
    pub too_large: Skipped,
    pub unreadable: Skipped,
}

#[derive(Default, Debug)]
pub struct Skipped {
    pub count: u64,
    names: Vec<String>,
}

/// Names that are told of each reason.
const NAME_COUNT_MAX: usize = 3;

impl SkipCounts {
    pub fn add(&mut self, key: &[u8], why: &Skip) {
        let skipped = match why {
            Skip::Link => &mut self.links,
            Skip::Special => &mut self.special,
            Skip::TooLarge => &mut self.too_large,
            Skip::PathTooLong | Skip::Unreadable(_) => &mut self.unreadable,
        };
        skipped.count += 1;
        if skipped.names.len() < NAME_COUNT_MAX {
            let name = bytes_for_eyes(key);
            skipped.names.push(match why {
                Skip::PathTooLong | Skip::Unreadable(_) => format!("{name} ({})", why.text()),
                Skip::Link | Skip::Special | Skip::TooLarge => name,
            });
        }
    }

    fn reasons(&self) -> [(&'static str, &Skipped); 4] {
        [
            ("symbolic links", &self.links),
            ("neither files nor directories", &self.special),
            ("larger than 1 MiB", &self.too_large),
            ("unreadable", &self.unreadable),
        ]
    }

    pub fn total(&self) -> u64 {
        self.reasons().iter().map(|(_, skipped)| skipped.count).sum()
    }

    pub fn text(&self) -> String {
        format!("{} skipped", self.total())
    }

    /// A line for each reason, in 80 columns; empty where nothing was skipped.
    pub fn lines(&self) -> String {
        let line = |(why, skipped): (&str, &Skipped)| {
            let more = match skipped.count - skipped.names.len() as u64 {
                0 => ")".to_owned(),
                more => format!(" and {more} more)"),
            };
            let room = WIDTH.saturating_sub(more.len());
            let line = format!("skipped {}: {why} ({}", skipped.count, skipped.names.join(", "));
            cut(&line, room) + &more + "\n"
        };
        self.reasons().into_iter().filter(|(_, skipped)| skipped.count > 0).map(line).collect()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "links": self.links.count,
            "special": self.special.count,
            "too_large": self.too_large.count,
            "unreadable": self.unreadable.count,
        })
    }
}
