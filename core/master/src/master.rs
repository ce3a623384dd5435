//! One shard's master as a whole: hands each input to the part that it concerns, and lets all parts advance.
//!
//! The service owns the log and the tablets, and serves requests. The other parts change which tablets are here, and
//! work on the service. `advance` compares wanted and reached in each part, in an order in which one part's progress is
//! seen by the next.

use crate::calls::Context;
use crate::division::Divisions;
use crate::multi::Asker;
use crate::reclassing::Reclassing;
use crate::replay::Replays;
use crate::requests::MasterRequest;
use crate::service::Service;
use crate::tablets::TabletState;
use crate::takes::Takes;
use crate::{CleaningCounters, Event, MasterConfig};
use ramhold_base::time::earliest;
use ramhold_base::{ConnId, Effects, Instant, Peer, SegmentId, ServerId, Status, StreamId, TableId, Version};
use ramhold_log::{HashRange, Log};
use ramhold_replication::Replicator;
use ramhold_shard::LogSegments;
use ramhold_wire::membership::ReplicasNeeded;
use ramhold_wire::table::TabletDrop;
use ramhold_wire::{
    Call, ForMaster, ForObject, Gone, Header, Standing, Step, View, decode, reply, reply_with,
};
use std::collections::BTreeSet;

/// One shard's master.
pub struct Master {
    pub(crate) service: Service,
    pub(crate) replays: Replays,
    reclassing: Reclassing,
    divisions: Divisions,
    takes: Takes,
    busy: bool,
    /// Backups or the coordinator have answered the replicator in this turn, and nothing was made of it yet.
    has_heard: bool,
}

impl Master {
    /// A master with an empty log. `region` is its memory, zeroed; `view` names this life of the server.
    pub fn new(config: MasterConfig, region: Vec<u8>, view: &View, ceiling: Version, seed: u64) -> Master {
        Master {
            replays: Replays::new(config.log_bytes),
            service: Service::new(config, region, view, ceiling, seed),
            reclassing: Reclassing::default(),
            divisions: Divisions::default(),
            takes: Takes::default(),
            busy: false,
            has_heard: false,
        }
    }

    /// Changes rates in bytes per second: of copies of closed segments (0: no bound), and of verifying the log (0: none).
    pub fn set_rates(&mut self, copies: u64, scrub: u64) {
        let shard = &mut self.service.shard;
        shard.replicator.limit_copies(copies);
        shard.scrub.set_rate(scrub);
    }

    /// Whether something was put off to the end of the turn.
    pub fn puts_off(&self) -> bool {
        self.has_heard || self.service.put_off.mutations
    }

    /// The turn is over. Sends what its mutations appended, in one message for each backup, and answers everything that
    /// its answers made durable. Safe to call at any time, any number of times.
    pub fn turn_over(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        let step = &mut Step { now, view, effects };
        if self.has_heard {
            // Sends what was appended, too.
            self.service.shard.appended = false;
            self.advance(step);
        }
        self.service.advance_after_mutations(step);
    }

    /// A request to this role. For requests of servers the caller has checked cluster and target.
    pub fn on_request(
        &mut self,
        now: Instant,
        request: MasterRequest,
        header: &Header,
        body: &[u8],
        from: ConnId,
        view: &View,
        effects: &mut Effects,
    ) {
        let step = &mut Step { now, view, effects };
        self.service.answers.multis.now = step.now;
        match request {
            MasterRequest::Object(request) => self.on_object_request(step, request, header, body, from),
            MasterRequest::Master(request) => self.on_master_request(step, request, header, body, from),
        }
    }

    fn on_object_request(
        &mut self,
        step: &mut Step<'_>,
        request: ForObject,
        header: &Header,
        body: &[u8],
        from: ConnId,
    ) {
        self.service.on_object_request(step, request, header, body, Asker::Conn(from));
        match request {
            ForObject::Read => self.service.put_off_after_read(step),
            ForObject::Write | ForObject::Remove | ForObject::Increment => {
                self.service.put_off_after_mutation(step, body.len() as u64);
            }
        }
    }

