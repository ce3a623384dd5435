//! The backup role as one machine: its inputs, their dispatch, and its deadline.
//!
//! Each input changes what is wanted; `advance` then takes every next step that is possible. A replica found at start
//! takes no appends: it is only flushed, read and freed. A segment that its master opens again is a new replica, which
//! replaces the old one when it has a certificate.
//!
//! Invariants:
//! - `present` and `found` name disjoint replicas, each by its own key;
//! - a frame or a buffer belongs to at most one replica;
//! - nothing is answered `Ok` after the device has failed.
//!
//! Catalogue: D1, D7, F2, F4.

use crate::collection::Question;
use crate::config::{BackupConfig, Buffers};
use crate::disk::Disk;
use crate::fence::PendingFence;
use crate::flush::Stop;
use crate::growth::Growth;
use crate::keys::{ReplicaKey, ReplicaNumber};
use crate::recovery_read::Divisions;
use crate::replica::Replica;
use crate::replica_read::PendingRead;
use crate::space::Space;
use crate::start::Start;
use crate::superblock::{Identity, Superblock};
use crate::work::Works;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::time::earliest;
use ramhold_base::{
    ConnId, Effects, Epoch, Instant, LogId, Peer, Rng, SegmentId, ServerId, Status, StreamId,
};
use ramhold_wire::data::Certificate;
use ramhold_wire::status::BackupStatus;
use ramhold_wire::{Calls, Header, Opcode, Standing, View, reply};
use std::collections::{BTreeMap, BTreeSet};

/// The number of this role in rpc ids; see `wire::calls::role_of`.
const ROLE: u8 = 2;

/// The backup role of one server.
#[derive(Debug)]
pub struct Backup {
    pub(crate) config: BackupConfig,
    pub(crate) rng: Rng,
    /// The durable contents of the superblock file.
    pub(crate) superblock: Option<Superblock>,
    /// The next contents of the superblock file, except its sequence and buffer id.
    pub(crate) superblock_wanted: Option<Superblock>,
    pub(crate) superblock_writing: Option<Superblock>,
    pub(crate) buffer_id: u64,
    pub(crate) start: Start,
    pub(crate) is_scanned: bool,
    pub(crate) is_enlisted: bool,
    pub(crate) is_serving: bool,
    pub(crate) start_error: Option<String>,
    pub(crate) failed: Option<String>,
    pub(crate) stopping: Option<Stop>,

    pub(crate) disk: Disk,
    pub(crate) space: Space,
    pub(crate) growth: Growth,
    /// The sequence number of the slot written last.
    pub(crate) sequence: u64,
    pub(crate) replica_last: u64,
    pub(crate) replicas: BTreeMap<ReplicaNumber, Replica>,
    /// Replicas opened in this life, to which masters append.
    pub(crate) present: BTreeMap<ReplicaKey, ReplicaNumber>,
    /// Replicas found at start or replaced, which take no appends.
    pub(crate) found: BTreeMap<ReplicaKey, ReplicaNumber>,

    /// Replicas to be flushed, with the instants when they are due.
    pub(crate) flush_due: BTreeSet<(Instant, ReplicaNumber)>,
    pub(crate) flush_count: u32,
    /// Replicas that may be ready to be wiped, or to give their buffers back.
    pub(crate) settling: BTreeSet<ReplicaNumber>,

    pub(crate) fenced: BTreeSet<ServerId>,
    /// When this life began, and when it last accepted an append from each server. Each of these may have granted a
    /// read lease: that server may answer reads for `READ_LEASE` from then on (docs/protocols/read-leases.md).
    pub(crate) began: Instant,
    pub(crate) accepted: BTreeMap<ServerId, Instant>,
    pub(crate) fences: Vec<PendingFence>,
    pub(crate) opening_reads: u32,
    pub(crate) divisions: Divisions,
    pub(crate) works: Works,
    pub(crate) replica_reads: BTreeMap<u64, PendingRead>,
    pub(crate) calls: Calls<Question>,
    pub(crate) ask_at: Option<Instant>,
    /// The replica behind which the next question to a master begins.
    pub(crate) ask_from: BTreeMap<ServerId, ReplicaKey>,
    pub(crate) ask_from_present: BTreeMap<ServerId, ReplicaKey>,
    pub(crate) is_collection_due: bool,
    /// Masters of replicas whose ids this cluster's coordinator has never given out.
    pub(crate) never_issued: BTreeSet<ServerId>,
}

/// One replica, for audits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaState {
    pub log: LogId,
    pub stream: StreamId,
    pub segment: SegmentId,
    pub epoch: Epoch,
    pub closed: bool,
    /// Bytes held without a gap, certified or not.
    pub length: u32,
    /// The newest certificate that was written.
    pub certificate: Option<Certificate>,
    /// As `AppendReply::flushed`.
    pub flushed: u32,
    pub primary: bool,
    pub side: bool,
    /// The replica is from an earlier life, or was replaced by a newer opening.
    pub found: bool,
    pub cut: bool,
    pub corrupt: bool,
}

