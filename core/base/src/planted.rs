//! Defects that tests plant on purpose, to see that the tests find them.
//!
//! They exist only with the feature `planted`, which only `cargo xtask mutants` uses. Otherwise `planted` is
//! a constant `false`, and the program contains no defect. A program for users refuses to be built with the
//! feature.
//!
//! There is one line per defect. Where it strikes, the code asks `planted(Defect::Name)`. Each defect breaks
//! one rule of docs/protocols; most of these are rules that RAMCloud once broke, or that a simpler design
//! would leave out.
//!
//! Catalogue: J2, J3.

macro_rules! defects {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Defect { $($(#[$doc])* $name,)* }

        impl Defect {
            pub const ALL: &'static [Defect] = &[$(Defect::$name,)*];
        }
    };
}

defects! {
    // Exactly once.
    /// A mutation's result is not in the log beside its effect.
    ResultNotLogged;
    /// A refusal by a rule is answered and not remembered.
    RefusalNotLogged;
    /// A recovery leaves results out when it replays.
    ResultNotReplayed;
    /// A backup leaves results out when it divides a segment.
    ResultNotDivided;
    /// The cleaner leaves results behind.
    ResultNotMoved;
    /// A repeated mutation is carried out again.
    ResultIgnored;
    /// A repeated mutation is answered before its result is durable.
    ResultToldEarly;
    /// A sequence that was refused may be carried out later.
    SequenceNotBurnt;
    /// A sequence below the floor is taken for a new one.
    FloorIgnored;
    /// A mutation is carried out under any lease.
    LeaseNotChecked;
    /// The coordinator tells masters more of a lease than is left.
    LeaseToldTooLong;
    /// A coordinator tells masters that a lease lives without making sure that it was not deposed.
    DeposedTellsLeases;
    /// The result of an increment is remembered without its number: a repeated request gets the present
    /// number.
    IncrementNumberNotLogged;
    /// A repeated increment is carried out again.
    IncrementRepeated;
    /// For the mutations of a frame with several, nobody looks up earlier results.
    ItemsNotRecalled;
    /// The answers to the items of a frame are given in the wrong places.
    ItemsMixedUp;
    /// A page goes on with a whole bucket of the index, not with the position that the page before has
    /// reached.
    ScanBucketTwice;
    /// A page does not wait for the objects that it shows to be durable.
    PageEarly;
    /// Every server has an order of its own for scans.
    ScanOrderOwn;
    /// Only the rules of a commit's first object are checked.
    CommitRulesSkipped;
    /// A commit that a rule refuses has changed the objects before that one.
    CommitInPart;
    /// Each object of a commit is a group of its own, under a certificate of its own.
    CommitTorn;
    /// A backup leaves the second object of a commit out when it divides a segment.
    CommitSecondNotDivided;
    /// The result of a commit is not in the log beside its effect.
    CommitResultNotLogged;
    /// A commit takes objects that are not in its stream, or on another server, for its own.
    NotTogetherPassed;
    /// A client takes a new number while the fate of an attempt is open.
    NumberGivenUp;
    /// The coordinator carries a repeated update out again.
    UpdateRepeated;
    /// An update below the floor is taken for a new one.
    UpdateFloorIgnored;
    /// The result of an update does not go to the store with its effect.
    UpdateResultNotStored;

    // Answers and durability.
    /// Answers do not wait for replication.
    AnsweredEarly;
    /// A read does not wait for the object that it tells of.
    ReadEarly;
    /// A miss does not wait for the remove that it tells of.
    MissEarly;

    // Read leases.
    /// A master answers reads without a lease.
    ReadUnleased;
    /// The latest grant of any replica of the head is taken for that of all.
    OneGrantEnough;
    /// The newest head grants, while an older one is not closed yet.
    NewestHeadGrants;
    /// The next head is not asked while some backup may have closed the present one.
    NextHeadNotAsked;
    /// Backups whose epoch the coordinator has not recorded grant.
    UnrecordedGrants;
    /// A backup that was restarted says that it has granted nothing.
    RestartGrantsNothing;
    /// A coordinator that has just started assumes that nobody was granted anything.
    StartGrantsNothing;
    /// A coordinator grants without making sure that it was not deposed.
    DeposedGrants;
    /// Recovered tablets are opened before the dead server's lease is over.
    OpenedEarly;

    // Versions and expiry.
    /// A remove does not raise the safe version.
    SafeVersionNotRaised;
    /// A recovery does not take over safe versions.
    SafeVersionNotReplayed;
    /// In a recovery a later entry wins, not a newer one.
    OlderWins;
    /// A recovery leaves tombstones out.
    TombstoneNotReplayed;
    /// An object whose time is over is served.
    ExpiredServed;
    /// An object whose time is over stays until somebody asks for it.
    ExpiredKept;

    // Cleaning.
    /// Cleaning drops tombstones that are needed.
    TombstoneDropped;
    /// An overwrite does not name the segments of older versions.
    OlderNotNamed;
    /// Sources of a pass go before the head that does not name them is on the devices.
    RetiredEarly;
    /// Survivors enter the log before they are whole on the backups.
    EnteredEarly;
    /// Replicas are made from a compacted segment before that is safe.
    CopiedEarly;

    // Replication.
    /// One replica is enough.
    OneReplicaEnough;
    /// A head is closed before the next one is open on all backups.
    ClosedEarly;
    /// Data goes into the next head before the one before is closed.
    NextHeadEarly;
    /// Writes go on before the coordinator has recorded a new epoch.
    EpochNotRecorded;
    /// Replicas of old heads are freed although the coordinator would still take them for the head.
    FreedUnrecorded;
    /// The loss of a replica does not raise the epoch.
    EpochNotRaised;
    /// A stream acknowledges before the coordinator knows of it.
    StreamNotRegistered;

    // Backups.
    /// A backup takes appends of a server that it was told is dead.
    FenceIgnored;
    /// A backup takes appends of an older epoch.
    OldEpochTaken;
    /// A replica whose buffer was lost is reported as if it were whole.
    CutNotTold;
    /// A backup reports the bytes in its buffer as being on its device.
    FlushedClaimed;
    /// A backup answers for a synced replica when the buffer has what the device is to have.
    SyncedEarly;
    /// A backup frees the replicas of crashed masters.
    FreedEarly;
    /// The checksum of a frame is not looked at.
    FrameUnchecked;
    /// A backup whose device was full once does not look again whether there is room.
    GrowthNotTriedAgain;

    // Zones and racks.
    /// A backup is chosen wherever the other copies of the segment are.
    SpreadIgnored;
    /// Nobody looks for segments whose copies are all in one zone.
    NotSpreadAgain;
    /// A replica that moves is given up before its successor is whole.
    MovedEarly;
    /// With `zone-local` every replica goes into the master's own zone, not the primary alone.
    AllNear;
    /// With `zone-local` a dead server is recovered anywhere, and partitions mix homes.
    RecoveredAnywhere;

    // Paths.
    /// Servers talk over their first addresses although they have links.
    PathsUnused;
    /// A path that was silent once is never tried again.
    PathNeverTriedAgain;

    // Neighbours.
    /// Servers are near those that differ from them on another level.
    NearByWrongDigit;
    /// One neighbour that has lost a server is enough for the verdict.
    OneAccuserConvicts;
    /// A server that is silent on one link is accused, though another way leads to it.
    LinkDownConvicts;
    /// Reports of a dead server still count.
    EvidenceOutlivesServer;
    /// A server that hears less than half of its neighbours accuses the others.
    CutOffAccuses;
    /// One neighbour that has lost a server makes it isolated.
    OneWitnessIsolates;
    /// The further replicas of a segment may be in the rack of its primary, though there are other racks.
    FurtherBesidePrimary;
    /// With strict rings the other replicas of a segment leave its ring, though it has room.
    StrictRingLeft;
    /// The data that one neighbour recovers stays in one piece, which one of its own neighbours would recover alone.
    NotCutForOwner;
    /// A partition has tablets of several neighbourhoods.
    NeighbourhoodsMixed;
    /// The primary of a segment is on any backup, not on a feeder of its neighbourhood.
    FedByAnybody;
    /// Tablets are moved to other neighbourhoods one after the other, whatever the rate of copies.
    MovedHomeUnpaced;
    /// Tablets stay with a neighbourhood that is gone.
    NeverMovedHome;
    /// A primary stays outside its neighbourhood, though a feeder has room for it.
    OutsideStays;
    /// Shares of neighbourhoods are even by the number of tablets, whatever they weigh.
    SharesByNumber;
    /// A fence reads openings from the device that an append told.
    OpeningsNotKept;
    /// The head of a neighbourhood tells of the tablets of all neighbourhoods.
    HeadTellsAll;

    // Quorum register.
    /// Any answer of a brick counts towards the write quorum, a refusal too.
    QuorumAnyAnswerCounts;
    /// A put takes a new stamp after the first refusal, though the old one may yet be committed.
    QuorumPutAgainEarly;
    /// A put whose time is over is written anew with another stamp.
    QuorumPutWrittenAnew;
    /// A brick does not remember the stamps that it has overwritten.
    QuorumForgetsApplied;
    /// A refusal counts as the repair of a brick.
    QuorumRepairCountsRefusals;
    /// A brick that is silent to a repair counts as repaired.
    QuorumRepairSilenceCounts;
    /// A get returns its value when the first repair is answered, however it is.
    QuorumRepairIgnored;
    /// A get returns the newest value that it was told, though too few bricks have it.
    QuorumNotRepaired;
    /// Stamps are noted in the order of their arrival, as if it were that of the questions.
    QuorumAnswersByArrival;
    /// A brick judges a write and stores it a moment later.
    QuorumWriteNotAtomic;
    /// W = 1 of 3 is allowed, because every read asks all.
    QuorumWritesMissWrites;
    /// Two sessions of one host have the same number, and a coarse clock.
    QuorumSessionsMeet;
    /// A brick that has forgotten something votes at once.
    QuorumForgottenVotes;
    /// An answer of a brick's former life counts beside those that know the next one.
    QuorumOldLifeCounts;
    /// A brick that was rebuilt refuses stamps of which it has forgotten whether it stored them.
    QuorumRebuiltRefuses;
    /// A brick stores what it is sent while it is rebuilt, and counts it.
    QuorumRebuiltKeepsOwn;
    /// The index that a start fills again has no more memory than it was full with.
    IndexFullAtStart;
    /// An entry that others have stored takes no memory beyond the index's bound.
    IndexFullWhenRebuilt;
    /// A brick that is rebuilt stores what a sibling tells over its own record with the same stamp.
    QuorumRebuiltStoresOwn;
    /// A brick answers before what it says is on its device.
    QuorumToldEarly;
    /// A stamp that is far ahead is stored.
    QuorumFarStored;
    /// Cleaning frees superseded records that a brick must still answer for.
    QuorumAppliedCleaned;
    /// A brick that starts again does not remember what was superseded.
    QuorumAppliedNotRebuilt;
    /// A brick judges by its own clock before it has heard its siblings'.
    QuorumOwnClockCounts;
    /// A brick's start takes the next head for the head, although the one before it still took data.
    QuorumNextHeadCounts;
    /// A rebuilt brick votes while its log still holds records that it has dropped.
    QuorumDroppedStays;
    /// A brick tells a sibling that is rebuilt something before it has stored the sibling's life.
    QuorumToldBeforeLife;
    /// A brick that lost its buffers notes that when it has read its log, and the backup has forgotten it by then.
    QuorumLossMarkedLate;
    /// After a restart the record that is found last wins, not the newest.
    QuorumOlderAdopted;
    /// A brick that was started on a copy of its directory votes with what the copy has.
    QuorumCopyVotes;
    /// A sibling takes a later life at another address while the life before it is heard.
    QuorumCopyEndsOriginal;
    /// Both of two processes with one number of a life are heard.
    QuorumTwinsHeard;
    /// A brick that joins a tablet again votes with what it had before.
    QuorumJoinedVotes;
    /// A brick that has given up a half goes on answering for it, under the new epoch.
    QuorumGivenUpAnswers;
    /// A brick that gets a half votes in it before it has any of its keys.
    QuorumHalfVotesEmpty;
    /// The brick from which a tablet moves is read also when the one that takes it has voted.
    QuorumStandInAlways;
    /// The brick from which a tablet moves is not read when one of the others has forgotten something.
    QuorumNoStandIn;
    /// The coordinator takes a brick that is being rebuilt for one that votes when it moves tablets.
    ScalingUnguarded;
    /// An order that is taken back leaves its tablet on the way.
    ScalingCancelLeavesMove;
    /// A tablet goes back although one more of its bricks does not vote.
    ScalingBackUnguarded;
    /// A brick that begins a tablet again counts as one that has come further with it.
    ScalingStallBegunAnew;
    /// Nobody is told of a move that has come no further for a minute.
    ScalingStallUntold;
    /// A brick that gives its last tablet to one that does not vote yet is forgotten.
    QuorumGiverForgotten;
    /// A brick that joins a tablet reads before enough others have the new epoch.
    QuorumJoinedUnwitnessed;
    /// Bricks that have forgotten something wait for one whose loss was accepted.
    QuorumMissingAwaited;
    /// A tablet that comes back votes while segments hold its records of before.
    QuorumStaleStays;
    /// A session says that a value has ended, and no brick knows of it.
    QuorumExpiryNotCommitted;
    /// A value that has ended is overwritten at the present time, and not in its own place.
    QuorumExpiryFresh;
    /// A put is stored whose stamp is older than any tombstone that may be gone.
    QuorumOutdatedStored;
    /// A brick that was told of a later life of its own votes again when it is started once more.
    QuorumOutlivedVotes;
    /// A get takes the time of its try from the brick that told its own first.
    QuorumBegunByFirst;
    /// A session takes a brick's time from the answer that came last, however long that was under way.
    QuorumLateClockCounts;
    /// A brick that knows its own clock and a wrong one tells sessions the wrong one.
    QuorumWrongClockPassedOn;
    /// A get that asks half of the bricks at most takes the time of one.
    QuorumTimeOfOne;
    /// A brick on a copy of a directory goes on beside the one that runs on the original.
    QuorumCopyRunsOn;
    /// A brick tells a sibling of tombstones that its device does not have yet.
    QuorumGraveBeforeDevice;
    /// A tombstone goes although a brick of its key was silent about it.
    QuorumGraveWithoutAll;
    /// A tombstone goes although segments may hold older values of its key.
    QuorumGraveUnguarded;
    /// A page of a brick tells records that are not durable yet.
    QuorumPageEarly;
    /// A scan takes a key about which bricks differ as the brick says that told its value.
    QuorumPageDifferenceTaken;
    /// Each get whose brick is late asks another one, however many do.
    QuorumHedgesAll;
    /// A brick that has begun another life is asked for as much as before.
    QuorumWindowOfOldLife;
    /// A put that waited for a window and was refused still goes out when the window opens.
    QuorumRefusedStillSent;
    /// A put that every brick has refused for want of memory ends as unknown.
    QuorumRefusedIsUnknown;
    /// Repairs of reads get no more of a brick's memory than puts.
    QuorumRepairWithoutReserve;
    /// A write of a brick takes the frames that cleaning needs.
    QuorumLastFrameTaken;
    /// Dead segments leave with the first head of a life, although the head before it may count at the next start.
    QuorumDeadLeaveOpenHead;
    /// A brick whose device has no frame left starts without one more.
    QuorumStartWithoutFrames;
    /// A supervisor carries out an order for a life that is over.
    QuorumLateOrder;
    /// A supervisor ends its brick on the word of a sibling, without a question of its own.
    QuorumOrderBelieved;
    /// Every brick that hears no announcements orders the restart, not the next one alone.
    QuorumAllOrder;
    /// A key that a brick has not loaded yet is told as absent.
    QuorumNotLoadedAbsent;
    /// The digest of a head does not name the segments that are not loaded yet.
    QuorumPendingForgotten;
    /// A loading brick refuses a stamp that a segment may hold which it has not loaded.
    QuorumLoadingRejects;
    /// A brick is restarted for an anomaly without the consent of its siblings.
    QuorumNoConsent;
    /// A supervisor restarts its brick for an anomaly although it was restarted as often as it may.
    QuorumCureUnlimited;
    /// A lost connection counts as much as half a second of silence.
    QuorumLostIsSilent;
    /// A brick enters no change of its tablets while there is no room for the stream of one of them.
    QuorumUnopenedHoldsAll;
    /// A page ends by its keys alone, however large the values are that it walks over.
    QuorumWalkUnbounded;
    /// A rebuilding without room never says so.
    QuorumStalledIsSilent;
    /// A put repeats its questions although they are under way.
    QuorumPutsRepeated;

    // Recovery and membership.
    /// A damaged record ends the replay of its segment without a word.
    CorruptPassedOver;
    /// A head of an epoch below the recorded one proves a log complete.
    OldHeadProves;
    /// A closed segment counts as whole though its replica is cut or open.
    OpenCountsAsWhole;
    /// A segment of the digest that nobody holds is left out.
    MissingLeftOut;
    /// A recovered partition is entered before it is replicated.
    RecoveredEarly;
    /// A recovered partition is entered though no backup holds a frame for the head that names it.
    EnteredUnheld;
    /// A dead log is freed as soon as everything recovered from it is live, wherever that is stored.
    LogNotKept;
    /// Recovered data counts as being on devices when it is in buffers.
    SettledEarly;
    /// Side segments of a recovery are cleaned away while the dead log is kept.
    SettlingCleaned;
    /// Writes to a partition that goes live before it is replicated go to heads that may be older than its
    /// first segment.
    EarlyInOldHead;
    /// Data that was recovered, and has not settled, is recovered from its new owner's log alone.
    EarlierLogIgnored;
    /// A piece that is recovered from several logs notes only the newest of them.
    OlderLogsForgotten;
    /// A result that a single backup may have is told again before R backups have it.
    ShortTailTold;
    /// A backup answers a fence before its device has the replicas of synced streams.
    FenceToldUnsynced;
    /// The partitions of all dead logs are replicated at once, however few frames there are.
    TurnsForAll;
    /// Live partitions keep the frames of their unfinished replicas from older logs that need them.
    LiveKeepsFrames;

    // Reclassing.
    /// Keys that are written while a range is gathered are not moved.
    ReclassedWithoutFresh;
    /// A reclassing leaves results behind.
    ReclassedWithoutResults;
    /// A stretch that is being moved is still written to.
    ReclassedUnblocked;
    /// A stretch is moved before earlier writes to it are durable in the old stream.
    ReclassedUndurable;
    /// A stretch is moved although a loss of power could take all of its copies, because no device has them.
    ReclassedUnflushed;
    /// The copies count as soon as the master asks for it, whatever the coordinator answers.
    ReclassedUnasked;
    /// The coordinator believes a move that is older than the tablet's stored position.
    OldMoveTaken;
    /// An operator's word that servers are switched off is taken though one of them answers somebody.
    AwayBelieved;
    /// Segments from before a tablet's first one are replayed too.
    FirstSegmentIgnored;
    /// A backup divides a log by any ranges that it was told of it.
    OldRangesMeant;
    /// The coordinator's messages do not wait for the store.
    ToldBeforeStored;
    /// Late answers about a replica that was opened anew at another epoch are taken for answers about the new
    /// one.
    OpenedAnewUnnoticed;
    /// A master takes a tablet of a table that it was told to drop.
    DroppedTaken;
    /// A server's own Redis clients use a tablet that the coordinator may not have stored as that server's.
    UnconfirmedServed;
    /// Tablets that are joined have one position, the newest of theirs.
    JoinedAtNewest;
    /// A master divides its tablets as an older division says.
    OldDivisionTaken;
    /// The parts of a tablet that is cut count entries twice that came while the walk was elsewhere.
    RecountedTwice;
    /// A tablet profile does not follow the entries that cleaning moves.
    ProfileNotMoved;
    /// A server answers requests for an earlier life.
    AnyLifeAnswers;

    // Copies of the coordinator's state.
    /// An old state of the coordinator counts as following every other state.
    OlderStateBelieved;
    /// The coordinator's messages do not wait for the servers that hold its state.
    ToldBeforeCopied;
    /// A coordinator that is made anew takes the first state that it hears of.
    FirstCopyTaken;
    /// A coordinator that is made anew does not wait for servers that its list has.
    RebuiltWithoutAll;
    /// A coordinator that is made anew begins in the term of the one before.
    RebuiltInOldTerm;
    /// A coordinator that is made anew gives out ids anew that were given out already.
    RebuiltIdsReused;

    // Identity: the fields of frames that say whom they are from and for.
    /// Frames name no cluster.
    ClusterZeroed;
    /// Frames name an earlier cluster.
    ClusterAged;
    /// Frames name the server's number as the cluster.
    ClusterSwapped;
    /// Frames are taken whatever cluster they name.
    ClusterIgnored;
    /// Frames have no coordinator's term.
    TermZeroed;
    /// Frames have the previous term.
    TermAged;
    /// Term and epoch of a frame change places.
    TermSwapped;
    /// Requests name no life of the server that they are for.
    LifeZeroed;
    /// Requests are for the previous life.
    LifeAged;
    /// Sender and target of a request change places.
    LifeSwapped;
    /// Appends have epoch zero.
    EpochZeroed;
    /// Appends have the previous epoch.
    EpochAged;
    /// Appends have the number of the segment as their epoch.
    EpochSwapped;

    // The Redis protocol.
    /// A write that found another version than the one that was read counts as done.
    RespConflictIsDone;
    /// A value that was computed from a read is written without the condition that the object is unchanged.
    RespUnconditional;
    /// `EXEC` does not look at the watched keys.
    RespWatchIgnored;
    /// A request begins while another request of its connection changes its key.
    RespBegunEarly;
    /// A reply that is there at once does not wait for those before it.
    RespReplyOvertakes;
    /// A request that the process does not carry out itself counts as done.
    RespElsewhereIsDone;
    /// A change whose fate is unknown is reported as refused.
    RespUnknownIsRefused;
    /// A read that meets a dropped table reports that there is no object.
    RespDroppedIsEmpty;

    // Memory.
    /// An object that is damaged in memory is served.
    DamageServed;
    /// An object that is damaged in memory is moved by the cleaner.
    DamageMoved;
}

/// Whether defects can be planted in this build.
pub const BUILT_IN: bool = cfg!(feature = "planted");

/// Whether this defect is planted.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn planted(_: Defect) -> bool {
    false
}

#[cfg(feature = "planted")]
pub use active::{plant, planted};

#[cfg(feature = "planted")]
mod active {
    use super::Defect;
    use std::sync::atomic::{AtomicU8, Ordering};

    const NONE: u8 = u8::MAX;
    const UNSET: u8 = u8::MAX - 1;
    static ACTIVE: AtomicU8 = AtomicU8::new(UNSET);

    /// Whether this defect is planted. Before the first call of `plant`, it is the defect that the
    /// environment names in `RAMHOLD_PLANTED`: for the tests of a crate.
    pub fn planted(defect: Defect) -> bool {
        let active = match ACTIVE.load(Ordering::Relaxed) {
            UNSET => by_environment(),
            active => active,
        };
        active == defect as u8
    }

    fn by_environment() -> u8 {
        let name = std::env::var("RAMHOLD_PLANTED").unwrap_or_default();
        plant(Defect::ALL.iter().copied().find(|defect| format!("{defect:?}") == name));
        ACTIVE.load(Ordering::Relaxed)
    }

    /// Plants this defect alone, or none, in the whole process.
    pub fn plant(defect: Option<Defect>) {
        ACTIVE.store(defect.map_or(NONE, |defect| defect as u8), Ordering::Relaxed);
    }
}
