//! A cluster played by the test: it sees every request of the session and answers what the test says.

use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_base::{
    ClusterId, ClusterTime, ConnId, Effect, Effects, Input, Instant, KeyHash, LeaseId, Lost, Machine, Peer,
    RpcId, SegmentId, Sequence, ServerId, ShardId, Status, StreamId, TableId, Term, Version,
};
use ramhold_client_core::{Operation, OperationId, Outcome, RejectRules, Reply, Session, SessionConfig};
use ramhold_wire::control::{Address, encode_into};
use ramhold_wire::data::{ReadReply, encode_version};
use ramhold_wire::lease::{LeaseOpened, LeaseRenewed};
use ramhold_wire::membership::Durability;
use ramhold_wire::multi::{MultiRequest, encode_answer};
use ramhold_wire::status::ClusterStatus;
use ramhold_wire::table::{TableDescription, TableOptions, TabletDescription, TabletState};
use ramhold_wire::{Header, Opcode, frame};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

pub const CLUSTER: ClusterId = ClusterId(99);
pub const TABLE: TableId = TableId(7);
pub const SEED: PlacementSeed = PlacementSeed(5);

pub fn coordinator(number: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 100], 7400 + number))
}

pub fn server(number: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number as u8], 7401))
}

pub fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A request of the session as it arrived, alone or with others in one frame.
#[derive(Clone, Debug)]
pub struct Sent {
    pub to: SocketAddr,
    pub header: Header,
    pub body: Vec<u8>,
    pub packed: Option<Packed>,
}

/// Where in a frame of items.
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    pub frame: Header,
    pub place: u16,
    pub count: usize,
}

/// The answers to the items of a frame; none: the item has none.
type Answers = BTreeMap<u16, Option<(Status, Vec<u8>)>>;

impl Sent {
    pub fn opcode(&self) -> Opcode {
        self.header.opcode().unwrap()
    }
}

pub struct Fake {
    pub session: Session,
    pub now: Instant,
    /// Requests that the test has not looked at yet.
    pub sent: Vec<Sent>,
    /// The cluster in the headers of the answers.
    pub answers_name: ClusterId,
    /// The request that was sent under each number, to see that it is always the same.
    numbered: BTreeMap<(LeaseId, Sequence), Vec<u8>>,
    /// Answers to items of frames that are not all answered.
    collected: BTreeMap<RpcId, Answers>,
    /// Whether leases are opened and renewed without the test's doing, and the last one given out.
    pub gives_leases: bool,
    pub term_millis: u64,
    lease_last: LeaseId,
}

