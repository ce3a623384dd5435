//! The operations that a client can ask for, and their requests as bytes.

use crate::scan::{PageLimits, ScanCursor};
use crate::token::Token;
use ramhold_base::limits::{KEY_BYTES_MAX, TABLE_NAME_BYTES_MAX, VALUE_BYTES_MAX};
use ramhold_base::{DirectoryId, KeyHash, LeaseId, Number, RecoveryId, ServerId, Status, TableId};
use ramhold_wire::Opcode;
use ramhold_wire::accounts::{AccountList, AccountRemove, AccountSet};
use ramhold_wire::brick_status::BrickEvents;
use ramhold_wire::commit;
use ramhold_wire::control::{Message, encode_into};
use ramhold_wire::copies::{StatePosition, StateRead};
use ramhold_wire::count::CountRequest;
use ramhold_wire::data::{Expiry, IncrementRequest, KeyRequest, RejectRules, WriteRequest};
use ramhold_wire::lease::{LeaseOpen, LeaseRenew};
use ramhold_wire::membership::Durability;
use ramhold_wire::quorum::{BrickForget, BrickReplace, BrickScale};
use ramhold_wire::scan::ScanRequest;
use ramhold_wire::status::{
    ClusterStatusRequest, LossAccept, LossAcknowledge, Ping, ProcessStatusRequest, RecoveriesRequest,
    ServerForget,
};
use ramhold_wire::table::{
    Division, LeftOpen, TableAlter, TableCreate, TableDescribe, TableDivide, TableDrop, TableList,
    TableOptions, TableTruncate,
};
use std::net::SocketAddr;

/// The most bytes of names and rules in one change of accounts. The coordinator takes less.
const ACCOUNTS_BYTES_MAX: usize = 1024 * 1024;

/// An operation of one session. An id is never used again in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OperationId(pub u64);

/// Names a table, by name or by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhichTable {
    Name(String),
    Id(TableId),
}

/// A change of a table's options; what is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableChange {
    pub durability: Option<Durability>,
    pub replicas: Option<u8>,
    /// The zone whose masters are to have the tablets; empty: any masters.
    pub zone: Option<String>,
}

