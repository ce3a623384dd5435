//! Accounts are made, changed and removed, and all servers are told. Catalogue: J4, G1.
//!
//! Rules: docs/protocols/access.md, "Keeping and telling".

use crate::harness::*;
use ramhold_base::{ConnId, Password, Status};
use ramhold_wire::Header;
use ramhold_wire::accounts::*;
use std::time::Duration;

pub fn message(name: &str, rules: &[&str], presence: Presence) -> AccountSet {
    let rules = rules.iter().map(|rule| rule.as_bytes().to_vec().into()).collect();
    AccountSet { name: name.into(), rules, presence }
}

/// Sets an account whether or not it is there.
pub fn set(world: &mut World, name: &str, rules: &[&str]) -> Result<AccountsChanged, AccountObstacle> {
    set_if(world, name, rules, Presence::Any)
}

fn set_if(
    world: &mut World,
    name: &str,
    rules: &[&str],
    presence: Presence,
) -> Result<AccountsChanged, AccountObstacle> {
    let changed = world.client_anew(&message(name, rules, presence));
    answered(changed.expect("an answer").expect("a result"))
}

fn remove(world: &mut World, names: &[&str]) -> Result<AccountsChanged, AccountObstacle> {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let changed = world.client_anew(&AccountRemove { names });
    answered(changed.expect("an answer").expect("a result"))
}

fn answered(changed: AccountsChanged) -> Result<AccountsChanged, AccountObstacle> {
    match changed.obstacle {
        None => Ok(changed),
        Some(obstacle) => {
            assert_eq!((changed.version, changed.count), (0, 0), "nothing is changed");
            Err(obstacle)
        }
    }
}

fn list(world: &mut World) -> Accounts {
    world.client(&AccountList {}).expect("an answer").expect("a list")
}

fn rules(account: &Account) -> String {
    let words: Vec<_> = account.rules.iter().map(|rule| String::from_utf8_lossy(rule)).collect();
    words.join(" ")
}

/// The accounts as `id name: rules (passwords)`.
fn lines(accounts: &Accounts) -> Vec<String> {
    let line = |account: &Account| {
        let Account { id, name, secrets, .. } = account;
        format!("{id} {name}: {} ({secrets})", rules(account))
    };
    accounts.accounts.iter().map(line).collect()
}

fn hash(password: &str) -> String {
    stored_as(&Password::Plain(password.as_bytes().to_vec()))
}

const EVERYBODY: &str = "0 default: on nopass ~* &* +@all (0)";

#[test]
fn an_account_is_made_changed_and_removed() {
    let mut world = World::new();
    assert_eq!(lines(&list(&mut world)), [EVERYBODY]);
    let made = set(&mut world, "ann", &["on", ">secret", "~a*", "+get"]).expect("it is made");
    assert_eq!((made.version, made.count), (1, 1));
    assert_eq!(lines(&list(&mut world)), [EVERYBODY, "1 ann: on ~a* -@all +get (1)"]);
    assert_eq!(list(&mut world).accounts[1].changed, 1);
    // A command that the coordinator has never heard of.
    let changed = set(&mut world, "ann", &["+get.some.day", ">other"]).expect("it is changed");
    assert_eq!((changed.version, changed.count), (2, 1));
    assert_eq!(lines(&list(&mut world)), [EVERYBODY, "1 ann: on ~a* -@all +get +get.some.day (2)"]);
    assert_eq!(list(&mut world).accounts[1].changed, 2);
    set(&mut world, "bob", &[]).expect("it is made");
    let removed = remove(&mut world, &["ann", "nobody", "ann"]).expect("it is removed");
    assert_eq!((removed.version, removed.count), (4, 1));
    assert_eq!(lines(&list(&mut world)), [EVERYBODY, "3 bob: off -@all (0)"]);
    let none = remove(&mut world, &["ann"]).expect("it is not there");
    assert_eq!((none.version, none.count), (4, 0));
    // The name alone makes it no account of before.
    set(&mut world, "ann", &["on"]).expect("it is made");
    assert_eq!(lines(&list(&mut world)).last().map(String::as_str), Some("5 ann: on -@all (0)"));
    let said: Vec<&String> = world.reports.iter().filter(|text| text.starts_with("account ")).collect();
    let expected =
        ["ann' was made", "ann' was changed", "bob' was made", "ann' was removed", "ann' was made"];
    assert_eq!(said, expected.map(|text| format!("account '{text}")).iter().collect::<Vec<_>>());
}

