//! A server of the specimen: a map in memory, a log on the device, one batch of records at a time.
//!
//! Record: length u32, crc u32, then version u64, kind u8, key length u32, key, value. Each checksum begins
//! with the one before it. So bytes that an older life left behind the end are never taken for a
//! continuation.

use super::Planted;
use super::session::version_there;
use ramhold_base::bytes::{Put, Reader};
use ramhold_base::checksum::{crc, crc_append};
use ramhold_base::{
    ConnId, DiskFile, DiskToken, Effect, Effects, Input, Instant, LeaseId, Level, Machine, Peer, Sequence,
    ServerId, Status, Version,
};
use ramhold_wire::data::{KeyRequest, ReadReply, RejectRules, WriteRequest, encode_version};
use ramhold_wire::{Header, Opcode, frame};
use std::collections::BTreeMap;

const READ_ALL: DiskToken = DiskToken(1);
const SYNC_FOUND: DiskToken = DiskToken(2);
const WRITE_BATCH: DiskToken = DiskToken(3);
const SYNC_BATCH: DiskToken = DiskToken(4);
/// Mutations that may wait for the batch before theirs. More are refused, so that refusals are common.
const WAITING_MAX: usize = 1;
const LOG_BYTES_MAX: u32 = 1 << 28;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Object {
    version: Version,
    value: Vec<u8>,
}

struct Mutation {
    from: ConnId,
    header: Header,
    rules: RejectRules,
    key: Vec<u8>,
    /// None: remove.
    value: Option<Vec<u8>>,
    /// The result of the early check, where that defect is planted.
    early: Option<Result<(), Status>>,
}

pub struct SpecimenServer {
    planted: Option<Planted>,
    objects: BTreeMap<Vec<u8>, Object>,
    /// The objects before their last change, for a planted fault.
    old: BTreeMap<Vec<u8>, Object>,
    version: Version,
    /// The last request of each session.
    sessions: BTreeMap<LeaseId, Sequence>,
    waiting: Vec<Mutation>,
    /// Changes and answers of the batch that is being written.
    changes: Vec<(Vec<u8>, Option<Object>)>,
    answers: Vec<(ConnId, Header, Version)>,
    writing: bool,
    ready: bool,
    log_end: u64,
    log_crc: u32,
    reads: u64,
}

impl SpecimenServer {
    pub fn new(planted: Option<Planted>) -> SpecimenServer {
        SpecimenServer {
            planted,
            objects: BTreeMap::new(),
            old: BTreeMap::new(),
            version: Version(0),
            sessions: BTreeMap::new(),
            waiting: Vec::new(),
            changes: Vec::new(),
            answers: Vec::new(),
            writing: false,
            ready: false,
            log_end: 0,
            log_crc: 0,
            reads: 0,
        }
    }

    fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    fn on_log(&mut self, log: &[u8], effects: &mut Effects) {
        let mut rest = log;
        while let Some((record, after)) = self.next_record(rest) {
            let taken = rest.len() - after.len();
            rest = after;
            self.log_end += taken as u64;
            self.log_crc = crc_append(self.log_crc, record);
            let Some((key, object, version)) = decode_change(record) else { break };
            self.version = self.version.max(version);
            self.apply(key, object);
        }
        if self.has(Planted::ServeUnsynced) {
            self.ready = true;
        } else {
            effects.push(Effect::DiskSync { token: SYNC_FOUND, file: DiskFile::Frames });
        }
        if !rest.is_empty() && rest.iter().any(|b| *b != 0) {
            effects.report(Level::Debug, "mark:torn log tail");
        }
    }

