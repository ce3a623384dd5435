//! A progress line for long operations: only on a terminal, and only after a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const QUIET_AT_FIRST: Duration = Duration::from_secs(1);

pub struct Progress {
    started: Instant,
    verb: &'static str,
    bar: Option<ProgressBar>,
    is_wanted: bool,
}

impl Progress {
    pub fn new(verb: &'static str, json: bool) -> Progress {
        let is_wanted = !json && std::io::stderr().is_terminal();
        Progress { started: Instant::now(), verb, bar: None, is_wanted }
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn show(&mut self, files: u64, bytes: u64) {
        let rate = bytes as f64 / self.started.elapsed().as_secs_f64();
        let (done, rate) = (crate::size::bytes_text(bytes), crate::size::bytes_text(rate as u64));
        self.show_text(|| format!("{files} files, {done} ({rate}/s)"));
    }

    /// Anything else behind the verb.
    pub fn show_text(&mut self, text: impl FnOnce() -> String) {
        if !self.is_wanted || self.started.elapsed() < QUIET_AT_FIRST {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]");
            bar.set_style(style.expect("the template is a constant that the tests read"));
            bar
        });
        bar.set_message(format!("{} {}", self.verb, text()));
        bar.tick();
    }

    /// A line that stays, above the moving one.
    pub fn tell(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => crate::output::tell(line),
        }
    }

    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_template_can_be_read() {
        assert!(indicatif::ProgressStyle::with_template("{spinner} {msg} [{elapsed}]").is_ok());
    }
}
