//! Planted cases, the guards, and a simulated group of bricks of which one gets slower and slower.

use super::*;
use ramhold_base::Rng;
use ramhold_wire::statistics::Queue;

/// The pause between reports.
const PERIOD: Duration = Duration::from_millis(500);

/// A group of bricks under one load, with noise of their own and rare stalls.
struct Group {
    rng: Rng,
    now: Instant,
    lives: Vec<u64>,
    load: i64,
    own: Vec<[i64; 17]>,
    /// Reports for which a brick still stalls.
    stalls: Vec<u64>,
    /// How much slower a brick is, in percent.
    slow: Vec<u64>,
    anomalies: Anomalies,
    has_stalls: bool,
}

/// About normal, with a standard deviation of 1,000.
fn noise(rng: &mut Rng) -> i64 {
    (0..12).map(|_| rng.below(1000) as i64).sum::<i64>() - 5994
}

impl Group {
    fn new(seed: u64, count: usize, threshold: usize) -> Group {
        Group {
            rng: Rng::new(seed),
            now: Instant(1),
            lives: vec![1; count],
            load: 0,
            own: vec![[0; 17]; count],
            stalls: vec![0; count],
            slow: vec![100; count],
            anomalies: Anomalies::new(threshold),
            has_stalls: true,
        }
    }

    fn id(at: usize) -> ServerId {
        ServerId(at as u64 + 1)
    }

    /// The statistics of a brick: a shared load of +-20 %, own noise of +-12 %, and what a slow brick shows.
    fn statistics(&mut self, brick: usize) -> Statistics {
        let (slow, stalls) = (self.slow[brick], self.stalls[brick] > 0);
        let mut statistics = Statistics::default();
        for statistic in Statistic::ALL {
            let own = &mut self.own[brick][statistic.place()];
            *own = (*own * 7 + noise(&mut self.rng) * 3) / 10;
            let base = 100_000 * (1000 + self.load / 5) / 1000 * (1000 + *own * 12 / 100) / 1000;
            let base = base.max(0) as u64;
            let root = slow * slow.isqrt() / 10;
            let value = match statistic {
                Statistic::QueueLength(_) | Statistic::QueueDelay(_) | Statistic::Latency(_) => {
                    base * root / 100 * if stalls { 22 } else { 10 } / 10
                }
                Statistic::Success(_) => base * 100 / (slow * 10 / 13).max(100),
                Statistic::Dropped(_) => base.saturating_sub(95_000) * (slow * slow) / 10_000,
                Statistic::Cpu => base * slow.min(180) / 100,
                Statistic::Memory => base,
            };
            statistics.set(statistic, value);
        }
        statistics
    }

    /// One report of each brick that is there.
    fn report(&mut self) {
        self.now = self.now + PERIOD;
        self.load = (self.load * 95 + noise(&mut self.rng) * 5) / 100;
        for brick in 0..self.lives.len() {
            if self.stalls[brick] > 0 {
                self.stalls[brick] -= 1;
            } else if self.has_stalls && self.rng.chance(1, 600) {
                self.stalls[brick] = self.rng.between(15, 40);
            }
            let statistics = self.statistics(brick);
            self.anomalies.report(self.now, (Group::id(brick), self.lives[brick]), statistics);
        }
    }

    fn all(&self) -> BTreeSet<ServerId> {
        (0..self.lives.len()).map(Group::id).collect()
    }

    fn judge(&mut self) -> Verdict {
        let all = self.all();
        self.anomalies.judge(self.now, Circumstances { online: &all, tablets: &[] })
    }

    fn run(&mut self, reports: usize) {
        (0..reports).for_each(|_| self.report());
    }
}

/// The run of dstore_golden: six bricks, stalls, and one that degrades by 15 % in ten seconds. Returns after how many
/// reports it is sentenced, and who else is.
fn degrading(seed: u64, threshold: usize) -> (Option<usize>, BTreeSet<ServerId>) {
    let mut group = Group::new(seed, 6, threshold);
    let (mut found, mut innocent) = (None, BTreeSet::new());
    group.run(300);
    for round in 0..120 {
        group.slow[0] = 100 + 15 * (round as u64 / 10);
        group.run(2);
        // A sentence is only noted here: the brick goes on as it is.
        group.anomalies.sentenced = None;
        if let Verdict::Restart { brick, .. } = group.judge() {
            if brick == Group::id(0) {
                found = found.or(Some(2 * round));
            } else {
                innocent.insert(brick);
            }
        }
    }
    (found, innocent)
}

// I6: the brick that degrades is found within a minute, and no other one ever.
#[test]
fn a_brick_that_degrades_is_found_and_nobody_else_at_eleven() {
    for seed in 0..6 {
        let (found, innocent) = degrading(seed, THRESHOLD);
        assert!(found.is_some_and(|reports| reports <= 120), "seed {seed}: {found:?}");
        assert!(innocent.is_empty(), "seed {seed}: {innocent:?}");
    }
}

