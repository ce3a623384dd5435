//! One seed, from birth to verdict. A system comes up, and clients work while faults strike. Then everything
//! heals, all is read back, and the history is judged.
//!
//! Safety is judged over all answers that clients got. Liveness is judged by bounds on the time after the
//! last fault.
//!
//! Not here: which system (system), which faults (fault), which outcomes are right (checker). Catalogue: J3.

mod roles;

use crate::checker::registers::{self, Registers};
use crate::checker::search::{Searched, second_opinion};
use crate::checker::{Seen, Verdict, bind, version_witness};
use crate::client::{Client, SharedHistory, Task};
use crate::fault::bricks::BrickFaults;
use crate::fault::{Faults, Swarm};
use crate::history::{Operation, Outcome};
use crate::network::{MILLI, SECOND};
use crate::system::{Role, Session, System};
use crate::watch::{self, Watch};
use crate::world::{Clock, Exit, Log, NodeOptions, World};
use ramhold_base::{Machine, Rng, Status};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

/// The process or client of a host.
pub enum Actor<P: Machine, S: Session> {
    Process(Box<P>),
    Client(Box<Client<S>>),
}

/// By how much the clocks of processes run too fast or too slow.
pub const RATE_PPM_MAX: u32 = 200;

/// The longest time for which a server retries a request of a client of another protocol.
const STRAY_MAX: u64 = 12 * SECOND;

/// Sixteenths of a long run in which bricks have no faults of their own.
const BRICKS_REST: u64 = 7;
/// The largest values, and the longest pauses of clients, in such a run.
const REST_VALUE_BYTES: u64 = 1500;
const REST_THINK_MAX: u64 = 20 * MILLI;

/// The faults that the system meets while clients work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Course {
    /// Faults that are drawn at random, for `fault_time`.
    Faults,
    /// A server dies, and at a drawn step of its recovery another one that has a role in it.
    Roles,
}

/// The length of a run, in simulated nanoseconds, and its limits.
#[derive(Clone, Debug)]
pub struct Plan {
    pub course: Course,
    pub fault_time: u64,
    /// In the second half bricks have no faults of their own for `BRICKS_REST` of 16 parts of the time, and the keys of
    /// quorum tables are other ones.
    pub bricks_rest: bool,
    /// From birth to the first operation that is done.
    pub birth_max: u64,
    /// From the last fault until every client has had an operation done again.
    pub heal_max: u64,
    /// For reading everything back.
    pub read_back_max: u64,
    /// For coming to rest after that.
    pub settle_max: u64,
    /// For reading everything back once more, when some servers are dead for good.
    pub bereaved_max: u64,
    /// For serving everything that dead servers had, while at most two servers are away.
    pub recovered_max: u64,
}

impl Plan {
    pub fn seconds(seconds: u64) -> Plan {
        Plan {
            course: Course::Faults,
            fault_time: seconds * SECOND,
            bricks_rest: false,
            birth_max: 30 * SECOND,
            heal_max: 60 * SECOND,
            read_back_max: 120 * SECOND,
            settle_max: 240 * SECOND,
            bereaved_max: 20 * SECOND,
            recovered_max: 60 * SECOND,
        }
    }
}

/// The results of one run.
#[derive(Debug)]
pub struct Report {
    pub seed: u64,
    pub history: Vec<Operation>,
    pub verdict: Verdict,
    /// The results of the search for orders of small keys. Disagreements are among the findings.
    pub searched: Searched,
    /// The judgement of quorum tables. Violations are among the verdict's.
    pub registers: Registers,
    /// The greatest difference between the times that processes took for the present, in nanoseconds: the
    /// possible error of expiry.
    pub clock_spread: u64,
    /// Reads that a server answered after it was declared dead, stale or not. It counts how often that hole
    /// was tried.
    pub reads_by_the_dead: u64,
    /// The part of the system that did not recover in time.
    pub stuck: Option<String>,
    /// The disagreements at rest.
    pub findings: Vec<String>,
    pub faults: BTreeMap<&'static str, u64>,
    pub marks: BTreeMap<String, u64>,
    pub crash_points: BTreeMap<String, u64>,
    pub exits: Vec<Exit>,
    pub errors: Vec<String>,
    pub trace: u64,
    pub steps: u64,
    pub simulated: u64,
}

