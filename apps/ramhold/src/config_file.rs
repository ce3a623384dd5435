//! Options from a file, which gives a process the defaults that its operator wants.
//!
//! A key of the file is the name of a long option. The command line wins over the environment
//! (`RAMHOLD_...`), the environment over the file, and the file over the built-in defaults. Before the
//! arguments are parsed, the file's values become their defaults, so that one parser checks them all.
//!
//! One file may serve all processes of a host. Keys at its top are for each process that has such an option, and a
//! section is for the processes of its name, and goes before:
//!
//! ```toml
//! label = ["host=a", "rack=1"]
//! [server]
//! coordinator = "10.0.0.1:7400"
//! memory = "64GiB"
//! no-master = true
//! [coordinator]
//! default-replicas = 2
//! ```
//!
//! The file is that of `--config`. Without it, it is `/etc/ramhold/ramhold.toml` if that is there.
//!
//! Not here: the meaning of the options (commands), what is told about them (commands::config).

use crate::connection::alike;
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
/// The file of a host.
pub const USUAL_FILE: &str = "/etc/ramhold/ramhold.toml";
/// In place of a file's name: no file, not even the host's.
pub const NO_FILE: &str = "none";
/// The commands that a section may be for.
pub const SECTIONS: [&str; 2] = ["server", "coordinator"];
/// Options of a running process make a short file; a longer one is something else.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One key of the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    values: Vec<String>,
    pub line: usize,
    column: usize,
}

/// A file, as far as it is for one command.
pub struct ConfigFile {
    pub path: PathBuf,
    entries: BTreeMap<String, Entry>,
}

impl ConfigFile {
    /// The file's entry for an option.
    pub fn entry(&self, option: &str) -> Option<&Entry> {
        self.entries.get(option)
    }

    /// The number of options that the file gives the command.
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }
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
pub fn prepare(command: Command, arguments: &[OsString]) -> Result<(Command, Option<ConfigFile>), Failure> {
    let Some((name, path)) = named_file(&command, arguments) else { return Ok((command, None)) };
    let text = read(&path)?;
    let file = understand(&path, &text, &command, &name)?;
    let command = command.mut_subcommand(&name, |chosen| with_defaults(chosen, &file));
    Ok((command, Some(file)))
}

/// The chosen command and the file that is named for it, however incomplete the other arguments are without the file.
fn named_file(command: &Command, arguments: &[OsString]) -> Option<(String, PathBuf)> {
    let matches = command.clone().ignore_errors(true).try_get_matches_from(arguments).ok()?;
    let (name, chosen) = matches.subcommand()?;
    let named = chosen.try_get_one::<PathBuf>(CONFIG).ok()?;
    let is_process = SECTIONS.contains(&name) && chosen.subcommand().is_none();
    let path = match named {
        Some(path) if path.as_os_str() == NO_FILE => None,
        Some(path) => Some(path.clone()),
        // One that may not be looked at is told, not left out.
        None => Some(PathBuf::from(USUAL_FILE))
            .filter(|path| is_process && !matches!(path.try_exists(), Ok(false))),
    };
    Some((name.to_owned(), path?))
}

fn read(path: &Path) -> Result<String, Failure> {
    let about = |failure: Failure| failure.about("--config");
    let failed = |error: std::io::Error| about(Failure::local(path, &error));
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > FILE_BYTES_MAX {
        let text = format!(
            "{}: a file of options has at most {FILE_BYTES_MAX} bytes, and this one has {length}",
            path.display()
        );
        return Err(about(Failure::usage(text)));
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// Reads the keys that are for the command of this name. A key at the top must be an option of some process.
fn understand(path: &Path, text: &str, all: &Command, name: &str) -> Result<ConfigFile, Failure> {
    let wrong = |span: Range<usize>, why: String| {
        let (line, column) = position(text, span.start);
        Failure::usage(format!("{}:{line}:{column}: {why}", path.display()))
    };
    let table = DeTable::parse(text).map_err(|error| {
        let mut why = error.message().to_owned();
        if why.contains("duplicate key") {
            why.push_str("; an option that has the name of a section goes into a section, not to the top");
        }
        wrong(error.span().unwrap_or_default(), why)
    })?;
    let find = |of: &str| all.find_subcommand(of).expect("the parser has found it, or it is a process");
    let mut file = ConfigFile { path: path.to_owned(), entries: BTreeMap::new() };
    let mut take = |section: Option<&str>, table: &DeTable<'_>| {
        for (key, value) in table {
            let option = key.get_ref().as_ref();
            // A key at the top is for all processes of the host that know it.
            let of = match section {
                None if SECTIONS.contains(&name) && option_of(find(name), option).is_none() => {
                    let others = SECTIONS.iter().filter(|other| all.find_subcommand(other).is_some());
                    others.copied().find(|other| option_of(find(other), option).is_some()).unwrap_or(name)
                }
                section => section.unwrap_or(name),
            };
            let Some(argument) = option_of(find(of), option) else {
                return Err(wrong(key.span(), unknown(option, find(of))));
            };
            let values = values_of(value.get_ref(), argument).map_err(|why| wrong(value.span(), why))?;
            if of == name {
                let (line, column) = position(text, key.span().start);
                file.entries.insert(option.to_owned(), Entry { values, line, column });
            }
        }
        Ok(())
    };
    let (mut sections, mut top) = (Vec::new(), DeTable::new());
    for (key, value) in table.get_ref() {
        match value.get_ref() {
            DeValue::Table(section) => {
                let of = key.get_ref().as_ref();
                if !SECTIONS.contains(&of) && of != name {
                    let sections = SECTIONS.join("] and [");
                    return Err(wrong(
                        key.span(),
                        format!("there is no section [{of}]; sections are [{sections}]"),
                    ));
                }
                // A mistake in the section of another process must not keep this one from starting.
                if of == name {
                    sections.push(section);
                }
            }
            _ => drop(top.insert(key.clone(), value.clone())),
        }
    }
    take(None, &top)?;
    sections.into_iter().try_for_each(|section| take(Some(name), section))?;
    Ok(file)
}

fn option_of<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    options(command).find(|argument| argument.get_long() == Some(name))
}

