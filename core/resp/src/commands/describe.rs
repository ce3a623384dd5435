//! The replies of `COMMAND` and `HELP`, made from the table of commands.

use super::{ALL, find, usage};
use crate::command::{Command, Flags, KeyPlaces, Run};
use crate::{Fault, Reply};
use ramhold_access::{Class, Classes};
use ramhold_base::glob::{Case, matches};

/// Flags as `COMMAND` names them, in its order.
const FLAG_NAMES: &[(Flags, &str)] = &[
    (Flags::WRITE, "write"),
    (Flags::READONLY, "readonly"),
    (Flags::DENYOOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::PUBSUB, "pubsub"),
    (Flags::NOSCRIPT, "noscript"),
    (Flags::BLOCKING, "blocking"),
    (Flags::LOADING, "loading"),
    (Flags::STALE, "stale"),
    (Flags::SKIP_MONITOR, "skip_monitor"),
    (Flags::SKIP_SLOWLOG, "skip_slowlog"),
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::NO_MULTI, "no_multi"),
    (Flags::MOVABLEKEYS, "movablekeys"),
    (Flags::ALLOW_BUSY, "allow_busy"),
];

/// The access classes of a command.
pub fn classes(row: &Command) -> Classes {
    let has = |flag| row.flags.has(flag);
    let is_admin = has(Flags::ADMIN) || has(Flags::ADMINISTRATIVE);
    let is_container = matches!(row.run, Run::Container(_));
    [
        (Class::Keyspace, has(Flags::KEYSPACE)),
        (Class::Read, has(Flags::READONLY)),
        (Class::Write, has(Flags::WRITE)),
        (Class::String, row.group == "string"),
        (Class::Bitmap, row.group == "bitmap"),
        (Class::PubSub, has(Flags::PUBSUB) && !is_container),
        (Class::Admin, is_admin),
        (Class::Fast, has(Flags::FAST)),
        (Class::Slow, !has(Flags::FAST)),
        (Class::Blocking, has(Flags::BLOCKING)),
        (Class::Dangerous, is_admin || has(Flags::DANGEROUS)),
        (Class::Connection, has(Flags::CONNECTION)),
        (Class::Transaction, row.group == "transactions"),
        (Class::Scripting, row.group == "scripting"),
    ]
    .into_iter()
    .filter_map(|(class, holds)| holds.then_some(class))
    .collect()
}

/// Their names, in the order of Redis.
pub fn class_names(row: &Command) -> Vec<&'static str> {
    let classes = classes(row);
    Class::ALL.iter().filter(|class| classes.has(**class)).map(|class| class.name()).collect()
}

/// Every row, with the name of its container. Subcommands come behind their container.
pub fn rows() -> impl Iterator<Item = (Option<&'static str>, &'static Command)> {
    ALL.iter().flat_map(|row| {
        let subcommands = subcommands(row).iter().map(|subcommand| (Some(row.name), subcommand));
        std::iter::once((None, row)).chain(subcommands)
    })
}

fn subcommands(row: &Command) -> &'static [Command] {
    match row.run {
        Run::Container(subcommands) => subcommands,
        Run::Keys(_) | Run::Fast(..) | Run::Front(_) => &[],
    }
}

/// A name as `COMMAND` writes it: `container|subcommand`.
pub fn full_name(container: Option<&str>, row: &Command) -> String {
    container.map_or(row.name.to_string(), |container| format!("{container}|{}", row.name))
}

/// The row with this full name, and the name of its container.
fn find_full(name: &[u8]) -> Option<(Option<&'static str>, &'static Command)> {
    match name.iter().position(|byte| *byte == b'|') {
        None => Some((None, find(name)?)),
        Some(bar) => {
            let container = find(&name[..bar])?;
            Some((Some(container.name), container.subcommand(&name[bar + 1..])?))
        }
    }
}

/// `COMMAND COUNT`
pub fn count(reply: &mut Reply<'_>) {
    reply.integer(ALL.len() as i64);
}

/// `COMMAND` and `COMMAND INFO`: the rows with these names, or all.
pub fn info(reply: &mut Reply<'_>, names: &[&[u8]]) {
    if names.is_empty() {
        reply.array(ALL.len());
        return ALL.iter().for_each(|row| write_info(reply, None, row));
    }
    reply.array(names.len());
    for name in names {
        match find_full(name) {
            Some((container, row)) => write_info(reply, container, row),
            None => reply.null(),
        }
    }
}

fn write_info(reply: &mut Reply<'_>, container: Option<&str>, row: &Command) {
    reply.array(10);
    reply.bulk(full_name(container, row).as_bytes());
    reply.integer(row.arity.into());
    let flags: Vec<&str> =
        FLAG_NAMES.iter().filter(|(flag, _)| row.flags.has(*flag)).map(|(_, name)| *name).collect();
    write_words(reply, "", &flags);
    reply.integer(row.keys.first.into());
    reply.integer(row.keys.last.into());
    reply.integer(row.keys.step.into());
    write_words(reply, "@", &class_names(row));
    reply.set(row.tips.len());
    row.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(row.access.len());
    for (access, places) in key_specifications(row) {
        write_key_specification(reply, access, places);
    }
    let subcommands = subcommands(row);
    reply.set(subcommands.len());
    subcommands.iter().for_each(|subcommand| write_info(reply, Some(row.name), subcommand));
}

