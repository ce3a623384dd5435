//! A plan, formatted for people and for programs.

use super::description::Failing;
use super::figures::{Lines, bits_text, count_text, probability_text, rate_text, share_text, time_text};
use super::loss::Spread;
use super::network::{Employed, Survey};
use super::picture::{OnPorts, Picture};
use super::ports::{Hops, Load};
use super::quorum;
use crate::size::bytes_text;
use ramhold_wire::ReplicaPlacement;
use ramhold_wire::topology::Topology;
use serde_json::{Value, json};

pub fn text(picture: &Picture<'_>) -> String {
    let mut lines = Lines::default();
    describe(picture, &mut lines);
    tell_copies(picture, &mut lines);
    tell_loss(picture, &mut lines);
    tell_recovery(picture, &mut lines);
    tell_zones(picture, &mut lines);
    tell_network(picture, &mut lines);
    quorum::text(picture, &mut lines);
    lines.text
}

fn describe(picture: &Picture<'_>, lines: &mut Lines) {
    let Picture { plan, hardware, layout, .. } = picture;
    let (servers, memory, live) = (layout.servers, bytes_text(plan.memory), share_text(plan.utilisation));
    let (replicas, placement) = (plan.replicas(), placement(picture));
    lines.add(
        "cluster",
        format!(
            "{servers} servers with {memory} of log each, {live} live; R = {replicas}, placed by {placement}"
        ),
    );
    let (read, write) = (rate_text(hardware.disk_read), rate_text(hardware.disk_write));
    let buffers = hardware.buffers.map_or_else(|| "any".to_owned(), bytes_text);
    let network = match &picture.network {
        Some(network) => {
            let ports = network.survey.levels;
            format!("{ports} ports of {}", bits_text(hardware.network / ports as f64))
        }
        None => format!("network {}", bits_text(hardware.network)),
    };
    let profile = plan.profile.name();
    lines.add(
        "hardware",
        format!("{profile}: {network}, disks {read} read and {write} write, buffers {buffers}"),
    );
    lines.add(
        "replay",
        format!(
            "{} or {} M records/s of {} B by a core; cores per server: {}",
            rate_text(hardware.replay),
            hardware.replay_records / 1e6,
            plan.object_bytes,
            hardware.cores
        ),
    );
}

fn tell_copies(picture: &Picture<'_>, lines: &mut Lines) {
    let Copies { log, live, disk, disk_of_server } = copies(picture);
    lines.head("copies");
    lines.add("in DRAM", format!("{} of log, {} of it live", bytes_text(log), bytes_text(live)));
    lines.add("on disks", format!("{}, {} on each server", bytes_text(disk), bytes_text(disk_of_server)));
}

fn tell_loss(picture: &Picture<'_>, lines: &mut Lines) {
    let Picture { plan, layout, .. } = picture;
    lines.head("data loss, with which probability");
    let (sets, width) = (count_text(layout.sets()), layout.scatter_width());
    let replicas = plan.replicas();
    lines.add(
        "sets",
        format!("{sets} sets of {replicas} servers hold all replicas of some segment; scatter width {width}"),
    );
    if let Some(sets) = layout.sets_with_master() {
        let (sets, copies) = (count_text(sets), replicas + 1);
        lines.add("", format!("{sets} sets of {copies} with the copy in DRAM"));
    }
    let stay_away = match picture.failing {
        Failing::Count(1) => "1 server does not return".to_owned(),
        Failing::Count(failed) => format!("{failed} servers do not return"),
        Failing::Each(probability) => format!("each server stays away with {}", share_text(probability)),
    };
    let then = if picture.after_power_cut > 0.0 {
        format!("; then {} on the average", bytes_text(picture.bytes_lost_then as u64))
    } else {
        String::new()
    };
    let cut = probability_text(picture.after_power_cut);
    lines.add(&cut, format!("after a power cut {stay_away}{then}"));
    let die = match picture.failing {
        Failing::Count(1) => "1 server dies".to_owned(),
        Failing::Count(failed) => format!("{failed} servers die"),
        Failing::Each(probability) => format!("each server dies with {}", share_text(probability)),
    };
    let once = probability_text(picture.at_once);
    lines.add(&once, format!("{die} at one moment, the others keep their DRAM"));
    let (crashes, whole_again) = (plan.crashes_per_year, time_text(picture.whole_again()));
    match picture.in_a_year {
        Some(probability) => lines.add(
            &probability_text(probability),
            format!("in a year, each server lost {crashes} times, whole again after {whole_again}"),
        ),
        None => {
            lines.add("-", format!("in a year: lost {crashes} times is too often for {whole_again} each"))
        }
    }
}

