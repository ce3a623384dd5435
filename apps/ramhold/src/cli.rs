//! What can be typed. Each command's own arguments are beside its code in `commands`.

use crate::commands::{
    accept_loss::AcceptLoss, acknowledge_loss::AcknowledgeLoss, bench::Bench, coordinator::Coordinator,
    demo::Demo, demo::DemoWriter, dev::Dev, import::Import, object::Delete, object::Get, object::Increment,
    object::Put, plan::Plan, recoveries::Recoveries, scan::Export, scan::Scan, server::Server,
    status::Status, stop::Stop, table::Table, verify::Verify,
};
use crate::size::parse_duration;
use clap::{Args, Parser, Subcommand};
use std::time::Duration;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  not found, or a condition did not hold
  2  wrong usage, or something on this machine failed (a file, a directory)
  3  refused by the cluster; surely without effect
  4  unknown: it may have taken effect, or may not
  5  the cluster cannot be reached

Errors are one line on stderr. 'ramhold COMMAND --help' shows examples.";

/// Ramhold: a distributed key-value store that keeps every byte in DRAM and loses nothing.
#[derive(Parser, Debug)]
#[command(name = "ramhold", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command understands.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// Where the coordinator is, or the coordinators are: HOST[:PORT],...
    #[arg(
        long,
        global = true,
        env = "RAMHOLD_CLUSTER",
        default_value = "127.0.0.1:7400",
        value_name = "ADDR"
    )]
    pub cluster: String,
    /// Print JSON for programs instead of text for people.
    #[arg(long, global = true)]
    pub json: bool,
    /// How long one operation is tried: 500ms, 10s, 2m. [default: 10s]
    #[arg(long = "timeout", global = true, value_name = "TIME", value_parser = parse_duration)]
    pub patience: Option<Duration>,
}

impl Global {
    /// How long one operation is tried.
    pub fn timeout(&self) -> Duration {
        self.patience.unwrap_or(Duration::from_secs(10))
    }
}

#[derive(Subcommand, Debug)]
pub enum Command {
    Table(Table),
    Put(Put),
    Get(Get),
    Incr(Increment),
    Del(Delete),
    Scan(Scan),
    Export(Export),
    Import(Import),
    Verify(Verify),
    Status(Status),
    Recoveries(Recoveries),
    AcceptLoss(AcceptLoss),
    AcknowledgeLoss(AcknowledgeLoss),
    Plan(Box<Plan>),
    Bench(Bench),
    Demo(Demo),
    Dev(Dev),
    Stop(Stop),
    Server(Box<Server>),
    Coordinator(Box<Coordinator>),
    #[command(hide = true)]
    DemoWriter(DemoWriter),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        fn check(command: &clap::Command) {
            if command.has_subcommands() {
                command.get_subcommands().filter(|c| c.get_name() != "help").for_each(check);
            } else {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("ramhold "), "{} has no example", command.get_name());
            }
        }
        check(&Cli::command());
    }
}
