//! Records of accounts: they outlive coordinators, are bounded, and contradictions stop a start. Catalogue: J4, G1, G3.

use crate::accounts::{message, set};
use crate::harness::*;
use minicbor::bytes::ByteVec;
use ramhold_coordinator::{AccountRecord, Key, Meta};
use ramhold_wire::Header;
use ramhold_wire::accounts::*;
use ramhold_wire::control::encode_into;
use std::time::Duration;

/// Accounts are made, changed and removed.
fn story(crash_at: Option<(u64, bool)>) -> (World, u64) {
    let mut world = World::new();
    world.crash_at = crash_at;
    for port in 1..=3 {
        world.enlist(port);
    }
    let ann = until_answered(&mut world, &message("ann", &["on", ">secret"], Presence::New));
    let bob = until_answered(&mut world, &message("bob", &["on"], Presence::New));
    let changed = until_answered(&mut world, &message("ann", &[">other", "+get"], Presence::Known));
    let removed = until_answered(&mut world, &AccountRemove { names: vec!["bob".into()] });
    assert_eq!(
        [ann, bob, changed, removed].map(|it| (it.version, it.count)),
        [(1, 1), (2, 1), (3, 1), (4, 1)]
    );
    world.run(Duration::from_secs(2));
    let state = world.state();
    assert_eq!(state.accounts.keys().copied().collect::<Vec<_>>(), [1], "{crash_at:?}");
    assert_eq!((state.accounts[&1].changed, state.meta.accounts), (3, 4));
    let told = world.servers.values().map(|server| server.accounts.as_ref().map(|it| it.version));
    assert!(told.into_iter().all(|version| version == Some(4)), "{crash_at:?}");
    let commits = world.commits;
    (world, commits)
}

fn until_answered<M: ramhold_wire::Message>(world: &mut World, message: &M) -> M::Reply {
    let number = world.number();
    for _ in 0..30 {
        if let Some(answer) = world.ask_as(CLIENT, number, message) {
            return answer.expect("a result");
        }
        world.run(Duration::from_millis(300));
    }
    panic!("{:?} was never answered", M::OPCODE);
}

#[test]
fn a_coordinator_that_dies_at_any_commit_finishes_what_was_begun_with_accounts() {
    let (_, commits) = story(None);
    assert!(commits > 6, "{commits}");
    for at in 1..=commits {
        for applied in [false, true] {
            let (world, _) = story(Some((at, applied)));
            assert!(world.crashes <= 1);
        }
    }
}

#[test]
fn records_in_the_store_are_those_in_memory_and_a_store_without_any_is_asked_for_none() {
    let mut world = World::cluster(2);
    world.restart();
    assert!(world.store.keys().all(|key| !key.starts_with("account")));
    assert!(!world.listed.contains(&"account/".to_owned()));
    // An older coordinator, which would forget accounts, does not start on a store that has some.
    let format = |world: &World| world.store["meta"].1[0];
    assert_eq!(format(&world), 1);
    set(&mut world, "ann", &["on", ">secret", "~a*", "(+get ~b)"]).expect("it is made");
    assert_eq!(format(&world), 2);
    set(
        &mut world,
        "default",
        &["resetpass", "#0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"],
    )
    .expect("it is changed");
    let before = world.state().clone();
    assert_eq!(before.accounts.len(), 2);
    world.restart();
    assert_eq!(world.state().accounts, before.accounts);
    assert_eq!(world.state().meta.accounts, 2);
    assert!(world.listed.contains(&"account/".to_owned()));
    for mark in ["mark:coordinator_commits_account", "mark:coordinator_committed_account"] {
        assert!(world.reports.iter().any(|text| text == mark), "{mark}");
    }
}

/// Writes a record into the store, and starts a coordinator on it. Why it ends, if it does.
fn start_on<T: minicbor::Encode<()>>(world: &mut World, key: Key, record: &T) -> Option<String> {
    let mut bytes = vec![1];
    encode_into(&mut bytes, record);
    let before = world.store.insert(key.to_string(), (1, bytes));
    world.restart();
    let ended = world.exit.take().map(|(code, reason)| {
        assert_eq!(code, 1);
        reason
    });
    match before {
        Some(before) => world.store.insert(key.to_string(), before),
        None => world.store.remove(&key.to_string()),
    };
    ended
}

