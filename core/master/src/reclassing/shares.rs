//! Chooses the tablet whose move makes the shares of the neighbourhoods more even.
//!
//! When a server dies, each of its neighbourhoods recovers its share at once, so the largest share decides how long that
//! takes. Shares are even when the largest and the smallest differ by a tenth of the mean, or when tablets are too large
//! for more. Each move goes to the smallest share and leaves it smaller than the one that it comes from. So moves end,
//! and no tablet comes back at once.
//!
//! Not here: which tablets may move now (reclassing), the move (moving). Catalogue: H3. Source: RAMCUBE 3.2.

use ramhold_base::StreamId;
use ramhold_log::HashRange;
use std::cmp::Reverse;

/// Shares that differ by less than one part in this many of their mean are even.
const EVEN_PART: u64 = 10;
/// Tablets that are together less than one part in this many of the mean are not worth their moves.
const WORTH_PART: u64 = 20;

/// A tablet of one class, in a neighbourhood's stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub range: HashRange,
    pub stream: StreamId,
    /// Bytes. The weight of an empty tablet is not 0: it may be filled.
    pub weight: u64,
    pub may_move: bool,
}

/// The tablet that is to move, and the stream to which. `streams` are those of the neighbourhoods; `None` in it is one
/// without a stream so far.
pub(crate) fn to_move(streams: &[Option<StreamId>], loads: &[Load]) -> Option<(HashRange, Option<StreamId>)> {
    let of = |stream: Option<StreamId>| loads.iter().filter(move |load| Some(load.stream) == stream);
    let share = |stream: Option<StreamId>| of(stream).map(|load| load.weight).sum::<u64>();
    let mut shares: Vec<(u64, Option<StreamId>)> = streams.iter().map(|it| (share(*it), *it)).collect();
    shares.sort_unstable_by_key(|(share, _)| Reverse(*share));
    let (least, to) = *shares.last()?;
    let mean = shares.iter().map(|(share, _)| share).sum::<u64>() / shares.len() as u64;
    shares.into_iter().find_map(|(share, from)| {
        let more = share - least;
        if more <= mean / EVEN_PART {
            return None;
        }
        let fit = || of(from).filter(|load| load.may_move && 2 * load.weight <= more);
        let is_worth = fit().map(|load| load.weight).sum::<u64>() >= mean / WORTH_PART;
        fit().filter(|_| is_worth).max_by_key(|load| load.weight).map(|load| (load.range, to))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramhold_base::{KeyHash, Rng, TableId};

    fn stream(number: u16) -> Option<StreamId> {
        Some(StreamId(number))
    }

    /// Tablets with these weights, all in one stream.
    fn loads(weights: &[u64]) -> Vec<Load> {
        let load = |(at, weight): (usize, &u64)| Load {
            range: HashRange { first: KeyHash(at as u64), last: KeyHash(at as u64), table: TableId(1) },
            stream: StreamId(1),
            weight: *weight,
            may_move: true,
        };
        weights.iter().enumerate().map(load).collect()
    }

    /// Moves until the shares are even. Returns them, and the number of moves.
    fn evened(streams: &[Option<StreamId>], loads: &mut [Load]) -> (Vec<u64>, usize) {
        let mut moves = 0;
        while let Some((range, to)) = to_move(streams, loads) {
            let load = loads.iter_mut().find(|load| load.range == range).expect("one of them");
            assert!(load.may_move);
            load.stream = to.expect("all have streams");
            moves += 1;
            assert!(moves <= loads.len() * streams.len(), "moves go on without end");
        }
        let share = |stream: &Option<StreamId>| {
            loads.iter().filter(|load| Some(load.stream) == *stream).map(|load| load.weight).sum()
        };
        (streams.iter().map(share).collect(), moves)
    }

    // H3
    #[test]
    fn equal_tablets_are_spread_by_number() {
        let streams: Vec<_> = (1..=6).map(stream).collect();
        let mut tablets = loads(&[5; 24]);
        assert_eq!(evened(&streams, &mut tablets), (vec![20; 6], 20), "each moves at most once");
        assert_eq!(evened(&streams, &mut loads(&[5; 6])).0, [5; 6]);
        assert_eq!(to_move(&[None, stream(1)], &loads(&[5, 5])).expect("one moves").1, None);
    }

    // H3
    #[test]
    fn shares_of_drawn_tablets_are_within_a_tenth() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let streams: Vec<_> = (1..=1 + rng.below(20) as u16).map(stream).collect();
            let count = streams.len() as u64 * (20 + rng.below(20));
            let weights: Vec<u64> = (0..count).map(|_| 1000 + rng.below(1000)).collect();
            let mut tablets = loads(&weights);
            tablets
                .iter_mut()
                .for_each(|it| it.stream = rng.pick(&streams).copied().flatten().expect("some"));
            let (shares, _) = evened(&streams, &mut tablets);
            let mean = shares.iter().sum::<u64>() / shares.len() as u64;
            let most = shares.iter().max().expect("some") - shares.iter().min().expect("some");
            assert!(most <= mean / 10, "seed {seed}: {shares:?}");
        }
    }

    // H3
    #[test]
    fn nothing_moves_for_a_tablet_that_is_too_large() {
        let streams = [stream(1), stream(2), stream(3)];
        let mut tablets = loads(&[1000, 1, 1, 1]);
        assert_eq!(to_move(&streams, &tablets), None, "the small ones change nothing");
        tablets[0].weight = 2;
        tablets.iter_mut().for_each(|load| load.may_move = false);
        assert_eq!(to_move(&streams, &tablets), None, "none may move");
    }
}
