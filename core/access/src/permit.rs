//! The decision whether an account may do something.
//!
//! A `Permit` is made once for each change of an account. It has a bit for each command, and the patterns.

use crate::account::Account;
use crate::catalog::{Catalog, CommandNumber};
use crate::rule::{Access, Named};
use crate::selector::{Patterns, Selector};

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

/// A request, as far as a decision is about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deed<'a> {
    pub command: CommandNumber,
    /// The tables by their names, and the part of each.
    pub tables: &'a [(&'a [u8], Extent<'a>)],
    pub channels: &'a [Channel<'a>],
}

/// The part of a deed that is not allowed. The order is that in which a selector is asked, and the selector that comes
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
    /// Commands that need no rule, a bit for each.
    open: Commands,
    selectors: Vec<Allowed>,
}

#[derive(Clone, Debug)]
struct Allowed {
    commands: Commands,
    rules: Selector,
    tables: Patterns,
}

impl Permit {
    pub fn new(account: &Account, catalog: &Catalog) -> Permit {
        // A selector that says nothing about tables has those of the first one.
        let first =
            account.selectors().first().and_then(Selector::tables).cloned().unwrap_or(Patterns::all());
        let allowed = |selector: &Selector| Allowed {
            commands: commands_of(selector, catalog),
            rules: selector.clone(),
            tables: selector.tables().cloned().unwrap_or(first.clone()),
        };
        // An account that is off may do nothing, also over connections that are open.
        let selectors: Vec<Allowed> =
            account.selectors().iter().filter(|_| account.is_on()).map(allowed).collect();
        let is_unrestricted = selectors.iter().any(|Allowed { rules, tables, .. }| {
            let has_all_channels = rules.channels().are_all();
            rules.has_all_commands()
                && rules.has_all_keys(Access::BOTH)
                && has_all_channels
                && tables.are_all()
        });
        let mut open = Commands::of(catalog);
        catalog.iter().filter(|(_, entry)| entry.is_open).for_each(|(number, _)| open.set(number, true));
        Permit { is_unrestricted, open, selectors }
    }

    /// Whether everything is allowed, so that no deed need be described.
    pub fn is_unrestricted(&self) -> bool {
        self.is_unrestricted
    }

    /// Whether one selector allows all of the deed.
    pub fn check(&self, deed: &Deed<'_>) -> Result<(), Denied> {
        if self.is_unrestricted || self.open.has(deed.command) {
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
        self.is_unrestricted
            || self.open.has(command)
            || self.selectors.iter().any(|selector| selector.commands.has(command))
    }
}

impl Allowed {
    fn check(&self, deed: &Deed<'_>) -> Result<(), Denied> {
        if !self.commands.has(deed.command) {
            return Err(Denied::Command);
        }
        if let Some(at) = deed.tables.iter().position(|(table, _)| !self.tables.fit(table)) {
            return Err(Denied::Table(at));
        }
        for (at, (_, extent)) in deed.tables.iter().enumerate() {
            match extent {
                Extent::Names => {}
                Extent::Keys(keys) => {
                    if let Some(key) = keys.iter().position(|(access, key)| !self.rules.has_key(*access, key))
                    {
                        return Err(Denied::Key(at, Some(key)));
                    }
                }
                Extent::All(access) if self.rules.has_all_keys(*access) => {}
                Extent::All(_) => return Err(Denied::Key(at, None)),
            }
        }
        match deed.channels.iter().position(|channel| !self.has_channel(channel)) {
            Some(at) => Err(Denied::Channel(at)),
            None => Ok(()),
        }
    }

    /// A pattern of channels is allowed if it is given as it stands in the rules, or all channels are.
    fn has_channel(&self, channel: &Channel<'_>) -> bool {
        let allowed = self.rules.channels();
        match channel.is_pattern {
            true => allowed.are_all() || allowed.iter().any(|pattern| pattern == channel.name),
            false => allowed.fit(channel.name),
        }
    }
}

/// A bit for each command of a catalog.
#[derive(Clone, Debug)]
struct Commands(Vec<u64>);

impl Commands {
    fn of(catalog: &Catalog) -> Commands {
        Commands(vec![0; catalog.len().div_ceil(64)])
    }

    fn place(command: CommandNumber) -> (usize, u64) {
        (usize::from(command.0 / 64), 1 << (command.0 % 64))
    }

    fn has(&self, command: CommandNumber) -> bool {
        let (word, bit) = Commands::place(command);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    fn set(&mut self, command: CommandNumber, is_allowed: bool) {
        let (word, bit) = Commands::place(command);
        match is_allowed {
            true => self.0[word] |= bit,
            false => self.0[word] &= !bit,
        }
    }
}

fn commands_of(selector: &Selector, catalog: &Catalog) -> Commands {
    let mut commands = Commands::of(catalog);
    for change in selector.commands() {
        for (number, entry) in catalog.iter() {
            let is_meant = match &change.named {
                Named::All => true,
                Named::Class(class) => entry.classes.has(*class),
                Named::Command(name) => Catalog::is_about(name, &entry.name),
            };
            if is_meant {
                commands.set(number, change.allows);
            }
        }
    }
    commands
}
