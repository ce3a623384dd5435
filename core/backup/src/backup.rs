//! The backup role as one machine: its inputs, its deadline, and the order in which its parts advance.
//!
//! Each input changes what is wanted; `advance` then takes every next step that is possible. Every part owns its state.
//! The machine lends a part the values of the step (device) and the other parts on which it acts.
//!
//! A replica found at start takes no appends: it is only flushed, read and freed. A segment that its master opens again
//! is a new replica, which replaces the old one when it has a certificate.
//!
//! Invariant: nothing is answered `Ok` after the device has failed.
//!
//! Catalogue: D1, D7, F2, F4.

mod completions;
mod requests;
mod status;

use crate::collection::Collection;
use crate::config::BackupConfig;
use crate::device::Device;
use crate::disk::SyncWaiter;
use crate::fence::Fences;
use crate::grants::Grants;
use crate::growth::Growth;
use crate::life::{Life, Stop};
use crate::recovery_read::divisions::Divisions;
use crate::replica_read::ReplicaReads;
use crate::replicas::Replicas;
use crate::space::Space;
use crate::start::Start;
use crate::superblock::{Identity, Superblock};
use crate::superblock_file::SuperblockFile;
use crate::work::Works;
use ramhold_base::time::earliest;
use ramhold_base::{Effects, Instant, Rng};
use ramhold_wire::{Gone, Header, View};

/// The backup role of one server.
#[derive(Debug)]
pub struct Backup {
    device: Device,
    life: Life,
    superblock_file: SuperblockFile,
    start: Start,
    space: Space,
    growth: Growth,
    replicas: Replicas,
    collection: Collection,
    fences: Fences,
    grants: Grants,
    divisions: Divisions,
    replica_reads: ReplicaReads,
    works: Works,
}

impl Backup {
    /// `seed` must differ from life to life, because ids are made from it.
    pub fn new(config: BackupConfig, seed: u64) -> Backup {
        config.check();
        let mut rng = Rng::new(seed);
        Backup {
            collection: Collection::new(rng.u64()),
            superblock_file: SuperblockFile::new(rng),
            growth: Growth::new(config.frames_grow_by),
            divisions: Divisions::new(config.recovery_cache_bytes),
            replicas: Replicas::new(config.flush_interval),
            device: Device::new(config),
            life: Life::default(),
            start: Start::default(),
            space: Space::default(),
            fences: Fences::default(),
            grants: Grants::default(),
            replica_reads: ReplicaReads::default(),
            works: Works::default(),
        }
    }

    /// The identity of this data directory. It is known when it is durable, which is before the server may enlist.
    pub fn identity(&self) -> Option<Identity> {
        self.device.directory.identity()
    }

    /// Why this directory cannot be used. The process ends with this error.
    pub fn start_error(&self) -> Option<&str> {
        self.life.start_error()
    }

    /// Begins the start: reads the identity of this directory, then its replicas.
    pub fn start(&mut self, now: Instant, effects: &mut Effects) {
        self.grants.begin(now);
        self.superblock_file.read(&mut self.device.step(now, effects));
    }

    /// The server has enlisted. The backup makes the new identity durable, and then serves.
    pub fn enlisted(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        let superblock =
            self.device.directory.superblock.expect("a server enlists when its directory is known");
        let (cluster, server) = (view.cluster, view.me);
        self.superblock_file.want(Superblock { cluster, server, clean: false, ..superblock });
        self.life.enlist();
        self.advance(now, view, effects);
    }

    pub fn is_serving(&self) -> bool {
        self.life.is_serving()
    }

    /// The server list has changed.
    pub fn on_list(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        self.collection.want();
        self.grants.forget_removed(view);
        self.fences.forget_removed(view);
        self.divisions.expect(view.list.up().count(), self.device.config.segment_bytes);
        self.advance(now, view, effects);
    }

    /// The answer to a question of this role.
    pub fn on_reply(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        view: &View,
        effects: &mut Effects,
    ) {
        self.collection.on_reply(header, body, view, &mut self.replicas);
        self.advance(now, view, effects);
    }

    /// A connection is gone.
    pub fn on_lost(&mut self, now: Instant, gone: Gone<'_>, view: &View, effects: &mut Effects) {
        self.collection.on_lost(gone);
        self.advance(now, view, effects);
    }

    /// A step of the whole process begins. Work of the step before is accounted for.
    pub fn resume(&mut self, now: Instant) {
        self.works.note_divided(now);
    }

