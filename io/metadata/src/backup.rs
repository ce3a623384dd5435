//! A backup of the coordinator's state: the records of one moment, in a file.
//!
//! The file is written completely under a temporary name. It is renamed when the device has all of it.
//!
//! Format: docs/formats/state-backup.md. Catalogue: G3.

use ramhold_base::checksum::crc;
use ramhold_base::{ClusterId, Term};
use ramhold_wire::copies::StatePosition;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"RHSTATE\n";
/// Persisted: rises when a version of Ramhold writes what this one would misread.
const FORMAT: u32 = 1;
const HEADER_BYTES: usize = 52;
const CHECKSUM_BYTES: usize = 4;

/// The records of a state, without the term, which is that of its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFile {
    pub cluster: ClusterId,
    pub position: StatePosition,
    pub records: Vec<(String, Vec<u8>)>,
}

/// Why a file is no backup that can be restored.
#[derive(Debug)]
pub enum BadBackup {
    Unreadable(io::Error),
    NotOne,
    TooNew(u32),
    Damaged(&'static str),
}

impl fmt::Display for BadBackup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadBackup::Unreadable(error) => write!(f, "{error}"),
            BadBackup::NotOne => {
                write!(f, "not a backup of a coordinator; 'ramhold coordinator backup' makes one")
            }
            BadBackup::TooNew(format) => {
                write!(
                    f,
                    "format {format}, this version of Ramhold reads {FORMAT}; use the version that wrote it"
                )
            }
            BadBackup::Damaged(what) => write!(f, "the backup is damaged: {what}; use another one"),
        }
    }
}

impl std::error::Error for BadBackup {}

impl BackupFile {
    pub fn write(&self, path: &Path) -> io::Result<u64> {
        let bytes = self.encode();
        let mut name = path.file_name().map(ToOwned::to_owned).unwrap_or_default();
        name.push(".part");
        let part = path.with_file_name(name);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&part, path)?;
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        File::open(folder)?.sync_all()?;
        Ok(bytes.len() as u64)
    }

    pub fn read(path: &Path) -> Result<BackupFile, BadBackup> {
        BackupFile::decode(&std::fs::read(path).map_err(BadBackup::Unreadable)?)
    }

    fn encode(&self) -> Vec<u8> {
        let StatePosition { term, number, reign } = self.position;
        let mut bytes = Vec::from(MAGIC);
        bytes.extend(FORMAT.to_le_bytes());
        for field in [self.cluster.raw(), term.raw(), number, reign, self.records.len() as u64] {
            bytes.extend(field.to_le_bytes());
        }
        for (key, value) in &self.records {
            bytes.extend(u32::try_from(key.len()).expect("a key of a few dozen bytes").to_le_bytes());
            bytes.extend(u32::try_from(value.len()).expect("a record fits a frame").to_le_bytes());
            bytes.extend(key.as_bytes());
            bytes.extend(value);
        }
        let checksum = crc(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<BackupFile, BadBackup> {
        if bytes.len() < HEADER_BYTES + CHECKSUM_BYTES || !bytes.starts_with(&MAGIC) {
            return Err(BadBackup::NotOne);
        }
        let (whole, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
        let mut rest = &whole[MAGIC.len()..];
        let format = take_u32(&mut rest).ok_or(BadBackup::NotOne)?;
        if format != FORMAT {
            return Err(BadBackup::TooNew(format));
        }
        if crc(whole).to_le_bytes() != *checksum {
            return Err(BadBackup::Damaged("its checksum does not match"));
        }
        let cut = || BadBackup::Damaged("it ends too early");
        let mut field = || take_u64(&mut rest).ok_or_else(cut);
        let (cluster, term) = (ClusterId(field()?), Term(field()?));
        let (number, reign, count) = (field()?, field()?, field()?);
        let mut records = Vec::new();
        for _ in 0..count {
            let lengths = take_u32(&mut rest).zip(take_u32(&mut rest));
            let (key, value) = lengths.ok_or_else(cut)?;
            let key = take(&mut rest, key as usize).ok_or_else(cut)?;
            let value = take(&mut rest, value as usize).ok_or_else(cut)?;
            let key = std::str::from_utf8(key).map_err(|_| BadBackup::Damaged("a key is no text"))?;
            records.push((key.to_owned(), value.to_vec()));
        }
        if !rest.is_empty() {
            return Err(BadBackup::Damaged("bytes follow its records"));
        }
        Ok(BackupFile { cluster, position: StatePosition { term, number, reign }, records })
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    take(rest, 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    take(rest, 8)?.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../docs/formats/state-backup.md");

    fn backup() -> BackupFile {
        let position = StatePosition { term: Term(2), number: 3, reign: 4 };
        let records = vec![("a".into(), vec![7]), ("meta".into(), vec![])];
        BackupFile { cluster: ClusterId(1), position, records }
    }

    // G3
    #[test]
    fn what_is_written_is_read() {
        let bytes = backup().encode();
        assert_eq!(BackupFile::decode(&bytes).expect("a backup"), backup());
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let example: Vec<&str> = PAGE
            .split_once("```hex\n")
            .and_then(|(_, rest)| rest.split_once("```"))
            .expect("the page has an example")
            .0
            .split_whitespace()
            .collect();
        assert_eq!(hex, example);
    }

    // G3
    #[test]
    fn no_damage_is_passed_over() {
        let bytes = backup().encode();
        for at in 0..bytes.len() {
            assert!(BackupFile::decode(&bytes[..at]).is_err(), "{at} bytes of it");
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(BackupFile::decode(&damaged).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    // G3: a hostile file can have a checksum that matches.
    #[test]
    fn hostile_lengths_are_refused() {
        let mut rng = ramhold_base::Rng::new(5);
        for _ in 0..5000 {
            let mut bytes = backup().encode();
            bytes.truncate(bytes.len() - CHECKSUM_BYTES);
            let at = 44 + rng.below(bytes.len() as u64 - 44) as usize;
            bytes[at] = rng.u64() as u8;
            bytes.extend(crc(&bytes).to_le_bytes());
            let _ = BackupFile::decode(&bytes);
        }
    }

    // G3
    #[test]
    fn a_backup_that_is_not_finished_takes_no_name() {
        let folder = std::env::temp_dir().join(format!("ramhold-backup-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("state");
        let written = backup().write(&path).expect("it is written");
        assert_eq!(written, std::fs::metadata(&path).expect("it is there").len());
        assert_eq!(BackupFile::read(&path).expect("a backup"), backup());
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 1);
        std::fs::remove_dir_all(&folder).expect("it goes");
        assert!(matches!(BackupFile::read(&path), Err(BadBackup::Unreadable(_))));
    }
}
