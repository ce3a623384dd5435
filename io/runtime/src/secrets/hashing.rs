//! Passwords as they are stored: made, read and compared.
//!
//! A stored password is a PHC string of argon2id, version 19. The string has no spaces and at most `STORED_BYTES_MAX` bytes:
//!
//! ```text
//! $argon2id$v=19$m=19456,t=2,p=1$<16 bytes of salt>$<32 bytes of hash>        (both in base64 without padding)
//! ```
//!
//! The hashed bytes are the SHA-256 of the password, in hexadecimal digits of lower case. So whoever has only the SHA-256 can
//! store the same password (`#...` in the rules of an account, as in Redis). The parameters are those that OWASP recommends.
//! Comparing takes the parameters from the string, so those of new passwords may be raised at any time.
//!
//! Invariants:
//! - a text from outside never makes a comparison take more than `MEMORY_KIB_MAX` and `PASS_COUNT_MAX` passes;
//! - a stored string is readable to `Stored::read`.
//!
//! Not here: threads and their queue (`secrets`). Catalogue: J4.

use argon2::password_hash::phc::{Output, ParamsString, PasswordHash, Salt};
use argon2::{ARGON2ID_IDENT, Algorithm, Argon2, Params, Version};
use ramhold_base::Password;
use sha2::{Digest, Sha256};
use std::fmt;

/// Bytes of a stored password; the same as of a secret in `core/access`.
const STORED_BYTES_MAX: usize = 256;
/// The parameters of new stored passwords: KiB of memory, passes over the memory, lanes.
const MEMORY_KIB: u32 = 19_456;
const PASS_COUNT: u32 = 2;
const LANE_COUNT: u32 = 1;
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
/// The most that comparing with a stored password may take: some 70 times as long as with a new one.
const MEMORY_KIB_MAX: u32 = 256 * 1024;
const PASS_COUNT_MAX: u32 = 10;

const SHA256_DIGITS: usize = 64;

/// Why a work with passwords cannot be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecretFault {
    /// The operating system gives no random bytes.
    NoRandomness(getrandom::Error),
    NoMemory,
    /// A `Password::Sha256` is not 64 hexadecimal digits of lower case.
    NoSha256,
    /// The work would take this number of hashes, more than one work may.
    TooManyHashes {
        count: usize,
        max: usize,
    },
    /// argon2 refuses what it was given, which its documentation does not announce.
    Hash(argon2::Error),
}

impl fmt::Display for SecretFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretFault::NoRandomness(error) => {
                write!(f, "the operating system gives no random bytes: {error}")
            }
            SecretFault::NoMemory => {
                f.write_str("no memory to hash a password with; free memory of this host")
            }
            SecretFault::NoSha256 => f.write_str(
                "a SHA-256 of a password is 64 hexadecimal digits of lower case, and this is none",
            ),
            SecretFault::TooManyHashes { count, max } => {
                write!(
                    f,
                    "{count} hashes of passwords at once are too many; give at most {max} in one change"
                )
            }
            SecretFault::Hash(error) => write!(f, "a password cannot be hashed: {error}"),
        }
    }
}

impl std::error::Error for SecretFault {}

/// Bytes from the operating system that nobody can guess.
pub fn random_bytes(count: usize) -> Result<Vec<u8>, SecretFault> {
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes).map_err(SecretFault::NoRandomness)?;
    Ok(bytes)
}

/// Hashes a password with a new salt, and gives the string to be stored. It takes tens of milliseconds.
pub fn store_password(password: &Password) -> Result<String, SecretFault> {
    HashedPassword::of(password).ok_or(SecretFault::NoSha256)?.store()
}

/// Whether the password is the stored one. It takes as long as the stored string's parameters say. A string that
/// cannot be read, or would take too much, is no password's.
pub fn is_password(password: &Password, stored: &str) -> Result<bool, SecretFault> {
    match (HashedPassword::of(password), Stored::read(stored)) {
        (Some(hashed), Some(stored)) => hashed.is(&stored),
        (None, _) | (_, None) => Ok(false),
    }
}

