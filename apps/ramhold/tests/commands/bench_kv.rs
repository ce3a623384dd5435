//! `ramhold bench kv` against a played cluster, and against a played server of Redis's protocol.

use crate::binary::{Ran, nobody, ramhold_at};
use crate::played::{Mischief, Played};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

fn count(run: &Value, kind: &str) -> u64 {
    run["run"][kind]["count"].as_u64().unwrap()
}

// E3: an insert is read only when it has ended, so nothing that is read is absent.
#[test]
fn the_workloads_of_ycsb_have_their_operations() {
    for (letter, often, seldom, never) in [
        ("d", "reads", "inserts", ["writes", "modifies", "scans"]),
        ("E", "scans", "inserts", ["reads", "writes", "modifies"]),
        ("f", "reads", "modifies", ["writes", "inserts", "scans"]),
    ] {
        let played = Played::start(Mischief::default());
        let arguments =
            ["bench", "kv", "--ycsb", letter, "--objects", "300", "--seconds", "1", "--clients", "2"];
        let run = played.ramhold(&[&arguments[..], &["--json"]].concat()).ok().json();
        assert_eq!(run["run"]["errors"], json!({}), "{letter}");
        assert_eq!((&run["value_bytes"], &run["contradiction"]), (&json!(1000), &Value::Null));
        assert!(count(&run, often) > 0 && count(&run, seldom) > 0, "{letter}: {run}");
        if seldom == "inserts" {
            assert!(count(&run, often) > count(&run, seldom), "{letter}: {run}");
        }
        assert!(never.iter().all(|kind| count(&run, kind) == 0), "{letter}: {run}");
    }
}

#[test]
fn a_load_that_cannot_be_carried_out_is_refused_before_anybody_is_asked() {
    for (arguments, way_out) in [
        (&["--ycsb", "e", "--pipeline", "11"][..], "--pipeline must be at most 10"),
        (&["--objects", "300", "--key-bytes", "2"], "between 3 and"),
        (&["--value-bytes", "1048577"], "at most 1048576"),
        (&["--pipeline", "4", "--multi", "5"], "more than --pipeline"),
    ] {
        let said = ramhold_at(&nobody(), b"", &[&["bench", "kv"][..], arguments].concat()).failed(2);
        assert!(said.contains(way_out), "{said}");
    }
    for arguments in [
        &["--ycsb", "g"][..],
        &["--ycsb", "a", "--read-percent", "5"],
        &["--resp", "127.0.0.1:1", "--table", "t"],
        &["--resp", "127.0.0.1"],
    ] {
        assert_eq!(ramhold_at(&nobody(), b"", &[&["bench", "kv"][..], arguments].concat()).code, 2);
    }
}

/// Answers GET, SET, MGET and MSET from a map.
#[derive(Clone, Default)]
struct Redis {
    objects: Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>,
    commands: Arc<Mutex<BTreeSet<Vec<u8>>>>,
    /// Writes are refused with this.
    refusal: Option<&'static str>,
    /// So many commands of a connection are answered, then it is closed.
    answers_max: Option<usize>,
}

impl Redis {
    /// Serves as many connections as come, each on a thread of its own.
    fn start(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let redis = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let redis = redis.clone();
                // A client that has gone ends its thread.
                std::thread::spawn(move || drop(redis.serve(stream.unwrap())));
            }
        });
        address
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let (mut from, mut to) = (BufReader::new(stream.try_clone()?), stream);
        for answered in 0.. {
            if self.answers_max == Some(answered) {
                break;
            }
            let words = command(&mut from)?;
            self.commands.lock().unwrap().insert(words[0].clone());
            let reply = self.answer(&words);
            // Now and then a reply comes in two pieces.
            let (now, later) = reply.split_at(if answered % 5 == 0 { reply.len() / 2 } else { reply.len() });
            to.write_all(now)?;
            to.write_all(later)?;
        }
        Ok(())
    }

    fn answer(&self, words: &[Vec<u8>]) -> Vec<u8> {
        let mut objects = self.objects.lock().unwrap();
        match &words[0][..] {
            b"GET" => value(&objects, &words[1]),
            b"MGET" => {
                let head = format!("*{}\r\n", words.len() - 1).into_bytes();
                let values = words[1..].iter().map(|key| value(&objects, key));
                [head].into_iter().chain(values).collect::<Vec<_>>().concat()
            }
            b"SET" | b"MSET" => {
                if let Some(refusal) = self.refusal {
                    return format!("-{refusal}\r\n").into_bytes();
                }
                for pair in words[1..].chunks(2) {
                    objects.insert(pair[0].clone(), pair[1].clone());
                }
                b"+OK\r\n".to_vec()
            }
            other => panic!("nobody sends {other:?}"),
        }
    }
}

fn command(from: &mut impl BufRead) -> std::io::Result<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    for _ in 0..length(from, "*")? {
        let mut word = vec![0; length(from, "$")? + 2];
        from.read_exact(&mut word)?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    Ok(words)
}

fn value(objects: &BTreeMap<Vec<u8>, Vec<u8>>, key: &[u8]) -> Vec<u8> {
    match objects.get(key) {
        Some(value) => [format!("${}\r\n", value.len()).as_bytes(), &value[..], &b"\r\n"[..]].concat(),
        None => b"$-1\r\n".to_vec(),
    }
}

fn length(from: &mut impl BufRead, kind: &str) -> std::io::Result<usize> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().strip_prefix(kind).unwrap().parse().unwrap())
}

