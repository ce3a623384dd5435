//! One session with its connections, driven by the calling thread.

use crate::{Error, TableDifference, address};
use ramhold_base::{
    ClusterTime, DirectoryId, KeyHash, Number, RecoveryId, ServerId, Status, TableId, Version,
};
use ramhold_client_core::{
    Expiry, Keys, Operation, OperationId, Outcome, RejectRules, Reply, Session, SessionConfig, TableChange,
    Token, WhichTable,
};
use ramhold_runtime::{NetworkLimits, Runtime, RuntimeConfig, Transport, Turn};
use ramhold_wire::accounts::{AccountSet, Accounts, AccountsChanged, Presence};
use ramhold_wire::brick_status::BrickEventsTold;
use ramhold_wire::copies::{StatePart, StatePosition};
use ramhold_wire::obstacle::Obstacle;
use ramhold_wire::quorum::{BrickReplace, BrickReplaced, BrickScale, BrickScaled};
use ramhold_wire::status::{ClusterStatus, LossAccepted, Pong, ProcessStatus, RecoveryReport};
use ramhold_wire::table::{Division, LeftOpen, TableDescription, TableOptions, TableSummary};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
pub struct Options {
    /// How long an operation is tried before it ends as refused or unknown.
    pub deadline: Duration,
    /// How long a coordinator is looked for when connecting.
    pub connect_timeout: Duration,
    /// How long the client may be silent before the servers forget what its last mutations came to: 10 s to 30 min.
    /// Whatever is under way when it stands still for longer ends as unknown. Short for who writes once and goes.
    pub lease_term: Duration,
    /// How connections are opened. By default memory is shared with servers of this host, and others are reached over TCP.
    pub transport: Transport,
    /// The zone of this client. Values of quorum tables are asked of bricks there first.
    pub zone: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            deadline: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(3),
            lease_term: Duration::from_secs(30 * 60),
            transport: Transport::default(),
            zone: None,
        }
    }
}

/// An object as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub value: Vec<u8>,
    pub version: Version,
    /// When it was written, in seconds of cluster time (since 1970).
    pub time: u32,
    /// From when on it is not returned any more, in milliseconds of cluster time (since 1970); none: it stays until it
    /// is removed.
    pub expires: Option<ClusterTime>,
}

/// How an object is to be written; by default whatever was there before, and without an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutOptions {
    pub rules: RejectRules,
    /// When it ends by itself; none: never.
    pub expiry: Option<Expiry>,
}

impl PutOptions {
    /// Not if these rules refuse it.
    #[must_use]
    pub fn unless(self, rules: RejectRules) -> PutOptions {
        PutOptions { rules, ..self }
    }

    /// The object ends by itself so long after it was written: 1 ms to 36,525 days, rounded up to whole milliseconds.
    /// Anything outside is refused with `BadRequest`.
    #[must_use]
    pub fn time_to_live(self, time: Duration) -> PutOptions {
        let millis = u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        PutOptions { expiry: Some(Expiry::After { millis }), ..self }
    }

    /// The object ends by itself at this cluster time: milliseconds since 1970 as the coordinator counts them, not 0 and
    /// at most 36,525 days ahead, else refused with `BadRequest`. At a time that has passed it is over at once.
    #[must_use]
    pub fn expires_at(self, time: ClusterTime) -> PutOptions {
        PutOptions { expiry: Some(Expiry::At(time)), ..self }
    }
}

pub struct Client {
    pub(crate) runtime: Runtime<Session>,
    deadline: Duration,
    /// Outcomes of submitted operations that came while another one was waited for.
    pub(crate) ended: VecDeque<(OperationId, Outcome)>,
}

impl Client {
    /// Connects to the cluster whose coordinator is at one of these addresses (`HOST[:PORT][,...]`). For keys of quorum
    /// tables the address of any brick or server does as well.
    pub fn connect(addresses: &str) -> Result<Client, Error> {
        Client::connect_with(&address::parse_addresses(addresses)?, Options::default())
    }

