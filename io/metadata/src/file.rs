//! The file of the embedded store: keys with versions and values, on redb.
//!
//! There are two tables. `about` holds the number of this format under `format`. `entries` holds for each key
//! its version (8 bytes, little-endian), followed by the value. Only the engine's plain operations are used.
//! Keys are passed to the engine as bytes, because it panics over text that damage has made invalid.
//!
//! Invariants:
//! - a commit is on the device when it returns; otherwise it returns an error, and its fate is unknown
//! - versions are at least 1
//! - a commit begins only when the device has room reserved for it: the engine does not survive a write error

use crate::OpenError;
use ramhold_base::StoreCondition;
use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Persisted: rises when a version of Ramhold writes what this one would misread.
const FORMAT: u64 = 1;
const FORMAT_KEY: &str = "format";
const ABOUT: TableDefinition<&str, u64> = TableDefinition::new("about");
const ENTRIES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("entries");

/// Memory for pages; the whole state is a few MiB.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// Space that must be reserved behind the end of the file before a commit begins. A commit changes records of a few KiB, and
/// copies the pages that lead to them.
const COMMIT_ROOM_BYTES: u64 = 1024 * 1024;
/// Space that is reserved there, or as much as the file has, if that is more: the engine doubles its file. So a store goes on
/// for long when its device is full.
const SPARE_BYTES: u64 = 4 * 1024 * 1024;

/// A key, its version and its value.
pub(crate) type Entry = (String, u64, Vec<u8>);

pub(crate) struct StoreFile {
    database: Database,
    /// The same file, to reserve its space.
    plain: File,
    /// How long it was when its space was last reserved, and up to where that was.
    reserved: (u64, u64),
    /// Held until the end, so that the directory has one user. Dropped after the database.
    _lock: File,
}

/// The result of a commit.
#[derive(Debug, PartialEq)]
pub(crate) enum Commit {
    /// The puts that changed something, in order.
    Done {
        changed: Vec<(String, Option<Vec<u8>>)>,
    },
    Conflict {
        key: String,
    },
}

impl StoreFile {
    /// Opens the store in `directory`, making both when they are missing, and checks the file from end to end.
    pub(crate) fn open(directory: &Path) -> Result<StoreFile, OpenError> {
        let lock = lock(directory)?;
        let path = directory.join("store");
        let corrupt = |detail: &str| OpenError::Corrupt { path: path.clone(), detail: detail.into() };
        // The engine checks the checksums of its pages only when asked, and may panic over damaged pages
        // before that. `catch_unwind` is sound here: nothing from a failed attempt is used again, so no
        // half-changed state is visible.
        let checked = std::panic::catch_unwind(|| open_checked(&path))
            .unwrap_or_else(|_| Err(corrupt("the engine cannot make sense of its pages")))?;
        let unusable =
            |error: std::io::Error| OpenError::Unusable { path: path.clone(), detail: error.to_string() };
        let plain = OpenOptions::new().read(true).write(true).open(&path).map_err(unusable)?;
        let mut file = StoreFile { database: checked, plain, reserved: (0, 0), _lock: lock };
        match file.format() {
            Ok(Some(FORMAT)) => Ok(file),
            Ok(Some(other)) => {
                let detail = format!("format {other}, where this version knows {FORMAT}");
                Err(OpenError::TooNew { path, detail })
            }
            Ok(None) => {
                file.reserve().map_err(|detail| OpenError::Full { path: path.clone(), detail })?;
                file.initialise().map_err(|error| OpenError::Unusable { path, detail: error.to_string() })?;
                sync_directory(directory)?;
                Ok(file)
            }
            Err(error) => Err(corrupt(&error.to_string())),
        }
    }

