//! The state of real bricks as operators see it: `/metrics`, `/health`, `ramhold bricks` and `ramhold events`.

use crate::admin::{get, sum, wait_ready};
use crate::bricks::write_and_read;
use ramhold_cluster_tests::{Bricks, Failure, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(30);

/// The JSON that the program prints, line by line.
fn json(bricks: &Bricks, words: &[&str]) -> Result<Vec<Value>, Failure> {
    let output = bricks.run(words);
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(Failure(format!("{words:?}: {} {text}", String::from_utf8_lossy(&output.stderr))));
    }
    text.lines().map(|line| serde_json::from_str(line).map_err(|_| Failure(line.to_owned()))).collect()
}

/// A brick in what the program prints.
fn found<'a>(bricks: &Bricks, told: &'a Value, brick: usize) -> &'a Value {
    let address = bricks.address(brick).to_string();
    let mut all = told["bricks"].as_array().into_iter().flatten();
    all.find(|found| found["address"] == address.as_str()).unwrap_or(&Value::Null)
}

/// The life of brick `id` that a brick knows.
fn life_known_to(bricks: &Bricks, told: &Value, brick: usize, id: &Value) -> Option<u64> {
    let mut siblings = found(bricks, told, brick)["siblings"].as_array().into_iter().flatten();
    siblings.find(|sibling| sibling["id"] == *id)?["life"].as_u64()
}

/// The verdict, and the bricks' states in the order of their numbers.
fn states(bricks: &Bricks, words: &[&str]) -> Result<(String, Vec<String>), Failure> {
    let told = json(bricks, words)?.remove(0);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let states = (1..=bricks.count()).map(|brick| text(&found(bricks, &told, brick)["state"]));
    Ok((text(&told["verdict"]), states.collect()))
}

/// Waits until the bricks have these states: one that starts hears its siblings a moment later.
fn wait_states(bricks: &Bricks, words: &[&str], wanted: &(String, Vec<String>)) -> Result<(), Failure> {
    wait_for("the bricks' states", SOON, || {
        let found = states(bricks, words)?;
        Ok(if found == *wanted { Ok(()) } else { Err(format!("{found:?}")) })
    })
}

// I6, J5
#[test]
fn health_and_metrics_of_a_brick_follow_its_votes() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut bricks = Bricks::start(3)?;
    wait_ready(bricks.admin_address(1)?, 200, "serving\n")?;
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    for number in 0..20 {
        write_and_read(&mut client, table, &format!("k{number}"), "v")?;
    }
    let (status, page) = get(bricks.admin_address(2)?, "/metrics")?;
    assert_eq!(status, 200);
    assert!(sum(&page, "ramhold_brick_answers_total{class=\"put\",outcome=\"answered\"}") >= 20.0, "{page}");
    assert!(sum(&page, "ramhold_brick_asks_total{class=\"stamp\"}") > 0.0, "{page}");
    assert_eq!(sum(&page, "ramhold_brick_life"), 1.0);
    assert_eq!(sum(&page, "ramhold_tablets"), 1.0);
    assert!(sum(&page, "ramhold_backup_disk_free_bytes") > 0.0);

    // The others go on without a brick, and say that it is silent.
    bricks.signal(&[3], Signal::STOP);
    wait_ready(bricks.admin_address(2)?, 200, "\nsilent: ")?;
    // A brick that starts hears nobody, and does not vote.
    bricks.signal(&[2], Signal::STOP);
    bricks.kill(1);
    bricks.start_brick(1);
    bricks.wait_serving(1)?;
    wait_ready(bricks.admin_address(1)?, 503, "waiting: its tablet does not vote")?;
    let (_, page) = get(bricks.admin_address(1)?, "/metrics")?;
    assert_eq!((sum(&page, "ramhold_serving"), sum(&page, "ramhold_brick_tablets_without_vote")), (0.0, 1.0));
    bricks.signal(&[2, 3], Signal::CONT);
    wait_ready(bricks.admin_address(1)?, 200, "serving\n")
}

// I6, J5
#[test]
fn bricks_and_their_events_are_shown_with_and_without_the_coordinator() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut bricks = Bricks::start(3)?;
    bricks.create_table("carts", 3)?;
    let healthy = ("healthy".to_owned(), vec!["serving".to_owned(); 3]);
    wait_states(&bricks, &["bricks", "--json"], &healthy)?;
    let second = found(&bricks, &json(&bricks, &["bricks", "--json"])?.remove(0), 2)["id"].clone();
    let name = format!("s{second}");
    // Only a life that was known can be told as over.
    wait_for("the second brick's life", SOON, || {
        let told = json(&bricks, &["bricks", "--json"])?.remove(0);
        let lives = [1, 3].map(|brick| life_known_to(&bricks, &told, brick, &second));
        Ok(if lives == [Some(1), Some(1)] { Ok(()) } else { Err(format!("{lives:?}")) })
    })?;

    bricks.kill(2);
    let wanted = ("degraded".to_owned(), ["serving", "silent", "serving"].map(String::from).to_vec());
    assert_eq!(states(&bricks, &["bricks", "--json"])?, wanted);
    // Any brick knows the others, and so those that are silent.
    bricks.signal_coordinator(Signal::STOP);
    let one = bricks.address(3).to_string();
    assert_eq!(states(&bricks, &["bricks", "--json", "--bricks", &one])?, wanted);
    let text = bricks.run(&["bricks", "--bricks", &one]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("the coordinator tells nothing") && text.contains("silent "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");

    let kinds = |bricks: &Bricks| -> Result<Vec<String>, Failure> {
        let events = json(bricks, &["events", "--json", "--brick", &name, "--bricks", &one])?;
        let of = events.into_iter().filter(|event| event["about"] == second);
        Ok(of.map(|event| event["kind"].as_str().unwrap_or_default().to_owned()).collect())
    };
    wait_for("the silence", SOON, || {
        let kinds = kinds(&bricks)?;
        let count = kinds.iter().filter(|kind| *kind == "sibling-silent").count();
        Ok(if count == 2 { Ok(()) } else { Err(format!("{kinds:?}")) })
    })?;
    bricks.start_brick(2);
    bricks.wait_serving(2)?;
    wait_for("the return", SOON, || {
        let kinds = kinds(&bricks)?;
        let of = |kind: &str| kinds.iter().filter(|it| *it == kind).count();
        let counts = ["life-begun", "sibling-restarted", "sibling-heard"].map(of);
        Ok(if counts == [1, 2, 2] { Ok(()) } else { Err(format!("{kinds:?}")) })
    })?;
    assert_eq!(states(&bricks, &["bricks", "--json", "--bricks", &one])?.1, healthy.1);
    bricks.signal_coordinator(Signal::CONT);
    wait_states(&bricks, &["bricks", "--json"], &healthy)
}
