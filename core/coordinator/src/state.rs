//! Everything that the coordinator must not forget, and its bytes in the store.
//!
//! There is one record per key. A value is a format version and one CBOR item. The whole state is in memory. `encode`
//! gives the present record of a key, or nothing if it is to be removed.
//!
//! Invariants:
//! - a record that cannot be read in full, or is of a newer format, stops the start: nothing is loaded in part;
//! - the tablets of a table are in order and cover all hashes, and those that are joined may be joined;
//! - ids are taken from `meta` and never given out twice.
//!
//! Format: docs/formats/store.md. Catalogue: G1, G3.

mod lease;

use crate::pieces::{may_stay_joined, tablets, whole};
pub use lease::{LeaseRecord, UpdateRecord, UpdateResult};
use minicbor::{Decode, Encode};
use ramhold_base::hash::PlacementSeed;
use ramhold_base::{
    ClusterId, ClusterTime, DirectoryId, DivisionId, Epoch, KeyHash, LeaseId, Mark, RecoveryId, SegmentId,
    ServerId, ShardId, StreamId, TableId, Term, Version,
};
use ramhold_wire::class::StreamClass;
use ramhold_wire::control::Address;
use ramhold_wire::copies::Lineage;
use ramhold_wire::membership::{Durability, ServerEntry, ServerState};
use ramhold_wire::status::{AwayReport, BackupReport, GoneReport, LossReport, PartReport, RecoverySteps};
use ramhold_wire::table::TableOptions;
use std::collections::BTreeMap;
use std::fmt;

/// The version of all records. A reader refuses a higher one.
pub const FORMAT: u8 = 1;
/// The key whose version every commit is conditional on.
pub const TERM_KEY: &str = "term";
/// The key of the record that goes with every commit. It tells which state this is, and which coordinators led to it.
pub const LINEAGE_KEY: &str = "lineage";

#[derive(Clone, Debug, PartialEq, Eq, Default, Encode, Decode)]
pub struct Meta {
    #[n(0)]
    pub cluster: ClusterId,
    /// The last id given out of each kind.
    #[n(1)]
    pub servers: ServerId,
    #[n(2)]
    pub tables: TableId,
    #[n(3)]
    pub recoveries: RecoveryId,
    #[n(4)]
    pub losses: u64,
    #[n(5)]
    pub list_version: u64,
    /// No cluster time above this has been told to anybody.
    #[n(6)]
    pub time_ceiling: ClusterTime,
    /// Directories whose servers left the list, and when. Their replicas may still be the only ones of a segment whose
    /// master died before it could replace them. Bounded, newest last.
    #[n(7)]
    pub departed: Vec<Departed>,
    /// The last lease given out.
    #[n(8)]
    #[cbor(default)]
    pub leases: LeaseId,
    /// The secret of all servers' indexes; 0: no server has enlisted since there is a secret.
    #[n(9)]
    #[cbor(default)]
    pub index_secret: u64,
    /// How replicas were last placed: the number of rings of copysets; 0: scattered. None: the coordinator did not note
    /// it.
    #[n(10)]
    #[cbor(default)]
    pub copyset_rings: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Departed {
    #[n(0)]
    pub directory: DirectoryId,
    /// When the directory left the list, or when the last server that was up heard of that.
    #[n(1)]
    pub at: ClusterTime,
    /// The first version of the server list without it.
    #[n(2)]
    #[cbor(default)]
    pub version: u64,
    /// The last server that ran on it.
    #[n(3)]
    #[cbor(default)]
    pub server: ServerId,
    #[n(4)]
    pub address: Option<Address>,
}

/// One life of one server, until nothing is left to recover of it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ServerRecord {
    #[n(0)]
    pub entry: ServerEntry,
    /// The token of its `Enlist`.
    #[n(1)]
    pub token: u64,
    /// This server has handed out no version above this.
    #[n(2)]
    pub ceiling: Version,
    #[n(3)]
    pub streams: Vec<StreamRecord>,
    #[n(4)]
    pub log_bytes: u64,
    #[n(5)]
    pub disk_bytes: u64,
}

/// A registered stream; (segment, epoch) is the oldest that may count as its head (D8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct StreamRecord {
    #[n(0)]
    pub shard: ShardId,
    #[n(1)]
    pub stream: StreamId,
    #[n(2)]
    pub durability: Durability,
    #[n(3)]
    pub replicas: u8,
    #[n(4)]
    pub segment: SegmentId,
    #[n(5)]
    pub epoch: Epoch,
}

