//! A grid as a picture: the digit of level 0 counts columns and that of level 1 rows; further levels count blocks.
//!
//! A switch of level 0 stands left of its row, one of level 1 above its column, each with a line along its servers. The
//! switches of further levels stand below all blocks, with a line to each server.

use super::canvas::{Canvas, RED};
use super::scene::{MARGIN, SERVER_HEIGHT, SERVER_WIDTH, Scene, TOP};
use ramhold_client::{ServerEntry, ServerId, ServerState};
use ramhold_placement::{Grid, GridLabel};
use std::collections::BTreeMap;

const CELL_WIDTH: f64 = SERVER_WIDTH + 34.0;
const CELL_HEIGHT: f64 = SERVER_HEIGHT + 30.0;
const SWITCH_WIDTH: f64 = 64.0;
const SWITCH_HEIGHT: f64 = 26.0;
/// Room for the switches left of a block and above it.
const BLOCK_LEFT: f64 = SWITCH_WIDTH + 12.0;
const BLOCK_TOP: f64 = SWITCH_HEIGHT + 12.0;
const BLOCK_GAP: f64 = 24.0;
/// Colours of the lines of the levels, from level 0.
const LEVEL_COLORS: [&str; 8] =
    ["#4e79a7", "#59a14f", "#b07aa1", "#f28e2b", "#76b7b2", "#9c755f", "#edc948", "#ff9da7"];

pub fn lay_out(scene: &Scene<'_>, grid: &Grid, canvas: &mut Canvas) {
    let map = Map { scene, grid, at: places(scene, grid) };
    for label in grid.labels() {
        map.draw(&label, canvas);
    }
    for level in 2..grid.level_count() {
        map.draw_switches(level, canvas);
    }
    scene.paths(canvas, |server| {
        let (label, _) = map.at.iter().find(|(_, entry)| entry.id == server)?;
        let (x, y) = map.corner(label);
        Some((x + SERVER_WIDTH / 2.0, y + SERVER_HEIGHT / 2.0))
    });
}

/// The server at each place: one that is up before one that is down.
fn places<'a>(scene: &Scene<'a>, grid: &Grid) -> BTreeMap<GridLabel, &'a ServerEntry> {
    let mut at: BTreeMap<GridLabel, &ServerEntry> = BTreeMap::new();
    let Some(name) = scene.topology.label_name() else { return at };
    for server in scene.servers {
        let label = server.labels.iter().find(|label| label.name == name);
        let Some(place) = label.and_then(|label| grid.label(&label.value).ok()) else { continue };
        let is_better = |other: &&ServerEntry| order(server) > order(other);
        if at.get(&place).is_none_or(is_better) {
            at.insert(place, server);
        }
    }
    at
}

fn order(server: &ServerEntry) -> (bool, ServerId) {
    (server.state == ServerState::Up, server.id)
}

struct Map<'a> {
    scene: &'a Scene<'a>,
    grid: &'a Grid,
    at: BTreeMap<GridLabel, &'a ServerEntry>,
}

