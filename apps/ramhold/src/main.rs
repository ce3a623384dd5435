//! The `ramhold` command: reads its arguments, runs one command, ends with the exit code that says how it went.

mod base64;
mod cli;
mod commands;
mod connection;
mod failure;
mod output;
mod pipeline;
mod progress;
mod size;
mod walk;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
