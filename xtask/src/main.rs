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

Checks:
  check         before every commit: format, import rules, clippy, unit tests, a
                few simulator seeds (below 2 minutes when warm)
  imports       the import rules alone: between crates, and no circles between
                the files of a crate (a second)
  test          everything that CI runs: check, more seeds, real processes, the
                demo and its sabotage
  fix           formats the code; the only command that writes to the sources

Simulator:
  world         runs simulator seeds
                --seeds A..B [--seconds 60] [--into FILE]
                --replay SEED --verbose
  mutants       plants defects one by one and tells which seeds find them
                [--seeds A..B] [--defect NAME]

Real processes:
  demo          builds and runs `ramhold demo`, with these arguments
  rounds        kill rounds [--rounds N] [--servers N] [--victims N]
                [--data MB] [--rate PERCENT]: also measures how long clients
                wait when servers with much data die
  soak          seeds and kill rounds until stopped; never in CI [--minutes N]
  histories     clients record their answers while servers are killed, stopped
                and cut off; a checker in Go judges the histories
                [--kills N] [--stops N] [--cuts N] [--seconds N] [--into FILE]
                [--zones N --servers N --zone-kills N --zone-cuts N
                --ballast MB]: whole zones, too
  clients       sessions of redis-cli, redis-benchmark, redis-py, go-redis and
                ioredis on five servers, and kills under their load
                [--only NAME] [--at ADDRESS,...] [--kills N]
  differential  sends the same random commands to redis-server and to a cluster
                of five, and compares every reply
                [--commands N] [--seed N] [--servers N] [--right ADDRESS]
                [--every-row] [--tally]

Fuzzing and benchmarks:
  fuzz          all code that reads bytes from outside, under libFuzzer; keeps
                each finding and fails
                [resp_parse|resp_front|frame|requests|entry|rdb|aof|all]
                [--executions N]
  bench compare            speed beside redis-server
  bench compare kv         one client for Ramhold and, if they are there,
                           redis-server, valkey-server, dragonfly, pogocache
                           and memcached; [--runs N] [--raw FILE]
  bench compare ycsb       YCSB's workloads on five servers, beside a Redis
                           cluster; [--only a,b] [--runs N] [--raw FILE]
  bench compare memory     live data by resident memory, beside redis-server
                           and memcached
  bench compare cleaning   a nearly full server beside one that never cleans
  bench resp               Redis's protocol, beside redis-server and an empty
                           server, the floor
  bench limits             floors: echoes and relays by each way of waiting, the
                           empty server, memory, the device; [--seconds N]
                           [--runs N] [--dir DIR] [--memory MIB]
  bench shard              cost of one operation, without sockets
  bench figures            the papers' figures, neighbourhoods and 1,000 servers, simulated
                           [--quick] [--only NAMES] [--into DIR]
                           [--only dstore [--figure NUMBERS] [--seed N]]: quorum
                           tables on DSTORE04's machines
  bench zones              bytes that cross zones, by placement; needs root, ip
                           and nft [--megabytes N]
  bench bcube              dead servers, cables and switches, recovery and writes
                           in a BCube(4, 1) of processes; needs root, ip, nft
                           and tc, some parts more (--help) [--only PARTS]
                           [--only busy --busy-minutes N] [--history DIR]
  bench bricks             bricks of a quorum table killed and stopped under load,
                           beside servers; a restart with much data; cost of an
                           operation; a brick that stutters; bricks that come
                           and go [--only PARTS] [--minutes N] [--history DIR]

`test` needs only the Rust toolchain. A step that needs another program (Go,
redis-server, memcached) is skipped by name if it is missing; with CI=true a
skip is a failure.";

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
            eprintln!("xtask: there is no command '{other}'; `cargo xtask` lists the commands");
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
