//! Everything that the coordinator must not forget, and its bytes in the store.
//!
//! There is one record per key. A value is a format version and one CBOR item. The whole state is in memory. `encode`
//! gives the present record of a key, or nothing if it is to be removed.
//!
//! Invariants:
//! - a record that cannot be read in full, or is of a newer format, stops the start: nothing is loaded in part;
//! - the tablets of a table are in order and cover all hashes, and those that are joined may be joined;
//! - the bricks of a quorum table are known, and are to take its last change;
//! - ids are taken from `meta` and never given out twice;
//! - each account has a name of its own, and its rules make an account.
//!
//! Format: docs/formats/store.md. Catalogue: G1, G3.

use crate::pieces::may_stay_joined;
use crate::records::{
    AccountRecord, BrickRecord, Key, LeaseRecord, Meta, QuorumTableRecord, RecoveryRecord, ServerRecord,
    TableRecord, TabletRecord,
};
use minicbor::{Decode, Encode};
use ramhold_access::AccountError;
use ramhold_base::{LeaseId, RecoveryId, ServerId, TableId, Term};
use ramhold_wire::copies::Lineage;
use ramhold_wire::membership::ServerState;
use ramhold_wire::status::{GoneReport, LossReport};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The highest version of records. A reader refuses a higher one.
pub const FORMAT: u8 = 2;
/// The version of all records but those that an older reader must not take for its own.
const FORMAT_FIRST: u8 = 1;
/// The key whose version every commit is conditional on.
pub const TERM_KEY: &str = "term";
/// The key of the record that goes with every commit. It tells which state this is, and which coordinators led to it.
pub const LINEAGE_KEY: &str = "lineage";

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
    pub bricks: BTreeMap<ServerId, BrickRecord>,
    /// Tables whose tablets are held by quorums of bricks.
    pub quorum_tables: BTreeMap<TableId, QuorumTableRecord>,
    /// Accounts by their ids. `default` is among them only if somebody has changed it.
    pub accounts: BTreeMap<u64, AccountRecord>,
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
                "brick" => {
                    let record: BrickRecord = decode(key, value)?;
                    named(key, Key::Brick(record.id))?;
                    state.bricks.insert(record.id, record);
                }
                "quorum" => {
                    let record: QuorumTableRecord = decode(key, value)?;
                    named(key, Key::QuorumTable(record.id))?;
                    record.check().map_err(|what| corrupt(key, what))?;
                    state.quorum_tables.insert(record.id, record);
                }
                "account" => {
                    let record: AccountRecord = decode(key, value)?;
                    named(key, Key::Account(record.id))?;
                    state.accounts.insert(record.id, record);
                }
                _ => return Err(corrupt(key, "its kind is unknown")),
            }
        }
        match meta {
            Some(meta) => state.meta = meta,
            None if records.is_empty() => return Ok(None),
            None => return Err(corrupt("meta", "it is missing, though other records are there")),
        }
        state.forget_lost_givers();
        state.check_references()?;
        Ok(Some(state))
    }

    /// A brick that gives a tablet away may have been forgotten by an earlier version. Nobody waits for it, and the tablet
    /// is where it was to go.
    fn forget_lost_givers(&mut self) {
        let State { bricks, quorum_tables, .. } = self;
        for tablet in quorum_tables.values_mut().flat_map(|table| &mut table.tablets) {
            tablet.giving.take_if(|giving| !bricks.contains_key(&giving.old));
        }
    }

    fn check_references(&self) -> Result<(), LoadError> {
        let servers = self.servers.keys().next_back().is_some_and(|id| *id > self.meta.servers);
        let tables = self.tables.keys().next_back().is_some_and(|id| *id > self.meta.tables);
        let recoveries = self.recoveries.keys().next_back().is_some_and(|id| *id > self.meta.recoveries);
        let leases = self.leases.keys().next_back().is_some_and(|id| *id > self.meta.leases);
        let gone = self.gone.keys().next_back().is_some_and(|id| *id > self.meta.servers);
        let bricks = self.bricks.keys().next_back().is_some_and(|id| *id > self.meta.servers);
        let quorums = self.quorum_tables.keys().next_back().is_some_and(|id| *id > self.meta.tables);
        let unread = self.meta.assignments == 0 && !(self.bricks.is_empty() && self.quorum_tables.is_empty());
        let is_unknown = servers || tables || recoveries || leases || gone || bricks || quorums || unread;
        if is_unknown || self.meta.cluster.is_none() {
            return Err(corrupt("meta", "it does not know ids that are in use"));
        }
        self.check_bricks()?;
        self.check_accounts()?;
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

    /// Ids are of one kind, and each brick is to take the last change of its tables.
    fn check_bricks(&self) -> Result<(), LoadError> {
        for (id, brick) in &self.bricks {
            let is_sound = !self.servers.contains_key(id) && !self.gone.contains_key(id);
            if !is_sound || brick.assigned > self.meta.assignments {
                let what = "it is a server as well, or has an assignment that nobody gave";
                return Err(corrupt(&Key::Brick(*id).to_string(), what));
            }
        }
        for (id, table) in &self.quorum_tables {
            let assigned = |brick| self.bricks.get(&brick).map_or(0, |record| record.assigned);
            let is_assigned =
                table.version > 0 && table.bricks().all(|brick| assigned(brick) >= table.version);
            if self.tables.contains_key(id) || !is_assigned {
                let what = "its bricks are not there or know an older one, or it is a masters' table as well";
                return Err(corrupt(&Key::QuorumTable(*id).to_string(), what));
            }
        }
        Ok(())
    }

    /// Each account can be made of its record, was given its id, and has a name of its own.
    fn check_accounts(&self) -> Result<(), LoadError> {
        let mut names = BTreeSet::new();
        for (id, record) in &self.accounts {
            let is_given = *id > 0 && *id <= record.changed && record.changed <= self.meta.accounts;
            let what = match record.account() {
                Err(AccountError::Name) => "its name is no name of an account".to_owned(),
                Err(error) => format!("its rules make no account: {error}"),
                Ok(_) if !is_given => "'meta' does not know its id or its version".to_owned(),
                Ok(_) if !names.insert(&record.name) => "another account has its name".to_owned(),
                Ok(_) => continue,
            };
            return Err(corrupt(&Key::Account(*id).to_string(), &what));
        }
        Ok(())
    }

    /// The bytes of a record; none if there is no such record any more.
    pub fn encode(&self, key: Key) -> Option<Vec<u8>> {
        match key {
            // A version that knows no accounts would forget that there are some, and everybody could do everything.
            Key::Meta if self.meta.accounts > 0 => Some(encode_as(FORMAT, &self.meta)),
            Key::Meta => Some(encode(&self.meta)),
            Key::Server(id) => self.servers.get(&id).map(encode),
            Key::Table(id) => self.tables.get(&id).map(encode),
            Key::Recovery(id) => self.recoveries.get(&id).map(encode),
            Key::Loss(id) => self.losses.get(&id).map(encode),
            Key::Lease(id) => self.leases.get(&id).map(encode),
            Key::Gone(id) => self.gone.get(&id).map(encode),
            Key::Brick(id) => self.bricks.get(&id).map(encode),
            Key::QuorumTable(id) => self.quorum_tables.get(&id).map(encode),
            Key::Account(id) => self.accounts.get(&id).map(encode),
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

    /// Servers that are Up and take tablets.
    pub fn masters(&self) -> impl Iterator<Item = &ServerRecord> {
        self.all_up().filter(|server| server.entry.master)
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

    /// The table of masters that clients know by this name.
    pub fn table_named(&self, name: &str) -> Option<&TableRecord> {
        self.tables.values().find(|t| !t.dropping && t.name == name)
    }

    /// The quorum table that clients know by this name.
    pub fn quorum_table_named(&self, name: &str) -> Option<&QuorumTableRecord> {
        self.quorum_tables.values().find(|t| !t.dropping && t.name == name)
    }

    /// Whether clients know a quorum table by this id.
    pub fn has_quorum_table(&self, id: TableId) -> bool {
        self.quorum_tables.get(&id).is_some_and(|t| !t.dropping)
    }

    /// Whether a table of either kind has this name.
    pub fn has_table_named(&self, name: &str) -> bool {
        self.table_named(name).is_some() || self.quorum_table_named(name).is_some()
    }

    /// The number of tables of both kinds, those that are being dropped included.
    pub fn table_count(&self) -> usize {
        self.tables.len() + self.quorum_tables.len()
    }

    /// The numbers of tables that clients know and of their tablets, of both kinds.
    pub fn live_counts(&self) -> (u64, u64) {
        let tables = self.tables.values().filter(|t| !t.dropping).count();
        let quorums = || self.quorum_tables.values().filter(|t| !t.dropping);
        let tablets: usize = quorums().map(|t| t.tablets.len()).sum();
        ((tables + quorums().count()) as u64, (self.live_tablets().count() + tablets) as u64)
    }

    pub fn recovery_of(&self, crashed: ServerId) -> Option<&RecoveryRecord> {
        self.recoveries.values().rev().find(|r| r.crashed == crashed)
    }
}

/// Whether the records, `meta` among them, may be accompanied by records of bricks and of quorum tables.
pub fn may_have_bricks(records: &[(String, Vec<u8>)]) -> bool {
    meta_of(records).is_some_and(|meta| meta.assignments > 0)
}

/// The same for records of accounts.
pub fn may_have_accounts(records: &[(String, Vec<u8>)]) -> bool {
    meta_of(records).is_some_and(|meta| meta.accounts > 0)
}

/// The numbers in these records; none if they cannot be read, which ends the start anyway.
fn meta_of(records: &[(String, Vec<u8>)]) -> Option<Meta> {
    let (key, value) = records.iter().find(|(key, _)| key == "meta")?;
    decode(key, value).ok()
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
    encode_as(FORMAT_FIRST, record)
}

fn encode_as<T: Encode<()>>(format: u8, record: &T) -> Vec<u8> {
    let mut bytes = vec![format];
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
