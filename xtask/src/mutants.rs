//! Plants defects one by one, and says which seeds of the simulator find them, and which named scenario or
//! test finds the others.
//!
//! The command fails when nothing finds a defect, and when the seeds find less than their share of the defects that
//! random runs can meet at all.
//!
//! Everything is built into a folder of its own, so that a program with defects is never found in the usual
//! place.

use crate::shell::{Failure, Step, root};
use std::collections::BTreeMap;

const FOLDER: &str = "target/planted";
const RESULTS: &str = "target/planted/results";
/// The seeds that are tried for each defect, on all processors.
const SEEDS: &str = "0..500";
/// The number of defects, of a hundred that random runs can meet, that the seeds must find.
const SHARE_PERCENT: usize = 85;

/// Defects that random runs cannot meet, because they never have what it takes. Their tests find them.
const BEYOND_SEEDS: &[(&str, &str)] = &[
    ("DeposedGrants", "there is one coordinator"),
    ("DeposedTellsLeases", "there is one coordinator"),
    ("OlderStateBelieved", "nobody starts a coordinator on an old copy of its store"),
    ("AwayBelieved", "no operator accepts a loss"),
    ("SettledEarly", "the power of all hosts goes only where tables are synced"),
    ("ReclassedUnflushed", "the power of all hosts goes only where tables are synced"),
    ("SpreadIgnored", "servers have no zones without --zones"),
    ("NotSpreadAgain", "servers have no zones without --zones"),
    ("MovedEarly", "servers have no zones without --zones"),
    ("AllNear", "servers have no zones without --zones"),
    ("RecoveredAnywhere", "servers have no zones without --zones"),
    ("PathsUnused", "servers have no links without --links"),
    ("PathNeverTriedAgain", "servers have no links without --links"),
    ("NearByWrongDigit", "servers have no places without --cubes"),
    ("OneAccuserConvicts", "servers have no neighbours without --cubes"),
    ("LinkDownConvicts", "servers have no neighbours without --cubes"),
    ("EvidenceOutlivesServer", "servers have no neighbours without --cubes"),
    ("CutOffAccuses", "servers have no neighbours without --cubes"),
    ("OneWitnessIsolates", "servers have no neighbours without --cubes"),
    ("FurtherBesidePrimary", "servers have no places without --cubes"),
    ("NeighbourhoodsMixed", "servers have no places without --cubes"),
    ("FedByAnybody", "servers have no places without --cubes"),
    ("NeverMovedHome", "servers have no places without --cubes"),
    ("OutsideStays", "servers have no places without --cubes"),
    ("SharesByNumber", "servers have no places without --cubes"),
    ("OpeningsNotKept", "servers have no places without --cubes"),
    ("HeadTellsAll", "servers have no places without --cubes"),
    ("StrictRingLeft", "servers have no places without --cubes"),
    ("NotCutForOwner", "servers have no places without --cubes"),
    ("MovedHomeUnpaced", "servers have no places without --cubes"),
    ("QuorumAnyAnswerCounts", "there are no quorum tables"),
    ("QuorumPutAgainEarly", "there are no quorum tables"),
    ("QuorumPutWrittenAnew", "there are no quorum tables"),
    ("QuorumForgetsApplied", "there are no quorum tables"),
    ("QuorumRepairCountsRefusals", "there are no quorum tables"),
    ("QuorumRepairSilenceCounts", "there are no quorum tables"),
    ("QuorumRepairIgnored", "there are no quorum tables"),
    ("QuorumNotRepaired", "there are no quorum tables"),
    ("QuorumAnswersByArrival", "there are no quorum tables"),
    ("QuorumWriteNotAtomic", "there are no quorum tables"),
    ("QuorumWritesMissWrites", "there are no quorum tables"),
    ("QuorumSessionsMeet", "there are no quorum tables"),
    ("QuorumForgottenVotes", "there are no quorum tables"),
    ("QuorumOldLifeCounts", "there are no quorum tables"),
    ("QuorumRebuiltRefuses", "there are no quorum tables"),
    ("QuorumRebuiltKeepsOwn", "there are no quorum tables"),
    ("IndexFullAtStart", "there are no quorum tables"),
    ("IndexFullWhenRebuilt", "there are no quorum tables"),
    ("QuorumRebuiltStoresOwn", "there are no quorum tables"),
    ("QuorumToldEarly", "there are no quorum tables"),
    ("QuorumFarStored", "there are no quorum tables"),
    ("QuorumAppliedCleaned", "there are no quorum tables"),
    ("QuorumAppliedNotRebuilt", "there are no quorum tables"),
    ("QuorumOlderAdopted", "there are no quorum tables"),
    ("QuorumOwnClockCounts", "there are no quorum tables"),
    ("QuorumLossMarkedLate", "there are no quorum tables"),
    ("QuorumDroppedStays", "there are no quorum tables"),
    ("QuorumNextHeadCounts", "there are no quorum tables"),
    ("QuorumToldBeforeLife", "there are no quorum tables"),
    ("QuorumCopyVotes", "there are no quorum tables"),
    ("QuorumCopyEndsOriginal", "there are no quorum tables"),
    ("QuorumTwinsHeard", "there are no quorum tables"),
    ("QuorumJoinedVotes", "there are no quorum tables"),
    ("QuorumGivenUpAnswers", "there are no quorum tables"),
    ("QuorumHalfVotesEmpty", "there are no quorum tables"),
    ("QuorumStandInAlways", "there are no quorum tables"),
    ("QuorumNoStandIn", "there are no quorum tables"),
    ("ScalingUnguarded", "there are no quorum tables"),
    ("ScalingCancelLeavesMove", "there are no quorum tables"),
    ("ScalingBackUnguarded", "there are no quorum tables"),
    ("ScalingStallBegunAnew", "there are no quorum tables"),
    ("ScalingStallUntold", "there are no quorum tables"),
    ("QuorumGiverForgotten", "there are no quorum tables"),
    ("QuorumJoinedUnwitnessed", "there are no quorum tables"),
    ("QuorumMissingAwaited", "there are no quorum tables"),
    ("QuorumStaleStays", "there are no quorum tables"),
    ("QuorumExpiryNotCommitted", "there are no quorum tables"),
    ("QuorumExpiryFresh", "there are no quorum tables"),
    ("QuorumOutdatedStored", "there are no quorum tables"),
    ("QuorumOutlivedVotes", "there are no quorum tables"),
    ("QuorumBegunByFirst", "there are no quorum tables"),
    ("QuorumLateClockCounts", "there are no quorum tables"),
    ("QuorumWrongClockPassedOn", "there are no quorum tables"),
    ("QuorumTimeOfOne", "there are no quorum tables"),
    ("QuorumCopyRunsOn", "there are no quorum tables"),
    ("QuorumGraveBeforeDevice", "there are no quorum tables"),
    ("QuorumGraveWithoutAll", "there are no quorum tables"),
    ("QuorumGraveUnguarded", "there are no quorum tables"),
    ("QuorumPageEarly", "there are no quorum tables"),
    ("QuorumPageDifferenceTaken", "there are no quorum tables"),
    ("QuorumHedgesAll", "there are no quorum tables"),
    ("QuorumWindowOfOldLife", "there are no quorum tables"),
    ("QuorumRefusedStillSent", "there are no quorum tables"),
    ("QuorumRefusedIsUnknown", "there are no quorum tables"),
    ("QuorumRepairWithoutReserve", "there are no quorum tables"),
    ("QuorumLastFrameTaken", "there are no quorum tables"),
    ("QuorumDeadLeaveOpenHead", "there are no quorum tables"),
    ("QuorumStartWithoutFrames", "there are no quorum tables"),
    ("QuorumLateOrder", "there are no quorum tables"),
    ("QuorumOrderBelieved", "there are no quorum tables"),
    ("QuorumAllOrder", "there are no quorum tables"),
    ("QuorumNotLoadedAbsent", "there are no quorum tables"),
    ("QuorumPendingForgotten", "there are no quorum tables"),
    ("QuorumLoadingRejects", "there are no quorum tables"),
    ("QuorumNoConsent", "there are no quorum tables"),
    ("QuorumCureUnlimited", "there are no quorum tables"),
    ("QuorumLostIsSilent", "there are no quorum tables"),
    ("QuorumUnopenedHoldsAll", "there are no quorum tables"),
    ("QuorumWalkUnbounded", "there are no quorum tables"),
    ("QuorumStalledIsSilent", "there are no quorum tables"),
    ("QuorumPutsRepeated", "there are no quorum tables"),
];

