//! A write by a read: what it costs that a write waits for its replicas, where each process has a core.
//!
//! A read is a question and an answer. A write is answered when R backups have it. So it takes another way there
//! and back, and the work of R appends and their answers.
//!
//! Not here: operations under load, and on the machine that this runs on (docs/measurements/replicated-writes.md).

use super::figure::{Extent, plan};
use crate::alone::{Alone, Times};
use crate::profile::{NOW, NOW_BYPASS, Profile, TUT15};
use crate::scale::Scale;
use crate::stage::Plan;
use crate::table::{Cell, Table, paper};

pub const NAME: &str = "write";
/// The time of a write may be this many times that of a read.
pub const RATIO_MAX: f64 = 2.2;

/// Each byte of log stands for itself. Segments are smaller than usual, so that their changes are among the writes.
const SCALE: Scale = Scale { segment_bytes: 1 << 20, segments: 1, real_bytes: 1 << 20 };
const BACKUPS: usize = 5;
const RATIO: &str = "write / read";

/// A master that is asked, and `BACKUPS` more servers.
fn cluster(profile: Profile, replicas: u8) -> Plan {
    Plan {
        scale: SCALE,
        masters: BACKUPS,
        backups: BACKUPS,
        together: true,
        data: 1e3,
        value_bytes: 128,
        replicas,
        ..plan(profile)
    }
}

fn micros(nanos: f64) -> Cell {
    Cell::Number(nanos / 1e3, 1)
}

fn cells(times: &Times) -> [Cell; 4] {
    [times.median(), times.min(), times.mean(), times.max()].map(micros)
}

/// The ratio that the figure tells for hosts of today, through the kernel.
pub fn ratio_of_today(table: &Table) -> Option<f64> {
    let row = table.rows.iter().find(|row| row[0] == Cell::Text(NOW.name.into()))?;
    row[table.columns.iter().position(|column| *column == RATIO)?].number()
}

/// The figure, for hosts of today through the kernel and past it, and for RAMCloud's.
pub fn figure(extent: Extent) -> Table {
    let count = match extent {
        Extent::Whole => 4_000,
        Extent::Quick => 1_000,
        Extent::Smoke => 100,
    };
    // The abstract of "The RAMCloud Storage System": reads in less than 5 microseconds, durable writes in about 13.5.
    let profiles = extent.of(&[(NOW, None), (NOW_BYPASS, None), (TUT15, Some(13.5 / 5.0))]);
    let row = |(profile, said): &(Profile, Option<f64>)| {
        let Alone { writes, reads } = Alone::measure(&cluster(*profile, 3), count);
        let ratio = Cell::Number(writes.median() / reads.median(), 2);
        let name = Cell::Text(profile.name.into());
        [name]
            .into_iter()
            .chain(cells(&reads))
            .chain(cells(&writes))
            .chain([ratio, paper(*said, 2)])
            .collect()
    };
    let notes = profiles.iter().map(|(profile, _)| profile.to_string()).chain([
        format!(
            "the real client, master and backups; a master, {BACKUPS} servers that back it up, and one client with one \
             operation under way; {count} objects, keys of 30 B, values of 100 B, R = 3, buffered"
        ),
        "charged: each message, its bytes, each step, the master's own time for a read and a write, appends with \
         copy and checksum"
            .into(),
        "not in it: scheduling, wake-ups, interrupts, caches; the master's own work for replicas beyond a step for each answer; the client's own time beyond a step for each answer; answers \
         of backups that are taken in together"
            .into(),
    ]);
    Table {
        name: NAME,
        title: "one write by one read, each alone in the cluster; microseconds".into(),
        notes: notes.collect(),
        columns: vec![
            "profile",
            "read p50",
            "read min",
            "read mean",
            "read max",
            "write p50",
            "write min",
            "write mean",
            "write max",
            RATIO,
            "paper",
        ],
        rows: profiles.iter().map(row).collect(),
        x: 0,
        y: Vec::new(),
        series: None,
        is_log: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 200;

    /// The medians of a read and of a write, in nanoseconds, in a network of this latency.
    fn medians(replicas: u8, latency: u64) -> (f64, f64) {
        let Alone { writes, reads } = Alone::measure(&cluster(Profile { latency, ..NOW }, replicas), COUNT);
        assert!(reads.min() >= 2.0 * latency as f64, "{reads:?}");
        (reads.median(), writes.median())
    }

    // D1: a longer way is in a write's time once for each time that it goes over the network.
    #[test]
    fn a_write_with_replicas_goes_over_the_network_twice_as_often_as_a_read() {
        const LONGER: f64 = 20_000.0;
        let ways = |replicas| {
            let ((read, write), (far_read, far_write)) =
                (medians(replicas, NOW.latency), medians(replicas, NOW.latency + LONGER as u64));
            let way = |near: f64, far: f64| ((far - near) / LONGER * 100.0).round() / 100.0;
            (way(read, far_read), way(write, far_write), write - read)
        };
        let (read, write, more) = ways(0);
        assert_eq!((read, write), (2.0, 2.0), "nothing to wait for");
        assert!(more < 1e3, "a write without replicas costs what a read costs: {more} ns more");
        let (read, write, more) = ways(3);
        assert_eq!((read, write), (2.0, 4.0), "a write waits for its backups");
        assert!(more > 2.0 * NOW.latency as f64, "a write is answered {more} ns after a read");
    }

    #[test]
    fn the_same_cluster_takes_the_same_time() {
        let plan = cluster(NOW, 3);
        assert_eq!(Alone::measure(&plan, COUNT), Alone::measure(&plan, COUNT));
    }
}
