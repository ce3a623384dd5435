//! An account: a name, the secrets by which somebody becomes it, and selectors.

use crate::catalog::Catalog;
use crate::limits::{NAME_BYTES_MAX, RULE_COUNT_MAX, SECRET_BYTES_MAX, SECRET_COUNT_MAX, SELECTOR_COUNT_MAX};
use crate::rule::{Rule, RuleFault, Secret};
use crate::selector::Selector;
use crate::words::whole_rules;
use std::fmt;

/// The account of connections that have not said who they are.
pub const DEFAULT: &str = "default";

#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    name: String,
    is_on: bool,
    /// Any password does.
    needs_no_secret: bool,
    /// As they are stored. The text is never shown.
    secrets: Vec<String>,
    certificates: Vec<String>,
    /// The first one always is there; its rules stand outside of parentheses.
    selectors: Vec<Selector>,
}

/// Why an account was not changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AccountError {
    /// A name is visible characters of ASCII without parentheses, at most `NAME_BYTES_MAX`.
    Name,
    /// The rule, as it was given, but never with a password.
    Rule { rule: String, fault: RuleFault },
}

impl fmt::Display for AccountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccountError::Name => {
                write!(
                    f,
                    "a name of an account is 1 to {NAME_BYTES_MAX} visible ASCII characters without ( and )"
                )
            }
            AccountError::Rule { rule, fault } if rule.is_empty() => write!(f, "{fault}"),
            AccountError::Rule { rule, fault } => {
                write!(f, "Error in ACL SETUSER modifier '{rule}': {fault}")
            }
        }
    }
}

impl std::error::Error for AccountError {}