    fn on_master_request(
        &mut self,
        step: &mut Step<'_>,
        request: ForMaster,
        header: &Header,
        body: &[u8],
        from: ConnId,
    ) {
        let service = &mut self.service;
        match request {
            ForMaster::Multi => {
                let has_mutations = service.on_multi(step, header, body, from);
                if has_mutations {
                    return service.put_off_after_mutation(step, body.len() as u64);
                }
                return service.put_off_after_read(step);
            }
            ForMaster::Commit => {
                service.on_commit(step, header, body, from);
                return service.put_off_after_mutation(step, body.len() as u64);
            }
            ForMaster::Scan => {
                service.on_scan(step, header, body, from);
                return service.put_off_after_read(step);
            }
            ForMaster::Count => {
                service.on_count(step, header, body, from);
                return service.put_off_after_read(step);
            }
            ForMaster::LeaseMeet => {
                service.leases.on_meet(step, header, body, from);
                return service.leases.advance(step, &mut service.shard.log, &mut service.calls);
            }
            ForMaster::TabletTake => self.takes.on_request(step, service, header, body, from),
            ForMaster::TabletDrop => self.on_tablet_drop(header, body, from, step.effects),
            ForMaster::TabletDivide => {
                self.divisions.on_request(step, service, header, body, from);
            }
            ForMaster::TabletReclass => self.reclassing.on_request(step, service, header, body, from),
            ForMaster::TabletWeights => service.on_tablet_weights(header, body, from, step.effects),
            ForMaster::Recover => self.replays.on_request(step, service, header, body, from),
            // This server's list may know the asker's directory only under the id of an earlier life. The very replicas
            // that are asked about may be the ones that this master counts on there.
            ForMaster::ReplicasNeeded if step.view.list.standing(header.sender) != Standing::Up => {
                reply(step.effects, Peer::Conn(from), header, Status::NotInCluster);
            }
            ForMaster::ReplicasNeeded => match decode::<ReplicasNeeded>(body) {
                Ok(asked) => {
                    let answer = service.shard.replicator.not_needed(header.sender, &asked);
                    reply_with(step.effects, Peer::Conn(from), header, Status::Ok, &answer);
                }
                Err(status) => reply(step.effects, Peer::Conn(from), header, status),
            },
        }
        self.advance(step);
    }

    /// An answer to a call of the replicator. Its consequences are drawn when the turn is over: as a rule several backups
    /// have answered by then, and only the last answer makes anything durable.
    pub fn on_replication_reply(&mut self, now: Instant, header: &Header, body: &[u8], view: &View) {
        let log = LogSegments(&self.service.shard.log);
        self.service.shard.replicator.on_reply(now, header, body, &log, view);
        self.has_heard = true;
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
        let step = &mut Step { now, view, effects };
        if let Some(call) = self.service.calls.answered(header.rpc) {
            if header.status() == Status::Fenced && call.addr == step.view.coordinator {
                self.service.events.push(Event::SaidDead);
            }
            match call.context {
                Context::CeilingRaise => self.service.ceiling.on_raised(step.now, header, body),
                Context::LeaseCheck(asked) => {
                    self.service.leases.on_checked(
                        step,
                        &mut self.service.shard.log,
                        (call.sent, &asked),
                        header,
                        body,
                    );
                }
                Context::ReadLease => {
                    let is_granted = header.status() == Status::Ok && header.cluster == step.view.cluster;
                    let sent = is_granted.then_some(call.sent);
                    self.service.answers.read_lease.on_answered(step.now, sent);
                }
                Context::Confirm(table) => {
                    let Service { confirming, config, tablets, .. } = &mut self.service;
                    let answer = (header.status(), body);
                    confirming.on_described(table, answer, step.view, config.shard, tablets);
                }
                Context::Reclassed(range) => {
                    self.reclassing.on_answered(step, &mut self.service, range, header.status());
                }
                Context::Settled { stream, first, flushed } => {
                    self.service.settling.on_answered(step, (stream, first, flushed), header.status());
                }
                Context::Fetch(fetch) => {
                    self.replays.on_fetched(step, &mut self.service, fetch, (header.status(), body));
                }
                Context::ReadBack(read) => self.service.on_read_back(step, read, (header.status(), body)),
                Context::Recovered { key, attempt, done } => {
                    let status = header.status();
                    let service = &mut self.service;
                    let dropped = self.replays.on_published(step, service, key, (attempt, done), status);
                    dropped.into_iter().for_each(|table| self.give_up_all(table));
                }
            }
        }
        self.advance(step);
    }

    pub fn on_lost(&mut self, now: Instant, gone: Gone<'_>, view: &View, effects: &mut Effects) {
        let step = &mut Step { now, view, effects };
        self.service.shard.replicator.on_lost(step.now, gone);
        for call in self.service.calls.end(gone) {
            match call.context {
                // The backup is well, and is asked again.
                Context::Fetch(fetch) if !gone.is_suspicious() => self.replays.on_fetch_unheard(fetch),
                Context::ReadBack(read) if !gone.is_suspicious() => {
                    self.service.shard.on_read_back_unheard(step.now, read);
                }
                _ => self.on_unanswered(step.now, call),
            }
        }
        self.advance(step);
    }

