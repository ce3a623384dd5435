//! The cost of a read and of a write in a shard: frame in, frame out, no sockets, R = 0.
//!
//! `cargo xtask bench shard [--objects N] [--value-bytes N]`. Keys are random, so that every look-up misses
//! the caches as in production. The program prints nanoseconds of this thread's CPU time per operation, as
//! the median of five runs.

use ramhold_base::hash::PlacementSeed;
use ramhold_base::processor;
use ramhold_base::{
    ClusterId, ConnId, Effect, Effects, Instant, KeyHash, LeaseId, Peer, Rng, RpcId, Sequence, ServerId,
    TableId, Term, Version,
};
use ramhold_log::Geometry;
use ramhold_master::{Master, MasterConfig};
use ramhold_wire::data::{KeyRequest, RejectRules, WriteRequest};
use ramhold_wire::lease::{LeasesChecked, LiveLease};
use ramhold_wire::membership::Durability;
use ramhold_wire::multi::{encode_item, encode_multi};
use ramhold_wire::table::TabletTake;
use ramhold_wire::{Header, Kind, Opcode, View, control, frame};

const TABLE: TableId = TableId(1);
const RUNS: usize = 5;
const CONN: ConnId = ConnId(1);
/// Reads in one frame.
const TOGETHER: usize = 70;

struct Shard {
    master: Master,
    view: View,
    effects: Effects,
    now: Instant,
    sequence: u64,
    bytes: Vec<u8>,
}

impl Shard {
    fn new(log_bytes: u64) -> Shard {
        let geometry = Geometry { segment_bytes: 8 << 20, seglet_bytes: 64 << 10 };
        let plain = MasterConfig::new(geometry, log_bytes, log_bytes / 4);
        // No process is there to grant a read lease.
        let config = MasterConfig { read_lease: None, ..plain };
        let mut view = View::new("127.0.0.1:1".parse().expect("an address"));
        (view.cluster, view.me, view.term) = (ClusterId(1), ServerId(1), Term(1));
        let region = vec![0; config.log_bytes as usize];
        let master = Master::new(config, region, &view, Version(1 << 40), 1);
        let mut shard =
            Shard { master, view, effects: Effects::new(), now: Instant(1), sequence: 0, bytes: Vec::new() };
        shard.take_tablet();
        shard.confirm_lease();
        shard
    }

    /// On the first mutation the shard asks whether the client's lease is alive. The answer says that it is,
    /// for longer than this program runs.
    fn confirm_lease(&mut self) {
        self.send(Opcode::Write, |out| write_body(out, b"first", b""));
        let asked = self.effects.list.iter().find_map(|effect| match effect {
            Effect::Send { to: Peer::Addr(_), frame } => {
                frame::parse(&frame.of(&self.effects.bytes)).ok().map(|(header, _)| header)
            }
            _ => None,
        });
        let asked = asked.expect("the shard asks the coordinator");
        let live = LiveLease { lease: LeaseId(1), millis: 365 * 24 * 3_600_000 };
        let mut body = Vec::new();
        control::encode_into(&mut body, &LeasesChecked { live: vec![live], never: vec![] });
        let answer = asked.answer(ramhold_base::Status::Ok);
        self.master.on_reply(self.now, &answer, &body, &self.view, &mut self.effects);
    }

