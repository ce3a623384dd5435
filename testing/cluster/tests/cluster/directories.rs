//! Directories that must be refused: those in use already, and those of another cluster.

use ramhold_cluster_tests::{COORDINATOR, Cluster, Failure, Options, Process};
use std::ffi::OsString;
use std::time::Duration;

const EXIT_USAGE: i32 = 2;
/// The exit code of a server that cannot serve.
const EXIT_CANNOT_SERVE: i32 = 4;
const SOON: Duration = Duration::from_secs(30);

fn small() -> Options {
    Options { servers: 3, ..Options::default() }
}

fn with(mut arguments: Vec<OsString>, option: &str, value: impl Into<OsString>) -> Vec<OsString> {
    let at = arguments.iter().position(|argument| argument == option).expect("the option is given");
    arguments[at + 1] = value.into();
    arguments
}

fn ends_with(
    name: &str,
    arguments: &[OsString],
    cluster: &Cluster,
    code: i32,
    says: &str,
) -> Result<(), Failure> {
    let log = cluster.scratch.dir().join("logs").join(format!("{name}.log"));
    let process = Process::start(name, arguments, &log);
    let status = process.wait_ended(SOON)?;
    let printed = process.printed();
    assert_eq!(status.code(), Some(code), "{printed}");
    assert!(printed.contains(says), "{printed}");
    Ok(())
}

// B2
#[test]
fn a_directory_in_use_is_refused() -> Result<(), Failure> {
    let _machine = crate::machine();
    let cluster = Cluster::start(small())?;
    let second = with(cluster.arguments(1), "--bind", "127.0.0.1:0");
    ends_with("second-server", &second, &cluster, EXIT_USAGE, "in use by another")?;
    let second = with(cluster.arguments(COORDINATOR), "--bind", "127.0.0.1:39999");
    ends_with("second-coordinator", &second, &cluster, EXIT_USAGE, "in use")?;
    // The port is in use as well, and is named.
    let elsewhere = cluster.scratch.dir().join("elsewhere");
    let second = with(with(cluster.arguments(1), "--dir", &elsewhere), "--buffer-dir", cluster.buffer_dir(9));
    ends_with("same-port", &second, &cluster, EXIT_USAGE, &cluster.address(1).to_string())?;
    cluster.wait_up(3)
}

// B1, D7
#[test]
fn a_directory_of_another_cluster_is_refused() -> Result<(), Failure> {
    let _machine = crate::machine();
    let mut first = Cluster::start(small())?;
    first.kill(1);
    first.wait_up(2)?;
    let second = Cluster::start(small())?;
    let stranger = with(first.arguments(1), "--coordinator", second.address(COORDINATOR).to_string());
    ends_with("stranger", &stranger, &second, EXIT_CANNOT_SERVE, "another cluster")?;
    second.wait_up(3)?;
    // The directory is unharmed in its own cluster.
    first.start_member(1);
    first.wait_up(3)
}

// B2
#[test]
fn what_the_machine_does_not_have_is_refused_with_the_figure() -> Result<(), Failure> {
    let _machine = crate::machine();
    let cluster = Cluster::prepare(small());
    let cases = [
        ("--memory", "1TiB", "available"),
        ("--memory", "1MiB", "at least 64.0 MiB"),
        ("--disk", "1000TiB", "has room for"),
        ("--bind", "0.0.0.0:7999", "--insecure-network"),
        ("--label", "nothing", "label"),
    ];
    for (index, (option, value, says)) in cases.into_iter().enumerate() {
        let arguments = with(cluster.arguments(1), option, value);
        ends_with(&format!("case-{index}"), &arguments, &cluster, EXIT_USAGE, says)?;
    }
    Ok(())
}
