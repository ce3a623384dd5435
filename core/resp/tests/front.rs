//! The front over a host that answers when the test says so: order, limits, transactions (J1, Z1, Z6, Z9).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use ramhold_base::hash::PlacementSeed;
use ramhold_base::map::FastMap;
use ramhold_base::*;
use ramhold_resp::{Host, Resp, RespConfig};
use ramhold_wire::commit::{CommitAction, CommitRequest};
use ramhold_wire::control::{Address, encode_into};
use ramhold_wire::data::{IncrementReply, ReadReply, encode_version};
use ramhold_wire::local::{LocalAnswers, LocalRequest};
use ramhold_wire::membership::Durability;
use ramhold_wire::scan::{ScanHead, encode_object_head};
use ramhold_wire::status::ProcessStatus;
use ramhold_wire::table::{TableDescription, TableOptions, TabletDescription, TabletState};
use ramhold_wire::{Header, Opcode, frame};
use std::collections::BTreeMap;
use std::net::SocketAddr;

const COORDINATOR: &str = "10.0.0.250:1";

/// Objects of this process; answers wait while `delays`.
#[derive(Default)]
struct Shelf {
    objects: BTreeMap<Vec<u8>, (Version, Vec<u8>)>,
    version: u64,
    delays: bool,
    ready: LocalAnswers,
    waiting: Vec<(u64, Status, Vec<u8>)>,
    asked: Vec<String>,
    has_losses: bool,
}

impl Shelf {
    fn write(&mut self, key: &[u8], value: &[u8]) -> Version {
        self.version += 1;
        self.objects.insert(key.to_vec(), (Version(self.version), value.to_vec()));
        Version(self.version)
    }

    fn say(&mut self, ticket: u64, status: Status, body: Vec<u8>) {
        if self.delays {
            self.waiting.push((ticket, status, body));
        } else {
            self.ready.push(ticket, status, |out| out.extend_from_slice(&body));
        }
    }

    fn commit(&mut self, commit: &CommitRequest<'_>) -> Status {
        let names: Vec<_> = commit.items().iter().map(|item| String::from_utf8_lossy(item.key)).collect();
        self.asked.push(format!("commit {}", names.join(" ")));
        for item in commit.items() {
            let current = self.objects.get(item.key).map(|(version, _)| *version);
            if let Err(status) = item.rules.check(current) {
                return status;
            }
        }
        for item in commit.items() {
            match item.action {
                CommitAction::Check => {}
                CommitAction::Remove => drop(self.objects.remove(item.key)),
                CommitAction::Write { value, .. } => drop(self.write(item.key, value)),
            }
        }
        Status::Ok
    }

    fn release(&mut self) {
        for (ticket, status, body) in std::mem::take(&mut self.waiting) {
            self.ready.push(ticket, status, |out| out.extend_from_slice(&body));
        }
    }
}

impl Host for Shelf {
    fn treat(&mut self, _now: Instant, request: &LocalRequest<'_>, ticket: u64, _effects: &mut Effects) {
        let mut body = Vec::new();
        if let LocalRequest::Commit(commit) = request {
            let status = self.commit(commit);
            encode_version(&mut body, Version(self.version));
            return self.say(ticket, status, body);
        }
        let (key, rules, name) = match request {
            LocalRequest::Read(read) => (read.key, read.rules, "read"),
            LocalRequest::Remove(remove) => (remove.key, remove.rules, "remove"),
            LocalRequest::Write(write) => (write.key, write.rules, "write"),
            LocalRequest::Increment(increment) => (increment.key, increment.rules, "increment"),
            LocalRequest::Commit(_) => unreachable!(),
        };
        self.asked.push(format!("{name} {}", String::from_utf8_lossy(key)));
        let found = self.objects.get(key).cloned();
        let status = match rules.check(found.as_ref().map(|(version, _)| *version)) {
            Err(status) => {
                encode_version(&mut body, Version::NONE);
                status
            }
            Ok(()) => match (request, found) {
                (LocalRequest::Read(_), None) => Status::NotFound,
                (LocalRequest::Read(_), Some((version, value))) => {
                    ReadReply::encode_head(&mut body, version, 0, None);
                    body.extend_from_slice(&value);
                    Status::Ok
                }
                (LocalRequest::Write(write), _) => {
                    encode_version(&mut body, self.write(key, write.value));
                    Status::Ok
                }
                (LocalRequest::Remove(_), found) => {
                    self.objects.remove(key);
                    encode_version(&mut body, found.map_or(Version::NONE, |(version, _)| version));
                    Status::Ok
                }
                (LocalRequest::Commit(_), _) => unreachable!(),
                (LocalRequest::Increment(by), found) => {
                    let old = by.by.parse_alike(&found.map_or(b"0".to_vec(), |(_, value)| value)).unwrap();
                    let sum = old.sum(by.by).unwrap();
                    let version = self.write(key, sum.to_string().as_bytes());
                    IncrementReply { version, bits: sum.bits() }.encode(&mut body);
                    Status::Ok
                }
            },
        };
        self.say(ticket, status, body);
    }