/// The arguments that a file may set.
pub fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| {
        let is_help =
            matches!(argument.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong);
        let is_ordinary = !argument.is_hide_set() && !argument.is_global_set() && !is_help;
        is_ordinary && argument.get_long().is_some() && argument.get_id() != CONFIG
    })
}

fn unknown(name: &str, command: &Command) -> String {
    let of = command.get_name();
    let nearest = alike(name, options(command).filter_map(Arg::get_long));
    let way_out = match nearest {
        Some(nearest) => format!("did you mean '{nearest}'?"),
        None => format!("'ramhold config default {of}' prints them all"),
    };
    format!("'{name}' is not an option of 'ramhold {of}'; {way_out}")
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
        // The parser needs defaults that live as long as the process. Each reading of the file leaks them; an
        // operator who sends SIGHUP every minute for a year leaks megabytes.
        let values: Vec<&'static str> =
            entry.values.iter().map(|value| &*Box::leak(value.clone().into_boxed_str())).collect();
        command.mut_arg(id.as_str(), |argument| argument.default_values(values).required(false))
    })
}

/// Help and wrong usage end the process as the parser does it; a wrong value of the file is told with its position.
fn explain(error: clap::Error, file: Option<&ConfigFile>) -> Failure {
    of_file(&error, file).unwrap_or_else(|| error.exit())
}

/// The failure, if the error is about a value of the file.
pub fn of_file(error: &clap::Error, file: Option<&ConfigFile>) -> Option<Failure> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let is_value = matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue);
    let (file, argument, value) =
        (file.filter(|_| is_value)?, text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let name = argument.trim_start_matches('-').split([' ', '=']).next().unwrap_or_default();
    let entry = file.entry(name).filter(|entry| entry.values.iter().any(|v| v == value))?;
    let why = std::error::Error::source(error)
        .map_or_else(|| format!("'{value}' is not a value of {name}"), |source| format!("{name}: {source}"));
    let place = format!("{}:{}:{}", file.path.display(), entry.line, entry.column);
    Some(Failure::usage(format!("{place}: {why}")))
}

/// The sections of a file.
pub fn sections(path: &Path) -> Result<Vec<&'static str>, Failure> {
    let text = read(path)?;
    // Reading it for a command tells what is wrong with it.
    let Ok(table) = DeTable::parse(&text) else { return Ok(SECTIONS.to_vec()) };
    let has = |name: &&str| table.get_ref().get(*name).is_some_and(|value| value.get_ref().is_table());
    Ok(SECTIONS.into_iter().filter(has).collect())
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
        let way_out = "'ramhold config default serve' prints them all";
        assert!(
            refused.contains(&format!(":2:3: 'colour' is not an option of 'ramhold serve'; {way_out}")),
            "{refused}"
        );
        assert!(refusal("coont = 7").contains("; did you mean 'count'?"));
        assert!(refusal("[serve]\ncoont = 7").contains(":2:1: 'coont' is not an option"));
        assert!(refusal("[serv]\ncount = 7").contains(":1:2: there is no section [serv]"));
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

    // J8: one file for all processes of a host.
    #[test]
    fn a_section_is_for_its_command_and_goes_before_the_top() {
        let text = "count = 7\nlabel = \"host=x\"\n[serve]\ncount = 8\ncoordinator = \"a:1\"\n";
        let Sub::Serve { coordinator, count, label, .. } = with_file(text, &[]).unwrap();
        assert_eq!((coordinator.as_str(), count, &label[..]), ("a:1", 8, &["host=x".to_owned()][..]));
    }

    #[test]
    fn no_file_is_read_where_none_is_wanted() {
        let arguments =
            ["x", "serve", "--config", "none", "--coordinator", "a"].iter().map(OsString::from).collect();
        assert!(parse::<Cli>(<Cli as clap::CommandFactory>::command(), arguments).is_ok());
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let arguments =
            ["x", "serve", "--config", "/nowhere/at/all.toml"].iter().map(OsString::from).collect();
        let refused = parse::<Cli>(<Cli as clap::CommandFactory>::command(), arguments).unwrap_err();
        assert!(refused.text().contains("/nowhere/at/all.toml"), "{}", refused.text());
    }
}