impl StreamRecord {
    pub fn class(&self) -> StreamClass {
        StreamClass { durability: self.durability, replicas: self.replicas }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TableRecord {
    #[n(0)]
    pub id: TableId,
    #[n(1)]
    pub name: String,
    #[n(2)]
    pub options: TableOptions,
    #[n(3)]
    pub seed: PlacementSeed,
    // 4 was the token of its `TableCreate`.
    /// The name is free again, and clients no longer see the table. The record goes when every owner has stopped
    /// serving it.
    #[n(5)]
    pub dropping: bool,
    #[n(6)]
    pub tablets: Vec<TabletRecord>,
    /// Raised by every cut and join, and by every change of options, that an operator asks for.
    #[n(7)]
    #[cbor(default)]
    pub division: DivisionId,
}

impl TableRecord {
    /// Its tablets, each as if it were one piece.
    pub fn whole_tablets(&self) -> impl Iterator<Item = TabletRecord> {
        tablets(&self.tablets).map(whole)
    }
}

/// A tablet, or a piece of one that was joined.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TabletRecord {
    #[n(0)]
    pub first: KeyHash,
    /// Inclusive.
    #[n(1)]
    pub last: KeyHash,
    #[n(2)]
    pub owner: ServerId,
    /// Whether the owner has taken it. Until then nobody serves it and it may move when the owner dies.
    #[n(3)]
    pub taken: bool,
    #[n(4)]
    pub shard: ShardId,
    #[n(5)]
    pub stream: StreamId,
    #[n(6)]
    pub first_segment: SegmentId,
    /// Told to the server that takes or recovers the tablet; never falls.
    #[n(7)]
    pub version_floor: Version,
    /// This piece and the one before it are of one tablet; their positions may differ (docs/protocols/tablets.md).
    #[n(8)]
    #[cbor(default)]
    pub joined: bool,
    /// The position that it was recovered from, as long as devices may not have all of it here.
    #[n(9)]
    pub earlier: Option<EarlierRecord>,
    /// Further earlier positions, newest first: each time the owner died before devices had all of it.
    #[n(10)]
    #[cbor(default)]
    pub older: Vec<EarlierRecord>,
}

impl TabletRecord {
    /// All its earlier positions, newest first.
    pub fn earlier_positions(&self) -> impl Iterator<Item = &EarlierRecord> {
        self.earlier.iter().chain(&self.older)
    }

    /// Whether a log is an earlier position of it.
    pub fn is_recovered_from(&self, server: ServerId) -> bool {
        self.earlier_positions().any(|earlier| earlier.server == server)
    }
}

/// A position in the log of a server that is dead (docs/protocols/recovery.md, "Until devices have it").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct EarlierRecord {
    #[n(0)]
    pub server: ServerId,
    #[n(1)]
    pub shard: ShardId,
    #[n(2)]
    pub stream: StreamId,
    #[n(3)]
    pub first_segment: SegmentId,
    /// The buffers of R backups have everything that was recovered. This is told of the newest position, and counts for
    /// all.
    #[n(4)]
    pub replicated: bool,
    /// This log alone has all of the piece: its owner had told so before it died, and nothing of the log was lost. The
    /// same holds for an oldest position without a loss.
    #[n(5)]
    #[cbor(default)]
    pub whole: bool,
}

/// The recovery of one crashed server; kept as a summary when it is over.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RecoveryRecord {
    #[n(0)]
    pub id: RecoveryId,
    #[n(1)]
    pub crashed: ServerId,
    #[n(2)]
    pub address: Address,
    #[n(3)]
    pub token: u64,
    #[n(4)]
    pub detected: ClusterTime,
    #[n(5)]
    pub cause: String,
    /// The server was declared dead because no server answered at a start.
    #[n(6)]
    pub cold: bool,
    /// All directories that may hold its replicas. When all have answered, no further replica can come.
    #[n(7)]
    pub directories: Vec<DirectoryId>,
    /// The id of the present division. Each division has its own, so that an old answer never meets a new plan.
    #[n(8)]
    pub plan: RecoveryId,
    #[n(9)]
    pub ends: Vec<EndRecord>,
    #[n(10)]
    pub published: Vec<PublishedRecord>,
    /// Loss reports filed for the present ends.
    #[n(11)]
    pub losses: Vec<u64>,
    #[n(12)]
    pub done: bool,
    #[n(13)]
    pub complete_millis: Option<u64>,
    #[n(14)]
    pub first_live_millis: Option<u64>,
    #[n(15)]
    pub done_millis: Option<u64>,
    #[n(16)]
    pub partitions: u32,
    #[n(17)]
    pub segments: u64,
    #[n(18)]
    pub bytes: u64,
    #[n(19)]
    pub records: u64,
    #[n(20)]
    pub failed_attempts: u32,
    /// Tablets that the server had when it died.
    #[n(21)]
    pub tablets: u32,
    #[n(22)]
    #[cbor(default)]
    pub steps: RecoverySteps,
    /// Turns of partitions; bounded, the first ones are kept.
    #[n(23)]
    #[cbor(default)]
    pub parts: Vec<PartReport>,
    /// Directories that an operator has given up; nobody waits for them any more.
    #[n(24)]
    #[cbor(default)]
    pub given_up: Vec<AwayReport>,
    /// The work of backups, as last told; bounded.
    #[n(25)]
    #[cbor(default)]
    pub backups: Vec<BackupReport>,
}

