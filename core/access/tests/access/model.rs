//! Random deeds of random accounts, beside a model that reads the rules anew for each decision, word by word.
//!
//! J4, Z11.

use crate::catalog;
use ramhold_access::permit::Channel;
use ramhold_access::{
    Access, Account, AccountError, Catalog, Class, CommandNumber, Deed, Extent, Permit, RuleFault,
};
use ramhold_base::Rng;
use std::hash::{BuildHasher, RandomState};

/// The seed of a run that is to be repeated.
const REPEATED: Option<u64> = None;
const DECISIONS: usize = 1_000_000;
const DECISIONS_PER_ACCOUNT: usize = 200;
/// The percentage of decisions that allow, and of those that deny, is at least this: a run that meets one outcome alone
/// shows nothing.
const EACH_PERCENT_MIN: usize = 5;

const WORDS: &[&str] = &["a", "b", "ab", "ba", "aab", "abb"];
const PATTERNS: &[&str] = &["*", "a*", "*b", "?b", "[ab]b", "a", "ab", "[^a]*"];
/// The rules that are chosen from; a pattern takes the place of `{}`.
const RULES: &[&str] = &[
    "off",
    "reset",
    "clearselectors",
    "resetkeys",
    "resettables",
    "resetchannels",
    "-@all",
    "~{}",
    "~{}",
    "~{}",
    "%R~{}",
    "%R~{}",
    "%W~{}",
    "&{}",
    "&{}",
    "table={}",
    "table={}",
    "table=*",
    "alltables",
    "allkeys",
    "+@all",
    "+@all",
    "+@read",
    "+@write",
    "-@write",
    "-@dangerous",
    "+@fast",
    "+client",
    "-client",
    "-client|kill",
    "+client|list",
    "+get",
    "-get",
    "+set",
    "+native",
    "-native|scan",
    "+@pubsub",
    "on",
    "on",
];

fn any<'a>(rng: &mut Rng, list: &[&'a str]) -> &'a str {
    list[rng.below(list.len() as u64) as usize]
}

fn rule(rng: &mut Rng) -> String {
    any(rng, RULES).replace("{}", any(rng, PATTERNS))
}

fn is_of_selector(rule: &str) -> bool {
    let first = rule.as_bytes()[0];
    b"~%&+-".contains(&first)
        || rule.starts_with("table=")
        || rule.ends_with("keys")
        || rule.ends_with("tables")
        || rule == "resetchannels"
}

/// The model: the words that were taken, and nothing worked out.
#[derive(Clone, Default)]
struct Model {
    words: Vec<String>,
}

impl Model {
    /// Whether the rules allow it: one of the lists of words that stand in no parenthesis, or in one.
    fn allows(&self, catalog: &Catalog, deed: &Deed<'_>) -> bool {
        let mut is_on = false;
        let mut selectors: Vec<Vec<&str>> = vec![Vec::new()];
        for word in &self.words {
            match word.as_str() {
                "on" => is_on = true,
                "off" => is_on = false,
                "clearselectors" => selectors.truncate(1),
                "reset" => (is_on, selectors) = (false, vec![Vec::new()]),
                word => match word.strip_prefix('(') {
                    Some(inner) => selectors.push(
                        inner.trim_end_matches(')').split(' ').filter(|word| !word.is_empty()).collect(),
                    ),
                    None => selectors[0].push(word),
                },
            }
        }
        let entry = catalog.entry(deed.command).expect("it is of the catalog");
        // Words about tables of the first list hold for others that have none.
        let is_about_tables = |word: &&str| word.starts_with("table=") || word.ends_with("tables");
        let first: Vec<&str> = selectors[0].iter().copied().filter(is_about_tables).collect();
        for words in &mut selectors[1..] {
            if !words.iter().any(is_about_tables) {
                words.extend(&first);
            }
        }
        entry.is_open || is_on && selectors.iter().any(|words| selector_allows(words, catalog, deed))
    }
}

fn selector_allows(words: &[&str], catalog: &Catalog, deed: &Deed<'_>) -> bool {
    let entry = catalog.entry(deed.command).expect("it is of the catalog");
    let container = entry.name.split('|').next().expect("a name");
    let mut has_command = false;
    for word in words {
        let (sign, named) = word.split_at(1);
        let is_meant = match named.strip_prefix('@') {
            Some("all") => true,
            Some(class) => Class::of(class).is_some_and(|class| entry.classes.has(class)),
            None => named == entry.name || named == container,
        };
        match sign {
            "+" if is_meant => has_command = true,
            "-" if is_meant => has_command = false,
            _ => {}
        }
    }
    let since = |reset: &str| {
        let last = words.iter().rposition(|word| *word == reset);
        words[last.map_or(0, |at| at + 1)..].to_vec()
    };
    // Several rules about one pattern of keys are one rule.
    let keys = since("resetkeys");
    let has_key = |access: Access, key: Option<&[u8]>| {
        PATTERNS.iter().any(|pattern| {
            let has = |prefix: &str| keys.iter().any(|word| *word == format!("{prefix}{pattern}"));
            let is_all = *pattern == "*" && keys.contains(&"allkeys");
            let reads = has("~") || has("%R~") || is_all;
            let writes = has("~") || has("%W~") || is_all;
            let fits = key.map_or(*pattern == "*", |key| glob(pattern.as_bytes(), key));
            (reads || !access.reads) && (writes || !access.writes) && fits
        })
    };
    let channels = since("resetchannels");
    let has_channel = |channel: &Channel<'_>| {
        channels.iter().filter_map(|word| word.strip_prefix('&')).any(|pattern| {
            pattern == "*"
                || match channel.is_pattern {
                    true => pattern.as_bytes() == channel.name,
                    false => glob(pattern.as_bytes(), channel.name),
                }
        })
    };
    let has_table = |table: &[u8]| {
        let mut allowed = vec!["*"];
        for word in words {
            match *word {
                "resettables" => allowed.clear(),
                "alltables" | "table=*" => allowed = vec!["*"],
                word => {
                    if let Some(pattern) = word.strip_prefix("table=") {
                        allowed.retain(|other| *other != "*");
                        allowed.push(pattern);
                    }
                }
            }
        }
        allowed.iter().any(|pattern| glob(pattern.as_bytes(), table))
    };
    has_command
        && deed.channels.iter().all(has_channel)
        && deed.tables.iter().all(|(table, extent)| {
            has_table(table)
                && match extent {
                    Extent::Names => true,
                    Extent::All(access) => has_key(*access, None),
                    Extent::Keys(keys) => keys.iter().all(|(access, key)| has_key(*access, Some(key))),
                }
        })
}

