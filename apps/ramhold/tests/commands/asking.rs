//! Commands that show the state of the cluster, and the benchmark.

use crate::played::{Mischief, Played};

#[test]
fn status_shows_servers_warnings_losses_and_recoveries() {
    // J5
    let played = Played::start(Mischief::default());
    played.ramhold(&["table", "create", "users"]).ok();
    let text = played.ramhold(&["status"]).ok().text();
    let wanted = [
        "cluster c77 (coordinator 0.1.0, term2): 2 of 3 servers up, 1 tables, 1 tablets, 0 recovering",
        "warning: fewer failure domains than replicas",
        "loss 4: writes to t1 on server s9 may be gone: the table keeps no replicas",
        "host=h1",
        "1.0 MiB   1.0 GiB",
        "s2 does not tell its figures",
        "127.0.0.1:1 refused the connection",
        "s1 stream st1 waits for a third backup (100 bytes not replicated)",
        "crashed",
        "users",
        "r5 waits for: segment seg7",
    ];
    for wanted in wanted {
        assert!(text.contains(wanted), "'{wanted}' is missing in:\n{text}");
    }
    let json = played.ramhold(&["status", "--json"]).ok().json();
    assert_eq!(json["cluster"], "c77");
    assert_eq!(json["servers"][0]["log_used_bytes"], 1 << 20);
    assert_eq!(json["servers"][0]["backup"]["frames_max"], 10);
    assert!(json["servers"][1]["unreachable"].is_string());
    assert_eq!(json["servers"][2]["state"], "crashed");
    assert_eq!(json["tables"][0]["name"], "users");
    assert_eq!(json["losses"][0]["id"], 4);
    played.ramhold(&["acknowledge-loss", "4"]).ok();
    assert!(!played.ramhold(&["status"]).ok().text().contains("loss 4"));
}

#[test]
fn recoveries_show_their_times() {
    // F11
    let played = Played::start(Mischief::default());
    let text = played.ramhold(&["recoveries"]).ok().text();
    for wanted in
        ["r5", "s3 127.0.0.1", "incomplete", "120 ms", "0/4", "2048 (2.0 KiB)", "connection refused twice"]
    {
        assert!(text.contains(wanted), "'{wanted}' is missing in:\n{text}");
    }
    let json = played.ramhold(&["recoveries", "--json"]).ok().json();
    assert_eq!(
        (&json[0]["complete_millis"], &json[0]["done_millis"]),
        (&120.into(), &serde_json::Value::Null)
    );
}

#[test]
fn the_course_of_a_recovery_tells_what_backups_did() {
    // F11
    let played = Played::start(Mischief::default());
    let text = played.ramhold(&["recoveries", "last"]).ok().text();
    let line = |begin: &str| {
        let found = text.lines().find(|line| line.starts_with(begin));
        found.unwrap_or_else(|| panic!("no '{begin}' in:\n{text}")).split_whitespace().collect::<Vec<_>>()
    };
    let read = ["read", "130", "ms", "-", "-", "9", "ms", "33", "segments", "4.0", "KiB"];
    assert_eq!(line("read  "), read, "it is not over, so more may follow");
    assert_eq!(line("divide ")[7..9], ["32", "segments"]);
    assert_eq!(line("s4 ").last(), Some(&"7"), "what it holds");
    let json = played.ramhold(&["recoveries", "r5", "--json"]).ok().json();
    let course = json["course"].as_array().unwrap();
    let divide = course.iter().find(|step| step["step"] == "divide").unwrap();
    assert_eq!(
        (&divide["count"], &divide["bytes"], &divide["busy_micros"]),
        (&32.into(), &4096.into(), &9000.into())
    );
    assert_eq!(json["backups"][0]["read"]["to_millis"], 150);
    assert_eq!(json["steps"]["freed_millis"], serde_json::Value::Null);
}

#[test]
fn the_course_of_a_recovery_can_be_drawn() {
    // F11
    let played = Played::start(Mischief::default());
    let path = std::env::temp_dir().join(format!("ramhold-course-{}.svg", std::process::id()));
    played.ramhold(&["recoveries", "--svg", path.to_str().unwrap()]).ok();
    let drawn = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    for wanted in
        ["r5 of s3", "cut in partitions", "33 segments, 4.0 KiB", "backup s4", "33 read, 32 divided, 0 freed"]
    {
        assert!(drawn.contains(wanted), "'{wanted}' is missing in:\n{drawn}");
    }
}

#[test]
fn the_benchmark_counts_what_it_did() {
    let played = Played::start(Mischief { retry_every: 50, ..Mischief::default() });
    let arguments = [
        "bench",
        "kv",
        "--objects",
        "300",
        "--seconds",
        "1",
        "--clients",
        "2",
        "--read-percent",
        "70",
        "--json",
    ];
    let json = played.ramhold(&arguments).ok().json();
    assert_eq!(json["fill"]["writes"]["count"], 300);
    assert_eq!(json["run"]["errors"], serde_json::json!({}));
    let count = |kind: &str| json["run"][kind]["count"].as_u64().unwrap();
    let (reads, writes) = (count("reads"), count("writes"));
    assert!(reads > writes, "{reads} reads, {writes} writes");
    assert!(json["run"]["seconds"].as_f64().unwrap() >= 1.0);
    assert!(json["run"]["reads"]["p50_nanos"].as_u64().unwrap() > 0);
    // Every object is there.
    let last = format!("{:030}", 299);
    assert_eq!(played.ramhold(&["get", "bench", &last]).ok().stdout.len(), 100);
    played.ramhold(&["bench", "kv", "--objects", "300", "--key-bytes", "2"]).failed(2);
}
