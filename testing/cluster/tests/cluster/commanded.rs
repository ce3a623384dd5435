//! A brick that somebody else starts, here this test, beside a supervisor whose `--run` ends it.

use crate::bricks::{read, write_and_read};
use ramhold_cluster_tests::{BRICK_MEMORY_MIN, Bricks, Failure, Process, free_ports, program, wait_for};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
const RESTART_WITHIN: Duration = Duration::from_secs(30);
/// The brick that is not a child of its supervisor.
const FOREIGN: usize = 3;
const SIGKILL: i32 = 9;

/// Starts the brick. The shell writes its number down, and becomes the brick.
fn start(bricks: &Bricks, life: usize, port: u16, pid: &Path) -> Result<Process, Failure> {
    let words = format!("echo $$ > {}; exec \"$0\" \"$@\"", pid.display());
    let mut arguments: Vec<OsString> = vec!["-c".into(), words.into(), program().into()];
    arguments.extend(bricks.arguments(FOREIGN));
    arguments.extend(["--supervisor".into(), port.to_string().into()]);
    let log = bricks.cluster.scratch.dir().join(format!("foreign-{life}.log"));
    let brick = Process::start_program("foreign", Path::new("/bin/sh"), &arguments, &log);
    wait_for("the brick serves", RESTART_WITHIN, || {
        let printed = brick.printed();
        Ok(if printed.contains("serving as brick") { Ok(()) } else { Err(printed) })
    })?;
    Ok(brick)
}

// I6: the command is told brick, life and signal. A process that it cannot end is not taken for ended.
#[test]
fn a_command_ends_a_hung_brick_that_somebody_else_starts_again() -> Result<(), Failure> {
    let _machine = crate::machine();
    let bricks = Bricks::start_first(2, 3, BRICK_MEMORY_MIN)?;
    let dir = bricks.cluster.scratch.dir().to_owned();
    let port = free_ports(1)[0];
    let [pid, told, broken] = ["pid", "told", "broken"].map(|name| dir.join(name));
    let brick = start(&bricks, 1, port, &pid)?;
    let script = format!(
        "echo {{life}} {{signal}} >> {}; test ! -e {} && kill -s {{signal}} $(cat {})",
        told.display(),
        broken.display(),
        pid.display()
    );
    let words: [OsString; 9] = [
        "supervise".into(),
        "--run".into(),
        script.into(),
        "--of".into(),
        bricks.address(FOREIGN).to_string().into(),
        "--port".into(),
        port.to_string().into(),
        "--end-with".into(),
        std::process::id().to_string().into(),
    ];
    let supervisor = Process::start("supervisor", &words, &dir.join("supervisor.log"));
    bricks.wait_known(3)?;
    let table = bricks.create_table("carts", 3)?;
    let mut client = bricks.cluster.client(PATIENCE)?;
    write_and_read(&mut client, table, "key", "first")?;
    // All bricks have announced their lives, and the supervisor has asked its brick.
    ramhold_cluster_tests::pass(Duration::from_millis(1500))?;
    let says = |what: &str| {
        wait_for(what, RESTART_WITHIN, || {
            let printed = supervisor.printed();
            let is_it = |line: &str| line.contains("event:") && line.contains(what);
            Ok(if printed.lines().any(is_it) { Ok(()) } else { Err(printed) })
        })
    };

    // A command that fails: the brick hangs on, and the next order runs it again.
    fs::write(&broken, "").expect("a file");
    brick.signal(Signal::STOP);
    says("has failed (exit status: 1)")?;
    assert!(brick.ended().is_none(), "nothing has ended it");
    fs::remove_file(&broken).expect("it is there");
    let status = brick.wait_ended(RESTART_WITHIN)?;
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(SIGKILL), "{status}");
    write_and_read(&mut client, table, "key", "second")?;
    let brick = start(&bricks, 2, port, &pid)?;
    bricks.wait_known(3)?;

    // An operator's restart lets it flush.
    let id =
        bricks.cluster.status()?.bricks.iter().find(|it| it.address.0 == bricks.address(FOREIGN)).cloned();
    let id = id.map(|it| it.brick.to_string()).ok_or_else(|| Failure("it is not known".into()))?;
    let mut command = bricks.command(&["brick", "restart", &id]);
    let restart = std::thread::spawn(move || command.output().expect("it can be started"));
    let status = brick.wait_ended(RESTART_WITHIN)?;
    assert_eq!(status.code(), Some(0), "it has stopped in order");
    let brick = start(&bricks, 3, port, &pid)?;
    let restarted = restart.join().expect("it does not panic");
    assert!(restarted.status.success(), "it waits for the next life: {restarted:?}");
    let told = fs::read_to_string(&told).expect("it was written");
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines.len() >= 3 && lines[..lines.len() - 1].iter().all(|line| *line == "1 KILL"), "{lines:?}");
    assert_eq!(lines.last(), Some(&"2 TERM"));
    assert_eq!(read(&mut client, table, "key")?.as_deref(), Some("second"));
    drop(brick);
    Ok(())
}

// I6: an operator gives the address of something else.
#[test]
fn a_process_that_is_no_brick_is_never_ended_by_a_command() -> Result<(), Failure> {
    let _machine = crate::machine();
    let bricks = Bricks::start(1)?;
    let dir = bricks.cluster.scratch.dir().to_owned();
    let told = dir.join("told");
    let coordinator = bricks.cluster.address(ramhold_cluster_tests::COORDINATOR);
    let words: [OsString; 9] = [
        "supervise".into(),
        "--run".into(),
        format!("touch {}", told.display()).into(),
        "--of".into(),
        coordinator.to_string().into(),
        "--port".into(),
        free_ports(1)[0].to_string().into(),
        "--end-with".into(),
        std::process::id().to_string().into(),
    ];
    let supervisor = Process::start("supervisor", &words, &dir.join("supervisor.log"));
    wait_for("it is said", PATIENCE, || {
        let printed = supervisor.printed();
        let text = format!("there is no brick at {coordinator}");
        Ok(if printed.contains(&text) { Ok(()) } else { Err(printed) })
    })?;
    // It answers, so no silence of a minute ends it either (core/supervisor/tests).
    assert!(!told.exists(), "{}", supervisor.printed());
    Ok(())
}
