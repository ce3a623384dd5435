//! A put whose bricks change under it.
//!
//! Catalogue: I4.

use crate::schedules::{DATE, NOW, WITHIN};
use ramhold_quorum::{
    Answer, Ask, BrickId, Life, Out, Phases, Put, Said, SessionClock, SessionId, Thresholds, Written,
};

fn answer(from: u64, epoch: u64, said: Said<u64>) -> Answer<u64> {
    Answer { from: BrickId(from), life: Life(1), siblings: Vec::new(), epoch, clock: DATE, said }
}

fn asked(outs: &[Out<u64>]) -> Vec<u64> {
    let sent = outs.iter().filter_map(|out| match out {
        Out::Send { to, ask: Ask::Write(_), .. } => Some(to.0),
        Out::Send { .. } | Out::WakeAt(_) => None,
    });
    sent.collect()
}

// I4: whose answer counts no more is asked again in the step in which the higher epoch is told.
#[test]
fn a_put_asks_again_at_once_when_the_epoch_rises() {
    let session = SessionId::of(8).expect("even");
    let mut clock = SessionClock::new(session);
    let bricks = [1, 2, 3].map(BrickId);
    bricks.iter().for_each(|brick| clock.hear(NOW, *brick, DATE));
    let of = (&bricks[..], Thresholds::majority(3).expect("a quorum"));
    let mut put = Put::new(NOW, of, (Some(7), Phases::One), &clock, WITHIN).expect("the time is known");
    let mut outs = Vec::new();
    put.start(NOW, &mut clock, &mut outs);
    assert_eq!(asked(&outs), [1, 2, 3]);
    outs.clear();
    assert_eq!(put.on_answer(NOW, 1, answer(1, 1, Said::Applied), &mut clock, &mut outs), None);
    assert_eq!(asked(&outs), [0_u64; 0]);
    assert_eq!(put.on_answer(NOW, 1, answer(2, 2, Said::Applied), &mut clock, &mut outs), None);
    assert_eq!(asked(&outs), [1], "its answer was of the epoch before, and the third one is waited for");
    outs.clear();
    // The brick has not heard of the change yet: it is asked once, and then after the usual time.
    assert_eq!(put.on_answer(NOW, 1, answer(1, 1, Said::Applied), &mut clock, &mut outs), None);
    assert_eq!(asked(&outs), [0_u64; 0]);
    let end = put.on_answer(NOW, 1, answer(1, 2, Said::Applied), &mut clock, &mut outs);
    assert!(matches!(end, Some(Written::Done(_))), "{end:?}");
}
