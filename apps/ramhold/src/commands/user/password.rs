//! Where a password comes from: a file, the environment, a file descriptor, the terminal, or chance.
//!
//! Invariant: no password is in an argument, which 'ps' shows to every user of the machine, or in a debug text.

use super::{generated, typed};
use crate::failure::Failure;
use clap::Args;
use ramhold_access::limits::RULE_BYTES_MAX;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

/// The rule that gives a password has one byte more.
const PASSWORD_BYTES_MAX: usize = RULE_BYTES_MAX - 1;

/// At most one of these options.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub struct PasswordSource {
    /// Read the password from this file, without the line feed at its end; - is stdin.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Take the password from this variable of the environment.
    #[arg(long, value_name = "VARIABLE")]
    password_env: Option<String>,
    /// Read the password from this open file descriptor: 3.
    #[arg(long, value_name = "N")]
    password_fd: Option<u32>,
    /// Ask for the password on the terminal, twice, and do not show it.
    #[arg(long)]
    ask_password: bool,
    /// Make a new random password, and print it once.
    #[arg(long)]
    generate: bool,
}

/// A password that was given or made.
pub struct Given {
    password: Vec<u8>,
    is_generated: bool,
}

/// Passwords are not shown.
impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Given {{ is_generated: {} }}", self.is_generated)
    }
}

impl Given {
    fn read(password: Vec<u8>, source: &str) -> Result<Given, Failure> {
        let refuse = |why: &str| Err(Failure::usage(format!("the password of {source} {why}")));
        match password.len() {
            0 => refuse("is empty"),
            length if length > PASSWORD_BYTES_MAX => {
                refuse(&format!("is too long; a password has at most {PASSWORD_BYTES_MAX} bytes"))
            }
            _ => Ok(Given { password, is_generated: false }),
        }
    }

    /// The rule that adds it.
    pub fn rule(&self) -> Vec<u8> {
        [b">", self.password.as_slice()].concat()
    }

    /// The password, if it was made here and nobody knows it yet.
    pub fn generated(&self) -> Option<&str> {
        std::str::from_utf8(&self.password).ok().filter(|_| self.is_generated)
    }
}

impl PasswordSource {
    /// The password, if an option gives one.
    pub fn read(&self, account: &str) -> Result<Option<Given>, Failure> {
        if let Some(path) = &self.password_file {
            let is_stdin = path == Path::new("-");
            let name = if is_stdin { "stdin".to_owned() } else { path.display().to_string() };
            let bytes = if is_stdin { line_of(io::stdin()) } else { File::open(path).and_then(line_of) };
            let bytes = bytes.map_err(|error| Failure::usage(format!("--password-file {name}: {error}")))?;
            return Given::read(bytes, &name).map(Some);
        }
        if let Some(variable) = &self.password_env {
            use std::os::unix::ffi::OsStringExt;
            let Some(value) = std::env::var_os(variable) else {
                let text = format!("--password-env {variable}: there is no such variable in the environment");
                return Err(Failure::usage(text));
            };
            return Given::read(value.into_vec(), &format!("the variable {variable}")).map(Some);
        }
        if let Some(number) = self.password_fd {
            let bytes = File::open(format!("/proc/self/fd/{number}")).and_then(line_of);
            let bytes = bytes.map_err(|error| {
                let way_out = format!("open it for reading, as in 'ramhold user ... {number}<FILE'");
                Failure::usage(format!("--password-fd {number}: {error}; {way_out}"))
            })?;
            return Given::read(bytes, &format!("file descriptor {number}")).map(Some);
        }
        if self.generate {
            let password = generated::password().map_err(|error| {
                Failure::usage(format!("no password can be made: {}: {error}", generated::SOURCE))
            })?;
            return Ok(Some(Given { password: password.into_bytes(), is_generated: true }));
        }
        if self.ask_password {
            return ask(account).map(Some);
        }
        Ok(None)
    }

