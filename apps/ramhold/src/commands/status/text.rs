//! The cluster's state for people: a verdict, remedies, and the servers, tables and recoveries in 80 columns.

use super::findings::{findings, since_text, verdict};
use super::picture::{Picture, is_silent};
use crate::commands::brick::scale::state_text;
use crate::commands::bricks::condition::Condition;
use crate::commands::recoveries::reports;
use crate::commands::table::describe;
use crate::findings::{Finding, Grade};
use crate::output::{Columns, bytes_for_eyes};
use crate::screen::{Colour, Screen, WIDTH, wrap};
use crate::size::bytes_text;
use ramhold_client::{BackupStatus, ProcessStatus, ServerEntry, ServerState};

/// How much is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Breadth {
    /// Only columns that fit into 80 characters.
    Narrow,
    Wide,
}

pub fn picture(picture: &Picture, breadth: Breadth, screen: Screen) -> String {
    let cluster = &picture.cluster;
    let findings = findings(picture);
    let mut text = told(picture, &findings, screen);
    text.push_str(&format!(
        "cluster {}: {}, {}, {} recovering\n",
        cluster.cluster,
        counted(cluster.tables, "table"),
        counted(cluster.tablets, "tablet"),
        cluster.tablets_recovering
    ));
    if breadth == Breadth::Wide {
        let placement = cluster.replica_placement();
        text.push_str(&format!(
            "coordinator {}, {}; replicas are placed by {placement}; topology {}\n",
            cluster.version, cluster.term, cluster.topology
        ));
    }
    let has_servers = !cluster.servers.is_empty() || cluster.gone.iter().flatten().next().is_some();
    if has_servers || cluster.bricks.is_empty() {
        text.push('\n');
        text.push_str(&match breadth {
            Breadth::Narrow => servers(picture).fitted(WIDTH),
            Breadth::Wide => servers_wide(picture).text(),
        });
    }
    if !cluster.bricks.is_empty() {
        text.push('\n');
        text.push_str(&bricks(picture).fitted(WIDTH));
    }
    if !picture.tables.is_empty() {
        text.push('\n');
        text.push_str(&describe::tables_columns(&picture.tables).fitted(WIDTH));
    }
    if !cluster.recoveries.is_empty() {
        text.push('\n');
        text.push_str(&match breadth {
            Breadth::Narrow => reports::reports_columns(&cluster.recoveries).fitted(WIDTH),
            Breadth::Wide => reports::reports_columns_wide(&cluster.recoveries).text(),
        });
    }
    text
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The verdict, and every finding with what to do.
fn told(picture: &Picture, findings: &[Finding], screen: Screen) -> String {
    let (grade, line) = verdict(picture, findings);
    let (word, rest) = line.split_once(':').unwrap_or((&line, ""));
    let mut text = format!("{}:{rest}\n", screen.paint(colour(grade), word));
    for finding in findings {
        text.push_str(&wrap("- ", &format!("{}: {}", finding.grade.name(), finding.what)));
        if !finding.action.is_empty() {
            text.push_str(&wrap("  do: ", &finding.action));
        }
    }
    text
}

fn colour(grade: Grade) -> Colour {
    match grade {
        Grade::Note => Colour::Green,
        Grade::Recovering | Grade::Degraded => Colour::Yellow,
        Grade::Critical => Colour::Red,
    }
}

fn state(server: &ServerEntry) -> &'static str {
    match server.state {
        ServerState::Up => "up",
        ServerState::Crashed if server.kept => "recovered",
        ServerState::Crashed => "dead",
    }
}

