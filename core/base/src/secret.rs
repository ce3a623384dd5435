//! Work with passwords, as a machine asks its executor for it.
//!
//! Invariant: no debug text has a password, stored or not.
//!
//! Not here: hashing (`io/runtime`), who may try how often (`access`). Catalogue: J4.

use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SecretToken(pub u64);

/// A password as somebody gives it.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    Plain(Vec<u8>),
    /// The SHA-256 of a password, in 64 hexadecimal digits of lower case. Only a change of an account gives it.
    Sha256(String),
}

/// Passwords are not shown.
impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Password::Plain(_) => "Plain(..)",
            Password::Sha256(_) => "Sha256(..)",
        })
    }
}

/// Work with passwords. It takes long on purpose, so the executor does it outside of the event loop, and one after the other.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretWork {
    /// Which of the stored passwords this one is. `is_bounded`: only if that can be told at once, because the password was
    /// found right not long ago.
    Match { password: Password, stored: Vec<String>, is_bounded: bool },
    /// Stores passwords, and finds others among those that are stored already.
    Prepare { add: Vec<Password>, find: Vec<Password>, stored: Vec<String> },
    /// This number of random bytes that nobody can guess.
    Random { bytes: u16 },
}

/// Passwords are not shown.
impl fmt::Debug for SecretWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SecretWork::Match { .. } => "Match(..)",
            SecretWork::Prepare { .. } => "Prepare(..)",
            SecretWork::Random { .. } => "Random(..)",
        })
    }
}

#[derive(Clone, PartialEq, Eq)]
pub enum SecretResult {
    /// The place of the password among the stored ones.
    Matched(Option<usize>),
    /// The work was bounded, and nothing is known of the password.
    Unknown,
    /// Each new password as it is to be stored: one that is stored already as it is there. And the places of those that were
    /// to be found.
    Prepared {
        added: Vec<String>,
        found: Vec<Option<usize>>,
    },
    Random(Vec<u8>),
    /// The work cannot be done; the text says why.
    Failed(String),
}

/// Passwords are not shown.
impl fmt::Debug for SecretResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretResult::Matched(place) => write!(f, "Matched({place:?})"),
            SecretResult::Unknown => f.write_str("Unknown"),
            SecretResult::Prepared { .. } => f.write_str("Prepared(..)"),
            SecretResult::Random(_) => f.write_str("Random(..)"),
            SecretResult::Failed(why) => write!(f, "Failed({why:?})"),
        }
    }
}
