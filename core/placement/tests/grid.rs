//! Labels, rings and routes of grids, against the worked example and the formulas of the paper.
//!
//! Catalogue: H1, H2. Source: RAMCUBE 2.2, 3.2, 3.3.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use ramhold_base::Rng;
use ramhold_placement::{Grid, GridLabel, LabelFault};
use std::collections::{BTreeMap, BTreeSet};

const GOLDEN: &str = include_str!("../../../testing/vectors/multiring.txt");

fn bcube(digits: u16, k: usize) -> Grid {
    Grid::new(vec![digits; k + 1]).unwrap()
}

fn names(grid: &Grid, labels: impl IntoIterator<Item = GridLabel>) -> String {
    labels.into_iter().map(|label| grid.name(&label)).collect::<Vec<_>>().join(" ")
}

// H1
#[test]
fn rings_routes_and_failures_are_those_of_the_worked_example() {
    let grid = bcube(4, 1);
    let label = |text: &str| grid.label(text).unwrap();
    let mut seen = BTreeMap::new();
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        let (what, expected) = line.split_once(": ").unwrap();
        let words: Vec<&str> = what.split(' ').collect();
        *seen.entry(words[0]).or_insert(0) += 1;
        let found = match words[..] {
            ["recovery", master] => names(&grid, grid.near(&label(master))),
            ["ring", master, recoverer] => names(&grid, grid.ring(&label(master), &label(recoverer))),
            ["confirm", from, to] => {
                let (from, to) = (label(from), label(to));
                let other = 1 - from.shared_level(&to).unwrap();
                names(&grid, grid.route(&from, &to, other, 1))
            }
            ["failed", master, dead, backup] => {
                let (master, dead, backup) = (label(master), label(dead), label(backup));
                let others = grid.recoverers(&master, &backup).into_iter().filter(|r| *r != dead);
                let other = others.collect::<Vec<_>>().pop().unwrap();
                let spread = grid.ring(&master, &other).into_iter().filter(|b| *b != backup);
                format!("{} {}", grid.name(&other), names(&grid, spread))
            }
            _ => panic!("what is {line}?"),
        };
        assert_eq!(found, expected, "{what}");
    }
    let counts = [("confirm", 96), ("failed", 288), ("recovery", 16), ("ring", 96)];
    assert_eq!(seen, counts.into_iter().collect(), "16 servers with six recoverers each");
}

// H1
#[test]
fn counts_are_those_of_the_formulas() {
    for (digits, k) in
        [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1), (4, 2), (8, 1), (8, 2), (16, 1), (16, 2), (8, 3)]
    {
        let grid = bcube(digits, k);
        let (n, levels) = (usize::from(digits), k + 1);
        assert_eq!(grid.server_count(), u64::from(digits).pow(levels as u32));
        assert_eq!(grid.switch_count(), levels as u64 * u64::from(digits).pow(k as u32));
        let mut rng = Rng::new(u64::from(digits) * 10 + k as u64);
        let places = grid.server_count();
        for _ in 0..4 {
            let master = grid.labels().nth(rng.below(places) as usize).unwrap();
            let near: Vec<GridLabel> = grid.near(&master).collect();
            assert_eq!(near.len(), (n - 1) * levels);
            assert!(near.iter().all(|r| grid.ring(&master, r).len() == (n - 1) * k));
            let backups = grid.backups(&master);
            assert_eq!(backups.len(), (n - 1).pow(2) * k * levels / 2);
            assert!(backups.iter().all(|b| grid.recoverers(&master, b).len() == 2));
        }
    }
}

/// Draws a grid of at most some hundred servers.
fn drawn(rng: &mut Rng) -> Grid {
    let levels = 1 + rng.below(4) as usize;
    let highest = [40, 12, 6, 4][levels - 1];
    Grid::new((0..levels).map(|_| 2 + rng.below(highest - 1) as u16).collect()).unwrap()
}

// H1, H2: near(R) \ (near(P) + P), in networks of every shape.
#[test]
fn rings_follow_from_near_in_a_thousand_random_grids() {
    let mut rng = Rng::new(2012);
    for _ in 0..1000 {
        let grid = drawn(&mut rng);
        let places = grid.server_count();
        let draw = |rng: &mut Rng| grid.labels().nth(rng.below(places) as usize).unwrap();
        let (master, stranger) = (draw(&mut rng), draw(&mut rng));
        let near = |label: &GridLabel| grid.near(label).collect::<BTreeSet<_>>();
        assert_eq!(grid.label(&grid.name(&master)), Ok(master.clone()));
        assert_eq!(near(&master).contains(&stranger), near(&stranger).contains(&master), "{grid:?}");
        for recoverer in near(&master) {
            let ring: BTreeSet<GridLabel> = grid.ring(&master, &recoverer).into_iter().collect();
            let mut expected = &near(&recoverer) - &near(&master);
            expected.remove(&master);
            assert_eq!(ring, expected, "{grid:?} {} {}", grid.name(&master), grid.name(&recoverer));
            let mirrored = ring.iter().all(|backup| grid.ring(backup, &recoverer).contains(&master));
            assert!(mirrored, "a master is a backup of its backups by way of the same server");
        }
    }
}

