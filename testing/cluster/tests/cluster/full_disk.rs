//! Devices that are full for a while. Servers run on small file systems of their own, which are filled and
//! given room again, many times.

use crate::admin::get;
use ramhold_client::{Client, Durability, ProcessStatus, TableOptions};
use ramhold_cluster_tests::{COORDINATOR, Cluster, Failure, Load, Options, Process, SmallDisk, wait_for};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SERVERS: usize = 4;
const REPLICAS: u8 = 2;
const SEED: u64 = 93;
const ROUNDS: u32 = 20;
const FRAME_BYTES: u64 = (8 << 20) + 4096;
/// Room for three more frames on each server: every master can go on, and soon all disks are full again.
const ROOM_BYTES: u64 = 3 * FRAME_BYTES + FRAME_BYTES / 2;
/// More than all bytes that are ever written, also with a server less.
const DISK_BYTES: u64 = 2 << 30;
/// Writes that waited go on within this.
const GO_ON_WITHIN: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(90);
const OBJECT_BYTES: usize = 100_000;
/// If no write is acknowledged for this long, writes wait for something.
const STILL: Duration = Duration::from_millis(700);

/// The reason why small file systems are not possible here. In CI they must be.
fn is_mount_possible() -> Result<(), Failure> {
    SmallDisk::mount(1 << 20).map(drop)
}

fn test(what: fn() -> Result<(), Failure>) -> Result<(), Failure> {
    let _machine = crate::machine();
    match is_mount_possible() {
        Ok(()) => what(),
        Err(failure) if std::env::var("CI").is_ok_and(|value| value == "true") => Err(failure),
        Err(failure) => {
            println!("skipped: full disks: {failure}");
            Ok(())
        }
    }
}

/// Writes new objects, one after the other, while it is told to.
struct Filler {
    fills: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Filler {
    fn start(cluster: &Cluster) -> Result<Filler, Failure> {
        let mut client = cluster.client(PATIENCE)?;
        let shape = TableOptions {
            durability: Durability::Buffered,
            replicas: REPLICAS,
            tablets: 4 * SERVERS as u32,
            slots: false,
            zone: None,
            quorum: None,
        };
        let table = client.create_table("filler", shape)?;
        let (fills, ends, written) =
            (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (fill, end, count) = (Arc::clone(&fills), Arc::clone(&ends), Arc::clone(&written));
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::SeqCst) {
                if !fill.load(Ordering::SeqCst) {
                    std::thread::park_timeout(Duration::from_millis(10));
                    continue;
                }
                let number = count.load(Ordering::SeqCst);
                client.put(table, &number.to_le_bytes(), &object(number))?;
                count.fetch_add(1, Ordering::SeqCst);
            }
            check(&mut client, table, count.load(Ordering::SeqCst))
        });
        Ok(Filler { fills, ends, written, thread: Some(thread) })
    }

    fn fill(&self, does: bool) {
        self.fills.store(does, Ordering::SeqCst);
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Reads everything again.
    fn end(mut self) -> Result<u64, Failure> {
        self.ends.store(true, Ordering::SeqCst);
        let thread = self.thread.take().expect("it is ended once");
        thread.join().map_err(|_| Failure("the filler has panicked".to_owned()))??;
        Ok(self.written())
    }
}

fn object(number: u64) -> Vec<u8> {
    (0..OBJECT_BYTES as u64).map(|at| (at * 31 + number * 17) as u8).collect()
}

fn check(client: &mut Client, table: ramhold_client::TableId, count: u64) -> Result<(), Failure> {
    for number in 0..count {
        let found = client.get(table, &number.to_le_bytes())?;
        if found.is_none_or(|found| found.value != object(number)) {
            return Err(Failure(format!("object {number} of {count} is lost")));
        }
    }
    Ok(())
}

fn waits_for_room(process: &ProcessStatus) -> bool {
    let mut reasons = process.streams.iter().filter_map(|stream| stream.waits_for.as_ref());
    reasons.any(|why| why.contains("disk full on s"))
}

