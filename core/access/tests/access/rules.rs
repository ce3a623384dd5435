//! Rules: what is taken, what is refused and why, and what an account tells of itself.

use crate::catalog;
use ramhold_access::limits::{NAME_BYTES_MAX, PATTERN_COUNT_MAX, SECRET_COUNT_MAX, SELECTOR_COUNT_MAX};
use ramhold_access::{Account, AccountError, RuleFault};

fn set(account: &mut Account, words: &str) -> Result<(), AccountError> {
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    account.set_words(&words, &catalog())
}

fn told(account: &Account) -> String {
    String::from_utf8(account.rules().join(&b' ')).expect("ASCII")
}

/// The account that these words make, as it tells it.
fn made(words: &str) -> String {
    let mut account = Account::new("ann").expect("a name");
    set(&mut account, words).expect("rules");
    told(&account)
}

fn fault(words: &str) -> RuleFault {
    let mut account = Account::new("ann").expect("a name");
    let before = account.clone();
    let error = set(&mut account, words).expect_err("no rules");
    assert_eq!(account, before, "nothing has changed");
    match error {
        AccountError::Rule { fault, .. } => fault,
        AccountError::Name => panic!("the name is good"),
    }
}

#[test]
fn a_new_account_may_do_nothing() {
    let account = Account::new("ann").unwrap();
    assert!(!account.is_on() && !account.needs_no_secret() && account.secrets().is_empty());
    assert_eq!(told(&account), "off -@all");
}

#[test]
fn rules_are_told_in_the_form_in_which_they_make_the_same_account() {
    for (words, rules) in [
        ("on nopass allkeys +@all", "on nopass ~* +@all"),
        ("ON ~a* +GET +@READ", "on ~a* -@all +get +@read"),
        ("%R~a %W~b %RW~c %r~b", "off %R~a ~b ~c -@all"),
        ("+@all -client -@dangerous", "off +@all -client -@dangerous"),
        ("+client|list +get -client", "off -@all +get -client"),
        ("+client -client|kill", "off -@all +client -client|kill"),
        ("+get -@all", "off -@all"),
        ("+get -@read +get", "off -@all +get"),
        ("+set +get -@read +get", "off -@all +set -@read +get"),
        ("-get", "off -@all"),
        ("&news.* &news.* allchannels", "off &* -@all"),
        ("table=db0 table=app_*", "off resettables table=db0 table=app_* -@all"),
        ("resettables", "off resettables -@all"),
        ("table=db0 alltables", "off alltables -@all"),
        ("table=* table=db0", "off resettables table=db0 -@all"),
        ("table=db0 (table=db1 +get)", "off resettables table=db0 -@all (resettables table=db1 -@all +get)"),
        ("%R~a ~b %R~* %W~*", "off ~* -@all"),
        ("on secret=$argon2id$x cert=CN1 nopass", "on nopass cert=CN1 -@all"),
        ("secret=$a secret=$b secret=$a", "off -@all secret=$a secret=$b"),
        ("nopass secret=$a", "off -@all secret=$a"),
        ("secret=$a secret=$b unsecret=$a", "off -@all secret=$b"),
        ("~a +get (~b +set) (%R~c", "-"),
        ("~a +get (~b +set) (%R~c +mget)", "off ~a -@all +get (~b -@all +set) (%R~c -@all +mget)"),
        ("(~b +set) clearselectors", "off -@all"),
        ("on ~a &b +get (+set) cert=x secret=y reset", "off -@all"),
        ("sanitize-payload skip-sanitize-payload", "off -@all"),
    ] {
        if rules == "-" {
            assert_eq!(fault(words), RuleFault::UnclosedSelector);
            continue;
        }
        assert_eq!(made(words), rules, "{words}");
        assert_eq!(made(rules), rules, "again");
    }
}