    fn finish(&mut self, _now: Instant, _bytes: u64, _effects: &mut Effects) {}

    fn swap_answers(&mut self, answers: &mut LocalAnswers) {
        std::mem::swap(&mut self.ready, answers);
    }

    fn time(&self, now: Instant) -> u64 {
        1_700_000_000_000 + now.0 / 1_000_000
    }

    fn status(&self, _now: Instant) -> ProcessStatus {
        ProcessStatus::default()
    }

    fn objects_by_table(&self) -> FastMap<TableId, Option<u64>> {
        let count = (!self.has_losses).then_some(self.objects.len() as u64);
        FastMap::from_iter([(TableId(3), count), (TableId(4), Some(5))])
    }

    fn me(&self) -> ServerId {
        ServerId(1)
    }

    fn cluster(&self) -> u64 {
        7
    }

    fn servers(&self) -> Vec<(ServerId, SocketAddr)> {
        vec![(ServerId(1), "10.0.0.1:1".parse().unwrap())]
    }

    fn to_server(&self, server: ServerId) -> Header {
        Header { cluster: ClusterId(7), sender: ServerId(1), target: server, ..Header::default() }
    }
}

struct Rig {
    resp: Resp,
    shelf: Shelf,
    now: Instant,
    /// What each connection has not been heard of yet.
    inputs: BTreeMap<ConnId, Vec<u8>>,
    outputs: BTreeMap<ConnId, Vec<u8>>,
    closed: Vec<ConnId>,
    held: Vec<ConnId>,
}

const A: ConnId = ConnId(1);
const B: ConnId = ConnId(2);