/// Waits until writes wait, and every process that should know reports it.
fn wait_full(cluster: &Cluster, load: &Load, filler: &Filler) -> Result<(), Failure> {
    let (mut last, mut since) = ((0, 0), Instant::now());
    wait_for("writes wait, and status says why", Duration::from_secs(60), || {
        let now = (filler.written(), load.acknowledged());
        if now.0 != last.0 {
            (last, since) = (now, Instant::now());
        }
        let warnings = cluster.status().map(|status| status.warnings).unwrap_or_default();
        let is_warned = warnings.iter().any(|warning| warning.starts_with("disk full on s"));
        let waits = cluster.processes()?.iter().filter(|process| waits_for_room(process)).count();
        let is_full = since.elapsed() >= STILL && is_warned && waits > 0;
        let standing = || format!("{now:?} written, {waits} servers wait for room, warnings: {warnings:?}");
        Ok(if is_full { Ok(()) } else { Err(standing()) })
    })
}

// D3, J5
#[test]
fn writes_go_on_each_time_that_a_full_disk_has_room_again() -> Result<(), Failure> {
    test(|| {
        let disks: Vec<SmallDisk> =
            (0..SERVERS).map(|_| SmallDisk::mount(DISK_BYTES)).collect::<Result<_, _>>()?;
        let options = Options {
            servers: SERVERS,
            memory_bytes: 1 << 30,
            disk_bytes: DISK_BYTES - (32 << 20),
            ..Options::default()
        };
        let mut cluster = Cluster::prepare(options);
        for (index, disk) in disks.iter().enumerate() {
            std::os::unix::fs::symlink(disk.path(), cluster.data_dir(index + 1)).expect("a link can be made");
        }
        cluster.start_all();
        cluster.wait_up(SERVERS)?;
        let load = Load::start(&cluster, "load", REPLICAS, SEED)?;
        load.wait_acknowledged(200)?;
        let filler = Filler::start(&cluster)?;
        disks.iter().try_for_each(|disk| disk.leave_free(0))?;

        let mut longest = Duration::ZERO;
        for round in 1..=ROUNDS {
            filler.fill(true);
            wait_full(&cluster, &load, &filler).map_err(|failure| told(&cluster, round, &failure))?;
            filler.fill(false);
            if round == 1 {
                expect_told(&cluster)?;
            }
            disks.iter().try_for_each(|disk| disk.leave_free(ROOM_BYTES))?;
            let began = Instant::now();
            load.wait_begun(GO_ON_WITHIN).map_err(|failure| told(&cluster, round, &failure))?;
            longest = longest.max(began.elapsed());
        }
        println!("{ROUNDS} rounds; writes went on after {:.2} s at most", longest.as_secs_f64());

        disks.iter().try_for_each(|disk| disk.leave_free(DISK_BYTES))?;
        wait_for("no warning any more", PATIENCE, || {
            let warnings = cluster.status()?.warnings;
            let is_over = !warnings.iter().any(|warning| warning.starts_with("disk full"));
            Ok(if is_over { Ok(()) } else { Err(format!("{warnings:?}")) })
        })?;
        cluster.kill(1);
        cluster.wait_up(SERVERS - 1)?;
        cluster.start_member(1);
        cluster.wait_up(SERVERS)?;
        load.wait_acknowledged(200)?;
        let table = load.table();
        let journal = load.stop()?;
        assert_eq!(journal.violations, Vec::<String>::new());
        let findings = journal.compare(&cluster, table)?;
        assert!(findings.is_empty(), "{findings:?}");
        println!("{} objects of the filler are there", filler.end()?);
        assert!(cluster.status()?.losses.is_empty());
        Ok(())
    })
}

fn told(cluster: &Cluster, round: u32, failure: &Failure) -> Failure {
    Failure(format!("round {round}: {failure}\n{}", cluster.logs()))
}

/// Checks that some server says so itself, over HTTP and in its log.
fn expect_told(cluster: &Cluster) -> Result<(), Failure> {
    let mut full = 0;
    for member in 1..=SERVERS {
        let admin = cluster.admin_address(member)?;
        let (status, health) = get(admin, "/health")?;
        assert_eq!(status, 200, "{health}");
        let (_, page) = get(admin, "/metrics")?;
        let is_full = health.starts_with("serving, degraded: disk full: ");
        assert_eq!(page.contains("\nramhold_backup_disk_full 1\n"), is_full, "{health}");
        assert_eq!(page.contains("\nramhold_degraded 1\n"), is_full, "{health}");
        full += usize::from(is_full);
        let log = cluster.process(member).printed();
        assert!(log.matches("disk full: ").count() <= 1, "it is told once:\n{log}");
        assert!(!log.contains("device has failed"), "{log}");
    }
    assert!(full > 0, "nobody is full");
    Ok(())
}

