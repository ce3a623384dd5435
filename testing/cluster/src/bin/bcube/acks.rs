//! The write path, from outside: a write is answered after the acknowledgements of all its backups, and no device is on
//! the way.
//!
//! All packets of one server are captured, and each of many writes, one after the other, is looked up in them. This is
//! done twice. The second time the file system of all servers is frozen: no write and no sync on it comes to an end.
//!
//! Source: RAMCUBE 4, Fig. 4.

use crate::at_one::{self, OPTIONS};
use crate::capture::{Capture, Captured, Seen};
use crate::{LEVELS, P, SERVERS, TOPOLOGY};
use ramhold_base::{ServerId, Status};
use ramhold_client::{Client, Durability, Operation, RejectRules, TableId};
use ramhold_cluster_tests::{Cluster, Failure, LoopDisk, Network, Options};
use ramhold_wire::data::{AppendReply, AppendRequest, WriteRequest};
use ramhold_wire::topology::Topology;
use ramhold_wire::{Kind, Opcode};
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

const WRITES: usize = 1_000;
const REPLICAS: u8 = 3;
const VALUE_BYTES: usize = 100;
const DEVICE_BYTES: u64 = 16 << 30;
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a write to a synced table is waited for while devices stand still.
const CONTROL: Duration = Duration::from_millis(500);
const SYNCS: usize = 100;

pub fn measure() -> Result<bool, Failure> {
    let disk = LoopDisk::mount(DEVICE_BYTES)?;
    let cluster = start_on(&disk)?;
    let mut client = cluster.client(PATIENCE)?;
    let table = at_one::table(&mut client, "data", (Durability::Buffered, REPLICAS, 0))?;
    let keys = at_one::keys(&mut client, "data", P, 2 * WRITES + 1)?;
    let synced = at_one::table(&mut client, "synced", (Durability::Synced, REPLICAS, SERVERS as u32))?;
    let control = at_one::keys(&mut client, "synced", P, 1)?;
    client.put(table, &keys[2 * WRITES], &value(0))?;
    client.put(synced, &control[0], &value(0))?;
    cluster.wait_replicated(0)?;

    println!(
        "acks      {WRITES} writes of {VALUE_BYTES} B to one of {SERVERS} servers in {TOPOLOGY}, one after the other, R = {REPLICAS}"
    );
    let mut wrong = Vec::new();
    let free = traced(&cluster, &mut client, table, &keys[..WRITES])?;
    let free = judge("devices free", &free, &mut wrong);
    println!("acks      a synced write of 4 KiB on that device alone   {}", sync_time(&disk)?);

    let before = disk.sectors_written()?;
    let frozen = disk.freeze()?;
    let at_freeze = disk.sectors_written()?;
    let held = traced(&cluster, &mut client, table, &keys[WRITES..2 * WRITES])?;
    // With a device on the way the same answer does not come.
    client.submit_within(write(synced, &control[0], 1), PATIENCE);
    let early = client.wait_any_within(CONTROL).is_some();
    let written = disk.sectors_written()? - at_freeze;
    let thawed = Instant::now();
    drop(frozen);
    let late = client.wait_any().is_some_and(|(_, outcome)| ramhold_client::Error::check(outcome).is_ok());
    let after = thawed.elapsed();
    let held = judge("devices frozen", &held, &mut wrong);
    println!(
        "acks      sectors written while frozen                   {written} ({} to freeze)",
        at_freeze - before
    );
    println!(
        "acks      control: a write to a synced table             {}, {} ms after the thaw",
        if early { "answered while frozen" } else { "no answer while frozen" },
        after.as_millis()
    );
    let backups: BTreeSet<ServerId> = free.union(&held).copied().collect();
    let near = at_one::near(&cluster)?;
    println!(
        "acks      backups that acknowledged                      {}, of 9 servers two hops away",
        backups.difference(&near).count()
    );
    let crossed = cluster.network().map_or(Ok(0), Network::counted)?;
    for (holds, what) in [
        (written == 0, "the device was written to while it was frozen"),
        (!early && late, "the control does not show that devices stood still"),
        (backups.is_disjoint(&near), "a backup is not in a ring of the primary"),
        (crossed == 0, "servers talk over the coordinator's network"),
    ] {
        if !holds {
            wrong.push(what.to_owned());
        }
    }
    wrong.iter().for_each(|wrong| println!("WRONG: {wrong}"));
    Ok(wrong.is_empty())
}

/// A cluster whose servers all have their directories on this device.
fn start_on(disk: &LoopDisk) -> Result<Cluster, Failure> {
    let topology: Topology = TOPOLOGY.parse().map_err(Failure)?;
    let network = Network::create_cube(&topology, None)?;
    network.count_among_servers()?;
    let cluster = Cluster::prepare_in(network, Options { disk_bytes: 768 << 20, ..OPTIONS });
    for server in 1..=SERVERS {
        let dir = disk.path().join(format!("server-{server}"));
        std::fs::create_dir(&dir)
            .and_then(|()| symlink(&dir, cluster.data_dir(server)))
            .map_err(|error| Failure(format!("{}: {error}", dir.display())))?;
    }
    cluster.started()
}

fn value(number: usize) -> Vec<u8> {
    format!("{number:0VALUE_BYTES$}").into_bytes()
}

fn write(table: TableId, key: &[u8], number: usize) -> Operation {
    let (key, value) = (key.to_vec(), value(number));
    Operation::Write { table, key, value, rules: RejectRules::default(), expiry: None }
}