#[test]
fn what_is_no_rule_is_refused_with_the_reason() {
    for (words, reason) in [
        ("x", RuleFault::Syntax),
        ("", RuleFault::Syntax),
        ("~", RuleFault::Syntax),
        ("%~a", RuleFault::Syntax),
        ("%RX~a", RuleFault::Syntax),
        ("%R", RuleFault::Syntax),
        ("table=", RuleFault::Syntax),
        ("db=0", RuleFault::Syntax),
        ("on +gett", RuleFault::UnknownCommand("gett".into())),
        ("+client|nothing", RuleFault::UnknownCommand("client|nothing".into())),
        ("+@reads", RuleFault::UnknownClass("reads".into())),
        ("~* ~a", RuleFault::AfterAll),
        ("allchannels &a", RuleFault::AfterAll),
        ("(on)", RuleFault::NotInSelector),
        ("(nopass +get)", RuleFault::NotInSelector),
        ("((+get))", RuleFault::NotInSelector),
        ("(((((((+get", RuleFault::UnclosedSelector),
        ("+get)", RuleFault::UnknownCommand("get)".into())),
        ("(+get", RuleFault::UnclosedSelector),
        ("#12", RuleFault::NoSha256),
        (">open", RuleFault::NotHashed),
        ("<open", RuleFault::NotHashed),
    ] {
        assert_eq!(fault(words), reason, "{words}");
    }
    let tab: &[&[u8]] = &[b"~a\tb"];
    assert!(Account::new("ann").unwrap().set_words(tab, &catalog()).is_err());
    let long = format!("~{}", "a".repeat(1024));
    assert_eq!(fault(&long), RuleFault::TooLong);
}

#[test]
fn accounts_are_bounded() {
    let many =
        |count: usize, rule: &dyn Fn(usize) -> String| (0..count).map(rule).collect::<Vec<_>>().join(" ");
    for (max, rule) in [
        (PATTERN_COUNT_MAX, &(|n| format!("~{n}")) as &dyn Fn(usize) -> String),
        (PATTERN_COUNT_MAX, &|n| format!("&{n}")),
        (PATTERN_COUNT_MAX, &|n| format!("table={n}")),
        (SECRET_COUNT_MAX, &|n| format!("secret={n}")),
        (SECRET_COUNT_MAX, &|n| format!("cert={n}")),
        (SELECTOR_COUNT_MAX - 1, &|n| format!("(~{n})")),
    ] {
        made(&many(max, rule));
        assert!(matches!(fault(&many(max + 1, rule)), RuleFault::TooMany(..)), "{}", rule(0));
    }
    assert!(matches!(fault(&many(513, &|_| "on".into())), RuleFault::TooMany(..)));
    for name in ["", "a b", "a\n", "(a", "ä", &"a".repeat(NAME_BYTES_MAX + 1)] {
        assert_eq!(Account::new(name), Err(AccountError::Name), "{name}");
    }
    assert!(Account::new(&"a".repeat(NAME_BYTES_MAX)).is_ok());
}

// Z12: neither an error nor a debug text tells a password.
#[test]
fn secrets_are_not_shown() {
    let mut account = Account::new("ann").unwrap();
    set(&mut account, "secret=stored-canary").unwrap();
    assert!(!format!("{account:?}").contains("canary"));
    assert!(!String::from_utf8(account.shown_rules().join(&b' ')).unwrap().contains("canary"));
    let inner = format!("(+get secret=canary{})", "y".repeat(400));
    for words in [
        "(+get >canary)",
        "(>canary",
        "(secret=canary)",
        "unsecret=canary",
        "(+get UNSECRET=canary)",
        "(+gett <canary)",
        &inner,
        ">canary",
        "<canary",
        "#canary",
        "!canary",
        &format!("secret=canary{}", "y".repeat(400)),
    ] {
        let error = set(&mut account, words).unwrap_err();
        assert!(
            !error.to_string().contains("canary") && !format!("{error:?}").contains("canary"),
            "{error:?}"
        );
    }
}

// Z21
#[test]
fn an_error_has_nothing_that_a_terminal_obeys() {
    let error = set(&mut Account::new("ann").unwrap(), "+\u{1b}[2J\r\n").unwrap_err().to_string();
    assert!(error.chars().all(|letter| !letter.is_control()), "{error:?}");
}

// A process may be told of commands that only newer ones know.
#[test]
fn told_rules_may_name_commands_that_are_not_known() {
    let rules = |words: &str| words.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let account = Account::told("ann", &rules("on ~* -@all +newer +get secret=$x")).unwrap();
    assert_eq!(told(&account), "on ~* -@all +newer +get secret=$x");
    assert!(Account::told("ann", &rules("on +@all -@newer")).is_err(), "what is left would be too much");
    assert!(Account::told("ann", &rules("on +ne\u{1b}wer")).is_err());
}
