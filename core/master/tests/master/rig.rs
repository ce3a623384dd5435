//! A master, two backups and a coordinator that answer when the test says so.

use ramhold_base::hash::PlacementSeed;
use ramhold_base::*;
use ramhold_log::Geometry;
use ramhold_master::{Master, MasterConfig};
use ramhold_wire::control::{Address, encode_into};
use ramhold_wire::data::{AppendReply, AppendRequest, KeyRequest, RejectRules};
use ramhold_wire::lease::{LeaseCheck, LeasesChecked, LiveLease};
use ramhold_wire::local::{LocalAnswers, LocalRequest};
use ramhold_wire::membership::*;
use ramhold_wire::recovery::Recovered;
use ramhold_wire::table::{
    TableDescription, TableOptions, TabletDescription, TabletState, TabletTake, TabletTaken,
};
use ramhold_wire::{Header, Opcode, View, decode, frame};

pub struct Rig {
    pub master: Master,
    pub view: View,
    pub now: Instant,
    pub rpc: u64,
    pub sequence: u64,
    pub asked: Vec<(Header, Vec<u8>)>,
    pub answers: Vec<(Header, Vec<u8>)>,
    pub reports: Vec<String>,
    /// Leases that the coordinator says are over, and for how long it says that others live.
    pub over: Vec<LeaseId>,
    pub lease_millis: u64,
    /// The tablets of table 5 that the coordinator has stored.
    pub stored: Vec<TabletDescription>,
    /// Appends that backups refuse for want of frames.
    pub refused: fn(&AppendRequest<'_>) -> bool,
    /// Appends that backups do not answer.
    pub unanswered: fn(&AppendRequest<'_>) -> bool,
    /// Whether devices have whatever backups were sent, and what that is.
    pub flushes: bool,
    pub replicas: std::collections::BTreeMap<(ServerId, SegmentId), (u32, bool)>,
}
impl Rig {
    pub fn new() -> Rig {
        Rig::with(1 << 20)
    }
    pub fn with(log_bytes: u64) -> Rig {
        let mut view = View::new("10.0.0.250:1".parse().unwrap());
        view.me = ServerId(9);
        view.cluster = ClusterId(7);
        view.term = Term(1);
        view.list.apply(&ServerListUpdate {
            from: 0,
            to: 1,
            changed: vec![entry(1), entry(2), entry(9)],
            removed: vec![],
            issued: ServerId(9),
            time: Default::default(),
            coordinator: None,
            copyset_rings: None,
            placement: None,
            topology: Default::default(),
            bricks: None,
            accounts: None,
        });
        let geometry = Geometry { segment_bytes: 32768, seglet_bytes: 4096 };
        let config = MasterConfig::new(geometry, log_bytes, 1 << 16);
        let region = vec![0; config.log_bytes as usize];
        Rig {
            master: Master::new(config, region, &view, Version(1 << 20), 3),
            view,
            now: Instant(1),
            rpc: 1,
            sequence: 1000,
            asked: vec![],
            answers: vec![],
            reports: vec![],
            over: vec![],
            lease_millis: 1_000_000_000,
            stored: vec![],
            refused: |_| false,
            unanswered: |_| false,
            flushes: true,
            replicas: Default::default(),
        }
    }
    pub fn request<M: ramhold_wire::Message>(&mut self, message: &M) -> Status {
        let mut body = Vec::new();
        encode_into(&mut body, message);
        self.rpc += 1;
        let header = Header {
            cluster: self.view.cluster,
            term: Term(1),
            target: self.view.me,
            ..Header::request(M::OPCODE, RpcId(self.rpc))
        };
        let mut effects = Effects::new();
        self.master.on_request(
            self.now,
            M::OPCODE.try_into().expect("an operation of masters"),
            &header,
            &body,
            ConnId(1),
            &self.view,
            &mut effects,
        );
        self.end_turn(effects);
        self.settle();
        self.answers
            .iter()
            .rev()
            .find(|(h, _)| h.rpc == header.rpc)
            .map(|(h, _)| h.status())
            .unwrap_or(Status::NotReady)
    }
    /// The turn of these effects is over: they take place, together with those of its end.
    pub fn end_turn(&mut self, mut effects: Effects) {
        self.master.turn_over(self.now, &self.view, &mut effects);
        assert!(!self.master.puts_off(), "nothing is left");
        self.take(effects);
    }
    pub fn take(&mut self, effects: Effects) {
        for e in effects.list {
            let (to, frame) = match e {
                Effect::Send { to, frame } => (to, frame),
                Effect::Mark(mark) => {
                    self.reports.push(format!("mark:{mark}"));
                    continue;
                }
                Effect::Report { text, .. } => {
                    self.reports.push(text);
                    continue;
                }
                _ => continue,
            };
            let bytes = frame.of(&effects.bytes);
            let (h, b) = frame::parse(&bytes).unwrap();
            match to {
                Peer::Conn(_) => self.answers.push((h, b.to_vec())),
                Peer::Addr(_) => self.asked.push((h, b.to_vec())),
            }
        }
    }
    fn is_answered(&self, header: &Header, body: &[u8]) -> bool {
        match header.opcode() {
            Some(Opcode::Recovered | Opcode::RecoveryRead | Opcode::Settled | Opcode::TabletReclassed) => {
                false
            }
            Some(Opcode::Append) => !(self.unanswered)(&AppendRequest::decode(body).unwrap()),
            _ => true,
        }
    }
    /// The server list changes in these entries, and these servers leave it.
    pub fn list_changes(&mut self, changed: Vec<ServerEntry>, removed: Vec<ServerId>) {
        let version = self.view.list.version();
        self.view.list.apply(&ServerListUpdate {
            from: version,
            to: version + 1,
            changed,
            removed,
            issued: ServerId(9),
            time: Default::default(),
            coordinator: None,
            copyset_rings: None,
            placement: None,
            topology: Default::default(),
            bricks: None,
            accounts: None,
        });
        let mut effects = Effects::new();
        self.master.on_list(self.now, &self.view, &mut effects);
        self.take(effects);
    }

    /// Backups and the coordinator answer all but `Recovered`, `Settled`, `RecoveryRead` and `TabletReclassed`.
    pub fn settle(&mut self) {
        for _ in 0..200 {
            let Some(at) = self.asked.iter().position(|(h, b)| self.is_answered(h, b)) else {
                break;
            };
            let (h, b) = self.asked.remove(at);
            let mut body = Vec::new();
            if h.opcode() == Some(Opcode::LeaseCheck) {
                body = self.checked(&b);
                let mut effects = Effects::new();
                let answer = Header { term: self.view.term, ..h.answer(Status::Ok) };
                self.master.on_reply(self.now, &answer, &body, &self.view, &mut effects);
                self.take(effects);
            } else if h.opcode() == Some(Opcode::Append) {
                let r = AppendRequest::decode(&b).unwrap();
                let is_refused = (self.refused)(&r);
                let status = if is_refused { Status::OpenRefused } else { Status::Ok };
                let end = r.offset + r.data.len() as u32;
                let replica = self.replicas.entry((h.target, h.segment)).or_default();
                let is_probe = r.data.is_empty() && r.certificate.is_none() && !r.open && !r.close;
                if !is_refused && !is_probe {
                    *replica = (end, r.close);
                }
                let (length, closed) = if is_probe { *replica } else { (end, r.close) };
                AppendReply {
                    length,
                    certified: if r.certificate.is_some() || is_probe { length } else { 0 },
                    epoch: h.epoch,
                    closed,
                    flushed: if self.flushes { length } else { 0 },
                }
                .encode(&mut body);
                self.master.on_replication_reply(self.now, &h.answer(status), &body, &self.view);
                self.end_turn(Effects::new());
            } else if h.opcode() == Some(Opcode::TableDescribe) {
                let description = TableDescription {
                    shortage: None,
                    table: TableId(5),
                    name: String::new(),
                    options: TableOptions {
                        durability: Durability::Buffered,
                        replicas: 2,
                        tablets: 1,
                        slots: false,
                        zone: None,
                        quorum: None,
                    },
                    reclassing: 0,
                    seed: PlacementSeed(1),
                    tablets: self.stored.clone(),
                    outside: None,
                    quorum: None,
                    zones: None,
                };
                encode_into(&mut body, &description);
                let mut effects = Effects::new();
                let answer = h.answer(Status::Ok);
                self.master.on_reply(self.now, &answer, &body, &self.view, &mut effects);
                self.take(effects);
            } else if h.opcode() == Some(Opcode::ReadLease) {
                let mut effects = Effects::new();
                let answer = Header { cluster: self.view.cluster, ..h.answer(Status::Ok) };
                self.master.on_reply(self.now, &answer, &[], &self.view, &mut effects);
                self.take(effects);
            } else if matches!(h.opcode(), Some(Opcode::StreamRegister | Opcode::HeadRecord)) {
                encode_into(&mut body, &ramhold_wire::control::Empty {});
                self.master.on_replication_reply(self.now, &h.answer(Status::Ok), &body, &self.view);
                self.end_turn(Effects::new());
            }
        }
    }
    /// The coordinator's answer to a question about leases.
    pub fn checked(&self, asked: &[u8]) -> Vec<u8> {
        let asked: LeaseCheck = decode(asked).unwrap();
        let live = asked.leases.into_iter().filter(|lease| !self.over.contains(lease));
        let live = live.map(|lease| LiveLease { lease, millis: self.lease_millis }).collect();
        let mut body = Vec::new();
        encode_into(&mut body, &LeasesChecked { live, never: vec![] });
        body
    }
    pub fn tick(&mut self) {
        let mut e = Effects::new();
        self.master.tick(self.now, &self.view, &mut e);
        self.take(e);
        self.settle();
    }
    pub fn recovered(&mut self) -> Option<(Header, Recovered)> {
        let at = self.asked.iter().position(|(h, _)| h.opcode() == Some(Opcode::Recovered))?;
        let (h, b) = self.asked.remove(at);
        Some((h, decode(&b).unwrap()))
    }
    pub fn answer(&mut self, h: &Header, status: Status) {
        let mut e = Effects::new();
        self.master.on_reply(self.now, &h.answer(status), &[], &self.view, &mut e);
        self.take(e);
        self.settle();
    }
    /// The whole table 5, in a stream with two replicas.
    pub fn take_table(&mut self) {
        self.take_with(Durability::Buffered, 2);
    }
    /// The whole table 5, without replicas.
    pub fn take_unreplicated(&mut self) {
        self.take_with(Durability::None, 0);
        // Without replicas the coordinator grants the read lease.
        let mut body = Vec::new();
        KeyRequest { table: TableId(5), rules: RejectRules::default(), key: b"none" }.encode(&mut body);
        let asks = self.send(Opcode::Read, &body);
        self.settle();
        assert_eq!(self.answer_to(asks).unwrap().0, Status::NotFound);
    }
    fn take_with(&mut self, durability: Durability, replicas: u8) {
        self.take_range(KeyHash(0), KeyHash(u64::MAX), durability, replicas);
        self.confirm_lease(4);
    }
    /// A tablet of table 5; the coordinator has not stored yet that it is taken.
    pub fn take_range(&mut self, first: KeyHash, last: KeyHash, durability: Durability, replicas: u8) {
        let take = TabletTake {
            table: TableId(5),
            seed: PlacementSeed(1),
            first,
            last,
            durability,
            replicas,
            version_floor: Version(0),
            slots: false,
        };
        assert_eq!(self.request(&take), Status::Ok);
    }
    /// The coordinator stores that tablet number `number` to be taken is.
    pub fn store_taken(&mut self, number: usize, (first, last): (KeyHash, KeyHash)) {
        let taken: Vec<TabletTaken> = self
            .answers
            .iter()
            .filter(|(h, _)| h.opcode() == Some(Opcode::TabletTake))
            .map(|(_, body)| decode(body).unwrap())
            .collect();
        let TabletTaken { shard, stream, first_segment } = taken[number];
        let (state, owner, address) = (TabletState::Serving, self.view.me, None);
        self.stored.push(TabletDescription {
            first,
            last,
            state,
            owner,
            shard,
            address,
            stream,
            first_segment,
        });
    }
    /// The whole table 5, stored as this server's, as it knows because somebody in its process has asked.
    pub fn take_confirmed(&mut self) {
        self.take_table();
        self.store_taken(0, (KeyHash(0), KeyHash(u64::MAX)));
        let key = KeyRequest { table: TableId(5), rules: RejectRules::default(), key: b"none" };
        let mut effects = Effects::new();
        self.master.on_local(self.now, &LocalRequest::Read(key), 0, &self.view, &mut effects);
        self.take(effects);
        self.settle();
        self.master.swap_local_answers(&mut LocalAnswers::default());
    }
    /// The first mutation under a lease makes the master ask for it.
    pub fn confirm_lease(&mut self, lease: u64) {
        let mut body = Vec::new();
        KeyRequest { table: TableId(5), rules: RejectRules::default(), key: b"none" }.encode(&mut body);
        let first = self.send_as(Opcode::Remove, &body, (lease, 1, 1));
        assert_eq!(self.answer_to(first).unwrap().0, Status::Retry);
        self.settle();
    }
    /// A client's request under the next sequence of lease 4; the backups do not answer before `settle`.
    pub fn send(&mut self, opcode: Opcode, body: &[u8]) -> RpcId {
        self.sequence += 1;
        self.send_as(opcode, body, (4, self.sequence, 1))
    }
    /// A request under a lease, a sequence and a floor.
    pub fn send_as(&mut self, opcode: Opcode, body: &[u8], number: (u64, u64, u64)) -> RpcId {
        self.send_numbered(opcode, body, number, false)
    }
    /// One that may have been carried out before.
    pub fn repeat_as(&mut self, opcode: Opcode, body: &[u8], number: (u64, u64, u64)) -> RpcId {
        self.send_numbered(opcode, body, number, true)
    }
    fn send_numbered(
        &mut self,
        opcode: Opcode,
        body: &[u8],
        (lease, sequence, floor): (u64, u64, u64),
        repeated: bool,
    ) -> RpcId {
        self.rpc += 1;
        let header = Header {
            cluster: self.view.cluster,
            target: self.view.me,
            lease: LeaseId(lease),
            sequence: Sequence(sequence),
            unacknowledged: Sequence(floor),
            repeated,
            ..Header::request(opcode, RpcId(self.rpc))
        };
        let mut effects = Effects::new();
        self.master.on_request(
            self.now,
            opcode.try_into().expect("an operation of masters"),
            &header,
            body,
            ConnId(1),
            &self.view,
            &mut effects,
        );
        self.end_turn(effects);
        header.rpc
    }
    /// The answer to a request, if it has one.
    pub fn answer_to(&self, rpc: RpcId) -> Option<(Status, Vec<u8>)> {
        let answer = self.answers.iter().find(|(header, _)| header.rpc == rpc);
        answer.map(|(header, body)| (header.status(), body.clone()))
    }
}

/// A server that is up, at an address of its own.
pub fn entry(id: u64) -> ServerEntry {
    ServerEntry {
        id: ServerId(id),
        address: Address(format!("10.0.0.{id}:1").parse().unwrap()),
        labels: vec![],
        state: ServerState::Up,
        master: true,
        backup: true,
        read_speed: 1,
        directory: Default::default(),
        kept: false,
        replicates: false,
        replicates_only: None,
        redis_cluster_port: None,
        links: None,
    }
}