/// One operation. Keys have at most 65,535 bytes, values at most 1 MiB, names 1 to 255 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Ends with `Reply::Read`, or refused with `NotFound`.
    Read {
        table: TableId,
        key: Vec<u8>,
        rules: RejectRules,
    },
    /// The newest value that one brick of a quorum table has. It may be old, it may never have been committed, and the
    /// next one may be older still: nothing is compared, and nothing is repaired. Ends as `Read` does. `Reply::Read` says
    /// when the value was written; `NotFound` says that the brick has none. Refused with `Unsupported` for a table that
    /// is no quorum table.
    ReadStale {
        table: TableId,
        key: Vec<u8>,
    },
    Write {
        table: TableId,
        key: Vec<u8>,
        value: Vec<u8>,
        rules: RejectRules,
        /// When the object ends by itself; none: never.
        expiry: Option<Expiry>,
    },
    /// A remove of an absent object is done, with version 0, unless the rules refuse it.
    Remove {
        table: TableId,
        key: Vec<u8>,
        rules: RejectRules,
    },
    /// Settles a put or a removal in a quorum table that ended as unknown. Done if it took effect; refused with
    /// `WrongVersion` if it never did and never will; unknown otherwise. A token that is less than a minute old may
    /// make it take effect.
    Resume {
        token: Box<Token>,
    },
    /// Adds to the number that an object holds as text. An absent object counts for zero. The object's expiry
    /// does not change. Refused with `NotANumber` or `OutOfRange` when the sum cannot be made.
    Increment {
        table: TableId,
        key: Vec<u8>,
        /// Finite. The object's value is read as a number of the same kind.
        by: Number,
        rules: RejectRules,
    },
    /// Checks and changes several objects as one: all of the commit or none of it, and everybody sees it so.
    /// The owner of the first object carries it out. Refused with `NotTogether` if that server is not the
    /// owner of all objects, or if they are not in one stream of its log. Refused by the first rule that does
    /// not hold, in the order of the items. A commit that only checks tells that all rules held at one
    /// moment.
    Commit {
        /// 1 to 256 items, of different keys. All together take at most half a segment: 4 MiB.
        items: Vec<CommitItem>,
    },
    /// One page of a table's objects. Ends with `Reply::Page`, which says where the next page begins.
    Scan {
        cursor: ScanCursor,
        limits: PageLimits,
    },
    /// The number of objects in the tablet that begins at this hash. Ends with `Reply::Counted`, which says
    /// where the next tablet begins; see `TableCount`. Refused with `Unsupported` for a quorum table, whose keys a scan
    /// can count.
    Count {
        table: TableId,
        first: KeyHash,
    },
    /// Done when every tablet has an owner that serves it.
    CreateTable {
        name: String,
        options: TableOptions,
        /// The options that the cluster's default decides.
        left_open: Option<LeftOpen>,
    },
    /// Done when no server serves the table any more.
    DropTable {
        table: TableId,
    },
    /// Drops a table and makes an empty one of its name, options and division, in one step. Done when the old
    /// table is gone and the new one is served.
    TruncateTable {
        table: TableId,
    },
    /// Cuts or joins tablets where they are. Done when their owners have done so.
    DivideTable {
        table: TableId,
        division: Division,
    },
    /// Changes a table online. Done when the change is stored. The table's tablets follow, and descriptions
    /// tell how far they are.
    AlterTable {
        table: TableId,
        change: TableChange,
    },
    ListTables,
    DescribeTable {
        which: WhichTable,
    },
    ClusterStatus,
    Recoveries,
    /// The state of the process at this address, as it reports it.
    ServerStatus {
        address: SocketAddr,
    },
    /// The events that the brick at this address has noted after a number.
    BrickEvents {
        address: SocketAddr,
        after: u64,
    },
    /// The operator has seen the loss report with this id.
    AcknowledgeLoss {
        id: u64,
    },
    /// A part of the coordinator's state: the first part of the present state, or the next part of a state
    /// begun before.
    ReadState {
        position: Option<StatePosition>,
        after: String,
    },
    /// This server is gone for good and is not expected any more.
    ForgetServer {
        server: ServerId,
    },
    /// A brick does not come back: another one takes its place, or its data is taken for lost.
    ReplaceBrick(BrickReplace),
    /// A brick that holds nothing is gone for good, and is not listed any more.
    ForgetBrick {
        brick: ServerId,
    },
    /// A brick gets a share of the quorum tables, or gives its tablets to others.
    ScaleBrick(BrickScale),
    /// All accounts, without their passwords.
    ListAccounts,
    /// Makes or changes an account. Done when the change is stored; servers hear of it afterwards.
    /// `AccountsChanged::obstacle` says why nothing was changed. The message is kept whole, because it shows no password.
    SetAccount(AccountSet),
    /// Removes all of these accounts that are there.
    RemoveAccounts {
        names: Vec<String>,
    },
    /// The servers that this recovery waits for are switched off and are given up. All servers that it
    /// reports as away must be named.
    AcceptLoss {
        recovery: RecoveryId,
        directories: Vec<DirectoryId>,
    },
    /// A ping to the process at this address, or to the coordinator.
    Ping {
        address: Option<SocketAddr>,
    },
    /// Used by the session itself.
    #[doc(hidden)]
    OpenLease {
        term_millis: u64,
    },
    /// Used by the session itself.
    #[doc(hidden)]
    RenewLease {
        lease: LeaseId,
    },
}

/// One object of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitItem {
    pub table: TableId,
    pub key: Vec<u8>,
    pub rules: RejectRules,
    pub action: CommitAction,
}

