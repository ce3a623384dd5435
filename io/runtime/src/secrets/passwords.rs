//! Works with passwords, carried out: match, prepare, random bytes.
//!
//! A match looks among the remembered passwords first, and only then hashes. A match that has nothing to compare with hashes
//! all the same, so that its time does not tell whether there is an account with a password.
//!
//! The lock of the remembered passwords is held for microseconds, and never while something is hashed. The loop only tries to
//! get it.
//!
//! Not here: the thread (`secrets`), the hash itself (`hashing`). Catalogue: J4.

use super::hashing::{HashedPassword, SecretFault, Stored, random_bytes};
use super::remembered::{Proof, ProofKey, Remembered};
use ramhold_base::{Password, SecretResult, SecretWork};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Hashes that one work may take: it keeps the thread for some 20 seconds, and the works behind it wait. An account with all
/// passwords that it may have, changed at once, takes half of them.
const HASH_COUNT_MAX: usize = 1024;
/// A longer password is not looked at in the loop. It takes the loop some 10 us to look at one of this length.
const BYTES_AT_ONCE_MAX: usize = 4096;

pub(super) struct Passwords {
    key: ProofKey,
    remembered: Mutex<Remembered>,
}

impl Passwords {
    pub fn new() -> Result<Passwords, SecretFault> {
        Ok(Passwords { key: ProofKey::new()?, remembered: Mutex::new(Remembered::new()) })
    }

    /// The result of a work that takes microseconds. For the loop: it waits for nothing.
    pub fn at_once(&self, work: &SecretWork) -> Option<SecretResult> {
        let SecretWork::Match { password, stored, is_bounded } = work else { return None };
        if matches!(password, Password::Plain(bytes) if bytes.len() > BYTES_AT_ONCE_MAX) {
            return None;
        }
        let proof = HashedPassword::of(password).map(|hashed| self.key.proof(&hashed))?;
        let place = self.remembered.try_lock().ok()?.place(&proof, stored);
        match (place, is_bounded) {
            (Some(place), _) => Some(SecretResult::Matched(Some(place))),
            (None, true) => Some(SecretResult::Unknown),
            (None, false) => None,
        }
    }

    pub fn carry_out(&self, work: SecretWork) -> SecretResult {
        let result = match work {
            SecretWork::Match { password, stored, is_bounded: true } => {
                Ok(self.match_bounded(&password, &stored))
            }
            SecretWork::Match { password, stored, is_bounded: false } => self.match_any(&password, &stored),
            SecretWork::Prepare { add, find, stored } => self.prepare(&add, &find, &stored),
            SecretWork::Random { bytes } => random_bytes(bytes.into()).map(SecretResult::Random),
        };
        result.unwrap_or_else(|fault| SecretResult::Failed(fault.to_string()))
    }

    fn match_bounded(&self, password: &Password, stored: &[String]) -> SecretResult {
        let proof = HashedPassword::of(password).map(|hashed| self.key.proof(&hashed));
        match proof.and_then(|proof| self.remembered().place(&proof, stored)) {
            Some(place) => SecretResult::Matched(Some(place)),
            None => SecretResult::Unknown,
        }
    }

    fn match_any(&self, password: &Password, stored: &[String]) -> Result<SecretResult, SecretFault> {
        check_hash_count(stored.len())?;
        let Some(hashed) = HashedPassword::of(password) else { return Ok(SecretResult::Matched(None)) };
        if !stored.iter().any(|stored| Stored::read(stored).is_some()) {
            hashed.store()?;
            return Ok(SecretResult::Matched(None));
        }
        Ok(SecretResult::Matched(self.place(&hashed, stored)?))
    }

    fn prepare(
        &self,
        add: &[Password],
        find: &[Password],
        stored: &[String],
    ) -> Result<SecretResult, SecretFault> {
        check_hash_count(add.len().saturating_add(find.len()).saturating_mul(stored.len() + 1))?;
        let hashed = |passwords: &[Password]| -> Result<Vec<HashedPassword>, SecretFault> {
            passwords
                .iter()
                .map(|password| HashedPassword::of(password).ok_or(SecretFault::NoSha256))
                .collect()
        };
        let (add, find) = (hashed(add)?, hashed(find)?);
        // A password that is named several times is compared and stored once.
        let mut places = HashMap::new();
        for password in add.iter().chain(&find) {
            if !places.contains_key(password) {
                places.insert(password, self.place(password, stored)?);
            }
        }
        let mut texts = HashMap::new();
        for password in &add {
            if !texts.contains_key(password) {
                let text = match places[password] {
                    Some(place) => stored[place].clone(),
                    None => password.store()?,
                };
                texts.insert(password, text);
            }
        }
        Ok(SecretResult::Prepared {
            added: add.iter().map(|password| texts[password].clone()).collect(),
            found: find.iter().map(|password| places[password]).collect(),
        })
    }

    /// The place of a password among the stored ones. It is remembered from then on.
    fn place(&self, password: &HashedPassword, stored: &[String]) -> Result<Option<usize>, SecretFault> {
        let proof: Proof = self.key.proof(password);
        if let Some(place) = self.remembered().place(&proof, stored) {
            return Ok(Some(place));
        }
        for (place, text) in stored.iter().enumerate() {
            if let Some(read) = Stored::read(text)
                && password.is(&read)?
            {
                self.remembered().remember(proof, text);
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_hash_count(count: usize) -> Result<(), SecretFault> {
    if count > HASH_COUNT_MAX {
        return Err(SecretFault::TooManyHashes { count, max: HASH_COUNT_MAX });
    }
    Ok(())
}
