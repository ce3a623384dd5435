//! Tablets of quorum tables that have too few votes: their keys are neither read nor written.
//!
//! The coordinator describes all tablets. Without it, bricks tell of their own ones. A brick counts if it says itself that it
//! votes: one that is heard may be starting, or rebuilt.
//!
//! Not here: what is wrong with single bricks (`condition`). Protocol: docs/protocols/quorum.md, rules 5 to 7. Catalogue: I6.

use crate::findings::{Finding, Grade, finding, listed};
use crate::output::bytes_for_eyes;
use ramhold_client::{BrickStatus, Client, Error, KeyHash, ProcessStatus, ServerId, TableId, TabletStatus};
use std::collections::{BTreeMap, BTreeSet};

/// A tablet, and the bricks that answer for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tablet {
    pub table: TableId,
    pub name: String,
    pub first: KeyHash,
    pub last: KeyHash,
    pub epoch: u64,
    pub bricks: Vec<ServerId>,
    /// So many of them must answer: the larger of W and R.
    pub needed: usize,
}

/// The tablets of all quorum tables, as the coordinator has them.
pub fn described(client: &mut Client) -> Result<Vec<Tablet>, Error> {
    let mut tablets = Vec::new();
    for table in client.tables()? {
        let Some(quorum) = table.options.quorum else { continue };
        // It may have been dropped just now.
        let Ok(described) = client.describe_table(&table.name) else { continue };
        tablets.extend(described.quorum.unwrap_or_default().into_iter().map(|tablet| Tablet {
            table: table.table,
            name: table.name.clone(),
            first: tablet.first,
            last: tablet.last,
            epoch: tablet.epoch,
            bricks: tablet.bricks.iter().map(|place| place.brick).collect(),
            needed: usize::from(quorum.write.max(quorum.read)),
        }));
    }
    Ok(tablets)
}

/// The tablets that bricks tell of: of each range that in its newest epoch.
pub fn told<'a>(bricks: impl Iterator<Item = &'a BrickStatus>) -> Vec<Tablet> {
    let mut newest = BTreeMap::<(TableId, KeyHash, KeyHash), &TabletStatus>::new();
    for tablet in bricks.flat_map(|brick| &brick.tablets) {
        let known = newest.entry((tablet.table, tablet.first, tablet.last)).or_insert(tablet);
        if known.epoch < tablet.epoch {
            *known = tablet;
        }
    }
    let tablet = |told: &TabletStatus| Tablet {
        table: told.table,
        name: told.name.clone(),
        first: told.first,
        last: told.last,
        epoch: told.epoch,
        bricks: told.bricks.clone(),
        needed: usize::from(told.needed),
    };
    newest.into_values().map(tablet).collect()
}

/// Whether a brick says that it votes in a tablet.
pub fn votes(status: &ProcessStatus, tablet: &Tablet) -> bool {
    let Some(brick) = status.brick.as_ref().filter(|brick| brick.is_serving) else { return false };
    let is_it =
        |own: &&TabletStatus| (own.table, own.first, own.last) == (tablet.table, tablet.first, tablet.last);
    match brick.tablets.iter().find(is_it) {
        Some(own) => own.votes,
        // One that does not tell them all may vote there.
        None => brick.tablets.is_empty() && u64::from(brick.without_vote) < status.tablets,
    }
}

/// A finding for each table with tablets that have no quorum.
pub fn findings(tablets: &[Tablet], votes: impl Fn(ServerId, &Tablet) -> bool) -> Vec<Finding> {
    let mut counts = BTreeMap::<TableId, usize>::new();
    let mut lost = BTreeMap::<TableId, Vec<(&Tablet, Vec<ServerId>)>>::new();
    for tablet in tablets {
        *counts.entry(tablet.table).or_default() += 1;
        let missing: Vec<ServerId> =
            tablet.bricks.iter().copied().filter(|brick| !votes(*brick, tablet)).collect();
        if tablet.bricks.len() - missing.len() < tablet.needed {
            lost.entry(tablet.table).or_default().push((tablet, missing));
        }
    }
    lost.into_iter().map(|(table, lost)| of_table(counts[&table], &lost)).collect()
}

