//! Options from a file: `--config FILE` gives a command the defaults that its operator wants.
//!
//! A key of the file is the name of a long option. The command line wins over the environment
//! (`RAMHOLD_...`), the environment over the file, and the file over the built-in defaults. Before the
//! arguments are parsed, the file's values become their defaults, so that one parser checks them all.
//!
//! ```toml
//! coordinator = "10.0.0.1:7400"
//! memory = "64GiB"
//! label = ["host=a", "rack=1"]
//! no-master = true
//! ```
//!
//! Not here: the meaning of the options (commands).

use crate::failure::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// The argument that names the file; a command that has it takes options from a file.
const CONFIG: &str = "config";
/// Options of a running process make a short file; a longer one is something else.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One key of the file.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    values: Vec<String>,
    line: usize,
    column: usize,
}

struct ConfigFile {
    path: PathBuf,
    entries: BTreeMap<String, Entry>,
}

/// Parses `arguments` for `command`, with the file that they name. Ends the process after `--help` and wrong usage.
pub fn parse<P: clap::FromArgMatches>(command: Command, arguments: Vec<OsString>) -> Result<P, Failure> {
    let (command, file) = prepare(command, &arguments)?;
    let matches = match command.try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return Err(explain(error, file.as_ref())),
    };
    P::from_arg_matches(&matches).map_err(|error| explain(error, file.as_ref()))
}

/// Gives the arguments of the chosen command the file's values as defaults.
fn prepare(command: Command, arguments: &[OsString]) -> Result<(Command, Option<ConfigFile>), Failure> {
    let Some((name, path)) = named_file(&command, arguments) else { return Ok((command, None)) };
    let text = read(&path)?;
    let chosen = command.find_subcommand(&name).expect("the parser found it");
    let file = understand(&path, &text, chosen)?;
    let command = command.mut_subcommand(&name, |chosen| with_defaults(chosen, &file));
    Ok((command, Some(file)))
}

/// The chosen command and the file that is named for it, however incomplete the other arguments are without the file.
fn named_file(command: &Command, arguments: &[OsString]) -> Option<(String, PathBuf)> {
    let matches = command.clone().ignore_errors(true).try_get_matches_from(arguments).ok()?;
    let (name, chosen) = matches.subcommand()?;
    let path = chosen.try_get_one::<PathBuf>(CONFIG).ok()??;
    Some((name.to_owned(), path.clone()))
}

fn read(path: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::local(path, &error).about("--config");
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > FILE_BYTES_MAX {
        let text = format!(
            "{}: a file of options has at most {FILE_BYTES_MAX} bytes, and this one has {length}",
            path.display()
        );
        return Err(Failure::usage(text).about("--config"));
    }
    std::fs::read_to_string(path).map_err(failed)
}

fn understand(path: &Path, text: &str, command: &Command) -> Result<ConfigFile, Failure> {
    let at = |span: Range<usize>| position(text, span.start);
    let wrong = |(line, column): (usize, usize), why: String| {
        Failure::usage(format!("{}:{line}:{column}: {why}", path.display()))
    };
    let table = DeTable::parse(text)
        .map_err(|error| wrong(at(error.span().unwrap_or_default()), error.message().to_owned()))?;
    let mut entries = BTreeMap::new();
    for (key, value) in table.get_ref() {
        let place = at(key.span());
        let name = key.get_ref().as_ref();
        let Some(argument) = options(command).find(|argument| argument.get_long() == Some(name)) else {
            return Err(wrong(place, unknown(name, command)));
        };
        let values = values_of(value.get_ref(), argument).map_err(|why| wrong(at(value.span()), why))?;
        entries.insert(name.to_owned(), Entry { values, line: place.0, column: place.1 });
    }
    Ok(ConfigFile { path: path.to_owned(), entries })
}

/// The arguments that a file may set.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| {
        let is_ordinary = !argument.is_hide_set() && !argument.is_global_set();
        is_ordinary && argument.get_long().is_some() && argument.get_id() != CONFIG
    })
}

fn unknown(name: &str, command: &Command) -> String {
    let known: Vec<&str> = options(command).filter_map(Arg::get_long).collect();
    format!(
        "'{name}' is not an option of 'ramhold {}'; the options are: {}",
        command.get_name(),
        known.join(", ")
    )
}

fn values_of(value: &DeValue<'_>, argument: &Arg) -> Result<Vec<String>, String> {
    let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
    let is_list = matches!(argument.get_action(), ArgAction::Append);
    match value {
        DeValue::Boolean(on) if is_switch => Ok(vec![on.to_string()]),
        _ if is_switch => Err("expected true or false".to_owned()),
        DeValue::Array(items) if is_list => {
            items.iter().map(|item| text_of(item.get_ref())).collect::<Result<_, _>>()
        }
        DeValue::Array(_) => Err("expected one value".to_owned()),
        single => Ok(vec![text_of(single)?]),
    }
}

fn text_of(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        other => Err(format!("expected a string in quotes or an integer, not this {}", other.type_str())),
    }
}

