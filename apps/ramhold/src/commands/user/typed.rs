//! A password that is typed on the terminal, and not shown.
//!
//! The terminal gives each key as it is pressed and shows none, so that Ctrl-C is a key as well: no signal ends the
//! process while the terminal is in that mode. Its mode of before comes back in any case.

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};

const INTERRUPT: u8 = 3;
const END: u8 = 4;
const BACKSPACE: [u8; 2] = [8, 127];
const KILL_LINE: u8 = 21;
/// Further keys are not taken.
const TYPED_BYTES_MAX: usize = 4096;

/// Asks for a line that is not shown.
pub fn hidden(question: &str) -> io::Result<Vec<u8>> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let hidden = Hidden::begin(&terminal)?;
    terminal.write_all(question.as_bytes())?;
    let line = line(&mut terminal);
    drop(hidden);
    terminal.write_all(b"\n")?;
    line
}

/// While it is there, the terminal shows nothing that is typed.
struct Hidden {
    terminal: File,
    before: Termios,
}

impl Hidden {
    fn begin(terminal: &File) -> io::Result<Hidden> {
        let before = tcgetattr(terminal)?;
        let mut mode = before.clone();
        mode.local_modes
            .remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG | LocalModes::IEXTEN);
        let hidden = Hidden { terminal: terminal.try_clone()?, before };
        tcsetattr(terminal, OptionalActions::Drain, &mode)?;
        Ok(hidden)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Drain, &self.before);
    }
}

/// Reads keys up to the end of a line.
fn line(keys: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut key = [0];
    loop {
        if keys.read(&mut key)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match key[0] {
            b'\n' | b'\r' => return Ok(line),
            INTERRUPT => return Err(io::Error::new(io::ErrorKind::Interrupted, "it was interrupted")),
            END if line.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
            KILL_LINE => line.clear(),
            key if BACKSPACE.contains(&key) => remove_last_character(&mut line),
            key if line.len() < TYPED_BYTES_MAX => line.push(key),
            _ => {}
        }
    }
}

/// Removes a character of UTF-8: its last byte, and those before it that are no first ones.
fn remove_last_character(line: &mut Vec<u8>) {
    while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[u8]) -> Result<Vec<u8>, io::ErrorKind> {
        line(&mut &*keys).map_err(|error| error.kind())
    }

    // J4
    #[test]
    fn keys_edit_the_line_as_usual() {
        assert_eq!(typed(b"secret\rmore"), Ok(b"secret".to_vec()));
        assert_eq!(typed(b"secrex\x7ft\n"), Ok(b"secret".to_vec()));
        assert_eq!(typed("ä€\x08\x08x\n".as_bytes()), Ok(b"x".to_vec()));
        assert_eq!(typed(b"wrong\x15right\n"), Ok(b"right".to_vec()));
        assert_eq!(typed(b"\x7f\n"), Ok(Vec::new()));
    }

    #[test]
    fn an_interrupt_and_an_end_give_no_line() {
        assert_eq!(typed(b"secret\x03"), Err(io::ErrorKind::Interrupted));
        assert_eq!(typed(b"\x04"), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(typed(b"secret"), Err(io::ErrorKind::UnexpectedEof));
    }
}
