//! Operations that have a cluster for themselves: one client, with one operation under way.
//!
//! The cluster is set up as for a recovery (`stage`). Then nobody dies, everything is charged (`charge`), and a
//! client (`asker`) writes and reads objects of the first server. This server keeps no replicas itself, and the
//! others hold its replicas. The client is on the coordinator's host, with a core of its own.
//!
//! Not here: load, and so queues; scheduling, interrupts and caches, as in every figure.

use crate::asker::Asker;
use crate::process::{Process, address, settle};
use crate::stage::{Plan, Stage};
use ramhold_world::world::NodeOptions;

/// The times of operations of one kind, in nanoseconds, the shortest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Times(Vec<u64>);

impl Times {
    fn new(mut times: Vec<u64>) -> Times {
        assert!(!times.is_empty(), "something was asked");
        times.sort_unstable();
        Times(times)
    }

    pub fn min(&self) -> f64 {
        self.0[0] as f64
    }

    pub fn median(&self) -> f64 {
        self.0[self.0.len() / 2] as f64
    }

    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<u64>() as f64 / self.0.len() as f64
    }

    pub fn max(&self) -> f64 {
        self.0[self.0.len() - 1] as f64
    }
}

/// The times of writes and of reads of the same objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alone {
    pub writes: Times,
    pub reads: Times,
}

impl Alone {
    /// Asks the cluster of a plan for `count` writes and as many reads.
    pub fn measure(plan: &Plan, count: u64) -> Alone {
        let Stage { mut world, meter, coordinator, .. } = plan.set_up();
        let begun = world.now();
        {
            let mut meter = meter.borrow_mut();
            (meter.on, meter.one_by_one, meter.began) = (true, true, begun);
        }
        let seed = plan.seed ^ 0xA5CE;
        let node = world.add_node(NodeOptions::plain("asker", address(0, 9001)), move |_| {
            Process::Asker(Box::new(Asker::new(coordinator, count, seed)))
        });
        settle(
            &mut world,
            "the answers",
            |world| matches!(world.machine(node), Some(Process::Asker(asker)) if asker.is_done()),
        );
        let Some(Process::Asker(asker)) = world.machine(node) else { panic!("the client is there") };
        Alone { writes: Times::new(asker.writes.clone()), reads: Times::new(asker.reads.clone()) }
    }
}
