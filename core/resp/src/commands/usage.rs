//! The arguments of a command as `COMMAND DOCS` tells them, read from the usage line that people read.
//!
//! `word` stands for a value. `WORD` stands for itself, and takes the values behind it. `[…]` may be left
//! out. `<a | b>` is one of several. `[x ...]` behind `x` means any number of them.

use crate::Reply;

#[derive(Clone, PartialEq, Debug)]
pub struct Argument<'a> {
    shape: Shape<'a>,
    token: Option<&'a str>,
    optional: bool,
    multiple: bool,
}

#[derive(Clone, PartialEq, Debug)]
enum Shape<'a> {
    /// A value, by its name.
    Value(&'a str),
    /// The token alone.
    Token,
    OneOf(Vec<Argument<'a>>),
    Block(Vec<Argument<'a>>),
}

impl<'a> Argument<'a> {
    fn of(shape: Shape<'a>) -> Argument<'a> {
        Argument { shape, token: None, optional: false, multiple: false }
    }

    /// Makes one argument out of several in a row.
    fn together(mut arguments: Vec<Argument<'a>>) -> Argument<'a> {
        match arguments.len() {
            1 => arguments.remove(0),
            _ => Argument::of(Shape::Block(arguments)),
        }
    }
}

/// Reads the usage line behind a command's name.
pub fn arguments(usage: &str) -> Vec<Argument<'_>> {
    let mut words = words(usage);
    let arguments = sequence(&mut words);
    assert!(words.is_empty(), "brackets are closed in {usage:?}");
    arguments
}

/// The words and brackets of a line, in reverse order.
fn words(usage: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for word in usage.split(' ').filter(|word| !word.is_empty()) {
        let mut rest = word;
        while let Some(bracket) = rest.get(..1).filter(|start| matches!(*start, "[" | "<")) {
            words.push(bracket);
            rest = &rest[1..];
        }
        let inner = rest.trim_end_matches([']', '>']);
        if !inner.is_empty() {
            words.push(inner);
        }
        words.extend((inner.len()..rest.len()).map(|at| &rest[at..at + 1]));
    }
    words.reverse();
    words
}

/// Reads a sequence up to its end: a closing bracket, a bar, dots, or the end of the line.
fn sequence<'a>(words: &mut Vec<&'a str>) -> Vec<Argument<'a>> {
    let mut found: Vec<Argument<'a>> = Vec::new();
    // The last token, and the place where its values begin.
    let mut token: Option<(&'a str, usize)> = None;
    loop {
        match words.last().copied() {
            None | Some("]" | ">" | "|" | "...") => break,
            Some("[") => {
                words.pop();
                let (inner, repeats) = alternatives(words, "]");
                let again = match &inner.shape {
                    Shape::Block(parts) if inner.token.is_none() => parts.clone(),
                    _ => vec![inner.clone()],
                };
                if repeats && found.ends_with(&again) {
                    let mut repeated = Argument::together(found.split_off(found.len() - again.len()));
                    repeated.multiple = true;
                    found.push(repeated);
                    continue;
                }
                close(&mut found, token.take());
                found.push(Argument { optional: true, multiple: repeats || inner.multiple, ..inner });
            }
            Some("<") => {
                words.pop();
                found.push(alternatives(words, ">").0);
                close(&mut found, token.take());
            }
            Some(word) if word.starts_with(|first: char| first.is_ascii_uppercase()) => {
                words.pop();
                close(&mut found, token.take());
                token = Some((word, found.len()));
            }
            Some(word) => {
                words.pop();
                found.push(Argument::of(Shape::Value(word)));
            }
        }
    }
    close(&mut found, token);
    found
}

/// Gives a token the values behind it.
fn close<'a>(found: &mut Vec<Argument<'a>>, token: Option<(&'a str, usize)>) {
    let Some((word, start)) = token else { return };
    let values = found.split_off(start);
    let mut argument =
        if values.is_empty() { Argument::of(Shape::Token) } else { Argument::together(values) };
    if argument.token.is_some() || argument.multiple {
        argument = Argument::of(Shape::Block(vec![argument]));
    }
    found.push(Argument { token: Some(word), ..argument });
}

/// Reads the alternatives between brackets, and whether dots end them.
fn alternatives<'a>(words: &mut Vec<&'a str>, end: &str) -> (Argument<'a>, bool) {
    let (mut choices, mut repeats) = (Vec::new(), false);
    loop {
        choices.push(Argument::together(sequence(words)));
        match words.pop() {
            Some("|") => {}
            Some("...") => {
                repeats = true;
                assert_eq!(words.pop(), Some(end), "dots are last");
                break;
            }
            closing => {
                assert_eq!(closing, Some(end), "brackets are closed");
                break;
            }
        }
    }
    let one = choices.len() == 1;
    (if one { choices.remove(0) } else { Argument::of(Shape::OneOf(choices)) }, repeats)
}

/// The names of values that are keys.
const KEYS: &[&str] = &["key", "key1", "key2", "newkey", "source", "destination", "destkey"];
const INTEGERS: &[&str] = &[
    "bit",
    "client-id",
    "count",
    "cursor",
    "db",
    "decrement",
    "destination-db",
    "end",
    "frequency",
    "increment",
    "index",
    "len",
    "milliseconds",
    "numlocal",
    "numreplicas",
    "offset",
    "protover",
    "seconds",
    "start",
    "timeout",
    "ttl",
    "version",
];

/// Writes the arguments of a command that has this number of key specifications.
pub fn write(reply: &mut Reply<'_>, arguments: &[Argument<'_>], key_specification_count: usize) {
    let mut key_index = 0;
    write_all(reply, arguments, &mut || {
        key_index += 1;
        (key_index - 1).min(key_specification_count.saturating_sub(1))
    });
}