    /// The next record's payload, and what follows it.
    fn next_record<'a>(&self, rest: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let mut reader = Reader::new(rest);
        let (length, sum) = (reader.u32()?, reader.u32()?);
        let record = reader.take(length as usize)?;
        (length > 0 && crc_append(self.log_crc, record) == sum).then_some((record, reader.rest()))
    }

    fn apply(&mut self, key: Vec<u8>, object: Option<Object>) {
        match object {
            Some(object) => {
                if let Some(before) = self.objects.insert(key.clone(), object) {
                    self.old.insert(key, before);
                }
            }
            None => {
                self.objects.remove(&key);
            }
        }
    }

    fn on_frame(&mut self, from: ConnId, bytes: &[u8], effects: &mut Effects) {
        let Ok((header, body)) = frame::parse(bytes) else {
            return effects.report(Level::Debug, "mark:bad frame");
        };
        // The request is remembered before it may be refused: a second copy must not be carried out after the
        // first was refused.
        let last = self.sessions.entry(header.lease).or_default();
        if *last >= header.sequence && self.planted != Some(Planted::ForgetRequests) {
            return effects.report(Level::Debug, "mark:repeated request");
        }
        let refused = !self.ready || self.waiting.len() >= WAITING_MAX;
        if !(refused && self.planted == Some(Planted::ForgetRefused)) {
            *last = header.sequence.max(*last);
        }
        if !self.ready {
            return answer(effects, from, &header, Status::NotReady, |_| {});
        }
        if self.waiting.len() >= WAITING_MAX {
            return answer(effects, from, &header, Status::TooMany, |_| {});
        }
        let mutation = match header.opcode() {
            Some(Opcode::Read) => match KeyRequest::decode(body) {
                Ok(request) => return self.read(from, &header, request.key, effects),
                Err(status) => Err(status),
            },
            Some(Opcode::Write) => {
                WriteRequest::decode(body).map(|w| (w.rules, w.key.to_vec(), Some(w.value.to_vec())))
            }
            Some(Opcode::Remove) => KeyRequest::decode(body).map(|r| (r.rules, r.key.to_vec(), None)),
            _ => Err(Status::UnknownOpcode),
        };
        let (rules, key, value) = match mutation {
            Ok(mutation) => mutation,
            Err(status) => return answer(effects, from, &header, status, |_| {}),
        };
        if self.has(Planted::RemoveInMemory) && value.is_none() && rules == RejectRules::default() {
            self.version = self.version.next();
            let version = if self.objects.remove(&key).is_some() { self.version } else { Version::NONE };
            return answer(effects, from, &header, Status::Ok, |out| encode_version(out, version));
        }
        let early = self
            .has(Planted::CheckConditionsEarly)
            .then(|| rules.check(self.objects.get(&key).map(|object| object.version)));
        self.waiting.push(Mutation { from, header, rules, key, value, early });
        self.advance(effects);
    }

    fn read(&mut self, from: ConnId, header: &Header, key: &[u8], effects: &mut Effects) {
        self.reads += 1;
        let unsynced = self.changes.iter().rev().find(|(changed, _)| changed == key);
        let object = match unsynced {
            Some((_, change)) if self.has(Planted::ReadUnsynced) => change.as_ref(),
            _ if self.has(Planted::ReadOld) && self.reads.is_multiple_of(64) => {
                self.old.get(key).or_else(|| self.objects.get(key))
            }
            _ => self.objects.get(key),
        };
        match object {
            Some(object) => answer(effects, from, header, Status::Ok, |out| {
                ReadReply::encode_head(out, object.version, 0, None);
                out.put_bytes(&object.value);
            }),
            None => answer(effects, from, header, Status::NotFound, |_| {}),
        }
    }

    /// Turns waiting mutations into one batch, when none is being written.
    fn advance(&mut self, effects: &mut Effects) {
        if self.writing || self.waiting.is_empty() {
            return;
        }
        let mut batch = Vec::new();
        for mutation in std::mem::take(&mut self.waiting) {
            self.take_mutation(mutation, &mut batch, effects);
        }
        self.writing = true;
        effects.disk_write(WRITE_BATCH, DiskFile::Frames, self.log_end, &batch);
        self.log_end += batch.len() as u64;
    }

    fn take_mutation(&mut self, mutation: Mutation, batch: &mut Vec<u8>, effects: &mut Effects) {
        let Mutation { from, header, rules, key, value, early } = mutation;
        let changed = self.changes.iter().rev().find(|(k, _)| *k == key).map(|(_, object)| object.as_ref());
        let there = changed.unwrap_or_else(|| self.objects.get(&key)).map(|object| object.version);
        if let Err(status) = early.unwrap_or_else(|| rules.check(there)) {
            // The state that refused it may not be synced yet. The answer waits for the sync with the others.
            if self.changes.is_empty() {
                answer(effects, from, &header, status, |out| encode_version(out, version_there(there)));
            } else {
                let refused = Header { status: status.code(), ..header };
                self.answers.push((from, refused, version_there(there)));
            }
            return;
        }
        if value.is_none() && there.is_none() {
            return self.answers.push((from, header, Version::NONE));
        }
        self.version = self.version.next();
        let version = match there {
            None if self.has(Planted::RestartVersions) => Version(1),
            Some(version) if self.has(Planted::RestartVersions) => version.next(),
            _ => self.version,
        };
        let start = batch.len();
        batch.put_u64(0);
        batch.put_u64(version.raw());
        batch.put_u8(u8::from(value.is_some()));
        batch.put_u32(key.len() as u32);
        batch.put_bytes(&key);
        batch.put_bytes(value.as_deref().unwrap_or_default());
        self.log_crc = crc_append(self.log_crc, &batch[start + 8..]);
        let length = (batch.len() - start - 8) as u32;
        batch[start..start + 4].copy_from_slice(&length.to_le_bytes());
        batch[start + 4..start + 8].copy_from_slice(&self.log_crc.to_le_bytes());
        self.changes.push((key, value.map(|value| Object { version, value })));
        self.answers.push((from, header, version));
    }

    fn commit(&mut self, effects: &mut Effects) {
        for (key, object) in std::mem::take(&mut self.changes) {
            self.apply(key, object);
        }
        for (from, header, version) in std::mem::take(&mut self.answers) {
            let status = header.status();
            answer(effects, from, &header, status, |out| encode_version(out, version));
        }
    }
}

