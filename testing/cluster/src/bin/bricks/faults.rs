//! One member after the other is killed, stopped or cut off under load. All keys are read back at the end.

use crate::figures::{Figures, Sorted, millis};
use crate::load::{self, CLIENTS, Tally, Worker};
use crate::stage::{MEMBERS, Stage};
use ramhold_base::Rng;
use ramhold_cluster_tests::{Failure, Recording, Recordings, pass};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 1000;
const PEAK_FOR: Duration = Duration::from_secs(5);
const FAULT_INTERVAL: Duration = Duration::from_secs(10);
const STOP_FOR: Duration = Duration::from_secs(2);
/// The limits.
const P999_MOST: Duration = load::SLOW;
const LONGEST_MOST: Duration = Duration::from_millis(500);
const UNKNOWN_ONE_IN: u64 = 100_000;
/// Slow operations, and sentences about what is wrong, that are shown.
const SLOW_SHOWN: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    Kill,
    Stop,
    /// All packets from and to the member are lost.
    Cut,
}

/// One fault of a member.
#[derive(Clone, Copy, Debug)]
struct Episode {
    began: Instant,
    /// When its process was gone; none: it was stopped or cut off.
    gone: Option<Instant>,
    back: Instant,
}

/// An operation that begins so shortly before a fault may meet it.
const BEFORE: Duration = Duration::from_millis(300);
const AFTER: Duration = Duration::from_secs(1);

impl Episode {
    /// The part of the fault in which an operation began that was slow.
    fn phase_of(&self, due: Instant) -> Option<&'static str> {
        let gone = self.gone.unwrap_or(self.began);
        match due {
            _ if due + BEFORE < self.began || due > self.back + AFTER => None,
            _ if due <= gone && self.gone.is_some() => Some("as its process died"),
            _ if due <= self.back && self.gone.is_some() => Some("while it started"),
            _ if due <= self.back => Some("while it was stopped or cut off"),
            _ => Some("in the second after it was back"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub part: &'static str,
    /// Whether bricks hold the table, and not masters.
    pub is_quorum: bool,
    pub fault: Fault,
    pub minutes: u64,
    pub megabytes: u64,
    pub rate_percent: u32,
    pub seed: u64,
}

impl Run {
    pub fn measure(&self, recordings: &Recordings) -> Result<bool, Failure> {
        let figures = Figures::new(self.part, self.is_quorum);
        let mut stage = match self.fault {
            Fault::Cut => Stage::start_in_network()?,
            Fault::Kill | Fault::Stop => Stage::start(self.is_quorum)?,
        };
        let table = stage.create_table("load")?;
        let keys = self.megabytes as usize * 1_000_000 / VALUE_BYTES;
        let mut workers = load::workers(table, (keys, VALUE_BYTES), self.seed, || stage.client())?;
        load::all(&mut workers, Worker::fill)?;
        let peak = peak(&mut workers)?;
        let rate = peak * f64::from(self.rate_percent) / 100.0;
        figures.tell("data", &format!("{keys} values of {VALUE_BYTES} B, {MEMBERS} {}s", stage.noun()));
        figures.tell("peak of 8 clients, one operation at a time", &format!("{peak:.0} operations/s"));
        figures.tell("begun from now on", &format!("{rate:.0} operations/s"));

        let history = format!("history-{}", self.part);
        let mut recording = if self.is_quorum {
            stage.create_table(&history)?;
            recordings.start_plain(stage.cluster(), self.part, &history)?
        } else {
            recordings.start(stage.cluster(), self.part, Duration::from_millis(40))?
        };
        recording.wait_progress(10_000)?;
        stage.signal_coordinator(Signal::STOP);
        let (began, stops) = (Instant::now(), AtomicBool::new(false));
        let interval = Duration::from_secs_f64(CLIENTS as f64 / rate);
        let episodes = std::thread::scope(|scope| {
            let load = scope.spawn(|| load::all(&mut workers, |worker| worker.run_open(interval, &stops)));
            let episodes = self.make_faults(&mut stage, &mut recording, began);
            stops.store(true, Ordering::Relaxed);
            load.join().unwrap_or_else(|_| Err(Failure("the load has panicked".to_owned())))?;
            episodes
        })?;
        let lasted = began.elapsed();
        stage.signal_coordinator(Signal::CONT);
        stage.wait_whole()?;
        let tally = load::take_tally(&mut workers);
        let lost = load::lost(&mut workers, || stage.client())?;
        let judged = recording.judge()?;
        let mut figures = figures;
        tell_faults(&figures, stage.noun(), &episodes);
        tell_slow(&figures, &tally.slow, &episodes);
        tell(&mut figures, tally, &lost, began, lasted);
        figures.check("history", &judged.to_string(), "no violation", judged.is_good());
        Ok(figures.is_good)
    }

    fn make_faults(
        &self,
        stage: &mut Stage,
        recording: &mut Recording,
        began: Instant,
    ) -> Result<Vec<Episode>, Failure> {
        let mut rng = Rng::new(self.seed);
        let mut episodes = Vec::new();
        let until = Duration::from_secs(60 * self.minutes);
        let mut next = FAULT_INTERVAL;
        while next < until {
            pass(next.saturating_sub(began.elapsed()))?;
            let member = rng.between(1, MEMBERS as u64) as usize;
            let start = Instant::now();
            next = began.elapsed() + FAULT_INTERVAL;
            let gone = match self.fault {
                Fault::Kill => {
                    stage.kill(member);
                    let gone = Instant::now();
                    stage.start_again(member)?;
                    Some(gone)
                }
                Fault::Stop => {
                    stage.signal(member, Signal::STOP);
                    let passed = pass(STOP_FOR);
                    stage.signal(member, Signal::CONT);
                    passed?;
                    None
                }
                Fault::Cut => {
                    stage.cut_off(member)?;
                    let passed = pass(STOP_FOR);
                    stage.heal()?;
                    passed?;
                    None
                }
            };
            let kind = match self.fault {
                Fault::Kill => "kill",
                Fault::Stop => "stop",
                Fault::Cut => "cut",
            };
            let (kind, target) =
                (format!("{kind} of a {}", stage.noun()), format!("{}-{member}", stage.noun()));
            recording.note(&kind, &target, start, "back")?;
            episodes.push(Episode { began: start, gone, back: Instant::now() });
        }
        pass(until.saturating_sub(began.elapsed()))?;
        Ok(episodes)
    }
}

/// Operations per second of all clients, each with one under way.
pub fn peak(workers: &mut [Worker]) -> Result<f64, Failure> {
    let stops = AtomicBool::new(false);
    load::take_tally(workers);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let load = scope.spawn(|| load::all(workers, |worker| worker.run_closed(&stops)));
        let passed = pass(PEAK_FOR);
        stops.store(true, Ordering::Relaxed);
        load.join().unwrap_or_else(|_| Err(Failure("the load has panicked".to_owned())))?;
        passed
    })?;
    let tally = load::take_tally(workers);
    if tally.failed + tally.unknown > 0 {
        return Err(Failure(format!("operations failed before any fault: {:?}", tally.troubles)));
    }
    Ok(tally.operations() as f64 / began.elapsed().as_secs_f64())
}

