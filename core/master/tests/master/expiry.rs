//! Objects that end by themselves: what their readers and writers are told, and when.
//!
//! Catalogue: A4, A12.

use crate::rig::{Rig, entry};
use ramhold_base::limits::EXPIRY_MILLIS_MAX;
use ramhold_base::*;
use ramhold_log::HashRange;
use ramhold_wire::Opcode;
use ramhold_wire::count::{CountReply, CountRequest};
use ramhold_wire::data::{Expiry, KeyRequest, ReadReply, RejectRules, WriteRequest, decode_version};
use ramhold_wire::membership::{ServerEntry, ServerState};

const TABLE: TableId = TableId(5);
const START: ClusterTime = ClusterTime(1_700_000_000_000);
const NOTHING: Version = Version(0);

fn rig() -> Rig {
    let mut rig = Rig::new();
    rig.view.tell_time(rig.now, START);
    rig.take_table();
    rig
}

fn after(millis: u64) -> Option<Expiry> {
    Some(Expiry::After { millis })
}

impl Rig {
    /// The cluster time is so long after the start.
    fn pass_until(&mut self, millis: u64) {
        self.now = Instant(1 + millis * 1_000_000);
    }

    fn send_write(&mut self, rules: RejectRules, expiry: Option<Expiry>) -> RpcId {
        let mut body = vec![];
        WriteRequest { table: TABLE, rules, expiry, key: b"k", value: b"v" }.encode(&mut body);
        self.send(Opcode::Write, &body)
    }

    fn send_key(&mut self, opcode: Opcode, rules: RejectRules) -> RpcId {
        let mut body = vec![];
        KeyRequest { table: TABLE, rules, key: b"k" }.encode(&mut body);
        self.send(opcode, &body)
    }

    /// The status and the version of the answer, once the backups have answered.
    fn ended(&mut self, rpc: RpcId) -> (Status, Version) {
        self.settle();
        let (status, body) = self.answer_to(rpc).expect("everything is durable");
        (status, decode_version(&body).unwrap_or_default())
    }

    fn write(&mut self, rules: RejectRules, expiry: Option<Expiry>) -> (Status, Version) {
        let rpc = self.send_write(rules, expiry);
        self.ended(rpc)
    }

    fn plain_write(&mut self, expiry: Option<Expiry>) -> Version {
        let (status, version) = self.write(RejectRules::default(), expiry);
        assert_eq!(status, Status::Ok);
        version
    }

    /// When the object that is read ends; `Err`: it is not there.
    fn read(&mut self) -> Result<Option<ClusterTime>, Status> {
        let rpc = self.send_key(Opcode::Read, RejectRules::default());
        self.settle();
        let (status, body) = self.answer_to(rpc).expect("everything is durable");
        if status == Status::Ok { Ok(ReadReply::decode(&body).unwrap().expires) } else { Err(status) }
    }

    fn write_key(&mut self, key: &[u8], expiry: Option<Expiry>) {
        let mut body = vec![];
        WriteRequest { table: TABLE, rules: RejectRules::default(), expiry, key, value: b"v" }
            .encode(&mut body);
        let rpc = self.send(Opcode::Write, &body);
        assert_eq!(self.ended(rpc).0, Status::Ok);
    }

    /// The objects that the table has, as a count is answered.
    fn count(&mut self) -> u64 {
        let mut body = vec![];
        CountRequest { table: TABLE, first: KeyHash(0) }.encode(&mut body);
        let rpc = self.send(Opcode::Count, &body);
        self.settle();
        let (status, body) = self.answer_to(rpc).expect("everything is durable");
        assert_eq!(status, Status::Ok);
        CountReply::decode(&body).unwrap().objects
    }

    /// Nobody asks for anything until that long after the start; tells how many objects have ended meanwhile.
    fn wait_until_idle(&mut self, millis: u64) -> usize {
        let before = self.expired();
        let end = Instant(1 + millis * 1_000_000);
        while let Some(next) = self.master.deadline().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.tick();
        }
        self.now = end;
        self.master.check_invariants();
        self.expired() - before
    }

    fn expired(&self) -> usize {
        self.reports.iter().filter(|text| *text == "mark:expired").count()
    }
}

