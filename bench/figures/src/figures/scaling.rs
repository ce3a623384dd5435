//! Recovery time as masters, backups and data grow together (Figs. 8 to 10, TUT15), up to a thousand servers of today.

use super::figure::{
    Extent, Figure, GB, MB, busiest_coordinator, busiest_port, busiest_processor, busiest_reader, count,
    notes, plan, seconds,
};
use super::write;
use crate::profile::{NOW, Profile, SOSP11, SOSP11_DISK, TUT15};
use crate::scale::{FINE, Scale};
use crate::stage::{Measured, Plan};
use crate::table::{Cell, Table, paper};

/// A point of a figure: the number of masters, and the paper's result for it.
type Point = (usize, Option<f64>);

const COLUMNS: [&str; 10] = [
    "masters",
    "backups",
    "data GB",
    "recovery s",
    "paper s",
    "GB/s",
    "detection s",
    "busiest core %",
    "busiest port %",
    "busiest reader %",
];

fn row(plan: &Plan, said: Option<f64>, measured: &Measured) -> Vec<Cell> {
    vec![
        count(plan.masters),
        count(plan.backups),
        Cell::Number(measured.bytes / GB, 2),
        seconds(measured.recovery),
        paper(said, 2),
        Cell::Number(measured.bytes / GB / measured.recovery, 1),
        seconds(measured.detection),
        busiest_processor(measured),
        busiest_port(measured),
        busiest_reader(measured),
    ]
}

fn figure(name: &'static str, title: &str, points: Vec<Point>, plans: Vec<Plan>, more: &str) -> Figure {
    let (title, more, told) = (title.to_owned(), more.to_owned(), plans.clone());
    let tell = move |all: &[Measured]| {
        let rows =
            told.iter().zip(&points).zip(all).map(|((plan, (_, said)), measured)| row(plan, *said, measured));
        let mut notes = notes(&told[0].profile, told[0].scale);
        notes.push(more.clone());
        Table {
            name,
            title: title.clone(),
            notes,
            columns: COLUMNS.to_vec(),
            rows: rows.collect(),
            x: 0,
            y: vec![3, 4],
            series: None,
            is_log: false,
        }
    };
    Figure { name, plans, tell: Box::new(tell) }
}

/// Fig. 8.
pub fn disks(extent: Extent) -> Figure {
    let points =
        extent.of(&[(2, None), (4, None), (6, None), (8, None), (10, None), (15, None), (20, Some(1.1))]);
    let one = |(masters, _): &Point| Plan {
        masters: *masters,
        backups: masters * 6,
        data: 11.7 * GB / 20.0 * *masters as f64,
        ..plan(SOSP11_DISK)
    };
    let plans = points.iter().map(one).collect();
    let more =
        "the paper: 11.7 GB by 20 masters in under 1.1 s, 13 % longer than 600 MB by one; limited by disks";
    figure("fig08", "SOSP11 Fig. 8: six disks for each recovery master", points, plans, more)
}

/// Fig. 9. Three replicas need four hosts.
pub fn flash(extent: Extent) -> Figure {
    let points =
        extent.of(&[(4, None), (10, None), (20, None), (30, None), (40, None), (50, None), (60, Some(1.6))]);
    let plans = points.iter().map(|(masters, _)| flash_plan(*masters)).collect();
    let more = "the paper: 35 GB by 60 masters in 1.6 s, 26 % longer than 1.2 GB by two";
    figure(
        "fig09",
        "SOSP11 Fig. 9: two flash drives on the host of each recovery master",
        points,
        plans,
        more,
    )
}

fn flash_plan(masters: usize) -> Plan {
    let data = 35.0 * GB / 60.0 * masters as f64;
    Plan { masters, backups: masters * 2, data, scale: Scale::of(data), ..plan(SOSP11) }
}

/// Fig. 10: so little data that only the management counts. Replicas are in memory; segments are so large
/// that a digest of all is a small part of one.
pub fn overhead(extent: Extent, partition: f64) -> Figure {
    /// A device that costs nothing.
    const MEMORY: Profile =
        Profile { name: "sosp11 (replicas in memory)", read: 1e12, write: 1e12, ..SOSP11_DISK };
    const SEGMENT_BYTES: u32 = 64 * 1024;
    let small = partition < 1e4;
    let points: Vec<Point> = extent
        .of(&[4usize, 10, 20, 40, 60])
        .into_iter()
        // The text: 10 ms more at 60 masters; 1.5 ms for each more.
        .map(|masters| (masters, None))
        .collect();
    let one = |(masters, _): &Point| Plan {
        masters: *masters,
        backups: masters * 2,
        data: partition * *masters as f64,
        // The head may have grown; its size is subtracted again.
        partition: Some(partition + f64::from(SEGMENT_BYTES)),
        scale: Scale { segment_bytes: SEGMENT_BYTES, real_bytes: SEGMENT_BYTES, segments: 1 },
        ..plan(MEMORY)
    };
    let plans = points.iter().map(one).collect();
    if small {
        let more = "partitions of a few objects; the paper: 60 masters take 10 ms longer than one";
        figure("fig10a", "SOSP11 Fig. 10: management alone, partitions of about 1 KB", points, plans, more)
    } else {
        let more = "the paper: each master more takes 1.5 ms more";
        figure("fig10b", "SOSP11 Fig. 10: management alone, partitions of 1.2 MB", points, plans, more)
    }
}

