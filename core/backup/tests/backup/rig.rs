//! A backup on a disk in memory, whose process can die between any two disk effects and whose power can fail.

use ramhold_backup::{Backup, BackupConfig, Buffers, ReplicaState};
use ramhold_base::bytes::Put;
use ramhold_base::checksum::crc;
use ramhold_base::*;
use ramhold_wire::control::{Address, encode_into};
use ramhold_wire::data::{AppendReply, AppendRequest, Certificate};
use ramhold_wire::membership::{ServerEntry, ServerListUpdate, ServerState};
use ramhold_wire::recovery::{Fence, Fenced, ReadTimes, RecoveryRead};
use ramhold_wire::{Header, Kind, Message, Opcode, View, frame};
use std::collections::VecDeque;
use std::time::Duration;

pub const SEGMENT_BYTES: u32 = 2048;
pub const PLACE_BYTES: usize = 4096 + SEGMENT_BYTES as usize;
pub const MASTER: ServerId = ServerId(1);
pub const OTHER: ServerId = ServerId(2);
pub const CLUSTER: ClusterId = ClusterId(77);
const CONN: ConnId = ConnId(5);

pub fn config() -> BackupConfig {
    BackupConfig {
        segment_bytes: SEGMENT_BYTES,
        frames_max: 12,
        frames_grow_by: 4,
        buffers: Buffers::Reserved { count: 6 },
        buffers_survive_power: false,
        flush_interval: Duration::from_millis(100),
        recovery_cache_bytes: 2 * u64::from(SEGMENT_BYTES),
        found_cache_bytes: 0,
        needed_interval: Duration::from_secs(1),
        directory: "/data".into(),
        is_own: false,
        mode: "buffers in memory".into(),
    }
}

pub fn in_frames() -> BackupConfig {
    BackupConfig { buffers: Buffers::InFrames, ..config() }
}

#[derive(Clone, Default)]
pub struct File {
    pub now: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

impl File {
    fn write(&mut self, offset: u64, data: &[u8]) {
        let at = offset as usize;
        if self.now.len() < at + data.len() {
            self.now.resize(at + data.len(), 0);
        }
        self.now[at..at + data.len()].copy_from_slice(data);
        self.unsynced.push((at, data.to_vec()));
    }

    fn read(&self, offset: u64, bytes: u32) -> &[u8] {
        let at = (offset as usize).min(self.now.len());
        &self.now[at..(at + bytes as usize).min(self.now.len())]
    }

    fn reserve(&mut self, bytes: u64) {
        for content in [&mut self.now, &mut self.synced] {
            let length = content.len().max(bytes as usize);
            content.resize(length, 0);
        }
    }

    fn sync(&mut self) {
        self.synced = self.now.clone();
        self.unsynced.clear();
    }

    /// Every sector of every write that was not synced survives or not.
    fn power_cut(&mut self, rng: &mut Rng) {
        for (at, data) in std::mem::take(&mut self.unsynced) {
            let mut from = 0;
            while from < data.len() {
                let to = data.len().min((at + from) / 512 * 512 + 512 - at);
                if rng.chance(1, 2) {
                    if self.synced.len() < at + to {
                        self.synced.resize(at + to, 0);
                    }
                    self.synced[at + from..at + to].copy_from_slice(&data[from..to]);
                }
                from = to;
            }
        }
        self.now = self.synced.clone();
    }
}

#[derive(Clone, Default)]
pub struct Disk {
    pub superblock: File,
    pub frames: File,
    pub buffers: File,
    /// From now on a sync of frames fails; so does each reservation of frames beyond this.
    pub sync_fails: bool,
    pub frames_bytes_max: Option<u64>,
    pub reads_fail: bool,
    /// So many reads fail, and then no more.
    pub reads_failing: u32,
}

impl Disk {
    pub fn file(&mut self, file: DiskFile) -> &mut File {
        match file {
            DiskFile::Superblock => &mut self.superblock,
            DiskFile::Frames => &mut self.frames,
            DiskFile::Buffers => &mut self.buffers,
        }
    }
}

/// File, offset, bytes.
type Read = (DiskFile, u64, u32);

enum Work {
    Write(DiskToken, DiskFile, u64, Vec<u8>),
    Other(Effect),
}

pub struct Rig {
    pub config: BackupConfig,
    pub backup: Backup,
    pub disk: Disk,
    pub view: View,
    pub now: Instant,
    pub sent: Vec<(Peer, Header, Vec<u8>)>,
    pub reports: Vec<(Level, String)>,
    work: VecDeque<Work>,
    /// The operations on the frames, in order.
    pub trace: Vec<&'static str>,
    /// Disk effects that are still executed before the process is dead; `None`: it lives.
    pub fuse: Option<u32>,
    /// Disk effects wait until `run` when set.
    pub hold: bool,
    pub life: u64,
    rpc: u64,
}

pub fn entry(id: ServerId, state: ServerState) -> ServerEntry {
    ServerEntry {
        id,
        address: Address(format!("10.0.0.{}:1", id.raw() % 250).parse().unwrap()),
        labels: Vec::new(),
        state,
        master: true,
        backup: true,
        read_speed: 1,
        directory: DirectoryId(id.raw()),
        kept: false,
        replicates: false,
        replicates_only: None,
        redis_cluster_port: None,
        links: None,
    }
}

impl Rig {
    pub fn new(config: BackupConfig) -> Rig {
        Rig::on(config, Disk::default(), 1)
    }