/// The change to an object when no rule of the commit refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitAction {
    /// No change: only the rules of the item count.
    Check,
    Write {
        value: Vec<u8>,
        /// When the object ends by itself; none: never.
        expiry: Option<Expiry>,
    },
    /// Removing an object that does not exist does nothing.
    Remove,
}

impl CommitItem {
    fn on_wire(&self) -> commit::CommitItem<'_> {
        let CommitItem { table, key, rules, action } = self;
        let action = match action {
            CommitAction::Check => commit::CommitAction::Check,
            CommitAction::Write { value, expiry } => commit::CommitAction::Write { value, expiry: *expiry },
            CommitAction::Remove => commit::CommitAction::Remove,
        };
        commit::CommitItem { table: *table, key, rules: *rules, action }
    }
}

/// The destination of an operation.
pub(crate) enum Place<'a> {
    OwnerOf { table: TableId, target: Target<'a> },
    Coordinator,
    Address(SocketAddr),
}

/// The operation goes to the owner of this key or hash.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    Key(&'a [u8]),
    Hash(KeyHash),
}

/// How an operation may be repeated when no answer came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Repeat {
    /// The operation changes nothing: ask again.
    Freely,
    /// Under the same lease and sequence the operation has its effect once, however often it is sent.
    Numbered,
    /// The operation brings its stamp.
    Stamped,
}

