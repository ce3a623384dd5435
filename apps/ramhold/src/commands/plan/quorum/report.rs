//! The quorum table of a plan, formatted for people and for programs.

use super::QuorumTable;
use crate::commands::plan::description::Failing;
use crate::commands::plan::figures::{Lines, probability_text, share_text, time_text};
use crate::commands::plan::picture::Picture;
use crate::size::bytes_text;
use serde_json::{Value, json};

/// How long a get waits for a brick that is silent, in milliseconds, and for how many seconds that brick is asked last
/// then (docs/protocols/quorum.md, rule 21).
const PATIENCE_MILLIS: u64 = 20;
const YEAR_SECONDS: f64 = 365.25 * 24.0 * 3600.0;

fn bytes(bytes: f64) -> String {
    bytes_text(bytes as u64)
}

pub fn text(picture: &Picture<'_>, lines: &mut Lines) {
    let Some(table) = &picture.quorum else { return };
    let plan = picture.plan;
    let QuorumTable { of_key, write, read, data_bytes, bricks, tablets, .. } = table;
    let replicas = plan.replicas();
    lines.head(&format!("a quorum table beside R = {replicas}: N = {of_key}, W = {write}, R = {read}"));
    let groups = if *tablets == 1 { "1 tablet".to_owned() } else { format!("{tablets} tablets") };
    let (memory, data) = (bytes_text(plan.memory), bytes(*data_bytes));
    lines.add(&bricks.to_string(), format!("bricks with {memory} of log each: {groups} for {data} live"));
    let one_log = data_bytes / plan.utilisation;
    lines.add(
        &format!("{of_key} x DRAM"),
        format!("{} of log; R = {replicas}: 1 x, {}", bytes(table.log_bytes), bytes(one_log)),
    );
    lines.add(
        &format!("{of_key} x disk"),
        format!(
            "{} on devices; R = {replicas}: {replicas} x, {}",
            bytes(table.log_bytes),
            bytes(one_log * f64::from(replicas))
        ),
    );
    tell_death(picture, table, lines);
    tell_reach(picture, table, lines);
    tell_loss(picture, table, lines);
}

/// The bricks of a key that must answer: a read needs W as well, and a write R while a brick is known to be away.
fn needed(table: &QuorumTable) -> u64 {
    table.write.max(table.read)
}

fn tell_death(picture: &Picture<'_>, table: &QuorumTable, lines: &mut Lines) {
    lines.head("when one of them dies");
    let is_needed = needed(table) == table.of_key;
    if is_needed {
        let which = if table.write == table.of_key { "W" } else { "R" };
        lines.add("gets, puts", format!("of its keys wait until it is back: {which} = N"));
    } else {
        lines.add("nobody", "waits for detection or recovery".to_owned());
    }
    let of_key = table.of_key;
    if !is_needed {
        lines.add(
            &format!("{PATIENCE_MILLIS} ms"),
            format!("once a second, for gets that ask it first: 1/{of_key} of its keys' reads"),
        );
    }
    let (recovery, servers) = (&picture.recovery, picture.layout.servers);
    lines.add(
        &time_text(recovery.total),
        format!(
            "R = {}: 1 of {servers} of all keys wait for detection and recovery",
            picture.plan.replicas()
        ),
    );
    lines.add(&time_text(table.rebuilding), "until a new brick in its place has its data".to_owned());
}

/// A share of the time, and what it is in a year.
fn share_of_a_year(share: f64) -> (String, String) {
    let seconds = share * YEAR_SECONDS;
    let told = if seconds < 1e-3 { "less than 1 ms".to_owned() } else { time_text(seconds) };
    (probability_text(share), format!("{told} a year"))
}

fn tell_reach(picture: &Picture<'_>, table: &QuorumTable, lines: &mut Lines) {
    let plan = picture.plan;
    let (crashes, away) = (plan.crashes_per_year, time_text(plan.brick_away.as_secs_f64()));
    lines.head(&format!("a key is out of reach; each brick is away {crashes} times a year, for {away}"));
    let of_key = table.of_key;
    let (front, year) = share_of_a_year(table.no_quorum);
    let many = of_key - needed(table) + 1;
    lines.add(&front, format!("reads, writes: {many} or more of its {of_key} bricks are away; {year}"));
    let (front, year) = share_of_a_year(table.no_owner);
    lines.add(&front, format!("R = {}: its server is being recovered; {year}", plan.replicas()));
}

fn tell_loss(picture: &Picture<'_>, table: &QuorumTable, lines: &mut Lines) {
    lines.head("data loss of the quorum table, with which probability");
    let bricks = table.bricks;
    let stay_away = match table.failing {
        Failing::Count(1) => format!("1 of {bricks} bricks does not return"),
        Failing::Count(failed) => format!("{failed} of {bricks} bricks do not return"),
        Failing::Each(probability) => format!("each brick stays away with {}", share_text(probability)),
    };
    let lost = probability_text(table.lost_after_power_cut);
    lines.add(&lost, format!("after a power cut {stay_away}: all of a tablet's"));
    let waits = probability_text(table.buffered_waits_after_power_cut);
    lines.add(&waits, "a tablet that is buffered waits then, for all of its bricks".to_owned());
    let waits = probability_text(table.waits_after_power_cut);
    lines.add(&waits, "one that is synced waits, since too few of its bricks return".to_owned());
    let year = probability_text(table.lost_in_a_year);
    let crashes = picture.plan.crashes_per_year;
    lines.add(&year, format!("in a year, each brick lost {crashes} times, replaced by another one"));
}

pub fn json(table: &QuorumTable, picture: &Picture<'_>) -> Value {
    let mut told = json!({
        "bricks_of_key": table.of_key,
        "write_quorum": table.write,
        "read_quorum": table.read,
        "data_bytes": table.data_bytes as u64,
        "bricks": table.bricks,
        "tablets": table.tablets,
        "dram_bytes": table.log_bytes as u64,
        "dram_factor": table.of_key,
        "disk_bytes": table.log_bytes as u64,
        "disk_factor": table.of_key,
        "brick_away_seconds": picture.plan.brick_away.as_secs_f64(),
        "brick_away_share": table.away,
        "unavailable": {
            "writes": table.no_quorum,
            "reads": table.no_quorum,
            "ordinary_table": table.no_owner,
        },
        "buffered_waits_after_power_cut": table.buffered_waits_after_power_cut,
        "synced_waits_after_power_cut": table.waits_after_power_cut,
        "lost_after_power_cut": table.lost_after_power_cut,
        "lost_in_a_year": table.lost_in_a_year,
        "rebuilding_seconds": table.rebuilding,
    });
    if let (Some(fields), Failing::Count(failed)) = (told.as_object_mut(), table.failing) {
        fields.insert("failed_bricks".to_owned(), failed.into());
    }
    told
}
