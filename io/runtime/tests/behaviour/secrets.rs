//! Works with passwords.

use crate::probe::{Probe, Raw, Seen, quiet, request, server, until};
use ramhold_base::{Effect, Password, Peer, SecretResult, SecretToken, SecretWork};
use ramhold_runtime::{
    NetworkLimits, Poll, Runtime, RuntimeConfig, is_password, random_bytes, store_password,
};

/// The password "abc", stored with few KiB.
const CHEAP: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$L55AMebN3eMD9d8BiSm09g";
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
/// Cannot be read, or would take too much.
const NOBODYS: [&str; 4] = [
    "",
    "abc",
    "$argon2id$v=19$m=8,t=11,p=1$c2FsdHNhbHRzYWx0c2FsdA$L55AMebN3eMD9d8BiSm09g",
    "$argon2id$v=19$m=4294967295,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$L55AMebN3eMD9d8BiSm09g",
];

fn plain(text: &str) -> Password {
    Password::Plain(text.into())
}

fn owned(stored: &[&str]) -> Vec<String> {
    stored.iter().map(|stored| stored.to_string()).collect()
}

fn match_of(password: &Password, stored: &[&str]) -> SecretWork {
    SecretWork::Match { password: password.clone(), stored: owned(stored), is_bounded: false }
}

fn bounded(password: &Password, stored: &[&str]) -> SecretWork {
    SecretWork::Match { password: password.clone(), stored: owned(stored), is_bounded: true }
}

fn alone() -> Runtime<Probe> {
    Runtime::new(Probe::silent(), quiet(NetworkLimits::default()).0).expect("starts")
}

/// The results so far, by the tokens of their works.
fn results(runtime: &Runtime<Probe>) -> Vec<(u64, SecretResult)> {
    let mut results = Vec::new();
    for seen in &runtime.machine().seen {
        if let Seen::Secret { token, result } = seen {
            results.push((token.0, result.clone()));
        }
    }
    results
}

fn ask(runtime: &mut Runtime<Probe>, token: u64, work: SecretWork) {
    runtime.step(|_, _, effects| effects.push(Effect::Secret { token: SecretToken(token), work }));
}

/// Asks and turns the loop until the result has come.
#[track_caller]
fn carried_out(runtime: &mut Runtime<Probe>, work: SecretWork) -> SecretResult {
    let before = results(runtime).len();
    ask(runtime, before as u64, work);
    until(runtime, |runtime| results(runtime).len() > before);
    let (token, result) = results(runtime).remove(before);
    assert_eq!(token, before as u64);
    result
}

// J4
#[test]
fn a_password_is_found_among_the_stored_ones_in_both_forms() {
    let mut runtime = alone();
    let other = store_password(&plain("other")).unwrap();
    for right in [plain("abc"), Password::Sha256(ABC.into())] {
        let result = carried_out(&mut runtime, match_of(&right, &[&other, CHEAP]));
        assert_eq!(result, SecretResult::Matched(Some(1)));
    }
    let result = carried_out(&mut runtime, match_of(&plain("other"), &[&other, CHEAP]));
    assert_eq!(result, SecretResult::Matched(Some(0)));
    for wrong in [plain(""), plain("abd"), plain(ABC), Password::Sha256("abc".into())] {
        let result = carried_out(&mut runtime, match_of(&wrong, &[&other, CHEAP]));
        assert_eq!(result, SecretResult::Matched(None), "{wrong:?}");
    }
    let long = Password::Plain(vec![b'x'; 1 << 20]);
    assert_eq!(carried_out(&mut runtime, match_of(&long, &[CHEAP])), SecretResult::Matched(None));
    assert_eq!(carried_out(&mut runtime, bounded(&long, &[CHEAP])), SecretResult::Unknown);
}

// J4, Z2
#[test]
fn stored_texts_that_cannot_be_read_or_would_take_much_match_nothing() {
    let mut runtime = alone();
    assert_eq!(carried_out(&mut runtime, match_of(&plain("abc"), &NOBODYS)), SecretResult::Matched(None));
    assert_eq!(carried_out(&mut runtime, match_of(&plain("abc"), &[])), SecretResult::Matched(None));
    let stored = [&NOBODYS[..], &[CHEAP]].concat();
    let result = carried_out(&mut runtime, match_of(&plain("abc"), &stored));
    assert_eq!(result, SecretResult::Matched(Some(4)));
}

// J4
#[test]
fn a_bounded_match_knows_what_was_right_and_is_answered_in_the_same_step() {
    let mut runtime = alone();
    let right = plain("abc");
    ask(&mut runtime, 0, bounded(&right, &[CHEAP]));
    assert_eq!(results(&runtime), [(0, SecretResult::Unknown)]);
    assert_eq!(carried_out(&mut runtime, match_of(&plain("abd"), &[CHEAP])), SecretResult::Matched(None));
    assert_eq!(carried_out(&mut runtime, match_of(&right, &[CHEAP])), SecretResult::Matched(Some(0)));

    ask(&mut runtime, 3, bounded(&right, &["", CHEAP]));
    ask(&mut runtime, 4, bounded(&Password::Sha256(ABC.into()), &[CHEAP]));
    ask(&mut runtime, 5, match_of(&right, &[CHEAP]));
    ask(&mut runtime, 6, bounded(&plain("abd"), &[CHEAP]));
    ask(&mut runtime, 7, bounded(&right, &[]));
    let expected = [
        (3, SecretResult::Matched(Some(1))),
        (4, SecretResult::Matched(Some(0))),
        (5, SecretResult::Matched(Some(0))),
        (6, SecretResult::Unknown),
        (7, SecretResult::Unknown),
    ];
    assert_eq!(results(&runtime)[3..], expected);
}