fn write_words(reply: &mut Reply<'_>, before: &str, words: &[&str]) {
    reply.set(words.len());
    for word in words {
        reply.simple(&format!("{before}{word}"));
    }
}

/// The access to each key. Each entry of a row's `access` is about one key, and the last entry also about all
/// keys behind it.
fn key_specifications(row: &Command) -> impl Iterator<Item = (&'static str, KeyPlaces)> {
    let keys = row.keys;
    let last_index = row.access.len().saturating_sub(1);
    row.access.iter().enumerate().map(move |(index, access)| {
        let first = keys.first + index as i32;
        let last = if index == last_index { keys.last } else { first };
        (*access, KeyPlaces { first, last, step: keys.step })
    })
}

fn write_key_specification(reply: &mut Reply<'_>, access: &str, places: KeyPlaces) {
    let (flags, note) = access.split_once("; ").map_or((access, None), |(flags, note)| (flags, Some(note)));
    reply.map(3 + usize::from(note.is_some()));
    if let Some(note) = note {
        reply.bulk(b"notes");
        reply.bulk(note.as_bytes());
    }
    reply.bulk(b"flags");
    write_words(reply, "", &flags.split(' ').collect::<Vec<_>>());
    reply.bulk(b"begin_search");
    write_search(reply, "index", &[("index", places.first)]);
    reply.bulk(b"find_keys");
    // Redis counts the last key from the first one.
    let last = if places.last < 0 { places.last } else { places.last - places.first };
    write_search(reply, "range", &[("lastkey", last), ("keystep", places.step), ("limit", 0)]);
}

fn write_search(reply: &mut Reply<'_>, kind: &str, numbers: &[(&str, i32)]) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer((*number).into());
    }
}

/// `COMMAND LIST`, with the filter behind it.
pub fn list(reply: &mut Reply<'_>, filter: &[&[u8]]) -> Result<(), Fault> {
    let words: Vec<Vec<u8>> = filter.iter().map(|word| word.to_ascii_lowercase()).collect();
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let wanted = |container: Option<&str>, row: &Command| match words[..] {
        [] => Some(true),
        [b"filterby", b"module", _] => Some(false),
        [b"filterby", b"aclcat", class] => Some(class_names(row).iter().any(|name| name.as_bytes() == class)),
        [b"filterby", b"pattern", pattern] => {
            Some(matches(pattern, full_name(container, row).as_bytes(), Case::Ignored))
        }
        _ => None,
    };
    let mut names = Vec::new();
    for (container, row) in rows() {
        if wanted(container, row).ok_or(Fault::SYNTAX)? {
            names.push(full_name(container, row));
        }
    }
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

/// `COMMAND DOCS`: the documentation of the rows with these names, or of all rows.
pub fn docs(reply: &mut Reply<'_>, names: &[&[u8]]) {
    let found: Vec<_> = match names {
        [] => ALL.iter().map(|row| (None, row)).collect(),
        names => names.iter().filter_map(|name| find_full(name)).collect(),
    };
    reply.map(found.len());
    found.into_iter().for_each(|(container, row)| write_docs(reply, container, row));
}

fn write_docs(reply: &mut Reply<'_>, container: Option<&str>, row: &Command) {
    let (subcommands, arguments) = (subcommands(row), usage::arguments(row.usage));
    reply.bulk(full_name(container, row).as_bytes());
    reply.map(4 + usize::from(!arguments.is_empty()) + usize::from(!subcommands.is_empty()));
    for (name, text) in
        [("summary", row.summary), ("since", row.since), ("group", row.group), ("complexity", row.complexity)]
    {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        usage::write(reply, &arguments, row.access.len());
    }
    if !subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(subcommands.len());
        subcommands.iter().for_each(|subcommand| write_docs(reply, Some(row.name), subcommand));
    }
}

/// `COMMAND GETKEYS`: the words of a request that are keys.
pub fn keys_of(reply: &mut Reply<'_>, request: &[&[u8]]) -> Result<(), Fault> {
    let row = request.first().and_then(|name| find(name));
    let row = match (row, request.get(1)) {
        (Some(row), Some(name)) if matches!(row.run, Run::Container(_)) => row.subcommand(name),
        (row, _) => row,
    };
    let row = row.ok_or(Fault::fixed("ERR Invalid command specified"))?;
    if row.keys == KeyPlaces::NONE {
        return Err(Fault::fixed("ERR The command has no key arguments"));
    }
    if !row.takes(request.len()) {
        return Err(Fault::fixed("ERR Invalid number of arguments specified for command"));
    }
    let keys: Vec<&[u8]> = row.keys.of(request).collect();
    reply.array(keys.len());
    keys.into_iter().for_each(|key| reply.bulk(key));
    Ok(())
}

/// `HELP` of a container: its subcommands, each with a word on what it does.
pub fn help(reply: &mut Reply<'_>, container: &Command) {
    let name = container.name.to_ascii_uppercase();
    let mut lines = vec![format!("{name} is followed by one of these words and what it takes:")];
    for row in subcommands(container) {
        lines.push(format!("{} {}", row.name.to_ascii_uppercase(), row.usage).trim_end().to_string());
        lines.push(format!("    {}", row.summary));
    }
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
}
