//! Opens the streams of the state, and tells of those for whose first head there is no room yet. Their tablets wait, and
//! nothing else does.
//!
//! A table of another durability brings a stream with it, and the first head of a stream takes a frame and some memory,
//! which a brick full of live values may not have. The head is tried again once a second, by itself, as cleaning goes on in
//! the background. A start opens all streams of the state, because it may take frames of its own.
//!
//! Invariant: no tablet waits for the stream of another one.
//!
//! Not here: when it is tried again (`unopened`), what is entered (`taking`, `tables`), the limits (core/shard, `frames`).
//! Protocol: docs/protocols/quorum.md, rules 80 and 95. Catalogue: I1, C6.

use crate::Brick;
use crate::events::{EventKind, counted};
use crate::state::BrickState;
use crate::store::Store;
use crate::tables::Tables;
use ramhold_base::{Level, ServerId};
use ramhold_log::Purpose;
use ramhold_wire::Step;
use std::collections::BTreeSet;

impl Store {
    /// Opens the streams of a state that are not open yet, as far as there is room for their first heads. False: not all of
    /// them. They leave as much as a removal does, since the next start takes these heads whatever is left.
    pub fn open_streams(&mut self, step: &mut Step<'_>, tables: &Tables, state: &BrickState) -> bool {
        let mut is_all = true;
        for stream in &state.streams {
            if self.shard.class_of(stream.stream).is_some() {
                continue;
            }
            if !self.shard.log.may_open() || !self.shard.may_take_frame(Purpose::Freeing) {
                is_all = false;
                continue;
            }
            self.open_stream(stream);
            let rolled = self.roll_for(step, tables, stream.stream, Purpose::Freeing);
            rolled.expect("there is room for its opening");
        }
        is_all
    }
}

impl Brick {
    /// The other bricks of tablets that wait.
    pub(crate) fn siblings_of_waiting(&self) -> BTreeSet<ServerId> {
        let state = self.state_file.durable().filter(|_| self.unopened.count() > 0);
        let tablets = state.map_or(&[][..], |state| &state.tablets).iter();
        let waiting = tablets.filter(|tablet| self.tables.epoch(tablet.range()).is_none());
        waiting.flat_map(|tablet| &tablet.siblings).map(|sibling| sibling.brick).collect()
    }

    /// The durable state of this number is served, but for so many tablets.
    pub(crate) fn note_unopened(&mut self, step: &mut Step<'_>, state: u64, tablets: usize) {
        let (before, is_due) = self.unopened.wait(step.now, state, tablets);
        if tablets == 0 {
            if before > 0 {
                step.effects.report(Level::Info, "no tablet waits for room any more");
            }
            return;
        }
        let Brick { store: Some(store), tables, .. } = self else { return };
        let what = match store.shard.may_take_frame(Purpose::Freeing) {
            true => "no memory is left for the first head of their stream",
            false => "no frame of the device is left for the first head of their stream",
        };
        if before == 0 {
            store.clean_for_room(step, tables, Purpose::Ordinary);
        }
        let count = self.unopened.count();
        let are = if count == 1 { "is" } else { "are" };
        let indicator = format!("{} {are} not served yet: {what}", counted(count, "tablet"));
        if is_due {
            let text = "remove objects, or start the brick again with more --disk or --memory";
            step.effects.report(Level::Warn, format!("{indicator}; {text}"));
        }
        if before == 0
            && let Some(me) = self.state_file.durable().map(|state| state.brick)
        {
            let treatment = "tries again each second, and cleans its log; the other tablets go on";
            self.note(step.now, EventKind::RoomAwaited, me, (indicator, treatment));
        }
    }
}