fn tell_recovery(picture: &Picture<'_>, lines: &mut Lines) {
    let Picture { plan, recovery, masters, .. } = picture;
    let (bound, backups) = (recovery.bound.name(), picture.backups);
    lines.head("recovery of one server");
    lines.add(
        &time_text(recovery.total),
        format!("in all, bounded by {bound}; {masters} recovery masters, {backups} backups"),
    );
    for (seconds, what) in [
        (recovery.detection, "detection".to_owned()),
        (recovery.first_segment, "first segment; then all at once:".to_owned()),
        (recovery.read, "  disks: read".to_owned()),
        (recovery.flush, "  disks: write what the buffers do not hold".to_owned()),
        (recovery.transfer, "  network: transfer to recovery masters".to_owned()),
        (recovery.replicate, format!("  network: replicate {} times", plan.replicas())),
        (recovery.replay, "  replay".to_owned()),
    ] {
        lines.add(&time_text(seconds), what);
    }
    lines.head("replicas that it held for others");
    let servers = picture.recreation_servers;
    lines.add(&time_text(picture.recreation), format!("until they are made anew, on {servers} servers"));
}

fn tell_zones(picture: &Picture<'_>, lines: &mut Lines) {
    let Some(zones) = &picture.zones else { return };
    lines.head("between zones");
    lines.add(&format!("{:.2} B", zones.crossing.written), "for each byte written".to_owned());
    let fetched = bytes_text(zones.fetched_bytes as u64);
    let share = share_text(zones.crossing.fetched);
    lines.add(&fetched, format!("fetched by the recovery of one server, {share} of its log"));
    let replicated = bytes_text(zones.replicated_bytes as u64);
    lines.add(&replicated, "sent by the recovery masters to new replicas".to_owned());
    if let (Some(seconds), Some(rate)) = (zones.uplink, picture.plan.uplink) {
        lines.add(&time_text(seconds), format!("of that on the fullest uplink, of {}", bits_text(rate)));
    }
}

fn tell_network(picture: &Picture<'_>, lines: &mut Lines) {
    let (Some(OnPorts { survey, seconds }), Some(topology)) = (&picture.network, &picture.plan.topology)
    else {
        return;
    };
    lines.head(&format!("in the network {topology}"));
    if let Some(Employed { count, by_topology, by_room, .. }) = survey.neighbourhoods {
        let room = if by_room == count && by_room < by_topology {
            format!("; buffers or memory have room for {by_room}")
        } else {
            String::new()
        };
        lines.add(
            &count.to_string(),
            format!("neighbourhoods of a master, of {by_topology} in the network{room}"),
        );
    }
    let (recoverers, feeders) = (survey.recoverers, survey.feeders);
    lines.add(
        &format!("{recoverers} + {feeders}"),
        "servers that recover a dead one, and that feed them".to_owned(),
    );
    let written = &survey.written;
    lines.add(
        &format!("{:.2} B", written.on_links),
        format!(
            "on links for each byte written: {:.2} over one hop, {:.2} over more",
            written.near, written.far
        ),
    );
    lines.add(&format!("{:.2} B", written.other_rack), "to other racks for each byte written".to_owned());
    for (what, hops) in [("fetched", &survey.fetched), ("replicated", &survey.replicated)] {
        let rack = bytes_text(hops.other_rack as u64);
        lines.add(
            &bytes_text(hops.far as u64),
            format!("{what} over two hops or more by the recovery of one server"),
        );
        let near = bytes_text(hops.near as u64);
        lines.add("", format!("and {near} over one hop; {rack} between racks"));
    }
    let Load { place, level, is_sent, bytes } = &survey.fullest;
    let (bytes, verb) = (bytes_text(*bytes as u64), if *is_sent { "sent" } else { "received" });
    let whose = match place.is_empty() {
        true => "nothing passes any".to_owned(),
        false => format!("{bytes} {verb} by {place} on level {level}"),
    };
    lines.add(&time_text(*seconds), format!("the recovery's bytes on the fullest port: {whose}"));
    let alone = seconds_of_fetching(survey, *seconds);
    lines.add(&time_text(alone), "the same for what is fetched alone".to_owned());
}

/// How long what is fetched keeps its fullest port busy.
fn seconds_of_fetching(survey: &Survey, seconds: f64) -> f64 {
    if survey.fullest.bytes > 0.0 { seconds * survey.fetching.bytes / survey.fullest.bytes } else { 0.0 }
}

fn network_json(OnPorts { survey, seconds }: &OnPorts, topology: &Topology) -> Value {
    let hops = |hops: &Hops| {
        json!({
            "near_bytes": hops.near,
            "far_bytes": hops.far,
            "link_bytes": hops.on_links,
            "other_rack_bytes": hops.other_rack,
        })
    };
    let Load { place, level, is_sent, bytes } = &survey.fullest;
    let mut told = json!({
        "topology": topology.to_string(),
        "ports": survey.levels,
        "recovery_masters": survey.recoverers,
        "feeders": survey.feeders,
        "for_each_byte_written": hops(&survey.written),
        "recovery_fetched": hops(&survey.fetched),
        "recovery_replicated": hops(&survey.replicated),
        "fullest_port": {
            "place": place,
            "level": level,
            "direction": if *is_sent { "sent" } else { "received" },
            "bytes": *bytes as u64,
            "seconds": seconds,
            "seconds_of_fetching": seconds_of_fetching(survey, *seconds),
        },
    });
    if let (Some(fields), Some(employed)) = (told.as_object_mut(), &survey.neighbourhoods) {
        fields.insert("neighbourhoods".to_owned(), employed.count.into());
        fields.insert("neighbourhoods_by_topology".to_owned(), employed.by_topology.into());
        fields.insert("neighbourhoods_by_room".to_owned(), employed.by_room.into());
    }
    told
}

