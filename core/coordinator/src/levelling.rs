//! Masters with more room than others, which take over more of what is recovered.
//!
//! Not here: giving partitions to masters (`replaying`). Protocol: docs/protocols/recovery.md, 5.

use crate::desk::Desk;
use crate::home::Home;
use crate::records::ServerRecord;
use crate::recoveries::Recoveries;
use ramhold_base::{RecoveryId, ServerId};
use std::collections::BTreeMap;

/// With more masters than this, each takes over so little that it does not matter how much memory it has.
const LEVELLED_MASTERS_MAX: usize = 64;
/// A master that takes over two even shares in four partitions fills this many segments in part, and begins as many
/// heads.
const LEVELLED_SEGMENTS: u64 = 8;

impl Recoveries {
    /// The free memory of each master, if all masters have told, and one has more than another by over half of its
    /// share of what is to be recovered. Then the masters with most memory take over most. If everything were shared
    /// out evenly after each death, the data of a few servers would come to lie with those that have lived longest; and
    /// the amount that one of these holds decides how long its recovery takes. With many masters each takes so little
    /// that it does not matter. Where the partitions are at home somewhere, the masters there alone count. If several servers are recovered at once, there must be more than enough room for all
    /// of them, and at least twice as many masters as dead servers; otherwise their need of room is what counts. `id`
    /// is the recovery in question.
    pub(crate) fn uneven_masters(
        &self,
        desk: &Desk,
        id: RecoveryId,
        share: u64,
        home: &Home,
    ) -> Option<BTreeMap<ServerId, u64>> {
        let told = |server: &ServerRecord| {
            let id = server.entry.id;
            self.rooms.reports.get(&id).map(|report| (id, report.log_bytes))
        };
        let masters = desk.state.masters().filter(|server| home.has(desk, server));
        let free: BTreeMap<ServerId, u64> = masters.map(told).collect::<Option<_>>()?;
        let (least, most) = (free.values().min()?, free.values().max()?);
        let is_uneven = free.len() <= LEVELLED_MASTERS_MAX && most - least > share / 2;
        (is_uneven && self.has_plenty(desk, id, share, free.len() as u64)).then_some(free)
    }

    /// Whether there is this recovery alone, or twice the room that all open recoveries would take in small partitions
    /// if each were like this one.
    fn has_plenty(&self, desk: &Desk, id: RecoveryId, share: u64, masters: u64) -> bool {
        let open = desk.state.recoveries.values().filter(|record| !record.done).count() as u64;
        if open <= 1 {
            return true;
        }
        let segments = (share / u64::from(desk.config.segment_bytes)).saturating_add(LEVELLED_SEGMENTS);
        let replicas = desk.state.tables.values().map(|table| table.options.replicas).max().unwrap_or(0);
        let all = 2 * open * masters;
        let (bytes, frames) =
            self.rooms.reports.values().fold((0, 0), |(bytes, frames): (u64, u64), room| {
                (bytes.saturating_add(room.log_bytes), frames.saturating_add(room.frames))
            });
        !self.rooms.is_scarce
            && 2 * open <= masters
            && !self.open.iter().any(|(other, recovery)| *other != id && recovery.is_waiting())
            && share.saturating_mul(all) <= bytes
            && segments.saturating_mul(u64::from(replicas)).saturating_mul(all) <= frames
    }
}
