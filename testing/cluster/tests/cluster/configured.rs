//! Options from a file, and SIGHUP.

use ramhold_client::{Client, Options};
use ramhold_cluster_tests::{Failure, Process, Scratch, free_ports, wait_for};
use rustix::process::Signal;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(30);

fn connect(coordinator: SocketAddr) -> Result<Client, Failure> {
    let options = Options { deadline: WITHIN, connect_timeout: WITHIN, ..Options::default() };
    Ok(Client::connect_with(&[coordinator], options)?)
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

// J8: one file for both processes; SIGHUP changes rates of all shards at once, and names what waits for a start.
#[test]
fn a_running_server_takes_over_rates_from_its_file() -> Result<(), Failure> {
    let _machine = crate::machine();
    let (scratch, ports) = (Scratch::new(), free_ports(3));
    let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let file = scratch.dir().join("ramhold.toml");
    let write = |top: &str, server: &str| {
        let text = format!(
            "{top}\n[coordinator]\nbind = \"{}\"\ndir = \"{}\"\n[server]\ncoordinator = \"{}\"\nbind = \"{}\"\n\
             dir = \"{}\"\nshards = 2\nno-pin = true\n{server}\n",
            at(ports[0]),
            scratch.dir().join("coordinator").display(),
            at(ports[0]),
            at(ports[1]),
            scratch.dir().join("server").display(),
        );
        std::fs::write(&file, text).expect("the file can be written");
    };
    write("", "memory = \"512MiB\"");
    let config = file.display().to_string();
    let (coordinator_log, server_log) =
        (scratch.dir().join("coordinator.log"), scratch.dir().join("server.log"));
    let coordinator =
        Process::start("coordinator", &words(&["coordinator", "--config", &config]), &coordinator_log);
    let server = Process::start(
        "server",
        &words(&["server", "--config", &config, "--copy-rate", "4MiB"]),
        &server_log,
    );
    let mut client = connect(at(ports[0]))?;
    let limits = |client: &mut Client| {
        let limit = |port: u16| {
            let status = client.server_status(at(port)).map_err(Failure::from)?;
            Ok::<Option<u64>, Failure>(status.copying.map(|copying| copying.limit))
        };
        [ports[1], ports[1] + 1].map(limit).into_iter().collect::<Result<Vec<_>, Failure>>()
    };
    let said = |log: &std::path::Path, text: &str| {
        let log = std::fs::read_to_string(log).unwrap_or_default();
        if log.contains(text) { Ok(()) } else { Err(log) }
    };
    wait_for("both shards", WITHIN, || {
        let told = limits(&mut client).map_err(|failure| failure.to_string());
        Ok(told.and_then(|told| if told == [Some(2 << 20); 2] { Ok(()) } else { Err(format!("{told:?}")) }))
    })?;

    // A rate of the file loses against the command line; another one does not.
    write("scrub-rate = 0", "memory = \"1GiB\"\ncopy-rate = \"1MiB\"");
    server.signal(Signal::HUP);
    wait_for("the change", WITHIN, || Ok(said(&server_log, "scrub-rate is 0 from now on")))?;
    wait_for("the rest", WITHIN, || Ok(said(&server_log, "memory is 1GiB at the next start")))?;
    assert!(said(&server_log, "copy-rate").is_err(), "the command line wins");
    assert_eq!(limits(&mut client)?, [Some(2 << 20); 2]);

    // A wrong file changes nothing, and ends nothing.
    write("scrub-rat = 0", "");
    server.signal(Signal::HUP);
    wait_for("the refusal", WITHIN, || Ok(said(&server_log, "nothing has changed")))?;
    assert!(said(&server_log, "did you mean 'scrub-rate'?").is_ok());
    assert_eq!(limits(&mut client)?, [Some(2 << 20); 2]);

    coordinator.signal(Signal::HUP);
    wait_for("the coordinator", WITHIN, || Ok(said(&coordinator_log, "no option of a coordinator changes")))?;
    client.cluster_status()?;
    for process in [server, coordinator] {
        process.signal(Signal::TERM);
        assert!(process.wait_ended(WITHIN)?.success());
    }
    Ok(())
}

// J8: what the command line does not say, SIGHUP changes.
#[test]
fn rates_of_the_file_change_while_a_server_runs() -> Result<(), Failure> {
    let _machine = crate::machine();
    let (scratch, ports) = (Scratch::new(), free_ports(3));
    let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let (file, log) = (scratch.dir().join("ramhold.toml"), scratch.dir().join("server.log"));
    let dir = |name: &str| scratch.dir().join(name).display().to_string();
    let write = |rate: &str| std::fs::write(&file, format!("copy-rate = \"{rate}\"\n")).expect("a file");
    write("6MiB");
    let (coordinator, bind, config) =
        (at(ports[0]).to_string(), at(ports[1]).to_string(), dir("ramhold.toml"));
    let first = words(&["coordinator", "--bind", &coordinator, "--dir", &dir("coordinator")]);
    let first = Process::start("coordinator", &first, &scratch.dir().join("coordinator.log"));
    let server = [
        "server",
        "--shards",
        "2",
        "--no-pin",
        "--config",
        &config,
        "--coordinator",
        &coordinator,
        "--bind",
        &bind,
        "--dir",
        &dir("server"),
    ];
    let server = Process::start("server", &words(&server), &log);
    let mut client = connect(at(ports[0]))?;
    let mut limit_is = |wanted: u64| {
        wait_for("the rate", WITHIN, || {
            let mut limit = |port: u16| {
                let status = client.server_status(at(port)).map_err(|error| error.to_string());
                status.map(|status| status.copying.map(|copying| copying.limit))
            };
            let told = (limit(ports[1]), limit(ports[1] + 1));
            let is_told = told == (Ok(Some(wanted)), Ok(Some(wanted)));
            Ok(if is_told { Ok(()) } else { Err(format!("{told:?}")) })
        })
    };
    limit_is(3 << 20)?;
    write("10MiB");
    server.signal(Signal::HUP);
    limit_is(5 << 20)?;
    // Less than a byte for each shard is not no bound.
    write("1");
    server.signal(Signal::HUP);
    limit_is(1)?;
    for process in [server, first] {
        process.signal(Signal::TERM);
        assert!(process.wait_ended(WITHIN)?.success());
    }
    Ok(())
}
