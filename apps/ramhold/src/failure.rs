//! How a command reports its failure: one line, and an exit code.

use ramhold_client::{Error, Status};
use serde_json::json;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub const NOT_FOUND: u8 = 1;
pub const USAGE: u8 = 2;
pub const REFUSED: u8 = 3;
pub const UNKNOWN: u8 = 4;
pub const UNREACHABLE: u8 = 5;

/// A token up to this length is shown. A longer one goes to a file: it would fill the screen.
const TOKEN_SHOWN_BYTES_MAX: usize = 4 * 1024;
/// So many names are tried for the file of a token.
const TOKEN_FILE_TRIES: u32 = 16;

#[derive(Debug)]
pub struct Failure {
    code: u8,
    /// Empty: there is nothing more to say.
    text: String,
    /// Settles an operation whose outcome is unknown.
    token: Option<String>,
}

impl Failure {
    pub fn new(code: u8, text: impl Into<String>) -> Failure {
        Failure { code, text: text.into(), token: None }
    }

    pub fn usage(text: impl Into<String>) -> Failure {
        Failure::new(USAGE, text)
    }

    /// The text has been printed already, as part of the output.
    pub fn told(code: u8) -> Failure {
        Failure::new(code, "")
    }

    /// Something of this machine failed.
    pub fn local(path: &Path, error: &io::Error) -> Failure {
        Failure::new(USAGE, format!("{}: {error}", path.display()))
    }

    /// The same for a command that needs no coordinator where bricks hold the table.
    #[must_use]
    pub fn of_objects(self) -> Failure {
        let way_out = "; for a quorum table, --cluster may also name any brick or server";
        let more = if self.code == UNREACHABLE { way_out } else { "" };
        Failure { text: format!("{}{more}", self.text), ..self }
    }

    /// Says in front what was being done.
    #[must_use]
    pub fn about(self, what: &str) -> Failure {
        let text = if self.text.is_empty() { self.text } else { format!("{what}: {}", self.text) };
        Failure { text, ..self }
    }

    /// With a further way out behind it.
    pub fn and(self, way_out: &str) -> Failure {
        let text = if self.text.is_empty() { self.text } else { format!("{}; {way_out}", self.text) };
        Failure { text, ..self }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn code(&self) -> u8 {
        self.code
    }

    /// For programs: the text, and the token that settles an unknown outcome.
    pub fn json(&self) -> serde_json::Value {
        match &self.token {
            None => json!({ "error": self.text }),
            Some(token) => json!({ "error": self.text, "token": token }),
        }
    }

    /// The text with the way to settle an unknown outcome. A long token is written to a file in `folder`.
    pub fn whole_text(&self, folder: &Path) -> String {
        let Some(token) = &self.token else { return self.text.clone() };
        let way_out = if token.len() <= TOKEN_SHOWN_BYTES_MAX {
            format!("settle it with 'ramhold resume {token}'")
        } else {
            match write_token(folder, token) {
                Ok(path) => format!("settle it with 'ramhold resume - < {}'", path.display()),
                Err(error) => format!(
                    "its token cannot be written to a file in {} ({error}); settle it with 'ramhold resume -', which \
                     reads this token from stdin: {token}",
                    folder.display()
                ),
            }
        };
        format!("{}; {way_out}", self.text)
    }
}

/// Writes a token, which holds the value, to a new file that only its owner reads.
fn write_token(folder: &Path, token: &str) -> io::Result<PathBuf> {
    let process = std::process::id();
    for number in 1..=TOKEN_FILE_TRIES {
        let path = folder.join(format!("ramhold-token-{process}-{number}"));
        match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                file.write_all(token.as_bytes())?;
                file.sync_all()?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match &error {
            Error::Refused { status, .. } => match status {
                Status::NotFound
                | Status::Exists
                | Status::WrongVersion
                | Status::NotANumber
                | Status::OutOfRange => NOT_FOUND,
                Status::NotCoordinator => UNREACHABLE,
                _ => REFUSED,
            },
            Error::Unknown { .. } | Error::UnexpectedReply => UNKNOWN,
            Error::TableDiffers { .. } => REFUSED,
            Error::Unreachable { .. } => UNREACHABLE,
            Error::Address { .. } | Error::Start(_) => USAGE,
        };
        let way_out = match &error {
            Error::Refused { shortage: Some(shortage), .. } => {
                return Failure::new(code, format!("{error}; {}", shortage.remedy()));
            }
            Error::Refused { status, .. } => way_out(*status),
            Error::Unknown { token: Some(token), .. } => {
                let token = Some(token.to_string());
                return Failure { token, ..Failure::new(code, error.to_string()) };
            }
            Error::TableDiffers { .. } => {
                "choose another name, or change durability and replicas with 'ramhold table alter'"
            }
            Error::Unreachable { .. } => "start a coordinator there, or name another one with --cluster",
            Error::Unknown { token: None, .. } => "check whether it took effect before you repeat it",
            Error::Address { .. } | Error::Start(_) | Error::UnexpectedReply => "",
        };
        let separator = if way_out.is_empty() { "" } else { "; " };
        Failure::new(code, format!("{error}{separator}{way_out}"))
    }
}

/// The way out for a person who meets this refusal at a terminal.
fn way_out(status: Status) -> &'static str {
    match status {
        Status::UnknownTable => "'ramhold table list' shows the tables, 'ramhold table create' creates one",
        Status::TableExists => "choose another name, or give --if-absent",
        Status::TooFewBackups => "start more servers, or use a table with fewer replicas",
        Status::NoQuorum => "start the bricks that are down, or try again when they answer",
        Status::NotCoordinator => "name the coordinator with --cluster",
        Status::Recovering => "'ramhold recoveries' shows the progress; try again later",
        Status::WrongCluster => {
            "the servers belong to another cluster than the coordinator of --cluster; check --cluster"
        }
        Status::NotReady | Status::Retry => {
            "try again later; 'ramhold status' shows what the cluster waits for"
        }
        _ => "",
    }
}

