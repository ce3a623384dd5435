//! Answers to the questions of this brick, and questions that nobody answers.
//!
//! Not here: what the answers mean (`telling`, `announcing`, `orders`). Catalogue: I4.

use crate::Brick;
use crate::phase::{Context, Phase};
use crate::start::Start;
use crate::store::{Owns, Store};
use ramhold_base::{Effects, Instant, SegmentId, Status};
use ramhold_log::HeldHashOf;
use ramhold_shard::LogSegments;
use ramhold_wire::{Gone, Header, Step, View, decode};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

/// How often superseded stamps are forgotten that are older than the horizon.
const FORGET_INTERVAL: Duration = Duration::from_secs(1);

impl Brick {
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
                let page = match header.status() {
                    Status::Ok => decode(body).map_err(Some),
                    refusal => Err(Some(refusal)),
                };
                self.on_page(step, from, number, page);
            }
        }
        self.advance(step);
    }

    pub(crate) fn on_adopt_read(&mut self, step: &mut Step<'_>, status: Status, body: &[u8]) {
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
                Context::Page { from, number } => self.on_page(step, from, number, Err(None)),
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
}
