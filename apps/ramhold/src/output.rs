//! What goes to stdout: text for people in columns, JSON for programs.

use crate::failure::Failure;
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
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
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
