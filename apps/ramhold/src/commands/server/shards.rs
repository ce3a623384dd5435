//! `--shards`: several servers in one process, each with a thread of its own.
//!
//! A shard is a server like any other: it has its own id, address, log, backup and data directory, and shares nothing with
//! the others of its process but the options (docs/decisions/0034). All of one process have one host label, so copies of a
//! shard's data lie on other hosts. A shard that the cluster has declared dead starts again inside the process, since the
//! others have done nothing wrong. The end of any shard for another reason ends the process.
//!
//! Not here: the start of one server (start).

use super::arguments::Server;
use super::buffers::{self, BufferPlace};
use super::device;
use super::reload::Reload;
use super::start::{Prepared, open_door};
use crate::admin::Admin;
use crate::failure::Failure;
use crate::memory::{PLACE_BYTES, check_available};
use crate::process::{self, Stops};
use crate::size::bytes_text;
use ramhold_runtime::{Exit, free_space, memory_available};
use ramhold_wire::membership::Label;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// The directory of shard 0 is that of the process, so that a server can be given more shards later.
const FOLDER: &str = "shard-";
/// Exit codes of a server that can start again at once: the cluster has declared it dead, or its memory is damaged.
const STARTS_AGAIN: [u8; 2] = [3, 5];
/// A shard that ends more often than this within `AGAIN_WITHIN` ends the process.
const AGAIN_COUNT_MAX: usize = 3;
const AGAIN_WITHIN: Duration = Duration::from_secs(600);

/// The start of a shard, as told to the thread that waits for all of them.
struct Started {
    shard: u16,
    listens: SocketAddr,
    admin: Option<SocketAddr>,
}

pub fn run(arguments: &Server, reload: &Reload) -> Result<(), Failure> {
    let shards = divide(arguments)?;
    buffers::tell_abandoned();
    check_memory(&shards, arguments.memory)?;
    check_disk(&shards, arguments)?;
    let prepare = |(number, shard): (usize, &Server)| {
        let about = format!("shard {number}, with its part of --memory and --disk");
        Prepared::new(shard).map_err(|failure| failure.about(&about))
    };
    let prepared = shards.iter().enumerate().map(prepare).collect::<Result<Vec<_>, Failure>>()?;
    let cores = cores(arguments);
    let stops = Stops::default();
    process::stop_on_signal(stops.clone())?;
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, (arguments, prepared)) in (0u16..).zip(shards.iter().zip(&prepared)) {
            let (tell, stops) = (tell.clone(), &stops);
            let core = cores.get(usize::from(number)).copied();
            let shard = Shard { number, arguments, prepared, core, stops, reload };
            let thread = std::thread::Builder::new().name(format!("shard-{number}"));
            let body = move || shard.live(&tell);
            let spawned = thread.spawn_scoped(scope, body);
            threads.push(spawned.map_err(|error| {
                // The others end, and with them the wait for their starts.
                stops.stop();
                Failure::usage(format!("cannot start a thread: {error}"))
            }));
        }
        drop(tell);
        let mut started: Vec<Started> = told.iter().take(shards.len()).collect();
        if started.len() == shards.len() {
            started.sort_by_key(|started| started.shard);
            prepared[0].tell(&shards[0], Some(started[0].listens), started[0].admin);
            crate::output::show(&further_lines(&started, &cores));
        }
        let mut first_failure = Ok(());
        for thread in threads {
            let outcome = match thread.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => Err(Failure::usage("a shard's thread has panicked")),
                Err(failure) => Err(failure),
            };
            if first_failure.is_ok() {
                first_failure = outcome;
            }
        }
        first_failure
    })
}

/// One shard, in its thread.
struct Shard<'a> {
    number: u16,
    arguments: &'a Server,
    prepared: &'a Prepared,
    core: Option<usize>,
    stops: &'a Stops,
    reload: &'a Reload,
}

