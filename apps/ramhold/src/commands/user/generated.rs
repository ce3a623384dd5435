//! New passwords that nobody can guess.

use std::fs::File;
use std::io::{self, Read};

/// The kernel's random bytes.
pub const SOURCE: &str = "/dev/urandom";
/// Letters and digits that are not taken for each other: no 0, O, 1, I, l. As many as 5 bits can name.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Each letter has 5 random bits: 130 in all.
const LENGTH: usize = 26;

/// A new password.
pub fn password() -> io::Result<String> {
    let mut bytes = [0; LENGTH];
    File::open(SOURCE)?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    // J4
    #[test]
    fn passwords_differ_and_have_letters_that_are_not_taken_for_each_other() {
        assert_eq!(LETTERS.iter().collect::<BTreeSet<_>>().len(), 32);
        let all: BTreeSet<String> = (0..100).map(|_| password().expect("there are random bytes")).collect();
        assert_eq!(all.len(), 100);
        assert!(all.iter().all(|one| one.len() == LENGTH && one.bytes().all(|byte| LETTERS.contains(&byte))));
        let seen: BTreeSet<u8> = all.iter().flat_map(|one| one.bytes()).collect();
        assert_eq!(seen.len(), 32, "every letter is used");
    }
}