/// Whether a text is a stored password that some password can match.
pub fn is_stored_password(text: &str) -> bool {
    Stored::read(text).is_some()
}

/// The SHA-256 of a password, in hexadecimal digits of lower case.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct HashedPassword([u8; SHA256_DIGITS]);

impl HashedPassword {
    /// `None`: it is said to be a SHA-256, and has not the digits of one.
    pub fn of(password: &Password) -> Option<HashedPassword> {
        match password {
            Password::Plain(password) => {
                let mut digits = [0; SHA256_DIGITS];
                for (pair, byte) in digits.chunks_exact_mut(2).zip(Sha256::digest(password)) {
                    pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
                }
                Some(HashedPassword(digits))
            }
            Password::Sha256(text) => {
                let digits: [u8; SHA256_DIGITS] = text.as_bytes().try_into().ok()?;
                let are_digits = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
                are_digits.then_some(HashedPassword(digits))
            }
        }
    }

    pub fn digits(&self) -> &[u8; SHA256_DIGITS] {
        &self.0
    }

    pub fn store(&self) -> Result<String, SecretFault> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(SecretFault::NoRandomness)?;
        let params =
            Params::new(MEMORY_KIB, PASS_COUNT, LANE_COUNT, Some(HASH_BYTES)).map_err(SecretFault::Hash)?;
        let hash = self.hash(&params, &salt, HASH_BYTES)?;
        let stored = PasswordHash {
            algorithm: ARGON2ID_IDENT,
            version: Some(Version::V0x13.into()),
            params: (&params).try_into().expect("three numbers are short"),
            salt: Some(Salt::new(&salt).expect("16 bytes are a salt")),
            hash: Some(hash),
        };
        let stored = stored.to_string();
        assert!(is_stored_password(&stored), "a stored password is readable");
        Ok(stored)
    }

    /// Whether this password is the stored one. The hashes are compared in constant time.
    pub fn is(&self, stored: &Stored) -> Result<bool, SecretFault> {
        Ok(self.hash(&stored.params, &stored.salt, stored.hash.len())? == stored.hash)
    }

    fn hash(&self, params: &Params, salt: &[u8], bytes: usize) -> Result<Output, SecretFault> {
        let mut hash = [0; Output::MAX_LENGTH];
        let hash = &mut hash[..bytes];
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone())
            .hash_password_into(&self.0, salt, hash)
            .map_err(|error| match error {
                argon2::Error::OutOfMemory => SecretFault::NoMemory,
                other => SecretFault::Hash(other),
            })?;
        Ok(Output::new(hash).expect("both lengths were lengths of an output before"))
    }
}

fn digit(value: u8) -> u8 {
    b"0123456789abcdef"[usize::from(value)]
}

/// A stored password that was read.
pub(super) struct Stored {
    params: Params,
    salt: Salt,
    hash: Output,
}

