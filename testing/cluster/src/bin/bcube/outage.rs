//! A switch or a port that is down under load: no verdict, no lost write, and how long clients wait.

use crate::bench::Bench;
use crate::{P, SECOND};
use ramhold_cluster_tests::{Failure, Finding, Load};
use std::time::{Duration, Instant};

impl Bench {
    /// A switch or a port that is down under load.
    pub fn outage(&mut self, seconds: u64, is_switch: bool) -> Result<(), Failure> {
        let part = if is_switch { "switch" } else { "port" };
        let before = self.deaths()?;
        let load = Load::start(&self.cluster, part, 3, 1)?;
        load.wait_acknowledged(500)?;
        let mut recording = self.record(part)?;
        let rate = |load: &Load, time: Duration| {
            let (begun, done) = (Instant::now(), load.done());
            std::thread::sleep(time);
            (load.done() - done) as f64 / begun.elapsed().as_secs_f64()
        };
        let usual = rate(&load, 5 * SECOND);
        load.take_longest_wait();
        let network = self.network()?;
        let name = network.cube().map_or_else(String::new, |cube| cube.switch_name(P, 0));
        let began = Instant::now();
        match is_switch {
            true => network.power(P, 0, false)?,
            false => network.plug_level(P, 0, false)?,
        }
        let mut worst = f64::INFINITY;
        let mut outages = Vec::new();
        for second in 0..seconds {
            worst = worst.min(rate(&load, SECOND));
            if second + 1 == seconds {
                outages = self.cluster.status()?.outages.unwrap_or_default();
            }
        }
        let mean = worst;
        let network = self.network()?;
        network.heal()?;
        let told: Vec<String> = outages.iter().map(|standing| standing.outage.to_string()).collect();
        recording.note(&format!("{part} down"), &name, began, &told.join("; "))?;
        std::thread::sleep(SECOND);
        let after = rate(&load, 4 * SECOND);
        let longest = load.take_longest_wait();
        let table = load.table();
        let journal = load.stop()?;
        let findings: Vec<(String, Finding)> = journal.compare(&self.cluster, table)?;
        let dead = self.deaths()? - before;
        let what = if is_switch {
            format!("switch {name} down for {seconds} s")
        } else {
            format!("port of 00 at {name} down")
        };
        let text = format!(
            "{dead} declared dead, {} of {} writes lost, longest wait {:.0} ms, worst second {:.2} of before, {:.2} after",
            findings.len() + journal.violations.len(),
            journal.writes,
            longest.as_secs_f64() * 1000.0,
            mean / usual,
            after / usual
        );
        self.row(part, &what, &text);
        self.row(part, "told as", &told.join("; "));
        self.expect(dead == 0, "a server was declared dead for a cable or a switch");
        self.expect(findings.is_empty() && journal.violations.is_empty(), "writes were lost");
        self.expect(longest <= SECOND, "a client waited for more than a second");
        self.expect(mean / usual >= 0.6, "the throughput fell below 0.6");
        self.expect(after / usual >= 0.95, "the throughput did not come back within 5 s");
        let expected = if is_switch {
            format!("switch {name} down")
        } else {
            format!(
                "link down: {} on switch {name}",
                self.cluster.entry(P)?.map_or_else(String::new, |e| e.id.to_string())
            )
        };
        self.expect(told == [expected], "it was not told as one event");
        self.judge(part, recording)
    }
}
