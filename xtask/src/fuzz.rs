//! The decoders under libFuzzer, on the stable compiler. The compiler's passes count the edges that an input
//! reaches. Inputs that reach new edges are kept and changed further.
//!
//! Findings are kept below testing/fuzz/findings, where the ordinary tests read them. Inputs that reach new
//! edges stay below target/fuzz/runs, for the next run to begin with.

use crate::shell::{Failure, is_installed, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Each target, the sources that it covers, the longest input, and the default number of executions.
const TARGETS: &[(&str, &[&str], u32)] = &[
    ("resp_parse", &["core/resp/src/parse.rs"], 4096),
    (
        "resp_front",
        &[
            "core/resp/src/front.rs",
            "core/resp/src/front/",
            "core/resp/src/reply.rs",
            "core/resp/src/commands/",
        ],
        2048,
    ),
    ("frame", &["core/wire/src/frame.rs"], 1024),
    ("requests", &["core/wire/src/"], 1024),
    ("token", &["core/client/src/token.rs"], 1024),
    ("stored_password", &["io/runtime/src/secrets/hashing.rs"], 512),
    ("ring", &["io/ring/src/receiver.rs", "io/ring/src/sender.rs"], 1024),
    ("entry", &["core/log/src/entry.rs", "core/log/src/reader.rs", "core/log/src/older.rs"], 1024),
    ("rdb", &["core/rdb/src/"], 2048),
    ("aof", &["core/rdb/src/aof.rs", "core/rdb/src/source.rs"], 2048),
];
const EXECUTIONS: u64 = 1_000_000;
/// The memory limit of one execution, including the fuzzer's own corpus.
const RSS_MIB_MAX: u32 = 512;
/// An input that takes longer than this is a finding.
const SECONDS_MAX: u32 = 10;

const HELP: &str = "\
cargo xtask fuzz [TARGET] [--executions N]

  TARGET          resp_parse (default), resp_front, frame, requests, token, ring, entry, rdb,
                  aof, stored_password, or all
  --executions N  inputs tried for each target [default: 1000000]

Prints executions and, of the sources that the target is about, how many edges of the compiled code were reached and
which lines were not. Needs a C++ compiler and, for the lines, addr2line. A finding is kept below testing/fuzz/findings.";

/// The compiler's pass behind -fsanitize=fuzzer. Addresses are static, so that those in the list of edges are
/// those in the file.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Ccodegen-units=1",
    "-Cdebug-assertions=on",
    "-Crelocation-model=static",
    "-Clink-arg=-no-pie",
];

pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let (mut wanted, mut executions) = (None, EXECUTIONS);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => {
                println!("{HELP}");
                return Ok(());
            }
            "--executions" => {
                let number = arguments.next().and_then(|text| text.parse().ok());
                executions = number.ok_or_else(|| Failure("--executions takes a number".into()))?;
            }
            "--target" => wanted = arguments.next().cloned(),
            name if !name.starts_with('-') && wanted.is_none() => wanted = Some(name.to_owned()),
            other => return Err(Failure(format!("fuzz does not know '{other}'; `cargo xtask fuzz --help`"))),
        }
    }
    let wanted = wanted.unwrap_or_else(|| TARGETS[0].0.to_owned());
    let targets: Vec<_> = TARGETS.iter().filter(|(name, ..)| wanted == "all" || wanted == *name).collect();
    if targets.is_empty() {
        return Err(Failure(format!("there is no target '{wanted}'; `cargo xtask fuzz --help` lists them")));
    }
    let program = build()?;
    for (name, sources, bytes_max) in targets {
        Run { program: &program, name, sources, bytes_max: *bytes_max }.fuzz(executions)?;
    }
    Ok(())
}

