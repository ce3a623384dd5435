//! A cluster in which one fault comes after the other, and the rows that tell what each one cost.

use ramhold_cluster_tests::{Cluster, Failure, Network, Recording, Recordings};
use std::time::{Duration, Instant};

/// Between two operations of a session that records a history. Nine sessions leave the processors to what is measured.
const SESSION_PAUSE: Duration = Duration::from_millis(10);

pub struct Bench {
    pub cluster: Cluster,
    pub servers: usize,
    pub recordings: Recordings,
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

    /// Records a history of clients from now on.
    pub fn record(&self, part: &str) -> Result<Recording, Failure> {
        self.recordings.start(&self.cluster, part, SESSION_PAUSE)
    }

    /// Ends the recording of a part. No answer in it may contradict another.
    pub fn judge(&mut self, part: &str, recording: Recording) -> Result<(), Failure> {
        let judged = recording.judge()?;
        self.row(part, "history", &judged.to_string());
        self.expect(
            judged.is_good(),
            &format!("the history of {part} is not linearizable, or hardly a history"),
        );
        Ok(())
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
