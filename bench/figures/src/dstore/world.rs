//! A simulated cluster: bricks, sessions, the network between them, and a coordinator that describes the table.
//!
//! Everything follows from the seed: the same setting gives the same course on every machine.
//!
//! Not here: what bricks and sessions are (`brick`, `client`), when bricks die (the figures).

use super::brick::Brick;
use super::cache::Cache;
use super::calendar::{Calendar, Event};
use super::client::{Choice, Client, Load, Sent};
use super::machines::{Machine, PAPER};
use super::measure::Measures;
use super::names::{CLUSTER, COORDINATOR, DATE, TABLE, address, date, place_of};
use super::shelf::{Key, Values};
use super::tablets::{Tablet, even};
use ramhold_base::hash::{PlacementHasher, PlacementSeed};
use ramhold_base::{ConnId, Input, Instant, KeyHash, Lost, Stamp, Status};
use ramhold_wire::control::encode_into;
use ramhold_wire::membership::Durability;
use ramhold_wire::quorum::{QuorumOptions, WriteProtocol};
use ramhold_wire::table::{TableDescription, TableOptions};
use ramhold_wire::{Opcode, frame};
use std::sync::Arc;
use std::time::Duration;

const SEED: PlacementSeed = PlacementSeed(5);
/// Superseded stamps are forgotten after this, as at a brick.
const HORIZON_MICROS: u64 = ramhold_quorum::HORIZON.as_micros() as u64;
/// The pause between two announcements.
pub const ANNOUNCE: Duration = Duration::from_millis(500);

/// The simulated setting.
#[derive(Clone, Debug)]
pub struct Setting {
    pub machine: Machine,
    pub bricks: usize,
    /// Bricks that hold nothing yet, beyond these.
    pub spare: usize,
    pub keys: Key,
    pub cache: Cache,
    pub choice: Choice,
    pub sessions: usize,
    /// The load of each session.
    pub load: Load,
    pub value_bytes: u32,
    /// Gets are answered by one brick, with whatever it has.
    pub is_stale: bool,
    pub queue_bytes_max: usize,
    pub protocol: WriteProtocol,
    pub seed: u64,
}

/// The working set of the paper is 1.2 of 2 million keys. Here keys and times are a tenth.
pub const KEYS: Key = 200_000;
pub const WORKING: Key = 120_000;
/// The queues' bytes by default: far beyond what the sessions' windows let in.
pub const QUEUE_BYTES: usize = 256 << 20;

impl Setting {
    /// The paper's load for groups of three bricks: for each, four sessions with so many closed-loop clients together.
    pub fn closed(bricks: usize, (gets, puts): (usize, usize), hit: u64, seed: u64) -> Setting {
        let sessions = bricks / 3 * SESSIONS;
        let load = Load::Closed { gets: gets / SESSIONS, puts: puts / SESSIONS, think: Duration::ZERO };
        Setting {
            machine: PAPER,
            bricks,
            spare: 0,
            keys: KEYS,
            cache: Cache::induced(WORKING),
            choice: Choice::Induced { hit, working: WORKING, count: KEYS },
            sessions,
            load,
            value_bytes: 1024,
            is_stale: false,
            queue_bytes_max: QUEUE_BYTES,
            protocol: WriteProtocol::Adaptive,
            seed,
        }
    }
}

/// Sessions for each three bricks.
pub const SESSIONS: usize = 4;

/// The hash of each key.
pub fn hashes(keys: Key) -> Vec<KeyHash> {
    let hasher = PlacementHasher::new(SEED);
    (0..keys).map(|key| hasher.hash(&key.to_le_bytes())).collect()
}

pub struct World {
    pub calendar: Calendar,
    pub bricks: Vec<Brick>,
    pub clients: Vec<Client>,
    pub measures: Measures,
    pub tablets: Vec<Tablet>,
    pub hashes: Arc<Vec<KeyHash>>,
    machine: Machine,
    protocol: WriteProtocol,
}