/// Bytes in the whole cluster, but for the last.
struct Copies {
    log: u64,
    live: u64,
    disk: u64,
    disk_of_server: u64,
}

fn copies(picture: &Picture<'_>) -> Copies {
    let plan = picture.plan;
    let log = plan.memory.saturating_mul(picture.layout.servers);
    let replicas = u64::from(plan.replicas());
    Copies {
        log,
        live: (log as f64 * plan.utilisation) as u64,
        disk: log.saturating_mul(replicas),
        disk_of_server: plan.memory.saturating_mul(replicas),
    }
}

pub fn json(picture: &Picture<'_>) -> Value {
    let Picture { plan, hardware, layout, recovery, .. } = picture;
    let Copies { log, live, disk, disk_of_server } = copies(picture);
    let mut loss = json!({
        "sets": layout.sets(),
        "scatter_width": layout.scatter_width(),
        "after_power_cut": picture.after_power_cut,
        "bytes_lost_then": picture.bytes_lost_then as u64,
        "at_once": picture.at_once,
        "crashes_per_year": plan.crashes_per_year,
    });
    let fields = loss.as_object_mut().expect("it was made as one");
    match picture.failing {
        Failing::Count(failed) => fields.insert("failed_servers".to_owned(), failed.into()),
        Failing::Each(probability) => fields.insert("failure_probability".to_owned(), probability.into()),
    };
    if let Some(probability) = picture.in_a_year {
        fields.insert("in_a_year".to_owned(), probability.into());
    }
    if let Some(sets) = layout.sets_with_master() {
        fields.insert("sets_with_master".to_owned(), sets.into());
    }
    let mut machine = json!({
        "profile": plan.profile.name(),
        "network_bytes_per_second": hardware.network,
        "disk_read_bytes_per_second": hardware.disk_read,
        "disk_write_bytes_per_second": hardware.disk_write,
        "replay_bytes_per_second": hardware.replay,
        "replay_records_per_second": hardware.replay_records,
        "cores": hardware.cores,
    });
    if let (Some(fields), Some(bytes)) = (machine.as_object_mut(), hardware.buffers) {
        fields.insert("buffer_bytes".to_owned(), bytes.into());
    }
    let mut told = json!({
        "servers": layout.servers,
        "memory_bytes": plan.memory,
        "utilisation": plan.utilisation,
        "replicas": plan.replicas(),
        "placement": placement(picture),
        "object_bytes": plan.object_bytes,
        "hardware": machine,
        "copies": {
            "dram_bytes": log,
            "dram_live_bytes": live,
            "disk_bytes": disk,
            "disk_bytes_per_server": disk_of_server,
        },
        "data_loss": loss,
        "recovery_seconds": {
            "total": recovery.total,
            "detection": recovery.detection,
            "first_segment": recovery.first_segment,
            "read": recovery.read,
            "flush": recovery.flush,
            "transfer": recovery.transfer,
            "replicate": recovery.replicate,
            "network": recovery.network,
            "replay": recovery.replay,
        },
        "recovery_bound": recovery.bound.name(),
        "recovery_masters": picture.masters,
        "recreation_seconds": picture.recreation,
        "recreation_servers": picture.recreation_servers,
    });
    if let (Some(fields), Some(zones)) = (told.as_object_mut(), &picture.zones) {
        let mut between = json!({
            "count": plan.zones,
            "written": zones.crossing.written,
            "recovery_fetched_bytes": zones.fetched_bytes as u64,
            "recovery_replicated_bytes": zones.replicated_bytes as u64,
        });
        if let (Some(fields), Some(seconds)) = (between.as_object_mut(), zones.uplink) {
            fields.insert("uplink_seconds".to_owned(), seconds.into());
        }
        fields.insert("zones".to_owned(), between);
    }
    if let (Some(fields), Some((network, topology))) =
        (told.as_object_mut(), picture.network.as_ref().zip(plan.topology.as_ref()))
    {
        fields.insert("network".to_owned(), network_json(network, topology));
    }
    if let (Some(fields), Some(table)) = (told.as_object_mut(), &picture.quorum) {
        fields.insert("quorum".to_owned(), quorum::json(table, picture));
    }
    told
}

fn placement(picture: &Picture<'_>) -> String {
    let placement = match picture.layout.spread {
        // --scatter-width sets another number of rings.
        Spread::Copysets { rings } => ReplicaPlacement::Copysets { rings },
        Spread::Scatter | Spread::Sets(_) => picture.plan.placement,
    };
    placement.to_string()
}