#[test]
fn passwords_come_to_the_store_and_to_servers_hashed_alone() {
    let mut world = World::cluster(2);
    set(&mut world, "ann", &["on", ">canary-one", ">canary-two"]).expect("it is made");
    set(&mut world, "ann", &["<canary-one", ">canary-three"]).expect("it is changed");
    world.run(Duration::from_secs(1));
    let told = world.server_mut(1).accounts.clone().expect("it is told");
    let expected = format!("on -@all secret={} secret={}", hash("canary-two"), hash("canary-three"));
    assert_eq!((rules(&told.accounts[0]), told.accounts[0].secrets), (expected, 2));
    // The list for operators has none at all.
    assert_eq!(rules(&list(&mut world).accounts[1]), "on -@all");
    let has = |bytes: &[u8]| bytes.windows(6).any(|window| window == b"canary");
    assert!(world.store.values().all(|(_, value)| !has(value)));
    let copies = |world: &World| world.servers.values().flat_map(|s| s.state.clone()).collect::<Vec<_>>();
    assert!(copies(&world).iter().any(|(key, _)| key.starts_with("account/")));
    assert!(copies(&world).iter().all(|(_, value)| !has(value)));
    assert!(world.sent.iter().all(|(_, _, body)| !has(body)));
    assert!(world.reports.iter().all(|text| !has(text.as_bytes())));
    assert!(!has(format!("{:?} {told:?}", world.state().accounts).as_bytes()));
}

#[test]
fn the_order_of_rules_counts_with_passwords_too() {
    let mut world = World::new();
    set(&mut world, "ann", &[">old", "resetpass", ">new"]).expect("it is made");
    assert_eq!(lines(&list(&mut world))[1], "1 ann: off -@all (1)");
    set(&mut world, "ann", &["nopass", ">newer"]).expect("it is changed");
    assert_eq!(lines(&list(&mut world))[1], "1 ann: off -@all (1)");
    set(&mut world, "ann", &[">newest", "nopass"]).expect("it is changed");
    assert_eq!(lines(&list(&mut world))[1], "1 ann: off nopass -@all (0)");
}

