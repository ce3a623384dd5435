//! Decisions that are easy to get wrong.

use crate::catalog;
use ramhold_access::permit::Channel;
use ramhold_access::{Access, Account, Deed, Denied, Extent, Permit};

fn permit(words: &str) -> Permit {
    let mut account = Account::new("ann").expect("a name");
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    account.set_words(&words, &catalog()).expect("rules");
    Permit::new(&account, &catalog())
}

/// Asks for a command about keys of table `db0`.
fn ask(permit: &Permit, command: &str, keys: &[(Access, &str)]) -> Result<(), Denied> {
    let keys: Vec<(Access, &[u8])> = keys.iter().map(|(access, key)| (*access, key.as_bytes())).collect();
    about(permit, command, b"db0", Extent::Keys(&keys))
}

fn about(permit: &Permit, command: &str, table: &[u8], extent: Extent<'_>) -> Result<(), Denied> {
    let command = catalog().find(command).expect("a command");
    permit.check(&Deed { command, tables: &[(table, extent)], channels: &[] })
}

const READ: Access = Access::READ;
const WRITE: Access = Access::WRITE;
const BOTH: Access = Access::BOTH;

#[test]
fn an_account_that_is_off_may_do_nothing() {
    assert_eq!(ask(&permit("+@all ~*"), "get", &[(READ, "a")]), Err(Denied::Command));
    assert_eq!(ask(&permit("on +@all ~*"), "get", &[(READ, "a")]), Ok(()));
}

