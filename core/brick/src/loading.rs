//! A brick that serves before its log is loaded, and what it says meanwhile.
//!
//! A start reads the segments of which it does not know the newest stamp, and serves then. The others follow, those with
//! the newest stamps first. The highest stamp that may be in a segment which is not loaded is the *floor*. A key of which
//! a record above the floor is found is known whole, but for the stamps that it has had. A write with a stamp above the
//! floor is newer than everything that is not loaded. Whatever is neither is not answered yet: other bricks are.
//!
//! While a brick loads, nothing leaves its log, it tells no pages, and takes no assignments: whatever needs all keys, or
//! changes which keys are here, waits.
//!
//! Invariants:
//! - a brick begins to load only if all its tablets vote, and all segments look whole to its backup;
//! - a key that is not loaded is never told as absent;
//! - a put is told nothing that a later answer to it contradicts;
//! - a segment that cannot be loaded ends the process, when the device knows that its tablets do not vote.
//!
//! Not here: the order of the reads (`start`), the segments that are awaited (core/log). Protocol: docs/protocols/quorum.md,
//! rules 76, 77. Source: DSTORE04 5.3, Fig 10. Catalogue: I6.

use crate::counts::Counts;
use crate::events::{EventKind, counted};
use crate::forgetting::forget;
use crate::load::{Loading, RestartLoad};
use crate::question::Key;
use crate::store::LogShelf;
use crate::{Brick, Value};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Level, Stamp};
use ramhold_log::Awaited;
use ramhold_quorum::{Ask, Shelf};
use ramhold_wire::Step;

impl LogShelf<'_> {
    /// Whether everything is loaded that the answer to this question rests on.
    pub fn is_loaded(&self, key: &Key, ask: &Ask<Value>) -> bool {
        let Some(floor) = self.store.shard.log.floor_of_awaited() else { return true };
        let is_found = self.newest(key).time > floor;
        match ask {
            Ask::Write(write) if write.stamp.time > floor => true,
            Ask::Write(write) if is_found => write.is_repair || self.is_final(key, write.stamp),
            Ask::Value | Ask::Stamp | Ask::Write(_) => is_found || planted(Defect::QuorumNotLoadedAbsent),
        }
    }

    /// Whether a put with a stamp that is not above the floor is told now what it would be told when all is loaded. A put
    /// takes `Unknown` for this brick's last word, so it must not be said of a stamp that may still be found here.
    fn is_final(&self, key: &Key, stamp: Stamp) -> bool {
        let is_known = self.has_applied(key, stamp) || self.store.applied.has_forgotten(stamp);
        is_known || planted(Defect::QuorumLoadingRejects)
    }
}

impl Brick {
    /// Whether a part of the log is still to be loaded.
    pub fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// The part of the log that is loaded, of 1,000, of that which was not when the brick began to serve. `None`: all is.
    pub fn loaded_permille(&self) -> Option<u16> {
        let loading = self.loading.as_ref()?;
        let left = self.store.as_ref().map_or(0, |store| store.shard.log.awaited().1);
        let loaded = loading.bytes.saturating_sub(left) * 1000 / loading.bytes.max(1);
        Some(u16::try_from(loaded.min(999)).expect("it is below 1,000"))
    }

    /// The bytes that are loaded behind the serving.
    pub(crate) fn loading_bytes(&self) -> Option<u64> {
        self.loading.map(|loading| loading.bytes)
    }

    /// Questions that were answered while the log was being loaded, and those about keys that were not loaded.
    pub fn asked_while_loading(&self) -> (u64, u64) {
        (self.counts.early_writes + self.counts.early, self.counts.unloaded)
    }

