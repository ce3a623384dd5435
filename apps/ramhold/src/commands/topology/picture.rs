//! The network as a picture: servers at their places, edge switches, the links between them, and what is down.
//!
//! Two layouts, one for grids and one for racks in zones, put boxes and lines on one canvas. The purpose of a server is told
//! in words in its box, and not in a colour alone.
//!
//! Not here: who is near whom (placement), the file that it is written to (topology).

mod canvas;
mod grid;
mod racks;
mod scene;

pub use scene::Scene;

use canvas::Canvas;
use ramhold_wire::topology::Topology;
use scene::MARGIN;

/// More servers than that are not legible in one picture.
const SERVERS_DRAWN_MAX: u64 = 256;
/// The narrowest picture: the title and the legend need it.
const WIDTH_MIN: f64 = 620.0;

/// The picture as SVG. Fails, with the reason, where there is nothing to draw.
pub fn draw(scene: &Scene<'_>) -> Result<String, String> {
    let places = scene.network.grid().map_or(scene.servers.len() as u64, |grid| grid.server_count());
    if places > SERVERS_DRAWN_MAX {
        return Err(format!(
            "a picture of {places} servers would not be legible, at most {SERVERS_DRAWN_MAX} are drawn; leave \
             --svg out to list them"
        ));
    }
    let mut canvas = Canvas::default();
    match (scene.topology, scene.network.grid()) {
        (Topology::Flat, _) => {
            return Err(
                "there is nothing to draw: the topology is flat, so no switches are known; give the \
                 coordinator --topology zones, bcube:N,K or grid:R0,R1,..."
                    .to_owned(),
            );
        }
        (_, Some(grid)) => grid::lay_out(scene, grid, &mut canvas),
        (_, None) if scene.servers.is_empty() => {
            return Err(
                "there is nothing to draw: no server is known; start one with 'ramhold server'".to_owned()
            );
        }
        (_, None) => racks::lay_out(scene, &mut canvas),
    }
    canvas.text(MARGIN, 26.0, 16.0, "#000", &scene.title());
    scene.legend(&mut canvas);
    Ok(canvas.svg(WIDTH_MIN, MARGIN))
}

#[cfg(test)]
mod tests;
