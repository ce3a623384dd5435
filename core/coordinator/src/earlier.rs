//! Which pieces name which dead logs as earlier positions.
//!
//! Protocol: docs/protocols/recovery.md, "Until devices have it". Catalogue: D2, F6.

use crate::records::TabletRecord;
use crate::state::State;
use ramhold_base::ServerId;
use ramhold_wire::recovery::PartitionRange;
use std::collections::BTreeSet;

impl State {
    /// All pieces that are not being dropped.
    pub(crate) fn live_pieces(&self) -> impl Iterator<Item = &TabletRecord> {
        self.tables.values().filter(|t| !t.dropping).flat_map(|t| &t.tablets)
    }

    /// Whether a piece names this log as an earlier position.
    pub(crate) fn is_needed(&self, crashed: ServerId) -> bool {
        self.live_pieces().any(|piece| piece.is_recovered_from(crashed))
    }

    /// The other logs from which pieces of this server are to be recovered as well.
    pub(crate) fn earlier_logs_of(&self, owner: ServerId) -> BTreeSet<ServerId> {
        let own = self.live_pieces().filter(|piece| piece.owner == owner);
        own.flat_map(TabletRecord::earlier_positions).map(|earlier| earlier.server).collect()
    }

    /// Whether a piece whose owner is being recovered names this log.
    pub(crate) fn is_needed_by_dead(&self, crashed: ServerId) -> bool {
        let naming = self.live_pieces().filter(|piece| piece.is_recovered_from(crashed));
        naming.map(|piece| piece.owner).any(|owner| !self.is_up(owner))
    }

    /// Whether some log is kept.
    pub(crate) fn has_kept(&self) -> bool {
        self.servers.values().any(|server| server.entry.kept)
    }

    /// Whether a dead owner's range is to be recovered from one of these logs as well.
    pub(crate) fn is_recovered_from_any(
        &self,
        crashed: ServerId,
        range: &PartitionRange,
        logs: &BTreeSet<ServerId>,
    ) -> bool {
        let piece = (!logs.is_empty()).then(|| self.piece_of(crashed, range)).flatten();
        piece.is_some_and(|piece| piece.earlier_positions().any(|earlier| logs.contains(&earlier.server)))
    }

    pub(crate) fn piece_of(&self, crashed: ServerId, range: &PartitionRange) -> Option<&TabletRecord> {
        let table = self.tables.get(&range.table)?;
        table.tablets.get(table.covering(crashed, range.first, range.last)?)
    }

    pub(crate) fn has_tablets(&self, server: ServerId) -> bool {
        let live = self.tables.values().filter(|t| !t.dropping);
        live.flat_map(|t| &t.tablets).any(|t| t.owner == server)
    }
}

/// The newest log that alone has all of a piece, and its place among the piece's earlier positions, if there are older
/// ones.
pub(crate) fn whole_log(piece: &TabletRecord) -> Option<(usize, ServerId)> {
    let (at, whole) = piece.earlier_positions().enumerate().find(|(_, position)| position.whole)?;
    (at < piece.older.len()).then_some((at, whole.server))
}
