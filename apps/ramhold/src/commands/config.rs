//! `ramhold config`: the options of servers and coordinators, and where their values come from.
//!
//! The processes' own parsers answer, so that nothing here can differ from what a process does.
//!
//! Not here: the file (config_file), the options (the commands of the processes).

mod default;
pub mod shown;

use crate::commands::coordinator::Coordinator;
use crate::commands::server::arguments::Server;
use crate::config_file::{self, ConfigFile, NO_FILE, SECTIONS, USUAL_FILE, of_file};
use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use clap::{ArgMatches, Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const HELP: &str = "\
Examples:
  ramhold config default > ramhold.toml
  ramhold config check --config ramhold.toml
  ramhold config show server
  ramhold config show server --config ramhold.toml -- --memory 4GiB
      as the server would see it if it were started with --memory 4GiB

The command line wins over the environment (RAMHOLD_MEMORY=4GiB), the
environment over the file, and the file over what is built in. All use the same
names: --memory, RAMHOLD_MEMORY, and memory in the file.

Without --config, processes read /etc/ramhold/ramhold.toml if it is there. Keys
at its top are for all processes of the host that have such an option. Keys in
[server] or [coordinator] are for these alone, and go before.";

const CHECK_HELP: &str = "\
Examples:
  ramhold config check
  ramhold config check --config ramhold.toml
  ramhold config check server -- --dir /srv/ramhold
      for a process that gets --dir on its command line

Unknown keys, values that cannot be read and missing options are errors, each
with its line. The environment is left out. Whether memory, directories and
addresses are there is found when the process starts.";

const SHOW_HELP: &str = "\
Examples:
  ramhold config show server
  ramhold config show server --json
  ramhold config show coordinator --config none
  ramhold config show server -- --memory 4GiB
      as the server would see it if it were started with --memory 4GiB

'from' is the command line, a variable of the environment, a line of the file,
or 'built in'.";

const DEFAULT_HELP: &str = "\
Examples:
  ramhold config default > ramhold.toml
  ramhold config default server

Each option is a comment with its meaning and its default. Those that have no
default show what a value looks like.";

/// Check options, show where they come from, or print them all.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Config {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand, Debug)]
enum ConfigCommand {
    /// Check a file as a process would read it.
    #[command(after_help = CHECK_HELP)]
    Check {
        /// The process to check for [default: each that has a section in the file]
        #[arg(value_enum)]
        process: Option<Process>,
        /// The file.
        #[arg(long, env = "RAMHOLD_CONFIG", value_name = "FILE", default_value = USUAL_FILE)]
        config: PathBuf,
        /// Options that the process gets on its command line.
        #[arg(last = true, value_name = "OPTIONS")]
        words: Vec<OsString>,
    },
    /// Show each option with its value and where that comes from.
    #[command(after_help = SHOW_HELP)]
    Show {
        /// The process whose options are shown.
        #[arg(value_enum)]
        process: Process,
        /// The file, or 'none' [default: /etc/ramhold/ramhold.toml, if it is there]
        #[arg(long, env = "RAMHOLD_CONFIG", value_name = "FILE")]
        config: Option<PathBuf>,
        /// Options as they would be given to the process.
        #[arg(last = true, value_name = "OPTIONS")]
        words: Vec<OsString>,
    },
    /// Print a file with all options as comments.
    #[command(after_help = DEFAULT_HELP)]
    Default {
        /// The process whose options are printed [default: each, in a section of its own]
        #[arg(value_enum)]
        process: Option<Process>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Process {
    /// 'ramhold server', also for bricks
    Server,
    /// 'ramhold coordinator'
    Coordinator,
}

impl Process {
    fn name(self) -> &'static str {
        match self {
            Process::Server => "server",
            Process::Coordinator => "coordinator",
        }
    }
}

impl Config {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        match self.command {
            ConfigCommand::Check { process, config, words } => check(process, &config, &words, global),
            ConfigCommand::Show { process, config, words } => {
                let (command, matches, file) =
                    parsed(process.name(), config.as_deref(), words, Reading::Shown)?;
                shown::print(&shown::values(&command, &matches, file.as_ref()), file.as_ref(), global)
            }
            ConfigCommand::Default { process } => {
                if global.json {
                    return Err(Failure::usage("'ramhold config default' prints TOML; leave out --json"));
                }
                let of = process.map_or(SECTIONS.to_vec(), |process| vec![process.name()]);
                let text: Vec<String> =
                    of.iter().map(|name| default::section(&process_command(name))).collect();
                output::print(&text.join("\n"))
            }
        }
    }
}

fn check(process: Option<Process>, path: &Path, words: &[OsString], global: &Global) -> Result<(), Failure> {
    if path.as_os_str() == NO_FILE {
        return Err(Failure::usage("'none' is no file that can be checked; name one with --config"));
    }
    if matches!(path.try_exists(), Ok(false)) {
        let text = format!(
            "{} is not there; 'ramhold config default' prints one, and --config names another",
            path.display()
        );
        return Err(Failure::usage(text));
    }
    let sections = config_file::sections(path)?;
    let of = match process {
        Some(process) => vec![process.name()],
        None if sections.is_empty() => {
            return Err(Failure::usage(format!(
                "{} has no section; say for which process it is: 'ramhold config check server'",
                path.display()
            )));
        }
        None => sections,
    };
    let mut counts = Vec::new();
    for name in of {
        let (_, _, file) = parsed(name, Some(path), words.to_vec(), Reading::Checked)?;
        counts.push((name, file.map_or(0, |file| file.entry_count())));
    }
    if global.json {
        let processes: Map<String, Value> =
            counts.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
        return output::print_json(&json!({ "file": path.display().to_string(), "options": processes }));
    }
    let mut text = format!("{}: all right\n", path.display());
    for (name, count) in counts {
        text.push_str(&format!("{count} options for 'ramhold {name}'\n"));
    }
    output::print(&text)
}

/// The parser of a process.
fn process_command(name: &'static str) -> clap::Command {
    let command = clap::Command::new(name);
    match name {
        "server" => Server::augment_args(command),
        _ => Coordinator::augment_args(command),
    }
}

/// The rules by which options are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// As the process reads them at its start.
    Process,
    /// Without the environment, which belongs to this command and not to the process.
    Checked,
    /// Nothing need be there.
    Shown,
}

