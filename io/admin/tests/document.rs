//! Every page is valid for Prometheus, and docs/metrics.md documents exactly the metrics on the pages.
//! `UPDATE=1` writes that document anew.

use ramhold_admin::{Page, Role, write_page};
use ramhold_base::{
    ClusterId, ClusterTime, DirectoryId, Instant, KeyHash, Latencies, ServerId, StreamId, TableId, Term,
};
use ramhold_coordinator::CoordinatorSeen;
use ramhold_node::{BrickSeen, Phase, RespSeen, ServerSeen};
use ramhold_resp::RespStats;
use ramhold_runtime::{LoopSeen, Polled, Stats};
use ramhold_wire::Opcode;
use ramhold_wire::brick_status::{
    AsksStatus, BrickLimit, BrickStatus, QueueStatus, RebuildObstacle, RebuildStatus, SiblingStatus,
    StalledStatus, SweepStatus,
};
use ramhold_wire::control::Address;
use ramhold_wire::membership::Durability;
use ramhold_wire::outage::{Outage, OutageKind, StandingOutage};
use ramhold_wire::statistics::Flags;
use ramhold_wire::status::{BackupStatus, CleaningStatus, DiskFull, GoneReport, ProcessStatus, StreamStatus};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

const HEAD: &str = "\
# Metrics

`--admin ADDR` (or `RAMHOLD_ADMIN`) of `ramhold server`, `ramhold server --brick` and `ramhold coordinator` opens a port for HTTP; without it there is none.
`ramhold dev` opens one for each of its processes and prints where.
What is not a loopback address needs `--insecure-network`: there is no encryption, and whoever reaches it sees all of this, though no keys and no values.

`/metrics` answers in the text format of Prometheus.
`/ready` answers `200 serving` while the process serves, `200 serving, degraded: REASON` when it serves and an operator should do something (the device of a server's backup is full or has failed, the coordinator's store finds no room), and otherwise 503 with a word and the reason: `starting`, `enlisting`, `installing`, `stopping`, or `stuck` with the time for which the event loop has not turned.
`/health` answers with the same text, and with 200 as long as the event loop turns, so also while the process starts. A supervisor that restarts processes asks this one, and a load balancer asks `/ready`.
A server goes on serving without its coordinator, and while it replays what a dead one held: that alone does not make it unready.
A brick is not ready while none of its tablets votes for all keys: `unnamed` (it has no id yet), `starting`, `loading` with the part of its log that is loaded, `rebuilding` with the part that is rebuilt, or `waiting` for its siblings or for room. While some of its tablets vote, and while its log memory is full, it is `serving, degraded`. Below that it tells a line for each sibling that has missed announcements: `silent: ID at ADDRESS`.
A coordinator tells below `serving` how many of the expected servers are up, and a line for each server that is gone: `gone: ID at ADDRESS since TIME: CAUSE`.

Only GET and HEAD are answered, one request for each connection, 16 at a time, with at most 16 KiB of headers that come within 3 seconds.
The event loop makes the figures when it is asked; the text is written on another thread. When it does not answer within 0.8 seconds, the last figures are told, with their age.

Histograms have two buckets for each doubling, from a microsecond to 8 seconds.
The time of an operation in its server is its wait, which is 0 when it could be answered at once, and at most the turn in which it came: `ramhold_operation_wait_seconds` and `ramhold_turn_seconds`. Redis commands on keys of the server that the client is connected to count as operations too.
No label takes its values from what clients send.

Written from the pages themselves by `UPDATE=1 cargo test -p ramhold-admin --test document`.
";

