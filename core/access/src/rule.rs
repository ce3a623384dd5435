//! One rule: what it means, read from its text and written back.
//!
//! | rule | meaning |
//! |---|---|
//! | `on`, `off` | whether anybody can become this account |
//! | `>password`, `<password` | a further password; one password less |
//! | `#sha256`, `!sha256` | the same by the password's SHA-256 in hexadecimal digits |
//! | `secret=text` | a password as it is stored, for accounts that are told |
//! | `unsecret=text` | one stored password less: a change without a plain password removes one with it |
//! | `nopass`, `resetpass` | any password does; no password does |
//! | `cert=name`, `resetcerts` | a client certificate with this name logs in; none does |
//! | `+get`, `-client\|kill`, `+@read`, `-@all` | commands and classes, in the order in which they were given |
//! | `~pattern`, `%R~pattern`, `%W~pattern`, `allkeys`, `resetkeys` | keys, for reads and writes or for one of them |
//! | `&pattern`, `allchannels`, `resetchannels` | channels of publish and subscribe |
//! | `table=pattern`, `alltables`, `resettables` | tables; Redis's databases are tables, too. An account that says nothing about them has all, as in Valkey, and a further selector has those of the account |
//! | `(rules)`, `clearselectors` | a further selector; no further ones |
//! | `reset` | a new account |
//!
//! Not here: the effect of a rule (`account`, `selector`).

use crate::catalog::Catalog;
use crate::classes::Class;
use crate::limits::{RULE_BYTES_MAX, RULE_COUNT_MAX};
use std::fmt;

/// Bytes of a command's name that are looked at. No command has a longer one.
const NAMED_BYTES_MAX: usize = 100;

/// The use of a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Access {
    pub reads: bool,
    pub writes: bool,
}

impl Access {
    pub const READ: Access = Access { reads: true, writes: false };
    pub const WRITE: Access = Access { reads: false, writes: true };
    pub const BOTH: Access = Access { reads: true, writes: true };

    /// Whether this access is enough for the other one.
    pub fn covers(self, other: Access) -> bool {
        (self.reads || !other.reads) && (self.writes || !other.writes)
    }
}

/// The commands that a change is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    All,
    Class(Class),
    /// A command, or a container with all its subcommands; in lower case.
    Command(String),
}

/// Commands that are allowed from now on, or no longer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    pub allows: bool,
    pub named: Named,
}

impl Change {
    /// The change as a rule.
    pub fn text(&self) -> String {
        let sign = if self.allows { '+' } else { '-' };
        match &self.named {
            Named::All => format!("{sign}@all"),
            Named::Class(class) => format!("{sign}{class}"),
            Named::Command(name) => format!("{sign}{name}"),
        }
    }
}

/// A password, as a rule gives it.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    Password(Vec<u8>),
    /// The SHA-256 of a password, in 64 hexadecimal digits of lower case.
    Sha256(String),
    /// As accounts keep it.
    Stored(String),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Secret::Password(_) => "Password(..)",
            Secret::Sha256(_) => "Sha256(..)",
            Secret::Stored(_) => "Stored(..)",
        })
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rule {
    On,
    Off,
    AddSecret(Secret),
    RemoveSecret(Secret),
    NoPass,
    ResetPass,
    Certificate(String),
    ResetCertificates,
    Commands(Change),
    Keys(Access, Vec<u8>),
    ResetKeys,
    Channels(Vec<u8>),
    ResetChannels,
    Tables(Vec<u8>),
    ResetTables,
    Selector(Vec<Rule>),
    ClearSelectors,
    Reset,
    /// Redis has it, and it changes nothing here.
    Ignored,
}

