//! The settings of a front.

use super::together::CrossSlot;
use crate::parse::integer;
use crate::{Fault, Limits};
use ramhold_client_core::SessionConfig;
use ramhold_wire::CallRole;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// The process that the front is in, as its operating system knows it.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub id: u32,
    /// Name, release and machine.
    pub os: String,
}

/// The bounds above which a command is told to have been slow. `CONFIG SET` changes them for the running process.
#[derive(Clone, Copy, Debug)]
pub struct TimingConfig {
    /// Commands that take at least this long are kept in the slow log.
    pub slow: Duration,
    pub slow_count_max: usize,
    /// Commands that take at least this long are told by `LATENCY`. 0: none are.
    pub latency_threshold: Duration,
}

impl Default for TimingConfig {
    fn default() -> TimingConfig {
        TimingConfig {
            slow: Duration::from_millis(10),
            slow_count_max: 128,
            latency_threshold: Duration::ZERO,
        }
    }
}

/// The password of a server itself. It is not shown by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnPassword(String);

impl OwnPassword {
    pub fn shown(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for OwnPassword {
    fn from(text: T) -> OwnPassword {
        OwnPassword(text.into())
    }
}

impl fmt::Debug for OwnPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

#[derive(Clone, Debug)]
pub struct RespConfig {
    /// Databases that a connection may select.
    pub databases: u16,
    /// Tables of the databases whose table is not `db<n>`.
    pub tables: Vec<(u16, String)>,
    /// The password of the account `default` at this server, in place of those that the account has. `None`: it has none of its own.
    pub password: Option<OwnPassword>,
    /// This server's port for clients of Redis Cluster. Clients that come to it walk over the keys of each
    /// server separately.
    pub cluster_port: Option<u16>,
    pub limits: Limits,
    /// Commands of one connection that run at once, and bytes of their requests and replies.
    pub running_count_max: usize,
    pub running_bytes_max: usize,
    /// The time for which a command is tried.
    pub deadline: Duration,
    /// A connection that has asked for nothing for this long is closed, unless it has commands under way or
    /// listens to channels. `None`: never.
    pub idle: Option<Duration>,
    pub timing: TimingConfig,
    /// The treatment of commands and transactions whose keys have different slots.
    pub cross_slot: CrossSlot,
    /// Facts of the process for `INFO`.
    pub process: Process,
    /// Whether `DEBUG` is allowed.
    pub debug: bool,
    pub session: SessionConfig,
}

impl RespConfig {
    pub fn new(coordinator: SocketAddr) -> RespConfig {
        let mut session = SessionConfig::new(vec![coordinator]);
        session.role = CallRole::Front;
        // The bounds of the connections count instead.
        session.operation_count_max = 1 << 20;
        RespConfig {
            databases: 16,
            tables: Vec::new(),
            password: None,
            cluster_port: None,
            limits: Limits { args: 1024 * 1024, arg_bytes: 8 * 1024 * 1024, bytes: 64 * 1024 * 1024 },
            running_count_max: 1024,
            running_bytes_max: 8 * 1024 * 1024,
            deadline: session.deadline,
            idle: None,
            timing: TimingConfig::default(),
            cross_slot: CrossSlot::Strict,
            process: Process::default(),
            debug: false,
            session,
        }
    }

    /// The database that a client names.
    pub(crate) fn database_of(&self, text: &[u8]) -> Result<u16, Fault> {
        let db = integer(text).ok_or(Fault::NOT_AN_INTEGER)?;
        let db = i32::try_from(db).map_err(|_| Fault::NOT_A_SMALL_INTEGER)?;
        let known = u16::try_from(db).ok().filter(|db| *db < self.databases);
        known.ok_or(Fault::NO_SUCH_DATABASE)
    }

    /// The name of a database's table.
    pub(crate) fn table_name(&self, db: u16) -> String {
        let named = self.tables.iter().find(|(of, _)| *of == db);
        named.map_or_else(|| format!("db{db}"), |(_, name)| name.clone())
    }
}
