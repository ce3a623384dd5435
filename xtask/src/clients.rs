//! Sessions of unmodified Redis clients: programs in testing/clients, installed below target/clients.
//!
//! Each session needs a program of its own (Python, Go, Node, Redis's tools). Without that program the
//! session is skipped by name.

use crate::building::build_quietly;
use crate::shell::{Failure, Step, built, is_installed, root};
use std::fs;

const FOLDER: &str = "testing/clients";

/// The sessions to play, and those that are left out.
#[derive(Default)]
struct Prepared {
    sessions: Vec<String>,
    /// Sessions that expect one Redis run against one server.
    lone_sessions: Vec<String>,
    writer: Option<String>,
    /// Sessions on a quorum table.
    quorum_sessions: Vec<String>,
    quorum_load: Option<String>,
    skipped: Vec<String>,
}

/// Plays all sessions that can be played; `Err` with CI=true when something was skipped.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    build_quietly()?;
    let skipped = play(arguments)?;
    for what in &skipped {
        println!("skipped: {what}");
    }
    if !skipped.is_empty() && std::env::var("CI").is_ok_and(|value| value == "true") {
        return Err(Failure("CI plays every client's session: nothing may be skipped".into()));
    }
    Ok(())
}

/// For `cargo xtask test`: everything is built already. Returns the names of what was skipped.
pub fn play(arguments: &[String]) -> Result<Vec<String>, Failure> {
    let prepared = prepare()?;
    let mut options: Vec<String> = Vec::new();
    for session in &prepared.sessions {
        options.extend(["--session".into(), session.clone()]);
    }
    for session in &prepared.lone_sessions {
        options.extend(["--lone-session".into(), session.clone()]);
    }
    for session in &prepared.quorum_sessions {
        options.extend(["--quorum-session".into(), session.clone()]);
    }
    if let Some(load) = &prepared.quorum_load {
        options.extend(["--quorum-load".into(), load.clone()]);
    }
    if let Some(writer) = &prepared.writer {
        options.extend(["--writer".into(), writer.clone()]);
    }
    options.extend(arguments.iter().cloned());
    Step::new("Redis clients")
        .program(built("ramhold-clients"), &[])
        .arguments(&options)
        .env("RAMHOLD_BIN", &built("ramhold"))
        .run()?;
    Ok(prepared.skipped)
}

fn prepare() -> Result<Prepared, Failure> {
    let mut prepared = Prepared::default();
    let at = |path: &str| root().join(FOLDER).join(path).display().to_string();
    for (name, script) in [("redis-cli", "redis_cli.sh"), ("redis-benchmark", "redis_benchmark.sh")] {
        if is_installed(name) {
            prepared.sessions.push(format!("{name},bash,{}", at(script)));
        } else {
            prepared.skipped.push(format!("session of {name}: it is not installed"));
        }
    }
    match python()? {
        Some(python) => {
            prepared.sessions.push(format!("redis-py,{python},{}", at("redis_py/session.py")));
            let (python_with_pytest, source) = redis_py_suite()?;
            let suite = at("redis_py/suite.py");
            prepared
                .lone_sessions
                .push(format!("redis-py's own tests,{python_with_pytest},{suite},{source}"));
            let of_quorum = at("redis_py/quorum.py");
            prepared.quorum_sessions.push(format!("redis-py on a quorum table,{python},{of_quorum}"));
            let load = at("redis_py/quorum_load.py");
            prepared.quorum_load = Some(format!("kill test of bricks,{python},{load}"));
            if is_installed("redis-benchmark") {
                prepared.writer = Some(format!("kill test,{python},{}", at("redis_py/writer.py")));
            } else {
                prepared.skipped.push("kill test: redis-benchmark is not installed".into());
            }
        }
        None => {
            let what = "sessions of redis-py, also on a quorum table, and kill tests of servers and bricks";
            prepared.skipped.push(format!("{what}: no python3 with venv and pip"));
        }
    }
    if is_installed("go") {
        let program = format!("{}/go-redis", folder()?);
        let folder = format!("{FOLDER}/go_redis");
        Step::new("go-redis").program("go", &["build", "-o", &program, "."]).within(&folder).quiet().run()?;
        prepared.sessions.push(format!("go-redis,{program}"));
    } else {
        prepared.skipped.push("session of go-redis: go is not installed".into());
    }
    if is_installed("node") && is_installed("npm") {
        prepared.sessions.push(format!("ioredis,node,{}", node()?));
    } else {
        prepared.skipped.push("session of ioredis: node or npm is not installed".into());
    }
    Ok(prepared)
}

