//! `events`: what bricks noticed and did without being told to, merged over all bricks in the order of time.
//!
//! Each brick keeps its newest events of its present life. Their times are by its own clock, so events of two bricks
//! whose clocks differ may stand in the wrong order; those of one brick never do.
//!
//! Not here: which events there are (core/brick). Catalogue: I6, J5.

use super::brick::id::parse_brick;
use super::bricks::survey::{Source, reason};
use crate::failure::{Failure, NOT_FOUND};
use crate::global::Global;
use crate::output::{self, bytes_for_eyes};
use crate::screen::wrap;
use clap::Args;
use ramhold_client::{BrickEvent, BrickEventsTold, ServerId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How often bricks are asked for new events.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);
/// How often bricks are looked for.
const SURVEY_INTERVAL: Duration = Duration::from_secs(5);

/// Show what bricks noticed and did on their own.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold events
  ramhold events --follow
  ramhold events --brick s5 --wide
  ramhold events --bricks 10.0.0.2:7501    (the coordinator is away)
  ramhold events --follow --json | jq -c 'select(.kind == \"sibling-silent\")'

An event has three parts: the indicator (what was noticed), the monitor (which
part of which brick noticed it), and the treatment (what was done). Each event
is a line with the first and one with the other two; with --wide, one line.
A brick keeps its newest 1024 events until it ends. One that does not answer
within 1 s, or within --timeout, is named on the standard error.")]
pub struct Events {
    /// Addresses of bricks to ask besides those that the coordinator names.
    #[arg(long, value_name = "ADDR,...")]
    bricks: Option<String>,
    /// Only events that this brick noticed, or that are about it.
    #[arg(long, value_name = "ID", value_parser = parse_brick)]
    brick: Option<ServerId>,
    /// Go on with new events until interrupted.
    #[arg(long)]
    follow: bool,
    /// One line for each event.
    #[arg(long)]
    wide: bool,
}

/// An event, and the brick that noticed it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Noticed {
    by: ServerId,
    life: u64,
    event: BrickEvent,
}

/// A brick and its life. Another brick may come to an address, with the same number of a life.
type Process = (ServerId, u64);

/// The events that were shown already.
#[derive(Default)]
struct Shown {
    /// The number of the last event of each process at an address.
    numbers: BTreeMap<(SocketAddr, Process), u64>,
    /// Who answered last at an address.
    last: BTreeMap<SocketAddr, Process>,
    /// Those that did not tell the last time: it was said.
    silent: BTreeSet<SocketAddr>,
}

impl Shown {
    fn after(&self, address: SocketAddr) -> u64 {
        let last = self.last.get(&address).and_then(|process| self.numbers.get(&(address, *process)));
        last.copied().unwrap_or(0)
    }

    /// Takes an answer to a question for what is after `self.after`. Returns whether there is more to ask for now.
    fn take(&mut self, address: SocketAddr, told: BrickEventsTold, noticed: &mut Vec<Noticed>) -> bool {
        let asked_after = self.after(address);
        let process = (told.brick, told.life);
        self.last.insert(address, process);
        let number = self.numbers.entry((address, process)).or_insert(0);
        if *number != asked_after {
            // The question was for the events of another process.
            return true;
        }
        let (by, life) = process;
        for event in told.events {
            *number = event.number.max(*number);
            noticed.push(Noticed { by, life, event });
        }
        *number > asked_after && *number < told.newest
    }

    /// Says once that a brick does not tell its events. None: it is not known which one.
    fn complain(&mut self, address: SocketAddr, brick: ServerId, why: &str) {
        let name = if brick.is_none() { String::new() } else { format!("{brick} at ") };
        if self.silent.insert(address) {
            output::tell(&format!("ramhold: no events of {name}{address}: {why}"));
        }
    }
}

