//! Recovery masters at work: who replays which partition, and what happens when one fails.
//!
//! A partition waits, runs at one master, or is live. It is given to the least busy master that has not failed it; every
//! turn has its own attempt number, and only the present one can be published.
//!
//! Protocol: docs/protocols/recovery.md, 5 and "Failures". Catalogue: F4, F6.

use crate::CoordinatorConfig;
use crate::machine::{Asked, Coordinator};
use crate::prove::Proof;
use crate::recovery::{Recovery, pause};
use crate::retry::Retry;
use crate::state::Key;
use ramhold_base::{Instant, Level, RecoveryId, ServerId, Status, TableId, Version};
use ramhold_wire::recovery::{PartitionRange, Recover, RecoverySegment, SegmentSource};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A master that has accepted a partition is told again now and then, in case it has forgotten.
const REMIND_INTERVAL: Duration = Duration::from_secs(5);

/// One division of what was a dead server's when it was made.
#[derive(Debug)]
pub(crate) struct Plan {
    pub id: RecoveryId,
    pub ranges: Vec<PartitionRange>,
    /// What is replayed; its sources are refreshed as backups come and go.
    pub proof: Proof,
    pub partitions: Vec<Partition>,
}

#[derive(Debug)]
pub(crate) struct Partition {
    pub state: Replay,
    /// Of the present or last turn.
    pub attempt: u32,
    failures: u32,
    pub not_before: Instant,
    /// Masters that failed it.
    avoid: BTreeSet<ServerId>,
}

#[derive(Debug)]
pub(crate) enum Replay {
    Waiting,
    Running { master: ServerId, retry: Retry, remind_at: Option<Instant> },
    Live,
}

impl Plan {
    pub fn new(id: RecoveryId, ranges: Vec<PartitionRange>, proof: Proof) -> Plan {
        let count = ranges.iter().map(|r| r.partition + 1).max().unwrap_or(0);
        let partition = || Partition {
            state: Replay::Waiting,
            attempt: 0,
            failures: 0,
            not_before: Instant::ZERO,
            avoid: BTreeSet::new(),
        };
        Plan { id, ranges, proof, partitions: (0..count).map(|_| partition()).collect() }
    }

    pub fn ranges_of(&self, partition: u32) -> impl Iterator<Item = &PartitionRange> {
        self.ranges.iter().filter(move |r| r.partition == partition)
    }

    /// Whether some master is at work on it.
    pub fn is_running(&self) -> bool {
        self.partitions.iter().any(|partition| matches!(partition.state, Replay::Running { .. }))
    }

    /// Whether a partition that is not live has ranges of this table.
    pub fn has_pending(&self, table: TableId) -> bool {
        let pending =
            |p: u32| self.partitions.get(p as usize).is_some_and(|p| !matches!(p.state, Replay::Live));
        self.ranges.iter().any(|r| r.table == table && pending(r.partition))
    }

    fn message(
        &self,
        coordinator: &Coordinator,
        crashed: ServerId,
        partition: u32,
        sources: usize,
    ) -> Recover {
        let streams: BTreeSet<_> = self.ranges_of(partition).map(|r| (r.shard, r.stream)).collect();
        let mut segments = Vec::new();
        for stream in self.proof.streams.iter().filter(|s| streams.contains(&(s.shard, s.stream))) {
            for segment in &stream.segments {
                let up = segment.sources.iter().filter_map(|s| {
                    coordinator.state.up(s.backup).map(|server| SegmentSource {
                        backup: s.backup,
                        address: server.entry.address,
                        epoch: s.epoch,
                        read_speed: server.entry.read_speed,
                    })
                });
                segments.push(RecoverySegment {
                    shard: stream.shard,
                    stream: stream.stream,
                    segment: segment.segment,
                    end: segment.end,
                    sources: up.take(sources).collect(),
                });
            }
        }
        let attempt = self.partitions.get(partition as usize).map_or(0, |p| p.attempt);
        Recover {
            recovery: self.id,
            crashed,
            partition,
            attempt,
            ranges: self.ranges.clone(),
            segments,
            safe_version: self.proof.safe_version,
            version_floor: self.version_floor(coordinator, crashed, partition),
        }
    }

