//! Floors: what no server on this machine can do better, measured in one run.
//!
//! - A message to another process and back, by each way of waiting for it; and one that the other process
//!   passes to three more before it answers, as a write with three replicas does.
//! - A message through shared memory and back, with nothing but the rings of Ramhold.
//! - The empty server, which counts requests and gives a fixed reply: Redis's commands and Ramhold's frames.
//! - Memory: a copy, and reads at random places.
//! - The device: a write that is on it when the call returns.
//! - Pauses: how long and how often two cores that only spin are taken away. Requests that come
//!   meanwhile wait, so no server here has steadier answers than this.
//!
//! Servers run on core 0 and clients on core 1. A figure of a server means something beside the floor of the
//! same run: machines differ tenfold, and one machine differs from hour to hour.

mod device;
mod echo;
mod memory;
mod pauses;
mod ring;

pub use echo::Echo;

use crate::resp::{Figures, PIPELINES, Request, Resp, TOGETHER, name, text};
use clap::Args;
use echo::{How, Trip};
use std::path::PathBuf;
use std::time::Duration;

/// As large as a read of 100 B with its header; the same size comes back.
const MESSAGE_BYTES: u32 = 256;

/// Measure floors: echoes, relays, the empty server, pauses, memory and the device.
#[derive(Args, Clone, Debug)]
pub struct Limits {
    #[command(flatten)]
    resp: Resp,
    /// Folder whose device is measured [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// MiB of memory that is read at random places; more than the processor's caches.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    memory: u64,
}

impl Limits {
    pub fn run(self) -> Result<(), String> {
        let plan = self.resp.plan();
        let (time, runs) = (Duration::from_secs(plan.seconds), plan.runs);
        println!(
            "floors, medians of {runs} runs of {} s; servers on core 0, clients on core 1; {MESSAGE_BYTES} B there and back",
            plan.seconds
        );
        println!("\n{:<44} {:>9} {:>9} {:>9} {:>9}", "round trip, us", "p50", "p90", "p99", "max");
        trip("echo through shared memory, both spin", median(runs, || ring::echo(MESSAGE_BYTES, time))?);
        for how in How::ALL {
            trip(&format!("echo, both {how}"), median(runs, || echo::echo(how, MESSAGE_BYTES, time))?);
        }
        // Four processes share a core: who has nothing to do must give it away.
        for how in [How::Yield, How::Epoll] {
            trip(
                &format!("relay by 3 echoes, all {how}"),
                median(runs, || echo::relay(how, MESSAGE_BYTES, time))?,
            );
        }
        println!(
            "\n{:<44} {:>26}",
            format!("empty server, {} connections", plan.connections),
            "/s, us/op, busy"
        );
        for pipeline in PIPELINES {
            for request in [Request::Get, Request::Set, Request::Read, Request::Write] {
                println!("{:<44} {}", name(request, pipeline), text(plan.floor(request, pipeline)?));
            }
        }
        let alone = plan.with_one_connection();
        for under_way in [1, 2] {
            let Figures { ops_per_second, server_micros } = alone.floor(Request::ReadTogether, under_way)?;
            let count = TOGETHER as f64;
            let each =
                Figures { ops_per_second: ops_per_second * count, server_micros: server_micros / count };
            // The server sleeps between frames: one that looks for them is faster.
            let what = format!("read, {TOGETHER} in a frame, {under_way} frames, sleeping");
            println!("{what:<44} {}", text(each));
        }
        let bytes = if self.resp.smoke { 8 << 20 } else { self.memory << 20 };
        println!(
            "\n{:<44} {:>9} {:>9} {:>9}",
            "pauses of 100 us and more, one run", "/s", "of time", "longest, us"
        );
        for (core, seen) in pauses::measure(time).into_iter().enumerate() {
            let pauses::Pauses { per_second, part, longest } = seen;
            let what = format!("core {core}, while both spin");
            println!("{what:<44} {per_second:>9.1} {:>8.2}% {longest:>9.0}", part * 100.0);
        }
        println!("\nmemory");
        println!("{:<44} {:>9.2} GB/s", "copy, by 1 MiB", memory::copy_gigabytes_per_second());
        let reads = memory::random_reads(bytes);
        let size = bytes >> 20;
        println!(
            "{:<44} {:>9.1} ns",
            format!("read at random in {size} MiB, one by one"),
            reads.dependent_nanos
        );
        println!("{:<44} {:>9.1} ns", format!("the same, {} at once", memory::CHAINS), reads.together_nanos);
        let dir = self.dir.unwrap_or_else(std::env::temp_dir);
        println!("\ndevice of {}, pwrite and fdatasync", dir.display());
        let written = device::measure(&dir, time)?;
        println!("{:<44} {:>9} {:>9} {:>9} {:>9}", "us", "p50", "p90", "p99", "max");
        trip("4 KiB over what is there", written.small);
        trip("8 MiB over what is there", written.large);
        Ok(())
    }
}

fn trip(name: &str, trip: Trip) {
    let Trip { p50, p90, p99, max } = trip;
    println!("{name:<44} {p50:>9.2} {p90:>9.2} {p99:>9.2} {max:>9.2}");
}

/// The run with the median p50.
fn median(runs: u16, run: impl FnMut() -> Result<Trip, String>) -> Result<Trip, String> {
    let mut runs =
        std::iter::repeat_with(run).take(usize::from(runs)).collect::<Result<Vec<Trip>, String>>()?;
    runs.sort_by(|a, b| a.p50.total_cmp(&b.p50));
    Ok(runs[runs.len() / 2])
}
