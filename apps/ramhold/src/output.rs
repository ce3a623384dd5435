//! Output to stdout: text in columns for people, JSON for programs.

use crate::failure::Failure;
use crate::screen::cut;
use std::io::Write;

/// Writes text that ends its own lines.
pub fn print(text: &str) -> Result<(), Failure> {
    write(text.as_bytes())
}

pub fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// A line for whoever watches, to stderr. That nobody does is no reason to stop.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// A line for whoever watches, to stdout, where it is not what the command is for.
pub fn show(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// One JSON value on one line.
pub fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(&format!("{value}\n"))
}

/// Bytes as a JSON field: `NAME` when they are text, else `NAME_base64`.
pub fn insert_bytes(object: &mut serde_json::Map<String, serde_json::Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => object.insert(format!("{name}_base64"), crate::base64::encode(bytes).into()),
    };
}

/// Bytes for a person's eyes: text as it is, with control characters and what is no text escaped.
pub fn bytes_for_eyes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// To which a cell may be cut.
const CELL_WIDTH_MIN: usize = 8;

/// Columns as wide as their widest cell, two spaces apart.
pub struct Columns {
    rows: Vec<Vec<String>>,
}

impl Columns {
    pub fn new<const N: usize>(head: [&str; N]) -> Columns {
        Columns { rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.rows[0].len());
        self.rows.push(cells.into());
    }

    pub fn text(&self) -> String {
        self.fitted(usize::MAX)
    }

    /// In lines of at most `width` columns, without as many of these columns as it takes, the first ones first. If that
    /// does not suffice, cells are cut.
    pub fn fitted_without(mut self, width: usize, dispensable: &[&str]) -> String {
        for name in dispensable {
            if self.text().lines().all(|line| line.chars().count() <= width) {
                break;
            }
            if let Some(at) = self.rows[0].iter().position(|head| head == name) {
                self.rows.iter_mut().for_each(|row| _ = row.remove(at));
            }
        }
        self.fitted(width)
    }

    /// In lines of at most `width` columns: the widest cells of text are cut, the last column first.
    pub fn fitted(&self, width_max: usize) -> String {
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let mut widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        let total: usize = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
        let mut excess = total.saturating_sub(width_max);
        for (column, width) in widths.iter_mut().enumerate().rev() {
            // A heading is never cut. The first column identifies its row, so it is cut last.
            let head = self.rows[0][column].chars().count();
            let less = excess.min(width.saturating_sub(head.max(CELL_WIDTH_MIN)));
            *width -= less;
            excess -= less;
        }
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                let cell = cut(cell, *width);
                line.push_str(&format!("{cell:<width$}  "));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let mut columns = Columns::new(["id", "name"]);
        columns.row(["1".to_owned(), "first".to_owned()]);
        columns.row(["1000".to_owned(), "x".to_owned()]);
        assert_eq!(columns.text(), "id    name\n1     first\n1000  x\n");
    }

    #[test]
    fn columns_are_cut_to_fit() {
        let mut columns = Columns::new(["id", "name", "n"]);
        columns.row(["1".to_owned(), "a name that is much too long".to_owned(), "12345678".to_owned()]);
        assert_eq!(columns.fitted(24), "id  name        n\n1   a name th…  12345678\n");
        assert_eq!(columns.fitted(1000), columns.text());
    }

    #[test]
    fn columns_are_left_out_to_fit_in_their_order_and_only_then_cells_are_cut() {
        let columns = || {
            let mut columns = Columns::new(["id", "name", "up", "place"]);
            columns.row(["1", "a long name", "3 min", "zone a"].map(str::to_owned));
            columns
        };
        let fitted = |width| columns().fitted_without(width, &["place", "up"]);
        assert_eq!(fitted(30), "id  name         up     place\n1   a long name  3 min  zone a\n");
        assert_eq!(fitted(29), "id  name         up\n1   a long name  3 min\n");
        assert_eq!(fitted(20), "id  name\n1   a long name\n");
        assert_eq!(fitted(13), "id  name\n1   a long n…\n");
    }

    #[test]
    fn bytes_cannot_forge_lines() {
        assert_eq!(bytes_for_eyes(b"a\n\xFFb"), "a\\n\\xffb");
    }

    #[test]
    fn bytes_that_are_no_text_become_base64() {
        let mut object = serde_json::Map::new();
        insert_bytes(&mut object, "key", b"text");
        insert_bytes(&mut object, "value", b"\xFF");
        assert_eq!(serde_json::Value::from(object).to_string(), r#"{"key":"text","value_base64":"/w=="}"#);
    }
}