fn of_table(count: usize, lost: &[(&Tablet, Vec<ServerId>)]) -> Finding {
    let (tablet, missing) = &lost[0];
    let name = bytes_for_eyes(tablet.name.as_bytes());
    let (all, needed) = (tablet.bricks.len(), tablet.needed);
    let voting = all - missing.len();
    let front = match count {
        1 => format!("table '{name}' is neither read nor written"),
        _ => format!("{} of {count} tablets of table '{name}' are neither read nor written", lost.len()),
    };
    let votes = if voting == 1 { "votes" } else { "vote" };
    let what = format!("{front}: {voting} of {all} bricks {votes}, {needed} must");
    let missing: BTreeSet<ServerId> = lost.iter().flat_map(|(_, missing)| missing).copied().collect();
    let action = match missing.len() {
        1 => format!("bring back {}; it has a finding of its own", listed(missing)),
        _ => format!("bring back {}; each has a finding of its own", listed(missing)),
    };
    finding(Grade::Critical, what, action)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use ramhold_client::{RebuildStatus, SweepStatus};
    use std::net::SocketAddr;

    pub fn address(host: u8) -> SocketAddr {
        ([192, 168, 100, host], 7501).into()
    }

    pub fn status(rebuilt: Option<u32>) -> ProcessStatus {
        let rebuilding = rebuilt.map(|permille| RebuildStatus {
            table: TableId(1),
            first: Default::default(),
            last: Default::default(),
            permille,
        });
        let brick = BrickStatus {
            life: 12,
            address: ramhold_wire::control::Address(address(1)),
            labels: Vec::new(),
            is_serving: true,
            without_vote: u32::from(rebuilt.is_some()),
            rebuilding,
            siblings: Vec::new(),
            gets: Default::default(),
            puts: Default::default(),
            stamps: Default::default(),
            repairs: 0,
            sweep: SweepStatus {
                stored: 1,
                whole: 2,
                whole_millis: Some(61_000),
                behind: 0,
                behind_millis: None,
                ended: 0,
            },
            graves: 0,
            graves_gone: 0,
            tablets: Vec::new(),
            loaded_permille: None,
            queues: Vec::new(),
            flagged: None,
            reporting: 3,
            rebuild_read: 0,
            rebuild_stored: 0,
            full: None,
            waits_for_room: 0,
            stalled: None,
        };
        ProcessStatus {
            server: ServerId(4),
            uptime_millis: 200_000,
            log_bytes: 1 << 30,
            log_used_bytes: 1 << 29,
            tablets: 1,
            brick: Some(brick),
            ..ProcessStatus::default()
        }
    }

    fn tablet(first: u64, bricks: [u64; 3], needed: usize) -> Tablet {
        Tablet {
            table: TableId(7),
            name: "carts".into(),
            first: KeyHash(first),
            last: KeyHash(first + 9),
            epoch: 1,
            bricks: bricks.map(ServerId).to_vec(),
            needed,
        }
    }

    fn lost(tablets: &[Tablet], voting: &[u64]) -> Vec<String> {
        let found = findings(tablets, |brick, _| voting.contains(&brick.raw()));
        assert!(found.iter().all(|finding| finding.grade == Grade::Critical));
        found.into_iter().map(|finding| format!("{}; do: {}", finding.what, finding.action)).collect()
    }

    // I6
    #[test]
    fn a_table_without_a_quorum_is_critical_and_named_with_the_bricks_that_it_lacks() {
        let one = [tablet(0, [1, 2, 3], 2)];
        assert!(lost(&one, &[1, 3]).is_empty());
        let told = "table 'carts' is neither read nor written: 1 of 3 bricks votes, 2 must; do: bring back s1 and s3; each has \
                    a finding of its own";
        assert_eq!(lost(&one, &[2]), [told]);
        // The larger of W and R counts.
        assert_eq!(lost(&[tablet(0, [1, 2, 3], 3)], &[1, 3]).len(), 1);
        let some = lost(&[tablet(0, [1, 2, 3], 2), tablet(10, [4, 5, 6], 2)], &[1, 2, 3, 4]);
        assert!(
            some[0].starts_with("1 of 2 tablets of table 'carts' are neither read nor written"),
            "{some:?}"
        );
        assert!(some[0].contains("bring back s5 and s6"), "{some:?}");
    }

    // I6
    #[test]
    fn bricks_tell_of_their_tablets_in_the_newest_epoch_and_whether_they_vote() {
        let own = |epoch, votes| TabletStatus {
            table: TableId(7),
            name: "carts".into(),
            first: KeyHash(0),
            last: KeyHash(9),
            epoch,
            bricks: [1, 2, if epoch == 1 { 3 } else { 4 }].map(ServerId).to_vec(),
            needed: 2,
            votes,
            waits_for: Vec::new(),
            giver: None,
        };
        let with = |tablets: Vec<TabletStatus>| {
            let mut status = status(None);
            status.brick.as_mut().unwrap().tablets = tablets;
            status
        };
        let all = [with(vec![own(1, true)]), with(vec![own(2, false)]), with(Vec::new())];
        let told = told(all.iter().filter_map(|status| status.brick.as_ref()));
        assert_eq!(
            told,
            [Tablet { epoch: 2, bricks: [1, 2, 4].map(ServerId).to_vec(), ..tablet(0, [1, 2, 4], 2) }]
        );
        let voting = all.each_ref().map(|status| votes(status, &told[0]));
        assert_eq!(voting, [true, false, true], "one that tells no tablets may vote");
        let mut starting = with(vec![own(1, true)]);
        starting.brick.as_mut().unwrap().is_serving = false;
        assert!(!votes(&starting, &told[0]));
        assert!(!votes(&with(vec![own(1, true)]), &tablet(10, [1, 2, 3], 2)), "it does not hold that one");
    }
}
