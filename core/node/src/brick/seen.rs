//! The visible state of a brick at one moment, for readers in other threads.
//!
//! A brick is not ready while none of its tablets votes: nobody gets an answer of it then.
//!
//! Not here: how it is shown (io/admin). Catalogue: I6, J5.

use crate::BrickNode;
use ramhold_base::{ClusterId, Instant, ServerId};
use ramhold_wire::status::ProcessStatus;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
pub struct BrickSeen {
    /// Why it is not ready, as a word and a sentence. `None`: it is.
    pub trouble: Option<(&'static str, String)>,
    pub cluster: ClusterId,
    pub status: ProcessStatus,
    /// Free bytes on the file system of the frames. `None` where nobody has looked.
    pub disk_free_bytes: Option<u64>,
}

impl BrickNode {
    pub fn seen(&self, now: Instant) -> BrickSeen {
        let status = self.status(now);
        BrickSeen {
            trouble: self.trouble(now, &status),
            cluster: self.view.cluster,
            status,
            disk_free_bytes: None,
        }
    }

    fn trouble(&self, now: Instant, status: &ProcessStatus) -> Option<(&'static str, String)> {
        if self.has_ended {
            return Some(("ended", "it has ended".into()));
        }
        if self.is_stopping {
            return Some(("stopping", "everything is being flushed".into()));
        }
        if self.brick.is_unnamed() {
            let since = now.since(self.hello.heard.max(self.started)).as_secs();
            let to = self.config.coordinator;
            let why = match &self.hello.refusal {
                Some(refusal) => format!("refuses it for {since} s: {refusal}"),
                None => format!("has not answered for {since} s"),
            };
            return Some(("unnamed", format!("it has no id yet, and the coordinator at {to} {why}")));
        }
        if !self.brick.is_serving() {
            return Some(("starting", "its log is being taken over".into()));
        }
        let brick = status.brick.as_ref()?;
        if let Some(permille) = brick.loaded_permille {
            let percent = permille / 10;
            return Some((
                "loading",
                format!("{percent} % of its log is loaded; other keys are not answered yet"),
            ));
        }
        if status.tablets == 0 || u64::from(brick.without_vote) < status.tablets {
            return None;
        }
        let count = match status.tablets {
            1 => "its tablet does not vote".to_owned(),
            count => format!("none of its {count} tablets votes"),
        };
        let awaited: BTreeSet<ServerId> =
            brick.tablets.iter().flat_map(|tablet| &tablet.waits_for).copied().collect();
        if !awaited.is_empty() {
            let names: Vec<String> = awaited.iter().map(ServerId::to_string).collect();
            let answer = if names.len() == 1 { "does not answer" } else { "do not answer" };
            let way = "check the network, or start them again; if their data is destroyed, see 'ramhold brick accept-loss \
                       --help'";
            return Some(("waiting", format!("{count}: {} {answer}; {way}", names.join(", "))));
        }
        if brick.waits_for_room > 0 && brick.rebuilding.is_none() {
            let way = "remove objects, or start it again with more --disk or --memory";
            return Some(("waiting", format!("{count}: a stream has no room for its first head; {way}")));
        }
        if let Some(stalled) = &brick.stalled {
            let why = format!("its rebuilding comes no further: {}", stalled.why());
            return Some(("waiting", format!("{count}: {why}; {}", stalled.obstacle.way_out())));
        }
        Some(match brick.rebuilding {
            Some(rebuilding) => {
                let percent = rebuilding.permille / 10;
                ("rebuilding", format!("{count}; {percent} % of {} is rebuilt here", rebuilding.table))
            }
            None => ("waiting", format!("{count}: too few of its siblings have told their clocks")),
        })
    }
}