impl From<io::Error> for Failure {
    /// A failed write to stdout: its reader has ended, or the disk is full.
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::told(0),
            _ => Failure::new(USAGE, format!("cannot write the output: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: Status) -> Failure {
        Failure::from(Error::Refused {
            status,
            version: None,
            shortage: None,
            detail: "server s1 said so".to_owned(),
        })
    }

    #[test]
    fn each_kind_of_ending_has_its_exit_code() {
        assert_eq!(refused(Status::WrongVersion).code, NOT_FOUND);
        assert_eq!(refused(Status::NotFound).code, NOT_FOUND);
        assert_eq!(refused(Status::OutOfMemory).code, REFUSED);
        assert_eq!(refused(Status::UnknownTable).code, REFUSED);
        assert_eq!(Failure::from(Error::Unknown { detail: String::new(), token: None }).code, UNKNOWN);
        assert_eq!(Failure::from(Error::Unreachable { detail: String::new() }).code, UNREACHABLE);
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).code, 0);
    }

    // I3
    #[test]
    fn a_long_token_goes_to_a_file_of_its_own_and_a_short_one_is_shown() {
        let folder = std::env::temp_dir().join(format!("ramhold-failure-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the test");
        let unknown = |bytes| Failure {
            token: Some("a".repeat(bytes)),
            ..Failure::new(UNKNOWN, "whether it took effect is unknown")
        };
        let short = unknown(20).about("k").whole_text(&folder);
        assert_eq!(
            short,
            format!(
                "k: whether it took effect is unknown; settle it with 'ramhold resume {}'",
                "a".repeat(20)
            )
        );
        let long = unknown(600_000);
        for number in 1..=2 {
            let told = long.whole_text(&folder);
            assert!(told.len() < 300, "{} bytes", told.len());
            let (_, path) = told.split_once("'ramhold resume - < ").expect("the way out");
            let path = Path::new(path.trim_end_matches('\''));
            assert!(path.ends_with(format!("ramhold-token-{}-{number}", std::process::id())));
            assert_eq!(fs::read_to_string(path).expect("the token"), "a".repeat(600_000));
        }
        fs::remove_dir_all(&folder).expect("it was made here");
        let told = long.whole_text(&folder);
        assert!(told.contains("cannot be written") && told.ends_with("aaa"), "without a folder it is shown");
    }

    #[test]
    fn a_refusal_names_the_reason_and_the_way_out() {
        let failure = refused(Status::UnknownTable).about("table 'x'");
        assert_eq!(
            failure.text(),
            "table 'x': no such table (server s1 said so); \
             'ramhold table list' shows the tables, 'ramhold table create' creates one"
        );
    }
}
