//! The marks that processes pass: how often, who passes them, and who dies when it happens.
//!
//! Not here: which marks there are (`ramhold_base::Mark`), which death is planned for which mark (fault, scenario).

use super::World;
use super::connection::Parting;
use super::crash_point::{CrashPoint, Death, Step};
use ramhold_base::Machine;
use std::collections::BTreeMap;

impl<M: Machine> World<M> {
    /// The process of a host dies when it next reports this mark.
    pub fn crash_at(&mut self, node: usize, mark: &str) {
        self.crash_when(node, Death::Killed, &Step { node, mark: mark.into(), number: 1 });
    }

    /// A process dies when it, or another one, takes this step, counted from now on. A process that dies before it has
    /// taken the step saves the victim.
    pub fn crash_when(&mut self, victim: usize, death: Death, step: &Step) {
        let Step { node, mark, number } = step;
        let spared = number.checked_sub(1).expect("steps are counted from 1");
        self.nodes[*node].dies_at = Some(CrashPoint { mark: mark.clone(), spared, victim, death });
    }

    /// A process or a host dies now.
    pub fn kill(&mut self, node: usize, death: Death) {
        match death {
            Death::Killed => self.crash(node),
            Death::PowerCut => self.cut_power(node),
        }
    }

    /// Begins to note who passes which marks.
    pub fn note_passes(&mut self) {
        self.passes = Some(BTreeMap::new());
    }

    /// How often each process has passed each mark since `note_passes`.
    pub fn take_passes(&mut self) -> BTreeMap<(usize, String), u64> {
        self.passes.take().unwrap_or_default()
    }

    /// Counts a mark, and ends the process that is to die at it. Returns whether that is the process which passes it.
    pub(super) fn pass_mark(&mut self, node: usize, name: &str) -> bool {
        match self.marks.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                self.marks.insert(name.to_string(), 1);
            }
        }
        if let Some(passes) = &mut self.passes {
            *passes.entry((node, name.to_string())).or_default() += 1;
        }
        let Some(point) = self.nodes[node].dies_at.take_if(|point| point.is_fatal(name)) else {
            return false;
        };
        let CrashPoint { mark, victim, death, .. } = point;
        self.line(victim, &format!("dies at {mark}"));
        if victim == node && death == Death::Killed {
            *self.crash_points.entry(mark).or_default() += 1;
            self.end_process(node, Parting::Killed);
        } else if self.node(victim).is_up() {
            *self.crash_points.entry(mark).or_default() += 1;
            self.kill(victim, death);
        }
        victim == node
    }
}
