//! What a row of the table of commands says; arity checks, `COMMAND`, access classes and the documentation come of it.
//!
//! Not here: the rows (`commands`), what the front does itself (`front`).

use crate::{Call, Stop};

/// A command, or one of a container's subcommands.
#[derive(Debug)]
pub struct Command {
    /// Lower case; of a subcommand without its container.
    pub name: &'static str,
    /// Arguments with the name: exactly so many, or at least so many when negative. A subcommand's count its container's
    /// name too.
    pub arity: i32,
    pub flags: Flags,
    pub keys: KeyPlaces,
    /// What is done with the keys, in the words of Redis's key specifications: one entry for all of them, or one for each,
    /// of which the last also holds for those behind it.
    pub access: &'static [&'static str],
    pub group: &'static str,
    /// The version of Redis that had it first.
    pub since: &'static str,
    pub complexity: &'static str,
    /// What follows the name.
    pub usage: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Hints for clients of clusters, in the words of Redis.
    pub tips: &'static [&'static str],
    /// Where it differs from Redis, for the documentation; empty: nowhere.
    pub note: &'static str,
    pub run: Run,
}

impl Command {
    /// What a row need not say.
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
        run: Run::Container(&[]),
    };
}

/// Bits of `COMMAND`'s third field, and what follows from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags(pub u32);

impl Flags {
    pub const NONE: Flags = Flags(0);
    pub const WRITE: Flags = Flags(1);
    pub const READONLY: Flags = Flags(1 << 1);
    /// May need memory: refused when there is none.
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
    /// Access class `@dangerous` beside what group and flags give.
    pub const DANGEROUS: Flags = Flags(1 << 17);
    /// Access class `@keyspace`.
    pub const KEYSPACE: Flags = Flags(1 << 18);
    /// Access class `@connection`.
    pub const CONNECTION: Flags = Flags(1 << 19);
    /// Access class `@admin` without the flag.
    pub const ADMINISTRATIVE: Flags = Flags(1 << 20);
    /// At any time: of Redis also while it loads or has lost its master.
    pub const ANYTIME: Flags = Flags::LOADING.with(Flags::STALE);

    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Where the keys are among the arguments: from `first` every `step`th up to `last`, which counts from the end when
/// negative. All 0: there are none.
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
    /// Each followed by its value.
    pub const PAIRS: KeyPlaces = KeyPlaces { first: 1, last: -1, step: 2 };
    /// Behind a word that says what to do.
    pub const SECOND: KeyPlaces = KeyPlaces { first: 2, last: 2, step: 1 };
    pub const FROM_SECOND: KeyPlaces = KeyPlaces { first: 2, last: -1, step: 1 };

    /// The keys among these arguments, of which there are as many as the arity demands.
    pub fn of<'a>(self, args: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
        let count = args.len() as i32;
        let last = if self.last < 0 { count + self.last } else { self.last.min(count - 1) };
        let none = self.first == 0 || last < self.first;
        let range = if none { 0..0 } else { self.first as usize..last as usize + 1 };
        args[range].iter().step_by(self.step.max(1) as usize).copied()
    }
}

/// A command about keys: reads and changes them through the call's transaction and writes one reply. It decides that it
/// succeeds before it changes anything.
pub type Handler = fn(&mut Call<'_>) -> Result<(), Stop>;

#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// Atomic over its keys: those of several slots are refused with `CROSSSLOT`.
    Keys(Handler),
    /// Outside a transaction the front carries out the plain form of it by operations of the servers, over any keys of the
    /// cluster, each by itself; within one, and where its form is not plain, the handler does.
    Fast(Fast, Handler),
    /// About the connection, the process or the cluster.
    Front(Front),
    /// The next argument names the subcommand.
    Container(&'static [Command]),
}

/// Commands which operations of the servers carry out as they are.
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

/// What the front does itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Front {
    Ping,
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

/// The row of a command, whatever the case of its name.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    let mut at = name_hash(name);
    // Half of the places are empty.
    while let Some(number) = usize::from(PLACES[at % PLACE_COUNT]).checked_sub(1) {
        let row = &crate::commands::ALL[number];
        if row.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(row);
        }
        at += 1;
    }
    None
}

/// For finding rows by their name: a hash table with the rows' numbers plus one, made when this is compiled.
static PLACES: [u16; PLACE_COUNT] = {
    let mut places = [0; PLACE_COUNT];
    let mut number = 0;
    assert!(2 * crate::commands::ALL.len() <= PLACE_COUNT);
    while number < crate::commands::ALL.len() {
        let mut at = name_hash(crate::commands::ALL[number].name.as_bytes());
        while places[at % PLACE_COUNT] != 0 {
            at += 1;
        }
        number += 1;
        places[at % PLACE_COUNT] = number as u16;
    }
    places
};

const PLACE_COUNT: usize = 512;

/// Of the letters of a name, whatever their case.
const fn name_hash(name: &[u8]) -> usize {
    let (mut hash, mut at) = (name.len(), 0);
    while at < name.len() && at < 8 {
        hash = hash.wrapping_mul(31).wrapping_add((name[at] & 0x1F) as usize);
        at += 1;
    }
    hash ^ hash >> 9
}

impl Command {
    /// The row of a container's subcommand, whatever the case of its name.
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

/// `rows` are in the order of their names.
fn find_in(rows: &'static [Command], name: &[u8]) -> Option<&'static Command> {
    let mut lower = [0u8; 32];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    rows.binary_search_by(|row| row.name.as_bytes().cmp(lower)).ok().map(|at| &rows[at])
}
