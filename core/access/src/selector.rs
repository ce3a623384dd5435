//! The rules of a selector: commands, keys, channels and tables that go together.

use crate::catalog::Catalog;
use crate::limits::PATTERN_COUNT_MAX;
use crate::rule::{Access, Change, Named, Rule, RuleFault};
use ramhold_base::glob::{Case, matches};

const ALL: &[u8] = b"*";

/// A list of patterns. The pattern `*` alone takes everything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Patterns(Vec<Vec<u8>>);

impl Patterns {
    pub fn all() -> Patterns {
        Patterns(vec![ALL.to_vec()])
    }

    pub fn are_all(&self) -> bool {
        self.0.iter().any(|pattern| pattern == ALL)
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// Whether one of the patterns takes the text.
    pub fn fit(&self, text: &[u8]) -> bool {
        self.iter().any(|pattern| fits(pattern, text))
    }

    fn add(&mut self, pattern: &[u8], what: &'static str) -> Result<(), RuleFault> {
        if pattern == ALL {
            *self = Patterns::all();
        } else if self.are_all() {
            return Err(RuleFault::AfterAll);
        } else if !self.iter().any(|other| other == pattern) {
            check_count(self.0.len(), what)?;
            self.0.push(pattern.to_vec());
        }
        Ok(())
    }
}

/// The rules that go together. A new selector allows no command, no key and no channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selector {
    /// In the order in which they hold; the last one that is about a command decides.
    commands: Vec<Change>,
    keys: Vec<(Access, Vec<u8>)>,
    channels: Patterns,
    /// None: nothing was said about tables.
    tables: Option<Patterns>,
}

impl Default for Selector {
    fn default() -> Selector {
        Selector { commands: Vec::new(), keys: Vec::new(), channels: Patterns(Vec::new()), tables: None }
    }
}

impl Selector {
    pub fn commands(&self) -> &[Change] {
        &self.commands
    }

    pub fn keys(&self) -> &[(Access, Vec<u8>)] {
        &self.keys
    }

    pub fn channels(&self) -> &Patterns {
        &self.channels
    }

    /// None: nothing was said about tables.
    pub fn tables(&self) -> Option<&Patterns> {
        self.tables.as_ref()
    }

    /// Whether the rules are `+@all` alone, so also commands that are yet to come are allowed.
    pub fn has_all_commands(&self) -> bool {
        matches!(&self.commands[..], [Change { allows: true, named: Named::All }])
    }

    /// Whether one pattern allows this access to the key. As in Redis, it must have all of the access.
    pub fn has_key(&self, access: Access, key: &[u8]) -> bool {
        self.keys.iter().any(|(allowed, pattern)| allowed.covers(access) && fits(pattern, key))
    }

    /// Whether all keys are allowed with this access.
    pub fn has_all_keys(&self, access: Access) -> bool {
        self.keys.iter().any(|(allowed, pattern)| allowed.covers(access) && pattern == ALL)
    }

    /// Applies a rule about commands, keys, channels or tables. Others are refused.
    pub fn apply(&mut self, rule: &Rule) -> Result<(), RuleFault> {
        match rule {
            Rule::Commands(change) => return self.change(change),
            Rule::Keys(access, pattern) => return self.add_keys(*access, pattern),
            Rule::ResetKeys => self.keys.clear(),
            Rule::Channels(pattern) => return self.channels.add(pattern, "patterns of channels"),
            Rule::ResetChannels => self.channels.0.clear(),
            // Tables that are named take the place of all.
            Rule::Tables(pattern) => match &mut self.tables {
                Some(tables) if !tables.are_all() => return tables.add(pattern, "patterns of tables"),
                tables => *tables = Some(Patterns(vec![pattern.clone()])),
            },
            Rule::ResetTables => self.tables = Some(Patterns(Vec::new())),
            _ => return Err(RuleFault::NotInSelector),
        }
        Ok(())
    }

    fn change(&mut self, change: &Change) -> Result<(), RuleFault> {
        match &change.named {
            // Nothing from before counts any more.
            Named::All => self.commands.clear(),
            Named::Class(_) => self.commands.retain(|earlier| earlier.named != change.named),
            Named::Command(name) => self.commands.retain(
                |earlier| !matches!(&earlier.named, Named::Command(other) if Catalog::is_about(name, other)),
            ),
        }
        check_count(self.commands.len(), "rules about commands")?;
        self.commands.push(change.clone());
        // Where nothing is allowed yet, there is nothing to take back.
        let first = self.commands.iter().position(|change| change.allows).unwrap_or(self.commands.len());
        self.commands.drain(..first);
        Ok(())
    }

    fn add_keys(&mut self, access: Access, pattern: &[u8]) -> Result<(), RuleFault> {
        let is_all = |(access, pattern): &(Access, Vec<u8>)| *access == Access::BOTH && pattern == ALL;
        let had_all = self.keys.iter().any(is_all);
        if had_all && (access, pattern) != (Access::BOTH, ALL) {
            return Err(RuleFault::AfterAll);
        }
        match self.keys.iter_mut().find(|(_, other)| other == pattern) {
            Some((before, _)) => {
                before.reads |= access.reads;
                before.writes |= access.writes;
            }
            // One pattern that has everything takes the place of all.
            None if pattern == ALL && access == Access::BOTH => self.keys = vec![(access, pattern.to_vec())],
            None => {
                check_count(self.keys.len(), "patterns of keys")?;
                self.keys.push((access, pattern.to_vec()));
            }
        }
        if self.keys.iter().any(is_all) {
            self.keys.retain(is_all);
        }
        Ok(())
    }

    /// Rules that make a new selector equal to this one.
    pub fn rules(&self) -> Vec<Vec<u8>> {
        let mut rules = Vec::new();
        for (access, pattern) in &self.keys {
            let sign: &[u8] = match access {
                Access { reads: true, writes: true } => b"~",
                Access { reads: true, writes: false } => b"%R~",
                Access { reads: false, .. } => b"%W~",
            };
            rules.push([sign, pattern].concat());
        }
        rules.extend(self.channels.iter().map(|pattern| [b"&", pattern].concat()));
        match &self.tables {
            None => {}
            Some(tables) if tables.are_all() => rules.push(b"alltables".to_vec()),
            Some(tables) => {
                rules.push(b"resettables".to_vec());
                rules.extend(tables.iter().map(|pattern| [b"table=", pattern].concat()));
            }
        }
        if self.commands.first().is_none_or(|first| first.named != Named::All) {
            rules.push(b"-@all".to_vec());
        }
        rules.extend(self.commands.iter().map(|change| change.text().into_bytes()));
        rules
    }
}

fn fits(pattern: &[u8], text: &[u8]) -> bool {
    pattern == ALL || matches(pattern, text, Case::Matters)
}

fn check_count(count: usize, what: &'static str) -> Result<(), RuleFault> {
    if count < PATTERN_COUNT_MAX { Ok(()) } else { Err(RuleFault::TooMany(what, PATTERN_COUNT_MAX)) }
}
