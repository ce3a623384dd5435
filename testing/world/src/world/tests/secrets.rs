//! Tests of works with passwords.

use super::*;
use ramhold_base::{Password, SecretResult, SecretToken, SecretWork};

const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn plain(text: &str) -> Password {
    Password::Plain(text.into())
}

/// Asks for works one after the other: stores two passwords, matches them, and asks for random bytes.
#[derive(Default)]
struct Door {
    started: Instant,
    stored: Vec<String>,
    answers: Vec<(Instant, SecretResult)>,
}

impl Door {
    fn next(&self) -> Option<SecretWork> {
        let stored = self.stored.clone();
        let matches = |password, is_bounded| {
            Some(SecretWork::Match { password, stored: self.stored.clone(), is_bounded })
        };
        match self.answers.len() {
            0 => {
                let add = vec![plain("abc"), plain("def"), Password::Sha256(ABC.into())];
                Some(SecretWork::Prepare { add, find: vec![plain("abc")], stored })
            }
            1 => matches(plain("def"), true),
            2 => matches(plain("wrong"), false),
            3 => matches(plain("def"), false),
            4 => matches(plain("def"), true),
            5 => matches(Password::Sha256(ABC.into()), false),
            6 => {
                let (add, find) = (vec![plain("def"), plain("ghi")], vec![plain("abc"), plain("ghi")]);
                Some(SecretWork::Prepare { add, find, stored })
            }
            7 => matches(Password::Sha256("abc".into()), false),
            8 => Some(SecretWork::Random { bytes: 32 }),
            _ => None,
        }
    }
}

impl Machine for Door {
    fn step(&mut self, now: Instant, input: Input<'_>, effects: &mut Effects) {
        match input {
            Input::Start { .. } => self.started = now,
            Input::Secret { token, result } => {
                assert_eq!(token.0, self.answers.len() as u64);
                if let (SecretResult::Prepared { added, .. }, []) = (&result, &self.stored[..]) {
                    self.stored = added[..2].to_vec();
                }
                self.answers.push((now, result));
            }
            other => panic!("{other:?}"),
        }
        if let Some(work) = self.next() {
            effects.push(Effect::Secret { token: SecretToken(self.answers.len() as u64), work });
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

fn world(seed: u64) -> World<Door> {
    let mut world = World::new(seed, NetworkOptions::calm());
    world.add_node(NodeOptions::plain("door", addr(1)), |_| Door::default());
    world
}

// J3, J4
#[test]
fn works_with_passwords_are_done_as_in_a_real_process() {
    for seed in 0..20 {
        let mut world = world(seed);
        world.run_until(SECOND);
        let door = world.machine(0).unwrap();
        let results: Vec<&SecretResult> = door.answers.iter().map(|(_, result)| result).collect();
        let SecretResult::Prepared { added, found } = results[0] else { panic!("not prepared") };
        assert_eq!((added.len(), &found[..]), (3, &[None][..]));
        assert_eq!(added[0], added[2], "one password in two forms");
        assert!(added[0].starts_with("sim$") && added[0] != added[1]);
        let matched = [
            SecretResult::Unknown,
            SecretResult::Matched(None),
            SecretResult::Matched(Some(1)),
            SecretResult::Matched(Some(1)),
            SecretResult::Matched(Some(0)),
        ];
        assert!(results[1..6].iter().copied().eq(&matched), "{results:?}");
        let SecretResult::Prepared { added, found } = results[6] else { panic!("not prepared") };
        assert_eq!(added[0], door.stored[1], "it is stored already");
        assert_eq!(found[..], [Some(0), None]);
        assert_eq!(results[7], &SecretResult::Matched(None));
        assert!(matches!(results[8], SecretResult::Random(bytes) if bytes.len() == 32));
        let first = door.answers[0].0.since(door.started).as_nanos() as u64;
        assert!((MILLI..=61 * MILLI).contains(&first), "{first} ns");
    }
}

// J3
#[test]
fn the_same_seed_gives_the_same_passwords() {
    let run = |seed| {
        let mut world = world(seed);
        world.run_until(SECOND);
        (world.trace, world.machine(0).unwrap().stored.clone())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3).1, run(4).1);
}

// J3, J4
#[test]
fn a_process_that_dies_loses_its_works_and_what_it_remembered() {
    for seed in 0..20 {
        let mut world = world(seed);
        world.run_while(SECOND, |world| world.machine(0).unwrap().answers.len() < 5);
        let stored = world.machine(0).unwrap().stored.clone();
        let known = SecretWork::Match { password: plain("def"), stored, is_bounded: true };
        assert_eq!(world.node(0).secrets.at_once(&known), Some(SecretResult::Matched(Some(1))));
        world.crash(0);
        world.restart(0);
        assert_eq!(world.node(0).secrets.at_once(&known), Some(SecretResult::Unknown));
        // A result of a work of the first life would have a token that is not due.
        world.run_until(world.now() + SECOND);
        assert_eq!(world.machine(0).unwrap().answers.len(), 9);
    }
}

// J4
#[test]
fn works_wait_for_each_other_and_too_many_fail() {
    let mut world: World<Crowd> = World::new(1, NetworkOptions::calm());
    world.add_node(NodeOptions::plain("crowd", addr(1)), |_| Crowd::default());
    world.run_until(60 * SECOND);
    let crowd = world.machine(0).unwrap();
    let (failed, done) = crowd.answers.split_at(300 - 257);
    assert!(failed.iter().all(|(token, failed)| *token >= 257 && *failed));
    assert!(done.iter().map(|(token, failed)| (*token, !failed)).eq((0..257).map(|token| (token, true))));
}

/// Asks for 300 works at once; the token of each, in the order of the answers, and whether it failed.
#[derive(Default)]
struct Crowd {
    answers: Vec<(u64, bool)>,
}

impl Machine for Crowd {
    fn step(&mut self, _: Instant, input: Input<'_>, effects: &mut Effects) {
        if let Input::Secret { token, result } = &input {
            self.answers.push((token.0, matches!(result, SecretResult::Failed(_))));
        }
        if matches!(input, Input::Start { .. }) {
            for token in 0..300 {
                let work = SecretWork::Random { bytes: 1 };
                effects.push(Effect::Secret { token: SecretToken(token), work });
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}
