//! The order of steps, played until nothing is left to do (reference: DSTORE04 8, Fig 17 to 22).

use super::*;
use ramhold_base::Rng;
use std::collections::BTreeMap;

const T: TableId = TableId(1);

/// A tablet of all hashes on bricks 1 to 3, and as many bricks as are named.
struct Model {
    shares: Shares,
    /// The load of each of 64 equal parts of the hashes.
    hot: Vec<u64>,
}

impl Model {
    fn new(bricks: u64) -> Model {
        let share = Share {
            table: T,
            slots: false,
            first: KeyHash(0),
            last: KeyHash(u64::MAX),
            bricks: (1..=3).map(ServerId).collect(),
            load: 0,
            bytes: 0,
            has_spare: true,
        };
        let mut model =
            Model { shares: Shares { tablets: vec![share], holders: Vec::new() }, hot: vec![100; 64] };
        (1..=bricks).for_each(|brick| model.start(brick));
        model.weigh();
        model
    }

    fn start(&mut self, brick: u64) {
        self.shares.holders.push(Holder {
            brick: ServerId(brick),
            domain: brick as usize,
            weight: 100,
            free_bytes: 1 << 40,
            takes: true,
        });
    }

    fn weigh(&mut self) {
        for share in &mut self.shares.tablets {
            let parts = (share.first.0 >> 58) as usize..=(share.last.0 >> 58) as usize;
            share.load = self.hot[parts].iter().sum();
            share.bytes = (share.last.0 - share.first.0) >> 40;
        }
    }

    /// Takes a step as the coordinator would, and checks what must always hold.
    fn take(&mut self, step: Step) {
        let tablets = &mut self.shares.tablets;
        let at = |tablets: &[Share], of| {
            tablets.iter().position(|it| it.first == of).expect("a tablet begins there")
        };
        match step {
            Step::Cut { first, .. } => {
                let index = at(tablets, first);
                let share = tablets.remove(index);
                let parts = share.halves().expect("it is wide").map(|(first, last)| Share {
                    first: KeyHash(first),
                    last: KeyHash(last),
                    ..share.clone()
                });
                tablets.splice(index..index, parts);
            }
            Step::Move { first, old, new, .. } => {
                let index = at(tablets, first);
                let share = &mut tablets[index];
                assert!(share.has(old) && !share.has(new));
                share.bricks.iter_mut().filter(|brick| **brick == old).for_each(|brick| *brick = new);
                share.bricks.sort_unstable();
            }
            Step::Join { first, .. } => {
                let index = at(tablets, first);
                let next = tablets.remove(index + 1);
                assert_eq!(tablets[index].bricks, next.bricks);
                tablets[index].last = next.last;
            }
        }
        self.weigh();
        self.check();
    }

    /// Every hash has one tablet, and each tablet three bricks in different domains.
    fn check(&self) {
        let mut next = Some(0);
        for share in &self.shares.tablets {
            assert_eq!(next, Some(share.first.0));
            next = share.last.0.checked_add(1);
            let mut domains: Vec<usize> = share
                .bricks
                .iter()
                .map(|brick| self.shares.holder(*brick).expect("it is known").domain)
                .collect();
            domains.dedup();
            assert_eq!(domains.len(), 3, "{share:?}");
        }
        assert_eq!(next, None);
    }

    fn run(&mut self, decide: impl Fn(&Shares) -> Next) -> u32 {
        for moves in 0..10_000 {
            match decide(&self.shares) {
                Next::Step(step) => self.take(step),
                Next::Done => return moves,
                Next::Hindered(obstacle) => panic!("{obstacle:?}"),
            }
        }
        panic!("it never ends")
    }

    fn add(&mut self, brick: u64) {
        self.start(brick);
        self.run(|shares| shares.adding(ServerId(brick), None));
        assert!(self.shares.of(ServerId(brick)).next().is_some());
    }

