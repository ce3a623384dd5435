//! Runs programs one after the other, and names each.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

#[derive(Debug)]
pub struct Failure(pub String);

/// One named step: a program that must succeed.
pub struct Step {
    name: String,
    command: Option<Command>,
    quiet: bool,
}

impl Step {
    pub fn new(name: &str) -> Step {
        Step { name: name.to_string(), command: None, quiet: false }
    }

    pub fn cargo(self, arguments: &[&str]) -> Step {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        self.program(cargo, arguments)
    }

    pub fn program(mut self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Step {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(root());
        self.command = Some(command);
        self
    }

    pub fn arguments(mut self, more: &[String]) -> Step {
        if let Some(command) = &mut self.command {
            command.args(more);
        }
        self
    }

    /// The folder in which the program runs, seen from the root.
    pub fn within(mut self, folder: &str) -> Step {
        if let Some(command) = &mut self.command {
            command.current_dir(root().join(folder));
        }
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Step {
        if let Some(command) = &mut self.command {
            command.env(name, value);
        }
        self
    }

    /// Without the lines that say what runs and how long it took.
    pub fn quiet(mut self) -> Step {
        self.quiet = true;
        self
    }

    /// Drops the program's own output.
    pub fn silent(mut self) -> Step {
        if let Some(command) = &mut self.command {
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        }
        self.quiet()
    }

    pub fn run(self) -> Result<(), Failure> {
        self.expect_code(|code| code == 0)
    }

    /// Runs a program that must fail: a check that cannot fail is no check.
    pub fn run_expecting_failure(self) -> Result<(), Failure> {
        self.expect_code(|code| code != 0)
    }

    fn expect_code(mut self, accepts: impl Fn(i32) -> bool) -> Result<(), Failure> {
        let mut command =
            self.command.take().ok_or_else(|| Failure(format!("{}: nothing to run", self.name)))?;
        if !self.quiet {
            println!("=== {}", self.name);
        }
        let started = Instant::now();
        let status =
            command.status().map_err(|e| Failure(format!("{}: cannot run {command:?}: {e}", self.name)))?;
        let code = status.code().unwrap_or(-1);
        if !accepts(code) {
            return Err(Failure(format!("{} failed (exit code {code}): {command:?}", self.name)));
        }
        if !self.quiet {
            println!("=== {}: ok, {:.1} s", self.name, started.elapsed().as_secs_f64());
        }
        Ok(())
    }
}

/// The output of a program that must succeed.
pub fn answer(program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .output()
        .map_err(|e| Failure(format!("cannot run {program}: {e}")))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        return Err(Failure(format!("{program} {} failed: {told}", arguments.join(" "))));
    }
    String::from_utf8(output.stdout).map_err(|e| Failure(format!("{program}: {e}")))
}

/// The workspace's root.
pub fn root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent().map(PathBuf::from).unwrap_or(own)
}

/// The path of a built program.
pub fn built(name: &str) -> String {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from).unwrap_or_else(|| root().join("target"));
    target.join("release").join(name).to_string_lossy().into_owned()
}

/// Whether a program is on the search path.
pub fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}