    pub fn on_list(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        let step = &mut Step { now, view, effects };
        self.service.shard.replicator.on_list(step.now, step.view);
        self.replays.on_list(step.now, step.view.list.recovered().collect());
        self.service.shard.touching.on_list(step.now, self.replays.recovering_since());
        self.advance(step);
    }

    pub fn tick(&mut self, now: Instant, view: &View, effects: &mut Effects) {
        let step = &mut Step { now, view, effects };
        self.service.shard.replicator.tick(step.now);
        while let Some(call) = self.service.calls.overdue(step.now) {
            self.on_unanswered(step.now, call);
        }
        if !self.busy {
            self.service.shard.scrub_slice(step);
            if self.replays.is_empty() {
                self.service.shard.touch_slice(step.now);
            }
        }
        self.service.confirming.ask_when_due(step, &self.service.tablets, &mut self.service.calls);
        self.advance(step);
    }

    pub fn deadline(&self) -> Option<Instant> {
        let service = &self.service;
        let shard = &service.shard;
        let is_idle = !self.busy && self.replays.is_empty();
        let deadlines = [
            if self.busy { Some(Instant::ZERO) } else { shard.cleaning_deadline() },
            shard.scrub.deadline(),
            shard.touching_deadline().filter(|_| is_idle),
            shard.replicator.deadline(),
            service.ceiling.deadline(),
            service.leases.deadline(shard.log.leases().next().is_some()),
            service.answers.read_lease.deadline(),
            service.settling.deadline(),
            service.expiry.deadline(),
            service.confirming.deadline(),
            service.calls.deadline(),
            self.reclassing.deadline(&service.tablets),
            self.replays.deadline(),
        ];
        deadlines.into_iter().fold(None, earliest)
    }

    fn on_unanswered(&mut self, now: Instant, call: Call<Context>) {
        match call.context {
            Context::CeilingRaise => self.service.ceiling.on_unanswered(now),
            Context::LeaseCheck(_) => self.service.leases.on_check_unanswered(now),
            Context::ReadLease => self.service.answers.read_lease.on_answered(now, None),
            Context::Confirm(table) => self.service.confirming.not_answered(table),
            Context::Reclassed(range) => self.reclassing.on_unanswered(now, range),
            Context::Settled { stream, first, .. } => {
                self.service.settling.on_unanswered(now, (stream, first));
            }
            Context::Fetch(fetch) => self.replays.on_fetch_failed(fetch),
            Context::ReadBack(read) => self.service.shard.on_read_back_unanswered(now, read),
            Context::Recovered { key, attempt, done } => {
                self.replays.on_report_unanswered(now, key, (attempt, done));
            }
        }
    }

    /// Compares wanted and reached everywhere, and sends whatever is due.
    fn advance(&mut self, step: &mut Step<'_>) {
        self.has_heard = false;
        self.service.ceiling.advance(step, &mut self.service.calls);
        self.service.leases.advance(step, &mut self.service.shard.log, &mut self.service.calls);
        self.advance_replays(step);
        self.reclassing.advance(step, &mut self.service, &self.divisions);
        let (shard, owner) = self.service.shard_and_owner();
        shard.look_for_dead(step.now, &owner);
        shard.leave_dead(step, &owner);
        self.hold_heads();
        let shard = &mut self.service.shard;
        shard.replicator.tell_short(shard.wants_cleaning(), shard.lacks_frames());
        self.service.replicate(step);
        if !self.replays.is_empty() || self.reclassing.is_waiting() {
            // The entries that have just become durable may be those that a recovery, or a stretch, waits for.
            self.advance_replays(step);
            self.reclassing.advance(step, &mut self.service, &self.divisions);
            self.hold_heads();
            self.service.replicate(step);
        }
        for segment in self.service.shard.replicator.take_refused() {
            self.service.shard.look_for_damage(step, segment);
        }
        self.service.advance_repairs(step);
        if self.replays.is_awaited() {
            self.service.put_off_expiry(step);
        } else {
            self.service.expire_when_due(step);
        }
        self.service.clean_when_idle(step);
        self.service.settling.advance(step, &self.service.shard, &mut self.service.calls);
        self.service.advance_cleaning(step);
        self.service.replicate_cleaning(step);
        self.takes.advance(step.now, &mut self.service, step.effects);
        self.service.sweeps.advance(step, &mut self.service.shard);
        self.divisions.advance(step, &mut self.service);
        self.service.answers.release(step, &self.service.shard);
        self.service.advance_read_lease(step);
        let shard = &self.service.shard;
        self.busy = self.service.sweeps.is_busy(shard)
            || self.divisions.is_busy(shard)
            || self.reclassing.is_busy(shard)
            || self.replays.is_busy()
            || shard.is_cleaning(step.now);
    }

