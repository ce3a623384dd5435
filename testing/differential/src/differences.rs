//! The explained differences: the table of docs/redis-differences.md.
//!
//! The document is the only place for them. A difference that stands in no row is not excused.

use crate::reply::{ManyKind, Reply};
use std::sync::atomic::{AtomicU64, Ordering};

const DOCUMENT: &str = include_str!("../../../docs/redis-differences.md");
/// More rows would mean that this is not Redis.
pub const COUNT_MAX: usize = 40;

/// How replies of a row are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Only that both answered. On a connection of its own, nothing behind it is compared.
    Answered,
    /// Only the types of the replies, whatever their length and contents.
    Types,
    /// Both are errors, with different texts.
    Errors,
}

#[derive(Debug)]
pub struct Difference {
    pub name: String,
    /// Names of commands; `*` at the end stands for any rest.
    commands: Vec<String>,
    /// The text of the replies of redis-server and of the other server, with `*` for anything.
    when: [String; 2],
    treatment: Treatment,
    pub reason: String,
    hits: AtomicU64,
}

#[derive(Debug, Default)]
pub struct Differences {
    rows: Vec<Difference>,
}

impl Differences {
    /// The differences of the document.
    pub fn documented() -> Result<Differences, String> {
        Differences::parse(DOCUMENT)
    }

    /// Reads every row `| name | commands | Redis's reply | the other's | compared | reason |` whose first cell is in
    /// backquotes.
    pub fn parse(document: &str) -> Result<Differences, String> {
        let mut rows: Vec<Difference> = Vec::new();
        for line in document.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [name, commands, left, right, compared, reason] = cells.as_slice() else {
                return Err(format!("a row does not have six cells: {line}"));
            };
            let treatment = match *compared {
                "answered" => Treatment::Answered,
                "types" => Treatment::Types,
                "errors" => Treatment::Errors,
                other => return Err(format!("there is no comparison '{other}'")),
            };
            if reason.is_empty() {
                return Err(format!("{name} has no reason"));
            }
            let quoted = |cell: &str| -> Vec<String> {
                cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
            };
            let first = |cell: &str| quoted(cell).into_iter().next().unwrap_or_default();
            if rows.iter().any(|row| row.name == first(name)) {
                return Err(format!("{name} is there twice"));
            }
            rows.push(Difference {
                name: first(name),
                commands: quoted(commands),
                when: [first(left), first(right)],
                treatment,
                reason: (*reason).to_owned(),
                hits: AtomicU64::new(0),
            });
        }
        if rows.len() > COUNT_MAX {
            return Err(format!("{} explained differences; {COUNT_MAX} are the most", rows.len()));
        }
        Ok(Differences { rows })
    }

    /// The row that explains different replies to this command, as the way in which they are compared.
    pub fn explain(&self, command: &str, left: &Reply, right: &Reply) -> Option<Treatment> {
        let shown = [left.to_string(), right.to_string()];
        let fits = |row: &&Difference| {
            row.commands.iter().any(|pattern| matches(pattern, command))
                && row.when.iter().zip(&shown).all(|(pattern, reply)| matches(pattern, reply))
                && match row.treatment {
                    Treatment::Answered => true,
                    Treatment::Types => same_types(left, right),
                    Treatment::Errors => matches!((left, right), (Reply::Error(_), Reply::Error(_))),
                }
        };
        let row = self.rows.iter().find(fits)?;
        row.hits.fetch_add(1, Ordering::Relaxed);
        Some(row.treatment)
    }

    /// The number of times that each row was needed.
    pub fn hits(&self) -> impl Iterator<Item = (&str, u64)> {
        self.rows.iter().map(|row| (row.name.as_str(), row.hits.load(Ordering::Relaxed)))
    }

    pub fn rows(&self) -> &[Difference] {
        &self.rows
    }
}

/// Whether the replies are of one type, elements included as far as both have them.
pub fn same_types(left: &Reply, right: &Reply) -> bool {
    match (left, right) {
        (Reply::Many(ManyKind::Map, _), Reply::Many(ManyKind::Map, _)) => true,
        (Reply::Many(one, lefts), Reply::Many(other, rights)) => {
            one == other && lefts.iter().zip(rights).all(|(left, right)| same_types(left, right))
        }
        _ => std::mem::discriminant(left) == std::mem::discriminant(right),
    }
}

/// `*` stands for anything, everything else for itself.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.len() >= tail.len() && text.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> Reply {
        Reply::Error(text.as_bytes().to_vec())
    }

    #[test]
    fn the_document_is_read_and_has_few_rows() {
        let differences = Differences::documented().unwrap();
        assert!(!differences.rows().is_empty());
        assert!(
            differences
                .rows()
                .iter()
                .all(|row| !row.commands.is_empty() && !row.when.iter().any(String::is_empty))
        );
    }

    #[test]
    fn a_row_explains_what_it_names_and_nothing_else() {
        let row = "| `limit` | `SETRANGE`, `BIT*` | `-ERR a*` | `-ERR * too long` | errors | Smaller. |";
        let differences = Differences::parse(row).unwrap();
        assert_eq!(
            differences.explain("SETRANGE", &error("ERR a"), &error("ERR is too long")),
            Some(Treatment::Errors)
        );
        assert_eq!(
            differences.explain("BITOP", &error("ERR a"), &error("ERR is too long")),
            Some(Treatment::Errors)
        );
        assert_eq!(differences.explain("SET", &error("ERR a"), &error("ERR is too long")), None);
        assert_eq!(differences.explain("SETRANGE", &error("ERR a"), &error("ERR is too short")), None);
        assert_eq!(differences.explain("SETRANGE", &error("ERR b"), &error("ERR is too long")), None);
        assert_eq!(differences.explain("SETRANGE", &Reply::Integer(1), &error("ERR is too long")), None);
        assert_eq!(differences.hits().collect::<Vec<_>>(), [("limit", 2)]);
    }

    #[test]
    fn rows_that_say_nothing_are_refused() {
        assert!(Differences::parse("| `a` | `GET` | `*` | `*` | somehow | Why. |").is_err());
        assert!(Differences::parse("| `a` | `GET` | `*` | `*` | types |  |").is_err());
        assert!(Differences::parse("| `a` | `GET` | `*` | types | Why. |").is_err());
        let row = |n: usize| format!("| `a{n}` | `GET` | `*` | `*` | types | Why. |\n");
        assert!(Differences::parse(&(0..40).map(row).collect::<String>()).is_ok());
        assert!(Differences::parse(&(0..41).map(row).collect::<String>()).is_err());
    }

    #[test]
    fn stars_match_anything() {
        for (pattern, text, is) in [
            ("*", "", true),
            ("a*", "ab", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("ab*ba", "aba", false),
            ("x", "xy", false),
        ] {
            assert_eq!(matches(pattern, text), is, "{pattern} {text}");
        }
    }
}
