//! What a storage server is started with.

use ramhold_backup::BackupConfig;
use ramhold_detector::DetectorConfig;
use ramhold_master::MasterConfig;
use ramhold_resp::RespConfig;
use ramhold_wire::membership::Label;
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where others reach this server.
    pub advertise: SocketAddr,
    pub coordinator: SocketAddr,
    pub labels: Vec<Label>,
    /// Whether it takes tablets.
    pub master: bool,
    pub master_config: MasterConfig,
    pub backup_config: BackupConfig,
    pub detector: DetectorConfig,
    /// How the Redis protocol is spoken; none: not at all.
    pub resp: Option<RespConfig>,
    /// `--memory`: what log, index and buffers make together; shown in the status.
    pub memory_bytes: u64,
    /// Measured read speed of the device, megabytes per second.
    pub read_speed: u32,
    /// How long to wait for the coordinator's answer before asking again.
    pub enlist_interval: Duration,
    /// The program's version, shown in the status.
    pub version: String,
}