impl Events {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut source = Source::connect(global, self.bricks.as_deref())?;
        let mut shown = Shown::default();
        let mut bricks = Vec::new();
        let mut surveyed: Option<Instant> = None;
        let mut day = String::new();
        loop {
            if surveyed.is_none_or(|at| at.elapsed() >= SURVEY_INTERVAL) {
                match source.survey() {
                    Ok(survey) => {
                        let is_there = |id: ServerId| survey.bricks.iter().any(|brick| brick.id == id);
                        if let Some(id) = self.brick.filter(|id| surveyed.is_none() && !is_there(*id)) {
                            let text =
                                format!("there is no brick {id} that is known; 'ramhold bricks' shows them");
                            return Err(Failure::new(NOT_FOUND, text));
                        }
                        bricks.clear();
                        for brick in survey.bricks {
                            match brick.told {
                                Ok(_) => bricks.push((brick.address, brick.id)),
                                Err(why) => shown.complain(brick.address, brick.id, &why),
                            }
                        }
                        for (address, why) in survey.strange {
                            shown.complain(address, ServerId::NONE, &why);
                        }
                    }
                    Err(failure) if surveyed.is_none() => return Err(failure),
                    Err(failure) => output::tell(&format!("ramhold: {}", failure.text())),
                }
                surveyed = Some(Instant::now());
            }
            self.show(collect(&mut source, &bricks, &mut shown), &mut day, global)?;
            if !self.follow {
                return Ok(());
            }
            std::thread::sleep(FOLLOW_INTERVAL);
        }
    }

    /// `day`: the day of the event that was shown last.
    fn show(&self, mut noticed: Vec<Noticed>, day: &mut String, global: &Global) -> Result<(), Failure> {
        noticed.sort_by_key(|noticed| (noticed.event.time, noticed.by, noticed.life, noticed.event.number));
        let wanted =
            |noticed: &&Noticed| self.brick.is_none_or(|id| noticed.by == id || noticed.event.about == id);
        for noticed in noticed.iter().filter(wanted) {
            match (global.json, self.wide) {
                (true, _) => output::print_json(&json(noticed))?,
                (false, true) => output::print(&line(noticed))?,
                (false, false) => output::print(&text(noticed, day))?,
            }
        }
        Ok(())
    }
}

/// The new events of all bricks. A brick that does not answer is asked again the next time.
fn collect(source: &mut Source, bricks: &[(SocketAddr, ServerId)], shown: &mut Shown) -> Vec<Noticed> {
    source.client.set_deadline(source.within);
    let mut noticed = Vec::new();
    for (address, id) in bricks {
        loop {
            match source.client.brick_events(*address, shown.after(*address)) {
                Ok(told) => {
                    shown.silent.remove(address);
                    if !shown.take(*address, told, &mut noticed) {
                        break;
                    }
                }
                Err(error) => {
                    shown.complain(*address, *id, &reason(error));
                    break;
                }
            }
        }
    }
    noticed
}

/// `2026-11-26 17:31:02.123`.
fn time_text(noticed: &Noticed) -> String {
    ramhold_runtime::utc(noticed.event.time.0).replace('T', " ").trim_end_matches('Z').to_owned()
}

fn eyes(text: &str) -> String {
    bytes_for_eyes(text.as_bytes())
}

/// Two parts under each other, below the day if it is another one than before.
fn text(noticed: &Noticed, day: &mut String) -> String {
    let event = &noticed.event;
    let time = time_text(noticed);
    let (date, time) = time.split_once(' ').unwrap_or_default();
    let heading = if date == day { String::new() } else { format!("{date} (UTC)\n") };
    *day = date.to_owned();
    let first = format!("{time}  {:<5} ", event.about.to_string());
    let indent = " ".repeat(first.chars().count());
    let second = format!("{} {}: {}", noticed.by, eyes(&event.monitor), eyes(&event.treatment));
    format!("{heading}{}{}", wrap(&first, &eyes(&event.indicator)), wrap(&indent, &second))
}

fn line(noticed: &Noticed) -> String {
    let BrickEvent { about, kind, monitor, indicator, treatment, .. } = &noticed.event;
    format!(
        "{}  {about}  {}  {}  monitor: {} {}  treatment: {}\n",
        time_text(noticed),
        eyes(kind),
        eyes(indicator),
        noticed.by,
        eyes(monitor),
        eyes(treatment)
    )
}