impl Stored {
    /// `None`: nobody can have stored this here, or comparing would take too much.
    pub fn read(text: &str) -> Option<Stored> {
        let is_plain = text.len() <= STORED_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
        let read = PasswordHash::new(text).ok().filter(|_| is_plain)?;
        let params = Params::try_from(&read).ok()?;
        // All parameters are there, once each and in this order, so that a glance at the text tells what it takes.
        let is_canonical = ParamsString::try_from(&params).is_ok_and(|written| written == read.params);
        let is_known = read.algorithm == ARGON2ID_IDENT && read.version == Some(Version::V0x13.into());
        let is_cheap = params.m_cost() <= MEMORY_KIB_MAX && params.t_cost() <= PASS_COUNT_MAX;
        if !is_canonical || !is_known || !is_cheap {
            return None;
        }
        Some(Stored { params, salt: read.salt?, hash: read.hash? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The SHA-256 of "abc": FIPS 180-2, appendix B.1.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    /// For the digits of `ABC`, made by the reference implementation: `argon2 saltsaltsaltsalt -id -t 1 -k 8 -p 1 -l 16 -e`.
    const CHEAP: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$L55AMebN3eMD9d8BiSm09g";

    fn plain(text: &str) -> Password {
        Password::Plain(text.into())
    }

    // J4
    #[test]
    fn a_stored_password_is_a_phc_string_with_a_salt_of_its_own() {
        let stored = store_password(&plain("abc")).unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert_eq!(stored.len(), 97);
        assert_ne!(stored, store_password(&plain("abc")).unwrap());
    }

    // J4
    #[test]
    fn a_password_and_its_sha256_are_the_same() {
        let sha256 = Password::Sha256(ABC.into());
        let stored = store_password(&plain("abc")).unwrap();
        assert_eq!(is_password(&plain("abc"), &stored), Ok(true));
        assert_eq!(is_password(&sha256, &stored), Ok(true));
        assert_eq!(is_password(&plain(ABC), &stored), Ok(false), "the digits are not the password");
        assert_eq!(is_password(&plain("abd"), &stored), Ok(false));
        assert_eq!(is_password(&plain("abc"), &store_password(&sha256).unwrap()), Ok(true));
    }

    #[test]
    fn digits_that_are_no_sha256_are_refused() {
        for text in ["", "abc", &ABC.to_uppercase(), &ABC[1..], &format!("{ABC}0"), &ABC.replace('a', "g")] {
            let password = Password::Sha256(text.into());
            assert_eq!(store_password(&password), Err(SecretFault::NoSha256), "{text}");
            assert_eq!(is_password(&password, CHEAP), Ok(false));
        }
    }

    // J4
    #[test]
    fn hashes_of_other_programs_are_understood() {
        assert!(is_stored_password(CHEAP));
        assert_eq!(is_password(&plain("abc"), CHEAP), Ok(true));
        assert_eq!(is_password(&plain("abd"), CHEAP), Ok(false));
    }

    // J4, Z2
    #[test]
    fn texts_that_cannot_be_read_or_would_take_much_are_no_passwords() {
        let long = format!("{CHEAP}{}", "A".repeat(STORED_BYTES_MAX));
        let texts = [
            "",
            "$",
            "abc",
            ABC,
            &CHEAP[..CHEAP.len() - 1],
            &format!("{CHEAP} "),
            &format!(" {CHEAP}"),
            &long,
            &CHEAP.replace("argon2id", "argon2i"),
            &CHEAP.replace("argon2id", "scrypt"),
            &CHEAP.replace("v=19", "v=16"),
            &CHEAP.replace("v=19$", ""),
            &CHEAP.replace("m=8", "m=7"),
            &CHEAP.replace("m=8", "m=262145"),
            &CHEAP.replace("m=8", "m=4294967295"),
            &CHEAP.replace("m=8", "m=4294967296"),
            &CHEAP.replace("t=1", "t=0"),
            &CHEAP.replace("t=1", "t=11"),
            &CHEAP.replace("p=1", "p=0"),
            &CHEAP.replace("p=1", "p=2"),
            &CHEAP.replace("p=1", "p=16777215"),
            &CHEAP.replace("p=1", "p=1,x=1"),
            &CHEAP.replace("t=1", "t=1,t=1"),
            &CHEAP.replace("m=8,t=1", "t=1,m=8"),
            &CHEAP.replace("m=8,t=1,p=1$", ""),
        ];
        for text in texts {
            assert!(!is_stored_password(text), "{text}");
            assert_eq!(is_password(&plain("abc"), text), Ok(false));
        }
        let dearest = CHEAP.replace("m=8,t=1", "m=262144,t=10");
        assert!(is_stored_password(&dearest), "it is the most that is allowed");
    }

    // J4
    #[test]
    fn random_bytes_are_as_many_as_asked_for_and_differ() {
        assert!(random_bytes(0).unwrap().is_empty());
        let (one, other) = (random_bytes(32).unwrap(), random_bytes(32).unwrap());
        assert_eq!((one.len(), other.len()), (32, 32));
        assert_ne!(one, other);
    }
}
