//! Neighbourhoods in networks of small switches and in racks, beside scattered replicas (RAMCUBE 3.2, 3.3):
//! how fast a server is recovered, how evenly, and over which links.
//!
//! Links are ports (`fabric`), so a recovery that crosses an uplink, or that other hosts pass on, takes the
//! time of theirs.

use super::course::Course;
use super::figure::{
    Extent, Figure, GB, busiest_coordinator, busiest_processor, busiest_reader, count, notes, plan, seconds,
};
use crate::layout::{Crowd, Layout};
use crate::profile::{GBIT, NOW, Profile};
use crate::scale::{FINE, Scale};
use crate::stage::{Choice, End, Measured, Plan};
use crate::table::{Cell, Table};
use ramhold_wire::Neighbouring;

/// The figures: of whole clusters, and of one server's neighbourhood in a large BCube.
pub const NAMES: [&str; 2] = ["multiring-small", "multiring-large"];
/// The share of the ports that the rings do not use which other traffic takes.
const CROSS_TRAFFIC: f64 = 0.9;

/// Links that are slower than all processors and devices.
const SLOW_LINKS: Profile = Profile { name: "2026, 1 Gbit/s", network: GBIT, ..NOW };
const FAST_LINKS: Profile = Profile { name: "2026, 10 Gbit/s", network: 10.0 * GBIT, ..NOW };
/// Disks of 100 MB/s, as RAMCube would have them.
const DISKS: Profile =
    Profile { name: "2026, 10 Gbit/s, disks", network: 10.0 * GBIT, read: 100e6, write: 100e6, ..NOW };

/// Segments that are smaller in the simulation than usual: there are 94,000 buffers for heads.
const SMALL: Scale = Scale { segment_bytes: 32 * 1024, ..FINE };

/// Larger ones. The will in a head grows with the segment (core/log/src/will.rs), and a dead server's tablets
/// are mostly cut where its rows end: 64 KiB have 8 rows, 1 MiB has 85, a real segment has 680.
const LARGER: Scale = Scale { segment_bytes: 1024 * 1024, ..FINE };

const MULTIRING: Choice = Choice::Neighbourhoods(Neighbouring::MultiRing);
const RACK_LOCAL: Choice = Choice::Neighbourhoods(Neighbouring::RackLocal);