/// TUT15, "Recovery Scalability".
pub fn tut15(extent: Extent) -> Figure {
    let points = extent.of(&[(4, None), (10, None), (20, None), (40, None), (80, None)]);
    let one = |(masters, _): &Point| Plan {
        masters: *masters,
        backups: masters * 2,
        data: 500.0 * MB * *masters as f64,
        scale: Scale::of(500.0 * MB * *masters as f64),
        ..plan(TUT15)
    };
    let plans = points.iter().map(one).collect();
    let more = "the slides: from one master, two drives and 500 MB to 80, 160 and 40 GB; its picture is not in the text";
    figure("tut15", "TUT15 Recovery Scalability", points, plans, more)
}

/// TUT15, "Scale and Recovery".
pub fn capacities(extent: Extent) -> Figure {
    let all = [(5usize, 100.0, 40.0), (100, 50.0, 1.0), (200, 100.0, 1.0)];
    let chosen = if extent == Extent::Smoke { vec![(5, 2.0, 40.0)] } else { all.to_vec() };
    let points: Vec<Point> = chosen.iter().map(|(masters, _, said)| (*masters, Some(*said))).collect();
    let one = |(masters, gigabytes, _): &(usize, f64, f64)| Plan {
        masters: *masters,
        backups: masters * 2,
        data: gigabytes * GB,
        scale: Scale::of(gigabytes * GB),
        ..plan(TUT15)
    };
    let plans = chosen.iter().map(one).collect();
    let more = "the slide: 6 servers of 100 GB 40 s, 101 of 50 GB 1 s, 201 of 100 GB 1 s, at about 500 MB/s per server";
    figure("tut15-scale", "TUT15 Scale and Recovery", points, plans, more)
}

/// The data per server when a server of 64 GB dies among a thousand.
const SHARE: f64 = 64.0 * GB / 1000.0;

/// Servers of today, gigabytes and perhaps a grain, as they are written on the command line: 1000:64:16.
pub fn one(text: &str) -> Option<Plan> {
    let mut parts = text.split(':');
    let servers: usize = parts.next()?.parse().ok().filter(|servers| (4..=10_000).contains(servers))?;
    let gigabytes: f64 = parts.next()?.parse().ok().filter(|data| (0.001..=10_000.0).contains(data))?;
    let grain = parts.next().map(|grain| grain.parse().ok().filter(|grain| (1..=1024).contains(grain)));
    let plan = now_plan(servers, gigabytes * GB);
    let scale = match grain {
        Some(grain) => Scale::coarse(grain?),
        None => plan.scale,
    };
    parts.next().is_none().then_some(Plan { scale, ..plan })
}

/// This many servers of today.
fn now_plan(servers: usize, data: f64) -> Plan {
    let scale = match (servers, data > 100.0 * GB) {
        (_, true) => Scale::coarse(64),
        (301.., _) => Scale::coarse(8),
        _ => Scale::of(data),
    };
    Plan { masters: servers, backups: servers, together: true, data, scale, ..plan(NOW) }
}

/// A thousand servers of today, and fewer with the same share each; and a server of 256 GB.
pub fn now(extent: Extent) -> Figure {
    // The computation for a thousand servers is bounded: a quarter of a million requests of masters to
    // backups.
    let mut sizes = vec![(20, SHARE * 20.0), (60, SHARE * 60.0), (100, SHARE * 100.0), (300, SHARE * 300.0)];
    // All data of one server of 60. It is compared with a restart of Redis.
    sizes.push((60, 64.0 * GB));
    sizes.extend([(1000, 64.0 * GB), (1000, 256.0 * GB)]);
    let sizes = match extent {
        Extent::Whole => sizes,
        Extent::Quick => vec![sizes[0], sizes[2]],
        Extent::Smoke => vec![(4, SHARE * 4.0)],
    };
    let plans: Vec<Plan> = sizes.iter().map(|(masters, data)| now_plan(*masters, *data)).collect();
    let told = plans.clone();
    let tell = move |all: &[Measured]| {
        let rows = told.iter().zip(all).map(|(plan, measured)| {
            let mut cells = row(plan, None, measured);
            cells[4] = Cell::Number(f64::from(plan.scale.segments), 0);
            cells.push(busiest_coordinator(measured));
            cells
        });
        let mut columns = COLUMNS.to_vec();
        columns[4] = "grain";
        columns.push("coordinator's core %");
        let mut notes = notes(&NOW, FINE);
        notes.push("grain: so many segments are simulated as one (see bench/figures/src/scale.rs)".into());
        Table {
            name: "now",
            title: "2026: one server process per host, master and backup".into(),
            notes,
            columns,
            rows: rows.collect(),
            x: 0,
            y: vec![3],
            series: Some(4),
            is_log: false,
        }
    };
    Figure { name: "now", plans, tell: Box::new(tell) }
}