fn bench(address: SocketAddr, more: &[&str]) -> Ran {
    let address = address.to_string();
    let arguments = ["bench", "kv", "--resp", &address, "--objects", "300", "--seconds", "1", "--json"];
    // No cluster is asked.
    ramhold_at(&nobody(), b"", &[&arguments[..], more].concat())
}

// E3, J1
#[test]
fn the_same_load_goes_to_any_server_of_redis_s_protocol() {
    for (arguments, commands, places) in [
        (&["--value-bytes", "0", "--pipeline", "1"][..], &["GET", "SET"][..], 1.0),
        (&["--multi", "8", "--clients", "2", "--value-bytes", "70000"], &["MGET", "MSET"], 32.0),
        (&["--ycsb", "e"], &["MGET", "SET"], 8.0),
        (&["--ycsb", "f", "--rate", "500"], &["GET", "SET"], 16.0),
    ] {
        let redis = Redis::default();
        // The played server is a part of this process.
        let process = std::process::id().to_string();
        let run = bench(redis.start(), &[arguments, &["--server-pid", &process]].concat()).ok().json();
        assert!(run["server_cpu"]["micros_per_operation"].as_f64().unwrap() >= 0.0, "{run}");
        assert_eq!((&run["protocol"], &run["run"]["errors"]), (&json!("resp"), &json!({})), "{arguments:?}");
        assert_eq!((&run["contradiction"], &run["places"]), (&Value::Null, &json!(places)), "{arguments:?}");
        assert_eq!(run["fill"]["writes"]["count"], 300);
        assert!(run["run"]["ops_per_second"].as_f64().unwrap() > 0.0, "{run}");
        let seen = redis.commands.lock().unwrap();
        let seen: Vec<&str> = seen.iter().map(|word| std::str::from_utf8(word).unwrap()).collect();
        assert!(commands.iter().all(|command| seen.contains(command)), "{seen:?} {arguments:?}");
        let objects = redis.objects.lock().unwrap();
        let bytes = run["value_bytes"].as_u64().unwrap() as usize;
        assert!(objects.len() >= 300 && objects.values().all(|value| value.len() == bytes));
        assert!(objects.contains_key(format!("{:030}", 299).as_bytes()));
    }
}

// J1
#[test]
fn a_refusal_a_broken_connection_and_nobody_are_told_apart() {
    let full = Redis { refusal: Some("OOM no memory is left"), ..Redis::default() };
    let said = bench(full.start(), &[]).failed(3);
    assert!(said.contains("OOM no memory is left") && said.contains("0 of 300 objects"), "{said}");
    let breaks = Redis { answers_max: Some(100), ..Redis::default() };
    let said = bench(breaks.start(), &[]).failed(5);
    assert!(said.contains("connection lost") && said.contains("of 300 objects"), "{said}");
    // The fill has a connection of its own, which is not closed.
    let breaks = Redis { answers_max: Some(300), ..Redis::default() };
    let run = bench(breaks.start(), &[]);
    assert_eq!(run.code, 3, "{run:?}");
    let errors = &run.json()["run"]["errors"];
    assert_eq!(errors.as_object().unwrap().keys().collect::<Vec<_>>(), ["connection lost"], "{errors}");
    // Those in the 16 places, and the one that was about to be sent.
    assert!(errors["connection lost"].as_u64().unwrap() <= 17, "the run ends with its connection: {errors}");
    let said = bench(nobody().parse().unwrap(), &[]).failed(5);
    assert!(said.contains("--resp"), "{said}");
}

/// Shows a page of metrics to whoever asks; a counter grows from time to time.
fn show_metrics(pages: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for (stream, page) in listener.incoming().zip(pages.iter().cycle()) {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while stream.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", page.len());
            stream.get_mut().write_all([head.as_bytes(), page.as_bytes()].concat().as_slice()).unwrap();
        }
    });
    address
}

// E2, J5
#[test]
fn the_time_in_which_a_server_found_no_work_is_taken_off() {
    let (redis, own) = (Redis::default().start(), std::process::id().to_string());
    let admin =
        show_metrics(&["ramhold_loop_idle_seconds_total 5\n", "ramhold_loop_idle_seconds_total 5.25\n"]);
    let run = bench(redis, &["--server-pid", &own, "--server-admin", &admin]).ok().json();
    let cpu = |name: &str| run["server_cpu"][name].as_f64().unwrap();
    assert_eq!(cpu("idle_seconds"), 0.25);
    let done = run["run"]["ops_per_second"].as_f64().unwrap() * run["run"]["seconds"].as_f64().unwrap();
    let work = (cpu("seconds") - 0.25).max(0.0) * 1e6 / done;
    assert!((cpu("work_micros_per_operation") - work).abs() < 0.01 * work.max(1.0), "{run}");
    // A server that does not tell it is asked in vain, and that is said before anything is measured.
    let silent = show_metrics(&["ramhold_up 1\n"]);
    let said = bench(redis, &["--server-pid", &own, "--server-admin", &silent]).failed(2);
    assert!(said.contains("no ramhold_loop_idle_seconds_total"), "{said}");
    let said = bench(redis, &["--server-pid", &own, "--server-admin", &nobody()]).failed(5);
    assert!(said.contains("with --admin"), "{said}");
    assert_eq!(bench(redis, &["--server-admin", &admin]).code, 2);
}
