//! The draws for a run in which servers with a role die.

use crate::network::{MILLI, SECOND};
use crate::system::{Neighbourhood, Recovered};
use crate::world::{Death, Step};
use ramhold_base::{Rng, ServerId};
use std::collections::{BTreeMap, BTreeSet};

/// The beginnings of the names of marks that a recovery, or the moves that follow it, pass. Others are passed by the
/// work of clients alone.
const STEPS: [&str; 22] = [
    "backup_",
    "head_rolled",
    "combined_begun",
    "survivors_",
    "sources_retired",
    "empty_head_left",
    "recovery_",
    "recovered_",
    "live_gave_way",
    "reclassing_",
    "stretch_",
    "tablet_reclassed",
    "tablet_cut",
    "tablets_joined",
    "tablet_of_pieces",
    "coordinator_commit",
    "settled",
    "log_kept",
    "kept_log_let_go",
    "earlier_log_moved",
    "turn_given",
    "path_silent",
];
/// Steps of the moves of tablets from a neighbourhood that is gone.
const MOVES: [&str; 3] = ["reclassing_", "stretch_", "tablet_reclassed"];

/// The first server that dies, and those with a role in its recovery.
pub(super) struct Cast {
    pub master: usize,
    pub id: ServerId,
    pub neighbourhoods: Vec<Neighbourhood>,
    /// The neighbourhoods of its recoverers.
    pub further: BTreeMap<usize, Vec<Neighbourhood>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Recoverer,
    Feeder,
    FurtherRecoverer,
    FurtherFeeder,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Recoverer => "role: a recoverer died",
            Role::Feeder => "role: a feeder died",
            Role::FurtherRecoverer => "role: a recoverer of a recoverer died",
            Role::FurtherFeeder => "role: a feeder of a recoverer died",
        }
    }
}

/// When the second server dies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Cue {
    Step(Step),
    /// So long after the first death.
    Moment(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Back {
    /// As a new server at the same place, so long after its death.
    After(u64),
    /// When everything is recovered.
    Late,
}

pub(super) struct Script {
    /// How long clients work before the first death.
    pub work: u64,
    /// Whether frames are lost, late or doubled.
    pub is_rough: bool,
    /// Whether the first server stays away until its neighbours have moved the tablets that it was to recover.
    pub is_long: bool,
    pub first_death: Death,
    pub first_back: Option<u64>,
    pub second_death: Death,
    pub back: Back,
    /// So long after the second death a recoverer of that server dies.
    pub third_death: Option<u64>,
    /// How far the recoveries must come before anybody else is back.
    pub until: Recovered,
    /// For everything that depends on the cluster.
    pub seed_of_cue: u64,
}

impl Script {
    pub fn draw(seed: u64) -> Script {
        let mut rng = Rng::new(seed ^ 0x2013_5C21_9700_0000);
        let is_long = rng.chance(1, 3);
        let (first_death, second_death) = match rng.below(4) {
            0 => (Death::PowerCut, Death::Killed),
            1 => (Death::Killed, Death::PowerCut),
            _ => (Death::Killed, Death::Killed),
        };
        let is_soon_back = !is_long && rng.chance(1, 4);
        let is_back_at_once = rng.chance(1, 3);
        let is_killed = (first_death, second_death) == (Death::Killed, Death::Killed);
        Script {
            work: rng.between(1, 5) * SECOND,
            is_rough: rng.chance(1, 4),
            is_long,
            first_death,
            first_back: is_soon_back.then(|| rng.below(2 * SECOND)),
            second_death,
            back: if is_back_at_once { Back::After(rng.below(300 * MILLI)) } else { Back::Late },
            third_death: (is_killed && rng.chance(1, 2)).then(|| rng.below(2 * SECOND)),
            until: if rng.chance(1, 2) { Recovered::Freed } else { Recovered::Served },
            seed_of_cue: rng.u64(),
        }
    }

    /// When the second server dies: at a step that was taken in the rehearsal, or at a moment.
    pub fn cue(
        &self,
        rng: &mut Rng,
        passes: &BTreeMap<(usize, String), u64>,
        duration: u64,
        (victim, cast): (usize, &Cast),
    ) -> Cue {
        if rng.chance(1, 5) {
            return Cue::Moment(rng.below(duration.max(1)));
        }
        let is_own = rng.chance(1, 2);
        let begins = |mark: &str, names: &[&str]| names.iter().any(|name| mark.starts_with(name));
        let taken = |names: &[&str]| {
            let others = passes.iter().filter(|((node, _), _)| *node != cast.master);
            let some = others.filter(|((_, mark), _)| begins(mark, names));
            some.map(|((node, mark), count)| (*node, mark, *count)).collect::<Vec<_>>()
        };
        let moves = if self.is_long && rng.chance(2, 3) { taken(&MOVES) } else { Vec::new() };
        let steps = if moves.is_empty() { taken(&STEPS) } else { moves };
        let own: Vec<_> = steps.iter().filter(|(node, ..)| is_own && *node == victim).copied().collect();
        let steps = if own.is_empty() { steps } else { own };
        let marks: BTreeSet<&String> = steps.iter().map(|(_, mark, _)| *mark).collect();
        let marks: Vec<&String> = marks.into_iter().collect();
        let Some(mark) = rng.pick(&marks).copied() else { return Cue::Moment(rng.below(duration.max(1))) };
        let at: Vec<_> = steps.into_iter().filter(|(_, other, _)| *other == mark).collect();
        let (node, mark, count) = *rng.pick(&at).expect("somebody passes it");
        Cue::Step(Step { node, mark: mark.clone(), number: rng.between(1, count) })
    }
}

impl Cast {
    /// The second server that dies, and its role. It is not the first one.
    pub fn victim(&self, script: &Script, rng: &mut Rng) -> (Role, usize) {
        // In a long run tablets of the recoverers move: their neighbourhoods count, too.
        let is_further = rng.chance(if script.is_long { 2 } else { 1 }, 4);
        let is_feeder = rng.chance(1, 2);
        let further: Vec<&Neighbourhood> = self.further.values().flatten().collect();
        let own: Vec<&Neighbourhood> = self.neighbourhoods.iter().collect();
        let hosts = |of: &[&Neighbourhood]| {
            let hosts = of.iter().flat_map(|own| if is_feeder { &own.feeders } else { &own.recoverers });
            hosts.copied().filter(|host| *host != self.master).collect::<Vec<usize>>()
        };
        let role = match (is_further, is_feeder) {
            (false, false) => Role::Recoverer,
            (false, true) => Role::Feeder,
            (true, false) => Role::FurtherRecoverer,
            (true, true) => Role::FurtherFeeder,
        };
        let hosts = hosts(if is_further { &further } else { &own });
        (role, *rng.pick(&hosts).expect("a neighbourhood has a recoverer and a feeder"))
    }
}