// I6: a lower threshold finds it sooner, and sentences bricks that only stall.
#[test]
fn eight_is_sooner_than_eleven_and_takes_stalls_for_anomalies() {
    let sum = |threshold| (0..6).map(|seed| degrading(seed, threshold).0.unwrap_or(600)).sum::<usize>();
    let (eight, eleven) = (sum(8), sum(THRESHOLD));
    assert!(eight < eleven, "{eight} and {eleven} reports");
    let stalling = |threshold| {
        let mut group = Group::new(7, 6, threshold);
        group.run(SAMPLE_COUNT);
        let mut sentences = 0;
        // Five minutes, in each of which somebody stalls.
        for _ in 0..300 {
            group.run(2);
            group.anomalies.sentenced = None;
            sentences += u32::from(matches!(group.judge(), Verdict::Restart { .. }));
        }
        sentences
    };
    assert_eq!(stalling(THRESHOLD), 0);
    assert!(stalling(8) > 3);
}

// I6: ten times fifteen minutes in which nobody is to blame. A stall during which drops are unlike by chance may look like
// an anomaly for long enough, rarely.
#[test]
fn stalls_and_a_load_that_varies_sentence_hardly_anybody() {
    let mut sentences = 0;
    for seed in 100..110 {
        let mut group = Group::new(seed, 6, THRESHOLD);
        group.run(SAMPLE_COUNT);
        for _ in 0..900 {
            group.run(2);
            match group.judge() {
                Verdict::Healthy | Verdict::Suspected { .. } | Verdict::Guarded { .. } => {}
                Verdict::Restart { .. } => sentences += 1,
                other => panic!("seed {seed}: {other:?}"),
            }
        }
    }
    assert!(sentences <= 2, "{sentences} sentences");
}

/// A group without stalls whose first brick is three times as slow, for all of its samples.
fn with_slow_brick(count: usize) -> Group {
    let mut group = Group::new(1, count, THRESHOLD);
    (group.has_stalls, group.slow[0]) = (false, 300);
    group.run(SAMPLE_COUNT);
    group
}

/// Judges until a finding is confirmed.
fn judge_thrice(group: &mut Group) -> Verdict {
    for _ in 0..2 {
        let before = group.judge();
        assert!(matches!(before, Verdict::Suspected { .. }), "one finding is not enough: {before:?}");
        group.run(2);
    }
    group.judge()
}

// I6
#[test]
fn a_slow_brick_is_sentenced_with_its_life_and_its_flags() {
    let mut group = with_slow_brick(6);
    assert_eq!(group.judge(), Verdict::Suspected { brick: Group::id(0), life: 1 });
    group.run(3);
    assert_eq!(group.judge(), Verdict::Suspected { brick: Group::id(0), life: 1 });
    group.run(1);
    let Verdict::Restart { brick, life, flagged, repeated } = group.judge() else { panic!("it is slow") };
    assert_eq!((brick, life, repeated), (Group::id(0), 1, 0));
    let has = |statistic| flagged.all().any(|it| it == statistic);
    assert!(flagged.count() >= THRESHOLD && has(Statistic::Latency(Queue::Put)), "{flagged}");
    assert!(!has(Statistic::Memory));
    assert_eq!(group.anomalies.flagged_of(brick), Some(flagged));
    assert!(group.anomalies.flagged_of(Group::id(1)).is_some_and(|flags| flags.count() < THRESHOLD));
}

// I6
#[test]
fn fewer_than_four_bricks_cannot_be_compared() {
    assert_eq!(with_slow_brick(3).judge(), Verdict::TooFew);
    assert!(matches!(judge_thrice(&mut with_slow_brick(4)), Verdict::Restart { .. }));
    // A brick that is silent is not compared.
    let mut group = with_slow_brick(4);
    group.now = group.now + FRESH;
    assert_eq!(group.judge(), Verdict::TooFew);
}

// I6: D28
#[test]
fn a_brick_that_has_just_started_is_compared_with_nobody() {
    let mut group = with_slow_brick(6);
    group.lives[0] = 2;
    group.run(SAMPLE_COUNT - 1);
    assert_eq!(group.judge(), Verdict::Healthy, "its life has too few reports");
    group.run(1);
    assert!(matches!(judge_thrice(&mut group), Verdict::Restart { life: 2, .. }));
    // A report of the former life that comes late changes nothing.
    let late = group.statistics(0);
    group.anomalies.report(group.now, (Group::id(0), 1), late);
    assert_eq!(group.anomalies.bricks[&Group::id(0)].life, 2);
}

