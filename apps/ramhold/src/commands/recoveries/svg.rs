//! The course of one recovery as a picture. Time runs from left to right. The upper rows show the recovery as
//! a whole; below, there is one row for each turn of a partition, then one for each backup. The amounts are
//! on the right.

use super::distances::distances_text;
use super::timeline::{Span, backup_spans, part_spans, steps};
use crate::size::bytes_text;
use ramhold_client::{BackupReport, PartReport, RecoveryReport};
use std::fmt::Write;

const LABEL_WIDTH: f64 = 190.0;
const CHART_WIDTH: f64 = 900.0;
const AMOUNT_WIDTH: f64 = 420.0;
const ROW_HEIGHT: f64 = 22.0;
const TOP: f64 = 70.0;
/// Rows of partitions, and of backups, that are drawn; the rest is counted in words.
const ROW_COUNT_MAX: usize = 200;
/// Colour of steps that no partition and no backup has.
const STEP_COLOR: &str = "#76b7b2";

/// A color for each kind of span, and in which part of a row it is drawn: those that overlap lie below each other.
const KINDS: [(&str, &str, f64, f64); 10] = [
    ("read", "#edc948", 0.0, 0.5),
    ("divide", "#d37295", 0.5, 0.5),
    ("assign", "#9e9e9e", 0.0, 1.0),
    ("transfer", "#4e79a7", 0.0, 0.34),
    ("replay", "#f28e2b", 0.33, 0.34),
    ("replicate", "#59a14f", 0.66, 0.34),
    ("enter", "#b07aa1", 0.0, 1.0),
    ("publish", "#e15759", 0.0, 1.0),
    ("settle", "#bab0ac", 0.0, 1.0),
    ("free", "#9c755f", 0.0, 1.0),
];

/// One line of the picture.
struct Row {
    label: String,
    /// At the right.
    amount: String,
    spans: Vec<Span>,
    /// The row is about all together, so it stands alone.
    is_step: bool,
}

fn step_row(span: Span) -> Row {
    let (label, amount) = (span.name.to_owned(), span.amount.text());
    Row { label, amount, spans: vec![span], is_step: true }
}

fn part_row(part: &PartReport) -> Row {
    let fate = if part.failed.is_some() { ", failed" } else { "" };
    Row {
        label: format!("partition {} at {}{fate}", part.partition, part.server),
        amount: match part.records {
            0 => String::new(),
            records => {
                let from = distances_text(part).map(|told| format!(" ({told})")).unwrap_or_default();
                format!("{records} records, {}{from}", bytes_text(part.bytes))
            }
        },
        spans: part_spans(part),
        is_step: false,
    }
}

fn backup_row(backup: &BackupReport) -> Row {
    Row {
        label: format!("backup {}", backup.server),
        amount: format!(
            "{} read, {} divided, {} freed",
            backup.read.count, backup.divide.count, backup.free.count
        ),
        spans: backup_spans(backup),
        is_step: false,
    }
}

fn empty_row(label: String) -> Row {
    Row { label, amount: String::new(), spans: Vec::new(), is_step: false }
}

fn rows(report: &RecoveryReport) -> Vec<Row> {
    let mut rows: Vec<Row> = steps(report).into_iter().map(step_row).collect();
    let mut add = |some: Vec<Row>, count: usize| {
        if count > 0 {
            rows.push(empty_row(String::new()));
            rows.extend(some);
        }
        if count > ROW_COUNT_MAX {
            rows.push(empty_row(format!("and {} more", count - ROW_COUNT_MAX)));
        }
    };
    add(report.parts.iter().take(ROW_COUNT_MAX).map(part_row).collect(), report.parts.len());
    add(report.backups.iter().take(ROW_COUNT_MAX).map(backup_row).collect(), report.backups.len());
    rows
}

