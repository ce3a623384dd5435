//! Stretches of which a sibling has told little, or with a damaged key, and the pauses between stretches.

use super::*;
use crate::pages::tests::{MANY, filled, flip, key_of, range, tables};
use crate::start::tests::TABLE;

/// A stretch of which one of two siblings has told that it has nothing, and the other one is silent.
fn stretch(from: u64) -> Stretch {
    let nothing =
        TabletPageTold { epoch: 1, votes: true, records: Vec::new(), next: None, is_joining: false };
    Stretch {
        range: range(),
        epoch: 1,
        siblings: vec![ServerId(4), ServerId(5)],
        from,
        began: Instant::ZERO,
        asked: BTreeMap::new(),
        silent: BTreeSet::from([ServerId(5)]),
        pages: BTreeMap::from([(ServerId(4), nothing)]),
        stage: Stage::Comparing,
    }
}

/// The number of stretches of a whole sweep.
fn stretches(store: &mut Store, tables: &Tables) -> u64 {
    let (mut count, mut from) = (0, Some(0));
    while let Some(at) = from {
        from = stretch(at).weigh(store, tables, 1 << 40).expect("nothing is damaged").next;
        assert!(from.is_none_or(|next| next > at), "it goes on");
        count += 1;
    }
    count
}

// I6: rule 87. A sibling that was away for long has almost nothing, and this brick has millions of keys.
#[test]
fn a_stretch_ends_though_a_sibling_has_told_all_that_it_has() {
    let tables = tables();
    assert_eq!(stretches(&mut filled(&tables, 5000, 0), &tables), 5);
}

// I6: rule 87.
#[test]
fn a_stretch_of_a_small_tablet_ends_after_a_piece_of_the_index() {
    let tables = tables();
    assert!(stretches(&mut filled(&tables, 10, MANY), &tables) > 1);
}

// I6: rule 88.
#[test]
fn a_stretch_names_the_damaged_entry_that_is_in_its_way() {
    let tables = tables();
    let mut store = filled(&tables, 10, 0);
    let hash = tables.hash(TABLE, &key_of(3)).expect("the table is known");
    let at = store.shard.log.newest(TABLE, hash, &key_of(3)).expect("intact").expect("stored").at;
    flip(&mut store, at);
    let weighed = stretch(0).weigh(&mut store, &tables, 1 << 40);
    assert!(matches!(weighed, Err(Unreadable::Damaged(found)) if found == at));
}

fn pause_after(took: Duration, siblings: &[ServerId], silent: &[ServerId]) -> Duration {
    let began = Instant(1_000_000_000);
    let silent = silent.iter().copied().collect();
    let stretch = Stretch { siblings: siblings.to_vec(), silent, began, ..stretch(0) };
    let mut sweeping = Sweeping { stretch: Some(stretch), ..Sweeping::default() };
    sweeping.pause(began + took);
    sweeping.next_at.since(began + took)
}

// I6: rules 33 and 86.
#[test]
fn a_sweep_leaves_most_of_the_time_to_others() {
    const SIBLING: ServerId = ServerId(4);
    let millis = Duration::from_millis;
    assert_eq!(pause_after(millis(3), &[SIBLING], &[]), millis(57));
    assert_eq!(pause_after(millis(2000), &[SIBLING], &[]), millis(38_000));
    assert_eq!(pause_after(millis(3_600_000), &[SIBLING], &[]), PAUSE_MAX, "it stood still");
    assert_eq!(pause_after(millis(2000), &[SIBLING], &[SIBLING]), SILENT_PAUSE_MAX, "it waited");
    assert_eq!(pause_after(millis(3), &[SIBLING], &[SIBLING]), millis(57));
    assert_eq!(pause_after(millis(0), &[], &[]), ALONE_PAUSE);
}
