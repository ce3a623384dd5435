//! The command line: the list of commands, and their dispatch.
//!
//! The arguments of each command are beside its code in `commands`, and the options of all in `global`.
//! Nothing but `main` imports this file.

use crate::commands::{
    accept_loss::AcceptLoss, acknowledge_loss::AcknowledgeLoss, bench::Bench, brick::Brick, bricks::Bricks,
    config::Config, coordinator, coordinator::Coordinator, demo, demo::Demo, demo::DemoWriter, dev, dev::Dev,
    events::Events, import::Import, object::Delete, object::Get, object::Increment, object::Put, plan::Plan,
    recoveries::Recoveries, resume::Resume, scan::Export, scan::Scan, server, server::Server, status::Status,
    stop, stop::Stop, supervise, supervise::Supervise, table::Table, topology::TopologyCommand, user::User,
    verify::Verify,
};
use crate::failure::Failure;
use crate::global::Global;
use clap::{Arg, Command as Parsed, CommandFactory, Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  not found, or a condition did not hold
  2  wrong usage, or something on this machine failed (a file, a directory)
  3  refused by the cluster, without effect
  4  unknown: the command may or may not have taken effect
  5  the cluster cannot be reached
The help of a command lists its exit codes where they differ.

Errors are one line on stderr; with --json it is an object with 'error', and
with 'token' if the outcome is unknown. 'ramhold COMMAND --help' shows examples.

To begin:
  ramhold dev --dir ./cluster --detach
  ramhold status";

/// Commands that talk to no running cluster, and the options of all others that they have no use for.
const WITHOUT: [(&str, &[&str]); 8] = [
    ("server", &["cluster", "json", "timeout", "transport"]),
    ("coordinator", &["cluster", "json", "timeout", "transport"]),
    ("supervise", &["cluster", "json", "timeout", "transport"]),
    ("dev", &["cluster", "json", "timeout"]),
    ("stop", &["cluster", "json", "timeout"]),
    ("demo", &["cluster", "json", "timeout"]),
    ("plan", &["cluster", "timeout"]),
    ("config", &["cluster", "timeout", "transport"]),
];

/// The parser of the command line.
pub fn command() -> Parsed {
    let command = Cli::command();
    let everywhere: Vec<Arg> = command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    WITHOUT.iter().fold(command, |command, (name, options)| {
        command.mut_subcommand(name, |of| {
            // A subcommand that talks to a cluster still takes these options.
            let names: Vec<String> = of.get_subcommands().map(|below| below.get_name().to_owned()).collect();
            let of = names.iter().fold(of, |of, below| {
                of.mut_subcommand(below, |below| below.args(everywhere.iter().cloned()))
            });
            of.args(options.iter().map(|option| {
                let one =
                    everywhere.iter().find(|one| one.get_long() == Some(option)).expect("an option of all");
                unused_here(name, option, one.get_id().clone())
            }))
        })
    })
}

/// An option that is in no help, and is refused where it is given.
///
/// It has the `id` of the option that it stands for, or the parser would add that one too.
fn unused_here(command: &'static str, option: &'static str, id: clap::Id) -> Arg {
    let refuse =
        move |_: &str| Err::<String, String>(format!("'ramhold {command}' does not take this option"));
    // A switch also takes a value here, so that the value parser can refuse it.
    let argument = Arg::new(id).long(option).hide(true).num_args(0..=1);
    argument.default_missing_value("").value_parser(refuse)
}

/// Ramhold: a distributed key-value store with all data in DRAM, replicated on disk.
#[derive(Parser, Debug)]
#[command(name = "ramhold", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    Table(Table),
    User(User),
    Put(Put),
    Get(Get),
    Incr(Increment),
    Del(Delete),
    Resume(Resume),
    Scan(Scan),
    Export(Export),
    Import(Import),
    Verify(Verify),
    Status(Status),
    Bricks(Bricks),
    Events(Events),
    Recoveries(Recoveries),
    Topology(TopologyCommand),
    Brick(Brick),
    AcceptLoss(AcceptLoss),
    AcknowledgeLoss(AcknowledgeLoss),
    Plan(Box<Plan>),
    Bench(Bench),
    Demo(Demo),
    Dev(Dev),
    Stop(Stop),
    Server(Box<Server>),
    Coordinator(Box<Coordinator>),
    Supervise(Supervise),
    Config(Config),
    #[command(hide = true)]
    DemoWriter(DemoWriter),
}

