//! Accounts between the coordinator, which keeps them, and the processes and operators who need them.
//!
//! Rules are texts in the syntax of Redis's ACL; `core/access` knows what they mean. The rules that the coordinator tells
//! servers hold stored secrets; those that it shows to operators do not.
//!
//! Protocol: docs/protocols/access.md. Catalogue: J4.

use crate::{Message, Opcode};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

/// All accounts at one moment.
#[derive(Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Accounts {
    /// Rises with every change. 0: nobody has ever changed an account.
    #[n(0)]
    pub version: u64,
    /// In the order of their ids. If none is called `default`, that account may do everything without a password.
    #[n(1)]
    pub accounts: Vec<Account>,
}

/// An account as it is told.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct Account {
    /// Never given to another account, also if that has the same name.
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub name: String,
    /// Rules that make the account out of a new one.
    #[n(2)]
    pub rules: Vec<ByteVec>,
    /// The number of its passwords.
    #[n(3)]
    pub secrets: u32,
    /// The version of all accounts with which it was last changed.
    #[n(4)]
    pub changed: u64,
}

/// Secrets are not shown.
impl std::fmt::Debug for Accounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Accounts {{ version: {}, {} accounts }}", self.version, self.accounts.len())
    }
}

/// Secrets are not shown.
impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Account {{ {}: {:?}, {} rules }}", self.id, self.name, self.rules.len())
    }
}

/// Operator to coordinator: show all accounts. Their rules come without secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AccountList {}

impl Message for AccountList {
    const OPCODE: Opcode = Opcode::AccountList;
    type Reply = Accounts;
}

/// Whether an account must be there before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum Presence {
    #[default]
    #[n(0)]
    Any,
    /// The account is made.
    #[n(1)]
    New,
    #[n(2)]
    Known,
}

/// Operator to coordinator: apply these rules to an account, all or none. Passwords stand in them as they were given.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct AccountSet {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub rules: Vec<ByteVec>,
    #[n(2)]
    pub presence: Presence,
}

/// Passwords are not shown.
impl std::fmt::Debug for AccountSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AccountSet {{ {:?}, {} rules }}", self.name, self.rules.len())
    }
}

/// Operator to coordinator: remove these accounts. Names that no account has change nothing.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AccountRemove {
    #[n(0)]
    pub names: Vec<String>,
}

/// The answer to a change of accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AccountsChanged {
    /// The first version of all accounts that has the change.
    #[n(0)]
    pub version: u64,
    /// The number of accounts that were changed or removed.
    #[n(1)]
    pub count: u32,
    /// The reason why nothing was changed.
    #[n(2)]
    pub obstacle: Option<AccountObstacle>,
}

/// Why accounts are not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum AccountObstacle {
    /// The name is no name of an account.
    #[n(0)]
    Name,
    /// There is such an account already.
    #[n(1)]
    Exists,
    #[n(2)]
    Unknown,
    /// A rule cannot be applied.
    #[n(3)]
    Rule,
    /// The account has no such password.
    #[n(4)]
    NoSuchPassword,
    /// The account would have more rules, patterns, passwords or selectors than an account can have.
    #[n(5)]
    TooLarge,
    /// There are as many accounts as there can be.
    #[n(6)]
    TooMany,
    /// The account `default` cannot be removed.
    #[n(7)]
    IsDefault,
}

impl std::fmt::Display for AccountObstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AccountObstacle::Name => "this is no name of an account",
            AccountObstacle::Exists => "there is such an account already",
            AccountObstacle::Unknown => "there is no such account",
            AccountObstacle::Rule => "a rule cannot be applied",
            AccountObstacle::NoSuchPassword => "the account has no such password",
            AccountObstacle::TooLarge => "the account would have too many rules",
            AccountObstacle::TooMany => "there are as many accounts as there can be",
            AccountObstacle::IsDefault => "the account 'default' cannot be removed",
        })
    }
}

impl Message for AccountSet {
    const OPCODE: Opcode = Opcode::AccountSet;
    type Reply = AccountsChanged;
}

impl Message for AccountRemove {
    const OPCODE: Opcode = Opcode::AccountRemove;
    type Reply = AccountsChanged;
}