    /// Serves from now on, if what is left of the log may be loaded afterwards.
    pub(crate) fn begin_loading(&mut self, step: &mut Step<'_>) {
        let Some(state) = self.state_file.durable() else { return };
        let votes = state.tablets.iter().all(|tablet| tablet.votes);
        if self.config.restart_load != RestartLoad::Incremental || !votes {
            return;
        }
        let Some(rest) = self.start.rest() else { return };
        let Some(store) = &mut self.store else { return };
        let log = &mut store.shard.log;
        if !log.may_await(rest.iter().map(|(_, awaited)| awaited.bytes)) {
            return;
        }
        for (id, awaited) in &rest {
            log.await_segment(*id, *awaited).expect("there is room for all of them");
        }
        let bytes = rest.iter().map(|(_, awaited): &(_, Awaited)| u64::from(awaited.bytes)).sum();
        self.loading = Some(Loading { began: step.now, bytes });
        self.serve(step);
    }

    /// Takes a slice of the log over, once in each turn of the process, so that no question waits for more.
    pub(crate) fn load_slice(&mut self, step: &mut Step<'_>) {
        if self.is_loading() && self.outlived.is_none() {
            let (segment, me) = (self.start.next_slice(), step.view.me);
            self.adopting(segment, |start, store, hash_of| {
                start.adopt_slice(store, me, hash_of, step.effects);
            });
        }
    }

    /// Reads the next segment, and ends the loading when there is none any more.
    pub(crate) fn advance_loading(&mut self, step: &mut Step<'_>) {
        let Some(loading) = self.loading.filter(|_| self.outlived.is_none()) else { return };
        if !self.start.not_whole().is_empty() {
            return self.end_unloaded(step);
        }
        self.read_next(step);
        if !self.start.is_over() {
            return;
        }
        self.loading = None;
        self.start.free_spare();
        self.settle_found(step);
        let seconds = step.now.since(loading.began).as_secs_f64();
        let (bytes, me) = (loading.bytes, step.view.me);
        let indicator = format!("the log is loaded: {bytes} bytes in {seconds:.1} s");
        let Counts { early_writes, early, unloaded, .. } = self.counts;
        let treatment = format!(
            "answers for all keys; meanwhile it answered {early_writes} writes and {early} other questions, and \
             {unloaded} were about keys that were not loaded"
        );
        step.effects.report(Level::Info, format!("{indicator}; {treatment}"));
        self.note(step.now, EventKind::LogLoaded, me, (indicator, treatment));
    }

    /// A segment on which answers rest cannot be loaded. A life that has answered ends before anything is rebuilt: its
    /// answers must not count any more (rule 10).
    fn end_unloaded(&mut self, step: &mut Step<'_>) {
        let Some(state) = self.state_file.newest() else { return };
        let mut next = state.clone();
        let lost = self.start.not_whole();
        let count = forget(&mut next, &lost, step.effects);
        let (indicator, count) = ("segments of the log could not be loaded", counted(count, "tablet"));
        let treatment = format!("{count} here vote no more; the process ends, and its next life is rebuilt");
        self.note(step.now, EventKind::LogNotWhole, next.brick, (indicator, treatment));
        let text = "a part of the brick's log could not be read after the brick had begun to serve: start it again, and \
                    its tablets are rebuilt from their other bricks";
        self.outlived = Some(text.to_owned());
        self.state_file.want(next, step.effects);
    }
}

#[cfg(test)]
mod tests {
    use crate::Value;
    use crate::start::Start;
    use crate::start::tests::{ME, STREAM, TABLE, bytes_of, found, put_key, store};
    use crate::store::{LogShelf, Store};
    use ramhold_base::{ClusterTime, Effects, Instant, KeyHash, SegmentId, Stamp};
    use ramhold_log::Purpose;
    use ramhold_quorum::{Ask, Brick as Register, BrickId, Life, Said, Write};

    const fn stamp(time: u64) -> Stamp {
        Stamp { time, session: 2 }
    }

    fn write(time: u64) -> Ask<Value> {
        Ask::Write(Write { stamp: stamp(time), begun: 40, is_repair: true, value: None })
    }

