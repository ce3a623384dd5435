//! Objects of several keys written and removed in one group: in every recovery all of it is there or nothing.
//!
//! A group lies in one segment and under one certificate (docs/protocols/replication.md), and all partitions of a
//! recovery replay the head up to the same end, which is that of a certificate. So wherever its entries go, they go from
//! a log that holds them all.
//!
//! Invariant: when a commit is refused, neither log nor index has changed.
//!
//! Not here: rules and versions (master). Rules: docs/protocols/consistency.md, "Commits".

use crate::index::bucket::What;
use crate::log::{AppendRefusal, Dead, Group, Log, Purpose, Removal, Written, group};
use crate::segment::Slot;
use crate::{Kind, Object, Reference, RpcResult, Tombstone};
use ramhold_base::{KeyHash, StreamId};

/// What a commit does to one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change<'a> {
    /// `replaces` is what `lookup` found for the key in the same turn, object or tombstone.
    Write { hash: KeyHash, object: Object<'a>, replaces: Option<Reference> },
    /// `at` is the object that `lookup` found for the key in the same turn.
    Remove { hash: KeyHash, removal: Removal<'a>, at: Reference },
}

/// A change with what has to be appended for it.
enum Planned<'a> {
    Write { hash: KeyHash, group: Group<'a>, dead: Option<Dead> },
    Remove { hash: KeyHash, tombstone: Tombstone<'a>, dead: Dead },
}

impl Planned<'_> {
    fn bytes(&self) -> usize {
        match self {
            Planned::Write { group, .. } => group.bytes(),
            Planned::Remove { tombstone, .. } => tombstone.entry_bytes(),
        }
    }
}

impl Log {
    /// Appends what is written and removed, after the result if there is one, as one group to a stream's head, and leads
    /// the keys to it. The keys are different ones; their versions are above those of what they replace.
    pub fn commit(
        &mut self,
        stream: StreamId,
        purpose: Purpose,
        changes: &[Change<'_>],
        result: Option<&RpcResult>,
    ) -> Result<Written, AppendRefusal> {
        let head = self.head(stream).ok_or(AppendRefusal::HeadFull)?;
        let planned: Vec<Planned<'_>> = changes.iter().map(|change| self.plan(stream, change)).collect();
        let result_bytes = result.map_or(0, RpcResult::entry_bytes);
        let bytes = result_bytes + planned.iter().map(Planned::bytes).sum::<usize>();
        self.admit(head, bytes, self.floor(purpose))?;
        self.lead_new_keys(head, result_bytes, &planned)?;

        // From here on nothing can fail.
        if let Some(result) = result {
            self.append_result(head, result);
        }
        let mut written = None;
        for planned in &planned {
            written = Some(match planned {
                Planned::Write { hash, group, dead } => self.append_object(head, *hash, group, dead.as_ref()),
                Planned::Remove { hash, tombstone, dead } => {
                    self.append_removal(head, *hash, tombstone, dead)
                }
            });
        }
        Ok(written.expect("a commit changes something"))
    }

    fn plan<'a>(&self, stream: StreamId, change: &Change<'a>) -> Planned<'a> {
        match change {
            Change::Write { hash, object, replaces } => {
                let dead = replaces.map(|at| self.dead(at));
                if let Some(dead) = &dead {
                    assert!(dead.version < object.version, "a key's version only grows");
                    assert!(self.memory.segments.at(dead.slot).stream == stream, "a key stays in one stream");
                }
                let group = group(object, dead.as_ref());
                Planned::Write { hash: *hash, group, dead }
            }
            Change::Remove { hash, removal, at } => {
                let dead = self.dead(*at);
                assert!(dead.kind == Kind::Object);
                assert!(dead.version < removal.version, "a key's version only grows");
                assert!(self.memory.segments.at(dead.slot).stream == stream, "a key stays in one stream");
                let Removal { table, key, version, time } = *removal;
                let tombstone = Tombstone { table, version, time, segments: dead.names(), key };
                Planned::Remove { hash: *hash, tombstone, dead }
            }
        }
    }

    /// Leads the keys that are new to where their objects will be. Several insertions at once cannot be prepared for; but
    /// their places are known, since there is room for all, and what was led there is taken back if one finds no place.
    fn lead_new_keys(
        &mut self,
        head: Slot,
        result_bytes: usize,
        planned: &[Planned<'_>],
    ) -> Result<(), AppendRefusal> {
        let mut offset = self.memory.segments.at(head).len_bytes + result_bytes as u32;
        let mut led: Vec<(u64, Reference)> = Vec::new();
        for planned in planned {
            if let Planned::Write { hash, group, dead: None } = planned {
                let place = self.place(group.table, *hash);
                if self.index.prepare(place).is_err() {
                    led.iter().for_each(|(place, at)| self.index.remove(*place, *at));
                    self.memory.unreserve(head);
                    return Err(AppendRefusal::OutOfMemory);
                }
                // A group has a tombstone only where something is replaced.
                let at = self.memory.reference(head, offset);
                self.index.insert(place, What::Object, at);
                self.note_new_key(group.table, *hash);
                led.push((place, at));
            }
            offset += planned.bytes() as u32;
        }
        Ok(())
    }
}
