//! The `ramhold` command: reads its arguments, runs one command, and ends with the exit code of its result.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic when nobody reads: see output")]

mod admin;
mod base64;
mod cli;
mod commands;
mod config_file;
mod connection;
mod cross_slot;
mod failure;
mod findings;
mod global;
mod interrupt;
mod local;
mod memory;
mod output;
mod pipeline;
mod process;
mod progress;
mod question;
mod screen;
mod size;
mod supervising;
mod walk;
mod watch;

use failure::Failure;
use ramhold_base::processor;
use std::process::ExitCode;

const _: () = assert!(!ramhold_base::planted::BUILT_IN, "a program for users has no defects on purpose");

fn main() -> ExitCode {
    ramhold_runtime::give_back_freed_memory();
    let (is_json, ended) = match parse() {
        Ok(cli) => (cli.global.json, cli.run()),
        Err(failure) => (false, Err(failure)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&failure, is_json),
    }
}

fn parse() -> Result<cli::Cli, Failure> {
    let cap = std::env::var_os(processor::VARIABLE);
    processor::limit(cap.as_deref()).map_err(|refused| Failure::usage(refused.to_string()))?;
    let arguments = std::env::args_os().collect();
    config_file::parse(cli::command(), arguments)
}

/// One line on stderr; none if the output has told the failure already.
fn report(failure: &Failure, is_json: bool) -> ExitCode {
    if !failure.text().is_empty() {
        output::tell(&match is_json {
            true => failure.json().to_string(),
            false => {
                format!("ramhold: {}", failure.whole_text(&std::env::temp_dir()).replace(['\n', '\r'], " "))
            }
        });
    }
    ExitCode::from(failure.code())
}
