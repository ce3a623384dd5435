//! Bricks: their names, and their hellos.
//!
//! A brick tells once a second that it is there, and is answered with what it is to have, where its siblings are, and the
//! time. The coordinator never asks a brick, and no brick waits for the coordinator. So no verdict is given on a brick: one
//! that was not heard for `BRICK_SILENCE` gets no new tablet, and nobody waits for it. A brick that has no id yet gets one,
//! and counts as heard when it names itself: a process that dies before that holds nothing.
//!
//! Invariants:
//! - an id is stored before it is told, and is never also that of a server;
//! - a brick that was heard under a life is not heard under an earlier one.
//!
//! Not here: the tables of bricks (`quorum_tables`), how far bricks have taken them (`taking`).
//! Protocol: docs/protocols/quorum.md. Catalogue: I1, I6.

use crate::assignment::{assign_anew, assignment, places, siblings};
use crate::claims::{are_labels, is_address};
use crate::clock::millis;
use crate::desk::Desk;
use crate::leading::{next_in_tables, others, told_bricks};
use crate::records::{BrickRecord, Key};
use crate::stalls::Moves;
use crate::state::State;
use ramhold_base::limits::{BRICK_TABLET_COUNT_MAX, SERVER_COUNT_MAX};
use ramhold_base::{Instant, Level, Peer, ServerId, Status};
use ramhold_wire::Header;
pub(crate) use ramhold_wire::bricks::BRICK_SILENCE;
use ramhold_wire::bricks::{BRICK_WEIGHT_MAX, BrickHello, BrickWelcome, TabletLoad};
use ramhold_wire::obstacle::Obstacle;
use std::collections::BTreeMap;

/// The bricks that were heard since this coordinator's start.
#[derive(Debug)]
pub(crate) struct Bricks {
    heard: BTreeMap<ServerId, Heard>,
    /// The highest id that was named and not given out by this state; each is reported once.
    stranger: ServerId,
    pub wake_at: Instant,
    /// When orders to add or remove bricks are looked at.
    pub scale_at: Instant,
    /// The reason why each order to add or remove a brick waits.
    pub waits: BTreeMap<ServerId, Obstacle>,
    pub moves: Moves,
}

/// The last hello of a brick.
#[derive(Debug)]
pub(crate) struct Heard {
    pub at: Instant,
    pub life: u64,
    /// The version of its assignment that is on its device.
    pub taken: u64,
    pub rebuilding: u32,
    /// The part of the tablet that it rebuilds just now, of 1,000.
    pub rebuilt: u16,
    pub used_bytes: u64,
    /// The load of each of its tablets, as last told in this life.
    pub loads: Option<Vec<TabletLoad>>,
    near: Near,
}

/// The bricks that a brick is told of, by its assignment of this version.
#[derive(Debug)]
struct Near {
    version: u64,
    siblings: Vec<ServerId>,
    next: Vec<ServerId>,
}

impl Near {
    fn of(state: &State, brick: ServerId, version: u64) -> Near {
        let siblings = siblings(state, brick).into_iter().collect();
        Near { version, siblings, next: next_in_tables(state, brick).into_iter().collect() }
    }
}

impl Heard {
    pub fn silence_millis(&self, now: Instant) -> u64 {
        millis(now.since(self.at))
    }
}

impl Default for Bricks {
    fn default() -> Bricks {
        Bricks {
            heard: BTreeMap::new(),
            stranger: ServerId::NONE,
            wake_at: Instant::FAR,
            scale_at: Instant::FAR,
            waits: BTreeMap::new(),
            moves: Moves::default(),
        }
    }
}

