//! The beginning of a life: the state is read, the brick gets its name, the log is taken over, and it serves.
//!
//! Not here: what is found of the log, and what is done about it (`start`), a log that is loaded later (`loading`).
//! Protocol: docs/protocols/quorum.md, rules 11 to 14. Catalogue: I4, I6.

use crate::events::EventKind;
use crate::forgetting::{forget, streams_of};
use crate::phase::{Context, Phase};
use crate::start::Start;
use crate::state::BrickState;
use crate::store::{Owns, SHARD, Store};
use crate::tables::Tables;
use crate::{Brick, FoundReplica};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{ClusterId, DiskError, DiskToken, Effects, Instant, Level, Peer, SegmentId, ServerId};
use ramhold_wire::membership::{Durability, ReplicaName, ReplicaRead};
use ramhold_wire::{Step, View, request};
use std::collections::BTreeSet;
use std::time::Duration;

/// Ids of segments that a start leaves out.
const SEGMENTS_SKIPPED: u64 = 1000;

/// How long a read of a segment from the own device may take before it is asked for again.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

impl Brick {
    /// A brick that is new has got its id.
    pub fn name(&mut self, cluster: ClusterId, brick: ServerId, index_secret: u64, effects: &mut Effects) {
        assert!(self.is_unnamed(), "an id is given once");
        let state = BrickState {
            cluster,
            brick,
            index_secret,
            life: 0,
            mark: 0,
            tables: Vec::new(),
            tablets: Vec::new(),
            lives: Vec::new(),
            streams: Vec::new(),
            taken: 0,
            place: self.config.place,
            was_moved: false,
            left: Vec::new(),
            others: Vec::new(),
        };
        self.begin_life(state, effects);
    }

    /// The state was read, and the backup knows whether buffers of the last life are gone. Begins this life, if the brick
    /// has an id. Its losses are noted on the device before the backup forgets that buffers were lost.
    pub fn begin(&mut self, has_lost_buffers: bool, effects: &mut Effects) {
        if self.phase != Phase::Reading || !self.state_file.is_read() {
            return;
        }
        self.has_lost_buffers = has_lost_buffers;
        match self.state_file.durable().cloned() {
            None => self.phase = Phase::Unnamed,
            Some(mut state) => {
                if self.is_moved(&state) {
                    effects.report(
                        Level::Warn,
                        "the data directory is not where it was: it may be a copy, so everything is rebuilt",
                    );
                    let all = state.streams.iter().map(|stream| stream.stream).collect();
                    let count = forget(&mut state, &all, effects);
                    state.was_moved = true;
                    let indicator = "the data directory is not where it was: it may be a copy";
                    self.note_lost(EventKind::DirectoryMoved, &state, indicator, count);
                }
                if has_lost_buffers && !planted(Defect::QuorumLossMarkedLate) {
                    let lost = streams_of(&state, Durability::Buffered);
                    let count = forget(&mut state, &lost, effects);
                    let indicator =
                        "buffers of the last life are gone: the host lost its power, or they were removed";
                    self.note_lost(EventKind::LogNotWhole, &state, indicator, count);
                }
                self.begin_life(state, effects);
            }
        }
    }

    /// Whether the state file was read.
    pub fn is_read(&self) -> bool {
        self.state_file.is_read()
    }

    /// Whether the directory is a copy of the one on which the brick ran last. A copy may lack what was acknowledged since.
    pub(crate) fn is_moved(&self, state: &BrickState) -> bool {
        let place = self.config.place;
        state.place != 0 && place != 0 && state.place != place && !planted(Defect::QuorumCopyVotes)
    }

    pub(crate) fn begin_life(&mut self, state: BrickState, effects: &mut Effects) {
        let place = if self.config.place == 0 { state.place } else { self.config.place };
        let next = BrickState { life: state.life + 1, mark: self.rng.u64(), place, ..state };
        self.phase = Phase::Beginning;
        self.state_file.want(next, effects);
    }

    pub fn on_disk(
        &mut self,
        now: Instant,
        token: DiskToken,
        result: Result<&[u8], DiskError>,
        view: &View,
        effects: &mut Effects,
    ) {
        self.state_file.on_disk(token, result, effects);
        if self.phase == Phase::Beginning && self.state_file.is_durable() {
            self.phase = Phase::Awaiting;
        }
        let step = &mut Step { now, view, effects };
        if self.phase == Phase::Marking && self.state_file.is_durable() {
            self.serve(step);
        } else if self.phase == Phase::Serving {
            self.advance(step);
        }
    }

