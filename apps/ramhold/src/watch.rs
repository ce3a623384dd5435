//! `--watch`: a picture that is taken and shown once a second, until interrupted.

use crate::failure::Failure;
use crate::output;
use std::io::IsTerminal;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(1);

/// Takes a picture and shows it once, or every second. `show` gets what goes before it: on a terminal it begins at the top.
pub fn watch<T>(
    repeats: bool,
    json: bool,
    mut take: impl FnMut() -> Result<T, Failure>,
    show: impl Fn(&T, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !repeats {
        return show(&take()?, "");
    }
    let clear = if std::io::stdout().is_terminal() && !json { "\x1b[H\x1b[2J" } else { "" };
    loop {
        match take() {
            Ok(picture) => show(&picture, clear)?,
            // Watching matters most while something is wrong, so an error does not end it.
            Err(failure) => output::tell(&format!("ramhold: {}", failure.text())),
        }
        std::thread::sleep(INTERVAL);
    }
}