fn build() -> Result<PathBuf, Failure> {
    let host = host()?;
    let folder = root().join("target/fuzz");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // With an explicit target, cargo keeps the flags from build scripts and procedural macros.
    let status = Command::new(cargo)
        .args(["build", "--release", "--package", "ramhold-fuzz", "--bin", "ramhold-fuzz"])
        .args(["--features", "libfuzzer", "--target", &host, "--target-dir"])
        .arg(&folder)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"))
        .current_dir(root())
        .status();
    match status {
        Ok(status) if status.success() => Ok(folder.join(host).join("release/ramhold-fuzz")),
        Ok(status) => Err(Failure(format!("building the fuzzer failed ({status}); it needs a C++ compiler"))),
        Err(error) => Err(Failure(format!("cargo: {error}"))),
    }
}

/// The name of this machine's target.
fn host() -> Result<String, Failure> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output =
        Command::new(rustc).arg("-vV").output().map_err(|error| Failure(format!("rustc: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| Failure("rustc -vV does not name the host".into()))
}

struct Run<'a> {
    program: &'a Path,
    name: &'a str,
    sources: &'a [&'a str],
    bytes_max: u32,
}

impl Run<'_> {
    fn fuzz(&self, executions: u64) -> Result<(), Failure> {
        let work = folder(format!("target/fuzz/runs/{}", self.name))?;
        let findings = folder(format!("testing/fuzz/findings/{}", self.name))?;
        let corpus = root().join("testing/fuzz/corpus").join(match self.name {
            "resp_parse" | "resp_front" | "aof" => "sessions",
            name => name,
        });
        println!("=== fuzz {}: {executions} executions", self.name);
        let start = Instant::now();
        let output = Command::new(self.program)
            .env("RAMHOLD_FUZZ_TARGET", self.name)
            .args([format!("-runs={executions}"), format!("-max_len={}", self.bytes_max)])
            .args([format!("-rss_limit_mb={RSS_MIB_MAX}"), format!("-timeout={SECONDS_MAX}")])
            .args(["-print_final_stats=1", "-verbosity=1", "-len_control=0"])
            .arg(format!("-artifact_prefix={}/", findings.display()))
            .args([&work, &corpus])
            .stdout(Stdio::inherit())
            .output()
            .map_err(|error| Failure(format!("{}: {error}", self.program.display())))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let end: Vec<&str> = said.lines().rev().take(60).collect();
            end.iter().rev().for_each(|line| eprintln!("{line}"));
            return Err(Failure(format!(
                "{}: a finding; the input is kept in {}, where the tests of ramhold-fuzz read it",
                self.name,
                findings.display()
            )));
        }
        // There was no finding. The folder is empty unless an older finding is kept in it.
        let _ = fs::remove_dir(&findings);
        let executed: u64 = said
            .lines()
            .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
            .and_then(|number| number.trim().parse().ok())
            .ok_or_else(|| Failure("libFuzzer did not say how many inputs it tried".into()))?;
        if executed < executions {
            return Err(Failure(format!("{}: only {executed} of {executions} were executed", self.name)));
        }
        let features = said.lines().rev().find(|line| line.contains(" cov: ")).unwrap_or_default();
        println!("    {executed} executions in {:.0} s, no finding", start.elapsed().as_secs_f64());
        println!("    libFuzzer: {}", features.trim());
        self.coverage(&[&work, &corpus])
    }

    /// For the sources that this target covers: the edges that all kept inputs reach, and the lines that none
    /// reaches.
    fn coverage(&self, folders: &[&PathBuf]) -> Result<(), Failure> {
        if !is_installed("addr2line") {
            println!("    without addr2line nothing is known of single files");
            return Ok(());
        }
        let list = root().join("target/fuzz").join(format!("{}.edges", self.name));
        let status = Command::new(self.program)
            .env("RAMHOLD_FUZZ_TARGET", self.name)
            .env("RAMHOLD_FUZZ_EDGES", &list)
            .args(folders)
            .stderr(Stdio::null())
            .status();
        if !status.as_ref().is_ok_and(|status| status.success()) {
            return Err(Failure(format!("the edges that were reached could not be told: {status:?}")));
        }
        let text = fs::read_to_string(&list).map_err(|error| Failure(error.to_string()))?;
        let edges: Vec<(bool, &str)> = text
            .lines()
            .filter_map(|line| line.split_once(' ').map(|(reached, address)| (reached == "1", address)))
            .collect();
        let mut files: BTreeMap<String, File> = BTreeMap::new();
        for ((reached, _), (file, line)) in edges.iter().zip(places(self.program, &edges)?) {
            if let Some(file) = self.about(&file) {
                files.entry(file).or_default().count(*reached, line);
            }
        }
        let (mut all_reached, mut all) = (0, 0);
        for (name, file) in &files {
            all_reached += file.reached;
            all += file.edges;
            println!("    {name}: {} of {} edges{}", file.reached, file.edges, file.missed());
        }
        println!("    together: {all_reached} of {all} edges");
        if all_reached == 0 {
            return Err(Failure(format!("{}: no edge was reached; nothing was tested", self.name)));
        }
        Ok(())
    }

    /// The file's name below the root, if the target covers it.
    fn about(&self, file: &str) -> Option<String> {
        let file = Path::new(file).strip_prefix(root()).ok()?.to_str()?;
        self.sources.iter().any(|source| file.starts_with(source)).then(|| file.to_owned())
    }
}

