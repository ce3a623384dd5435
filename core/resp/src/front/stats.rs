//! Counts of the front, for `INFO` and for the metrics of the process.

/// Counted since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct RespStats {
    pub commands: u64,
    pub connections: u64,
    pub faults: u64,
    /// Keys that read-only commands asked for, and found (`hits`) or did not find (`misses`).
    pub hits: u64,
    pub misses: u64,
    /// Operations that went through the session.
    pub posted: u64,
    /// Transactions that began again, because a key that they had read was changed meanwhile.
    pub retried: u64,
    /// `EXEC`s that gave up because a watched key had changed.
    pub watch_failed: u64,
    /// How often a connection was left unheard because of the commands that it had under way.
    pub held: u64,
    /// Connections that were closed because they did not log in, or asked for nothing.
    pub idled: u64,
    /// Commands that waited for the table of their database.
    pub table_waits: u64,
}

impl RespStats {
    /// Counts keys that a read-only command asked for; for each, whether it was there.
    pub(super) fn count_lookups(&mut self, found: impl IntoIterator<Item = bool>) {
        for is_there in found {
            *if is_there { &mut self.hits } else { &mut self.misses } += 1;
        }
    }
}
