//! `bricks`: the state of each brick, as the brick itself tells it.
//!
//! The coordinator names the bricks if it answers. Without it the bricks name each other: one address is enough to find
//! all that share a tablet, and in turn share one with those.
//!
//! Not here: what bricks did on their own (`events`). Catalogue: I6, J5.

pub mod condition;
mod json;
mod memory;
pub mod reach;
pub mod survey;
pub mod text;

use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use crate::screen::Screen;
use crate::watch::watch;
use clap::Args;
use survey::{Source, Survey};
use text::Breadth;

/// Show the state of each brick of quorum tables.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ramhold bricks
  ramhold bricks --watch
  ramhold bricks --wide
  ramhold bricks --bricks 10.0.0.2:7501    (the coordinator is away)
  ramhold bricks --json | jq '.bricks[] | {id, state, keys_behind}'

The columns:
  state   serving; starting, loading N % (its log); rebuilt N % (it has forgotten
          something and is rebuilt from the others); waiting (for bricks that do
          not answer: the findings name them); silent, and for how long; offline
          (its supervisor starts it no more)
  votes   tablets that vote, of those that the brick holds
  memory  how full its log is
  behind  keys of which other bricks are known to have something newer, and
          since when; the brick fetches them by itself
  swept   time since it has last compared all its keys with all other bricks
  up      time since its start; 'life' counts the starts

A brick is waited for 1 s, or as long as --timeout says.

The exit code is 0 also if something is wrong. With --json, the field 'verdict'
has it: healthy, recovering, degraded or critical.")]
pub struct Bricks {
    /// Addresses of bricks to ask besides those that the coordinator names.
    #[arg(long, value_name = "ADDR,...")]
    bricks: Option<String>,
    /// Repeat every second until interrupted; with --json, one line each time.
    #[arg(long)]
    watch: bool,
    /// Show all columns; lines may be longer than 80 columns.
    #[arg(long)]
    wide: bool,
}

impl Bricks {
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        let mut source = Source::connect(global, self.bricks.as_deref())?;
        watch(self.watch, global.json, || source.survey(), |survey, before| self.show(survey, global, before))
    }

    fn show(&self, survey: &Survey, global: &Global, before: &str) -> Result<(), Failure> {
        if global.json {
            return output::print_json(&json::survey(survey));
        }
        let breadth = if self.wide { Breadth::Wide } else { Breadth::Narrow };
        output::print(&format!("{before}{}", text::survey(survey, breadth, Screen::of_stdout())))
    }
}