fn decode_change(record: &[u8]) -> Option<(Vec<u8>, Option<Object>, Version)> {
    let mut reader = Reader::new(record);
    let version = Version(reader.u64()?);
    let kind = reader.u8()?;
    let key_bytes = reader.u32()?;
    let key = reader.take(key_bytes as usize)?.to_vec();
    let value = reader.rest().to_vec();
    Some((key, (kind == 1).then_some(Object { version, value }), version))
}

fn answer(
    effects: &mut Effects,
    to: ConnId,
    request: &Header,
    status: Status,
    body: impl FnOnce(&mut Vec<u8>),
) {
    let header = Header { sender: ServerId(1), ..request.answer(status) };
    effects.send_with(Peer::Conn(to), |out| frame::write(out, &header, body));
}

impl Machine for SpecimenServer {
    fn step(&mut self, _: Instant, input: Input<'_>, effects: &mut Effects) {
        match input {
            Input::Start { .. } => {
                self.log_crc = crc(b"specimen");
                let read = Effect::DiskRead {
                    token: READ_ALL,
                    file: DiskFile::Frames,
                    offset: 0,
                    bytes: LOG_BYTES_MAX,
                };
                effects.push(read);
            }
            Input::Frame { from, bytes } => self.on_frame(from, bytes, effects),
            Input::Disk { token, result: Ok(bytes) } => match token {
                READ_ALL => self.on_log(bytes, effects),
                SYNC_FOUND => self.ready = true,
                WRITE_BATCH => {
                    effects.push(Effect::DiskSync { token: SYNC_BATCH, file: DiskFile::Frames });
                    if self.has(Planted::AcknowledgeUnsynced) {
                        self.commit(effects);
                    }
                }
                SYNC_BATCH => {
                    self.commit(effects);
                    self.writing = false;
                    self.advance(effects);
                }
                DiskToken(other) => panic!("no such disk token: {other}"),
            },
            Input::Disk { result: Err(error), .. } => {
                effects.push(Effect::Exit { code: 1, reason: format!("the device failed: {error:?}") });
            }
            Input::Stop => effects.push(Effect::Exit { code: 0, reason: "asked to".into() }),
            Input::Tick
            | Input::Lost { .. }
            | Input::Closed { .. }
            | Input::Store { .. }
            | Input::Secret { .. }
            | Input::Met { .. }
            | Input::Bytes { .. } => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}