impl Operation {
    pub(crate) fn place(&self) -> Place<'_> {
        match self {
            Operation::Read { table, key, .. }
            | Operation::Write { table, key, .. }
            | Operation::Remove { table, key, .. }
            | Operation::Increment { table, key, .. } => {
                Place::OwnerOf { table: *table, target: Target::Key(key) }
            }
            Operation::ReadStale { table, key } => Place::OwnerOf { table: *table, target: Target::Key(key) },
            Operation::Resume { token } => {
                Place::OwnerOf { table: token.table, target: Target::Key(&token.key) }
            }
            Operation::Commit { items } => match items.first() {
                Some(first) => Place::OwnerOf { table: first.table, target: Target::Key(&first.key) },
                None => Place::Coordinator, // Refused before it goes anywhere.
            },
            Operation::Scan { cursor, .. } => {
                Place::OwnerOf { table: cursor.table(), target: Target::Hash(cursor.first()) }
            }
            Operation::Count { table, first } => {
                Place::OwnerOf { table: *table, target: Target::Hash(*first) }
            }
            Operation::CreateTable { .. }
            | Operation::DropTable { .. }
            | Operation::TruncateTable { .. }
            | Operation::DivideTable { .. }
            | Operation::AlterTable { .. }
            | Operation::ListTables
            | Operation::DescribeTable { .. }
            | Operation::ClusterStatus
            | Operation::Recoveries
            | Operation::AcknowledgeLoss { .. }
            | Operation::ForgetServer { .. }
            | Operation::ReplaceBrick(_)
            | Operation::ForgetBrick { .. }
            | Operation::ScaleBrick(_)
            | Operation::ListAccounts
            | Operation::SetAccount(_)
            | Operation::RemoveAccounts { .. }
            | Operation::AcceptLoss { .. }
            | Operation::ReadState { .. }
            | Operation::OpenLease { .. }
            | Operation::RenewLease { .. }
            | Operation::Ping { address: None } => Place::Coordinator,
            Operation::ServerStatus { address }
            | Operation::BrickEvents { address, .. }
            | Operation::Ping { address: Some(address) } => Place::Address(*address),
        }
    }

    pub(crate) fn repeat(&self) -> Repeat {
        match self {
            Operation::Write { .. }
            | Operation::Remove { .. }
            | Operation::Increment { .. }
            | Operation::Commit { .. }
            | Operation::CreateTable { .. }
            | Operation::DropTable { .. }
            | Operation::TruncateTable { .. }
            | Operation::DivideTable { .. }
            | Operation::AlterTable { .. }
            | Operation::AcknowledgeLoss { .. }
            | Operation::ForgetServer { .. }
            | Operation::ReplaceBrick(_)
            | Operation::ForgetBrick { .. }
            | Operation::ScaleBrick(_)
            | Operation::SetAccount(_)
            | Operation::RemoveAccounts { .. } => Repeat::Numbered,
            Operation::Resume { .. } => Repeat::Stamped,
            Operation::Read { .. }
            | Operation::ReadStale { .. }
            | Operation::Scan { .. }
            | Operation::Count { .. }
            | Operation::ListTables
            | Operation::DescribeTable { .. }
            | Operation::ClusterStatus
            | Operation::Recoveries
            | Operation::ServerStatus { .. }
            | Operation::BrickEvents { .. }
            | Operation::ListAccounts
            | Operation::AcceptLoss { .. }
            | Operation::ReadState { .. }
            | Operation::OpenLease { .. }
            | Operation::RenewLease { .. }
            | Operation::Ping { .. } => Repeat::Freely,
        }
    }

    pub(crate) fn opcode(&self) -> Opcode {
        match self {
            Operation::Read { .. } => Opcode::Read,
            Operation::Write { .. } => Opcode::Write,
            Operation::Remove { .. } => Opcode::Remove,
            Operation::Increment { .. } => Opcode::Increment,
            Operation::ReadStale { .. } | Operation::Resume { .. } => Opcode::Ask,
            Operation::Commit { .. } => Opcode::Commit,
            Operation::Scan { .. } => Opcode::Scan,
            Operation::Count { .. } => Opcode::Count,
            Operation::CreateTable { .. } => TableCreate::OPCODE,
            Operation::DropTable { .. } => TableDrop::OPCODE,
            Operation::TruncateTable { .. } => TableTruncate::OPCODE,
            Operation::DivideTable { .. } => TableDivide::OPCODE,
            Operation::AlterTable { .. } => TableAlter::OPCODE,
            Operation::ListTables => TableList::OPCODE,
            Operation::DescribeTable { .. } => TableDescribe::OPCODE,
            Operation::ClusterStatus => ClusterStatusRequest::OPCODE,
            Operation::Recoveries => RecoveriesRequest::OPCODE,
            Operation::ServerStatus { .. } => ProcessStatusRequest::OPCODE,
            Operation::BrickEvents { .. } => Opcode::BrickEvents,
            Operation::AcknowledgeLoss { .. } => LossAcknowledge::OPCODE,
            Operation::ForgetServer { .. } => ServerForget::OPCODE,
            Operation::ReplaceBrick(_) => BrickReplace::OPCODE,
            Operation::ForgetBrick { .. } => BrickForget::OPCODE,
            Operation::ScaleBrick(_) => BrickScale::OPCODE,
            Operation::ListAccounts => AccountList::OPCODE,
            Operation::SetAccount(_) => AccountSet::OPCODE,
            Operation::RemoveAccounts { .. } => AccountRemove::OPCODE,
            Operation::AcceptLoss { .. } => LossAccept::OPCODE,
            Operation::ReadState { .. } => StateRead::OPCODE,
            Operation::Ping { .. } => Ping::OPCODE,
            Operation::OpenLease { .. } => LeaseOpen::OPCODE,
            Operation::RenewLease { .. } => LeaseRenew::OPCODE,
        }
    }

    /// Checks the limits that need no answer from anybody.
    pub(crate) fn check_limits(&self) -> Result<(), Status> {
        match self {
            Operation::Read { key, .. } | Operation::Remove { key, .. } => check_key(key),
            Operation::Write { key, value, expiry, .. } => {
                check_key(key)?;
                expiry.map_or(Ok(()), Expiry::check)?;
                if value.len() > VALUE_BYTES_MAX { Err(Status::ValueTooLarge) } else { Ok(()) }
            }
            Operation::ReadStale { key, .. } => check_key(key),
            // A token is within the limits.
            Operation::Resume { .. } => Ok(()),
            Operation::Increment { key, by, .. } => {
                check_key(key)?;
                if by.is_finite() { Ok(()) } else { Err(Status::BadRequest) }
            }
            Operation::Commit { items } => check_commit(items),
            Operation::Scan { limits, .. } => {
                if limits.count == 0 || limits.bytes == 0 {
                    Err(Status::BadRequest)
                } else {
                    Ok(())
                }
            }
            Operation::CreateTable { name, .. }
            | Operation::DescribeTable { which: WhichTable::Name(name) } => {
                if name.is_empty() || name.len() > TABLE_NAME_BYTES_MAX {
                    Err(Status::NameTooLong)
                } else {
                    Ok(())
                }
            }
            Operation::SetAccount(AccountSet { name, rules, .. }) => {
                let rules: usize = rules.iter().map(|rule| rule.len()).sum();
                if name.len() + rules > ACCOUNTS_BYTES_MAX { Err(Status::FrameTooLarge) } else { Ok(()) }
            }
            Operation::RemoveAccounts { names } => {
                let bytes: usize = names.iter().map(String::len).sum();
                if bytes > ACCOUNTS_BYTES_MAX { Err(Status::FrameTooLarge) } else { Ok(()) }
            }
            Operation::DescribeTable { which: WhichTable::Id(_) }
            | Operation::DropTable { .. }
            | Operation::TruncateTable { .. }
            | Operation::DivideTable { .. }
            | Operation::AlterTable { .. }
            | Operation::Count { .. }
            | Operation::ListTables
            | Operation::ClusterStatus
            | Operation::Recoveries
            | Operation::ServerStatus { .. }
            | Operation::BrickEvents { .. }
            | Operation::ForgetServer { .. }
            | Operation::ReplaceBrick(_)
            | Operation::ForgetBrick { .. }
            | Operation::ScaleBrick(_)
            | Operation::ListAccounts
            | Operation::AcknowledgeLoss { .. }
            | Operation::AcceptLoss { .. }
            | Operation::ReadState { .. }
            | Operation::OpenLease { .. }
            | Operation::RenewLease { .. }
            | Operation::Ping { .. } => Ok(()),
        }
    }

    /// The most bytes of the request's body, for operations on objects.
    pub(crate) fn body_bytes_max(&self) -> usize {
        /// Table, rules, expiry or amount, lengths.
        const FIELDS: usize = 48;
        match self.place() {
            Place::OwnerOf { target: Target::Key(key), .. } => match self {
                Operation::Write { value, .. } => FIELDS + key.len() + value.len(),
                Operation::Commit { items } => commit_bytes_max(items),
                _ => FIELDS + key.len(),
            },
            Place::OwnerOf { target: Target::Hash(_), .. } | Place::Coordinator | Place::Address(_) => FIELDS,
        }
    }

    /// Appends the body of the request.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Operation::Read { table, key, rules } | Operation::Remove { table, key, rules } => {
                KeyRequest { table: *table, rules: *rules, key }.encode(out);
            }
            Operation::Write { table, key, value, rules, expiry } => {
                out.reserve(key.len() + value.len() + 40);
                WriteRequest { table: *table, rules: *rules, expiry: *expiry, key, value }.encode(out);
            }
            Operation::Increment { table, key, by, rules } => {
                IncrementRequest { table: *table, rules: *rules, by: *by, key }.encode(out);
            }
            Operation::Commit { items } => {
                out.reserve(commit_bytes_max(items));
                commit::encode_commit(items.len(), out, |out| {
                    items.iter().for_each(|item| item.on_wire().encode(out));
                });
            }
            Operation::Scan { cursor, limits } => {
                let (last, position) = cursor.wanted();
                let (table, first) = (cursor.table(), cursor.first());
                let PageLimits { count, bytes, keys_only, pass_lost } = *limits;
                ScanRequest { table, first, last, position, count, bytes, keys_only, pass_lost }.encode(out);
            }
            // Bricks are asked, in other words.
            Operation::ReadStale { .. } | Operation::Resume { .. } => {}
            Operation::Count { table, first } => CountRequest { table: *table, first: *first }.encode(out),
            Operation::CreateTable { name, options, left_open } => {
                let (name, options, left_open) = (name.clone(), options.clone(), *left_open);
                encode_into(out, &TableCreate { name, options, left_open });
            }
            Operation::DropTable { table } => encode_into(out, &TableDrop { table: *table }),
            Operation::TruncateTable { table } => encode_into(out, &TableTruncate { table: *table }),
            Operation::DivideTable { table, division } => {
                encode_into(out, &TableDivide { table: *table, division: *division });
            }
            Operation::AlterTable { table, change: TableChange { durability, replicas, zone } } => {
                let (table, durability, replicas, zone) = (*table, *durability, *replicas, zone.clone());
                encode_into(out, &TableAlter { table, durability, replicas, zone });
            }
            Operation::ListTables => encode_into(out, &TableList {}),
            Operation::DescribeTable { which } => {
                let (name, table) = match which {
                    WhichTable::Name(name) => (name.clone(), TableId::NONE),
                    WhichTable::Id(table) => (String::new(), *table),
                };
                encode_into(out, &TableDescribe { name, table });
            }
            Operation::ClusterStatus => encode_into(out, &ClusterStatusRequest {}),
            Operation::Recoveries => encode_into(out, &RecoveriesRequest {}),
            Operation::ServerStatus { .. } => encode_into(out, &ProcessStatusRequest {}),
            Operation::BrickEvents { after, .. } => encode_into(out, &BrickEvents { after: *after }),
            Operation::AcknowledgeLoss { id } => encode_into(out, &LossAcknowledge { id: *id }),
            Operation::ForgetServer { server } => encode_into(out, &ServerForget { server: *server }),
            Operation::ReplaceBrick(message) => encode_into(out, message),
            Operation::ForgetBrick { brick } => encode_into(out, &BrickForget { brick: *brick }),
            Operation::ScaleBrick(message) => encode_into(out, message),
            Operation::ListAccounts => encode_into(out, &AccountList {}),
            Operation::SetAccount(message) => encode_into(out, message),
            Operation::RemoveAccounts { names } => encode_into(out, &AccountRemove { names: names.clone() }),
            Operation::AcceptLoss { recovery, directories } => {
                let (recovery, directories) = (*recovery, directories.clone());
                encode_into(out, &LossAccept { recovery, directories });
            }
            Operation::ReadState { position, after } => {
                encode_into(out, &StateRead { position: *position, after: after.clone() });
            }
            Operation::Ping { .. } => encode_into(out, &Ping {}),
            Operation::OpenLease { term_millis } => {
                encode_into(out, &LeaseOpen { term_millis: *term_millis })
            }
            Operation::RenewLease { lease } => encode_into(out, &LeaseRenew { lease: *lease }),
        }
    }
}

fn commit_bytes_max(items: &[CommitItem]) -> usize {
    2 + items.iter().map(|item| item.on_wire().bytes_max()).sum::<usize>()
}

fn check_commit(items: &[CommitItem]) -> Result<(), Status> {
    if items.len() > commit::COMMIT_COUNT_MAX || commit_bytes_max(items) > commit::COMMIT_BYTES_MAX {
        return Err(Status::CommitTooLarge);
    }
    for item in items {
        check_key(&item.key)?;
        if let CommitAction::Write { value, expiry } = &item.action {
            expiry.map_or(Ok(()), Expiry::check)?;
            if value.len() > VALUE_BYTES_MAX {
                return Err(Status::ValueTooLarge);
            }
        }
    }
    let on_wire: Vec<_> = items.iter().map(CommitItem::on_wire).collect();
    if items.is_empty() || commit::has_key_twice(&on_wire) { Err(Status::BadRequest) } else { Ok(()) }
}

fn check_key(key: &[u8]) -> Result<(), Status> {
    if key.len() > KEY_BYTES_MAX { Err(Status::KeyTooLarge) } else { Ok(()) }
}
