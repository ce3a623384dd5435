//! Works with passwords in a simulated process.
//!
//! The hash is a stand-in: it has 64 bits and takes no time, so it protects nothing. The promises of `ramhold_base::secret` are
//! kept as in a real process: a password and its SHA-256 are the same, each stored password has a salt of its own, and a
//! password that was right is remembered until its process dies. A stored password looks like `sim$<salt>$<hash>`, with the
//! hash in 16 hexadecimal digits.
//!
//! Not here: how long a work takes (world), real hashes (`io/runtime/src/secrets`).

use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_base::{Password, Rng, SecretResult, SecretWork};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The part of a process that does works with passwords.
#[derive(Default)]
pub struct Secrets {
    /// Stored passwords that were matched in this life.
    remembered: BTreeSet<String>,
}

impl Secrets {
    /// The result of a match that takes no hash.
    pub fn at_once(&self, work: &SecretWork) -> Option<SecretResult> {
        let SecretWork::Match { password, stored, is_bounded } = work else { return None };
        let digits = sha256(password)?;
        let is_known = |text: &String| self.remembered.contains(text) && is_stored_as(&digits, text);
        match (stored.iter().position(is_known), is_bounded) {
            (Some(place), _) => Some(SecretResult::Matched(Some(place))),
            (None, true) => Some(SecretResult::Unknown),
            (None, false) => None,
        }
    }

    pub fn carry_out(&mut self, work: SecretWork, rng: &mut Rng) -> SecretResult {
        if let Some(result) = self.at_once(&work) {
            return result;
        }
        match work {
            SecretWork::Match { is_bounded: true, .. } => SecretResult::Unknown,
            SecretWork::Match { password, stored, is_bounded: false } => {
                SecretResult::Matched(sha256(&password).and_then(|digits| self.place(&digits, &stored)))
            }
            SecretWork::Prepare { add, find, stored } => self
                .prepare(&add, &find, &stored, rng)
                .unwrap_or_else(|| SecretResult::Failed("a SHA-256 has other digits".into())),
            SecretWork::Random { bytes } => {
                SecretResult::Random((0..bytes).map(|_| rng.u64() as u8).collect())
            }
        }
    }

    fn prepare(
        &mut self,
        add: &[Password],
        find: &[Password],
        stored: &[String],
        rng: &mut Rng,
    ) -> Option<SecretResult> {
        let add: Vec<String> = add.iter().map(sha256).collect::<Option<_>>()?;
        let find: Vec<String> = find.iter().map(sha256).collect::<Option<_>>()?;
        let mut texts: BTreeMap<&String, String> = BTreeMap::new();
        for digits in &add {
            if !texts.contains_key(digits) {
                let there = self.place(digits, stored).map(|place| stored[place].clone());
                texts.insert(digits, there.unwrap_or_else(|| stored_as(rng.u64(), digits)));
            }
        }
        Some(SecretResult::Prepared {
            added: add.iter().map(|digits| texts[digits].clone()).collect(),
            found: find.iter().map(|digits| self.place(digits, stored)).collect(),
        })
    }

    /// The place of a password among the stored ones. It is remembered from then on.
    fn place(&mut self, digits: &str, stored: &[String]) -> Option<usize> {
        let place = stored.iter().position(|text| is_stored_as(digits, text))?;
        self.remembered.insert(stored[place].clone());
        Some(place)
    }
}

/// The SHA-256 of a password in hexadecimal digits of lower case. `None`: it is said to be one and is none.
fn sha256(password: &Password) -> Option<String> {
    match password {
        Password::Plain(bytes) => {
            let mut digits = String::new();
            for byte in Sha256::digest(bytes) {
                write!(digits, "{byte:02x}").expect("a string takes everything");
            }
            Some(digits)
        }
        Password::Sha256(text) => {
            let are_digits = text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
            (text.len() == 64 && are_digits).then(|| text.clone())
        }
    }
}

fn stored_as(salt: u64, digits: &str) -> String {
    let hash = PlacementHasher::new(PlacementSeed(salt)).hash(digits.as_bytes());
    format!("sim${salt}${:016x}", hash.0)
}

fn is_stored_as(digits: &str, text: &str) -> bool {
    let salt = text.strip_prefix("sim$").and_then(|rest| rest.split_once('$')?.0.parse().ok());
    salt.is_some_and(|salt| stored_as(salt, digits) == text)
}
