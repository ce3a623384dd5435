//! The decision whether an account may do something.
//!
//! A `Permit` is made once for each change of an account. It has a bit for each command, and the patterns.

use crate::account::Account;
use crate::catalog::{Catalog, CommandNumber};
use crate::rule::{Access, Named};
use crate::selector::Selector;
use ramhold_base::glob::{Case, matches};

/// The part of a table that a request is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent<'a> {
    /// The table as such: its names of keys, its options. As in Redis, names of keys are no keys: `SCAN` needs the command.
    Names,
    Keys(&'a [(Access, &'a [u8])]),
    /// All objects, whatever their keys.
    All(Access),
}

/// A channel of publish and subscribe, or a pattern of channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channel<'a> {
    pub name: &'a [u8],
    pub is_pattern: bool,
}

/// What a request would do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deed<'a> {
    pub command: CommandNumber,
    /// The tables by their names, and what it does with each.
    pub tables: &'a [(&'a [u8], Extent<'a>)],
    pub channels: &'a [Channel<'a>],
}

/// What is not allowed. The order is that in which a selector is asked: of several selectors, the one that comes
/// furthest tells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Denied {
    Command,
    /// The number of the table in the deed.
    Table(usize),
    /// The number of the table in the deed, and of the key. None: all keys.
    Key(usize, Option<usize>),
    /// The number of the channel in the deed.
    Channel(usize),
}

/// An account's rules for the commands of a catalog.
#[derive(Clone, Debug)]
pub struct Permit {
    /// Everything is allowed: nothing else is to be looked at.
    is_unrestricted: bool,
    selectors: Vec<Allowed>,
}

#[derive(Clone, Debug)]
struct Allowed {
    /// A bit for each command of the catalog.
    commands: Vec<u64>,
    rules: Selector,
}

impl Permit {
    pub fn new(account: &Account, catalog: &Catalog) -> Permit {
        let allowed = |selector: &Selector| Allowed {
            commands: commands_of(selector, catalog),
            rules: selector.clone(),
        };
        let mut selectors: Vec<Allowed> = account.selectors().iter().map(allowed).collect();
        // An account that is off may do nothing, also over connections that are open.
        if !account.is_on() {
            selectors.clear();
        }
        let is_unrestricted = selectors.iter().any(|selector| {
            let all_commands = catalog.iter().all(|(number, _)| selector.has(number));
            all_commands
                && selector.has_all_keys(Access::BOTH)
                && selector.rules.channels().are_all()
                && selector.rules.tables().are_all()
        });
        Permit { is_unrestricted, selectors }
    }

    /// Whether one selector allows all of the deed.
    pub fn check(&self, deed: &Deed<'_>) -> Result<(), Denied> {
        if self.is_unrestricted {
            return Ok(());
        }
        let mut furthest = Denied::Command;
        for selector in &self.selectors {
            match selector.check(deed) {
                Ok(()) => return Ok(()),
                Err(denied) => furthest = furthest.max(denied),
            }
        }
        Err(furthest)
    }

    /// Whether one selector allows the command for some key, table or channel.
    pub fn has(&self, command: CommandNumber) -> bool {
        self.is_unrestricted || self.selectors.iter().any(|selector| selector.has(command))
    }
}

impl Allowed {
    fn has(&self, command: CommandNumber) -> bool {
        let (word, bit) = place(command);
        self.commands.get(word).is_some_and(|word| word & bit != 0)
    }

    fn check(&self, deed: &Deed<'_>) -> Result<(), Denied> {
        if !self.has(deed.command) {
            return Err(Denied::Command);
        }
        let has_table = |table: &[u8]| self.rules.tables().iter().any(|pattern| fits(pattern, table));
        if let Some(at) = deed.tables.iter().position(|(table, _)| !has_table(table)) {
            return Err(Denied::Table(at));
        }
        for (at, (_, extent)) in deed.tables.iter().enumerate() {
            match extent {
                Extent::Names => {}
                Extent::Keys(keys) => {
                    if let Some(key) = keys.iter().position(|(access, key)| !self.has_key(*access, key)) {
                        return Err(Denied::Key(at, Some(key)));
                    }
                }
                Extent::All(access) if self.has_all_keys(*access) => {}
                Extent::All(_) => return Err(Denied::Key(at, None)),
            }
        }
        match deed.channels.iter().position(|channel| !self.has_channel(channel)) {
            Some(at) => Err(Denied::Channel(at)),
            None => Ok(()),
        }
    }

    /// As in Redis, one pattern must have all of the access.
    fn has_key(&self, access: Access, key: &[u8]) -> bool {
        self.rules.keys().iter().any(|(allowed, pattern)| allowed.covers(access) && fits(pattern, key))
    }

    fn has_all_keys(&self, access: Access) -> bool {
        self.rules.keys().iter().any(|(allowed, pattern)| allowed.covers(access) && pattern == b"*")
    }

    /// A pattern of channels is allowed if it is given as it stands in the rules, or all channels are.
    fn has_channel(&self, channel: &Channel<'_>) -> bool {
        let allowed = self.rules.channels();
        allowed.are_all()
            || allowed.iter().any(|pattern| match channel.is_pattern {
                true => pattern == channel.name,
                false => fits(pattern, channel.name),
            })
    }
}

fn fits(pattern: &[u8], text: &[u8]) -> bool {
    pattern == b"*" || matches(pattern, text, Case::Matters)
}

fn commands_of(selector: &Selector, catalog: &Catalog) -> Vec<u64> {
    let mut commands = vec![0; catalog.len().div_ceil(64)];
    for change in selector.commands() {
        for (number, entry) in catalog.iter() {
            let is_meant = match &change.named {
                Named::All => true,
                Named::Class(class) => entry.classes.has(*class),
                Named::Command(name) => Catalog::is_about(name, &entry.name),
            };
            let (word, bit) = place(number);
            match (is_meant, change.allows) {
                (false, _) => {}
                (true, true) => commands[word] |= bit,
                (true, false) => commands[word] &= !bit,
            }
        }
    }
    commands
}

fn place(command: CommandNumber) -> (usize, u64) {
    (usize::from(command.0 / 64), 1 << (command.0 % 64))
}
