//! The options that every command understands.

use crate::size::parse_duration;
use clap::Args;
use std::time::Duration;

/// The heading of these options in every help.
const HEADING: &str = "Common options";

/// The options that every command understands.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// Address of the coordinator: HOST or HOST:PORT. For keys of quorum tables any brick or server
    /// does as well.
    #[arg(
        long,
        global = true,
        env = "RAMHOLD_CLUSTER",
        default_value = "127.0.0.1:7400",
        value_name = "ADDR",
        help_heading = HEADING
    )]
    pub cluster: String,
    /// Print JSON instead of text.
    #[arg(long, global = true, help_heading = HEADING)]
    pub json: bool,
    /// Time limit for one operation: 500ms, 10s, 2m [default: 10s]
    #[arg(long = "timeout", global = true, help_heading = HEADING, value_name = "TIME", value_parser = parse_duration)]
    pub patience: Option<Duration>,
    /// The zone of the clients, for commands that take one.
    #[arg(skip)]
    pub zone: Option<String>,
}

impl Global {
    /// How long one operation is tried.
    pub fn timeout(&self) -> Duration {
        self.patience.unwrap_or(Duration::from_secs(10))
    }

    /// The same options for clients in a zone.
    pub fn from(&self, zone: Option<&str>) -> Global {
        Global { zone: zone.map(str::to_owned), ..self.clone() }
    }
}

/// Where the client is.
#[derive(Args, Clone, Debug, Default)]
pub struct Near {
    /// Zone of this client. Values of quorum tables are read from bricks with the label zone=NAME first,
    /// unless they are much busier than others.
    #[arg(long, env = "RAMHOLD_ZONE", value_name = "NAME")]
    pub zone: Option<String>,
}