impl Backup {
    /// `seed` must differ from life to life, because ids are made from it.
    pub fn new(config: BackupConfig, seed: u64) -> Backup {
        config.check();
        let mut rng = Rng::new(seed);
        let calls = Calls::new(ROLE, rng.u64());
        let growth = Growth::new(config.frames_grow_by);
        let divisions = Divisions::new(config.recovery_cache_bytes);
        Backup {
            config,
            rng,
            superblock: None,
            superblock_wanted: None,
            superblock_writing: None,
            buffer_id: 0,
            start: Start::default(),
            is_scanned: false,
            is_enlisted: false,
            is_serving: false,
            start_error: None,
            failed: None,
            stopping: None,
            disk: Disk::default(),
            space: Space::default(),
            growth,
            sequence: 0,
            replica_last: 0,
            replicas: BTreeMap::new(),
            present: BTreeMap::new(),
            found: BTreeMap::new(),
            flush_due: BTreeSet::new(),
            flush_count: 0,
            settling: BTreeSet::new(),
            fenced: BTreeSet::new(),
            began: Instant::ZERO,
            accepted: BTreeMap::new(),
            fences: Vec::new(),
            opening_reads: 0,
            divisions,
            works: Works::default(),
            replica_reads: BTreeMap::new(),
            calls,
            ask_at: None,
            ask_from: BTreeMap::new(),
            ask_from_present: BTreeMap::new(),
            is_collection_due: false,
            never_issued: BTreeSet::new(),
        }
    }

    /// The identity of this data directory. It is known when it is durable, which is before the server may enlist.
    pub fn identity(&self) -> Option<Identity> {
        self.superblock.map(|superblock| superblock.identity())
    }

    /// Why this directory cannot be used. The process ends with this error.
    pub fn start_error(&self) -> Option<&str> {
        self.start_error.as_deref()
    }

    pub(crate) fn refuse_to_start(&mut self, reason: String) {
        self.start_error.get_or_insert(reason);
    }

    /// The server has enlisted. The backup makes the new identity durable, and then serves.
    pub fn enlisted(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        let superblock = self.superblock.expect("a server enlists when its directory is known");
        self.superblock_wanted =
            Some(Superblock { cluster: view.cluster, server: view.me, clean: false, ..superblock });
        self.is_enlisted = true;
        self.advance(now, view, effects);
    }

    pub fn is_serving(&self) -> bool {
        self.is_serving
    }

    /// `Append`, `ReplicaFree`, `ReplicaRead`, `Fence`, `RecoveryRead` and `RecoveryWork`. Other operations are
    /// answered with `UnknownOpcode`.
    pub fn on_request(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) {
        match header.opcode() {
            Some(Opcode::Append) => self.on_append(now, header, body, from, view, effects),
            Some(Opcode::ReplicaFree) => self.on_replica_free(header, from, view, effects),
            Some(Opcode::ReplicaRead) => self.on_replica_read(header, body, from, view, effects),
            Some(Opcode::Fence) => self.on_fence(header, body, from, view, effects),
            Some(Opcode::RecoveryRead) => self.on_recovery_read(now, header, body, from, view, effects),
            Some(Opcode::RecoveryWork) => self.on_recovery_work(now, header, body, from, view, effects),
            _ => reply(effects, Peer::Conn(from), header, Status::UnknownOpcode),
        }
        self.advance(now, view, effects);
    }

    /// The server list has changed.
    pub fn on_list(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        self.is_collection_due = true;
        self.accepted.retain(|server, _| view.list.standing(*server) != Standing::Removed);
        self.divisions.expect(view.list.up().count(), self.config.segment_bytes);
        self.advance(now, view, effects);
    }

    /// A step of the whole process begins. Work of the step before is accounted for.
    pub fn resume(&mut self, now: Instant) {
        self.note_divided(now);
    }

    pub fn tick(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        while self.calls.overdue(now).is_some() {}
        if self.failed.is_none() && self.start_error.is_none() {
            self.divisions.find(now, self.config.found_cache_bytes);
        }
        self.advance(now, view, effects);
    }

    pub fn deadline(&self) -> Option<Instant> {
        if self.failed.is_some() {
            return None;
        }
        let flush = self.next_flush().map(|(at, _)| at);
        let ask = self.ask_at.filter(|_| self.is_serving);
        let find = self.divisions.find_deadline(self.config.found_cache_bytes);
        let find = find.filter(|_| self.start_error.is_none());
        let grow = self.growth.deadline();
        earliest(earliest(flush, ask), earliest(grow, earliest(find, self.calls.deadline())))
    }

