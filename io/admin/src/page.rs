//! The text format of Prometheus, version 0.0.4: families of samples, each with its help and kind.
//!
//! This program chooses all names and labels. No value of a label comes from a client.

use ramhold_base::Latencies;
use std::fmt::{self, Write};
use std::time::Duration;

/// `Content-Type` of a page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

/// The value of a sample.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    Count(u64),
    Seconds(Duration),
}

impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Count(count)
    }
}

impl From<bool> for Value {
    fn from(is_so: bool) -> Value {
        Value::Count(u64::from(is_so))
    }
}

impl From<Duration> for Value {
    fn from(time: Duration) -> Value {
        Value::Seconds(time)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count(count) => write!(f, "{count}"),
            Value::Seconds(time) => write!(f, "{}.{:09}", time.as_secs(), time.subsec_nanos()),
        }
    }
}

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    pub fn into_text(self) -> String {
        self.text
    }

    /// A number that only grows; its name ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Into<Value>) {
        self.begin(name, "counter", help);
        self.sample(name, "", &[], value.into());
    }

    pub fn gauge(&mut self, name: &str, help: &str, value: impl Into<Value>) {
        self.begin(name, "gauge", help);
        self.sample(name, "", &[], value.into());
    }

    /// A counter or gauge with a sample for each value of one label.
    pub fn by_label<V: Into<Value>>(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        label: &str,
        samples: impl IntoIterator<Item = (&'static str, V)>,
    ) {
        self.begin(name, kind, help);
        for (of, value) in samples {
            self.sample(name, "", &[(label, of)], value.into());
        }
    }

    /// A counter or gauge with a sample for each set of labels.
    pub fn by_labels<const N: usize>(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        samples: impl IntoIterator<Item = ([(&'static str, String); N], impl Into<Value>)>,
    ) {
        self.begin(name, kind, help);
        for (labels, value) in samples {
            let labels: Vec<(&str, &str)> =
                labels.iter().map(|(label, value)| (*label, value.as_str())).collect();
            self.sample(name, "", &labels, value.into());
        }
    }

    /// A gauge that is always 1: what it tells is in its labels.
    pub fn info(&mut self, name: &str, help: &str, labels: Labels<'_>) {
        self.begin(name, "gauge", help);
        self.sample(name, "", labels, Value::Count(1));
    }

    /// A histogram in seconds for each value of one label; or a single one, without a label.
    pub fn histogram<'a>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Option<(&'a str, &'a str)>, &'a Latencies)>,
    ) {
        self.begin(name, "histogram", help);
        for (label, latencies) in samples {
            let own: Vec<(&str, &str)> = label.into_iter().collect();
            let mut total = 0;
            for (bound, count) in latencies.buckets() {
                total += count;
                let bound = bound.map_or_else(
                    || "+Inf".to_owned(),
                    |micros| format!("{}", Value::Seconds(Duration::from_micros(micros))),
                );
                let mut labels = own.clone();
                labels.push(("le", bound.trim_end_matches('0').trim_end_matches('.')));
                self.sample(name, "_bucket", &labels, Value::Count(total));
            }
            self.sample(name, "_sum", &own, Value::Seconds(Duration::from_nanos(latencies.sum_nanos())));
            self.sample(name, "_count", &own, Value::Count(total));
        }
    }

    fn begin(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n").expect("a String takes everything");
    }

    fn sample(&mut self, name: &str, suffix: &str, labels: Labels<'_>, value: Value) {
        self.text.push_str(name);
        self.text.push_str(suffix);
        for (index, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let before = if index == 0 { '{' } else { ',' };
            write!(self.text, "{before}{label}=\"{value}\"").expect("a String takes everything");
        }
        let after = if labels.is_empty() { "" } else { "}" };
        writeln!(self.text, "{after} {value}").expect("a String takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_written_as_prometheus_reads_them() {
        let mut page = Page::default();
        page.counter("a_total", "Back\\slash,\nnew line.", 7);
        page.gauge("b_seconds", "B.", Duration::from_millis(1500));
        page.info("c_info", "C.", &[("version", "1.0"), ("said", "a \"b\" \\ \n")]);
        page.by_label(("d", "gauge", "D."), "kind", [("x", 1u64), ("y", 2)]);
        let text = "# HELP a_total Back\\\\slash,\\nnew line.\n# TYPE a_total counter\na_total 7\n\
                    # HELP b_seconds B.\n# TYPE b_seconds gauge\nb_seconds 1.500000000\n\
                    # HELP c_info C.\n# TYPE c_info gauge\nc_info{version=\"1.0\",said=\"a \\\"b\\\" \\\\ \\n\"} 1\n\
                    # HELP d D.\n# TYPE d gauge\nd{kind=\"x\"} 1\nd{kind=\"y\"} 2\n";
        assert_eq!(page.into_text(), text);
    }

    #[test]
    fn the_buckets_of_a_histogram_add_up() {
        let mut latencies = Latencies::default();
        latencies.count_at_once(2);
        latencies.count(Duration::from_micros(5));
        latencies.count(Duration::from_secs(100));
        let mut page = Page::default();
        page.histogram("h_seconds", "H.", [(Some(("operation", "read")), &latencies)]);
        let text = page.into_text();
        let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).map(str::to_owned);
        assert_eq!(line("h_seconds_bucket{operation=\"read\",le=\"0.000004\"} "), Some("2".into()));
        assert_eq!(line("h_seconds_bucket{operation=\"read\",le=\"0.000006\"} "), Some("3".into()));
        assert_eq!(line("h_seconds_bucket{operation=\"read\",le=\"8.388608\"} "), Some("3".into()));
        assert_eq!(line("h_seconds_bucket{operation=\"read\",le=\"+Inf\"} "), Some("4".into()));
        assert_eq!(line("h_seconds_count{operation=\"read\"} "), Some("4".into()));
        assert_eq!(line("h_seconds_sum{operation=\"read\"} "), Some("100.000005000".into()));
    }
}
