//! The type of a row of the table of commands. Arity checks, `COMMAND`, access classes and the documentation
//! follow from the rows.
//!
//! Not here: the rows (`commands`), the commands that the front carries out itself (`front`).

use crate::{Call, Stop};

/// A command, or one of a container's subcommands.
#[derive(Debug)]
pub struct Command {
    /// In lower case; for a subcommand, without the name of its container.
    pub name: &'static str,
    /// Number of arguments, the name included: exactly this number, or at least its absolute value if it is
    /// negative. For a subcommand, the name of its container counts, too.
    pub arity: i32,
    pub flags: Flags,
    pub keys: KeyPlaces,
    /// The access to the keys, in the words of Redis's key specifications: one entry for all keys, or one for
    /// each key. In the second case the last entry also holds for the keys behind it.
    pub access: &'static [&'static str],
    pub group: &'static str,
    /// The first version of Redis that had the command.
    pub since: &'static str,
    pub complexity: &'static str,
    /// The arguments behind the name.
    pub usage: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Hints for clients of clusters, in the words of Redis.
    pub tips: &'static [&'static str],
    /// The differences from Redis, for the documentation. Empty: there are none.
    pub note: &'static str,
    /// The treatment of a command about keys on a quorum table. It counts for `Run::Keys` and `Run::Fast`; see
    /// `Command::on_quorum` for the others.
    pub quorum: OnQuorum,
    pub run: Run,
}

impl Command {
    /// The fields that a row need not give.
    pub(crate) const BASE: Command = Command {
        name: "",
        arity: 1,
        flags: Flags::NONE,
        keys: KeyPlaces::NONE,
        access: &[],
        group: "",
        since: "",
        complexity: "O(1)",
        usage: "",
        summary: "",
        tips: &[],
        note: "",
        quorum: OnQuorum::No,
        run: Run::Container(&[]),
    };
}

/// The treatment of a command on a database whose table is a quorum table. Such a table takes reads, writes and removes
/// of single keys, and no conditions. See docs/protocols/resp.md.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnQuorum {
    /// The command is carried out, or needs no table.
    Yes,
    /// The command is carried out for each of its keys separately.
    EachKey,
    /// As `EachKey`. A key is read before it is removed, because the reply counts the keys that were there.
    ReadFirst,
    /// The command is carried out in the forms that need not read the key; its other forms are conditions.
    Unconditional,
    /// Every slot is at the server that is asked: any server answers.
    AllSlotsHere,
    /// The commands of a transaction are refused, and `EXEC` with them.
    Aborts,
    /// The command is refused: it needs a condition, or is not built for quorum tables.
    No,
}

impl OnQuorum {
    /// The words of the documentation.
    pub fn text(self) -> &'static str {
        match self {
            OnQuorum::Yes => "yes",
            OnQuorum::EachKey => "each key by itself",
            OnQuorum::ReadFirst => "each key by itself; two at once may both count a key",
            OnQuorum::Unconditional => "without NX, XX, IFEQ, IFVER, GET and KEEPTTL",
            OnQuorum::AllSlotsHere => "all slots at the server that is asked",
            OnQuorum::Aborts => "no: commands with keys are refused, and EXEC with them",
            OnQuorum::No => "no",
        }
    }
}

/// Bits of `COMMAND`'s third field, and bits for access classes that do not follow from the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags(pub u32);

impl Flags {
    pub const NONE: Flags = Flags(0);
    pub const WRITE: Flags = Flags(1);
    pub const READONLY: Flags = Flags(1 << 1);
    /// May need memory; refused when there is none.
    pub const DENYOOM: Flags = Flags(1 << 2);
    pub const ADMIN: Flags = Flags(1 << 3);
    pub const PUBSUB: Flags = Flags(1 << 4);
    pub const NOSCRIPT: Flags = Flags(1 << 5);
    pub const LOADING: Flags = Flags(1 << 6);
    pub const STALE: Flags = Flags(1 << 7);
    pub const SKIP_MONITOR: Flags = Flags(1 << 8);
    pub const SKIP_SLOWLOG: Flags = Flags(1 << 9);
    pub const FAST: Flags = Flags(1 << 10);
    pub const NO_AUTH: Flags = Flags(1 << 11);
    pub const NO_MULTI: Flags = Flags(1 << 12);
    pub const MOVABLEKEYS: Flags = Flags(1 << 13);
    pub const BLOCKING: Flags = Flags(1 << 14);
    pub const ALLOW_BUSY: Flags = Flags(1 << 15);
    pub const SENTINEL: Flags = Flags(1 << 16);
    /// Access class `@dangerous`, beside the classes that group and flags give.
    pub const DANGEROUS: Flags = Flags(1 << 17);
    /// Access class `@keyspace`.
    pub const KEYSPACE: Flags = Flags(1 << 18);
    /// Access class `@connection`.
    pub const CONNECTION: Flags = Flags(1 << 19);
    /// Access class `@admin` without the flag `ADMIN`.
    pub const ADMINISTRATIVE: Flags = Flags(1 << 20);
    /// Allowed at any time; in Redis also while it loads or has lost its master.
    pub const ANYTIME: Flags = Flags::LOADING.with(Flags::STALE);

    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The places of the keys among the arguments: every `step`th argument from `first` to `last`. A negative
/// `last` counts from the end. All fields are 0 if there are no keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyPlaces {
    pub first: i32,
    pub last: i32,
    pub step: i32,
}

