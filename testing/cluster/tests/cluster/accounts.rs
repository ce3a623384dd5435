//! Accounts on real processes: changes under load, deaths, and a cold start.

use crate::redis::Redis;
use ramhold_cluster_tests::{Cluster, Failure, Options, wait_for};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WITHIN: Duration = Duration::from_secs(30);

/// A connection that has logged in.
fn login(cluster: &Cluster, member: usize, name: &str) -> Result<Redis, Failure> {
    let mut redis = Redis::connect(cluster, member)?;
    expect(&mut redis, &format!("auth {name} {name}-password"), "+OK")?;
    Ok(redis)
}

fn expect(redis: &mut Redis, command: &str, begin: &str) -> Result<(), Failure> {
    let said = redis.ask(command)?;
    if said.starts_with(begin) { Ok(()) } else { Err(Failure(format!("{command}: {said}"))) }
}

// J4: accounts are kept by the coordinator and known to all servers; they change under load without a failed operation of
// those who may, count at every server, and outlive every process.
#[test]
fn accounts_change_under_load_and_outlive_all_processes() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut cluster = Cluster::start(Options {
        servers: 3,
        coordinator_options: &["--default-replicas", "2"],
        ..Options::default()
    })?;
    cluster.wait_up(3)?;
    let mut admin = Redis::connect(&cluster, 1)?;
    for (name, rules) in [("app", "~app:* +@read +@write"), ("other", "+@all ~* &*")] {
        expect(&mut admin, &format!("acl setuser {name} on >{name}-password {rules}"), "+OK")?;
    }
    wait_for("all servers know the account", WITHIN, || {
        let known = (1..=3).map(|member| login(&cluster, member, "app").map(|_| ()));
        Ok(known.collect::<Result<Vec<()>, Failure>>().map_err(|failure| failure.to_string()))
    })?;

    // Clients that may do something go on while rules change, and never see what they may not.
    let apps = (1..=3).map(|member| login(&cluster, member, "app")).collect::<Result<Vec<_>, _>>()?;
    let (is_over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let changes = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=3)
            .zip(apps)
            .map(|(member, mut redis)| {
                let (is_over, count) = (&is_over, &count);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let number = count.fetch_add(1, Ordering::Relaxed);
                        expect(&mut redis, &format!("set app:{member} {number}"), "+OK")?;
                        expect(&mut redis, &format!("get app:{member}"), "$")?;
                        redis_skip(&mut redis)?;
                        expect(&mut redis, "get other", "-NOPERM")?;
                    }
                    Ok::<(), Failure>(())
                })
            })
            .collect();
        let begun = Instant::now();
        let mut changes = 0;
        while begun.elapsed() < Duration::from_secs(3) {
            changes += 1;
            expect(
                &mut admin,
                &format!("acl setuser passing{} on nopass +get ~{changes}*", changes % 4),
                "+OK",
            )?;
            expect(&mut admin, &format!("acl setuser app %R~more{}:*", changes % 8), "+OK")?;
            expect(&mut admin, &format!("acl deluser passing{}", (changes + 1) % 4), ":")?;
        }
        is_over.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().map_err(|_| Failure("a worker panicked".into()))??;
        }
        Ok::<u64, Failure>(changes)
    })?;
    assert!(changes > 3 && count.load(Ordering::Relaxed) > 100, "{changes} changes beside {count:?} writes");

    // A removed account's connections end, at every server.
    let mut open = (1..=3).map(|member| login(&cluster, member, "other")).collect::<Result<Vec<_>, _>>()?;
    expect(&mut admin, "acl deluser other", ":1")?;
    let removed = Instant::now();
    for redis in &mut open {
        while redis.ask("ping").is_ok_and(|said| said == "+PONG") {
            assert!(removed.elapsed() < WITHIN, "the connection goes on");
        }
    }

    // Without a coordinator, servers go on with the accounts that they know.
    cluster.kill(0);
    let mut app = login(&cluster, 2, "app")?;
    expect(&mut app, "set app:2 2", "+OK")?;
    expect(&mut app, "set other 2", "-NOPERM")?;
    cluster.start_member(0);
    cluster.wait_up(3)?;

    // Everything dies, and comes back with its accounts.
    cluster.kill_all();
    cluster.start_all();
    cluster.wait_up(3)?;
    wait_for("the account is there again", WITHIN, || {
        let back = (1..=3).map(|member| login(&cluster, member, "app").map(|_| ()));
        Ok(back.collect::<Result<Vec<()>, Failure>>().map_err(|failure| failure.to_string()))
    })?;
    let mut app = login(&cluster, 1, "app")?;
    expect(&mut app, "get app:2", "$1")?;
    redis_skip(&mut app)?;
    expect(&mut app, "get other", "-NOPERM")?;
    let mut wrong = Redis::connect(&cluster, 2)?;
    expect(&mut wrong, "auth other other-password", "-WRONGPASS")?;
    expect(&mut wrong, "auth app other-password", "-WRONGPASS")?;

    // No process has written a password anywhere.
    let logs = std::fs::read_dir(cluster.scratch.dir().join("logs")).map_err(|e| Failure(e.to_string()))?;
    let texts: Vec<String> =
        logs.flatten().filter_map(|log| std::fs::read_to_string(log.path()).ok()).collect();
    assert!(texts.iter().any(|text| text.contains("account 'app' was")), "changes are logged");
    assert!(texts.iter().all(|text| !text.contains("-password")), "a log has a password");
    Ok(())
}

/// Reads the text of a bulk string.
fn redis_skip(redis: &mut Redis) -> Result<(), Failure> {
    redis.next_line().map(|_| ())
}