impl Shard<'_> {
    /// Lives again and again until the process is to end, and ends the other shards if it must end itself.
    fn live(&self, tell: &Sender<Started>) -> Result<(), Failure> {
        let mut ends: VecDeque<Instant> = VecDeque::new();
        loop {
            let outcome = self.live_once(tell);
            let about = |failure: Failure| failure.about(&format!("shard {}", self.number));
            let exit = match outcome {
                Ok(exit) => exit,
                Err(failure) => {
                    self.stops.stop();
                    let failure = about(failure);
                    // The others may flush for long before the process ends with this.
                    crate::output::tell(&format!("ramhold: {}; all shards stop", failure.text()));
                    return Err(failure);
                }
            };
            let now = Instant::now();
            while ends.front().is_some_and(|end| now.duration_since(*end) > AGAIN_WITHIN) {
                ends.pop_front();
            }
            ends.push_back(now);
            let starts_again = STARTS_AGAIN.contains(&exit.code) && ends.len() <= AGAIN_COUNT_MAX;
            if !starts_again || self.stops.is_stopping() {
                self.stops.stop();
                return process::ended(exit).map_err(about);
            }
            crate::output::tell(&format!(
                "ramhold: shard {}: {}; it starts again, the other shards go on",
                self.number, exit.reason
            ));
        }
    }

    fn live_once(&self, tell: &Sender<Started>) -> Result<Exit, Failure> {
        let mut runtime = self.prepared.start(self.arguments)?;
        let door = open_door(self.arguments, &mut runtime)?;
        let admin = door.as_ref().map(|(address, _)| *address);
        if !self.stops.enter(runtime.stop_handle()) {
            runtime.stop_handle().stop();
        }
        self.reload.enter(self.number, runtime.change_handle());
        // The threads for disks were started above, and may run wherever the process may.
        let allowed = self.core.and_then(pin);
        let listens = runtime.local_addr().expect("a server always listens");
        let _ = tell.send(Started { shard: self.number, listens, admin });
        let exit = runtime.run();
        let is_flushed = runtime.machine().backup().is_stopped();
        if let Some(allowed) = allowed {
            let _ = sched_setaffinity(None, &allowed);
        }
        drop(runtime);
        // The port is free when the thread has ended: the next life listens there again.
        if let Some((_, thread)) = door {
            let _ = thread.join();
        }
        if is_flushed && exit.code == 0 {
            self.prepared.buffers.give_back();
        }
        Ok(exit)
    }
}

/// Refuses to start without a shard that the directory has: its server would be missing, and its replicas, too.
pub fn refuse_leftover(arguments: &Server) -> Result<(), Failure> {
    match leftover(arguments.dir(), arguments.shards) {
        None => Ok(()),
        Some(left) => Err(Failure::usage(format!(
            "{} holds a shard that --shards {} leaves out; give more --shards, or remove it when 'ramhold status' shows \
             that its server is gone and everything is recovered",
            left.display(),
            arguments.shards
        ))),
    }
}

/// The options of each shard.
fn divide(arguments: &Server) -> Result<Vec<Server>, Failure> {
    let count = arguments.shards;
    check_ports(arguments)?;
    Ok((0..count).map(|number| part(arguments, number)).collect())
}

fn part(arguments: &Server, number: u16) -> Server {
    let count = u64::from(arguments.shards);
    let place = |dir: &Path| -> PathBuf {
        if number == 0 { dir.to_owned() } else { dir.join(format!("{FOLDER}{number}")) }
    };
    let moved = |address: SocketAddr| match address.port() {
        0 => address,
        port => SocketAddr::new(address.ip(), port + number),
    };
    let mut part = arguments.clone();
    part.dir = Some(place(arguments.dir()));
    part.buffer_dir = arguments.buffer_dir.as_deref().map(place);
    part.bind = moved(arguments.bind);
    part.advertise = arguments.advertise.map(moved);
    part.link = arguments.link.iter().map(|(name, address)| (name.clone(), moved(*address))).collect();
    part.admin = match arguments.admin {
        Admin::At(address) => Admin::At(moved(address)),
        Admin::Off => Admin::Off,
    };
    part.resp_cluster_port = arguments.resp_cluster_port.map(|port| port + number);
    part.memory = arguments.memory / count;
    part.disk = arguments.disk / count;
    part.buffers = arguments.buffers.map(|bytes| bytes / count);
    (part.copy_rate, part.scrub_rate) = arguments.rates_of_shard(arguments.shards);
    if number > 0 {
        part.resp_unix_socket = None;
    }
    let is_placed = arguments.label.iter().any(|label| ["host", "rack"].contains(&label.name.as_str()));
    if !is_placed {
        let host = arguments.advertise.unwrap_or(arguments.bind).ip();
        part.label.push(Label { name: "host".to_owned(), value: host.to_string() });
    }
    part
}