impl Report {
    pub fn failed(&self) -> bool {
        self.stuck.is_some() || !self.findings.is_empty() || !self.verdict.violations.is_empty()
    }
}

/// Runs one seed. `log` gets a line for each notable event.
pub fn run<T: System>(system: &T, seed: u64, plan: &Plan, log: Option<Log>) -> Report {
    let mut scenario = Scenario::new(system, seed, plan, log);
    let mut stuck = scenario.live(plan).err();
    let mut findings = if stuck.is_none() { system.audit(&scenario.world) } else { Vec::new() };
    if stuck.is_none() {
        stuck = scenario.be_bereaved(plan.bereaved_max).err();
    }
    let Scenario { world, history, watch, .. } = scenario;
    let (mut torn, mut seen) = (Vec::new(), Seen::default());
    let history = bind(&history.borrow(), &mut torn, &mut seen);
    let deaths = system.deaths(&world);
    let clock_spread = system.clock_spread(&world);
    let mut verdict = version_witness(&history, clock_spread);
    (verdict.seen.commits, verdict.seen.commits_bound) = (seen.commits, seen.commits_bound);
    let searched = second_opinion(&history, &verdict, clock_spread);
    // These are about several keys. The search, which looks at one key, cannot judge them.
    let (wrong, judged) = registers::check(&history, clock_spread);
    verdict.violations.extend(torn.into_iter().chain(wrong));
    findings.extend(searched.disagreements.iter().cloned());
    findings.extend(watch.reads_of_the_dead(&history));
    findings.extend(watch.findings);
    let late = |o: &&Operation| o.answered_by.and_then(|s| deaths.get(&s)).is_some_and(|died| *died < o.ret);
    let reads_by_the_dead = history.iter().filter(late).count() as u64;
    Report {
        seed,
        history,
        verdict,
        searched,
        registers: judged,
        clock_spread,
        reads_by_the_dead,
        stuck,
        findings,
        faults: world.faults.clone(),
        marks: world.marks.clone(),
        crash_points: world.crash_points.clone(),
        exits: world.exits.clone(),
        errors: world.errors.clone(),
        trace: world.trace.hash(),
        steps: world.steps,
        simulated: world.now(),
    }
}

struct Scenario<'a, T: System> {
    system: &'a T,
    seed: u64,
    rng: Rng,
    world: World<Actor<T::Process, T::Session>>,
    history: SharedHistory,
    servers: Vec<usize>,
    coordinators: Vec<usize>,
    bricks: Vec<usize>,
    clients: Vec<usize>,
    swarm: Swarm,
    watch: Watch,
}

