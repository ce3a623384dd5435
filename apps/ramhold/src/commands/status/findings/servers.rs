//! Findings from what servers say of themselves: why a server does not acknowledge, is not safe, or hears nothing.
//!
//! Not here: what the coordinator says, and bricks (`findings`).

use crate::commands::status::picture::Picture;
use crate::findings::{Finding, Grade, finding};
use crate::output::bytes_for_eyes;
use crate::size::bytes_text;
use ramhold_client::{CopyingStatus, ProcessStatus, ServerEntry, ServerId, SilentLink};
use std::collections::{BTreeMap, BTreeSet};

/// The most silent links that are named for one server.
const SILENT_TOLD_MAX: usize = 3;

/// Servers whose writes wait, by what they wait for: mostly it is the same for all.
pub fn of_waiting(picture: &Picture) -> impl Iterator<Item = Finding> {
    let mut waiting: BTreeMap<String, (BTreeSet<ServerId>, u64)> = BTreeMap::new();
    for (server, process) in &picture.processes {
        for stream in process.iter().flat_map(|process| &process.streams) {
            if let Some(why) = &stream.waits_for {
                let (servers, bytes) = waiting.entry(bytes_for_eyes(why.as_bytes())).or_default();
                servers.insert(*server);
                *bytes += stream.unreplicated_bytes;
            }
        }
    }
    waiting.into_iter().map(|(why, (servers, bytes))| {
        let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
        let (servers, bytes) = (servers.join(", "), bytes_text(bytes));
        let (why, action) = match why.contains("disk full") {
            true => (why.as_str(), "free space there, or start a server with another --dir"),
            false => why.split_once("; ").unwrap_or((&why, "start servers, on hosts where none is")),
        };
        finding(Grade::Critical, format!("writes on {servers} wait: {why} ({bytes} not replicated)"), action)
    })
}

/// Links on which a server hears nothing.
pub fn of_silent_links(id: ServerId, process: &ProcessStatus) -> Option<Finding> {
    let silent = process.silent_links.as_ref().filter(|silent| !silent.is_empty())?;
    let of = |silent: &SilentLink| format!("{} to {}", silent.link.escape_debug(), silent.server);
    let some: Vec<String> = silent.iter().take(SILENT_TOLD_MAX).map(of).collect();
    let more = silent.len() - some.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let text = format!("{id} hears nothing on links {}{more}", some.join(", "));
    let action = "look at the cables and switches; 'ramhold topology links' shows all";
    Some(finding(Grade::Degraded, text, action))
}

/// Findings of one server: why it does not acknowledge, or is not safe.
pub fn of_server(server: &ServerEntry, process: &ProcessStatus, found: &mut Vec<Finding>) {
    let id = server.id;
    if let Some(copying) = process.copying.filter(|copying| copying.segments > 0) {
        let action = "nothing, it goes on by itself";
        found.push(finding(Grade::Recovering, format!("{id} {}", copying_text(&copying)), action));
    }
    let unspread: u64 = process.streams.iter().map(|stream| stream.unspread_segments).sum();
    if unspread > 0 {
        found.push(finding(
            Grade::Recovering,
            format!("{id} has {unspread} segments with all copies in one zone or rack"),
            "nothing, a replica of each moves to another zone or rack by itself",
        ));
    }
    if process.cleaning.is_some_and(|cleaning| cleaning.is_full) {
        let action = "remove objects, let them expire, or start more servers";
        found.push(finding(Grade::Critical, format!("{id} is full: it refuses writes"), action));
    }
    if let Some(scrub) = process.scrub.as_ref().filter(|scrub| scrub.damaged > 0) {
        found.push(finding(
            Grade::Degraded,
            format!(
                "{id} had damaged memory in {} segments: {} repaired, {} damaged now, {} objects lost",
                scrub.damaged, scrub.repaired, scrub.waiting, scrub.lost
            ),
            "check its DRAM",
        ));
    }
    if let Some(results) = process.results.filter(|results| results.dropped > 0) {
        found.push(finding(
            Grade::Degraded,
            format!(
                "{id} left {} writes unanswered, because it had no room for more results; it remembers those of {} clients",
                results.dropped, results.leases
            ),
            "stop clients that are not needed",
        ));
    }
    if let Some(failed) = process.backup.as_ref().and_then(|backup| backup.failed.as_ref()) {
        let failed = bytes_for_eyes(failed.as_bytes());
        let action = "replace its device, then start it again on an empty directory";
        found.push(finding(Grade::Degraded, format!("the backup of {id} has failed: {failed}"), action));
    }
}

/// How far a server is with what it copies again.
fn copying_text(copying: &CopyingStatus) -> String {
    let limit = match copying.limit {
        0 => String::new(),
        limit => format!(" of at most {}", bytes_text(limit)),
    };
    format!(
        "copies {} segments again that lost a replica: {} to go, at {}{limit} per second",
        copying.segments,
        bytes_text(copying.left_bytes),
        bytes_text(copying.bytes_per_second)
    )
}
