//! `topology check`: what servers have room for, and the problems that were found, as text and as JSON.
//!
//! Not here: which problems there are (placement).

use crate::screen::wrap;
use ramhold_base::limits::SEGMENT_BYTES;
use ramhold_client::{Client, ServerEntry, ServerId};
use ramhold_placement::{HeadRoom, Problem};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The room for heads of each server that answers.
pub fn head_rooms(client: &mut Client, up: &[&ServerEntry]) -> BTreeMap<ServerId, HeadRoom> {
    let room = |server: &&ServerEntry| {
        let status = client.server_status(server.address.0).ok()?;
        let buffers = status.backup.map(|backup| backup.buffers).filter(|buffers| *buffers > 0);
        let buffers = buffers.map(|buffers| u32::try_from(buffers).unwrap_or(u32::MAX));
        let segments = u32::try_from(status.log_bytes / u64::from(SEGMENT_BYTES)).unwrap_or(u32::MAX);
        Some((server.id, HeadRoom::new(buffers, segments)))
    };
    up.iter().filter_map(room).collect()
}

/// The most problems that are told as text.
const PROBLEMS_TOLD_MAX: usize = 16;

pub fn text(what: &str, problems: &[Problem]) -> String {
    if problems.is_empty() {
        return format!("{what}: nothing stands in the way\n");
    }
    let more = problems.len().saturating_sub(PROBLEMS_TOLD_MAX);
    let more = if more > 0 { format!("and {more} more; --json lists all\n") } else { String::new() };
    let lines = problems.iter().take(PROBLEMS_TOLD_MAX).map(|problem| {
        let mark = if problem.is_grave() { "would not work" } else { "note" };
        let told = wrap("- ", &format!("{mark}: {problem}"));
        format!("{}\n{}\n", told.trim_end(), wrap("  do: ", &problem.remedy()).trim_end())
    });
    format!("{what}:\n{}{more}", lines.collect::<String>())
}

pub fn json(problems: &[Problem]) -> Value {
    let problem = |problem: &Problem| {
        json!({
            "problem": problem.to_string(),
            "grave": problem.is_grave(),
            "remedy": problem.remedy(),
        })
    };
    json!({ "problems": problems.iter().map(problem).collect::<Vec<_>>() })
}
