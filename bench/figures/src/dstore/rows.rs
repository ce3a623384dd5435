//! The rows of the figures: what the paper has, what the simulation has, and whether it suffices.

use crate::table::{Cell, Table};

/// Whether a criterion is met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Met,
    FallsShort,
    /// There is no criterion: the number is told.
    Told,
}

#[derive(Clone, Debug)]
pub struct Row {
    pub figure: &'static str,
    pub what: String,
    /// The paper's number; empty: it tells none.
    pub paper: String,
    pub ours: String,
    pub criterion: String,
    pub verdict: Verdict,
}

/// A figure that was made: its curves, and its rows.
#[derive(Clone, Debug)]
pub struct Made {
    pub curves: Vec<Table>,
    pub rows: Vec<Row>,
}

/// Rows of one figure.
pub struct Rows {
    figure: &'static str,
    rows: Vec<Row>,
}

impl Rows {
    pub fn new(figure: &'static str) -> Rows {
        Rows { figure, rows: Vec::new() }
    }

    /// A number that must be between `least` and `most`.
    pub fn within(&mut self, what: impl Into<String>, paper: &str, ours: f64, (least, most): (f64, f64)) {
        let criterion = if most == f64::INFINITY {
            format!(">= {}", bound(least))
        } else if least == f64::NEG_INFINITY {
            format!("<= {}", bound(most))
        } else {
            format!("{} to {}", bound(least), bound(most))
        };
        self.judged(what, paper, (number(ours), &criterion), (least..=most).contains(&ours));
    }

    pub fn at_least(&mut self, what: impl Into<String>, paper: &str, ours: f64, least: f64) {
        self.within(what, paper, ours, (least, f64::INFINITY));
    }

    pub fn at_most(&mut self, what: impl Into<String>, paper: &str, ours: f64, most: f64) {
        self.within(what, paper, ours, (f64::NEG_INFINITY, most));
    }

    pub fn judged(
        &mut self,
        what: impl Into<String>,
        paper: &str,
        (ours, criterion): (String, &str),
        is_met: bool,
    ) {
        let verdict = if is_met { Verdict::Met } else { Verdict::FallsShort };
        self.add(what.into(), paper, ours, criterion, verdict);
    }

    pub fn told(&mut self, what: impl Into<String>, paper: &str, ours: impl Into<String>) {
        self.add(what.into(), paper, ours.into(), "told", Verdict::Told);
    }

    fn add(&mut self, what: String, paper: &str, ours: String, criterion: &str, verdict: Verdict) {
        let (paper, criterion) = (paper.to_owned(), criterion.to_owned());
        self.rows.push(Row { figure: self.figure, what, paper, ours, criterion, verdict });
    }

    pub fn made(self, curves: Vec<Table>) -> Made {
        Made { curves, rows: self.rows }
    }
}

/// A bound with two decimal places at most.
fn bound(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// With as many decimal places as are of use.
pub fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// All rows as one table.
pub fn table(rows: &[Row]) -> Table {
    let text = |text: &str| if text.is_empty() { Cell::None } else { Cell::Text(text.to_owned()) };
    let cells = |row: &Row| {
        let verdict = match row.verdict {
            Verdict::Met => "met",
            Verdict::FallsShort => "falls short",
            Verdict::Told => "",
        };
        vec![
            text(row.figure),
            text(&row.what),
            text(&row.paper),
            text(&row.ours),
            text(&row.criterion),
            text(verdict),
        ]
    };
    let short = rows.iter().filter(|row| row.verdict == Verdict::FallsShort).count();
    let met = rows.iter().filter(|row| row.verdict == Verdict::Met).count();
    Table {
        name: "dstore",
        title: "the figures of DSTORE04: the paper, the simulation, the criterion".into(),
        notes: vec![format!("{met} criteria met, {short} fall short")],
        columns: vec!["figure", "what", "paper", "ours", "criterion", ""],
        rows: rows.iter().map(cells).collect(),
        x: 0,
        y: Vec::new(),
        series: None,
        is_log: false,
    }
}

/// The curve of a figure: lines over its first column.
pub fn curve(name: &'static str, title: &str, columns: Vec<&'static str>, rows: Vec<Vec<f64>>) -> Table {
    let y = (1..columns.len()).collect();
    let cells = |row: Vec<f64>| row.into_iter().map(|value| Cell::Number(value, 2)).collect();
    Table {
        name,
        title: title.into(),
        notes: Vec::new(),
        columns,
        rows: rows.into_iter().map(cells).collect(),
        x: 0,
        y,
        series: None,
        is_log: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_the_criterion_and_whether_it_is_met() {
        let mut rows = Rows::new("fig99");
        rows.at_least("a", "0.7", 0.96, 0.95);
        rows.at_most("b", "", 3.0, 2.0);
        rows.within("c", "", f64::NAN, (0.0, 1.0));
        rows.told("d", "1", "2");
        let made = rows.made(Vec::new());
        let verdicts: Vec<Verdict> = made.rows.iter().map(|row| row.verdict).collect();
        use Verdict::{FallsShort, Met, Told};
        assert_eq!(verdicts, [Met, FallsShort, FallsShort, Told], "no number meets nothing");
        assert_eq!(made.rows[0].criterion, ">= 0.95");
        assert!(table(&made.rows).text().contains("1 criteria met, 2 fall short"));
    }
}