fn write_all(reply: &mut Reply<'_>, arguments: &[Argument<'_>], next_key: &mut impl FnMut() -> usize) {
    reply.array(arguments.len());
    for argument in arguments {
        write_one(reply, argument, next_key);
    }
}

fn write_one(reply: &mut Reply<'_>, argument: &Argument<'_>, next_key: &mut impl FnMut() -> usize) {
    let lower = argument.token.unwrap_or_default().to_ascii_lowercase();
    let (name, kind, parts) = match &argument.shape {
        Shape::Value(name) if KEYS.contains(name) => (*name, "key", None),
        Shape::Value(name) if INTEGERS.contains(name) => (*name, "integer", None),
        Shape::Value(name) if name.starts_with("unix-time") => (*name, "unix-time", None),
        Shape::Value("pattern") => ("pattern", "pattern", None),
        Shape::Value(name) => (*name, "string", None),
        Shape::Token => (&lower[..], "pure-token", None),
        Shape::OneOf(parts) if lower.is_empty() => ("option", "oneof", Some(parts)),
        Shape::OneOf(parts) => (&lower[..], "oneof", Some(parts)),
        Shape::Block(parts) if lower.is_empty() => ("arguments", "block", Some(parts)),
        Shape::Block(parts) => (&lower[..], "block", Some(parts)),
    };
    let flags: Vec<&str> = [("optional", argument.optional), ("multiple", argument.multiple)]
        .into_iter()
        .filter_map(|(flag, holds)| holds.then_some(flag))
        .collect();
    let extras = [kind == "key", argument.token.is_some(), !flags.is_empty(), parts.is_some()];
    reply.map(2 + extras.into_iter().filter(|extra| *extra).count());
    let mut pair = |name: &str, value: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    };
    pair("name", name);
    pair("type", kind);
    if kind == "key" {
        reply.bulk(b"key_spec_index");
        reply.integer(next_key() as i64);
    }
    if let Some(token) = argument.token {
        reply.bulk(b"token");
        reply.bulk(token.as_bytes());
    }
    if !flags.is_empty() {
        reply.bulk(b"flags");
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
    if let Some(parts) = parts {
        reply.bulk(b"arguments");
        write_all(reply, parts, next_key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::describe::rows;

    /// The usage line, written back.
    fn line(arguments: &[Argument<'_>]) -> String {
        arguments.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn one(argument: &Argument<'_>) -> String {
        let inner = match &argument.shape {
            Shape::Value(name) => name.to_string(),
            Shape::Token => String::new(),
            Shape::Block(parts) => line(parts),
            Shape::OneOf(parts) => {
                let choices = parts.iter().map(one).collect::<Vec<_>>().join(" | ");
                if argument.optional && argument.token.is_none() { choices } else { format!("<{choices}>") }
            }
        };
        let token = argument.token.unwrap_or_default();
        let inner = format!("{token} {inner}").trim().to_string();
        match (argument.optional, argument.multiple) {
            (true, true) if matches!(argument.shape, Shape::Value(_)) => format!("[{inner} [{inner} ...]]"),
            (true, true) => format!("[{inner} ...]"),
            (true, false) => format!("[{inner}]"),
            (false, true) => format!("{inner} [{inner} ...]"),
            (false, false) => inner,
        }
    }

    #[test]
    fn every_line_of_the_table_is_understood() {
        for (_, row) in rows() {
            assert_eq!(line(&arguments(row.usage)), row.usage, "{}", row.name);
        }
    }

    #[test]
    fn arguments_are_told_apart() {
        let value = |name| Argument::of(Shape::Value(name));
        let optional = |argument| Argument { optional: true, ..argument };
        let choice = |token, shape| Argument { token: Some(token), ..Argument::of(shape) };
        let pair = Shape::Block(vec![value("key"), value("value")]);
        assert_eq!(
            arguments("key value [key value ...]"),
            [Argument { multiple: true, ..Argument::of(pair) }]
        );
        let choices = vec![choice("EX", Shape::Value("seconds")), choice("KEEPTTL", Shape::Token)];
        assert_eq!(
            arguments("key [EX seconds | KEEPTTL] [GET]"),
            [
                value("key"),
                optional(Argument::of(Shape::OneOf(choices))),
                optional(choice("GET", Shape::Token)),
            ]
        );
        let one_of = Shape::OneOf(vec![choice("ON", Shape::Token), choice("OFF", Shape::Token)]);
        assert_eq!(arguments("[HOW <ON | OFF>]"), [optional(choice("HOW", one_of))]);
    }
}
