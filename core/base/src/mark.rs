//! Marks: places in a machine's life that simulators and tests count, and at each of which they may end the process.
//!
//! A machine passes a mark with `Effects::mark`, which costs one small effect and no allocation. Real processes drop
//! marks.
//!
//! Invariant: a mark has one name and one use, which stand in one line here.

use std::fmt;

/// How a simulator uses a mark as a crash point. It counts all marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarkUse {
    /// A server's crash here is demanded of a run.
    ServerCrash,
    /// The same, and servers pass here less often, so that the place gets a further share of the crashes.
    RareServerCrash,
    /// A server may be ended here, but a run of some hundred seeds need not have done it.
    FurtherServerCrash,
    /// The same in clusters with zones. Others never pass here, and their crashes are drawn without it.
    ZonesServerCrash,
    /// The same in clusters whose servers have links.
    LinksServerCrash,
    /// A coordinator's crash here is demanded of a run.
    CoordinatorCrash,
    /// A coordinator may be ended here, but a run of some hundred seeds need not have done it.
    FurtherCoordinatorCrash,
    /// The same in clusters with bricks. Others never pass here, and their crashes are drawn without it.
    BricksCoordinatorCrash,
    /// The same in clusters whose accounts are changed. Others never pass here, and their crashes are drawn without it.
    AccountsCoordinatorCrash,
}

impl MarkUse {
    pub const fn is_demanded(self) -> bool {
        !matches!(
            self,
            MarkUse::FurtherServerCrash
                | MarkUse::ZonesServerCrash
                | MarkUse::LinksServerCrash
                | MarkUse::FurtherCoordinatorCrash
                | MarkUse::BricksCoordinatorCrash
                | MarkUse::AccountsCoordinatorCrash
        )
    }
}