// I6
#[test]
fn a_finding_that_is_not_confirmed_counts_for_nothing() {
    let mut group = with_slow_brick(6);
    assert!(matches!(group.judge(), Verdict::Suspected { .. }));
    // A moment later it is as the others.
    group.slow[0] = 100;
    group.run(2 * SAMPLE_COUNT);
    assert_eq!(group.judge(), Verdict::Healthy);
    group.slow[0] = 300;
    group.run(SAMPLE_COUNT);
    assert!(matches!(group.judge(), Verdict::Suspected { .. }), "it begins anew");
    // Its next life has done nothing so far.
    group.lives[0] = 2;
    group.run(SAMPLE_COUNT);
    assert_eq!(group.judge(), Verdict::Suspected { brick: Group::id(0), life: 2 });
}

// I6: D29
#[test]
fn a_third_of_the_bricks_may_be_anomalous_and_not_more() {
    // Half of nine bricks would be the majority; four of nine are a shift of the load.
    let mut group = Group::new(1, 9, THRESHOLD);
    group.has_stalls = false;
    (0..4).for_each(|brick| group.slow[brick] = 400);
    group.run(SAMPLE_COUNT);
    let verdict = group.judge();
    assert!(matches!(&verdict, Verdict::Shift { anomalous } if anomalous.len() == 4), "{verdict:?}");
    // All get slower at once: nobody is unlike.
    let mut group = Group::new(1, 9, THRESHOLD);
    group.has_stalls = false;
    group.run(SAMPLE_COUNT);
    group.slow.fill(400);
    group.run(5);
    assert_eq!(group.judge(), Verdict::Healthy);
}

// I6: D29
#[test]
fn a_brick_whose_sibling_is_away_is_left_alone() {
    let mut group = with_slow_brick(6);
    let (mut online, tablets) = (group.all(), [[0, 1, 2], [3, 4, 5]].map(|of| of.map(Group::id).into()));
    online.remove(&Group::id(2));
    group.judge();
    group.run(4);
    let verdict = group.anomalies.judge(group.now, Circumstances { online: &online, tablets: &tablets });
    let guard = Guard::SiblingAway(Group::id(2));
    assert!(
        matches!(verdict, Verdict::Guarded { brick, life: 1, guard: by, .. } if brick == Group::id(0) && by == guard)
    );
    // A brick of another tablet is none of its business.
    online.insert(Group::id(2));
    online.remove(&Group::id(5));
    let verdict = group.anomalies.judge(group.now, Circumstances { online: &online, tablets: &tablets });
    assert!(matches!(verdict, Verdict::Restart { .. }), "{verdict:?}");
}

// I6: D29
#[test]
fn one_at_a_time_until_it_is_back_or_has_had_its_time() {
    let mut group = Group::new(1, 9, THRESHOLD);
    group.has_stalls = false;
    (group.slow[0], group.slow[4]) = (300, 500);
    group.run(SAMPLE_COUNT);
    let sentenced = |verdict: &Verdict| match verdict {
        Verdict::Restart { brick, .. } => Some(*brick),
        _ => None,
    };
    let first = sentenced(&judge_thrice(&mut group)).unwrap();
    group.run(1);
    let under_way = Guard::RestartUnderWay(first);
    assert!(matches!(group.judge(), Verdict::Guarded { guard, .. } if guard == under_way));
    // It is back: now the other one.
    let at = (0..9).find(|at| Group::id(*at) == first).unwrap();
    (group.lives[at], group.slow[at]) = (2, 100);
    group.run(1);
    let second = sentenced(&group.judge()).unwrap();
    assert!(second != first && [0, 4].map(Group::id).contains(&second));
    // It never comes back: after a while the next verdict is not held up.
    group.run(119);
    assert!(matches!(group.judge(), Verdict::Guarded { .. }));
    group.run(1);
    let again = group.judge();
    assert!(matches!(again, Verdict::Restart { brick, repeated: 1, .. } if brick == second), "{again:?}");
    group.run(1);
    assert!(matches!(group.judge(), Verdict::Guarded { .. }));
    // It was not carried out, and need not wait for itself.
    group.anomalies.acquit(second);
    assert!(matches!(group.judge(), Verdict::Restart { brick, repeated: 0, .. } if brick == second));
    group.anomalies.forget(second);
    assert_eq!(group.judge(), Verdict::Healthy);
}

#[test]
fn the_number_of_bricks_is_bounded() {
    let mut anomalies = Anomalies::default();
    for brick in 1..100 {
        anomalies.report(Instant(1), (ServerId(brick), 1), Statistics::default());
    }
    assert_eq!(anomalies.count(), BRICK_COUNT_MAX);
    // Silent ones make room.
    let none = BTreeSet::new();
    anomalies.judge(Instant(1) + FORGET_AFTER, Circumstances { online: &none, tablets: &[] });
    assert_eq!(anomalies.count(), 0);
}
