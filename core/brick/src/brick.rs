//! The brick as one machine: its phases, the questions of sessions, and the order in which its parts advance.
//!
//! The process that runs it lends it the view of its own log's keeper: a server list with this brick alone, whose
//! address is that of the backup in the same process.
//!
//! ```text
//!   Reading ─▶ Unnamed ─▶ Beginning ─▶ Awaiting ─▶ Adopting ─▶ Serving
//!   state file   no id     life to       device,     own log
//!                yet       the device    backup
//! ```
//!
//! Not here: questions of sessions (`asking`), the rules of the register (core/quorum), the bytes of messages (core/wire). Catalogue: I1, I6.

use crate::clock::BrickClock;
use crate::consents::Consents;
use crate::counts::Counts;
use crate::dropping::Dropping;
use crate::events::{EventKind, Events};
use crate::forgetting::{forget, streams_of};
use crate::judging::Judging;
use crate::load::Loading;
use crate::phase::{Context, Phase};
use crate::question::Answered;
use crate::queues::Queues;
use crate::siblings::Siblings;
use crate::start::Start;
use crate::state::BrickState;
use crate::state_file::StateFile;
use crate::store::{Owns, SHARD, Store};
use crate::tables::{Tables, Tablet};
use crate::{BrickConfig, BrickStatistics, FoundReplica};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::time::earliest;
use ramhold_base::{
    ClusterId, DiskError, DiskToken, Effects, Instant, Level, Peer, Rng, SegmentId, ServerId, Status,
};
use ramhold_log::{HeldHashOf, Log};
use ramhold_replication::{Event, Replicator};
use ramhold_shard::{CleaningCounters, LogSegments};
use ramhold_wire::membership::{Durability, ReplicaName, ReplicaRead};
use ramhold_wire::{CallRole, Calls, Gone, Header, Step, View, decode, request};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a read of a segment from the own device may take before it is asked for again.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Ids of segments that a start leaves out.
const SEGMENTS_SKIPPED: u64 = 1000;
/// How often superseded stamps are forgotten that are older than the horizon.
const FORGET_INTERVAL: Duration = Duration::from_secs(1);

pub struct Brick {
    pub(crate) config: BrickConfig,
    pub(crate) phase: Phase,
    rng: Rng,
    pub(crate) clock: BrickClock,
    pub(crate) state_file: StateFile,
    region: Option<Vec<u8>>,
    pub(crate) store: Option<Store>,
    pub(crate) tables: Tables,
    pub(crate) start: Start,
    /// The log is loaded while the brick serves.
    pub(crate) loading: Option<Loading>,
    pub(crate) calls: Calls<Context>,
    /// Questions of sessions that wait.
    pub(crate) queues: Queues,
    pub(crate) answers: Vec<Answered>,
    pub(crate) siblings: Siblings,
    pub(crate) judging: Judging,
    pub(crate) consents: Consents,
    pub(crate) counts: Counts,
    pub(crate) events: Events,
    /// Tables that were dropped, and whose keys still leave the index.
    pub(crate) droppings: Vec<Dropping>,
    /// The number of the durable state whose tablets are served.
    pub(crate) entered: u64,
    /// A sibling knows a later life: the reason with which this one ends, when the device knows that nothing here votes.
    pub(crate) outlived: Option<String>,
    /// When the load of tablets was last averaged.
    pub(crate) sampled_at: Instant,
    forget_at: Instant,
    /// Buffered streams rest on buffers that are gone.
    has_lost_buffers: bool,
    pub(crate) failure: Option<String>,
}

impl Brick {
    /// `region` is the log's memory, zeroed, `config.log_bytes` long. `seed` must differ from life to life.
    pub fn new(config: BrickConfig, region: Vec<u8>, seed: u64) -> Brick {
        let mut rng = Rng::new(seed);
        let queues = Queues::new(usize::try_from(config.queue_bytes_max).unwrap_or(usize::MAX));
        let judging = Judging::new(config.restart_threshold);
        Brick {
            config,
            queues,
            phase: Phase::Reading,
            clock: BrickClock::default(),
            state_file: StateFile::default(),
            region: Some(region),
            store: None,
            tables: Tables::default(),
            start: Start::default(),
            loading: None,
            calls: Calls::new(CallRole::Brick, rng.u64()),
            answers: Vec::new(),
            siblings: Siblings::default(),
            judging,
            consents: Consents::default(),
            counts: Counts::default(),
            events: Events::default(),
            droppings: Vec::new(),
            entered: 0,
            outlived: None,
            sampled_at: Instant::ZERO,
            forget_at: Instant::ZERO,
            has_lost_buffers: false,
            failure: None,
            rng,
        }
    }

    /// Begins the start: reads the brick's state.
    pub fn start(&mut self, now: Instant, wall_millis: u64, effects: &mut Effects) {
        self.clock.start(now, wall_millis);
        self.state_file.read(effects);
    }