fn json(noticed: &Noticed) -> Value {
    let event = &noticed.event;
    json!({
        "time": ramhold_runtime::utc(event.time.0),
        "time_millis": event.time.0,
        "kind": event.kind,
        "about": event.about.raw(),
        "indicator": event.indicator,
        "monitor": { "brick": noticed.by.raw(), "life": noticed.life, "part": event.monitor },
        "treatment": event.treatment,
        "number": event.number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::WIDTH;
    use ramhold_client::ClusterTime;

    fn event(number: u64) -> BrickEvent {
        BrickEvent {
            number,
            time: ClusterTime(1_700_000_000_123),
            kind: "sibling-silent".into(),
            monitor: "announcements".into(),
            about: ServerId(5),
            indicator: "no announcement of s5 at 192.168.100.105:7501 for 1.25 s".into(),
            treatment: "none: its tablets go on without it".into(),
        }
    }

    fn told(life: u64, numbers: std::ops::Range<u64>, newest: u64) -> BrickEventsTold {
        BrickEventsTold { brick: ServerId(4), life, events: numbers.map(event).collect(), newest }
    }

    // J5
    #[test]
    fn each_event_is_shown_once_and_a_new_life_begins_anew() {
        let (mut shown, mut noticed) = (Shown::default(), Vec::new());
        let brick = "127.0.0.1:7501".parse().unwrap();
        assert!(shown.take(brick, told(3, 1..3, 4), &mut noticed), "there is more");
        assert_eq!(shown.after(brick), 2);
        assert!(!shown.take(brick, told(3, 3..5, 4), &mut noticed));
        assert!(!shown.take(brick, told(3, 5..5, 4), &mut noticed), "nothing new");
        assert!(shown.take(brick, told(4, 5..7, 6), &mut noticed), "asked again from 0 on");
        assert_eq!(shown.after(brick), 0);
        assert!(!shown.take(brick, told(4, 1..7, 6), &mut noticed));
        let numbers: Vec<(u64, u64)> = noticed.iter().map(|it| (it.life, it.event.number)).collect();
        assert_eq!(numbers, [(3, 1), (3, 2), (3, 3), (3, 4), (4, 1), (4, 2), (4, 3), (4, 4), (4, 5), (4, 6)]);
    }

    // J5: the directory at an address was wiped, and its brick is another one.
    #[test]
    fn events_of_another_brick_at_an_address_count_anew_and_an_empty_page_ends_the_questions() {
        let (mut shown, mut noticed) = (Shown::default(), Vec::new());
        let address = "127.0.0.1:7501".parse().unwrap();
        let of = |brick, numbers: std::ops::Range<u64>, newest| BrickEventsTold {
            brick: ServerId(brick),
            ..told(1, numbers, newest)
        };
        assert!(!shown.take(address, of(5, 1..58, 57), &mut noticed));
        assert!(shown.take(address, of(8, 58..60, 59), &mut noticed), "its first events were not asked for");
        assert_eq!((shown.after(address), noticed.len()), (0, 57));
        assert!(!shown.take(address, of(8, 1..60, 59), &mut noticed));
        assert_eq!((shown.after(address), noticed.len()), (59, 57 + 59));
        // The first one is back: nothing of it is shown twice.
        assert!(shown.take(address, of(5, 60..60, 57), &mut noticed));
        assert_eq!(shown.after(address), 57);
        assert!(!shown.take(address, of(5, 58..58, 60), &mut noticed), "a page without progress is the last");
        assert_eq!(noticed.len(), 57 + 59);
    }

    // J5
    #[test]
    fn an_event_fits_the_screen_and_cannot_forge_lines() {
        let mut event = event(1);
        event.treatment = format!("{} a\nb", event.treatment);
        let noticed = Noticed { by: ServerId(4), life: 3, event };
        let mut day = String::new();
        let text = text(&noticed, &mut day);
        assert!(!super::text(&noticed, &mut day).contains("2023"), "the day is told once");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.starts_with("2023-11-14 (UTC)\n22:13:20.123  s5    no announcement of s5"), "{text}");
        assert!(text.contains("s4 announcements: none: its tablets"), "{text}");
        assert!(text.contains("a\\nb"));
        assert_eq!(line(&noticed).lines().count(), 1);
        assert_eq!(json(&noticed)["monitor"]["part"], "announcements");
    }
}