    /// Like `connect`, with the addresses looked up already and with options.
    pub fn connect_with(addresses: &[SocketAddr], options: Options) -> Result<Client, Error> {
        let mut config = SessionConfig::new(addresses.to_vec());
        config.deadline = options.deadline;
        config.lease_term = options.lease_term;
        config.zone = options.zone;
        // The seed comes from the operating system's randomness, so no two sessions share their rpc ids.
        let seed = RandomState::new().hash_one(std::process::id());
        // A library does not write to the stderr of its program. Everything it reports is in the outcomes.
        let limits = NetworkLimits { transport: options.transport, ..NetworkLimits::default() };
        let quiet = RuntimeConfig { report: Box::new(|_, _| {}), limits, ..RuntimeConfig::default() };
        let runtime = Runtime::new(Session::new(config, seed), quiet)?;
        let mut client = Client { runtime, deadline: options.deadline, ended: VecDeque::new() };
        client.complete_within(Operation::Ping { address: None }, options.connect_timeout)?;
        Ok(client)
    }

    /// Changes how long operations that are started from now on are tried.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// The id of a table.
    pub fn table(&mut self, name: &str) -> Result<TableId, Error> {
        Ok(self.describe_table(name)?.table)
    }

    /// The object with this key, if there is one.
    pub fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<Object>, Error> {
        match self.get_if(table, key, RejectRules::default()) {
            Ok(object) => Ok(Some(object)),
            Err(Error::Refused { status: Status::NotFound, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The object with this key, unless the rules refuse it or there is none (`NotFound`).
    pub fn get_if(&mut self, table: TableId, key: &[u8], rules: RejectRules) -> Result<Object, Error> {
        match self.complete(Operation::Read { table, key: key.to_vec(), rules })? {
            Reply::Read { version, time, expires, value, .. } => Ok(Object { value, version, time, expires }),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// The object as a single brick of a quorum table has it, or `NotFound` if that brick has none. It may be old, it may
    /// never have been acknowledged, and the next one that is read may be older. It needs one brick that answers.
    /// `Object::version` is the time of its write in microseconds since 1970. Refused with `Unsupported` for other tables.
    pub fn get_stale(&mut self, table: TableId, key: &[u8]) -> Result<Object, Error> {
        match self.complete(Operation::ReadStale { table, key: key.to_vec() })? {
            Reply::Read { version, time, expires, value, .. } => Ok(Object { value, version, time, expires }),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Writes an object, whatever was there before; gives its new version.
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<Version, Error> {
        self.put_if(table, key, value, RejectRules::default())
    }

    /// Writes an object unless the rules refuse it.
    pub fn put_if(
        &mut self,
        table: TableId,
        key: &[u8],
        value: &[u8],
        rules: RejectRules,
    ) -> Result<Version, Error> {
        self.put_with(table, key, value, PutOptions::default().unless(rules))
    }

    /// Writes an object as the options say; gives its new version. A write without an end takes away that of the object
    /// before it.
    pub fn put_with(
        &mut self,
        table: TableId,
        key: &[u8],
        value: &[u8],
        options: PutOptions,
    ) -> Result<Version, Error> {
        let PutOptions { rules, expiry } = options;
        let operation = Operation::Write { table, key: key.to_vec(), value: value.to_vec(), rules, expiry };
        match self.complete(operation)? {
            Reply::Written { version } => Ok(version),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Removes an object; gives the version of the removal, or none when there was no object.
    pub fn delete(&mut self, table: TableId, key: &[u8]) -> Result<Option<Version>, Error> {
        self.delete_if(table, key, RejectRules::default())
    }

    /// Removes an object unless the rules refuse it.
    pub fn delete_if(
        &mut self,
        table: TableId,
        key: &[u8],
        rules: RejectRules,
    ) -> Result<Option<Version>, Error> {
        match self.complete(Operation::Remove { table, key: key.to_vec(), rules })? {
            Reply::Removed { version } => Ok((!version.is_none()).then_some(version)),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Settles a put or a removal in a quorum table that ended as unknown. Gives the version if it took effect. Refused
    /// with `WrongVersion` if it never did and never will; `Unknown` again, with or without a token, if that cannot be told.
    /// A token that is less than a minute old may make it take effect.
    pub fn resume(&mut self, token: Token) -> Result<Version, Error> {
        match self.complete(Operation::Resume { token: Box::new(token) })? {
            Reply::Written { version } | Reply::Removed { version } => Ok(version),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Adds to the integer that the object holds as decimal text; gives the sum. No object counts for 0.
    /// Refused with `NotANumber` when the object holds anything else, with `OutOfRange` when 64 bits do not hold the sum.
    pub fn increment(&mut self, table: TableId, key: &[u8], by: i64) -> Result<i64, Error> {
        match self.increment_if(table, key, Number::Integer(by), RejectRules::default())? {
            (Number::Integer(sum), _) => Ok(sum),
            (Number::Float(_), _) => Err(Error::UnexpectedReply),
        }
    }

    /// Adds to the float that the object holds as decimal text; gives the sum. No object counts for 0.
    /// Refused with `NotANumber` when the object holds anything else, with `OutOfRange` when the sum is not finite, with
    /// `BadRequest` when `by` is not.
    pub fn increment_float(&mut self, table: TableId, key: &[u8], by: f64) -> Result<f64, Error> {
        match self.increment_if(table, key, Number::Float(by), RejectRules::default())? {
            (Number::Float(sum), _) => Ok(sum),
            (Number::Integer(_), _) => Err(Error::UnexpectedReply),
        }
    }

    /// Adds to a number unless the rules refuse it; gives the sum and the object's new version. An object that is to end
    /// by itself still ends when it was to.
    pub fn increment_if(
        &mut self,
        table: TableId,
        key: &[u8],
        by: Number,
        rules: RejectRules,
    ) -> Result<(Number, Version), Error> {
        match self.complete(Operation::Increment { table, key: key.to_vec(), by, rules })? {
            Reply::Incremented { version, sum } => Ok((sum, version)),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Makes a table with exactly these options; done when every part of it is served. Refused with `TooFewBackups` when the
    /// servers that are up cannot keep its replicas; then nothing is made.
    pub fn create_table(&mut self, name: &str, options: TableOptions) -> Result<TableId, Error> {
        self.create_table_with(name, options, None)
    }

    /// Makes a table for which the cluster's default decides what is left open. `options.replicas`, 1 to 7, then counts
    /// only for a coordinator of an older version; `describe_table` tells what the table got. Refused with `NotAllowed`
    /// when only the number is left open and the default is no replicas.
    pub fn create_table_leaving(
        &mut self,
        left_open: LeftOpen,
        name: &str,
        options: TableOptions,
    ) -> Result<TableId, Error> {
        self.create_table_with(name, options, Some(left_open))
    }

    fn create_table_with(
        &mut self,
        name: &str,
        options: TableOptions,
        left_open: Option<LeftOpen>,
    ) -> Result<TableId, Error> {
        match self.complete(Operation::CreateTable { name: name.to_owned(), options, left_open })? {
            Reply::TableCreated { table } => Ok(table),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// The table of this name, made with these options if there is none. One that is there with other options is left as it
    /// is, and `TableDiffers` names each difference; what is left open may be as it is, and so may the number of tablets
    /// when 0 are asked for.
    pub fn create_table_if_absent(
        &mut self,
        name: &str,
        options: TableOptions,
        left_open: Option<LeftOpen>,
    ) -> Result<TableId, Error> {
        match self.create_table_with(name, options.clone(), left_open) {
            Err(Error::Refused { status: Status::TableExists, .. }) => {}
            result => return result,
        }
        let table = self.describe_table(name)?;
        let differences = TableDifference::all(&table, &options, left_open);
        if differences.is_empty() {
            return Ok(table.table);
        }
        Err(Error::TableDiffers { table: table.table, differences })
    }

    /// Drops a table with all its objects.
    pub fn drop_table(&mut self, table: TableId) -> Result<(), Error> {
        match self.complete(Operation::DropTable { table })? {
            Reply::TableDropped => Ok(()),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Empties a table: it is dropped, and an empty one with its name, options and division takes its place in one step.
    /// Gives the new table. Refused with `TooFewBackups` when the servers that are up cannot keep its replicas; then nothing
    /// has changed.
    pub fn truncate_table(&mut self, table: TableId) -> Result<TableId, Error> {
        match self.complete(Operation::TruncateTable { table })? {
            Reply::TableTruncated { table } => Ok(table),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Cuts each tablet of a table into so many equal ones, or as many as it has hashes or slots. They stay where they are.
    /// Tells how many the table has then, when their owners have it.
    pub fn split_table(&mut self, table: TableId, parts: u32) -> Result<u32, Error> {
        self.divide_table(table, Division::Parts { count: parts })
    }

    /// Has a tablet begin at a hash; of a table by slots at the first one of a slot.
    pub fn split_table_at(&mut self, table: TableId, at: KeyHash) -> Result<u32, Error> {
        self.divide_table(table, Division::Split { at })
    }

    /// Makes neighbouring tablets one wherever they have one owner.
    pub fn merge_table(&mut self, table: TableId) -> Result<u32, Error> {
        self.divide_table(table, Division::Join { at: None })
    }

    /// Makes the two tablets one that meet at a hash. Refused with `NotAllowed` when they have two owners.
    pub fn merge_table_at(&mut self, table: TableId, at: KeyHash) -> Result<u32, Error> {
        self.divide_table(table, Division::Join { at: Some(at) })
    }

    fn divide_table(&mut self, table: TableId, division: Division) -> Result<u32, Error> {
        match self.complete(Operation::DivideTable { table, division })? {
            Reply::TableDivided { tablets } => Ok(tablets),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Keeps a table in another way from now on; what is `None` stays as it is. Answered when that is stored: its tablets
    /// follow one by one, and `describe_table` tells how many have not yet. The durability is changed neither from nor to
    /// `Durability::None`, which is refused with `Unsupported`. More replicas than the servers that are up can keep are refused
    /// with `TooFewBackups`, and a zone in which no server is with `UnknownZone`.
    pub fn alter_table(&mut self, table: TableId, change: TableChange) -> Result<(), Error> {
        match self.complete(Operation::AlterTable { table, change })? {
            Reply::TableAltered => Ok(()),
            _ => Err(Error::UnexpectedReply),
        }
    }

    pub fn tables(&mut self) -> Result<Vec<TableSummary>, Error> {
        match self.complete(Operation::ListTables)? {
            Reply::Tables(tables) => Ok(tables),
            _ => Err(Error::UnexpectedReply),
        }
    }

    pub fn describe_table(&mut self, name: &str) -> Result<TableDescription, Error> {
        let which = WhichTable::Name(name.to_owned());
        match self.complete(Operation::DescribeTable { which })? {
            Reply::Table(description) => Ok(description),
            _ => Err(Error::UnexpectedReply),
        }
    }

    pub fn cluster_status(&mut self) -> Result<ClusterStatus, Error> {
        match self.complete(Operation::ClusterStatus)? {
            Reply::ClusterStatus(status) => Ok(*status),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Recoveries under way and past, newest first.
    pub fn recoveries(&mut self) -> Result<Vec<RecoveryReport>, Error> {
        match self.complete(Operation::Recoveries)? {
            Reply::Recoveries(recoveries) => Ok(recoveries),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// The words of the server at this address about itself.
    pub fn server_status(&mut self, address: SocketAddr) -> Result<ProcessStatus, Error> {
        match self.complete(Operation::ServerStatus { address })? {
            Reply::ServerStatus(status) => Ok(*status),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// The events that the brick at this address has noted after a number; 0: from the oldest on.
    pub fn brick_events(&mut self, address: SocketAddr, after: u64) -> Result<BrickEventsTold, Error> {
        match self.complete(Operation::BrickEvents { address, after })? {
            Reply::BrickEvents(told) => Ok(told),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Tells the coordinator that the operator has seen this loss report.
    pub fn acknowledge_loss(&mut self, id: u64) -> Result<(), Error> {
        match self.complete(Operation::AcknowledgeLoss { id })? {
            Reply::LossAcknowledged => Ok(()),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Tells the coordinator that this server, one of `ClusterStatus::gone`, is not expected back.
    pub fn forget_server(&mut self, server: ServerId) -> Result<(), Error> {
        match self.complete(Operation::ForgetServer { server })? {
            Reply::ServerForgotten => Ok(()),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Gives a brick's place in all its tablets to another one, or takes its data for lost: for a brick that does not come
    /// back. `BrickReplaced::obstacle` says why nothing was changed.
    pub fn replace_brick(&mut self, message: BrickReplace) -> Result<BrickReplaced, Error> {
        match self.complete(Operation::ReplaceBrick(message))? {
            Reply::BrickReplaced(replaced) => Ok(replaced),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Removes the record of a brick that holds nothing and does not come back. Returns why it is kept.
    pub fn forget_brick(&mut self, brick: ServerId) -> Result<Option<Obstacle>, Error> {
        match self.complete(Operation::ForgetBrick { brick })? {
            Reply::BrickReplaced(replaced) => Ok(replaced.obstacle),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Orders that a brick gets a share of the quorum tables, or gives all its tablets to others, or takes such an order
    /// back. Tablets move one after the other afterwards: `BrickReport::scaling` tells how far. `BrickScaled::obstacle` says
    /// why nothing was ordered.
    pub fn scale_brick(&mut self, message: BrickScale) -> Result<BrickScaled, Error> {
        match self.complete(Operation::ScaleBrick(message))? {
            Reply::BrickScaled(scaled) => Ok(scaled),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// All accounts, without their passwords. `default` is among them: with the id 0 if nobody has changed it.
    pub fn accounts(&mut self) -> Result<Accounts, Error> {
        match self.complete(Operation::ListAccounts)? {
            Reply::Accounts(accounts) => Ok(accounts),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Makes an account, or changes it by whole rules, all or none; passwords stand in them as `>password`. Answered when
    /// the change is stored: servers hear of it soon afterwards. `AccountsChanged::obstacle` says why nothing was changed.
    pub fn set_account(
        &mut self,
        name: &str,
        rules: Vec<Vec<u8>>,
        presence: Presence,
    ) -> Result<AccountsChanged, Error> {
        let rules = rules.into_iter().map(Into::into).collect();
        match self.complete(Operation::SetAccount(AccountSet { name: name.to_owned(), rules, presence }))? {
            Reply::AccountsChanged(changed) => Ok(changed),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Removes all of these accounts that are there; none if `default` is among them, which `AccountsChanged::obstacle`
    /// says.
    pub fn remove_accounts(&mut self, names: Vec<String>) -> Result<AccountsChanged, Error> {
        match self.complete(Operation::RemoveAccounts { names })? {
            Reply::AccountsChanged(changed) => Ok(changed),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Gives up servers that a recovery waits for (`RecoveryReport::away`): the caller states that all of them are
    /// switched off for good, and accepts the loss of what only they had. Refused, by naming them, while one of them
    /// answers anybody, or when a server cannot tell.
    pub fn accept_loss(
        &mut self,
        recovery: RecoveryId,
        directories: Vec<DirectoryId>,
    ) -> Result<LossAccepted, Error> {
        match self.complete(Operation::AcceptLoss { recovery, directories })? {
            Reply::LossAccepted(accepted) => Ok(accepted),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// A part of the coordinator's state: without a position the first part of the present state, else the next part of the
    /// state that the part before was of. `NotFound`: somebody else began to read, or the coordinator was started again.
    pub fn read_state(&mut self, position: Option<StatePosition>, after: String) -> Result<StatePart, Error> {
        match self.complete(Operation::ReadState { position, after })? {
            Reply::State(part) => Ok(part),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Asks the process at this address, or the coordinator, for a sign of life.
    pub fn ping(&mut self, address: Option<SocketAddr>) -> Result<Pong, Error> {
        match self.complete(Operation::Ping { address })? {
            Reply::Pong(pong) => Ok(pong),
            _ => Err(Error::UnexpectedReply),
        }
    }

    /// Starts an operation and does not wait; `wait_any` gives its outcome. At most 1024 may be under way.
    pub fn submit(&mut self, operation: Operation) -> OperationId {
        self.submit_within(operation, self.deadline)
    }

    /// Starts an operation that is to be over after `time`.
    pub fn submit_within(&mut self, operation: Operation, time: Duration) -> OperationId {
        self.runtime.step(|session, now, effects| session.start_within(now, operation, time, effects))
    }

    /// Starts operations together and does not wait; the ids are in their order. Operations of one server travel in one
    /// frame, up to 256 operations and 1 MiB.
    pub fn submit_all(&mut self, operations: impl IntoIterator<Item = Operation>) -> Vec<OperationId> {
        let time = self.deadline;
        let ids: Vec<OperationId> =
            self.runtime.step(|session, now, effects| session.start_all(now, operations, time, effects));
        // One operation goes out with the next wait: who starts one after the other would pay for each.
        if ids.len() > 1 {
            self.runtime.flush();
        }
        ids
    }

    /// Starts a read of many keys and does not wait. It ends with `Reply::Objects`, in which each key has an end of its
    /// own. At most 65,536 keys, of 32 MiB together, may be under way in such reads; more are refused with `TooMany`.
    pub fn submit_reads(&mut self, keys: Keys) -> OperationId {
        let time = self.deadline;
        let id = self.runtime.step(|session, now, effects| session.start_reads(now, keys, time, effects));
        self.runtime.flush();
        id
    }

    /// Waits for the next submitted operation to end. `None`: none is under way.
    pub fn wait_any(&mut self) -> Option<(OperationId, Outcome)> {
        self.next_ended(None)
    }

    /// Waits for it for so long at most. `None`: none has ended by then, or none is under way, which is told at once.
    pub fn wait_any_within(&mut self, time: Duration) -> Option<(OperationId, Outcome)> {
        self.next_ended(Some(Instant::now() + time))
    }

    /// The next submitted operation that has ended, without waiting for one. To be called again and again: this is also
    /// what lets operations get on.
    pub fn poll_any(&mut self) -> Option<(OperationId, Outcome)> {
        self.wait_any_within(Duration::ZERO)
    }

    fn next_ended(&mut self, until: Option<Instant>) -> Option<(OperationId, Outcome)> {
        let mut is_over = false;
        loop {
            let ended = self.ended.pop_front().or_else(|| self.runtime.machine_mut().take_outcome());
            if ended.is_some() || is_over || self.runtime.machine().under_way_count() == 0 {
                return ended;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            is_over = left.is_some_and(|left| left.is_zero());
            if self.runtime.turn(left) == Turn::Ended {
                return None;
            }
        }
    }

    /// Does one operation and waits for its reply.
    pub fn complete(&mut self, operation: Operation) -> Result<Reply, Error> {
        self.complete_within(operation, self.deadline)
    }

    /// Does one operation that is to be over after `time`.
    pub fn complete_within(&mut self, operation: Operation, time: Duration) -> Result<Reply, Error> {
        let wanted = self.submit_within(operation, time);
        self.await_outcome(wanted)
    }

    /// Waits for an operation that was submitted, perhaps before others that have ended.
    pub(crate) fn outcome_of(&mut self, wanted: OperationId) -> Result<Reply, Error> {
        if let Some(at) = self.ended.iter().position(|(id, _)| *id == wanted) {
            return self
                .ended
                .remove(at)
                .map_or(Err(Error::UnexpectedReply), |(_, ended)| Error::check(ended));
        }
        self.await_outcome(wanted)
    }

    fn await_outcome(&mut self, wanted: OperationId) -> Result<Reply, Error> {
        loop {
            while let Some((id, outcome)) = self.runtime.machine_mut().take_outcome() {
                if id == wanted {
                    return Error::check(outcome);
                }
                self.ended.push_back((id, outcome));
            }
            if self.runtime.turn(None) == Turn::Ended {
                return Err(Error::UnexpectedReply);
            }
        }
    }
}
