//! Bytes that are no rules: nothing panics, nothing grows, nothing is half applied. Z1, Z11

use crate::catalog;
use proptest::prelude::*;
use ramhold_access::Account;

/// Bytes that rules are made of, and any others.
fn word() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop_oneof![
        Just(b"(".to_vec()),
        Just(b")".to_vec()),
        Just(b"+get".to_vec()),
        Just(b"-@".to_vec()),
        Just(b"~".to_vec()),
        Just(b"%R~".to_vec()),
        Just(b"*".to_vec()),
        Just(b"table=".to_vec()),
        Just(b"secret=".to_vec()),
        Just(b"unsecret=".to_vec()),
        Just(b"on".to_vec()),
        Just(b" ".to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(pieces, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_words_are_taken_or_refused_whole(words in prop::collection::vec(word(), 0..8)) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let before = Account::new("ann").unwrap();
        let mut account = before.clone();
        match account.set_words(&words, &catalog()) {
            Ok(()) => prop_assert_eq!(Account::told("ann", &account.rules()), Ok(account)),
            Err(error) => {
                prop_assert_eq!(account, before);
                prop_assert!(error.to_string().chars().all(|letter| !letter.is_control()));
            }
        }
    }

    #[test]
    fn any_told_rules_are_taken_or_refused(rules in prop::collection::vec(word(), 0..8)) {
        if let Ok(account) = Account::told("ann", &rules) {
            prop_assert_eq!(Account::told("ann", &account.rules()), Ok(account));
        }
    }
}

#[test]
fn parentheses_do_not_nest() {
    let deep = [b"(".repeat(1_000_000), b")".repeat(1_000_000)].concat();
    assert!(Account::told("ann", std::slice::from_ref(&deep)).is_err());
    let spread = deep.chunks(1).collect::<Vec<_>>().join(&b' ');
    assert!(Account::told("ann", &[spread]).is_err());
}