/// A test that is run with a defect planted: crate, its feature, test binary (none: the library's own), filter.
type Test = (&'static str, &'static str, &'static str, &'static str);

/// All named scenarios; they take seconds.
const SCENARIOS: Test = ("ramhold-world", "planted", "scenarios", "");

/// The test that finds a defect which few or no seeds find: defect, crate, test binary, filter.
const NAMED: &[(&str, &str, &str, &str)] = &[
    ("RefusalNotLogged", "ramhold-master", "master", "once::a_refusal_by_a_rule_is_an_answer_for_good"),
    ("LeaseNotChecked", "ramhold-master", "master", "once::nothing_is_carried_out_under_a_lease"),
    ("LeaseToldTooLong", "ramhold-coordinator", "protocol", "leases::a_lease_lives_for_a_term"),
    ("DroppedTaken", "ramhold-world", "scenarios", "updates::a_dropped_table_stays_dropped"),
    (
        "OpenedAnewUnnoticed",
        "ramhold-replication",
        "replication",
        "lossy_backups::late_answers_about_a_replica_opened_anew",
    ),
    ("UnconfirmedServed", "ramhold-master", "master", "local::a_"),
    ("JoinedAtNewest", "ramhold-world", "scenarios", "tablets::a_joined_tablet_is_recovered"),
    ("OldDivisionTaken", "ramhold-master", "master", "division::an_older_division"),
    ("RecountedTwice", "ramhold-log", "log", "recount::"),
    ("ProfileNotMoved", "ramhold-log", "log", "cleaning::"),
    ("UpdateRepeated", "ramhold-coordinator", "protocol", "updates::a_doubled_creation"),
    ("UpdateFloorIgnored", "ramhold-coordinator", "protocol", "updates::what_is_below_the_floor"),
    ("UpdateResultNotStored", "ramhold-coordinator", "protocol", "updates::a_coordinator_that_dies"),
    ("MissEarly", "ramhold-master", "master", "dirty::what_is_not_there"),
    ("ReadUnleased", "ramhold-master", "master", "read_lease::"),
    ("OneGrantEnough", "ramhold-replication", "replication", "grants::"),
    ("NewestHeadGrants", "ramhold-replication", "replication", "grants::"),
    ("NextHeadNotAsked", "ramhold-replication", "replication", "grants::"),
    ("UnrecordedGrants", "ramhold-replication", "replication", "grants::"),
    ("RestartGrantsNothing", "ramhold-backup", "backup", "grants::"),
    ("StartGrantsNothing", "ramhold-coordinator", "protocol", "read_leases::a_new_coordinator"),
    ("DeposedGrants", "ramhold-coordinator", "protocol", "read_leases::a_deposed_coordinator"),
    ("DeposedTellsLeases", "ramhold-coordinator", "protocol", "leases::a_deposed_coordinator"),
    ("OpenedEarly", "ramhold-coordinator", "protocol", "read_leases::recovered_tablets_open"),
    ("OlderNotNamed", "ramhold-log", "log", "dead::"),
    ("RetiredEarly", "ramhold-master", "master", "repair::survivors_and_sources_wait"),
    ("EnteredEarly", "ramhold-master", "master", "repair::survivors_and_sources_wait"),
    ("CopiedEarly", "ramhold-replication", "replication", "flushed::the_position_does_not_wait"),
    ("ClosedEarly", "ramhold-replication", "replication", "lossy_backups::"),
    ("NextHeadEarly", "ramhold-replication", "replication", "lossy_backups::"),
    ("FreedUnrecorded", "ramhold-replication", "replication", "lossy_backups::"),
    ("EpochNotRecorded", "ramhold-replication", "replication", "lossy_backups::"),
    ("EpochNotRaised", "ramhold-replication", "replication", "lossy_backups::"),
    ("StreamNotRegistered", "ramhold-replication", "replication", "lossy_backups::"),
    ("GrowthNotTriedAgain", "ramhold-backup", "backup", "growth::a_device_that_was_full"),
    ("OldEpochTaken", "ramhold-backup", "backup", "appends::an_epoch_moves_only_up"),
    ("CutNotTold", "ramhold-backup", "backup", "lives::lost_buffers_cut"),
    ("SyncedEarly", "ramhold-backup", "backup", "synced::an_answer_waits"),
    ("AwayBelieved", "ramhold-world", "scenarios", "recovery::who_still_answers_somebody"),
    ("FlushedClaimed", "ramhold-backup", "backup", "flushed::bytes_are_told_as_flushed"),
    ("FirstSegmentIgnored", "ramhold-backup", "backup", "reading::"),
    ("OldRangesMeant", "ramhold-backup", "backup", "reading::an_answer_is_by_the_ranges"),
    ("CorruptPassedOver", "ramhold-master", "master", "recovery::damaged_records_are_fetched"),
    ("RecoveredEarly", "ramhold-master", "master", "recovery::nothing_is_entered_before_it"),
    ("ReclassedWithoutFresh", "ramhold-log", "log", "reclass::a_range_goes"),
    ("ReclassedWithoutResults", "ramhold-log", "log", "reclass::a_range_goes"),
    ("ReclassedUnblocked", "ramhold-world", "scenarios", "reclassing::a_table_is_altered"),
    ("ReclassedUndurable", "ramhold-master", "master", "reclassing::a_stretch_does_not_count"),
    ("ReclassedUnflushed", "ramhold-world", "scenarios", "reclassing::what_devices_had"),
    ("ReclassedUnasked", "ramhold-world", "scenarios", "reclassing::a_stretch_waits"),
    ("OldMoveTaken", "ramhold-world", "scenarios", "reclassing::what_comes_late"),
    ("LogNotKept", "ramhold-world", "scenarios", "kept::power_that_goes"),
    ("SettledEarly", "ramhold-world", "scenarios", "kept::power_that_goes"),
    ("EarlyInOldHead", "ramhold-world", "scenarios", "kept::an_owner_that_dies"),
    ("EarlierLogIgnored", "ramhold-world", "scenarios", "kept::power_that_goes"),
    ("OlderLogsForgotten", "ramhold-coordinator", "protocol", "recoveries::what_is_not_settled"),
    ("ShortTailTold", "ramhold-master", "master", "once::a_result_from_a_short_tail"),
    ("FenceToldUnsynced", "ramhold-backup", "backup", "synced::a_fence_is_answered"),
    ("LiveKeepsFrames", "ramhold-master", "master", "recovery::what_is_live_is_replicated_in_its_turn"),
    ("TurnsForAll", "ramhold-world", "scenarios", "scarce::and_with_few_frames_and_recovery"),
    ("SettlingCleaned", "ramhold-master", "master", "recovery::side_segments_stay"),
    ("EnteredUnheld", "ramhold-master", "master", "recovery::nothing_is_entered_before_backups"),
    ("SpreadIgnored", "ramhold-placement", "", "the_loss_of_any_zone"),
    ("NotSpreadAgain", "ramhold-replication", "replication", "spreading::"),
    ("MovedEarly", "ramhold-replication", "replication", "spreading::"),
    ("AllNear", "ramhold-placement", "", "the_loss_of_any_zone"),
    ("RecoveredAnywhere", "ramhold-coordinator", "protocol", "zones::"),
    ("PathsUnused", "ramhold-world", "scenarios", "paths::"),
    ("PathNeverTriedAgain", "ramhold-world", "scenarios", "paths::"),
    ("NearByWrongDigit", "ramhold-placement", "grid", "rings_routes_and_failures"),
    ("OneAccuserConvicts", "ramhold-coordinator", "protocol", "neighbours::one_neighbour_alone"),
    ("LinkDownConvicts", "ramhold-coordinator", "protocol", "neighbours::a_neighbour_that_is_reached"),
    ("EvidenceOutlivesServer", "ramhold-coordinator", "protocol", "neighbours::what_is_taken_back"),
    ("CutOffAccuses", "ramhold-detector", "", "who_hears_less_than_half"),
    ("OneWitnessIsolates", "ramhold-coordinator", "protocol", "neighbours::who_has_one_neighbour_left"),
    ("FurtherBesidePrimary", "ramhold-placement", "neighbourhoods", "further_replicas"),
    ("NeighbourhoodsMixed", "ramhold-world", "scenarios", "neighbourhoods::a_master_is_recovered"),
    ("FedByAnybody", "ramhold-world", "scenarios", "neighbourhoods::a_master_is_recovered"),
    ("NeverMovedHome", "ramhold-world", "scenarios", "neighbourhoods::the_tablets"),
    ("StrictRingLeft", "ramhold-placement", "", "strict_rings_have_all"),
    ("NotCutForOwner", "ramhold-world", "scenarios", "neighbourhoods::a_large_tablet"),
    ("MovedHomeUnpaced", "ramhold-world", "scenarios", "neighbourhoods::tablets_move_home"),
    ("OutsideStays", "ramhold-world", "scenarios", "neighbourhoods::primaries_outside"),
    ("SharesByNumber", "ramhold-world", "scenarios", "neighbourhoods::shares_are_even"),
    ("OpeningsNotKept", "ramhold-backup", "backup", "reading::with_neighbourhoods"),
    ("HeadTellsAll", "ramhold-world", "scenarios", "neighbourhoods::a_head_tells"),
    ("OpenCountsAsWhole", "ramhold-coordinator", "proofs", "prove::an_open_replica_of_a_closed_segment"),
    ("AnyLifeAnswers", "ramhold-wire", "", "server_list::"),
    ("TermAged", "ramhold-wire", "frame_document", "every_vector_is_read"),
    ("ClusterIgnored", "ramhold-wire", "", "server_list::"),
    ("OlderStateBelieved", "ramhold-wire", "", "copies::"),
    ("ToldBeforeCopied", "ramhold-coordinator", "protocol", "copies::nothing_is_told"),
    ("FirstCopyTaken", "ramhold-coordinator", "protocol", "rebuilding::the_newest_copy"),
    ("RebuiltWithoutAll", "ramhold-coordinator", "protocol", "rebuilding::nothing_is_begun"),
    ("RebuiltInOldTerm", "ramhold-coordinator", "protocol", "rebuilding::the_coordinator_of_before"),
    ("RebuiltIdsReused", "ramhold-coordinator", "protocol", "rebuilding::an_id_that_was_given_out"),
    ("RespUnknownIsRefused", "ramhold-world", "scenarios", "resp::a_write_whose_answer_is_lost"),
    ("QuorumAnyAnswerCounts", "ramhold-quorum", "quorum", "runs::"),
    ("QuorumPutAgainEarly", "ramhold-quorum", "quorum", "runs::one_phase"),
    ("QuorumPutWrittenAnew", "ramhold-quorum", "quorum", "runs::all_bricks_write"),
    ("QuorumForgetsApplied", "ramhold-quorum", "quorum", "runs::one_phase_and_two"),
    ("QuorumRepairCountsRefusals", "ramhold-quorum", "quorum", "runs::one_phase"),
    ("QuorumRepairSilenceCounts", "ramhold-quorum", "quorum", "runs::"),
    ("QuorumRepairIgnored", "ramhold-quorum", "quorum", "runs::one_phase"),
    ("QuorumNotRepaired", "ramhold-quorum", "quorum", "runs::one_phase"),
    ("QuorumAnswersByArrival", "ramhold-quorum", "quorum", "runs::five_bricks"),
    ("QuorumWriteNotAtomic", "ramhold-quorum", "quorum", "runs::one_phase_and_two"),
    ("QuorumWritesMissWrites", "ramhold-quorum", "", "numbers_that_are_no_quorum"),
    ("QuorumSessionsMeet", "ramhold-quorum", "", "one_wrong_clock"),
    ("QuorumForgottenVotes", "ramhold-quorum", "quorum", "runs::a_brick_that_forgot"),
    ("QuorumOldLifeCounts", "ramhold-quorum", "quorum", "runs::a_brick_that_forgot"),
    ("QuorumRebuiltRefuses", "ramhold-quorum", "quorum", "runs::a_brick_that_forgot"),
    ("QuorumRebuiltKeepsOwn", "ramhold-quorum", "", "its_own_value"),
    ("IndexFullAtStart", "ramhold-log", "", "a_full_index"),
    ("IndexFullWhenRebuilt", "ramhold-log", "", "a_full_index"),
    ("QuorumRebuiltStoresOwn", "ramhold-brick", "", "what_a_sibling_gets"),
    ("QuorumToldEarly", "ramhold-quorum", "quorum", "runs::synced"),
    ("QuorumFarStored", "ramhold-quorum", "quorum", "schedules::a_stamp_from_afar"),
    ("QuorumAppliedCleaned", "ramhold-log", "log", "stamped::"),
    ("QuorumAppliedNotRebuilt", "ramhold-log", "log", "stamped::"),
    ("QuorumOlderAdopted", "ramhold-log", "log", "stamped::"),
    ("QuorumOwnClockCounts", "ramhold-world", "bricks", "runs::one_brick_whose_clock"),
    ("QuorumLossMarkedLate", "ramhold-world", "bricks", "runs::a_brick_that_lost_its_power"),
    ("QuorumDroppedStays", "ramhold-world", "bricks", "runs::bricks_that_lose"),
    ("QuorumNextHeadCounts", "ramhold-brick", "", "the_next_head"),
    ("QuorumToldBeforeLife", "ramhold-world", "bricks", "runs::a_page_is_told"),
    ("QuorumCopyVotes", "ramhold-world", "bricks", "copies::a_directory_that_was_restored"),
    ("QuorumCopyEndsOriginal", "ramhold-world", "bricks", "copies::a_copy_does_not_end"),
    ("QuorumTwinsHeard", "ramhold-world", "bricks", "copies::of_two_processes"),
    ("QuorumJoinedVotes", "ramhold-world", "bricks", "replacing::bricks_go_on_without_one"),
    ("QuorumGivenUpAnswers", "ramhold-world", "bricks", "scaling::three_bricks_come"),
    ("QuorumHalfVotesEmpty", "ramhold-world", "bricks", "scaling::three_bricks_come"),
    ("QuorumStandInAlways", "ramhold-world", "bricks", "scaling::nobody_stands_in"),
    ("QuorumNoStandIn", "ramhold-world", "bricks", "scaling::a_sibling_may_forget"),
    ("ScalingUnguarded", "ramhold-world", "bricks", "scaling::a_move_waits"),
    ("ScalingCancelLeavesMove", "ramhold-coordinator", "protocol", "scaling::a_tablet_is_called_back_from"),
    (
        "ScalingBackUnguarded",
        "ramhold-coordinator",
        "protocol",
        "scaling::a_tablet_that_is_called_back_waits",
    ),
    ("ScalingStallBegunAnew", "ramhold-coordinator", "", "a_brick_that_begins_again"),
    ("ScalingStallUntold", "ramhold-coordinator", "protocol", "scaling::a_tablet_is_called_back_from"),
    ("QuorumGiverForgotten", "ramhold-coordinator", "protocol", "forgetting::a_brick_that_gives_its_last"),
    ("QuorumJoinedUnwitnessed", "ramhold-world", "bricks", "replacing::a_brick_joins_when_no_quorum"),
    ("QuorumMissingAwaited", "ramhold-world", "bricks", "replacing::bricks_go_on_without_one"),
    ("QuorumStaleStays", "ramhold-world", "bricks", "replacing::removed_keys_do_not_come_back"),
    ("QuorumExpiryNotCommitted", "ramhold-quorum", "quorum", "expiry::"),
    ("QuorumExpiryFresh", "ramhold-quorum", "quorum", "expiry::"),
    ("QuorumOutlivedVotes", "ramhold-world", "bricks", "copies::of_two_processes"),
    ("QuorumBegunByFirst", "ramhold-quorum", "quorum", "clocks::one_wrong_clock"),
    ("QuorumLateClockCounts", "ramhold-quorum", "quorum", "clocks::an_answer_that_comes_late"),
    ("QuorumWrongClockPassedOn", "ramhold-brick", "", "a_wrong_clock_is_not_passed_on"),
    ("QuorumTimeOfOne", "ramhold-client-core", "transcripts", "thresholds::a_read_that_asks_half"),
    ("QuorumCopyRunsOn", "ramhold-world", "bricks", "copies::a_copy_does_not_end"),
    ("QuorumOutdatedStored", "ramhold-quorum", "quorum", "schedules::a_put_with_an_old_stamp"),
    ("QuorumGraveBeforeDevice", "ramhold-world", "bricks", "background::a_page_for_the_sweep"),
    ("QuorumGraveWithoutAll", "ramhold-world", "bricks", "background::tombstones"),
    ("QuorumGraveUnguarded", "ramhold-world", "bricks", "background::tombstones"),
    ("QuorumPageEarly", "ramhold-world", "bricks", "scans::a_page_does_not_tell"),
    ("QuorumPageDifferenceTaken", "ramhold-world", "bricks", "scans::a_scan_tells"),
    ("QuorumHedgesAll", "ramhold-client-core", "transcripts", "hedges::"),
    ("QuorumWindowOfOldLife", "ramhold-client-core", "transcripts", "windows::the_windows_of_a_new_life"),
    ("QuorumRefusedStillSent", "ramhold-client-core", "transcripts", "windows::a_put_that_was_never_sent"),
    ("QuorumRefusedIsUnknown", "ramhold-client-core", "transcripts", "memory::a_put_that_all_bricks_refuse"),
    ("QuorumRepairWithoutReserve", "ramhold-world", "bricks", "full::a_full_brick"),
    ("QuorumLastFrameTaken", "ramhold-world", "bricks", "full::writes_leave_the_frames"),
    ("QuorumDeadLeaveOpenHead", "ramhold-world", "seeds", "a_brick_that_dies_twice"),
    ("QuorumStartWithoutFrames", "ramhold-world", "bricks", "full::a_brick_that_dies_again"),
    ("QuorumLateOrder", "ramhold-world", "bricks", "restarts::a_late_order"),
    ("QuorumOrderBelieved", "ramhold-world", "bricks", "restarts::announcements_that_are_cut"),
    ("QuorumAllOrder", "ramhold-world", "bricks", "restarts::the_next_brick"),
    ("QuorumNotLoadedAbsent", "ramhold-brick", "", "loading::"),
    ("QuorumPendingForgotten", "ramhold-log", "log", "stamped::"),
    ("QuorumLoadingRejects", "ramhold-brick", "", "loading::"),
    ("QuorumNoConsent", "ramhold-world", "bricks", "anomalies::at_most_one"),
    ("QuorumCureUnlimited", "ramhold-supervisor", "supervisor", "anomalies::an_anomalous_brick_is_spared"),
    ("QuorumLostIsSilent", "ramhold-supervisor", "supervisor", "orders::lost_connections"),
    ("QuorumUnopenedHoldsAll", "ramhold-world", "bricks", "streams::"),
    ("QuorumWalkUnbounded", "ramhold-brick", "", "pages::"),
    ("QuorumStalledIsSilent", "ramhold-brick", "", "stalling::"),
    ("QuorumPutsRepeated", "ramhold-quorum", "quorum", "schedules::a_put_does_not_repeat"),
    ("RespDroppedIsEmpty", "ramhold-world", "scenarios", "resp::flushing_under_load"),
];

