//! The options that every command understands.

use crate::size::parse_duration;
use clap::{Args, ValueEnum};
use ramhold_client::Transport;
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
    /// How servers are reached. 'auto' shares memory with those of this host and user, and goes over TCP
    /// to all others.
    #[arg(long, global = true, env = "RAMHOLD_TRANSPORT", value_enum, default_value_t = TransportMode::Auto, value_name = "HOW", help_heading = HEADING)]
    pub transport: TransportMode,
    /// The zone of the clients, for commands that take one.
    #[arg(skip)]
    pub zone: Option<String>,
}

/// How connections are opened.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransportMode {
    Auto,
    Tcp,
    Unix,
    SharedMemory,
}

impl From<TransportMode> for Transport {
    fn from(mode: TransportMode) -> Transport {
        match mode {
            TransportMode::Auto => Transport::Automatic,
            TransportMode::Tcp => Transport::Tcp,
            TransportMode::Unix => Transport::Unix,
            TransportMode::SharedMemory => Transport::SharedMemory,
        }
    }
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