    /// Why the brick cannot go on. The process ends with this error.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref().or(self.state_file.failure()).or(self.start.failure())
    }

    /// The state on the device.
    pub fn state(&self) -> Option<&BrickState> {
        self.state_file.durable()
    }

    /// Whether the state was read, and the brick has no id yet.
    pub fn is_unnamed(&self) -> bool {
        self.phase == Phase::Unnamed
    }

    /// Whether the number of this life is on the device, so that the backup may take the identity of this life.
    pub fn has_begun(&self) -> bool {
        self.phase >= Phase::Awaiting
    }

    /// Whether the own log is wanted from the backup, which serves.
    pub fn awaits_log(&self) -> bool {
        self.phase == Phase::Awaiting
    }

    pub fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    /// Whether every tablet votes, and this brick knows the time.
    pub fn votes(&self) -> bool {
        let votes = |tablet: &Tablet| tablet.register.votes() && self.clock.is_known(&tablet.siblings);
        self.is_serving() && !self.is_loading() && self.tables.all().all(votes)
    }

    pub fn log(&self) -> Option<&Log> {
        self.store.as_ref().map(|store| &store.shard.log)
    }

    /// Counts of the work of cleaning since the start.
    pub fn cleaning_counters(&self) -> CleaningCounters {
        self.store.as_ref().map(|store| store.shard.cleaning.counters).unwrap_or_default()
    }

    /// The operating statistics since the start.
    pub fn statistics(&self) -> BrickStatistics {
        self.queues.statistics()
    }

    /// Bytes of questions that wait, and of answers that wait until something is durable.
    pub fn queued_bytes(&self) -> usize {
        self.queues.bytes()
    }

    pub fn replicator(&self) -> Option<&Replicator> {
        self.store.as_ref().map(|store| &store.shard.replicator)
    }

    /// The brick's time, in microseconds.
    pub fn time(&self, now: Instant) -> u64 {
        self.clock.now(now).earlier
    }

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
    fn is_moved(&self, state: &BrickState) -> bool {
        let place = self.config.place;
        state.place != 0 && place != 0 && state.place != place && !planted(Defect::QuorumCopyVotes)
    }

    fn begin_life(&mut self, state: BrickState, effects: &mut Effects) {
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

    fn advance_start(&mut self, step: &mut Step<'_>) {
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
        let Brick { state_file, store: Some(store), tables, .. } = self else { return };
        let state = state_file.durable().expect("a life has begun");
        for stream in &state.streams {
            // Heads of earlier lives in which nothing was written leave with this one.
            let head = store.shard.log.hold_head();
            if store.shard.roll_held(step, stream.stream, head, &Owns(tables)).is_none() {
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

    /// An answer of the own backup to this brick's replication.
    pub fn on_replication_reply(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        view: &View,
        effects: &mut Effects,
    ) {
        let Some(store) = &mut self.store else { return };
        store.shard.replicator.on_reply(now, header, body, &LogSegments(&store.shard.log), view);
        self.advance(&mut Step { now, view, effects });
    }

    /// An answer to a call of this role's own.
    pub fn on_reply(
        &mut self,
        now: Instant,
        header: &Header,
        body: &[u8],
        view: &View,
        effects: &mut Effects,
    ) {
        let Some(call) = self.calls.answered(header.rpc) else { return };
        let step = &mut Step { now, view, effects };
        match call.context {
            Context::Adopt => self.on_adopt_read(step, header.status(), body),
            Context::ReadBack(read) => {
                let Brick { store: Some(store), tables, .. } = self else { return };
                store.shard.on_read_back(step, &Owns(tables), read, (header.status(), body));
            }
            Context::Announce(sibling) => self.on_announced(step, sibling, header, body),
            Context::Restart(sibling) => {
                self.on_restart_answered(step, sibling, Some((header.status(), body)))
            }
            Context::Cure { brick, life, flagged } => {
                let answer = Some((header.status(), body));
                self.on_cure_order_answered(step, (brick, life, flagged), answer);
            }
            Context::Page { from, .. } if header.status() == Status::Fenced => {
                self.end_as_old(step.now, from, step.effects);
            }
            Context::Page { from, number } => {
                if !self.siblings.sweeping.has_asked(from, number) {
                    self.counts.rebuild_read += body.len() as u64;
                }
                let page = decode(body).ok().filter(|_| header.status() == Status::Ok);
                self.on_page(step, from, number, page);
            }
        }
        self.advance(step);
    }

    fn on_adopt_read(&mut self, step: &mut Step<'_>, status: Status, body: &[u8]) {
        let bytes = match status {
            Status::Ok => Some(body),
            Status::CorruptReplica | Status::UnknownReplica => None,
            // The backup is busy; it is asked again.
            _ => return self.start.ask_again(step.now),
        };
        if self.is_loading() {
            return self.start.hold(bytes);
        }
        let segment = self.start.asked();
        let me = step.view.me;
        self.adopting(segment, |start, store, hash_of| {
            start.on_read(bytes, store, me, hash_of, step.effects);
        });
    }

    /// Takes something of a segment over. Notes tables of whose records in it this brick has no tablet.
    pub(crate) fn adopting(
        &mut self,
        segment: Option<SegmentId>,
        adopt: impl FnOnce(&mut Start, &mut Store, HeldHashOf<'_>),
    ) {
        let Brick { start, store: Some(store), tables, .. } = self else { return };
        let not_held = RefCell::new(BTreeSet::new());
        let hash_of = |table, key: &[u8]| {
            let hash = tables.held_hash(table, key);
            if hash.is_none() {
                not_held.borrow_mut().insert(table);
            }
            hash
        };
        adopt(start, store, &hash_of);
        for table in not_held.into_inner() {
            segment.into_iter().for_each(|segment| store.stale.found(table, segment));
        }
    }

    /// Nothing will answer these calls any more.
    pub fn on_gone(&mut self, now: Instant, gone: Gone<'_>, view: &View, effects: &mut Effects) {
        let step = &mut Step { now, view, effects };
        for call in self.calls.end(gone) {
            match call.context {
                Context::Page { from, number } => self.on_page(step, from, number, None),
                Context::Restart(sibling) => self.on_restart_answered(step, sibling, None),
                Context::Cure { brick, life, flagged } => {
                    self.on_cure_order_answered(step, (brick, life, flagged), None);
                }
                Context::Adopt | Context::ReadBack(_) | Context::Announce(_) => {}
            }
        }
    }

    pub fn tick(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        let step = &mut Step { now, view, effects };
        while let Some(call) = self.calls.overdue(now) {
            match call.context {
                Context::Adopt => self.start.ask_again(now),
                Context::ReadBack(read) => {
                    if let Some(store) = &mut self.store {
                        store.shard.on_read_back_unanswered(now, read);
                    }
                }
                Context::Restart(sibling) => self.on_restart_answered(step, sibling, None),
                Context::Cure { brick, life, flagged } => {
                    self.on_cure_order_answered(step, (brick, life, flagged), None);
                }
                // Both are sent again in time.
                Context::Announce(_) | Context::Page { .. } => {}
            }
        }
        if let Some(store) = self.store.as_mut().filter(|_| self.phase == Phase::Serving) {
            store.shard.replicator.tick(now);
            if !store.is_loading() {
                store.shard.scrub_slice(step);
            }
            store.shard.touch_slice(now);
            if self.forget_at <= now {
                self.forget_at = now + FORGET_INTERVAL;
                // Without a tablet there is nothing to forget, and nobody has told the time.
                let mut tablets = self.tables.all().peekable();
                let has_tablets = tablets.peek().is_some();
                if has_tablets && tablets.all(|tablet| self.clock.is_known(&tablet.siblings)) {
                    store.forget_old(self.clock.now(now).earlier);
                }
                store.forget_many();
            }
        }
        self.load_slice(step);
        self.serve_queued(step);
        self.advance(step);
    }

    pub fn deadline(&self) -> Option<Instant> {
        let Some(store) = &self.store else { return self.calls.deadline() };
        if self.phase != Phase::Serving {
            let start = self.start.deadline().filter(|_| self.phase == Phase::Adopting);
            return earliest(self.calls.deadline(), start);
        }
        let shard = &store.shard;
        let of_loaded = [shard.cleaning_deadline(), shard.scrub.deadline(), self.siblings.deadline()];
        let of_whole = match self.is_loading() {
            true => self.start.deadline().filter(|_| self.outlived.is_none()),
            false => of_loaded.into_iter().fold(None, earliest),
        };
        let deadlines = [
            of_whole,
            shard.touching_deadline(),
            shard.replicator.deadline(),
            self.calls.deadline(),
            self.announcing_deadline(),
            self.dropping_deadline(),
            Some(self.forget_at),
            self.queues.is_due().then_some(Instant::ZERO),
        ];
        deadlines.into_iter().fold(None, earliest)
    }

    /// Compares wanted and reached everywhere, and sends whatever is due.
    fn advance(&mut self, step: &mut Step<'_>) {
        if self.phase == Phase::Adopting {
            self.advance_start(step);
        }
        if self.phase != Phase::Serving {
            return;
        }
        if self.outlived.is_some() && self.state_file.is_durable() {
            self.failure = self.outlived.take();
            return;
        }
        self.advance_loading(step);
        self.enter_new(step);
        let Brick { store: Some(store), tables, .. } = self else { return };
        store.replicate(step);
        for segment in store.shard.replicator.take_refused() {
            store.shard.look_for_damage(step, segment);
        }
        store.clean_when_idle(step, tables);
        store.advance_cleaning(step, tables);
        store.replicate_cleaning(step, tables);
        if store.shard.replicator.take_events().iter().any(|event| matches!(event, Event::Beyond(_))) {
            self.failure = Some("the log is damaged in memory where the device does not have it".into());
        }
        self.tell_waiting(step);
        self.advance_announcing(step);
        self.advance_rebuilding(step);
        self.advance_sweep(step);
        self.advance_dropping(step);
        self.advance_repairs(step);
        self.release(step.now);
    }

    /// Panics when an invariant does not hold. Walks over everything.
    pub fn check_invariants(&self) {
        if let Some(store) = self.store.as_ref().filter(|_| self.phase == Phase::Serving) {
            store.shard.log.check_invariants();
            store.shard.replicator.check_invariants();
            assert_eq!(store.applied.bound(), store.shard.log.bound());
        }
    }
}
