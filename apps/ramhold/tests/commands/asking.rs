//! The commands that show the state of the cluster, and the benchmark.

use crate::played::{Mischief, Played};

#[test]
fn status_shows_servers_warnings_losses_and_recoveries() {
    // J5
    let played = Played::start(Mischief::default());
    played.ramhold(&["table", "create", "users"]).ok();
    let text = played.ramhold(&["status"]).ok().text();
    assert!(text.starts_with("critical: 2 of 4 servers up; 6 findings, the gravest first\n"), "{text}");
    let wanted = [
        "- critical: writes to t1 on s9 may be gone: the table keeps no replicas\n  do: 'ramhold acknowledge-loss 4'",
        "- critical: r5 of s3 waits for: segment seg7\n  do: start the servers that are down;",
        "- critical: writes on s1 wait: a third backup (100 B not replicated)\n  do: start servers",
        "- degraded: fewer failure domains than replicas\n  do: start more\n",
        "- degraded: s6 at 10.0.0.6:7401 is gone since 2023-11-14 22:13 UTC (",
        "  do: start it again on its directory, or 'ramhold server forget s6'\n",
        "- degraded: s2 at 127.0.0.1:1 does not tell its figures:",
        "cluster c000000000000004d: 1 table, 1 tablet, 0 recovering\n",
        "s2      127.0.0.1:1      silent  -       -     -        h2\n",
        "s6      10.0.0.6:7401    gone    -       -     -        h6\n",
        "dead",
        "users",
    ];
    for wanted in wanted {
        assert!(text.contains(wanted), "'{wanted}' is missing in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains('\x1b'), "colours are for terminals");
    let wide = played.ramhold(&["status", "--wide"]).ok().text();
    for wanted in
        ["coordinator 0.1.0, term2; replicas are placed by scatter", "1.0 MiB   1.0 GiB", "host=h1", "3/10"]
    {
        assert!(wide.contains(wanted), "'{wanted}' is missing in:\n{wide}");
    }
    let json = played.ramhold(&["status", "--json"]).ok().json();
    assert_eq!((&json["verdict"], &json["cluster"]), (&"critical".into(), &"c000000000000004d".into()));
    assert_eq!((&json["expected"], &json["gone"][0]["id"]), (&4.into(), &6.into()));
    assert_eq!(json["findings"][0]["grade"], "critical");
    assert_eq!(json["servers"][0]["log_used_bytes"], 1 << 20);
    assert_eq!(json["servers"][0]["backup"]["frames_max"], 10);
    assert!(json["servers"][1]["unreachable"].is_string());
    assert_eq!(json["servers"][2]["state"], "crashed");
    assert_eq!(json["tables"][0]["name"], "users");
    assert_eq!(json["losses"][0]["id"], 4);
    played.ramhold(&["acknowledge-loss", "4"]).ok();
    assert!(!played.ramhold(&["status"]).ok().text().contains("loss 4"));
}

// B1
#[test]
fn a_server_that_is_gone_is_forgotten() {
    let played = Played::start(Mischief::default());
    let up = played.ramhold(&["server", "forget", "s1"]).failed(3);
    assert_eq!(up, "ramhold: s1 is up; stop it first, then forget it when it is gone\n");
    assert!(
        played
            .ramhold(&["server", "forget", "s9"])
            .failed(1)
            .contains("s9 is not gone; these servers are gone: s6")
    );
    assert_eq!(played.ramhold(&["server", "forget", "s6"]).ok().text(), "s6 is not expected any more\n");
    let text = played.ramhold(&["status"]).ok().text();
    assert!(text.contains("2 of 3 servers up") && !text.contains("s6"), "{text}");
    assert!(played.ramhold(&["server", "forget", "s6"]).failed(1).contains("no server is gone"));
    assert_eq!(played.ramhold(&["server", "forget", "6"]).code, 2);
}

#[test]
fn recoveries_show_their_times() {
    // F11
    let played = Played::start(Mischief::default());
    let text = played.ramhold(&["recoveries"]).ok().text();
    for wanted in
        ["r5", "s3", "incomplete", "0/4", "2.0 KiB", "connection refused …", "r5 waits for: segment seg7"]
    {
        assert!(text.contains(wanted), "'{wanted}' is missing in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let wide = played.ramhold(&["recoveries", "--wide"]).ok().text();
    for wanted in ["s3 127.0.0.1", "120 ms", "2048 (2.0 KiB)", "connection refused twice"] {
        assert!(wide.contains(wanted), "'{wanted}' is missing in:\n{wide}");
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
    assert!(text.contains("cause: connection refused twice\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
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
fn a_network_can_be_drawn() {
    // H1, H2
    let played = Played::start(Mischief { topology: Some("bcube:3,1"), ..Mischief::default() });
    let path = std::env::temp_dir().join(format!("ramhold-network-{}.svg", std::process::id()));
    let drawn = |arguments: &[&str]| {
        let text = played.ramhold(&[arguments, &["--svg", path.to_str().unwrap()]].concat()).ok().text();
        let drawn = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        (text, drawn)
    };
    let (text, network) = drawn(&["topology", "show"]);
    assert!(text.contains("bcube:3,1: 2 servers up at 9 places"), "{text}");
    for wanted in [">00  s1<", ">02  s3<", ">down<", ">&lt;1,2&gt;<"] {
        assert!(network.contains(wanted), "'{wanted}' is missing in:\n{network}");
    }
    let (text, rings) = drawn(&["topology", "rings", "00"]);
    assert!(text.contains("the servers near 00"), "{text}");
    assert!(rings.contains("the rings of 00") && rings.contains(">recovers<"), "{rings}");
    let flat = Played::start(Mischief::default());
    let refused = flat.ramhold(&["topology", "show", "--svg", path.to_str().unwrap()]).failed(2);
    assert!(refused.contains("the topology is flat"), "{refused}");
    assert!(!path.exists());
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
        "--pipeline",
        "4",
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
    // E2: Little's law. Times of closed loops that include a wait for a place would make it 5 of 4 for each client.
    let number = |at: &serde_json::Value| at.as_f64().unwrap();
    let busy =
        |kind: &str| number(&json["run"][kind]["ops_per_second"]) * number(&json["run"][kind]["mean_nanos"]);
    let under_way = (busy("reads") + busy("writes")) / 1e9;
    assert!(under_way <= 8.0 * 1.03, "{under_way} of 8 places were taken: {json}");
    assert!(under_way >= 4.0, "{under_way} of 8 places were taken: {json}");
    assert_eq!(
        (&json["places"], &json["contradiction"]),
        (&serde_json::json!(8.0), &serde_json::Value::Null)
    );
    // Every object exists: the last one stands for all.
    let last = format!("{:030}", 299);
    assert_eq!(played.ramhold(&["get", "bench", &last]).ok().stdout.len(), 100);
    played.ramhold(&["bench", "kv", "--objects", "300", "--key-bytes", "2"]).failed(2);
}