    fn advance_replays(&mut self, step: &mut Step<'_>) {
        self.replays.advance(step, &mut self.service);
        self.hold_heads();
    }

    /// Makes backups hold frames for the heads with which side logs are about to be entered, or dead segments to leave.
    fn hold_heads(&mut self) {
        let shard = &mut self.service.shard;
        let awaited = self.replays.heads_wanted(false).chain(self.reclassing.head_wanted());
        let mut wanted: Vec<(StreamId, SegmentId)> = awaited.chain(shard.dead_wanted()).collect();
        let waited_for: BTreeSet<StreamId> = wanted.iter().map(|(stream, _)| *stream).collect();
        // A live partition may take long, and a newer head serves it as well.
        let live = self.replays.heads_wanted(true);
        wanted.extend(live.filter(|(stream, _)| !waited_for.contains(stream)));
        shard.hold_heads(&wanted);
    }

    fn on_tablet_drop(&mut self, header: &Header, body: &[u8], from: ConnId, effects: &mut Effects) {
        match decode::<TabletDrop>(body) {
            Ok(drop) => {
                self.service.tablets.note_dropped(drop.table);
                self.give_up_all(drop.table);
                reply(effects, Peer::Conn(from), header, Status::Ok);
            }
            Err(status) => reply(effects, Peer::Conn(from), header, status),
        }
    }

    /// Gives all tablets of a table up.
    fn give_up_all(&mut self, table: TableId) {
        for range in self.service.tablets.ranges_of(table) {
            self.give_up(range);
        }
    }

    /// Stops serving a range at once, and begins to sweep its keys out of the index.
    fn give_up(&mut self, range: HashRange) {
        let service = &mut self.service;
        let Some(hasher) = service.tablets.hasher(range.table) else { return };
        if service.tablets.exact(range).is_some_and(|t| t.state == TabletState::Recovering) {
            // It is not served; the recovery takes it back itself.
            return self.replays.drop_table(range.table);
        }
        if service.tablets.remove(range).is_none() {
            return;
        }
        service.shard.log.untrack(range);
        service.shard.log.forget_results(range);
        service.sweeps.begin(range, hasher);
        self.reclassing.forget(&mut service.tablets, range.table);
    }

    /// Events on which the node must act.
    pub fn take_events(&mut self) -> Vec<Event> {
        if self.service.shard.replicator.has_events() {
            self.service.events.extend(self.service.shard.replicator.take_events());
        }
        std::mem::take(&mut self.service.events)
    }

    /// Bytes of memory that are left to touch ahead of need.
    pub fn untouched_bytes(&self) -> u64 {
        self.service.shard.untouched_bytes()
    }

    pub fn log(&self) -> &Log {
        &self.service.shard.log
    }

    /// Reads that had to wait for the read lease since the start, and how many of them were refused.
    pub fn read_lease_counters(&self) -> (u64, u64) {
        (self.service.answers.lease_waits, self.service.answers.lease_refusals)
    }

    /// Counts of the work of cleaning since the start.
    pub fn cleaning(&self) -> CleaningCounters {
        self.service.shard.cleaning.counters
    }

    /// Flips one bit of a segment in memory, as a cosmic ray would. For tests of the consequences.
    #[doc(hidden)]
    pub fn flip_bit(&mut self, segment: SegmentId, offset: u32, bit: u8) {
        self.service.shard.log.flip_bit(segment, offset, bit);
    }

    pub fn replicator(&self) -> &Replicator {
        &self.service.shard.replicator
    }

    /// Panics when an invariant does not hold. Walks over everything.
    pub fn check_invariants(&self) {
        self.service.shard.log.check_invariants();
        self.service.check_counts();
        self.service.answers.multis.check_invariants();
        self.service.shard.replicator.check_invariants();
    }

    /// Whether this server is replaying a log of `server`. Used to tell who still needs that server's replicas.
    pub fn is_replaying(&self, server: ServerId) -> bool {
        self.replays.has(server)
    }
}
