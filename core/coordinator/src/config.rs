//! The settings of an operator or a test.

use ramhold_base::ServerId;
use ramhold_base::limits::{REPLICA_COUNT_DEFAULT, SEGMENT_BYTES};
use ramhold_wire::ReplicaPlacement;
use ramhold_wire::topology::Topology;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct CoordinatorConfig {
    /// The address at which servers and clients find this coordinator; told to every server.
    pub advertise: SocketAddr,
    /// For reports only; the cluster's identity is its id.
    pub cluster_name: String,
    /// One server is pinged at each interval, in turn.
    pub ping_interval: Duration,
    /// A ping that is not answered for this long makes its target a suspect.
    pub ping_timeout: Duration,
    /// A suspect that answers no ping for this long is dead.
    pub verify_timeout: Duration,
    /// A suspect whose address refuses connections twice, this far apart, is dead.
    pub verify_refused_interval: Duration,
    /// How long a cold start waits for every directory before complete logs are enough.
    pub cold_start_wait: Duration,
    /// How long a recovery still waits for silent backups when its log is complete.
    pub ask_wait: Duration,
    /// An unanswered message is repeated after this interval, then after twice as long, and so on up to the maximum.
    pub repeat_interval: Duration,
    pub repeat_interval_max: Duration,
    /// The most that one recovery master takes over in a partition, by the statistics of the dead log.
    pub partition_bytes_max: u64,
    /// Partitions are not made smaller than this just to give every master one.
    pub partition_bytes_min: u64,
    pub partition_records_max: u64,
    /// Partitions that one master replays at the same time. Further partitions wait for the next round, which reads the
    /// log again. Side by side they take hardly more memory than one, because each is answered with its share of a
    /// segment alone.
    pub partitions_per_master: u32,
    /// The size of segments in this cluster. A head may have grown by this much since its statistics were taken.
    pub segment_bytes: u32,
    /// The number of replicas of a table whose creator leaves it open, 0 to `REPLICA_COUNT_MAX`. With 0 such a table
    /// keeps none, and its durability is `none`. The setting counts when a table is made; existing tables keep their
    /// number.
    pub default_replicas: u8,
    /// Which backups may hold replicas of one segment together; counts for replicas that are made from now on.
    pub placement: ReplicaPlacement,
    /// The topology of the network; none: the stored one, `flat` in a new cluster.
    pub topology: Option<Topology>,
    /// The range of terms of clients' leases.
    pub lease_term_min: Duration,
    pub lease_term_max: Duration,
    /// Servers may keep replicas of their own logs, so their own failure domain counts (one-machine clusters).
    pub allow_local_backup: bool,
    /// Bricks that are heard and hold nothing get a share of the quorum tables by themselves.
    pub auto_scale: bool,
    /// If the store is empty, the state is made anew from the servers, instead of a new cluster.
    pub rebuild: Option<Rebuild>,
}

/// The statement of an operator who has lost a coordinator's store (docs/protocols/rebuild.md).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuild {
    /// Servers that are switched off for good and are not waited for.
    pub given_up: BTreeSet<ServerId>,
}

impl CoordinatorConfig {
    pub fn new(advertise: SocketAddr) -> CoordinatorConfig {
        CoordinatorConfig {
            advertise,
            cluster_name: "ramhold".into(),
            ping_interval: Duration::from_millis(100),
            ping_timeout: Duration::from_millis(300),
            verify_timeout: Duration::from_secs(1),
            verify_refused_interval: Duration::from_millis(50),
            cold_start_wait: Duration::from_secs(30),
            ask_wait: Duration::from_millis(500),
            repeat_interval: Duration::from_millis(250),
            repeat_interval_max: Duration::from_secs(4),
            // The paper allows 600 MB; smaller parts spread the work over more masters.
            partition_bytes_min: 32 * 1024 * 1024,
            partition_bytes_max: 600_000_000,
            partition_records_max: 3_000_000,
            partitions_per_master: 32,
            segment_bytes: SEGMENT_BYTES,
            default_replicas: REPLICA_COUNT_DEFAULT,
            placement: ReplicaPlacement::Scatter,
            topology: None,
            lease_term_min: Duration::from_secs(10),
            lease_term_max: Duration::from_secs(30 * 60),
            allow_local_backup: false,
            auto_scale: false,
            rebuild: None,
        }
    }
}
