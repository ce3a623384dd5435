//! `ramhold server --brick`: one brick, with its own backup, in a process that may be killed at any moment.
//!
//! Not here: what a brick does (core/brick). Catalogue: I6.

use super::arguments::Server;
use super::buffers::{self, BufferPlace};
use super::device::{self, Kind};
use super::start::{FRAMES_GROW_BY, NEEDED_INTERVAL, PORT_ATTEMPT_COUNT, coordinator_for, settle};
use crate::admin;
use crate::failure::Failure;
use crate::memory::{MemoryPlan, PLACE_BYTES, check_available};
use crate::process::{self, Stops};
use crate::size::bytes_text;
use ramhold_admin::Door;
use ramhold_backup::{BackupConfig, Buffers};
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_base::limits::{LABEL_COUNT_MAX, SEGLET_BYTES, SEGMENT_BYTES};
use ramhold_base::processor;
use ramhold_log::Geometry;
use ramhold_node::{BrickConfig, BrickNode, BrickNodeConfig, BrickSeen};
use ramhold_runtime::{
    DiskConfig, Runtime, RuntimeConfig, StartError, free_space, memory_available, raise_file_limit,
};
use ramhold_wire::control::Address;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Frames beyond those of the log: heads, and segments that are being cleaned.
const FRAMES_SPARE: u64 = 16;

/// How often the brick hears how much of a processor and of memory it uses: each of its reports, twice a second, has news.
const USAGE_INTERVAL: Duration = Duration::from_millis(250);

pub fn run(arguments: &Server) -> Result<(), Failure> {
    let door = arguments.admin.open(arguments.insecure_network)?;
    let admin = door.as_ref().map(Door::address);
    let prepared = PreparedBrick::new(arguments)?;
    let mut runtime = prepared.start(arguments)?;
    process::stop_on_signal(Stops::of(runtime.stop_handle()))?;
    if let Some(door) = door {
        let dir = arguments.dir().to_owned();
        let seen = move |node: &BrickNode, now| BrickSeen {
            disk_free_bytes: free_space(&dir).ok(),
            ..node.seen(now)
        };
        drop(door.serve(&mut runtime, seen).map_err(admin::thread_failed)?);
    }
    prepared.tell(arguments, runtime.local_addr(), admin);
    let exit = runtime.run_telling(USAGE_INTERVAL, |node, now, usage| {
        node.on_usage(now, usage.processor, usage.memory_bytes);
    });
    let is_flushed = runtime.machine().backup.is_stopped();
    // This unlocks the directories before anything in them is removed.
    drop(runtime);
    if is_flushed && exit.code == 0 {
        prepared.buffers.give_back();
    }
    process::ended(exit)
}

/// Everything that was found and chosen before the start.
struct PreparedBrick {
    coordinator: SocketAddr,
    memory: MemoryPlan,
    buffers: BufferPlace,
    frames_max: u32,
    /// The place of the data directory on its device.
    place: u64,
}

impl PreparedBrick {
    fn new(arguments: &Server) -> Result<PreparedBrick, Failure> {
        let mut addresses = vec![arguments.bind];
        addresses.extend(arguments.advertise);
        process::check_exposure(&addresses, arguments.insecure_network)?;
        if arguments.label.len() > LABEL_COUNT_MAX {
            return Err(Failure::usage(format!(
                "a brick has at most {LABEL_COUNT_MAX} labels; give fewer --label"
            )));
        }
        let coordinator = coordinator_for(arguments)?;
        raise_file_limit();

        let dir = device::make_dir(arguments.dir())?;
        device::check_kind(&dir, Kind::Brick)?;
        let buffers = BufferPlace::new(arguments.buffer_dir.as_deref(), &dir)?;
        let memory = MemoryPlan::for_brick(arguments.memory).map_err(Failure::usage)?;
        buffers::tell_abandoned();
        check_available(memory.total_bytes, buffers.held_bytes(), memory_available())
            .map_err(Failure::usage)?;
        let frames_max = device::frames_max(&dir, arguments.disk)?;
        let needed = memory.log_bytes / u64::from(SEGMENT_BYTES) + FRAMES_SPARE;
        if u64::from(frames_max) < needed {
            return Err(Failure::usage(format!(
                "--disk {} is too little for the log of --memory {}: a brick needs at least {}",
                bytes_text(arguments.disk),
                bytes_text(arguments.memory),
                bytes_text(needed * PLACE_BYTES)
            )));
        }
        if buffers.reserve(&memory)? == Buffers::InFrames {
            return Err(Failure::usage(format!(
                "a brick needs {} of memory for buffers in {}; free memory there, or name another place with --buffer-dir",
                bytes_text(memory.buffer_bytes),
                buffers.path().display()
            )));
        }
        let place = place_of(&dir);
        Ok(PreparedBrick { coordinator, memory, buffers, frames_max, place })
    }