/// The end up to which a segment is replayed: for the head of each stream, and after a loss for every segment that is
/// not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct EndRecord {
    #[n(0)]
    pub shard: ShardId,
    #[n(1)]
    pub stream: StreamId,
    #[n(2)]
    pub segment: SegmentId,
    /// The epoch of the replica that the end was taken from.
    #[n(3)]
    pub epoch: Epoch,
    #[n(4)]
    pub end: u32,
    #[n(5)]
    pub head: bool,
    /// The stream is recovered with a loss report.
    #[n(6)]
    pub lost: bool,
}

/// A partition that is live; a repeated `Recovered` of it is answered `Ok` again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PublishedRecord {
    #[n(0)]
    pub plan: RecoveryId,
    #[n(1)]
    pub partition: u32,
    #[n(2)]
    pub attempt: u32,
    #[n(3)]
    pub server: ServerId,
}

/// The name of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Meta,
    Server(ServerId),
    Table(TableId),
    Recovery(RecoveryId),
    Loss(u64),
    Lease(LeaseId),
    /// A server that is gone.
    Gone(ServerId),
}

impl Key {
    /// The marks of commits of records of this kind.
    pub fn marks(self) -> CommitMarks {
        let (commits, committed) = match self {
            Key::Meta => (Mark::CoordinatorCommitsMeta, Mark::CoordinatorCommittedMeta),
            Key::Server(_) => (Mark::CoordinatorCommitsServer, Mark::CoordinatorCommittedServer),
            Key::Table(_) => (Mark::CoordinatorCommitsTable, Mark::CoordinatorCommittedTable),
            Key::Recovery(_) => (Mark::CoordinatorCommitsRecovery, Mark::CoordinatorCommittedRecovery),
            Key::Loss(_) => (Mark::CoordinatorCommitsLoss, Mark::CoordinatorCommittedLoss),
            Key::Lease(_) => (Mark::CoordinatorCommitsLease, Mark::CoordinatorCommittedLease),
            Key::Gone(_) => (Mark::CoordinatorCommitsGone, Mark::CoordinatorCommittedGone),
        };
        CommitMarks { commits, committed }
    }
}

/// The marks before and after the commit of one kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitMarks {
    pub commits: Mark,
    pub committed: Mark,
}

impl fmt::Display for Key {
    /// The path in the store. Numbers have a fixed width, so that the order of keys is the order of ids.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Meta => write!(f, "meta"),
            Key::Server(id) => write!(f, "server/{:020}", id.raw()),
            Key::Table(id) => write!(f, "table/{:020}", id.raw()),
            Key::Recovery(id) => write!(f, "recovery/{:020}", id.raw()),
            Key::Loss(id) => write!(f, "loss/{id:020}"),
            Key::Lease(id) => write!(f, "lease/{:020}", id.raw()),
            Key::Gone(id) => write!(f, "gone/{:020}", id.raw()),
        }
    }
}

/// Why the state in the store cannot be used. The text names the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    Newer { key: String, format: u8 },
    Corrupt { key: String, what: String },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Newer { key, format } => write!(
                f,
                "the store's record {key} has format {format}, this version of Ramhold reads up to {FORMAT}; \
                 start a newer version"
            ),
            LoadError::Corrupt { key, what } => write!(f, "the store's record {key} cannot be used: {what}"),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct State {
    pub meta: Meta,
    pub servers: BTreeMap<ServerId, ServerRecord>,
    pub tables: BTreeMap<TableId, TableRecord>,
    pub recoveries: BTreeMap<RecoveryId, RecoveryRecord>,
    pub losses: BTreeMap<u64, LossReport>,
    pub leases: BTreeMap<LeaseId, LeaseRecord>,
    /// The lineage as it was loaded.
    pub lineage: Lineage,
    /// Servers that are dead, recovered and expected back.
    pub gone: BTreeMap<ServerId, GoneReport>,
}