impl Bricks {
    pub fn on_hello(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        to: Peer,
        header: &Header,
        message: &BrickHello,
    ) -> Result<(), Status> {
        let named = message.token != 0 && !message.directory.is_none();
        let is_weight = |weight: u16| (1..=BRICK_WEIGHT_MAX).contains(&weight);
        let is_sound = is_address(&message.address) && message.weight.is_none_or(is_weight);
        if !named || !are_labels(&message.labels) || !is_sound {
            return Err(Status::BadRequest);
        }
        let id = match message.brick {
            Some(id) => {
                let noted = self.note(now, desk, header, id, message);
                let record = desk.state.bricks.get(&id);
                if let (Err(Status::Retry), Some(record)) = (noted, record) {
                    // Another process is heard there under this name.
                    let address = record.address;
                    desk.outbox.refuse_with(to, header, Status::Retry, &address);
                    return Ok(());
                }
                noted?;
                id
            }
            None => self.name(desk, message)?,
        };
        self.welcome(now, desk, to, header, id, message.taken);
        Ok(())
    }

    pub fn heard(&self, brick: ServerId) -> Option<&Heard> {
        self.heard.get(&brick)
    }

    /// Whether this brick was heard within `BRICK_SILENCE`.
    pub fn is_heard(&self, now: Instant, brick: ServerId) -> bool {
        self.heard.get(&brick).is_some_and(|heard| now < heard.at + BRICK_SILENCE)
    }

    /// An operator says that a brick does not come back.
    pub fn forget(&mut self, brick: ServerId) {
        self.heard.remove(&brick);
    }

    /// Whether a brick has told that it has this version of its assignment on its device.
    pub fn has_taken(&self, brick: ServerId, version: u64) -> bool {
        self.heard.get(&brick).is_some_and(|heard| heard.taken >= version)
    }

    /// The brick that says hello without an id. The same token always gives the same id.
    fn name(&mut self, desk: &mut Desk, message: &BrickHello) -> Result<ServerId, Status> {
        let mut all = desk.state.bricks.values();
        if let Some(known) = all.find(|brick| brick.token == message.token) {
            let is_over = self.heard.get(&known.id).is_some_and(|heard| heard.life > message.life);
            return match known.directory == message.directory {
                true if is_over => Err(Status::Fenced),
                true => Ok(known.id),
                false => Err(Status::NotAllowed),
            };
        }
        // A process that was named and died before it had stored that has the same name under its next token. A brick
        // that was assigned anything is another thing: a directory without an id has forgotten it.
        let is_unused = |brick: &&BrickRecord| {
            brick.directory == message.directory && brick.assigned == 0 && !self.heard.contains_key(&brick.id)
        };
        let unused = desk.state.bricks.values().find(is_unused).map(|brick| brick.id);
        if unused.is_none() && desk.state.bricks.len() >= SERVER_COUNT_MAX {
            return Err(Status::TooMany);
        }
        let id = unused.unwrap_or_else(|| desk.state.meta.servers.next());
        desk.state.meta.servers = desk.state.meta.servers.max(id);
        // From the first brick on a start looks for bricks and for their tables.
        desk.state.meta.assignments = desk.state.meta.assignments.max(1);
        desk.make_index_secret();
        let record = BrickRecord {
            id,
            token: message.token,
            directory: message.directory,
            address: message.address,
            labels: message.labels.clone(),
            log_bytes: message.log_bytes,
            assigned: 0,
            weight: message.weight,
            is_replaced: false,
            supervisor: message.supervisor,
            is_destroyed: false,
            scaling: None,
            is_removed: false,
            ended: None,
        };
        let before = told_bricks(&desk.state);
        desk.state.bricks.insert(id, record);
        desk.bricks_changed(before);
        desk.outbox.touch(Key::Meta);
        desk.outbox.touch(Key::Brick(id));
        let text = format!("{id} is a brick: {} directory {}", message.address.0, message.directory);
        desk.outbox.report(Level::Info, text);
        Ok(id)
    }

