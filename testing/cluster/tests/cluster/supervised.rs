//! Bricks with supervisors: stopped, killed, restarted by an operator and by strangers.

use crate::bricks::{read, write_and_read};
use ramhold_base::{ClusterId, RpcId, ServerId, Status};
use ramhold_client::{Client, TableId};
use ramhold_cluster_tests::{
    BRICK_MEMORY_MIN, Bricks, Cut, End, Failure, Network, Process, Scratch, free_ports, program, wait_for,
};
use ramhold_wire::control::encode_into;
use ramhold_wire::restart::{BrickProbe, BrickProbed, BrickRestart, RestartOrder};
use ramhold_wire::{Header, Kind, Message, decode, frame};
use rustix::process::{Pid, Signal};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
/// Silence, a verdict, and a start on a busy machine.
const RESTART_WITHIN: Duration = Duration::from_secs(30);
const KEYS: usize = 40;
const EXIT_USAGE: i32 = 2;
/// 128 and the number of SIGKILL.
const EXIT_KILLED: i32 = 137;

fn key(number: usize) -> String {
    format!("key {}", number % KEYS)
}

/// Writes and reads back one key after the other until something is reached. All of it must succeed.
fn go_on_until(
    client: &mut Client,
    table: TableId,
    what: &str,
    mut is_reached: impl FnMut() -> Result<(), String>,
) -> Result<usize, Failure> {
    let mut count = 0;
    wait_for(what, RESTART_WITHIN, || {
        for _ in 0..20 {
            write_and_read(client, table, &key(count), &format!("value {count}"))?;
            count += 1;
        }
        Ok(is_reached())
    })?;
    Ok(count)
}

/// Every key that was written has the last value of `count` writes.
fn check_all(client: &mut Client, table: TableId, count: usize) -> Result<(), Failure> {
    for number in count.saturating_sub(KEYS)..count {
        assert_eq!(read(client, table, &key(number))?, Some(format!("value {number}")));
    }
    Ok(())
}

fn start() -> Result<(Bricks, TableId, Client), Failure> {
    let bricks = Bricks::start_supervised(3, BRICK_MEMORY_MIN, "3/10m")?;
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    (0..KEYS).try_for_each(|number| write_and_read(&mut client, table, &key(number), "first"))?;
    // All bricks have announced their lives to all their siblings.
    ramhold_cluster_tests::pass(Duration::from_millis(1200))?;
    Ok((bricks, table, client))
}

fn id_of(bricks: &Bricks, brick: usize) -> Result<ServerId, Failure> {
    let known = bricks.cluster.status()?.bricks;
    let found = known.iter().find(|it| it.address.0 == bricks.address(brick));
    found.map(|it| it.brick).ok_or_else(|| Failure(format!("no brick {brick}: {known:?}")))
}

fn has(bricks: &Bricks, brick: usize, words: &[&str]) -> Result<(), String> {
    let printed = bricks.printed(brick);
    let is_it = |line: &str| words.iter().all(|word| line.contains(word));
    if printed.lines().any(is_it) { Ok(()) } else { Err(format!("no line with {words:?} in:\n{printed}")) }
}

fn lives(bricks: &Bricks, brick: usize, count: usize) -> Result<(), String> {
    let printed = bricks.printed(brick);
    let served = printed.matches("serving as brick").count();
    if served == count { Ok(()) } else { Err(format!("{served} lives:\n{printed}")) }
}

