//! Decides a stretch of a tablet's keys from the pages that siblings have told.
//!
//! Not here: who is asked (`asking`), what becomes of the decision (`stretch`). Protocol: docs/protocols/quorum.md, rules 16,
//! 61 and 87. Catalogue: I6.

use super::Rebuilding;
use crate::pages::walk;
use crate::question::Key;
use crate::store::Store;
use crate::stretch::{Decided, Stretch};
use crate::tables::{Tables, number};
use ramhold_base::{ServerId, Stamp};
use ramhold_log::Unreadable;
use ramhold_quorum::Rebuild;
use std::collections::BTreeMap;

impl Rebuilding {
    /// Decides the keys of the stretch that enough pages cover. `None`: too few have told. `Err`: this is in the way, and
    /// its repair is to begin.
    pub(super) fn decide(
        &mut self,
        store: &mut Store,
        tables: &Tables,
        from: u64,
    ) -> Result<Option<Stretch>, Unreadable> {
        let may_stand_in = self.may_stand_in();
        let stand_in = self.stand_in.filter(|_| may_stand_in).map(|it| it.giver);
        let counts = |sibling: ServerId| !self.stands_in(sibling) || may_stand_in;
        let voting = self.pages.iter().filter(|(sibling, page)| page.votes && counts(**sibling));
        let voting: Vec<ServerId> = voting.map(|(sibling, _)| *sibling).collect();
        let is_by_quorum = voting.len() >= self.reads;
        let told: Vec<ServerId> = if is_by_quorum {
            voting
        } else if self.awaited.iter().chain(&stand_in).all(|sibling| self.pages.contains_key(sibling)) {
            self.pages.keys().copied().collect()
        } else {
            return Ok(None);
        };
        let end = told.iter().filter_map(|sibling| self.pages[sibling].next).min();
        let (own, next) = walk(store, tables, self.range, from, end)?;
        let is_in = |position: u64| next.is_none_or(|next| position < next);
        let mut keys = BTreeMap::<Key, (Stamp, Rebuild<ServerId>)>::new();
        let reads = told.len();
        for scanned in own {
            let stamp = store.shard.log.stamp_at(scanned.at).ok_or(Unreadable::Damaged(scanned.at))?;
            let key = store.shard.log.show(&scanned).key.to_vec();
            keys.entry(key).or_insert((stamp, Rebuild::new(reads)));
        }
        for sibling in &told {
            for record in self.pages[sibling].records.iter().filter(|record| is_in(record.position)) {
                keys.entry(record.key.clone()).or_insert((Stamp::NONE, Rebuild::new(reads)));
            }
        }
        for sibling in &told {
            let has: BTreeMap<&Key, Stamp> =
                self.pages[sibling].records.iter().map(|record| (&record.key, record.stamp)).collect();
            for (key, (_, rebuild)) in &mut keys {
                let stamp = has.get(key).copied().unwrap_or(Stamp::NONE);
                rebuild.hear(number(*sibling), stamp, Some(*sibling));
            }
        }
        let decided = keys.into_iter().filter_map(|(key, (own, rebuild))| {
            // Nothing that a sibling tells here is about another tablet.
            let hash = tables.hash(self.range.table, &key);
            let hash = hash.filter(|hash| self.range.contains(self.range.table, *hash))?;
            let told = rebuild.newest((own, None))?;
            let (newest, holder) = if !is_by_quorum && own > told.0 { (own, None) } else { told };
            Some(Decided { key, hash, own, newest, holder })
        });
        self.is_complete &= is_by_quorum;
        Ok(Some(Stretch::new(decided, next)))
    }
}
