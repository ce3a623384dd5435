//! `ramhold server`: one storage server, master and backup.
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
mod start;

pub use arguments::Server;

use crate::admin;
use crate::failure::Failure;
use crate::global::Global;
use crate::process;
use arguments::ServerCommand;
use ramhold_admin::Door;
use ramhold_node::{ServerNode, ServerSeen};
use ramhold_runtime::free_space;
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
        return brick::run(&arguments);
    }
    let door = arguments.admin.open(arguments.insecure_network)?;
    let admin = door.as_ref().map(Door::address);
    let prepared = Prepared::new(&arguments)?;
    let mut runtime = prepared.start(&arguments)?;
    process::stop_on_signal(runtime.stop_handle())?;
    if let Some(door) = door {
        let dir = arguments.dir().to_owned();
        let seen = move |node: &ServerNode, now| ServerSeen {
            disk_free_bytes: free_space(&dir).ok(),
            ..node.seen(now)
        };
        door.serve(&mut runtime, seen).map_err(admin::thread_failed)?;
    }
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
