//! The cluster's state for people.

use super::Picture;
use crate::commands::{recoveries, table};
use crate::output::{Columns, bytes_for_eyes};
use crate::placement::placement_text;
use crate::size::bytes_text;
use ramhold_client::{BackupStatus, CopyingStatus, LossReport, ProcessStatus, ServerEntry, ServerState};
use ramhold_wire::ReplicaPlacement;

pub fn picture(picture: &Picture) -> String {
    let cluster = &picture.cluster;
    let up = cluster.servers.iter().filter(|server| server.state == ServerState::Up).count();
    let mut text = format!(
        "cluster {} (coordinator {}, {}): {up} of {} servers up, {} tables, {} tablets, {} recovering\n",
        cluster.cluster,
        cluster.version,
        cluster.term,
        cluster.servers.len(),
        cluster.tables,
        cluster.tablets,
        cluster.tablets_recovering
    );
    let placement = placement_text(ReplicaPlacement::of(cluster.copyset_rings));
    text.push_str(&format!("replicas are placed by {placement}\n"));
    for warning in &cluster.warnings {
        text.push_str(&format!("warning: {}\n", bytes_for_eyes(warning.as_bytes())));
    }
    for loss in &cluster.losses {
        text.push_str(&loss_text(loss));
    }
    text.push('\n');
    text.push_str(&servers(picture));
    if !picture.tables.is_empty() {
        text.push('\n');
        text.push_str(&table::tables_text(&picture.tables));
    }
    if !cluster.recoveries.is_empty() {
        text.push('\n');
        text.push_str(&recoveries::reports_text(&cluster.recoveries));
    }
    text
}

fn loss_text(loss: &LossReport) -> String {
    let tables: Vec<String> = loss.tables.iter().map(ToString::to_string).collect();
    format!(
        "loss {}: writes to {} on server {} may be gone: {}; 'ramhold acknowledge-loss {}' when you have seen it\n",
        loss.id,
        tables.join(", "),
        loss.crashed,
        bytes_for_eyes(loss.reason.as_bytes()),
        loss.id
    )
}

fn servers(picture: &Picture) -> String {
    let mut columns = Columns::new([
        "server",
        "address",
        "state",
        "labels",
        "log used",
        "of",
        "live",
        "index",
        "objects",
        "segments",
        "incomplete",
        "frames",
        "buffers",
        "mode",
    ]);
    let mut notes = String::new();
    for server in &picture.cluster.servers {
        let state = match server.state {
            ServerState::Up => "up",
            ServerState::Crashed if server.kept => "recovered",
            ServerState::Crashed => "crashed",
        };
        let process = picture.processes.get(&server.id);
        let known = process.and_then(|process| process.as_ref().ok());
        let figure = |figure: &dyn Fn(&ProcessStatus) -> String| known.map_or_else(|| "-".to_owned(), figure);
        let backup = |figure: &dyn Fn(&BackupStatus) -> String| {
            known.and_then(|process| process.backup.as_ref()).map_or_else(|| "-".to_owned(), figure)
        };
        columns.row([
            server.id.to_string(),
            server.address.0.to_string(),
            state.to_owned(),
            labels(server),
            figure(&|process| bytes_text(process.log_used_bytes)),
            figure(&|process| bytes_text(process.log_bytes)),
            figure(&|process| bytes_text(process.log_live_bytes)),
            figure(&|process| bytes_text(process.index_bytes)),
            figure(&|process| process.objects.to_string()),
            figure(&|process| process.streams.iter().map(|stream| stream.segments).sum::<u64>().to_string()),
            figure(&|process| {
                process.streams.iter().map(|stream| stream.incomplete_segments).sum::<u64>().to_string()
            }),
            backup(&|backup| format!("{}/{}", backup.frames_used, backup.frames_max)),
            backup(&|backup| format!("{}/{}", backup.buffers_used, backup.buffers)),
            backup(&|backup| bytes_for_eyes(backup.mode.as_bytes())),
        ]);
        match process {
            Some(Err(why)) => notes.push_str(&format!("{} does not tell its figures: {why}\n", server.id)),
            Some(Ok(process)) => notes.push_str(&troubles(server, process)),
            None => {}
        }
    }
    format!("{}{notes}", columns.text())
}

/// What keeps a server from acknowledging or from being safe.
fn troubles(server: &ServerEntry, process: &ProcessStatus) -> String {
    let mut notes = String::new();
    for stream in &process.streams {
        if let Some(why) = &stream.waits_for {
            let why = bytes_for_eyes(why.as_bytes());
            let bytes = stream.unreplicated_bytes;
            notes.push_str(&format!(
                "{} stream {} waits for {why} ({bytes} bytes not replicated)\n",
                server.id, stream.stream
            ));
        }
    }
    if let Some(copying) = process.copying.filter(|copying| copying.segments > 0) {
        notes.push_str(&format!("{} {}\n", server.id, copying_text(&copying)));
    }
    if process.cleaning.is_some_and(|cleaning| cleaning.is_full) {
        notes.push_str(&format!(
            "{} is full: it refuses writes until objects are removed or expire, or servers are added\n",
            server.id
        ));
    }
    if let Some(scrub) = process.scrub.as_ref().filter(|scrub| scrub.damaged > 0) {
        notes.push_str(&format!(
            "{} had damaged memory in {} segments: {} repaired, {} damaged now, {} objects lost; check its DRAM\n",
            server.id, scrub.damaged, scrub.repaired, scrub.waiting, scrub.lost
        ));
    }
    if let Some(results) = process.results.filter(|results| results.dropped > 0) {
        notes.push_str(&format!(
            "{} left {} writes unanswered: it remembers the results of {} clients and had no room for more\n",
            server.id, results.dropped, results.leases
        ));
    }
    if let Some(failed) = process.backup.as_ref().and_then(|backup| backup.failed.as_ref()) {
        notes.push_str(&format!("{} backup has failed: {}\n", server.id, bytes_for_eyes(failed.as_bytes())));
    }
    notes
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

fn labels(server: &ServerEntry) -> String {
    let labels: Vec<String> =
        server.labels.iter().map(|label| format!("{}={}", label.name, label.value)).collect();
    if labels.is_empty() { "-".to_owned() } else { bytes_for_eyes(labels.join(",").as_bytes()) }
}