struct Family {
    name: String,
    kind: String,
    help: String,
    labels: BTreeSet<String>,
    /// Labels and value of each sample, by its whole name.
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

fn some_latencies() -> Latencies {
    let mut latencies = Latencies::default();
    latencies.count_at_once(3);
    for micros in [1, 7, 40, 41, 1000, 20_000_000] {
        latencies.count(Duration::from_micros(micros));
    }
    latencies
}

fn server() -> ServerSeen {
    let stream = StreamStatus {
        stream: StreamId(1),
        durability: Durability::Buffered,
        replicas: 3,
        segments: 5,
        incomplete_segments: 1,
        waits_for: Some("a backup with the key \"of a client\"\n in its way".into()),
        unreplicated_bytes: 100,
        unspread_segments: 0,
        outside_segments: 0,
    };
    let status = ProcessStatus {
        server: ServerId(3),
        version: "0.1.0".into(),
        uptime_millis: 1234,
        streams: vec![stream.clone(), stream],
        backup: Some(BackupStatus {
            failed: Some("gone".into()),
            full: Some(DiskFull { since_millis: 34_500, wanted_bytes: 1 << 27, ..DiskFull::default() }),
            ..BackupStatus::default()
        }),
        cleaning: Some(Default::default()),
        scrub: Some(Default::default()),
        results: Some(Default::default()),
        read_lease: Some(Default::default()),
        copying: Some(Default::default()),
        traffic: Some(Default::default()),
        ..ProcessStatus::default()
    };
    let operations =
        [Opcode::Read, Opcode::Write, Opcode::Remove, Opcode::Increment, Opcode::Multi, Opcode::Scan];
    ServerSeen {
        phase: Phase::Serving,
        reason: None,
        cluster: ClusterId(0xc1),
        status,
        operations: operations.into_iter().map(|opcode| (opcode, some_latencies())).collect(),
        resp: Some(RespSeen {
            stats: RespStats::default(),
            connections: 2,
            denied: vec![("auth", 1), ("key", 2)],
            waits: some_latencies(),
        }),
        disk_free_bytes: Some(7),
    }
}

fn brick() -> BrickSeen {
    let address = |port: u16| Address(([10, 0, 0, 1], port).into());
    let sibling = |brick, is_silent| SiblingStatus {
        brick: ServerId(brick),
        address: address(7500),
        life: 1,
        heard_millis: Some(70),
        is_silent,
        is_offline: false,
    };
    let status = BrickStatus {
        life: 4,
        address: address(7501),
        labels: Vec::new(),
        is_serving: true,
        without_vote: 1,
        rebuilding: Some(RebuildStatus {
            table: TableId(7),
            first: KeyHash(0),
            last: KeyHash(u64::MAX),
            permille: 420,
        }),
        siblings: vec![sibling(5, false), sibling(6, true)],
        gets: AsksStatus { asked: 9, answered: 8, rejected: 0, unknown: 0, refused: 1 },
        puts: AsksStatus { asked: 9, answered: 5, rejected: 1, unknown: 1, refused: 1 },
        stamps: AsksStatus::default(),
        repairs: 3,
        sweep: SweepStatus {
            stored: 12,
            whole: 2,
            whole_millis: Some(61_500),
            behind: 7,
            behind_millis: Some(250),
            ended: 5,
        },
        graves: 10,
        graves_gone: 20,
        tablets: Vec::new(),
        loaded_permille: Some(430),
        queues: vec![QueueStatus { length: 3, dropped: 4, delay_nanos: 1500, latency_nanos: 70_000 }; 3],
        flagged: Some(Flags(1 << 16 | 1)),
        reporting: 6,
        rebuild_read: 21,
        rebuild_stored: 22,
        full: None,
        waits_for_room: 0,
        stalled: None,
    };
    BrickSeen {
        trouble: None,
        cluster: ClusterId(0xc1),
        status: ProcessStatus {
            server: ServerId(4),
            tablets: 2,
            brick: Some(status),
            backup: Some(BackupStatus::default()),
            cleaning: Some(Default::default()),
            scrub: Some(Default::default()),
            ..ProcessStatus::default()
        },
        disk_free_bytes: Some(7),
    }
}

fn coordinator() -> CoordinatorSeen {
    CoordinatorSeen {
        reason: None,
        degraded: None,
        uptime: Duration::from_secs(5),
        cluster: ClusterId(0xc1),
        term: Term(2),
        servers_up: 5,
        servers_crashed: 1,
        servers_expected: 7,
        servers_gone: 1,
        gone: vec![GoneReport {
            server: ServerId(7),
            directory: DirectoryId(70),
            address: Address("10.0.0.7:7401".parse().expect("an address")),
            labels: Vec::new(),
            since: ClusterTime(1_700_000_000_000),
            cause: "its connection\nwas refused twice".into(),
        }],
        tables: 2,
        tablets: 10,
        tablets_recovering: 2,
        recoveries: [0, 0, 0, 1],
        last_recovery: Some((1500, 1 << 30)),
        losses: 0,
        warnings: 1,
        cleared: 0,
        outages: vec![StandingOutage {
            outage: Outage {
                what: OutageKind::Switch,
                switch: "<0,0>".into(),
                link: Some("0".into()),
                servers: vec![ServerId(1), ServerId(2), ServerId(3)],
            },
            millis: 5000,
        }],
    }
}

fn page<R: Role>(role: &R) -> String {
    let at_loop = LoopSeen {
        at: Instant(1_000_000_000),
        network: Stats { bytes_sent: u64::MAX, ..Stats::default() },
        connections: 4,
        turns: some_latencies(),
        polled: Polled { idle: Duration::from_micros(1_500), sleeps: 7, shared: 1 },
        waited: Duration::from_millis(3),
        processor: Duration::from_secs(2),
    };
    let mut page = Page::default();
    write_page(&mut page, Instant(1_500_000_000), at_loop.at, Some((&at_loop, role)), false);
    page.into_text()
}

/// The value of a label, from behind its opening quote, and what follows its closing one.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                other => panic!("a wrong escape: {other:?} in {text}"),
            },
            other => value.push(other),
        }
    }
    panic!("no closing quote: {text}");
}

