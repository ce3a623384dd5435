//! The kinds of the commands that the front carries out itself, and what follows from a kind: whether a command
//! waits for earlier ones, and where it is possible.
//!
//! Not here: what the commands do (`clients`, `execution`), and in which order (`ordering`).

use crate::{Command, Front, OnQuorum, Run};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrontKind {
    /// Begins or ends a transaction, or names the keys that it depends on.
    Transaction,
    /// Says who the client is.
    Login,
    /// Changes accounts, or needs something of the process that takes long.
    Accounts,
    /// Changes the connection, or ends connections.
    Connection,
    /// Tells or sets a fact of the asking client.
    Client,
    /// Walks over the keys of a database, or empties it.
    OverKeys,
    /// Needs the description of the database's table.
    Slots,
    Subscription,
    /// Asks all servers who listens to what.
    Listeners,
    /// Sends a message. In a transaction the message goes out when the transaction has taken effect.
    Publication,
    /// Is answered at once, whoever asks.
    Immediate,
}

impl Front {
    pub(super) fn kind(self) -> FrontKind {
        match self {
            Front::Multi | Front::Exec | Front::Discard | Front::Watch | Front::Unwatch => {
                FrontKind::Transaction
            }
            Front::Auth | Front::Hello => FrontKind::Login,
            Front::AclDelUser | Front::AclGenPass | Front::AclSetUser => FrontKind::Accounts,
            Front::Quit | Front::Reset | Front::Select | Front::ClientKill | Front::ClientReply => {
                FrontKind::Connection
            }
            Front::ClientId
            | Front::ClientSetName
            | Front::ClientGetName
            | Front::ClientInfo
            | Front::ClientList
            | Front::ClientNoEvict
            | Front::ClientNoTouch
            | Front::ClientSetInfo => FrontKind::Client,
            Front::Keys
            | Front::Scan
            | Front::RandomKey
            | Front::DbSize
            | Front::FlushDb
            | Front::FlushAll => FrontKind::OverKeys,
            Front::ClusterSlots | Front::ClusterShards | Front::ClusterNodes => FrontKind::Slots,
            Front::Subscribe
            | Front::Unsubscribe
            | Front::PSubscribe
            | Front::PUnsubscribe
            | Front::SSubscribe
            | Front::SUnsubscribe => FrontKind::Subscription,
            Front::PubSubChannels
            | Front::PubSubNumSub
            | Front::PubSubNumPat
            | Front::PubSubShardChannels
            | Front::PubSubShardNumSub => FrontKind::Listeners,
            Front::Publish | Front::SPublish => FrontKind::Publication,
            Front::Ping
            | Front::AclCat
            | Front::AclDryRun
            | Front::AclFile
            | Front::AclGetUser
            | Front::AclList
            | Front::AclLog
            | Front::AclUsers
            | Front::AclWhoAmI
            | Front::Echo
            | Front::Help
            | Front::Command
            | Front::CommandCount
            | Front::CommandInfo
            | Front::CommandList
            | Front::CommandDocs
            | Front::CommandGetKeys
            | Front::FunctionFlush
            | Front::Info
            | Front::ConfigGet
            | Front::ConfigSet
            | Front::ConfigResetStat
            | Front::Time
            | Front::LatencyLatest
            | Front::LatencyHistory
            | Front::LatencyReset
            | Front::LatencyDoctor
            | Front::SlowlogGet
            | Front::SlowlogLen
            | Front::SlowlogReset
            | Front::Debug
            | Front::Wait
            | Front::WaitAof
            | Front::ClusterKeySlot
            | Front::ClusterInfo
            | Front::ClusterMyId
            | Front::Role
            | Front::LastSave
            | Front::ReadOnly
            | Front::ReadWrite => FrontKind::Immediate,
        }
    }

    /// The treatment of the command on a quorum table.
    fn on_quorum(self) -> OnQuorum {
        match self.kind() {
            FrontKind::Transaction => match self {
                Front::Multi | Front::Exec => OnQuorum::Aborts,
                Front::Watch => OnQuorum::No,
                _ => OnQuorum::Yes,
            },
            FrontKind::Slots => OnQuorum::AllSlotsHere,
            FrontKind::OverKeys
            | FrontKind::Login
            | FrontKind::Accounts
            | FrontKind::Connection
            | FrontKind::Client
            | FrontKind::Subscription
            | FrontKind::Listeners
            | FrontKind::Publication
            | FrontKind::Immediate => OnQuorum::Yes,
        }
    }

    /// Whether the command waits until nothing of its connection is under way.
    pub(super) fn waits(self) -> bool {
        match self.kind() {
            FrontKind::OverKeys
            | FrontKind::Login
            | FrontKind::Accounts
            | FrontKind::Slots
            | FrontKind::Subscription
            | FrontKind::Listeners
            | FrontKind::Publication => true,
            FrontKind::Transaction | FrontKind::Connection => {
                matches!(self, Front::Exec | Front::Watch | Front::Reset)
            }
            FrontKind::Client | FrontKind::Immediate => false,
        }
    }

    /// Whether `EXEC` can carry out the command among others: the command is answered at once, and changes
    /// nothing but its own connection.
    pub(super) fn is_possible_in_exec(self) -> bool {
        match self.kind() {
            FrontKind::Client | FrontKind::Publication | FrontKind::Immediate => true,
            FrontKind::Transaction | FrontKind::Connection => matches!(self, Front::Select | Front::Unwatch),
            FrontKind::OverKeys
            | FrontKind::Login
            | FrontKind::Accounts
            | FrontKind::Slots
            | FrontKind::Subscription
            | FrontKind::Listeners => false,
        }
    }
}

impl Command {
    /// The treatment of the command on a database whose table is a quorum table.
    pub fn on_quorum(&self) -> OnQuorum {
        match self.run {
            Run::Keys(_) | Run::Fast(..) => self.quorum,
            Run::Front(front) => front.on_quorum(),
            Run::Container(_) => OnQuorum::Yes,
        }
    }

    /// Whether the command is carried out, and not queued, between `MULTI` and `EXEC`.
    pub(super) fn passes_multi(&self) -> bool {
        let Run::Front(front) = self.run else { return false };
        matches!(
            front,
            Front::Multi | Front::Exec | Front::Discard | Front::Watch | Front::Quit | Front::Reset
        )
    }

    /// Whether the command's replies are pushed, as messages are.
    pub(super) fn confirms(&self) -> bool {
        matches!(self.run, Run::Front(front) if front.kind() == FrontKind::Subscription)
    }

    /// Whether a subscriber may use the command in version 2 of the protocol.
    pub(super) fn may_subscriber(&self) -> bool {
        self.confirms() || matches!(self.run, Run::Front(Front::Ping | Front::Quit | Front::Reset))
    }
}