#[derive(Default)]
struct File {
    edges: usize,
    reached: usize,
    /// For each line, whether one of its edges was reached.
    lines: BTreeMap<u32, bool>,
}

impl File {
    fn count(&mut self, reached: bool, line: u32) {
        self.edges += 1;
        self.reached += usize::from(reached);
        if line > 0 {
            *self.lines.entry(line).or_default() |= reached;
        }
    }

    /// Some of the lines of which no edge was reached.
    fn missed(&self) -> String {
        const SHOWN_MAX: usize = 12;
        let missed: BTreeSet<u32> =
            self.lines.iter().filter(|(_, reached)| !**reached).map(|(line, _)| *line).collect();
        if missed.is_empty() {
            return ", every line".to_owned();
        }
        let shown: Vec<String> = missed.iter().take(SHOWN_MAX).map(u32::to_string).collect();
        let more = if missed.len() > SHOWN_MAX { ", …" } else { "" };
        format!(
            ", {} of {} lines; not {}{more}",
            self.lines.len() - missed.len(),
            self.lines.len(),
            shown.join(", ")
        )
    }
}

/// The file and line of each edge. Inlined code counts for the function that it was inlined into. A function
/// of another file that became a part of a dozen others has as many copies, and most of them do not matter
/// for that file.
fn places(program: &Path, edges: &[(bool, &str)]) -> Result<Vec<(String, u32)>, Failure> {
    let list = root().join("target/fuzz/addresses");
    let addresses: Vec<&str> = edges.iter().map(|(_, address)| *address).collect();
    let wrong = |error: std::io::Error| Failure(format!("addr2line: {error}"));
    fs::write(&list, addresses.join("\n")).map_err(wrong)?;
    let output = Command::new("addr2line")
        .args(["--addresses", "--inlines", "--exe"])
        .arg(program)
        .stdin(fs::File::open(&list).map_err(wrong)?)
        .output()
        .map_err(wrong)?;
    let core = root().join("core").display().to_string();
    let mut places: Vec<(String, u32)> = Vec::new();
    // The innermost place of each address comes first.
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if line.starts_with("0x") {
            places.push((String::new(), 0));
        } else if let Some(place) = places.last_mut()
            && line.starts_with(&core)
            && let Some((file, number)) = line.rsplit_once(':')
        {
            let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
            if place.0 != file {
                *place = (file.to_owned(), digits.parse().unwrap_or(0));
            }
        }
    }
    if places.len() != edges.len() {
        return Err(Failure(format!("addr2line told {} places of {}", places.len(), edges.len())));
    }
    Ok(places)
}

fn folder(below: String) -> Result<PathBuf, Failure> {
    let path = root().join(below);
    fs::create_dir_all(&path).map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    Ok(path)
}
