//! The end of a stage: everything is healed, the cluster comes to rest, and state and history are judged.

use super::Stage;
use super::player::Player;
use crate::audit;
use crate::history::Outcome;
use crate::network::{NetworkOptions, SECOND};
use crate::system::System;
use ramhold_base::TableId;

impl Stage {
    /// Starts processes that are down, heals the network, and waits for rest.
    pub fn settle(&mut self) {
        self.world.network.heal();
        self.world.network.options = NetworkOptions::calm();
        self.world.store_failure_ppm = 0;
        self.world.resume_all();
        self.disarm();
        for node in 0..self.world.node_count() {
            let process = self.world.machine(node).and_then(Player::process);
            let broken = process.is_some_and(|process| self.cluster.is_broken(process));
            let options = &mut self.world.disks_mut(node).options;
            (options.read_error_ppm, options.sync_error_ppm) = (0, 0);
            options.frames_bytes_max = 1 << 30;
            if broken {
                self.world.crash(node);
            }
            if !self.world.node(node).is_up() {
                self.world.restart(node);
            }
        }
        let end = self.world.now() + 120 * SECOND;
        while let Some(what) = self.unsettled() {
            assert!(self.world.now() < end, "not at rest: {what}; {}", self.troubles());
            self.pass(20);
        }
    }

    fn unsettled(&self) -> Option<String> {
        let Some(coordinator) = self.in_charge() else { return Some("no coordinator is in charge".into()) };
        audit::changing(coordinator).or_else(|| audit::unsettled(self.cluster.servers, &self.nodes()))
    }

    /// Comes to rest, reads every key back, and judges everything.
    pub fn close(mut self) {
        self.settle();
        self.read_back();
        // A tablet may have moved home meanwhile.
        self.settle();
        self.audit();
    }

    /// Like `close`, where some data is lost for good.
    pub fn judge(&mut self) {
        self.read_back();
        self.audit();
    }

    fn read_back(&mut self) {
        self.try_for(30_000, |stage| stage.record.open.iter().all(|begun| stage.outcome(*begun).is_some()));
        for (table, key) in self.record.keys() {
            let read = self.begin_read(1, table, &key);
            let outcome = self.end(read);
            let is_told = matches!(outcome, Outcome::Found { .. } | Outcome::Absent);
            assert!(is_told || self.is_dropped(table), "{key} cannot be read back: {outcome:?}");
        }
    }

    fn audit(&mut self) {
        let findings = audit::audit(None, &self.tables(), &self.nodes());
        assert!(findings.is_empty(), "{}", findings.join("\n"));
        self.judge_history();
    }

    /// Judges the answers that clients got so far.
    pub fn judge_history(&mut self) {
        self.note_ends();
        self.record.judge();
    }

    fn is_dropped(&self, table: TableId) -> bool {
        self.state().is_some_and(|state| !state.tables.contains_key(&table))
    }
}