fn tell_faults(figures: &Figures, noun: &str, episodes: &[Episode]) {
    let tell_each = |what: String, time: &dyn Fn(&Episode) -> Option<Duration>| {
        let mut times: Vec<Duration> = episodes.iter().filter_map(time).collect();
        times.sort();
        let (Some(middle), Some(last)) = (times.get(times.len() / 2), times.last()) else { return };
        let text = format!("{} times; median {}, longest {}", times.len(), millis(*middle), millis(*last));
        figures.tell(&what, &text);
    };
    tell_each("from SIGKILL until its process was gone".into(), &|it| Some(it.gone? - it.began));
    tell_each(format!("a {noun} was away until it served"), &|it| Some(it.back - it.began));
}

/// When the slow operations began.
fn tell_slow(figures: &Figures, slow: &[(Instant, Duration, &'static str)], episodes: &[Episode]) {
    let mut phases: BTreeMap<&str, u64> = BTreeMap::new();
    for (due, _, _) in slow {
        let phase = episodes.iter().find_map(|episode| episode.phase_of(*due));
        *phases.entry(phase.unwrap_or("far from any fault")).or_default() += 1;
    }
    for (phase, count) in phases {
        let what = format!("above {} ms, begun {phase}", load::SLOW.as_millis());
        figures.tell(&what, &count.to_string());
    }
}

fn tell(figures: &mut Figures, tally: Tally, lost: &[String], began: Instant, lasted: Duration) {
    let operations = tally.operations();
    let rate = operations as f64 / lasted.as_secs_f64();
    figures.tell("operations", &format!("{operations} in {:.0} s, {rate:.0}/s", lasted.as_secs_f64()));
    figures.check("failed", &tally.failed.to_string(), "0", tally.failed == 0);
    let [effect, never] = tally.settled;
    let text = format!("{}, settled {effect} took effect, {never} never will", tally.unknown);
    let limit = format!("1 in {UNKNOWN_ONE_IN}, all settled");
    let is_rare = tally.unknown * UNKNOWN_ONE_IN <= operations;
    figures.check("unknown", &text, &limit, is_rare && effect + never == tally.unknown);
    for (name, times) in [("get", tally.gets.sorted()), ("put", tally.puts.sorted())] {
        tell_times(figures, name, &times);
    }
    figures.check("acknowledged writes lost", &lost.len().to_string(), "0", lost.is_empty());
    let wrong = tally.violations.len();
    figures.check("gets of an old or a wrong value", &wrong.to_string(), "0", wrong == 0);
    for text in tally.violations.iter().chain(lost).take(SLOW_SHOWN) {
        figures.tell("  wrong", text);
    }
    for (what, count) in &tally.troubles {
        figures.tell("  trouble", &format!("{count} times: {what}"));
    }
    let mut slow = tally.slow;
    slow.sort_by_key(|(_, took, _)| std::cmp::Reverse(*took));
    for (due, took, kind) in slow.iter().take(SLOW_SHOWN) {
        let at = due.saturating_duration_since(began).as_secs_f64();
        figures.tell("  slow", &format!("{kind}, begun at {at:.2} s, took {}", millis(*took)));
    }
}

pub fn tell_times(figures: &mut Figures, name: &str, times: &Sorted) {
    let count = times.count();
    figures.tell(&format!("{name}s: p50, p99"), &{
        format!("{}, {}", millis(times.quantile(500)), millis(times.quantile(990)))
    });
    figures.check_time(&format!("{name}s: p99.9"), times.quantile(999), P999_MOST);
    figures.check_time(&format!("{name}s: longest"), times.quantile(1000), LONGEST_MOST);
    let above = times.count_above(P999_MOST);
    figures.tell(&format!("{name}s above {} ms", P999_MOST.as_millis()), &format!("{above} of {count}"));
}
