//! Proves that the comparison notices differences: a server in between alters replies, and another one alters
//! none.
//!
//! These tests need redis-server. Without it they say so and pass, but they fail with CI=true.

use ramhold_differential::differences::Differences;
use ramhold_differential::link::Servers;
use ramhold_differential::redis::Redis;
use ramhold_differential::reply::{ManyKind, NullKind, Reply, read};
use ramhold_differential::run::{Outcome, Plan, run};
use std::collections::BTreeSet;
use std::io::{BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// May alter a reply; true when it did.
type Alter = dyn Fn(&mut Reply) -> bool + Send + Sync;

/// Stands between the comparison and a server, until the test's process ends.
fn between(server: SocketAddr, alter: Arc<Alter>) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let altered = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&altered);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(server).expect("the server listens");
            for stream in [&client, &server] {
                stream.set_nodelay(true).expect("a socket takes the option");
            }
            let (mut from, mut to) = (clone(&client), clone(&server));
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
            let (alter, count) = (Arc::clone(&alter), Arc::clone(&count));
            std::thread::spawn(move || pass_replies(server, client, &*alter, &count));
        }
    });
    (address, altered)
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a descriptor is left")
}

fn pass_replies(server: TcpStream, mut client: TcpStream, alter: &Alter, count: &AtomicU64) {
    let mut replies = BufReader::new(server);
    while let Ok(mut reply) = read(&mut replies) {
        if alter(&mut reply) {
            count.fetch_add(1, Ordering::SeqCst);
        }
        let mut bytes = Vec::new();
        write(&reply, &mut bytes);
        if client.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}

fn write(reply: &Reply, out: &mut Vec<u8>) {
    let line = |kind: u8, bytes: &[u8], out: &mut Vec<u8>| {
        out.push(kind);
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    };
    let long = |kind: u8, bytes: &[u8], out: &mut Vec<u8>| {
        line(kind, bytes.len().to_string().as_bytes(), out);
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    };
    match reply {
        Reply::Simple(bytes) => line(b'+', bytes, out),
        Reply::Error(bytes) => line(b'-', bytes, out),
        Reply::Integer(number) => line(b':', number.to_string().as_bytes(), out),
        Reply::Bulk(bytes) => long(b'$', bytes, out),
        Reply::Verbatim(bytes) => long(b'=', bytes, out),
        Reply::Null(NullKind::Bulk) => line(b'$', b"-1", out),
        Reply::Null(NullKind::Array) => line(b'*', b"-1", out),
        Reply::Null(NullKind::Plain) => line(b'_', b"", out),
        Reply::Double(bytes) => line(b',', bytes, out),
        Reply::BigNumber(bytes) => line(b'(', bytes, out),
        Reply::Boolean(is) => line(b'#', if *is { b"t" } else { b"f" }, out),
        Reply::Many(kind, elements) => {
            let (kind, count) = match kind {
                ManyKind::Array => (b'*', elements.len()),
                ManyKind::Set => (b'~', elements.len()),
                ManyKind::Push => (b'>', elements.len()),
                ManyKind::Map => (b'%', elements.len() / 2),
            };
            line(kind, count.to_string().as_bytes(), out);
            elements.iter().for_each(|element| write(element, out));
        }
    }
}

/// Two servers of our own; none when there is no redis-server here.
fn servers() -> Option<(Redis, Redis)> {
    match (Redis::start(), Redis::start()) {
        (Ok(left), Ok(right)) => Some((left, right)),
        (Err(error), _) | (_, Err(error)) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

fn compare(left: SocketAddr, right: SocketAddr, seed: u64, commands: u64) -> Outcome {
    println!("seed {seed}");
    let plan = Plan {
        servers: Servers { left, right },
        seed,
        commands,
        connections: 2,
        kinds_max: 1000,
        only: None,
        without: BTreeSet::new(),
    };
    run(&plan, &Differences::default(), |_| {}).expect("both servers answer")
}

#[test]
fn two_servers_of_one_kind_do_not_differ_and_every_command_is_compared() {
    let Some((left, right)) = servers() else { return };
    let outcome = compare(left.address(), right.address(), 11, 60_000);
    assert_eq!(outcome.count, 0, "{:#?}", outcome.findings);
    let commands = "APPEND BITCOUNT BITFIELD BITOP BITPOS COPY DBSIZE DECR DECRBY DEL DISCARD DUMP ECHO EXEC EXISTS \
                    EXPIRE EXPIREAT EXPIRETIME FLUSHDB GET GETBIT GETDEL GETEX GETRANGE GETSET HELLO INCR INCRBY \
                    INCRBYFLOAT KEYS LCS MGET MSET MSETNX MULTI PERSIST PEXPIRE PEXPIREAT PEXPIRETIME PING PSETEX PTTL \
                    PUBLISH RANDOMKEY RENAME RENAMENX RESET RESTORE SCAN SELECT SET SETBIT SETEX SETNX SETRANGE STRLEN \
                    SUBSTR TOUCH TTL TYPE UNLINK UNWATCH WATCH";
    for command in commands.split_whitespace() {
        let [good, _] = outcome.tally.0.get(command).copied().unwrap_or_default();
        assert!(good >= 20, "{command} was answered {good} times only");
    }
    for command in ["SET", "GETEX", "BITFIELD", "EXEC", "RESTORE", "COPY", "LCS", "EXPIRE", "SELECT", "HELLO"]
    {
        assert!(outcome.tally.0[command][1] >= 20, "{command} had few errors");
    }
}

#[test]
fn one_altered_reply_in_ten_thousand_is_found() {
    let Some((left, right)) = servers() else { return };
    let count = AtomicU64::new(0);
    let alter = move |reply: &mut Reply| {
        if !count.fetch_add(1, Ordering::SeqCst).is_multiple_of(10_000) {
            return false;
        }
        match reply {
            Reply::Simple(line) | Reply::Error(line) => line.push(b'.'),
            // Large enough for times, too.
            Reply::Integer(number) => *number = number.wrapping_add(1_000_000),
            Reply::Bulk(bytes) | Reply::Verbatim(bytes) | Reply::Double(bytes) | Reply::BigNumber(bytes) => {
                bytes.push(b'0');
            }
            Reply::Null(_) => *reply = Reply::Bulk(Vec::new()),
            Reply::Boolean(is) => *is = !*is,
            Reply::Many(ManyKind::Map, _) => *reply = Reply::Simple(b"OK".to_vec()),
            Reply::Many(_, elements) => elements.push(Reply::Integer(1)),
        }
        true
    };
    let (right, altered) = between(right.address(), Arc::new(alter));
    let outcome = compare(left.address(), right, 12, 150_000);
    let altered = altered.load(Ordering::SeqCst);
    // Some replies are compared by type only. Replies are also altered now and then while an episode is made
    // shorter.
    assert!(altered >= 15, "only {altered} replies were altered");
    assert!(outcome.count >= 12, "{} found", outcome.count);
}

#[test]
fn what_differs_is_shown_with_few_commands() {
    let Some((left, right)) = servers() else { return };
    let alter = |reply: &mut Reply| match reply {
        Reply::Bulk(bytes) if bytes == b"hello world" => {
            bytes.pop();
            true
        }
        _ => false,
    };
    let (right, _) = between(right.address(), Arc::new(alter));
    let outcome = compare(left.address(), right, 13, 5_000);
    assert!(outcome.count > 0);
    for finding in &outcome.findings {
        assert!(finding.steps.len() <= 4, "{:#?}", finding.steps);
        assert_ne!(finding.found.left, finding.found.right);
    }
}