    /// A backup's first steps on a disk, up to serving.
    pub fn on(config: BackupConfig, disk: Disk, life: u64) -> Rig {
        let mut rig = Rig::asleep(config, disk, life);
        rig.wake();
        assert_eq!(rig.backup.start_error(), None);
        assert!(rig.backup.is_serving());
        rig
    }

    pub fn asleep(config: BackupConfig, disk: Disk, life: u64) -> Rig {
        let mut view = View::new("10.0.0.99:1".parse().unwrap());
        view.cluster = CLUSTER;
        view.me = ServerId(100 + life);
        let mut rig = Rig {
            backup: Backup::new(config.clone(), life),
            config,
            disk,
            view,
            now: Instant(life * 1_000_000_000_000),
            sent: Vec::new(),
            reports: Vec::new(),
            work: VecDeque::new(),
            trace: Vec::new(),
            fuse: None,
            hold: false,
            life,
            rpc: 0,
        };
        rig.apply(vec![MASTER, OTHER].into_iter().map(|id| entry(id, ServerState::Up)).collect(), Vec::new());
        rig
    }

    pub fn wake(&mut self) {
        self.with(|backup, now, _, effects| backup.start(now, effects));
        if self.backup.identity().is_some() {
            self.with(|backup, now, view, effects| backup.enlisted(now, view, effects));
        }
    }

    fn apply(&mut self, changed: Vec<ServerEntry>, removed: Vec<ServerId>) {
        let from = self.view.list.version();
        let me = entry(self.view.me, ServerState::Up);
        let update = ServerListUpdate {
            from,
            to: from + 1,
            changed: changed.into_iter().chain([me]).collect(),
            removed,
            issued: self.view.me,
            time: ClusterTime(0),
            coordinator: None,
            copyset_rings: None,
            placement: None,
            topology: Default::default(),
            bricks: None,
            accounts: None,
        };
        assert!(self.view.list.apply(&update));
    }

    pub fn list(&mut self, changed: Vec<ServerEntry>, removed: Vec<ServerId>) {
        self.apply(changed, removed);
        self.with(|backup, now, view, effects| backup.on_list(now, view, effects));
    }

    pub fn with(&mut self, step: impl FnOnce(&mut Backup, Instant, &View, &mut Effects)) {
        self.with_frame(&[], step);
    }

    /// The same for a message whose frame ends with these bytes.
    fn with_frame(&mut self, frame: &[u8], step: impl FnOnce(&mut Backup, Instant, &View, &mut Effects)) {
        let mut effects = Effects::new();
        self.backup.resume(self.now);
        step(&mut self.backup, self.now, &self.view, &mut effects);
        self.take(effects, frame);
        if !self.hold {
            self.run();
        }
    }

    fn take(&mut self, effects: Effects, frame: &[u8]) {
        for effect in effects.list {
            match effect {
                Effect::Send { to, frame } => {
                    let bytes = frame.of(&effects.bytes);
                    let (header, body) = frame::parse(&bytes).unwrap();
                    self.sent.push((to, header, body.to_vec()));
                }
                Effect::Mark(_) => {}
                Effect::Report { level, text } => self.reports.push((level, text)),
                Effect::DiskWrite { token, file, offset, data } => {
                    let data = data.of(&effects.bytes, frame).to_vec();
                    self.work.push_back(Work::Write(token, file, offset, data));
                }
                other => self.work.push_back(Work::Other(other)),
            }
        }
    }

    /// Executes disk effects until there are none, or the process is dead.
    pub fn run(&mut self) {
        while self.run_one() {}
    }

    pub fn run_one(&mut self) -> bool {
        if let Some(fuse) = &mut self.fuse {
            if *fuse == 0 {
                return false;
            }
            *fuse -= 1;
        }
        let Some(work) = self.work.pop_front() else { return false };
        let (token, result) = self.execute(work);
        let mut effects = Effects::new();
        self.backup.resume(self.now);
        let result = result.map(|read| match read {
            Some((file, offset, bytes)) => self.disk.file(file).read(offset, bytes),
            None => &[][..],
        });
        self.backup.on_disk(self.now, token, result, &self.view, &mut effects);
        self.take(effects, &[]);
        true
    }

