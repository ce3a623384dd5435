//! Which dead logs' partitions may be replicated: as many as frames suffice for, and always the oldest.
//!
//! A partition is live before it is replicated, and its dead log is kept until devices have the partition. So a log's
//! frames come free only when all of its partitions are replicated. If partitions of all logs were begun at once when
//! frames are short, each log would get some frames, and none would be freed. The server list tells whose turn it is.
//! While frames are short, one master at a time has a turn, for one log. A master that loses its turn gives back the
//! frames of everything that it has not finished.
//!
//! Invariants:
//! - the oldest of the logs whose live partitions are not replicated has its turn; while frames are short, one of these
//!   logs has;
//! - a newer log gets its turn only if the backups have told of frames for all logs that have one.
//!
//! Not here: memory (`room`). Protocol: docs/protocols/recovery.md, "Until devices have it". Catalogue: F6, F7.

use crate::desk::Desk;
use crate::records::TabletRecord;
use crate::recoveries::Recoveries;
use crate::rooms::Alone;
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Instant, Mark, ServerId};
use ramhold_placement::{Domain, domain};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

/// Segments of a partition beyond its bytes: the last one is not full, and a head names them.
const PARTITION_SEGMENTS: u64 = 2;

/// How long frames are short before masters have their turns one at a time.
const NARROW_AFTER: Duration = Duration::from_secs(2);
/// How long a master has its turn alone before another master is tried. The time doubles with each round, up to five
/// times.
const ALONE: Duration = Duration::from_secs(10);

impl Recoveries {
    /// Gives turns, and takes them back.
    pub(crate) fn give_turns(&mut self, now: Instant, desk: &mut Desk) {
        let waiting = unreplicated(desk);
        let is_short = self.rooms.frames_short_since.is_some_and(|since| since + NARROW_AFTER <= now);
        let turns: BTreeMap<ServerId, Option<ServerId>> = if is_short && !planted(Defect::TurnsForAll) {
            self.rooms.alone = self.next_alone(now, &waiting);
            self.rooms.alone.iter().map(|alone| (alone.turn.0, Some(alone.turn.1))).collect()
        } else {
            self.rooms.alone = None;
            self.turns_by_room(desk, &waiting).into_iter().map(|log| (log, None)).collect()
        };
        let logs: Vec<ServerId> = desk.state.servers.values().map(|server| server.entry.id).collect();
        for log in logs {
            let Some(server) = desk.state.servers.get_mut(&log) else { continue };
            let entry = &mut server.entry;
            let turn = turns.get(&log);
            let wanted = (turn.is_some(), turn.copied().flatten());
            if (entry.replicates, entry.replicates_only) != wanted {
                (entry.replicates, entry.replicates_only) = wanted;
                desk.list_changed(log);
                desk.outbox.mark(Mark::TurnGiven);
            }
        }
    }

    /// The oldest log, the logs that have their turn already, and newer logs whose partitions find frames.
    fn turns_by_room(&self, desk: &Desk, waiting: &BTreeSet<(ServerId, ServerId)>) -> Vec<ServerId> {
        let logs: BTreeSet<ServerId> = waiting.iter().map(|(log, _)| *log).collect();
        let mut taken = 0;
        let mut turns = Vec::new();
        for log in &logs {
            let Some(server) = desk.state.servers.get(log) else { continue };
            let segments = segments_of(desk, *log);
            // While not all of a log is live, its whole size is not known.
            let fits = server.entry.kept && self.has_frames(desk, taken + segments);
            if turns.is_empty() || server.entry.replicates || fits || planted(Defect::TurnsForAll) {
                taken += segments;
                turns.push(*log);
            }
        }
        turns
    }

    /// The master that has its turn alone: the present one until its time is over, then the next one. The first one
    /// follows the last. Turns also begin again from the first when the present one has nothing left to replicate.
    fn next_alone(&self, now: Instant, waiting: &BTreeSet<(ServerId, ServerId)>) -> Option<Alone> {
        let first = |rounds| waiting.first().map(|turn| (*turn, rounds));
        let (turn, rounds) = match self.rooms.alone {
            Some(alone) if waiting.contains(&alone.turn) && now < alone.until => return Some(alone),
            Some(alone) if waiting.contains(&alone.turn) => {
                let mut later = waiting.range((Bound::Excluded(alone.turn), Bound::Unbounded));
                later.next().map(|turn| (*turn, alone.rounds)).or_else(|| first(alone.rounds + 1))?
            }
            Some(_) | None => first(0)?,
        };
        Some(Alone { turn, until: now + ALONE * (1 << rounds.min(5)), rounds })
    }

    /// Whether there are frames for the partitions of the oldest log.
    pub(crate) fn has_frames_for_oldest(&self, desk: &Desk) -> bool {
        unreplicated(desk).first().is_none_or(|(log, _)| self.has_frames(desk, segments_of(desk, *log)))
    }

    /// Whether backups have frames for this many segments, and for one head of each master beside them.
    fn has_frames(&self, desk: &Desk, segments: u64) -> bool {
        let heads = desk.state.all_up().filter(|server| server.entry.master).count() as u64;
        let segments = segments.saturating_add(heads);
        let replicas = desk.state.tables.values().map(|table| table.options.replicas).max().unwrap_or(0);
        let mut domains: BTreeMap<Domain<'_>, u64> = BTreeMap::new();
        for server in desk.state.all_up() {
            let Some(frames) = self.rooms.frames_of(server.entry.id) else { continue };
            let all = domains.entry(domain(&server.entry)).or_default();
            *all = all.saturating_add(frames);
        }
        are_enough(segments, replicas, domains.into_values())
    }
}

/// Whether this many segments find frames in these failure domains. Each domain takes one replica of a segment.
fn are_enough(segments: u64, replicas: u8, domains: impl Iterator<Item = u64>) -> bool {
    let usable = domains.map(|frames| frames.min(segments)).fold(0, u64::saturating_add);
    segments.saturating_mul(u64::from(replicas)) <= usable
}

/// Live pieces that are not replicated: for each, the oldest log that it is recovered from, and its owner.
fn unreplicated(desk: &Desk) -> BTreeSet<(ServerId, ServerId)> {
    let pieces = desk.state.live_pieces().filter(|piece| piece.earlier.is_some_and(|e| !e.replicated));
    let pieces = pieces.filter(|piece| desk.state.is_up(piece.owner));
    let oldest = |piece: &TabletRecord| piece.earlier_positions().map(|e| e.server).min();
    pieces.filter_map(|piece| Some((oldest(piece)?, piece.owner))).collect()
}

/// The most segments that the partitions of a dead log take.
fn segments_of(desk: &Desk, crashed: ServerId) -> u64 {
    desk.state.recovery_of(crashed).map_or(0, |record| {
        let full = record.bytes.div_ceil(u64::from(desk.config.segment_bytes));
        // Ranges that were cut on for neighbourhoods have two segments or more, and two more each.
        let cut_on = if desk.config.placement.neighbouring().is_some() { full } else { 0 };
        full + cut_on + PARTITION_SEGMENTS * u64::from(record.partitions)
    })
}

#[cfg(test)]
mod tests {
    use super::are_enough;

    // F7
    #[test]
    fn a_domain_takes_one_replica_of_each_segment() {
        let enough = |domains: &[u64]| are_enough(10, 3, domains.iter().copied());
        assert!(enough(&[10, 10, 10]));
        assert!(!enough(&[10, 10, 9]), "frames");
        assert!(!enough(&[1000, 10]), "three replicas need three domains");
        assert!(enough(&[1000, 5, 5, 5, 5]));
    }
}