// I6: a process that hangs is found by its siblings, and restarted by its supervisor. The coordinator is stopped.
#[test]
fn a_hung_brick_is_restarted_by_order_and_a_killed_one_at_once() -> Result<(), Failure> {
    let _machine = crate::machine();
    let (bricks, table, mut client) = start()?;
    bricks.signal_coordinator(Signal::STOP);
    let hung = bricks.signal_supervised(2, Signal::STOP)?;
    let count = go_on_until(&mut client, table, "the hung brick serves again", || lives(&bricks, 2, 2))?;
    assert_ne!(bricks.supervised(2), Some(hung));
    has(
        &bricks,
        2,
        &["event: brick s", "is silent for 1.", "noticed by brick s", "killed and started again"],
    )
    .map_err(Failure)?;
    let orders = [1, 3].map(|brick| has(&bricks, brick, &["event:", "its restart was ordered"]).is_ok());
    assert_eq!(orders.iter().filter(|ordered| **ordered).count(), 1, "only the next brick orders");
    check_all(&mut client, table, count)?;

    bricks.signal_supervised(3, Signal::KILL)?;
    let count = go_on_until(&mut client, table, "the killed brick serves again", || lives(&bricks, 3, 2))?;
    has(&bricks, 3, &["event: the brick (s", "has ended (signal: 9", "started again"]).map_err(Failure)?;
    check_all(&mut client, table, count)?;

    // The restarted ones vote: with the third one stopped, both are needed.
    bricks.signal_supervised(1, Signal::STOP)?;
    write_and_read(&mut client, table, "key", "of the restarted")?;
    bricks.signal_supervised(1, Signal::CONT)?;
    bricks.signal_coordinator(Signal::CONT);
    bricks.wait_known(3)
}

// I6: everybody is away for a moment, and nobody is restarted for it.
#[test]
fn bricks_that_are_all_stopped_for_a_while_are_left_alone() -> Result<(), Failure> {
    let _machine = crate::machine();
    let (bricks, table, mut client) = start()?;
    (1..=3).try_for_each(|brick| bricks.signal_supervised(brick, Signal::STOP).map(drop))?;
    ramhold_cluster_tests::pass(Duration::from_secs(5))?;
    (1..=3).try_for_each(|brick| bricks.signal_supervised(brick, Signal::CONT).map(drop))?;
    write_and_read(&mut client, table, "key", "goes on")?;
    ramhold_cluster_tests::pass(Duration::from_secs(4))?;
    for brick in 1..=3 {
        lives(&bricks, brick, 1).map_err(Failure)?;
    }
    Ok(())
}

// I6: real packets are lost, first those of one brick to its next sibling, then all between bricks.
#[test]
fn announcements_that_are_cut_off_cost_no_brick_its_life() {
    crate::network::test(|| {
        let bricks = Bricks::start_supervised_in(Network::create(4)?, 3, BRICK_MEMORY_MIN, "3/10m")?;
        let table = bricks.create_table("carts", 3)?;
        let mut client = bricks.cluster.client(PATIENCE)?;
        write_and_read(&mut client, table, "key", "first")?;
        // All bricks have announced their lives to all their siblings.
        ramhold_cluster_tests::pass(Duration::from_millis(1200))?;
        bricks.signal_coordinator(Signal::STOP);
        let network = bricks.cluster.network().ok_or_else(|| Failure("no network".into()))?;
        let cut = |from, to| Cut { from: End::Member(from), to: End::Member(to) };
        for from in 1..=3 {
            network.cut(&[cut(from, from % 3 + 1)])?;
            let begun = Instant::now();
            let mut count = 0;
            while begun.elapsed() < Duration::from_secs(5) {
                write_and_read(&mut client, table, &key(count), "one way")?;
                count += 1;
            }
            network.heal()?;
            ramhold_cluster_tests::pass(Duration::from_secs(2))?;
        }
        let pairs = (1..=3).flat_map(|from| (1..=3).map(move |to| (from, to)));
        let all: Vec<Cut> = pairs.filter(|(from, to)| from != to).map(|(from, to)| cut(from, to)).collect();
        network.cut(&all)?;
        ramhold_cluster_tests::pass(Duration::from_secs(5))?;
        network.heal()?;
        write_and_read(&mut client, table, "key", "goes on")?;
        ramhold_cluster_tests::pass(Duration::from_secs(4))?;
        for brick in 1..=3 {
            lives(&bricks, brick, 1).map_err(Failure)?;
        }
        Ok(())
    });
}