fn is_name(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_inner)
}

/// Reads a page as strictly as the format's description says.
fn families(page: &str) -> Vec<Family> {
    assert!(page.ends_with('\n'));
    let mut families: Vec<Family> = Vec::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help has a text");
            assert!(is_name(name) && name.starts_with("ramhold_"), "{name}");
            assert!(families.iter().all(|family| family.name != name), "{name} is there twice");
            assert!(help.ends_with('.'), "{name} is explained in a sentence: {help}");
            let (name, help) = (name.to_owned(), help.to_owned());
            families.push(Family {
                name,
                kind: String::new(),
                help,
                labels: BTreeSet::new(),
                samples: Vec::new(),
            });
            continue;
        }
        let family = families.last_mut().expect("a page begins with a help");
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type has a kind");
            assert!(name == family.name && family.kind.is_empty() && family.samples.is_empty(), "{line}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            family.kind = kind.to_owned();
            continue;
        }
        let name_end = line.find(['{', ' ']).expect("a sample has a value");
        let (name, mut rest) = line.split_at(name_end);
        let mut labels = BTreeMap::new();
        while let Some(inner) = rest.strip_prefix(['{', ',']) {
            let (label, after) = inner.split_once("=\"").expect("a label has a value");
            assert!(is_name(label), "{line}");
            let (value, after) = quoted(after);
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            family.labels.insert(label.to_owned());
            rest = after;
        }
        let rest = if labels.is_empty() { rest } else { rest.strip_prefix('}').expect("labels are closed") };
        let value: f64 = rest.strip_prefix(' ').and_then(|value| value.parse().ok()).expect("a number");
        assert!(value >= 0.0 && value.is_finite(), "{line}");
        let suffix = name.strip_prefix(family.name.as_str()).expect("a sample is of the family before it");
        match family.kind.as_str() {
            "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
            _ => assert_eq!(suffix, "", "{line}"),
        }
        let is_there = family.samples.iter().any(|(of, set, _)| of == name && *set == labels);
        assert!(!is_there, "twice: {line}");
        family.samples.push((name.to_owned(), labels, value));
    }
    families
}

