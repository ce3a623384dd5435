//! The record of an account: who may do what, with passwords as they are stored.
//!
//! Invariants: the rules make an account; no two accounts have one name, and no id is given to another account.
//!
//! Not here: changes (`accounts`), telling (`roster`), the meaning of rules (`access`). Format: docs/formats/store.md.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use ramhold_access::{Account, AccountError};
use std::fmt;

#[derive(Clone, PartialEq, Eq, Encode, Decode)]
pub struct AccountRecord {
    /// The version of all accounts with which it was made.
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub name: String,
    /// Rules that make the account out of a new one, stored passwords among them.
    #[n(2)]
    pub rules: Vec<ByteVec>,
    /// The version of all accounts with which it was last changed.
    #[n(3)]
    pub changed: u64,
}

impl AccountRecord {
    /// The account that its rules make.
    pub fn account(&self) -> Result<Account, AccountError> {
        let rules: Vec<Vec<u8>> = self.rules.iter().map(|rule| rule.to_vec()).collect();
        Account::told(&self.name, &rules)
    }

    pub(crate) fn rule_bytes(&self) -> usize {
        self.rules.iter().map(|rule| rule.len()).sum()
    }
}

/// Passwords are not shown.
impl fmt::Debug for AccountRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AccountRecord { id, name, rules, changed } = self;
        write!(f, "AccountRecord {{ {id}: {name:?}, {} rules, changed: {changed} }}", rules.len())
    }
}