    /// Asks for a password where none was given and the account has no other way to log in.
    pub fn ask_or_refuse(account: &str) -> Result<Given, Failure> {
        if io::stdin().is_terminal() {
            return ask(account);
        }
        Err(Failure::usage(format!(
            "account '{account}' has no way to log in, and there is no terminal to ask for a password; give --generate, \
             --password-file FILE, --password-env VARIABLE or --password-fd N, or say 'nopass' or 'resetpass'"
        )))
    }
}

/// Asks twice, so that a slip is noticed.
fn ask(account: &str) -> Result<Given, Failure> {
    let question = |text: String| {
        typed::hidden(&text).map_err(|error| Failure::usage(format!("no password can be asked for: {error}")))
    };
    let first = question(format!("password of account '{account}': "))?;
    let second = question("the same again: ".to_owned())?;
    if first != second {
        return Err(Failure::usage("the two passwords differ; nothing is changed"));
    }
    Given::read(first, "the terminal")
}

/// All bytes without a line feed at the end, up to a few more than a password may have.
fn line_of(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Room for a line end, and for one byte that shows that there are too many.
    from.take(PASSWORD_BYTES_MAX as u64 + 3).read_to_end(&mut bytes)?;
    for end in [b'\n', b'\r'] {
        if bytes.last() == Some(&end) {
            bytes.pop();
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> PasswordSource {
        PasswordSource {
            password_file: None,
            password_env: None,
            password_fd: None,
            ask_password: false,
            generate: false,
        }
    }

    // J4
    #[test]
    fn one_line_end_is_no_part_of_a_password() {
        let line = |bytes: &'static [u8]| line_of(bytes).expect("bytes in memory can be read");
        assert_eq!(line(b"secret\n"), b"secret");
        assert_eq!(line(b"secret\r\n"), b"secret");
        assert_eq!(line(b" two words \n\n"), b" two words \n");
        assert_eq!(line(b""), b"");
    }

    #[test]
    fn a_password_is_bounded_and_not_empty() {
        let read = |length: usize| Given::read(vec![b'x'; length], "f").map(|given| given.rule().len());
        assert_eq!(read(PASSWORD_BYTES_MAX).expect("it is short enough"), RULE_BYTES_MAX);
        assert!(read(0).expect_err("it is empty").text().contains("the password of f is empty"));
        let long = line_of(io::repeat(b'x')).expect("bytes in memory can be read");
        assert!(Given::read(long, "f").expect_err("it is too long").text().contains("at most 1023 bytes"));
    }

    #[test]
    fn a_generated_password_is_told_and_others_are_not() {
        let generated = PasswordSource { generate: true, ..source() };
        let given = generated.read("ann").expect("there is chance").expect("a password");
        let password = given.generated().expect("it was made here").to_owned();
        assert_eq!(given.rule(), format!(">{password}").into_bytes());
        assert!(!format!("{given:?}").contains(&password));
        let known = Given::read(b"canary".to_vec(), "f").expect("a password");
        assert_eq!(known.generated(), None);
        assert!(!format!("{known:?}").contains("canary"));
    }

    #[test]
    fn a_source_that_is_not_there_is_named() {
        let refused =
            |source: PasswordSource| source.read("ann").expect_err("there is none").text().to_owned();
        let file = refused(PasswordSource { password_file: Some("/nowhere/x".into()), ..source() });
        assert!(file.starts_with("--password-file /nowhere/x: "), "{file}");
        let variable = refused(PasswordSource { password_env: Some("RAMHOLD_NOT_SET".into()), ..source() });
        assert!(variable.contains("RAMHOLD_NOT_SET: there is no such variable"), "{variable}");
        let descriptor = refused(PasswordSource { password_fd: Some(987_654), ..source() });
        assert!(descriptor.contains("--password-fd 987654: ") && descriptor.contains("987654<FILE"));
        assert!(source().read("ann").expect("no option is given").is_none());
    }
}
