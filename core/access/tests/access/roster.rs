//! The accounts that a process was told (J4).

use ramhold_access::{Catalog, Class, Classes, Entry, Roster};
use std::sync::Arc;

fn catalog() -> Catalog {
    let entry = |name: &str| Entry {
        name: name.to_owned(),
        classes: Classes::from_iter([Class::Read]),
        is_open: name == "auth",
    };
    Catalog::new(["get", "auth"].map(entry).to_vec())
}

fn rules(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn nobody_is_known_before_accounts_are_told() {
    let roster = Roster::new(catalog());
    assert!(roster.of_strangers().is_none() && roster.member(b"default").is_none());
    assert_eq!(roster.version(), None);
    assert!(
        Roster::unrestricted(catalog())
            .of_strangers()
            .is_some_and(|default| default.permit.is_unrestricted())
    );
}

#[test]
fn strangers_are_the_default_account_as_long_as_it_needs_no_password() {
    let mut roster = Roster::new(catalog());
    for (words, is_free) in [
        (&["on", "nopass", "+get"][..], true),
        (&["off", "nopass", "+@all", "~*"], false),
        (&["on", "secret=x", "+@all", "~*"], false),
    ] {
        assert!(roster.tell(1, [(1, "default", rules(words))]).is_empty());
        assert_eq!(roster.of_strangers().is_some(), is_free, "{words:?}");
    }
    // An unreadable default account is nobody's, and not the unrestricted one.
    assert_eq!(roster.tell(2, [(1, "default", rules(&["on", "nopass", "+@new"]))]).len(), 1);
    assert!(roster.of_strangers().is_none() && roster.member(b"default").is_none());
}

#[test]
fn an_account_that_cannot_be_read_takes_nothing_from_the_others() {
    let mut roster = Roster::new(catalog());
    let told = [(1, "new", rules(&["on", "+@collections"])), (2, "old", rules(&["on", "+later"]))];
    let unreadable = roster.tell(1, told);
    assert_eq!(unreadable.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["new"]);
    assert!(roster.member(b"new").is_none() && roster.member(b"old").is_some());
    assert!(roster.member(b"old\xff").is_none());
}

#[test]
fn an_account_that_was_not_changed_stays_the_same_and_one_made_anew_is_another() {
    let mut roster = Roster::new(catalog());
    roster.tell(1, [(1, "ann", rules(&["on"])), (2, "bob", rules(&["on"]))]);
    let member =
        |roster: &Roster, name: &str| Arc::clone(roster.member(name.as_bytes()).expect("it is told"));
    let (ann, bob, default) = (member(&roster, "ann"), member(&roster, "bob"), member(&roster, "default"));
    roster.tell(4, [(1, "ann", rules(&["on"])), (3, "bob", rules(&["on"])), (4, "default", rules(&["off"]))]);
    assert!(
        roster.present(&ann).is_some_and(|present| Arc::ptr_eq(present, &ann)),
        "nothing is worked out again"
    );
    assert!(roster.present(&bob).is_none(), "a new account of the same name");
    assert!(roster.present(&default).is_some_and(|present| !present.account.is_on()));
    roster.tell(5, [(1, "ann", rules(&["on", "+get"]))]);
    assert!(roster.present(&ann).is_some_and(|present| !Arc::ptr_eq(present, &ann)));
}
