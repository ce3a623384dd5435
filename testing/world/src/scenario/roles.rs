//! A server dies under load, and another one dies that has a role in its recovery.
//!
//! A rehearsal plays the seed up to the first death, and notes which steps the recovery really takes: who passes which
//! mark how often. One of these steps, or a moment, is drawn, and the run itself goes the same way up to it. So each
//! place in a recovery is met equally often, however seldom it is passed.
//!
//! Invariants:
//! - at most two servers are away at a time, and at most one host of a run loses its power: with three replicas
//!   everything must be recovered without those that are away;
//! - a rehearsal and its run draw the same until the second death.
//!
//! Not here: the story after the last death, and the checks (scenario). Catalogue: H3, F4, D3, D5.

mod script;

use super::{Plan, Scenario};
use crate::network::{NetworkOptions, SECOND};
use crate::system::{Recovered, Standing, System};
use crate::world::Death;
use ramhold_base::{Rng, ServerId};
use script::{Back, Cast, Cue, Script};
use std::collections::BTreeMap;

/// The passings of marks in a rehearsal, and how long it took.
struct Rehearsal {
    passes: BTreeMap<(usize, String), u64>,
    duration: u64,
}

/// The second server that dies.
struct Second {
    victim: usize,
    cue: Cue,
    /// It has died so long after the first one.
    within: u64,
}

/// Counts the dead servers that were recovered.
const RECOVERED: &str = "role: recovered";
/// Counts the runs by how many servers were away when the last recovery ended: none, one, two.
const AWAY: [&str; 3] =
    ["role: ended with all servers up", "role: ended with one away", "role: ended with two away"];
/// How long the first dead server of a long run stays away: tablets leave a neighbourhood that has been gone for 10 s.
const LONG: u64 = 25 * SECOND;
/// A short run may take this long.
const SHORT_MAX: u64 = 30 * SECOND;

