//! Zones with racks as a picture: a frame for each zone, in it a column for each rack, with its switch on top.
//!
//! Servers without a rack stand in a column without a switch: nothing is known of whom they are near.

use super::canvas::{Canvas, RED};
use super::scene::{MARGIN, SERVER_HEIGHT, SERVER_WIDTH, Scene, TOP};
use crate::output::bytes_for_eyes;
use ramhold_client::{ServerEntry, ServerId};
use ramhold_placement::{rack, zone};
use std::collections::BTreeMap;

const COLUMN_WIDTH: f64 = SERVER_WIDTH + 44.0;
const ROW_HEIGHT: f64 = SERVER_HEIGHT + 14.0;
const SWITCH_HEIGHT: f64 = 26.0;
/// Above the racks of a zone: its name.
const ZONE_TOP: f64 = 34.0;
const ZONE_GAP: f64 = 18.0;

type Racks<'a> = BTreeMap<Option<&'a str>, Vec<&'a ServerEntry>>;

pub fn lay_out(scene: &Scene<'_>, canvas: &mut Canvas) {
    let mut zones: BTreeMap<Option<&str>, Racks<'_>> = BTreeMap::new();
    for server in scene.servers {
        let rack = rack(server).map(|rack| rack.name);
        zones.entry(zone(server)).or_default().entry(rack).or_default().push(server);
    }
    let mut centers = BTreeMap::new();
    let mut y = TOP;
    for (name, racks) in &zones {
        let told = match name {
            Some(name) => format!("zone {}", bytes_for_eyes(name.as_bytes())),
            None => "no zone".to_owned(),
        };
        canvas.text(MARGIN + 12.0, y + 22.0, 13.0, "#000", &told);
        for (index, (rack, servers)) in racks.iter().enumerate() {
            let at = (MARGIN + 10.0 + index as f64 * COLUMN_WIDTH, y + ZONE_TOP);
            draw_rack(scene, canvas, at, (*name, *rack), servers, &mut centers);
        }
        let rows = racks.values().map(Vec::len).max().unwrap_or_default() as f64;
        let (width, height) = (racks.len() as f64 * COLUMN_WIDTH + 10.0, ZONE_TOP + 46.0 + rows * ROW_HEIGHT);
        canvas.frame(MARGIN, y, width, height);
        y += height + ZONE_GAP;
    }
    scene.paths(canvas, |server| centers.get(&server).copied());
}

fn draw_rack(
    scene: &Scene<'_>,
    canvas: &mut Canvas,
    (x, y): (f64, f64),
    (zone, rack): (Option<&str>, Option<&str>),
    servers: &[&ServerEntry],
    centers: &mut BTreeMap<ServerId, (f64, f64)>,
) {
    let server_x = x + 26.0;
    let name = rack.map(|rack| zone.map_or(rack.to_owned(), |zone| format!("{zone}/{rack}")));
    match &name {
        Some(name) => {
            canvas.tile(x + 2.0, y, COLUMN_WIDTH - 22.0, SWITCH_HEIGHT, &scene.switch(name));
        }
        None => canvas.text(server_x, y + 18.0, 12.0, "#666", "no rack"),
    }
    let bus = x + 12.0;
    let port = |index: usize| y + SWITCH_HEIGHT + 14.0 + index as f64 * ROW_HEIGHT + SERVER_HEIGHT / 2.0;
    if let Some(name) = &name {
        let color = if scene.is_switch_down(name) { RED } else { "#4e79a7" };
        let last = port(servers.len() - 1);
        canvas.line((bus, y + SWITCH_HEIGHT), (bus, last), color, scene.is_switch_down(name));
    }
    for (index, server) in servers.iter().enumerate() {
        let port = port(index);
        if let Some(name) = &name {
            let is_down = scene.is_link_down(name, Some(server));
            let color = if is_down { RED } else { "#4e79a7" };
            canvas.line((bus, port), (server_x, port), color, is_down);
            if is_down {
                canvas.cross((bus + 7.0, port));
            }
        }
        centers.insert(server.id, (server_x + SERVER_WIDTH / 2.0, port));
        let top = port - SERVER_HEIGHT / 2.0;
        canvas.tile(server_x, top, SERVER_WIDTH, SERVER_HEIGHT, &scene.server(Some(server), ""));
    }
}
