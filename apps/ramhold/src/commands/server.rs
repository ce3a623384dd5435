//! `ramhold server`: a storage server, master and backup, or several in one process (shards).
//!
//! The command checks the machine before it takes any resource. If something is missing, it refuses to start
//! and gives the figure. At the start it reports the resources that it took. Then the loop runs until the
//! cluster or a signal ends it.

pub mod arguments;
mod brick;
mod buffers;
pub mod device;
pub mod forget;
mod redis;
mod reload;
mod shards;
pub mod start;

pub use arguments::Server;

use crate::failure::Failure;
use crate::global::Global;
use crate::process::{self, Stops};
use arguments::ServerCommand;
use reload::Reload;
use start::Prepared;

pub fn run(arguments: Server, global: &Global) -> Result<(), Failure> {
    if let Some(ServerCommand::Forget(forget)) = arguments.command {
        return forget.run(global);
    }
    if let Some(parent) = arguments.end_with {
        process::end_with(parent)?;
    }
    process::abort_on_panic();
    if arguments.brick {
        process::stay_on_hangup("brick")?;
        return brick::run(&arguments);
    }
    let reload = Reload::watch(&arguments)?;
    shards::refuse_leftover(&arguments)?;
    if arguments.shards > 1 {
        return shards::run(&arguments, &reload);
    }
    buffers::tell_abandoned();
    let prepared = Prepared::new(&arguments)?;
    let mut runtime = prepared.start(&arguments)?;
    process::stop_on_signal(Stops::of(runtime.stop_handle()))?;
    reload.enter(0, runtime.change_handle());
    let admin = start::open_door(&arguments, &mut runtime)?.map(|(address, _)| address);
    prepared.tell(&arguments, runtime.local_addr(), admin);

    let exit = runtime.run();
    let is_flushed = runtime.machine().backup().is_stopped();
    // This unlocks the directories before anything in them is removed.
    drop(runtime);
    if is_flushed && exit.code == 0 {
        prepared.buffers.give_back();
    }
    process::ended(exit)
}