/// The folder in which clients are installed.
fn folder() -> Result<String, Failure> {
    let path = root().join("target/clients");
    fs::create_dir_all(&path).map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    Ok(path.display().to_string())
}

/// A Python that has redis-py and nothing but the packages of requirements.txt.
fn python() -> Result<Option<String>, Failure> {
    if !is_installed("python3") {
        return Ok(None);
    }
    let environment = format!("{}/python", folder()?);
    if Step::new("venv").program("python3", &["-m", "venv", &environment]).quiet().run().is_err() {
        return Ok(None);
    }
    let python = format!("{environment}/bin/python");
    install_python(&python, "requirements.txt")?;
    Ok(Some(python))
}

/// A Python with redis-py and the packages that its tests need, and the folder of its source distribution,
/// which has the tests.
fn redis_py_suite() -> Result<(String, String), Failure> {
    let folder = format!("{}/redis-py-suite", folder()?);
    Step::new("venv").program("python3", &["-m", "venv", &folder]).quiet().run()?;
    let python = format!("{folder}/bin/python");
    install_python(&python, "suite_requirements.txt")?;
    let wanted = root().join(FOLDER).join("redis_py/suite_source.txt").display().to_string();
    let download = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"];
    Step::new("redis-py's source")
        .program(&python, &download)
        .arguments(
            &["--no-binary=redis", "--require-hashes", "-r", &wanted, "--dest", &folder].map(String::from),
        )
        .quiet()
        .run()?;
    let failed = |error: std::io::Error| Failure(format!("{}: {error}", wanted));
    let text = fs::read_to_string(&wanted).map_err(failed)?;
    let version = text.split_whitespace().next().and_then(|first| first.strip_prefix("redis=="));
    let version = version.ok_or_else(|| Failure(format!("{wanted} does not begin with redis==VERSION")))?;
    let source = format!("{folder}/redis-{version}");
    Step::new("redis-py's source")
        .program(&python, &["-m", "tarfile", "-e", &format!("{source}.tar.gz"), &folder])
        .quiet()
        .run()?;
    Ok((python, source))
}

/// Installs the packages of a list of testing/clients/redis_py, and nothing else.
fn install_python(python: &str, list: &str) -> Result<(), Failure> {
    let requirements = root().join(FOLDER).join("redis_py").join(list).display().to_string();
    let install =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r"];
    Step::new(list).program(python, &install).arguments(&[requirements]).quiet().run()
}

/// Installs the script beside its modules, because npm wants it there.
fn node() -> Result<String, Failure> {
    let folder = format!("{}/ioredis", folder()?);
    let failed = |error: std::io::Error| Failure(format!("{folder}: {error}"));
    fs::create_dir_all(&folder).map_err(failed)?;
    for file in ["package.json", "package-lock.json", "session.js"] {
        fs::copy(root().join(FOLDER).join("ioredis").join(file), format!("{folder}/{file}"))
            .map_err(failed)?;
    }
    let install = ["ci", "--silent", "--no-fund", "--no-audit", "--ignore-scripts"];
    Step::new("ioredis").program("npm", &install).within("target/clients/ioredis").quiet().run()?;
    Ok(format!("{folder}/session.js"))
}
