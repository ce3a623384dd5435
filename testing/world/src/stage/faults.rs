//! Faults at the places where the script wants them.

use super::Stage;
use super::player::Player;
use crate::system::System;
use ramhold_base::Rng;

impl Stage {
    pub fn crash(&mut self, server: usize) {
        self.world.crash(self.servers[server]);
    }

    pub fn restart(&mut self, server: usize) {
        self.world.restart(self.servers[server]);
    }

    /// Flips a bit of the log in a server's memory.
    pub fn flip_memory(&mut self, server: usize, rng: &mut Rng) {
        let node = self.servers[server];
        if let Some(Player::Process(process)) = self.world.machine_mut(node) {
            self.cluster.flip_memory(process, rng);
        }
    }

    pub fn cut_power(&mut self, server: usize) {
        self.world.cut_power(self.servers[server]);
    }

    /// Cuts both ways between two sets of hosts.
    pub fn part(&mut self, some: &[usize], others: &[usize]) {
        self.world.network.cut(some, others);
        self.world.network.cut(others, some);
    }

    /// The hosts of these servers.
    pub fn hosts(&self, servers: &[usize]) -> Vec<usize> {
        servers.iter().map(|s| self.servers[*s]).collect()
    }

    /// All servers but these.
    pub fn others(&self, but: &[usize]) -> Vec<usize> {
        (0..self.servers.len()).filter(|s| !but.contains(s)).collect()
    }

    /// Each of these dies when it next passes this mark.
    pub fn arm(&mut self, servers: &[usize], mark: &str) {
        for server in servers {
            self.world.crash_at(self.servers[*server], mark);
        }
    }

    pub fn disarm(&mut self) {
        for node in 0..self.world.node_count() {
            self.world.spare_process(node);
        }
    }

    /// Runs until a server has died at an armed mark, then disarms the others. Returns the dead server.
    pub fn wait_for_death_at(&mut self, mark: &str) -> usize {
        let before = self.world.crash_points.get(mark).copied().unwrap_or(0);
        self.wait(&format!("somebody dies at {mark}"), |stage| {
            stage.world.crash_points.get(mark).copied().unwrap_or(0) > before
        });
        self.disarm();
        (0..self.servers.len()).find(|s| !self.world.node(self.servers[*s]).is_up()).unwrap_or(usize::MAX)
    }
}