pub fn run(arguments: &[String]) -> Result<(), Failure> {
    Step::new("build")
        .cargo(&["build", "--release", "--package", "ramhold-world", "--features", "planted"])
        .env("CARGO_TARGET_DIR", FOLDER)
        .quiet()
        .run()?;
    let given = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let mut more = arguments.to_vec();
    if !given("--seeds") {
        more.extend(["--seeds".into(), SEEDS.into()]);
    }
    let beyond: Vec<&str> = BEYOND_SEEDS.iter().map(|(defect, _)| *defect).collect();
    if !given("--defect") {
        more.extend(["--except".into(), beyond.join(",")]);
    }
    Step::new("mutants")
        .program(format!("{FOLDER}/release/ramhold-world"), &["--mutants", "--results", RESULTS])
        .arguments(&more)
        .quiet()
        .run()?;
    if given("--help") || given("-h") {
        return Ok(());
    }
    let results =
        std::fs::read_to_string(root().join(RESULTS)).map_err(|e| Failure(format!("{RESULTS}: {e}")))?;
    let missed: Vec<&str> = results.lines().filter(|line| !line.contains(' ')).collect();
    let mut sound = BTreeMap::new();
    let by_test: Vec<(&str, Option<String>)> =
        missed.into_iter().map(|defect| (defect, found_by_test(defect, &mut sound))).collect();

    let all = results.lines().count();
    let by_seeds = all - by_test.len();
    let within = all - by_test.iter().filter(|(defect, _)| beyond.contains(defect)).count();
    println!(
        "{by_seeds} of the {within} defects that random runs can meet ({} %) were found by seeds, the rest of {all} by \
         tests:",
        by_seeds * 100 / within.max(1)
    );
    for (defect, test) in &by_test {
        let why = BEYOND_SEEDS.iter().find(|(name, _)| name == defect);
        let why = why.map_or(String::new(), |(_, why)| format!(" (no seed: {why})"));
        println!("{defect:<24} {}{why}", test.as_deref().unwrap_or("NOT FOUND"));
    }
    let not_found: Vec<&str> =
        by_test.iter().filter(|(_, test)| test.is_none()).map(|(defect, _)| *defect).collect();
    if !not_found.is_empty() {
        return Err(Failure(format!("not found by any seed or test: {}", not_found.join(", "))));
    }
    // With one defect alone, or with other seeds, the share says nothing.
    let is_whole = !given("--seeds") && !given("--defect");
    if is_whole && by_seeds * 100 < within * SHARE_PERCENT {
        return Err(Failure(format!("less than {SHARE_PERCENT} % of the defects were found by seeds")));
    }
    println!("every defect is found");
    Ok(())
}