impl Fake {
    pub fn new() -> Fake {
        Fake::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut SessionConfig)) -> Fake {
        let mut config = SessionConfig::new(vec![coordinator(0)]);
        change(&mut config);
        let session = Session::new(config, 42);
        Fake {
            session,
            now: Instant(1_000_000_000),
            sent: Vec::new(),
            answers_name: CLUSTER,
            numbered: BTreeMap::new(),
            collected: BTreeMap::new(),
            gives_leases: true,
            term_millis: 30 * 60_000,
            lease_last: LeaseId(700),
        }
    }

    pub fn start(&mut self, operation: Operation) -> OperationId {
        let mut effects = Effects::new();
        let id = self.session.start(self.now, operation, &mut effects);
        self.take_effects(&effects);
        id
    }

    pub fn start_within(&mut self, operation: Operation, time: Duration) -> OperationId {
        let mut effects = Effects::new();
        let id = self.session.start_within(self.now, operation, time, &mut effects);
        self.take_effects(&effects);
        id
    }

    pub fn input(&mut self, input: Input<'_>) {
        let mut effects = Effects::new();
        self.session.step(self.now, input, &mut effects);
        self.take_effects(&effects);
    }

    pub fn take_effects(&mut self, effects: &Effects) {
        for effect in &effects.list {
            let Effect::Send { to: Peer::Addr(to), frame } = effect else { panic!("unexpected {effect:?}") };
            let bytes = frame.of(&effects.bytes);
            let (header, body) = frame::parse(&bytes).unwrap();
            if header.opcode() == Some(Opcode::Multi) {
                assert!(header.sequence.is_none() && !header.repeated);
                let multi = MultiRequest::decode(body).expect("a frame within the limits");
                assert!(multi.count() > 1, "one alone goes alone");
                for (place, item) in (0..).zip(multi.items()) {
                    let of_item = Header {
                        opcode: Opcode::from(item.request).code(),
                        sequence: item.sequence,
                        lease: if item.sequence.is_none() { LeaseId::NONE } else { header.lease },
                        repeated: item.repeated,
                        unacknowledged: header.unacknowledged.min(item.sequence),
                        ..header
                    };
                    assert!(item.sequence.is_none() || header.unacknowledged <= item.sequence);
                    let packed = Some(Packed { frame: header, place, count: multi.count() });
                    self.arrived(Sent { to: *to, header: of_item, body: item.body.to_vec(), packed });
                }
            } else {
                self.arrived(Sent { to: *to, header, body: body.to_vec(), packed: None });
            }
        }
        if self.gives_leases {
            self.give_leases();
        }
    }

    fn arrived(&mut self, sent: Sent) {
        let Sent { header, body, .. } = &sent;
        assert_eq!(header.lease.is_none(), header.sequence.is_none());
        assert!(header.unacknowledged <= header.sequence);
        if !header.lease.is_none() {
            let before = self.numbered.entry((header.lease, header.sequence)).or_insert(body.clone());
            assert_eq!(before, body, "one number for two things");
        }
        self.sent.push(sent);
    }

    fn give_leases(&mut self) {
        let of_leases = |sent: &Sent| matches!(sent.opcode(), Opcode::LeaseOpen | Opcode::LeaseRenew);
        while let Some(at) = self.sent.iter().position(of_leases) {
            let sent = self.sent.remove(at);
            self.give_lease(&sent);
        }
    }

    /// Answers a request for a lease or its renewal.
    pub fn give_lease(&mut self, sent: &Sent) {
        let term_millis = self.term_millis;
        if sent.opcode() == Opcode::LeaseRenew {
            return self.answer_with(sent, &LeaseRenewed { term_millis });
        }
        self.lease_last = self.lease_last.next();
        let lease = self.lease_last;
        self.answer_with(sent, &LeaseOpened { lease, term_millis });
    }

    /// The one request that the test has not looked at yet.
    pub fn request(&mut self) -> Sent {
        assert_eq!(self.sent.len(), 1, "{:?}", self.sent);
        self.sent.remove(0)
    }

    pub fn expect(&mut self, to: SocketAddr, opcode: Opcode) -> Sent {
        let sent = self.request();
        assert_eq!((sent.to, sent.opcode()), (to, opcode));
        sent
    }

    pub fn expect_silence(&self) {
        assert!(self.sent.is_empty(), "{:?}", self.sent);
    }

    /// Answers a request; an item of a frame when all of the frame have been answered or passed over.
    pub fn answer(&mut self, request: &Sent, status: Status, body: &[u8]) {
        if let Some(packed) = request.packed {
            return self.collect(packed, Some((status, body.to_vec())));
        }
        let mut header = request.header.answer(status);
        header.cluster = self.answers_name;
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &header, |out| out.extend_from_slice(body));
        self.input(Input::Frame { from: ConnId(1), bytes: &bytes });
    }

    /// The server treats an item of a frame and says nothing of it; of a request alone it just says nothing.
    pub fn pass_over(&mut self, request: &Sent) {
        if let Some(packed) = request.packed {
            self.collect(packed, None);
        }
    }

    fn collect(&mut self, packed: Packed, answer: Option<(Status, Vec<u8>)>) {
        let answers = self.collected.entry(packed.frame.rpc).or_default();
        answers.entry(packed.place).or_insert(answer);
        if answers.len() < packed.count {
            return;
        }
        let mut body = Vec::new();
        for (place, answer) in answers.iter() {
            match answer {
                Some((status, bytes)) => {
                    encode_answer(*place, Some(*status), &mut body, |out| out.extend_from_slice(bytes));
                }
                None => encode_answer(*place, None, &mut body, |_| {}),
            }
        }
        self.answer_frame(&packed, Status::Ok, &body);
    }

    /// Answers a whole frame of items.
    pub fn answer_frame(&mut self, packed: &Packed, status: Status, body: &[u8]) {
        let mut header = packed.frame.answer(status);
        header.cluster = self.answers_name;
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &header, |out| out.extend_from_slice(body));
        self.input(Input::Frame { from: ConnId(1), bytes: &bytes });
    }

    pub fn start_all(&mut self, operations: Vec<Operation>) -> Vec<OperationId> {
        let mut effects = Effects::new();
        let time = Duration::from_secs(10);
        let ids = self.session.start_all(self.now, operations, time, &mut effects);
        self.take_effects(&effects);
        ids
    }

    pub fn answer_with<T: minicbor::Encode<()>>(&mut self, request: &Sent, body: &T) {
        let mut bytes = Vec::new();
        encode_into(&mut bytes, body);
        self.answer(request, Status::Ok, &bytes);
    }

    pub fn answer_version(&mut self, request: &Sent, status: Status, version: u64) {
        let mut body = Vec::new();
        encode_version(&mut body, Version(version));
        self.answer(request, status, &body);
    }

    pub fn answer_value(&mut self, request: &Sent, version: u64, value: &[u8]) {
        let mut body = Vec::new();
        ReadReply::encode_head(&mut body, Version(version), 1234, None);
        body.extend_from_slice(value);
        self.answer(request, Status::Ok, &body);
    }

    pub fn lose(&mut self, addr: SocketAddr, how: Lost) {
        self.input(Input::Lost { addr, how });
    }

    /// Lets time pass, ringing every timer on the way, until something was sent or ended, or `most` is over.
    pub fn wait(&mut self, most: Duration) -> Duration {
        let begin = self.now;
        let end = self.now + most;
        while self.sent.is_empty() {
            match self.session.deadline() {
                Some(deadline) if deadline <= end => {
                    self.now = deadline.max(self.now);
                    let under_way = self.session.under_way_count();
                    self.input(Input::Tick);
                    if self.session.under_way_count() < under_way {
                        break;
                    }
                }
                _ => {
                    self.now = end;
                    break;
                }
            }
        }
        self.now.since(begin)
    }

    /// Starts an operation in a session that knows no tablets yet, describes the table, and gives what is sent then.
    pub fn start_described(&mut self, operation: Operation, tablets: &[Part]) -> (OperationId, Sent) {
        let id = self.start(operation);
        self.describe(tablets);
        (id, self.request())
    }

    /// Answers the request for the description that has come or comes within a second.
    pub fn describe(&mut self, tablets: &[Part]) {
        if self.sent.is_empty() {
            self.wait(millis(1000));
        }
        let request = self.expect(coordinator(0), Opcode::TableDescribe);
        self.answer_with(&request, &description(tablets));
    }

    pub fn outcome(&mut self) -> (OperationId, Outcome) {
        self.session.take_outcome().expect("an operation has ended")
    }

    pub fn expect_none_ended(&mut self) {
        assert_eq!(self.session.take_outcome(), None);
    }

    pub fn expect_written(&mut self, version: u64) {
        assert_eq!(self.outcome().1, Outcome::Done(Reply::Written { version: Version(version) }));
    }

    /// The status and detail of the refusal that the operation ended with.
    pub fn expect_refused(&mut self, want: Status) -> String {
        match self.outcome().1 {
            Outcome::Refused { status, detail, .. } if status == want => detail,
            other => panic!("wanted refused with {want:?}: {other:?}"),
        }
    }

    pub fn expect_unknown(&mut self) -> String {
        match self.outcome().1 {
            Outcome::Unknown { detail, .. } => detail,
            other => panic!("wanted unknown: {other:?}"),
        }
    }
}