#[test]
fn records_that_contradict_themselves_or_others_stop_the_start() {
    let mut world = World::new();
    set(&mut world, "ann", &["on"]).expect("it is made");
    set(&mut world, "bob", &["on", "+get"]).expect("it is made");
    let good: AccountRecord = world.state().accounts[&2].clone();
    let meta: Meta = world.state().meta.clone();
    assert_eq!(start_on(&mut world, Key::Account(2), &good), None);
    let rule = |text: &str| vec![ByteVec::from(text.as_bytes().to_vec())];
    let bad = [
        AccountRecord { name: "a b".into(), ..good.clone() },
        AccountRecord { name: "ann".into(), ..good.clone() },
        AccountRecord { rules: rule("no-rule"), ..good.clone() },
        AccountRecord { rules: rule(">plain"), ..good.clone() },
        AccountRecord { rules: rule("+@no-such-class"), ..good.clone() },
        AccountRecord { changed: 3, ..good.clone() },
        AccountRecord { changed: 1, ..good.clone() },
        AccountRecord { id: 1, ..good.clone() },
    ];
    for record in bad {
        let reason = start_on(&mut world, Key::Account(2), &record).unwrap_or_else(|| panic!("{record:?}"));
        assert!(reason.contains(&Key::Account(2).to_string()), "{reason}");
        assert!(!reason.contains("plain"), "{reason}");
    }
    for (id, changed) in [(0, 0), (3, 3)] {
        let record = AccountRecord { id, name: "eve".into(), changed, ..good.clone() };
        let reason = start_on(&mut world, Key::Account(id), &record).expect("it stops");
        assert!(reason.contains(&Key::Account(id).to_string()), "{reason}");
    }
    let reason = start_on(&mut world, Key::Meta, &Meta { accounts: 1, ..meta }).expect("it stops");
    assert!(reason.contains(&Key::Account(2).to_string()), "{reason}");
    let key = Key::Account(2).to_string();
    let cut = world.store[&key].1[..5].to_vec();
    world.store.insert(key.clone(), (1, cut));
    world.restart();
    let (_, reason) = world.exit.take().expect("it stops");
    assert!(reason.contains(&key), "{reason}");
}

#[test]
fn accounts_and_the_bytes_of_their_rules_are_bounded() {
    let mut world = World::cluster(1);
    // A kibibyte of rules each, so that both limits are near.
    let wide: Vec<String> = (0..200).map(|n| format!("~{n:03}{}", "x".repeat(1000))).collect();
    let wide: Vec<&str> = wide.iter().map(String::as_str).collect();
    for n in 0..5 {
        set(&mut world, &format!("wide{n}"), &wide).expect("there is room");
    }
    assert_eq!(set(&mut world, "wide5", &wide), Err(AccountObstacle::TooMany));
    assert_eq!(set(&mut world, "small", &["on"]).map(|it| it.count), Ok(1));
    set(&mut world, "wide0", &["resetkeys"]).expect("less is always taken");
    set(&mut world, "wide5", &wide).expect("there is room again");
    world.run(Duration::from_secs(2));
    let told = world.server_mut(1).accounts.as_ref().map(|it| it.accounts.len());
    assert_eq!(told, Some(7), "the list fits a frame");
    for n in 7..1024 {
        // All results before this one are acknowledged, so that there is room for them.
        let number = world.number();
        let number = Header { unacknowledged: number.sequence, ..number };
        let made = world.ask_as(CLIENT, number, &message(&format!("a{n}"), &[], Presence::New));
        assert_eq!(made.expect("an answer").map(|it| it.count), Ok(1));
    }
    assert_eq!(set(&mut world, "one-more", &[]), Err(AccountObstacle::TooMany));
    set(&mut world, "a7", &["on"]).expect("it is there already");
    world.run(Duration::from_secs(2));
    let list = world.client(&AccountList {}).expect("an answer").expect("it fits a frame");
    assert_eq!(list.accounts.len(), 1025);
}