impl World {
    pub fn new(setting: &Setting) -> World {
        let hashes = Arc::new(hashes(setting.keys));
        let stamp = Stamp { time: DATE - 1_000_000, session: 2 };
        let bricks = (0..setting.bricks + setting.spare).map(|place| {
            let values = Values::new(setting.keys, (setting.value_bytes, stamp));
            let of = (setting.machine, setting.queue_bytes_max);
            Brick::new(place, of, hashes.clone(), (values, setting.cache.clone()))
        });
        let clients = (0..setting.sessions).map(|place| {
            let seed = setting.seed.wrapping_mul(1_000_003).wrapping_add(place as u64 + 1);
            let of = (setting.load, setting.choice.clone());
            Client::new(place, of, (setting.value_bytes, setting.is_stale), seed)
        });
        let mut world = World {
            calendar: Calendar::default(),
            bricks: bricks.collect(),
            clients: clients.collect(),
            measures: Measures::default(),
            tablets: even(setting.bricks / 3, 3),
            hashes,
            machine: setting.machine,
            protocol: setting.protocol,
        };
        // Instants of zero are none.
        world.calendar.now = Instant(1);
        world.assign();
        let World { calendar, clients, .. } = &mut world;
        clients.iter_mut().for_each(|client| client.begin(calendar));
        calendar.note(calendar.now + ANNOUNCE, Event::Announce);
        world
    }

    /// Other clients take the place of all that are there. The operations that these have under way are dropped.
    pub fn replace_clients(&mut self, setting: &Setting) {
        let begin = self.clients.len();
        self.clients.iter_mut().for_each(Client::retire);
        for place in begin..begin + setting.sessions {
            let seed = setting.seed.wrapping_mul(1_000_003).wrapping_add(place as u64 + 1);
            let of = (setting.load, setting.choice.clone());
            let mut client = Client::new(place, of, (setting.value_bytes, setting.is_stale), seed);
            client.begin(&mut self.calendar);
            self.clients.push(client);
        }
    }

    pub fn now(&self) -> Instant {
        self.calendar.now
    }

    /// Tells the bricks which tablets they hold.
    pub fn assign(&mut self) {
        let lives: Vec<u64> = self.bricks.iter().map(|brick| brick.life).collect();
        for brick in &mut self.bricks {
            brick.hold(&self.tablets, &lives);
        }
    }

    /// Goes on until a second, and calls `announced` at every announcement.
    pub fn run_with(&mut self, second: u64, announced: &mut dyn FnMut(&mut World)) {
        let end = Instant(second * 1_000_000_000);
        while let Some(event) = self.calendar.next(end) {
            if self.happen(event) {
                announced(self);
            }
        }
    }

    pub fn run(&mut self, second: u64) {
        self.run_with(second, &mut |_| {});
    }

    /// Whether bricks announce themselves now.
    fn happen(&mut self, event: Event) -> bool {
        let World { calendar, bricks, clients, measures, .. } = self;
        match event {
            Event::Asked { brick, session, frame } => {
                let brick = &mut bricks[brick];
                if brick.is_up {
                    brick.on_frame(calendar, session, &frame);
                } else {
                    let lost = Event::Lost { session, addr: address(brick.place), how: Lost::Refused };
                    calendar.note(calendar.now + self.machine.wire, lost);
                }
            }
            Event::Told { session, frame } => {
                let input = Input::Frame { from: ConnId(1), bytes: &frame };
                let sent = clients[session].step(calendar, input, measures);
                self.send(session, sent);
            }
            Event::Lost { session, addr, how } => {
                let sent = clients[session].step(calendar, Input::Lost { addr, how }, measures);
                self.send(session, sent);
            }
            Event::Tick { session } => {
                let sent = clients[session].on_tick(calendar, measures);
                self.send(session, sent);
            }
            Event::Begin { session, lane } => {
                let sent = clients[session].on_begin(calendar, lane, measures);
                self.send(session, sent);
            }
            Event::Worked { brick, life } => {
                let brick = &mut bricks[brick];
                if brick.is_up && brick.life == life {
                    brick.on_worked(calendar);
                }
            }
            Event::Turned { brick, life } => {
                let brick = &mut bricks[brick];
                if brick.is_up && brick.life == life {
                    brick.on_turned(calendar);
                }
            }
            Event::Announce => {
                let bound = date(calendar.now).saturating_sub(HORIZON_MICROS);
                bricks.iter_mut().for_each(|brick| brick.values.forget(bound));
                calendar.note(calendar.now + ANNOUNCE, Event::Announce);
                return true;
            }
        }
        false
    }