/// Why a rule is none, or cannot be applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleFault {
    Syntax,
    TooLong,
    UnknownCommand(String),
    UnknownClass(String),
    /// A pattern behind one that takes everything already.
    AfterAll,
    NotInSelector,
    UnclosedSelector,
    NoSha256,
    /// A password that must be hashed before the account takes it.
    NotHashed,
    NoSuchSecret,
    TooMany(&'static str, usize),
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleFault::Syntax => f.write_str("Syntax error"),
            RuleFault::TooLong => write!(f, "A rule has at most {RULE_BYTES_MAX} bytes"),
            RuleFault::UnknownCommand(name) => write!(f, "Unknown command '{name}'"),
            RuleFault::UnknownClass(name) => write!(f, "Unknown category '@{name}'"),
            RuleFault::AfterAll => f.write_str(
                "Adding a pattern after one that matches everything has no effect. Try 'resetkeys' or 'resetchannels' to \
                 start with an empty list of patterns",
            ),
            RuleFault::NotInSelector => f.write_str("This rule is about the account, and cannot stand in a selector"),
            RuleFault::UnclosedSelector => f.write_str("Unmatched parenthesis in acl selector"),
            RuleFault::NoSha256 => {
                f.write_str("A password hash is the SHA-256 of the password, in 64 hexadecimal digits")
            }
            RuleFault::NotHashed => f.write_str("The password is not hashed yet"),
            RuleFault::NoSuchSecret => f.write_str("The account has no such password"),
            RuleFault::TooMany(what, max) => write!(f, "An account has at most {max} {what}"),
        }
    }
}

impl Rule {
    /// Reads a rule. `catalog` knows the commands that a rule can name. None: the rule was taken before, perhaps by a process
    /// that knows more commands, and any name will do.
    pub fn parse(text: &[u8], catalog: Option<&Catalog>) -> Result<Rule, RuleFault> {
        if let Some(inner) = text.strip_prefix(b"(") {
            let inner = inner.strip_suffix(b")").ok_or(RuleFault::UnclosedSelector)?;
            let words = || inner.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
            if words().count() > RULE_COUNT_MAX {
                return Err(RuleFault::TooMany("rules", RULE_COUNT_MAX));
            }
            return Ok(Rule::Selector(
                words().map(|word| in_selector(word, catalog)).collect::<Result<_, _>>()?,
            ));
        }
        if text.len() > RULE_BYTES_MAX {
            return Err(RuleFault::TooLong);
        }
        if let Some(rule) = word(text) {
            return Ok(rule);
        }
        match text {
            [b'>', password @ ..] => Ok(Rule::AddSecret(Secret::Password(password.to_vec()))),
            [b'<', password @ ..] => Ok(Rule::RemoveSecret(Secret::Password(password.to_vec()))),
            [b'#', hash @ ..] => Ok(Rule::AddSecret(Secret::Sha256(sha256(hash)?))),
            [b'!', hash @ ..] => Ok(Rule::RemoveSecret(Secret::Sha256(sha256(hash)?))),
            [sign @ (b'+' | b'-'), named @ ..] => {
                Ok(Rule::Commands(Change { allows: *sign == b'+', named: parse_named(named, catalog)? }))
            }
            [b'~', pattern @ ..] => Ok(Rule::Keys(Access::BOTH, parse_pattern(pattern)?)),
            [b'%', rest @ ..] => {
                let (letters, pattern) = split_once(rest, b'~').ok_or(RuleFault::Syntax)?;
                let has = |letter: u8| letters.iter().any(|other| other.eq_ignore_ascii_case(&letter));
                let access = Access { reads: has(b'R'), writes: has(b'W') };
                let are_letters = letters.iter().all(|letter| b"RWrw".contains(letter));
                if !are_letters || letters.is_empty() {
                    return Err(RuleFault::Syntax);
                }
                Ok(Rule::Keys(access, parse_pattern(pattern)?))
            }
            [b'&', pattern @ ..] => Ok(Rule::Channels(parse_pattern(pattern)?)),
            _ => {
                let (name, value) = split_once(text, b'=').ok_or(RuleFault::Syntax)?;
                match name.to_ascii_lowercase().as_slice() {
                    b"table" => Ok(Rule::Tables(parse_pattern(value)?)),
                    b"cert" => Ok(Rule::Certificate(printable(value)?)),
                    b"secret" => Ok(Rule::AddSecret(Secret::Stored(printable(value)?))),
                    b"unsecret" => Ok(Rule::RemoveSecret(Secret::Stored(printable(value)?))),
                    _ => Err(RuleFault::Syntax),
                }
            }
        }
    }
}