/// Refuses ports beyond the last one, and ports that would be taken twice.
fn check_ports(arguments: &Server) -> Result<(), Failure> {
    let count = u32::from(arguments.shards);
    let admin = match arguments.admin {
        Admin::At(address) => Some(address.port()),
        Admin::Off => None,
    };
    let ranges = [
        ("--bind", Some(arguments.bind.port()), count),
        ("--resp-cluster-port", arguments.resp_cluster_port, count),
        ("--resp-port", arguments.resp_port, 1),
        ("--admin", admin, count),
    ];
    let further = arguments.link.iter().map(|(_, address)| ("--link", address.port()));
    let advertised = arguments.advertise.map(|address| ("--advertise", address.port()));
    for (option, port) in further.chain(advertised) {
        if u32::from(port) + count > u32::from(u16::MAX) + 1 {
            return Err(Failure::usage(format!(
                "{option}: {count} shards take as many ports from {port} on, and there are none above {}",
                u16::MAX
            )));
        }
    }
    let taken = ranges.into_iter().filter_map(|(option, port, count)| {
        let port = u32::from(port.filter(|port| *port > 0)?);
        Some((option, port..port + count))
    });
    let taken: Vec<_> = taken.collect();
    for (index, (option, ports)) in taken.iter().enumerate() {
        let (first, last) = (ports.start, ports.end - 1);
        if last > u32::from(u16::MAX) {
            return Err(Failure::usage(format!(
                "{option}: {count} shards take the ports from {first} to {last}, and there are none above {}",
                u16::MAX
            )));
        }
        let overlaps = |(_, other): &&(_, std::ops::Range<u32>)| other.start <= last && first < other.end;
        if let Some((other, others)) = taken[..index].iter().find(overlaps) {
            let (first_other, last_other) = (others.start, others.end - 1);
            let ports = if first == last { format!("{first}") } else { format!("{first} to {last}") };
            return Err(Failure::usage(format!(
                "{count} shards take the ports {first_other} to {last_other} for {other}; choose others for {option} than {ports}"
            )));
        }
    }
    Ok(())
}

/// A shard's directory beyond the shards that there are to be.
fn leftover(dir: &Path, count: u16) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.flatten();
    let number = |name: &str| name.strip_prefix(FOLDER)?.parse::<u16>().ok();
    let is_left = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        // A start that was refused may have left an empty directory.
        let is_used = || path.join("superblock").exists() || path.join("frames").exists();
        name.and_then(number).is_some_and(|number| number >= count) && is_used()
    };
    entries.map(|entry| entry.path()).find(is_left)
}

/// All shards together must fit, and each of them looks only at its own part.
fn check_memory(shards: &[Server], bytes: u64) -> Result<(), Failure> {
    let mut held = 0;
    for shard in shards {
        let dir = device::make_dir(shard.dir())?;
        held += BufferPlace::new(shard.buffer_dir.as_deref(), &dir)?.held_bytes();
    }
    check_available(bytes, held, memory_available()).map_err(Failure::usage)
}

/// The same for the disk. A shard that has frames starts however full the file system is, as a server alone does.
fn check_disk(shards: &[Server], arguments: &Server) -> Result<(), Failure> {
    let dir = arguments.dir();
    let free = free_space(dir).map_err(|error| Failure::local(dir, &error).about("--dir"))?;
    let held: u64 = shards.iter().map(|shard| device::held_bytes(shard.dir())).sum();
    let room = free.saturating_add(held);
    if arguments.no_backup || held >= PLACE_BYTES || arguments.disk <= room {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--disk {} is for all shards together, and the file system of {} has room for {}; give less --disk, or another --dir",
        bytes_text(arguments.disk),
        dir.display(),
        bytes_text(room)
    )))
}

/// The cores of the shards: one each, if there are enough and they are to be pinned.
fn cores(arguments: &Server) -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    let is_enough = cores.len() >= usize::from(arguments.shards);
    if is_enough && !arguments.no_pin { cores } else { Vec::new() }
}