    /// Bytes that are to be read are not copied here: tests with many large reads would do little else.
    fn execute(&mut self, work: Work) -> (DiskToken, Result<Option<Read>, DiskError>) {
        let failed = || Err(DiskError::Failed("broken".into()));
        let effect = match work {
            Work::Write(token, file, offset, data) => {
                if file == DiskFile::Frames {
                    self.trace.push("write");
                }
                self.disk.file(file).write(offset, &data);
                return (token, Ok(None));
            }
            Work::Other(effect) => effect,
        };
        match effect {
            Effect::DiskRead { token, file, offset, bytes } => {
                let fails = self.disk.reads_fail || self.disk.reads_failing > 0;
                self.disk.reads_failing = self.disk.reads_failing.saturating_sub(1);
                (token, if fails { failed() } else { Ok(Some((file, offset, bytes))) })
            }
            Effect::DiskCopy { token, from, from_offset, to, to_offset, bytes } => {
                let data = self.disk.file(from).read(from_offset, bytes).to_vec();
                assert_eq!(data.len(), bytes as usize);
                self.trace.push("copy");
                self.disk.file(to).write(to_offset, &data);
                (token, Ok(None))
            }
            Effect::DiskSync { token, file } if self.disk.sync_fails && file == DiskFile::Frames => {
                (token, failed())
            }
            Effect::DiskSync { token, file } => {
                if file == DiskFile::Frames {
                    self.trace.push("sync");
                }
                self.disk.file(file).sync();
                (token, Ok(None))
            }
            Effect::DiskReserve { token, file, bytes } => {
                let is_over =
                    file == DiskFile::Frames && self.disk.frames_bytes_max.is_some_and(|max| bytes > max);
                if is_over {
                    let held = self.disk.frames.now.len() as u64;
                    let max = self.disk.frames_bytes_max.unwrap_or_default();
                    return (token, Err(DiskError::Full { free_bytes: max.saturating_sub(held) }));
                }
                self.disk.file(file).reserve(bytes);
                (token, Ok(None))
            }
            other => panic!("not a disk effect: {other:?}"),
        }
    }

    /// Lets time pass; everything that becomes due is done on the way.
    pub fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(at) = self.backup.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.with(|backup, now, view, effects| backup.tick(now, view, effects));
            if self.fuse == Some(0) {
                break;
            }
        }
        self.now = end;
    }

    /// The process dies; what was written stays.
    pub fn crash(self) -> Rig {
        Rig::on(self.config, self.disk, self.life + 1)
    }

    /// Power fails: buffers are gone, writes that were not synced may be.
    pub fn power_cut(mut self, rng: &mut Rng) -> Rig {
        self.cut_power(rng);
        Rig::on(self.config, self.disk, self.life + 1)
    }

    pub fn cut_power(&mut self, rng: &mut Rng) {
        self.disk.superblock.power_cut(rng);
        self.disk.frames.power_cut(rng);
        self.disk.buffers = File::default();
    }

    pub fn header(&mut self, opcode: Opcode, sender: ServerId) -> Header {
        self.rpc += 1;
        Header {
            kind: Kind::Request,
            opcode: opcode.code(),
            rpc: RpcId(self.rpc),
            cluster: CLUSTER,
            sender,
            target: self.view.me,
            ..Header::default()
        }
    }

    pub fn request(&mut self, header: &Header, body: &[u8]) {
        self.with_frame(body, |backup, now, view, effects| {
            let asked = header.opcode().expect("an operation").try_into().expect("of backups");
            backup.on_request(now, asked, header, body, CONN, view, effects);
        });
    }

    /// The answer to a request, if it has come.
    pub fn answer(&self, header: &Header) -> Option<(Status, Vec<u8>)> {
        let answers =
            self.sent.iter().filter(|(_, sent, _)| sent.kind == Kind::Reply && sent.rpc == header.rpc);
        let mut answers: Vec<_> = answers.collect();
        assert!(answers.len() <= 1, "a request is answered once");
        answers.pop().map(|(to, sent, body)| {
            assert_eq!(*to, Peer::Conn(CONN));
            (sent.status(), body.clone())
        })
    }

    pub fn append_header(&mut self, log: &Log) -> Header {
        let mut header = self.header(Opcode::Append, log.server);
        header.stream = log.stream;
        header.segment = log.segment;
        header.epoch = log.epoch;
        header
    }

    /// Sends an append and answers with what came back.
    pub fn append(&mut self, log: &Log, request: AppendRequest<'_>) -> (Status, AppendReply) {
        let header = self.append_header(log);
        self.request(&header, &body(&request));
        let (status, body) = self.answer(&header).expect("an append is answered when the disk is done");
        (status, AppendReply::decode(&body).unwrap())
    }

    pub fn fence(&mut self, crashed: ServerId) -> Fenced {
        let header = self.header(Opcode::Fence, ServerId::NONE);
        self.request(&header, &cbor(&Fence { crashed }));
        let (status, body) = self.answer(&header).expect("a fence is answered when the disk is done");
        assert_eq!(status, Status::Ok);
        ramhold_wire::decode(&body).unwrap()
    }

    pub fn recovery_read(&mut self, read: &RecoveryRead) -> (Status, Vec<u8>) {
        let header = self.header(Opcode::RecoveryRead, OTHER);
        self.request(&header, &cbor(read));
        self.records(&header).expect("a read is answered when the disk is done")
    }

    /// The answer to a recovery read, without its times.
    pub fn records(&self, header: &Header) -> Option<(Status, Vec<u8>)> {
        self.answer(header).map(|(status, body)| match ReadTimes::split(&body) {
            Some((_, records)) if status == Status::Ok => (status, records.to_vec()),
            _ => (status, body),
        })
    }

    pub fn free(&mut self, log: &Log) -> Status {
        let mut header = self.append_header(log);
        header.opcode = Opcode::ReplicaFree.code();
        self.request(&header, &[]);
        self.answer(&header).expect("a free is answered at once").0
    }

    pub fn state(&self, log: &Log) -> ReplicaState {
        let mut states =
            self.backup.replicas().filter(|r| r.log.server == log.server && r.segment == log.segment);
        let state = states.next().expect("the replica is held");
        assert!(states.next().is_none(), "only one of it");
        state
    }

    /// The messages that this backup sent by itself.
    pub fn questions(&mut self) -> Vec<(Header, Vec<u8>)> {
        let sent = std::mem::take(&mut self.sent);
        sent.into_iter().filter(|(_, h, _)| h.kind == Kind::Request).map(|(_, h, body)| (h, body)).collect()
    }

    pub fn has_error(&self) -> bool {
        self.reports.iter().any(|(level, _)| *level == Level::Error)
    }
}