// D3
#[test]
fn a_server_starts_on_a_full_disk_only_if_it_holds_something() -> Result<(), Failure> {
    test(|| {
        let disk = SmallDisk::mount(300 << 20)?;
        let options = Options { servers: 1, disk_bytes: 256 << 20, ..Options::default() };
        let mut cluster = Cluster::prepare(options);
        std::os::unix::fs::symlink(disk.path(), cluster.data_dir(1)).expect("a link can be made");
        cluster.start_member(COORDINATOR);
        disk.leave_free(40 << 20)?;
        let log = cluster.scratch.dir().join("logs").join("refused.log");
        let refused = Process::start("refused", &cluster.arguments(1), &log);
        assert_eq!(refused.wait_ended(PATIENCE)?.code(), Some(2), "{}", refused.printed());
        let text = refused.printed();
        let says = ["40.0 MiB free", "needs 48.0 MiB", "another --dir"];
        assert!(says.iter().all(|part| text.contains(part)), "{text}");

        disk.leave_free(280 << 20)?;
        cluster.start_member(1);
        cluster.wait_up(1)?;
        wait_for("its first frames", PATIENCE, || {
            let seen = cluster.processes()?;
            let mut frames = seen.iter().filter_map(|process| Some(process.backup.as_ref()?.frames));
            Ok(if frames.any(|count| count > 0) { Ok(()) } else { Err("none".into()) })
        })?;
        cluster.kill(1);
        disk.leave_free(0)?;
        cluster.start_member(1);
        wait_for("a server that serves", PATIENCE, || {
            let text = cluster.process(1).printed();
            let is_there = text.contains("has room for now") && text.contains("serving as");
            Ok(if is_there { Ok(()) } else { Err(text) })
        })
    })
}

// D3, G1
#[test]
fn a_coordinator_whose_store_finds_no_room_waits_and_goes_on() -> Result<(), Failure> {
    test(|| {
        let disk = SmallDisk::mount(24 << 20)?;
        let mut cluster = Cluster::prepare(Options { servers: 3, ..Options::default() });
        std::os::unix::fs::symlink(disk.path(), cluster.data_dir(COORDINATOR)).expect("a link can be made");
        disk.leave_free(1 << 20)?;
        let log = cluster.scratch.dir().join("logs").join("refused.log");
        let refused = Process::start("refused", &cluster.arguments(COORDINATOR), &log);
        assert!(!refused.wait_ended(PATIENCE)?.success());
        assert!(refused.printed().contains("finds no room: "), "{}", refused.printed());

        disk.leave_free(20 << 20)?;
        cluster.start_all();
        cluster.wait_up(3)?;
        let options = TableOptions {
            durability: Durability::Buffered,
            replicas: 2,
            tablets: 6,
            slots: false,
            zone: None,
            quorum: None,
        };
        let mut client = cluster.client(PATIENCE)?;
        let table = client.create_table("before", options.clone())?;
        client.put(table, b"key", b"1")?;
        cluster.kill(COORDINATOR);
        // A copy has no space reserved behind its end.
        let store = disk.path().join("store").join("store");
        let bytes = std::fs::read(&store).expect("it can be read");
        std::fs::remove_file(&store).expect("it can be removed");
        std::fs::write(&store, bytes).expect("it can be written");
        disk.leave_free(0)?;
        cluster.start_member(COORDINATOR);
        wait_for("the store finds no room", PATIENCE, || {
            let log = cluster.process(COORDINATOR).printed();
            Ok(if log.contains("the store has no room: 0 of ") { Ok(()) } else { Err(log) })
        })?;
        client.put(table, b"key", b"2")?;
        assert!(cluster.take_ended().is_empty(), "it waits, and the servers do without it");

        disk.leave_free(8 << 20)?;
        let admin = cluster.admin_address(COORDINATOR)?;
        wait_for("the store has room", GO_ON_WITHIN, || {
            let (_, health) = get(admin, "/health")?;
            Ok(if health.starts_with("serving\n") { Ok(()) } else { Err(health) })
        })?;
        cluster.wait_up(3)?;
        cluster.client(PATIENCE)?.create_table("afterwards", options)?;
        assert_eq!(client.get(table, b"key")?.map(|object| object.value), Some(b"2".to_vec()));
        Ok(())
    })
}