impl Rig {
    fn new() -> Rig {
        Rig::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut RespConfig)) -> Rig {
        let mut config = RespConfig::new(COORDINATOR.parse().unwrap());
        change(&mut config);
        Rig {
            resp: Resp::new(config, 5),
            shelf: Shelf::default(),
            now: Instant(1),
            inputs: BTreeMap::new(),
            outputs: BTreeMap::new(),
            closed: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Bytes come over a connection.
    fn feed(&mut self, conn: ConnId, bytes: &[u8]) {
        self.inputs.entry(conn).or_default().extend_from_slice(bytes);
        self.hear(conn);
    }

    fn hear(&mut self, conn: ConnId) {
        loop {
            let bytes = self.inputs.get(&conn).cloned().unwrap_or_default();
            if bytes.is_empty() || self.closed.contains(&conn) {
                return;
            }
            let mut effects = Effects::new();
            self.resp.on_bytes(self.now, conn, &bytes, &mut self.shelf, &mut effects);
            let taken = effects.taken;
            self.inputs.insert(conn, bytes[taken.bytes..].to_vec());
            if taken.rest == Rest::Held {
                self.held.push(conn);
            }
            self.execute(effects);
            if taken.rest != Rest::More {
                return;
            }
        }
    }

    fn execute(&mut self, effects: Effects) {
        let mut again = Vec::new();
        for effect in &effects.list {
            match effect {
                Effect::Send { to: Peer::Conn(conn), frame } => {
                    let bytes = &effects.bytes[frame.clone()];
                    self.outputs.entry(*conn).or_default().extend_from_slice(bytes);
                }
                Effect::Send { to: Peer::Addr(_), frame } => {
                    let (header, _) = frame::parse(&effects.bytes[frame.clone()]).unwrap();
                    self.answer(&header);
                }
                Effect::Hear { conn } => again.push(*conn),
                Effect::Close { conn } => self.closed.push(*conn),
                _ => {}
            }
        }
        for conn in again {
            if let Some(at) = self.held.iter().position(|held| *held == conn) {
                self.held.remove(at);
                self.hear(conn);
            }
        }
    }

    /// What the session asks the coordinator.
    fn answer(&mut self, header: &Header) {
        match header.opcode() {
            // Objects were lost: nobody knows how many there are, and a page shows those that are left.
            Some(Opcode::Count) => {
                return self.answer_with(header, Status::Corrupt, |out| encode_version(out, Version::NONE));
            }
            Some(Opcode::Scan) => {
                let keys: Vec<Vec<u8>> = self.shelf.objects.keys().cloned().collect();
                return self.answer_with(header, Status::Ok, |out| {
                    ScanHead { last: KeyHash(u64::MAX), next: None }.encode(out);
                    for key in &keys {
                        encode_object_head(out, (Version(1), 0, None), key.len(), 0);
                        out.extend_from_slice(key);
                    }
                });
            }
            other => assert_eq!(other, Some(Opcode::TableDescribe), "objects are this process's own"),
        }
        let description = TableDescription {
            table: TableId(3),
            name: "db0".into(),
            options: TableOptions { durability: Durability::Buffered, replicas: 1, tablets: 1, slots: true },
            seed: PlacementSeed(1),
            tablets: vec![TabletDescription {
                first: KeyHash(0),
                last: KeyHash(u64::MAX),
                state: TabletState::Serving,
                owner: ServerId(1),
                shard: ShardId(0),
                address: Some(Address("10.0.0.1:1".parse().unwrap())),
                stream: StreamId(0),
                first_segment: SegmentId(0),
            }],
        };
        self.answer_with(header, Status::Ok, |out| encode_into(out, &description));
    }

    fn answer_with(&mut self, header: &Header, status: Status, body: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        let answer = Header { cluster: ClusterId(7), ..header.answer(status) };
        frame::write(&mut bytes, &answer, body);
        let mut effects = Effects::new();
        let input = Input::Frame { from: ConnId(99), bytes: &bytes };
        self.resp.on_session(self.now, input, &mut self.shelf, &mut effects);
        self.execute(effects);
    }

    fn release(&mut self) {
        self.shelf.release();
        let mut effects = Effects::new();
        self.resp.on_host(self.now, &mut self.shelf, &mut effects);
        self.execute(effects);
    }

    fn said(&mut self, conn: ConnId) -> String {
        String::from_utf8(std::mem::take(self.outputs.entry(conn).or_default())).unwrap()
    }

    /// Sends lines and gives what is answered at once.
    fn ask(&mut self, conn: ConnId, lines: &str) -> String {
        let lines = lines.replace('\n', "\r\n") + "\r\n";
        self.feed(conn, lines.as_bytes());
        self.said(conn)
    }
}

#[test]
fn replies_come_in_the_order_of_requests() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "set a 1"), "+OK\r\n");
    rig.shelf.delays = true;
    // The first waits for replication; what is there at once waits behind it.
    assert_eq!(rig.ask(A, "get a\nping\nget b\nincr n"), "");
    rig.release();
    assert_eq!(rig.said(A), "$1\r\n1\r\n+PONG\r\n$-1\r\n:1\r\n");
}

// J1: a later request for the same key sees what the earlier one did, whatever steps that takes.
#[test]
fn requests_for_a_key_have_their_effects_in_order() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    rig.shelf.asked.clear();
    assert_eq!(rig.ask(A, "append a 2\nget b\nget a\nappend a 3\nget a"), "");
    assert_eq!(rig.shelf.asked, ["read a", "read b"], "what concerns a waits; what does not has begun");
    let mut steps = 0;
    while rig.shelf.waiting.iter().len() > 0 {
        rig.release();
        steps += 1;
    }
    assert!(steps >= 5, "{steps}");
    assert_eq!(rig.said(A), ":2\r\n$-1\r\n$2\r\n12\r\n:3\r\n$3\r\n123\r\n");
}