    /// What this recovery itself demands of versions: after a loss nothing that the dead server may have handed out.
    pub fn loss_floor(&self, coordinator: &Coordinator, crashed: ServerId) -> Version {
        if !self.proof.has_loss() {
            return Version::NONE;
        }
        coordinator.state.servers.get(&crashed).map(|s| s.ceiling).unwrap_or_default()
    }

    /// The loss floor, and the floors of earlier losses that the tablets of the partition carry with them.
    fn version_floor(&self, coordinator: &Coordinator, crashed: ServerId, partition: u32) -> Version {
        let carried = |range: &PartitionRange| {
            let table = coordinator.state.tables.get(&range.table)?;
            Some(table.tablets[table.covering(crashed, range.first, range.last)?].version_floor)
        };
        let floors = self.ranges_of(partition).filter_map(carried);
        floors.fold(self.loss_floor(coordinator, crashed), Version::max)
    }
}

impl Partition {
    /// The master's turn is over without success.
    pub fn fail(&mut self, now: Instant, config: &CoordinatorConfig) {
        if let Replay::Running { master, .. } = self.state {
            self.avoid.insert(master);
        }
        self.not_before = if self.failures == 0 { now } else { now + pause(config, self.failures - 1) };
        self.failures += 1;
        self.state = Replay::Waiting;
    }

    fn choose_master(
        &mut self,
        masters: &BTreeMap<ServerId, u32>,
        busy: &BTreeMap<ServerId, u32>,
        busy_max: u32,
    ) -> Option<ServerId> {
        if masters.keys().all(|m| self.avoid.contains(m)) {
            self.avoid.clear();
        }
        let load = |m: &ServerId| busy.get(m).copied().unwrap_or(0);
        let free = masters.iter().filter(|(m, _)| !self.avoid.contains(m) && load(m) < busy_max);
        free.min_by_key(|(m, tablets)| (load(m), **tablets, **m)).map(|(m, _)| *m)
    }
}

impl Coordinator {
    /// Gives waiting partitions to masters, and repeats what was not answered.
    pub(crate) fn replay(&mut self, now: Instant, id: RecoveryId, recovery: &mut Recovery, may_assign: bool) {
        let Some(crashed) = self.state.recoveries.get(&id).map(|r| r.crashed) else { return };
        let Some(mut plan) = recovery.plan.take() else { return };
        let waiting = plan.partitions.iter().any(|p| matches!(p.state, Replay::Waiting));
        if waiting && may_assign {
            self.assign(now, id, &mut plan, recovery);
        }
        let mut due = Vec::new();
        for (number, partition) in plan.partitions.iter_mut().enumerate() {
            let Replay::Running { master, retry, remind_at } = &mut partition.state else { continue };
            let send = match remind_at {
                Some(at) if *at <= now => {
                    *remind_at = Some(now + REMIND_INTERVAL);
                    true
                }
                Some(_) => false,
                None => retry.take(now, &self.config),
            };
            recovery.wake = recovery.wake.min(remind_at.unwrap_or_else(|| retry.next()));
            if send {
                due.push((number as u32, *master));
            }
        }
        for (partition, master) in due {
            if !self.send_recover(now, id, crashed, &plan, partition, master) {
                let text = format!(
                    "{id}: partition {partition} does not fit a message; its log has too many segments"
                );
                self.outbox.report(Level::Error, text);
            }
        }
        recovery.plan = Some(plan);
    }

    fn assign(&mut self, now: Instant, id: RecoveryId, plan: &mut Plan, recovery: &mut Recovery) {
        let plan_id = plan.id;
        let masters = self.state.tablets_by_master();
        let mut busy = self.busy_masters(plan);
        // See `room`.
        let is_narrow = self.rooms.is_scarce();
        let mut is_running = plan.is_running();
        let waiting = (0..).zip(&mut plan.partitions).filter(|(_, p)| matches!(p.state, Replay::Waiting));
        for (number, partition) in waiting {
            if partition.not_before > now {
                recovery.wake = recovery.wake.min(partition.not_before);
                continue;
            }
            if is_narrow && is_running {
                break;
            }
            let Some(master) = partition.choose_master(&masters, &busy, self.config.partitions_per_master)
            else {
                continue;
            };
            *busy.entry(master).or_default() += 1;
            is_running = true;
            partition.attempt += 1;
            partition.state = Replay::Running { master, retry: Retry::new(&self.config), remind_at: None };
            self.note_assigned(now, id, (plan_id, number, partition.attempt), master);
        }
    }