    /// A brick has told of itself under its id.
    fn note(
        &mut self,
        now: Instant,
        desk: &mut Desk,
        header: &Header,
        id: ServerId,
        message: &BrickHello,
    ) -> Result<(), Status> {
        let Some(record) = desk.state.bricks.get(&id) else {
            return Err(self.refuse_stranger(desk, header, id));
        };
        if record.directory != message.directory {
            return Err(Status::NotAllowed);
        }
        let before = self.heard.get(&id);
        if before.is_some_and(|before| before.life > message.life) {
            return Err(Status::Fenced);
        }
        // Another process may run on a copy of the directory: the brick that was heard lately goes on.
        let is_elsewhere = record.address != message.address;
        if is_elsewhere && before.is_some_and(|before| now < before.at + BRICK_SILENCE) {
            return Err(Status::Retry);
        }
        let told = (message.address, &message.labels, message.log_bytes, message.weight, message.supervisor);
        let assigned = record.assigned;
        if (record.address, &record.labels, record.log_bytes, record.weight, record.supervisor) != told {
            let before = told_bricks(&desk.state);
            let record = desk.state.bricks.get_mut(&id).expect("it was just found");
            record.address = message.address;
            record.labels.clone_from(&message.labels);
            record.log_bytes = message.log_bytes;
            record.weight = message.weight;
            record.supervisor = message.supervisor;
            desk.outbox.touch(Key::Brick(id));
            desk.bricks_changed(before);
        }
        let told = if message.taken <= assigned { message.taken } else { 0 };
        // Within a life a brick only takes newer ones, but hellos may overtake each other. The votes of an overtaken one
        // are not those of the tablets that the brick has taken.
        let same_life = before.filter(|before| before.life == message.life);
        let taken = same_life.map_or(told, |before| before.taken.max(told));
        let overtaken = same_life.filter(|before| told < before.taken && message.taken <= assigned);
        let rebuilding = overtaken.map_or(message.without_vote, |before| before.rebuilding);
        if before.is_none_or(|before| (before.taken, before.rebuilding) != (taken, rebuilding)) {
            self.wake_at = Instant::ZERO;
            self.scale_at = Instant::ZERO;
        }
        let loads =
            message.loads.as_ref().map(|told| told.iter().take(BRICK_TABLET_COUNT_MAX as usize).copied());
        let loads =
            loads.map(|told| told.collect::<Vec<_>>()).or(same_life.and_then(|before| before.loads.clone()));
        if message.taken > assigned {
            let text = format!(
                "{id} has taken version {} of its assignment, and this coordinator's state gave it {assigned} at most; the \
                 state may be an old copy",
                message.taken
            );
            desk.outbox.report(Level::Warn, text);
            assign_anew(desk, id, message.taken);
        }
        let assigned = desk.state.bricks.get(&id).map_or(0, |record| record.assigned);
        let near = match self.heard.remove(&id) {
            Some(before) if before.near.version == assigned => before.near,
            _ => Near::of(&desk.state, id, assigned),
        };
        let heard = Heard {
            at: now,
            life: message.life,
            taken,
            rebuilding,
            rebuilt: message.rebuilt.unwrap_or(0),
            loads,
            used_bytes: message.used_bytes,
            near,
        };
        self.heard.insert(id, heard);
        Ok(())
    }

    fn refuse_stranger(&mut self, desk: &mut Desk, header: &Header, id: ServerId) -> Status {
        if header.cluster != desk.state.meta.cluster || id <= desk.state.meta.servers {
            return Status::NotInCluster;
        }
        if id > self.stranger {
            self.stranger = id;
            let text = format!(
                "a brick is not welcome: it is {id}, which this coordinator's state has not given out; the state may be \
                 an old copy"
            );
            desk.outbox.report(Level::Warn, text);
        }
        Status::NotReady
    }

    fn welcome(&self, now: Instant, desk: &mut Desk, to: Peer, header: &Header, id: ServerId, taken: u64) {
        let time = desk.time(now);
        let state = &desk.state;
        let record = state.bricks.get(&id).expect("a brick that was noted or named");
        let known = self.heard.get(&id).map(|heard| &heard.near);
        let made;
        let near = match known.filter(|near| near.version == record.assigned) {
            Some(near) => near,
            None => {
                made = Near::of(state, id, record.assigned);
                &made
            }
        };
        let welcome = BrickWelcome {
            cluster: state.meta.cluster,
            brick: id,
            index_secret: state.meta.index_secret,
            time,
            assignment: (taken != record.assigned).then(|| assignment(state, record)),
            siblings: places(state, near.siblings.iter().copied()),
            others: others(state, id, &near.next),
        };
        desk.outbox.reply_with(to, header, &welcome);
    }
}
