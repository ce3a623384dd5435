//! SIGHUP: the options that change while a server runs.
//!
//! The signal has the file, the environment and the command line read again, as at the start. Options in `CHANGEABLE` take
//! effect at once, in all shards of the process. Others that differ are named, and take effect at the next start. If
//! anything is wrong, it is said, and nothing changes.
//!
//! Not here: what a rate does (`ServerNode::set_rates`).

use super::arguments::Server;
use crate::commands::config::{Reading, parsed, shown};
use crate::failure::Failure;
use crate::output::tell;
use clap::FromArgMatches;
use ramhold_node::ServerNode;
use ramhold_runtime::ChangeHandle;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The options that a running server takes over.
const CHANGEABLE: [&str; 2] = ["copy-rate", "scrub-rate"];

/// The shards of this process, and the rates that they were told.
#[derive(Clone)]
pub struct Reload(Arc<Mutex<State>>);

struct State {
    /// As many as were started; another number of the file holds from the next start on.
    count: u16,
    shards: BTreeMap<u16, ChangeHandle<ServerNode>>,
    /// None: those of the start.
    rates: Option<(u64, u64)>,
}

/// The options of a server, each as text.
type Values = BTreeMap<String, Option<String>>;

impl Reload {
    /// From now on the signal does not end the process.
    pub fn watch(arguments: &Server) -> Result<Reload, Failure> {
        let failed = |error: std::io::Error| Failure::usage(format!("cannot watch for SIGHUP: {error}"));
        let mut signals = Signals::new([SIGHUP]).map_err(failed)?;
        let (mut now, _) = read()?;
        let state = State { count: arguments.shards, shards: BTreeMap::new(), rates: None };
        let reload = Reload(Arc::new(Mutex::new(state)));
        let watching = reload.clone();
        let watch = move || {
            for _ in signals.forever() {
                match read() {
                    Ok((values, server)) => {
                        watching.take(&now, &values, &server);
                        now = values;
                    }
                    Err(failure) => {
                        tell(&format!("ramhold: SIGHUP: nothing has changed: {}", failure.text()))
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("ramhold-reload".to_owned()).spawn(watch);
        thread.map_err(failed)?;
        Ok(reload)
    }

    /// A shard runs, perhaps again.
    pub fn enter(&self, shard: u16, handle: ChangeHandle<ServerNode>) {
        let mut state = self.state();
        if let Some(rates) = state.rates {
            set(&handle, rates);
        }
        state.shards.insert(shard, handle);
    }

    fn take(&self, before: &Values, values: &Values, server: &Server) {
        let changed: Vec<(&String, &Option<String>)> =
            values.iter().filter(|(option, value)| before.get(*option) != Some(*value)).collect();
        if changed.is_empty() {
            tell("ramhold: SIGHUP: no option has changed");
        }
        for (option, value) in changed {
            let when =
                if CHANGEABLE.contains(&option.as_str()) { "from now on" } else { "at the next start" };
            let value = value.as_deref().unwrap_or("not given");
            tell(&format!("ramhold: SIGHUP: {option} is {value} {when}"));
        }
        let mut state = self.state();
        let rates = server.rates_of_shard(state.count);
        state.rates = Some(rates);
        state.shards.values().for_each(|handle| set(handle, rates));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set(handle: &ChangeHandle<ServerNode>, (copies, scrub): (u64, u64)) {
    handle.change(move |node| node.set_rates(copies, scrub));
}

/// The options of this process by the file as it is now, the environment and the command line.
fn read() -> Result<(Values, Server), Failure> {
    let words: Vec<OsString> = std::env::args_os().skip_while(|word| word != "server").skip(1).collect();
    let (command, matches, file) = parsed("server", None, words, Reading::Process)?;
    let values = shown::values(&command, &matches, file.as_ref());
    let server = Server::from_arg_matches(&matches).map_err(|error| Failure::usage(error.to_string()))?;
    Ok((values.into_iter().map(|value| (value.option, value.value)).collect(), server))
}