    /// The backup serves: these are the replicas of this brick's log that it has found. `is_damaged`: there was something
    /// that it could not read, perhaps the newest head.
    pub fn adopt(
        &mut self,
        now: Instant,
        (found, is_damaged): (Vec<FoundReplica>, bool),
        view: &View,
        effects: &mut Effects,
    ) {
        assert!(self.awaits_log(), "a log is taken over once");
        let state = self.state_file.durable().expect("a life has begun");
        let lost =
            if self.has_lost_buffers { streams_of(state, Durability::Buffered) } else { BTreeSet::new() };
        let streams = state.streams.iter().map(|stream| stream.stream);
        self.start = Start::new(found, streams, |stream| is_damaged || lost.contains(&stream));
        let region = self.region.take().expect("there is memory until there is a log");
        self.store = Some(Store::new(&self.config, region, state, &mut self.rng));
        self.tables = Tables::of(state);
        self.phase = Phase::Adopting;
        self.advance_start(&mut Step { now, view, effects });
    }

    pub(crate) fn advance_start(&mut self, step: &mut Step<'_>) {
        self.begin_loading(step);
        if self.phase != Phase::Adopting {
            return;
        }
        self.read_next(step);
        if self.start.is_over() {
            let mut state = self.state_file.durable().expect("a life has begun").clone();
            let count = forget(&mut state, &self.start.not_whole(), step.effects);
            if count > 0 {
                let indicator = "heads or segments of the log are cut, corrupt or gone";
                self.note_lost(EventKind::LogNotWhole, &state, indicator, count);
            }
            self.phase = Phase::Marking;
            if Some(&state) == self.state_file.durable() {
                self.serve(step);
            } else {
                self.state_file.want(state, step.effects);
            }
        }
    }

    /// Asks the backup for the next segment of the log, if none is asked for.
    pub(crate) fn read_next(&mut self, step: &mut Step<'_>) {
        if let Some(wanted) = self.start.next(step.now) {
            let me = step.view.me;
            let Some(address) = step.view.list.address(me) else { return self.start.ask_again(step.now) };
            let rpc = self.calls.open(address, step.now, step.now + READ_TIMEOUT, Context::Adopt);
            let replica = ReplicaName {
                shard: SHARD,
                stream: wanted.stream,
                segment: wanted.segment,
                epoch: wanted.epoch,
                side: wanted.side,
            };
            request(
                step.effects,
                Peer::Addr(address),
                &step.view.to_server(me),
                rpc,
                &ReplicaRead { replica },
            );
        }
    }

    /// Deals with replicas that no head names, and with segments that are cut, when all others are taken over.
    pub(crate) fn settle_found(&mut self, step: &mut Step<'_>) {
        let Brick { store: Some(store), start, .. } = self else { return };
        store.shard.cleaning.must_leave.extend(start.cut());
        let not_whole = start.not_whole();
        for left in start.left_over() {
            if not_whole.contains(&left.stream) {
                // If all others have lost more, this is what is left.
                store.left_over.push(*left);
            } else {
                store.shard.replicator.free_found(left.stream, left.segment, left.epoch, step.view.me);
            }
        }
    }

    /// Everything that was found is taken over, or is loaded from now on, and the state says what is not there.
    pub(crate) fn serve(&mut self, step: &mut Step<'_>) {
        let Brick { state_file, store, tables, start, .. } = self;
        let store = store.as_mut().expect("made before the log was taken over");
        *tables = Tables::of(state_file.durable().expect("a life has begun"));
        // A head that could not be read may have had a higher id than all that were found.
        store.shard.log.skip_segments(SegmentId(start.segment_last().0 + SEGMENTS_SKIPPED));
        if self.loading.is_none() {
            self.settle_found(step);
        }
        let Brick { state_file, store: Some(store), tables, start, .. } = self else { return };
        let state = state_file.durable().expect("a life has begun");
        for stream in &state.streams {
            let rolled = if start.may_leave(stream.stream) {
                // Heads of earlier lives in which nothing was written leave with this one.
                let head = store.shard.log.hold_head();
                store.shard.roll_held(step, stream.stream, head, &Owns(tables))
            } else {
                store.shard.roll(step, stream.stream, &Owns(tables))
            };
            if rolled.is_none() {
                self.failure =
                    Some("the brick's memory has no room for the next segment: give it more".into());
                return;
            }
        }
        let lives = self.state_file.durable().map(|state| state.lives.clone()).unwrap_or_default();
        // Siblings that were heard in the life before may still be there.
        self.siblings.assumed.extend(lives.iter().map(|known| (known.brick, step.now)));
        self.note_life(step.now);
        self.phase = Phase::Serving;
        self.advance(step);
    }
}