impl<'a, T: System> Scenario<'a, T> {
    fn new(system: &'a T, seed: u64, plan: &Plan, log: Option<Log>) -> Scenario<'a, T> {
        let mut rng = Rng::new(seed ^ 0x5EED_0000_0000_0000);
        let swarm = Swarm::draw(&mut rng, system.tolerance());
        let mut workload = system.workload(&mut rng);
        if plan.bricks_rest {
            // Both halves have their keys, which take no more memory together. Their logs turn over all the time.
            workload.register_keys = workload.register_keys.div_ceil(2);
            workload.register_span = plan.fault_time / 2;
            workload.value_bytes_max = REST_VALUE_BYTES;
            workload.think_max = workload.think_max.min(REST_THINK_MAX);
            workload.removes = workload.removes.max(1);
        }
        let calm = crate::network::NetworkOptions::calm();
        let mut world = World::new(rng.u64(), calm);
        world.log = log;
        world.costs = swarm.costs.clone();
        world.hears_bytes = system.hears_bytes();
        let (mut servers, mut coordinators, mut bricks, mut clients) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for member in system.members() {
            let mut make = system.processes(&member);
            let clock = Clock {
                origin: rng.between(SECOND, 1000 * SECOND),
                since: world.now(),
                rate_ppm: rng.between(0, 2 * u64::from(RATE_PPM_MAX)) as i32 - RATE_PPM_MAX as i32,
                wall_skew_millis: rng.between(0, 20_000) as i64 - 10_000,
            };
            let skew = system.wall_skew(Some(&member));
            let clock = Clock { wall_skew_millis: skew.unwrap_or(clock.wall_skew_millis), ..clock };
            let mut options = NodeOptions {
                clock,
                supervised: true,
                links: member.links.clone(),
                ..NodeOptions::plain(member.name.clone(), member.addr)
            };
            options.disks.options = member.disk.clone();
            let node = world.add_node(options, move |life| Actor::Process(Box::new(make(life))));
            match member.role {
                Role::Coordinator => coordinators.push(node),
                Role::Server => servers.push(node),
                Role::Brick => bricks.push(node),
            }
        }
        world.network.cables = system.cables(&servers);
        let history: SharedHistory = Rc::new(RefCell::new(Vec::new()));
        let next_number = Rc::new(Cell::new(1));
        for index in 0..workload.clients {
            let addr = SocketAddr::from(([10, 9, 0, index as u8 + 1], 1));
            // One maker for all lives of the client, so that sessions of different lives differ.
            let shared = Rc::new(RefCell::new(system.sessions()));
            let (history, workload, numbers) = (history.clone(), workload.clone(), next_number.clone());
            let plain = NodeOptions::plain(format!("client {index}"), addr);
            let skew = system.wall_skew(None).unwrap_or_default();
            let clock = Clock { wall_skew_millis: skew, ..plain.clock };
            let node = world.add_node(NodeOptions { clock, ..plain }, move |life| {
                let number = numbers.get();
                numbers.set(number + 1);
                let shared = shared.clone();
                let make = Box::new(move |seed| (shared.borrow_mut())(seed));
                let client = Client::new(number, life.seed, workload.clone(), make, history.clone());
                Actor::Client(Box::new(client))
            });
            clients.push(node);
        }
        let watch = Watch::default();
        let mut scenario = Scenario {
            system,
            seed,
            rng,
            world,
            history,
            servers,
            coordinators,
            bricks,
            clients,
            swarm,
            watch,
        };
        match plan.course {
            Course::Faults => scenario.arm_birth(),
            Course::Roles => {}
        }
        scenario
    }

    /// Half of the systems lose a process at a named crash point while they come up.
    fn arm_birth(&mut self) {
        if self.rng.chance(1, 2) {
            return;
        }
        let (nodes, role) = if self.rng.chance(1, 4) {
            (&self.coordinators, Role::Coordinator)
        } else {
            (&self.servers, Role::Server)
        };
        let mut points = self.system.crash_points(role);
        // Tablets are taken only while a system comes up, so that point needs a share of its own.
        if points.contains(&"tablet_taken") && self.rng.chance(1, 4) {
            points = vec!["tablet_taken"];
        }
        if let Some(point) = self.rng.pick(&points)
            && let Some(node) = self.rng.pick(nodes).copied()
        {
            self.world.crash_at(node, point);
            for second in 1..10 {
                self.world.restart_at(node, second * SECOND);
            }
        }
    }

    fn live(&mut self, plan: &Plan) -> Result<(), String> {
        self.come_up(plan.birth_max)?;
        match plan.course {
            Course::Faults => self.suffer(plan),
            Course::Roles => self.play_roles(plan)?,
        }
        self.heal(plan.heal_max)?;
        self.read_back(plan.read_back_max)?;
        self.settle(plan.settle_max)
    }

    /// Some servers die at once and stay dead. Everything that can be read must be served, whether R replicas
    /// are possible or not.
    fn be_bereaved(&mut self, limit: u64) -> Result<(), String> {
        // A rotten replica is found only when it is read, so it may be the only one that is left.
        let rotten = usize::from(self.world.faults.contains_key("bit rot"));
        let most = self.system.may_stay_dead().saturating_sub(rotten);
        let bricks = self.system.brick_tolerance().map_or(0, |tolerance| tolerance.may_stay_dead);
        if most + bricks == 0 {
            return Ok(());
        }
        // Operations that their clients have given up may still be under way at a server that retries them.
        let now = self.world.now();
        self.world.run_until(now + STRAY_MAX);
        let count = if most == 0 { 0 } else { self.rng.between(1, most as u64) as usize };
        let mut living = self.servers.clone();
        for _ in 0..count {
            let node = living.remove(self.rng.below(living.len() as u64) as usize);
            self.world.crash(node);
        }
        let mut whole = self.bricks.clone();
        for _ in 0..bricks {
            let node = whole.remove(self.rng.below(whole.len() as u64) as usize);
            self.world.crash(node);
        }
        self.world.note_fault("dead for good", living[0]);
        let dead = format!("{count} servers and {bricks} bricks are dead for good");
        self.read_back(limit).map_err(|why| format!("{dead}: {why}"))
    }

    fn settle(&mut self, limit: u64) -> Result<(), String> {
        let end = self.world.now() + limit;
        while let Some(what) = self.system.unsettled(&self.world) {
            if self.world.now() > end {
                return Err(format!("not at rest {} s after the last operation: {what}", limit / SECOND));
            }
            let now = self.world.now();
            self.world.run_until(now + 100 * MILLI);
        }
        Ok(())
    }

    fn come_up(&mut self, limit: u64) -> Result<(), String> {
        let history = self.history.clone();
        let up = self.world.run_while(limit, |_| !history.borrow().iter().any(is_answered));
        if up { Ok(()) } else { Err(format!("no operation was done within {} s of birth", limit / SECOND)) }
    }

    fn suffer(&mut self, plan: &Plan) {
        let time = plan.fault_time;
        let (begin, end) = (self.world.now(), self.world.now() + time);
        let mut rest_at = plan.bricks_rest.then_some(begin + time / 2);
        self.world.network.options = self.swarm.network.clone();
        self.world.store_failure_ppm = self.swarm.store_failure_ppm;
        for node in &self.servers {
            let disk = &mut self.world.disks_mut(*node).options;
            disk.read_error_ppm = self.swarm.read_error_ppm;
            disk.sync_error_ppm = self.swarm.sync_error_ppm;
        }
        let mut faults = Faults::new(
            self.swarm.clone(),
            self.rng.u64(),
            self.world.now(),
            self.servers.clone(),
            self.coordinators.clone(),
            self.clients.clone(),
        );
        faults.bricks = self.bricks.clone();
        let mut of_bricks = self.system.brick_tolerance().map(|tolerance| {
            let (seed, swarm) = (self.rng.u64(), self.swarm.clone());
            BrickFaults::new((tolerance, swarm), seed, self.world.now(), (&self.bricks, &self.clients))
        });
        faults.begin(self.system, &mut self.world);
        loop {
            let due = of_bricks.as_ref().map_or(faults.due(), |it| it.due().min(faults.due()));
            if due >= end {
                break;
            }
            self.run_until(due);
            faults.act(self.system, &mut self.world);
            if let Some(of_bricks) = &mut of_bricks {
                if rest_at.take_if(|at| *at <= self.world.now()).is_some() {
                    of_bricks.rest_until(begin + time / 2 + time / 16 * BRICKS_REST);
                }
                of_bricks.act(self.system, &mut self.world);
            }
        }
        self.run_until(end);
        faults.end(self.system, &mut self.world);
    }

    /// Runs the world up to `time`, and checks the rules of every moment now and then.
    fn run_until(&mut self, time: u64) {
        while self.world.now() < time {
            let next = (self.world.now() + watch::INTERVAL).min(time);
            self.world.run_until(next);
            self.system.watch(&self.world, &mut self.watch);
        }
    }

    /// Waits until every client has done an operation that began after the last fault.
    fn heal(&mut self, limit: u64) -> Result<(), String> {
        let healed_at = self.world.now();
        let wanted: BTreeSet<u32> =
            self.clients.iter().filter_map(|node| self.client_number(*node)).collect();
        let mut missing = wanted;
        let mut from = self.history.borrow().iter().take_while(|o| o.call < healed_at).count();
        while !missing.is_empty() {
            if self.world.now() > healed_at + limit {
                return Err(format!(
                    "{} s after the last fault client(s) {missing:?} get nothing done",
                    limit / SECOND
                ));
            }
            let now = self.world.now();
            self.run_until(now + 50 * MILLI);
            let history = self.history.borrow();
            let full = Outcome::Refused { status: Status::OutOfMemory };
            // An operation that a scan records counts from the scan's beginning, and stands behind operations
            // that began later.
            let is_served = |o: &&Operation| {
                let is_new = o.call >= healed_at;
                is_new && (is_answered(o) || (self.system.is_tight() && o.outcome == full))
            };
            for operation in history[from..].iter().filter(is_served) {
                missing.remove(&operation.client);
            }
            // Open operations may be answered later: begin again at the first of them.
            from += history[from..].iter().position(|o| !is_answered(o)).unwrap_or(history.len() - from);
        }
        Ok(())
    }

    fn read_back(&mut self, limit: u64) -> Result<(), String> {
        let begun_at = self.world.now();
        let end = begun_at + limit;
        self.set_tasks(|_| Task::Rest);
        self.wait_for_rest(end, "finish what they began")?;
        let keys: BTreeSet<u32> =
            self.history.borrow().iter().filter(|o| o.may_mutate()).map(|o| o.key).collect();
        let count = self.clients.len();
        let mut parts = vec![VecDeque::new(); count];
        for (index, key) in keys.iter().enumerate() {
            parts[index % count].push_back(*key);
        }
        self.set_tasks(|index| Task::ReadBack(parts[index].clone()));
        self.wait_for_rest(end, "read everything back")?;
        let history = self.history.borrow();
        let read = history.iter().filter(|o| o.call >= begun_at && is_answered(o)).map(|o| o.key);
        let read: BTreeSet<u32> = read.collect();
        assert!(keys.is_subset(&read), "a key was not read back");
        Ok(())
    }

    fn set_tasks(&mut self, task: impl Fn(usize) -> Task) {
        for index in 0..self.clients.len() {
            let node = self.clients[index];
            if let Some(Actor::Client(client)) = self.world.machine_mut(node) {
                client.set_task(task(index));
            }
            self.world.nudge(node);
        }
    }

    fn wait_for_rest(&mut self, end: u64, what: &str) -> Result<(), String> {
        let clients = self.clients.clone();
        let rests = |node: usize, world: &World<Actor<T::Process, T::Session>>| match world.machine(node) {
            Some(Actor::Client(client)) => client.is_at_rest(),
            Some(Actor::Process(_)) | None => true,
        };
        let done = self.world.run_while(end, |world| !clients.iter().all(|node| rests(*node, world)));
        if done {
            return Ok(());
        }
        let system = self.system.unsettled(&self.world).unwrap_or_else(|| "it is at rest".into());
        Err(format!("clients could not {what} in time; of the system: {system}"))
    }

    fn client_number(&self, node: usize) -> Option<u32> {
        match self.world.machine(node) {
            Some(Actor::Client(client)) => Some(client.number()),
            Some(Actor::Process(_)) | None => None,
        }
    }
}

/// Whether the outcome told the client something about the object.
fn is_answered(operation: &Operation) -> bool {
    match operation.outcome {
        Outcome::Found { .. }
        | Outcome::Seen { .. }
        | Outcome::Absent
        | Outcome::Done { .. }
        | Outcome::Acknowledged
        | Outcome::Counted { .. }
        | Outcome::Summed { .. }
        | Outcome::Scanned
        | Outcome::MetTwice
        | Outcome::ConditionFailed { .. } => true,
        Outcome::Refused { .. } | Outcome::Unknown => false,
    }
}