    fn put(time: u64) -> Ask<Value> {
        Ask::Write(Write { stamp: stamp(time), begun: 40, is_repair: false, value: None })
    }

    /// A log of three segments, of which the last one is the head.
    fn segments() -> Vec<(SegmentId, Vec<u8>, bool)> {
        let mut before = store();
        let log = &mut before.shard.log;
        let mut ids = Vec::new();
        for records in [&[("a", 10)][..], &[("b", 20), ("a", 21)], &[("c", 30)]] {
            ids.push(log.roll(STREAM, ClusterTime(1), &[]).expect("there is room"));
            records.iter().for_each(|(key, time)| put_key(log, key.as_bytes(), *time));
        }
        let last = *ids.last().expect("there are three");
        ids.into_iter().map(|id| (id, bytes_of(log, id), id != last)).collect()
    }

    struct Brick {
        segments: Vec<(SegmentId, Vec<u8>, bool)>,
        store: Store,
        start: Start,
    }

    impl Brick {
        /// Reads what must be read before the brick serves.
        fn new(segments: Vec<(SegmentId, Vec<u8>, bool)>) -> Brick {
            let start = Start::new(found(&segments), [STREAM].into_iter(), |_| false);
            let mut brick = Brick { segments, store: store(), start };
            while brick.start.rest().is_none() && !brick.start.is_over() {
                brick.read();
            }
            for (id, awaited) in brick.start.rest().unwrap_or_default() {
                brick.store.shard.log.await_segment(id, awaited).expect("there is room");
            }
            brick
        }

        fn read(&mut self) {
            assert!(self.read_if_any(), "something is left");
        }

        /// Segments that cannot be read are given up meanwhile.
        fn read_if_any(&mut self) -> bool {
            let Some(wanted) = self.start.next(Instant::ZERO) else { return false };
            let bytes = self.segments.iter().find(|it| it.0 == wanted.segment).map(|it| it.1.as_slice());
            let hash_of = |_, _: &[u8]| Some(KeyHash(9));
            self.start.on_read(bytes, &mut self.store, ME, &hash_of, &mut Effects::new());
            true
        }

        fn shelf(&mut self) -> LogShelf<'_> {
            let store = &mut self.store;
            LogShelf {
                store,
                table: TABLE,
                stream: STREAM,
                hash: KeyHash(9),
                purpose: Purpose::Ordinary,
                refusal: None,
                is_new: false,
            }
        }

        fn is_loaded(&mut self, key: &str, ask: &Ask<Value>) -> bool {
            self.shelf().is_loaded(&key.into(), ask)
        }

        /// The answer to a repair of a key that is loaded.
        fn told(&mut self, key: &str, time: u64) -> Said<Value> {
            self.said(key, write(time)).expect("it is loaded")
        }