/// A recovery and its name, by which targets find it.
type Run = (&'static str, Plan);

fn cube(profile: Profile, (radix, order): (u16, u16), choice: Choice, data: f64) -> Plan {
    let layout = Layout::Cube { radix, order, crowd: Crowd::Everywhere };
    let servers = layout.servers().expect("a BCube has places") - 1;
    Plan {
        masters: servers,
        backups: servers,
        together: true,
        data,
        choice,
        layout,
        scale: if servers < 16 { LARGER } else { FINE },
        ..plan(profile)
    }
}

/// Four racks of four.
fn racks(profile: Profile, oversubscription: f64, choice: Choice) -> Plan {
    let layout = Layout::Racks { racks: 4, hosts: 4, oversubscription };
    Plan {
        masters: 15,
        backups: 15,
        together: true,
        data: 2.0 * GB,
        choice,
        layout,
        scale: LARGER,
        ..plan(profile)
    }
}

/// The servers that recover one of BCube(16, 2), and those that feed them.
fn neighbourhood(radix: u16, data: f64, end: End) -> Plan {
    let layout = Layout::Cube { radix, order: 2, crowd: Crowd::Neighbourhood };
    let around = layout.neighbourhood().expect("a BCube has neighbourhoods");
    Plan {
        masters: around.recoverers.len(),
        backups: around.backups.len(),
        data,
        scale: SMALL,
        choice: MULTIRING,
        layout,
        end,
        ..plan(DISKS)
    }
}

fn runs(extent: Extent) -> Vec<Run> {
    let crossed = |plan: Plan| Plan { cross_traffic: CROSS_TRAFFIC, ..plan };
    let data = 2.0 * GB;
    let small = vec![
        ("rack-local, 4:1, 1 Gbit/s", racks(SLOW_LINKS, 4.0, RACK_LOCAL)),
        ("BCube(4,1), multiring, 1 Gbit/s", cube(SLOW_LINKS, (4, 1), MULTIRING, data)),
    ];
    if extent == Extent::Smoke {
        return small
            .into_iter()
            .map(|(name, plan)| (name, Plan { data: 0.2 * GB, scale: FINE, ..plan }))
            .collect();
    }
    let mut runs = small;
    runs.extend([
        ("scatter, 4:1, 1 Gbit/s", racks(SLOW_LINKS, 4.0, Choice::ReadTime)),
        ("rack-local, 1:1, 1 Gbit/s", racks(SLOW_LINKS, 1.0, RACK_LOCAL)),
        ("scatter, 1:1, 1 Gbit/s", racks(SLOW_LINKS, 1.0, Choice::ReadTime)),
        ("rack-local, 4:1, 10 Gbit/s", racks(FAST_LINKS, 4.0, RACK_LOCAL)),
        ("scatter, 4:1, 10 Gbit/s", racks(FAST_LINKS, 4.0, Choice::ReadTime)),
        ("rack-local, 1:1, 10 Gbit/s", racks(FAST_LINKS, 1.0, RACK_LOCAL)),
        ("scatter, 1:1, 10 Gbit/s", racks(FAST_LINKS, 1.0, Choice::ReadTime)),
        ("BCube(4,1), scatter, 1 Gbit/s", cube(SLOW_LINKS, (4, 1), Choice::ReadTime, data)),
        (
            "BCube(4,1), multiring, 1 Gbit/s, cross traffic",
            crossed(cube(SLOW_LINKS, (4, 1), MULTIRING, data)),
        ),
        (
            "BCube(4,1), scatter, 1 Gbit/s, cross traffic",
            crossed(cube(SLOW_LINKS, (4, 1), Choice::ReadTime, data)),
        ),
        ("BCube(4,1), multiring, disks", cube(DISKS, (4, 1), MULTIRING, data)),
        ("BCube(4,1), scatter, disks", cube(DISKS, (4, 1), Choice::ReadTime, data)),
    ]);
    if extent == Extent::Whole {
        runs.extend([
            ("BCube(4,2), multiring, 1 Gbit/s", cube(SLOW_LINKS, (4, 2), MULTIRING, data)),
            ("BCube(4,2), scatter, 1 Gbit/s", cube(SLOW_LINKS, (4, 2), Choice::ReadTime, data)),
            ("BCube(8,1), multiring, disks", cube(DISKS, (8, 1), MULTIRING, 4.0 * data)),
            ("BCube(8,1), scatter, disks", cube(DISKS, (8, 1), Choice::ReadTime, 4.0 * data)),
        ]);
    }
    runs
}

fn large_runs(extent: Extent) -> Vec<Run> {
    match extent {
        Extent::Whole => vec![
            ("BCube(16,2), 64 GB, killed", neighbourhood(16, 64.0 * GB, End::Killed)),
            ("BCube(16,2), 64 GB, without power", neighbourhood(16, 64.0 * GB, End::Dark)),
        ],
        Extent::Quick => vec![("BCube(8,2), 9 GB, killed", neighbourhood(8, 9.0 * GB, End::Killed))],
        Extent::Smoke => vec![("BCube(3,2), 0.1 GB, killed", neighbourhood(3, 0.1 * GB, End::Killed))],
    }
}

const LINKS: &str = "links and devices by the rows' names: 1 Gbit/s, or 10 with disks of 100 MB/s; where no disks are named, NVMe";

const COLUMNS: [&str; 16] = [
    "recovery of",
    "data GB",
    "masters",
    "recovery s",
    "detection s",
    "fenced s",
    "last/first",
    "fetch peak MB/s",
    "far MB",
    "passed on MB",
    "on uplinks MB",
    "busiest core %",
    "coordinator's core %",
    "busiest reader %",
    "fetch limit MB/s",
    "busiest port",
];

pub fn figures(extent: Extent) -> [Figure; 2] {
    let small = figure(
        NAMES[0],
        runs(extent),
        vec![
            "racks: 4 of 4 servers, 2 GB; N:1: a rack's hosts may send N times as much as its uplink passes",
            "cross traffic: nine tenths of all ports between servers that the rings do not use",
            "BCube(4,2) and BCube(8,1): simulated segments of 64 KiB",
        ],
    );
    let large = figure(
        NAMES[1],
        large_runs(extent),
        vec!["the recovery servers and the backups of one server, each backup with one disk"],
    );
    [small, large]
}

fn figure(name: &'static str, runs: Vec<Run>, more: Vec<&'static str>) -> Figure {
    let plans = runs.iter().map(|(_, plan)| plan.clone()).collect();
    let tell = move |all: &[Measured]| {
        let rows = runs.iter().zip(all).map(|((name, plan), measured)| row(name, plan, measured));
        let mut notes = notes(&NOW, runs[0].1.scale);
        notes.push(LINKS.into());
        notes.extend(more.iter().copied().map(String::from));
        notes.push("far, passed on, on uplinks: bytes of the dead server's records, not of replicas".into());
        Table {
            name,
            title: "neighbourhoods and scattered replicas where links are ports".into(),
            notes,
            columns: COLUMNS.to_vec(),
            rows: rows.collect(),
            x: 0,
            y: Vec::new(),
            series: None,
            is_log: false,
        }
    };
    Figure { name, plans, tell: Box::new(tell) }
}

fn row(name: &str, plan: &Plan, measured: &Measured) -> Vec<Cell> {
    let course = Course::new(plan, measured);
    let megabytes = |bytes: f64| Cell::Number(bytes / 1e6, 0);
    // Each recovery master of a BCube(n, 1) is fed by one port; of a BCube(n, 2) by two.
    let ports = plan.layout.grid().map_or(1, |grid| grid.level_count() - 1) * course.masters();
    vec![
        Cell::Text(name.into()),
        Cell::Number(measured.bytes / GB, 2),
        count(course.masters()),
        seconds(measured.recovery),
        seconds(measured.detection),
        measured.timeline.fenced.map_or(Cell::None, |millis| seconds(millis as f64 / 1e3)),
        Cell::Number(course.unevenness(), 2),
        megabytes(course.peak()),
        megabytes(course.far()),
        megabytes(course.relayed()),
        megabytes(course.on_uplinks()),
        busiest_processor(measured),
        busiest_coordinator(measured),
        busiest_reader(measured),
        megabytes(ports as f64 * plan.profile.network),
        Cell::Text(course.busiest_port()),
    ]
}

/// Takes what was asked for, the wanted value, the measured one if there is one, its unit, and whether a value
/// meets the aim.
type Add<'a> = dyn FnMut(&str, &str, Option<f64>, &str, &dyn Fn(f64) -> bool) + 'a;

/// The aims: each with the wanted and the measured value, and whether it is met.
pub fn targets(rows: &[Vec<Cell>], add: &mut Add<'_>) {
    let number = |row: &[Cell], column: &str| {
        row[COLUMNS.iter().position(|known| *known == column).expect("a column")].number()
    };
    let value =
        |name: &str, column: &str| number(rows.iter().find(|row| row[0] == Cell::Text(name.into()))?, column);
    let ratio = |one: &str, other: &str| Some(value(one, "recovery s")? / value(other, "recovery s")?);
    for links in ["1 Gbit/s", "10 Gbit/s"] {
        let name = |placement: &str, over: &str| format!("{placement}, {over}, {links}");
        let faster = ratio(&name("scatter", "4:1"), &name("rack-local", "4:1"));
        let what = format!("4 x 4 racks, 4:1, {links}: rack-local faster than scatter");
        add(&what, ">= 2.5 times", faster, " times", &|times| times >= 2.5);
        let apart = ratio(&name("rack-local", "1:1"), &name("scatter", "1:1"));
        let what = format!("4 x 4 racks, 1:1, {links}: rack-local's time by scatter's");
        add(&what, "within 10 %", apart, "", &|by| (0.9..=1.1).contains(&by));
    }
    let local = rows.iter().filter(|row| row[0].text().starts_with("rack-local"));
    let crossed = local.filter_map(|row| number(row, "on uplinks MB")).reduce(f64::max);
    let what = "4 x 4 racks, rack-local: records that crossed uplinks";
    add(what, "0 MB", crossed, " MB", &|bytes| bytes == 0.0);
    for end in ["killed", "without power"] {
        let name = format!("BCube(16,2), 64 GB, {end}");
        let total = value(&name, "recovery s").zip(value(&name, "detection s")).map(|(a, b)| a + b);
        add(&format!("{name}, with detection"), "<= 2 s", total, " s", &|s| s <= 2.0);
    }
    let by_rings = |row: &&Vec<Cell>| ["multiring", "(16,2)"].iter().any(|part| row[0].text().contains(part));
    for row in rows.iter().filter(by_rings) {
        let what = format!("{}: last by first recovery master", row[0].text());
        add(&what, "<= 1.2", number(row, "last/first"), "", &|by| by <= 1.2);
    }
    let plain = "BCube(4,1), multiring, 1 Gbit/s";
    let slower = ratio(&format!("{plain}, cross traffic"), plain);
    let what = "BCube(4,1), multiring: time with cross traffic by that without";
    add(what, "within 5 %", slower, "", &|by| (0.95..=1.05).contains(&by));
    let peak = value(plain, "fetch peak MB/s").zip(value(plain, "fetch limit MB/s"));
    let share = peak.map(|(peak, limit)| 100.0 * peak / limit);
    let what = "BCube(4,1), 2 GB, 1 Gbit/s: fetch peak by the recovery masters' ports";
    add(what, ">= 61 %", share, " %", &|share| share >= 61.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(choice: Choice, cross_traffic: f64) -> (Plan, Measured) {
        let plan = Plan { cross_traffic, ..cube(SLOW_LINKS, (3, 1), choice, 0.3 * GB) };
        let measured = plan.measure();
        (plan, measured)
    }

    // H2
    #[test]
    fn rings_read_nothing_that_others_pass_on_and_scattered_replicas_do() {
        let (plan, by_rings) = measured(MULTIRING, 0.0);
        let course = Course::new(&plan, &by_rings);
        assert_eq!((course.masters(), course.relayed(), course.far()), (4, 0.0, 0.0));
        let (plan, scattered) = measured(Choice::ReadTime, 0.0);
        assert!(Course::new(&plan, &scattered).relayed() > 0.01 * GB);
    }

    // H2
    #[test]
    fn cross_traffic_beside_the_rings_does_not_slow_them_down() {
        let times = [0.0, CROSS_TRAFFIC].map(|share| measured(MULTIRING, share).1.recovery);
        assert!((times[1] / times[0] - 1.0).abs() < 0.05, "{times:?}");
        let times = [0.0, CROSS_TRAFFIC].map(|share| measured(Choice::ReadTime, share).1.recovery);
        assert!(times[1] / times[0] > 1.5, "{times:?}");
    }
}