/// Has this thread run on this core alone; gives the cores that it had before.
fn pin(core: usize) -> Option<CpuSet> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut only = CpuSet::new();
    only.set(core);
    // It runs anywhere else as well, only with colder caches.
    sched_setaffinity(None, &only).ok().map(|()| allowed)
}

fn further_lines(started: &[Started], cores: &[usize]) -> String {
    let line = |started: &Started| {
        let Started { shard, listens, admin } = started;
        let core = cores.get(usize::from(*shard)).map(|core| format!(", on core {core}")).unwrap_or_default();
        let admin = admin.map(|address| format!(", admin http://{address}/metrics")).unwrap_or_default();
        format!("  shard {shard}      {listens}{core}{admin}")
    };
    let head = format!("  shards       {}, each with a part like the one told above", started.len());
    std::iter::once(head).chain(started.iter().map(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        server: Server,
    }

    fn server(more: &[&str]) -> Server {
        let words = ["server", "--coordinator", "127.0.0.1:7400", "--dir", "/nowhere/ramhold"];
        Only::parse_from(words.iter().chain(more)).server
    }

    // E3
    #[test]
    fn each_shard_has_its_part_and_a_place_of_its_own() {
        let all =
            ["--shards", "4", "--bind", "10.0.0.1:7401", "--admin", "127.0.0.1:8400", "--memory", "4GiB"];
        let shards = divide(&server(&[&all[..], &["--buffer-dir", "/dev/shm/r"]].concat())).unwrap();
        assert_eq!(shards.len(), 4);
        assert_eq!(shards[0].dir(), Path::new("/nowhere/ramhold"));
        assert_eq!(shards[3].dir(), Path::new("/nowhere/ramhold/shard-3"));
        assert_eq!(shards[3].buffer_dir.as_deref(), Some(Path::new("/dev/shm/r/shard-3")));
        assert_eq!((shards[0].bind.port(), shards[3].bind.port()), (7401, 7404));
        assert_eq!(shards[2].admin, Admin::At("127.0.0.1:8402".parse().unwrap()));
        assert_eq!(shards.iter().map(|shard| shard.memory).sum::<u64>(), 4 << 30);
        for shard in &shards {
            let host = Label { name: "host".to_owned(), value: "10.0.0.1".to_owned() };
            assert_eq!(shard.label, [host], "copies of a shard's data must not lie in its own process");
        }
        let labelled = divide(&server(&["--shards", "2", "--label", "host=b"])).unwrap();
        assert_eq!(labelled[1].label.len(), 1);
        let free = divide(&server(&["--shards", "2"])).unwrap();
        assert_eq!(free[1].bind.port(), 0);
    }

    // E3
    #[test]
    fn ports_that_do_not_suffice_are_refused() {
        let refused = |words: &[&str]| {
            let words = [&["--shards", "4"][..], words].concat();
            divide(&server(&words)).unwrap_err().text().to_owned()
        };
        assert!(refused(&["--advertise", "127.0.0.1:65535"]).contains("none above 65535"));
        assert!(refused(&["--bind", "127.0.0.1:65533"]).contains("none above 65535"));
        let both = ["--bind", "127.0.0.1:7401", "--resp-cluster-port", "7404"];
        assert!(
            refused(&both).contains("ports 7401 to 7404 for --bind; choose others for --resp-cluster-port")
        );
        assert!(
            refused(&["--bind", "127.0.0.1:7401", "--resp-port", "7403"])
                .contains("for --resp-port than 7403")
        );
        assert!(
            divide(&server(&["--shards", "4", "--bind", "127.0.0.1:7401", "--resp-port", "7405"])).is_ok()
        );
    }

    // E3
    #[test]
    fn a_shard_is_not_left_out_unnoticed() {
        let dir = std::env::temp_dir().join(format!("ramhold-shards-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("shard-2")).unwrap();
        assert_eq!(leftover(&dir, 1), None, "a start was refused");
        std::fs::write(dir.join("shard-2/superblock"), "").unwrap();
        assert_eq!(leftover(&dir, 3), None);
        assert_eq!(leftover(&dir, 2), Some(dir.join("shard-2")));
        assert_eq!(leftover(&dir, 1), Some(dir.join("shard-2")));
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(leftover(&dir, 1), None);
    }
}