// H3: one path fails without the others.
#[test]
fn routes_to_a_neighbour_share_neither_switches_nor_servers() {
    let mut rng = Rng::new(33);
    for _ in 0..300 {
        let grid = drawn(&mut rng);
        let from = grid.labels().nth(rng.below(grid.server_count()) as usize).unwrap();
        let near: Vec<GridLabel> = grid.near(&from).collect();
        let to = rng.pick(&near).unwrap().clone();
        let shared = from.shared_level(&to).unwrap();
        let (mut switches, mut relays) = (BTreeSet::new(), BTreeSet::new());
        for last in 0..grid.level_count() {
            let path = grid.route(&from, &to, last, 1);
            assert_eq!(path.len(), if last == shared { 2 } else { 4 }, "a detour is two hops more");
            let hop = |pair: &[GridLabel]| pair[0].shared_level(&pair[1]).expect("one hop");
            let last_hop = path.windows(2).last().unwrap();
            assert_eq!(hop(last_hop), last, "it enters through the switch of its level");
            for pair in path.windows(2) {
                assert!(switches.insert(grid.switch(&pair[0], hop(pair))), "{grid:?}: {path:?}");
            }
            for relay in &path[1..path.len() - 1] {
                assert!(relays.insert(relay.clone()), "{grid:?}: {path:?}");
            }
        }
    }
}

// F4, H2: each port of a backup feeds one server, and nothing is relayed.
#[test]
fn each_port_carries_one_flow_in_a_recovery() {
    for (digits, k) in [(4, 1), (4, 2), (8, 1), (2, 1)] {
        let grid = bcube(digits, k);
        let master = grid.labels().next().unwrap();
        let (mut out, mut into) = (BTreeMap::new(), BTreeMap::new());
        for recoverer in grid.near(&master) {
            for backup in grid.ring(&master, &recoverer) {
                let level = backup.shared_level(&recoverer).expect("one hop");
                *out.entry((backup, level)).or_insert(0) += 1;
                *into.entry((recoverer.clone(), level)).or_insert(0) += 1;
            }
        }
        assert!(out.values().all(|flows| *flows == 1));
        assert!(into.values().all(|flows| *flows == usize::from(digits) - 1));
        assert_eq!(into.len(), usize::from(digits - 1) * k * (k + 1));
    }
}

// H1
#[test]
fn labels_that_do_not_fit_are_refused_with_the_reason() {
    let grid = bcube(4, 1);
    assert_eq!(grid.label("1"), Err(LabelFault::DigitCount { digits: 1, levels: 2 }));
    assert_eq!(grid.label(""), Err(LabelFault::DigitCount { digits: 0, levels: 2 }));
    assert_eq!(grid.label("123"), Err(LabelFault::DigitCount { digits: 3, levels: 2 }));
    assert_eq!(grid.label("14"), Err(LabelFault::DigitTooHigh { digit: 4, level: 0, radix: 4 }));
    assert_eq!(grid.label("41"), Err(LabelFault::DigitTooHigh { digit: 4, level: 1, radix: 4 }));
    assert_eq!(grid.label("1x").unwrap_err().to_string(), "digit 33 of level 0 must be below 4");
    for text in ["1A", "1-", "1 ", "1..", "1.", "1.a", "1.-1", "1.70000"] {
        assert!(matches!(grid.label(text), Err(LabelFault::NotADigit { .. })), "{text}");
    }
    let wide = Grid::new(vec![48, 2]).unwrap();
    assert_eq!(wide.name(&wide.label("1.47").unwrap()), "1.47");
    assert!(Grid::new(vec![]).is_none());
    assert!(Grid::new(vec![4; 9]).is_none());
    assert!(Grid::new(vec![4, 1]).is_none());
    assert!(Grid::new(vec![257]).is_none());
}

// H1: with one level all servers are near each other, so there is nobody left to be a backup.
#[test]
fn one_switch_has_no_rings() {
    for digits in [2, 4, 48] {
        let grid = bcube(digits, 0);
        let label = grid.labels().next().unwrap();
        assert!(grid.near(&label).all(|near| grid.ring(&label, &near).is_empty()));
        assert!(grid.backups(&label).is_empty());
    }
}