/// A rule that is one word.
fn word(text: &[u8]) -> Option<Rule> {
    let all = |allows| Rule::Commands(Change { allows, named: Named::All });
    Some(match text.to_ascii_lowercase().as_slice() {
        b"on" => Rule::On,
        b"off" => Rule::Off,
        b"nopass" => Rule::NoPass,
        b"resetpass" => Rule::ResetPass,
        b"resetcerts" => Rule::ResetCertificates,
        b"allcommands" => all(true),
        b"nocommands" => all(false),
        b"allkeys" => Rule::Keys(Access::BOTH, b"*".to_vec()),
        b"resetkeys" => Rule::ResetKeys,
        b"allchannels" => Rule::Channels(b"*".to_vec()),
        b"resetchannels" => Rule::ResetChannels,
        b"alltables" => Rule::Tables(b"*".to_vec()),
        b"resettables" => Rule::ResetTables,
        b"clearselectors" => Rule::ClearSelectors,
        b"reset" => Rule::Reset,
        b"sanitize-payload" | b"skip-sanitize-payload" => Rule::Ignored,
        _ => return None,
    })
}

/// A rule within a selector. Whether it may stand there is found when it is applied (`Selector::apply`).
fn in_selector(text: &[u8], catalog: Option<&Catalog>) -> Result<Rule, RuleFault> {
    // Selectors do not nest, and a hostile text must not make this function call itself.
    if text.starts_with(b"(") {
        return Err(RuleFault::NotInSelector);
    }
    Rule::parse(text, catalog)
}

fn parse_named(text: &[u8], catalog: Option<&Catalog>) -> Result<Named, RuleFault> {
    // Nothing that a terminal obeys gets into an error.
    let name = text[..text.len().min(NAMED_BYTES_MAX)].escape_ascii().to_string().to_ascii_lowercase();
    match name.strip_prefix('@') {
        Some("all") => Ok(Named::All),
        Some(class) => {
            Class::of(class).map(Named::Class).ok_or_else(|| RuleFault::UnknownClass(class.to_owned()))
        }
        None => {
            let is_name = !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"|._-".contains(&byte));
            let is_known = catalog.is_none_or(|catalog| catalog.find(&name).is_some());
            if is_name && is_known { Ok(Named::Command(name)) } else { Err(RuleFault::UnknownCommand(name)) }
        }
    }
}

/// Rules are told as words with spaces between them, so a pattern has none.
fn parse_pattern(pattern: &[u8]) -> Result<Vec<u8>, RuleFault> {
    let is_plain = pattern.iter().all(|byte| *byte != 0 && !byte.is_ascii_whitespace());
    if is_plain && !pattern.is_empty() { Ok(pattern.to_vec()) } else { Err(RuleFault::Syntax) }
}

fn printable(text: &[u8]) -> Result<String, RuleFault> {
    let is_plain = !text.is_empty() && text.iter().all(u8::is_ascii_graphic);
    if !is_plain {
        return Err(RuleFault::Syntax);
    }
    Ok(String::from_utf8_lossy(text).into_owned())
}

fn sha256(text: &[u8]) -> Result<String, RuleFault> {
    let is_hash = text.len() == 64 && text.iter().all(u8::is_ascii_hexdigit);
    if !is_hash {
        return Err(RuleFault::NoSha256);
    }
    Ok(String::from_utf8_lossy(text).to_ascii_lowercase())
}

fn split_once(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = text.iter().position(|byte| *byte == at)?;
    Some((&text[..place], &text[place + 1..]))
}