// J1: MOVE and COPY concern a second database; what is asked there comes after them.
#[test]
fn a_request_in_another_database_waits_for_a_move_of_its_key() {
    let mut rig = Rig::new();
    rig.ask(A, "select 1\nget a\nselect 0\nset a 1");
    rig.shelf.delays = true;
    rig.shelf.asked.clear();
    assert_eq!(rig.ask(A, "move a 1\nselect 1\nset a 2"), "");
    assert_eq!(rig.shelf.asked, ["read a", "read a"], "in both databases, and nothing is written yet");
}

#[test]
fn what_was_changed_meanwhile_is_read_again() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    assert_eq!(rig.ask(A, "append a 2"), "");
    // Between its read and its write another client writes.
    rig.shelf.write(b"a", b"x");
    rig.release();
    rig.release();
    rig.release();
    rig.release();
    assert_eq!(rig.said(A), ":2\r\n");
    assert_eq!(rig.shelf.objects[&b"a"[..]].1, b"x2");
}

#[test]
fn transactions_run_together_or_not_at_all() {
    let mut rig = Rig::new();
    assert_eq!(
        rig.ask(A, "multi\nset a 1\nincr a\nget a\nexec"),
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n:2\r\n$1\r\n2\r\n"
    );
    assert_eq!(rig.shelf.objects[&b"a"[..]], (Version(1), b"2".to_vec()), "one write");
    // A watched key that somebody else has changed.
    assert_eq!(rig.ask(A, "watch a"), "+OK\r\n");
    rig.shelf.write(b"a", b"7");
    assert_eq!(rig.ask(A, "multi\nset a 9\nexec"), "+OK\r\n+QUEUED\r\n*-1\r\n");
    assert_eq!(rig.shelf.objects[&b"a"[..]].1, b"7");
    // And one that nobody has.
    assert_eq!(
        rig.ask(A, "watch a\nmulti\nincr a\nexec\nget a"),
        "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n:8\r\n$1\r\n8\r\n"
    );
    // What could not be queued makes all of it void.
    let aborted = rig.ask(A, "multi\nset a 1\nnosuch\nexec\nget a");
    assert!(aborted.contains("-EXECABORT") && aborted.ends_with("$1\r\n8\r\n"), "{aborted}");
    // An error of one leaves the others.
    assert_eq!(
        rig.ask(A, "set s x\nmulti\nincr s\nset s y\nexec").matches("-ERR value is not an integer").count(),
        1
    );
    assert_eq!(rig.shelf.objects[&b"s"[..]].1, b"y");
}

// J1: commands about the connection have their place in a transaction, and none if it has no effect.
#[test]
fn a_transaction_changes_its_connection_as_it_has_effect() {
    let mut rig = Rig::new();
    let queued = "+QUEUED\r\n".repeat(5);
    let want = format!("+OK\r\n{queued}*5\r\n+OK\r\n+OK\r\n$3\r\nbob\r\n$1\r\n1\r\n+OK\r\n");
    assert_eq!(rig.ask(A, "multi\nset a 1\nclient setname bob\nclient getname\nget a\nselect 2\nexec"), want);
    assert!(rig.ask(A, "client info").contains(" name=bob ") && rig.ask(A, "client info").contains(" db=2 "));
    rig.ask(A, "select 0\nwatch a");
    rig.shelf.write(b"a", b"7");
    assert!(rig.ask(A, "multi\nselect 3\nclient setname eve\nexec").ends_with("*-1\r\n"));
    let info = rig.ask(A, "client info");
    assert!(info.contains(" db=0 ") && info.contains(" name=bob "), "{info}");
}

// C11: a number that cannot be known is not made up.
#[test]
fn keys_are_counted_one_by_one_where_objects_were_lost() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "mset a 1 b 2 c 3\ndbsize"), "+OK\r\n:3\r\n");
}

