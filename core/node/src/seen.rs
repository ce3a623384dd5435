//! The visible state of a server at one moment, for readers in other threads.
//!
//! The values are plain and are taken between two steps, so a reader may take its time.
//!
//! Not here: how they are shown.

use crate::server::{Phase, ServerNode};
use ramhold_base::{ClusterId, Instant, Latencies};
use ramhold_resp::RespStats;
use ramhold_wire::Opcode;
use ramhold_wire::status::ProcessStatus;

#[derive(Clone, Debug)]
pub struct ServerSeen {
    pub phase: Phase,
    /// Why it is not serving, in one sentence. `None`: it is serving.
    pub reason: Option<String>,
    pub cluster: ClusterId,
    pub status: ProcessStatus,
    /// Answers to clients since the start, by operation. Empty without a master.
    pub operations: Vec<(Opcode, Latencies)>,
    pub resp: Option<RespSeen>,
    /// Free bytes on the file system of the frames. `None` where nobody has looked.
    pub disk_free_bytes: Option<u64>,
}

/// The part that the Redis front contributes.
#[derive(Clone, Debug)]
pub struct RespSeen {
    pub stats: RespStats,
    pub connections: usize,
    /// Refusals for want of a right and failed logins, by what was lacking.
    pub denied: Vec<(&'static str, u64)>,
    pub waits: Latencies,
}

impl ServerNode {
    pub fn seen(&self, now: Instant) -> ServerSeen {
        let master = self.master.as_ref();
        ServerSeen {
            phase: self.phase,
            reason: self.why_not_serving(now),
            cluster: self.view.cluster,
            status: self.status(now),
            operations: master.map(|master| master.operations()).unwrap_or_default(),
            resp: self.resp.as_ref().map(|resp| RespSeen {
                stats: resp.stats(),
                connections: resp.connection_count(),
                denied: resp.denied(),
                waits: resp.waits().clone(),
            }),
            disk_free_bytes: None,
        }
    }

    fn why_not_serving(&self, now: Instant) -> Option<String> {
        let reason = match self.phase {
            Phase::Serving => return None,
            Phase::Starting => "the data directory is being read".into(),
            Phase::Enlisting => {
                let since = self.enlist_since.map(|since| now.since(since).as_secs()).unwrap_or_default();
                let to = self.config.coordinator;
                match self.enlist_refusal {
                    Some(status) => {
                        format!(
                            "the coordinator at {to} has not taken this server in for {since} s: {status}"
                        )
                    }
                    None => format!("the coordinator at {to} has not answered for {since} s"),
                }
            }
            Phase::Installing => "the new identity is being written".into(),
            Phase::Stopping => "everything is being flushed".into(),
            Phase::Ended => "it has ended".into(),
        };
        Some(reason)
    }
}
