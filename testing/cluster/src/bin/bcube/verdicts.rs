//! Faults without a load that is measured: who is declared dead, and how soon.

use crate::bench::Bench;
use crate::{LEVELS, P, R, SECOND};
use ramhold_cluster_tests::{Failure, Network};
use rustix::process::Signal;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longer than any verdict takes.
const VERDICT_WITHIN: Duration = Duration::from_secs(10);
/// A history grows by this before each fault: some 500 operations.
const HISTORY_BYTES_BEFORE: u64 = 100_000;

impl Bench {
    pub fn dead(&mut self, rounds: u32) -> Result<(), Failure> {
        let mut millis = Vec::new();
        for _ in 0..rounds {
            let before = self.deaths()?;
            let id = self.cluster.entry(P)?.ok_or_else(|| Failure("no server at 00".into()))?.id;
            let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
            let network = self.network()?;
            network.plug(P, false)?;
            (0..LEVELS).try_for_each(|level| network.plug_level(P, level, false))?;
            let told = ramhold_cluster_tests::wait_for("the verdict", VERDICT_WITHIN, || {
                Ok(if self.deaths()? > before { Ok(()) } else { Err("it is still up".into()) })
            });
            told?;
            let recoveries = self.cluster.recoveries(1)?;
            let recovery = recoveries.first().ok_or_else(|| Failure("no recovery is told".into()))?;
            self.expect(recovery.crashed == id, "another server than P was declared dead");
            millis.push(recovery.detected.0.saturating_sub(began));
            self.mend()?;
        }
        millis.sort_unstable();
        let at = |share: usize| millis[(millis.len() * share / 100).min(millis.len() - 1)];
        let (median, high) = (at(50), at(99));
        let text = format!(
            "median {median} ms, p99 {high} ms, {} to {} ms, {rounds} rounds (most: 500, 700)",
            millis[0],
            millis[millis.len() - 1]
        );
        self.row("dead", "unplugged, until declared dead", &text);
        self.expect(median <= 500, "the median of verdicts is above 500 ms");
        self.expect(high <= 700, "p99 of verdicts is above 700 ms");
        Ok(())
    }

    pub fn paused(&mut self, stops: u32) -> Result<(), Failure> {
        for (millis, most) in [(150, Some(0)), (250, Some(0)), (500, None)] {
            let mut dead = 0;
            for round in 0..stops {
                let before = self.deaths()?;
                let member = 1 + round as usize % self.servers;
                let process = self.cluster.process(member);
                process.signal(Signal::STOP);
                std::thread::sleep(Duration::from_millis(millis));
                process.signal(Signal::CONT);
                std::thread::sleep(Duration::from_millis(700));
                let now = self.deaths()? - before;
                dead += now;
                if now > 0 {
                    self.mend()?;
                }
            }
            let text = format!("{dead} of {stops} declared dead");
            self.row("paused", &format!("a process stopped for {millis} ms"), &text);
            self.expect(most.is_none_or(|most| dead <= most), "a process that stood still was declared dead");
        }
        Ok(())
    }

    pub fn paths(&mut self, cuts: u32) -> Result<(), Failure> {
        for levels in [&[0][..], &[0, 1][..]] {
            let cut = |network: &Network| network.cut_paths((P, R), levels);
            for time in [SECOND / 10, SECOND, 10 * SECOND] {
                let mut dead = 0;
                for _ in 0..cuts {
                    dead += self.during(&cut, time)?;
                }
                let what = if levels.len() == 1 { "one path" } else { "all paths" };
                let what = format!("{what} from 01 to 00 cut for {} s", time.as_secs_f32());
                self.row("paths", &what, &format!("{dead} of {cuts} declared dead"));
                self.expect(dead == 0, "a server was declared dead for a path");
            }
        }
        Ok(())
    }

    pub fn isolated(&mut self) -> Result<(), Failure> {
        let unplug =
            |network: &Network| (0..LEVELS).try_for_each(|level| network.plug_level(R, level, false));
        let mut recording = self.record("isolated")?;
        for (time, expected) in [(SECOND / 10, 0), (SECOND, 0), (10 * SECOND, 1)] {
            recording.wait_progress(HISTORY_BYTES_BEFORE)?;
            let began = Instant::now();
            let dead = self.during(&unplug, time)?;
            recording.note("cables of a server out", "01", began, &format!("{dead} declared dead"))?;
            let what = format!("01 without its cables for {} s", time.as_secs_f32());
            let cause = match dead {
                0 => String::new(),
                _ => self.cluster.recoveries(1)?.first().map_or(String::new(), |recovery| {
                    format!(", as {}", recovery.cause.split(':').next().unwrap_or_default())
                }),
            };
            self.row("isolated", &what, &format!("{dead} declared dead{cause}"));
            self.expect(dead == expected, "not the isolated server alone was declared dead");
        }
        self.judge("isolated", recording)
    }
}
