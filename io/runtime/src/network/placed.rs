//! A Unix socket at a path, for clients that know no other way past the network.
//!
//! A process that was killed leaves the path behind. So a path at which nobody listens is taken over; one at which
//! somebody does, or that is something else, is refused. The path is removed when the listener goes, if it is still its own.
//!
//! A process that may connect can also send descriptors, and decides how long their closing takes (link/local). The mode of the
//! path says who may: by default the user of the process alone.

use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// The path of a listening socket.
pub(super) struct Placed {
    path: PathBuf,
    inode: (u64, u64),
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

impl Drop for Placed {
    fn drop(&mut self) {
        if inode(&self.path) == Some(self.inode) {
            // If it cannot be removed, the next process takes it over.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn socket() -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)
}

/// Listens at a path with this mode.
pub(super) fn listen(
    path: &Path,
    mode: u32,
    waiting_count_max: i32,
) -> rustix::io::Result<(OwnedFd, Placed)> {
    let name = SocketAddrUnix::new(path)?;
    if let Ok(found) = fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(Errno::EXIST);
        }
        match rustix::net::connect(&socket()?, &name) {
            Err(Errno::CONNREFUSED) => {
                fs::remove_file(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            }
            Ok(()) | Err(_) => return Err(Errno::ADDRINUSE),
        }
    }
    let socket = socket()?;
    rustix::net::bind(&socket, &name)?;
    // Nobody can connect before it listens, so nobody does with another mode.
    rustix::fs::chmod(path, Mode::from_raw_mode(mode))?;
    rustix::net::listen(&socket, waiting_count_max)?;
    let inode = inode(path).ok_or(Errno::NOENT)?;
    Ok((socket, Placed { path: path.to_owned(), inode }))
}