    fn format(&self) -> Result<Option<u64>, redb::Error> {
        let reading = self.database.begin_read()?;
        match reading.open_table(ABOUT) {
            Ok(about) => Ok(about.get(FORMAT_KEY)?.map(|format| format.value())),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the space that coming commits may need, or says that the device does not have it, and how much it has. A file
    /// system that cannot reserve, or fails otherwise, is found out by the commit.
    pub(crate) fn reserve(&mut self) -> Result<(), String> {
        let Ok(length) = self.plain.metadata().map(|metadata| metadata.len()) else { return Ok(()) };
        let (reserved_for, reserved_to) = self.reserved;
        if length == reserved_for {
            return Ok(());
        }
        let wanted_to = length + length.max(SPARE_BYTES);
        if self.allocate(wanted_to) {
            self.reserved = (length, wanted_to);
            return Ok(());
        }
        // A file that became shorter has lost the space reserved behind its end. With less space than
        // `wanted_to` a commit may still proceed: it needs little space, and the engine first takes free
        // pages of the file.
        let is_enough = length > reserved_for && reserved_to >= length + COMMIT_ROOM_BYTES;
        if is_enough || self.allocate(length + COMMIT_ROOM_BYTES) {
            return Ok(());
        }
        let free = rustix::fs::fstatvfs(&self.plain)
            .map_or(0, |space| space.f_bavail.saturating_mul(space.f_frsize));
        Err(format!("{} of {} KiB free", free / 1024, COMMIT_ROOM_BYTES / 1024))
    }

    /// Reserves the file up to there; false when the device has no room for that.
    fn allocate(&self, to: u64) -> bool {
        loop {
            // KEEP_SIZE: the length of the file stays as the engine has set it.
            match rustix::fs::fallocate(&self.plain, FallocateFlags::KEEP_SIZE, 0, to) {
                Err(Errno::INTR) => {}
                Err(Errno::NOSPC | Errno::DQUOT) => return false,
                Ok(()) | Err(_) => return true,
            }
        }
    }

    fn initialise(&self) -> Result<(), redb::Error> {
        let mut writing = self.database.begin_write()?;
        writing.set_durability(Durability::Immediate)?;
        writing.open_table(ABOUT)?.insert(FORMAT_KEY, FORMAT)?;
        writing.open_table(ENTRIES)?;
        writing.commit()?;
        Ok(())
    }

    pub(crate) fn get(&self, key: &str) -> Result<Option<Entry>, redb::Error> {
        let entries = self.database.begin_read()?.open_table(ENTRIES)?;
        let Some(found) = entries.get(key.as_bytes())? else { return Ok(None) };
        let (version, value) = decode(found.value())?;
        Ok(Some((key.to_owned(), version, value.to_vec())))
    }

    /// All entries whose keys begin with `prefix`, in order of keys.
    pub(crate) fn list(&self, prefix: &str) -> Result<Vec<Entry>, redb::Error> {
        let entries = self.database.begin_read()?.open_table(ENTRIES)?;
        let mut found = Vec::new();
        for entry in entries.range(prefix.as_bytes()..)? {
            let (key, stored) = entry?;
            let key = std::str::from_utf8(key.value())
                .map_err(|_| redb::Error::Corrupted("a key is no text".into()))?;
            if !key.starts_with(prefix) {
                break;
            }
            let (version, value) = decode(stored.value())?;
            found.push((key.to_owned(), version, value.to_vec()));
        }
        Ok(found)
    }

    /// All puts, when every condition holds, else none. On an error it is unknown which of the two.
    pub(crate) fn commit(
        &self,
        conditions: &[StoreCondition],
        puts: Vec<(String, Option<Vec<u8>>)>,
    ) -> Result<Commit, redb::Error> {
        let mut writing = self.database.begin_write()?;
        writing.set_durability(Durability::Immediate)?;
        let mut changed = Vec::with_capacity(puts.len());
        {
            let mut entries = writing.open_table(ENTRIES)?;
            for condition in conditions {
                let version = version_of(&entries, &condition.key)?;
                if version != condition.version {
                    drop(entries);
                    writing.abort()?;
                    return Ok(Commit::Conflict { key: condition.key.clone() });
                }
            }
            for (key, value) in puts {
                match &value {
                    Some(bytes) => {
                        let version = version_of(&entries, &key)?.unwrap_or(0) + 1;
                        entries.insert(key.as_bytes(), encode(version, bytes).as_slice())?;
                    }
                    None if entries.remove(key.as_bytes())?.is_none() => continue,
                    None => {}
                }
                changed.push((key, value));
            }
        }
        writing.commit()?;
        Ok(Commit::Done { changed })
    }
}

fn open_checked(path: &Path) -> Result<Database, OpenError> {
    let mut database =
        Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(|error| refusal(error, path))?;
    // By now the engine has repaired everything that a crash may leave. Any fault that is still found has
    // another cause.
    if database.check_integrity().map_err(|error| refusal(error, path))? {
        return Ok(database);
    }
    let detail = "its pages did not match their checksums".into();
    Err(OpenError::Corrupt { path: path.to_owned(), detail })
}

fn version_of(
    entries: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &str,
) -> Result<Option<u64>, redb::Error> {
    let Some(found) = entries.get(key.as_bytes())? else { return Ok(None) };
    Ok(Some(decode(found.value())?.0))
}

fn encode(version: u64, value: &[u8]) -> Vec<u8> {
    [&version.to_le_bytes(), value].concat()
}

fn decode(stored: &[u8]) -> Result<(u64, &[u8]), redb::Error> {
    match stored.split_first_chunk() {
        Some((version, value)) if *version != [0; 8] => Ok((u64::from_le_bytes(*version), value)),
        Some(_) | None => Err(redb::Error::Corrupted("an entry has no version".into())),
    }
}

fn lock(directory: &Path) -> Result<File, OpenError> {
    let unusable =
        |error: std::io::Error| OpenError::Unusable { path: directory.to_owned(), detail: error.to_string() };
    if !directory.is_dir() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(unusable)?;
        if let Some(parent) = directory.parent().and_then(|parent| File::open(parent).ok()) {
            parent.sync_all().map_err(unusable)?;
        }
    }
    // This name differs from the lock file of a backup's directory, because one directory may serve both
    // purposes.
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(directory.join("store-lock"))
        .map_err(unusable)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: directory.to_owned() }),
        Err(TryLockError::Error(error)) => Err(unusable(error)),
    }
}

fn sync_directory(directory: &Path) -> Result<(), OpenError> {
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| OpenError::Unusable { path: directory.to_owned(), detail: error.to_string() })
}

fn refusal(error: DatabaseError, path: &Path) -> OpenError {
    let (path, detail) = (path.to_owned(), error.to_string());
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse { path },
        DatabaseError::UpgradeRequired(_) => OpenError::TooNew { path, detail },
        DatabaseError::Storage(StorageError::Corrupted(_)) | DatabaseError::RepairAborted => {
            OpenError::Corrupt { path, detail }
        }
        DatabaseError::Storage(StorageError::Io(error))
            if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
        {
            OpenError::Full { path, detail }
        }
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
            OpenError::Corrupt { path, detail }
        }
        _ => OpenError::Unusable { path, detail },
    }
}
