//! The layout of text for people: lines of at most 80 columns, and colours on a terminal.
//!
//! Only output to a terminal is cut or coloured: output that goes to a file or a program stays whole and
//! plain.

use std::io::IsTerminal;

/// Columns of the narrowest terminal that everything is laid out for.
pub const WIDTH: usize = 80;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colour {
    Green,
    Yellow,
    Red,
}

/// Where stdout goes, and what may be written there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Screen {
    pub is_terminal: bool,
    has_colours: bool,
}

impl Screen {
    pub fn of_stdout() -> Screen {
        Screen::new(std::io::stdout().is_terminal(), |name| std::env::var_os(name).unwrap_or_default())
    }

    /// NO_COLOR says that no colours are wanted (no-color.org), TERM=dumb that there are none.
    fn new(is_terminal: bool, variable: impl Fn(&str) -> std::ffi::OsString) -> Screen {
        let has_colours = is_terminal && variable("NO_COLOR").is_empty() && variable("TERM") != "dumb";
        Screen { is_terminal, has_colours }
    }

    /// Neither a terminal nor colours.
    #[cfg(test)]
    pub fn plain() -> Screen {
        Screen { is_terminal: false, has_colours: false }
    }

    pub fn paint(self, colour: Colour, text: &str) -> String {
        if !self.has_colours {
            return text.to_owned();
        }
        let code = match colour {
            Colour::Green => 32,
            Colour::Yellow => 33,
            Colour::Red => 31,
        };
        format!("\x1b[1;{code}m{text}\x1b[0m")
    }
}

/// The text in at most `width` columns; what was left out is replaced by one character.
pub fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some(_) if width == 0 => String::new(),
        Some(_) => text.chars().take(width - 1).chain(['…']).collect(),
    }
}

/// The words of a text in lines of at most `WIDTH` columns: the first begins with `first`, the others with as many spaces.
pub fn wrap(first: &str, text: &str) -> String {
    let indent = first.chars().count();
    let mut lines = String::from(first);
    let mut column = indent;
    for (index, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > WIDTH {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if index > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        let with = |is_terminal, set: &'static str| {
            Screen::new(is_terminal, move |name| {
                let value = set.split_once('=').filter(|(of, _)| *of == name).map(|(_, value)| value);
                OsString::from(value.unwrap_or_default())
            })
        };
        assert_eq!(with(true, "").paint(Colour::Red, "x"), "\x1b[1;31mx\x1b[0m");
        for plain in [with(false, ""), with(true, "NO_COLOR=1"), with(true, "TERM=dumb")] {
            assert_eq!(plain.paint(Colour::Red, "x"), "x");
        }
    }

    #[test]
    fn long_lines_are_wrapped_between_words_and_names_are_cut() {
        let text = wrap("  do: ", &"word ".repeat(30));
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert!(
            text.lines().count() == 2 && text.lines().nth(1).unwrap().starts_with("      word"),
            "{text}"
        );
        assert_eq!(wrap("", "x"), "x\n");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("äöüß", 4), "äöüß");
    }
}