impl Account {
    /// An account that is off, has no secret and may do nothing.
    pub fn new(name: &str) -> Result<Account, AccountError> {
        let is_name = (1..=NAME_BYTES_MAX).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'(' && byte != b')');
        if !is_name {
            return Err(AccountError::Name);
        }
        Ok(Account::empty(name.to_owned()))
    }

    /// The account of everybody, as long as nobody changes it: on, without a password, and allowed everything.
    pub fn unrestricted() -> Account {
        let mut account = Account::empty(DEFAULT.to_owned());
        let rules = ["on", "nopass", "~*", "&*", "+@all"].map(|rule| rule.as_bytes().to_vec());
        account.set(&rules, None).expect("they name no command");
        account
    }

    /// The account that has told these rules (`rules`). Commands that this process does not know may be named: they are
    /// told again, and allow nothing here. A class that it does not know is refused, because what is left of `+@all -@new`
    /// would be too much.
    pub fn told(name: &str, rules: &[Vec<u8>]) -> Result<Account, AccountError> {
        let mut account = Account::new(name)?;
        account.set(rules, None)?;
        Ok(account)
    }

    fn empty(name: String) -> Account {
        Account {
            name,
            is_on: false,
            needs_no_secret: false,
            secrets: Vec::new(),
            certificates: Vec::new(),
            selectors: vec![Selector::default()],
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    pub fn needs_no_secret(&self) -> bool {
        self.needs_no_secret
    }

    /// To be compared with what a client gives, outside of the event loop.
    pub fn secrets(&self) -> &[String] {
        &self.secrets
    }

    pub fn certificates(&self) -> &[String] {
        &self.certificates
    }

    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// Applies the words of a change, all or none.
    pub fn set_words(&mut self, words: &[&[u8]], catalog: &Catalog) -> Result<(), AccountError> {
        let fault = |fault| AccountError::Rule { rule: String::new(), fault };
        self.set(&whole_rules(words).map_err(fault)?, Some(catalog))
    }

    /// Whether the words of a change can be applied, as far as that can be told without its passwords.
    pub fn check_words(&self, words: &[&[u8]], catalog: &Catalog) -> Result<(), AccountError> {
        let fault = |fault| AccountError::Rule { rule: String::new(), fault };
        let rules = whole_rules(words).map_err(fault)?;
        self.clone().set_with(&rules, Some(catalog), |rule| match rule {
            Rule::AddSecret(_) | Rule::RemoveSecret(_) => Rule::Ignored,
            other => other,
        })
    }

    /// Applies whole rules, all or none. They may name any commands: the door that took them knows its own, and whoever
    /// keeps accounts knows none.
    pub fn set_rules(&mut self, rules: &[Vec<u8>]) -> Result<(), AccountError> {
        self.set(rules, None)
    }

    /// Applies rules, all or none.
    fn set(&mut self, rules: &[Vec<u8>], catalog: Option<&Catalog>) -> Result<(), AccountError> {
        self.set_with(rules, catalog, |rule| rule)
    }

    /// Applies what `which` makes of the rules, all or none.
    fn set_with(
        &mut self,
        rules: &[Vec<u8>],
        catalog: Option<&Catalog>,
        which: impl Fn(Rule) -> Rule,
    ) -> Result<(), AccountError> {
        let mut changed = self.clone();
        for text in rules {
            let applied = Rule::parse(text, catalog).and_then(|rule| changed.apply(&which(rule)));
            applied.map_err(|fault| AccountError::Rule { rule: shown(text), fault })?;
        }
        let count: usize = changed.selectors.iter().map(|selector| selector.rules().len()).sum();
        if count > RULE_COUNT_MAX {
            let fault = RuleFault::TooMany("rules", RULE_COUNT_MAX);
            return Err(AccountError::Rule { rule: String::new(), fault });
        }
        *self = changed;
        Ok(())
    }

    /// Applies one rule. The account may be half changed if it fails.
    fn apply(&mut self, rule: &Rule) -> Result<(), RuleFault> {
        match rule {
            Rule::On => self.is_on = true,
            Rule::Off => self.is_on = false,
            Rule::NoPass => {
                self.needs_no_secret = true;
                self.secrets.clear();
            }
            Rule::ResetPass => {
                self.needs_no_secret = false;
                self.secrets.clear();
            }
            Rule::AddSecret(Secret::Stored(secret)) => {
                if secret.len() > SECRET_BYTES_MAX {
                    return Err(RuleFault::TooLong);
                }
                add(&mut self.secrets, secret, "passwords")?;
                self.needs_no_secret = false;
            }
            Rule::RemoveSecret(Secret::Stored(secret)) => {
                let place = self.secrets.iter().position(|other| other == secret);
                self.secrets.remove(place.ok_or(RuleFault::NoSuchSecret)?);
            }
            Rule::AddSecret(_) | Rule::RemoveSecret(_) => return Err(RuleFault::NotHashed),
            Rule::Certificate(name) => add(&mut self.certificates, name, "names of certificates")?,
            Rule::ResetCertificates => self.certificates.clear(),
            Rule::Selector(rules) => {
                if self.selectors.len() == SELECTOR_COUNT_MAX {
                    return Err(RuleFault::TooMany("selectors", SELECTOR_COUNT_MAX));
                }
                let mut selector = Selector::default();
                rules.iter().try_for_each(|rule| selector.apply(rule))?;
                self.selectors.push(selector);
            }
            Rule::ClearSelectors => self.selectors.truncate(1),
            Rule::Reset => *self = Account::empty(std::mem::take(&mut self.name)),
            Rule::Ignored => {}
            Rule::Commands(_)
            | Rule::Keys(..)
            | Rule::ResetKeys
            | Rule::Channels(_)
            | Rule::ResetChannels
            | Rule::Tables(_)
            | Rule::ResetTables => return self.selectors[0].apply(rule),
        }
        Ok(())
    }

    /// Rules that make a new account equal to this one. They hold its stored secrets.
    pub fn rules(&self) -> Vec<Vec<u8>> {
        let (secrets, rest) = (self.secrets.iter(), self.shown_rules());
        let secrets = secrets.map(|secret| format!("secret={secret}").into_bytes());
        rest.into_iter().chain(secrets).collect()
    }

    /// The same without secrets. A pattern may have bytes that a terminal obeys.
    pub fn shown_rules(&self) -> Vec<Vec<u8>> {
        let mut rules = vec![if self.is_on { b"on".to_vec() } else { b"off".to_vec() }];
        if self.needs_no_secret {
            rules.push(b"nopass".to_vec());
        }
        rules.extend(self.certificates.iter().map(|name| format!("cert={name}").into_bytes()));
        let (first, further) = self.selectors.split_first().expect("the first one is always there");
        rules.extend(first.rules());
        rules.extend(further.iter().map(|selector| {
            let inner = selector.rules().join(&b' ');
            [&b"("[..], &inner, b")"].concat()
        }));
        rules
    }
}

/// Secrets are not shown.
impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.shown_rules().join(&b' ');
        write!(f, "{} {}, {} secrets", self.name, rules.escape_ascii(), self.secrets.len())
    }
}

fn add(list: &mut Vec<String>, text: &str, what: &'static str) -> Result<(), RuleFault> {
    if list.iter().any(|other| other == text) {
        return Ok(());
    }
    if list.len() == SECRET_COUNT_MAX {
        return Err(RuleFault::TooMany(what, SECRET_COUNT_MAX));
    }
    list.push(text.to_owned());
    Ok(())
}

/// A rule for a message: no secret, and nothing that a terminal obeys.
fn shown(rule: &[u8]) -> String {
    // A selector with a secret in it is wrong, and its error tells the rule.
    let is_secret = |word: &[u8]| {
        let word = word.trim_ascii_start();
        let lower = word.to_ascii_lowercase();
        word.first().is_some_and(|first| b"><#!".contains(first))
            || lower.starts_with(b"secret=")
            || lower.starts_with(b"unsecret=")
    };
    let has_secret = rule.split(|byte| b" ()".contains(byte)).any(is_secret) || is_secret(rule);
    if has_secret {
        return "(not shown: it may have a password)".to_owned();
    }
    rule.escape_ascii().to_string().chars().take(100).collect()
}
