//! Splits Rust source into words and signs, without comments, literals and tests.
//!
//! The result is enough to find paths and definitions. It is no parser: it relies on `rustc` having accepted
//! the source.

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token {
    Word(String),
    /// `::`
    Path,
    Sign(char),
}

impl Token {
    pub fn is(&self, sign: char) -> bool {
        *self == Token::Sign(sign)
    }

    pub fn word(&self) -> Option<&str> {
        match self {
            Token::Word(word) => Some(word),
            Token::Path | Token::Sign(_) => None,
        }
    }
}

/// The tokens of a source file without the items under `#[cfg(test)]`.
pub fn code(text: &str) -> Vec<Token> {
    without_tests(&tokens(text))
}

fn tokens(text: &str) -> Vec<Token> {
    let characters: Vec<char> = text.chars().collect();
    let at = |index: usize| characters.get(index).copied().unwrap_or('\0');
    let mut tokens = Vec::new();
    let mut index = 0;
    while index < characters.len() {
        let character = at(index);
        match character {
            '/' if at(index + 1) == '/' => {
                while index < characters.len() && at(index) != '\n' {
                    index += 1;
                }
            }
            '/' if at(index + 1) == '*' => index = comment_end(&characters, index),
            '"' => index = string_end(&characters, index),
            '\'' if at(index + 1) == '\\' || at(index + 2) == '\'' => {
                index += if at(index + 1) == '\\' { 3 } else { 2 };
                while index < characters.len() && at(index) != '\'' {
                    index += 1;
                }
                index += 1;
            }
            // A lifetime is no word: nothing is imported by it.
            '\'' => index = word_end(&characters, index + 1),
            _ if is_raw_string(&characters, index) => index = raw_string_end(&characters, index),
            _ if character.is_ascii_digit() => index = word_end(&characters, index),
            _ if character == '_' || character.is_alphabetic() => {
                let end = word_end(&characters, index);
                let word: String = characters[index..end].iter().collect();
                // The prefixes of a raw name, a byte string and a C string belong to what follows.
                let is_prefix =
                    ["r", "b", "c"].contains(&word.as_str()) && ['#', '"', '\''].contains(&at(end));
                if !is_prefix {
                    tokens.push(Token::Word(word));
                }
                index = if is_prefix && at(end) == '#' { end + 1 } else { end };
            }
            ':' if at(index + 1) == ':' => {
                tokens.push(Token::Path);
                index += 2;
            }
            _ => {
                if !character.is_whitespace() {
                    tokens.push(Token::Sign(character));
                }
                index += 1;
            }
        }
    }
    tokens
}

fn word_end(characters: &[char], start: usize) -> usize {
    let is_part = |character: &&char| **character == '_' || character.is_alphanumeric();
    start + characters[start..].iter().take_while(is_part).count()
}

/// Comments may be nested.
fn comment_end(characters: &[char], start: usize) -> usize {
    let (mut depth, mut index) = (0_u32, start);
    while index < characters.len() {
        match characters[index..] {
            ['/', '*', ..] => (depth, index) = (depth + 1, index + 2),
            ['*', '/', ..] => (depth, index) = (depth - 1, index + 2),
            _ => index += 1,
        }
        if depth == 0 {
            break;
        }
    }
    index
}

fn string_end(characters: &[char], start: usize) -> usize {
    let mut index = start + 1;
    while index < characters.len() && characters[index] != '"' {
        index += if characters[index] == '\\' { 2 } else { 1 };
    }
    index + 1
}

/// `r"`, `r#"`, `br#"` and so on.
fn is_raw_string(characters: &[char], start: usize) -> bool {
    let rest = &characters[start..];
    let rest = match rest {
        ['b' | 'c', 'r', rest @ ..] | ['r', rest @ ..] => rest,
        _ => return false,
    };
    rest.iter().find(|character| **character != '#') == Some(&'"')
}

fn raw_string_end(characters: &[char], start: usize) -> usize {
    let open = start + characters[start..].iter().take_while(|character| **character != '"').count();
    let hashes = characters[start..open].iter().filter(|character| **character == '#').count();
    let mut index = open + 1;
    while index < characters.len() {
        let is_end = characters[index] == '"'
            && characters[index + 1..].iter().take(hashes).filter(|character| **character == '#').count()
                == hashes;
        index += 1;
        if is_end {
            return index + hashes;
        }
    }
    index
}

fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let test: Vec<Token> = self::tokens("#[cfg(test)]");
    let mut kept = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        if tokens[index..].starts_with(&test) {
            index = item_end(tokens, index + test.len());
        } else {
            kept.push(tokens[index].clone());
            index += 1;
        }
    }
    kept
}

/// Where the item, field or statement that begins here ends; it may have more attributes.
fn item_end(tokens: &[Token], start: usize) -> usize {
    let mut index = start;
    while tokens.get(index).is_some_and(|token| token.is('#')) {
        index = group_end(tokens, index + 1);
    }
    const ITEMS: [&str; 9] = ["mod", "fn", "impl", "struct", "enum", "trait", "use", "const", "static"];
    let mut is_item = false;
    let mut ends_with_brace = true;
    while let Some(token) = tokens.get(index) {
        match token {
            Token::Sign('{' | '(' | '[') => {
                let is_brace = token.is('{');
                index = group_end(tokens, index);
                if is_brace && ends_with_brace {
                    return index;
                }
                continue;
            }
            Token::Sign('}' | ')' | ']') => return index,
            Token::Sign(';') => return index + 1,
            Token::Sign(',') if !is_item => return index + 1,
            Token::Sign('=') => ends_with_brace = false,
            Token::Word(word) => {
                is_item |= ITEMS.contains(&word.as_str());
                ends_with_brace &= word != "use";
            }
            Token::Path | Token::Sign(_) => {}
        }
        index += 1;
    }
    index
}

/// Behind the bracket that closes the one here.
pub fn group_end(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_u32;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Sign('{' | '(' | '[') => depth += 1,
            Token::Sign('}' | ')' | ']') => depth -= 1,
            Token::Word(_) | Token::Path | Token::Sign(_) => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        code(text).iter().filter_map(Token::word).map(str::to_owned).collect()
    }

    #[test]
    fn comments_and_literals_are_no_words() {
        assert_eq!(words("a // b\n c /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(words(r##"a("b \" c", r"d\", r#"e " f"#, b"g", br#"h"#, c"i")"##), ["a"]);
        assert_eq!(words(r"m('a', '\'', '\\', '\u{61}', b'x', '{') n::<'b>()"), ["m", "n"]);
        assert_eq!(words("r#type 1_000u64 0..2 1.5e3 _x"), ["type", "_x"]);
    }

    #[test]
    fn code_for_tests_alone_is_left_out() {
        assert_eq!(
            words("fn a() {} #[cfg(test)] mod tests { fn b() { {} } } fn c() {}"),
            ["fn", "a", "fn", "c"]
        );
        assert_eq!(words("#[cfg(test)] #[path = \"x\"] mod tests; use a::b;"), ["use", "a", "b"]);
        assert_eq!(words("#[cfg(test)] use a::{b, c}; d"), ["d"]);
        assert_eq!(words("#[cfg(test)] const A: B = C { d: 1 }; e"), ["e"]);
        assert_eq!(words("struct A { #[cfg(test)] b: C<D>, e: F }"), ["struct", "A", "e", "F"]);
        assert_eq!(words("#[cfg(test)] fn a(b: C, d: E) { f } g"), ["g"]);
        assert_eq!(words("#[cfg(not(test))] a"), ["cfg", "not", "test", "a"]);
    }
}
