//! Passwords that were found right not long ago, so that a client that logs in again and again costs microseconds.
//!
//! Each is kept under its stored string as a *proof*: the SHA-256 of a key and of the password's own SHA-256. The key is
//! random, and never leaves the process. So proofs cannot be computed outside of it.
//!
//! Invariants:
//! - only passwords that matched are here, at most `COUNT_MAX` of them; the oldest goes first;
//! - the memory holds no password, and none can be tried against it without the key.

use super::hashing::{HashedPassword, SecretFault, random_bytes};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Stored passwords that are remembered: about a megabyte.
const COUNT_MAX: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Proof([u8; 32]);

pub(super) struct Remembered {
    /// By stored string.
    proofs: HashMap<Arc<str>, Proof>,
    /// The oldest first.
    order: VecDeque<Arc<str>>,
}

/// The key of all proofs of this process.
pub(super) struct ProofKey(Vec<u8>);

impl ProofKey {
    pub fn new() -> Result<ProofKey, SecretFault> {
        Ok(ProofKey(random_bytes(32)?))
    }

    pub fn proof(&self, password: &HashedPassword) -> Proof {
        let mut hash = Sha256::new();
        hash.update(&self.0);
        hash.update(password.digits());
        Proof(hash.finalize().into())
    }
}

impl Remembered {
    pub fn new() -> Remembered {
        Remembered { proofs: HashMap::new(), order: VecDeque::new() }
    }

    /// The place of the first stored string that is known to be this password's.
    pub fn place(&self, proof: &Proof, stored: &[String]) -> Option<usize> {
        // The time of this comparison tells something about proofs at most. Nobody can aim at one without the key.
        stored.iter().position(|stored| self.proofs.get(stored.as_str()) == Some(proof))
    }

    pub fn remember(&mut self, proof: Proof, stored: &str) {
        let stored: Arc<str> = stored.into();
        if self.proofs.insert(Arc::clone(&stored), proof).is_some() {
            return;
        }
        self.order.push_back(stored);
        if self.order.len() > COUNT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.proofs.remove(&oldest);
        }
        assert_eq!(self.proofs.len(), self.order.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::Password;

    fn proof(key: &ProofKey, text: &str) -> Proof {
        key.proof(&HashedPassword::of(&Password::Plain(text.into())).unwrap())
    }

    // J4
    #[test]
    fn the_oldest_goes_first() {
        let key = ProofKey::new().unwrap();
        let right = proof(&key, "right");
        let mut remembered = Remembered::new();
        let stored: Vec<String> = (0..COUNT_MAX + 2).map(|number| format!("stored {number}")).collect();
        for stored in &stored {
            remembered.remember(right, stored);
            remembered.remember(right, stored);
        }
        assert_eq!(remembered.place(&right, &stored), Some(2), "the first two are gone");
        assert_eq!(remembered.proofs.len(), COUNT_MAX);
        assert_eq!(remembered.place(&proof(&key, "wrong"), &stored), None);
    }

    // J4
    #[test]
    fn another_process_has_other_proofs() {
        let [one, other] = [(); 2].map(|()| proof(&ProofKey::new().unwrap(), "right"));
        assert!(one != other);
    }
}
