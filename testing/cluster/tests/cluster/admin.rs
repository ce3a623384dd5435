//! Metrics and health of real processes.

use ramhold_cluster_tests::{COORDINATOR, Cluster, Failure, Load, Options, wait_for};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const SEED: u64 = 71;
const SOON: Duration = Duration::from_secs(30);

/// The status of an HTTP answer, and its body.
pub fn get(address: SocketAddr, path: &str) -> Result<(u16, String), Failure> {
    let failed = |error: std::io::Error| Failure(format!("GET {path} of {address}: {error}"));
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    stream.set_read_timeout(Some(SOON)).map_err(failed)?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    status.zip(body).ok_or_else(|| Failure(format!("no HTTP: {answer}")))
}

/// The sum of a metric's samples whose labels begin with these.
pub fn sum(page: &str, start: &str) -> f64 {
    let samples = page.lines().filter(|line| line.starts_with(start) && !line.starts_with('#'));
    samples
        .map(|line| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).expect("a number"))
        .sum()
}

/// The page of every server.
fn pages(cluster: &Cluster, servers: usize) -> Result<Vec<String>, Failure> {
    (1..=servers)
        .map(|member| {
            let (status, page) = get(cluster.admin_address(member)?, "/metrics")?;
            assert_eq!(status, 200, "{page}");
            Ok(page)
        })
        .collect()
}

fn total(pages: &[String], start: &str) -> f64 {
    pages.iter().map(|page| sum(page, start)).sum()
}

/// Waits until a process gives this answer. An event loop that gets too little of the machine may be late
/// once.
pub fn wait_ready(address: SocketAddr, status: u16, text: &str) -> Result<(), Failure> {
    wait_for("the answer to /ready", SOON, || {
        let (found, body) = get(address, "/ready")?;
        Ok(if found == status && body.contains(text) { Ok(()) } else { Err(format!("{found} {body}")) })
    })
}

// J5
#[test]
fn metrics_grow_under_load_and_tell_of_a_death() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options { servers: 4, ..Options::default() })?;
    let coordinator = cluster.admin_address(COORDINATOR)?;
    for member in 0..=4 {
        wait_ready(cluster.admin_address(member)?, 200, "serving")?;
    }
    let load = Load::start(&cluster, "data", 2, SEED)?;
    load.wait_acknowledged(200)?;
    let before = pages(&cluster, 4)?;
    let told = load.acknowledged();
    load.wait_acknowledged(500)?;
    let after = pages(&cluster, 4)?;
    let grown = |start: &str| total(&after, start) - total(&before, start);
    // The servers are looked at one after the other, while the load goes on.
    let writes = "ramhold_operations_total{operation=\"write\"}";
    let more = (load.acknowledged() - told) as f64;
    assert!(grown(writes) > 0.0 && grown(writes) <= 2.0 * more + 1000.0, "{} of {more}", grown(writes));
    for start in [
        "ramhold_operations_total{operation=\"read\"}",
        "ramhold_operation_wait_seconds_sum{operation=\"write\"}",
        "ramhold_turn_seconds_count",
        "ramhold_network_received_bytes_total",
        "ramhold_network_sent_bytes_total",
    ] {
        assert!(grown(start) > 0.0, "{start}: {}", grown(start));
    }
    // Every write waits for its backups.
    let at_once = total(&after, "ramhold_operation_wait_seconds_bucket{operation=\"write\",le=\"0.000001\"}");
    let all = total(&after, "ramhold_operation_wait_seconds_count{operation=\"write\"}");
    assert!(at_once < all / 2.0, "{at_once} of {all}");
    assert!(total(&after, "ramhold_objects") > 0.0);
    assert!(total(&after, "ramhold_log_used_bytes") > 0.0);
    assert!(total(&after, "ramhold_backup_frames{of=\"used\"}") > 0.0);
    assert!(total(&after, "ramhold_replication_segments{durability=\"buffered\"}") > 0.0);

    cluster.kill(4);
    cluster.wait_up(3)?;
    let (_, page) = get(coordinator, "/metrics")?;
    assert_eq!(sum(&page, "ramhold_cluster_servers{state=\"up\"}"), 3.0);
    assert_eq!(sum(&page, "ramhold_cluster_recoveries"), 0.0);
    assert!(sum(&page, "ramhold_cluster_last_recovery_seconds") > 0.0, "{page}");
    let table = load.table();
    let journal = load.stop()?;
    assert_eq!(journal.violations, Vec::<String>::new());
    assert!(journal.compare(&cluster, table)?.is_empty());
    Ok(())
}

// J5
#[test]
fn health_tells_of_a_missing_coordinator_only_who_needs_one() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::prepare(Options { servers: 2, ..Options::default() });
    cluster.start_member(1);
    let first = cluster.admin_address(1)?;
    wait_ready(first, 503, "enlisting: the coordinator at")?;
    let (status, page) = get(first, "/metrics")?;
    assert_eq!((status, sum(&page, "ramhold_serving")), (200, 0.0), "{page}");
    // It lives, and need not be restarted.
    let (status, text) = get(first, "/health")?;
    assert!(status == 200 && text.starts_with("enlisting: "), "{status} {text}");

    cluster.start_member(COORDINATOR);
    cluster.start_member(2);
    wait_ready(first, 200, "serving")?;
    wait_ready(cluster.admin_address(COORDINATOR)?, 200, "serving")?;
    cluster.wait_up(2)?;
    // Servers that serve go on serving.
    cluster.kill(COORDINATOR);
    wait_ready(first, 200, "serving")
}

// J5
#[test]
fn a_process_that_stands_still_does_not_answer_and_does_again_when_it_goes_on() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::prepare(Options { servers: 1, ..Options::default() });
    cluster.start_member(COORDINATOR);
    let coordinator = cluster.admin_address(COORDINATOR)?;
    wait_ready(coordinator, 200, "serving")?;
    cluster.process(COORDINATOR).signal(Signal::STOP);
    let mut stream = TcpStream::connect(coordinator).map_err(|error| Failure(error.to_string()))?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).map_err(|error| Failure(error.to_string()))?;
    stream.write_all(b"GET /health HTTP/1.1\r\n\r\n").map_err(|error| Failure(error.to_string()))?;
    assert!(stream.read(&mut [0; 16]).is_err(), "a process that is stopped has answered");
    cluster.process(COORDINATOR).signal(Signal::CONT);
    wait_ready(coordinator, 200, "serving")
}
