//! The cluster goes on serving, whatever bytes arrive over a socket.

use ramhold_base::{Rng, RpcId};
use ramhold_cluster_tests::{COORDINATOR, Cluster, Failure, Load, Options};
use ramhold_wire::frame::{HEADER_BYTES, PREFIX_BYTES};
use ramhold_wire::status::Ping;
use ramhold_wire::{Header, Message, Opcode, control, frame};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const SEED: u64 = 51;
/// A connection that the other side must close is closed long before this.
const SOON: Duration = Duration::from_secs(30);

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the process listens");
    stream.set_read_timeout(Some(SOON)).expect("a socket takes a timeout");
    stream.set_write_timeout(Some(SOON)).expect("a socket takes a timeout");
    stream
}

/// Sends the bytes and reads until the other side closes. Returns the answer.
fn answer(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    // The other side may close while we write. That is an answer too.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn ping_frame() -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = Header::request(Ping::OPCODE, RpcId(7));
    frame::write(&mut bytes, &header, |out| control::encode_into(out, &Ping {}));
    bytes
}

/// A good frame is answered with a frame.
fn assert_serves(address: SocketAddr) {
    let mut stream = connect(address);
    stream.write_all(&ping_frame()).expect("a fresh connection takes a few bytes");
    // Our side stays open: the server does not wait for an answer to a client that has ended its side, and
    // does not send a late one.
    let mut answer = Vec::new();
    while frame::parse(&answer).is_err() {
        let mut bytes = [0; 512];
        let count = stream.read(&mut bytes).expect("an answer comes");
        assert!(count > 0, "closed after {answer:?}");
        answer.extend_from_slice(&bytes[..count]);
    }
    let (header, _) = frame::parse(&answer).expect("it is whole");
    assert_eq!(header.rpc, RpcId(7));
}

fn attacks(rng: &mut Rng) -> Vec<(&'static str, Vec<u8>)> {
    let good = ping_frame();
    let garbage: Vec<u8> = (0..4096).map(|_| rng.u64() as u8).collect();
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] ^= byte;
        bytes
    };
    let mut attacks = vec![
        ("garbage", garbage),
        ("text", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        ("zeroes", vec![0; 100_000]),
        ("nothing", Vec::new()),
        ("a wrong magic", changed(0, 0xFF)),
        ("a wrong version", changed(4, 0x40)),
        ("a huge length", {
            let mut bytes = good.clone();
            // The length of the body, the last field of the prefix.
            bytes[PREFIX_BYTES - 4..PREFIX_BYTES].fill(0xFF);
            bytes
        }),
    ];
    for length in [1, 4, PREFIX_BYTES - 1, PREFIX_BYTES, HEADER_BYTES, good.len() - 1] {
        attacks.push(("a part of a frame", good[..length].to_vec()));
    }
    for _ in 0..200 {
        let at = rng.below(good.len() as u64) as usize;
        attacks.push(("a flipped bit", changed(at, 1 << rng.below(8))));
    }
    // Well-formed frames with meaningless bodies, for every operation there is.
    for code in 0..256 {
        let header = Header { opcode: code, ..Header::request(Opcode::Ping, RpcId(u64::from(code) + 1)) };
        let length = rng.below(64);
        let body: Vec<u8> = (0..length).map(|_| rng.u64() as u8).collect();
        let mut bytes = Vec::new();
        frame::write(&mut bytes, &header, |out| out.extend_from_slice(&body));
        attacks.push(("a body that means nothing", bytes));
    }
    attacks
}

// E4, B5
#[test]
fn bad_input_disturbs_nobody() -> Result<(), Failure> {
    let _machine = crate::machine();
    let cluster = Cluster::start(Options { servers: 4, ..Options::default() })?;
    let load = Load::start(&cluster, "data", 3, SEED)?;
    let mut rng = Rng::new(SEED);
    for member in [COORDINATOR, 1] {
        let address = cluster.address(member);
        for (what, bytes) in attacks(&mut rng) {
            answer(address, &bytes);
            assert!(!bytes.is_empty() || what == "nothing");
        }
        assert_serves(address);
    }
    load.wait_acknowledged(200)?;
    check_unharmed(&cluster, load)
}

