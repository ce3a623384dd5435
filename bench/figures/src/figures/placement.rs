//! Recovery time by the dead server's placement of segments (Fig. 11): a distribution over many recoveries.

use super::figure::{Extent, Figure, SOSP_PARTITION, notes, plan, seconds};
use crate::profile::SOSP11_DISK;
use crate::scale::{FINE, Scale};
use crate::stage::{Choice, Measured, Plan};
use crate::table::{Cell, Table};

/// How fast the disks of a cluster are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Devices {
    /// 100 to 110 MB/s, as usual.
    Alike,
    /// Some four times as fast as others, as with the fans at full speed.
    Different,
}

const CHOICES: [(Choice, &str); 4] = [
    (Choice::ReadTime, "even read time"),
    (Choice::Segments, "even segments"),
    (Choice::Random, "uniform random"),
    (Choice::Copysets, "copysets"),
];

/// Small, since there are many recoveries; with 720 segments a digest takes a sixth of one.
const SMALL: Scale = Scale { segment_bytes: 32 * 1024, ..FINE };

/// The masters of a recovery, and how often it is repeated.
fn amounts(extent: Extent) -> (usize, u64) {
    match extent {
        Extent::Whole => (10, 8),
        Extent::Quick => (10, 3),
        Extent::Smoke => (3, 1),
    }
}

pub fn figure(extent: Extent, devices: Devices) -> Figure {
    let (masters, runs) = amounts(extent);
    let (name, slowest) = match devices {
        Devices::Alike => ("fig11a", 0.9),
        Devices::Different => ("fig11b", 0.25),
    };
    let one = |choice: Choice, seed: u64| Plan {
        masters,
        backups: masters * 6,
        data: SOSP_PARTITION * masters as f64,
        scale: SMALL,
        choice,
        slowest,
        seed,
        ..plan(SOSP11_DISK)
    };
    let plans = CHOICES.iter().flat_map(|(choice, _)| (1..=runs).map(|seed| one(*choice, seed))).collect();
    let tell = move |all: &[Measured]| {
        let rows = CHOICES.iter().zip(all.chunks(runs as usize)).map(|((_, name), some)| {
            let mut times: Vec<f64> = some.iter().map(|measured| measured.recovery).collect();
            times.sort_by(f64::total_cmp);
            let at = |share: f64| seconds(times[((times.len() - 1) as f64 * share).round() as usize]);
            vec![Cell::Text((*name).into()), at(0.0), at(0.5), at(0.9), at(1.0)]
        });
        let mut notes = notes(&SOSP11_DISK, SMALL);
        let how = match devices {
            Devices::Alike => "disks between 0.9 and 1 times the speed",
            Devices::Different => "disks between a quarter and 1 times the speed",
        };
        notes.push(format!("{runs} recoveries each of {masters} partitions, {} disks; {how}", masters * 6));
        notes.push(match devices {
            Devices::Alike => {
                "the paper: even read time is 33 % faster than random; even segments comes close".into()
            }
            Devices::Different => {
                "the paper: even read time gains more; even segments alone has little benefit over random"
                    .into()
            }
        });
        Table {
            name,
            title: "SOSP11 Fig. 11: recovery time by placement, seconds".into(),
            notes,
            columns: vec!["placement", "fastest", "median", "9 of 10", "slowest"],
            rows: rows.collect(),
            x: 1,
            y: Vec::new(),
            series: None,
            is_log: false,
        }
    };
    Figure { name, plans, tell: Box::new(tell) }
}