#[test]
fn slow_commands_are_told_by_latency_and_slowlog() {
    let mut rig = Rig::new();
    let slow = |rig: &mut Rig, lines: &str, millis: u64| {
        rig.shelf.delays = true;
        rig.ask(A, lines);
        rig.now = rig.now + std::time::Duration::from_millis(millis);
        while !rig.shelf.waiting.is_empty() {
            rig.release();
        }
        rig.said(A);
        rig.shelf.delays = false;
    };
    rig.ask(A, "set a 1");
    slow(&mut rig, "get a", 2000);
    assert_eq!(rig.ask(A, "latency latest\nlatency history fast-command"), "*0\r\n*0\r\n");
    assert!(rig.ask(A, "slowlog get").contains(":1700000002\r\n:2000000\r\n"), "when and how long");
    assert_eq!(rig.ask(A, "config set latency-monitor-threshold 100"), "+OK\r\n");
    slow(&mut rig, "get a", 99);
    assert_eq!(rig.ask(A, "latency latest"), "*0\r\n");
    slow(&mut rig, "get a", 301);
    slow(&mut rig, "get a", 100);
    slow(&mut rig, "get a", 1000);
    let latest = "*1\r\n*4\r\n$12\r\nfast-command\r\n:1700000003\r\n:1000\r\n:1000\r\n";
    assert_eq!(rig.ask(A, "latency latest"), latest);
    let history = "*2\r\n*2\r\n:1700000002\r\n:301\r\n*2\r\n:1700000003\r\n:1000\r\n";
    assert_eq!(
        rig.ask(A, "latency history fast-command\nlatency history command"),
        format!("{history}*0\r\n")
    );
    assert!(rig.ask(A, "latency doctor").contains("at most 1000 ms"));
    assert_eq!(rig.ask(A, "latency reset nosuch\nlatency reset\nlatency latest"), ":0\r\n:1\r\n*0\r\n");
}

// J1: what is said of databases is what is here; what nobody knows is not said.
#[test]
fn info_tells_the_keys_of_databases() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "info keyspace"), "$12\r\n# Keyspace\r\n\r\n");
    rig.ask(A, "mset a 1 b 2");
    assert_eq!(rig.ask(A, "info keyspace"), "$24\r\n# Keyspace\r\ndb0:keys=2\r\n\r\n");
    rig.shelf.has_losses = true;
    assert_eq!(rig.ask(A, "info keyspace"), "$12\r\n# Keyspace\r\n\r\n");
}

#[test]
fn every_key_that_is_read_is_a_hit_or_a_miss() {
    let mut rig = Rig::new();
    let counts = |rig: &mut Rig| {
        let info = rig.ask(B, "info stats");
        let number = |name: &str| -> u64 {
            let line = info.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.parse().unwrap()
        };
        [number("keyspace_hits:"), number("keyspace_misses:")]
    };
    rig.ask(A, "mset a 1 b 2\nincr n");
    assert_eq!(counts(&mut rig), [0, 0]);
    for (lines, want) in [
        ("get a\nget x", [1, 1]),
        ("mget a b x", [2, 1]),
        ("exists a x", [1, 1]),
        ("strlen a\nttl x", [1, 1]),
        ("multi\nget a\nget x\nset a 2\nexec", [1, 1]),
    ] {
        rig.ask(A, lines);
        assert_eq!(counts(&mut rig), want, "{lines}");
        rig.shelf.delays = true;
        rig.ask(A, lines);
        while !rig.shelf.waiting.is_empty() {
            rig.release();
        }
        rig.said(A);
        rig.shelf.delays = false;
        assert_eq!(counts(&mut rig), [2 * want[0], 2 * want[1]], "{lines}, answered later");
        rig.ask(B, "config resetstat");
    }
}

#[test]
fn errors_come_as_far_as_redis_reads() {
    let mut rig = Rig::new();
    rig.ask(A, "client setname bob");
    assert!(
        rig.ask(A, "hello 3 setname eve nosuch").starts_with("-ERR Syntax error in HELLO option 'nosuch'")
    );
    assert_eq!(rig.ask(A, "client getname"), "$3\r\neve\r\n", "named, and not of version 3");
    assert!(rig.ask(A, "config set NoSuch 1").ends_with("- 'NoSuch'\r\n"));
}