/// A restart of redis-server from its append-only file, bytes of log a second: 534 MiB in 1.16 s
/// (docs/measurements/recovery.md, Recovery beside Redis), on the processor of the profile 2026.
const REDIS_RATE: f64 = 534.0 * 1024.0 * 1024.0 / 1.16;

/// The targets that must be shown, as far as the tables have them: each with the wanted and the measured
/// value, and whether it is met.
pub fn targets(tables: &[Table]) -> Table {
    let table = |name: &str| tables.iter().find(|table| table.name == name);
    let value = |name: &str, wanted: &dyn Fn(&[Cell]) -> bool, column: usize| {
        table(name)?.rows.iter().find(|row| wanted(row))?[column].number()
    };
    let is =
        |cell: &Cell, number: f64| cell.number().is_some_and(|value| (value - number).abs() < number * 0.02);
    let mut rows = Vec::new();
    let mut add =
        |what: &str, wanted: &str, measured: Option<f64>, unit: &str, is_met: &dyn Fn(f64) -> bool| {
            let Some(measured) = measured else { return };
            let met = if is_met(measured) { "met" } else { "falls short" };
            rows.push(vec![
                Cell::Text(what.into()),
                Cell::Text(wanted.into()),
                Cell::Text(format!("{measured:.3}{unit}")),
                Cell::Text(met.into()),
            ]);
        };
    let sosp = value("fig09", &|row| is(&row[0], 60.0), 3);
    add("sosp11, 60 servers, 35 GB, from the verdict", "<= 1.6 s", sosp, " s", &|s| s <= 1.6);
    let large = |row: &[Cell]| is(&row[0], 1000.0) && is(&row[2], 64.0);
    let from_kill =
        value("now", &large, 3).zip(value("now", &large, 6)).map(|(after, before)| after + before);
    add("2026, 1,000 servers, 64 GB, from the kill", "<= 1.2 s", from_kill, " s", &|s| s <= 1.2);
    let small = value("now", &|row| is(&row[0], 20.0), 3);
    let more = value("now", &large, 3).zip(small).map(|(large, small)| 100.0 * (large / small - 1.0));
    add("2026, 20 to 1,000 masters, data growing with them", "< 15 % more", more, " %", &|percent| {
        percent < 15.0
    });
    for name in ["fig11a", "fig11b"] {
        let median = |placement: &str| {
            table(name)?.rows.iter().find(|row| row[0] == Cell::Text(placement.into()))?[2].number()
        };
        let (read, segments, random) =
            (median("even read time"), median("even segments"), median("uniform random"));
        let order = read
            .zip(segments)
            .zip(random)
            .map(|((read, segments), random)| (read / segments).max(segments / random));
        add(
            &format!("{name}: even read time, even segments, random: each no slower than the next"),
            "<= 1.02",
            order,
            "",
            &|worst| worst <= 1.02,
        );
    }
    let sixty = |row: &[Cell]| is(&row[0], 60.0) && is(&row[2], 64.0);
    let after = value("now", &sixty, 3).zip(value("now", &sixty, 6)).map(|(after, before)| after + before);
    let redis = after.map(|seconds| 64.0 * GB / REDIS_RATE / seconds);
    add(
        "2026, 64 GB on a server of 60: faster than a restart of Redis",
        ">= 10 times",
        redis,
        " times",
        &|times| times >= 10.0,
    );
    let alone = table(write::NAME).and_then(write::ratio_of_today);
    let most = format!("<= {} times", write::RATIO_MAX);
    add("2026, R = 3: one write by one read, each alone", &most, alone, " times", &|by| {
        by <= write::RATIO_MAX
    });
    let made = super::multiring::NAMES.iter().filter_map(|name| table(name));
    super::multiring::targets(&made.flat_map(|table| table.rows.clone()).collect::<Vec<_>>(), &mut add);
    Table {
        name: "targets",
        title: "what must be shown in the simulation".into(),
        notes: Vec::new(),
        columns: vec!["what", "wanted", "measured", ""],
        rows,
        x: 0,
        y: Vec::new(),
        series: None,
        is_log: false,
    }
}