pub fn draw(report: &RecoveryReport) -> String {
    let rows = rows(report);
    let all = || rows.iter().flat_map(|row| &row.spans);
    let begin = all().map(|span| span.from).fold(0.0, f64::min);
    let known = all().flat_map(|span| [Some(span.from), span.to]).flatten().fold(1.0, f64::max);
    // A span that is not over extends to the right edge.
    let end = if all().any(|span| span.to.is_none()) { known * 1.05 } else { known };
    let x = |millis: f64| LABEL_WIDTH + (millis - begin) / (end - begin) * CHART_WIDTH;
    let right = LABEL_WIDTH + CHART_WIDTH + 12.0;
    let bottom = TOP + rows.len() as f64 * ROW_HEIGHT;
    let (width, height) = (right + AMOUNT_WIDTH, bottom + 30.0);

    let mut out = String::new();
    let mut put = |text: std::fmt::Arguments<'_>| out.write_fmt(text).expect("a string takes everything");
    put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    ));
    put(format_args!(
        "<text x=\"10\" y=\"22\" font-size=\"16\">{} of {}: {}, {} records, {} partitions, {}</text>\n",
        report.recovery,
        report.crashed,
        bytes_text(report.bytes),
        report.records,
        report.partitions,
        match report.done_millis {
            Some(done) => format!("over {done} ms after the verdict"),
            None => "not over".to_owned(),
        }
    ));
    let mut at = LABEL_WIDTH;
    for (name, color, ..) in KINDS {
        put(format_args!(
            "<rect x=\"{at:.0}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{color}\"/><text x=\"{:.0}\" y=\"46\">{name}</text>\n",
            at + 16.0
        ));
        at += 90.0;
    }
    let step = tick(end - begin);
    let mut mark = (begin / step).ceil() * step;
    while mark <= end {
        put(format_args!(
            "<line x1=\"{0:.1}\" y1=\"{TOP}\" x2=\"{0:.1}\" y2=\"{bottom:.0}\" stroke=\"#ddd\"/><text x=\"{0:.1}\" y=\"{1:.0}\" \
             text-anchor=\"middle\" fill=\"#666\">{2:.0} ms</text>\n",
            x(mark),
            bottom + 16.0,
            // Adding 0.0 avoids "-0".
            mark + 0.0
        ));
        mark += step;
    }
    let mut y = TOP;
    for row in &rows {
        label(&mut put, 10.0, y, &row.label);
        label(&mut put, right, y, &row.amount);
        for span in &row.spans {
            let kind = KINDS.iter().find(|(name, ..)| *name == span.name);
            let (color, down, high) = match kind {
                Some((_, color, ..)) if row.is_step => (*color, 0.0, 1.0),
                Some((_, color, down, high)) => (*color, *down, *high),
                None => (STEP_COLOR, 0.0, 1.0),
            };
            let ends = (x(span.from), x(span.to.unwrap_or(end)));
            bar(&mut put, ends, (y + 2.0 + down * (ROW_HEIGHT - 4.0), high), color, span);
        }
        y += ROW_HEIGHT;
    }
    put(format_args!("</svg>\n"));
    out
}

fn label(put: &mut impl FnMut(std::fmt::Arguments<'_>), x: f64, y: f64, text: &str) {
    if !text.is_empty() {
        put(format_args!("<text x=\"{x:.0}\" y=\"{:.1}\">{text}</text>\n", y + 15.0));
    }
}

/// Each shows its figures when the pointer is on it.
fn bar(
    put: &mut impl FnMut(std::fmt::Arguments<'_>),
    (from, to): (f64, f64),
    (y, high): (f64, f64),
    color: &str,
    span: &Span,
) {
    let (width, height) = ((to - from).max(1.0), (ROW_HEIGHT - 4.0) * high);
    let told = match span.to {
        Some(to) => format!("{}: {:.1} to {to:.1} ms", span.name, span.from),
        None => format!("{}: since {:.1} ms", span.name, span.from),
    };
    let amount = span.amount.text();
    let comma = if amount.is_empty() { "" } else { ", " };
    put(format_args!(
        "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{color}\">\
         <title>{told}{comma}{amount}</title></rect>\n"
    ));
}

/// A round distance of marks, for about ten of them.
fn tick(range: f64) -> f64 {
    let raw = range / 10.0;
    let power = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= raw).unwrap_or(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round() {
        for (range, step) in [(100.0, 10.0), (101.0, 20.0), (999.0, 100.0), (4_000.0, 500.0), (5.0, 0.5)] {
            assert!((tick(range) - step).abs() < 1e-9, "{range}");
        }
    }
}