    /// How many partitions each master replays now, of all recoveries.
    fn busy_masters(&self, plan: &Plan) -> BTreeMap<ServerId, u32> {
        let others = self.recoveries.values().filter_map(|r| r.plan.as_ref());
        let mut busy = BTreeMap::new();
        for partition in others.chain([plan]).flat_map(|p| &p.partitions) {
            if let Replay::Running { master, .. } = partition.state {
                *busy.entry(master).or_insert(0) += 1;
            }
        }
        busy
    }

    fn send_recover(
        &mut self,
        now: Instant,
        id: RecoveryId,
        crashed: ServerId,
        plan: &Plan,
        partition: u32,
        server: ServerId,
    ) -> bool {
        // A log of very many segments is told with fewer sources each, so that it fits.
        [usize::from(u8::MAX), 2, 1].into_iter().any(|sources| {
            let message = plan.message(self, crashed, partition, sources);
            let attempt = message.attempt;
            let asked = Asked::Recover { recovery: id, plan: plan.id, partition, attempt, server };
            self.ask(now, server, asked, &message)
        })
    }

    pub(crate) fn on_recover_answered(
        &mut self,
        now: Instant,
        id: RecoveryId,
        (plan, number, attempt): (RecoveryId, u32, u32),
        server: ServerId,
        status: Status,
    ) {
        let Some(partition) = self.running(id, plan, number, attempt, server) else { return };
        if status == Status::Ok {
            if let Replay::Running { remind_at, .. } = &mut partition.state {
                remind_at.get_or_insert(now + REMIND_INTERVAL);
            }
            self.note_part(now, id, (plan, number), |part, since| {
                part.accepted.get_or_insert(since);
            });
        } else {
            let why = format!("{server} refused it: {status}");
            self.fail_partition(now, id, number, &why);
        }
        self.wake_recovery(id, Instant::ZERO);
    }

    /// The partition, if this server has its present turn.
    pub(crate) fn running(
        &mut self,
        id: RecoveryId,
        plan: RecoveryId,
        number: u32,
        attempt: u32,
        server: ServerId,
    ) -> Option<&mut Partition> {
        let plan = self.recoveries.get_mut(&id)?.plan.as_mut().filter(|p| p.id == plan)?;
        let partition = plan.partitions.get_mut(number as usize)?;
        let running = matches!(partition.state, Replay::Running { master, .. } if master == server);
        (running && partition.attempt == attempt).then_some(partition)
    }

    pub(crate) fn fail_partition(&mut self, now: Instant, id: RecoveryId, number: u32, why: &str) {
        let Some(plan) = self.recoveries.get_mut(&id).and_then(|r| r.plan.as_mut()) else { return };
        let plan_id = plan.id;
        let Some(partition) = plan.partitions.get_mut(number as usize) else { return };
        partition.fail(now, &self.config);
        self.note_part(now, id, (plan_id, number), |part, since| part.failed = Some(since));
        if let Some(record) = self.state.recoveries.get_mut(&id) {
            record.failed_attempts += 1;
            self.outbox.touch(Key::Recovery(id));
        }
        self.outbox.report(Level::Warn, format!("{id}: partition {number} goes elsewhere: {why}"));
        self.wake_recoveries();
    }

    /// A master has died: what it replayed goes elsewhere.
    pub(crate) fn take_partitions_from(&mut self, dead: ServerId) {
        let mut failed = Vec::new();
        for (id, recovery) in &self.recoveries {
            let partitions = recovery.plan.iter().flat_map(|p| p.partitions.iter().enumerate());
            for (number, partition) in partitions {
                if matches!(partition.state, Replay::Running { master, .. } if master == dead) {
                    failed.push((*id, number as u32));
                }
            }
        }
        for (id, number) in failed {
            self.fail_partition(Instant::ZERO, id, number, &format!("{dead} is dead"));
        }
    }
}
