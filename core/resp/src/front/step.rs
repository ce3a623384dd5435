//! The values that one step of the front works with: the time, the settings, the process around it, and the
//! place for effects.
//!
//! A step is lent down the calls. The parts that it works on own their state.
//!
//! Not here: connections (`ordering`), clients (`clients`), the ways to objects (`access`).

use super::config::RespConfig;
use super::stats::RespStats;
use crate::catalog::Numbers;
use ramhold_base::{ConnId, Effects, Instant, Peer, Rng};

pub struct Step<'a, H> {
    /// When the step began. All of the step sees this one moment.
    pub now: Instant,
    pub config: &'a RespConfig,
    /// The commands, as rules of accounts name them.
    pub numbers: &'a Numbers,
    pub stats: &'a mut RespStats,
    pub rng: &'a mut Rng,
    pub host: &'a mut H,
    pub effects: &'a mut Effects,
}

/// Sends bytes over a connection, if there are any.
pub fn send(conn: ConnId, bytes: &[u8], effects: &mut Effects) {
    if !bytes.is_empty() {
        effects.send_with(Peer::Conn(conn), |out| out.extend_from_slice(bytes));
    }
}
