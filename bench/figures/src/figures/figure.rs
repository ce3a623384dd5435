//! A figure: its recoveries, the table that they become, and what all figures share.

use crate::layout::Layout;
use crate::profile::Profile;
use crate::scale::{FINE, Scale};
use crate::stage::{Choice, End, Measured, Plan};
use crate::table::{Cell, Table};

pub const MB: f64 = 1e6;
pub const GB: f64 = 1e9;
pub const SOSP_PARTITION: f64 = 600.0 * MB;

/// How much of a figure is to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    Whole,
    /// The figure's ends and a point between, with fewer runs.
    Quick,
    /// The least that shows that the figure can be made.
    Smoke,
}

impl Extent {
    /// The points of a figure that are made.
    pub fn of<T: Copy>(self, all: &[T]) -> Vec<T> {
        match self {
            Extent::Whole => all.to_vec(),
            Extent::Quick => {
                let mut places = vec![0, all.len() / 2, all.len() - 1];
                places.dedup();
                places.into_iter().map(|place| all[place]).collect()
            }
            Extent::Smoke => all[..1].to_vec(),
        }
    }
}

type Tell = Box<dyn Fn(&[Measured]) -> Table>;

/// A figure: its recoveries, and a function from their outcomes, in the same order, to a table.
pub struct Figure {
    pub name: &'static str,
    pub plans: Vec<Plan>,
    pub tell: Tell,
}

/// A recovery like that of SOSP11's machines. Callers change parts of it.
pub fn plan(profile: Profile) -> Plan {
    Plan {
        profile,
        scale: FINE,
        masters: 1,
        backups: 1,
        apart: false,
        together: false,
        data: SOSP_PARTITION,
        value_bytes: 1024,
        replicas: 3,
        partition: None,
        choice: Choice::ReadTime,
        slowest: 1.0,
        layout: Layout::Star,
        cross_traffic: 0.0,
        end: End::Killed,
        seed: 1,
    }
}

/// The notes of every figure on how it was made.
pub fn notes(profile: &Profile, scale: Scale) -> Vec<String> {
    vec![
        profile.to_string(),
        format!(
            "the real coordinator, backups and recovery masters; a simulated segment of {} KiB stands for {} of {} KiB; R = 3",
            scale.segment_bytes / 1024,
            scale.segments,
            scale.real_bytes / 1024
        ),
    ]
}

pub fn count(number: usize) -> Cell {
    Cell::Number(number as f64, 0)
}

pub fn seconds(number: f64) -> Cell {
    Cell::Number(number, 3)
}

/// The busiest of several parts, as a share of the recovery's time.
fn busiest(values: impl Iterator<Item = f64>, measured: &Measured) -> Cell {
    Cell::Number(100.0 * values.fold(0.0, f64::max) / (measured.detection + measured.recovery) / 1e9, 0)
}

/// The busiest of all servers' processors, or of their devices while they read.
pub fn busiest_processor(measured: &Measured) -> Cell {
    let nodes = measured.nodes.masters.iter().chain(&measured.nodes.backups);
    busiest(nodes.map(|node| measured.busy.processors[*node] as f64), measured)
}

pub fn busiest_coordinator(measured: &Measured) -> Cell {
    busiest([measured.busy.processors[measured.nodes.coordinator] as f64].into_iter(), measured)
}

pub fn busiest_reader(measured: &Measured) -> Cell {
    busiest(measured.nodes.backups.iter().map(|node| measured.busy.reading[*node] as f64), measured)
}

/// The busiest of all ports, those into hosts and those out of them.
pub fn busiest_port(measured: &Measured) -> Cell {
    busiest(measured.busy.ports.iter().map(|port| port.nanos as f64), measured)
}
