//! The configuration that a storage server is started with.

use ramhold_backup::BackupConfig;
use ramhold_detector::DetectorConfig;
use ramhold_master::MasterConfig;
use ramhold_resp::RespConfig;
use ramhold_wire::membership::{Label, Link};
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The address at which others reach this server.
    pub advertise: SocketAddr,
    pub coordinator: SocketAddr,
    pub labels: Vec<Label>,
    /// Further addresses, at which other servers reach this one.
    pub links: Vec<Link>,
    /// Whether it has the role master, and takes tablets.
    pub master: bool,
    pub master_config: MasterConfig,
    pub backup_config: BackupConfig,
    pub detector: DetectorConfig,
    /// The configuration of the Redis protocol. `None`: the server does not speak it.
    pub resp: Option<RespConfig>,
    /// `--memory`: the bytes of log, index and buffers together; shown in the status.
    pub memory_bytes: u64,
    /// Measured read speed of the device, megabytes per second.
    pub read_speed: u32,
    /// How long to wait for the coordinator's answer before asking again.
    pub enlist_interval: Duration,
    /// The program's version, shown in the status.
    pub version: String,
}
