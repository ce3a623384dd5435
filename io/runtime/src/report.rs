//! Lines for the operator.
//!
//! A report is always a single line: control characters are written as escapes, so bytes from outside that
//! reach a report cannot forge another line. Reports that a stranger can provoke go through a `Throttle`.

use crate::clock;
use ramhold_base::{Instant, Level, ServerId};
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

/// Takes one line: its level and its text, escaped and without an end of line.
pub type Report = Box<dyn FnMut(Level, &str) + Send>;

/// Writes every line of `least` or above to stderr, with the time (UTC) and the level in front.
pub fn report_to_stderr(least: Level) -> Report {
    Box::new(move |level, text| {
        if level >= least {
            let line = format!("{} {} {text}\n", clock::utc(clock::wall_millis()), level_name(level));
            // If stderr is gone, nobody is left to read an error.
            let _ = std::io::stderr().lock().write_all(line.as_bytes());
        }
    })
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Debug => "DEBUG",
        Level::Info => "INFO ",
        Level::Warn => "WARN ",
        Level::Error => "ERROR",
    }
}

/// The text of a line: who speaks, once it has a name, then `text` with its control characters escaped.
pub(crate) fn line(named: Option<ServerId>, text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 8);
    if let Some(server) = named {
        write!(line, "{server}: ").expect("a string takes every write");
    }
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// Lets one report through per interval and counts the others.
#[derive(Default)]
pub(crate) struct Throttle {
    next: Instant,
    held_back: u64,
}

impl Throttle {
    const INTERVAL: Duration = Duration::from_secs(1);

    /// `Some(n)`: report now, and say that `n` like it were held back since the last. `None`: hold it back.
    pub(crate) fn pass(&mut self, now: Instant) -> Option<u64> {
        if now < self.next {
            self.held_back += 1;
            return None;
        }
        self.next = now + Throttle::INTERVAL;
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(line(None, "a\nb\tc\u{1b}[2J é"), "a\\nb\\tc\\u{1b}[2J é");
        assert_eq!(line(Some(ServerId(7)), "hello"), "s7: hello");
    }

    #[test]
    fn a_throttle_counts_what_it_holds_back() {
        let mut throttle = Throttle::default();
        let start = Instant(5);
        assert_eq!(throttle.pass(start), Some(0));
        assert_eq!(throttle.pass(start), None);
        assert_eq!(throttle.pass(start), None);
        assert_eq!(throttle.pass(start + Throttle::INTERVAL), Some(2));
        assert_eq!(throttle.pass(start + Throttle::INTERVAL), None);
    }
}