/// The last hash of a tablet, its state, and its owner's number.
pub type Part = (u64, TabletState, u64);

pub const ALL_AT_1: &[Part] = &[(u64::MAX, TabletState::Serving, 1)];
pub const ALL_AT_2: &[Part] = &[(u64::MAX, TabletState::Serving, 2)];
pub const RECOVERING: &[Part] = &[(u64::MAX, TabletState::Recovering, 1)];
pub const HALVES: &[Part] = &[(u64::MAX / 2, TabletState::Serving, 1), (u64::MAX, TabletState::Serving, 2)];

pub fn cluster_status(cluster: ClusterId) -> ClusterStatus {
    ClusterStatus {
        cluster,
        term: Term(1),
        time: ClusterTime(0),
        servers: Vec::new(),
        tables: 0,
        tablets: 0,
        tablets_recovering: 0,
        recoveries: Vec::new(),
        losses: Vec::new(),
        warnings: Vec::new(),
        version: String::new(),
        cleared: Vec::new(),
        outages: None,
        copyset_rings: None,
        placement: None,
        topology: Default::default(),
        expected: None,
        gone: None,
        bricks: Vec::new(),
    }
}

pub fn options() -> TableOptions {
    TableOptions {
        durability: Durability::Buffered,
        replicas: 3,
        tablets: 1,
        slots: false,
        zone: None,
        quorum: None,
    }
}

pub fn description(parts: &[Part]) -> TableDescription {
    let mut tablets = Vec::new();
    let mut first = 0;
    for (last, state, owner) in parts {
        tablets.push(TabletDescription {
            first: KeyHash(first),
            last: KeyHash(*last),
            state: *state,
            owner: ServerId(*owner),
            shard: ShardId(3),
            address: (*state == TabletState::Serving).then_some(Address(server(*owner))),
            stream: StreamId(1),
            first_segment: SegmentId(1),
        });
        first = last.wrapping_add(1);
    }
    TableDescription {
        shortage: None,
        table: TABLE,
        name: "seven".into(),
        options: options(),
        seed: SEED,
        tablets,
        reclassing: 0,
        outside: None,
        quorum: None,
        zones: None,
    }
}

/// A key whose hash is in the lower or upper half.
pub fn key_in_half(upper: bool, number: u32) -> Vec<u8> {
    let hasher = PlacementHasher::new(SEED);
    let keys = (number * 1000..).map(|n: u32| n.to_le_bytes().to_vec());
    keys.into_iter().find(|key| (hasher.hash(key).0 > u64::MAX / 2) == upper).unwrap()
}

pub fn read(key: &[u8]) -> Operation {
    Operation::Read { table: TABLE, key: key.to_vec(), rules: RejectRules::default() }
}

pub fn write(key: &[u8], value: &[u8]) -> Operation {
    Operation::Write {
        table: TABLE,
        key: key.to_vec(),
        value: value.to_vec(),
        rules: RejectRules::default(),
        expiry: None,
    }
}

pub fn remove(key: &[u8]) -> Operation {
    Operation::Remove { table: TABLE, key: key.to_vec(), rules: RejectRules::default() }
}