#[test]
fn an_object_is_returned_until_its_time_is_over() {
    let mut rig = rig();
    rig.pass_until(30);
    rig.plain_write(after(100));
    assert_eq!(rig.read(), Ok(Some(ClusterTime(START.0 + 130))));
    rig.pass_until(129);
    assert_eq!(rig.read(), Ok(Some(ClusterTime(START.0 + 130))));
    assert_eq!(rig.expired(), 0);
    rig.pass_until(130);
    assert_eq!(rig.read(), Err(Status::NotFound));
    rig.pass_until(131);
    assert_eq!(rig.read(), Err(Status::NotFound));
    assert_eq!(rig.expired(), 1, "it is taken out once");
}

/// A client that hears of the end may rely on it, also when this server dies: the tombstone is on the backups before.
#[test]
fn nobody_hears_of_an_end_before_it_is_durable() {
    for rules in [RejectRules::default(), RejectRules { absent: true, ..RejectRules::default() }] {
        for opcode in [Opcode::Read, Opcode::Remove] {
            let mut rig = rig();
            rig.plain_write(after(100));
            rig.pass_until(100);
            let first = rig.send_key(opcode, rules);
            let second = rig.send_key(Opcode::Read, RejectRules::default());
            assert_eq!((rig.answer_to(first), rig.answer_to(second)), (None, None), "{opcode:?} {rules:?}");
            let status =
                if opcode == Opcode::Remove && !rules.absent { Status::Ok } else { Status::NotFound };
            assert_eq!(rig.ended(first), (status, NOTHING), "{opcode:?} {rules:?}");
            assert_eq!(rig.ended(second), (Status::NotFound, NOTHING));
        }
    }
    let mut rig = rig();
    rig.plain_write(after(100));
    rig.pass_until(100);
    let refused = rig.send_write(RejectRules { absent: true, ..RejectRules::default() }, None);
    assert_eq!(rig.answer_to(refused), None);
    assert_eq!(rig.ended(refused), (Status::NotFound, NOTHING));
}

#[test]
fn conditions_see_an_object_that_is_over_as_absent() {
    let of =
        |version| RejectRules { absent: true, version_other_than: Some(version), ..RejectRules::default() };
    let none = RejectRules { exists: true, ..RejectRules::default() };
    let mut rig = rig();
    let version = rig.plain_write(after(100));
    assert_eq!(rig.write(none, None), (Status::Exists, version));
    rig.pass_until(100);
    assert_eq!(rig.write(of(version), None), (Status::NotFound, NOTHING));
    assert_eq!(rig.write(none, None).0, Status::Ok);
}

#[test]
fn versions_grow_through_an_end() {
    let mut rig = rig();
    let mut last = NOTHING;
    for round in 0..20 {
        rig.pass_until(10 * round);
        let version = rig.plain_write(after(10));
        // Not the version of the tombstone either, which nobody was told.
        assert!(version > last && (round == 0 || version > last.next()), "{version:?} after {last:?}");
        last = version;
    }
    assert_eq!(rig.expired(), 19);
}

#[test]
fn a_plain_write_takes_the_end_away() {
    let mut rig = rig();
    rig.plain_write(after(100));
    rig.pass_until(50);
    rig.plain_write(None);
    rig.pass_until(1000);
    assert_eq!(rig.read(), Ok(None));
    rig.plain_write(after(100));
    rig.plain_write(after(900));
    rig.pass_until(1899);
    assert_eq!(rig.read(), Ok(Some(ClusterTime(START.0 + 1900))));
}

#[test]
fn an_end_in_the_past_is_a_write_and_an_end() {
    let mut rig = rig();
    rig.pass_until(10);
    let first = rig.plain_write(None);
    let past = Some(Expiry::At(ClusterTime(START.0 + 10)));
    let second = rig.plain_write(past);
    assert!(second > first);
    assert_eq!(rig.read(), Err(Status::NotFound));
    assert!(rig.plain_write(None) > second.next());
}