// E4
#[test]
fn clients_that_vanish_disturb_nobody() -> Result<(), Failure> {
    let _machine = crate::machine();
    let cluster = Cluster::start(Options { servers: 4, ..Options::default() })?;
    let load = Load::start(&cluster, "data", 3, SEED + 1)?;
    for member in [COORDINATOR, 1] {
        let address = cluster.address(member);
        // Connections that send half of a request and stay, while others come and go.
        let half: Vec<TcpStream> = (0..100)
            .map(|_| {
                let mut stream = connect(address);
                stream
                    .write_all(&ping_frame()[..HEADER_BYTES / 2])
                    .expect("a fresh connection takes a few bytes");
                stream
            })
            .collect();
        for _ in 0..200 {
            let mut stream = connect(address);
            // The client asks and does not wait for the answer.
            let _ = stream.write_all(&ping_frame());
        }
        assert_serves(address);
        drop(half);
        assert_serves(address);
    }
    load.wait_acknowledged(200)?;
    check_unharmed(&cluster, load)
}

/// Checks that Redis's protocol works, as a normal client uses it.
fn assert_serves_redis(stream: &mut TcpStream) {
    stream.write_all(b"SET hostile 1\r\nGET hostile\r\nPING\r\n").expect("it takes a few bytes");
    let want = b"+OK\r\n$1\r\n1\r\n+PONG\r\n";
    let mut answer = vec![0; want.len()];
    stream.read_exact(&mut answer).expect("answers come");
    assert_eq!(answer, want);
}

// Z1, Z7, Z8
#[test]
fn strangers_over_the_redis_protocol_disturb_nobody() -> Result<(), Failure> {
    let _machine = crate::machine();
    let cluster = Cluster::start(Options { servers: 4, ..Options::default() })?;
    let load = Load::start(&cluster, "data", 3, SEED + 2)?;
    let address = cluster.address(1);
    let mut honest = connect(address);
    let nonsense: &[&[u8]] = &[
        b"*2147483648\r\n",
        b"*1\r\n$9223372036854775807\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n*1\r\n$4\r\nPING\r\n",
        b"*+1\r\n",
        b"*1\rX",
        b"$4\r\nPING\r\nset \"a\r\n",
        &[b'x'; 70_000],
    ];
    for bytes in nonsense {
        let answer = answer(address, bytes);
        assert!(answer.windows(18).any(|part| part == b"ERR Protocol error"), "{}", answer.escape_ascii());
        assert_serves_redis(&mut honest);
    }
    // Requests that claim much and never end, while other clients ask and do not fetch the answers.
    let half: Vec<TcpStream> = (0..1000)
        .map(|_| {
            let mut stream = connect(address);
            stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$8388608\r\nx").expect("it takes a few bytes");
            stream
        })
        .collect();
    let large = vec![b'v'; 1_000_000];
    honest
        .write_all(&[&b"*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$1000000\r\n"[..], &large, b"\r\n"].concat())
        .expect("a value is taken");
    honest.read_exact(&mut [0; 5]).expect("it is answered");
    let unfetched: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = connect(address);
            stream.write_all(&b"GET large\r\n".repeat(1000)).expect("it takes a few bytes");
            stream
        })
        .collect();
    for _ in 0..100 {
        assert_serves_redis(&mut honest);
    }
    assert_serves_redis(&mut connect(address));
    // A client that sends without end is held back, and clients that ask for a connection are still answered.
    for _ in 0..10_000 {
        drop(connect(address));
    }
    assert_serves_redis(&mut honest);
    drop((half, unfetched));
    load.wait_acknowledged(200)?;
    check_unharmed(&cluster, load)
}

/// Checks that no server died, and that nothing is lost.
fn check_unharmed(cluster: &Cluster, load: Load) -> Result<(), Failure> {
    let table = load.table();
    let journal = load.stop()?;
    assert_eq!(journal.violations, Vec::<String>::new());
    let findings = journal.compare(cluster, table)?;
    assert!(findings.is_empty(), "{findings:#?}");
    let recoveries = cluster.client(SOON)?.recoveries()?;
    assert!(recoveries.is_empty(), "{recoveries:#?}");
    cluster.wait_up(4)
}
