//! One redis-server of ours, on its own port and in its own directory.
//!
//! Dropping the value kills the process by its id. Where `setpriv` is installed, the process also ends with
//! this process, however this process ends.

use super::connection::{Connection, Reply};
use crate::failure::Failure;
use crate::interrupt;
use crate::local::LOOK_INTERVAL;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far more than starting or copying takes.
const PATIENCE: Duration = Duration::from_secs(300);

pub struct Server {
    pub port: u16,
    dir: PathBuf,
    options: Vec<&'static str>,
    child: Option<Child>,
}

impl Server {
    /// Starts it, with `options` beside those that keep it here.
    pub fn start(port: u16, dir: &Path, options: &[&'static str]) -> Result<Server, Failure> {
        std::fs::create_dir_all(dir).map_err(|error| Failure::local(dir, &error))?;
        let mut server = Server { port, dir: dir.to_owned(), options: options.to_vec(), child: None };
        server.start_again()?;
        Ok(server)
    }

    /// With the same options on the same directory; does not wait until it answers.
    pub fn start_again(&mut self) -> Result<(), Failure> {
        assert!(self.child.is_none(), "a server runs once");
        let log = self.log();
        let log =
            File::options().create(true).append(true).open(&log).map_err(|e| Failure::local(&log, &e))?;
        let mut command = Command::new("redis-server");
        if is_installed("setpriv") {
            command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "redis-server"]);
        }
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &self.port.to_string(), "--dir"]);
        command.arg(&self.dir).args(&self.options);
        let child = command.stdin(Stdio::null()).stdout(log).stderr(Stdio::null()).spawn();
        self.child = Some(child.map_err(|error| Failure::usage(format!("redis-server: {error}")))?);
        Ok(())
    }

    /// SIGKILL, and until it is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A server that has ended by itself cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn log(&self) -> PathBuf {
        self.dir.join("redis.log")
    }

    /// Asks again and again until the answer is what `accepts` wants.
    pub fn wait_for(&mut self, words: &[&[u8]], accepts: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            interrupt::check()?;
            let seen = match Connection::open(self.port).and_then(|mut connection| connection.ask(words)) {
                Ok(Reply::Text(text)) => String::from_utf8_lossy(&text).into_owned(),
                Ok(other) => other.text(),
                Err(error) => error.to_string(),
            };
            if accepts(&seen) {
                return Ok(());
            }
            let child = self.child.as_mut().expect("it was started");
            let ended = child.try_wait().expect("a child of ours can be waited for");
            if ended.is_some() || began.elapsed() > PATIENCE {
                let printed = std::fs::read_to_string(self.log()).unwrap_or_default();
                let said = printed.lines().last().unwrap_or_default();
                let text =
                    ended.map_or_else(|| format!("answers {seen}"), |status| format!("ended: {status}"));
                return Err(Failure::usage(format!("redis-server {text}; it said last: {said}")));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether a program is on the search path.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
