//! The options that every command understands.

use crate::size::parse_duration;
use clap::Args;
use std::time::Duration;

/// What every command understands.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// Where the coordinator is: HOST[:PORT].
    #[arg(
        long,
        global = true,
        env = "RAMHOLD_CLUSTER",
        default_value = "127.0.0.1:7400",
        value_name = "ADDR"
    )]
    pub cluster: String,
    /// Print JSON for programs instead of text for people.
    #[arg(long, global = true)]
    pub json: bool,
    /// How long one operation is tried: 500ms, 10s, 2m. [default: 10s]
    #[arg(long = "timeout", global = true, value_name = "TIME", value_parser = parse_duration)]
    pub patience: Option<Duration>,
}

impl Global {
    /// How long one operation is tried.
    pub fn timeout(&self) -> Duration {
        self.patience.unwrap_or(Duration::from_secs(10))
    }
}
