//! Writes and removes objects of several keys in one group: every recovery finds the whole group or nothing of it.
//!
//! A group lies in one segment and under one certificate (docs/protocols/replication.md). All partitions of a recovery
//! replay the head up to the same end, which is the end of a certificate. So even if the entries of a group go to
//! different partitions, the log that they are read from holds all of them.
//!
//! Invariant: when a commit is refused, neither log nor index has changed.
//!
//! Not here: rules and versions (master). Rules: docs/protocols/consistency.md, "Commits".

use crate::index::bucket::What;
use crate::log::{AppendRefusal, Dead, Group, Log, Purpose, Removal, Written, group};
use crate::segment::Slot;
use crate::{Kind, Object, Reference, RpcResult, Tombstone};
use ramhold_base::{KeyHash, StreamId};

/// The effect of a commit on one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change<'a> {
    /// `replaces` is what `lookup` found for the key in the same turn, object or tombstone.
    Write { hash: KeyHash, object: Object<'a>, replaces: Option<Reference> },
    /// `at` is the object that `lookup` found for the key in the same turn.
    Remove { hash: KeyHash, removal: Removal<'a>, at: Reference },
}

/// A change with the entries that must be appended for it.
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
    /// Appends a group to a stream's head: the result, if there is one, then the objects and tombstones of all changes.
    /// Makes the index lead from the keys to them. All keys are different. The new versions are above those that they
    /// replace.
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

    /// Makes the index lead from new keys to the places where their objects will be. Several insertions cannot be
    /// prepared at once. But the places are known already, because there is room for the whole group. If one insertion
    /// finds no room in the index, the insertions before it are taken back.
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
                // Only a group that replaces something has a tombstone, so this object starts the group.
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
