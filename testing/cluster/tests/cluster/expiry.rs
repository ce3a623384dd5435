//! Objects with a time to live, and the clock by which they expire, on real servers asked over Redis's
//! protocol.

use crate::redis::Redis;
use ramhold_cluster_tests::{Cluster, Failure, Options, wait_for};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One more server than a table made by its first use needs for its replicas.
const SERVERS: usize = 4;
const SOON: Duration = Duration::from_secs(30);
/// The clocks of two servers differ by less than this.
const MILLI: i64 = 1;

fn wall_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis() as i64
}

/// Waits until every server has asked for the cluster time a few times.
fn wait_clocks_agree(redis: &mut [Redis]) -> Result<(), Failure> {
    wait_for("clocks that agree", SOON, || {
        let mut least_left = i64::MAX;
        let mut most_left = 0;
        for round in 0..20 {
            for at in 0..redis.len() {
                redis[at].ask(&format!("SET clock{round} v PX 100000"))?;
                let asked = (at + 1) % redis.len();
                let left = redis[asked].number(&format!("PTTL clock{round}"))?;
                (least_left, most_left) = (least_left.min(left), most_left.max(left));
            }
        }
        let is_right = most_left <= 100_000 + MILLI;
        Ok(if is_right { Ok(()) } else { Err(format!("{least_left} to {most_left} ms of 100,000")) })
    })
}

// A12
#[test]
fn what_ends_is_counted_no_more_though_nobody_asks() -> Result<(), Failure> {
    let _machine = crate::machine();
    let cluster = Cluster::start(Options { servers: SERVERS, ..Options::default() })?;
    let mut redis = Redis::connect(&cluster, 1)?;
    for key in 0..300 {
        assert_eq!(redis.ask(&format!("PSETEX k{key} 500 v"))?, "+OK");
    }
    assert_eq!(redis.ask("SET stays v")?, "+OK");
    wait_for("an empty database", SOON, || {
        let count = redis.number("DBSIZE")?;
        Ok(if count == 1 { Ok(()) } else { Err(format!("{count} keys")) })
    })?;
    Ok(())
}

// A12
#[test]
fn servers_agree_on_the_time_and_with_the_wall_clock() -> Result<(), Failure> {
    let _machine = crate::machine();
    let cluster = Cluster::start(Options { servers: SERVERS, ..Options::default() })?;
    let mut redis =
        (1..=SERVERS).map(|member| Redis::connect(&cluster, member)).collect::<Result<Vec<_>, _>>()?;
    wait_clocks_agree(&mut redis)?;
    for round in 0..500usize {
        let (writer, reader) = (round % SERVERS, (round + 1 + round / SERVERS % 2) % SERVERS);
        assert_eq!(redis[writer].ask(&format!("SET k{round} v PX 10000"))?, "+OK");
        let left = redis[reader].number(&format!("PTTL k{round}"))?;
        assert!(left <= 10_000 + MILLI, "{left} ms are left of 10,000");

        let before = wall_millis();
        let end = before + 20_000;
        assert_eq!(redis[writer].number(&format!("PEXPIREAT k{round} {end}"))?, 1);
        assert_eq!(redis[reader].number(&format!("PEXPIRETIME k{round}"))?, end);
        let left = redis[reader].number(&format!("PTTL k{round}"))?;
        let passed = wall_millis() - before;
        // These are whole milliseconds of two clocks, each of which may be off by less than one.
        assert!(
            (20_000 - passed - 2 * MILLI..=20_000 + 2 * MILLI).contains(&left),
            "{left} ms, {passed} passed"
        );
    }
    Ok(())
}

// A12, D2: a cache goes on answering with too few servers for its replicas.
#[test]
fn what_ends_is_absent_though_no_write_is_possible() -> Result<(), Failure> {
    const KEYS: usize = 40;
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options { servers: SERVERS, ..Options::default() })?;
    let mut redis = Redis::connect(&cluster, 1)?;
    for key in 0..KEYS {
        assert_eq!(redis.ask(&format!("SET short{key} v PX 9000"))?, "+OK");
        assert_eq!(redis.ask(&format!("SET long{key} v PX 900000"))?, "+OK");
    }
    cluster.kill(SERVERS);
    wait_for("writes that are refused", SOON, || {
        let reply = redis.ask("SET stays v")?;
        Ok(if reply.starts_with("-NOREPLICAS") { Ok(()) } else { Err(reply) })
    })?;
    for key in 0..KEYS {
        wait_for("the end of a key", SOON, || {
            let reply = redis.number(&format!("EXISTS short{key}"));
            Ok(if matches!(reply, Ok(0)) { Ok(()) } else { Err(format!("{reply:?}")) })
        })?;
        assert_eq!(redis.ask(&format!("GET short{key}"))?, "$-1");
        assert_eq!(redis.number(&format!("TTL short{key}"))?, -2);
        assert_eq!(redis.number(&format!("EXISTS long{key}"))?, 1);
    }
    Ok(())
}