// I6
#[test]
fn a_rolling_restart_takes_one_brick_after_the_other_and_fails_nothing() -> Result<(), Failure> {
    let _machine = crate::machine();
    let (bricks, table, mut client) = start()?;
    bricks.wait_known(3)?;
    let mut command = bricks.command(&["brick", "rolling-restart", "--interval", "1s"]);
    let mut restart =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started");
    let mut is_done = || match restart.try_wait().expect("a child of ours can be waited for") {
        Some(_) => Ok(()),
        None => Err("it goes on".to_owned()),
    };
    let count = go_on_until(&mut client, table, "the rolling restart", &mut is_done)?;
    let output = restart.wait_with_output().expect("it has ended");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("3 bricks were restarted, one at a time"), "{text}");
    for brick in 1..=3 {
        lives(&bricks, brick, 2).map_err(Failure)?;
        has(&bricks, brick, &["event: a restart of the brick (s", "by an operator", "stopped in order"])
            .map_err(Failure)?;
    }
    check_all(&mut client, table, count)?;

    // One of three is away: the others are not restarted.
    let id = id_of(&bricks, 2)?.to_string();
    bricks.signal_supervised(1, Signal::STOP)?;
    let output = bricks.run(&["brick", "restart", &id]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing is restarted: "), "{output:?}");
    let output = bricks.run(&["brick", "restart", "s77"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    bricks.signal_supervised(1, Signal::CONT)?;
    lives(&bricks, 2, 2).map_err(Failure)
}

// I6: a brick that is gone for good has no place among those that are restarted.
#[test]
fn a_replaced_brick_is_left_out_of_a_rolling_restart_and_forgotten() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut bricks = Bricks::start_supervised(4, BRICK_MEMORY_MIN, "3/10m")?;
    bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    let held = bricks.places(&mut client, "carts")?;
    let is_member = |brick: &usize| held.iter().any(|place| place.address.0 == bricks.address(*brick));
    let (Some(old), Some(spare)) = ((1..=4).find(is_member), (1..=4).find(|brick| !is_member(brick))) else {
        return Err(Failure(format!("{held:?}")));
    };
    let (old_id, new_id) = (id_of(&bricks, old)?.to_string(), id_of(&bricks, spare)?.to_string());
    // With its supervisor the brick stops, too.
    bricks.kill(old);
    wait_for("the end of the brick", PATIENCE, || match TcpStream::connect(bricks.address(old)) {
        Ok(_) => Ok(Err("it listens".to_owned())),
        Err(_) => Ok(Ok(())),
    })?;
    let refused = bricks.run(&["brick", "forget", &old_id]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    // It is refused until all siblings are heard to vote, and the last one may have taken the table a moment ago.
    wait_for("the replacement", PATIENCE, || {
        let replaced = bricks.run(&["brick", "replace", &old_id, "--by", &new_id]);
        let is_done = replaced.status.code() == Some(0);
        Ok(if is_done { Ok(()) } else { Err(format!("{replaced:?}")) })
    })?;
    let rolled = bricks.run(&["brick", "rolling-restart", "--interval", "500ms", "--within", "60s"]);
    assert_eq!(rolled.status.code(), Some(0), "{rolled:?}");
    let text = String::from_utf8_lossy(&rolled.stdout).into_owned();
    let told = format!("3 bricks were restarted, one at a time; {old_id} left out");
    assert!(text.contains(&told), "{text}");
    // It counts as heard for three seconds.
    wait_for("the brick to be forgotten", PATIENCE, || {
        let forgotten = bricks.run(&["brick", "forget", &old_id]);
        Ok(if forgotten.status.success() { Ok(()) } else { Err(format!("{forgotten:?}")) })
    })?;
    let listed: Vec<String> = bricks.cluster.status()?.bricks.iter().map(|it| it.brick.to_string()).collect();
    assert!(listed.len() == 3 && !listed.contains(&old_id), "{listed:?}");
    Ok(())
}

/// Asks one process one question.
fn ask<M: Message>(to: SocketAddr, header: Header, message: &M) -> Result<(Status, Vec<u8>), Failure> {
    let failed = |error: std::io::Error| Failure(format!("{to}: {error}"));
    let mut bytes = Vec::new();
    let header = Header { opcode: M::OPCODE.code(), rpc: RpcId(1), kind: Kind::Request, ..header };
    frame::write(&mut bytes, &header, |out| encode_into(out, message));
    let mut stream = TcpStream::connect(to).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.write_all(&bytes).map_err(failed)?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while frame::length(&answer).expect("a frame").is_none_or(|length| answer.len() < length) {
        stream.read_exact(&mut byte).map_err(failed)?;
        answer.push(byte[0]);
    }
    let (header, body) = frame::parse(&answer).expect("a whole frame");
    Ok((header.status(), body.to_vec()))
}

// I6
#[test]
fn orders_of_strangers_and_orders_to_others_restart_nothing() -> Result<(), Failure> {
    let _machine = crate::machine();
    let (bricks, table, mut client) = start()?;
    bricks.wait_known(3)?;
    let victim = bricks.cluster.status()?.bricks[0].clone();
    let port = victim.supervisor.expect("it has a supervisor");
    let supervisor = SocketAddr::new(victim.address.0.ip(), port);
    let (_, body) = ask(victim.address.0, Header::default(), &BrickProbe::default())?;
    let told: BrickProbed = decode(&body).expect("it tells of itself");
    assert!(told.brick == victim.brick && told.serves && told.without_vote == 0 && told.siblings.len() == 2);
    let order = RestartOrder {
        brick: told.brick,
        life: told.life,
        mark: told.mark,
        silent_millis: 1500,
        flagged: None,
    };
    let sibling = told.siblings[0];
    let header = |cluster, sender| Header { cluster, sender, target: told.brick, ..Header::default() };
    let refused = [
        (header(told.cluster, ServerId::NONE), order, Status::NotAllowed),
        (header(told.cluster, ServerId(999)), order, Status::NotAllowed),
        (header(ClusterId(7), sibling), order, Status::WrongCluster),
        (header(told.cluster, sibling), RestartOrder { life: told.life - 1, ..order }, Status::Fenced),
        (header(told.cluster, sibling), RestartOrder { mark: 1, ..order }, Status::Fenced),
        (header(told.cluster, sibling), RestartOrder { brick: sibling, ..order }, Status::WrongServer),
    ];
    for (header, order, status) in refused {
        assert_eq!(ask(supervisor, header, &order)?.0, status, "{order:?}");
    }
    // A brick and a coordinator restart nobody.
    let own = header(told.cluster, sibling);
    assert_eq!(ask(victim.address.0, own, &order)?.0, Status::NotAllowed);
    let restart = BrickRestart { brick: told.brick, life: 0 };
    assert_eq!(ask(victim.address.0, own, &restart)?.0, Status::NotAllowed);
    let coordinator = bricks.cluster.address(ramhold_cluster_tests::COORDINATOR);
    assert_eq!(ask(coordinator, own, &order)?.0, Status::UnknownOpcode);
    // A sibling may order it, and the supervisor looks for itself.
    let body = wait_for("a verdict", RESTART_WITHIN, || match ask(supervisor, own, &order)? {
        (Status::Ok, body) => Ok(Ok(body)),
        // It was started just now.
        (status, _) => Ok(Err(status.to_string())),
    })?;
    let answer: ramhold_wire::restart::RestartAnswer = decode(&body).expect("an answer");
    assert_eq!(answer.said, ramhold_wire::restart::RestartSaid::Answers);
    write_and_read(&mut client, table, "key", "nobody was restarted")?;
    for brick in 1..=3 {
        lives(&bricks, brick, 1).map_err(Failure)?;
    }
    Ok(())
}

// I6: at the limit the brick stays offline until an operator starts it.
#[test]
fn a_brick_that_keeps_dying_stays_offline_until_it_is_started_by_hand() -> Result<(), Failure> {
    let _machine = crate::machine();
    let bricks = Bricks::start_supervised(3, BRICK_MEMORY_MIN, "2/10m")?;
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    for life in 1..=2 {
        bricks.signal_supervised(2, Signal::KILL)?;
        bricks.wait_restarted(2, life + 1)?;
    }
    bricks.signal_supervised(2, Signal::KILL)?;
    let offline = ["event:", "offline after 2 restarts within 600 s", "ramhold brick restart s"];
    go_on_until(&mut client, table, "the brick stays offline", || has(&bricks, 2, &offline))?;
    assert_eq!(bricks.supervised(2), None);
    let output = bricks.run(&["brick", "restart", &id_of(&bricks, 2)?.to_string()]);
    assert!(output.status.success(), "{output:?}");
    lives(&bricks, 2, 4).map_err(Failure)
}

// I6
#[test]
fn a_supervisor_stops_its_brick_first_and_is_refused_where_it_cannot_work() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut bricks = Bricks::start_supervised(1, BRICK_MEMORY_MIN, "none")?;
    let run = |words: &[OsString]| {
        let output = Command::new(program()).args(words).output().expect("the program can be started");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = run(&bricks.arguments(1));
    assert_eq!(code, Some(EXIT_USAGE));
    assert!(text.contains("has a supervisor already"), "{text}");
    let words = ["supervise", "--", "server", "--coordinator", "127.0.0.1:1", "--dir", "/nowhere"];
    let (code, text) = run(&words.map(OsString::from));
    assert_eq!(code, Some(EXIT_USAGE));
    assert!(text.contains("only bricks are restarted"), "{text}");

    let brick = bricks.supervised(1).expect("it runs");
    bricks.signal(&[1], Signal::TERM);
    let status = bricks.wait_ended(1, RESTART_WITHIN)?;
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(rustix::process::test_kill_process(brick).is_err(), "the brick has stopped before");

    // A brick that cannot start at all ends its supervisor with the same code.
    let mut words = bricks.arguments(1);
    let at = words.iter().position(|word| word == "--memory").expect("it is given") + 1;
    words[at] = "1MiB".into();
    let (code, text) = run(&words);
    assert_eq!(code, Some(EXIT_USAGE));
    assert!(text.contains("ended at its first start"), "{text}");
    Ok(())
}

// I6: nobody takes a brick that was killed for one that has flushed.
#[test]
fn a_second_signal_kills_a_brick_that_does_not_stop_and_the_exit_code_says_so() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut bricks = Bricks::start_supervised(1, BRICK_MEMORY_MIN, "none")?;
    let hung = bricks.signal_supervised(1, Signal::STOP)?;
    bricks.signal(&[1], Signal::TERM);
    // It waits for the end of the brick, a minute if need be.
    ramhold_cluster_tests::pass(Duration::from_millis(300))?;
    assert!(bricks.process(1).ended().is_none(), "{}", bricks.printed(1));
    bricks.signal(&[1], Signal::TERM);
    let status = bricks.wait_ended(1, RESTART_WITHIN)?;
    assert_eq!(status.code(), Some(EXIT_KILLED), "{status}");
    assert!(rustix::process::test_kill_process(hung).is_err(), "the brick is gone");
    // One that is known to hang is killed at the first signal.
    bricks.start_brick(1);
    bricks.wait_serving(1)?;
    let hung = bricks.signal_supervised(1, Signal::STOP)?;
    ramhold_cluster_tests::pass(Duration::from_secs(3))?;
    bricks.signal(&[1], Signal::TERM);
    let status = bricks.wait_ended(1, RESTART_WITHIN)?;
    assert_eq!(status.code(), Some(EXIT_KILLED), "{status}");
    assert!(rustix::process::test_kill_process(hung).is_err(), "the brick is gone");
    Ok(())
}

/// The process of a member, as `dev.json` says.
fn pid_of(dir: &Path, name: &str) -> Option<Pid> {
    let text = std::fs::read_to_string(dir.join("dev.json")).ok()?;
    let record: serde_json::Value = serde_json::from_str(&text).ok()?;
    let member = record["members"].as_array()?.iter().find(|member| member["name"] == name)?.clone();
    Pid::from_raw(i32::try_from(member["pid"].as_i64()?).ok()?)
}

// I6: `ramhold dev` restarts its bricks in the same way.
#[test]
fn dev_restarts_bricks_that_hang_or_are_killed() -> Result<(), Failure> {
    let _machine = crate::machine();
    let scratch = Scratch::new();
    let (dir, log) = (scratch.dir().join("cluster"), scratch.dir().join("dev.log"));
    let port = free_ports(5)[0].to_string();
    let words = ["dev", "--servers", "1", "--replicas", "0", "--bricks", "3", "--memory", "128MiB"];
    let mut arguments: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    arguments.extend(["--port".into(), port.clone().into(), "--dir".into(), dir.clone().into()]);
    let dev = Process::start("dev", &arguments, &log);
    wait_for("the banner", RESTART_WITHIN, || {
        let text = dev.printed();
        Ok(if text.contains("Ctrl-C") { Ok(()) } else { Err(text) })
    })?;
    let cluster: SocketAddr = format!("127.0.0.1:{port}").parse().expect("an address");
    let run = |words: &[&str]| {
        let output = Command::new(program()).args(["--cluster", &cluster.to_string()]).args(words).output();
        let output = output.expect("the program can be started");
        assert!(output.status.success(), "{output:?}");
    };
    run(&["table", "create", "carts", "--quorum", "3"]);
    run(&["put", "carts", "ann", "1"]);
    // Each brick has announced itself.
    ramhold_cluster_tests::pass(Duration::from_millis(1200))?;
    for (brick, signal, told) in
        [("brick-2", Signal::STOP, "is silent for"), ("brick-3", Signal::KILL, "signal: 9")]
    {
        let before = pid_of(&dir, brick).expect("it runs");
        rustix::process::kill_process(before, signal).expect("it is there");
        wait_for(&format!("{brick} in another process"), RESTART_WITHIN, || {
            let (now, printed) = (pid_of(&dir, brick), dev.printed());
            let is_told = printed.lines().any(|line| line.contains("event:") && line.contains(told));
            let is_new = now.is_some_and(|now| now != before);
            Ok(if is_new && is_told { Ok(()) } else { Err(format!("{now:?}: {printed}")) })
        })?;
        run(&["get", "carts", "ann"]);
    }
    run(&["brick", "rolling-restart", "--interval", "100ms"]);
    run(&["get", "carts", "ann"]);
    dev.signal(Signal::TERM);
    assert!(dev.wait_ended(RESTART_WITHIN)?.success());
    Ok(())
}

/// A process that ends with the test.
struct Companion(Child);

impl Drop for Companion {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// I6: a supervisor that is killed while its brick hangs leaves an orphan, which keeps the lock of the directory.
#[test]
fn the_next_supervisor_ends_a_hung_orphan_and_waits_for_one_that_stops() -> Result<(), Failure> {
    let _machine = crate::machine();
    let (mut bricks, table, mut client) = start()?;
    let group = bricks.supervised(2).expect("it runs").as_raw_nonzero().get();
    // The kernel ends a process group that is stopped when its parent dies, unless somebody of this session is left in it.
    let mut member = Command::new("sleep");
    let member = Companion(member.arg("120").process_group(group).spawn().expect("it can be started"));
    let orphan = bricks.signal_supervised(2, Signal::STOP)?;
    bricks.kill(2);
    assert!(
        rustix::process::test_kill_process(orphan).is_ok(),
        "it is stopped, and does not hear that it is to end"
    );
    bricks.start_brick(2);
    let count =
        go_on_until(&mut client, table, "the brick serves under a new supervisor", || lives(&bricks, 2, 1))?;
    let orphan = orphan.as_raw_nonzero().to_string();
    has(&bricks, 2, &["event: process", &orphan, "has answered nothing", "killed"]).map_err(Failure)?;
    drop(member);
    check_all(&mut client, table, count)?;
    // This one hears it, and flushes first.
    bricks.kill(2);
    bricks.start_brick(2);
    let count = go_on_until(&mut client, table, "the brick serves once more", || lives(&bricks, 2, 1))?;
    assert!(!bricks.printed(2).contains("has answered nothing"), "{}", bricks.printed(2));
    check_all(&mut client, table, count)
}