pub fn body(request: &AppendRequest<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.encode_head(&mut bytes);
    bytes.extend_from_slice(request.data);
    bytes
}

pub fn cbor<M: Message>(message: &M) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_into(&mut bytes, message);
    bytes
}

/// A master's segment, as it sends it.
#[derive(Clone)]
pub struct Log {
    pub server: ServerId,
    pub stream: StreamId,
    pub segment: SegmentId,
    pub epoch: Epoch,
    pub bytes: Vec<u8>,
}

impl Log {
    pub fn new(segment: u64) -> Log {
        Log {
            server: MASTER,
            stream: StreamId(1),
            segment: SegmentId(segment),
            epoch: Epoch(0),
            bytes: Vec::new(),
        }
    }

    /// A head: its header, a digest, a safe version.
    pub fn head(segment: u64, digest: &[u64]) -> Log {
        let mut log = Log::new(segment);
        let mut header = Vec::new();
        header.put_u16(ramhold_log::FORMAT);
        header.put_u16(0);
        header.put_u16(1);
        [CLUSTER.raw(), MASTER.raw(), segment, 5].into_iter().for_each(|field| header.put_u64(field));
        log.bytes.extend(sealed(3, &header));
        let mut list = vec![1, 0];
        digest.iter().for_each(|id| list.put_u64(*id));
        log.bytes.extend(sealed(4, &list));
        log.bytes.extend(sealed(5, &9u64.to_le_bytes()));
        log
    }

    pub fn grow(&mut self, bytes: usize) {
        let from = self.bytes.len();
        self.bytes.extend((from..from + bytes).map(|i| (i * 7 + self.segment.raw() as usize) as u8));
    }

    pub fn certificate(&self, length: usize) -> Certificate {
        Certificate {
            length: length as u32,
            crc: crc(&self.bytes[..length]),
            time: ClusterTime(length as u64),
        }
    }

    /// Everything from `from` on, certified.
    pub fn from(&self, from: usize) -> AppendRequest<'_> {
        AppendRequest {
            open: from == 0,
            offset: from as u32,
            certificate: Some(self.certificate(self.bytes.len())),
            data: &self.bytes[from..],
            ..AppendRequest::default()
        }
    }

    pub fn close(&self) -> AppendRequest<'_> {
        AppendRequest { close: true, ..self.from(self.bytes.len()) }
    }
}

/// The bytes of a log entry of some kind.
pub fn sealed(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut rest = Vec::new();
    rest.put_u32(kind << 26 | body.len() as u32);
    rest.put_bytes(body);
    let mut bytes = Vec::new();
    bytes.put_u32(crc(&rest));
    bytes.put_bytes(&rest);
    bytes
}