macro_rules! marks {
    ($($(#[$doc:meta])* $mark:ident = $name:literal, $purpose:ident;)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Mark {
            $($(#[$doc])* $mark,)*
        }

        impl Mark {
            /// All marks. Simulators draw crash points in this order.
            pub const ALL: &'static [Mark] = &[$(Mark::$mark,)*];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Mark::$mark => $name,)*
                }
            }

            pub const fn purpose(self) -> MarkUse {
                match self {
                    $(Mark::$mark => MarkUse::$purpose,)*
                }
            }
        }
    };
}

marks! {
    // Backups.
    /// A replica exists in memory, and nothing of it is written.
    BackupOpened = "backup_opened", ServerCrash;
    /// Data is written that no certificate covers yet.
    BackupDataWritten = "backup_data_written", ServerCrash;
    /// A certificate is written and its answers are about to leave.
    BackupCertificateWritten = "backup_certificate_written", ServerCrash;
    /// A certificate with a raised epoch is about to be written.
    BackupEpochRaised = "backup_epoch_raised", ServerCrash;
    /// Flushed data is in the frame, and not certainly on the device yet.
    BackupFlushCopied = "backup_flush_copied", ServerCrash;
    /// Flushed data is on the device, and its certificate is not.
    BackupFlushDataSynced = "backup_flush_data_synced", ServerCrash;
    /// Flushed data and its certificate are on the device.
    BackupFlushCertified = "backup_flush_certified", ServerCrash;
    /// The buffer of a closed replica is about to be emptied.
    BackupBufferGivenBack = "backup_buffer_given_back", ServerCrash;
    /// A replica is forgotten, and its certificates are about to be wiped.
    BackupReplicaFreed = "backup_replica_freed", ServerCrash;
    /// The report on a dead server's replicas is about to be sent to a coordinator.
    BackupFenceAnswered = "backup_fence_answered", ServerCrash;
    /// The ranges by which a dead server's log is divided are known, and nothing is read for them yet.
    BackupRangesTold = "backup_ranges_told", ServerCrash;
    /// A dead server's segment is read and divided.
    BackupSegmentDivided = "backup_segment_divided", ServerCrash;
    /// The superblock is written, and not certainly on the device yet.
    BackupSuperblockWritten = "backup_superblock_written", ServerCrash;
    /// The device has no room for another frame. Nothing about a shortage is durable, so a crash here is like any other.
    BackupShortOfFrames = "backup_short_of_frames", FurtherServerCrash;
    /// After a shortage there are enough free frames again.
    BackupFramesAgain = "backup_frames_again", FurtherServerCrash;
    // Shards, masters and nodes.
    HeadRolled = "head_rolled", ServerCrash;
    CombinedBegun = "combined_begun", RareServerCrash;
    SurvivorsCopied = "survivors_copied", RareServerCrash;
    SurvivorsEntered = "survivors_entered", RareServerCrash;
    CopiedAgain = "copied_again", RareServerCrash;
    SourcesRetired = "sources_retired", RareServerCrash;
    CompactionBegun = "compaction_begun", RareServerCrash;
    Compacted = "compacted", RareServerCrash;
    Expired = "expired", ServerCrash;
    TabletTaken = "tablet_taken", RareServerCrash;
    TabletCut = "tablet_cut", RareServerCrash;
    TabletsJoined = "tablets_joined", RareServerCrash;
    RecoveryBegun = "recovery_begun", RareServerCrash;
    RecoveryReplayed = "recovery_replayed", RareServerCrash;
    RecoveryEntered = "recovery_entered", RareServerCrash;
    RecoveryDurable = "recovery_durable", ServerCrash;
    RecoveryPublished = "recovery_published", ServerCrash;
    /// Few seeds reach it: a partition is given up only when its last replica fails meanwhile.
    RecoveryAbandoned = "recovery_abandoned", FurtherServerCrash;
    ResultRecalled = "result_recalled", ServerCrash;
    LeaseForgotten = "lease_forgotten", RareServerCrash;
    ReadWaited = "read_waited", RareServerCrash;
    ReadNotLeased = "read_not_leased", RareServerCrash;
    ExpiredUnasked = "expired_unasked", RareServerCrash;
    ResultWaits = "result_waits", FurtherServerCrash;
    IncrementRecalled = "increment_recalled", FurtherServerCrash;
    WriteLacksBackups = "write_lacks_backups", FurtherServerCrash;
    NotTogether = "not_together", FurtherServerCrash;
    Commit = "commit", FurtherServerCrash;
    ReclassingBegun = "reclassing_begun", FurtherServerCrash;
    ReclassingWithoutRoom = "reclassing_without_room", FurtherServerCrash;
    ReclassingTooSlow = "reclassing_too_slow", FurtherServerCrash;
    StretchCopied = "stretch_copied", FurtherServerCrash;
    ReclassingWithoutMemory = "reclassing_without_memory", FurtherServerCrash;
    StretchEntered = "stretch_entered", FurtherServerCrash;
    StretchMoved = "stretch_moved", FurtherServerCrash;
    TabletReclassed = "tablet_reclassed", FurtherServerCrash;
    Multi = "multi", FurtherServerCrash;
    RecoveryToldEarly = "recovery_told_early", FurtherServerCrash;
    LiveGaveWay = "live_gave_way", FurtherServerCrash;
    Page = "page", FurtherServerCrash;
    RecoverySettled = "recovery_settled", FurtherServerCrash;
    DamagedBeyond = "damaged_beyond", FurtherServerCrash;
    EmptyHeadLeft = "empty_head_left", FurtherServerCrash;
    Repaired = "repaired", FurtherServerCrash;
    /// A replica begins to move to another zone or rack.
    MoveBegun = "move_begun", ZonesServerCrash;
    /// A replica has moved, and the one that it replaces is not freed yet.
    ReplicaMoved = "replica_moved", ZonesServerCrash;
    /// A path on which something was waited for has become silent.
    PathSilent = "path_silent", LinksServerCrash;
    /// A silent path has answered.
    PathBack = "path_back", LinksServerCrash;
    // Coordinators. A commit is about to be asked for, or it is durable, for each kind of record.
    LeaseOver = "lease_over", CoordinatorCrash;
    CoordinatorCommitsLease = "coordinator_commits_lease", CoordinatorCrash;
    CoordinatorCommittedLease = "coordinator_committed_lease", CoordinatorCrash;
    CoordinatorCommitsMeta = "coordinator_commits_meta", CoordinatorCrash;
    CoordinatorCommitsRecovery = "coordinator_commits_recovery", CoordinatorCrash;
    CoordinatorCommitsServer = "coordinator_commits_server", CoordinatorCrash;
    CoordinatorCommitsTable = "coordinator_commits_table", CoordinatorCrash;
    CoordinatorCommitsTerm = "coordinator_commits_term", CoordinatorCrash;
    CoordinatorCommittedMeta = "coordinator_committed_meta", CoordinatorCrash;
    CoordinatorCommittedRecovery = "coordinator_committed_recovery", CoordinatorCrash;
    CoordinatorCommittedServer = "coordinator_committed_server", CoordinatorCrash;
    CoordinatorCommittedTable = "coordinator_committed_table", CoordinatorCrash;
    CoordinatorCommitsLoss = "coordinator_commits_loss", FurtherCoordinatorCrash;
    CoordinatorCommittedLoss = "coordinator_committed_loss", FurtherCoordinatorCrash;
    CoordinatorCommitsGone = "coordinator_commits_gone", FurtherCoordinatorCrash;
    CoordinatorCommittedGone = "coordinator_committed_gone", FurtherCoordinatorCrash;
    CoordinatorCommitsBrick = "coordinator_commits_brick", BricksCoordinatorCrash;
    CoordinatorCommittedBrick = "coordinator_committed_brick", BricksCoordinatorCrash;
    CoordinatorCommitsQuorumTable = "coordinator_commits_quorum_table", BricksCoordinatorCrash;
    CoordinatorCommittedQuorumTable = "coordinator_committed_quorum_table", BricksCoordinatorCrash;
    CoordinatorCommitsAccount = "coordinator_commits_account", AccountsCoordinatorCrash;
    CoordinatorCommittedAccount = "coordinator_committed_account", AccountsCoordinatorCrash;
    TableDivided = "table_divided", FurtherCoordinatorCrash;
    TabletOfPieces = "tablet_of_pieces", FurtherCoordinatorCrash;
    DivisionToldAgain = "division_told_again", FurtherCoordinatorCrash;
    CoordinatorStoreFull = "coordinator_store_full", FurtherCoordinatorCrash;
    LogKept = "log_kept", FurtherCoordinatorCrash;
    Settled = "settled", FurtherCoordinatorCrash;
    KeptLogLetGo = "kept_log_let_go", FurtherCoordinatorCrash;
    EarlierLogMoved = "earlier_log_moved", FurtherCoordinatorCrash;
    RecoveredFromTwoLogs = "recovered_from_two_logs", FurtherCoordinatorCrash;
    TableAltered = "table_altered", FurtherCoordinatorCrash;
    StretchStored = "stretch_stored", FurtherCoordinatorCrash;
    RecoveredFromPieces = "recovered_from_pieces", FurtherCoordinatorCrash;
    StateRebuilt = "state_rebuilt", FurtherCoordinatorCrash;
    RecoveryWaitsForRoom = "recovery_waits_for_room", FurtherCoordinatorCrash;
    RecoveryDividedFiner = "recovery_divided_finer", FurtherCoordinatorCrash;
    RecoveryLetsOthersTry = "recovery_lets_others_try", FurtherCoordinatorCrash;
    TableTruncated = "table_truncated", FurtherCoordinatorCrash;
    TurnGiven = "turn_given", FurtherCoordinatorCrash;
    UpdateRecalled = "update_recalled", FurtherCoordinatorCrash;
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_name_belongs_to_one_mark() {
        let names: BTreeSet<&str> = Mark::ALL.iter().map(|mark| mark.name()).collect();
        assert_eq!(names.len(), Mark::ALL.len());
    }
}
