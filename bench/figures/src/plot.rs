//! A simple plot of a table: lines over one column. The CSV has everything else.

use crate::table::Table;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 50.0;
const COLORS: [&str; 8] =
    ["#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#edc948", "#b07aa1", "#9c755f"];

struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

fn lines(table: &Table) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for column in &table.y {
        for row in &table.rows {
            let (Some(x), Some(y)) = (row[table.x].number(), row[*column].number()) else { continue };
            if table.is_log && (x <= 0.0 || y <= 0.0) {
                continue;
            }
            let name = match table.series.map(|series| row[series].text()) {
                Some(series) if table.y.len() > 1 => format!("{series}: {}", table.columns[*column]),
                Some(series) => series,
                None => table.columns[*column].to_owned(),
            };
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push((x, y)),
                None => lines.push(Line { name, points: vec![(x, y)] }),
            }
        }
    }
    lines
}

/// The picture as SVG.
pub fn draw(table: &Table) -> String {
    let lines = lines(table);
    let all = || lines.iter().flat_map(|line| &line.points);
    let by = |value: f64| if table.is_log { value.log10() } else { value };
    let range = |values: Vec<f64>| {
        let low = if table.is_log { values.iter().copied().fold(f64::INFINITY, f64::min) } else { 0.0 };
        let high = values.iter().copied().fold(low, f64::max);
        if high > low { (low, high) } else { (low, low + 1.0) }
    };
    let (x_low, x_high) = range(all().map(|(x, _)| by(*x)).collect());
    let (y_low, y_high) = range(all().map(|(_, y)| by(*y)).collect());
    let x = |value: f64| LEFT + (by(value) - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - (by(value) - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM);

    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"22\" font-size=\"15\">{}: {}</text>\n",
        table.name,
        escaped(&table.title)
    );
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for mark in marks(x_low, x_high, table.is_log) {
        let at = x(mark);
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"#eee\"/><text x=\"{at:.1}\" y=\"{:.0}\" \
             text-anchor=\"middle\" fill=\"#666\">{mark}</text>",
            bottom + 16.0
        );
    }
    for mark in marks(y_low, y_high, table.is_log) {
        let at = y(mark);
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#eee\"/><text x=\"{:.0}\" y=\"{:.1}\" \
             text-anchor=\"end\" fill=\"#666\">{mark}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    let below = escaped(table.columns[table.x]);
    let middle = (LEFT + right) / 2.0;
    let _ = writeln!(
        out,
        "<text x=\"{middle:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{below}</text>",
        HEIGHT - 12.0
    );
    for (index, line) in lines.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        let mut points = line.points.clone();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let path: Vec<String> = points.iter().map(|(a, b)| format!("{:.1},{:.1}", x(*a), y(*b))).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for (a, b) in &points {
            let (cx, cy) = (x(*a), y(*b));
            let _ = writeln!(
                out,
                "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\" fill=\"{color}\"><title>{a}: {b:.4}</title></circle>"
            );
        }
        let at = TOP + 16.0 * index as f64;
        let _ = writeln!(
            out,
            "<rect x=\"{:.0}\" y=\"{:.0}\" width=\"10\" height=\"10\" fill=\"{color}\"/><text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
            right + 14.0,
            at,
            right + 30.0,
            at + 9.0,
            escaped(&line.name)
        );
    }
    out + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Round values in a range; on a logarithmic axis, powers of ten.
fn marks(low: f64, high: f64, is_log: bool) -> Vec<f64> {
    if is_log {
        let step = ((high - low) / 8.0).ceil().max(1.0) as usize;
        return (low.floor() as i32..=high.ceil() as i32)
            .step_by(step)
            .filter(|power| (low..=high).contains(&f64::from(*power)))
            .map(|power| 10f64.powi(power))
            .collect();
    }
    let raw = (high - low) / 6.0;
    let power = 10f64.powf(raw.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= raw);
    let step = round.unwrap_or(raw);
    let digits = (-step.log10().floor()).max(0.0);
    let rounded = |value: f64| (value * 10f64.powf(digits)).round() / 10f64.powf(digits);
    (0..=8).map(|i| rounded(low + f64::from(i) * step)).filter(|mark| *mark <= high).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Cell;

    #[test]
    fn every_series_is_a_line_with_all_its_points() {
        let row = |series: &str, x: f64, y: f64| {
            vec![Cell::Text(series.into()), Cell::Number(x, 0), Cell::Number(y, 0)]
        };
        let table = Table {
            name: "t",
            title: "a < b".into(),
            notes: Vec::new(),
            columns: vec!["size", "x", "y"],
            rows: vec![row("one", 1.0, 1.0), row("two", 1.0, 2.0), row("one", 2.0, 3.0)],
            x: 1,
            y: vec![2],
            series: Some(0),
            is_log: false,
        };
        let picture = draw(&table);
        assert_eq!(picture.matches("<polyline").count(), 2);
        assert_eq!(picture.matches("<circle").count(), 3);
        assert!(picture.contains("a &lt; b"));
    }

    #[test]
    fn marks_are_round() {
        assert_eq!(marks(0.0, 1.2, false), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2]);
        assert_eq!(marks(-3.0, 0.0, true), [0.001, 0.01, 0.1, 1.0]);
    }
}