impl State {
    /// Reads all records, `meta` among them. `Ok(None)`: there are none, the cluster is new.
    pub fn load(records: &[(String, Vec<u8>)]) -> Result<Option<State>, LoadError> {
        let mut state = State::default();
        let mut meta = None;
        for (key, value) in records {
            let (folder, _) = key.split_once('/').unwrap_or((key, ""));
            match folder {
                "meta" => meta = Some(decode::<Meta>(key, value)?),
                "server" => {
                    let record: ServerRecord = decode(key, value)?;
                    named(key, Key::Server(record.entry.id))?;
                    state.servers.insert(record.entry.id, record);
                }
                "table" => {
                    let record: TableRecord = decode(key, value)?;
                    named(key, Key::Table(record.id))?;
                    check_tablets(key, &record.tablets)?;
                    state.tables.insert(record.id, record);
                }
                "recovery" => {
                    let record: RecoveryRecord = decode(key, value)?;
                    named(key, Key::Recovery(record.id))?;
                    state.recoveries.insert(record.id, record);
                }
                "loss" => {
                    let record: LossReport = decode(key, value)?;
                    named(key, Key::Loss(record.id))?;
                    state.losses.insert(record.id, record);
                }
                "lease" => {
                    let record: LeaseRecord = decode(key, value)?;
                    named(key, Key::Lease(record.id))?;
                    record.check().map_err(|what| corrupt(key, what))?;
                    state.leases.insert(record.id, record);
                }
                LINEAGE_KEY => state.lineage = decode(key, value)?,
                "gone" => {
                    let record: GoneReport = decode(key, value)?;
                    named(key, Key::Gone(record.server))?;
                    state.gone.insert(record.server, record);
                }
                _ => return Err(corrupt(key, "its kind is unknown")),
            }
        }
        match meta {
            Some(meta) => state.meta = meta,
            None if records.is_empty() => return Ok(None),
            None => return Err(corrupt("meta", "it is missing, though other records are there")),
        }
        state.check_references()?;
        Ok(Some(state))
    }

    fn check_references(&self) -> Result<(), LoadError> {
        let servers = self.servers.keys().next_back().is_some_and(|id| *id > self.meta.servers);
        let tables = self.tables.keys().next_back().is_some_and(|id| *id > self.meta.tables);
        let recoveries = self.recoveries.keys().next_back().is_some_and(|id| *id > self.meta.recoveries);
        let leases = self.leases.keys().next_back().is_some_and(|id| *id > self.meta.leases);
        let gone = self.gone.keys().next_back().is_some_and(|id| *id > self.meta.servers);
        if servers || tables || recoveries || leases || gone || self.meta.cluster.is_none() {
            return Err(corrupt("meta", "it does not know ids that are in use"));
        }
        for (id, table) in &self.tables {
            if table.dropping {
                continue;
            }
            let servers = table
                .tablets
                .iter()
                .flat_map(|t| [t.owner].into_iter().chain(t.earlier_positions().map(|e| e.server)));
            for server in servers {
                if !self.servers.contains_key(&server) {
                    let what = format!("{server}, which has a part of it, is not there");
                    return Err(corrupt(&Key::Table(*id).to_string(), &what));
                }
            }
        }
        for (id, server) in &self.servers {
            let mut recoveries = self.recoveries.values().filter(|r| r.crashed == *id);
            let is_sound = match server.entry.state {
                ServerState::Up => recoveries.all(|r| r.done),
                // When the recovery is over, the log may be kept.
                ServerState::Crashed => recoveries.any(|r| r.done == server.entry.kept),
            };
            if !is_sound {
                let what = "its state does not agree with the recoveries";
                return Err(corrupt(&Key::Server(*id).to_string(), what));
            }
        }
        Ok(())
    }

    /// The bytes of a record; none if there is no such record any more.
    pub fn encode(&self, key: Key) -> Option<Vec<u8>> {
        match key {
            Key::Meta => Some(encode(&self.meta)),
            Key::Server(id) => self.servers.get(&id).map(encode),
            Key::Table(id) => self.tables.get(&id).map(encode),
            Key::Recovery(id) => self.recoveries.get(&id).map(encode),
            Key::Loss(id) => self.losses.get(&id).map(encode),
            Key::Lease(id) => self.leases.get(&id).map(encode),
            Key::Gone(id) => self.gone.get(&id).map(encode),
        }
    }