        /// The answer to a write, if everything is loaded on which that rests.
        fn said(&mut self, key: &str, ask: Ask<Value>) -> Option<Said<Value>> {
            if !self.is_loaded(key, &ask) {
                return None;
            }
            let mut register = Register::new(BrickId(1), Life(1), 1);
            let answers = register.ask(40, (&key.into(), ask), (), &mut self.shelf());
            Some(answers.into_iter().next().expect("it is told at once").1.said)
        }
    }

    // I6: rules 76 and 77.
    #[test]
    fn what_is_above_the_floor_is_answered_and_the_newest_segments_come_first() {
        let mut brick = Brick::new(segments());
        let floor = |brick: &Brick| brick.store.shard.log.floor_of_awaited();
        assert_eq!(floor(&brick), Some(21));
        assert!(brick.is_loaded("c", &Ask::Value) && brick.is_loaded("c", &Ask::Stamp));
        for key in ["a", "b", "never written"] {
            assert!(!brick.is_loaded(key, &Ask::Value) && !brick.is_loaded(key, &write(21)));
            assert!(brick.is_loaded(key, &write(22)), "it is newer than all that is not loaded");
        }
        assert_eq!(brick.told("c", 25), Said::Rejected(stamp(30)));
        assert_eq!(
            brick.told("c", 21),
            Said::Unknown(stamp(30)),
            "it may be in a segment that is not loaded"
        );
        assert_eq!(brick.told("c", 30), Said::Applied);
        brick.read();
        assert_eq!(floor(&brick), Some(10), "the one with the newest stamps was read");
        assert!(brick.is_loaded("a", &Ask::Value) && !brick.is_loaded("never written", &Ask::Value));
        assert_eq!(brick.told("a", 10), Said::Unknown(stamp(21)));
        assert_eq!(brick.told("a", 11), Said::Rejected(stamp(21)));
        brick.read();
        assert_eq!(floor(&brick), None);
        assert!(brick.start.is_over() && brick.is_loaded("never written", &Ask::Value));
        assert_eq!(brick.told("a", 10), Said::Applied);
        assert_eq!(brick.told("a", 9), Said::Rejected(stamp(21)));
    }

    // I3, I6: rules 5 and 77. A put takes what it is told for the last word of this brick.
    #[test]
    fn a_put_whose_stamp_may_be_found_yet_is_not_answered() {
        let mut before = store();
        let log = &mut before.shard.log;
        let mut ids = Vec::new();
        for records in [&[("c", 15), ("b", 20)][..], &[("c", 16), ("c", 30)]] {
            ids.push(log.roll(STREAM, ClusterTime(1), &[]).expect("there is room"));
            records.iter().for_each(|(key, time)| put_key(log, key.as_bytes(), *time));
        }
        let segments = vec![(ids[0], bytes_of(log, ids[0]), true), (ids[1], bytes_of(log, ids[1]), false)];
        let mut brick = Brick::new(segments);
        assert_eq!(brick.store.shard.log.floor_of_awaited(), Some(20));
        let newest = stamp(30);
        assert_eq!(brick.said("c", put(15)), None, "it is in the segment that is not loaded");
        assert_eq!(brick.said("c", put(14)), None, "it might be");
        assert_eq!(brick.told("c", 14), Said::Unknown(newest), "a get looks for the newer one then");
        assert_eq!(brick.said("c", put(16)), Some(Said::Applied), "it is found already");
        assert_eq!(brick.said("c", put(21)), Some(Said::Rejected(newest)));
        brick.store.forget(14);
        assert_eq!(brick.said("c", put(14)), Some(Said::Unknown(newest)), "and so it stays");
        assert_eq!(brick.said("c", put(15)), None);
        brick.read();
        assert_eq!(brick.store.shard.log.floor_of_awaited(), None);
        assert_eq!(brick.said("c", put(15)), Some(Said::Applied));
        assert_eq!(brick.said("c", put(14)), Some(Said::Unknown(newest)));
        assert_eq!(brick.said("c", put(18)), Some(Said::Rejected(newest)));
    }

    // I6
    #[test]
    fn nothing_is_left_for_later_of_a_log_that_looks_damaged() {
        let whole = segments();
        let start = |change: &dyn Fn(&mut crate::FoundReplica)| {
            let mut found = found(&whole);
            change(&mut found[0]);
            let mut brick = Brick {
                segments: whole.clone(),
                store: store(),
                start: Start::new(found, [STREAM].into_iter(), |_| false),
            };
            let mut rests = 0;
            while !brick.start.is_over() {
                rests = rests.max(brick.start.rest().map_or(0, |rest| rest.len()));
                brick.read_if_any();
            }
            rests
        };
        assert_eq!(start(&|_| {}), 2);
        assert_eq!(start(&|found| found.cut = true), 0);
        assert_eq!(start(&|found| found.corrupt = true), 0);
        assert_eq!(start(&|found| found.closed = false), 1, "it is read before the brick serves");
    }
}