#[test]
fn what_cannot_be_done_changes_nothing_and_says_why() {
    let mut world = World::new();
    set(&mut world, "ann", &["on", ">secret"]).expect("it is made");
    let before = list(&mut world);
    let long = ["~x"; 513];
    let many: Vec<String> = (0..65).map(|n| format!(">p{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let wide: Vec<String> = (0..17).map(|n| format!("secret=s{n}")).collect();
    let wide: Vec<&str> = wide.iter().map(String::as_str).collect();
    let cases: [(&str, &[&str], Presence, AccountObstacle); 13] = [
        ("a b", &["on"], Presence::Any, AccountObstacle::Name),
        ("", &[], Presence::Known, AccountObstacle::Name),
        ("ann", &[], Presence::New, AccountObstacle::Exists),
        ("ann", &[">p"], Presence::New, AccountObstacle::Exists),
        ("bob", &[">p"], Presence::Known, AccountObstacle::Unknown),
        ("ann", &["off", "+@no-such-class"], Presence::Any, AccountObstacle::Rule),
        ("ann", &[">p", "no-rule"], Presence::Any, AccountObstacle::Rule),
        ("ann", &["off", "<other"], Presence::Any, AccountObstacle::NoSuchPassword),
        ("ann", &[">new", "<new"], Presence::Any, AccountObstacle::NoSuchPassword),
        ("ann", &["unsecret=x"], Presence::Any, AccountObstacle::NoSuchPassword),
        ("ann", &long, Presence::Any, AccountObstacle::TooLarge),
        ("ann", &many, Presence::Any, AccountObstacle::TooLarge),
        ("ann", &wide, Presence::Any, AccountObstacle::TooLarge),
    ];
    for (name, rules, presence, obstacle) in cases {
        assert_eq!(set_if(&mut world, name, rules, presence), Err(obstacle), "{name} {rules:?}");
    }
    assert_eq!(list(&mut world), before);
    // Without a lease nobody could tell whether it was done.
    let changed = world.ask_as(CLIENT, Header::default(), &message("ann", &["off"], Presence::Any));
    assert_eq!(changed, Some(Err(Status::BadRequest)));
    let changed = world.ask_as(CLIENT, Header::default(), &message("ann", &[">p"], Presence::Any));
    assert_eq!(changed, Some(Err(Status::BadRequest)));
    assert!(world.held_secrets.is_empty());
}

#[test]
fn everybodys_account_is_there_from_the_start_and_stays() {
    let mut world = World::new();
    assert_eq!(set_if(&mut world, "default", &["off"], Presence::New), Err(AccountObstacle::Exists));
    assert_eq!(remove(&mut world, &["ann", "default"]), Err(AccountObstacle::IsDefault));
    assert_eq!(world.state().meta.accounts, 0);
    set_if(&mut world, "default", &["-flushall"], Presence::Known).expect("it is changed");
    assert_eq!(lines(&list(&mut world)), ["1 default: on nopass ~* &* +@all -flushall (0)"]);
    assert!(world.reports.contains(&"account 'default' was changed".to_owned()));
    assert_eq!(set_if(&mut world, "default", &["off"], Presence::New), Err(AccountObstacle::Exists));
    set(&mut world, "ann", &["on"]).expect("it is made");
    assert_eq!(remove(&mut world, &["ann", "default"]), Err(AccountObstacle::IsDefault));
    assert_eq!(list(&mut world).accounts.len(), 2, "all or none are removed");
    set(&mut world, "default", &["reset"]).expect("it is changed");
    assert_eq!(lines(&list(&mut world))[0], "1 default: off -@all (0)");
}

#[test]
fn a_repeated_request_has_one_effect_and_one_answer() {
    let mut world = World::new();
    let number = world.number();
    let first = message("ann", &["on", ">secret"], Presence::New);
    world.secrets_held = true;
    let rpcs = [CLIENT, ConnId(7), ConnId(8)].map(|from| {
        let rpc = world.push(from, number, &first);
        world.settle();
        rpc
    });
    assert_eq!(world.held_secrets.len(), 1, "it is hashed once");
    world.secrets_held = false;
    world.settle();
    assert!(world.answer_to(rpcs[0]).is_none() && world.answer_to(rpcs[1]).is_none());
    assert!(world.answer_to(rpcs[2]).is_some(), "the last one is answered");
    let made = Some(Ok(AccountsChanged { version: 1, count: 1, obstacle: None }));
    world.secrets_held = true;
    assert_eq!(world.ask_as(CLIENT, number, &first), made, "with what it came to");
    remove(&mut world, &["ann"]).expect("it is removed");
    for _ in 0..2 {
        assert_eq!(world.ask_as(CLIENT, number, &first), made);
        assert!(world.state().accounts.is_empty());
        world.restart();
        world.run(Duration::from_secs(1));
    }
    // The same for a refusal.
    let number = world.number();
    let refused = message("bob", &["on"], Presence::Known);
    let unknown =
        Some(Ok(AccountsChanged { version: 0, count: 0, obstacle: Some(AccountObstacle::Unknown) }));
    assert_eq!(world.ask_as(CLIENT, number, &refused), unknown);
    set(&mut world, "bob", &[]).expect("it is made");
    assert_eq!(world.ask_as(CLIENT, number, &refused), unknown);
}

/// Another change comes while the passwords of the first one are hashed. The first one's obstacle, if it has one.
fn overtaken(
    first: AccountSet,
    second: impl Fn(&mut World),
) -> (World, Result<AccountsChanged, AccountObstacle>) {
    let mut world = World::new();
    set(&mut world, "ann", &["on", ">one", ">two"]).expect("it is made");
    world.secrets_held = true;
    let number = world.number();
    let rpc = world.push(ConnId(7), number, &first);
    world.settle();
    second(&mut world);
    world.secrets_held = false;
    world.settle();
    assert!(world.answer_to(rpc).is_some());
    let changed = world.ask_as(CLIENT, number, &first).expect("an answer").expect("a result");
    (world, answered(changed))
}

#[test]
fn a_change_is_applied_to_the_account_as_it_is_when_the_passwords_are_hashed() {
    let first = message("ann", &["<one", ">three", "+get"], Presence::Known);
    let (mut world, changed) = overtaken(first.clone(), |world| {
        set(world, "ann", &["~a*"]).expect("it is changed");
    });
    assert_eq!(changed.map(|it| it.version), Ok(3));
    assert_eq!(lines(&list(&mut world))[1], "1 ann: on ~a* -@all +get (2)");
    let (mut world, changed) = overtaken(first.clone(), |world| {
        set(world, "ann", &["resetpass"]).expect("it is changed");
    });
    assert_eq!(changed, Err(AccountObstacle::NoSuchPassword));
    assert_eq!(lines(&list(&mut world))[1], "1 ann: on -@all (0)", "all rules or none");
    let (mut world, changed) = overtaken(first, |world| {
        remove(world, &["ann"]).expect("it is removed");
    });
    assert_eq!(changed, Err(AccountObstacle::Unknown));
    assert_eq!(list(&mut world).accounts.len(), 1);
    let (_, changed) = overtaken(message("bob", &[">one"], Presence::New), |world| {
        set(world, "bob", &["on"]).expect("it is made");
    });
    assert_eq!(changed, Err(AccountObstacle::Exists));
}

#[test]
fn requests_that_wait_for_hashing_are_bounded_and_their_lease_may_end() {
    let mut world = World::new();
    world.secrets_held = true;
    let numbers: Vec<Header> = (0..65).map(|_| world.number()).collect();
    let nth = |n: usize| message(&format!("a{n}"), &[">p"], Presence::New);
    let rpcs: Vec<_> =
        numbers.iter().enumerate().map(|(n, number)| world.push(CLIENT, *number, &nth(n))).collect();
    world.settle();
    assert_eq!(world.held_secrets.len(), 64);
    world.release_secrets();
    world.settle();
    assert!(rpcs[..64].iter().all(|rpc| world.answer_to(*rpc).is_some()));
    assert!(world.answer_to(rpcs[64]).is_none(), "its client asks again");
    world.secrets_held = false;
    assert!(world.ask_as(CLIENT, numbers[64], &nth(64)).is_some());
    assert_eq!(world.state().accounts.len(), 65);
    // The lease ends while the password is hashed.
    world.secrets_held = true;
    let number = world.number();
    let rpc = world.push(CLIENT, number, &nth(65));
    world.run(Duration::from_secs(31 * 60));
    world.release_secrets();
    world.settle();
    assert_eq!(world.answer_to(rpc).map(|(status, _)| status), Some(Status::LeaseOver));
    assert_eq!(world.state().accounts.len(), 65);
}

#[test]
fn a_password_that_cannot_be_hashed_is_tried_again_under_another_number() {
    let mut world = World::new();
    world.secrets_fail = true;
    let number = world.number();
    let first = message("ann", &[">canary"], Presence::New);
    assert_eq!(world.ask_as(CLIENT, number, &first), Some(Err(Status::Retry)));
    assert!(world.reports.contains(&"the passwords of account 'ann' cannot be stored: no memory".to_owned()));
    world.secrets_fail = false;
    assert_eq!(world.ask_as(CLIENT, number, &first), Some(Err(Status::Retry)), "it is a result");
    set_if(&mut world, "ann", &[">canary"], Presence::New).expect("it is made");
}

#[test]
fn servers_are_told_of_accounts_when_these_may_be_others() {
    let mut world = World::cluster(2);
    let told = |world: &mut World, port| {
        let server = world.server_mut(port);
        (server.accounts.as_ref().map(|accounts| accounts.version), server.accounts_told)
    };
    let (version, first) = told(&mut world, 1);
    assert_eq!(version, Some(0), "a whole list says that nobody has changed one");
    assert_eq!(world.server_mut(1).accounts, Some(Accounts::default()));
    // A difference of the list without a change of accounts.
    world.enlist(3);
    world.run(Duration::from_secs(1));
    assert_eq!(told(&mut world, 1), (Some(0), first));
    set(&mut world, "ann", &["on"]).expect("it is made");
    world.run(Duration::from_secs(1));
    assert_eq!(told(&mut world, 1), (Some(1), first + 1));
    let expected = Account {
        id: 1,
        name: "ann".into(),
        rules: ["on", "-@all"].map(|r| r.as_bytes().to_vec().into()).into(),
        secrets: 0,
        changed: 1,
    };
    assert_eq!(world.server_mut(1).accounts.as_ref().map(|it| it.accounts.clone()), Some(vec![expected]));
    world.enlist(4);
    world.run(Duration::from_secs(1));
    assert_eq!(told(&mut world, 1), (Some(1), first + 1));
    assert_eq!(told(&mut world, 4).0, Some(1), "a new one is told with its id");
    // One does not hear of a change, and comes back after another change of the list.
    world.server_mut(2).deaf.insert(ramhold_wire::Opcode::ServerListUpdate);
    remove(&mut world, &["ann"]).expect("it is removed");
    world.enlist(5);
    world.run(Duration::from_secs(2));
    let (behind, count) = told(&mut world, 2);
    assert_eq!(behind, Some(1));
    assert_eq!(told(&mut world, 1), (Some(2), first + 2));
    world.server_mut(2).deaf.clear();
    world.run(Duration::from_secs(5));
    assert_eq!(told(&mut world, 2), (Some(2), count + 1));
    // After a restart of the coordinator the list is told whole.
    world.restart();
    set(&mut world, "bob", &["on"]).expect("it is made");
    world.run(Duration::from_secs(2));
    assert_eq!([1, 2, 3, 4, 5].map(|port| told(&mut world, port).0), [Some(3); 5]);
}

#[test]
fn a_client_is_answered_without_waiting_for_servers() {
    let mut world = World::cluster(3);
    for port in 1..=3 {
        world.server_mut(port).deaf.insert(ramhold_wire::Opcode::ServerListUpdate);
    }
    set(&mut world, "ann", &["on", ">secret"]).expect("it is made at once");
}