#[test]
fn an_end_outside_its_limits_changes_nothing() {
    let mut rig = rig();
    rig.plain_write(None);
    let last = START.0 + EXPIRY_MILLIS_MAX;
    let outside = [
        after(0).unwrap(),
        after(EXPIRY_MILLIS_MAX + 1).unwrap(),
        Expiry::At(ClusterTime(0)),
        Expiry::At(ClusterTime(last + 1)),
    ];
    for expiry in outside {
        assert_eq!(rig.write(RejectRules::default(), Some(expiry)).0, Status::BadRequest, "{expiry:?}");
        assert_eq!(rig.read(), Ok(None));
    }
    rig.plain_write(Some(Expiry::At(ClusterTime(last))));
    assert_eq!(rig.read(), Ok(Some(ClusterTime(last))));
}

/// Nobody asks for it, and it is gone.
// A12
#[test]
fn an_idle_master_removes_what_is_over_and_counts_it_no_more() {
    let mut rig = rig();
    for (key, expiry) in [(b"a", after(100)), (b"b", after(100)), (b"c", after(900)), (b"d", None)] {
        rig.write_key(key, expiry);
    }
    assert_eq!(rig.count(), 4);
    assert_eq!(rig.wait_until_idle(99), 0, "nothing is over yet");
    assert_eq!(rig.count(), 4);
    rig.wait_until_idle(101);
    assert_eq!((rig.count(), rig.expired()), (2, 2));
    rig.wait_until_idle(10_000);
    assert_eq!((rig.count(), rig.expired()), (1, 3));
    assert_eq!(rig.wait_until_idle(100_000), 0, "what stays for ever costs nothing");
}

// A12
#[test]
fn an_end_that_was_put_off_or_brought_forward_is_kept_to() {
    let mut rig = rig();
    rig.write_key(b"later", after(100));
    rig.write_key(b"later", after(5000));
    rig.write_key(b"sooner", after(5000));
    rig.write_key(b"sooner", after(100));
    rig.write_key(b"never", after(100));
    rig.write_key(b"never", None);
    rig.wait_until_idle(1000);
    assert_eq!((rig.count(), rig.expired()), (2, 1));
    rig.wait_until_idle(5001);
    assert_eq!((rig.count(), rig.expired()), (1, 2));
}

/// While requests come, a slice is followed by a pause; thousands that end at once do not stop the shard.
// A12, C8
#[test]
fn what_ends_at_once_is_removed_in_slices_between_requests() {
    const KEYS: u64 = 2000;
    let mut rig = rig();
    for key in 0..KEYS {
        rig.write_key(&key.to_le_bytes(), after(1000));
    }
    rig.pass_until(1000);
    let mut before = rig.count();
    let mut turns = 0;
    while rig.count() > 0 {
        turns += 1;
        rig.read().unwrap_err();
        rig.now = rig.now.max(rig.master.deadline().unwrap());
        rig.tick();
        rig.settle();
        let removed = before - rig.count();
        assert!(removed <= 64 + 32, "{removed} in one turn");
        before = rig.count();
    }
    assert!(turns >= KEYS / 96);
    assert!(rig.now <= Instant(1 + 1_100_000_000), "all within a tenth of a second: {:?}", rig.now);
}

/// Removals that no backup confirms do not gather without a bound.
// A12
#[test]
fn a_stream_that_stands_still_gathers_few_removals() {
    let mut rig = rig();
    for key in 0..3000u64 {
        rig.write_key(&key.to_le_bytes(), after(1000));
    }
    rig.pass_until(1000);
    for _ in 0..40 {
        rig.now = rig.now + std::time::Duration::from_millis(1);
        let mut effects = Effects::new();
        rig.master.tick(rig.now, &rig.view, &mut effects);
        rig.take(effects);
    }
    let removed = rig.expired();
    assert!((1024..1024 + 128).contains(&removed), "{removed}");
    rig.settle();
    rig.wait_until_idle(1500);
    assert_eq!((rig.count(), rig.expired()), (0, 3000));
}