    /// Gives the shard a tablet, and answers its requests to the coordinator.
    fn take_tablet(&mut self) {
        let take = TabletTake {
            table: TABLE,
            seed: PlacementSeed(7),
            first: KeyHash(0),
            last: KeyHash(u64::MAX),
            durability: Durability::None,
            replicas: 0,
            version_floor: Version(0),
            slots: false,
        };
        let mut body = Vec::new();
        control::encode_into(&mut body, &take);
        let header = Header { target: ServerId(1), ..Header::request(Opcode::TabletTake, RpcId(1)) };
        self.master.on_request(
            self.now,
            Opcode::TabletTake.try_into().expect("an operation of masters"),
            &header,
            &body,
            CONN,
            &self.view,
            &mut self.effects,
        );
        let sent = std::mem::take(&mut self.effects);
        for effect in &sent.list {
            if let ramhold_base::Effect::Send { frame, .. } = effect
                && let Ok((header, _)) = frame::parse(&frame.of(&sent.bytes))
                && header.kind == Kind::Request
            {
                let answer = Header { cluster: self.view.cluster, ..header.answer(ramhold_base::Status::Ok) };
                self.master.on_replication_reply(self.now, &answer, &[], &self.view);
                self.master.turn_over(self.now, &self.view, &mut self.effects);
            }
        }
        self.effects.clear();
    }

    /// One request frame through parsing and the master.
    fn send(&mut self, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) {
        self.sequence += 1;
        let header = Header {
            cluster: self.view.cluster,
            target: self.view.me,
            lease: LeaseId(1),
            sequence: Sequence(self.sequence),
            unacknowledged: Sequence(self.sequence),
            ..Header::request(opcode, RpcId(self.sequence))
        };
        self.bytes.clear();
        frame::write(&mut self.bytes, &header, body);
        let (header, body) = frame::parse(&self.bytes).expect("just written");
        self.effects.clear();
        self.master.on_request(
            self.now,
            opcode.try_into().expect("an operation of masters"),
            &header,
            body,
            CONN,
            &self.view,
            &mut self.effects,
        );
        // Each request is a turn of its own, as it is for a client that asks one thing at a time.
        if self.master.puts_off() {
            self.master.turn_over(self.now, &self.view, &mut self.effects);
        }
    }

    /// The frame that reads these keys.
    fn multi_read(&self, keys: &[String]) -> Vec<u8> {
        let header = Header {
            cluster: self.view.cluster,
            target: self.view.me,
            ..Header::request(Opcode::Multi, RpcId(1))
        };
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &header, |out| {
            encode_multi(keys.len(), out, |out| {
                for key in keys {
                    encode_item(Opcode::Read, false, Sequence::NONE, out, |out| {
                        let (table, rules) = (TABLE, RejectRules::default());
                        KeyRequest { table, rules, key: key.as_bytes() }.encode(out);
                    });
                }
            });
        });
        bytes
    }

    /// A frame with many requests, as a server treats it: it fetches the memory first. Panics unless it is answered.
    fn requests(&mut self, frame: &[u8]) {
        let (header, body) = frame::parse(frame).expect("written here");
        self.effects.clear();
        let mut wanted = self.master.wanted();
        wanted.request(Opcode::Multi, body);
        wanted.fetch();
        let request = Opcode::Multi.try_into().expect("an operation of masters");
        self.master.on_request(self.now, request, &header, body, CONN, &self.view, &mut self.effects);
        let answer = self.effects.list.iter().find_map(|effect| match effect {
            Effect::Send { frame, .. } => Some(frame.of(&self.effects.bytes)),
            _ => None,
        });
        assert!(answer.is_some_and(|answer| answer.len() > TOGETHER * 100), "every key is there");
    }

    /// One request; panics unless it is answered `Ok`.
    fn request(&mut self, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) {
        self.send(opcode, body);
        let answers =
            self.effects.list.iter().filter(|e| matches!(e, ramhold_base::Effect::Send { .. })).count();
        assert_eq!(answers, 1, "every request is answered at once when R = 0");
        assert_eq!(self.effects.bytes[10..12], [0, 0], "the answer is Ok");
    }
}