    fn send(&mut self, session: usize, sent: Vec<Sent>) {
        let at = self.calendar.now + self.machine.wire;
        for (to, frame) in sent {
            if to == COORDINATOR {
                let answer = self.described(&frame);
                self.calendar.note(at + self.machine.wire, Event::Told { session, frame: answer });
            } else if let Some(brick) = place_of(to) {
                self.calendar.note(at, Event::Asked { brick, session, frame });
            }
        }
    }

    /// The coordinator's answer.
    fn described(&self, request: &[u8]) -> Vec<u8> {
        let (header, _) = frame::parse(request).expect("sessions send frames");
        let is_wanted = header.opcode() == Some(Opcode::TableDescribe);
        let status = if is_wanted { Status::Ok } else { Status::Unsupported };
        let mut answer = header.answer(status);
        answer.cluster = CLUSTER;
        let quorum = QuorumOptions { bricks: 3, write: 2, read: 2, protocol: self.protocol };
        let description = TableDescription {
            shortage: None,
            table: TABLE,
            name: "table".into(),
            options: TableOptions {
                durability: Durability::Synced,
                replicas: 0,
                tablets: 1,
                slots: false,
                zone: None,
                quorum: Some(quorum),
            },
            seed: SEED,
            tablets: Vec::new(),
            reclassing: 0,
            outside: None,
            quorum: Some(self.tablets.iter().map(Tablet::described).collect()),
            zones: None,
        };
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &answer, |out| {
            if is_wanted {
                encode_into(out, &description);
            }
        });
        bytes
    }

    /// The table has other tablets from now on. Sessions hear of it from the bricks.
    pub fn change(&mut self, tablets: Vec<Tablet>) {
        self.tablets = tablets;
        self.assign();
    }

    /// A brick has copied what it lacks of its tablets, the newest of each key from all others.
    pub fn copied(&mut self, place: usize) {
        let missing = self.bricks[place].missing();
        let mut values = std::mem::replace(&mut self.bricks[place].values, Values::new(0, (0, Stamp::NONE)));
        for tablet in missing {
            let keys: Vec<Key> = (0..)
                .zip(self.hashes.iter())
                .filter(|(_, hash)| tablet.has(**hash))
                .map(|(key, _)| key)
                .collect();
            for other in self
                .bricks
                .iter()
                .filter(|other| other.place != place && tablet.bricks.contains(&other.place))
            {
                keys.iter().for_each(|key| values.copy(&other.values, *key));
            }
        }
        self.bricks[place].values = values;
        self.bricks[place].is_copied(self.calendar.now);
    }

    /// Kills a brick's process.
    pub fn kill(&mut self, place: usize) {
        let World { calendar, bricks, clients, .. } = self;
        bricks[place].kill(calendar.now);
        for client in clients {
            calendar.note(calendar.now + self.machine.wire, client.broken(place));
        }
    }

    /// Starts it again. Its siblings hear of its life at once, and it of theirs. With `stamps_lost` stamps are loaded one by
    /// one from then on.
    pub fn start(&mut self, place: usize, stamps_lost: bool) {
        let count = self.hashes.len() as u32;
        let now = self.calendar.now;
        let brick = &mut self.bricks[place];
        brick.start(now);
        if stamps_lost {
            brick.cache.lose_stamps(count);
        }
        self.assign();
        let life = self.bricks[place].life;
        self.bricks.iter_mut().filter(|it| it.place != place).for_each(|it| it.hear_of(place, life));
    }
}
