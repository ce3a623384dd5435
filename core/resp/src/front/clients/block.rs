//! The commands between `MULTI` and `EXEC`, and the keys on which `EXEC` depends.

use crate::front::access::tables::Databases;
use crate::front::config::RespConfig;
use crate::front::refusals::Asked;
use crate::front::request::Args;
use crate::front::together::CrossSlot;
use crate::transaction::Place;
use crate::{Command, Fault, Front, Run};
use ramhold_base::Version;
use ramhold_base::hash::slot_of;

/// Bytes of commands between `MULTI` and `EXEC`.
const QUEUED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes that a queued command takes beside its arguments: its place in a list that doubles, and two blocks
/// of memory.
const QUEUED_BYTES: usize = 2 * size_of::<Queued>() + 32;

/// A command that waits for `EXEC`.
#[derive(Debug)]
pub struct Queued {
    pub row: &'static Command,
    pub args: Args,
    /// The database that the command is for.
    pub db: u16,
}

/// The commands between `MULTI` and `EXEC`.
#[derive(Debug)]
pub struct Multi {
    pub queued: Vec<Queued>,
    /// The database behind the last `SELECT` that was queued.
    db: u16,
    bytes: usize,
    /// A command could not be queued, so `EXEC` will refuse.
    pub is_broken: bool,
}

/// A key that was watched, with the version that it had. `None`: the key was absent.
pub type Watched = (Place, Option<Version>);

#[derive(Debug, Default)]
pub struct Block {
    pub multi: Option<Multi>,
    pub watched: Vec<Watched>,
}

impl Block {
    /// Has `EXEC` refuse, because a command before it was refused.
    pub fn break_multi(&mut self) {
        if let Some(multi) = &mut self.multi {
            multi.is_broken = true;
        }
    }

    /// The error of an `EXEC` that is refused. The refusal ends the transaction.
    pub fn abort(&mut self, fault: &Fault) -> Fault {
        *self = Block::default();
        let why = fault.0.strip_prefix("ERR ").unwrap_or(&fault.0);
        Fault::said(format!("EXECABORT Transaction discarded because of: {why}"))
    }
}

impl Multi {
    /// A transaction that begins in this database.
    pub fn new(db: u16) -> Multi {
        Multi { queued: Vec::new(), db, bytes: 0, is_broken: false }
    }

    pub fn db(&self) -> u16 {
        self.db
    }

    /// Puts a command into the queue, or says why `EXEC` could not carry it out.
    pub fn queue(
        &mut self,
        config: &RespConfig,
        databases: &Databases,
        row: &'static Command,
        args: &[&[u8]],
    ) -> Result<(), Fault> {
        let queued = match row.run {
            Run::Keys(_) | Run::Fast(..) if databases.is_quorum(self.db) => {
                Err(Asked { row, args, db: self.db }.multi_fault(config))
            }
            Run::Keys(_) | Run::Fast(..) | Run::Front(_) | Run::Container(_) => {
                self.try_queue(row, args, config.cross_slot)
            }
        };
        self.is_broken |= queued.is_err();
        if let (Run::Front(Front::Select), Ok(db)) = (row.run, config.database_of(args[args.len() - 1])) {
            self.db = db;
        }
        queued
    }

    fn try_queue(
        &mut self,
        row: &'static Command,
        args: &[&[u8]],
        cross_slot: CrossSlot,
    ) -> Result<(), Fault> {
        let kept = Args::of(args);
        self.bytes += kept.bytes() + QUEUED_BYTES;
        if self.bytes > QUEUED_BYTES_MAX {
            let text = "ERR the commands of a transaction have at most 16777216 bytes";
            return Err(Fault::fixed(text));
        }
        if let Run::Front(front) = row.run
            && !front.is_possible_in_exec()
        {
            return Err(Fault::said(format!("ERR '{}' is not possible inside MULTI", row.name)));
        }
        cross_slot.check(row, args)?;
        self.queued.push(Queued { row, args: kept, db: self.db });
        Ok(())
    }
}

/// Refuses a transaction whose keys, the watched ones among them, have different slots.
pub fn check_slots(cross_slot: CrossSlot, queued: &[Queued], watched: &[Watched]) -> Result<(), Fault> {
    let watched = watched.iter().map(|((_, key), _)| slot_of(key));
    let queued = queued.iter().flat_map(|Queued { row, args, .. }| {
        let args = args.list();
        row.keys.of(&args).map(slot_of).collect::<Vec<u16>>()
    });
    cross_slot.check_slots(watched.chain(queued))
}
