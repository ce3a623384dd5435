//! A client session of the specimen. It sends each request once, to the server that owns the key.

use crate::history::{Condition, Outcome, ValueId};
use crate::system::{Ask, End, Request, Session};
use crate::trace::fingerprint;
use ramhold_base::{
    Effects, Input, Instant, LeaseId, Lost, Machine, Peer, RpcId, Sequence, ServerId, Status, TableId,
    Version,
};
use ramhold_wire::data::{KeyRequest, ReadReply, RejectRules, WriteRequest, decode_version};
use ramhold_wire::{Header, Opcode, frame};
use std::net::SocketAddr;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(2);
pub(super) const TABLE: TableId = TableId(1);

struct Open {
    rpc: RpcId,
    opcode: Opcode,
    addr: SocketAddr,
    deadline: Instant,
}

pub struct SpecimenSession {
    servers: Vec<SocketAddr>,
    lease: LeaseId,
    sequence: Sequence,
    open: Option<Open>,
    end: Option<End>,
}

impl SpecimenSession {
    pub fn new(servers: Vec<SocketAddr>, seed: u64) -> SpecimenSession {
        SpecimenSession { servers, lease: LeaseId(seed), sequence: Sequence(0), open: None, end: None }
    }

    fn on_reply(&mut self, header: &Header, body: &[u8]) {
        let Some(open) = &self.open else { return };
        if header.rpc != open.rpc {
            return;
        }
        let outcome = match (header.status(), open.opcode) {
            (Status::Ok, Opcode::Read) => match ReadReply::decode(body) {
                Ok(reply) => Outcome::Found { version: reply.version, value: ValueId::of(reply.value) },
                Err(status) => Outcome::Refused { status },
            },
            (Status::Ok, _) => match decode_version(body) {
                Ok(version) => Outcome::Done { version },
                Err(_) => Outcome::Unknown,
            },
            (Status::NotFound, Opcode::Read) => Outcome::Absent,
            (Status::NotFound | Status::Exists | Status::WrongVersion, _) => {
                Outcome::ConditionFailed { version: decode_version(body).ok() }
            }
            (status, _) => Outcome::Refused { status },
        };
        self.finish(outcome, Some(header.sender));
    }

    /// No answer will come. The outcome is known only if the request certainly did not arrive.
    fn give_up(&mut self, surely_not_there: bool) {
        let Some(open) = &self.open else { return };
        let harmless = surely_not_there || open.opcode == Opcode::Read;
        self.finish(
            if harmless { Outcome::Refused { status: Status::Retry } } else { Outcome::Unknown },
            None,
        );
    }

    fn finish(&mut self, outcome: Outcome, answered_by: Option<ServerId>) {
        self.open = None;
        self.end = Some(End { outcome, answered_by });
    }
}

fn rules(condition: Condition) -> RejectRules {
    match condition {
        Condition::Free => RejectRules::default(),
        Condition::Absent => RejectRules { exists: true, ..RejectRules::default() },
        Condition::VersionIs(version) => {
            RejectRules { absent: true, version_other_than: Some(version), ..RejectRules::default() }
        }
    }
}

impl Session for SpecimenSession {
    fn begin(&mut self, now: Instant, _lane: usize, request: &Request<'_>, effects: &mut Effects) {
        assert!(self.open.is_none(), "one operation at a time");
        let owner = (fingerprint(request.key) % self.servers.len() as u64) as usize;
        let addr = self.servers[owner];
        self.sequence = self.sequence.next();
        let rpc = RpcId(self.lease.raw() ^ self.sequence.raw());
        let opcode = match request.ask {
            Ask::Read => Opcode::Read,
            Ask::Write { .. } => Opcode::Write,
            Ask::Remove { .. } => Opcode::Remove,
            Ask::Increment { .. } | Ask::Append { .. } | Ask::Count | Ask::Scan | Ask::Commit(_) => {
                unreachable!("the specimen has neither counters nor scans")
            }
        };
        let header = Header { lease: self.lease, sequence: self.sequence, ..Header::request(opcode, rpc) };
        let key = request.key;
        effects.send_with(Peer::Addr(addr), |out| {
            frame::write(out, &header, |out| match request.ask {
                Ask::Read => KeyRequest { table: TABLE, rules: rules(Condition::Free), key }.encode(out),
                Ask::Write { value, condition, ttl } => {
                    assert!(ttl.is_none(), "the specimen's objects do not end");
                    WriteRequest { table: TABLE, rules: rules(condition), expiry: None, key, value }
                        .encode(out);
                }
                Ask::Remove { condition } => {
                    KeyRequest { table: TABLE, rules: rules(condition), key }.encode(out)
                }
                Ask::Increment { .. } | Ask::Append { .. } | Ask::Count | Ask::Scan | Ask::Commit(_) => {
                    unreachable!("the specimen has neither counters nor scans")
                }
            });
        });
        self.open = Some(Open { rpc, opcode, addr, deadline: now + PATIENCE });
    }

    fn take_end(&mut self) -> Option<(usize, End)> {
        self.end.take().map(|end| (0, end))
    }
}

impl Machine for SpecimenSession {
    fn step(&mut self, now: Instant, input: Input<'_>, _: &mut Effects) {
        match input {
            Input::Frame { bytes, .. } => {
                if let Ok((header, body)) = frame::parse(bytes) {
                    self.on_reply(&header, body);
                }
            }
            Input::Lost { addr, how } => {
                if self.open.as_ref().is_some_and(|open| open.addr == addr) {
                    self.give_up(how == Lost::Refused);
                }
            }
            Input::Start { .. }
            | Input::Tick
            | Input::Closed { .. }
            | Input::Disk { .. }
            | Input::Store { .. }
            | Input::Secret { .. }
            | Input::Met { .. }
            | Input::Bytes { .. }
            | Input::Stop => {}
        }
        if self.open.as_ref().is_some_and(|open| open.deadline <= now) {
            self.give_up(false);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.open.as_ref().map(|open| open.deadline)
    }
}

/// The present version, which a refused condition tells.
pub(super) fn version_there(version: Option<Version>) -> Version {
    version.unwrap_or(Version::NONE)
}
