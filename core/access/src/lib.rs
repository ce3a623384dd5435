//! Who may do what: accounts, their rules, and the one decision that every door asks for.
//!
//! An account has rules in the syntax of Redis's ACL: commands and classes of commands, patterns of keys, of channels and of
//! tables (`rule`). Rules stand in selectors; a request is allowed if one selector allows all of it (`account`). A door
//! describes a request as a `Deed`, and `Permit` decides about it. A permit is an account's rules, worked out for a list of
//! commands (`catalog`), so that a decision reads few bytes. A process has all accounts with their permits in a `Roster`, and
//! `Logins` says who may try to become one.
//!
//! Invariants:
//! - a new account may do nothing, and nobody can become it: it is off and has no secret;
//! - rules that fail change nothing;
//! - the rules that an account tells of itself make an equal account (`Account::rules`);
//! - a decision needs the rules and the deed alone: the same at each door and on each server.
//!
//! Not here: secrets are only carried. Hashing and comparing them takes long, and the executor does it. The commands' names
//! are the doors' (Redis's commands in `resp`).
//! Catalogue: J4. Source: faults.md Z9, Z11; the documentation of Redis and Valkey ("ACL").

pub mod account;
pub mod catalog;
pub mod classes;
pub mod limits;
pub mod logins;
pub mod passwords;
pub mod permit;
pub mod roster;
pub mod rule;
mod selector;
mod words;

pub use account::{Account, AccountError};
pub use catalog::{Catalog, CommandNumber, Entry};
pub use classes::{Class, Classes};
pub use logins::{AtOnce, Begun, Logins, Verdict};
pub use passwords::PasswordChange;
pub use permit::{Channel, Deed, Denied, Extent, Permit};
pub use roster::{Member, Roster};
pub use rule::{Access, Change, Rule, RuleFault};
pub use selector::{Patterns, Selector};
pub use words::whole_rules;
