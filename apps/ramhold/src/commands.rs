//! The commands, one file each, and their dispatch.

pub mod accept_loss;
pub mod acknowledge_loss;
pub mod bench;
pub mod coordinator;
pub mod demo;
pub mod dev;
pub mod import;
pub mod object;
pub mod plan;
pub mod recoveries;
pub mod scan;
pub mod server;
pub mod status;
pub mod stop;
pub mod table;
pub mod verify;

use crate::cli::{Cli, Command};
use crate::failure::Failure;

pub fn run(cli: Cli) -> Result<(), Failure> {
    let global = cli.global;
    match cli.command {
        Command::Table(table) => table.run(&global),
        Command::Put(put) => put.run(&global),
        Command::Get(get) => get.run(&global),
        Command::Incr(increment) => increment.run(&global),
        Command::Del(delete) => delete.run(&global),
        Command::Scan(scan) => scan.run(&global),
        Command::Export(export) => export.run(&global),
        Command::Import(import) => import.run(&global),
        Command::Verify(verify) => verify.run(&global),
        Command::Status(status) => status.run(&global),
        Command::Recoveries(recoveries) => recoveries.run(&global),
        Command::AcceptLoss(accept) => accept.run(&global),
        Command::AcknowledgeLoss(acknowledge) => acknowledge.run(&global),
        Command::Plan(plan) => plan.run(&global),
        Command::Bench(bench) => bench.run(&global),
        Command::Demo(demo) => demo::run(demo),
        Command::Dev(dev) => dev::run(dev),
        Command::Stop(stop) => stop::run(stop),
        Command::Server(server) => server::run(*server, &global),
        Command::Coordinator(coordinator) => coordinator::run(*coordinator, &global),
        Command::DemoWriter(writer) => demo::run_writer(writer, &global),
    }
}