impl Rig {
    /// One of the two backups is dead for good, so nothing becomes durable any more.
    fn lose_backup(&mut self) {
        self.list_changes(vec![ServerEntry { state: ServerState::Crashed, kept: true, ..entry(2) }], vec![]);
        self.settle();
    }

    /// The coordinator says what the time is.
    fn hear_time(&mut self) {
        let micros = START.0 * 1000 + self.now.0 / 1000;
        self.view.answer_time(self.now, self.now, micros);
    }
}

// A12, D2: a cache goes on to answer, whatever R can be held.
#[test]
fn what_is_over_is_told_as_absent_though_its_removal_cannot_be_durable() {
    for is_time_known in [false, true] {
        let mut rig = rig();
        if is_time_known {
            rig.hear_time();
        }
        rig.pass_until(4000);
        rig.plain_write(after(100));
        rig.write_key(b"stays", None);
        rig.lose_backup();
        rig.pass_until(5050);
        rig.tick();
        let ended = rig.expired();
        let read = |rig: &mut Rig| {
            let rpc = rig.send_key(Opcode::Read, RejectRules::default());
            rig.settle();
            rig.answer_to(rpc).map(|(status, _)| status)
        };
        assert_eq!(read(&mut rig), Some(Status::Retry), "a clock that is behind may not have got there");
        rig.pass_until(5200);
        let expected = if is_time_known { Status::NotFound } else { Status::Retry };
        assert_eq!(read(&mut rig), Some(expected), "known: {is_time_known}");
        rig.wait_until_idle(7000);
        assert_eq!(rig.expired(), ended, "others would wait for its removal");
        assert_eq!(rig.master.log().object_count(whole()), Some(2));
    }
}

// A12: its removal is on its way, and the object that it removes may still be lost itself.
#[test]
fn a_removal_that_is_not_durable_need_not_be_when_its_object_is() {
    for is_object_durable in [true, false] {
        let mut rig = rig();
        rig.hear_time();
        rig.pass_until(4000);
        let write = rig.send_write(RejectRules::default(), after(100));
        if is_object_durable {
            rig.settle();
            assert!(rig.answer_to(write).is_some());
        }
        // Keepalives are answered: it has the read lease.
        rig.unanswered = |request| !request.data.is_empty();
        rig.pass_until(4100);
        let first = rig.send_key(Opcode::Read, RejectRules::default());
        assert_eq!(rig.answer_to(first), None);
        rig.pass_until(5110);
        let second = rig.send_key(Opcode::Read, RejectRules::default());
        rig.settle();
        let answer = rig.answer_to(second).map(|(status, _)| status);
        assert_eq!(answer, is_object_durable.then_some(Status::NotFound));
    }
}

// A12, D2
#[test]
fn reads_that_wait_are_refused_when_nothing_becomes_durable_any_more() {
    let mut rig = rig();
    rig.plain_write(None);
    rig.lose_backup();
    let write = rig.send_write(RejectRules::default(), None);
    let read = rig.send_key(Opcode::Read, RejectRules::default());
    rig.settle();
    assert_eq!((rig.answer_to(write), rig.answer_to(read)), (None, None));
    rig.pass_until(1500);
    rig.tick();
    assert_eq!(rig.answer_to(read).map(|(status, _)| status), Some(Status::Retry));
    assert_eq!(rig.answer_to(write), None, "it has taken effect here");
    let read = rig.send_key(Opcode::Read, RejectRules::default());
    assert_eq!(rig.answer_to(read).map(|(status, _)| status), Some(Status::Retry));
}

fn whole() -> HashRange {
    HashRange { table: TABLE, first: KeyHash(0), last: KeyHash(u64::MAX) }
}

// A12
#[test]
fn an_unreplicated_table_expires_too() {
    let mut rig = Rig::new();
    rig.view.tell_time(rig.now, START);
    rig.take_unreplicated();
    rig.write_key(b"a", after(100));
    rig.wait_until_idle(101);
    assert_eq!((rig.count(), rig.expired()), (0, 1));
}