impl Cli {
    pub fn run(self) -> Result<(), Failure> {
        let global = self.global;
        match self.command {
            Command::Table(table) => table.run(&global),
            Command::User(user) => user.run(&global),
            Command::Put(put) => put.run(&global),
            Command::Get(get) => get.run(&global),
            Command::Incr(increment) => increment.run(&global),
            Command::Del(delete) => delete.run(&global),
            Command::Resume(resume) => resume.run(&global),
            Command::Scan(scan) => scan.run(&global),
            Command::Export(export) => export.run(&global),
            Command::Import(import) => import.run(&global),
            Command::Verify(verify) => verify.run(&global),
            Command::Status(status) => status.run(&global),
            Command::Bricks(bricks) => bricks.run(&global),
            Command::Events(events) => events.run(&global),
            Command::Recoveries(recoveries) => recoveries.run(&global),
            Command::Topology(topology) => topology.run(&global),
            Command::Brick(brick) => brick.run(&global),
            Command::AcceptLoss(accept) => accept.run(&global),
            Command::AcknowledgeLoss(acknowledge) => acknowledge.run(&global),
            Command::Plan(plan) => plan.run(&global),
            Command::Bench(bench) => bench.run(&global),
            Command::Demo(demo) => demo::run(demo),
            Command::Dev(dev) => dev::run(dev),
            Command::Stop(stop) => stop::run(stop),
            Command::Server(server) => server::run(*server, &global),
            Command::Coordinator(coordinator) => coordinator::run(*coordinator, &global),
            Command::Supervise(arguments) => supervise::run(arguments),
            Command::Config(config) => config.run(&global),
            Command::DemoWriter(writer) => demo::run_writer(writer, &global),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("\n  ramhold "), "{} has no example", command.get_name());
            command.get_subcommands().filter(|c| c.get_name() != "help").for_each(check);
        }
        check(&command());
    }

    #[test]
    fn every_argument_has_help() {
        fn check(command: &clap::Command) {
            let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
            for argument in shown {
                assert!(argument.get_help().is_some(), "{}: {}", command.get_name(), argument.get_id());
            }
            let shown = |below: &&clap::Command| below.get_name() != "help" && !below.is_hide_set();
            command.get_subcommands().filter(shown).for_each(check);
        }
        check(&command());
    }

    #[test]
    fn help_is_read_in_80_columns() {
        fn check(command: &mut clap::Command, told: &mut Vec<String>) {
            for help in [command.render_help(), command.render_long_help()] {
                let help = help.to_string();
                let wide = help.lines().filter(|line| line.chars().count() > 80);
                told.extend(wide.map(|line| format!("{}: {line}", command.get_name())));
            }
            for below in command.get_subcommands_mut() {
                let about = below.get_about().map(ToString::to_string).unwrap_or_default();
                if about.chars().count() > 60 && !below.is_hide_set() {
                    told.push(format!("{}: '{about}' does not fit a line of the list", below.get_name()));
                }
                check(below, told);
            }
        }
        let mut told = Vec::new();
        let mut all = command().term_width(80);
        all.build();
        check(&mut all, &mut told);
        assert!(told.is_empty(), "{}", told.join("\n"));
    }

    #[test]
    fn a_command_offers_what_it_takes_and_nothing_else() {
        let parse =
            |words: &[&str]| command().try_get_matches_from(words).map(drop).map_err(|e| e.to_string());
        let mut all = command();
        all.build();
        let help = |all: &mut clap::Command, path: &[&str]| {
            let of = path.iter().fold(all, |of, name| of.find_subcommand_mut(name).expect("a command"));
            of.render_long_help().to_string()
        };
        for (name, options) in WITHOUT {
            let text = help(&mut all, &[name]);
            for option in options {
                assert!(!text.contains(&format!("--{option} ")), "{name} offers --{option}:\n{text}");
            }
        }
        assert!(help(&mut all, &["server", "forget"]).contains("--cluster"));
        assert!(help(&mut all, &["status"]).contains("--cluster"));
        let refused = parse(&["ramhold", "stop", "--dir", "d", "--cluster", "a"]).unwrap_err();
        assert!(refused.contains("'ramhold stop' does not take this option"), "{refused}");
        assert!(parse(&["ramhold", "stop", "--dir", "d", "--json"]).is_err());
        parse(&["ramhold", "stop", "--dir", "d"]).unwrap();
        parse(&["ramhold", "server", "forget", "s5", "--cluster", "a", "--json"]).unwrap();
        parse(&["ramhold", "--cluster", "a", "server", "forget", "s5"]).unwrap();
        parse(&["ramhold", "server", "--dir", "d", "--coordinator", "c"]).unwrap();
        assert!(parse(&["ramhold", "server", "--dir", "d"]).is_err());
        assert!(parse(&["ramhold", "server", "forget"]).is_err());
    }

    #[test]
    fn mistyped_commands_and_options_get_a_suggestion() {
        let told = |words: &[&str]| command().try_get_matches_from(words).unwrap_err().to_string();
        assert!(told(&["ramhold", "statsu"]).contains("'status'"));
        assert!(told(&["ramhold", "table", "craete", "x"]).contains("'create'"));
        assert!(told(&["ramhold", "import", "t", "--limit-flies", "1"]).contains("'--limit-files'"));
    }

    #[test]
    fn an_alteration_of_nothing_names_what_there_is_to_alter() {
        let told = command().try_get_matches_from(["ramhold", "table", "alter", "t"]).unwrap_err();
        assert_eq!(told.exit_code(), 2);
        let told = told.to_string();
        assert!(told.contains("--durability") && told.contains("--replicas"), "{told}");
    }
}