    fn remove(&mut self, brick: u64) {
        let leaving = |holder: &&mut Holder| holder.brick == ServerId(brick);
        self.shares.holders.iter_mut().filter(leaving).for_each(|holder| holder.takes = false);
        assert_eq!(self.shares.needed(ServerId(brick)), None);
        self.run(|shares| shares.removing(ServerId(brick)));
        self.shares.holders.retain(|holder| holder.brick != ServerId(brick));
    }

    /// The tablets as the paper's groups: bits from the top of the hash, printed in reverse.
    fn groups(&self) -> Vec<String> {
        let name = |share: &Share| {
            let width = u128::from(share.last.0 - share.first.0) + 1;
            let length = 64 - width.trailing_zeros();
            (0..length)
                .rev()
                .map(|bit| if share.first.0 >> (63 - bit) & 1 == 1 { '1' } else { '0' })
                .collect()
        };
        let mut groups: Vec<String> = self.shares.tablets.iter().map(name).collect();
        groups.sort_unstable();
        groups
    }

    fn held(&self) -> BTreeMap<u64, usize> {
        let holders = self.shares.holders.iter();
        holders.map(|holder| (holder.brick.raw(), self.shares.of(holder.brick).count())).collect()
    }
}

// I7, Fig 19: the second and the third brick take what was cut for the first one.
#[test]
fn three_more_bricks_make_two_groups_of_three() {
    let mut model = Model::new(3);
    let of = |model: &Model| model.held().into_values().collect::<Vec<_>>();
    model.add(4);
    assert_eq!((model.groups(), of(&model)), (vec!["0".into(), "1".into()], vec![1, 2, 2, 1]));
    model.add(5);
    assert_eq!(of(&model), [1, 1, 2, 1, 1]);
    model.add(6);
    let bricks: Vec<Vec<u64>> =
        model.shares.tablets.iter().map(|share| share.bricks.iter().map(|it| it.raw()).collect()).collect();
    assert_eq!(bricks, [[1, 2, 3], [4, 5, 6]]);
}

// I7, Fig 22: and all the way back.
#[test]
fn twenty_four_bricks_are_eight_groups_and_three_are_one() {
    let mut model = Model::new(3);
    (4..=24).for_each(|brick| model.add(brick));
    let eight: Vec<String> = (0..8).map(|group| format!("{group:03b}")).collect();
    assert_eq!(model.groups(), eight);
    assert!(model.held().into_values().all(|count| count == 1));
    (4..=24).rev().for_each(|brick| model.remove(brick));
    assert_eq!(model.groups(), [""]);
    assert_eq!(model.shares.needed(ServerId(2)).map(|it| it.kind), Some(ObstacleKind::LastSibling));
}

// I7, Fig 21: the hot keys end in 00, so their hashes begin with 00.
#[test]
fn a_hot_group_is_cut_again() {
    let mut model = Model::new(3);
    (4..=6).for_each(|brick| model.add(brick));
    model.hot[..16].fill(900);
    model.weigh();
    (7..=9).for_each(|brick| model.add(brick));
    assert_eq!(model.groups(), ["00", "1", "10"]);
    (10..=12).for_each(|brick| model.add(brick));
    assert_eq!(model.groups(), ["000", "1", "10", "100"]);
    // Also if nobody asks for the others at all: what was cut for one brick is given first.
    let mut model = Model::new(3);
    (4..=6).for_each(|brick| model.add(brick));
    model.hot[16..].fill(0);
    model.weigh();
    (7..=9).for_each(|brick| model.add(brick));
    assert_eq!(model.groups(), ["00", "1", "10"]);
}