/// The test that finds a defect. `sound` remembers which tests pass without a defect: each is asked once.
fn found_by_test(defect: &str, sound: &mut BTreeMap<Test, bool>) -> Option<String> {
    let named = NAMED.iter().find(|(name, ..)| *name == defect);
    let named =
        named.map(|(_, package, binary, filter)| (*package, "ramhold-base/planted", *binary, *filter));
    for test in named.into_iter().chain([SCENARIOS]) {
        let (package, _, binary, filter) = test;
        let is_sound = *sound.entry(test).or_insert_with(|| with_planted(test, "").run().is_ok());
        // A test that fails without the defect, or whose name has changed, does not find the defect.
        let is_found = is_sound && with_planted(test, defect).run_expecting_failure().is_ok();
        let name = format!("{package} {binary} {filter}");
        if is_found {
            return Some(name);
        }
        let how = if is_sound { "is not found by" } else { "has a test that fails without it:" };
        println!("{defect:<24} {how} {name}");
    }
    None
}

fn with_planted((package, feature, binary, filter): Test, planted: &str) -> Step {
    let which: &[&str] = if binary.is_empty() { &["--lib"] } else { &["--test", binary] };
    let all = ["test", "--quiet", "--release", "--package", package, "--features", feature];
    Step::new(&format!("{package} {filter}"))
        .cargo(&[&all[..], which, &[filter]].concat())
        .env("CARGO_TARGET_DIR", FOLDER)
        .env("RAMHOLD_PLANTED", planted)
        .silent()
}