/// Tries every way.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|taken| glob(rest, &text[taken..])),
        ([b'?', rest @ ..], [_, more @ ..]) => glob(rest, more),
        ([b'[', b'^', one, b']', rest @ ..], [first, more @ ..]) => first != one && glob(rest, more),
        ([b'[', one, other, b']', rest @ ..], [first, more @ ..]) => {
            (first == one || first == other) && glob(rest, more)
        }
        ([same, rest @ ..], [first, more @ ..]) => same == first && glob(rest, more),
        _ => false,
    }
}

/// An account that has taken random rules, and the same as a model.
fn account(rng: &mut Rng, catalog: &Catalog) -> (Account, Model) {
    let (mut account, mut model) = (Account::new("ann").expect("a name"), Model::default());
    let count = rng.between(1, 12);
    for number in 0..count {
        let word = if number == 0 {
            "on".to_owned()
        } else if rng.below(6) == 0 {
            let count = rng.between(1, 4);
            let inner: Vec<String> =
                (0..count).map(|_| rule(rng)).filter(|rule| is_of_selector(rule)).collect();
            format!("({})", inner.join(" "))
        } else {
            rule(rng)
        };
        // A selector may come in several words.
        let parts: Vec<&[u8]> = word.split(' ').map(str::as_bytes).collect();
        match account.set_words(&parts, catalog) {
            Ok(()) => model.words.push(word),
            // A pattern behind all changes nothing. No other rule is wrong.
            Err(AccountError::Rule { fault: RuleFault::AfterAll, .. }) => {}
            Err(error) => panic!("{word}: {error}"),
        }
    }
    (account, model)
}

#[test]
fn random_deeds_of_random_accounts_are_decided_as_by_the_model() {
    let seed = REPEATED.unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("seed {seed}");
    let (mut rng, catalog) = (Rng::new(seed), catalog());
    let mut allowed = 0;
    for _ in 0..DECISIONS / DECISIONS_PER_ACCOUNT {
        let (account, model) = account(&mut rng, &catalog);
        // An account that was told and made again decides alike.
        let again = Account::told("ann", &account.rules()).unwrap();
        assert_eq!(again, account, "seed {seed}");
        let permit = Permit::new(&again, &catalog);
        for _ in 0..DECISIONS_PER_ACCOUNT {
            let command = CommandNumber(rng.below(catalog.len() as u64) as u16);
            let accesses = [Access::READ, Access::WRITE, Access::BOTH];
            let access = |rng: &mut Rng| accesses[rng.below(3) as usize];
            let keys: Vec<(Access, &[u8])> =
                (0..rng.below(3)).map(|_| (access(&mut rng), any(&mut rng, WORDS).as_bytes())).collect();
            let extents =
                [Extent::Names, Extent::Keys(&keys), Extent::Keys(&keys), Extent::All(access(&mut rng))];
            let tables: Vec<(&[u8], Extent<'_>)> = (0..rng.below(3))
                .map(|_| (any(&mut rng, WORDS).as_bytes(), extents[rng.below(4) as usize]))
                .collect();
            let channels: Vec<Channel<'_>> = (0..rng.below(3))
                .map(|_| match rng.below(2) {
                    0 => Channel { name: any(&mut rng, WORDS).as_bytes(), is_pattern: false },
                    _ => Channel { name: any(&mut rng, PATTERNS).as_bytes(), is_pattern: true },
                })
                .collect();
            let deed = Deed { command, tables: &tables, channels: &channels };
            let is_allowed = permit.check(&deed).is_ok();
            let words = model.words.join(" ");
            assert_eq!(is_allowed, model.allows(&catalog, &deed), "seed {seed}: {words}\n{deed:?}");
            allowed += usize::from(is_allowed);
        }
    }
    let percent = allowed * 100 / DECISIONS;
    assert!((EACH_PERCENT_MIN..=100 - EACH_PERCENT_MIN).contains(&percent), "{percent} % were allowed");
}