impl Map<'_> {
    fn rows(&self) -> u16 {
        if self.grid.level_count() > 1 { self.grid.radix(1) } else { 1 }
    }

    /// The column and row of a label's block: level 2 counts columns, all levels above it rows.
    fn block(&self, label: &GridLabel) -> (f64, f64) {
        let levels = self.grid.level_count();
        let across = if levels > 2 { label.digit(2) } else { 0 };
        let down = (3..levels).rev().fold(0u32, |down, level| {
            down * u32::from(self.grid.radix(level)) + u32::from(label.digit(level))
        });
        (f64::from(across), f64::from(down))
    }

    fn block_size(&self) -> (f64, f64) {
        let width = BLOCK_LEFT + f64::from(self.grid.radix(0)) * CELL_WIDTH + BLOCK_GAP;
        let top = if self.grid.level_count() > 1 { BLOCK_TOP } else { 0.0 };
        (width, top + f64::from(self.rows()) * CELL_HEIGHT + BLOCK_GAP)
    }

    /// The upper left corner of a label's block.
    fn block_corner(&self, label: &GridLabel) -> (f64, f64) {
        let ((across, down), (width, height)) = (self.block(label), self.block_size());
        (MARGIN + across * width, TOP + down * height)
    }

    /// The upper left corner of a server's box.
    fn corner(&self, label: &GridLabel) -> (f64, f64) {
        let (x, y) = self.block_corner(label);
        let (top, row) = match self.grid.level_count() {
            1 => (0.0, 0),
            _ => (BLOCK_TOP, label.digit(1)),
        };
        (
            x + BLOCK_LEFT + f64::from(label.digit(0)) * CELL_WIDTH + 24.0,
            y + top + f64::from(row) * CELL_HEIGHT + 20.0,
        )
    }

    fn name(&self, label: &GridLabel, level: usize) -> String {
        self.grid.switch_name(&self.grid.switch(label, level))
    }

    /// A line of one server's link, or of the part of a switch's line that leads to it.
    fn link(&self, canvas: &mut Canvas, ends: [(f64, f64); 2], level: usize, is_down: bool) {
        let color = if is_down { RED } else { LEVEL_COLORS[level % LEVEL_COLORS.len()] };
        canvas.line(ends[0], ends[1], color, is_down);
    }

    /// A server, its links to the switches of levels 0 and 1, and these switches at the first server of each.
    fn draw(&self, label: &GridLabel, canvas: &mut Canvas) {
        let (x, y) = self.corner(label);
        let (block_x, block_y) = self.block_corner(label);
        let entry = self.at.get(label).copied();
        let row = self.name(label, 0);
        let (bus, port) = (y - 12.0, x + SERVER_WIDTH / 2.0);
        let is_down = self.scene.is_link_down(&row, entry);
        self.link(canvas, [(port, bus), (port, y)], 0, is_down);
        if is_down {
            canvas.cross((port, bus + 6.0));
        }
        if label.digit(0) == 0 {
            let last = port + f64::from(self.grid.radix(0) - 1) * CELL_WIDTH;
            let switch_y = bus - SWITCH_HEIGHT / 2.0;
            self.link(
                canvas,
                [(block_x + SWITCH_WIDTH, bus), (last, bus)],
                0,
                self.scene.is_switch_down(&row),
            );
            canvas.tile(block_x, switch_y, SWITCH_WIDTH, SWITCH_HEIGHT, &self.scene.switch(&row));
        }
        if self.grid.level_count() > 1 {
            let column = self.name(label, 1);
            let (bus, port) = (x - 14.0, y + SERVER_HEIGHT / 2.0);
            let is_down = self.scene.is_link_down(&column, entry);
            self.link(canvas, [(bus, port), (x, port)], 1, is_down);
            if is_down {
                canvas.cross((bus + 7.0, port));
            }
            if label.digit(1) == 0 {
                let last = port + f64::from(self.rows() - 1) * CELL_HEIGHT;
                let is_down = self.scene.is_switch_down(&column);
                self.link(canvas, [(bus, block_y + SWITCH_HEIGHT), (bus, last)], 1, is_down);
                let switch_x = bus - SWITCH_WIDTH / 2.0;
                canvas.tile(switch_x, block_y, SWITCH_WIDTH, SWITCH_HEIGHT, &self.scene.switch(&column));
            }
        }
        let shown = self.scene.server(entry, &self.grid.name(label));
        canvas.tile(x, y, SERVER_WIDTH, SERVER_HEIGHT, &shown);
    }

    /// The switches of one of the further levels, below everything.
    fn draw_switches(&self, level: usize, canvas: &mut Canvas) {
        let firsts: Vec<GridLabel> = self.grid.labels().filter(|label| label.digit(level) == 0).collect();
        let y = canvas.bottom() + 60.0;
        let blocks = if self.grid.level_count() > 2 { f64::from(self.grid.radix(2)) } else { 1.0 };
        let width = (blocks * self.block_size().0).max(firsts.len() as f64 * (SWITCH_WIDTH + 6.0));
        let step = width / firsts.len() as f64;
        let mut x_of: BTreeMap<String, f64> = BTreeMap::new();
        for (index, first) in firsts.iter().enumerate() {
            let x = MARGIN + step * index as f64 + (step - SWITCH_WIDTH) / 2.0;
            let name = self.name(first, level);
            canvas.tile(x, y, SWITCH_WIDTH, SWITCH_HEIGHT, &self.scene.switch(&name));
            x_of.insert(name, x);
        }
        for label in self.grid.labels() {
            let name = self.name(&label, level);
            let (x, bottom) = (self.corner(&label).0, self.corner(&label).1 + SERVER_HEIGHT);
            let is_down = self.scene.is_link_down(&name, self.at.get(&label).copied());
            // The lines of several levels leave a server beside each other.
            let port = x + 10.0 + 12.0 * (level - 2) as f64;
            self.link(canvas, [(port, bottom), (x_of[&name] + SWITCH_WIDTH / 2.0, y)], level, is_down);
            if is_down {
                canvas.cross((port, bottom + 8.0));
            }
        }
    }
}
