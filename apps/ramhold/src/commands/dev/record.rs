//! The information of a `dev` cluster for other programs: a lock that it holds while it runs, and a file.

use crate::failure::Failure;
use crate::local::LocalCluster;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The content of `DIR/dev.json`.
#[derive(Serialize, Deserialize, Debug)]
pub struct Record {
    /// The supervisor.
    pub pid: u32,
    /// All servers have been up since this life of the supervisor.
    pub healthy: bool,
    pub coordinator: SocketAddr,
    pub members: Vec<Member>,
}

#[derive(Serialize, Deserialize, Debug)]
pub struct Member {
    pub name: String,
    /// None while it does not run.
    pub pid: Option<u32>,
    pub address: SocketAddr,
    pub dir: PathBuf,
}

impl Record {
    pub fn path(dir: &Path) -> PathBuf {
        dir.join("dev.json")
    }

    pub fn of(cluster: &LocalCluster, healthy: bool) -> Record {
        let plan = &cluster.plan;
        let members = (0..plan.ports.len()).map(|member| Member {
            name: plan.name(member),
            pid: cluster.child(member).map(crate::local::Child::id),
            address: SocketAddr::new(plan.coordinator().ip(), plan.ports[member]),
            dir: plan.data_dir(member),
        });
        Record {
            pid: std::process::id(),
            healthy,
            coordinator: plan.coordinator(),
            members: members.collect(),
        }
    }

    /// Replaces the file, so that nobody reads half of it.
    pub fn write(&self, dir: &Path) -> Result<(), Failure> {
        let path = Record::path(dir);
        let next = dir.join("dev.json.next");
        let text = serde_json::to_string_pretty(self).expect("a record is plain data");
        fs::write(&next, text + "\n")
            .and_then(|()| fs::rename(&next, &path))
            .map_err(|error| Failure::local(&path, &error))
    }

    pub fn read(dir: &Path) -> Result<Record, Failure> {
        let path = Record::path(dir);
        let text = fs::read_to_string(&path).map_err(|error| Failure::local(&path, &error))?;
        serde_json::from_str(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
    }

    /// Whether a supervisor runs on the directory.
    pub fn is_held(dir: &Path) -> Result<bool, Failure> {
        let path = lock_path(dir);
        let failed = |error: std::io::Error| Failure::local(&path, &error);
        let lock = match File::open(&path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        match lock.try_lock() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

fn lock_path(dir: &Path) -> PathBuf {
    dir.join("dev.lock")
}

/// The directory is this process's until this is dropped.
pub struct Held {
    _lock: File,
}

impl Held {
    pub fn take(dir: &Path) -> Result<Held, Failure> {
        let path = lock_path(dir);
        let failed = |error: std::io::Error| Failure::local(&path, &error).about("--dir");
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Held { _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Failure::usage(format!(
                "a cluster runs on {} already; 'ramhold stop --dir {}' ends it",
                dir.display(),
                dir.display()
            ))),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_held_by_one() {
        let dir = std::env::temp_dir().join(format!("ramhold-held-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        assert!(!Record::is_held(&dir).unwrap());
        let held = Held::take(&dir).unwrap();
        assert!(Record::is_held(&dir).unwrap());
        assert!(Held::take(&dir).err().unwrap().text().contains("ramhold stop"));
        drop(held);
        assert!(!Record::is_held(&dir).unwrap());
        fs::remove_dir_all(dir).unwrap();
    }
}
