//! The course of one recovery as a picture: time from left to right, the coordinator's steps above, a row for each turn of
//! a partition below.

use super::timeline::{Span, part_spans, steps};
use crate::size::bytes_text;
use ramhold_client::RecoveryReport;
use std::fmt::Write;

const LABEL_WIDTH: f64 = 230.0;
const CHART_WIDTH: f64 = 900.0;
const ROW_HEIGHT: f64 = 22.0;
const TOP: f64 = 70.0;
/// Rows of partitions that are drawn; the rest is counted in words.
const PART_COUNT_MAX: usize = 200;

/// A color for each kind of span, and in which part of a row it is drawn: those that overlap lie below each other.
const KINDS: [(&str, &str, f64, f64); 6] = [
    ("assign", "#9e9e9e", 0.0, 1.0),
    ("fetch", "#4e79a7", 0.0, 0.34),
    ("replay", "#f28e2b", 0.33, 0.34),
    ("replicate", "#59a14f", 0.66, 0.34),
    ("enter", "#b07aa1", 0.0, 1.0),
    ("publish", "#e15759", 0.0, 1.0),
];

pub fn draw(report: &RecoveryReport) -> String {
    let steps = steps(report);
    let parts: Vec<_> = report.parts.iter().take(PART_COUNT_MAX).collect();
    let spans: Vec<Vec<Span>> = parts.iter().map(|part| part_spans(part)).collect();
    let all = || steps.iter().chain(spans.iter().flatten());
    let begin = all().map(|span| span.from).fold(0.0, f64::min);
    let known = all().flat_map(|span| [Some(span.from), span.to]).flatten().fold(1.0, f64::max);
    // What is not over goes on to the right edge.
    let end = if all().any(|span| span.to.is_none()) { known * 1.05 } else { known };
    let x = |millis: f64| LABEL_WIDTH + (millis - begin) / (end - begin) * CHART_WIDTH;
    let rows = steps.len() + parts.len() + 2;
    let (width, height) = (LABEL_WIDTH + CHART_WIDTH + 30.0, TOP + rows as f64 * ROW_HEIGHT + 30.0);

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
            "<line x1=\"{0:.1}\" y1=\"{TOP}\" x2=\"{0:.1}\" y2=\"{1:.0}\" stroke=\"#ddd\"/><text x=\"{0:.1}\" y=\"{2:.0}\" \
             text-anchor=\"middle\" fill=\"#666\">{mark:.0} ms</text>\n",
            x(mark),
            height - 28.0,
            height - 12.0
        ));
        mark += step;
    }
    let mut y = TOP;
    for span in &steps {
        label(&mut put, y, span.name);
        bar(&mut put, (x(span.from), x(span.to.unwrap_or(end))), (y, 1.0), "#76b7b2", span);
        y += ROW_HEIGHT;
    }
    y += ROW_HEIGHT;
    for (part, spans) in parts.iter().zip(&spans) {
        let fate = if part.failed.is_some() { ", failed" } else { "" };
        label(&mut put, y, &format!("partition {} at {}{fate}", part.partition, part.server));
        for span in spans {
            let kind = KINDS.iter().find(|(name, ..)| *name == span.name);
            let (_, color, down, high) = kind.expect("every span has a kind");
            let ends = (x(span.from), x(span.to.unwrap_or(end)));
            bar(&mut put, ends, (y + down * (ROW_HEIGHT - 4.0), *high), color, span);
        }
        y += ROW_HEIGHT;
    }
    if report.parts.len() > parts.len() {
        label(&mut put, y, &format!("and {} more", report.parts.len() - parts.len()));
    }
    put(format_args!("</svg>\n"));
    out
}

fn label(put: &mut impl FnMut(std::fmt::Arguments<'_>), y: f64, text: &str) {
    put(format_args!("<text x=\"10\" y=\"{:.1}\">{text}</text>\n", y + 13.0));
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
    put(format_args!(
        "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{color}\">\
         <title>{told}</title></rect>\n"
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