    /// Checks that a request is for this server, and that its sender may ask: the coordinator, or a server that is Up.
    pub(crate) fn check_sender(&self, header: &Header, view: &View) -> Result<(), Status> {
        if !self.is_serving || self.stopping.is_some() {
            return Err(Status::NotReady);
        }
        view.check_target(header)?;
        if header.sender.is_none() {
            return Ok(());
        }
        if planted(Defect::FenceIgnored) {
            return Ok(());
        }
        match view.list.standing(header.sender) {
            Standing::Up if self.fenced.contains(&header.sender) => Err(Status::Fenced),
            Standing::Up => Ok(()),
            Standing::Crashed | Standing::Removed => Err(Status::Fenced),
            Standing::Unknown => Err(Status::NotInCluster),
        }
    }

    pub(crate) fn check_device(&self) -> Result<(), Status> {
        if self.failed.is_some() { Err(Status::DeviceFailed) } else { Ok(()) }
    }

    /// Takes every step that is possible now.
    pub(crate) fn advance(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        if self.failed.is_none() && self.start_error.is_none() {
            self.advance_start(now, effects);
            self.house();
            self.advance_superblock(effects);
            if self.is_serving {
                self.collect(now, view, effects);
            }
            self.settle(effects);
            self.advance_flushes(now, effects);
            self.grow(now, effects);
            self.advance_fences(now, effects);
            self.advance_stop(effects);
            self.disk.advance(effects);
        }
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }

    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(crate) fn next_number(&mut self) -> ReplicaNumber {
        self.replica_last += 1;
        ReplicaNumber(self.replica_last)
    }

    /// The number of new replicas that this backup can take, now or when more frames are reserved.
    pub fn frames_left(&self) -> u64 {
        match () {
            () if self.failed.is_some() => 0,
            () if self.growth.is_short() => u64::from(self.space.frames_free()),
            // Lowering the maximum takes no frames away.
            () => u64::from(self.space.frames_max)
                .saturating_sub(self.space.frames_used())
                .max(u64::from(self.space.frames_free())),
        }
    }

    /// Whether the device has failed, so that nothing here can be trusted any more.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    pub fn status(&self, now: Instant) -> BackupStatus {
        let buffers_used = self.replicas.values().filter(|replica| replica.buffer.is_some()).count() as u64;
        let place_bytes = u64::from(self.config.segment_bytes) + u64::from(crate::place::HEAD_BYTES);
        BackupStatus {
            frames: u64::from(self.space.frames),
            frames_used: self.space.frames_used(),
            frames_max: u64::from(self.config.frames_max),
            buffers: u64::from(self.space.buffers),
            buffers_used,
            mode: self.config.mode.clone(),
            unflushed_bytes: self.replicas.values().map(|replica| u64::from(replica.unflushed_bytes())).sum(),
            cut_replicas: self.replicas.values().filter(|replica| replica.cut && !replica.freeing).count()
                as u64,
            failed: self.failed.clone(),
            disk_bytes: u64::from(self.space.frames) * place_bytes,
            full: self.full(now),
        }
    }

    /// Every replica held here, with or without a certificate.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaState> + '_ {
        self.replicas.values().filter(|replica| !replica.freeing).map(|replica| ReplicaState {
            log: replica.key.log,
            stream: replica.key.stream,
            segment: replica.key.segment,
            epoch: replica.stored.epoch,
            closed: replica.stored.closed,
            length: replica.accepted.length,
            certificate: replica.stored.certificate,
            flushed: replica.flushed_bytes(),
            primary: replica.stored.primary,
            side: replica.side,
            found: replica.found,
            cut: replica.cut,
            corrupt: replica.corrupt,
        })
    }

    pub fn check_invariants(&self) {
        let mut frames = BTreeSet::new();
        let mut buffers = BTreeSet::new();
        for replica in self.replicas.values() {
            assert!(replica.accepted.length <= self.config.segment_bytes);
            if self.failed.is_none() {
                replica.check_invariants();
            }
            if replica.wiping > 0 {
                continue; // Its places no longer belong to it.
            }
            assert!(replica.frame.is_none_or(|frame| frames.insert(frame)), "a frame has one owner");
            assert!(replica.buffer.is_none_or(|buffer| buffers.insert(buffer)), "a buffer has one owner");
        }
        for (key, number) in &self.present {
            let replica = &self.replicas[number];
            assert_eq!(replica.key, *key);
            assert!(!replica.found);
            assert!(!replica.freeing);
        }
        for (key, number) in &self.found {
            let replica = &self.replicas[number];
            assert_eq!(replica.key, *key);
            assert!(replica.found);
            assert!(!replica.freeing);
        }
        let named = self.present.len() + self.found.len();
        assert_eq!(named, self.replicas.values().filter(|replica| !replica.freeing).count());
        let flushing = self.replicas.values().filter(|replica| replica.flush.is_some()).count();
        assert_eq!(self.flush_count as usize, flushing);
        if self.is_scanned {
            let away = u64::from(self.space.frames_bad) + u64::from(self.space.frames_wiping);
            let owned = frames.len() as u64;
            assert_eq!(
                self.space.frames_used(),
                owned + away,
                "every frame is free, owned, being wiped or bad"
            );
        }
        if self.config.buffers == Buffers::InFrames {
            assert_eq!(self.space.buffers, 0);
        }
    }
}
