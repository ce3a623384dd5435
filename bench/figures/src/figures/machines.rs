//! One recovery master: its speed by partition and object size (Fig. 6), and the disks needed to keep it busy
//! (Fig. 7).

use super::figure::{
    Extent, Figure, MB, SOSP_PARTITION, busiest_port, busiest_processor, count, notes, plan, seconds,
};
use crate::profile::{Profile, SOSP11_DISK};
use crate::scale::FINE;
use crate::stage::Plan;
use crate::table::{Cell, Table, paper};

/// Every disk is on a machine of its own.
const LONE: Profile = Profile { devices: 1, ..SOSP11_DISK };

/// Fig. 6.
pub fn replay_of_one_master(extent: Extent) -> Figure {
    let values = extent.of(&[128u32, 1, 64, 256, 1024, 2048]);
    let sizes = extent.of(&[200.0, 400.0, 600.0, 800.0, 1000.0]);
    let points: Vec<(u32, f64)> =
        values.iter().flat_map(|value| sizes.iter().map(|size| (*value, *size))).collect();
    let one = |(value_bytes, size): &(u32, f64)| Plan {
        backups: if extent == Extent::Smoke { 6 } else { 60 },
        apart: true,
        data: size * MB,
        partition: Some(1e12),
        value_bytes: *value_bytes,
        ..plan(LONE)
    };
    let plans = points.iter().map(one).collect();
    let tell = move |all: &[crate::stage::Measured]| {
        let rows = points.iter().zip(all).map(|((value, size), measured)| {
            // 4.1: 400 MB/s with 128 B, up to 800 MB/s with large objects.
            let said = match value {
                128 => Some(400.0),
                1024 | 2048 => Some(800.0),
                _ => None,
            };
            vec![
                count(*value as usize),
                Cell::Number(*size, 0),
                seconds(measured.recovery),
                Cell::Number(measured.bytes / MB / measured.recovery, 0),
                paper(said, 0),
                busiest_processor(measured),
                busiest_port(measured),
            ]
        });
        Table {
            name: "fig06",
            title: "SOSP11 Fig. 6: one recovery master, 60 backups".into(),
            notes: notes(&LONE, FINE),
            columns: vec![
                "object B",
                "partition MB",
                "recovery s",
                "MB/s",
                "paper MB/s",
                "busiest core %",
                "busiest port %",
            ],
            rows: rows.collect(),
            x: 1,
            y: vec![2],
            series: Some(0),
            is_log: false,
        }
    };
    Figure { name: "fig06", plans, tell: Box::new(tell) }
}

/// Fig. 7. With fewer than three disks there is no room for three replicas.
pub fn disks_of_one_master(extent: Extent) -> Figure {
    let disks = extent.of(&[3usize, 4, 5, 6, 7, 8, 10, 12, 16, 20]);
    let one = |disks: &usize| Plan {
        backups: *disks,
        apart: true,
        data: SOSP_PARTITION,
        partition: Some(1e12),
        ..plan(LONE)
    };
    let plans = disks.iter().map(one).collect();
    let tell = move |all: &[crate::stage::Measured]| {
        let rows = disks.iter().zip(all).map(|(disks, measured)| {
            let reading: Vec<f64> =
                measured.nodes.backups.iter().map(|node| measured.busy.reading[*node] as f64 / 1e9).collect();
            vec![
                count(*disks),
                seconds(measured.recovery),
                seconds(reading.iter().sum::<f64>() / reading.len() as f64),
                seconds(reading.iter().copied().fold(0.0, f64::max)),
                busiest_processor(measured),
                busiest_port(measured),
            ]
        });
        let mut notes = notes(&LONE, FINE);
        notes.push("the paper: once there are 6 to 8 disks the network of the recovery master limits".into());
        Table {
            name: "fig07",
            title: "SOSP11 Fig. 7: one recovery master of 600 MB by the number of disks".into(),
            notes,
            columns: vec![
                "disks",
                "recovery s",
                "avg disk reading s",
                "max disk reading s",
                "busiest core %",
                "busiest port %",
            ],
            rows: rows.collect(),
            x: 0,
            y: vec![1, 2, 3],
            series: None,
            is_log: false,
        }
    };
    Figure { name: "fig07", plans, tell: Box::new(tell) }
}
