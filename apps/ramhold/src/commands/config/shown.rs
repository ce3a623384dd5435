//! `config show`: each option with its value and the value's source.

use crate::config_file::{ConfigFile, options};
use crate::failure::Failure;
use crate::global::Global;
use crate::output::{self, Columns};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use serde_json::json;

const WIDTH: usize = 80;

/// The place that a value comes from.
pub enum Source {
    CommandLine,
    Environment {
        variable: String,
    },
    File {
        path: String,
        line: usize,
    },
    BuiltIn,
    /// There is no value.
    Nothing,
}

impl Source {
    pub fn kind(&self) -> &'static str {
        match self {
            Source::CommandLine => "command line",
            Source::Environment { .. } => "environment",
            Source::File { .. } => "file",
            Source::BuiltIn => "built in",
            Source::Nothing => "not given",
        }
    }

    fn text(&self) -> String {
        match self {
            Source::Environment { variable } => variable.clone(),
            Source::File { line, .. } => format!("file, line {line}"),
            _ => self.kind().to_owned(),
        }
    }
}

pub struct Value {
    pub option: String,
    pub value: Option<String>,
    pub source: Source,
}

/// The options of a process that has been parsed.
pub fn values(command: &Command, matches: &ArgMatches, file: Option<&ConfigFile>) -> Vec<Value> {
    let value_of = |argument: &clap::Arg| {
        let option = argument.get_long().unwrap_or_default().to_owned();
        let id = argument.get_id().as_str();
        let raw = matches.try_get_raw(id).ok().flatten();
        let value = raw.map(|values| {
            let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
            values.join(",")
        });
        let variable =
            || argument.get_env().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        let entry = file.and_then(|file| Some((file, file.entry(&option)?)));
        let source = match (matches.value_source(id), entry) {
            (None, _) => Source::Nothing,
            (Some(ValueSource::CommandLine), _) => Source::CommandLine,
            (Some(ValueSource::EnvVariable), _) => Source::Environment { variable: variable() },
            // The parser knows the file's values as defaults.
            (Some(_), Some((file, entry))) => {
                Source::File { path: file.path.display().to_string(), line: entry.line }
            }
            (Some(_), None) => Source::BuiltIn,
        };
        Value { option, value, source }
    };
    options(command).map(value_of).collect()
}

pub fn print(values: &[Value], file: Option<&ConfigFile>, global: &Global) -> Result<(), Failure> {
    if global.json {
        let all: Vec<_> = values
            .iter()
            .map(|Value { option, value, source }| {
                let (path, line, variable) = match source {
                    Source::File { path, line } => (Some(path), Some(line), None),
                    Source::Environment { variable } => (None, None, Some(variable)),
                    _ => (None, None, None),
                };
                json!({
                    "option": option, "value": value, "source": source.kind(),
                    "file": path, "line": line, "variable": variable,
                })
            })
            .collect();
        return output::print_json(&all.into());
    }
    let mut columns = Columns::new(["option", "from", "value"]);
    for Value { option, value, source } in values {
        columns.row([option.clone(), source.text(), value.clone().unwrap_or_else(|| "-".to_owned())]);
    }
    let read = match file {
        Some(file) => format!("file: {}\n\n", file.path.display()),
        None => "no file\n\n".to_owned(),
    };
    output::print(&(read + &columns.fitted(WIDTH)))
}
