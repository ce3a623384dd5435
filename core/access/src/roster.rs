//! The accounts that a process knows, each with what it may do at the doors of this process.
//!
//! The coordinator keeps the accounts and tells all of them with each change. A process that cannot hear the coordinator goes
//! on with those that it was told last. Connections hold the `Member` that they have become, so a decision looks nothing up;
//! when accounts were told, each connection asks once what its member has become (`Roster::present`).
//!
//! Invariants:
//! - before the accounts are told, nobody can be found: nothing is allowed that a rule may forbid;
//! - an account that cannot be read is left out, and takes nothing from the others;
//! - an account that was made anew under an old name is another one, and no connection passes from one to the other.
//!
//! Not here: who may try how often (`logins`), telling (`coordinator`). Protocol: docs/protocols/access.md.

use crate::account::{Account, AccountError, DEFAULT};
use crate::catalog::Catalog;
use crate::permit::Permit;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// An account, with its rules worked out for the commands of this process.
#[derive(Debug)]
pub struct Member {
    /// Never that of another account. 0: the account `default` that nobody has changed.
    pub id: u64,
    pub account: Account,
    pub permit: Permit,
}

impl Member {
    pub fn name(&self) -> &str {
        self.account.name()
    }
}

pub struct Roster {
    catalog: Catalog,
    /// None: the accounts are not told yet.
    version: Option<u64>,
    members: BTreeMap<String, Arc<Member>>,
}

/// An account as it was told: id, name and rules.
pub type Told<'a> = (u64, &'a str, Vec<Vec<u8>>);

impl Roster {
    /// A roster of nobody, for these commands.
    pub fn new(catalog: Catalog) -> Roster {
        Roster { catalog, version: None, members: BTreeMap::new() }
    }

    /// A roster whose only account is an unrestricted `default`, as long as nobody changes accounts.
    pub fn unrestricted(catalog: Catalog) -> Roster {
        let mut roster = Roster::new(catalog);
        roster.tell(0, []);
        roster
    }

    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The version that was told last.
    pub fn version(&self) -> Option<u64> {
        self.version
    }

    /// Takes all accounts in place of those before. Returns the names of those that cannot be read, and why.
    pub fn tell<'a>(
        &mut self,
        version: u64,
        accounts: impl IntoIterator<Item = Told<'a>>,
    ) -> Vec<(String, AccountError)> {
        let mut unreadable = Vec::new();
        let mut has_default = false;
        let mut members = BTreeMap::new();
        for (id, name, rules) in accounts {
            has_default |= name == DEFAULT;
            match Account::told(name, &rules) {
                Ok(account) => {
                    // Working out what an account may do takes long, and most are not changed.
                    let before = self.members.get(name).filter(|before| before.id == id);
                    let before = before.filter(|before| before.account == account).cloned();
                    let member = before.unwrap_or_else(|| self.member_of(id, account));
                    members.insert(name.to_owned(), member);
                }
                Err(error) => unreadable.push((name.to_owned(), error)),
            }
        }
        if !has_default {
            members.insert(DEFAULT.to_owned(), self.member_of(0, Account::unrestricted()));
        }
        self.members = members;
        self.version = Some(version);
        unreadable
    }

    fn member_of(&self, id: u64, account: Account) -> Arc<Member> {
        let permit = Permit::new(&account, &self.catalog);
        Arc::new(Member { id, account, permit })
    }

    pub fn member(&self, name: &[u8]) -> Option<&Arc<Member>> {
        self.members.get(std::str::from_utf8(name).ok()?)
    }

    /// In the order of their names.
    pub fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.values()
    }

    /// The member that a connection is before it says who it is, if it may be anybody.
    pub fn of_strangers(&self) -> Option<&Arc<Member>> {
        let default = self.members.get(DEFAULT)?;
        (default.account.is_on() && default.account.needs_no_secret()).then_some(default)
    }

    /// The same account as it is now. None: it was removed. The account `default` is always the same one: it gets its id
    /// with its first change.
    pub fn present(&self, member: &Member) -> Option<&Arc<Member>> {
        let is_same = |present: &&Arc<Member>| present.id == member.id || member.name() == DEFAULT;
        self.members.get(member.name()).filter(is_same)
    }
}

/// Rules and secrets are not shown.
impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roster {{ version: {:?}, {} accounts }}", self.version, self.members.len())
    }
}