fn check(family: &Family) {
    assert!(!family.samples.is_empty(), "{} has no samples", family.name);
    assert_eq!(family.kind == "counter", family.name.ends_with("_total"), "{}", family.name);
    let bounded = [
        "operation",
        "le",
        "part",
        "durability",
        "of",
        "kind",
        "distance",
        "state",
        "phase",
        "role",
        "version",
        "cluster",
        "class",
        "outcome",
        // As many as there are reasons for a rebuilding to come no further.
        "obstacle",
        // 17 of them.
        "statistic",
        // The five things that an account can lack.
        "reason",
        // One sample for each of at most 256 servers that are gone.
        "server",
        "address",
    ];
    for label in &family.labels {
        assert!(bounded.contains(&label.as_str()), "{} has the label {label}", family.name);
    }
    if family.kind != "histogram" {
        return;
    }
    assert!(family.name.ends_with("_seconds"), "{}", family.name);
    let mut series: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    for (name, labels, value) in &family.samples {
        let mut rest = labels.clone();
        if let Some(bound) = rest.remove("le") {
            assert!(name.ends_with("_bucket"));
            series.entry(rest).or_default().push((bound.parse().expect("a bound is a number"), *value));
        }
    }
    assert!(!series.is_empty());
    for (labels, buckets) in series {
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{} {labels:?}", family.name);
        let count = family.samples.iter().find(|(name, of, _)| name.ends_with("_count") && *of == labels);
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, count.expect("a histogram has a count").2)));
    }
}

fn table(text: &mut String, families: &[&Family]) {
    text.push_str("\n| metric | kind | labels | what |\n|---|---|---|---|\n");
    for family in families {
        let labels: Vec<String> = family
            .labels
            .iter()
            .filter(|label| *label != "le")
            .map(|label| {
                let values: BTreeSet<&str> = family
                    .samples
                    .iter()
                    .filter_map(|(_, labels, _)| labels.get(label).map(String::as_str))
                    .collect();
                let is_listed =
                    !["version", "cluster", "role", "server", "address"].contains(&label.as_str());
                let values: Vec<&str> = values.into_iter().collect();
                if is_listed { format!("{label}: {}", values.join(", ")) } else { label.clone() }
            })
            .collect();
        let help = family.help.replace('|', "\\|");
        writeln!(text, "| `{}` | {} | {} | {help} |", family.name, family.kind, labels.join("; "))
            .expect("a String takes everything");
    }
}

// J5
#[test]
fn pages_are_well_formed_and_the_document_tells_what_is_on_them() {
    let pages = [families(&page(&server())), families(&page(&brick())), families(&page(&coordinator()))];
    pages.iter().flatten().for_each(check);
    let on = |page: usize, family: &Family| pages[page].iter().any(|of| of.name == family.name);
    let sections: [(&str, usize, [bool; 3]); 5] = [
        ("Every process", 0, [true, true, true]),
        ("Servers and bricks", 0, [true, true, false]),
        ("Servers", 0, [true, false, false]),
        ("Bricks", 1, [false, true, false]),
        ("Coordinators", 2, [false, false, true]),
    ];
    let mut told = 0;
    let mut text = HEAD.to_owned();
    for (title, of, wanted) in sections {
        let is_here = |family: &&Family| [0, 1, 2].map(|page| on(page, family)) == wanted;
        let families: Vec<&Family> = pages[of].iter().filter(is_here).collect();
        told += families.len();
        write!(text, "\n## {title}\n").expect("a String takes everything");
        table(&mut text, &families);
    }
    let names: BTreeSet<&str> = pages.iter().flatten().map(|family| family.name.as_str()).collect();
    assert_eq!(told, names.len(), "each metric is in one section");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("the document can be written");
    }
    let document = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(document == text, "docs/metrics.md is not what the pages say; UPDATE=1 writes it anew");
}

#[test]
fn a_loop_that_has_never_shown_anything_has_a_page_too() {
    let mut page = Page::default();
    write_page::<ServerSeen>(&mut page, Instant(9_000_000_000), Instant(2_000_000_000), None, true);
    let families = families(&page.into_text());
    let value =
        |name: &str| families.iter().find(|family| family.name == name).map(|family| family.samples[0].2);
    assert_eq!(value("ramhold_serving"), Some(0.0));
    assert_eq!(value("ramhold_turn_age_seconds"), Some(7.0));
    assert_eq!(value("ramhold_connections"), None);
}

// B1, J5
#[test]
fn who_is_gone_is_told_and_makes_nobody_unhealthy() {
    let notes = coordinator().notes();
    assert_eq!(notes[0], "servers: 5 of 7 expected are up");
    assert!(notes[1].starts_with("gone: s7 at 10.0.0.7:7401 since 2023-11-14T22:13:20.000Z: "), "{notes:?}");
    assert_eq!(coordinator().trouble(), None);
    let page = page(&coordinator());
    assert!(page.contains("\nramhold_servers_expected 7\n"));
    let since = "ramhold_server_gone_since_seconds{server=\"s7\",address=\"10.0.0.7:7401\"} 1700000000.0";
    assert!(page.contains(since), "{page}");
    let nobody = CoordinatorSeen { gone: Vec::new(), ..coordinator() };
    assert!(!self::page(&nobody).contains("gone_since"));
}