/// Writes these keys, one after the other, and returns what the primary sent and received meanwhile.
fn traced(
    cluster: &Cluster,
    client: &mut Client,
    table: TableId,
    keys: &[Vec<u8>],
) -> Result<Captured, Failure> {
    let network = cluster.network().ok_or_else(|| Failure("there is no network".into()))?;
    let capture = Capture::start(network, P, LEVELS)?;
    for (number, key) in keys.iter().enumerate() {
        client.put(table, key, &value(number))?;
    }
    capture.stop()
}

/// One write as the packets tell it, in nanoseconds.
struct Told {
    backups: BTreeSet<ServerId>,
    /// From the request's last packet to the answer's first one.
    time: u64,
    /// From the last acknowledgement that the answer had to wait for to the answer.
    idle: u64,
}

/// Prints what was seen of a run, and returns the backups that acknowledged something.
fn judge(what: &str, captured: &Captured, wrong: &mut Vec<String>) -> BTreeSet<ServerId> {
    let requests =
        captured.frames.iter().enumerate().filter(|(_, seen)| is(seen, Opcode::Write, Kind::Request));
    let told: Vec<Result<Told, String>> =
        requests.map(|(at, request)| look_up(request, &captured.frames[at..])).collect();
    let good: Vec<&Told> = told.iter().flatten().collect();
    let exact = good.iter().filter(|told| told.backups.len() == usize::from(REPLICAS)).count();
    let sorted = |of: fn(&Told) -> u64| {
        let mut nanos: Vec<u64> = good.iter().map(|told| of(told)).collect();
        nanos.sort_unstable();
        let at = |share: usize| nanos.get(nanos.len() * share / 100).map_or(0, |nanos| nanos / 1000);
        (at(50), at(99), nanos.last().map_or(0, |nanos| nanos / 1000))
    };
    let ((median, high, most), (idle, ..)) = (sorted(|told| told.time), sorted(|told| told.idle));
    println!(
        "acks      {what:<14}  answered after {REPLICAS} acks of {REPLICAS} backups  {exact} of {} (asked: {WRITES}), {} packets missing",
        told.len(),
        captured.missing
    );
    println!(
        "acks      {what:<14}  request to answer at the primary  p50 {median} us, p99 {high} us, most {most} us; last ack to answer p50 {idle} us"
    );
    if exact != WRITES || told.len() != WRITES {
        let first = told.into_iter().find_map(Result::err).unwrap_or_default();
        wrong.push(format!("{what}: not every write was answered after all acknowledgements {first}"));
        return BTreeSet::new();
    }
    good.iter().flat_map(|told| told.backups.iter().copied()).collect()
}

fn is(seen: &Seen, opcode: Opcode, kind: Kind) -> bool {
    seen.header.opcode() == Some(opcode) && seen.header.kind == kind
}

/// Follows one write through the frames from its request on.
fn look_up(request: &Seen, behind: &[Seen]) -> Result<Told, String> {
    let wanted = WriteRequest::decode(&request.body).map_err(|status| status.to_string())?;
    let is_answer = |seen: &&Seen| {
        is(seen, Opcode::Write, Kind::Reply)
            && seen.to == request.from
            && seen.header.rpc == request.header.rpc
    };
    let answer = behind.iter().find(is_answer).ok_or("a write has no answer")?;
    if answer.header.status() != Status::Ok {
        return Err(format!("a write was answered with {}", answer.header.status()));
    }
    let (mut backups, mut last) = (BTreeSet::new(), request.ended);
    let mut asked = 0;
    // Writes follow one another, so whatever has this value belongs to it.
    for append in behind.iter().filter(|seen| is(seen, Opcode::Append, Kind::Request)) {
        let Ok(sent) = AppendRequest::decode(&append.body) else { continue };
        let has_value = sent.data.windows(VALUE_BYTES).any(|bytes| bytes == wanted.value);
        let has_key = sent.data.windows(wanted.key.len()).any(|bytes| bytes == wanted.key);
        if !has_value || !has_key {
            if append.begun > answer.ended {
                break;
            }
            continue;
        }
        asked += 1;
        let end = sent.offset + sent.data.len() as u32;
        let is_ack = |seen: &&Seen| {
            is(seen, Opcode::Append, Kind::Reply)
                && (seen.header.rpc, seen.header.sender) == (append.header.rpc, append.header.target)
                && seen.header.status() == Status::Ok
                && AppendReply::decode(&seen.body).is_ok_and(|reply| reply.certified >= end)
        };
        let ack = behind.iter().find(is_ack).ok_or("an append is not acknowledged")?;
        if append.begun < request.ended {
            return Err("an append left before its write came".into());
        }
        if ack.ended >= answer.begun {
            return Err("a write was answered before an acknowledgement".into());
        }
        backups.insert(ack.header.sender);
        last = last.max(ack.ended);
    }
    if asked != backups.len() {
        return Err(format!("{asked} appends for {} backups", backups.len()));
    }
    let time = answer.begun.nanos.saturating_sub(request.ended.nanos);
    Ok(Told { backups, time, idle: answer.begun.nanos.saturating_sub(last.nanos) })
}

/// How long the device takes for what a write would wait for.
fn sync_time(disk: &LoopDisk) -> Result<String, Failure> {
    let path = disk.path().join("probe");
    let about = |error: std::io::Error| Failure(format!("{}: {error}", path.display()));
    let file = std::fs::File::create(&path).map_err(about)?;
    let mut micros = Vec::new();
    for number in 0..SYNCS {
        let began = Instant::now();
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; 4096], number as u64 * 4096).map_err(about)?;
        file.sync_data().map_err(about)?;
        micros.push(began.elapsed().as_micros());
    }
    micros.sort_unstable();
    Ok(format!("p50 {} us, p99 {} us", micros[SYNCS / 2], micros[SYNCS * 99 / 100]))
}