impl KeyPlaces {
    pub const NONE: KeyPlaces = KeyPlaces { first: 0, last: 0, step: 0 };
    pub const ONE: KeyPlaces = KeyPlaces { first: 1, last: 1, step: 1 };
    pub const TWO: KeyPlaces = KeyPlaces { first: 1, last: 2, step: 1 };
    pub const ALL: KeyPlaces = KeyPlaces { first: 1, last: -1, step: 1 };
    /// Each key is followed by its value.
    pub const PAIRS: KeyPlaces = KeyPlaces { first: 1, last: -1, step: 2 };
    /// The keys stand behind a word that says what to do.
    pub const SECOND: KeyPlaces = KeyPlaces { first: 2, last: 2, step: 1 };
    pub const FROM_SECOND: KeyPlaces = KeyPlaces { first: 2, last: -1, step: 1 };

    /// The keys among these arguments. Their number must be as the arity demands.
    pub fn of<'a>(self, args: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
        let count = args.len() as i32;
        let last = if self.last < 0 { count + self.last } else { self.last.min(count - 1) };
        let none = self.first == 0 || last < self.first;
        let range = if none { 0..0 } else { self.first as usize..last as usize + 1 };
        args[range].iter().step_by(self.step.max(1) as usize).copied()
    }
}

/// Carries out a command about keys: it reads and changes keys through the call's transaction, and writes one
/// reply. A handler makes sure that it succeeds before it changes anything.
pub type Handler = fn(&mut Call<'_>) -> Result<(), Stop>;

#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// Atomic over the keys. Keys of several slots are refused with `CROSSSLOT`.
    Keys(Handler),
    /// Outside a transaction, the front carries out the plain form of the command by operations of the
    /// servers: over any keys of the cluster, each key by itself. The handler carries out every other form
    /// (also an `MSET` whose keys are written together), and all forms within a transaction.
    Fast(Fast, Handler),
    /// About the connection, the process or the cluster.
    Front(Front),
    /// The next argument names the subcommand.
    Container(&'static [Command]),
}

/// Commands whose plain form operations of the servers carry out as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fast {
    Get,
    /// `SET key value` without options
    Set,
    Incr,
    Decr,
    IncrBy,
    DecrBy,
    MGet,
    MSet,
    /// `DEL` and `UNLINK`
    Del,
    /// `EXISTS` and `TOUCH`
    Exists,
}

/// Commands that the front carries out itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Front {
    Ping,
    AclCat,
    AclDelUser,
    AclDryRun,
    /// `ACL LOAD` and `ACL SAVE`
    AclFile,
    AclGenPass,
    AclGetUser,
    AclList,
    AclLog,
    AclSetUser,
    AclUsers,
    AclWhoAmI,
    Echo,
    Auth,
    Hello,
    Quit,
    Reset,
    Select,
    ClientId,
    ClientSetName,
    ClientGetName,
    ClientInfo,
    ClientList,
    ClientKill,
    ClientNoEvict,
    ClientNoTouch,
    ClientSetInfo,
    ClientReply,
    /// Prints the subcommands of its container.
    Help,
    Command,
    CommandCount,
    CommandInfo,
    CommandList,
    CommandDocs,
    CommandGetKeys,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    Keys,
    Scan,
    RandomKey,
    DbSize,
    FlushDb,
    FlushAll,
    FunctionFlush,
    Subscribe,
    Unsubscribe,
    PSubscribe,
    PUnsubscribe,
    SSubscribe,
    SUnsubscribe,
    Publish,
    SPublish,
    PubSubShardChannels,
    PubSubShardNumSub,
    PubSubChannels,
    PubSubNumSub,
    PubSubNumPat,
    Info,
    ConfigGet,
    ConfigSet,
    ConfigResetStat,
    Time,
    LatencyLatest,
    LatencyHistory,
    LatencyReset,
    LatencyDoctor,
    SlowlogGet,
    SlowlogLen,
    SlowlogReset,
    Debug,
    Wait,
    WaitAof,
    ClusterSlots,
    ClusterShards,
    ClusterNodes,
    ClusterKeySlot,
    ClusterInfo,
    ClusterMyId,
    Role,
    LastSave,
    ReadOnly,
    ReadWrite,
}

impl Command {
    /// The row of a container's subcommand. The case of the name does not matter.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        match self.run {
            Run::Container(commands) => find_in(commands, name),
            _ => None,
        }
    }

    pub fn takes(&self, count: usize) -> bool {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        if self.arity < 0 { count >= -self.arity } else { count == self.arity }
    }
}

/// `rows` must be in the order of their names.
fn find_in(rows: &'static [Command], name: &[u8]) -> Option<&'static Command> {
    let mut lower = [0u8; 32];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    rows.binary_search_by(|row| row.name.as_bytes().cmp(lower)).ok().map(|at| &rows[at])
}