/// The options that a process gets from the file and these words.
pub fn parsed(
    name: &'static str,
    config: Option<&Path>,
    words: Vec<OsString>,
    reading: Reading,
) -> Result<(clap::Command, ArgMatches, Option<ConfigFile>), Failure> {
    let mut root = clap::Command::new("ramhold").no_binary_name(true);
    for section in SECTIONS {
        root = root.subcommand(process_command(section).mut_args(|argument| match reading {
            Reading::Process => argument,
            Reading::Checked => argument.env(None::<&str>),
            Reading::Shown => argument.required(false),
        }));
    }
    let mut arguments = vec![OsString::from(name)];
    arguments.extend(config.into_iter().flat_map(|path| [OsString::from("--config"), path.into()]));
    arguments.extend(words);
    let (root, file) = config_file::prepare(root, &arguments)?;
    let matches = root.try_get_matches_from(arguments).map_err(|error| {
        of_file(&error, file.as_ref()).unwrap_or_else(|| {
            // The first paragraph says what is wrong; the others are the usage of the process.
            let text = error.to_string();
            let first: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
            let first = first.join(" ");
            Failure::usage(format!("ramhold {name}: {}", first.strip_prefix("error: ").unwrap_or(&first)))
        })
    })?;
    let (_, matches) =
        matches.subcommand().ok_or_else(|| Failure::usage("these are no options of a process"))?;
    Ok((process_command(name), matches.clone(), file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(file: &str, words: &[&str]) -> Vec<(String, Option<String>, String)> {
        let path = std::env::temp_dir().join(format!("ramhold-show-{}-{}", std::process::id(), file.len()));
        std::fs::write(&path, file).unwrap();
        let words = words.iter().map(OsString::from).collect();
        let (command, matches, file) = parsed("server", Some(&path), words, Reading::Shown).unwrap();
        std::fs::remove_file(&path).unwrap();
        let of = |value: shown::Value| (value.option, value.value, value.source.kind().to_owned());
        shown::values(&command, &matches, file.as_ref()).into_iter().map(of).collect()
    }

    #[test]
    fn each_value_is_told_with_its_source() {
        let file =
            "memory = \"1GiB\"\n[server]\ndisk = \"9GiB\"\nno-master = true\nlabel = [\"a=b\", \"c=d\"]\n";
        let all = sources(file, &["--memory", "2GiB"]);
        let of = |option: &str| {
            let (_, value, source) = all.iter().find(|(name, ..)| name == option).unwrap();
            (value.as_deref(), source.as_str())
        };
        assert_eq!(of("memory"), (Some("2GiB"), "command line"));
        assert_eq!(of("disk"), (Some("9GiB"), "file"));
        assert_eq!(of("no-master"), (Some("true"), "file"));
        assert_eq!(of("label"), (Some("a=b,c=d"), "file"));
        assert_eq!(of("flush-interval"), (Some("100ms"), "built in"));
        assert_eq!(of("coordinator"), (None, "not given"));
        assert!(
            !all.iter().any(|(name, ..)| ["end-with", "config", "help"].contains(&&name[..])),
            "these are no settings"
        );
    }

    // A file that is printed can be read once its comments are options.
    #[test]
    fn the_printed_file_has_every_option_of_each_process() {
        for name in SECTIONS {
            let command = process_command(name);
            let text = default::section(&command);
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            let uncommented: String = text
                .lines()
                .filter_map(|line| {
                    line.strip_prefix('#').filter(|line| !line.starts_with(' ') && line.contains(" = "))
                })
                .map(|line| format!("{line}\n"))
                .collect();
            let table = toml::de::DeTable::parse(&uncommented).unwrap();
            for option in config_file::options(&command) {
                let name = option.get_long().unwrap();
                assert!(table.get_ref().get(name).is_some(), "{name} is missing:\n{uncommented}");
            }
        }
    }
}