    pub fn is_up(&self, id: ServerId) -> bool {
        self.up(id).is_some()
    }

    /// The record of a server that is Up.
    pub fn up(&self, id: ServerId) -> Option<&ServerRecord> {
        self.servers.get(&id).filter(|s| s.entry.state == ServerState::Up)
    }

    pub fn all_up(&self) -> impl Iterator<Item = &ServerRecord> {
        self.servers.values().filter(|s| s.entry.state == ServerState::Up)
    }

    /// All tablets, each by its first piece.
    pub fn tablets(&self) -> impl Iterator<Item = &TabletRecord> {
        self.tables.values().flat_map(|t| &t.tablets).filter(|t| !t.joined)
    }

    /// The tablets of tables that are not being dropped.
    pub fn live_tablets(&self) -> impl Iterator<Item = &TabletRecord> {
        let live = self.tables.values().filter(|t| !t.dropping);
        live.flat_map(|t| &t.tablets).filter(|t| !t.joined)
    }

    /// How many tablets each Up master has, those not yet taken included.
    pub fn tablets_by_master(&self) -> BTreeMap<ServerId, u32> {
        let masters = self.all_up().filter(|s| s.entry.master);
        let mut counts: BTreeMap<ServerId, u32> = masters.map(|s| (s.entry.id, 0)).collect();
        for tablet in self.tablets() {
            if let Some(count) = counts.get_mut(&tablet.owner) {
                *count += 1;
            }
        }
        counts
    }

    /// The table that clients know by this name.
    pub fn table_named(&self, name: &str) -> Option<&TableRecord> {
        self.tables.values().find(|t| !t.dropping && t.name == name)
    }

    pub fn recovery_of(&self, crashed: ServerId) -> Option<&RecoveryRecord> {
        self.recoveries.values().rev().find(|r| r.crashed == crashed)
    }
}

/// The record of the term, for a store that is made of other records.
pub fn term_record(term: Term) -> (String, Vec<u8>) {
    (TERM_KEY.into(), encode_term(term))
}

/// Encodes the term for its key.
pub fn encode_term(term: Term) -> Vec<u8> {
    encode(&term)
}

pub fn encode_lineage(lineage: &Lineage) -> Vec<u8> {
    encode(lineage)
}

pub fn decode_term(value: &[u8]) -> Result<Term, LoadError> {
    decode(TERM_KEY, value)
}

fn encode<T: Encode<()>>(record: &T) -> Vec<u8> {
    let mut bytes = vec![FORMAT];
    minicbor::encode(record, &mut bytes).expect("writing to a vector cannot fail");
    bytes
}

fn decode<T: for<'b> Decode<'b, ()>>(key: &str, value: &[u8]) -> Result<T, LoadError> {
    let (format, body) = value.split_first().ok_or_else(|| corrupt(key, "it is empty"))?;
    if *format > FORMAT {
        return Err(LoadError::Newer { key: key.into(), format: *format });
    }
    if *format == 0 {
        return Err(corrupt(key, "it has format 0"));
    }
    let mut decoder = minicbor::Decoder::new(body);
    let record = decoder.decode().map_err(|error| corrupt(key, &error.to_string()))?;
    if decoder.position() != body.len() {
        return Err(corrupt(key, "bytes follow its end"));
    }
    Ok(record)
}

fn corrupt(key: &str, what: &str) -> LoadError {
    LoadError::Corrupt { key: key.into(), what: what.into() }
}

fn named(key: &str, expected: Key) -> Result<(), LoadError> {
    if key == expected.to_string() { Ok(()) } else { Err(corrupt(key, &format!("it says it is {expected}"))) }
}

/// Checks that tablets are in order, touch each other, and cover all hashes.
fn check_tablets(key: &str, tablets: &[TabletRecord]) -> Result<(), LoadError> {
    let mut next = Some(0);
    for tablet in tablets {
        if next != Some(tablet.first.0) || tablet.last < tablet.first {
            return Err(corrupt(key, "its tablets do not cover all hashes in order"));
        }
        next = tablet.last.0.checked_add(1);
    }
    if tablets.is_empty() || next.is_some() {
        return Err(corrupt(key, "its tablets do not cover all hashes"));
    }
    let may_be = |pair: &[TabletRecord]| !pair[1].joined || may_stay_joined(&pair[0], &pair[1]);
    if tablets[0].joined || !tablets.windows(2).all(may_be) {
        return Err(corrupt(key, "tablets are joined that have not one owner and stream"));
    }
    Ok(())
}