    /// Opens everything. The address must be known before the machine is made, so a port of 0 is settled here.
    fn start(&self, arguments: &Server) -> Result<Runtime<BrickNode>, Failure> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let listen = settle(arguments.bind)?;
            let address = arguments.advertise.unwrap_or(listen);
            let region_bytes = usize::try_from(self.memory.log_bytes).expect("memory fits the address space");
            // The kernel supplies zeroed pages when they are first touched.
            let region = vec![0; region_bytes];
            let seed = RandomState::new().hash_one(std::process::id());
            let node = BrickNode::new(self.node_config(arguments, address), region, seed);
            let config = RuntimeConfig {
                listen: Some(listen),
                reached_at: Some(address),
                limits: arguments.network_limits(),
                poll: arguments.poll.into(),
                disk: Some(DiskConfig {
                    data_dir: arguments.dir().to_owned(),
                    buffer_dir: self.buffers.path().to_owned(),
                }),
                read_memory_bytes: self.memory.recovery_cache_bytes,
                ..RuntimeConfig::default()
            };
            match Runtime::new(node, config) {
                Ok(runtime) => return Ok(runtime),
                Err(StartError::Listen { .. })
                    if arguments.bind.port() == 0 && attempt < PORT_ATTEMPT_COUNT => {}
                Err(error) => return Err(self.buffers.start_failed(&error)),
            }
        }
    }

    fn node_config(&self, arguments: &Server, address: SocketAddr) -> BrickNodeConfig {
        let geometry = Geometry { segment_bytes: SEGMENT_BYTES, seglet_bytes: SEGLET_BYTES };
        let (log_bytes, index_bytes) = (self.memory.log_bytes, self.memory.index_bytes);
        let brick = BrickConfig::new(Address(address), geometry, log_bytes, index_bytes);
        let count = self.memory.buffer_count;
        BrickNodeConfig {
            brick: BrickConfig {
                place: self.place,
                supervisor: arguments.supervisor,
                restart_load: arguments.restart_load,
                restart_threshold: arguments.restart_threshold.0,
                scrub_bytes_per_second: arguments.scrub_rate,
                disk_bytes_max: (u64::from(self.frames_max) - FRAMES_SPARE / 2) * u64::from(SEGMENT_BYTES),
                ..brick
            },
            backup: BackupConfig {
                is_own: true,
                segment_bytes: SEGMENT_BYTES,
                frames_max: self.frames_max,
                frames_grow_by: FRAMES_GROW_BY,
                buffers: Buffers::Reserved { count },
                buffers_survive_power: false,
                flush_interval: arguments.flush_interval,
                recovery_cache_bytes: self.memory.recovery_cache_bytes,
                found_cache_bytes: 0,
                needed_interval: NEEDED_INTERVAL,
                directory: arguments.dir().display().to_string(),
                mode: format!("{count} buffers in {}", self.buffers.path().display()),
            },
            coordinator: self.coordinator,
            labels: arguments.label.clone(),
            weight: arguments.weight,
            memory_bytes: self.memory.total_bytes,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Prints the facts that an operator must know about this process.
    fn tell(&self, arguments: &Server, listens: Option<SocketAddr>, admin: Option<SocketAddr>) {
        let interval = arguments.flush_interval;
        let lines = [
            format!("ramhold server --brick {}", env!("CARGO_PKG_VERSION")),
            format!("  coordinator  {}", self.coordinator),
            format!("  listens      {}", listens.expect("a brick always listens")),
            admin::line(admin),
            format!("  data         {}", arguments.dir().display()),
            format!("  memory       {}", self.memory.text()),
            format!("  processor    {}", processor::path()),
            format!(
                "  disk         {} frames, {}",
                self.frames_max,
                bytes_text(u64::from(self.frames_max) * PLACE_BYTES)
            ),
            format!("  buffers      {} in {}", self.memory.buffer_count, self.buffers.path().display()),
            format!(
                "  promise      an acknowledged write survives the kill of all bricks at once; in a buffered table \
                 also a power cut of all but a read quorum, and after more of them it may lack its last {interval:?}"
            ),
        ];
        crate::output::show(&lines.join("\n"));
    }
}

/// A number of the data directory's place: of its inode and of that of its superblock, so that a directory that is the root
/// of its file system has one, too. A superblock that is not there yet is made, empty: the first life has a place as well.
/// 0: it cannot be made, which the start will tell.
fn place_of(dir: &Path) -> u64 {
    let superblock = dir.join("superblock");
    let inode = |path: &Path| fs::metadata(path).map(|it| it.ino()).ok();
    if fs::OpenOptions::new().create(true).append(true).open(&superblock).is_err() {
        return 0;
    }
    let (Some(own), Some(superblock)) = (inode(dir), inode(&superblock)) else { return 0 };
    PlacementHasher::new(PlacementSeed(0)).hash(&[own.to_le_bytes(), superblock.to_le_bytes()].concat()).0
}

#[cfg(test)]
mod tests {
    use super::*;

    // I6
    #[test]
    fn a_new_directory_has_a_place_and_its_copy_has_another_one() {
        let dir = std::env::temp_dir().join(format!("ramhold-brick-place-{}", std::process::id()));
        let (original, copy) = (dir.join("original"), dir.join("copy"));
        for dir in [&original, &copy] {
            fs::create_dir_all(dir).expect("a directory");
        }
        let place = place_of(&original);
        assert_ne!(place, 0, "in its first life");
        assert_eq!(place_of(&original), place);
        fs::copy(original.join("superblock"), copy.join("superblock")).expect("copied");
        assert_ne!(place_of(&copy), place);
        assert_eq!(place_of(&dir.join("missing")), 0);
        fs::remove_dir_all(dir).expect("it was just made");
    }
}