/// Line and column from 1, in characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

fn with_defaults(command: Command, file: &ConfigFile) -> Command {
    let ids: Vec<(clap::Id, &Entry)> = options(&command)
        .filter_map(|argument| Some((argument.get_id().clone(), file.entries.get(argument.get_long()?)?)))
        .collect();
    ids.into_iter().fold(command, |command, (id, entry)| {
        // The parser needs defaults that live as long as the process. The leak is bounded: there is one file
        // of bounded size.
        let values: Vec<&'static str> =
            entry.values.iter().map(|value| &*Box::leak(value.clone().into_boxed_str())).collect();
        command.mut_arg(id.as_str(), |argument| argument.default_values(values).required(false))
    })
}

/// Help and wrong usage end the process as the parser does it; a wrong value of the file is told with its position.
fn explain(error: clap::Error, file: Option<&ConfigFile>) -> Failure {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let is_value = matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue);
    if let (true, Some(file), Some(argument), Some(value)) =
        (is_value, file, text(ContextKind::InvalidArg), text(ContextKind::InvalidValue))
    {
        let name = argument.trim_start_matches('-').split([' ', '=']).next().unwrap_or_default();
        let from_file = file.entries.get(name).filter(|entry| entry.values.iter().any(|v| v == value));
        if let Some(entry) = from_file {
            let why = std::error::Error::source(&error).map_or_else(
                || format!("'{value}' is not a value of {name}"),
                |source| format!("{name}: {source}"),
            );
            let place = format!("{}:{}:{}", file.path.display(), entry.line, entry.column);
            return Failure::usage(format!("{place}: {why}"));
        }
    }
    error.exit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser, Debug)]
    struct Cli {
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: Sub,
    }

    #[derive(clap::Subcommand, Debug)]
    enum Sub {
        Serve {
            #[arg(long)]
            config: Option<PathBuf>,
            #[arg(long)]
            coordinator: String,
            #[arg(long, default_value_t = 3)]
            count: u32,
            #[arg(long, value_delimiter = ',')]
            label: Vec<String>,
            #[arg(long)]
            no_master: bool,
            #[arg(long, hide = true)]
            secret: Option<u32>,
        },
    }

    fn with_file(text: &str, typed: &[&str]) -> Result<Sub, Failure> {
        let name = format!("ramhold-config-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let mut arguments: Vec<OsString> =
            vec!["x".into(), "serve".into(), "--config".into(), path.clone().into()];
        arguments.extend(typed.iter().map(OsString::from));
        let parsed = parse::<Cli>(<Cli as clap::CommandFactory>::command(), arguments);
        std::fs::remove_file(path).unwrap();
        parsed.map(|cli| {
            assert!(!cli.json);
            cli.command
        })
    }

    fn refusal(text: &str) -> String {
        with_file(text, &["--coordinator", "a"]).unwrap_err().text().to_owned()
    }

    #[test]
    fn what_is_typed_wins_over_the_file_and_the_file_over_what_is_built_in() {
        let text = "coordinator = \"a:1\"\ncount = 7\nlabel = [\"host=x\", \"rack=y\"]\nno-master = true\n";
        let Sub::Serve { coordinator, count, label, no_master, secret, config } =
            with_file(text, &[]).unwrap();
        assert_eq!((coordinator.as_str(), count, no_master, secret), ("a:1", 7, true, None));
        assert_eq!(label, ["host=x", "rack=y"]);
        assert!(config.is_some());
        let Sub::Serve { coordinator, count, label, .. } =
            with_file(text, &["--count", "9", "--label", "host=z"]).unwrap();
        assert_eq!((coordinator.as_str(), count), ("a:1", 9));
        assert_eq!(label, ["host=z"]);
        let Sub::Serve { count, no_master, .. } =
            with_file("no-master = false", &["--coordinator", "b"]).unwrap();
        assert_eq!((count, no_master), (3, false));
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_position() {
        let refused = refusal("count = 7\n  colour = 1\n");
        assert!(
            refused
                .contains(":2:3: 'colour' is not an option of 'ramhold serve'; the options are: coordinator"),
            "{refused}"
        );
        for text in ["secret = 1", "config = \"x\"", "json = true", "no_master = true"] {
            assert!(refusal(text).contains("is not an option"), "{text}");
        }
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_position() {
        assert!(refusal("\ncount = \"many\"\n").contains(":2:1: count: invalid digit"));
        assert!(refusal("count = [1]").contains(":1:9: expected one value"));
        assert!(refusal("count = 1.5").contains(":1:9: expected a string in quotes or an integer"));
        assert!(refusal("no-master = \"yes\"").contains(":1:13: expected true or false"));
        assert!(refusal("count = ").contains(":1:"));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let arguments =
            ["x", "serve", "--config", "/nowhere/at/all.toml"].iter().map(OsString::from).collect();
        let refused = parse::<Cli>(<Cli as clap::CommandFactory>::command(), arguments).unwrap_err();
        assert!(refused.text().contains("/nowhere/at/all.toml"), "{}", refused.text());
    }
}