impl<T: System> Scenario<'_, T> {
    /// Plays a recovery in which servers with a role die. Afterwards all servers are up.
    pub(super) fn play_roles(&mut self, plan: &Plan) -> Result<(), String> {
        let script = Script::draw(self.seed);
        let mut rng = Rng::new(script.seed_of_cue);
        let Second { victim, cue, within } = self.choose(plan, &script, &mut rng)?;
        let cast = self.set_out(&script)?;
        let mut dead = vec![cast.id, self.standing(victim)?.id];
        if let Cue::Step(step) = &cue {
            self.world.crash_when(victim, script.second_death, step);
        }
        self.world.note_fault("role: a master died", cast.master);
        self.kill_first(&script, &cast);
        self.reach(&cue, victim, script.second_death, within);
        self.bring_back(victim, script.back);
        dead.extend(self.third_death(&script, &cast, victim, &mut rng)?);
        self.wait_for_recovery(&dead, script.until, plan.recovered_max)?;
        self.end_roles();
        Ok(())
    }

    /// Chooses the second server that dies, and when, by a rehearsal.
    fn choose(&mut self, plan: &Plan, script: &Script, rng: &mut Rng) -> Result<Second, String> {
        let mut rehearsed = Scenario::new(self.system, self.seed, plan, None);
        rehearsed.come_up(plan.birth_max)?;
        let cast = rehearsed.set_out(script)?;
        let Rehearsal { passes, duration } = rehearsed.rehearse(script, &cast);
        let (role, victim) = cast.victim(script, rng);
        self.world.note_fault(role.name(), victim);
        let cue = script.cue(rng, &passes, duration, (victim, &cast));
        Ok(Second { victim, cue, within: duration })
    }

    fn standing(&self, node: usize) -> Result<Standing, String> {
        self.system.standing(&self.world, node).ok_or_else(|| format!("node {node} has no neighbourhoods"))
    }

    /// Clients work for a while, and the server is chosen that is to die first.
    fn set_out(&mut self, script: &Script) -> Result<Cast, String> {
        self.world.network.options =
            if script.is_rough { self.swarm.network.clone() } else { NetworkOptions::calm() };
        let begin = self.world.now() + script.work;
        self.run_until(begin);
        let owns = |node: &usize| {
            let standing = self.system.standing(&self.world, *node)?;
            (standing.tablets > 0 && !standing.neighbourhoods.is_empty()).then_some((*node, standing))
        };
        let mut owners: Vec<(usize, Standing)> = self.servers.iter().filter_map(owns).collect();
        if owners.is_empty() {
            return Err("no server has tablets and neighbourhoods".into());
        }
        let (master, standing) = owners.remove((script.seed_of_cue % owners.len() as u64) as usize);
        let further = |node: &usize| Some((*node, self.system.standing(&self.world, *node)?.neighbourhoods));
        let recoverers = standing.neighbourhoods.iter().flat_map(|own| &own.recoverers);
        let further = recoverers.filter_map(further).collect();
        Ok(Cast { master, id: standing.id, neighbourhoods: standing.neighbourhoods, further })
    }

    fn kill_first(&mut self, script: &Script, cast: &Cast) {
        let now = self.world.now();
        self.world.kill(cast.master, script.first_death);
        if let Some(after) = script.first_back {
            self.world.restart_at(cast.master, now + after);
        }
    }

    fn rehearse(&mut self, script: &Script, cast: &Cast) -> Rehearsal {
        let begun = self.world.now();
        self.world.note_passes();
        self.kill_first(script, cast);
        if script.is_long {
            self.run_until(begun + LONG);
        } else {
            self.run_up_to(begun + SHORT_MAX, |own| {
                own.system.is_recovered(&own.world, cast.id, Recovered::Freed)
            });
        }
        Rehearsal { passes: self.world.take_passes(), duration: self.world.now() - begun }
    }

    /// Runs until this holds, at most up to a time. Returns whether it does.
    fn run_up_to(&mut self, limit: u64, holds: impl Fn(&Self) -> bool) -> bool {
        while !holds(self) {
            if self.world.now() >= limit {
                return false;
            }
            let next = self.world.now() + crate::watch::INTERVAL;
            self.run_until(next);
        }
        true
    }

    /// Runs until the second server has died.
    fn reach(&mut self, cue: &Cue, victim: usize, death: Death, duration: u64) {
        let now = self.world.now();
        let how = match cue {
            Cue::Moment(after) => {
                self.run_until(now + after);
                "role: at a moment"
            }
            Cue::Step(_) if self.run_up_to(now + duration, |own| !own.world.node(victim).is_up()) => {
                "role: at a step"
            }
            // The process that takes the step ended by itself before it.
            Cue::Step(_) => "role: at a step that did not come",
        };
        self.world.note_fault(how, victim);
        self.world.kill(victim, death);
    }

    fn bring_back(&mut self, victim: usize, back: Back) {
        if let Back::After(pause) = back {
            let now = self.world.now();
            self.world.restart_at(victim, now + pause);
        }
    }

    /// A recoverer of the second server dies, too, if that is a recoverer of the first one. The first one is started
    /// before, if it is down.
    fn third_death(
        &mut self,
        script: &Script,
        cast: &Cast,
        victim: usize,
        rng: &mut Rng,
    ) -> Result<Option<ServerId>, String> {
        let Some(after) = script.third_death else { return Ok(None) };
        if !self.world.node(cast.master).is_up() {
            self.world.restart(cast.master);
        }
        let at = self.world.now() + after;
        self.run_until(at);
        let near = cast.further.get(&victim).into_iter().flatten().flat_map(|own| &own.recoverers);
        let near: Vec<usize> = near.copied().filter(|node| ![cast.master, victim].contains(node)).collect();
        let Some(third) = rng.pick(&near).copied() else { return Ok(None) };
        let id = self.standing(third)?.id;
        self.world.note_fault("role: a third died, a recoverer of the second", third);
        self.world.crash(third);
        Ok(Some(id))
    }

    /// Everything is served again, and in half of the runs whole again, although some servers are still away.
    fn wait_for_recovery(&mut self, dead: &[ServerId], until: Recovered, limit: u64) -> Result<(), String> {
        let end = self.world.now() + limit;
        let is_over = |own: &Self| dead.iter().all(|id| own.system.is_recovered(&own.world, *id, until));
        let is_recovered = self.run_up_to(end, is_over);
        let away = self.servers.iter().filter(|node| !self.world.node(**node).is_up()).count();
        if !is_recovered {
            return Err(format!(
                "{dead:?} are not {until:?} after {} s, {away} servers are away",
                limit / SECOND
            ));
        }
        self.world.marks.insert(RECOVERED.into(), dead.len() as u64);
        self.world.marks.insert(AWAY[away.min(AWAY.len() - 1)].into(), 1);
        Ok(())
    }

    /// All servers come back, on a calm network.
    fn end_roles(&mut self) {
        self.world.network.options = NetworkOptions::calm();
        for node in self.servers.clone() {
            self.world.spare_process(node);
            if !self.world.node(node).is_up() {
                self.world.restart(node);
            }
        }
    }
}