// I7: in any order of orders, with loads drawn at random.
#[test]
fn bricks_come_and_go_in_any_order() {
    for seed in 0..200 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut model = Model::new(3);
        let mut last = 3;
        for _ in 0..40 {
            model.hot.iter_mut().for_each(|load| *load = rng.below(1000));
            model.weigh();
            let there: Vec<u64> = model.held().into_keys().collect();
            if there.len() == 3 || (there.len() < 12 && rng.chance(3, 5)) {
                last += 1;
                model.add(last);
            } else {
                model.remove(there[rng.below(there.len() as u64) as usize]);
            }
        }
        while model.held().len() > 3 {
            let there: Vec<u64> = model.held().into_keys().collect();
            model.remove(there[rng.below(there.len() as u64) as usize]);
        }
        assert_eq!(model.groups(), [""], "three bricks hold one tablet");
    }
}

// I7: several tables are shared by whole tablets; nothing is cut while that relieves anybody.
#[test]
fn of_many_tablets_a_brick_takes_its_share_whole() {
    let mut model = Model::new(3);
    let share = model.shares.tablets[0].clone();
    model.shares.tablets =
        (1..=9).map(|table| Share { table: TableId(table), load: 100, ..share.clone() }).collect();
    model.start(4);
    for _ in 0..30 {
        match model.shares.adding(ServerId(4), None) {
            Next::Step(Step::Move { table, old, new, .. }) => {
                let share =
                    model.shares.tablets.iter_mut().find(|it| it.table == table).expect("it is there");
                share.bricks.iter_mut().filter(|brick| **brick == old).for_each(|brick| *brick = new);
            }
            Next::Done => break,
            other => panic!("{other:?}"),
        }
    }
    let held: Vec<usize> = model.held().into_values().collect();
    assert_eq!(held.iter().sum::<usize>(), 27);
    assert!(held.iter().all(|count| (6..=7).contains(count)), "{held:?}");
}

// I7: typed answers that name what stands in the way.
#[test]
fn obstacles_are_named() {
    let mut model = Model::new(4);
    let kind = |next| match next {
        Next::Hindered(obstacle) => obstacle.kind,
        other => panic!("{other:?}"),
    };
    model.shares.holders[3].domain = 1;
    assert_eq!(model.shares.adding(ServerId(4), None), Next::Step(Step::Cut { table: T, first: KeyHash(0) }));
    model.shares.tablets[0].has_spare = false;
    assert_eq!(kind(model.shares.adding(ServerId(4), None)), ObstacleKind::NoneToSpare);
    assert_eq!(kind(model.shares.removing(ServerId(1))), ObstacleKind::NoneToSpare);
    model.shares.tablets[0].has_spare = true;
    model.shares.holders[3].free_bytes = 1;
    model.shares.tablets[0].bytes = 1000;
    assert_eq!(kind(model.shares.adding(ServerId(4), None)), ObstacleKind::TooSmall);
    assert_eq!(kind(model.shares.removing(ServerId(1))), ObstacleKind::TooSmall);
    model.shares.holders[3].free_bytes = 1 << 30;
    assert_eq!(kind(model.shares.removing(ServerId(2))), ObstacleKind::LastSibling, "it is where brick 1 is");
    assert_eq!(kind(model.shares.adding(ServerId(9), None)), ObstacleKind::Unknown);
    model.shares.tablets[0].last = KeyHash(0);
    assert_eq!(kind(model.shares.adding(ServerId(4), None)), ObstacleKind::TooNarrow);
}

// I7: only the halves of a prefix are joined.
#[test]
fn halves_are_those_of_a_prefix() {
    let quarter = |at: u64| (at << 62, (at << 62) + ((1 << 62) - 1));
    assert!(are_halves(quarter(0), quarter(1), false) && are_halves(quarter(2), quarter(3), false));
    assert!(!are_halves(quarter(1), quarter(2), false) && !are_halves(quarter(1), quarter(0), false));
    for slots in [false, true] {
        let [low, high] = halves((0, u64::MAX), slots).expect("it is wide");
        let [inner, outer] = halves(high, slots).expect("it is wide");
        assert!(
            are_halves(low, high, slots) && are_halves(inner, outer, slots) && !are_halves(low, inner, slots)
        );
    }
}