    pub fn tick(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        self.collection.drop_overdue(now);
        if self.is_usable() {
            self.divisions.find(now, self.device.config.found_cache_bytes);
        }
        self.advance(now, view, effects);
    }

    pub fn deadline(&self) -> Option<Instant> {
        if self.has_failed() {
            return None;
        }
        let flush = self.replicas.queue.deadline();
        let ask = self.collection.ask_deadline().filter(|_| self.is_serving());
        let find = self.divisions.find_deadline(self.device.config.found_cache_bytes);
        let find = find.filter(|_| self.start_error().is_none());
        let grow = self.growth.deadline();
        earliest(earliest(flush, ask), earliest(grow, earliest(find, self.collection.call_deadline())))
    }

    /// Whether buffers of the last life are gone that may have held more than its device. `None`: not known yet. It is
    /// known before the server may enlist, and forgotten once the server has.
    pub fn has_lost_buffers(&self) -> Option<bool> {
        self.start.has_lost_buffers()
    }

    /// Whether everything that was found at the start is on the device.
    pub fn has_flushed_found(&self) -> bool {
        let mut found = self.replicas.iter().filter(|replica| replica.found && !replica.is_leaving());
        found.all(|replica| replica.corrupt || replica.stored.is_certified_like(&replica.flushed))
    }

    /// Whether the start met something that it could not read. It may have been a replica.
    pub fn has_found_damage(&self) -> bool {
        self.start.scan.has_damage
    }

    /// Whether the device has failed, so that nothing here can be trusted any more.
    pub fn has_failed(&self) -> bool {
        self.device.disk.has_failed()
    }

    /// Whether the device has not failed, and the directory can be used.
    fn is_usable(&self) -> bool {
        !self.has_failed() && self.start_error().is_none()
    }

    /// Takes every step that is possible now.
    fn advance(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        if self.is_usable() {
            self.advance_start(now, effects);
            let step = &mut self.device.step(now, effects);
            let (replicas, space) = (&mut self.replicas, &mut self.space);
            if self.life.is_serving() && !step.config.is_own {
                self.collection.advance(view, replicas, &mut self.works, step);
            }
            replicas.settle(space, step);
            replicas.advance_flushes(step);
            if self.start.is_over() {
                self.growth.advance(space, step);
            }
            self.fences.advance(&self.grants, replicas, step);
            self.advance_stop(now, effects);
            self.device.disk.advance(effects);
        }
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }

    fn advance_start(&mut self, now: Instant, effects: &mut Effects) {
        let step = &mut self.device.step(now, effects);
        let (replicas, space) = (&mut self.replicas, &mut self.space);
        self.start.advance(replicas, (space, &mut self.growth), step);
        self.start.house(replicas, space);
        self.superblock_file.advance(step);
        let is_of_this_life = self.life.is_enlisted() && self.superblock_file.is_durable();
        let is_ready = self.start.is_durable() && !self.growth.is_under_way();
        if !self.life.is_serving() && is_of_this_life && is_ready {
            self.life.serve();
            self.collection.want();
        }
    }

    /// Begins an ordered stop: flushes all replicas, then marks the directory as clean. Requests that come meanwhile
    /// are answered with `NotReady`.
    pub fn stop(&mut self, now: Instant, effects: &mut Effects) {
        if self.life.stop.is_some() {
            return;
        }
        self.life.stop = Some(if self.is_serving() { Stop::Flushing } else { Stop::Done });
        self.replicas.queue.end();
        if !self.has_failed() {
            self.replicas.flush_all(&mut self.device.step(now, effects));
            self.advance_stop(now, effects);
            self.device.disk.advance(effects);
        }
    }

    /// Whether an ordered stop is complete. It is also complete when the device has failed.
    pub fn is_stopped(&self) -> bool {
        self.life.stop.is_some_and(|stop| stop == Stop::Done || self.has_failed())
    }

    fn advance_stop(&mut self, now: Instant, effects: &mut Effects) {
        match self.life.stop {
            Some(Stop::Flushing) => {
                if self.replicas.are_flushed() {
                    self.life.stop = Some(Stop::Syncing);
                    self.device.disk.wait_for_sync(SyncWaiter::Stop);
                }
            }
            Some(Stop::Marking) => {
                if self.superblock_file.is_durable() {
                    assert!(self.device.directory.superblock.is_some_and(|superblock| superblock.clean));
                    self.life.stop = Some(Stop::Done);
                }
            }
            Some(Stop::Syncing | Stop::Done) | None => {}
        }
        self.superblock_file.advance(&mut self.device.step(now, effects));
    }
}
