//! The output of a figure: a table with the paper's results beside it, as text, CSV and JSON, and a plot.

use serde_json::{Value, json};
use std::fmt::Write;

/// A figure that was measured.
#[derive(Clone, Debug)]
pub struct Table {
    /// `fig08`; also the name of its files.
    pub name: &'static str,
    pub title: String,
    /// The notes on the model, the hardware first; a line each.
    pub notes: Vec<String>,
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<Cell>>,
    /// The axes of the plot: the column from left to right, and the columns from bottom to top. Each value of
    /// another `series` column has lines of its own.
    pub x: usize,
    pub y: Vec<usize>,
    pub series: Option<usize>,
    pub is_log: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(String),
    /// A number with this many decimal places.
    Number(f64, usize),
    /// The paper does not say, or it was not measured.
    None,
}

impl Cell {
    pub fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(number, _) if *number != 0.0 && number.abs() < 1e-3 => format!("{number:.1e}"),
            Cell::Number(number, digits) => format!("{number:.digits$}"),
            Cell::None => "-".into(),
        }
    }

    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Number(number, _) => Some(*number),
            Cell::Text(_) | Cell::None => None,
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) => json!(text),
            Cell::Number(number, _) => json!(number),
            Cell::None => Value::Null,
        }
    }
}

/// A paper's figure, where it gives one.
pub fn paper(number: Option<f64>, digits: usize) -> Cell {
    number.map_or(Cell::None, |number| Cell::Number(number, digits))
}

impl Table {
    pub fn text(&self) -> String {
        let mut out = format!("{}: {}\n", self.name, self.title);
        for note in &self.notes {
            let _ = writeln!(out, "  {note}");
        }
        let lines: Vec<Vec<String>> = [self.columns.iter().map(ToString::to_string).collect()]
            .into_iter()
            .chain(self.rows.iter().map(|row| row.iter().map(Cell::text).collect()))
            .collect();
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        for line in &lines {
            let cells: Vec<String> =
                line.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
            let _ = writeln!(out, "  {}", cells.join("  "));
        }
        out
    }

    /// The table in the format of docs/measurements/simulated-clusters.md.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut out = line(self.columns.iter().map(ToString::to_string).collect());
        out += &format!("|{}\n", "---|".repeat(self.columns.len()));
        for row in &self.rows {
            out += &line(row.iter().map(Cell::text).collect());
        }
        out
    }

    pub fn csv(&self) -> String {
        let quoted = |text: &str| {
            if text.contains([',', '"', '\n']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_owned()
            }
        };
        let mut out = self.columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",") + "\n";
        for row in &self.rows {
            let cells = row.iter().map(|cell| match cell {
                Cell::Text(text) => quoted(text),
                Cell::Number(number, _) => number.to_string(),
                Cell::None => String::new(),
            });
            out += &(cells.collect::<Vec<_>>().join(",") + "\n");
        }
        out
    }

    pub fn json(&self) -> Value {
        let rows: Vec<Vec<Value>> =
            self.rows.iter().map(|row| row.iter().map(Cell::json).collect()).collect();
        json!({ "name": self.name, "title": self.title, "notes": self.notes, "columns": self.columns, "rows": rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_told_in_three_ways() {
        let table = Table {
            name: "t",
            title: "title".into(),
            notes: vec!["note".into()],
            columns: vec!["masters", "a, b"],
            rows: vec![
                vec![Cell::Number(2.0, 0), Cell::Number(1.234, 2)],
                vec![Cell::Number(20.0, 0), Cell::None],
            ],
            x: 0,
            y: vec![1],
            series: None,
            is_log: false,
        };
        assert_eq!(table.text(), "t: title\n  note\n  masters  a, b\n        2  1.23\n       20     -\n");
        assert_eq!(table.csv(), "masters,\"a, b\"\n2,1.234\n20,\n");
        assert_eq!(table.json()["rows"][0][1], 1.234);
        assert!(table.markdown().starts_with("| masters | a, b |\n|---|---|\n| 2 | 1.23 |\n"));
    }
}