/// Dead servers whose log is kept are told as gone, unless they are back or forgotten.
fn servers(picture: &Picture) -> Columns {
    let mut columns = Columns::new(["server", "address", "state", "memory", "disk", "objects", "host"]);
    let gone = || picture.cluster.gone.iter().flatten();
    let is_gone = |server: &ServerEntry| gone().any(|gone| gone.server == server.id);
    for server in picture.cluster.servers.iter().filter(|server| !is_gone(server)) {
        let known = picture.processes.get(&server.id).and_then(|process| process.as_ref().ok());
        let disk = known.and_then(|process| process.backup.as_ref());
        columns.row([
            server.id.to_string(),
            server.address.0.to_string(),
            if known.is_none() && server.state == ServerState::Up { "silent" } else { state(server) }
                .to_owned(),
            known.map_or_else(dash, |process| percent(process.log_used_bytes, process.log_bytes)),
            disk.map_or_else(dash, |backup| percent(backup.frames_used, backup.frames_max)),
            known.map_or_else(dash, |process| process.objects.to_string()),
            hosts(server.labels.iter().map(|label| (label.name.as_str(), label.value.as_str()))),
        ]);
    }
    for gone in gone() {
        columns.row([
            gone.server.to_string(),
            gone.address.0.to_string(),
            "gone".to_owned(),
            dash(),
            dash(),
            dash(),
            hosts(gone.labels.iter().map(|label| (label.name.as_str(), label.value.as_str()))),
        ]);
    }
    columns
}

/// Bricks, as the coordinator hears them.
fn bricks(picture: &Picture) -> Columns {
    let mut columns = Columns::new(["brick", "address", "state", "memory", "tablets", "life", "host"]);
    for brick in &picture.cluster.bricks {
        columns.row([
            brick.brick.to_string(),
            brick.address.0.to_string(),
            match () {
                () if brick.is_replaced => "replaced".to_owned(),
                () if is_silent(brick) => {
                    let asked = picture.bricks.get(&brick.brick);
                    asked.map_or("silent", |brick| Condition::of(brick).name()).to_owned()
                }
                () if brick.scaling.is_some() => state_text(brick).unwrap_or_default(),
                () if brick.is_removed => "removed".to_owned(),
                () if brick.rebuilding > 0 => format!("{} without vote", brick.rebuilding),
                () => "up".to_owned(),
            },
            percent(brick.used_bytes, brick.log_bytes),
            brick.tablets.to_string(),
            brick.life.to_string(),
            hosts(brick.labels.iter().map(|label| (label.name.as_str(), label.value.as_str()))),
        ]);
    }
    columns
}

fn dash() -> String {
    "-".to_owned()
}

fn percent(part: u64, of: u64) -> String {
    match (part, of) {
        (_, 0) => dash(),
        (0, _) => "0 %".to_owned(),
        _ => match u128::from(part) * 100 / u128::from(of) {
            0 => "<1 %".to_owned(),
            percent => format!("{percent} %"),
        },
    }
}

/// The values of `host` and `rack`, which tell where a server is; other labels by name.
fn hosts<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let told: Vec<String> = labels
        .map(|(name, value)| match name {
            "host" => value.to_owned(),
            _ => format!("{name}={value}"),
        })
        .collect();
    if told.is_empty() { dash() } else { bytes_for_eyes(told.join(",").as_bytes()) }
}

fn servers_wide(picture: &Picture) -> Columns {
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
    for server in &picture.cluster.servers {
        let process = picture.processes.get(&server.id);
        let known = process.and_then(|process| process.as_ref().ok());
        let figure = |figure: &dyn Fn(&ProcessStatus) -> String| known.map_or_else(dash, figure);
        let backup = |figure: &dyn Fn(&BackupStatus) -> String| {
            known.and_then(|process| process.backup.as_ref()).map_or_else(dash, figure)
        };
        columns.row([
            server.id.to_string(),
            server.address.0.to_string(),
            state(server).to_owned(),
            labels(server.labels.iter().map(|label| (label.name.as_str(), label.value.as_str()))),
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
    }
    let listed = |id| picture.cluster.servers.iter().any(|server| server.id == id);
    for gone in picture.cluster.gone.iter().flatten().filter(|gone| !listed(gone.server)) {
        let mut cells = [(); 14].map(|()| dash());
        cells[0] = gone.server.to_string();
        cells[1] = gone.address.0.to_string();
        cells[2] = format!("gone since {}", since_text(gone.since, picture.cluster.time));
        cells[3] = labels(gone.labels.iter().map(|label| (label.name.as_str(), label.value.as_str())));
        columns.row(cells);
    }
    columns
}

fn labels<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value}")).collect();
    if labels.is_empty() { dash() } else { bytes_for_eyes(labels.join(",").as_bytes()) }
}
