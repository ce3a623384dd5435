//! The operations of sessions on one key, and whether one register could have done them.

use std::collections::BTreeSet;

/// One operation.
#[derive(Clone, Debug)]
pub struct Operation {
    pub is_put: bool,
    /// A put puts it, a get got it; 0 is nothing.
    pub value: u64,
    pub began: u64,
    /// `u64::MAX`: none. A put may then have taken effect at any later time or never, and a get says nothing.
    pub ended: u64,
}

/// Whether there is an order of the operations that a register allows and that keeps to the clock: a search. After
/// each stretch in which nothing overlaps, the register's possible values are all that counts.
pub fn is_linearizable(history: &[Operation]) -> bool {
    let mut operations: Vec<&Operation> =
        history.iter().filter(|it| it.ended != u64::MAX || it.is_put).collect();
    operations.sort_by_key(|it| it.began);
    let mut states = BTreeSet::from([(0_u64, BTreeSet::<usize>::new())]);
    // Each state is a value, and the operations that were taken among those that have begun and not ended.
    let mut ends: Vec<(u64, usize)> = operations.iter().enumerate().map(|(at, it)| (it.ended, at)).collect();
    ends.sort_unstable();
    let mut begun = 0;
    for (end, ending) in ends.into_iter().filter(|(end, _)| *end != u64::MAX) {
        while begun < operations.len() && operations[begun].began <= end {
            begun += 1;
        }
        // Everything that may be taken before this end, in any order, until this operation is taken.
        let mut next = BTreeSet::new();
        let mut stack: Vec<_> = states.into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some((value, taken)) = stack.pop() {
            if !seen.insert((value, taken.clone())) {
                continue;
            }
            if taken.contains(&ending) {
                next.insert((value, taken));
                continue;
            }
            for at in (0..begun).filter(|at| !taken.contains(at)) {
                let operation = operations[at];
                if operation.ended < end {
                    continue; // It was taken before its own end.
                }
                if operation.is_put || operation.value == value {
                    let mut more = taken.clone();
                    more.insert(at);
                    stack.push((if operation.is_put { operation.value } else { value }, more));
                }
            }
        }
        // An operation that has ended need not be remembered: it is taken in every state.
        states = next
            .into_iter()
            .map(|(value, taken)| {
                let stays = |at: &usize| operations[*at].ended > end;
                (value, taken.into_iter().filter(stays).collect())
            })
            .collect();
        if states.is_empty() {
            return false;
        }
    }
    true
}

#[test]
fn the_search_knows_stale_reads_from_concurrent_ones() {
    let at = |is_put, value, began, ended| Operation { is_put, value, began, ended };
    let puts = [at(true, 1, 0, 10), at(true, 2, 20, 30)];
    let with = |more: &[Operation]| is_linearizable(&[&puts[..], more].concat());
    assert!(with(&[at(false, 2, 40, 50)]));
    assert!(!with(&[at(false, 1, 40, 50)]), "a stale read");
    assert!(!with(&[at(false, 0, 40, 50)]), "a lost write");
    assert!(with(&[at(false, 1, 25, 50)]), "the second put was under way");
    assert!(!with(&[at(false, 2, 22, 25), at(false, 1, 26, 29)]), "seen, and not seen again");
    let lost = at(true, 3, 5, u64::MAX);
    assert!(with(&[lost.clone(), at(false, 3, 90, 95)]), "an unknown put may take effect late");
    assert!(!with(&[lost.clone(), at(false, 3, 90, 95), at(false, 2, 96, 99)]), "and once only");
    assert!(with(&[lost]), "or never");
}
