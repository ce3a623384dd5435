//! A cluster in which one fault comes after the other, and the rows that tell what each one cost.

use ramhold_cluster_tests::{Cluster, Failure, Network};
use std::time::{Duration, Instant};

pub struct Bench {
    pub cluster: Cluster,
    pub servers: usize,
    pub wrong: Vec<String>,
}

/// One kind of fault, done and undone.
pub type Fault<'a> = &'a dyn Fn(&Network) -> Result<(), Failure>;

impl Bench {
    pub fn network(&self) -> Result<&Network, Failure> {
        self.cluster.network().ok_or_else(|| Failure("there is no network".into()))
    }

    pub fn row(&self, part: &str, what: &str, measured: &str) {
        println!("{part:<9} {what:<44} {measured}");
    }

    pub fn expect(&mut self, holds: bool, what: &str) {
        if !holds {
            self.wrong.push(what.to_owned());
        }
    }

    /// The number of servers that were declared dead since the start.
    pub fn deaths(&self) -> Result<u64, Failure> {
        // Recoveries are numbered. Old ones are forgotten.
        Ok(self.cluster.recoveries(1)?.first().map_or(0, |newest| newest.recovery.raw()))
    }

    /// Makes everything whole again: cables, and servers that were declared dead.
    pub fn mend(&mut self) -> Result<(), Failure> {
        self.network()?.heal()?;
        let began = Instant::now();
        loop {
            for (member, _) in self.cluster.take_ended() {
                self.cluster.start_member(member);
            }
            let up = self.cluster.status().map(|status| {
                status.servers.iter().filter(|entry| entry.state == ramhold_client::ServerState::Up).count()
            });
            if up.is_ok_and(|up| up == self.servers) {
                return self.cluster.wait_up(self.servers);
            }
            if began.elapsed() > Duration::from_secs(60) {
                return Err(Failure(format!("servers do not come back\n{}", self.cluster.logs())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Does something to the network for a while, and returns how many servers were declared dead for it.
    pub fn during(&mut self, fault: Fault<'_>, time: Duration) -> Result<u64, Failure> {
        let before = self.deaths()?;
        fault(self.network()?)?;
        std::thread::sleep(time);
        self.network()?.heal()?;
        // The consequences come within this time.
        std::thread::sleep(2 * crate::SECOND);
        let dead = self.deaths()? - before;
        if dead > 0 {
            self.mend()?;
        }
        Ok(dead)
    }
}
