//! Sessions of Redis clients against a cluster, also while its servers and bricks are killed.

use clap::Parser;
use ramhold_cluster_tests::redis_clients::{
    Session, kill_bricks_under_load, kill_under_load, play, play_on_bricks, servers_of,
};
use ramhold_cluster_tests::{Cluster, Failure, Options};
use std::process::ExitCode;

/// Play sessions of Redis clients against a cluster of five servers, and some against one server.
#[derive(Parser)]
struct Arguments {
    /// A session: its name, program and arguments with commas between.
    #[arg(long, value_parser = session)]
    session: Vec<Session>,
    /// A session, in the same form, for a cluster of one server on which keys of any slots may change together, as in Redis.
    #[arg(long, value_parser = session)]
    lone_session: Vec<Session>,
    /// The writer of the kill test, in the same form; without it there is no kill test.
    #[arg(long, value_parser = session)]
    writer: Option<Session>,
    /// A session, in the same form, whose database 1 is a quorum table of three bricks.
    #[arg(long, value_parser = session)]
    quorum_session: Vec<Session>,
    /// The load of the test that kills bricks, in the same form; without it there is no such test.
    #[arg(long, value_parser = session)]
    quorum_load: Option<Session>,
    /// Servers killed under the writer's load, one after the other, and bricks under the other load.
    #[arg(long, default_value_t = 3)]
    kills: usize,
    /// Play the sessions at these addresses instead, with commas between; no kill test then.
    #[arg(long)]
    at: Option<String>,
    /// Only the sessions with this in their names.
    #[arg(long)]
    only: Option<String>,
}

fn session(text: &str) -> Result<Session, String> {
    let mut parts = text.split(',').map(str::to_owned);
    let (Some(name), Some(program)) = (parts.next(), parts.next()) else {
        return Err("a session is NAME,PROGRAM[,ARGUMENT]…".to_owned());
    };
    Ok(Session { name, program: program.into(), arguments: parts.collect() })
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    if let Some(only) = arguments.only.take() {
        arguments.session.retain(|session| session.name.contains(&only));
        arguments.lone_session.retain(|session| session.name.contains(&only));
        arguments.quorum_session.retain(|session| session.name.contains(&only));
        arguments.writer = arguments.writer.filter(|writer| writer.name.contains(&only));
        arguments.quorum_load = arguments.quorum_load.filter(|load| load.name.contains(&only));
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("ramhold-clients: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn play_against(options: Options, sessions: &[Session], with_cluster_mode: bool) -> Result<(), Failure> {
    if sessions.is_empty() {
        return Ok(());
    }
    let mut cluster = Cluster::start(options)?;
    let played = play(sessions, &servers_of(&cluster), with_cluster_mode);
    if played.is_err() {
        eprintln!("{}", cluster.logs());
    }
    played?;
    cluster.stop_all()
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(servers) = &arguments.at {
        return play(&arguments.session, servers, false);
    }
    play_against(Options::default(), &arguments.session, true)?;
    let lone = Options {
        servers: 1,
        coordinator_options: &["--default-replicas", "0"],
        server_options: &["--resp-cross-slot", "allow", "--resp-debug"],
        ..Options::default()
    };
    play_against(lone, &arguments.lone_session, false)?;
    if !arguments.quorum_session.is_empty() {
        play_on_bricks(&arguments.quorum_session)?;
    }
    if let Some(load) = &arguments.quorum_load {
        println!("--- {}: {} bricks killed under load", load.name, arguments.kills);
        kill_bricks_under_load(arguments.kills, load)?;
    }
    if let Some(writer) = &arguments.writer {
        println!("--- {}: {} servers killed under load", writer.name, arguments.kills);
        kill_under_load(arguments.kills, writer)?;
    }
    Ok(())
}