// J4
#[test]
fn passwords_are_prepared_once_each_and_found() {
    let mut runtime = alone();
    let work = SecretWork::Prepare {
        add: vec![plain("new"), plain("abc"), plain("new"), Password::Sha256(ABC.into())],
        find: vec![plain("abc"), plain("new"), plain("absent"), Password::Sha256(ABC.into())],
        stored: owned(&["unreadable", CHEAP]),
    };
    let SecretResult::Prepared { added, found } = carried_out(&mut runtime, work) else {
        panic!("not prepared");
    };
    assert_eq!(found, [Some(1), None, None, Some(1)]);
    assert_eq!((&added[1][..], &added[3][..]), (CHEAP, CHEAP), "it is stored already");
    assert_eq!(added[0], added[2], "one password, one string");
    assert_eq!(is_password(&plain("new"), &added[0]), Ok(true));
    assert!(added[0].len() <= 256 && added[0].bytes().all(|byte| byte.is_ascii_graphic()));
}

// J4
#[test]
fn what_cannot_be_prepared_fails_as_a_whole() {
    let mut runtime = alone();
    let no_sha256 = SecretWork::Prepare {
        add: vec![plain("new"), Password::Sha256("abc".into())],
        find: vec![],
        stored: vec![],
    };
    let too_much = SecretWork::Prepare {
        add: (0..100).map(|number| plain(&number.to_string())).collect(),
        find: vec![],
        stored: owned(&[CHEAP; 16]),
    };
    for work in [no_sha256, too_much, match_of(&plain("abc"), &[CHEAP; 1025])] {
        let result = carried_out(&mut runtime, work);
        assert!(matches!(result, SecretResult::Failed(_)), "{result:?}");
    }
}

#[test]
fn random_bytes_come_from_the_operating_system() {
    let mut runtime = alone();
    let [one, other] = [(); 2].map(|()| match carried_out(&mut runtime, SecretWork::Random { bytes: 32 }) {
        SecretResult::Random(bytes) => bytes,
        result => panic!("{result:?}"),
    });
    assert_eq!((one.len(), other.len(), random_bytes(32).unwrap().len()), (32, 32, 32));
    assert_ne!(one, other);
}

// J4: one work takes tens of milliseconds, and the requests of others are answered meanwhile.
#[test]
fn requests_are_answered_while_passwords_are_hashed() {
    const WORKS: u64 = 20;
    let (mut runtime, addr) = server(Probe::new(|_, seen, effects| {
        if let Seen::Frame { from, bytes } = seen {
            effects.send_with(Peer::Conn(*from), |out| out.extend_from_slice(bytes));
        }
    }));
    let stored = store_password(&plain("right")).unwrap();
    for token in 0..WORKS {
        ask(&mut runtime, token, match_of(&plain("wrong"), &[&stored]));
    }
    assert_eq!(results(&runtime), [], "no step waits for a hash");
    let mut raw = Raw::connect(addr);
    let question = request(1, 10);
    raw.write(&question);
    until(&mut runtime, |_| raw.read().len() == question.len());
    assert!(results(&runtime).len() < WORKS as usize, "the answer came before the last result");
    until(&mut runtime, |runtime| results(runtime).len() == WORKS as usize);
    let expected: Vec<_> = (0..WORKS).map(|token| (token, SecretResult::Matched(None))).collect();
    assert_eq!(results(&runtime), expected, "one after the other");
}

// J4
#[test]
fn a_result_wakes_a_loop_that_sleeps() {
    let (config, _) = quiet(NetworkLimits::default());
    let mut runtime = Runtime::new(Probe::silent(), RuntimeConfig { poll: Poll::Sleep, ..config }).unwrap();
    for count in 1..=3 {
        ask(&mut runtime, count, match_of(&plain("wrong"), &[CHEAP, NOBODYS[2]]));
        // Only the result ends this wait.
        while results(&runtime).len() < count as usize {
            runtime.turn(None);
        }
    }
}

// J4
#[test]
fn a_full_queue_fails_at_once_and_knows_still_what_was_right() {
    let mut runtime = alone();
    let right = plain("abc");
    assert_eq!(carried_out(&mut runtime, match_of(&right, &[CHEAP])), SecretResult::Matched(Some(0)));
    // The thread is busy with the first work for about a second.
    let stored = store_password(&plain("right")).unwrap();
    ask(&mut runtime, 1, match_of(&plain("wrong"), &[&stored[..]; 50]));
    for token in 2..300 {
        ask(&mut runtime, token, match_of(&plain("wrong"), &[CHEAP]));
    }
    let failed = results(&runtime).split_off(1);
    assert!(matches!(failed.len(), 42 | 43), "{} failed: 256 wait, one may be in work", failed.len());
    assert!(failed.iter().all(|(_, result)| matches!(result, SecretResult::Failed(_))));
    ask(&mut runtime, 300, match_of(&right, &[CHEAP]));
    assert_eq!(results(&runtime).last(), Some(&(300, SecretResult::Matched(Some(0)))));
    until(&mut runtime, |runtime| results(runtime).len() == 301);
    ask(&mut runtime, 301, bounded(&plain("wrong"), &[CHEAP]));
    assert_eq!(results(&runtime).last(), Some(&(301, SecretResult::Unknown)));
}