#[test]
fn who_watches_is_not_disturbed_by_what_changes_nothing() {
    let mut rig = Rig::new();
    rig.ask(A, "set a v\nwatch a");
    rig.ask(B, "bitfield a incrby u1 #4 2 set u8 0 118\nsetbit a 0 0");
    assert_eq!(rig.ask(A, "multi\nexec\nwatch a"), "+OK\r\n*0\r\n+OK\r\n");
    rig.ask(B, "bitfield a set u8 0 119 set u8 0 118");
    assert_eq!(rig.ask(A, "multi\nexec"), "+OK\r\n*-1\r\n");
    assert_eq!(rig.ask(A, "client kill user \"a\\x00b\""), "-ERR No such user 'a'\r\n");
}

#[test]
fn clients_are_ended_by_what_they_are() {
    let mut rig = Rig::new();
    let (c, own) = (ConnId(3), |rig: &mut Rig| rig.ask(A, "client id"));
    assert_eq!(own(&mut rig), ":1\r\n");
    rig.ask(B, "subscribe news");
    rig.ask(c, "ping");
    for (options, want) in [
        ("id 0", "-ERR client-id should be greater than 0\r\n"),
        ("user nobody", "-ERR No such user 'nobody'\r\n"),
        ("type nosuch", "-ERR Unknown client type 'nosuch'\r\n"),
        ("skipme maybe", "-ERR syntax error\r\n"),
        ("type normal id", "-ERR syntax error\r\n"),
        ("type master", ":0\r\n"),
        ("id 1", ":0\r\n"),
        ("id 3 type pubsub", ":0\r\n"),
    ] {
        assert_eq!(rig.ask(A, &format!("client kill {options}")), want, "{options}");
    }
    assert!(rig.closed.is_empty());
    assert_eq!(rig.ask(A, "client kill type pubsub user default"), ":1\r\n");
    assert_eq!(rig.closed, [B]);
    rig.resp.on_closed(B);
    assert_eq!(rig.ask(A, "client kill type normal skipme no"), ":2\r\n");
    assert!(rig.closed.contains(&A) && rig.closed.contains(&c), "{:?}", rig.closed);
}

// J1: what several keys are read for or changed in has effect at one moment.
#[test]
fn several_keys_are_committed_as_one() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1\nset b 2");
    rig.shelf.asked.clear();
    assert_eq!(rig.ask(A, "rename a c\nmultinone\nmsetnx c 1 d 2\nmsetnx d 1 e 2").matches("+OK").count(), 1);
    assert_eq!(rig.ask(A, "mget a b c d e"), "*5\r\n$-1\r\n$1\r\n2\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n2\r\n");
    assert!(rig.shelf.asked.contains(&"commit a c".to_owned()), "{:?}", rig.shelf.asked);
    // One of two watched keys is changed between the reading and the commit: nothing is done.
    rig.ask(A, "watch b c");
    rig.shelf.delays = true;
    rig.ask(A, "multi\nset b x\nset c y\nexec");
    rig.shelf.write(b"c", b"z");
    while !rig.shelf.waiting.is_empty() {
        rig.release();
    }
    assert!(rig.said(A).ends_with("*-1\r\n"));
    assert_eq!(rig.shelf.objects[&b"b"[..]].1, b"2");
}

// J1: what comes behind a transaction in a pipeline comes after it.
#[test]
fn what_runs_alone_is_over_before_the_next_begins() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    rig.ask(A, "watch a\nmulti\ndiscard\nset a 2\nmulti\nget a\nselect 3\nexec\nselect 0\nget a");
    while !rig.shelf.waiting.is_empty() {
        rig.release();
    }
    let said = rig.said(A);
    assert!(said.ends_with("*2\r\n$1\r\n2\r\n+OK\r\n+OK\r\n$1\r\n2\r\n"), "{said}");
    rig.shelf.delays = false;
    assert!(rig.ask(A, "client info").contains(" db=0 "));
}

