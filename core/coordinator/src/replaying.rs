//! Recovery masters at work: which master replays which partition, and what happens when one fails.
//!
//! A partition waits, runs at one master, or is live. Every turn has its own attempt number, and only the present turn
//! can be published.
//!
//! Not here: which master gets it (`choosing`).
//! Protocol: docs/protocols/recovery.md, 5 and "Failures". Catalogue: F4, F6.

use crate::asked::Asked;
use crate::desk::Desk;
use crate::plan::{Partition, Plan, Replay, Turn};
use crate::records::Key;
use crate::recoveries::Recoveries;
use crate::recovery::Recovery;
use crate::retry::Retry;
use crate::timeline;
use ramhold_base::{Instant, Level, RecoveryId, ServerId, Status};
use ramhold_wire::recovery::Recover;
use std::time::Duration;

/// How long the rest of a large division's masters wait to be told, when much waits for the store already.
const CROWDED_PAUSE: Duration = Duration::from_millis(2);
/// The most bytes that masters are told in one turn, so that the first ones begin while others are told: some
/// milliseconds' worth.
const PORTION_BYTES: usize = 4 << 20;
/// A master that has accepted a partition is told again at this interval, in case it has forgotten.
const REMIND_INTERVAL: Duration = Duration::from_secs(5);

impl Recoveries {
    /// Sends masters their partitions, and repeats messages that were not answered.
    pub(crate) fn repeat(&mut self, now: Instant, desk: &mut Desk, id: RecoveryId, crashed: ServerId) {
        let Some(Recovery { plan: Some(plan), wake, .. }) = self.open.get_mut(&id) else { return };
        let mut portion = 0;
        for number in 0..plan.partitions.len() {
            let Replay::Running { master, retry, remind_at } = &mut plan.partitions[number].state else {
                continue;
            };
            let due = remind_at.unwrap_or_else(|| retry.next());
            if due <= now && desk.outbox.is_crowded() {
                *wake = (*wake).min(now + CROWDED_PAUSE);
                break;
            }
            if due <= now && portion >= PORTION_BYTES {
                *wake = now;
                break;
            }
            let send = match remind_at {
                Some(at) if *at <= now => {
                    *remind_at = Some(now + REMIND_INTERVAL);
                    true
                }
                Some(_) => false,
                None => retry.take(now, &desk.config),
            };
            *wake = (*wake).min(remind_at.unwrap_or_else(|| retry.next()));
            if !send {
                continue;
            }
            let master = *master;
            match send_recover(now, desk, (id, crashed), plan, number as u32, master) {
                Some(bytes) => portion += bytes,
                None => {
                    let text = format!(
                        "{id}: partition {number} does not fit a message; its log has too many segments"
                    );
                    desk.outbox.report(Level::Error, text);
                }
            }
        }
    }

    /// Gives waiting partitions to masters.
    pub(crate) fn assign(&mut self, now: Instant, desk: &mut Desk, id: RecoveryId) {
        let Some(plan) = self.open.get(&id).and_then(|recovery| recovery.plan.as_ref()) else { return };
        if !plan.partitions.iter().any(|p| matches!(p.state, Replay::Waiting)) {
            return;
        }
        let mut choice = self.choice(desk, id, plan);
        // See `room`: while memory is scarce, one partition is begun at a time.
        let is_narrow = self.rooms.is_scarce;
        let Some(Recovery { plan: Some(plan), wake, .. }) = self.open.get_mut(&id) else { return };
        let plan_id = plan.id;
        let mut is_running = plan.is_running();
        let waiting = (0..).zip(&mut plan.partitions).filter(|(_, p)| matches!(p.state, Replay::Waiting));
        for (number, partition) in waiting {
            if partition.not_before > now {
                *wake = (*wake).min(partition.not_before);
                continue;
            }
            if is_narrow && is_running {
                break;
            }
            let Some(master) = choice.for_partition(partition) else { continue };
            is_running = true;
            partition.attempt += 1;
            partition.state = Replay::Running { master, retry: Retry::new(&desk.config), remind_at: None };
            timeline::note_assigned(now, desk, id, (plan_id, number, partition.attempt), master);
        }
    }

    pub(crate) fn on_recover_answered(
        &mut self,
        now: Instant,
        desk: &mut Desk,
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
            timeline::note_part(now, desk, id, (plan, number), |part, since| {
                part.accepted.get_or_insert(since);
            });
        } else {
            let why = format!("{server} refused it: {status}");
            self.fail_partition(now, desk, id, number, &why);
        }
        self.wake_one(id, Instant::ZERO);
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
        let plan = self.open.get_mut(&id)?.plan.as_mut().filter(|p| p.id == plan)?;
        let partition = plan.partitions.get_mut(number as usize)?;
        let running = matches!(partition.state, Replay::Running { master, .. } if master == server);
        (running && partition.attempt == attempt).then_some(partition)
    }

    pub(crate) fn fail_partition(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        id: RecoveryId,
        number: u32,
        why: &str,
    ) {
        let Some(plan) = self.open.get_mut(&id).and_then(|r| r.plan.as_mut()) else { return };
        let plan_id = plan.id;
        let Some(partition) = plan.partitions.get_mut(number as usize) else { return };
        partition.fail(now, &desk.config);
        timeline::note_part(now, desk, id, (plan_id, number), |part, since| part.failed = Some(since));
        if let Some(record) = desk.state.recoveries.get_mut(&id) {
            record.failed_attempts += 1;
            desk.outbox.touch(Key::Recovery(id));
        }
        desk.outbox.report(Level::Warn, format!("{id}: partition {number} goes elsewhere: {why}"));
        self.wake_all();
    }

    /// A master has died, so the partitions that it replayed go elsewhere.
    pub(crate) fn take_partitions_from(&mut self, desk: &mut Desk, dead: ServerId) {
        let mut failed = Vec::new();
        for (id, recovery) in &self.open {
            let partitions = recovery.plan.iter().flat_map(|p| p.partitions.iter().enumerate());
            for (number, partition) in partitions {
                if matches!(partition.state, Replay::Running { master, .. } if master == dead) {
                    failed.push((*id, number as u32));
                }
            }
        }
        for (id, number) in failed {
            self.fail_partition(Instant::ZERO, desk, id, number, &format!("{dead} is dead"));
        }
    }
}

/// Sends `Recover`, and tells about how many bytes it had. None: the message is too large to be sent at all.
fn send_recover(
    now: Instant,
    desk: &mut Desk,
    (id, crashed): (RecoveryId, ServerId),
    plan: &mut Plan,
    partition: u32,
    server: ServerId,
) -> Option<usize> {
    let Turn { common, own, about } = plan.turn(&desk.state, crashed, partition)?;
    let asked = Asked::Recover { recovery: id, plan: plan.id, partition, attempt: own.attempt, server };
    desk.ask_encoded::<Recover>(now, server, asked, about, |out| own.encode_around(&common, out));
    Some(about)
}