// I6, J5
#[test]
fn a_brick_is_ready_when_a_tablet_votes_and_tells_who_is_silent() {
    assert_eq!(brick().trouble(), None);
    assert_eq!(brick().degraded().as_deref(), Some("1 of 2 tablets do not vote yet"));
    assert_eq!(brick().notes(), ["silent: s6 at 10.0.0.1:7500"]);
    let mut full = brick();
    let cleaning = full.status.cleaning.unwrap_or_default();
    full.status.cleaning = Some(CleaningStatus { is_full: true, ..cleaning });
    assert!(self::page(&full).contains("ramhold_memory_full 1\n"));
    let limits =
        [("log memory is full", "--memory"), ("no frames left", "--disk"), ("index is full", "--memory")];
    for (limit, (what, way_out)) in BrickLimit::ALL.into_iter().zip(limits) {
        full.status.brick = brick().status.brick.map(|brick| BrickStatus { full: Some(limit), ..brick });
        let why = full.degraded().expect("it refuses puts");
        assert!(why.contains(what) && why.contains("remove objects") && why.contains(way_out), "{why}");
        let sample = format!("\nramhold_brick_full{{kind=\"{}\"}} 1\n", limit.name());
        assert!(self::page(&full).contains(&sample), "{sample}");
    }
    let mut waiting = brick();
    waiting.status.brick = brick().status.brick.map(|brick| BrickStatus { waits_for_room: 1, ..brick });
    let why = waiting.degraded().expect("a tablet is not served");
    assert!(why.starts_with("1 of 2 tablets are not served: their stream has no room"), "{why}");
    assert!(self::page(&waiting).contains("\nramhold_brick_tablets_without_room 1\n"));
    let mut stalled = brick();
    let no_place = StalledStatus { obstacle: RebuildObstacle::Index, millis: 61_500, bricks: Vec::new() };
    stalled.status.brick = brick().status.brick.map(|brick| BrickStatus { stalled: Some(no_place), ..brick });
    let why = stalled.degraded().expect("a tablet does not vote");
    let words = "1 of 2 tablets do not vote, and their rebuilding comes no further: the index has no place for further keys; start";
    assert!(why.starts_with(words), "{why}");
    for (obstacle, seconds) in [("index", "61.500000000"), ("memory", "0.000000000")] {
        let sample =
            format!("\nramhold_brick_rebuild_stalled_seconds{{obstacle=\"{obstacle}\"}} {seconds}\n");
        assert!(self::page(&stalled).contains(&sample), "{sample}");
    }
    let rebuilt = BrickSeen { trouble: Some(("rebuilding", "42 % are rebuilt".into())), ..brick() };
    assert!(page(&rebuilt).contains("\nramhold_serving 0\n"));
    let page = page(&brick());
    for sample in [
        "ramhold_serving 1",
        "ramhold_degraded 1",
        "ramhold_brick_life 4",
        "ramhold_brick_rebuilt_permille 420",
        "ramhold_brick_loaded_permille 430",
        "ramhold_brick_siblings{state=\"silent\"} 1",
        "ramhold_brick_answers_total{class=\"put\",outcome=\"rejected\"} 1",
        "ramhold_brick_sweep_age_seconds 61.500000000",
        "ramhold_brick_keys_behind 7",
    ] {
        assert!(page.contains(&format!("\n{sample}\n")), "{sample}: {page}");
    }
}

#[test]
fn what_does_not_serve_says_so() {
    let stopping = ServerSeen { phase: Phase::Stopping, reason: Some("it must".into()), ..server() };
    assert_eq!(stopping.trouble(), Some(("stopping", "it must")));
    assert!(page(&stopping).contains("\nramhold_serving 0\n"));
    assert!(page(&server()).contains("\nramhold_serving 1\n"));
}
