//! `config default`: a file with all options as comments.

use crate::config_file::options;
use crate::screen::wrap;
use clap::{Arg, ArgAction, Command};

/// The section of a process, with its options under the headings of its help.
pub fn section(command: &Command) -> String {
    let mut headings: Vec<Option<&str>> = vec![None];
    for argument in options(command) {
        if !headings.contains(&argument.get_help_heading()) {
            headings.push(argument.get_help_heading());
        }
    }
    let mut text = format!("[{}]\n", command.get_name());
    for heading in headings {
        if let Some(heading) = heading {
            text.push_str(&format!("\n## {heading}\n"));
        }
        let under = |argument: &&Arg| argument.get_help_heading() == heading;
        options(command).filter(under).for_each(|argument| text.push_str(&entry(argument)));
    }
    text
}

fn entry(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string);
    let mut help = help.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    // The parser takes the last full stop away.
    if !help.ends_with(['.', ']', ')']) {
        help.push('.');
    }
    let values: Vec<String> =
        argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if !values.is_empty() && !is_switch(argument) {
        help.push_str(&format!(" One of: {}.", values.join(", ")));
    }
    if argument.is_required_set() {
        help.push_str(" Must be given.");
    }
    let mut text = String::from("\n");
    wrap("  ", &help).lines().for_each(|line| text.push_str(&format!("# {}\n", line.trim_start())));
    text + &format!("#{} = {}\n", argument.get_long().unwrap_or_default(), value(argument))
}

fn is_switch(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::SetTrue)
}

/// The default as TOML; where there is none, what a value looks like.
fn value(argument: &Arg) -> String {
    if is_switch(argument) {
        return "false".to_owned();
    }
    let quoted = |text: &str| match text.parse::<u64>() {
        Ok(_) => text.to_owned(),
        Err(_) => format!("{text:?}"),
    };
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| quoted(&value.to_string_lossy())).collect();
    let example = || {
        let names = argument.get_value_names().unwrap_or_default();
        names.first().map_or_else(|| "\"\"".to_owned(), |name| format!("\"{name}\""))
    };
    match (argument.get_action(), defaults.first()) {
        (ArgAction::Append, None) => format!("[{}]", example()),
        (ArgAction::Append, Some(_)) => format!("[{}]", defaults.join(", ")),
        (_, Some(default)) => default.clone(),
        (_, None) => example(),
    }
}
