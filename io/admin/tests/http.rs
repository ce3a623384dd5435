//! The admin port as an HTTP client sees it, in front of a loop that the test turns or leaves standing.

#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is wrong")]

use ramhold_admin::{Door, Page, Role};
use ramhold_base::{Effects, Input, Instant, Machine};
use ramhold_runtime::{Runtime, RuntimeConfig, StopHandle};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

/// Whatever is to come has come long before this.
const SOON: Duration = Duration::from_secs(30);

/// Ends when it is told to, and has nothing else to do.
struct Idle {
    is_serving: bool,
}

impl Machine for Idle {
    fn step(&mut self, _: Instant, input: Input<'_>, effects: &mut Effects) {
        if let Input::Stop = input {
            effects.push(ramhold_base::Effect::Exit { code: 0, reason: "stopped".into() });
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

struct Seen {
    is_serving: bool,
    degraded: Option<String>,
}

impl Role for Seen {
    const NAME: &'static str = "idle";

    fn trouble(&self) -> Option<(&str, &str)> {
        if self.is_serving { None } else { Some(("starting", "a test wants it so")) }
    }

    fn degraded(&self) -> Option<String> {
        self.degraded.clone()
    }

    fn write(&self, page: &mut Page) {
        page.gauge("ramhold_test", "T.", 42);
    }
}

/// A loop that stands still, with its door.
fn standing(is_serving: bool) -> (Runtime<Idle>, SocketAddr) {
    standing_degraded(is_serving, None)
}

fn standing_degraded(is_serving: bool, degraded: Option<String>) -> (Runtime<Idle>, SocketAddr) {
    let mut runtime = Runtime::new(Idle { is_serving }, RuntimeConfig::default()).unwrap();
    let door = Door::open((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = door.address();
    let see = move |machine: &Idle, _| Seen { is_serving: machine.is_serving, degraded: degraded.clone() };
    door.serve(&mut runtime, see).unwrap();
    (runtime, address)
}

struct Turning {
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
}

fn turned(mut runtime: Runtime<Idle>) -> Turning {
    let stop = runtime.stop_handle();
    Turning { stop, thread: Some(std::thread::spawn(move || drop(runtime.run()))) }
}

impl Drop for Turning {
    fn drop(&mut self) {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Sends the bytes and reads until the other side closes.
fn answer(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.set_write_timeout(Some(SOON)).unwrap();
    // The server may close the connection while we write. Then the answer that was sent before counts.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn request(address: SocketAddr, line: &str) -> String {
    answer(address, format!("{line} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes())
}

// D3, J5
#[test]
fn what_serves_and_needs_an_operator_says_so_and_is_no_failure() {
    let (runtime, address) = standing_degraded(true, Some("disk full: of /data".into()));
    let _turning = turned(runtime);
    let health = request(address, "GET /health");
    assert!(health.starts_with("HTTP/1.1 200 OK\r\n"), "{health}");
    assert!(health.ends_with("\r\n\r\nserving, degraded: disk full: of /data\n"), "{health}");
    let metrics = request(address, "GET /metrics");
    assert!(metrics.contains("\nramhold_serving 1\n"), "{metrics}");
    assert!(metrics.contains("\nramhold_degraded 1\n"), "{metrics}");
}

#[test]
fn metrics_and_health_are_answered_and_nothing_else() {
    let (runtime, address) = standing(true);
    let _turning = turned(runtime);
    let metrics = request(address, "GET /metrics");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{metrics}");
    assert!(
        metrics.contains("\nramhold_test 42\n") && metrics.contains("\nramhold_serving 1\n"),
        "{metrics}"
    );
    let health = request(address, "GET /health");
    assert!(health.starts_with("HTTP/1.1 200 OK\r\n") && health.ends_with("\r\n\r\nserving\n"), "{health}");
    let ready = request(address, "GET /ready");
    assert!(ready.starts_with("HTTP/1.1 200 OK\r\n") && ready.ends_with("\r\n\r\nserving\n"), "{ready}");
    let head = request(address, "HEAD /health");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    for line in ["GET /", "GET /metrics/", "GET /../health", "POST /"] {
        let refused = request(address, line);
        assert!(
            refused.starts_with("HTTP/1.1 404 ") && refused.contains("/metrics, /health and /ready"),
            "{refused}"
        );
    }
    for line in ["POST /metrics", "PUT /health", "DELETE /ready", "OPTIONS /metrics"] {
        let refused = request(address, line);
        assert!(refused.starts_with("HTTP/1.1 405 ") && refused.contains("allow: GET,HEAD\r\n"), "{refused}");
    }
}

#[test]
fn what_does_not_serve_lives_and_is_not_ready_and_says_why() {
    let (runtime, address) = standing(false);
    let _turning = turned(runtime);
    for (line, status) in [("GET /health", "HTTP/1.1 200 OK\r\n"), ("GET /ready", "HTTP/1.1 503 ")] {
        let told = request(address, line);
        assert!(told.starts_with(status), "{line}: {told}");
        assert!(told.ends_with("\r\n\r\nstarting: a test wants it so\n"), "{line}: {told}");
    }
    assert!(request(address, "GET /metrics").contains("\nramhold_serving 0\n"));
}

#[test]
fn a_loop_that_is_stuck_is_told_of_and_the_last_figures_stay() {
    let (mut runtime, address) = standing(true);
    for line in ["GET /health", "GET /ready"] {
        let stuck = request(address, line);
        assert!(
            stuck.starts_with("HTTP/1.1 503 ") && stuck.contains("stuck: the loop has not turned for"),
            "{line}: {stuck}"
        );
    }
    let nothing = request(address, "GET /metrics");
    assert!(nothing.starts_with("HTTP/1.1 200 OK\r\n") && !nothing.contains("ramhold_test"), "{nothing}");

    // The requests above have asked, so one turn of the loop shows everything. After that turn the loop
    // stands still again.
    runtime.turn(Some(Duration::ZERO));
    let old = request(address, "GET /metrics");
    assert!(old.contains("\nramhold_test 42\n") && old.contains("\nramhold_serving 0\n"), "{old}");

    let _turning = turned(runtime);
    assert!(request(address, "GET /health").starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn bad_input_is_refused_and_the_next_one_is_answered() {
    let (runtime, address) = standing(true);
    let _turning = turned(runtime);
    let long = format!("GET /health HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(100_000));
    let many = format!("GET /health HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(1000));
    let path = format!("GET /{} HTTP/1.1\r\n\r\n", "z".repeat(100_000));
    let attacks: [&[u8]; 8] = [
        b"\x00\xff\x16\x03\x01garbage\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"GET /health HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        long.as_bytes(),
        many.as_bytes(),
        path.as_bytes(),
    ];
    for attack in attacks {
        let refused = answer(address, attack);
        let is_refused = refused.is_empty() || refused.starts_with("HTTP/1.1 4");
        assert!(is_refused, "{:?}: {refused}", String::from_utf8_lossy(&attack[..attack.len().min(40)]));
    }
    // The server does not wait for a request's body.
    let body = answer(address, b"POST /metrics HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\nabc");
    assert!(body.starts_with("HTTP/1.1 405 "), "{body}");
    assert!(request(address, "GET /health").starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn those_who_say_nothing_are_cut_off_and_keep_nobody_out_for_ever() {
    let (runtime, address) = standing(true);
    let _turning = turned(runtime);
    // These are more connections than the server accepts at a time, so the request below waits until the
    // first of them are cut off.
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    for mut stream in &silent {
        stream.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
    }
    assert!(request(address, "GET /health").starts_with("HTTP/1.1 200 OK\r\n"));
    for mut stream in &silent {
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&rest));
    }
}

// A loop that starts again in the same process listens at the same port.
#[test]
fn the_port_is_free_when_the_loop_is_gone() {
    let mut runtime = Runtime::new(Idle { is_serving: true }, RuntimeConfig::default()).unwrap();
    let door = Door::open((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = door.address();
    let see = |machine: &Idle, _| Seen { is_serving: machine.is_serving, degraded: None };
    let thread = door.serve(&mut runtime, see).unwrap();
    drop(runtime);
    thread.join().unwrap();
    assert_eq!(Door::open(address).unwrap().address(), address);
}
