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
use crate::events::Events;
use crate::judging::Judging;
use crate::load::Loading;
use crate::phase::{Context, Phase};
use crate::question::Answered;
use crate::queues::Queues;
use crate::siblings::Siblings;
use crate::start::Start;
use crate::state::BrickState;
use crate::state_file::StateFile;
use crate::store::Store;
use crate::tables::{Tables, Tablet};
use crate::unopened::Unopened;
use crate::{BrickConfig, BrickStatistics};
use ramhold_base::time::earliest;
use ramhold_base::{Effects, Instant, Rng, SegmentId};
use ramhold_log::Log;
use ramhold_replication::{Event, Replicator};
use ramhold_shard::CleaningCounters;
use ramhold_wire::{CallRole, Calls, Step};

pub struct Brick {
    pub(crate) config: BrickConfig,
    pub(crate) phase: Phase,
    pub(crate) rng: Rng,
    pub(crate) clock: BrickClock,
    pub(crate) state_file: StateFile,
    pub(crate) region: Option<Vec<u8>>,
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
    /// The number of the durable state whose tablets are all served, and the version of its assignment.
    pub(crate) entered: u64,
    pub(crate) served: u64,
    pub(crate) unopened: Unopened,
    /// A sibling knows a later life: the reason with which this one ends, when the device knows that nothing here votes.
    pub(crate) outlived: Option<String>,
    /// When the load of tablets was last averaged.
    pub(crate) sampled_at: Instant,
    pub(crate) forget_at: Instant,
    /// Buffered streams rest on buffers that are gone.
    pub(crate) has_lost_buffers: bool,
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
            served: 0,
            unopened: Unopened::default(),
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
        let is_whole = self.is_serving() && !self.is_loading() && self.unopened.count() == 0;
        is_whole && self.tables.all().all(votes)
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
            self.unopened.deadline(),
            Some(self.forget_at),
            self.queues.is_due().then_some(Instant::ZERO),
        ];
        deadlines.into_iter().fold(None, earliest)
    }

    /// Compares wanted and reached everywhere, and sends whatever is due.
    pub(crate) fn advance(&mut self, step: &mut Step<'_>) {
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

    /// Flips one bit of a segment in memory, as a cosmic ray would. For tests of the consequences.
    #[doc(hidden)]
    pub fn flip_bit(&mut self, segment: SegmentId, offset: u32, bit: u8) {
        if let Some(store) = &mut self.store {
            store.shard.log.flip_bit(segment, offset, bit);
        }
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
