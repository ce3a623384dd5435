//! The project's own commands: `cargo xtask` lists them.
//!
//! This program is light on purpose: it has no dependencies, so that it builds in a second. All heavy work is
//! in programs of the workspace that it builds and runs. It writes nothing but build artefacts, except with
//! `fix`.

mod building;
mod clients;
mod fuzz;
mod histories;
mod imports;
mod mutants;
mod shell;
mod single_place;
mod suite;

use shell::{Failure, Step};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  check      before every commit: format, clippy, unit tests, import rules, a few simulator seeds (< 2 minutes warm)
  imports    the import rules alone: between crates, and no circles between the files of a crate (a second)
  demo       builds and runs `ramhold demo`: a cluster, real data, kill -9, recovery, cold start (arguments are passed on)
  test       everything that CI runs: check, then simulator seeds, real processes, the demo and its sabotage
  soak       long runs, never in CI: seeds and kill rounds until stopped   [--minutes N]
  world      simulator seeds: world --seeds A..B [--seconds 60] [--into FILE] [--replay SEED --verbose]
  mutants    plants defects one by one and tells which seeds find them   [--seeds A..B] [--defect NAME]
  rounds     kill rounds on real processes   [--rounds N] [--servers N] [--victims N]; with [--data MB] [--rate PERCENT]
             how long clients wait when servers with much data die
  histories  client processes write down what they are told while servers are killed, stopped and cut off, and a
             checker in Go judges it   [--kills N] [--stops N] [--cuts N] [--seconds N] [--into FILE]
  clients    sessions of redis-cli, redis-benchmark, redis-py, go-redis and ioredis against five servers, and servers
             killed under their load   [--only NAME] [--at ADDRESS,...] [--kills N]
  differential  the same random commands to redis-server and to a cluster of five, every reply compared
             [--commands N] [--seed N] [--servers N] [--right ADDRESS] [--every-row] [--tally]
  fuzz       whatever reads bytes from outside under libFuzzer, guided by coverage; fails on a finding and keeps it
             [resp_parse|resp_front|frame|requests|entry|rdb|aof|all] [--executions N]
  bench      bench compare: beside redis-server in one run; bench compare memory: live data by resident memory, beside
             redis-server and memcached; bench resp: over Redis's protocol, beside redis-server and an empty
             server, the floor; bench limits: that floor alone; bench shard: what one operation costs, without sockets;
             bench figures: the papers' figures and 1,000 servers, simulated   [--quick] [--only NAMES] [--into DIR]
  fix        formats the code (the only command that writes)

`test` needs only the Rust toolchain. What else is missing (Go, redis-server, memcached) is skipped by name;
with CI=true a skip is a failure.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = arguments.split_first() else {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    };
    let outcome = match command.as_str() {
        "check" => suite::check(),
        "imports" => imports::check(),
        "demo" => suite::demo(rest),
        "test" => suite::test(),
        "soak" => suite::soak(rest),
        "world" => suite::world(rest),
        "mutants" => mutants::run(rest),
        "rounds" => suite::rounds(rest),
        "histories" => histories::run(rest),
        "differential" => suite::differential(rest),
        "clients" => clients::run(rest),
        "fuzz" => fuzz::run(rest),
        "bench" => suite::bench(rest),
        "fix" => Step::new("format").cargo(&["fmt", "--all"]).run(),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("xtask: there is no command '{other}'; `cargo xtask` lists them");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(text)) => {
            eprintln!("xtask: {text}");
            ExitCode::FAILURE
        }
    }
}