fn main() {
    let path = match processor::limit(std::env::var_os(processor::VARIABLE).as_deref()) {
        Ok(path) => path,
        Err(refused) => {
            eprintln!("shard: {refused}");
            std::process::exit(2);
        }
    };
    let mut objects = 1_000_000u64;
    let mut value_bytes = 100usize;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    for pair in arguments.chunks(2) {
        match pair {
            [flag, value] if flag == "--objects" => {
                objects = value.parse().expect("--objects takes a number")
            }
            [flag, value] if flag == "--value-bytes" => {
                value_bytes = value.parse().expect("--value-bytes takes a number");
            }
            _ => {
                println!("usage: shard [--objects N] [--value-bytes N]");
                std::process::exit(2);
            }
        }
    }
    let key = |i: u64| format!("key-{i:026}");
    let value = vec![7u8; value_bytes];
    let per_object = value_bytes as u64 + 30 + 22 + 60;
    // Room for the fill and for all overwrites with their tombstones, since nothing is cleaned yet.
    let log_bytes =
        (objects * per_object * 3 + RUNS as u64 * 300_000 * per_object + (64 << 20)) / (1 << 20) * (1 << 20);
    let mut shard = Shard::new(log_bytes);
    let mut rng = Rng::new(1);
    println!(
        "{objects} objects, keys of 30 B, values of {value_bytes} B, one shard, R = 0, no sockets; processor path {path}"
    );
    let fill = measure(objects, |i| {
        let key = key(i);
        shard.request(Opcode::Write, |out| write_body(out, key.as_bytes(), &value));
    });
    println!("fill (first touch of memory)   {fill:7.0} ns");
    let rounds = 300_000.min(objects);
    let keys: Vec<String> = (0..rounds).map(|_| key(rng.below(objects))).collect();
    let frame_only = median(|| {
        measure(rounds, |i| {
            let request =
                KeyRequest { table: TABLE, rules: RejectRules::default(), key: keys[i as usize].as_bytes() };
            shard.bytes.clear();
            frame::write(&mut shard.bytes, &Header::request(Opcode::Read, RpcId(i)), |out| {
                request.encode(out)
            });
            std::hint::black_box(&shard.bytes);
        })
    });
    let reads = median(|| {
        measure(rounds, |i| {
            let key = keys[i as usize].as_bytes();
            shard.request(Opcode::Read, |out| {
                KeyRequest { table: TABLE, rules: RejectRules::default(), key }.encode(out);
            });
        })
    });
    let writes = median(|| {
        measure(rounds, |i| {
            let key = keys[i as usize].as_bytes();
            shard.request(Opcode::Write, |out| write_body(out, key, &value));
        })
    });
    println!("making the request's frame     {frame_only:7.0} ns (the client's share, taken off below)");
    println!("read, random key               {:7.0} ns", reads - frame_only);
    println!("overwrite, random key          {:7.0} ns", writes - frame_only);
    let frames: Vec<Vec<u8>> = keys.chunks_exact(TOGETHER).map(|keys| shard.multi_read(keys)).collect();
    let together =
        median(|| measure(frames.len() as u64, |i| shard.requests(&frames[i as usize])) / TOGETHER as f64);
    println!("{TOGETHER} reads in one frame, each    {together:7.0} ns");
    let usage = shard.master.log().usage();
    println!(
        "index                          {:7.2} B per object",
        usage.index_bytes as f64 / usage.index_entry_count as f64
    );
}

fn write_body(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    WriteRequest { table: TABLE, rules: RejectRules::default(), expiry: None, key, value }.encode(out);
}

/// Nanoseconds of this thread's CPU time per call.
fn measure(count: u64, mut call: impl FnMut(u64)) -> f64 {
    let started = cpu_nanos();
    for i in 0..count {
        call(i);
    }
    (cpu_nanos() - started) as f64 / count as f64
}

fn median(mut run: impl FnMut() -> f64) -> f64 {
    let mut figures: Vec<f64> = (0..RUNS).map(|_| run()).collect();
    figures.sort_by(f64::total_cmp);
    figures[RUNS / 2]
}

/// CPU time of this thread, from the kernel's own account.
fn cpu_nanos() -> u64 {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux keeps an account of threads");
    text.split_whitespace().next().and_then(|n| n.parse().ok()).expect("its first number is CPU time")
}
