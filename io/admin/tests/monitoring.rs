//! The files for Prometheus and Grafana name only metrics and values of labels that there are (J5).

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::path::PathBuf;

fn file(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The words of a text that begin with `ramhold_`.
fn named(text: &str) -> BTreeSet<&str> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_of_word(c)).filter(|word| word.starts_with("ramhold_")).collect()
}

/// Each metric with its kind, from the document, which a test of its own compares with the pages.
fn metrics() -> Vec<(String, String)> {
    let rows = file("docs/metrics.md");
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.strip_suffix('`')?.to_owned();
        Some((name, cells.next()?.to_owned()))
    };
    rows.lines().filter_map(row).filter(|(name, _)| name.starts_with("ramhold_")).collect()
}

#[test]
fn alerts_and_dashboard_name_metrics_that_there_are() {
    let metrics = metrics();
    assert!(metrics.len() > 100, "{} metrics", metrics.len());
    let mut names: BTreeSet<String> = BTreeSet::new();
    for (name, kind) in &metrics {
        match kind.as_str() {
            "histogram" => names.extend(["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}"))),
            _ => drop(names.insert(name.clone())),
        }
    }
    for (path, least) in [("monitoring/ramhold-alerts.yml", 20), ("monitoring/ramhold-dashboard.json", 25)] {
        let text = file(path);
        let used = named(&text);
        assert!(used.len() >= least, "{path} names {} metrics", used.len());
        let unknown: Vec<&&str> = used.iter().filter(|name| !names.contains(**name)).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
}

#[test]
fn each_alert_has_a_severity_and_says_what_to_do() {
    let text = file("monitoring/ramhold-alerts.yml");
    let alerts: Vec<&str> = text.split("- alert: ").skip(1).collect();
    assert!(alerts.len() > 15, "{} alerts", alerts.len());
    let mut names = BTreeSet::new();
    for alert in alerts {
        let name = alert.lines().next().unwrap_or_default();
        assert!(names.insert(name), "{name} is there twice");
        let has_severity =
            ["critical", "warning"].iter().any(|word| alert.contains(&format!("severity: {word}")));
        assert!(has_severity && alert.contains("summary: ") && alert.contains("description: "), "{name}");
    }
}