#[test]
fn many_keys_of_one_command_go_together() {
    let mut rig = Rig::new();
    assert_eq!(
        rig.ask(A, "mset a 1 b 2 a 3\nmget a b c\ndel a b c a\nexists a"),
        "+OK\r\n*3\r\n$1\r\n3\r\n$1\r\n2\r\n$-1\r\n:2\r\n:0\r\n"
    );
}

// Z1: any split of the same bytes gives the same replies.
#[test]
fn cuts_change_no_reply() {
    let requests = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nv\r\nwx\r\nget k\r\n*2\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n\
        *3\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$1\r\n!\r\nMULTI\r\nget k\r\nincr n\r\nEXEC\r\nhello 3\r\nget none\r\n*1\r\n:5\r\n";
    let mut whole = Rig::new();
    whole.feed(A, requests);
    let want = whole.said(A);
    assert!(want.contains("Protocol error") && want.contains("_\r\n") && whole.closed == [A], "{want}");
    for cut in 1..requests.len() {
        let mut rig = Rig::new();
        rig.feed(A, &requests[..cut]);
        rig.feed(A, &requests[cut..]);
        assert_eq!(rig.said(A), want, "cut at {cut}");
    }
    let mut rig = Rig::new();
    requests.iter().for_each(|byte| rig.feed(A, &[*byte]));
    assert_eq!(rig.said(A), want);
}

// Z6: what a connection may have under way is bounded; the rest is not taken, and comes later.
#[test]
fn a_connection_is_held_when_too_much_is_under_way() {
    let mut rig = Rig::with(|config| config.running_count_max = 10);
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    rig.shelf.asked.clear();
    rig.feed(A, "get a\r\n".repeat(25).as_bytes());
    assert_eq!(rig.shelf.asked.len(), 10);
    assert_eq!(rig.held, [A]);
    rig.release();
    rig.release();
    rig.release();
    assert_eq!(rig.said(A), "$1\r\n1\r\n".repeat(25));
    assert!(rig.held.is_empty());
}

// Z9: a stranger may say little, and gets little.
#[test]
fn who_has_not_given_the_password_may_say_little() {
    let mut rig = Rig::with(|config| config.password = Some("secret".into()));
    for line in ["get a", "set a 1", "config get *", "client list", "subscribe x", "multi", "info", "command"]
    {
        assert!(rig.ask(A, line).starts_with("-NOAUTH"), "{line}");
    }
    assert!(rig.ask(A, "auth wrong").starts_with("-WRONGPASS"));
    assert!(rig.ask(A, "hello 3").starts_with("-NOAUTH"));
    assert_eq!(rig.ask(A, "auth secret\nset a 1"), "+OK\r\n+OK\r\n");
    rig.feed(B, b"*11\r\n");
    assert!(rig.said(B).contains("invalid multibulk length") && rig.closed == [B]);
    let c = ConnId(3);
    rig.feed(c, b"*2\r\n$4\r\nECHO\r\n$5000\r\n");
    assert!(rig.said(c).contains("invalid bulk length"));
}

#[test]
fn messages_reach_who_listens() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask(A, "subscribe news"), "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert_eq!(rig.ask(A, "psubscribe n*"), "*3\r\n$10\r\npsubscribe\r\n$2\r\nn*\r\n:2\r\n");
    assert!(rig.ask(A, "get a").contains("only (P|S)SUBSCRIBE"));
    assert_eq!(rig.ask(B, "publish news hi"), ":2\r\n");
    assert_eq!(
        rig.said(A),
        "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n*4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n"
    );
    assert_eq!(rig.ask(B, "pubsub channels\npubsub numpat"), "*1\r\n$4\r\nnews\r\n:1\r\n");
    rig.resp.on_closed(A);
    assert_eq!(rig.ask(B, "publish news hi\npubsub numpat"), ":0\r\n:0\r\n");
}

#[test]
fn a_connection_that_ends_leaves_nothing() {
    let mut rig = Rig::new();
    rig.ask(A, "set a 1");
    rig.shelf.delays = true;
    rig.ask(A, "get a\nappend a 2");
    rig.resp.on_closed(A);
    rig.release();
    rig.release();
    assert_eq!(rig.said(A), "");
    assert_eq!(rig.resp.connection_count(), 0);
}