#[test]
fn the_account_of_everybody_may_do_everything() {
    let all = Permit::new(&Account::unrestricted(), &catalog());
    for (command, _) in catalog().iter() {
        let channels = [Channel { name: b"x", is_pattern: true }];
        let tables: [(&[u8], Extent<'_>); 1] = [(b"any", Extent::All(BOTH))];
        assert_eq!(all.check(&Deed { command, tables: &tables, channels: &channels }), Ok(()));
    }
}

#[test]
fn all_keys_must_be_allowed_each_with_all_of_its_access() {
    let ann = permit("on +@all ~own:* %R~shared:*");
    assert_eq!(ask(&ann, "mget", &[(READ, "own:1"), (READ, "shared:1")]), Ok(()));
    assert_eq!(ask(&ann, "mget", &[(READ, "own:1"), (READ, "other")]), Err(Denied::Key(0, Some(1))));
    assert_eq!(ask(&ann, "set", &[(WRITE, "shared:1")]), Err(Denied::Key(0, Some(0))));
    // Two patterns that have half of the access each are not enough.
    let bob = permit("on +@all %R~a* %W~*b");
    assert_eq!(ask(&bob, "set", &[(BOTH, "ab")]), Err(Denied::Key(0, Some(0))));
    assert_eq!(ask(&bob, "get", &[(READ, "ab")]), Ok(()));
}

#[test]
fn one_selector_must_allow_all_of_it_and_the_furthest_tells_what_is_missing() {
    let ann = permit("on ~a* +get (~b* +set)");
    assert_eq!(ask(&ann, "get", &[(READ, "a1")]), Ok(()));
    assert_eq!(ask(&ann, "set", &[(WRITE, "b1")]), Ok(()));
    assert_eq!(ask(&ann, "get", &[(READ, "b1")]), Err(Denied::Key(0, Some(0))));
    assert_eq!(ask(&ann, "set", &[(WRITE, "a1")]), Err(Denied::Key(0, Some(0))));
    assert_eq!(ask(&ann, "del", &[(WRITE, "a1")]), Err(Denied::Command));
}

#[test]
fn a_whole_table_needs_all_keys_and_its_names_need_none() {
    let ann = permit("on +@all ~own:*");
    assert_eq!(about(&ann, "native|scan", b"db0", Extent::All(READ)), Err(Denied::Key(0, None)));
    assert_eq!(about(&ann, "keys", b"db0", Extent::Names), Ok(()));
    let bob = permit("on +@all %R~*");
    assert_eq!(about(&bob, "native|scan", b"db0", Extent::All(READ)), Ok(()));
    assert_eq!(about(&bob, "flushall", b"db0", Extent::All(WRITE)), Err(Denied::Key(0, None)));
}

#[test]
fn tables_are_told_apart() {
    let ann = permit("on +@all ~* table=app_*");
    assert_eq!(about(&ann, "keys", b"app_1", Extent::Names), Ok(()));
    assert_eq!(about(&ann, "keys", b"db0", Extent::Names), Err(Denied::Table(0)));
    let command = catalog().find("mget").unwrap();
    let tables: [(&[u8], Extent<'_>); 2] = [(b"app_1", Extent::Names), (b"db0", Extent::Names)];
    assert_eq!(ann.check(&Deed { command, tables: &tables, channels: &[] }), Err(Denied::Table(1)));
}

#[test]
fn a_further_selector_has_the_tables_of_the_account_unless_it_names_its_own() {
    let ann = permit("on table=app_* (~shared:* +get) (table=db0 ~own:* +get)");
    let ask = |table: &str, key: &str| {
        about(&ann, "get", table.as_bytes(), Extent::Keys(&[(READ, key.as_bytes())]))
    };
    assert_eq!((ask("app_1", "shared:1"), ask("db0", "own:1")), (Ok(()), Ok(())));
    assert!(
        ask("db0", "shared:1").is_err() && ask("app_1", "own:1").is_err() && ask("db1", "own:1").is_err()
    );
    let bob = permit("on (alltables +keys) table=app_*");
    assert_eq!(about(&bob, "keys", b"db0", Extent::Names), Ok(()));
}

#[test]
fn everybody_may_log_in_whatever_the_rules_say() {
    for words in ["off", "on -@all", "on +@all -auth"] {
        let auth = catalog().find("auth").unwrap();
        assert_eq!(
            permit(words).check(&Deed { command: auth, tables: &[], channels: &[] }),
            Ok(()),
            "{words}"
        );
    }
}

#[test]
fn only_all_commands_are_without_bounds() {
    use ramhold_access::{Catalog, CommandNumber};
    let mut account = Account::new("ann").unwrap();
    account.set_words(&[b"on", b"~*", b"&*"], &catalog()).unwrap();
    for catalog in [catalog(), Catalog::default()] {
        let deed = Deed { command: CommandNumber(5000), tables: &[], channels: &[] };
        assert_eq!(Permit::new(&account, &catalog).check(&deed), Err(Denied::Command));
        assert_eq!(Permit::new(&Account::unrestricted(), &catalog).check(&deed), Ok(()));
    }
}

#[test]
fn a_pattern_of_channels_is_allowed_only_as_it_stands_in_the_rules() {
    let ann = permit("on +@pubsub &news.*");
    let ask = |name: &str, is_pattern| {
        let command = catalog().find("subscribe").unwrap();
        let channels = [Channel { name: name.as_bytes(), is_pattern }];
        ann.check(&Deed { command, tables: &[], channels: &channels })
    };
    assert_eq!(ask("news.1", false), Ok(()));
    assert_eq!(ask("news.*", true), Ok(()));
    assert_eq!(ask("news.1*", true), Err(Denied::Channel(0)), "it fits, but is another pattern");
    assert_eq!(ask("old", false), Err(Denied::Channel(0)));
}

#[test]
fn later_rules_about_commands_win() {
    for (words, yes, no) in [
        ("+@all -@dangerous", &["get", "client|setname"][..], &["keys", "client|kill"][..]),
        ("+@all -@dangerous +client|list", &["client|list"], &["client|kill"]),
        ("+@read -get", &["mget"], &["get", "set"]),
        ("-get +@read", &["get"], &["set"]),
        ("+client", &["client", "client|kill"], &["get"]),
        ("+client -client|kill", &["client|list"], &["client|kill"]),
        ("+native|read", &["native|read"], &["native|write", "native"]),
    ] {
        let permit = permit(&format!("on {words}"));
        for (commands, expected) in [(yes, true), (no, false)] {
            for command in commands {
                assert_eq!(permit.has(catalog().find(command).unwrap()), expected, "{words}: {command}");
            }
        }
    }
}
